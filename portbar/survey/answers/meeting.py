"""Programs whose work-groups meet: barriers, votes, signals, teams, and barriers within a work-group."""

from __future__ import annotations

from typing import Final

import numpy as np

from portbar.survey.answers.program import BELOW, Compared, Desk, Results

#: Exchanges of a kernel; few, for devices that end loops early.
ROUNDS: Final = 6

SHIFT: Final = """
#include "portbar/device_barrier.h"
kernel void shift(PORTBAR_GRID_PARAM, global uint *a, global uint *b, uint rounds)
{
    PORTBAR_ENTER(grid);
    const uint me = portbar_global_id(&grid), all = portbar_global_size(&grid);
    const uint next = (me + (uint)get_local_size(0) + 1u) % all;
    for (uint r = 0; r < rounds; ++r) {
        b[me] = a[next] * 3u + r;
        portbar_device_barrier(&grid);
        a[me] = b[next] + 1u;
        portbar_device_token token = portbar_device_barrier_arrive(&grid);
        portbar_device_barrier_wait(&grid, token);
    }
}
"""

VOTE: Final = """
#include "portbar/device_barrier.h"
kernel void vote(PORTBAR_GRID_PARAM, global const uint *a, global uint *out, uint below)
{
    PORTBAR_ENTER(grid);
    const uint me = portbar_global_id(&grid), all = portbar_global_size(&grid), x = a[me];
    global uint *const mine = out + 6u * me;
    mine[0] = portbar_device_barrier_count(&grid, (x & 1u) != 0u);
    mine[1] = portbar_device_barrier_sum(&grid, x);
    mine[2] = portbar_device_barrier_any(&grid, me == all - 1u);
    mine[3] = portbar_device_barrier_any(&grid, x >= below);
    mine[4] = portbar_device_barrier_all(&grid, x < below);
    mine[5] = portbar_device_barrier_all(&grid, me != all - 1u);
}
"""

RELAY: Final = """
#include "portbar/signal.h"
kernel void relay(PORTBAR_GRID_PARAM, global portbar_signal *done, global uint *a)
{
    PORTBAR_ENTER(grid);
    const uint me = portbar_group_id(&grid), groups = portbar_num_groups(&grid);
    if (!portbar_device_signals_clear(&grid, done, groups + 1u))
        return;
    if (!portbar_work_group_signal_wait_until_at_least(&grid, done + me, me == 0u ? 0u : 1u))
        return;
    const uint i = portbar_global_id(&grid);
    if (me > 0u)
        a[i] += 3u * a[i - (uint)get_local_size(0)];
    portbar_work_group_signal_add(&grid, done + me + 1u, 1u);
}
"""

TEAMS: Final = """
#include "portbar/team.h"
kernel void teams(PORTBAR_GRID_PARAM, global const uint *a, global uint *b, global uint *out)
{
    PORTBAR_ENTER(grid);
    const uint groups = portbar_num_groups(&grid), me = portbar_global_id(&grid);
    portbar_team team = portbar_team_split(&grid, min(groups, max(2u, (groups + 1u) / 2u)));
    const uint i = portbar_team_global_id(&grid, &team), all = portbar_team_global_size(&team);
    b[me] = a[me] + 1u;
    portbar_team_barrier(&grid, &team);
    global uint *const mine = out + 3u * me;
    mine[0] = b[me - i + (i + (uint)get_local_size(0)) % all];
    mine[1] = portbar_team_barrier_count(&grid, &team, (a[me] & 1u) != 0u);
    mine[2] = portbar_team_reduce_add(&grid, &team, a[me - get_local_id(0)]);
}
"""

