"""The built-in of `cl_intel_concurrent_dispatch`."""

from __future__ import annotations

from typing import Final

from portbar.device.facts import DeviceFacts
from portbar.primitives.device_barrier import counter
from portbar.primitives.grid import BarrierAlgorithm

_TEMPLATE: Final = "device_barrier/intel_device_barrier.mako"


def _lacks(facts: DeviceFacts) -> str | None:
    return (
        None if "cl_intel_concurrent_dispatch" in facts.extensions else "the device has no cl_intel_concurrent_dispatch"
    )


VARIANT: Final = BarrierAlgorithm(
    "intel_device_barrier",
    7,
    "the built-in of `cl_intel_concurrent_dispatch`, if every launched group takes part, else `counter`",
    loses="it has no spin limit: a group that skips it hangs. Only on request, never chosen",
    bounded=False,
    lacks=_lacks,
    pieces=lambda _: [
        (_TEMPLATE, "declaration"),
        (counter.TEMPLATE, "device_barrier"),
        (_TEMPLATE, "device_barrier"),
    ],
    context=lambda _: {"barrier_name": "portbar_device_barrier_counted"},
    prepare=lambda _: (counter.TEMPLATE, "prepare"),
)
