## -*- coding: utf-8 -*-
## The master/slave barrier of Xiao and Feng, "Inter-block GPU communication via fast barrier synchronization" (IPDPS 2010), with
## the memory orders of Sorensen et al. (OOPSLA 2016). Flags hold a number of launch and barrier, so they are never cleared.
<%def name="device_barrier()">
/* Barrier over the grid, by one flag in and one flag out for each group; the work-items of group 0 gather and release.
   Caller: all work-items of every participating work-group, in uniform control flow. Order: everything that any of them wrote to
   global or local memory before is visible to all of them after (release and acquire, device scope). Result: false when the spin
   limit was reached, from then on at once in every barrier of the launch; valid in every work-item.
   Cost: three work-group barriers, no atomic read-modify-write; group 0 polls all flags in parallel. */
static inline bool portbar_device_barrier(portbar_grid *grid)
{
    volatile global uint *arrived = grid->state + PORTBAR_STATE_GROUPS;
    volatile global uint *released = arrived + grid->capacity;
    const uint me = grid->group_id;
    const bool sound = grid->shared[PORTBAR_SHARED_FAULT] == 0u;
    if (${leader})
        grid->shared[PORTBAR_SHARED_TARGET] += 1u;
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
    const uint stamp = (grid->epoch << 16) | (grid->shared[PORTBAR_SHARED_TARGET] & 0xffffu);
    if (sound && ${leader})
        portbar_word_store_release(arrived + me, stamp);
    if (me == 0u) {
        bool gathered = sound;
        for (uint other = ${item} + 1u; gathered && other < grid->num_groups; other += portbar_local_linear_size())
            gathered = portbar_wait_stamp(grid, arrived, arrived + other, stamp);
        if (!gathered)
            grid->shared[PORTBAR_SHARED_FAULT] = 1u;
    }
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
    if (me == 0u) {
        if (grid->shared[PORTBAR_SHARED_FAULT] == 0u)
            for (uint other = ${item} + 1u; other < grid->num_groups; other += portbar_local_linear_size())
                portbar_word_store_release(released + other, stamp);
    } else if (sound && ${leader} && !portbar_wait_stamp(grid, arrived, released + me, stamp)) {
        grid->shared[PORTBAR_SHARED_FAULT] = 1u;
    }
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
    return grid->shared[PORTBAR_SHARED_FAULT] == 0u;
}
</%def>
<%def name="wait_stamp()">
/* Polls a flag until it holds exactly `stamp`, at most `limit` rounds; acquire at the end. False on a fault; the one who gives
   up reports how many groups' `arrived` flags hold the stamp. One work-item. */
static inline bool portbar_wait_stamp(const portbar_grid *grid, volatile global uint *arrived, volatile global uint *flag,
                                      uint stamp)
{
    for (uint round = 0; round < grid->limit; ++round) {
        for (uint i = 0; i < PORTBAR_POLLS; ++i)
            if (portbar_word_load(flag) == stamp) {
                (void)portbar_word_load_acquire(flag);
                return true;
            }
        if (portbar_word_load(grid->state + PORTBAR_STATE_ABORT) != 0u)
            return false;
        portbar_yield(round);
    }
    uint came = 0u;
    for (uint other = 0; other < grid->num_groups; ++other)
        came += portbar_word_load(arrived + other) == stamp ? 1u : 0u;
    portbar_report_fault(grid->state, grid->epoch, PORTBAR_STATUS_TIMEOUT, came, grid->group_id);
    return false;
}
</%def>