SPLIT: Final = """
#include "portbar/split_barrier.h"
kernel void pass_on(global const uint *a, global uint *b, uint rounds)
{
    local portbar_split_barrier met;
    local uint tile[2][64];
    const uint i = get_local_id(0), all = get_local_size(0);
    if (i == 0u)
        portbar_split_barrier_initialize(&met, all);
    barrier(CLK_LOCAL_MEM_FENCE);
    uint x = a[get_global_id(0)];
    for (uint r = 0; r < rounds; ++r) {
        tile[r & 1u][i] = x;
        portbar_arrival_token token = portbar_split_barrier_arrive(&met);
        x *= 3u;
        portbar_split_barrier_wait(&met, token);
        x += tile[r & 1u][(i + 1u) % all];
    }
    b[get_global_id(0)] = x;
}
"""


def shifted(desk: Desk) -> Results:
    """Work-items read what one of the next group wrote, after whole barriers and in two halves."""
    kernel = desk.kernel(SHIFT, "shift")
    values, a = desk.drawn(desk.room(kernel))
    items = desk.launch(kernel, a, desk.zeros(values.size), np.uint32(ROUNDS))
    mine = values[:items]
    for r in range(ROUNDS):
        for factor, term in ((3, r), (1, 1)):
            mine = np.roll(mine, -(desk.local + 1) % items) * np.uint32(factor) + np.uint32(term)
    yield Compared("numbers passed from group to group", a.get()[:items], mine)


def voted(desk: Desk) -> Results:
    """Barriers that count, add, and say whether any or all agree."""
    kernel = desk.kernel(VOTE, "vote")
    values, a = desk.drawn(desk.room(kernel))
    out = desk.zeros(6 * values.size)
    items = desk.launch(kernel, a, out, np.uint32(BELOW))
    mine = values[:items]
    results = [(mine & 1).sum(), mine.sum(), 1, 0, 1, 0]
    for index, what in enumerate(("count", "sum", "any, of one", "any, of none", "all, of all", "all, but one")):
        got = out.get().reshape(-1, 6)[:items, index]
        yield Compared(what, got, np.full(items, results[index], np.uint32))


def relayed(desk: Desk) -> Results:
    """Each work-group uses the numbers of the one before, once that has signalled."""
    kernel = desk.kernel(RELAY, "relay")
    values, a = desk.drawn(desk.room(kernel))
    items = desk.launch(kernel, desk.zeros(values.size // desk.local + 1), a)
    rows = values[:items].reshape(-1, desk.local).copy()
    for row in range(1, len(rows)):
        rows[row] += np.uint32(3) * rows[row - 1]
    yield Compared("numbers relayed from group to group", a.get()[:items], rows.ravel())


def teamed(desk: Desk) -> Results:
    """Two teams, or one of two work-groups, each with a barrier, a count and a sum of its own."""
    kernel = desk.kernel(TEAMS, "teams")
    values, a = desk.drawn(desk.room(kernel))
    out = desk.zeros(3 * values.size)
    items = desk.launch(kernel, a, desk.zeros(values.size), out)
    got = out.get().reshape(-1, 3)[:items]
    middle = min(items, max(2, (items // desk.local + 1) // 2) * desk.local)
    for name, part in (("first", slice(0, middle)), ("second", slice(middle, items))):
        if part.start == part.stop:
            continue
        mine = values[:items][part]
        results = (np.roll(mine + 1, -desk.local), (mine & 1).sum(), mine[:: desk.local].sum())
        for index, what in enumerate(("exchange", "count", "sum")):
            yield Compared(f"{what} of the {name} team", got[part, index], np.broadcast_to(results[index], mine.shape))


def passed(desk: Desk) -> Results:
    """Work-items of a group pass numbers on, and compute between arrival and wait."""
    kernel = desk.kernel(SPLIT, "pass_on")
    values, a = desk.drawn(8 * desk.local)
    b = desk.zeros(values.size)
    kernel(desk.queue, (values.size,), (desk.local,), a, b, np.uint32(ROUNDS)).wait()
    rows = values.reshape(-1, desk.local)
    for _ in range(ROUNDS):
        rows = rows * np.uint32(3) + np.roll(rows, -1, axis=1)
    yield Compared("numbers passed on within a group", b.get(), rows.ravel())
