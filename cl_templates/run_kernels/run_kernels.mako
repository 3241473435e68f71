## -*- coding: utf-8 -*-
## Unmodified kernels run by another kernel. `portbar.primitives.run_kernels.runs` adds a function for each.
<%def name="ranges()">
${defines("portbar_range")}
/* A size in one to three dimensions; 0 dimensions where none was given. */
typedef struct {
    uint dimensions;
    uint x, y, z;
} portbar_range;

${defines("portbar_range_of")}
/* The size of these sides, which are below 2^31. Caller: any work-item. */
static inline __attribute__((overloadable)) portbar_range portbar_range_of(uint x, uint y, uint z)
{
    portbar_range made;
    made.dimensions = 3u;
    made.x = x;
    made.y = y;
    made.z = z;
    return made;
}
static inline __attribute__((overloadable)) portbar_range portbar_range_of(uint x, uint y)
{
    portbar_range made = portbar_range_of(x, y, 1u);
    made.dimensions = 2u;
    return made;
}
static inline __attribute__((overloadable)) portbar_range portbar_range_of(uint x)
{
    portbar_range made = portbar_range_of(x, 1u, 1u);
    made.dimensions = 1u;
    return made;
}
static inline __attribute__((overloadable)) portbar_range portbar_range_of(void)
{
    portbar_range made = portbar_range_of(0u, 0u, 0u);
    made.dimensions = 0u;
    return made;
}
</%def>
<%def name="checks()">
${defines("portbar_run_local_size")}
/* The local size of a kernel that is run: the given one, or another where none was given. Caller: any work-item. */
static inline portbar_range portbar_run_local_size(portbar_range given, portbar_range otherwise)
{
    portbar_range made = given.dimensions == 0u ? otherwise : given;
    made.x = max(made.x, 1u);
    made.y = max(made.y, 1u);
    made.z = max(made.z, 1u);
    return made;
}

${defines("portbar_run_size")}
/* The size of a kernel that is run: the given one, or nothing after a fault of the launch, if it is not a multiple of
   the local size, or the local size does not fit. Caller: all work-items of every group, with the same arguments. */
static inline portbar_range
portbar_run_size(portbar_grid *grid, uint line, portbar_range size, portbar_range local_size, bool fits)
{
    const bool is_whole = size.x % local_size.x == 0u && size.y % local_size.y == 0u && size.z % local_size.z == 0u;
    if (is_whole && fits)
        return size;
    if (PORTBAR_LEADS(grid)) {
        portbar_report_fault(grid->state, grid->epoch, PORTBAR_STATUS_RUN,
                             is_whole ? local_size.x * local_size.y * local_size.z : 0u,
                             portbar_local_linear_size(), line);
        PORTBAR_GIVE_UP(grid);
    }
    size.x = 0u;
    return size;
}
</%def>
<%def name="rows()">
% if loops_in_pieces:
${feature("PORTBAR_RUN_ROWS")}
/* A loop that gains nothing by vectors stays as it is. */
#pragma clang diagnostic ignored "-Wpass-failed"
% endif
</%def>
<%def name="memory()">
${defines("PORTBAR_RUN_MEMORY")}
/* The local memory of kernels that are run, one at a time. */
#define PORTBAR_RUN_MEMORY(grid) ((grid)->run_memory)
</%def>
<%def name="runs()">
${defines("PORTBAR_RUN")}
/* Runs a kernel of the program as a launch of it would: over `size` work-items in work-groups of `local_size`, both in
   brackets, such as (n, n), (16, 16); `()` leaves the local size open. Then a device barrier. The kernel stays as it is: it may return, ask for ids, and have barriers and local memory, for which the
   launch needs as many work-items per work-group as `local_size`. Pointers to local memory are arrays of the calling
   kernel. Caller: all work-items of every participating work-group, in uniform control flow, with the same arguments.
   Order: that of portbar_device_barrier. Result: false if the barrier failed. Cost: the kernel, a device barrier. */
#define PORTBAR_RUN(grid, kernel, size, local_size, ...) ${"\\"}
    portbar_run_##kernel(grid, __LINE__, portbar_range_of size, portbar_range_of local_size, __VA_ARGS__)

${defines("PORTBAR_RUN_NOWAIT")}
/* PORTBAR_RUN without the barrier, for kernels of which the next one needs nothing. Caller: as for PORTBAR_RUN.
   Order: none between work-groups. Result: none. Cost: the kernel. */
#define PORTBAR_RUN_NOWAIT(grid, kernel, size, local_size, ...) ${"\\"}
    portbar_run_nowait_##kernel(grid, __LINE__, portbar_range_of size, portbar_range_of local_size, __VA_ARGS__)
</%def>
