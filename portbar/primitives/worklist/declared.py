"""`portbar/worklist.h` as the reader of authors' programs sees it."""

from __future__ import annotations

from typing import Final

DECLARED: Final = """\
#define PORTBAR_WORKLIST 1
#define PORTBAR_WORKLIST_FULL 0xffffffffu
#define PORTBAR_TASK_TAKEN 0u
#define PORTBAR_TASK_LATER 0xfffffffdu
#define PORTBAR_TASKS_DONE 0xfffffffeu
#define PORTBAR_TASKS_FAILED 0xffffffffu
typedef struct { uint words; } portbar_worklist;
typedef struct { uint words; } portbar_frontier;
typedef struct { uint words; } portbar_task_queue;
void portbar_frontier_begin(const portbar_grid *grid, portbar_frontier *frontier, volatile global portbar_worklist *list);
#define PORTBAR_FRONTIER(frontier, grid, list) \\
    portbar_frontier frontier; \\
    portbar_frontier_begin(grid, &frontier, list)
uint portbar_frontier_size(const portbar_frontier *frontier);
uint portbar_frontier_at(const portbar_frontier *frontier, uint i);
uint portbar_frontier_reserve(portbar_frontier *frontier, uint n);
#define portbar_frontier_push(frontier, items, value) \\
    ((void)(items), (void)(value), (void)portbar_frontier_reserve(frontier, 1u))
PORTBAR_CALLED_BY_WORK_GROUP uint portbar_work_group_frontier_reserve(
    const portbar_grid *grid, portbar_frontier *frontier, uint n);
PORTBAR_CALLED_BY_WORK_GROUP void portbar_work_group_frontier_push(
    const portbar_grid *grid, portbar_frontier *frontier, int evaluated);
#define portbar_work_group_frontier_push(grid, frontier, items, value, wanted) \\
    portbar_work_group_frontier_push(grid, frontier, ((void)(items), (void)(value), (void)(wanted), 0))
PORTBAR_CALLED_BY_GRID PORTBAR_FALSE_AFTER_FAULT bool portbar_device_frontier_swap(
    portbar_grid *grid, portbar_frontier *frontier);
void portbar_task_queue_begin(
    const portbar_grid *grid, portbar_task_queue *queue, volatile global portbar_worklist *list);
#define PORTBAR_TASK_QUEUE(queue, grid, list) \\
    portbar_task_queue queue; \\
    portbar_task_queue_begin(grid, &queue, list)
bool portbar_task_queue_given(const portbar_grid *grid, portbar_task_queue *queue, int evaluated);
uint portbar_task_queue_taken(const portbar_grid *grid, portbar_task_queue *queue, const void *task, int evaluated);
#define portbar_task_queue_push(grid, queue, items, value) \\
    portbar_task_queue_given(grid, queue, ((void)(items), (void)(value), 0))
#define portbar_task_queue_try_pop(grid, queue, items, task) \\
    portbar_task_queue_taken(grid, queue, task, ((void)(items), 0))
#define portbar_task_queue_pop(grid, queue, items, task) \\
    (portbar_task_queue_taken(grid, queue, task, ((void)(items), 0)) != 0u)
PORTBAR_CALLED_BY_WORK_GROUP bool portbar_work_group_task_queue_push(
    const portbar_grid *grid, portbar_task_queue *queue, int evaluated);
#define portbar_work_group_task_queue_push(grid, queue, items, value, wanted) \\
    portbar_work_group_task_queue_push(grid, queue, ((void)(items), (void)(value), (void)(wanted), 0))
PORTBAR_CALLED_BY_WORK_GROUP bool portbar_work_group_task_queue_pop(
    const portbar_grid *grid, portbar_task_queue *queue, const void *task, int evaluated);
#define portbar_work_group_task_queue_pop(grid, queue, items, task) \\
    portbar_work_group_task_queue_pop(grid, queue, task, ((void)(items), 0))
"""
