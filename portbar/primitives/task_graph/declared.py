"""`portbar/task_graph.h` as the reader of authors' programs sees it."""

from __future__ import annotations

from typing import Final

DECLARED: Final = """\
#define PORTBAR_TASK_GRAPH 1
typedef struct { uint words; } portbar_tasks;
typedef struct { uint words; } portbar_task_graph;
void portbar_task_graph_begin(const portbar_grid *grid, portbar_task_graph *graph, const void *tasks);
#define PORTBAR_TASKS(graph, grid, tasks) \\
    portbar_task_graph graph; \\
    portbar_task_graph_begin(grid, &graph, (const void *)(tasks))
PORTBAR_CALLED_BY_WORK_GROUP void portbar_work_group_task_graph_done(
    const portbar_grid *grid, portbar_task_graph *graph);
PORTBAR_CALLED_BY_WORK_GROUP bool portbar_work_group_task_graph_take(
    portbar_grid *grid, portbar_task_graph *graph, uint *task);
PORTBAR_CALLED_BY_WORK_GROUP bool portbar_work_group_task_graph_wait(portbar_grid *grid, portbar_task_graph *graph);
PORTBAR_CALLED_BY_WORK_GROUP bool portbar_work_group_task_graph_next(
    portbar_grid *grid, portbar_task_graph *graph, uint *task);
PORTBAR_CALLED_BY_GRID PORTBAR_FALSE_IS_FAILURE bool portbar_work_group_task_graph_again(
    const portbar_grid *grid, portbar_task_graph *graph);
"""
