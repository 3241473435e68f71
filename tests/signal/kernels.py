"""Kernels that hand things on by signals. Data are plain words: only signals order them."""

from __future__ import annotations

from typing import Final

#: A word goes round the ring of all work-groups; each hop checks what the group before has written.
_RING: Final = r"""
kernel void NAME(PORTBAR_GRID_PARAM, global portbar_signal *s, global uint *cells, global uint *wrong,
                 const uint rounds, const uint base)
{
    PORTBAR_ENTER(grid);
    const uint me = portbar_group_id(&grid), n = portbar_num_groups(&grid);
    const uint before = (me + n - 1u) % n, after = (me + 1u) % n;
    const uint items = (uint)get_local_size(0), i = (uint)get_local_id(0);
    if (base == 0u && !portbar_device_signals_clear(&grid, s, n))
        return;
    for (uint r = 0u; r < rounds; ++r) {
        const uint hop = r * n + me;
        if (!portbar_work_group_signal_wait_until_at_least(&grid, s + me, base + (me == 0u ? r : r + 1u)))
            return;
        const uint j = (i + 1u) % items;
        if (hop != 0u && cells[before * items + j] != (hop - 1u) * 31u + j)
            wrong[me] = hop + 1u;
        barrier(CLK_GLOBAL_MEM_FENCE);                  /* of one group, each item has read */
        cells[me * items + i] = hop * 31u + i;
        SIGNAL;
    }
}
"""
_RINGS: Final = {
    "ring_add": "portbar_work_group_signal_add(&grid, s + after, 1u)",
    "ring_set": "portbar_work_group_signal_set(&grid, s + after, base + r + 1u)",
}

#: The same by one work-item of each group, with the plain forms.
_LONE_RING: Final = r"""
kernel void NAME(PORTBAR_GRID_PARAM, global portbar_signal *s, global uint *cells, global uint *wrong,
                 const uint rounds, const uint base)
{
    PORTBAR_ENTER(grid);
    const uint me = portbar_group_id(&grid), n = portbar_num_groups(&grid);
    const uint before = (me + n - 1u) % n, after = (me + 1u) % n;
    if (base == 0u && !portbar_device_signals_clear(&grid, s, n))
        return;
    if (get_local_id(0) == 0u)
        for (uint r = 0u; r < rounds; ++r) {
            const uint hop = r * n + me, value = base + (me == 0u ? r : r + 1u);
            if (!WAIT)
                return;
            if (hop != 0u && cells[before] != (hop - 1u) * 31u)
                wrong[me] = hop + 1u;
            cells[me] = hop * 31u;
            SIGNAL;
        }
}
"""
_ADD: Final = "portbar_signal_add(&grid, s + after, 1u)"
_WAIT: Final = "portbar_signal_wait_until_at_least(&grid, s + me, value)"
_LOAD: Final = "portbar_atomic_load_explicit(&s[me].value, memory_order_relaxed, memory_scope_device)"
_LONE_RINGS: Final = {
    "lone_add": (_ADD, _WAIT),
    "lone_set": ("portbar_signal_set(&grid, s + after, base + r + 1u)", _WAIT),
    "lone_tests": (_ADD, "portbar_device_wait_until(&grid, portbar_signal_test(&grid, s + me, value))"),
    "lone_loads": (_ADD, f"portbar_device_wait_until(&grid, {_LOAD} >= value)"),
}

#: Group 0 waits for what never comes; the others go to a barrier, or leave.
_IN_VAIN: Final = r"""
kernel void NAME(PORTBAR_GRID_PARAM, global portbar_signal *s, global uint *out, const uint meets)
{
    PORTBAR_ENTER(grid);
    bool came = true, held = true;
    if (PORTBAR_UNIFORM(portbar_group_id(&grid) == 0u))
        came = WAIT;
    else if (meets != 0u)
        held = portbar_device_barrier(&grid);
    out[portbar_global_id(&grid)] = (came ? 1u : 0u) + (held ? 2u : 0u);
}
"""
_WAIT_9: Final = "portbar_work_group_signal_wait_until_at_least(&grid, s, 9u)"
_WAITS_IN_VAIN: Final = {
    "vain_group": f"{_WAIT_9} || {_WAIT_9.replace('9u', '0u')} || portbar_device_ok(&grid)",
    "vain_leader": "get_local_id(0) == 0u && portbar_signal_wait_until_at_least(&grid, s, 9u)",
    "vain_condition": "get_local_id(0) == 0u && portbar_device_wait_until(&grid, "
    "portbar_atomic_load_explicit(&s->value, memory_order_relaxed, memory_scope_device) == 9u)",
}

#: Names of the kernels that send a word round.
RINGS: Final = (*_RINGS, *_LONE_RINGS)

