"""Whether the atomics of a device order memory, as litmus tests show it in a short run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

from rich.text import Text

from portbar.records.reading import rows_of, value_of
from portbar.survey.steps.step import START_S, Entry, Json, Row, Running, Step, Turn
from portbar.survey.tables import Cell, Table, common, name_cell

if TYPE_CHECKING:
    import pyopencl as cl

#: How the names of capabilities begin, in the order of their columns: what decides most comes first.
_FIRST: Final = ("progress work_groups", "progress sub_groups", "progress", "loops", "ordering", "litmus", "build")


class Litmus(Step):
    """A verdict on each atomics strategy. In a full survey it comes first, since what the others measure goes by it."""

    name = "litmus"
    title = "litmus tests"
    doing = "running litmus tests"
    full = Turn(1, 4.0, 20.0)
    quick = Turn(6, 1.0, 3.0)
    typical_s = 20.0
    summary_name = "capabilities"

    def run(self, running: Running) -> Json:
        """Run the tests, in children of their own, and keep their verdicts, so that the strategy goes by them."""
        from portbar.survey.litmus.short_run import LitmusRun  # noqa: PLC0415 (records are read without OpenCL)

        part, of = running.entry[self.name], LitmusRun(running.seed, running.quick)
        chosen = running.entry.get("strategy", {}).get("atomics", {}).get("value")
        try:
            of.run(running.device, running.budget_s + START_S, chosen, running.limit_s)
        finally:
            part["seed"], part["rows"] = of.seed, of.rows()
        if running.entry["findings"] is not None:
            of.keep(running.device)
        return of.outcome()

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
