## -*- coding: utf-8 -*-
## One counter for arrivals, and a release flag on a line of its own, so that polls do not slow arrivals down.
<%def name="prepare()">
    portbar_word_store(state + PORTBAR_STATE_COUNTER, 0u);
    portbar_word_store(state + PORTBAR_STATE_FLAG, 0u);
</%def>
<%def name="device_barrier()">
${defines("portbar_device_barrier")}
/* By a counter of arrivals and a release flag that the last group raises.
   Cost: two work-group barriers, one atomic per group, one store, and polls of one word. */
static inline bool portbar_device_barrier(portbar_grid *grid)
{
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
    if (PORTBAR_LEADER(grid) && grid->shared[PORTBAR_SHARED_OK] != 0u) {
        const uint target = grid->shared[PORTBAR_SHARED_TARGET] + grid->shared[PORTBAR_SHARED_COUNT];
        grid->shared[PORTBAR_SHARED_TARGET] = target;
        volatile global uint *counter = grid->state + PORTBAR_STATE_COUNTER, *flag = grid->state + PORTBAR_STATE_FLAG;
        const uint lacking = target - portbar_word_arrive(counter) - 1u;
        portbar_check_arrival(grid, lacking, grid->num_groups);
        if (lacking == 0u) {
            (void)portbar_word_load_acquire(counter);
            portbar_word_store_release(flag, target);
        } else if (!portbar_wait_counted(grid, flag, target, counter, target))
            grid->shared[PORTBAR_SHARED_OK] = 0u;
    }
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
    return grid->shared[PORTBAR_SHARED_OK] != 0u;
}
</%def>
