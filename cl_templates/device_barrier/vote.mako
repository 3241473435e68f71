## -*- coding: utf-8 -*-
## Votes that travel with the arrivals at a device barrier, in words of their own: in as many counters as the algorithm
## has where these are in slots and one addition counts arrivals and votes, otherwise in one.
<%namespace name="atomics" file="${context['backend']}"/>\
<%def name="vote_words()">
% if votes_wide:
${defines("portbar_votes_store")}
/* A word of votes has arrivals in its low half and votes in its high half. Relaxed store, device scope. */
static inline void portbar_votes_store(volatile global ulong *p, ulong v)
{
${atomics.operation("store", "ulong", "global", "relaxed")}\
}

${defines("portbar_votes_add")}
/* Release fetch-and-add, device scope; returns the old value. */
static inline ulong portbar_votes_add(volatile global ulong *p, ulong v)
{
${atomics.operation("add", "ulong", "global", "release")}\
}

${defines("portbar_votes_load")}
/* ${"Acquire" if acquire_polls else "Relaxed"} load, device scope. */
static inline ulong portbar_votes_load(volatile global ulong *p)
{
${atomics.operation("load", "ulong", "global", "acquire" if acquire_polls else "relaxed")}\
}
% if not acquire_polls and not one_way_fences:

${defines("portbar_votes_load_acquire")}
/* Acquire load, device scope. */
static inline ulong portbar_votes_load_acquire(volatile global ulong *p)
{
${atomics.operation("load", "ulong", "global", "acquire")}\
}
% endif

% endif
${defines("portbar_votes_prepare")}
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
${defines("portbar_local_store")}
/* Relaxed store to a word of local memory, which may be one of several. */
static inline void portbar_local_store(volatile local uint *p, uint v)
{
${atomics.operation("store", "uint", "local", "relaxed")}\
}

${defines("portbar_local_add")}
/* Relaxed fetch-and-add on a word of local memory; returns the old value. */
static inline uint portbar_local_add(volatile local uint *p, uint v)
{
${atomics.operation("add", "uint", "local", "relaxed")}\
}
</%def>
<%def name="wait_votes()">
${defines("portbar_wait_votes")}
/* Polls the votes until all work-groups have arrived, at most `limit` rounds; returns what it saw last. At the limit it
   reports how many have arrived. ${"Acquire" if acquire_polls else "An acquire is due"}. Caller: a leader. */
${leading} ${vote_type} portbar_wait_votes(const portbar_grid *grid, ${votes_type}, uint target)
{
    ${vote_type} seen = ${look_at_votes};
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
            seen = ${look_at_votes};
        }
        if ((uint)seen == target || portbar_draining(grid))
            return seen;
        portbar_yield(round);
    }
    portbar_report_fault(grid->state, grid->epoch, PORTBAR_STATUS_TIMEOUT,
                         grid->num_groups - min((target - (uint)seen) / 2u, grid->num_groups), grid->group_id, 0u);
    return seen;
}
</%def>
<%def name="acquire_votes()">
${defines("portbar_acquire_votes")}
/* Acquire, device scope, from all who have arrived. Caller: a leader that saw that all had. */
static inline void portbar_acquire_votes(const portbar_votes *word)
{
% if acquire_polls:
    /* Every poll has done so. */
    (void)word;
% elif one_way_fences:
    portbar_word_acquire((volatile global uint *)word->first);
% else:
    (void)portbar_votes_load_acquire(word->first);
    (void)portbar_votes_load_acquire(word->second);
% endif
}
</%def>
<%def name="meet_votes()">
${defines("portbar_meet_votes")}
/* Arrives with the votes of a work-group, waits for those of all, and leaves their sum in local memory; release and
   acquire, device scope. The words of odd and even phases take turns, and only grow: no group comes to a word again
   before all have read it. Caller: a leader. */
static inline void portbar_meet_votes(portbar_grid *grid, uint phase, uint votes)
{
    /* A word has every second phase, so each arrival counts for two: numbers of phases may wrap. */
    const uint odd = phase & 1u, phases = phase + odd, target = phases * grid->num_groups;
    /* Asked for before the way to memory, which hides it. */
    const uint before = grid->shared[PORTBAR_SHARED_VOTES_BEFORE + odd];
% if votes_in_two:
    const ulong mine = (ulong)votes << 32 | 2ul;
    portbar_votes word;
    portbar_votes_of(grid, odd, &word);
% else:
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
% endif
    grid->shared[PORTBAR_SHARED_VOTE_PHASE] = phase;
% if votes_in_two:
    const uint lacking = portbar_arrive_votes(grid, &word, mine, phases);
% if holds:
    portbar_hold(lacking, grid->num_groups);
% endif
    const ulong seen = portbar_wait_votes(grid, &word, target);
% else:
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
% endif
    if ((uint)seen != target) {
        PORTBAR_GIVE_UP(grid);
        return;
    }
% if votes_in_two:
    portbar_acquire_votes(&word);
% elif not acquire_polls:
% if not votes_wide or one_way_fences:
    portbar_word_acquire(${"words" if votes_wide else "word"});
% else:
    (void)portbar_votes_load_acquire(word);
% endif
% endif
% if votes_wide:
    /* Arrivals that wrap in this phase carry one. */
    const uint sum = (uint)(seen >> 32), carried = ${carried_votes};
    grid->shared[PORTBAR_SHARED_VOTED] = sum - carried - before;
% else:
    const uint sum = portbar_word_load(word + 1);
    grid->shared[PORTBAR_SHARED_VOTED] = sum - before;
% endif
    grid->shared[PORTBAR_SHARED_VOTES_BEFORE + odd] = sum;
}
</%def>
<%def name="barrier_of_votes()">\
## In local memory on NVIDIA's devices, too: their compiler lets parts of a warp come to barrier.red apart, and that
## loses votes (driver 580.159, H100 and H200).
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
    if (PORTBAR_LEADS(grid)) {
        /* After the barrier, as in portbar_device_barrier. The next votes come after the one below. */
        const uint phase = grid->shared[PORTBAR_SHARED_VOTE_PHASE] + 1u, votes = grid->shared[PORTBAR_SHARED_VOTES];
        grid->shared[PORTBAR_SHARED_VOTES] = 0u;
        portbar_meet_votes(grid, phase, votes);
    }
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
</%def>
<%def name="count()">
${defines("portbar_device_barrier_count")}
/* A device barrier that counts votes: how many work-items of all participating work-groups call it with true. Caller
   and order: as for portbar_device_barrier. Result: valid in every work-item, the same in all; 0 when the spin limit
   was reached, now or before. Cost: one device barrier; the votes travel with the arrivals. */
