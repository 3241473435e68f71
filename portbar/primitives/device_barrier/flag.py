"""One counter, and a flag that the last work-group raises."""

from __future__ import annotations

from typing import Final

from portbar.primitives.grid import BarrierAlgorithm

_TEMPLATE: Final = "device_barrier/flag.mako"

VARIANT: Final = BarrierAlgorithm(
    "flag",
    4,
    "arrivals counted in one line, a release flag on another",
    loses="few groups: one more store and one more trip",
    words=(("FLAG",),),
    pieces=lambda _: [(_TEMPLATE, "device_barrier")],
    prepare=lambda _: (_TEMPLATE, "prepare"),
)
