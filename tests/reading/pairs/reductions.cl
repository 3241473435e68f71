//// group sum in PORTBAR_FOR: wrong
#include "portbar/device_barrier.h"
#include "portbar/reduction.h"
kernel void k(PORTBAR_GRID_PARAM, global uint *a, uint n)
{
    PORTBAR_ENTER(grid);
    PORTBAR_REDUCTION_SCRATCH(scratch);
    uint s = 0;
    PORTBAR_FOR(i, &grid, n) /* by */
        s += portbar_work_group_reduce_add(scratch, a[i]); /* call */
    a[0] = s;
}
//// group sum in PORTBAR_FOR: right
#include "portbar/device_barrier.h"
#include "portbar/reduction.h"
kernel void k(PORTBAR_GRID_PARAM, global uint *a, uint n)
{
    PORTBAR_ENTER(grid);
    PORTBAR_REDUCTION_SCRATCH(scratch);
    uint s = 0;
    PORTBAR_FOR(i, &grid, n)
        s += a[i];
    a[0] = portbar_work_group_reduce_add(scratch, s);
}
//// grid sum in PORTBAR_FOR: wrong
#include "portbar/device_barrier.h"
#include "portbar/reduction.h"
kernel void k(PORTBAR_GRID_PARAM, global uint *a, uint n)
{
    PORTBAR_ENTER(grid);
    PORTBAR_REDUCTION_SCRATCH(scratch);
    uint s = 0;
    PORTBAR_FOR(i, &grid, n) /* by */
        s += portbar_device_reduce_add(&grid, scratch, a[i]); /* call */
    a[0] = s;
}
//// grid sum in PORTBAR_FOR: right
#include "portbar/device_barrier.h"
#include "portbar/reduction.h"
kernel void k(PORTBAR_GRID_PARAM, global uint *a, uint n)
{
    PORTBAR_ENTER(grid);
    PORTBAR_REDUCTION_SCRATCH(scratch);
    uint s = 0;
    PORTBAR_FOR(i, &grid, n)
        s += a[i];
    a[0] = portbar_device_reduce_add(&grid, scratch, s);
}
//// group sum in a strided loop: wrong
#include "portbar/device_barrier.h"
#include "portbar/reduction.h"
kernel void k(PORTBAR_GRID_PARAM, global uint *a, uint n)
{
    PORTBAR_ENTER(grid);
    PORTBAR_REDUCTION_SCRATCH(scratch);
    float s = 0;
    for (uint i = portbar_global_id(&grid); i < n; i += portbar_global_size(&grid)) /* by */
        s += portbar_work_group_reduce_max(scratch, (float)a[i]); /* call */
    a[0] = s;
}
//// group sum in a strided loop: right
#include "portbar/device_barrier.h"
#include "portbar/reduction.h"
kernel void k(PORTBAR_GRID_PARAM, global uint *a, uint n)
{
    PORTBAR_ENTER(grid);
    PORTBAR_REDUCTION_SCRATCH(scratch);
    float s = 0;
    for (uint i = 0; i < n; i += portbar_global_size(&grid))
        s += portbar_work_group_reduce_max(scratch, i + portbar_global_id(&grid) < n ? (float)a[i] : 0.0f);
    a[0] = s;
}
//// scan under a guard: wrong
#include "portbar/reduction.h"
kernel void k(global uint *a, uint n)
{
    PORTBAR_REDUCTION_SCRATCH(scratch);
    uint i = get_global_id(0);
    if (i < n) /* by */
        a[i] = portbar_work_group_scan_exclusive_add(scratch, a[i]); /* call */
}
//// scan under a guard: right
#include "portbar/reduction.h"
kernel void k(global uint *a, uint n)
{
    PORTBAR_REDUCTION_SCRATCH(scratch);
    uint i = get_global_id(0);
    uint before = portbar_work_group_scan_exclusive_add(scratch, i < n ? a[i] : 0u);
    if (i < n)
        a[i] = before;
}
//// broadcast by the leader alone: wrong
#include "portbar/reduction.h"
kernel void k(global uint *a, uint n)
{
    PORTBAR_REDUCTION_SCRATCH(scratch);
    uint x = 0;
    if (get_local_id(0) == 0) /* by */
        x = portbar_work_group_broadcast(scratch, a[0], 0u); /* call */
    a[n] = x;
}
//// broadcast by the leader alone: right
#include "portbar/reduction.h"
kernel void k(global uint *a, uint n)
{
    PORTBAR_REDUCTION_SCRATCH(scratch);
    uint x = portbar_work_group_broadcast(scratch, get_local_id(0) == 0 ? a[0] : 0u, 0u);
    a[n] = x;
}
//// scratch in a branch: wrong
#include "portbar/reduction.h"
kernel void k(global uint *a, uint n)
{
    if (get_local_id(0) < 8) { /* by */
        PORTBAR_REDUCTION_SCRATCH(scratch); /* call */
        a[0] = n;
    }
}
//// scratch in a branch: right
#include "portbar/reduction.h"
kernel void k(global uint *a, uint n)
{
    PORTBAR_REDUCTION_SCRATCH(scratch);
    if (get_local_id(0) < 8)
        a[0] = n;
}
//// an entry under a condition: wrong
#include "portbar/device_barrier.h"
kernel void k(PORTBAR_GRID_PARAM, global uint *a, uint n)
{
    if (get_local_id(0) == 0) /* by */
        return;
    PORTBAR_ENTER(grid); /* call */
    a[0] = n;
}
//// an entry under a condition: right
#include "portbar/device_barrier.h"
kernel void k(PORTBAR_GRID_PARAM, global uint *a, uint n)
{
    PORTBAR_ENTER(grid);
    if (get_local_id(0) == 0)
        return;
    a[0] = n;
}
//// push of a group under a guard: wrong
#include "portbar/device_barrier.h"
#include "portbar/worklist.h"
kernel void k(PORTBAR_GRID_PARAM, global portbar_worklist *list, global uint *items)
{
    PORTBAR_ENTER(grid);
    PORTBAR_FRONTIER(frontier, &grid, list);
    const uint i = portbar_global_id(&grid);
    if (items[i] > 0 && i < 100) /* by */
        portbar_work_group_frontier_push(&grid, &frontier, items, i, true); /* call */
}
//// push of a group under a guard: right
#include "portbar/device_barrier.h"
#include "portbar/worklist.h"
kernel void k(PORTBAR_GRID_PARAM, global portbar_worklist *list, global uint *items)
{
    PORTBAR_ENTER(grid);
    PORTBAR_FRONTIER(frontier, &grid, list);
    const uint i = portbar_global_id(&grid);
    portbar_work_group_frontier_push(&grid, &frontier, items, i, items[i] > 0 && i < 100);
}
//// tasks popped by one item: wrong
#include "portbar/device_barrier.h"
#include "portbar/worklist.h"
kernel void k(PORTBAR_GRID_PARAM, global portbar_worklist *list, global uint *items)
{
    PORTBAR_ENTER(grid);
    local uint task;
    PORTBAR_TASK_QUEUE(queue, &grid, list);
    if (get_local_id(0) == 0) /* by */
        while (portbar_work_group_task_queue_pop(&grid, &queue, items, &task)) /* call */
            items[task] = 1;
}
//// tasks popped by one item: right
#include "portbar/device_barrier.h"
#include "portbar/worklist.h"
kernel void k(PORTBAR_GRID_PARAM, global portbar_worklist *list, global uint *items)
{
    PORTBAR_ENTER(grid);
    local uint task;
    PORTBAR_TASK_QUEUE(queue, &grid, list);
    while (portbar_work_group_task_queue_pop(&grid, &queue, items, &task))
        if (get_local_id(0) == 0)
            items[task] = 1;
}
//// a signal of the group by one item: wrong
#include "portbar/device_barrier.h"
#include "portbar/signal.h"
kernel void k(PORTBAR_GRID_PARAM, global portbar_signal *signal)
{
    PORTBAR_ENTER(grid);
    if (portbar_local_linear_id() == 0) /* by */
        portbar_work_group_signal_add(&grid, signal, 1u); /* call */
}
//// a signal of the group by one item: right
#include "portbar/device_barrier.h"
#include "portbar/signal.h"
kernel void k(PORTBAR_GRID_PARAM, global portbar_signal *signal)
{
    PORTBAR_ENTER(grid);
    if (portbar_local_linear_id() == 0)
        portbar_signal_add(&grid, signal, 1u);
}
//// a graph's tasks by one item: wrong
#include "portbar/device_barrier.h"
#include "portbar/task_graph.h"
kernel void k(PORTBAR_GRID_PARAM, global portbar_tasks *tasks, global uint *a)
{
    PORTBAR_ENTER(grid);
    uint t;
    PORTBAR_TASKS(graph, &grid, tasks);
    if (!get_local_id(0)) /* by */
        while (portbar_work_group_task_graph_next(&grid, &graph, &t)) /* call */
            a[t] = 1;
}
//// a graph's tasks by one item: right
#include "portbar/device_barrier.h"
#include "portbar/task_graph.h"
kernel void k(PORTBAR_GRID_PARAM, global portbar_tasks *tasks, global uint *a)
{
    PORTBAR_ENTER(grid);
    uint t;
    PORTBAR_TASKS(graph, &grid, tasks);
    while (portbar_work_group_task_graph_next(&grid, &graph, &t))
        if (!get_local_id(0))
            a[t] = 1;
}
