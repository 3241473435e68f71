## -*- coding: utf-8 -*-
## Votes that travel with the arrivals at a device barrier, in words of their own, whatever algorithm the barrier uses.
<%namespace name="atomics" file="${context['backend']}"/>\
<%def name="vote_words()">
% if votes_wide:
/* A word of votes has arrivals in its low half and votes in its high half. Relaxed store, device scope. */
static inline void portbar_votes_store(volatile global ulong *p, ulong v)
{
${atomics.operation("store", "ulong", "global", "relaxed")}\
}

/* Release fetch-and-add, device scope; returns the old value. */
static inline ulong portbar_votes_add(volatile global ulong *p, ulong v)
{
${atomics.operation("add", "ulong", "global", "release")}\
}

/* ${"Acquire" if acquire_polls else "Relaxed"} load, device scope. */
static inline ulong portbar_votes_load(volatile global ulong *p)
{
${atomics.operation("load", "ulong", "global", "acquire" if acquire_polls else "relaxed")}\
}
% if not acquire_polls and not one_way_fences:

/* Acquire load, device scope. */
static inline ulong portbar_votes_load_acquire(volatile global ulong *p)
{
${atomics.operation("load", "ulong", "global", "acquire")}\
}
% endif

% endif
/* Sets both words of votes. Caller: as for portbar_state_prepare. */
static inline void portbar_votes_prepare(volatile global uint *words)
{
% if votes_wide:
    portbar_votes_store((volatile global ulong *)words, 0ul);
    portbar_votes_store((volatile global ulong *)words + 1, 0ul);
% else:
    for (uint word = 0; word < 4u; ++word)
        portbar_word_store(words + word, 0u);
% endif
}
</%def>
<%def name="local_words()">
/* Relaxed store to a word of local memory, which may be one of several. */
static inline void portbar_local_store(volatile local uint *p, uint v)
{
${atomics.operation("store", "uint", "local", "relaxed")}\
}

/* Relaxed fetch-and-add on a word of local memory; returns the old value. */
static inline uint portbar_local_add(volatile local uint *p, uint v)
{
${atomics.operation("add", "uint", "local", "relaxed")}\
}
</%def>
<%def name="wait_votes()">
/* Polls a word of votes until all work-groups have arrived, at most `limit` rounds; returns what it saw last. At the
   limit it reports how many have arrived. ${"Acquire" if acquire_polls else "An acquire is due"}. Caller: a leader. */
static inline ${vote_type} portbar_wait_votes(const portbar_grid *grid, volatile global ${vote_type} *word,
                                        uint target)
{
    ${vote_type} seen = ${vote_poll}(word);
${own("first_polls_of_votes")}\
    for (uint round = 0; round < grid->limit; ++round) {
% if pauses:
        /* The limit counts rounds, which take as long with pauses as without. */
% endif
        for (uint i = PORTBAR_ROLLED(${polls_in_wait}u, grid->limit); i != 0u && (uint)seen != target; --i) {
% if rest_ns:
            portbar_sleep(${rest_ns}u);
% elif pauses:
            i -= min(i - 1u, portbar_relax((target - (uint)seen) / 2u));
% endif
            seen = ${vote_poll}(word);
        }
        if ((uint)seen == target || portbar_draining(grid))
            return seen;
        portbar_yield(round);
    }
    portbar_report_fault(grid->state, grid->epoch, PORTBAR_STATUS_TIMEOUT,
                         grid->num_groups - min((target - (uint)seen) / 2u, grid->num_groups), grid->group_id);
    return seen;
}
</%def>
<%def name="meet_votes()">
/* Arrives with the votes of a work-group, waits for those of all, and leaves their sum in local memory; release and
   acquire, device scope. Two words take turns, and only grow: no group comes to a word again before all have read it.
   Caller: a leader. */
