## -*- coding: utf-8 -*-
## The device barrier in two halves. It counts in words of its own, whatever algorithm the whole barrier uses.
<%def name="token_type()">
/* What an arrival returns and a wait takes: ${"the number of the phase" if counts_in_slots else "the value that the barrier's counter has when the phase is complete"}. */
typedef uint portbar_device_token;
</%def>
<%def name="arrive()">
/* First half of a device barrier: announces that this work-group has arrived, and does not wait.
   Caller: all work-items of a participating work-group, in uniform control flow; each arrival is followed by a wait, or by a
   test that answered true, before the next arrival. Order: release, device scope, of all that the group's work-items wrote to
   global memory. Result: valid in every work-item. Cost: one work-group barrier and one atomic. */
static inline portbar_device_token portbar_device_barrier_arrive(portbar_grid *grid)
{
% if counts_in_slots:
    const portbar_device_token token = grid->shared[PORTBAR_SHARED_SPLIT] + 1u;
% else:
    const portbar_device_token token = grid->shared[PORTBAR_SHARED_SPLIT] + grid->num_groups;
% endif
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
    if (${leader}) {
        grid->shared[PORTBAR_SHARED_SPLIT] = token;
        if (${leads}) {
% if counts_in_slots:
            portbar_counters counters;
            portbar_counters_of(grid, PORTBAR_SLOT_SPLIT, &counters);
            (void)portbar_arrive_counters(grid, &counters, token);
% else:
            (void)portbar_word_arrive(grid->state + PORTBAR_STATE_SPLIT);
% endif
        }
    }
    return token;
}
</%def>
<%def name="wait()">
/* Second half: waits until every participating work-group has arrived.
   Caller: all work-items of the work-group, in uniform control flow, with the token of their last arrival. Order: acquire,
   device scope. Result: false when the spin limit was reached now or before; valid in every work-item. Cost: polls by one
   work-item, one work-group barrier. */
static inline bool portbar_device_barrier_wait(portbar_grid *grid, portbar_device_token token)
{
% if counts_in_slots:
    if (${leads}) {
        portbar_counters counters;
        portbar_counters_of(grid, PORTBAR_SLOT_SPLIT, &counters);
        if (!portbar_wait_counters(grid, &counters, token, portbar_missing(grid, &counters, token))) {
            grid->shared[PORTBAR_SHARED_OK] = 0u;
% if in_registers:
            grid->leads = 0u;
% endif
        }
        portbar_acquire_counters(&counters);
    }
% else:
    if (${leads} && !portbar_wait_counted(grid, grid->state + PORTBAR_STATE_SPLIT, token, grid->state + PORTBAR_STATE_SPLIT, token))
        grid->shared[PORTBAR_SHARED_OK] = 0u;
% endif
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
    return grid->shared[PORTBAR_SHARED_OK] != 0u;
}
</%def>
<%def name="test_wait()">
/* Whether every participating work-group has arrived, without waiting. After true, no wait is needed.
   Caller: all work-items of the work-group, in uniform control flow. Order: acquire, device scope, when true. Result: the
   same in every work-item; true also once the launch is draining after a fault, so that a loop on it ends: the wait that
   follows answers false. Cost: one load, two work-group barriers. */
static inline bool portbar_device_barrier_test_wait(portbar_grid *grid, portbar_device_token token)
{
    if (${leader}) {
% if counts_in_slots:
        portbar_counters counters;
        portbar_counters_of(grid, PORTBAR_SLOT_SPLIT, &counters);
        const bool complete = portbar_missing(grid, &counters, token) == 0u;
        portbar_acquire_counters(&counters);
% else:
        const bool complete = (int)(portbar_word_load_acquire(grid->state + PORTBAR_STATE_SPLIT) - token) >= 0;
% endif
        const bool aborted = portbar_word_load(grid->state + PORTBAR_STATE_ABORT) != 0u;
        grid->shared[PORTBAR_SHARED_DONE] = complete || aborted;
        if (aborted) {
            grid->shared[PORTBAR_SHARED_OK] = 0u;
% if in_registers:
            grid->leads = 0u;
% endif
        }
    }
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
    const bool done = grid->shared[PORTBAR_SHARED_DONE] != 0u;
    barrier(CLK_LOCAL_MEM_FENCE);
    return done;
}
</%def>
