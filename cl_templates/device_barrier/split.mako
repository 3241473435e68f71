## -*- coding: utf-8 -*-
## The device barrier in two halves. It counts in words of its own, whatever algorithm the whole barrier uses.
<%namespace name="slots" file="device_barrier/counters.mako"/>
<%def name="token_type()">
${defines("portbar_device_token")}
/* Result of an arrival and argument of a wait: the count that completes this phase. */
typedef uint portbar_device_token;
</%def>
<%def name="arrive()">
${defines("portbar_device_barrier_arrive")}
/* First half of a device barrier: announces that this work-group has arrived, and does not wait. Caller: all work-items
   of a participating work-group, in uniform control flow; before the next arrival comes a wait, or a test that returned
   true. Order: release, device scope. Result: valid in every work-item. Cost: one work-group barrier and one atomic. */
static inline portbar_device_token portbar_device_barrier_arrive(portbar_grid *grid)
{
% if counts_in_slots:
    const portbar_device_token token = grid->shared[PORTBAR_SHARED_SPLIT] + 1u;
% else:
    const portbar_device_token token = grid->shared[PORTBAR_SHARED_SPLIT] + grid->num_groups;
% endif
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
    if (PORTBAR_LEADER(grid)) {
        grid->shared[PORTBAR_SHARED_SPLIT] = token;
        grid->shared[PORTBAR_SHARED_TESTS] = 0u;
        if (PORTBAR_LEADS(grid)) {
% if counts_in_slots:
${slots.here("PORTBAR_SLOT_SPLIT", "            ")}\
            (void)(${slots.arrival("token")});
% else:
            const uint before = portbar_word_arrive(grid->state + PORTBAR_STATE_SPLIT);
            portbar_check_arrival(grid, token - before - 1u, grid->num_groups);
% endif
        }
    }
    return token;
}
</%def>
<%def name="wait()">
${defines("portbar_device_barrier_wait")}
/* Second half: waits until every participating work-group has arrived.
   Caller: all work-items of the work-group, in uniform control flow, with the token of their last arrival. Order:
   acquire, device scope. Result: false when the spin limit was reached now or before; valid in every work-item. Cost:
   polls by one work-item, two work-group barriers. */
static inline bool portbar_device_barrier_wait(portbar_grid *grid, portbar_device_token token)
{
    /* Other work-items may still read the answer of an earlier barrier, which a fault overwrites. */
    barrier(CLK_LOCAL_MEM_FENCE);
% if counts_in_slots:
    if (PORTBAR_LEADS(grid)) {
${slots.here("PORTBAR_SLOT_SPLIT", "        ")}\
        if (!portbar_wait_counters(grid, ${counters_given}, token, portbar_missing(grid, ${counters_given}, token)))
            PORTBAR_GIVE_UP(grid);
${slots.acquire("        ")}\
    }
% else:
    volatile global uint *counter = grid->state + PORTBAR_STATE_SPLIT;
    if (PORTBAR_LEADS(grid) && !portbar_wait_counted(grid, counter, token, counter, token))
        grid->shared[PORTBAR_SHARED_OK] = 0u;
% endif
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
    return grid->shared[PORTBAR_SHARED_OK] != 0u;
}
</%def>
<%def name="split_missing()">
${defines("portbar_split_missing")}
/* How many work-groups have not arrived for a token; acquires, device scope, when all have. Caller: a leader. */
static inline uint portbar_split_missing(const portbar_grid *grid, portbar_device_token token)
{
% if counts_in_slots:
${slots.here("PORTBAR_SLOT_SPLIT", "    ")}\
    const uint missing = portbar_missing(grid, ${counters_given}, token);
    if (missing == 0u) {
${slots.acquire("        ")}\
    }
    return missing;
% else:
    /* As in portbar_wait_word: a counter far beyond the token was overwritten. */
    const uint beyond = portbar_word_load_acquire(grid->state + PORTBAR_STATE_SPLIT) - token;
    return beyond < grid->num_groups ? 0u : 0u - beyond;
% endif
}
</%def>
<%def name="test_goes_on()">
${defines("portbar_test_goes_on")}
/* Counts a test that found arrivals missing against the spin limit, ${tests_in_round} of them as a round. False at
   the limit, which it reports. Caller: a leader. */
static inline bool portbar_test_goes_on(const portbar_grid *grid, uint missing)
{
    const uint tests = grid->shared[PORTBAR_SHARED_TESTS] + 1u;
    grid->shared[PORTBAR_SHARED_TESTS] = tests;
    portbar_yield(tests);
% if tests_in_round == 1:
    if (tests < grid->limit)
        return true;
% else:
    if (tests / ${tests_in_round}u < min(grid->limit, 0xffffffffu / ${tests_in_round}u))
        return true;
% endif
    portbar_report_fault(grid->state, grid->epoch, PORTBAR_STATUS_TIMEOUT,
                         grid->num_groups - min(missing, grid->num_groups), grid->group_id, 0u);
    return false;
}
</%def>
<%def name="test_wait()">
${defines("portbar_device_barrier_test_wait")}
/* Whether every participating work-group has arrived, without waiting for them. After true, no wait is needed.
   Caller: all work-items of the work-group, in uniform control flow. Order: acquire, device scope, when true. Result:
   the same in every work-item. True also when the launch is draining after a fault, and when the tests since the
   arrival have used up the spin limit, so that a loop on it ends; the wait or barrier that follows then returns
   false. Cost: a poll, on CPUs up to ${polls_per_round}, and another load, two work-group barriers. */
static inline bool portbar_device_barrier_test_wait(portbar_grid *grid, portbar_device_token token)
{
    /* As in portbar_device_barrier_wait. */
    barrier(CLK_LOCAL_MEM_FENCE);
    if (PORTBAR_LEADER(grid)) {
        bool done = true;
        if (PORTBAR_LEADS(grid)) {
            /* Before the poll, so that both are on their way at once. */
            const uint aborted = portbar_word_load(grid->state + PORTBAR_STATE_ABORT);
            uint missing = portbar_split_missing(grid, token);
% if tests_in_round == 1:
            /* A round of polls takes about as long as the barriers, and makes a test cost what the spin limit counts.
               */
            for (uint i = PORTBAR_POLLS - 1u; i != 0u && missing != 0u; --i)
                missing = portbar_split_missing(grid, token);
% endif
            done = missing == 0u;
            if (!done && ((aborted != 0u && portbar_draining(grid)) || !portbar_test_goes_on(grid, missing))) {
                done = true;
                PORTBAR_GIVE_UP(grid);
            }
        }
        grid->shared[PORTBAR_SHARED_DONE] = done ? 1u : 0u;
    }
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
    return grid->shared[PORTBAR_SHARED_DONE] != 0u;
}
</%def>
