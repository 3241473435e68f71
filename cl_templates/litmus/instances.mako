## -*- coding: utf-8 -*-
## Kernels that run many fresh instances of one litmus test. portbar/survey/litmus/source.py writes the roles, stress.py the numbers `n`.
<%def name="place()">
/* Word of location `which` of a team's instance in a round: a separate place in every round, in an order that differs
   between the locations. The word after it is unused. Any work-item; a few integer operations. */
static inline __attribute__((always_inline)) uint portbar_litmus_place(global const uint *n, uint which, uint round, uint team)
{
    const uint teams = n[${number["teams"]}];
    const uint slot = (team * n[${number["slot_mul"]} + which] + n[${number["slot_add"]} + which]) % teams;
    return (round * teams + slot) * n[${number["block"]}] + n[${number["offset"]} + which];
}
</%def>
<%def name="meet()">
/* Waits until `all` arrivals were counted in `word`, this one included, at most `polls` times ${unroll} poll(s); returns the limit for
   the next wait: all of `most` after a wait that ended well, else half as many. Each member of a team; relaxed, so that it orders
   nothing that the test should; no polls, no wait. */
static inline uint portbar_litmus_meet(volatile global uint *word, uint all, uint polls, uint most)
{
    if (most == 0u)
        return 0u;
    uint seen = portbar_atomic_fetch_add_explicit(word, 1u, memory_order_relaxed, memory_scope_device) + 1u;
    uint i = 0u;
    for (; i < polls && (int)(seen - all) < 0; ++i) {
% for _ in range(unroll):
        seen = portbar_atomic_load_explicit(word, memory_order_relaxed, memory_scope_device);
% endfor
    }
    return (int)(seen - all) < 0 ? max(polls >> 1, min(most, ${least_polls}u)) : most;
}
</%def>
<%def name="disturb()">
/* Keeps caches and memory busy: `count` loads or stores of words that are this work-item's alone, but lie on lines shared with
   others. Any work-item; returns a number that has to be used, so that the loads stay. Plain accesses, no ordering. */
static inline uint portbar_litmus_disturb(volatile global uint *scratch, global const uint *n, uint count)
{
    const uint items = n[${number["items"]}], pattern = n[${number["pattern"]}];
    const uint own = n[${number["mixed"]}] != 0u ? (uint)(get_local_id(0) * get_num_groups(0) + get_group_id(0))
                                 : (uint)get_global_id(0);
    uint sum = 0u;
    for (uint i = 0; i < count; ++i) {
        volatile global uint *p = scratch + (i & ${disturbed - 1}u) * items + own;
        if ((pattern >> (i & 3u)) & 1u)
            *p = 0u;
        else
            sum |= *p;
    }
    return sum;
}
</%def>
<%def name="across()">
/* ${test.name}: the members of a team are in different work-groups, and take turns in the roles.
   mem: the locations, all 0. regs: a column for each register, all ${unread}. meet: a word per team, 0, then one per work-item, which gets
   the rounds that it ran. Columns of work-groups beyond the test's threads only disturb. Every wait is bounded. */
kernel void ${kernel_name}(global uint *mem, global uint *regs, volatile global uint *meet,
    volatile global uint *scratch, global const uint *n)
{
    const uint lane = (uint)get_local_id(0), size = (uint)get_local_size(0), groups = (uint)get_num_groups(0);
    const uint teams = n[${number["teams"]}], rounds = n[${number["rounds"]}], most = n[${number["polls"]}];
    const uint rows = teams / size;
    const uint spread = ((uint)get_group_id(0) * n[${number["group_mul"]}] + n[${number["group_add"]}]) % groups;
    const uint column = spread / rows, id = (uint)get_global_id(0);
    uint sum = 0u, polls = n[${number["first_polls"]}], round = 0u;
    if (column >= ${threads}u) {
        sum = portbar_litmus_disturb(scratch, n, rounds * n[${number["disturb"]}]);
        round = rounds;
    } else {
        const uint place = (lane * n[${number["lane_mul"]} + column] + n[${number["lane_add"]} + column]) % size;
        const uint team = spread % rows * size + place;
        for (; round < rounds; ++round) {
            const uint role = (column + round) % ${threads}u, i = round * teams + team;
% for k, location in enumerate(test.locations):
            const uint ${location} = portbar_litmus_place(n, ${k}u, round, team);
% endfor
            sum |= portbar_litmus_disturb(scratch, n, n[${number["before"]}]);
% for k, location in enumerate(test.locations):
            if ((n[${number["warm"]}] >> ${k}u) & 1u)
                sum |= mem[${location} + 1u];
% endfor
            polls = portbar_litmus_meet(meet + team, (round + 1u) * ${threads}u, polls, most);
            switch (role) {
${roles}
            }
        }
    }
    meet[teams + id] = round;
    if (sum != 0u)
        scratch[id] = sum;
}
</%def>
<%def name="within()">
/* ${test.name}: the members of a team are in one work-group, and take turns in the roles.
   Arguments as for the tests across work-groups; local locations are in `arena`, and their final values go to the columns of
   `regs` after the registers. No barrier is under a condition: some compilers abort on that. */
