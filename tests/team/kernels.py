"""Kernels of teams. Data are plain words: only the barriers of teams order them."""

from __future__ import annotations

from typing import Final

_HEAD: Final = '#include "portbar/atomics.h"\n#include "portbar/team.h"\n'

_SHAPES: Final = """
/* What each work-group is told of its team. */
kernel void shapes(PORTBAR_GRID_PARAM, global uint *out, const uint k, const uint colours)
{
    PORTBAR_ENTER(grid);
    const portbar_team a = portbar_team_split(&grid, k);
    const portbar_team b = portbar_team_by_colour(&grid, 1000u - portbar_group_id(&grid) * 7u % colours * 5u);
    global uint *own = out + 12u * portbar_global_id(&grid);
    own[0] = portbar_team_id(&a);
    own[1] = portbar_num_teams(&a);
    own[2] = portbar_team_rank(&a);
    own[3] = portbar_team_num_groups(&a);
    own[4] = portbar_team_global_id(&grid, &a);
    own[5] = portbar_team_global_size(&a);
    own[6] = portbar_team_id(&b);
    own[7] = portbar_num_teams(&b);
    own[8] = portbar_team_rank(&b);
    own[9] = portbar_team_num_groups(&b);
    own[10] = portbar_team_global_id(&grid, &b);
    own[11] = portbar_team_global_size(&b);
}
"""

#: Every work-item writes its place and, after the barrier, reads those of the next and the last member's.
_BARRIER: Final = """
kernel void barriers_NAME(PORTBAR_GRID_PARAM, global uint *cells, global uint *wrong, const uint k, const uint rounds)
{
    PORTBAR_ENTER(grid);
    portbar_team team = CUT;
    const uint rank = portbar_team_rank(&team), members = portbar_team_num_groups(&team);
    const uint local_id = (uint)get_local_id(0), width = (uint)get_local_size(0), me = rank * width + local_id;
    /* A team's cells lie where its number says: teams have at most as many groups as the grid. */
    global uint *own = cells + (size_t)portbar_team_id(&team) * portbar_global_size(&grid) * 2u;
    const uint next = (rank + 1u) % members * width + (width - 1u - local_id), last = members * width - 1u;
    uint bad = 0u;
    bool held = true;
    for (uint r = 0u; r < rounds && held; ++r) {
        global uint *area = own + (r & 1u) * portbar_global_size(&grid);
        area[me] = r * 31u + me * 7u + 1u;
        held = portbar_team_barrier(&grid, &team);
        bad += area[next] != r * 31u + next * 7u + 1u || area[last] != r * 31u + last * 7u + 1u ? 1u : 0u;
    }
    if (bad != 0u || !held)
        wrong[0] = bad + 1u;
}
"""

_COLLECTIVES: Final = """
/* Votes, reductions and broadcasts, with values that depend on the round; each work-item notes what differs. */
kernel void collectives_NAME(PORTBAR_GRID_PARAM, global uint *wrong, const uint k, const uint rounds)
{
    PORTBAR_ENTER(grid);
    portbar_team team = CUT;
    const uint rank = portbar_team_rank(&team), members = portbar_team_num_groups(&team);
    const uint width = (uint)get_local_size(0), me = portbar_team_global_id(&grid, &team);
    uint bad = 0u;
    for (uint r = 0u; r < rounds; ++r) {
        const uint at = r % members;
        /* All but one of the team's work-items. */
        const uint chosen = r * 5u % (members * width);
        bad |= portbar_team_barrier_count(&grid, &team, me != chosen) != members * width - 1u ? 1u : 0u;
        bad |= portbar_team_barrier_any(&grid, &team, me == chosen) ? 0u : 2u;
        bad |= portbar_team_barrier_any(&grid, &team, me == members * width) ? 4u : 0u;
        bad |= portbar_team_barrier_all(&grid, &team, me != chosen) ? 8u : 0u;
        bad |= portbar_team_barrier_all(&grid, &team, me != members * width) ? 0u : 16u;
        /* Other work-items than the first have values that do not count. */
        const uint spoilt = get_local_id(0) == 0 ? 0u : 77u;
        bad |= portbar_team_reduce_add(&grid, &team, rank + r + spoilt) != members * (members - 1u) / 2u + members * r
            ? 32u : 0u;
        bad |= portbar_team_reduce_min(&grid, &team, (int)((rank + members - at) % members) - 3 + (int)spoilt) != -3 ? 64u : 0u;
        bad |= portbar_team_reduce_max(&grid, &team, (long)(rank == at) << 40) != (long)1 << 40 ? 128u : 0u;
        bad |= portbar_team_reduce_xor(&grid, &team, (ulong)1 << (rank & 63u)) != MASK(members) ? 256u : 0u;
        bad |= portbar_team_reduce_and(&grid, &team, ~(1u << (rank & 31u))) != ~ONES(members) ? 512u : 0u;
        bad |= portbar_team_broadcast(&grid, &team, (float)(rank * 3u + r), at) != (float)(at * 3u + r) ? 1024u : 0u;
        bad |= portbar_team_broadcast(&grid, &team, -(int)rank, members - 1u) != 1 - (int)members ? 2048u : 0u;
    }
    if (bad != 0u || !portbar_device_ok(&grid))
        wrong[portbar_global_id(&grid)] = bad | 1u << 20;
}
"""

