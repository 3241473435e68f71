"""The measurements of probes on one device: the data type shared by probe, cache, survey and strategy."""

# Without `from __future__ import annotations`: `records.classes.readers` takes annotations as values.

import re
from collections.abc import Mapping
from dataclasses import field, replace
from typing import Annotated, Any, Final, Self, TypeAlias

from portbar.device.tuning import ArrayTuning, WaitTuning
from portbar.errors import RecordError
from portbar.records.classes import LEFT_OUT, Rule, Text, plain, readers, ruled, within
from portbar.records.dataclass import dataclass

#: Kind of the cache's entries with findings. The number goes up when probes measure something else than before.
CACHE_KIND: Final = "findings-10"

#: How the reasons begin for which a measurement is missing that a later probe may make.
TIMED_OUT: Final = "timed out"
NOT_BEGUN: Final = f"{TIMED_OUT} before it began"
GIVEN_UP: Final = "too many child processes died"
#: Such as a package that cannot be imported, or a full disk: that says nothing of the device.
HOST_FAILED: Final = "Python failed"

#: Kind of the measurements of one thing each, such as "feature fp64" -> the mapping of findings that they add to.
MAPPINGS: Final = {
    **dict.fromkeys(("level", "atomics", "feature", "host_call"), "builds"),
    "progress": "progress",
    "ordering": "ordering",
}

#: How findings in words begin that hold no finding.
NO_FINDING: Final = ("unknown: ", "untested: ")

#: Words in the source of findings that were measured on a processor of another name.
ANOTHER_PROCESSOR: Final = "another processor"

#: Largest count that a finding may have: thirty times the work-groups of the largest GPU, and loops of 32-bit counters.
_MOST_GROUPS: Final = 1 << 20
_MOST_ITERATIONS: Final = 1 << 32

#: Polls per second that a device may have: a poll takes at least a cycle or two, and spin limits are computed from them.
RATES: Final = (1e3, 2e10)

#: How barrier algorithms are called.
_NAME: Final = r"[a-z][a-z0-9_]{0,39}"


def _algorithm(name: str) -> str:
    # Whether there is an algorithm of that name, and may be chosen by a table, is for who chooses.
    if not re.fullmatch(_NAME, name):
        raise ValueError(f"{name!r} is not the name of a barrier algorithm")
    return name


def _rate(value: float) -> float:
    least, most = RATES
    if not least <= value <= most:
        raise ValueError(f"{value!r} is not a rate from {least:g} to {most:g} per second")
    return float(value)


_Size: TypeAlias = Annotated[int, within(0, _MOST_GROUPS)]
_Entry: TypeAlias = Annotated[
    tuple[_Size, _Size, Annotated[str, _algorithm]],
    # Older tables have no local sizes.
    Rule(kind=tuple[int, str] | tuple[int, int, str]),
]
BarrierTable = Annotated[tuple[_Entry, ...], Rule(maxItems=1000)]


