"""Small records in which every step has a row, and ways to damage them. Not tests."""

from __future__ import annotations

import copy
from typing import Any

from hypothesis import strategies as st

from portbar.records import measured, missing

Json = dict[str, Any]

FACTS: Json = {
    "platform_name": "Test Platform",
    "platform_version": "OpenCL 3.0 Test 1.2",
    "platform_vendor": "Tests/org",
    "name": "Test GPU (R) 5",
    "vendor": "Tests",
    "version": "OpenCL 3.0",
    "driver_version": "10.20.30.40",
    "type": ["GPU"],
    "opencl_c_versions": ["1.2", "3.0"],
    "compute_units": 8,
    "max_work_group_size": 256,
    "max_work_item_sizes": [256, 256, 64],
    "local_mem_size": 32768,
    "global_mem_size": 2147483648,
    "address_bits": 64,
    "extensions": ["cl_khr_fp64"],
    "features": [],
    "atomic_memory_capabilities": ["relaxed", "scope_device"],
    "atomic_fence_capabilities": None,
    "svm_capabilities": None,
    "max_sub_groups": 0,
    "sub_group_independent_forward_progress": False,
    "fp64": True,
    "fp16": None,
    "int64_atomics": True,
    "nvidia": {"warp_size": 32, "multiprocessors": None},
}
FINDINGS: Json = {
    "builds": {"CL3.0": True, "c11@CL3.0": True, "ptx": False},
    "ordering": {"c11": "pass", "cl12": "fail: 3 of 10 messages came with stale data"},
    "litmus": {
        "c11": "pass: 28 tests, 394,697,808 instances (seed 16)",
        "cl12": "fail: SB: 7 of 900 forbidden (seed 16)",
    },
    "progress": {"work_groups": "independent", "lanes": "none", "sub_groups": "unknown: timed out"},
    "groups_in_flight": 16,
    "loop_limit": None,
    "polls_per_second": 1.5e6,
    "barrier_table": [[1, 1, "counter"], [1, 4, "tree"]],
    "lost": {},
    "source": "probed 2026-11-21",
}
ADDRESS: Json = {
    "platform_index": 0,
    "device_index": 1,
    "platform_name": "Test Platform",
    "device_name": "Test GPU (R) 5",
    "platform_version": "OpenCL 3.0 Test 1.2",
}
USABLE: Json = {"usable": True, "reason": "it ran", "remedy": ""}
STRATEGY: Json = {
    "atomics": {"value": "c11", "reason": "confirmed"},
    "device_barrier": {"value": "tree", "reason": "fast"},
}


def device(**changes: Any) -> Json:
    """A device with a row in every step."""
    value: Json = {
        "address": ADDRESS,
        "facts": FACTS,
        "status": "complete",
        "seconds": 9.5,
        "usable": USABLE,
        "quirks": [{"name": "slow", "fault": "it is slow", "workaround": "wait"}],
        "probe": step(
            [{"probe": "build CL2.0", "result": measured(True)}, {"probe": "loop_limit", "result": measured("none")}]
        ),
        "findings": FINDINGS,
        "strategy": STRATEGY,
        "occupancy": step([occupancy_row("spin", False, 3), occupancy_row("ticket", False, 16)]),
        "barrier": step(
            [
                {
                    "algorithm": "tree",
                    "groups": 16,
                    "local_size": 64,
                    "rounds": 100,
                    "barrier_time": measured(0.5, "us", [0.4, 0.5, 0.6]),
                    "relaunch_time": measured(4.0, "us", [3, 4, 5]),
                },
                {
                    "algorithm": "xf",
                    "groups": 16,
                    "local_size": 64,
                    "barrier_time": missing("timeout", "it hung"),
                    "relaunch_time": missing("skipped", "no time was left"),
                    "partial": True,
                },
            ]
        )
        | {"unsteady": False},
        "litmus": step(
            [
                {
                    "strategy": "c11",
                    "verdict": measured("fail"),
                    "tests": 28,
                    "instances": measured(1000, "instances"),
                    "forbidden": [{"test": "SB", "count": 3}],
                    "seed": 7,
                }
            ]
        ),
        "atomics": step(
            [
                {
                    "operation": "fetch_add",
                    "type": "float",
                    "space": "local",
                    "implementation": "loop",
                    "result": measured(True),
                    "time": measured(12.5, "ns"),
                }
            ]
        ),
        "split_barrier": step(
            [
                {
                    "strategy": "uniform",
                    "local_size": 64,
                    "chosen": True,
                    "time": measured(20, "ns"),
                    "barrier_time": measured(10, "ns"),
                }
            ]
        ),
        "reduction": step(
            [
                {
                    "level": "work_group",
                    "operation": "add",
                    "type": "float",
                    "local_size": 64,
                    "groups": None,
                    "strategy": "tree",
                    "chosen": True,
                    "time": measured(90.5, "ns"),
                    "built_in_time": missing("unsupported", "the device has none"),
                }
            ]
        ),
    }
    return copy.deepcopy(value | changes)


