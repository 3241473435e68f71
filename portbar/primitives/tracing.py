"""Traces of device barriers: the device's clock, and the words that work-groups leave their times in."""

from __future__ import annotations

from typing import Any, Final

from portbar.backends.selection import CLOCKS, units_of
from portbar.device.facts import DeviceFacts
from portbar.device.findings import Findings
from portbar.errors import UnsupportedFeatureError
from portbar.records.dataclass import dataclass

#: Device barriers of one work-group whose times are kept, unless the program says otherwise.
USUAL_EVENTS: Final = 256
#: Most that a program may ask for: 16 MiB for each work-group.
MOST_EVENTS: Final = 1 << 20

#: Words of each work-group before its events, and of each event.
HEAD_WORDS: Final = 4
EVENT_WORDS: Final = 4

#: Word of the state's first report that no report uses, in which the host leaves where the traces begin.
PLACE_WORD: Final = 6


@dataclass(frozen=True)
class Tracing:
    """How a program is traced on a device."""

    #: One of `CLOCKS`.
    clock: str
    #: Device barriers of one work-group whose times are kept in a launch.
    events: int = USUAL_EVENTS

    @property
    def unit(self) -> str:
        """Of the clock: `ns`, or `ticks` where its rate is not known."""
        return CLOCKS[self.clock].unit

    @property
    def words(self) -> int:
        """Words of 32 bits that the trace of one work-group takes."""
        return HEAD_WORDS + EVENT_WORDS * self.events

    def context(self) -> dict[str, Any]:
        """The names that the templates use."""
        return {"trace_words": self.words, "trace_events": self.events, "trace_word": PLACE_WORD}


def tracing_of(facts: DeviceFacts, findings: Findings | None, events: int) -> Tracing:
    """How a program is traced on a device.

    `UnsupportedFeatureError` if no clock that the device's kernels can read is known.
    """
    known = units_of(facts, findings).instructions
    if (clock := next((name for name in CLOCKS if name in known), None)) is not None:
        return Tracing(clock, events)
    unprobed = ". Run portbar.probe(device) once to find out whether the host's clock works"
    raise UnsupportedFeatureError(
        f"{facts.name}: trace=True needs a clock that kernels can read, and none is known for this device: NVIDIA devices "
        "have one, and CPU devices on x86-64 and AArch64 that accept the processor's instructions"
        f"{unprobed if findings is None else ''}. Build without trace=True, or use such a device"
    )
