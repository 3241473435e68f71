## -*- coding: utf-8 -*-
## The master/slave barrier of Xiao and Feng, "Inter-block GPU communication via fast barrier synchronization" (IPDPS
## 2010), with the memory orders of Sorensen et al. (OOPSLA 2016). Flags hold the whole epoch and the low bits of the
## barrier's number, so they are never cleared: the state is replaced before an epoch comes again, and within a launch
## a flag lags by at most one barrier.
<%def name="device_barrier()">
${defines("portbar_device_barrier")}
/* By one flag in and one flag out per group; the work-items of group 0 gather and release.
   Cost: three work-group barriers, no atomic read-modify-write; group 0 polls all flags in parallel. */
static inline bool portbar_device_barrier(portbar_grid *grid)
{
    volatile global uint *arrived = grid->state + PORTBAR_STATE_STAMPS(grid->capacity);
    volatile global uint *released = arrived + grid->capacity;
    const uint me = grid->group_id;
    const bool sound = grid->shared[PORTBAR_SHARED_OK] != 0u;
    if (PORTBAR_LEADER(grid))
        grid->shared[PORTBAR_SHARED_TARGET] += 1u;
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
    const uint stamp = PORTBAR_STAMP(grid->epoch, grid->shared[PORTBAR_SHARED_TARGET]);
    /* Asked outside of branches, since all work-items execute a statement for it where leaders' work may be lost. */
    const bool arrives = PORTBAR_LEADER(grid);
    if (sound && arrives)
        portbar_word_store_release(arrived + me, stamp);
    if (me == 0u) {
        bool gathered = sound;
        for (uint other = PORTBAR_ITEM(grid) + 1u; gathered && other < grid->num_groups;
             other += portbar_local_linear_size())
            gathered = portbar_wait_stamp(grid, arrived, arrived + other, stamp);
        if (!gathered)
            grid->shared[PORTBAR_SHARED_OK] = 0u;
    }
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
    const bool waits = PORTBAR_LEADER(grid);
    if (me == 0u) {
        if (grid->shared[PORTBAR_SHARED_OK] != 0u)
            for (uint other = PORTBAR_ITEM(grid) + 1u; other < grid->num_groups;
                 other += portbar_local_linear_size())
                portbar_word_store_release(released + other, stamp);
    }
    if (me != 0u && sound && waits && !portbar_wait_stamp(grid, arrived, released + me, stamp))
        grid->shared[PORTBAR_SHARED_OK] = 0u;
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
    const bool held = grid->shared[PORTBAR_SHARED_OK] != 0u;
${own("remember_held")}\
    return held;
}
</%def>
<%def name="wait_stamp()">
${defines("PORTBAR_STAMP")}
/* Content of a flag: the epoch, and as many bits of the barrier's number in its launch as fit. */
#define PORTBAR_STAMP(epoch, number) (((epoch) << 8) | ((number) & 0xffu))

${defines("portbar_wait_stamp")}
/* Polls a flag until it holds exactly `stamp`, at most `limit` rounds; acquire at the end. False on a fault; the one
   who gives up reports how many groups' `arrived` flags hold the stamp, or the next. One work-item. */
static inline bool portbar_wait_stamp(const portbar_grid *grid, volatile global uint *arrived,
                                      volatile global uint *flag, uint stamp)
{
    /* Loops with one exit: some compilers run others wrongly after the return in PORTBAR_ENTER (the effect JOINS_LOST).
     */
    bool reached = false, draining = false;
    for (uint round = 0; round < grid->limit && !reached && !draining; ++round) {
        for (uint i = PORTBAR_ROLLED(PORTBAR_POLLS, grid->limit); i != 0u && !reached; --i)
            reached = ${relaxed_poll}(flag) == stamp;
        if (!reached) {
            draining = portbar_draining(grid);
            portbar_yield(round);
        }
    }
    if (reached) {
        (void)portbar_word_load_acquire(flag);
    } else if (!draining) {
        /* Since the last poll others may have come, gone, and arrived once more. */
        const uint next = PORTBAR_STAMP(stamp >> 8, stamp + 1u);
        uint came = 0u;
        for (uint other = 0; other < grid->num_groups; ++other) {
            const uint seen = ${relaxed_poll}(arrived + other);
            came += seen == stamp || seen == next ? 1u : 0u;
        }
        portbar_report_fault(grid->state, grid->epoch, PORTBAR_STATUS_TIMEOUT, came, grid->group_id, 0u);
    }
    return reached;
}
</%def>
