"""The measurements of probes on one device: the data type shared by probe, cache, survey and strategy."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Final, TypeVar

from portbar.device.tuning import ArrayTuning, WaitTuning, count, exactly
from portbar.errors import RecordError

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
        Compile probes: `CL1.2`, `CL2.0`, `CL3.0` for each `-cl-std`; `c11@CL2.0`, `c11@CL3.0`, `cl12`, `ptx` for each atomics
        strategy; names of features (`sub_groups`, `fp64`, `x86_pause`, ...) for the rest.
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
    lost : mapping of str to str
        Field with one value, such as `loop_limit` -> why its measurement did not complete, so its None means "unknown".
    source : str
        The source of the findings, in words.
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
    arrays: ArrayTuning | None = None
    lost: Mapping[str, str] = field(default_factory=dict)
    source: str = ""

    @property
    def loops_run_whole(self) -> bool:
        """Whether loops were seen to run to completion: no limit was found, and the measurement completed."""
        return self.loop_limit is None and "loop_limit" not in self.lost

    def to_json(self) -> dict[str, Any]:
        """Return a dict of JSON values, from which `from_json` makes an equal object."""
        value = asdict(self)
        value["barrier_table"] = [list(entry) for entry in self.barrier_table]
        return {name: found for name, found in value.items() if found is not None or name not in ("tuning", "arrays")}

    @classmethod
    def from_json(cls, value: Any) -> Findings:
        """Return the findings that `to_json` wrote.

        `RecordError` if a field has the wrong type, or names something that this portbar does not have.
        """
        if not isinstance(value, dict):
            raise RecordError(f"findings must be an object of fields, not {type(value).__name__}")
        unknown = set(value) - set(cls.__dataclass_fields__)
        if unknown:
            raise RecordError(f"findings have an unknown field {min(unknown)!r}")
        try:
            return cls(
                builds=_by_name(bool, value, "builds"),
                ordering=_by_name(str, value, "ordering"),
                litmus=_by_name(str, value, "litmus"),
                progress=_by_name(str, value, "progress"),
                groups_in_flight=_optional_count(value.get("groups_in_flight"), _MOST_GROUPS, 1),
                loop_limit=_optional_count(value.get("loop_limit"), _MOST_ITERATIONS),
                polls_per_second=_optional_rate(value.get("polls_per_second")),
                barrier_table=tuple(_table_entry(*entry) for entry in value.get("barrier_table", [])),
                tuning=WaitTuning.from_json(value["tuning"]) if value.get("tuning") is not None else None,
                arrays=ArrayTuning.from_json(value["arrays"]) if value.get("arrays") is not None else None,
                lost=_by_name(str, value, "lost"),
                source=exactly(str, value.get("source", "")),
            )
        except (TypeError, ValueError, AttributeError) as error:
            raise RecordError(f"findings have a field of the wrong type or with an impossible value: {error}") from None


def _by_name(kind: type[T], value: Any, field: str) -> dict[str, T]:
    return {str(name): exactly(kind, found) for name, found in value.get(field, {}).items()}


def _table_entry(*entry: Any) -> tuple[int, int, str]:
    """Read an entry of a barrier table; older ones have no local size and were measured with few work-items."""
    local_size, groups, name = entry if len(entry) == 3 else (1, *entry)
    # Whether there is an algorithm of that name, and may be chosen by a table, is for who chooses.
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise ValueError(f"{name!r} is not the name of a barrier algorithm")
    return count(local_size, _MOST_GROUPS), count(groups, _MOST_GROUPS), name


def _optional_count(value: Any, most: int, least: int = 0) -> int | None:
    return None if value is None else count(value, most, least)


def _optional_rate(value: Any) -> float | None:
    if value is None:
        return None
    least, most = RATES
    if type(value) not in (int, float) or not least <= value <= most:
        raise ValueError(f"{value!r} is not a rate from {least:g} to {most:g} per second")
    return float(value)
