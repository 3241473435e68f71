"""Programs whose work-items share memory: atomics and locks."""

from __future__ import annotations

from typing import Final

import numpy as np

from portbar.survey.answers.program import Compared, Desk, Results

#: Work-groups of a launch; bins of a histogram.
GROUPS: Final = 32
BINS: Final = 16

ATOMICS: Final = """
#include "portbar/atomics.h"
kernel void share(global const uint *a, global uint *bins, global int *most, global float *sum, global uint *tries)
{
    local uint here;
    const uint x = a[get_global_id(0)];
    if (get_local_id(0) == 0u)
        here = 0u;
    barrier(CLK_LOCAL_MEM_FENCE);
    portbar_atomic_add_explicit(&here, x, memory_order_relaxed, memory_scope_work_group);
    portbar_atomic_add_explicit(bins + x % 16u, 1u, memory_order_relaxed, memory_scope_device);
    portbar_atomic_fetch_max_explicit(most, (int)x, memory_order_relaxed, memory_scope_device);
    portbar_atomic_add_explicit(sum + x % 16u, (float)x, memory_order_relaxed, memory_scope_device);
    barrier(CLK_LOCAL_MEM_FENCE);
    if (get_local_id(0) == 0u) {
        uint old = portbar_atomic_load_explicit(tries, memory_order_relaxed, memory_scope_device);
        while (!portbar_atomic_compare_exchange_weak_explicit(tries, &old, old ^ here, memory_order_relaxed,
                                                              memory_order_relaxed, memory_scope_device))
            ;
    }
}
"""

ORDERED: Final = """
#include "portbar/atomics.h"
kernel void hand_over(global const uint *a, global uint *partial, global uint *done, global uint *result)
{
    if (get_local_id(0) != 0u)
        return;
    uint mine = 0u;
    for (uint i = 0; i < (uint)get_local_size(0); ++i)
        mine += a[get_global_id(0) + i];
    partial[get_group_id(0)] = mine;
    if (portbar_atomic_fetch_add_explicit(done, 1u, memory_order_acq_rel, memory_scope_device)
        != (uint)get_num_groups(0) - 1u)
        return;
    uint all = 0u;
    for (uint g = 0; g < (uint)get_num_groups(0); ++g)
        all = all * 5u + partial[g];
    *result = all;
}
"""

LOCKS: Final = """
#include "portbar/lock.h"
kernel void insert(volatile global portbar_LOCK_lock *lock, global const uint *a, global uint *list, global uint *length,
                   global uint *failed)
{
    if (get_local_id(0) == 0u) {
        if (portbar_LOCK_lock_acquire(lock)) {
            list[*length] = a[get_group_id(0)];
            *length += 1u;
            portbar_LOCK_lock_release(lock);
        } else
            *failed = 1u;
    }
}
"""


def shared(desk: Desk) -> Results:
    """Additions of integers and floats, a maximum, an exchange, and an addition in local memory."""
    kernel = desk.kernel(ATOMICS, "share")
    values, a = desk.drawn(GROUPS * desk.local)
    bins, most, tries = desk.zeros(BINS), desk.zeros(1, np.int32), desk.zeros(1)
    sums = desk.zeros(BINS, np.float32)
    kernel(desk.queue, (values.size,), (desk.local,), a, bins, most, sums, tries).wait()
    yield Compared("additions", bins.get(), np.bincount(values % BINS, minlength=BINS))
    yield Compared("the maximum", most.get(), values.max(keepdims=True))
    yield Compared("additions of floats", sums.get(), np.bincount(values % BINS, values, minlength=BINS))
    groups = values.reshape(GROUPS, -1).sum(axis=1, dtype=np.uint32)
    yield Compared("additions in local memory", tries.get(), np.bitwise_xor.reduce(groups, keepdims=True))


def handed_over(desk: Desk) -> Results:
    """The last work-group reads what all others stored before they counted themselves."""
    kernel = desk.kernel(ORDERED, "hand_over")
    values, a = desk.drawn(GROUPS * desk.local)
    result = desk.zeros(1)
    kernel(desk.queue, (values.size,), (desk.local,), a, desk.zeros(GROUPS), desk.zeros(1), result).wait()
    every = np.uint32(0)
    with np.errstate(over="ignore"):
        for partial in values.reshape(GROUPS, -1).sum(axis=1, dtype=np.uint32):
            every = every * np.uint32(5) + partial
    yield Compared("the last group's total", result.get(), np.array([every]))


def _locked(desk: Desk, kind: str, words: int) -> Results:
    kernel = desk.kernel(LOCKS.replace("LOCK", kind), "insert")
    values, a = desk.drawn(GROUPS)
    lock, length, failed, items = desk.zeros(words), desk.zeros(1), desk.zeros(1), desk.zeros(GROUPS)
    kernel(desk.queue, (GROUPS * desk.local,), (desk.local,), lock, a, items, length, failed).wait()
    yield Compared("groups without the lock", failed.get(), np.zeros(1))
    yield Compared("the length of the list", length.get(), np.array([GROUPS]))
    yield Compared("the list", np.sort(items.get()), np.sort(values))


def spin_locked(desk: Desk) -> Results:
    """Work-groups append to a list in turns."""
    return _locked(desk, "spin", 1)


def ticket_locked(desk: Desk) -> Results:
    """The same, first come, first served."""
    return _locked(desk, "ticket", 2)