static inline uint portbar_device_barrier_count(portbar_grid *grid, bool vote)
{
    if (vote)
        (void)portbar_local_add(grid->shared + PORTBAR_SHARED_VOTES, 1u);
${barrier_of_votes()}\
    return grid->shared[PORTBAR_SHARED_OK] != 0u ? grid->shared[PORTBAR_SHARED_VOTED] : 0u;
}
</%def>
<%def name="any()">
${defines("portbar_device_barrier_any")}
/* A device barrier that returns whether any work-item of the participating work-groups calls it with true. Caller,
   order
   and cost: as for portbar_device_barrier_count. Result: valid in every work-item, the same in all; false when the spin
   limit was reached, now or before, so that a loop on it ends. */
static inline bool portbar_device_barrier_any(portbar_grid *grid, bool vote)
{
    if (vote)
        portbar_local_store(grid->shared + PORTBAR_SHARED_VOTES, 1u);
${barrier_of_votes()}\
    return grid->shared[PORTBAR_SHARED_OK] != 0u && grid->shared[PORTBAR_SHARED_VOTED] != 0u;
}
</%def>
<%def name="sum()">
${defines("portbar_device_barrier_sum")}
/* A device barrier that adds up a number of each work-item of all participating work-groups, modulo 2^32. Caller,
   order and result: as for portbar_device_barrier_count. Cost: one device barrier, and an addition in local memory for
   each number that is not 0. */
static inline uint portbar_device_barrier_sum(portbar_grid *grid, uint n)
{
    if (n != 0u)
        (void)portbar_local_add(grid->shared + PORTBAR_SHARED_VOTES, n);
${barrier_of_votes()}\
    return grid->shared[PORTBAR_SHARED_OK] != 0u ? grid->shared[PORTBAR_SHARED_VOTED] : 0u;
}
</%def>
<%def name="sum_within()">
${defines("portbar_sum_within")}
/* portbar_device_barrier_sum for a number that is at most `most`: the sum, or where `instead` is not 0 the content of
   that word after the barrier. Beyond `most` the launch drains from here on, and the caller reports why. Caller and
   order: as for portbar_device_barrier_count. Result: valid in every work-item, the same in all; 0 when the spin limit
   was reached, now or before. Cost: as for portbar_device_barrier_sum, and the load of the word. */
static inline uint portbar_sum_within(portbar_grid *grid, uint n, volatile global uint *instead, uint most)
{
    if (n != 0u)
        (void)portbar_local_add(grid->shared + PORTBAR_SHARED_VOTES, n);
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
    if (PORTBAR_LEADER(grid)) {
        uint sum = 0u;
        if (PORTBAR_LEADS(grid)) {
            const uint phase = grid->shared[PORTBAR_SHARED_VOTE_PHASE] + 1u, votes = grid->shared[PORTBAR_SHARED_VOTES];
            grid->shared[PORTBAR_SHARED_VOTES] = 0u;
            portbar_meet_votes(grid, phase, votes);
            if (PORTBAR_LEADS(grid)) {
                sum = instead != 0 ? portbar_word_load(instead) : grid->shared[PORTBAR_SHARED_VOTED];
                /* Before the barrier that ends this, so that all work-items agree on the outcome. */
                if (sum > most)
                    PORTBAR_GIVE_UP(grid);
            }
        }
        grid->shared[PORTBAR_SHARED_VOTED] = sum;
    }
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
    return grid->shared[PORTBAR_SHARED_VOTED];
}
</%def>
<%def name="all()">
${defines("portbar_device_barrier_all")}
/* A device barrier that returns whether all work-items of the participating work-groups call it with true. Caller,
   order
   and cost: as for portbar_device_barrier_count. Result: valid in every work-item, the same in all; true when the spin
   limit was reached, now or before, so that a loop until then ends. */
static inline bool portbar_device_barrier_all(portbar_grid *grid, bool vote)
{
    return !portbar_device_barrier_any(grid, !vote);
}
</%def>
<%def name="votes_seen()" filter="trim">
${vote_poll}(word)
</%def>
<%def name="votes_carried()" filter="trim">
target < 2u * grid->num_groups ? 1u : 0u
</%def>
