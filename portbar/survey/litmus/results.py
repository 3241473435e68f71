"""Counts of outcomes, the result of one litmus test as JSON values, and the verdict on a strategy that results add up to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from portbar.records.reading import NO_TIME
from portbar.survey.litmus.patterns import PATTERNS
from portbar.survey.litmus.tests import TESTS

#: Every test, in the order in which they are run.
NAMES: Final = (*TESTS, *PATTERNS)


@dataclass
class Tally:
    """The results of a test so far, by their names in a result."""

    instances: int = 0
    launches: int = 0
    outcomes: dict[str, int] = field(default_factory=dict)
    forbidden: dict[str, int] = field(default_factory=dict)
    interleaved: int = 0
    weak: int = 0

    def add(self, outcome: str, count: int, *, forbidden: bool) -> None:
        """Count an outcome."""
        if count:
            self.instances += count
            self.outcomes[outcome] = self.outcomes.get(outcome, 0) + count
            if forbidden:
                self.forbidden[outcome] = self.forbidden.get(outcome, 0) + count


def blank(name: str, strategy: str, seed: int) -> dict[str, Any]:
    """The result of a test that was not run."""
    test = TESTS.get(name) or PATTERNS[name]
    return {
        "test": name,
        "description": test.description,
        "scope": test.scope,
        "space": test.space,
        "form": test.form,
        "strategy": strategy,
        "seed": seed,
        "status": "skipped",
        "reason": "",
        **vars(Tally()),
        "seconds": 0.0,
    }


def is_lost(result: dict[str, Any]) -> bool:
    """Whether a test was not run to its end though the device could have run it."""
    return result["status"] in {"error", "crash", "timeout"} or result["reason"] == NO_TIME


def verdict_of(results: Sequence[dict[str, Any]], partial: str = "") -> str:
    """Return the verdict on one strategy: `fail: ...` with the first forbidden outcome, `pass: ...`, `untested: ...`.

    If not all tests were run, `partial` says why: results prove a fault then, but not that there is none.
    """
    failed = [result for result in results if result["status"] == "fail"]
    if failed:
        first = failed[0]
        others = f"; and {len(failed) - 1} more" if len(failed) > 1 else ""
        return f"fail: {first['test']}: {first['reason']}{others}"
    passed = [result for result in results if result["status"] == "pass"]
    if partial:
        return f"untested: {partial}; {len(passed)} passed"
    lost = [result for result in results if is_lost(result)]
    if lost:
        return f"untested: {len(lost)} of {len(results)} tests did not complete, such as {lost[0]['test']}: {lost[0]['reason']}"
    if not passed:
        return "untested: the device cannot run any of the tests"
    instances = sum(result["instances"] for result in passed)
    skipped = sum(result["status"] in {"skipped", "unfinished"} for result in results)
    left_out = f", {skipped} skipped" if skipped else ""
    return f"pass: {len(passed)} tests, {instances:,} instances{left_out} (seed {passed[0]['seed']})"


def proves(verdict: str) -> bool:
    """Whether a verdict is one that portbar chooses by, rather than that the tests have no answer."""
    return verdict.startswith(("pass", "fail"))
