## -*- coding: utf-8 -*-
## The barrier of algorithms whose counters only grow, in slots. The algorithm's own template says how many there are
## and at which of them a work-group arrives. How long the waiting groups leave the counters alone follows from how
## many are missing, as in the proportional back-off of Mellor-Crummey and Scott (TOCS 1991).
<%def name="device_barrier()">
/* By ${counted_by}. Cost: two work-group barriers, the arrivals, polls
   of the counters that a work-group waits for, and where the result is used a load from local memory. */
static inline bool ${barrier_name}(portbar_grid *grid)
{
${own("phase_before_barrier")}\
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
    if (PORTBAR_LEADS(grid)) {
${own("phase_after_barrier")}\
        portbar_counters counters;
        portbar_counters_of(grid, PORTBAR_SLOT_WHOLE, &counters);
        const uint missing = portbar_arrive_counters(grid, &counters, phase);
        grid->shared[PORTBAR_SHARED_TARGET] = phase;
        if (!portbar_wait_counters(grid, &counters, phase, missing))
            PORTBAR_GIVE_UP(grid);
        portbar_acquire_counters(&counters);
    }
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
    return grid->shared[PORTBAR_SHARED_OK] != 0u;
}
</%def>
<%def name="wait_counters()">
/* Waits until no group is missing in a phase; `missing` is about how many are. At the limit it reports how many have
   arrived. True when all have; portbar_acquire_counters is then due. Caller: a leader. */
static inline bool portbar_wait_counters(const portbar_grid *grid, const portbar_counters *counters, uint phase,
                                         uint missing)
{
% if holds:
    if (missing != 0u)
        portbar_hold(missing, grid->num_groups);
% endif
${own("first_polls_of_counters")}\
    return missing == 0u || portbar_wait_longer(grid, counters, phase) == PORTBAR_WAIT_REACHED;
}
</%def>
<%def name="acquire_counters()">
/* Acquire, device scope, from all who have arrived. Caller: a leader that saw that nobody is missing. */
static inline void portbar_acquire_counters(const portbar_counters *counters)
{
% if acquire_polls:
    /* Every poll has done so. */
    (void)counters;
% else:
${acquire_lines}\
% endif
}
</%def>
<%def name="wait_longer()">
/* The wait with its limit; portbar_wait_counters says the rest. */
static inline uint portbar_wait_longer(const portbar_grid *grid, const portbar_counters *counters, uint phase)
{
    uint missing = 0u;
    for (uint round = 0; round < grid->limit; ++round) {
% if pauses:
        /* A poll with a pause takes as long as many without, and the limit counts rounds. */
% endif
        for (uint i = PORTBAR_ROLLED(${polls_in_wait}u, grid->limit); i != 0u; --i) {
            missing = portbar_missing(grid, counters, phase);
            if (missing == 0u)
                return PORTBAR_WAIT_REACHED;
% if rest_ns:
            portbar_sleep(${rest_ns}u);
% elif pauses:
            portbar_relax(missing);
% endif
        }
        if (portbar_draining(grid))
            return PORTBAR_WAIT_DRAIN;
        portbar_yield(round);
    }
    portbar_time_out(grid, missing);
    return PORTBAR_WAIT_LIMIT;
}
</%def>
