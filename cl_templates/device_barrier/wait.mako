## -*- coding: utf-8 -*-
## The one bounded wait that every barrier algorithm uses.
<%def name="relax()">
/* Pause between two rounds of polls, so that those who still work are not slowed down. Caller: a waiting leader. */
static inline void portbar_relax(uint missing)
{
% if pause == "nanosleep":
    if (missing > ${sleep_above}u) {
        const uint nanoseconds = min(missing / ${sleep_divisor}u, ${sleep_ns}u);
        __asm__ volatile("nanosleep.u32 %0;" :: "r"(nanoseconds));
    }
% elif pause == "x86_pause":
    (void)missing;
    __asm__ volatile("pause" ::: "memory");
% else:
    (void)missing;
% endif
}
</%def>
<%def name="hold()">
% if hold_table:
/* Lets some cycles of the device's clock pass, and nothing else. Any work-item. */
static inline void portbar_spin(uint cycles)
{
    uint begin, now;
    __asm__ volatile("mov.u32 %0, %%clock;" : "=r"(begin) :: "memory");
    do {
        __asm__ volatile("mov.u32 %0, %%clock;" : "=r"(now) :: "memory");
    } while (now - begin < cycles);
}

% endif
/* What a work-group that has just arrived waits before its first poll, so that polls do not hold up the arrivals that are still on
   their way: about as long as those take. Caller: a waiting leader. */
static inline void portbar_hold(uint missing, uint groups)
{
% if replicated and first_poll:
    /* As long as all arrivals take where everybody comes at once, as measured on an H200. Nothing has told how many are missing. */
    (void)missing;
    portbar_spin(${"".join(f"groups <= {most}u ? {cycles}u : " for most, cycles in first_poll[:-1])}${first_poll[-1][1]}u);
% elif hold_table:
    /* Sixteenths of a cycle for each group that is missing, as measured on an H200: the more groups there are, the longer each arrival
       waits for those before it. */
    const uint each = ${"".join(f"groups <= {most}u ? {each}u : " for most, each in hold_table[:-1])}${hold_table[-1][1]}u;
    if (each == 0u)
        return;
    portbar_spin(min(missing, groups) * each / 16u);
% else:
    (void)missing;
    (void)groups;
% endif
}
</%def>
<%def name="rest()">
% if rest_ns:
/* Pause between polls of a wait that is already long: it may end a little later, and those who still work get on. Caller: a waiting
   leader. */
static inline void portbar_rest(void)
{
    const uint nanoseconds = ${rest_ns}u;
    __asm__ volatile("nanosleep.u32 %0;" :: "r"(nanoseconds));
}
% endif
</%def>
<%def name="draining()">
/* Whether all groups are to leave, since the abort flag is set; the launch's report then says so, whoever set it. Caller: a leader. */
static inline bool portbar_draining(const portbar_grid *grid)
{
    if (portbar_word_load(grid->state + PORTBAR_STATE_ABORT) == 0u)
        return false;
    portbar_report_fault(grid->state, grid->epoch, PORTBAR_STATUS_OVERWRITTEN, 0u, grid->group_id);
    return true;
}
</%def>
<%def name="check_arrival()">
% if checks_arrivals:
/* Tells the host if a counter cannot have come from the groups' arrivals: after the caller's the phase lacks fewer than the `members` that
   arrive there, and never more have come than that. Caller: a leader. */
static inline void portbar_check_arrival(const portbar_grid *grid, uint lacking, uint members)
{
    if (lacking >= members)
        portbar_report_fault(grid->state, grid->epoch, PORTBAR_STATUS_OVERWRITTEN, 0u, grid->group_id);
}
% endif
</%def>
<%def name="wait_word()">
/* Polls `word` until it has come to `target` (modulo 2^32) and not further than other groups can have taken it, at most `limit`
   rounds. Acquire order: by every poll where
   that costs nothing, else by relaxed polls and one acquire load at the end. Result: PORTBAR_WAIT_REACHED, PORTBAR_WAIT_DRAIN
   when another group reported a fault, PORTBAR_WAIT_LIMIT when this one should. Caller: a leader. */
static inline uint portbar_wait_word(const portbar_grid *grid, volatile global uint *word, uint target)
{
% if in_registers and pause == "none":
    /* Most waits end here, in the fewest instructions from poll to poll. */
    for (uint polls = PORTBAR_ROLLED(PORTBAR_POLLS, grid->limit); polls != 0u; --polls)
        if (portbar_word_load(word) - target < grid->num_groups) {
            portbar_word_acquire(word);
            return PORTBAR_WAIT_REACHED;
        }
% endif
    for (uint round = 0; round < grid->limit; ++round) {
        bool reached = false;
% if pause != "none":
        /* A poll with a pause takes as long as many without, and the limit counts rounds. */
% endif
        for (uint i = PORTBAR_ROLLED(${polls_in_wait}u, grid->limit); i != 0u && !reached; --i) {
            const uint seen = ${"portbar_word_load_acquire" if acquire_polls else "portbar_word_load"}(word);
            reached = seen - target < grid->num_groups;
% if pause != "none":
            if (!reached)
                portbar_relax(target - seen);
% endif
% if rest_ns:
            if (!reached)
                portbar_rest();
% endif
        }
% if acquire_polls:
        if (reached)
            return PORTBAR_WAIT_REACHED;
% else:
        if (reached) {
            portbar_word_acquire(word);
            return PORTBAR_WAIT_REACHED;
        }
% endif
        if (portbar_draining(grid))
            return PORTBAR_WAIT_DRAIN;
        portbar_yield(round);
    }
    return PORTBAR_WAIT_LIMIT;
}
</%def>
<%def name="wait_counted()">
/* Waits for a counter of arrivals, or for what follows from it, and reports how many groups had arrived when it gave up: those
   that `arrivals` is not short of `complete`. True when `word` came to `target`. Caller: a leader. */
static inline bool portbar_wait_counted(const portbar_grid *grid, volatile global uint *word, uint target,
                                        volatile global uint *arrivals, uint complete)
{
    const uint outcome = portbar_wait_word(grid, word, target);
    if (outcome == PORTBAR_WAIT_LIMIT) {
        const uint missing = min(complete - portbar_word_load(arrivals), grid->num_groups);
        portbar_report_fault(grid->state, grid->epoch, PORTBAR_STATUS_TIMEOUT, grid->num_groups - missing, grid->group_id);
    }
    return outcome == PORTBAR_WAIT_REACHED;
}
</%def>
