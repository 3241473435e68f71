## -*- coding: utf-8 -*-
## Counters that only grow, on lines of their own, in three ways. One: a work-group arrives by fetch-and-add, whose answer is its
## first poll, as in CUDA's cooperative groups. Sharded: a work-group arrives at one of several and waits for all. Replicated: a
## work-group arrives at all of several and waits for one. How long the waiting groups leave the counters alone follows from how
## many are missing, as in the proportional back-off of Mellor-Crummey and Scott (TOCS 1991).
<%!
    def described(counters, replicated):
        """The algorithm, in the words of its comment."""
        if counters == 1:
            return "one central counter"
        if replicated:
            return f"{counters} counters, each group arriving at all and waiting for one"
        return f"{counters} counters, each group arriving at one of them"
%>
<%def name="device_barrier()">
/* Barrier over the grid, by ${described(shards, replicated)}.
   Caller: all work-items of every participating work-group, in uniform control flow. Order: everything that any of them wrote to
   global or local memory before is visible to all of them after (release and acquire, device scope). Result: false when the spin
   limit was reached, from then on at once in every barrier of the launch; valid in every work-item.
   Cost: two work-group barriers, ${f"{shards} atomics" if replicated else "one atomic"} a group, polls of ${"one word" if shards == 1 or replicated else f"{shards} words"}, and where the result is used a
   load from local memory. */
static inline bool portbar_device_barrier(portbar_grid *grid)
{
% if in_registers:
    /* Asked for before the work-group's barrier, behind which the way to local memory hides. */
    const uint phase = grid->shared[PORTBAR_SHARED_TARGET] + 1u;
% endif
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
    if (${leads}) {
% if not in_registers:
        /* Not before: PoCL 5.0 with cbs was seen to lose private values at barriers. */
        const uint phase = grid->shared[PORTBAR_SHARED_TARGET] + 1u;
% endif
        portbar_counters counters;
        portbar_counters_of(grid, PORTBAR_SLOT_WHOLE, &counters);
        const uint missing = portbar_arrive_counters(grid, &counters, phase);
        grid->shared[PORTBAR_SHARED_TARGET] = phase;
        if (!portbar_wait_counters(grid, &counters, phase, missing)) {
            grid->shared[PORTBAR_SHARED_OK] = 0u;
% if in_registers:
            grid->leads = 0u;
% endif
        }
        portbar_acquire_counters(&counters);
    }
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
    return grid->shared[PORTBAR_SHARED_OK] != 0u;
}
</%def>
<%def name="counters_of()">
/* Where a barrier counts: the counter that the work-group waits for, ${"and the one that it arrives at as well" if replicated else "or both and which of them it arrives at" if shards > 1 else "at which it arrives"}. */
typedef struct {
% if shards == 1 or replicated:
    volatile global uint *own;
% if replicated:
    volatile global uint *other;
% endif
% else:
    volatile global uint *first;
    volatile global uint *second;
% endif
} portbar_counters;