@ruled(
    "findings",
    description="The measurements by which portbar's `choose` decides. More members may come.",
    type=["object", "null"],
    maxProperties=100,
    additionalProperties=True,
)
@dataclass(frozen=True)
class Findings:
    """Measured behaviour of one device with one driver. A value of None means "not measured", never "no".

    Attributes
    ----------
    builds : mapping of str to bool
        Compile probes: `CL1.2`, `CL2.0`, `CL3.0` for each `-cl-std`; `c11@CL2.0`, `c11@CL3.0`, `cl12`, `ptx` for each atomics
        strategy; names of features (`sub_groups`, `fp64`, `x86_pause`, `arm_pause`, ...) for the rest.
    ordering : mapping of str to str
        Atomics strategy -> `pass`, or the reason for a failure: whether every group saw data written before a barrier after it.
    litmus : mapping of str to str
        Atomics strategy -> the verdict of `portbar check`: `pass: ...`, or `fail: ...` with the test and its counts.
    progress : mapping of str to str
        `work_groups`, `sub_groups`, `lanes` -> `independent` or `none`, or why it is unknown.
    groups_in_flight : int or None
        Work-groups of a small kernel that ran concurrently.
    loop_limit : int or None
        Iterations after which the device ends loops silently; None if it ran all requested iterations, or if `lost` says that
        the limit is unknown.
    polls_per_second : float or None
        How fast one work-item polls a word in global memory.
    barrier_table : tuple of (int, int, str)
        Measured choice of barrier algorithm by local size and group count: the entry with the nearest local size and the
        largest group count not above the launch's is used.
    tuning : WaitTuning or None
        Tuning of waits at barriers on this device.
    arrays : ArrayTuning or None
        Tuning of operations on arrays on this device.
    times_rejected : str or None
        Why the barrier times that were measured on this machine are not used; None where none were rejected.
    lost : mapping of str to str
        Measurement, such as `loop_limit` or `feature fp64` -> why it did not complete, so that its finding is unknown. Those in
        `unmeasured` had too little time, or failed for no fault of the device's: a probe makes them again.
    source : str
        The source of the findings, in words.
    """

    builds: Annotated[Mapping[str, bool], Rule(maxProperties=500)] = field(default_factory=dict)
    ordering: Mapping[str, str] = field(default_factory=dict)
    litmus: Mapping[str, str] = field(default_factory=dict)
    progress: Mapping[str, str] = field(default_factory=dict)
    groups_in_flight: Annotated[int, within(1, _MOST_GROUPS)] | None = None
    loop_limit: Annotated[int, within(0, _MOST_ITERATIONS)] | None = None
    polls_per_second: Annotated[float, _rate, Rule(exclusiveMinimum=0, exclusiveMaximum=1e15)] | None = None
    barrier_table: BarrierTable = ()
    tuning: WaitTuning | None = field(default=None, metadata=LEFT_OUT)
    arrays: ArrayTuning | None = field(default=None, metadata=LEFT_OUT)
    times_rejected: Text | None = field(default=None, metadata=LEFT_OUT)
    lost: Mapping[str, str] = field(default_factory=dict)
    source: Text = ""

    @property
    def loops_run_whole(self) -> bool:
        """Whether loops were seen to run to completion: no limit was found, and the measurement completed."""
        return self.loop_limit is None and "loop_limit" not in self.lost

    @property
    def origin(self) -> str:
        """The source of the findings, and the barrier times of this machine that are not used, in words."""
        return self.source if self.times_rejected is None else f"{self.source}; {self.times_rejected}"

    @property
    def doubt(self) -> str:
        """Their `origin` where it has times of another processor, or times that are not used; empty elsewhere."""
        return self.origin if self.times_rejected is not None or ANOTHER_PROCESSOR in self.source else ""

    @property
    def unmeasured(self) -> tuple[str, ...]:
        """The measurements of `lost` for which there was too little time, or which the device was not the cause of."""
        return tuple(name for name, why in self.lost.items() if why.startswith((TIMED_OUT, GIVEN_UP, HOST_FAILED)))

    def filled(self, earlier: Self) -> Self:
        """These findings, with earlier ones of the same kind of device in place of those that are `unmeasured`."""
        changes: dict[str, Any] = {}
        lost = dict(self.lost)
        for name in self.unmeasured:
            kind, _, what = name.partition(" ")
            field = MAPPINGS.get(kind, "") if what else kind
            known = getattr(earlier, field, None)
            known = known.get(what) if what and known is not None else known
            if name in earlier.lost or (known is None and name != "loop_limit"):
                continue
            if isinstance(known, str) and known.startswith(NO_FINDING):
                continue
            changes[field] = {**changes.get(field, getattr(self, field)), what: known} if what else known
            del lost[name]
        return replace(self, **changes, lost=lost) if changes else self

    def to_json(self) -> dict[str, Any]:
        """Return a dict of JSON values, from which `from_json` makes an equal object."""
        value: dict[str, Any] = plain(self)
        return value

    @classmethod
    def from_json(cls, value: Any) -> Self:
        """Return the findings that `to_json` wrote.

        `RecordError` if a field has the wrong type, or names something that this portbar does not have.
        """
        if not isinstance(value, dict):
            raise RecordError(f"findings must be an object of fields, not {type(value).__name__}")
        known = readers(cls)
        unknown = set(value) - set(known)
        if unknown:
            raise RecordError(f"findings have an unknown field {min(unknown)!r}")
        try:
            return cls(**{name: known[name](_with_sizes(found, name)) for name, found in value.items()})
        except (TypeError, ValueError) as error:
            raise RecordError(f"findings have a field of the wrong type or with an impossible value: {error}") from None


class UnmeasuredError(Exception):
    """A measurement needs the finding of another one, which the text names, and for which there was too little time."""


def _with_sizes(value: Any, field: str) -> Any:
    """Return a barrier table with local sizes; older ones have none and were measured with few work-items."""
    if field != "barrier_table" or not isinstance(value, list):
        return value
    return [[1, *entry] if isinstance(entry, list) and len(entry) == 2 else entry for entry in value]
