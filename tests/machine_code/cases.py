"""The kernels that are compiled: one for each algorithm, as a program renders it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from portbar.choices.strategy import choose
from portbar.primitives.grid import bounded
from portbar.primitives.headers import resolve_includes
from tests.machine_code.targets import Target
from tests.reading.trees import use_of

_MEET: Final = """
#include "portbar/device_barrier.h"
kernel void meet(PORTBAR_GRID_PARAM, global uint *a)
{
    PORTBAR_ENTER(grid);
    a[portbar_global_id(&grid)] = portbar_num_groups(&grid);
    if (portbar_device_barrier(&grid))
        a[portbar_global_id(&grid)] += a[(portbar_global_id(&grid) + 1u) % portbar_global_size(&grid)];
}
"""

_SPLIT_DEVICE: Final = """
#include "portbar/device_barrier.h"
kernel void meet(PORTBAR_GRID_PARAM, global uint *a)
{
    PORTBAR_ENTER(grid);
    const portbar_device_token token = portbar_device_barrier_arrive(&grid);
    a[portbar_global_id(&grid)] += 1u;
    if (!portbar_device_barrier_test_wait(&grid, token) && portbar_device_barrier_wait(&grid, token))
        a[portbar_global_id(&grid)] = portbar_num_groups(&grid);
}
"""

_LOCK: Final = """
#include "portbar/lock.h"
kernel void locked(volatile global portbar_LOCK_lock *lock, global uint *a)
{
    if (get_local_id(0) == 0 && portbar_LOCK_lock_acquire(lock)) {
        a[0] += 1u;
        portbar_LOCK_lock_release(lock);
    }
}
"""

_WAIT: Final = """
#include "portbar/device_barrier.h"
#include "portbar/atomics.h"
kernel void waits(PORTBAR_GRID_PARAM, global uint *a)
{
    PORTBAR_ENTER(grid);
    if (get_local_id(0) == 0
        && portbar_atomic_wait_explicit(a, portbar_group_id(&grid), memory_order_acquire, memory_scope_device))
        a[1] = a[2];
}
"""

_SIGNAL: Final = """
#include "portbar/signal.h"
kernel void hand_on(PORTBAR_GRID_PARAM, global portbar_signal *s, global uint *a)
{
    PORTBAR_ENTER(grid);
    const uint me = portbar_group_id(&grid);
    if (!portbar_work_group_signal_wait_until_at_least(&grid, s + me, me))
        return;
    a[portbar_global_id(&grid)] += 1u;
    portbar_work_group_signal_add(&grid, s + me + 1u, me + 1u);
}
"""

_SPLIT: Final = """
#include "portbar/split_barrier.h"
kernel void split(global uint *a)
{
    local portbar_split_barrier b;
    local uint shared[64];
    if (get_local_id(0) == 0)
        portbar_split_barrier_initialize(&b, (uint)get_local_size(0));
    barrier(CLK_LOCAL_MEM_FENCE);
    shared[get_local_id(0) % 64u] = a[get_global_id(0)];
    const portbar_arrival_token token = portbar_split_barrier_arrive(&b);
    portbar_split_barrier_wait(&b, token);
    a[get_global_id(0)] = shared[(get_local_id(0) + 1u) % 64u];
}
"""

_REDUCE: Final = """
#include "portbar/device_barrier.h"
#include "portbar/reduction.h"
kernel void sums(PORTBAR_GRID_PARAM, global float *a)
{
    PORTBAR_ENTER(grid);
    PORTBAR_REDUCTION_SCRATCH(scratch);
    a[portbar_global_id(&grid)] = portbar_device_reduce_add(&grid, scratch, a[portbar_global_id(&grid)]);
}
"""


@dataclass(frozen=True)
class Case:
    """One algorithm."""

    #: OpenCL C with portbar's includes.
    source: str
    #: Choices of the strategy.
    overrides: Mapping[str, str] = field(default_factory=dict)
    #: Loops that write in each round, since they compete for a word: those of compare-exchanges and of published locks.
    exchanges: int = 0
    #: Whether work-groups wait for each other, and order memory between them.
    waits: bool = True
    #: Plain loads of one loop that are on their way together, which listings do not tell from polls.
    loads_together: int = 1

    def text(self, target: Target) -> str:
        """Return the text that a program of this source passes to the driver of a target."""
        strategy = choose(target.profile, self.overrides)
        use = use_of(self.source, (), ()) if "portbar/reduction.h" in self.source else None
        return resolve_includes(self.source, strategy, use=use)


#: The poll of discovery is opened by a compare-exchange where the launch before never ran.
_HEALS: Final = 1
#: Group 0 of `xf` gathers in a loop over the others, in which a wait may end with a report.
_GATHERS: Final = 2
#: The published protocol takes its spin lock in two places, by exchanges.
_LOCKS: Final = {"spin": 2, "ticket": 0}

CASES: Final[Mapping[str, Case]] = {
    **{
        f"barrier {name}": Case(_MEET, {"device_barrier": name}, _GATHERS if name == "xf" else _HEALS)
        for name in bounded()
    },
    **{f"discovery {name}": Case(_MEET, {"discovery": name}, exchanges) for name, exchanges in _LOCKS.items()},
    "split device barrier": Case(_SPLIT_DEVICE, {}, _HEALS),
    "spin lock": Case(_LOCK.replace("LOCK", "spin"), {}, 1),
    "ticket lock": Case(_LOCK.replace("LOCK", "ticket")),
    "atomic wait": Case(_WAIT, {}, _HEALS),
    "split barrier": Case(_SPLIT, {}, waits=False),
    "device reduction": Case(_REDUCE, {}, _HEALS, loads_together=4),
    "signal": Case(_SIGNAL, {}, _HEALS),
}
