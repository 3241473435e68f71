## -*- coding: utf-8 -*-
## Counters that only grow, on lines of their own: a work-group arrives at one, by fetch-and-add whose answer is the first poll, and
## waits for all. With one counter this is what CUDA's cooperative groups do; how long the waiting groups leave the counters alone
## follows from how many are missing, as in the proportional back-off of Mellor-Crummey and Scott (TOCS 1991).
<%def name="device_barrier()">
/* Barrier over the grid, by ${"one central counter" if shards == 1 else f"{shards} counters, each group arriving at one of them"}.
   Caller: all work-items of every participating work-group, in uniform control flow. Order: everything that any of them wrote to
   global or local memory before is visible to all of them after (release and acquire, device scope). Result: false when the spin
   limit was reached, from then on at once in every barrier of the launch; valid in every work-item.
   Cost: two work-group barriers, one atomic a group, polls of ${"one word" if shards == 1 else f"{shards} words"}, and where the result is used a
   load from local memory. */
static inline bool portbar_device_barrier(portbar_grid *grid)
{
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
% if in_registers:
    if (grid->leads != 0u) {
        uint phase = grid->phase + 1u;
% else:
    if (portbar_is_leader() && grid->shared[PORTBAR_SHARED_OK] != 0u) {
        const uint phase = grid->shared[PORTBAR_SHARED_TARGET] + 1u;
        grid->shared[PORTBAR_SHARED_TARGET] = phase;
% endif
        const uint members = portbar_shard_members(grid, grid->group_id % ${shards}u);
        const uint missing = phase * members - portbar_word_arrive(grid->own + PORTBAR_SLOT_WHOLE${with_lane}) - 1u;
% if in_registers:
        bool reached = true;
        if (missing < members) {
            grid->shared[PORTBAR_SHARED_TARGET] = phase;
% if shards == 1:
            if (missing != 0u)
% endif
                reached = portbar_wait_counters(grid, PORTBAR_SLOT_WHOLE, phase, missing * ${shards}u);
        } else {
            /* Another copy of the grid has met since this one did: the phase that this one counted was long over. */
            phase = grid->shared[PORTBAR_SHARED_TARGET] + 1u;
            grid->shared[PORTBAR_SHARED_TARGET] = phase;
            reached = portbar_wait_longer(grid, PORTBAR_SLOT_WHOLE, phase) == PORTBAR_WAIT_REACHED;
        }
        grid->phase = phase;
        if (!reached) {
            grid->leads = 0u;
            grid->shared[PORTBAR_SHARED_OK] = 0u;
        }
% else:
        if (!portbar_wait_counters(grid, PORTBAR_SLOT_WHOLE, phase, missing * ${shards}u))
            grid->shared[PORTBAR_SHARED_OK] = 0u;
% endif
        portbar_acquire_counters(grid, PORTBAR_SLOT_WHOLE);
    }
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
    return grid->shared[PORTBAR_SHARED_OK] != 0u;
}
</%def>
<%def name="acquire_counters()">
/* Acquire, device scope, from all who have arrived at the counters' words. Caller: a leader that saw that nobody is missing. */
static inline void portbar_acquire_counters(const portbar_grid *grid, uint word)
{
% if acquire_polls:
    /* Every poll has done so. */
    (void)grid;
    (void)word;
% else:
% for shard in range(1 if one_way_fences else shards):
    portbar_word_acquire(grid->counter${shard} + word);
% endfor
% endif
}
</%def>
<%def name="shard_members()">
/* How many work-groups arrive at a counter in each phase. */
static inline uint portbar_shard_members(const portbar_grid *grid, uint shard)
{
    return grid->num_groups / ${shards}u + (shard < grid->num_groups % ${shards}u ? 1u : 0u);
}
</%def>
<%def name="missing()">
/* How many arrivals one of the counters' words lacks for a phase. The loads are all on their way before the first is looked at. */
static inline uint portbar_missing(const portbar_grid *grid, uint word, uint phase)
{
% for shard in range(shards):
    const uint seen${shard} = ${"portbar_word_load_acquire" if acquire_polls else "portbar_word_load"}(grid->counter${shard} + word);
% endfor
    uint missing = 0u;
% for shard in range(shards):
    {
        /* Those who have left already may have arrived again. */
        const int lacking = (int)(phase * portbar_shard_members(grid, ${shard}u) - seen${shard});
        missing += lacking > 0 ? (uint)lacking : 0u;
    }
% endfor
    return missing;
}
</%def>
<%def name="wait_counters()">
/* Waits until nobody is missing in a phase; `missing` is about how many are. When it gives up it reports how many have arrived.
   True when all have; portbar_acquire_counters is then due. Caller: a leader. */
static inline bool portbar_wait_counters(const portbar_grid *grid, uint word, uint phase, uint missing)
{
% if shards > 1:
    /* The answer of one counter says little of the others. */
% endif
    if (missing != 0u)
        portbar_hold(missing, grid->num_groups);
    uint outcome = PORTBAR_WAIT_REACHED;
% if in_registers:
    /* Most waits end here, in the fewest instructions from poll to poll. */
    for (uint polls = PORTBAR_ROLLED(PORTBAR_POLLS, grid->limit); polls != 0u${" && missing != 0u" if shards == 1 else ""}; --polls) {
        missing = portbar_missing(grid, word, phase);
% if shards > 1:
        if (missing == 0u)
            break;
% endif
% if pause != "none":
        if (missing != 0u)
            portbar_relax(missing);
% endif
    }
    if (missing != 0u)
% elif shards == 1:
    if (missing != 0u)
% endif
        outcome = portbar_wait_longer(grid, word, phase);
    return outcome == PORTBAR_WAIT_REACHED;
}
</%def>
<%def name="wait_longer()">
/* The wait with its limit; portbar_wait_counters says the rest. */
static inline uint portbar_wait_longer(const portbar_grid *grid, uint word, uint phase)
{
    uint missing = 0u;
    for (uint round = 0; round < grid->limit; ++round) {
% if pause != "none":
        /* A poll with a pause takes as long as many without, and the limit counts rounds. */
% endif
        for (uint i = PORTBAR_ROLLED(${polls_in_wait}u, grid->limit); i != 0u; --i) {
            missing = portbar_missing(grid, word, phase);
            if (missing == 0u)
                return PORTBAR_WAIT_REACHED;
% if rest_ns:
            portbar_rest();
% elif pause != "none":
            portbar_relax(missing);
% endif
        }
        if (portbar_word_load(grid->state + PORTBAR_STATE_ABORT) != 0u)
            return PORTBAR_WAIT_DRAIN;
        portbar_yield(round);
    }
    portbar_report_fault(grid->state, grid->epoch, PORTBAR_STATUS_TIMEOUT, grid->num_groups - min(missing, grid->num_groups),
                         grid->group_id);
    return PORTBAR_WAIT_LIMIT;
}
</%def>
