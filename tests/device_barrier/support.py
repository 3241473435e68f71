"""Kernels whose rounds depend on each other, and launches that reach the spin limit."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pyopencl as cl
import pytest

import portbar
from tests import support

WITH_INTEL = (*support.ALGORITHMS, "intel_device_barrier")


def chain_kernel(name: str, step: str, *rounds: str) -> str:
    """A kernel whose rounds depend on what another work-item wrote in the one before: an early passage spoils the result."""
    return f"""
kernel void {name}(PORTBAR_GRID_PARAM, global uint *even, global uint *odd, global uint *sums, local uint *shelves,
                   const uint rounds)
{{
    PORTBAR_ENTER(grid);
    const uint n = portbar_global_size(&grid), me = portbar_global_id(&grid);
    const uint items = n / portbar_num_groups(&grid), here = me - portbar_group_id(&grid) * items;
    uint sum = 0u, work = 0u;
    bool held = true;
    for (uint r = 0u; r < rounds; {step}) {{
        {"".join(rounds)}
    }}
    sums[me] = held && work < 0xffffffffu ? sum : 0u;
}}
"""


def one(meet: str, r: str = "r") -> str:
    """One round."""
    return f"""{{
        global uint *from = (({r}) & 1u) ? odd : even;
        global uint *to = (({r}) & 1u) ? even : odd;
        local uint *shelf = shelves + (({r}) & 1u) * items;
        const uint got = from[(me + 17u * ({r}) + 5u) % n];
        to[me] = got * 1664525u + me + {r};
        shelf[here] = got ^ ({r});
        {meet}
        sum = sum * 31u + shelf[items - 1u - here];
    }}"""


WHOLE = "held = portbar_device_barrier(&grid) && held;"
#: With work in between that the others may not depend on.
SPLIT = """const portbar_device_token token = portbar_device_barrier_arrive(&grid);
        for (uint i = 0u; i < (me + r) % 5u; ++i)
            work = work * 31u ^ (i + r);
        held = portbar_device_barrier_wait(&grid, token) && held;"""
HEADER = """
#include "portbar/device_barrier.h"

static bool met_elsewhere(portbar_grid grid)
{
    return portbar_device_barrier(&grid);
}
"""


def expected_chain(start: support.UInts, groups: int, items: int, rounds: int) -> tuple[support.UInts, support.UInts]:
    """Do what `chain` does, on the host: the last values and the sums."""
    n = groups * items
    me = np.arange(n, dtype=np.uint32)
    values, sums = start[:n].copy(), np.zeros(n, np.uint32)
    mirror = (me // items) * items + items - 1 - me % items
    with np.errstate(over="ignore"):
        for r in map(np.uint32, range(rounds)):
            got = values[(me + np.uint32(17) * r + np.uint32(5)) % np.uint32(n)]
            values = got * np.uint32(1664525) + me + r
            sums = sums * np.uint32(31) + (got ^ r)[mirror]
    return values, sums


def arguments(queue: Any, local: tuple[int, ...]) -> tuple[Any, ...]:
    """Arguments for the occupancy of a chain kernel, whose local memory counts."""
    one = support.filled(queue, 1)
    return one, one, one, cl.LocalMemory(8 * math.prod(local)), np.uint32(0)


def check_chain(made: Any, queue: Any, local: tuple[int, ...], rounds: int, **sizes: Any) -> int:
    """Run a chain kernel and compare with the host; return how many groups met."""
    items = math.prod(local)
    most = support.room(made, queue, local, *arguments(queue, local))
    start = np.random.default_rng(items + rounds).integers(1 << 32, size=most * items, dtype=np.uint32)
    even, odd = support.to_device(queue, start), support.filled(queue, most * items)
    sums = support.filled(queue, most * items, 0xDEAD)
    launch = made(queue, None, local, even, odd, sums, cl.LocalMemory(8 * items), np.uint32(rounds), **sizes)
    launch.wait()
    groups = launch.num_groups
    assert 1 <= groups <= most
    values, totals = expected_chain(start, groups, items, rounds)
    n = groups * items
    np.testing.assert_array_equal(support.uints(queue, odd if rounds % 2 else even)[:n], values)
    np.testing.assert_array_equal(support.uints(queue, sums)[:n], totals)
    assert (support.uints(queue, sums)[n:] == 0xDEAD).all()
    return groups


def limit(queue):
    """Return a limit in seconds: short, but longer than 4,000 groups of a GPU take to pass a lock, as at their entry."""
    return 0.02 if queue.device.type & cl.device_type.CPU else 0.25


def launch_short(made, queue, local, *scalars, least=2, surplus=False):
    """Launch so that at least `least` groups meet; return the launch, the buffer, and how many met."""
    bound = support.need_groups(made, queue, local, least)
    # The limit counts polls, so groups that share a core take turns to reach it: four are enough there.
    few = {"num_groups": min(bound, 4)} if queue.device.type & cl.device_type.CPU and not surplus else {}
    room = max(500, support.room(made, queue, local))
    for _ in range(20):
        held = support.filled(queue, room * math.prod(local), 0xDEAD)
        global_size = (room * local[0], *local[1:]) if surplus else None
        launch = made(queue, global_size, local, held, *map(np.uint32, scalars), **few)
        found = launch.num_groups
        if found >= least:
            return launch, held, found
    pytest.skip(f"the busy machine never ran {least} work-groups at once")


def check_error(launch, queue, held, groups, value, first=1, local=4, **fields):
    """Check that a launch times out, and that groups from `first` on hold a value and those never there none."""
    with pytest.raises(portbar.BarrierTimeoutError) as caught:
        launch.wait()
    for name, wanted in fields.items():
        assert getattr(caught.value, name) == wanted, name
    found = support.uints(queue, held)
    there = found[local * first : local * groups]
    assert (there == value).all(), "a barrier answered true after the fault, or false before"
    assert (found[local * groups :] == 0xDEAD).all()
    return str(caught.value)
