## -*- coding: utf-8 -*-
## The one bounded wait that every barrier algorithm uses.
<%!
    def by_groups(table):
        """The number that a table of (most groups, number) has for `groups`, as an expression."""
        return "".join(f"groups <= {most}u ? {number}u : " for most, number in table[:-1]) + f"{table[-1][1]}u"
%>
<%def name="hold()">
/* Waits before a work-group's first poll while other arrivals are on their way: sixteenths of a cycle for each missing
   group, as measured on an H200. Caller: a waiting leader. */
static inline void portbar_hold(uint missing, uint groups)
{
    const uint each = ${by_groups(hold_table)};
    if (each == 0u)
        return;
    portbar_spin(min(missing, groups) * each / 16u);
}
</%def>
<%def name="hold_all()">
/* Waits before a work-group's first poll as long as all arrivals take that come at once, as measured on an H200.
   Caller: a waiting leader. */
static inline void portbar_hold(uint missing, uint groups)
{
    (void)missing;
    portbar_spin(${by_groups(first_poll)});
}
</%def>
<%def name="spin()">
/* Lets some cycles of the device's clock pass, and nothing else. Any work-item. */
static inline void portbar_spin(uint cycles)
{
    const uint begin = portbar_clock();
    while (portbar_clock() - begin < cycles)
        ;
}
</%def>
<%def name="draining()">
/* Whether all groups are to leave, since the abort flag is set; reports a flag from elsewhere. Caller: a leader. */
static inline bool portbar_draining(const portbar_grid *grid)
{
    if (portbar_word_load(grid->state + PORTBAR_STATE_ABORT) == 0u)
        return false;
    portbar_report_fault(grid->state, grid->epoch, PORTBAR_STATUS_OVERWRITTEN, 0u, grid->group_id);
    return true;
}
</%def>
<%def name="time_out()">
/* Tells the host that a wait reached the limit while so many groups were missing. Caller: a leader. */
#define portbar_time_out(grid, missing) <%text>\</%text>
    portbar_report_fault((grid)->state, (grid)->epoch, PORTBAR_STATUS_TIMEOUT, <%text>\</%text>
                         (grid)->num_groups - min(missing, (grid)->num_groups), (grid)->group_id)
</%def>
<%def name="wait_word()">
/* Polls `word` until it has come to `target` (modulo 2^32), and not further than other groups can have taken it, at
   most `limit` rounds; acquire. Result: PORTBAR_WAIT_REACHED, PORTBAR_WAIT_DRAIN when another group reported a fault,
   PORTBAR_WAIT_LIMIT when this one should. Caller: a leader. */
static inline uint portbar_wait_word(const portbar_grid *grid, volatile global uint *word, uint target)
{
${own("first_polls_of_word")}\
    for (uint round = 0; round < grid->limit; ++round) {
        bool reached = false;
% if pauses:
        /* A poll with a pause takes as long as many without, and the limit counts rounds. */
% endif
        for (uint i = PORTBAR_ROLLED(${polls_in_wait}u, grid->limit); i != 0u && !reached; --i) {
            const uint seen = ${poll}(word);
            reached = seen - target < grid->num_groups;
% if pauses:
            if (!reached)
                portbar_relax(target - seen);
% endif
% if rest_ns:
            if (!reached)
                portbar_sleep(${rest_ns}u);
% endif
        }
        if (reached) {
% if not acquire_polls:
            portbar_word_acquire(word);
% endif
            return PORTBAR_WAIT_REACHED;
        }
        if (portbar_draining(grid))
            return PORTBAR_WAIT_DRAIN;
        portbar_yield(round);
    }
    return PORTBAR_WAIT_LIMIT;
}
</%def>
<%def name="wait_counted()">
/* Waits until `word` has come to `target`, and reports at the limit how many groups had arrived: those that `arrivals`
   is not short of `complete`. True when it has. Caller: a leader. */
static inline bool portbar_wait_counted(const portbar_grid *grid, volatile global uint *word, uint target,
                                        volatile global uint *arrivals, uint complete)
{
    const uint outcome = portbar_wait_word(grid, word, target);
    if (outcome == PORTBAR_WAIT_LIMIT)
        portbar_time_out(grid, complete - portbar_word_load(arrivals));
    return outcome == PORTBAR_WAIT_REACHED;
}
</%def>