_MORE: Final = """
/* Sums of floats, which round: the order of the ranks decides about the bits. */
kernel void sums(PORTBAR_GRID_PARAM, global const float *values, global float *out, const uint k)
{
    PORTBAR_ENTER(grid);
    portbar_team team = portbar_team_split(&grid, k);
    const float sum = portbar_team_reduce_add(&grid, &team, values[portbar_group_id(&grid)]);
    const float most = portbar_team_reduce_max(&grid, &team, values[portbar_group_id(&grid)]);
    out[2u * portbar_global_id(&grid)] = sum;
    out[2u * portbar_global_id(&grid) + 1u] = most;
}

/* The grid as rows and columns: two teams in turn, and splits in a loop. */
kernel void rows_and_columns(PORTBAR_GRID_PARAM, global uint *wrong, const uint k, const uint rounds)
{
    PORTBAR_ENTER(grid);
    const uint id = portbar_group_id(&grid), groups = portbar_num_groups(&grid);
    uint bad = 0u;
    for (uint r = 0u; r < rounds; ++r) {
        portbar_team row = portbar_team_split(&grid, k);
        portbar_team column = portbar_team_by_colour(&grid, id % k);
        for (uint t = 0u; t < 5u; ++t) {
            const uint first = id / k * k, width = min(k, groups - first), height = (groups - id % k + k - 1u) / k;
            const uint across = portbar_team_reduce_add(&grid, &row, id + t);
            const uint down = portbar_team_reduce_add(&grid, &column, id + t);
            bad |= across != width * first + width * (width - 1u) / 2u + width * t ? 1u : 0u;
            bad |= down != height * (id % k) + k * (height * (height - 1u) / 2u) + height * t ? 2u : 0u;
            bad |= portbar_team_barrier(&grid, &row) && portbar_team_barrier(&grid, &column) ? 0u : 4u;
        }
    }
    if (bad != 0u)
        wrong[portbar_global_id(&grid)] = bad;
}

/* A team of the size asked for, then a barrier of the team and of the grid; what all of them answered. */
kernel void asks(PORTBAR_GRID_PARAM, global uint *out, const uint k)
{
    PORTBAR_ENTER(grid);
    portbar_team team = portbar_team_split(&grid, k);
    const bool ok = portbar_device_ok(&grid);
    const bool met = portbar_team_barrier(&grid, &team);
    const bool all = portbar_team_barrier_all(&grid, &team, false);
    const bool any = portbar_team_barrier_any(&grid, &team, true);
    const int least = portbar_team_reduce_min(&grid, &team, 5);
    const bool held = portbar_device_barrier(&grid);
    const bool alone = portbar_team_num_groups(&team) == 1u && portbar_team_rank(&team) == 0u;
    out[portbar_global_id(&grid)] = (ok ? 1u : 0u) | (met ? 2u : 0u) | (all ? 4u : 0u) | (any ? 8u : 0u)
        | (least == INT_MAX ? 16u : 0u) | (held ? 32u : 0u) | (alone ? 64u : 0u);
}

/* One work-item of one group gives another colour. */
kernel void colours(PORTBAR_GRID_PARAM, global uint *out, const uint group, const uint item)
{
    PORTBAR_ENTER(grid);
    const bool other = portbar_group_id(&grid) == group && get_local_id(0) >= item;
    portbar_team team = portbar_team_by_colour(&grid, other ? 9u : 3u);
    const bool met = portbar_team_barrier(&grid, &team);
    out[portbar_global_id(&grid)] = (met ? 1u : 0u) + (portbar_device_ok(&grid) ? 2u : 0u);
}

/* Groups ask for teams of different sizes. */
kernel void sizes(PORTBAR_GRID_PARAM, global uint *out, const uint first)
{
    PORTBAR_ENTER(grid);
    portbar_team team = portbar_team_split(&grid, portbar_group_id(&grid) < first ? 2u : 1u);
    const bool met = portbar_team_barrier(&grid, &team) && portbar_device_barrier(&grid);
    out[portbar_global_id(&grid)] = met ? 1u : 0u;
}

/* The last member of the first team leaves before its second barrier; the other teams have theirs. */
kernel void skips(PORTBAR_GRID_PARAM, global uint *out, const uint k, const uint how)
{
    PORTBAR_ENTER(grid);
    portbar_team team = portbar_team_split(&grid, k);
    const bool skipped = portbar_team_id(&team) == 0u && portbar_team_rank(&team) == k - 1u;
    bool met = portbar_team_barrier(&grid, &team);
    if (!skipped) {
        if (how == 0u)
            met = portbar_team_barrier(&grid, &team) && met;
        else
            met = portbar_team_reduce_add(&grid, &team, 1u) == k && met;
    }
    out[portbar_global_id(&grid)] = met ? 1u : 2u;
}

/* Something is written into a team's counter. */
kernel void overwrites(PORTBAR_GRID_PARAM, global uint *out)
{
    PORTBAR_ENTER(grid);
    portbar_team team = portbar_team_split(&grid, 2u);
    if (portbar_global_id(&grid) == 0u)
        portbar_word_store(PORTBAR_TEAM_COUNTER(&grid, team.first, team.slot), 1000u);
    const bool met = portbar_device_barrier(&grid) && portbar_team_barrier(&grid, &team);
    out[portbar_global_id(&grid)] = met ? 1u : 2u;
}
"""

