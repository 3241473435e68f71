"""What follows from all rows of a step together: bounds, recall and steadiness; and the findings of a probe as rows.

Not for measuring (`portbar.survey.cells`) and not for words (`portbar.survey.verdict`).
"""

from __future__ import annotations

from typing import Any, Final

from portbar.findings.findings import Findings
from portbar.records.reading import mean_of, measured, missing, rows_of, samples_of, value_of
from portbar.survey.steady import unsteady


def complete(entry: dict[str, Any]) -> None:
    """Add what follows from all rows together to a device's entry.

    To occupancy rows: the most work-groups that any run found in that shape, and the mean share of it found. To the barrier
    step: whether its times vary too much to go by.
    """
    if "barrier" in entry:
        entry["barrier"]["unsteady"] = unsteady(entry["barrier"]["rows"])
    rows = rows_of(entry, "occupancy", having="found")
    best: dict[tuple[int, int], int] = {}
    for row in rows:
        shape = (row["local_size"], row["local_bytes"])
        best[shape] = max([best.get(shape, 0), value_of(row["occupancy"], 0), *samples_of(row["found"])])
    for row in rows:
        mean = mean_of(row["found"])
        bound, vendor = best[row["local_size"], row["local_bytes"]], row["vendor_bound"]
        row["best_known_groups"] = bound
        row["recall"] = (
            measured(round(mean / bound, 4), "1") if bound else missing("error", "no run found any work-group")
        )
        asked = value_of(vendor)
        row["recall_of_vendor_bound"] = (
            measured(round(mean / asked, 4), "1") if asked else missing(vendor["status"], vendor["reason"])
        )


def probe_rows(findings: Findings) -> list[dict[str, Any]]:
    """What a probe found, a row each."""
    rows = [(f"build {name}", measured(works)) for name, works in sorted(findings.builds.items())]
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
    return missing("error", lost) if lost else missing("skipped", "the probe had no time for it")


#: How findings in words begin that hold no finding.
_LOST: Final = ("unknown: ", "untested: ")


def _words(found: str) -> dict[str, Any]:
    for start in _LOST:
        if found.startswith(start):
            why = found.removeprefix(start)
            return missing("timeout" if why == "timed out" else "error", why or "not measured")
    return measured(found[:300])
