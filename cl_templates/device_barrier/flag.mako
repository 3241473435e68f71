## -*- coding: utf-8 -*-
## One counter for arrivals, and a release flag on a line of its own, so that polls do not slow arrivals down.
<%def name="device_barrier()">
/* Barrier over the grid, by a counter of arrivals and a release flag that the last group raises.
   Caller: all work-items of every participating work-group, in uniform control flow. Order: everything that any of them wrote to
   global or local memory before is visible to all of them after (release and acquire, device scope). Result: false when the spin
   limit was reached, from then on at once in every barrier of the launch; valid in every work-item.
   Cost: two work-group barriers, one atomic a group, one store, and polls of one word. */
static inline bool portbar_device_barrier(portbar_grid *grid)
{
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
    if (${sound_leader}) {
        const uint target = grid->shared[PORTBAR_SHARED_TARGET] + grid->shared[PORTBAR_SHARED_COUNT];
        grid->shared[PORTBAR_SHARED_TARGET] = target;
        volatile global uint *flag = grid->state + PORTBAR_STATE_FLAG;
        volatile global uint *counter = grid->state + PORTBAR_STATE_COUNTER;
        const uint lacking = target - portbar_word_arrive(counter) - 1u;
% if checks_arrivals:
        portbar_check_arrival(grid, lacking, grid->num_groups);
% endif
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
