"""Values meet in local memory."""

from __future__ import annotations

from portbar.primitives.reduction.selection import Lanes

VARIANT = Lanes(
    "tree",
    30,
    "everywhere: sub-groups are consecutive work-items, single ones in programs whose sub-groups call alone; a binary tree "
    "in local memory, or one work-item on CPUs",
    "reduction/lanes/tree.mako",
    lambda _facts, _findings, _std: (True, "local memory and barriers, which every device has"),
    # At barriers of the work-group.
    meets=lambda size: size > 1,
)
