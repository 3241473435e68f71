//// one group waits: wrong
#include "portbar/device_barrier.h"
kernel void k(PORTBAR_GRID_PARAM, global uint *a, uint n)
{
    PORTBAR_ENTER(grid);
    if (portbar_group_id(&grid) == 0) { /* by */
        a[0] = 1;
        portbar_device_barrier(&grid); /* call */
    }
}
//// one group waits: right
#include "portbar/device_barrier.h"
kernel void k(PORTBAR_GRID_PARAM, global uint *a, uint n)
{
    PORTBAR_ENTER(grid);
    if (portbar_group_id(&grid) == 0)
        a[0] = 1;
    portbar_device_barrier(&grid);
}
//// OpenCL's group id: wrong
#include "portbar/device_barrier.h"
kernel void k(PORTBAR_GRID_PARAM, global uint *a, uint n)
{
    PORTBAR_ENTER(grid);
    if (get_group_id(0) > 0) return; /* by */
    portbar_device_barrier(&grid); /* call */
}
//// OpenCL's group id: right
#include "portbar/device_barrier.h"
kernel void k(PORTBAR_GRID_PARAM, global uint *a, uint n)
{
    PORTBAR_ENTER(grid);
    portbar_device_barrier(&grid);
    if (get_group_id(0) > 0) return;
}
//// rows of each group: wrong
#include "portbar/device_barrier.h"
kernel void k(PORTBAR_GRID_PARAM, global uint *a, uint n)
{
    PORTBAR_ENTER(grid);
    for (uint row = portbar_group_id(&grid); row < n; row += portbar_num_groups(&grid)) { /* by */
        a[row] = 1;
        if (!portbar_device_barrier(&grid)) return; /* call */
    }
}
//// rows of each group: right
#include "portbar/device_barrier.h"
kernel void k(PORTBAR_GRID_PARAM, global uint *a, uint n)
{
    PORTBAR_ENTER(grid);
    for (uint row = portbar_group_id(&grid); row < n; row += portbar_num_groups(&grid)) {
        a[row] = 1;
        barrier(CLK_GLOBAL_MEM_FENCE);
    }
    if (!portbar_device_barrier(&grid)) return;
}
//// grid sum by the first group: wrong
#include "portbar/device_barrier.h"
#include "portbar/reduction.h"
kernel void k(PORTBAR_GRID_PARAM, global uint *a, uint n)
{
    PORTBAR_ENTER(grid);
    PORTBAR_REDUCTION_SCRATCH(scratch);
    uint s = 0;
    const bool mine = portbar_group_id(&grid) == 0;
    if (mine) /* by */
        s = portbar_device_reduce_add(&grid, scratch, a[0]); /* call */
    a[0] = s;
}
//// grid sum by the first group: right
#include "portbar/device_barrier.h"
#include "portbar/reduction.h"
kernel void k(PORTBAR_GRID_PARAM, global uint *a, uint n)
{
    PORTBAR_ENTER(grid);
    PORTBAR_REDUCTION_SCRATCH(scratch);
    uint s = 0;
    const bool mine = portbar_group_id(&grid) == 0;
    if (mine)
        s = portbar_work_group_reduce_add(scratch, a[0]);
    portbar_device_barrier(&grid);
    a[0] = s;
}
//// group id by division: wrong
#include "portbar/device_barrier.h"
kernel void k(PORTBAR_GRID_PARAM, global uint *a, uint n)
{
    PORTBAR_ENTER(grid);
    const uint group = portbar_global_id(&grid) / portbar_local_linear_size();
    if (group == 2) /* by */
        portbar_device_barrier(&grid); /* call */
}
//// group id by division: right
#include "portbar/device_barrier.h"
kernel void k(PORTBAR_GRID_PARAM, global uint *a, uint n)
{
    PORTBAR_ENTER(grid);
    const uint group = portbar_global_id(&grid) / portbar_local_linear_size();
    if (group == 2)
        barrier(CLK_LOCAL_MEM_FENCE);
    portbar_device_barrier(&grid);
}
//// a group leaves the sweeps early: wrong
#include "portbar/device_barrier.h"
kernel void k(PORTBAR_GRID_PARAM, global uint *a, uint n)
{
    PORTBAR_ENTER(grid);
    const uint me = portbar_group_id(&grid);
    for (uint s = 0; s < n; ++s) {
        if (s > me) break; /* by */
        if (!portbar_device_barrier(&grid)) return; /* call */
    }
}
//// a group leaves the sweeps early: right
#include "portbar/device_barrier.h"
kernel void k(PORTBAR_GRID_PARAM, global uint *a, uint n)
{
    PORTBAR_ENTER(grid);
    const uint me = portbar_group_id(&grid);
    for (uint s = 0; s < n; ++s) {
        if (s <= me) a[me] = s;
        if (!portbar_device_barrier(&grid)) return;
    }
}
//// arrive in one group only: wrong
#include "portbar/device_barrier.h"
kernel void k(PORTBAR_GRID_PARAM, global uint *a, uint n)
{
    PORTBAR_ENTER(grid);
    if (portbar_group_id(&grid) != 0) { /* by */
        portbar_device_token t = portbar_device_barrier_arrive(&grid); /* call */
        portbar_device_barrier_wait(&grid, t); /* call */
    }
}
//// arrive in one group only: right
#include "portbar/device_barrier.h"
kernel void k(PORTBAR_GRID_PARAM, global uint *a, uint n)
{
    PORTBAR_ENTER(grid);
    portbar_device_token t = portbar_device_barrier_arrive(&grid);
    if (portbar_group_id(&grid) != 0)
        a[0] = 1;
    portbar_device_barrier_wait(&grid, t);
}
//// frontier swap by some groups: wrong
#include "portbar/device_barrier.h"
#include "portbar/worklist.h"
kernel void k(PORTBAR_GRID_PARAM, global portbar_worklist *list, global uint *items)
{
    PORTBAR_ENTER(grid);
    PORTBAR_FRONTIER(frontier, &grid, list);
    if (get_group_id(0) == 0) /* by */
        portbar_device_frontier_swap(&grid, &frontier); /* call */
}
//// frontier swap by some groups: right
#include "portbar/device_barrier.h"
#include "portbar/worklist.h"
kernel void k(PORTBAR_GRID_PARAM, global portbar_worklist *list, global uint *items)
{
    PORTBAR_ENTER(grid);
    PORTBAR_FRONTIER(frontier, &grid, list);
    if (get_group_id(0) == 0)
        portbar_frontier_push(&frontier, items, 1u);
    portbar_device_frontier_swap(&grid, &frontier);
}
//// tiles by some groups: wrong
#include "portbar/device_barrier.h"
kernel void k(PORTBAR_GRID_PARAM, global uint *a, uint n)
{
    PORTBAR_ENTER(grid);
    if (portbar_group_id(&grid) < n) { /* by */
        PORTBAR_FOR_TILES(t, &grid, n) /* call */
            a[t] = t;
    }
}
//// tiles by some groups: right
#include "portbar/device_barrier.h"
kernel void k(PORTBAR_GRID_PARAM, global uint *a, uint n)
{
    PORTBAR_ENTER(grid);
    PORTBAR_FOR_TILES(t, &grid, n)
        a[t] = t;
}
//// static tiles by some work-items: wrong
#include "portbar/device_barrier.h"
kernel void k(PORTBAR_GRID_PARAM, global uint *a, uint n)
{
    PORTBAR_ENTER(grid);
    if (get_local_id(0) < n) { /* by */
        PORTBAR_FOR_TILES_STATIC(t, &grid, n) /* call */
            a[t] = t;
    }
}
//// static tiles by some work-items: right
#include "portbar/device_barrier.h"
kernel void k(PORTBAR_GRID_PARAM, global uint *a, uint n)
{
    PORTBAR_ENTER(grid);
    if (portbar_group_id(&grid) < n) {
        PORTBAR_FOR_TILES_STATIC(t, &grid, n)
            a[t] = t;
    }
}
//// teams made by one team: wrong
#include "portbar/device_barrier.h"
#include "portbar/team.h"
kernel void k(PORTBAR_GRID_PARAM, global uint *a, uint n)
{
    PORTBAR_ENTER(grid);
    portbar_team team = portbar_team_split(&grid, 2u);
    if (portbar_team_id(&team) == 0) /* by */
        team = portbar_team_split(&grid, 1u); /* call */
    a[0] = portbar_team_rank(&team);
}
//// teams made by one team: right
#include "portbar/device_barrier.h"
#include "portbar/team.h"
kernel void k(PORTBAR_GRID_PARAM, global uint *a, uint n)
{
    PORTBAR_ENTER(grid);
    portbar_team team = portbar_team_split(&grid, 2u);
    if (portbar_team_id(&team) == 0)
        portbar_team_barrier(&grid, &team);
    a[0] = portbar_team_rank(&team);
}
