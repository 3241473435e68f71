## -*- coding: utf-8 -*-
## The one bounded wait that every barrier algorithm uses.
<%!
    def by_groups(table):
        """The number that a table of (most groups, number) has for `groups`, as an expression."""
        return "".join(f"groups <= {most}u ? {number}u : " for most, number in table[:-1]) + f"{table[-1][1]}u"
%>
<%def name="hold()">
${defines("portbar_hold")}
/* Waits before a work-group's first poll while other arrivals are on their way: sixteenths of a cycle for each missing
   group, as measured on an H200. Caller: a waiting leader. */
static inline void portbar_hold(uint missing, uint groups)
{
    const uint each = ${by_groups(hold_table)};
    if (each == 0u)
        return;
    const uint cycles = min(missing, groups) * each / 16u, begin = portbar_clock();
    while (portbar_clock() - begin < cycles)
        ;
}
</%def>
<%def name="hold_all()">
${defines("portbar_hold")}
/* Waits before a work-group's first poll as long as all arrivals take that come at once, as measured on an H200.
   Caller: a waiting leader. */
static inline void portbar_hold(uint missing, uint groups)
{
    (void)missing;
    const uint cycles = ${by_groups(first_poll)};
    const uint begin = portbar_clock();
    while (portbar_clock() - begin < cycles)
        ;
}
</%def>
<%def name="draining()">
${defines("portbar_draining")}
/* Whether all groups are to leave, since the abort flag is set; reports a flag from elsewhere. Caller: a leader. */
static inline bool portbar_draining(const portbar_grid *grid)
{
    if (${relaxed_poll}(grid->state + PORTBAR_STATE_ABORT) == 0u)
        return false;
    portbar_report_fault(grid->state, grid->epoch, PORTBAR_STATUS_OVERWRITTEN, 0u, grid->group_id, 0u);
    return true;
}
</%def>
<%def name="wait_word()">
${defines("portbar_wait_word")}
/* Polls `word` until it has come to `target` (modulo 2^32), and not further than other groups can have taken it, at
   most `limit` rounds; acquire. Result: PORTBAR_WAIT_REACHED, PORTBAR_WAIT_DRAIN when another group reported a fault,
   PORTBAR_WAIT_LIMIT when this one should. Caller: a leader. */
${leading} uint portbar_wait_word(const portbar_grid *grid, volatile global uint *word, uint target)
{
${polls("PORTBAR_WAIT_REACHED")}\
        if (portbar_draining(grid))
            return PORTBAR_WAIT_DRAIN;
        portbar_yield(round);
    }
    return PORTBAR_WAIT_LIMIT;
}
</%def>
<%def name="polls(reached, goes_on='')">\
${own("first_polls_of_word", reached=reached)}\
    for (uint round = 0; round < grid->limit${goes_on}; ++round) {
        bool reached = false;
% if pauses:
        /* The limit counts rounds, which take as long with pauses as without. */
% endif
% if not pauses and not rest_ns:
        for (uint i = PORTBAR_ROLLED(${polls_in_wait}u, grid->limit); i != 0u && !reached; --i)
            reached = ${poll}(word) - target < grid->num_groups;
% else:
        for (uint i = PORTBAR_ROLLED(${polls_in_wait}u, grid->limit); i != 0u && !reached; --i) {
            const uint seen = ${poll}(word);
            reached = seen - target < grid->num_groups;
% if pauses:
            if (!reached)
                i -= min(i - 1u, portbar_relax(target - seen));
% endif
% if rest_ns:
            if (!reached)
                portbar_sleep(${rest_ns}u);
% endif
        }
% endif
% if acquire_polls:
        if (reached)
            return ${reached};
% else:
        if (reached) {
            portbar_word_acquire(word);
            return ${reached};
        }
% endif
</%def>
<%def name="wait_counted()">
% if leads_apart:
${defines("portbar_wait_on")}
/* portbar_wait_counted after its first polls. */
% else:
${defines("portbar_wait_counted")}
${wait_counted_comment()}\
% endif
${leading} bool ${"portbar_wait_on" if leads_apart else "portbar_wait_counted"}(
    const portbar_grid *grid, volatile global uint *word, uint target, volatile global uint *arrivals, uint complete)
{
    uint status = PORTBAR_STATUS_TIMEOUT;
${polls("true", " && status == PORTBAR_STATUS_TIMEOUT")}\
        if (${relaxed_poll}(grid->state + PORTBAR_STATE_ABORT) != 0u)
            status = PORTBAR_STATUS_OVERWRITTEN;
        portbar_yield(round);
    }
    const uint beyond = portbar_word_load(arrivals) - complete;
    const uint missing = beyond < grid->num_groups ? 0u : min(0u - beyond, grid->num_groups);
    portbar_report_fault(grid->state, grid->epoch, status, grid->num_groups - missing, grid->group_id, 0u);
    return false;
}
% if leads_apart:

${defines("portbar_wait_counted")}
${wait_counted_comment()}\
static inline bool portbar_wait_counted(
    const portbar_grid *grid, volatile global uint *word, uint target, volatile global uint *arrivals, uint complete)
{
    % if acquire_polls:
    /* The first polls are here: a wait that soon ends needs no call. */
    if (${poll}(word) - target < grid->num_groups
    % for _ in range(5):
        || ${poll}(word) - target < grid->num_groups
    % endfor
    )
        return true;
    % endif
    return portbar_wait_on(grid, word, target, arrivals, complete);
}
% endif
</%def>
<%def name="wait_counted_comment()">\
/* Polls `word` until it has come to `target` (modulo 2^32), and no further than other groups can take it; acquire.
   False at the limit, with a report of the groups that `arrivals` is not short of `complete`. Caller: a leader. */
</%def>
