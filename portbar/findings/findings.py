"""What probes measured on one device: the data type that probe, cache, survey and strategy pass on.

Not for measuring (`portbar.measuring.probe`) and not for deciding (`portbar.choices.strategy`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Final, TypeVar

from portbar.errors import RecordError
from portbar.findings.tuning import WaitTuning

T = TypeVar("T")

#: Kind of the cache's entries with findings. The number goes up when probes measure something else than before.
CACHE_KIND: Final = "findings-9"

#: Largest count that a finding may have: thirty times the work-groups of the largest GPU, and loops of 32-bit counters.
_MOST_GROUPS: Final = 1 << 20
_MOST_ITERATIONS: Final = 1 << 32

#: Polls per second that a device may have: a poll takes at least a cycle or two, and spin limits are computed from them.
RATES: Final = (1e3, 2e10)

#: How barrier algorithms are called.
_NAME: Final = re.compile(r"[a-z][a-z0-9_]{0,39}")

BarrierTable = tuple[tuple[int, int, str], ...]


@dataclass(frozen=True)
class Findings:
    """Measured behaviour of one device with one driver. A value of None means "not measured", never "no".

    Attributes
    ----------
    builds : mapping of str to bool
        Compile probes: `CL1.2`, `CL2.0`, `CL3.0` for each `-cl-std`; `c11@CL2.0`, `c11@CL3.0`, `cl12`, `ptx` for each way to
        write atomics; names of features (`sub_groups`, `fp64`, `x86_pause`, ...) for the rest.
    ordering : mapping of str to str
        Atomics strategy -> `pass`, or why not: whether data written before a barrier was seen after it, by every group.
    litmus : mapping of str to str
        Atomics strategy -> what `portbar check` found: `pass: ...`, or `fail: ...` with the test and its counts.
    progress : mapping of str to str
        `work_groups`, `sub_groups`, `lanes` -> `independent` or `none`, or why it is not known.
    groups_in_flight : int or None
        Work-groups of a small kernel that ran at the same time.
    loop_limit : int or None
        Iterations after which the device ends loops silently; None when it ran all that were asked for, or when `lost` says
        that nobody knows.
    polls_per_second : float or None
        How fast one work-item polls a word in global memory.
    barrier_table : tuple of (int, int, str)
        Measured choice of barrier algorithm by local size and group count: of the entries whose local size is nearest to the
        launch's, the one with the largest group count not above it holds.
    tuning : WaitTuning or None
        How waits at barriers were tuned on this device.
    lost : mapping of str to str
        Field with one value, such as `loop_limit` -> why its measurement had no end, so that its None means "unknown".
    source : str
        Where this comes from, in words.
    """

    builds: Mapping[str, bool] = field(default_factory=dict)
    ordering: Mapping[str, str] = field(default_factory=dict)
    litmus: Mapping[str, str] = field(default_factory=dict)
    progress: Mapping[str, str] = field(default_factory=dict)
    groups_in_flight: int | None = None
    loop_limit: int | None = None
    polls_per_second: float | None = None
    barrier_table: BarrierTable = ()
    tuning: WaitTuning | None = None
    lost: Mapping[str, str] = field(default_factory=dict)
    source: str = ""

    @property
    def loops_run_whole(self) -> bool:
        """Whether loops were seen to run to their end: no limit was found, and the measurement was not lost."""
        return self.loop_limit is None and "loop_limit" not in self.lost

    def to_json(self) -> dict[str, Any]:
        """A dict of JSON values; `from_json` gives an equal object back."""
        value = asdict(self)
        value["barrier_table"] = [list(entry) for entry in self.barrier_table]
        if self.tuning is None:
            del value["tuning"]
        return value

    @classmethod
    def from_json(cls, value: Any) -> Findings:
        """Read what `to_json` wrote.

        Raises
        ------
        RecordError
            A field is of the wrong type, or names what this portbar does not have.
        """
        if not isinstance(value, dict):
            raise RecordError(f"findings are an object of fields, not {type(value).__name__}")
        unknown = set(value) - set(cls.__dataclass_fields__)
        if unknown:
            raise RecordError(f"findings have no field {min(unknown)!r}")
        try:
            return cls(
                builds={str(k): _exactly(bool, v) for k, v in value.get("builds", {}).items()},
                ordering={str(k): _exactly(str, v) for k, v in value.get("ordering", {}).items()},
                litmus={str(k): _exactly(str, v) for k, v in value.get("litmus", {}).items()},
                progress={str(k): _exactly(str, v) for k, v in value.get("progress", {}).items()},
                groups_in_flight=_optional_count(value.get("groups_in_flight"), _MOST_GROUPS, 1),
                loop_limit=_optional_count(value.get("loop_limit"), _MOST_ITERATIONS),
                polls_per_second=_optional_rate(value.get("polls_per_second")),
                barrier_table=tuple(_table_entry(*entry) for entry in value.get("barrier_table", [])),
                tuning=WaitTuning.from_json(value["tuning"]) if value.get("tuning") is not None else None,
                lost={str(k): _exactly(str, v) for k, v in value.get("lost", {}).items()},
                source=_exactly(str, value.get("source", "")),
            )
        except (TypeError, ValueError, AttributeError) as error:
            raise RecordError(
                f"findings have a field of the wrong type, or with a value that cannot be: {error}"
            ) from None


def _table_entry(*entry: Any) -> tuple[int, int, str]:
    """Read an entry of a barrier table; older ones have no local size and were measured with few work-items."""
    local_size, groups, name = entry if len(entry) == 3 else (1, *entry)
    return _count(local_size, _MOST_GROUPS), _count(groups, _MOST_GROUPS), _algorithm(name)


def _exactly(kind: type[T], value: Any) -> T:
    if type(value) is not kind:
        raise TypeError(f"{value!r} is not {kind.__name__}")
    return value


def _algorithm(value: Any) -> str:
    """A barrier algorithm's name; whether there is such a one, and may be chosen by a table, is for who chooses."""
    if not isinstance(value, str) or not _NAME.fullmatch(value):
        raise ValueError(f"{value!r} is no name of a barrier algorithm")
    return value


def _count(value: Any, most: int, least: int = 0) -> int:
    if _exactly(int, value) < least:
        raise ValueError(f"{value!r} is below {least}, less than any device has")
    if value > most:
        raise ValueError(f"{value!r} is above {most}, more than any device has")
    return int(value)


def _optional_count(value: Any, most: int, least: int = 0) -> int | None:
    return None if value is None else _count(value, most, least)


def _optional_rate(value: Any) -> float | None:
    if value is None:
        return None
    least, most = RATES
    if type(value) not in (int, float) or not least <= value <= most:
        raise ValueError(f"{value!r} is no rate from {least:g} to {most:g} per second")
    return float(value)
