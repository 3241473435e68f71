## -*- coding: utf-8 -*-
## One counter that only grows: arrive by fetch-and-add, whose result is the first poll. CUDA's cooperative groups
## count likewise.
<%def name="prepare()">
    portbar_word_store(state + PORTBAR_STATE_COUNTER, 0u);
</%def>
<%def name="device_barrier()">
${defines(barrier_name)}
/* By one central counter. Cost: two work-group barriers, one atomic per group, and polls of one word. */
static inline bool ${barrier_name}(portbar_grid *grid)
{
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
    if (PORTBAR_LEADER(grid) && grid->shared[PORTBAR_SHARED_OK] != 0u) {
        const uint target = grid->shared[PORTBAR_SHARED_TARGET] + grid->shared[PORTBAR_SHARED_COUNT];
        grid->shared[PORTBAR_SHARED_TARGET] = target;
        volatile global uint *counter = grid->state + PORTBAR_STATE_COUNTER;
## Arrivals only release: an acquiring read-modify-write costs a fence of its own on some devices.
        const uint lacking = target - portbar_word_arrive(counter) - 1u;
        portbar_check_arrival(grid, lacking, grid->num_groups);
## A group without others waits in no loop: llvmpipe's empty lanes would take part in it.
        if (lacking == 0u)
            (void)portbar_word_load_acquire(counter);
        else if (!portbar_wait_counted(grid, counter, target, counter, target))
            grid->shared[PORTBAR_SHARED_OK] = 0u;
    }
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
    return grid->shared[PORTBAR_SHARED_OK] != 0u;
}
</%def>
<%def name="counters()"></%def>
<%def name="missing()">
${defines("portbar_missing")}
/* How many arrivals the work-group's counter lacks for a phase. */
static inline uint portbar_missing(const portbar_grid *grid, volatile global uint *counter, uint phase)
{
    /* Groups that left may have arrived again; beyond that the counter was overwritten, and none passes. */
    const uint beyond = ${poll}(counter) - phase * grid->num_groups;
    return beyond < grid->num_groups ? 0u : 0u - beyond;
}
</%def>
<%def name="acquire()">
    portbar_word_acquire(counter);
</%def>
<%def name="place_round()">
            if (portbar_word_arrive(counter) + 1u != round * count && !portbar_place_wait(counter, round * count))
                return PORTBAR_PLACE_DEFAULT;
</%def>
