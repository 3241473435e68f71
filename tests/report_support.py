"""Builds whole records of format 2, and runs commands on them."""

from __future__ import annotations

import io
from collections.abc import Callable
from copy import deepcopy
from statistics import median
from typing import Any

from click.testing import CliRunner, Result
from rich.console import Console, RenderableType

from portbar.cli import cli
from portbar.records.reading import measured, missing

Json = dict[str, Any]

LOCKS = ("packed", "ticket", "spin")
#: How much of the bound each lock finds, with and without patience.
RECALL = {"packed": (1.0, 0.97), "ticket": (1.0, 0.75), "spin": (1.0, 0.25)}
ALGORITHMS = {"counter": 1.0, "flag": 1.4, "tree": 2.0}


def run(*arguments: object) -> Result:
    """Run the `portbar` command in this process."""
    return CliRunner().invoke(cli, [str(argument) for argument in arguments])


def printed(view: RenderableType, width: int = 80) -> str:
    """A view as a terminal of this width shows it."""
    console = Console(width=width, markup=False, file=io.StringIO())
    with console.capture() as shown:
        console.print(view)
    return shown.get()


def times(value: float, unit: str = "us") -> Json:
    """A reading of five samples within two per cent of `value`."""
    samples = [round(value * part, 6) for part in (0.98, 0.99, 1.0, 1.01, 1.02)]
    return measured(median(samples), unit, samples)


def groups(*found: int) -> Json:
    return measured(median(found), "work-groups", found, min=min(found), max=max(found))


def occupancy_row(lock: str, patience: bool, *, bound: int = 8, local_size: int = 64, local_bytes: int = 16) -> Json:
    share = RECALL[lock][0 if patience else 1]
    found = max(1, round(share * bound))
    return {
        "local_size": local_size,
        "local_bytes": local_bytes,
        "lock": lock,
        "patience": patience,
        "launched": 2 * bound,
        "occupancy": measured(bound, "work-groups"),
        "found": groups(*[found] * 5),
        "launch_time": times(12.5),
        "vendor_bound": missing("unsupported", "the driver has no such query"),
        "computed_bound": missing("unsupported", "not computed for this device"),
        "best_known_groups": bound,
        "recall": measured(found / bound, "1"),
        "recall_of_vendor_bound": missing("unsupported", "the driver has no such query"),
    }


def barrier_rows(largest: int) -> list[Json]:
    return [
        {
            "algorithm": name,
            "groups": count,
            "local_size": 64,
            "rounds": 1000,
            "barrier_time": times(0.5 * weight * count**0.5),
            "relaunch_time": times(6.0),
        }
        for count in sorted({1, 2, 4, largest} & set(range(1, largest + 1)))
        for name, weight in ALGORITHMS.items()
    ]


def put(*places: tuple[Any, ...]) -> Callable[[Json], None]:
    """Return what changes an entry: at each of the places, given by names and indices, the last part is put."""

    def change(entry: Json) -> None:
        for *path, name, value in places:
            holder: Any = entry
            for part in path:
                holder = holder[part]
            holder[name] = value

    return change


def without(*names: str) -> Callable[[Json], None]:
    """Return what takes members away from an entry."""

    def change(entry: Json) -> None:
        for name in names:
            del entry[name]

    return change


def both(*changes: Callable[[Json], None]) -> Callable[[Json], None]:
    """Return one change that makes all of these."""

    def change(entry: Json) -> None:
        for one in changes:
            one(entry)

    return change


#: The members that a survey adds to the entry of a device that works.
MEASURED = ("findings", "strategy", "occupancy", "barrier", "litmus", "atomics", "split_barrier", "reduction")


def step(rows: list[Json], status: str = "ok") -> Json:
    return {"status": status, "seconds": 1.5, "rows": rows}


