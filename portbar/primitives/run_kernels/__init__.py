"""Unmodified kernels run by another kernel: `portbar/run_kernels.h`, after which `runs` adds a function for each."""

from __future__ import annotations

from typing import Any, Final

from portbar.primitives.fault import Fault, Report
from portbar.primitives.pieces import Header
from portbar.primitives.run_kernels.declared import DECLARED
from portbar.primitives.strategy import Strategy

_PIECES: Final = ("ranges", "checks", "rows", "memory", "runs")


def _unfit(report: Report) -> str:
    begin = f"PORTBAR_RUN in line {report.asked}"
    if report.arrived == 0:
        return f"{begin}: the size is not a multiple of the local size. Round the size up, or give another local size."
    return (
        f"{begin} runs a kernel in work-groups of {report.arrived} work-items, and the launch has work-groups of "
        f"{report.group}. A kernel with barriers or local memory needs the same number, and its reqd_work_group_size: "
        "launch with that local size."
    )


FAULTS: Final = (
    Fault(
        "RUN",
        24,
        "PORTBAR_RUN with a local size that does not fit",
        _unfit,
        arrived="work-items of the local size, 0 if the size is not a multiple of it",
        is_timeout=False,
    ),
)


def _context(strategy: Strategy) -> dict[str, Any]:
    # Where loops end early, long rows of work-items would end, too.
    return {"loops_in_pieces": strategy.units.loops_in_pieces and strategy.max_groups is None}


HEADER: Final = Header(
    "run_kernels",
    "Unmodified kernels run by another kernel.",
    lambda _: [("run_kernels/run_kernels.mako", name) for name in _PIECES],
    _context,
    ("device_barrier",),
    FAULTS,
    page="run_kernels.md",
    declared=DECLARED,
)