#: How a grid is cut: by size, and by a colour that follows no order.
CUTS: Final = {
    "split": "portbar_team_split(&grid, k)",
    "colour": "portbar_team_by_colour(&grid, 1000u - portbar_group_id(&grid) * 7u % k * 5u)",
}

SOURCE: Final = (
    _HEAD
    + "#define ONES(n) ((n) >= 32u ? ~0u : (1u << (n)) - 1u)\n"
    + "#define MASK(n) ((ulong)((n) >= 64u ? ~(ulong)0 : ((ulong)1 << (n)) - 1u))\n"
    + _SHAPES
    + "".join(
        text.replace("NAME", name).replace("CUT", cut)
        for name, cut in CUTS.items()
        for text in (_BARRIER, _COLLECTIVES)
    )
    + _MORE
)

#: A program of its own: compilers inline what is called twice in all.
COLOURED_TWICE: Final = (
    _HEAD
    + """
/* Splits by colour in two blocks. */
kernel void coloured_twice(PORTBAR_GRID_PARAM, global uint *wrong, const uint k)
{
    PORTBAR_ENTER(grid);
    const uint id = portbar_group_id(&grid);
    {
        portbar_team some = portbar_team_by_colour(&grid, id % k);
        if (portbar_team_reduce_min(&grid, &some, id) != id % k)
            wrong[0] = 1u;
    }
    {
        portbar_team all = portbar_team_by_colour(&grid, 3u);
        if (portbar_team_reduce_max(&grid, &all, id) != portbar_num_groups(&grid) - 1u)
            wrong[0] = 2u;
    }
}
"""
)