def step(rows: list[Json]) -> Json:
    return {"status": "ok", "seconds": 1.5, "rows": rows}


def occupancy_row(lock: str, patience: bool, found: int, bound: int = 16) -> Json:
    return {
        "local_size": 64,
        "local_bytes": 16,
        "lock": lock,
        "patience": patience,
        "launched": 2 * bound,
        "occupancy": measured(bound, "work-groups"),
        "found": measured(found, "work-groups", [found, found], min=found, max=found),
        "launch_time": measured(10.5, "us", [10, 11]),
        "vendor_bound": missing("unsupported", "the driver has no such query"),
        "computed_bound": measured(bound, "work-groups", note="as found"),
        "best_known_groups": bound,
        "recall": measured(found / bound, "1"),
        "recall_of_vendor_bound": missing("unsupported", "the driver has no such query"),
    }


def record(*devices: Json, **changes: Any) -> Json:
    """A valid record."""
    value: Json = {
        "schema": "portbar-record",
        "format": 2,
        "kind": "measured",
        "created": "2026-11-21T10:00:00+00:00",
        "seconds": 12.5,
        "seed": 7,
        "portbar": {"version": "1.2.3"},
        "invocation": {"command": "survey", "quick": False, "timeout_s": 120.0, "devices": ["test"]},
        "environment": {
            "system": "Linux",
            "release": "6.1.0",
            "machine": "x86_64",
            "python": "3.11.7",
            "pyopencl": "2026.1.4",
            "numpy": None,
            "loader": {"name": "a loader", "version": "2.3.1"},
        },
        "partial": False,
        "interrupted": False,
        "devices": list(devices) or [device()],
    }
    return copy.deepcopy(value | changes)


def stopped_record() -> Json:
    """A valid record of a run that was stopped: a device in part, one that was refused and one never reached."""
    begun = {"address": ADDRESS, "facts": FACTS, "seconds": 0.5}
    refused = begun | {"status": "refused", "reason": "no order holds on it", "findings": FINDINGS}
    return record(device(status="partial"), refused, begun | {"status": "waiting"}, partial=True, interrupted=True)


def places(value: Any, where: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The way to every value inside a JSON value."""
    found = [where] if where else []
    entries = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in entries:
        found += places(item, (*where, key))
    return found


#: What strangers put where something else belongs.
_ODD = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=20),
    st.sampled_from(
        [
            "",
            "\x1b[2J",
            "../../etc/passwd",
            "a\nb",
            "4.0",
            "pass",
            "fail: ",
            "unknown: ",
            4.0,
            -1,
            1e300,
            10**30,
            [],
            {},
            "\ud800",
        ]
    ),
    st.sampled_from(["independent", "2026-99-99T00:00:00Z", "published", "portbar-record", 1, 2, 3, [[]]]),
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
            holder[key] = draw(_ODD)
    return value
