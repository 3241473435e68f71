"""The survey's short run of the litmus tests, and its rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from portbar.choices.profile import describe
from portbar.choices.strategy import DeviceProfile, choose
from portbar.errors import UnsupportedFeatureError
from portbar.records.reading import measured, missing
from portbar.survey.litmus.checking import check, store_verdicts
from portbar.survey.litmus.results import is_lost, verdict_of

if TYPE_CHECKING:
    import pyopencl as cl

#: The tests of a quick survey: message passing, on which barriers depend, and store buffering, which only seq_cst forbids.
QUICK_TESTS: Final = ("MP-device-global-ops", "SB-device-global-ops")


@dataclass
class LitmusRun:
    """Litmus tests under way; results and verdicts are kept as they come, as in `checking.CheckResult`."""

    seed: int
    quick: bool
    results: list[dict[str, Any]] = field(default_factory=list)
    verdicts: dict[str, str] = field(default_factory=dict)

    def run(self, device: cl.Device, seconds: float, chosen: str | None, limit: float | None = None) -> None:
        """Run the tests in children; a quick run has a few with the chosen strategy only."""

        def take(message: dict[str, Any]) -> None:
            if "result" in message:
                self.results.append(message["result"])

        checked = check(
            device,
            seconds=seconds,
            seed=self.seed,
            strategies=[chosen] if self.quick and chosen is not None else None,
            tests=QUICK_TESTS if self.quick else None,
            on_progress=take,
            limit=limit,
        )
        self.results = list(checked.results)
        self.verdicts = dict(checked.verdicts)

    def keep(self, device: cl.Device) -> None:
        """Store the verdicts, so that portbar chooses by them.

        A pass is kept only where portbar uses the strategy without it: one that lets portbar use what the device does not claim
        should rest on more than a survey has time for, as on `portbar check`.
        """
        profile = describe(device)
        kept = {
            name: said for name, said in self.verdicts.items() if said.startswith("fail") or _is_allowed(profile, name)
        }
        store_verdicts(device, kept)

    def outcome(self) -> dict[str, Any]:
        """How the step went: its `status`, with a `reason` unless that is ok."""
        worst = next(
            (one for status in ("crash", "timeout", "error") for one in self.results if one["status"] == status), None
        )
        if worst is not None:
            return {"status": worst["status"], "reason": f"{worst['strategy']} {worst['test']}: {worst['reason']}"}
        lost = sum(is_lost(one) for one in self.results)
        if lost:
            return {"status": "partial", "reason": f"no time was left for {lost} of {len(self.results)} tests"}
        return {"status": "ok"}

    def rows(self) -> list[dict[str, Any]]:
        """A row for each atomics strategy that was tested."""
        names = dict.fromkeys(one["strategy"] for one in self.results)
        return [self._row(name, [one for one in self.results if one["strategy"] == name]) for name in names]

    def _row(self, name: str, results: Sequence[dict[str, Any]]) -> dict[str, Any]:
        verdict = self.verdicts.get(name) or verdict_of(results, "interrupted")
        kind, _, why = verdict.partition(": ")
        run = [one for one in results if one["status"] in {"pass", "fail"}]
        return {
            "strategy": name,
            "verdict": measured(kind, note=why) if kind in {"pass", "fail"} else missing("skipped", why or verdict),
            "tests": len(run),
            "instances": measured(sum(one["instances"] for one in run), "instances"),
            "forbidden": [
                {"test": one["test"], "count": sum(one["forbidden"].values())} for one in run if one["forbidden"]
            ],
            "seed": self.seed,
        }


def _is_allowed(profile: DeviceProfile, atomics: str) -> bool:
    try:
        choose(profile, {"atomics": atomics})
    except UnsupportedFeatureError:
        return False
    return True
