"""The time of an arrive and a wait with each split-barrier strategy that a device can use, beside OpenCL's work-group barrier.

The loops are those of `benchmarks/split_barrier.py`, without its peers in CUDA.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Final

import numpy as np
import pyopencl as cl

from portbar.choices.strategy import DeviceProfile, choose
from portbar.launching.build import build_options, compile_program
from portbar.primitives.split_barrier import selection as split_barrier
from portbar.records.reading import NO_TIME, missing
from portbar.survey.measuring.rounds import most_rounds
from portbar.survey.measuring.session import Session, TimedLoop, largest_group, possible_sizes, repeated, time_in_turns

#: Register work between arrive and wait, which a loop cannot shorten.
_FACTOR: Final = 1664525
_TERM: Final = 1013904223

_LOOP: Final = """
kernel void {name}(global uint *values, const uint rounds)
{{
{before}
    barrier(CLK_LOCAL_MEM_FENCE);
    uint value = (uint)get_global_id(0);
#pragma unroll 1
    for (uint round = 0; round < rounds; ++round) {{
{body}
    }}
    values[get_global_id(0)] = value;
}}
"""
_WORK: Final = f"value = value * {_FACTOR}u + {_TERM}u;"
_SPLIT: Final = '#include "portbar/split_barrier.h"\n' + _LOOP.format(
    name="split",
    before="""    local portbar_split_barrier met;
    if (get_local_id(0) == 0)
        portbar_split_barrier_initialize(&met, (uint)get_local_size(0));""",
    body=f"""        const portbar_arrival_token token = portbar_split_barrier_arrive(&met);
        {_WORK}
        portbar_split_barrier_wait(&met, token);""",
)
_WHOLE: Final = _LOOP.format(
    name="whole", before="", body=f"        {_WORK}\n        barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);"
)


def _expected(items: int, rounds: int) -> Any:
    factor, term = repeated(_FACTOR, _TERM, rounds, 1 << 32)
    return np.arange(items, dtype=np.uint32) * np.uint32(factor) + np.uint32(term)


def usable_strategies(profile: DeviceProfile) -> dict[str, str]:
    """Split-barrier strategies of the table -> why the device cannot use them; empty where it can."""
    judged = {name: one.judge(profile.facts, profile.findings) for name, one in split_barrier.VARIANTS.items()}
    return {name: "" if allowed else why for name, (allowed, why) in judged.items()}


#: Kind of compute units -> local sizes, and those of a quick survey.
_SIZES: Final = {"cpu": (1, 64, 256), "gpu": (32, 256, 1024)}
_QUICK_SIZES: Final = {"cpu": (64,), "gpu": (256,)}


def split_barrier_sizes(profile: DeviceProfile, largest: int | None = None, *, quick: bool = False) -> list[int]:
    """Local sizes of the split-barrier step."""
    return possible_sizes((_QUICK_SIZES if quick else _SIZES)[profile.units.kind], profile, largest)


def measure(session: Session) -> None:
    """Time of arrive and wait for each strategy and local size, with as many work-groups as the device has compute units.

    Rows: `strategy`, `local_size`, `chosen` (bool), and the readings `time` and `barrier_time` (ns). A strategy that the device
    cannot use has one row, with the reason.
    """
    queue, profile = session.queue, session.profile
    strategy = choose(profile)
    programs, refused = session.programs("split_barrier", _SPLIT, usable_strategies(profile), "the split barrier")
    whole = cl.Kernel(compile_program(session.context, queue.device, _WHOLE, build_options(strategy, ())), "whole")
    largest = min((largest_group(program, queue, "split") for program in programs.values()), default=None)
    sizes = split_barrier_sizes(profile, largest, quick=session.quick)
    groups = profile.facts.compute_units or 1
    for index, size in enumerate(sizes):
        times: dict[str, dict[str, Any]] = {}
        if not index or not session.late:
            session.doing(f"split barriers in work-groups of {size}")
            kernels = {
                name: cl.Kernel(program.built(queue.device, program.strategy(queue.device)), "split")
                for name, program in programs.items()
            } | {"": whole}
            sides = {
                name: TimedLoop(queue, kernel, groups, size, np.uint32, partial(_expected, groups * size)).launch
                for name, kernel in kernels.items()
            }
            part = session.budget.part(1 / (len(sizes) - index))
            times = time_in_turns(sides, most_rounds(profile), part)
        for name in programs if index else split_barrier.VARIANTS:
            time = refused.get(name) or times.get(name) or missing("skipped", NO_TIME)
            row = {"strategy": name, "local_size": size, "chosen": name == strategy.split_barrier.value, "time": time}
            if "" in times and name in programs:
                row["barrier_time"] = times[""]
            session.row(row)