_OTHERS: Final = r"""
/* Each group is a stage: it takes an item from the slots before it, works on it, and puts it into the slots after it.
   Every stage makes the same calls, the first and the last for signals that nobody heeds: some drivers take no barrier
   in a branch. */
#define SLOTS 3u
kernel void pipeline(PORTBAR_GRID_PARAM, global portbar_signal *s, global uint *slots, global const uint *in,
                     global uint *out, const uint items)
{
    PORTBAR_ENTER(grid);
    const uint me = portbar_group_id(&grid), n = portbar_num_groups(&grid), i = (uint)get_local_id(0);
    const uint width = (uint)get_local_size(0);
    global portbar_signal *filled = s + me, *taken = s + n + 1u + me;
    if (!portbar_device_signals_clear(&grid, s, 2u * (n + 1u)))
        return;
    for (uint item = 0u; item < items; ++item) {
        if (!portbar_work_group_signal_wait_until_at_least(&grid, filled, me == 0u ? 0u : item + 1u))
            return;
        uint v = me == 0u ? in[item * width + i] : slots[((me - 1u) * SLOTS + item % SLOTS) * width + i];
        portbar_work_group_signal_add(&grid, taken, 1u);
        v = v * 3u + me + 1u;
        const uint room = me == n - 1u || item < SLOTS ? 0u : item + 1u - SLOTS;
        if (!portbar_work_group_signal_wait_until_at_least(&grid, taken + 1, room))
            return;
        if (me == n - 1u)
            out[item * width + i] = v;
        else
            slots[(me * SLOTS + item % SLOTS) * width + i] = v;
        portbar_work_group_signal_set(&grid, filled + 1, item + 1u);
    }
}

/* All work-items add to one signal, each its own number; the last group waits for the sum and reads what all have written. */
kernel void gather(PORTBAR_GRID_PARAM, global portbar_signal *s, global uint *cells, global uint *sums, const uint rounds)
{
    PORTBAR_ENTER(grid);
    const uint me = portbar_global_id(&grid), all = portbar_global_size(&grid);
    const uint each = all * (all + 1u) / 2u;
    if (!portbar_device_signals_clear(&grid, s, 1u))
        return;
    for (uint r = 0u; r < rounds; ++r) {
        cells[me] = me + r;
        portbar_signal_add(&grid, s, me + 1u);
        const bool last = portbar_group_id(&grid) == portbar_num_groups(&grid) - 1u;
        if (!portbar_work_group_signal_wait_until_at_least(&grid, s, last ? (r + 1u) * each : 0u))
            return;
        if (last && get_local_id(0) == 0u) {
            uint sum = 0u;
            for (uint i = 0u; i < all; ++i)
                sum += cells[i];
            sums[r] = sum;
        }
        if (!portbar_device_barrier(&grid))
            return;
    }
}

/* Looks that do not wait: at a signal in user memory as the host has set it. */
kernel void looks(PORTBAR_GRID_PARAM, global portbar_signal *s, global uint *out)
{
    PORTBAR_ENTER(grid);
    if (portbar_global_id(&grid) == 0u) {
        out[0] = portbar_signal_test(&grid, s, 7u);
        out[1] = portbar_signal_test(&grid, s, 8u);
        out[2] = portbar_signal_test(&grid, s, 0u);
        portbar_signal_add(&grid, s, 0u);
        portbar_signal_add(&grid, s, 5u);
        out[3] = portbar_signal_test(&grid, s, 12u);
        out[4] = portbar_signal_test(&grid, s, 13u);
        portbar_signal_set(&grid, s, PORTBAR_SIGNAL_MAX);
        out[5] = portbar_signal_wait_until_at_least(&grid, s, PORTBAR_SIGNAL_MAX);
    }
}

/* Group 0 takes the signal too far, by an addition or a set, while the others wait for it. */
kernel void too_far(PORTBAR_GRID_PARAM, global portbar_signal *s, global uint *out, const uint add, const uint set)
{
    PORTBAR_ENTER(grid);
    bool came = true;
    if (portbar_group_id(&grid) != 0u)
        came = portbar_work_group_signal_wait_until_at_least(&grid, s, PORTBAR_SIGNAL_MAX);
    else if (get_local_id(0) == 0u) {
        if (set != 0u)
            portbar_signal_set(&grid, s, set);
        else
            portbar_signal_add(&grid, s, add);
    }
    out[portbar_global_id(&grid)] = came ? 1u : 2u;
}
"""

SOURCE: Final = "".join(
    [
        '#include "portbar/atomics.h"\n#include "portbar/signal.h"\n',
        *(_RING.replace("NAME", name).replace("SIGNAL", signal) for name, signal in _RINGS.items()),
        *(
            _LONE_RING.replace("NAME", name).replace("SIGNAL", signal).replace("WAIT", wait)
            for name, (signal, wait) in _LONE_RINGS.items()
        ),
        *(_IN_VAIN.replace("NAME", name).replace("WAIT", wait) for name, wait in _WAITS_IN_VAIN.items()),
        _OTHERS,
    ]
)
