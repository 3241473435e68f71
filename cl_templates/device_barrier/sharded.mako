## -*- coding: utf-8 -*-
## Two counters that only grow, on lines of their own: a work-group arrives at one of them and waits for both.
<%def name="counters()">
${defines("portbar_counters")}
/* The counters of one kind that a barrier counts in. */
typedef struct {
    volatile global uint *first;
    volatile global uint *second;
} portbar_counters;

${defines("portbar_counters_of")}
/* Fills in the counters' words. Caller: a leader. */
static inline void portbar_counters_of(const portbar_grid *grid, uint word, portbar_counters *counters)
{
    const uint first = portbar_unknown(grid->first_slot), second = portbar_unknown(grid->second_slot);
    counters->first = grid->state + first + word;
    counters->second = grid->state + second + word;
}

${defines("portbar_shard_members")}
/* How many work-groups arrive at a counter in each phase. */
static inline uint portbar_shard_members(const portbar_grid *grid, uint shard)
{
    return grid->num_groups / 2u + (shard < grid->num_groups % 2u ? 1u : 0u);
}

${defines("portbar_arrive_counters")}
/* Arrives, release, device scope; returns about how many arrivals the phase lacks then. Caller: a leader. */
static inline uint portbar_arrive_counters(const portbar_grid *grid, const portbar_counters *counters, uint phase)
{
    /* The answer of one counter says little of the other. */
    const uint shard = grid->group_id % 2u;
    const uint before = portbar_word_arrive(shard != 0u ? counters->second : counters->first);
    const uint lacking = phase * portbar_shard_members(grid, shard) - before - 1u;
    portbar_check_arrival(grid, lacking, portbar_shard_members(grid, shard));
    return lacking * 2u | 1u;
}
</%def>
<%def name="missing()">
${defines("portbar_shard_missing")}
/* How many arrivals a counter lacks that `seen` is read from. Groups that have already left may have arrived again;
   beyond that the counter was overwritten, and no group passes. */
static inline uint portbar_shard_missing(const portbar_grid *grid, uint shard, uint seen, uint phase)
{
    const uint beyond = seen - phase * portbar_shard_members(grid, shard);
    return beyond < grid->num_groups ? 0u : min(0u - beyond, 0x7fffffffu);
}

${defines("portbar_missing")}
/* How many arrivals the counters lack for a phase. The loads are all on their way before the first is looked at. */
static inline uint portbar_missing(const portbar_grid *grid, const portbar_counters *counters, uint phase)
{
    const uint first = ${poll}(counters->first);
    const uint second = ${poll}(counters->second);
    return portbar_shard_missing(grid, 0u, first, phase) + portbar_shard_missing(grid, 1u, second, phase);
}
</%def>
<%def name="acquire()">
    portbar_word_acquire(counters->first);
% if not one_way_fences:
    portbar_word_acquire(counters->second);
% endif
</%def>
<%def name="place_round()">
            const uint members = (count + 1u - (id & 1u)) / 2u;
            const uint before = portbar_word_arrive(counter + (id & 1u) * PORTBAR_SLOT_WORDS);
% if holds:
            portbar_hold((round * members - before - 1u) * 2u, count);
% else:
            (void)before;
% endif
## Both loads are on their way together, as at a barrier: one wait after the other finds other slots to be the fastest.
            bool met = false;
            for (uint poll = 0; poll < (${place_polls}) && !met; ++poll) {
                const uint first = portbar_word_load(counter);
                const uint second = portbar_word_load(counter + PORTBAR_SLOT_WORDS);
                met = (int)(first - round * ((count + 1u) / 2u)) >= 0 && (int)(second - round * (count / 2u)) >= 0;
            }
            portbar_word_acquire(counter);
            if (!met)
                return PORTBAR_PLACE_DEFAULT;
</%def>
<%def name="votes()">
${defines("portbar_votes")}
/* The votes of odd or even phases: a work-group arrives at one word, and waits for both. */
typedef struct {
    volatile global ulong *first;
    volatile global ulong *second;
} portbar_votes;

${defines("portbar_votes_of")}
/* Fills in the words. Caller: a leader. */
static inline void portbar_votes_of(const portbar_grid *grid, uint odd, portbar_votes *word)
{
    const uint first = portbar_unknown(grid->first_slot), second = portbar_unknown(grid->second_slot);
    word->first = (volatile global ulong *)(grid->state + first + PORTBAR_SLOT_VOTES) + odd;
    word->second = (volatile global ulong *)(grid->state + second + PORTBAR_SLOT_VOTES) + odd;
}

${defines("portbar_arrive_votes")}
/* Arrives with votes, release, device scope; returns about how many arrivals the phase lacks then. Caller: a leader. */
static inline uint portbar_arrive_votes(const portbar_grid *grid, const portbar_votes *word, ulong mine, uint phases)
{
    const uint shard = grid->group_id % 2u;
    const ulong before = portbar_votes_add(shard != 0u ? word->second : word->first, mine);
    return (phases * portbar_shard_members(grid, shard) - (uint)before - 2u) | 1u;
}

${defines("portbar_votes_seen")}
/* Arrivals in the low half, votes in the high one, of both words; the loads are on their way together. */
static inline ulong portbar_votes_seen(const portbar_votes *word)
{
    const ulong first = portbar_votes_load(word->first);
    const ulong second = portbar_votes_load(word->second);
    return ((ulong)((uint)(first >> 32) + (uint)(second >> 32)) << 32) | ((uint)first + (uint)second);
}

${defines("portbar_votes_carried")}
/* How many words' arrivals have wrapped in a phase. */
static inline uint portbar_votes_carried(const portbar_grid *grid, uint phases)
{
    uint carried = 0u;
    for (uint shard = 0; shard < 2u; ++shard) {
        const uint members = portbar_shard_members(grid, shard);
        carried += phases * members < 2u * members ? 1u : 0u;
    }
    return carried;
}
</%def>
<%def name="votes_seen()" filter="trim">
portbar_votes_seen(word)
</%def>
<%def name="votes_carried()" filter="trim">
portbar_votes_carried(grid, phases)
</%def>