kernel void ${kernel_name}(global uint *mem, global uint *regs, volatile global uint *meet,
    volatile global uint *scratch, global const uint *n)
{
    const uint lane = (uint)get_local_id(0), size = (uint)get_local_size(0), id = (uint)get_global_id(0);
    const uint teams = n[${number["teams"]}], rounds = n[${number["rounds"]}], each = size / ${threads}u;
    const uint place = (lane * n[${number["lane_mul"]}] + n[${number["lane_add"]}]) % size;
    const uint column = place / each, member = place % each, team = (uint)get_group_id(0) * each + member;
    uint sum = 0u, round = 0u;
% if test.space == "local":
    local uint arena[${arena}];
% endif
    for (; round < rounds; ++round) {
        const uint role = column < ${threads}u ? (column + round) % ${threads}u : ${threads}u, i = round * teams + team;
% for k, location in enumerate(test.locations):
% if test.space == "local":
        const uint ${location} = (member * ${len(test.locations)}u + ${k}u) * 2u;
% else:
        const uint ${location} = portbar_litmus_place(n, ${k}u, round, team);
% endif
% endfor
% if test.space == "local":
        for (uint k = lane; k < ${arena}u; k += size)
            arena[k] = 0u;
% endif
        sum |= portbar_litmus_disturb(scratch, n, n[${number["before"]}]);
        barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
        switch (role) {
${roles}
        }
        barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
% if test.space == "local" and test.finals:
        if (role == 0u) {
% for k, location in enumerate(test.finals):
            regs[${test.registers + k}u * (rounds * teams) + i] = arena[${location}];
% endfor
        }
        barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
% endif
    }
    meet[teams + id] = round;
    if (sum != 0u)
        scratch[id] = sum;
}
</%def>
<%def name="collect()">
/* Packs the outcome of each instance into one word, two bits a value, what is larger as ${unread}: registers, then the final values
   of the locations in `finals`, a bit each, which lie in global memory; `columns` counts both. `places` has a byte for each
   location: the lower half is the location in whose word it lies, the upper half its index there among objects of `bits`.
   One work-item per instance, after the test's kernel is complete. */
kernel void portbar_litmus_collect(global const uint *mem, global const uint *regs, global uint *codes, global const uint *n,
    uint registers, uint finals, uint columns, uint bits, uint places)
{
    const uint i = (uint)get_global_id(0), teams = n[${number["teams"]}], instances = teams * n[${number["rounds"]}];
    if (i >= instances)
        return;
    uint code = 0u, column = 0u;
    for (; column < registers; ++column)
        code |= min(regs[column * instances + i], ${unread}u) << (2u * column);
    for (uint which = 0; which < ${most_locations}u; ++which)
        if ((finals >> which) & 1u) {
            const uint host = (places >> (8u * which)) & 0xfu, index = (places >> (8u * which + 4u)) & 0xfu;
            global const uint *word = mem + portbar_litmus_place(n, host, i / teams, i % teams);
            const uint value = bits == 8u ? ((global const uchar *)word)[index]
                               : bits == 16u ? ((global const ushort *)word)[index] : *word;
            code |= min(value, ${unread}u) << (2u * column);
            ++column;
        }
    for (; column < columns; ++column)
        code |= min(regs[column * instances + i], ${unread}u) << (2u * column);
    codes[i] = code;
}
</%def>