/* Fills in the counters' words of one kind. Caller: a leader. */
static inline void portbar_counters_of(const portbar_grid *grid, uint word, portbar_counters *counters)
{
% if shards == 1:
    const uint own = portbar_unknown(grid->first);
    counters->own = grid->state + own + word;
% elif replicated:
    const bool odd = (grid->group_id & 1u) != 0u;
    const uint own = portbar_unknown(odd ? grid->second : grid->first), other = portbar_unknown(odd ? grid->first : grid->second);
    counters->own = grid->state + own + word;
    counters->other = grid->state + other + word;
% else:
    const uint first = portbar_unknown(grid->first), second = portbar_unknown(grid->second);
    counters->first = grid->state + first + word;
    counters->second = grid->state + second + word;
% endif
}
</%def>
<%def name="unknown()">
/* The same number${", of which the compiler does not know that: what follows from it is worked out where it is used, and kept in no\n   register through the author's kernel" if in_registers else ""}. */
static inline uint portbar_unknown(uint number)
{
% if in_registers:
    __asm__ volatile("" : "+r"(number));
% endif
    return number;
}
</%def>
<%def name="arrive_counters()">
/* Arrives, release, device scope; returns about how many arrivals the phase lacks then. Caller: a leader. */
static inline uint portbar_arrive_counters(const portbar_grid *grid, const portbar_counters *counters, uint phase)
{
% if replicated:
% if checks_arrivals:
    portbar_check_arrival(grid, phase * grid->num_groups - portbar_word_arrive(counters->own) - 1u, grid->num_groups);
    portbar_check_arrival(grid, phase * grid->num_groups - portbar_word_arrive(counters->other) - 1u, grid->num_groups);
% else:
    (void)phase;
    portbar_word_arrive_twice(counters->own, counters->other);
% endif
    return grid->num_groups;
% elif shards == 1:
    const uint lacking = phase * grid->num_groups - portbar_word_arrive(counters->own) - 1u;
% if checks_arrivals:
    portbar_check_arrival(grid, lacking, grid->num_groups);
% endif
    return lacking;
% else:
    /* The answer of one counter says little of the other. */
    const uint shard = grid->group_id % ${shards}u;
    const uint before = portbar_word_arrive(shard != 0u ? counters->second : counters->first);
    const uint lacking = phase * portbar_shard_members(grid, shard) - before - 1u;
% if checks_arrivals:
    portbar_check_arrival(grid, lacking, portbar_shard_members(grid, shard));
% endif
    return lacking * ${shards}u | 1u;
% endif
}
</%def>
<%def name="acquire_counters()">
/* Acquire, device scope, from all who have arrived. Caller: a leader that saw that nobody is missing. */
static inline void portbar_acquire_counters(const portbar_counters *counters)
{
% if acquire_polls:
    /* Every poll has done so. */
    (void)counters;
% elif shards == 1 or replicated:
    portbar_word_acquire(counters->own);
% else:
    portbar_word_acquire(counters->first);
% if not one_way_fences:
    portbar_word_acquire(counters->second);
% endif
% endif
}
</%def>
<%def name="shard_members()">
% if shards > 1 and not replicated:
/* How many work-groups arrive at a counter in each phase. */
static inline uint portbar_shard_members(const portbar_grid *grid, uint shard)
{
    return grid->num_groups / ${shards}u + (shard < grid->num_groups % ${shards}u ? 1u : 0u);
}
% endif
</%def>
<%def name="missing()">
<% load = "portbar_word_load_acquire" if acquire_polls else "portbar_word_load" %>\
% if shards == 1 or replicated:
/* How many arrivals ${"the group's own counter" if replicated else "the counter"} lacks for a phase. */
static inline uint portbar_missing(const portbar_grid *grid, const portbar_counters *counters, uint phase)
{
    /* Those who have left already may have arrived again; beyond that the counter was overwritten, and nobody passes. */
    const uint beyond = ${load}(counters->own) - phase * grid->num_groups;
    return beyond < grid->num_groups ? 0u : 0u - beyond;
}
% else:
/* How many arrivals the counters lack for a phase. The loads are all on their way before the first is looked at. */
static inline uint portbar_missing(const portbar_grid *grid, const portbar_counters *counters, uint phase)
{
    const uint seen0 = ${load}(counters->first);
    const uint seen1 = ${load}(counters->second);
    uint missing = 0u;
% for shard in range(shards):
    {
        /* Those who have left already may have arrived again; beyond that the counter was overwritten, and nobody passes. */
        const uint beyond = seen${shard} - phase * portbar_shard_members(grid, ${shard}u);
        missing += beyond < grid->num_groups ? 0u : min(0u - beyond, 0x7fffffffu);
    }
% endfor
    return missing;
}
% endif
</%def>
<%def name="wait_counters()">
/* Waits until nobody is missing in a phase; `missing` is about how many are. When it gives up it reports how many have arrived.
   True when all have; portbar_acquire_counters is then due. Caller: a leader. */
static inline bool portbar_wait_counters(const portbar_grid *grid, const portbar_counters *counters, uint phase, uint missing)
{
    if (missing != 0u)
        portbar_hold(missing, grid->num_groups);
% if in_registers:
    /* Most waits end here, in the fewest instructions from poll to poll. */
    for (uint polls = PORTBAR_ROLLED(PORTBAR_POLLS, grid->limit); polls != 0u && missing != 0u; --polls) {
        missing = portbar_missing(grid, counters, phase);
% if pause != "none":
        if (missing != 0u)
            portbar_relax(missing);
% endif
    }
% endif
    return missing == 0u || portbar_wait_longer(grid, counters, phase) == PORTBAR_WAIT_REACHED;
}
</%def>
<%def name="wait_longer()">
/* The wait with its limit; portbar_wait_counters says the rest. */
static inline uint portbar_wait_longer(const portbar_grid *grid, const portbar_counters *counters, uint phase)
{
    uint missing = 0u;
    for (uint round = 0; round < grid->limit; ++round) {
% if pause != "none":
        /* A poll with a pause takes as long as many without, and the limit counts rounds. */
% endif
        for (uint i = PORTBAR_ROLLED(${polls_in_wait}u, grid->limit); i != 0u; --i) {
            missing = portbar_missing(grid, counters, phase);
            if (missing == 0u)
                return PORTBAR_WAIT_REACHED;
% if rest_ns:
            portbar_rest();
% elif pause != "none":
            portbar_relax(missing);
% endif
        }
        if (portbar_draining(grid))
            return PORTBAR_WAIT_DRAIN;
        portbar_yield(round);
    }
    portbar_report_fault(grid->state, grid->epoch, PORTBAR_STATUS_TIMEOUT, grid->num_groups - min(missing, grid->num_groups),
                         grid->group_id);
    return PORTBAR_WAIT_LIMIT;
}
</%def>
