## -*- coding: utf-8 -*-
## Two counters that only grow, on lines of their own: a work-group arrives at both and waits for one.
<%def name="counters()">
${defines("portbar_counters")}
/* The counters of one kind: a work-group waits for its own, and arrives at both. */
typedef struct {
    volatile global uint *own;
    volatile global uint *other;
} portbar_counters;

${defines("portbar_counters_of")}
/* Fills in the counters' words. Caller: a leader. */
static inline void portbar_counters_of(const portbar_grid *grid, uint word, portbar_counters *counters)
{
    const bool odd = (grid->group_id & 1u) != 0u;
    const uint own = portbar_unknown(odd ? grid->second_slot : grid->first_slot);
    const uint other = portbar_unknown(odd ? grid->first_slot : grid->second_slot);
    counters->own = grid->state + own + word;
    counters->other = grid->state + other + word;
}

${defines("portbar_arrive_counters")}
/* Arrives, release, device scope; returns how many arrivals the phase may lack then. Caller: a leader. */
static inline uint portbar_arrive_counters(const portbar_grid *grid, const portbar_counters *counters, uint phase)
{
    portbar_arrive_at_both(grid, counters->own, counters->other, phase * grid->num_groups);
    return grid->num_groups;
}
</%def>
<%def name="missing()">
${defines("portbar_missing")}
/* How many arrivals the work-group's counter lacks for a phase. */
static inline uint portbar_missing(const portbar_grid *grid, const portbar_counters *counters, uint phase)
{
    /* As for one counter. */
    const uint beyond = ${poll}(counters->own) - phase * grid->num_groups;
    return beyond < grid->num_groups ? 0u : 0u - beyond;
}
</%def>
<%def name="acquire()">
    portbar_word_acquire(counters->own);
</%def>
<%def name="place_round()">
            portbar_word_arrive_twice(counter, counter + PORTBAR_SLOT_WORDS);
% if holds:
            portbar_hold(count, count);
% endif
            if (!portbar_place_wait(counter + (id & 1u) * PORTBAR_SLOT_WORDS, round * count))
                return PORTBAR_PLACE_DEFAULT;
</%def>
<%def name="votes()">
${defines("portbar_votes")}
/* The votes of odd or even phases: a work-group waits for its own word, and arrives at both. */
typedef struct {
    volatile global ulong *first;
    volatile global ulong *second;
} portbar_votes;

${defines("portbar_votes_of")}
/* Fills in the words. Caller: a leader. */
static inline void portbar_votes_of(const portbar_grid *grid, uint odd, portbar_votes *word)
{
    const bool other = (grid->group_id & 1u) != 0u;
    const uint first = portbar_unknown(other ? grid->second_slot : grid->first_slot);
    const uint second = portbar_unknown(other ? grid->first_slot : grid->second_slot);
    word->first = (volatile global ulong *)(grid->state + first + PORTBAR_SLOT_VOTES) + odd;
    word->second = (volatile global ulong *)(grid->state + second + PORTBAR_SLOT_VOTES) + odd;
}

${defines("portbar_arrive_votes")}
/* Arrives with votes, release, device scope; returns how many arrivals the phase may lack then. Caller: a leader. */
static inline uint portbar_arrive_votes(const portbar_grid *grid, const portbar_votes *word, ulong mine, uint phases)
{
    portbar_votes_add_twice(word->first, word->second, mine);
    (void)phases;
    return grid->num_groups;
}
</%def>
<%def name="votes_seen()" filter="trim">
portbar_votes_load(word->first)
</%def>
<%def name="votes_carried()" filter="trim">
target < 2u * grid->num_groups ? 1u : 0u
</%def>
