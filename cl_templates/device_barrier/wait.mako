## -*- coding: utf-8 -*-
## The one bounded wait that every barrier algorithm uses.
<%def name="relax()">
/* Pause between two rounds of polls, so that those who still work are not slowed down. Caller: a waiting leader. */
static inline void portbar_relax(uint missing)
{
% if relax == "nanosleep":
    if (missing > ${sleep_above}u) {
        const uint nanoseconds = ${sleep_ns}u;
        __asm__ volatile("nanosleep.u32 %0;" :: "r"(nanoseconds));
    }
% elif relax == "x86_pause":
    (void)missing;
    __asm__ volatile("pause" ::: "memory");
% else:
    (void)missing;
% endif
}
</%def>
<%def name="wait_word()">
/* Polls `word` until it has come to `target` (modulo 2^32), at most `limit` rounds. Acquire order: by every poll where
   that costs nothing, else by relaxed polls and one acquire load at the end. False when the limit was reached, or when another group reported a fault; then `arrivals`, which counts groups up to
   `complete`, tells how many had arrived (a null pointer where nothing does). Caller: a leader. */
static inline bool portbar_wait_word(const portbar_grid *grid, volatile global uint *word, uint target,
                                     volatile global uint *arrivals, uint complete)
{
    uint seen = 0u;
    for (uint round = 0; round < grid->limit; ++round) {
        bool reached = false;
        for (uint i = 0; i < PORTBAR_POLLS && !reached; ++i) {
            seen = ${"portbar_word_load_acquire" if acquire_polls else "portbar_word_load"}(word);
            reached = (int)(seen - target) >= 0;
% if relax != "none":
            if (!reached)
                portbar_relax(target - seen);
% endif
        }
% if acquire_polls:
        if (reached)
            return true;
% else:
        if (reached) {
            (void)portbar_word_load_acquire(word);
            return true;
        }
% endif
        if (portbar_word_load(grid->state + PORTBAR_STATE_ABORT) != 0u)
            return false;
        portbar_yield(round);
    }
    uint arrived = PORTBAR_SURPLUS;
    if (arrivals != 0)
        arrived = grid->num_groups - min(complete - portbar_word_load(arrivals), grid->num_groups);
    portbar_report_fault(grid->state, grid->epoch, PORTBAR_STATUS_TIMEOUT, arrived, grid->group_id);
    return false;
}
</%def>
