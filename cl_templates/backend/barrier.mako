## -*- coding: utf-8 -*-
## What barriers between work-groups need of a device beside words, as it is done wherever the backend's own
## template does not define it.
<%def name="word_acquire()">
${defines("portbar_word_acquire")}
/* Acquire, device scope, from the release of the value that a relaxed load of `*p` has returned. Cost: one load. */
#define portbar_word_acquire(p) ((void)portbar_word_load_acquire(p))
</%def>
<%def name="word_arrive()">
${defines("portbar_word_arrive")}
/* One more arrival at a counter, release, device scope; returns how many there were before. Caller: a leader. */
#define portbar_word_arrive(p) portbar_word_add_release(p, 1u)
</%def>
<%def name="word_poll()">
${defines("portbar_word_poll")}
/* Volatile load for polls: atomic loads write on this device. An acquire is due once the awaited value is there. */
#define portbar_word_poll(p) (*(p))
</%def>
<%def name="rolled()">
% if rolled_polls:
${defines("PORTBAR_ROLLED")}
/* Rounds that the compiler cannot know, since no spin limit is that large: unrolled, polls fill caches. */
#define PORTBAR_ROLLED(count, limit) ((count) + ((limit) == 0xffffffffu ? 1u : 0u))
% else:
${defines("PORTBAR_ROLLED")}
/* A number of rounds; on devices whose compiler unrolls loops of polls, one that it cannot know. */
#define PORTBAR_ROLLED(count, limit) (count)
% endif
</%def>
<%def name="unknown()">
${defines("portbar_unknown")}
/* The same number; where registers are short, one that the compiler works out anew at each use. */
#define portbar_unknown(number) (number)
</%def>
<%def name="leads()">
${defines("PORTBAR_LEADS", "PORTBAR_GIVE_UP")}
/* Whether the caller talks to other work-groups, in a launch that is not draining; and the end of that for its group.
   */
#define PORTBAR_LEADS(grid) (PORTBAR_LEADER(grid) && (grid)->shared[PORTBAR_SHARED_OK] != 0u)
#define PORTBAR_GIVE_UP(grid) ((grid)->shared[PORTBAR_SHARED_OK] = 0u)
</%def>
<%def name="check_arrival()">
${defines("portbar_check_arrival")}
/* Reports to the host if a counter lacks more arrivals than its `members` can account for. Caller: a leader. */
static inline void portbar_check_arrival(const portbar_grid *grid, uint lacking, uint members)
{
    if (lacking >= members)
        portbar_report_fault(grid->state, grid->epoch, PORTBAR_STATUS_OVERWRITTEN, 0u, grid->group_id, 0u);
}
</%def>
<%def name="arrive_at_both()">
${defines("portbar_arrive_at_both")}
/* An arrival at each of two counters, which then lack no more than `complete` says. Caller: a leader. */
static inline void portbar_arrive_at_both(const portbar_grid *grid, volatile global uint *p, volatile global uint *q,
                                          uint complete)
{
    portbar_check_arrival(grid, complete - portbar_word_arrive(p) - 1u, grid->num_groups);
    /* Each other group may have been at `q` once more, those of the same parity, which wait for `p`, also once less. */
    const uint groups = grid->num_groups, others = (groups + 1u - (grid->group_id & 1u)) / 2u - 1u;
    portbar_check_arrival(grid, complete + groups - portbar_word_arrive(q) - 2u, 2u * groups + others - 1u);
}
</%def>
<%def name="phase_before_barrier()"></%def>
<%def name="phase_after_barrier()">
        /* Not before: some compilers lose private values at barriers, as they do ids (the effect IDS_LOST). */
        const uint phase = grid->shared[PORTBAR_SHARED_TARGET] + 1u;
</%def>
<%def name="first_polls_of_votes()"></%def>
<%def name="first_polls_of_word()"></%def>
<%def name="first_polls_of_counters()"></%def>
<%def name="remember_held()"></%def>
<%def name="grid_fields()"></%def>
<%def name="enter_first()"></%def>
<%def name="enter_beyond()"></%def>
<%def name="enter_shared()"></%def>
<%def name="enter_last()"></%def>
<%def name="leader()">
${group()}
/* Whether the caller talks to the other groups, and its number in its group. */
${defines("PORTBAR_LEADER")}
#define PORTBAR_LEADER(grid) portbar_is_leader()
${defines("PORTBAR_ITEM")}
#define PORTBAR_ITEM(grid) portbar_local_linear_id()
${end()}
</%def>
<%def name="yield_processor()">
${defines("portbar_yield")}
#ifndef PORTBAR_YIELD
#define PORTBAR_YIELD
/* Called after each round of polls; gives the processor to another work-group where those are threads of the host. */
#define portbar_yield(round) ((void)(round))
#endif
</%def>
