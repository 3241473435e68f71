"""Counts in local memory where the program can see them, and waits that are a group-wide barrier()."""

from __future__ import annotations

from portbar.primitives.split_barrier.selection import SplitBarrier

VARIANT = SplitBarrier(
    "uniform",
    30,
    "everywhere: an atomic subtraction if the program can observe counts, else nothing; one `barrier()`",
    "split_barrier/uniform.mako",
    lambda _facts, _findings: (True, "a group-wide barrier() at each wait is right on every device"),
    lambda _: ("overlapping",),
    is_counted=False,
)
