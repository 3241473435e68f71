"""Shared by the tests of surveys: entries of a record, and a record as a terminal of 80 columns shows it.

Not fixtures (`conftest.py`) and not tests; nothing here needs PyOpenCL.
"""

from __future__ import annotations

from typing import Any

from portbar.device.facts import DeviceFacts
from portbar.records.reading import measured, missing
from portbar.survey.summary import summary
from portbar.survey.views import record_view
from tests.report_support import printed

ADDRESS = {"platform_index": 0, "device_index": 0, "platform_name": "P", "device_name": "D", "platform_version": "1"}


def entry(**more: Any) -> dict[str, Any]:
    """A device that was surveyed, with more members or others."""
    return {
        "address": ADDRESS,
        "facts": DeviceFacts(name="D [x]", platform_name="P", platform_version="V, options").to_json(),
        "status": "complete",
        "usable": {"usable": True, "reason": "", "remedy": ""},
        **more,
    }


UNUSABLE = entry(
    status="unusable", usable={"usable": False, "reason": "nothing compiles", "remedy": 'pip install "portbar[cpu]"'}
)


def record(*entries: dict[str, Any], interrupted: bool = False, **more: Any) -> dict[str, Any]:
    """As much of a record as showing it takes."""
    return {"devices": list(entries), "interrupted": interrupted, "partial": interrupted, **more}


def shown(*entries: dict[str, Any], width: int = 80, **more: Any) -> str:
    """A record of these devices as a terminal shows it."""
    return printed(record_view(record(*entries, **more)), width)


def verdict(entry: dict[str, Any]) -> str:
    """The summary of a device as one text."""
    first, *rest = summary(entry)
    return ". ".join([first.text, *(f"{line.label}: {line.text}" for line in rest)])


def barrier_row(samples: list[float], relaunch: float = 4.0, algorithm: str = "counter", **more: Any) -> dict[str, Any]:
    """A row of the barrier step."""
    return {
        "algorithm": algorithm,
        "groups": 2,
        "local_size": 1,
        "rounds": 10,
        "barrier_time": measured(sorted(samples)[len(samples) // 2], "us", samples),
        "relaunch_time": measured(relaunch, "us", [relaunch]),
        **more,
    }


def occupancy_row(found: list[int], occupancy: int = 3, vendor: int | None = 8, **more: Any) -> dict[str, Any]:
    """A row of the occupancy step; without runs, one that there was no time for."""
    late = missing("skipped", "no time was left")
    return {
        "local_size": 1,
        "local_bytes": 16,
        "lock": "packed",
        "patience": True,
        "launched": occupancy,
        "occupancy": measured(occupancy, "work-groups"),
        "found": measured(sorted(found)[len(found) // 2], "work-groups", found) if found else late,
        "launch_time": measured(2.5, "us", [2.5] * len(found)) if found else late,
        "vendor_bound": measured(vendor, "work-groups") if vendor else missing("unsupported", "no such query"),
        **more,
    }
