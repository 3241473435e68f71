## -*- coding: utf-8 -*-
## cl_intel_concurrent_dispatch's own barrier. It covers every launched group and has no spin limit, so it is used
## only where discovery found all launched groups, and only on request.
<%def name="device_barrier()">
${defines("portbar_device_barrier")}
/* By cl_intel_concurrent_dispatch's built-in where every launched work-group takes part, else by one central counter.
   The built-in itself has no limit: a group that skips this barrier hangs the device. So a group that has seen false,
   from the split form or the counter, still synchronises with the others before it returns false again. Cost: the
   runtime's. */
static inline bool portbar_device_barrier(portbar_grid *grid)
{
    if (grid->num_groups == (uint)(get_num_groups(0) * get_num_groups(1) * get_num_groups(2))) {
        intel_device_barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
        return grid->shared[PORTBAR_SHARED_OK] != 0u;
    }
    return portbar_device_barrier_counted(grid);
}
</%def>
<%def name="declaration()">
${defines("intel_device_barrier")}
/* The runtime's headers do not declare it. */
void __attribute__((overloadable)) intel_device_barrier(cl_mem_fence_flags flags);
</%def>
