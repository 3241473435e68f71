## -*- coding: utf-8 -*-
## The barrier of algorithms whose counters only grow, in slots. The algorithm's own template says how many there are
## and at which of them a work-group arrives. How long the waiting groups leave the counters alone follows from how
## many are missing, as in the proportional back-off of Mellor-Crummey and Scott (TOCS 1991). Functions take the one
## counter by its address, two in a structure.
<%def name="here(word, indent)">\
% if counters_given == "counter":
${indent}volatile global uint *counter = grid->state + portbar_unknown(grid->first_slot) + ${word};
% else:
${indent}portbar_counters counters;
${indent}portbar_counters_of(grid, ${word}, &counters);
% endif
</%def>
<%def name="arrival(phase)" filter="trim">
% if counters_given == "counter":
${phase} * grid->num_groups - portbar_word_arrive(counter) - 1u
% else:
portbar_arrive_counters(grid, &counters, ${phase})
% endif
</%def>
<%def name="acquire(indent)">\
% if counters_given != "counter":
${indent}portbar_acquire_counters(&counters);
% elif not acquire_polls:
${indent}portbar_word_acquire(counter);
% endif
</%def>
<%def name="device_barrier()">
${defines(barrier_name)}
/* By ${counted_by}. Cost: two work-group barriers, the arrivals, polls
   of the counters that a work-group waits for, and where the result is used a load from local memory. */
static inline bool ${barrier_name}(portbar_grid *grid)
{
${own("phase_before_barrier")}\
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
    if (PORTBAR_LEADS(grid)) {
${own("phase_after_barrier")}\
${here("PORTBAR_SLOT_WHOLE", "        ")}\
        const uint missing = ${arrival("phase")};
        grid->shared[PORTBAR_SHARED_TARGET] = phase;
        if (!portbar_wait_counters(grid, ${counters_given}, phase, missing))
            PORTBAR_GIVE_UP(grid);
${acquire("        ")}\
    }
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
    return grid->shared[PORTBAR_SHARED_OK] != 0u;
}
</%def>
<%def name="wait_counters()">
${defines("portbar_wait_counters")}
/* Waits until no group is missing in a phase; `missing` is about how many are. At the limit it reports how many have
   arrived. True when all have; an acquire is then due. Caller: a leader. */
static inline bool portbar_wait_counters(const portbar_grid *grid, ${counters_type}, uint phase,
                                         uint missing)
{
% if holds:
    if (missing != 0u)
        portbar_hold(missing, grid->num_groups);
% endif
${own("first_polls_of_counters")}\
    return missing == 0u || portbar_wait_longer(grid, ${counters_name}, phase);
}
</%def>
<%def name="acquire_counters()">
${defines("portbar_acquire_counters")}
/* Acquire, device scope, from all groups that have arrived. Caller: a leader that saw that no group is missing. */
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
${defines("portbar_wait_longer")}
/* The wait with its limit; portbar_wait_counters says the rest. */
${leading} bool portbar_wait_longer(const portbar_grid *grid, ${counters_type}, uint phase)
{
    uint missing = 0u, status = PORTBAR_STATUS_TIMEOUT;
    for (uint round = 0; round < grid->limit && status == PORTBAR_STATUS_TIMEOUT; ++round) {
% if pauses:
        /* The limit counts rounds, which take as long with pauses as without. */
% endif
        for (uint i = PORTBAR_ROLLED(${polls_in_wait}u, grid->limit); i != 0u; --i) {
            missing = portbar_missing(grid, ${counters_name}, phase);
            if (missing == 0u)
                return true;
% if rest_ns:
            portbar_sleep(${rest_ns}u);
% elif pauses:
            i -= min(i - 1u, portbar_relax(missing));
% endif
        }
        if (${relaxed_poll}(grid->state + PORTBAR_STATE_ABORT) != 0u)
            status = PORTBAR_STATUS_OVERWRITTEN;
        portbar_yield(round);
    }
    portbar_report_fault(grid->state, grid->epoch, status,
                         grid->num_groups - min(missing, grid->num_groups), grid->group_id, 0u);
    return false;
}
</%def>
