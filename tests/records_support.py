"""Small records in which every step has a row, and ways to damage them. Not tests."""

from __future__ import annotations

import copy
from typing import Any

from hypothesis import strategies as st

from portbar.records import measured, missing, schema, validate
from tests.report_support import Json, occupancy_row, step
from tests.report_support import device as whole_device
from tests.report_support import record as whole_record

_READING = schema()["$defs"]["reading"]
STATUSES = _READING["then"]["properties"]["status"]["enum"]
UNITS = _READING["else"]["properties"]["unit"]["enum"]

#: The driver's facts of the device: with text that looks like an address, and with unknown members.
FACTS: Json = whole_device("Test GPU (R) 5", "10.20.30.40", bound=16)["facts"] | {
    "fp16": None,
    "atomic_fence_capabilities": None,
    "nvidia": {"warp_size": 32, "multiprocessors": None},
}


def device(**changes: Any) -> Json:
    """A device with a row or two in every step: `whole_device`, cut down, with what was not measured in it."""
    value = whole_device("Test GPU (R) 5", "10.20.30.40", bound=16) | {
        "facts": FACTS,
        "quirks": [{"name": "slow", "fault": "it is slow", "workaround": "wait"}],
        "occupancy": step([occupancy_row("spin", False, bound=16), occupancy_row("ticket", False, bound=16)]),
    }
    for name, count in (("barrier", 2), ("atomics", 1), ("split_barrier", 1), ("reduction", 1)):
        value[name]["rows"] = value[name]["rows"][-count:]
    value["barrier"]["rows"][1] |= {
        "algorithm": "xf",
        "barrier_time": missing("timeout", "it hung"),
        "relaunch_time": missing("skipped", "no time was left"),
        "partial": True,
    }
    value["litmus"]["rows"][0] |= {"verdict": measured("fail"), "forbidden": [{"test": "SB", "count": 3}]}
    value["findings"]["litmus"]["cl12"] = "fail: SB: 7 of 900 forbidden (seed 16)"
    value["findings"]["progress"]["sub_groups"] = "unknown: timed out"
    value["reduction"]["rows"][0] |= {"groups": None, "built_in_time": missing("unsupported", "the device has none")}
    return copy.deepcopy(value | changes)


def record(*devices: Json, **changes: Any) -> Json:
    """A valid record."""
    return copy.deepcopy(whole_record(*(devices or [device()])) | changes)


def stopped_record() -> Json:
    """A valid record of a run that was stopped: a device in part, one that was refused and one never reached."""
    begun = {name: device()[name] for name in ("address", "facts", "seconds")}
    refused = begun | {"status": "refused", "reason": "no order holds on it", "findings": device()["findings"]}
    return record(device(status="partial"), refused, begun | {"status": "waiting"}, partial=True, interrupted=True)


def places(value: Any, where: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The way to every value inside a JSON value."""
    found = [where] if where else []
    entries = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in entries:
        found += places(item, (*where, key))
    return found


_NUMBERS = st.sampled_from([0, 1, 65_535, 2**63 - 1, -1, 0.0, 5e-324, 0.1, 1.0, 1e18, -1e18])

#: Readings that a record may hold.
_READINGS = st.one_of(
    st.builds(missing, st.sampled_from(STATUSES), st.just("why")),
    st.builds(measured, _NUMBERS, st.sampled_from(UNITS), st.lists(_NUMBERS, max_size=5)),
    st.builds(measured, st.sampled_from([True, False, "pass", "fail", "none"])),
)

#: Values that strangers put where something else belongs.
_ODD = st.one_of(
    _READINGS,
    _NUMBERS,
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=20),
    st.sampled_from(["", "\x1b[2J", "../../etc/passwd", "a\nb", "4.0", 4.0, 1e300, 10**30, [], {}, "\ud800"]),
    st.sampled_from([" ", "{}", "$\\frac{1}{", "a" * 300, "[x](y)|<b>", "\u00e9" * 40, "counter", "pass", "fail: "]),
    st.sampled_from(["unknown: ", "independent", "2026-99-99T00:00:00Z", "published", "portbar-record", 2, 3, [[]]]),
    st.recursive(
        st.none() | st.integers() | st.text(max_size=5),
        lambda below: st.lists(below, max_size=3) | st.dictionaries(st.text(max_size=8), below, max_size=3),
        max_leaves=6,
    ),
)


@st.composite
def damaged(draw: st.DrawFn, base: Any) -> Any:
    """A JSON value with up to three of its parts replaced, removed, doubled, renamed or swapped for other parts of it."""
    value = copy.deepcopy(base)
    for _ in range(draw(st.integers(1, 3))):
        ways = places(value)
        if not ways:
            break
        *above, key = draw(st.sampled_from(ways))
        holder = value
        for part in above:
            holder = holder[part]
        what = draw(st.sampled_from(["replace", "replace", "remove", "double", "rename", "swap"]))
        if what == "remove":
            del holder[key]
        elif what == "double" and isinstance(holder, list):
            holder.append(copy.deepcopy(holder[key]))
        elif what == "rename" and isinstance(holder, dict):
            holder[draw(st.text(max_size=12) | st.sampled_from(["hostname", "status", "reason", "value"]))] = (
                holder.pop(key)
            )
        elif what == "swap":
            other = value
            for part in draw(st.sampled_from(ways)):
                if isinstance(other, (dict, list)) and (part in other or isinstance(part, int)):
                    other = other[part % len(other) if isinstance(other, list) and other else part] if other else other
            holder[key] = copy.deepcopy(other)
        else:
            # A later turn may change a list or an object of it, which is drawn again.
            holder[key] = copy.deepcopy(draw(_ODD))
    return value


def at(value: Any, way: tuple[Any, ...]) -> Any:
    """Return the value at the end of the way."""
    for part in way:
        value = value[part]
    return value


def is_reading(value: Any) -> bool:
    """Whether this is a value with its unit, or the reason why there is none."""
    return isinstance(value, dict) and ("value" in value or set(value) == {"status", "reason"})


@st.composite
def unlikely(draw: st.DrawFn) -> Any:
    """A valid record with unlikely values, most of them readings."""
    value = draw(st.sampled_from([record(), stopped_record()]))
    ways = [way for way in places(value) if is_reading(at(value, way))]
    for way in draw(st.lists(st.sampled_from(ways), min_size=20, max_size=30)):
        changed = copy.deepcopy(value)
        at(changed, way[:-1])[way[-1]] = draw(_READINGS)
        value = value if validate(changed) else changed
    changed = draw(damaged(value))
    return value if not isinstance(changed, dict) or validate(changed) else changed