static inline void portbar_meet_votes(portbar_grid *grid, uint phase, uint votes)
{
    /* A word has every second phase, so each arrival counts for two: numbers of phases may wrap. */
    const uint odd = phase & 1u, target = (phase + odd) * grid->num_groups;
    /* Asked for before the way to memory, which hides it. */
    const uint before = grid->shared[PORTBAR_SHARED_VOTES_BEFORE + odd];
% if counts_in_slots:
    volatile global uint *words = grid->state + portbar_unknown(grid->first_slot) + PORTBAR_SLOT_VOTES;
% else:
    volatile global uint *words = grid->state + PORTBAR_STATE_VOTES;
% endif
% if votes_wide:
    volatile global ulong *word = (volatile global ulong *)words + odd;
    const ulong mine = (ulong)votes << 32 | 2ul;
    ulong seen = portbar_votes_add(word, mine) + mine;
% else:
    volatile global uint *word = words + 2u * odd;
    /* The arrival releases it. */
    if (votes != 0u)
        (void)portbar_word_add_relaxed(word + 1, votes);
    uint seen = portbar_word_add_release(word, 2u) + 2u;
% endif
    grid->shared[PORTBAR_SHARED_VOTE_PHASE] = phase;
    const uint lacking = (target - (uint)seen) / 2u;
    portbar_check_arrival(grid, lacking, grid->num_groups);
% if acquire_polls:
    seen = portbar_wait_votes(grid, word, target);
% else:
    if (lacking != 0u) {
% if votes_hold:
        portbar_hold(lacking, grid->num_groups);
% endif
        seen = portbar_wait_votes(grid, word, target);
    }
% endif
    if ((uint)seen != target) {
        PORTBAR_GIVE_UP(grid);
        return;
    }
% if not acquire_polls:
% if not votes_wide or one_way_fences:
    portbar_word_acquire(${"words" if votes_wide else "word"});
% else:
    (void)portbar_votes_load_acquire(word);
% endif
% endif
% if votes_wide:
    /* Arrivals that wrap in this phase carry one. */
    const uint sum = (uint)(seen >> 32), carried = target < 2u * grid->num_groups ? 1u : 0u;
    grid->shared[PORTBAR_SHARED_VOTED] = sum - carried - before;
% else:
    const uint sum = portbar_word_load(word + 1);
    grid->shared[PORTBAR_SHARED_VOTED] = sum - before;
% endif
    grid->shared[PORTBAR_SHARED_VOTES_BEFORE + odd] = sum;
}
</%def>
<%def name="barrier_of_votes(joined)">\
${own(joined)}\
    if (PORTBAR_LEADS(grid)) {
${own("votes_after_barrier")}\
        portbar_meet_votes(grid, phase, votes);
    }
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
</%def>
<%def name="count()">
/* A device barrier that counts votes: how many work-items of all participating work-groups call it with true. Caller
   and order: as for portbar_device_barrier. Result: valid in every work-item, the same in all; 0 when the spin limit
   was reached, now or before. Cost: one device barrier by one counter; the votes travel with the arrivals. */
static inline uint portbar_device_barrier_count(portbar_grid *grid, bool vote)
{
${barrier_of_votes("join_count")}\
    return grid->shared[PORTBAR_SHARED_OK] != 0u ? grid->shared[PORTBAR_SHARED_VOTED] : 0u;
}
</%def>
<%def name="any()">
/* A device barrier that tells whether any work-item of the participating work-groups calls it with true. Caller, order
   and cost: as for portbar_device_barrier_count. Result: valid in every work-item, the same in all; false when the spin
   limit was reached, now or before, so that a loop on it ends. */
static inline bool portbar_device_barrier_any(portbar_grid *grid, bool vote)
{
${barrier_of_votes("join_any")}\
    return grid->shared[PORTBAR_SHARED_OK] != 0u && grid->shared[PORTBAR_SHARED_VOTED] != 0u;
}
</%def>
<%def name="all()">
/* A device barrier that tells whether all work-items of the participating work-groups call it with true. Caller, order
   and cost: as for portbar_device_barrier_count. Result: valid in every work-item, the same in all; true when the spin
   limit was reached, now or before, so that a loop until then ends. */
static inline bool portbar_device_barrier_all(portbar_grid *grid, bool vote)
{
    return !portbar_device_barrier_any(grid, !vote);
}
</%def>
