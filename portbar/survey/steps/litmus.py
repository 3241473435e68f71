"""Whether the atomics of a device order memory, as litmus tests show it in a short run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from rich.text import Text

from portbar.choices.profile import describe
from portbar.choices.strategy import DeviceProfile, choose
from portbar.errors import UnsupportedFeatureError
from portbar.records.reading import measured, missing, rows_of, value_of
from portbar.survey.litmus.checking import check, store_verdicts
from portbar.survey.litmus.results import is_lost, verdict_of
from portbar.survey.steps.step import START_S, Entry, Json, Row, Running, Schedule, Step
from portbar.survey.tables import Cell, Table, common, name_cell

if TYPE_CHECKING:
    import pyopencl as cl

#: The tests of a quick survey: message passing, on which barriers depend, and store buffering, which only seq_cst forbids.
_QUICK_TESTS: Final = ("MP-device-global-ops", "SB-device-global-ops")

#: How the names of capabilities begin, in the order of their columns: what decides most comes first.
_FIRST: Final = ("progress work_groups", "progress sub_groups", "progress", "loops", "ordering", "litmus", "build")


class LitmusStep(Step):
    """A verdict on each atomics strategy. In a full survey it comes first, since what the others measure goes by it."""

    name = "litmus"
    title = "litmus tests"
    doing = "running litmus tests"
    full = Schedule(1, 4.0, 20.0)
    quick = Schedule(6, 1.0, 3.0)
    typical_s = 20.0
    summary_name = "capabilities"

    def run(self, running: Running) -> Json:
        """Run the tests, in children of their own, and keep their verdicts, so that the strategy goes by them.

        A quick survey runs a few of them, with the chosen strategy only.
        """
        part, quick = running.entry[self.name], running.quick
        chosen = running.entry.get("strategy", {}).get("atomics", {}).get("value")
        results: list[Json] = []
        verdicts: Mapping[str, str] = {}

        def take(message: Json) -> None:
            if "result" in message:
                results.append(message["result"])

        try:
            checked = check(
                running.device,
                seconds=running.budget_s + START_S,
                seed=running.seed,
                strategies=[chosen] if quick and chosen is not None else None,
                tests=_QUICK_TESTS if quick else None,
                on_progress=take,
                limit=running.limit_s,
            )
            results, verdicts = list(checked.results), checked.verdicts
        finally:
            part["seed"], part["rows"] = running.seed, result_rows(results, verdicts)
        if running.entry["findings"] is not None:
            keep_verdicts(running.device, verdicts)
        return outcome_of(results)

    def keep(self, _device: cl.Device, _entry: Entry, *, quick: bool) -> bool:  # noqa: ARG002 (the run keeps them)
        """Whatever was found may change the choices."""
        return True

    def views(self, entry: Entry) -> Iterator[Text]:
        """The verdict on each strategy."""
        for row in rows_of(entry, self.name):
            verdict = row["verdict"]
            said = value_of(verdict)
            why = verdict.get("note") or verdict.get("reason", "")
            style = "red" if said == "fail" else ""
            yield Text(f"Litmus tests of {row['strategy']}: {said or verdict['status']}: {why}", style=style)

    def faults(self, entry: Entry) -> Iterator[str]:
        """The strategies that the tests refuted."""
        failed = [row for row in rows_of(entry, self.name) if value_of(row["verdict"]) == "fail"]
        wrong = [f"{row['strategy']} {row['verdict'].get('note', '')}".strip() for row in failed]
        if wrong:
            yield f"the litmus tests refuted {'; '.join(wrong)}"

    def remedy(self, entry: Entry) -> str:
        """That portbar uses other atomics, where it does."""
        chosen = ((entry.get("strategy") or {}).get("atomics") or {}).get("value")
        failed = {row["strategy"] for row in rows_of(entry, self.name) if value_of(row["verdict"]) == "fail"}
        return f"nothing to do: portbar uses {chosen} atomics" if chosen and chosen not in failed else ""

    def values(self, row: Row) -> Iterable[tuple[str, str]]:
        """The verdict by strategy."""
        return (("verdict", str(row.get("strategy"))),)

    def summary(self, entry: Entry) -> dict[str, bool]:
        """Return the measured features of a device, including its probe; unmeasured ones are left out."""
        findings = entry.get("findings") or {}
        able: dict[str, bool] = {f"build {name}": value for name, value in (findings.get("builds") or {}).items()}
        for field in ("ordering", "litmus"):
            able |= {f"{field} {name}": said.startswith("pass") for name, said in (findings.get(field) or {}).items()}
        for row in rows_of(entry, self.name, having="verdict"):
            able[f"litmus {row['strategy']}"] = value_of(row["verdict"]) == "pass"
        for name, said in (findings.get("progress") or {}).items():
            if said in {"independent", "none"}:
                able[f"progress {name}"] = said == "independent"
        if findings and "loop_limit" not in (findings.get("lost") or {}):
            able["loops whole"] = findings.get("loop_limit") is None
        return able

    def table(self, devices: Sequence[Json]) -> Table:
        """The features of each device."""
        able = [one for one in devices if one["capabilities"]]
        names, notes = common((one["capabilities"] for one in able), "capabilities", _FIRST)
        says = {True: Cell("yes", 0, "yes"), False: Cell("no", 1, "no"), None: Cell("", 2)}
        rows = [[name_cell(one), *(says[one["capabilities"].get(name)] for name in names)] for one in able]
        about = (
            "Measurements, independent of the driver's claims: whether work-groups, sub-groups and lanes make progress by "
            "themselves, whether long loops run to their end, what compiles and runs, and which atomics order memory (in a "
            "short probe, and in litmus tests). Empty: not measured."
        )
        columns = ("Device", *names)
        return Table("capabilities", "Capabilities", about, columns, rows, columns, notes, matrix=True)


def result_rows(results: Sequence[Json], verdicts: Mapping[str, str]) -> list[Json]:
    """Return a row for each atomics strategy that was tested; the run may have been interrupted before there are verdicts."""
    rows = []
    for name in dict.fromkeys(one["strategy"] for one in results):
        mine = [one for one in results if one["strategy"] == name]
        verdict = verdicts.get(name) or verdict_of(mine, "interrupted")
        kind, _, why = verdict.partition(": ")
        run = [one for one in mine if one["status"] in {"pass", "fail"}]
        row = {
            "strategy": name,
            "verdict": measured(kind, note=why) if kind in {"pass", "fail"} else missing("skipped", why or verdict),
            "tests": len(run),
            "instances": measured(sum(one["instances"] for one in run), "instances"),
            "forbidden": [
                {"test": one["test"], "count": sum(one["forbidden"].values())} for one in run if one["forbidden"]
            ],
            "seed": mine[0]["seed"],
        }
        rows.append(row)
    return rows


def outcome_of(results: Sequence[Json]) -> Json:
    """Return how the step went: its `status`, with a `reason` unless that is ok."""
    for status in ("crash", "timeout", "error"):
        for one in results:
            if one["status"] == status:
                return {"status": status, "reason": f"{one['strategy']} {one['test']}: {one['reason']}"}
    lost = sum(map(is_lost, results))
    if lost:
        return {"status": "partial", "reason": f"no time was left for {lost} of {len(results)} tests"}
    return {"status": "ok"}


def keep_verdicts(device: cl.Device, verdicts: Mapping[str, str]) -> None:
    """Store the verdicts, so that portbar chooses by them.

    A pass is kept only where portbar uses the strategy without it: one that lets portbar use what the device does not claim
    should rest on more than a survey has time for, as on `portbar check`.
    """
    profile = describe(device)
    kept = {name: said for name, said in verdicts.items() if said.startswith("fail") or _is_allowed(profile, name)}
    store_verdicts(device, kept)


def _is_allowed(profile: DeviceProfile, atomics: str) -> bool:
    try:
        choose(profile, {"atomics": atomics})
    except UnsupportedFeatureError:
        return False
    return True