def device(name: str = "Test GPU", driver: str = "1.0", *, bound: int = 8, **facts: Any) -> Json:
    """A device on which every step was measured."""
    return {
        "address": {
            "platform_index": 0,
            "device_index": 0,
            "platform_name": "Test platform",
            "device_name": name,
            "platform_version": "OpenCL 3.0 Test",
        },
        "facts": {
            "platform_name": "Test platform",
            "platform_version": "OpenCL 3.0 Test",
            "platform_vendor": "Tests",
            "name": name,
            "vendor": "Tests",
            "version": "OpenCL 3.0",
            "driver_version": driver,
            "type": ["GPU"],
            "opencl_c_versions": ["1.2", "3.0"],
            "compute_units": bound // 2,
            "max_work_group_size": 256,
            "max_work_item_sizes": [256, 256, 256],
            "local_mem_size": 65536,
            "global_mem_size": 1 << 30,
            "address_bits": 64,
            "extensions": ["cl_khr_fp64"],
            "features": [],
            "atomic_memory_capabilities": ["relaxed", "acq_rel", "scope_device"],
            "atomic_fence_capabilities": ["relaxed", "acq_rel", "scope_device"],
            "svm_capabilities": [],
            "max_sub_groups": 8,
            "sub_group_independent_forward_progress": True,
            "fp64": True,
            "fp16": False,
            "int64_atomics": True,
            "nvidia": None,
            **facts,
        },
        "status": "complete",
        "seconds": 20.0,
        "usable": {"usable": True, "reason": "the probe kernel ran and returned correct results", "remedy": ""},
        "quirks": [],
        "findings": {
            "builds": {"CL1.2": True, "CL3.0": True, "c11@CL3.0": True, "cl12": True, "ptx": False, "fp64": True},
            "ordering": {"c11": "pass", "cl12": "pass"},
            "litmus": {"c11": "pass: 28 tests"},
            "progress": {"lanes": "none", "sub_groups": "independent", "work_groups": "independent"},
            "groups_in_flight": bound,
            "loop_limit": None,
            "polls_per_second": 2.0e8,
            "barrier_table": [[64, 1, "counter"]],
            "lost": {},
            "source": "probed 2026-11-21",
        },
        "strategy": {
            "atomics": {"value": "c11", "reason": "claimed and confirmed"},
            "discovery": {"value": "packed", "reason": "lock-free"},
            "device_barrier": {"value": "counter", "reason": "the fewest steps"},
            "split_barrier": {"value": "counter", "reason": "works everywhere"},
            "reduction": {"value": "sub_group", "reason": "sub-groups compile"},
        },
        "probe": step(
            [
                {"probe": "build CL3.0", "result": measured(True)},
                {"probe": "ordering c11", "result": measured("pass")},
                {"probe": "progress work_groups", "result": measured("independent")},
            ]
        ),
        "occupancy": step([occupancy_row(lock, patience, bound=bound) for patience in (True, False) for lock in LOCKS]),
        "barrier": {**step(barrier_rows(bound)), "unsteady": False},
        "litmus": step(
            [
                {
                    "strategy": "c11",
                    "verdict": measured("pass"),
                    "tests": 28,
                    "instances": measured(1_000_000, "instances"),
                    "forbidden": [],
                    "seed": 7,
                }
            ]
        ),
        "atomics": step(
            [
                {
                    "operation": "fetch_add",
                    "type": kind,
                    "space": space,
                    "implementation": how,
                    "result": measured(True),
                    "time": times(4.0, "ns"),
                }
                for kind, how in (("uint", "instruction"), ("float", "loop"))
                for space in ("global", "local")
            ]
        ),
        "split_barrier": step(
            [
                {
                    "strategy": name,
                    "local_size": 64,
                    "chosen": name == "counter",
                    "time": times(cost, "ns"),
                    "barrier_time": times(40.0, "ns"),
                }
                for name, cost in (("counter", 90.0), ("uniform", 60.0))
            ]
        ),
        "reduction": step(
            [
                {
                    "level": level,
                    "operation": "add",
                    "type": "float",
                    "local_size": 64,
                    "groups": 4,
                    "strategy": name,
                    "chosen": name == "sub_group",
                    "time": times(cost),
                    "built_in_time": times(3.0),
                }
                for level in ("work_group", "device")
                for name, cost in (("sub_group", 2.5), ("tree", 5.0))
            ]
        ),
    }


def record(*devices: Json) -> Json:
    """A whole record that `portbar survey` could have written."""
    return {
        "schema": "portbar-record",
        "format": 2,
        "kind": "measured",
        "created": "2026-11-21T08:00:00+00:00",
        "seconds": 41.2,
        "seed": 7,
        "portbar": {"version": "0.1.0.dev0"},
        "invocation": {"command": "survey", "quick": False, "timeout_s": 120.0, "devices": []},
        "environment": {
            "system": "Linux",
            "release": "6.1.0",
            "machine": "x86_64",
            "python": "3.11.2",
            "pyopencl": "2026.1.4",
            "numpy": "2.4.6",
            "loader": {"name": "OpenCL ICD", "version": "2.3.1"},
        },
        "partial": False,
        "interrupted": False,
        "devices": deepcopy(list(devices) or [device()]),
    }


def published(name: str, vendor: str, units: int, bound: int, spin: float, ticket: float) -> Json:
    """A record taken over from a publication, with the two locks that it has."""
    rows = [
        {
            "local_size": None,
            "local_bytes": None,
            "lock": lock,
            "patience": False,
            "found": measured(mean, "work-groups", mean=mean),
            "best_known_groups": bound,
            "recall": measured(mean / bound, "1"),
        }
        for lock, mean in (("spin", spin), ("ticket", ticket))
    ]
    return {
        "schema": "portbar-record",
        "format": 2,
        "kind": "published",
        "source": {"title": "A study", "authors": ["An Author", "Another One"], "year": 2016, "venue": "A conference"},
        "created": "2016-10-30T00:00:00+00:00",
        "partial": True,
        "interrupted": False,
        "devices": [
            {
                "facts": {
                    "name": name,
                    "vendor": vendor,
                    "compute_units": units,
                    "version": "OpenCL 1.1",
                    "type": ["GPU"],
                },
                "status": "published",
                "findings": None,
                "occupancy": step(rows),
            }
        ],
    }
