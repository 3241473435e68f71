"""Locks between work-groups: one holder at a time, who sees what the last one wrote, and no wait without an end."""

from __future__ import annotations

import numpy as np
import pytest

import portbar
from tests.support import scale, skipped_where_refused, to_device, uints

SOURCE = r"""
#include "portbar/lock.h"

#define LOCKED(name, type) \
    kernel void name(volatile global portbar_##type *lock, global uint *data, global uint *fault, uint rounds, uint bounded) \
    { \
        if (get_local_id(0) != 0) \
            return; \
        for (uint i = 0; i < rounds; ++i) { \
            const bool held = bounded ? portbar_##type##_try_acquire(lock, PORTBAR_LOCK_POLLS) \
                                      : portbar_##type##_acquire(lock); \
            if (!held) { \
                fault[0] = 1u; \
                return; \
            } \
            /* Plain accesses, on lines of their own: only the lock orders them. */ \
            const uint before = data[0]; \
            if (data[64] != before || data[128] != before * 3u) \
                fault[1] = 1u; \
            data[0] = before + 1u; \
            data[64] = before + 1u; \
            data[128] = (before + 1u) * 3u; \
            portbar_##type##_release(lock); \
        } \
    }
LOCKED(spin_lock, spin_lock)
LOCKED(ticket_lock, ticket_lock)

kernel void tries(volatile global portbar_spin_lock *spin, volatile global portbar_ticket_lock *ticket, global uint *out)
{
    out[0] = portbar_spin_lock_try_acquire(spin, 1u);
    out[1] = portbar_spin_lock_try_acquire(spin, 100u);
    portbar_spin_lock_release(spin);
    out[2] = portbar_spin_lock_try_acquire(spin, 0u);
    out[3] = portbar_ticket_lock_try_acquire(ticket, 1u);
    out[4] = portbar_ticket_lock_try_acquire(ticket, 100u);
    portbar_ticket_lock_release(ticket);
    out[5] = portbar_ticket_lock_acquire(ticket);
    out[6] = portbar_ticket_lock_try_acquire(ticket, 100u);
    portbar_ticket_lock_release(ticket);
    out[7] = portbar_ticket_lock_try_acquire(ticket, 1u);
}

kernel void gives_up(volatile global portbar_spin_lock *spin, volatile global portbar_ticket_lock *ticket, global uint *out)
{
    out[0] = portbar_spin_lock_acquire(spin);
    out[1] = portbar_ticket_lock_acquire(ticket);
    out[2] = 1u;
}
"""


@pytest.fixture
def program(context):
    with skipped_where_refused():
        return portbar.Program(context, SOURCE)


@pytest.mark.device
@pytest.mark.parametrize("name", ["spin_lock", "ticket_lock"])
@pytest.mark.parametrize("bounded", [False, True], ids=["acquire", "try_acquire"])
def test_one_group_at_a_time_holds_the_lock_and_sees_what_the_last_one_wrote(program, queue, name, bounded):
    rounds, groups, local = (5 if scale(queue.device).is_simulator else 400), 16, 8
    lock, data, fault = (to_device(queue, np.zeros(size, np.uint32)) for size in (2, 192, 2))
    arguments = (np.uint32(rounds), np.uint32(bounded))
    program.kernel(name)(queue, (groups * local,), (local,), lock, data, fault, *arguments).wait()
    assert uints(queue, fault).tolist() == [0, 0]
    assert uints(queue, data)[[0, 64, 128]].tolist() == [groups * rounds, groups * rounds, 3 * groups * rounds]


@pytest.mark.device
def test_a_try_returns_and_has_no_side_effects(program, queue):
    spin, ticket, out = (to_device(queue, np.zeros(size, np.uint32)) for size in (1, 2, 8))
    program.kernel("tries")(queue, (1,), (1,), spin, ticket, out).wait()
    assert uints(queue, out).tolist() == [1, 0, 1, 1, 0, 1, 0, 1]
    # Three tickets were served or are being served, none was drawn for nothing.
    assert uints(queue, ticket).tolist() == [3, 2]


@pytest.mark.device
def test_a_lock_that_is_never_given_back_ends_the_wait(context, queue, program):
    limited = portbar.Program(context, SOURCE, options=["-DPORTBAR_LOCK_POLLS=2000u"])
    spin, ticket, out = (to_device(queue, np.array(words, np.uint32)) for words in ([1], [5, 4], [9, 9, 9]))
    limited.kernel("gives_up")(queue, (1,), (1,), spin, ticket, out).wait()
    assert uints(queue, out).tolist() == [0, 0, 1]
