"""The work-items of a group agree about every fault: Oclgrind's search for data races, over the faults of all primitives.

`python -m tests.launch.test_races` is the process that the search looks at; it prints a line of JSON for each kernel.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys

import numpy as np
import pyopencl as cl
import pyopencl.array
import pytest

import portbar
from portbar.primitives.headers import HEADERS
from tests.checkout import ROOT
from tests.machine import libraries

ITEMS = 4

KERNEL = """
kernel void NAME(PORTBAR_GRID_PARAM, global portbar_worklist *frontier_words, global portbar_worklist *task_words,
                 global uint *items, global portbar_tasks *tasks, global portbar_signal *signal, global uint *seen)
{
    local uint task;
    PORTBAR_ENTER(grid);
    const uint me = (uint)get_local_id(0);
    uint mine = 0u;
    DECLARED
    const bool before = portbar_device_ok(&grid);
    FAULT
    const bool ok = portbar_device_ok(&grid);
    const bool held = portbar_device_barrier(&grid);
    seen[me] = (before ? 4u : 0u) + (ok ? 2u : 0u) + (held ? 1u : 0u) + (portbar_device_ok(&grid) ? 8u : 0u);
}
"""
FRONTIER = "PORTBAR_FRONTIER(frontier, &grid, frontier_words);"
QUEUE = "PORTBAR_TASK_QUEUE(queue, &grid, task_words);"
GRAPH = "PORTBAR_TASKS(graph, &grid, tasks); (void)portbar_work_group_task_graph_take(&grid, &graph, &mine);"
#: A leader counts more arrivals than there were: the next barrier of that kind ends at its limit.
AHEAD = "if (me == 0u) grid.shared[PORTBAR_SHARED_WORD] += 1000u; barrier(CLK_LOCAL_MEM_FENCE);"

#: Name -> statements before a load of portbar_device_ok, and those that go wrong after it.
FAULTS = {
    "barrier": (AHEAD.replace("WORD", "TARGET"), "(void)portbar_device_barrier(&grid);"),
    "split_wait": (
        AHEAD.replace("WORD", "SPLIT") + " const portbar_device_token token = portbar_device_barrier_arrive(&grid);",
        "(void)portbar_device_barrier_wait(&grid, token);",
    ),
    "split_test": (
        AHEAD.replace("WORD", "SPLIT") + " const portbar_device_token token = portbar_device_barrier_arrive(&grid);",
        "for (uint n = 0u; n < 1u << 20 && !portbar_device_barrier_test_wait(&grid, token); ++n) ;",
    ),
    "vote": (AHEAD.replace("WORD", "VOTE_PHASE"), "(void)portbar_device_barrier_any(&grid, me == 1u);"),
    "sum": (AHEAD.replace("WORD", "VOTE_PHASE"), "(void)portbar_device_barrier_sum(&grid, me);"),
    "swap": (
        FRONTIER + " (void)portbar_frontier_reserve(&frontier, 50u);",
        "(void)portbar_device_frontier_swap(&grid, &frontier);",
    ),
    "swap_wraps": (
        FRONTIER + " (void)portbar_work_group_frontier_reserve(&grid, &frontier, 0xffffffffu - me);",
        "(void)portbar_device_frontier_swap(&grid, &frontier);",
    ),
    "swap_late": (
        FRONTIER + AHEAD.replace("WORD", "VOTE_PHASE"),
        "(void)portbar_device_frontier_swap(&grid, &frontier);",
    ),
    "push": (QUEUE, "(void)portbar_work_group_task_queue_push(&grid, &queue, items, me, true);"),
    "pop": (
        QUEUE + " if (me == 0u) queue.words[PORTBAR_TASKS_PUSHED] = 1u;",
        "(void)portbar_work_group_task_queue_pop(&grid, &queue, items, &task);",
    ),
    "signal": ("", "(void)portbar_work_group_signal_wait_until_at_least(&grid, signal, 5u);"),
    "signal_add": ("", "portbar_work_group_signal_add(&grid, signal, 0xffffffffu);"),
    "team_of_none": ("", "(void)portbar_team_split(&grid, 0u);"),
    "team_sizes": ("", "(void)portbar_team_split(&grid, me + 1u);"),
    "team_colours": ("", "(void)portbar_team_by_colour(&grid, me);"),
    "graph_misused": (GRAPH, "(void)portbar_work_group_task_graph_take(&grid, &graph, &mine);"),
    "graph_wait": (GRAPH + " graph.record.needed = 1u;", "(void)portbar_work_group_task_graph_wait(&grid, &graph);"),
}
#: Faults that only the host learns of: the group goes on.
SILENT = {"signal_add", "push"}
REPORTING = [name for name, header in HEADERS.items() if header.faults]
ALGORITHMS = ("counter", "sharded", "xf")
#: Whose waits for other groups end at once where there is none.
PASSES = {"xf": {"barrier"}}


def main() -> None:
    """Run all kernels on Oclgrind."""
    portbar.load_platforms()
    (device,) = (d for p in cl.get_platforms() if "clgrind" in p.name for d in p.get_devices())
    context = cl.Context([device])
    queue = cl.CommandQueue(context)
    text = "".join(f'#include "portbar/{name}.h"\n' for name in ("atomics", *REPORTING))
    text += "".join(
        KERNEL.replace("NAME", name).replace("DECLARED", declared).replace("FAULT", fault)
        for name, (declared, fault) in FAULTS.items()
    )
    for algorithm in ALGORITHMS:
        program = portbar.Program(context, text, strategy={"device_barrier": algorithm}, spin_limit=0.001)
        for name in FAULTS:
            print(f"-- {name} with {algorithm}", file=sys.stderr, flush=True)
            frontier, tasks = portbar.Frontier(queue, 100), portbar.TaskQueue(queue, 2)
            graph = portbar.TaskGraph(queue, 2, [(0, 1)])
            seen = cl.array.zeros(queue, ITEMS, np.uint32)
            signal, items = (cl.array.zeros(queue, count, np.uint32) for count in (1, 256))
            lists = frontier.words, tasks.words, items, *graph.args, signal, seen
            launch = program.kernel(name)(queue, None, (ITEMS,), *lists, num_groups=1)
            try:
                launch.wait()
                error = ""
            except portbar.Error as found:
                error = str(found)
            print(
                json.dumps({"name": name, "with": algorithm, "seen": seen.get().tolist(), "error": error}), flush=True
            )


def test_no_fault_leaves_the_work_items_of_a_group_of_two_minds(tmp_path):
    library = next((path for path in libraries() if "clgrind" in path), None)
    if library is None:
        pytest.skip("Oclgrind, which searches for data races, is not installed")
    (tmp_path / "oclgrind.icd").write_text(library)
    searched = {"OCL_ICD_VENDORS": str(tmp_path), "OCLGRIND_DATA_RACES": "1", "OCLGRIND_NUM_THREADS": "1"}
    ran = subprocess.run(
        [sys.executable, "-m", "tests.launch.test_races"],
        env=os.environ | searched,
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert ran.returncode == 0, ran.stderr[-2000:]
    assert "data race" not in ran.stderr, ran.stderr[:3000]
    rows = [json.loads(line) for line in ran.stdout.splitlines() if line.startswith("{")]
    assert len(rows) == len(FAULTS) * len(ALGORITHMS)
    for row in rows:
        assert len(set(row["seen"])) == 1, row
        passes = row["name"] in PASSES.get(row["with"], ())
        assert bool(row["error"]) != passes, row
        assert row["seen"][0] == (15 if passes or row["name"] in SILENT else 4), row


if __name__ == "__main__":
    main()
