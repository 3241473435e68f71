"""The probe of a survey: its findings as rows, and what of an earlier probe stays, so that a busy machine changes no choice."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from portbar.device.findings import MAPPINGS, NO_FINDING, TIMED_OUT, Findings
from portbar.records.reading import measured, missing

#: Ordering findings that do not depend on time.
_PROOF: Final = "stale"


def probe_rows(findings: Findings) -> list[dict[str, Any]]:
    """Return the results of a probe, a row each."""
    builds = {name: measured(works) for name, works in findings.builds.items()}
    for name, why in findings.lost.items():
        kind, _, what = name.partition(" ")
        if MAPPINGS.get(kind) == "builds":
            builds[what] = _missing(why)
    rows = [(f"build {name}", reading) for name, reading in sorted(builds.items())]
    rows += [(f"progress {what}", _words(found)) for what, found in sorted(findings.progress.items())]
    rows += [(f"ordering {name}", _words(found)) for name, found in sorted(findings.ordering.items())]
    rows += [
        ("loop_limit", _loop_limit(findings)),
        ("polls_per_second", _number(findings, "polls_per_second", "polls/s")),
        ("groups_in_flight", _number(findings, "groups_in_flight", "work-groups")),
    ]
    return [{"probe": name, "result": reading} for name, reading in rows]


def _loop_limit(findings: Findings) -> dict[str, Any]:
    if findings.loops_run_whole:
        return measured("none", note="no limit was found: loops ran to their end")
    return _number(findings, "loop_limit", "1")


def _number(findings: Findings, name: str, unit: str) -> dict[str, Any]:
    value = getattr(findings, name)
    if value is not None:
        return measured(value, unit)
    lost = findings.lost.get(name)
    return missing("error", lost) if lost else missing("skipped", "the probe ran out of time")


def _missing(why: str) -> dict[str, Any]:
    return missing("timeout" if why.startswith(TIMED_OUT) else "error", why or "not measured")


def _words(found: str) -> dict[str, Any]:
    for start in NO_FINDING:
        if found.startswith(start):
            return _missing(found.removeprefix(start))
    return measured(found[:300])


def settled_findings(before: Findings | None, found: Findings) -> Findings:
    """Return a probe's findings, with those of an earlier probe of the same driver instead of waits that gave up.

    Progress that was seen, work-groups that were seen at once and loops that were seen to run whole are facts, which a machine
    that is too busy to show them again does not refute. Stale data is one, too.
    """
    if before is None:
        return found
    changes: dict[str, Any] = {
        "ordering": {
            name: "pass" if _gave_up(said) and before.ordering.get(name) == "pass" else said
            for name, said in found.ordering.items()
        },
        "progress": {name: _seen(before.progress.get(name), said) for name, said in found.progress.items()},
        "groups_in_flight": max(filter(None, (before.groups_in_flight, found.groups_in_flight)), default=None),
    }
    if "loop_limit" in found.lost and "loop_limit" not in before.lost:
        changes["loop_limit"] = before.loop_limit
        changes["lost"] = {name: why for name, why in found.lost.items() if name != "loop_limit"}
    return replace(found, **changes)


def _gave_up(said: str) -> bool:
    return said != "pass" and _PROOF not in said


def _seen(before: str | None, said: str) -> str:
    """Return the findings on progress, or the earlier ones if they say more."""
    more = before is not None and (before == "independent" or (said.startswith("unknown") and before == "none"))
    return str(before) if more else said
