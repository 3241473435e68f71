## -*- coding: utf-8 -*-
## Two patterns that programs build on release and acquire at device scope. Arguments as for the kernels of instances.mako.
<%def name="last_block()">
/* Last-block reduction: every work-item of a team's groups leaves a plain value, one work-item per group counts the group in by
   an acquire-release addition, and the group that counts last adds up all values by plain loads. regs: a sum per work-item, of the
   values of the next work-item of every group. mem: a counter per instance, then the values; all 0 before. */
kernel void ${kernel_name}(global uint *mem, global uint *regs, volatile global uint *meet,
    volatile global uint *scratch, global const uint *n)
{
    local uint last;
    const uint lane = (uint)get_local_id(0), size = (uint)get_local_size(0), groups = (uint)get_num_groups(0);
    const uint teams = n[${number["teams"]}], rounds = n[${number["rounds"]}], members = n[${number["members"]}];
    const uint most = n[${number["polls"]}], id = (uint)get_global_id(0);
    const uint spread = ((uint)get_group_id(0) * n[${number["group_mul"]}] + n[${number["group_add"]}]) % groups;
    const uint team = spread / members, member = spread % members, next = (lane + 1u) % size;
    global uint *values = mem + rounds * teams;
    uint polls = n[${number["first_polls"]}], sum = 0u, round = 0u;
    for (; round < rounds; ++round) {
        const uint instance = round * teams + team, first = instance * members * size;
        sum |= portbar_litmus_disturb(scratch, n, n[${number["before"]}]);
        if (lane == 0u)
            polls = portbar_litmus_meet(meet + team, (round + 1u) * members, polls, most);
        values[first + member * size + lane] = (first + member * size + lane) * ${factor}u ^ n[${number["seed"]}];
        barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
        if (lane == 0u) {
            const uint before = portbar_atomic_fetch_add_explicit(mem + instance, 1u, memory_order_acq_rel, memory_scope_device);
            last = before + 1u == members ? 1u : 0u;
        }
        barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
        if (last != 0u) {
            uint total = 0u;
            for (uint k = 0; k < members; ++k)
                total += values[first + k * size + next];
            regs[instance * size + lane] = total;
        }
    }
    meet[teams + id] = round;
    if (sum != 0u)
        scratch[id] = sum;
}
</%def>
<%def name="look_back()">
/* Look-back scan: each group takes a ticket of its team, publishes its own plain value by a release of 1, adds up the
   values published by the groups before it, and publishes that sum by a release of 2. regs: a column of sums by ticket,
   and one that is 1 if the look-back completed within `spins` failed polls. Groups of one work-item. mem: all 0; a
   ticket counter per instance, then flags, values and sums by ticket. */
kernel void ${kernel_name}(global uint *mem, global uint *regs, volatile global uint *meet,
    volatile global uint *scratch, global const uint *n)
{
    const uint groups = (uint)get_num_groups(0), id = (uint)get_global_id(0);
    const uint teams = n[${number["teams"]}], rounds = n[${number["rounds"]}], members = n[${number["members"]}];
    const uint most = n[${number["polls"]}], all = rounds * teams * members;
    const uint spread = ((uint)get_group_id(0) * n[${number["group_mul"]}] + n[${number["group_add"]}]) % groups;
    const uint team = spread / members;
    global uint *flags = mem + rounds * teams, *values = flags + all, *sums = values + all;
    uint polls = n[${number["first_polls"]}], noise = 0u, round = 0u;
    for (; round < rounds; ++round) {
        const uint instance = round * teams + team, first = instance * members;
        noise |= portbar_litmus_disturb(scratch, n, n[${number["before"]}]);
        polls = portbar_litmus_meet(meet + team, (round + 1u) * members, polls, most);
        const uint ticket = portbar_atomic_fetch_add_explicit(mem + instance, 1u, memory_order_relaxed, memory_scope_device);
        const uint own = first + ticket;
        uint sum = own * ${factor}u ^ n[${number["seed"]}];
        values[own] = sum;
        portbar_atomic_store_explicit(flags + own, 1u, memory_order_release, memory_scope_device);
        uint before = ticket, spins = n[${number["spins"]}];
        while (before > 0u && spins > 0u) {
            const uint at = first + before - 1u;
            const uint flag = portbar_atomic_load_explicit(flags + at, memory_order_acquire, memory_scope_device);
            if (flag == 2u) {
                sum += sums[at];
                before = 0u;
            } else if (flag == 1u) {
                sum += values[at];
                --before;
            } else {
                --spins;
            }
        }
        if (before == 0u) {
            sums[own] = sum;
            portbar_atomic_store_explicit(flags + own, 2u, memory_order_release, memory_scope_device);
        }
        regs[own] = sum;
        regs[all + own] = before == 0u ? 1u : 0u;
    }
    meet[teams + id] = round;
    if (noise != 0u)
        scratch[id] = noise;
}
</%def>
