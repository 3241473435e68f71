"""Kernels that share worklists. Data are plain words: only lists and barriers order them."""

from __future__ import annotations

from typing import Final

_HEAD: Final = '#include "portbar/atomics.h"\n#include "portbar/worklist.h"\n'

#: Vertices of a binary tree, each of which notes how often it was met, and that its parent has written before.
_VISIT: Final = """
static void visit(global uint *seen, global uint *cells, global uint *wrong, uint v)
{
    portbar_atomic_fetch_add_explicit(seen + v, 1u, memory_order_relaxed, memory_scope_device);
    if (v != 0u && cells[(v - 1u) / 2u] != (v - 1u) / 2u * 3u + 1u)
        wrong[0] = v;
    cells[v] = v * 3u + 1u;
}
"""

_TREE: Final = """PORTBAR_GRID_PARAM, global portbar_worklist *list, global uint *items, global uint *seen,
                 global uint *cells, global uint *wrong, const uint n"""

#: All levels of the tree: a loop over the elements of a level, which pushes their children.
_LEVEL: Final = """
kernel void NAME(TREE, const uint most)
{
    PORTBAR_ENTER(grid);
    PORTBAR_FRONTIER(frontier, &grid, list);
    const uint width = (uint)get_local_size(0);
    uint level = 0u;
    bool more = true;
    while (more && level++ < most) {
        const uint size = portbar_frontier_size(&frontier);
        LOOP
            if (v < n)
                visit(seen, cells, wrong, v);
            PUSH
        }
        more = portbar_device_frontier_swap(&grid, &frontier);
    }
    if (portbar_frontier_size(&frontier) != 0u && level < most)
        wrong[1] = 1u;
}
"""
_FOR: Final = """PORTBAR_FOR(i, &grid, size) {
            const uint v = items[portbar_frontier_at(&frontier, i)];"""
_DYNAMIC: Final = _FOR.replace("PORTBAR_FOR(i, &grid, size)", "PORTBAR_FOR_DYNAMIC(i, &grid, size, 3)")
#: By whole work-groups, whose work-items may have no element.
_TILES: Final = """PORTBAR_FOR_TILES(tile, &grid, (size + width - 1u) / width) {
            const uint i = tile * width + (uint)get_local_id(0);
            const uint v = i < size ? items[portbar_frontier_at(&frontier, i)] : n;"""
_EACH: Final = """
            if (2u * v + 1u < n)
                portbar_frontier_push(&frontier, items, 2u * v + 1u);
            if (2u * v + 2u < n)
                portbar_frontier_push(&frontier, items, 2u * v + 2u);
"""
_GROUP_EACH: Final = """
            portbar_work_group_frontier_push(&grid, &frontier, items, 2u * v + 1u, 2u * v + 1u < n);
            portbar_work_group_frontier_push(&grid, &frontier, items, 2u * v + 2u, 2u * v + 2u < n);
"""
_BOTH: Final = """
            const uint children = 2u * v + 2u < n ? 2u : 2u * v + 1u < n ? 1u : 0u;
            const uint place = portbar_frontier_reserve(&frontier, children);
            for (uint c = 0u; c < children && place != PORTBAR_WORKLIST_FULL; ++c)
                items[place + c] = 2u * v + 1u + c;
"""
_GROUP_BOTH: Final = _BOTH.replace("portbar_frontier_reserve(", "portbar_work_group_frontier_reserve(&grid, ")
_FORMS: Final = {
    "lone_each": (_FOR, _EACH),
    "lone_both": (_FOR, _BOTH),
    "lone_dynamic": (_DYNAMIC, _EACH),
    "group_each": (_TILES, _GROUP_EACH),
    "group_both": (_TILES, _GROUP_BOTH),
}
#: Names of the kernels that go through a tree level by level.
LEVELS: Final = tuple(_FORMS)
_LEVELS: Final = "".join(
    _LEVEL.replace("NAME", name).replace("LOOP", loop).replace("PUSH", push) for name, (loop, push) in _FORMS.items()
)

_FRONTIERS: Final = """
/* Two frontiers: even numbers go to one, odd ones to the other, until both are empty. */
kernel void two(PORTBAR_GRID_PARAM, global portbar_worklist *even, global uint *evens, global portbar_worklist *odd,
                global uint *odds, global uint *seen, const uint n)
{
    PORTBAR_ENTER(grid);
    PORTBAR_FRONTIER(a, &grid, even);
    PORTBAR_FRONTIER(b, &grid, odd);
    bool more = true;
    while (more) {
        PORTBAR_FOR(i, &grid, portbar_frontier_size(&a) + portbar_frontier_size(&b)) {
            const uint size = portbar_frontier_size(&a);
            const uint v = i < size ? evens[portbar_frontier_at(&a, i)] : odds[portbar_frontier_at(&b, i - size)];
            portbar_atomic_fetch_add_explicit(seen + v, i < size ? 1u : 100u, memory_order_relaxed, memory_scope_device);
            if (2u * v + 1u < n)
                portbar_frontier_push(&b, odds, 2u * v + 1u);
            if (2u * v + 2u < n)
                portbar_frontier_push(&a, evens, 2u * v + 2u);
        }
        more = portbar_device_frontier_swap(&grid, &a);
        more = portbar_device_frontier_swap(&grid, &b) || more;
    }
}

/* Each work-item pushes so many elements and no swap follows, or one does. */
kernel void produce(PORTBAR_GRID_PARAM, global portbar_worklist *list, global uint *items, global uint *out, const uint each,
                    const uint swaps)
{
    PORTBAR_ENTER(grid);
    PORTBAR_FRONTIER(frontier, &grid, list);
    for (uint k = 0u; k < each; ++k)
        portbar_frontier_push(&frontier, items, portbar_global_id(&grid) * each + k);
    bool more = false;
    for (uint s = 0u; s < swaps; ++s)
        more = portbar_device_frontier_swap(&grid, &frontier);
    out[portbar_global_id(&grid)] = (more ? 1u : 0u) + 2u * portbar_frontier_size(&frontier);
    if (!portbar_device_barrier(&grid))
        out[portbar_global_id(&grid)] = 1000u;
}
"""

#: Reservations of given sizes, by each work-item alone or by work-groups in turn; what each got, and what the swap says.
_RESERVES: Final = """
kernel void reserves_NAME(PORTBAR_GRID_PARAM, global portbar_worklist *list, global uint *items, global const uint *wanted,
                          const uint steps, global uint *got, const uint swaps)
{
    PORTBAR_ENTER(grid);
    PORTBAR_FRONTIER(frontier, &grid, list);
    const uint me = portbar_global_id(&grid);
    for (uint k = 0u; k < steps; ++k)
        got[me * steps + k] = RESERVE;
    bool more = false;
    if (swaps != 0u)
        more = portbar_device_frontier_swap(&grid, &frontier);
    got[portbar_global_size(&grid) * steps + me] = more ? portbar_frontier_size(&frontier) : PORTBAR_WORKLIST_FULL;
}
"""
_LONE: Final = "portbar_frontier_reserve(&frontier, wanted[me * steps + k])"
_GROUP: Final = "portbar_work_group_frontier_reserve(&grid, &frontier, wanted[me * steps + k])"
#: The ways to reserve, each a kernel `reserves_...`.
RESERVES: Final = {"lone": _LONE, "group": _GROUP, "mixed": f"k % 2u == 0u ? {_LONE} : {_GROUP}"}

#: Tasks are vertices; a task pushes its children when it has written.
_TASKS: Final = """
#define PUSH_CHILDREN \\
    for (uint c = 1u; c < 3u; ++c) \\
        if (2u * v + c < n && !portbar_task_queue_push(&grid, &queue, items, 2u * v + c)) \\
            wrong[2] = 1u
kernel void task_groups(TREE)
{
    local uint v;
    PORTBAR_ENTER(grid);
    PORTBAR_TASK_QUEUE(queue, &grid, list);
    while (portbar_work_group_task_queue_pop(&grid, &queue, items, &v)) {
        const uint me = (uint)get_local_id(0);
        if (me == 0u)
            visit(seen, cells, wrong, v);
        barrier(CLK_GLOBAL_MEM_FENCE);
        /* No constant bound, which the quirk pocl-constant-loops is about. */
        for (uint c = 1u; c < min(3u, n + 3u); ++c)
            if (me == c % (uint)get_local_size(0) && 2u * v + c < n)
                portbar_task_queue_push(&grid, &queue, items, 2u * v + c);
    }
}
kernel void task_groups_push(TREE)
{
    local uint v;
    PORTBAR_ENTER(grid);
    PORTBAR_TASK_QUEUE(queue, &grid, list);
    while (portbar_work_group_task_queue_pop(&grid, &queue, items, &v)) {
        const uint me = (uint)get_local_id(0);
        const uint child = 2u * v + 1u + me;
        if (me == 0u)
            visit(seen, cells, wrong, v);
        barrier(CLK_GLOBAL_MEM_FENCE);
        const bool fits = portbar_work_group_task_queue_push(&grid, &queue, items, child, me < 2u && child < n);
        if (!fits)
            wrong[2] = 1u;
    }
}
kernel void task_leaders(TREE)
{
    PORTBAR_ENTER(grid);
    PORTBAR_TASK_QUEUE(queue, &grid, list);
    uint v = 0u;
    if (get_local_id(0) == 0u)
        while (portbar_task_queue_pop(&grid, &queue, items, &v)) {
            visit(seen, cells, wrong, v);
            PUSH_CHILDREN;
        }
}
kernel void task_items(TREE)
{
    PORTBAR_ENTER(grid);
    PORTBAR_TASK_QUEUE(queue, &grid, list);
    uint v = 0u, got = PORTBAR_TASK_LATER;
    while (got != PORTBAR_TASKS_DONE) {
        got = portbar_task_queue_try_pop(&grid, &queue, items, &v);
        if (got == PORTBAR_TASK_TAKEN) {
            visit(seen, cells, wrong, v);
            PUSH_CHILDREN;
        }
    }
}
"""
#: Names of the kernels that take tasks.
TASKS: Final = ("task_groups", "task_groups_push", "task_leaders", "task_items")

_MORE_TASKS: Final = """
typedef struct {
    uint a[3];
    float b;
} wide;

/* Tasks of a type of the author's: a chain for each, whose sum the last one notes. */
kernel void chains(PORTBAR_GRID_PARAM, global portbar_worklist *list, global wide *items, global float *sums)
{
    local wide task;
    PORTBAR_ENTER(grid);
    PORTBAR_TASK_QUEUE(queue, &grid, list);
    while (portbar_work_group_task_queue_pop(&grid, &queue, items, &task)) {
        wide next = task;
        next.b += (float)next.a[1];
        next.a[1] -= 1u;
        if (get_local_id(0) == 0u) {
            if (next.a[1] == 0u)
                sums[next.a[0]] = next.b + (float)next.a[2];
            else
                portbar_task_queue_push(&grid, &queue, items, next);
        }
    }
}

/* Several rounds in one launch: the host gives no task, each group pushes one before a device barrier. */
kernel void rounds(PORTBAR_GRID_PARAM, global portbar_worklist *list, global uint *items, global uint *sums, const uint n)
{
    local uint task;
    PORTBAR_ENTER(grid);
    PORTBAR_TASK_QUEUE(queue, &grid, list);
    bool held = true;
    for (uint r = 0u; r < n && held; ++r) {
        if (get_local_id(0) == 0u)
            portbar_task_queue_push(&grid, &queue, items, r + 1u);
        held = portbar_device_barrier(&grid);
        while (portbar_work_group_task_queue_pop(&grid, &queue, items, &task))
            if (get_local_id(0) == 0u)
                portbar_atomic_fetch_add_explicit(sums + r, task, memory_order_relaxed, memory_scope_device);
        held = portbar_device_barrier(&grid) && held;
    }
}

ROUNDS_ON
/* A task that never finishes: the work-group that gets it leaves. */
kernel void leaves(PORTBAR_GRID_PARAM, global portbar_worklist *list, global uint *items, global uint *out)
{
    local uint task;
    PORTBAR_ENTER(grid);
    PORTBAR_TASK_QUEUE(queue, &grid, list);
    uint ended = 1u;
    while (portbar_work_group_task_queue_pop(&grid, &queue, items, &task)) {
        if (task == 7u) {
            ended = 2u;
            break;
        }
    }
    out[portbar_global_id(&grid)] = ended + (ended == 1u && portbar_device_ok(&grid) ? 4u : 0u);
}

/* The list's own words, which the reader does not know, are for functions without barriers. */
static void reserve(portbar_task_queue queue)
{
    portbar_atomic_fetch_add_explicit(queue.words + PORTBAR_TASKS_PUSHED, 1u, memory_order_relaxed, memory_scope_device);
}

static uint look(const portbar_grid *grid, portbar_task_queue queue)
{
    return portbar_task_queue_look(grid, &queue);
}

static uint last_slot(portbar_task_queue queue)
{
    return queue.mask;
}

/* A slot that is reserved and never written. */
kernel void reserves(PORTBAR_GRID_PARAM, global portbar_worklist *list, global uint *items, global uint *out)
{
    local uint task;
    PORTBAR_ENTER(grid);
    PORTBAR_TASK_QUEUE(queue, &grid, list);
    if (portbar_global_id(&grid) == 0u)
        reserve(queue);
    uint met = 0u;
    if (portbar_device_barrier(&grid))
        while (portbar_work_group_task_queue_pop(&grid, &queue, items, &task))
            ++met;
    out[portbar_global_id(&grid)] = met;
}

/* A slot that is taken and never freed: the next task for it waits. */
kernel void keeps(PORTBAR_GRID_PARAM, global portbar_worklist *list, global uint *items, global uint *out)
{
    PORTBAR_ENTER(grid);
    PORTBAR_TASK_QUEUE(queue, &grid, list);
    if (portbar_global_id(&grid) == 0u) {
        const uint slot = look(&grid, queue);
        out[0] = slot;
        for (uint k = 0u, last = last_slot(queue); k <= last; ++k)
            out[1] = portbar_task_queue_push(&grid, &queue, items, k) ? 1u : 0u;
    }
}

/* A chain of tasks, each with so many turns of work: whoever has none waits for all of it. */
kernel void slow(PORTBAR_GRID_PARAM, global portbar_worklist *list, global uint *items, global uint *out, const uint turns)
{
    local uint task;
    PORTBAR_ENTER(grid);
    PORTBAR_TASK_QUEUE(queue, &grid, list);
    while (portbar_work_group_task_queue_pop(&grid, &queue, items, &task)) {
        volatile uint work = 0u;
        for (uint k = 0u; k < turns; ++k)
            work += k;
        if (get_local_id(0) == 0u) {
            out[0] += 1u;
            if (task != 0u)
                portbar_task_queue_push(&grid, &queue, items, task - 1u);
        }
    }
}

/* Every task pushes two, for ever. */
kernel void explodes(PORTBAR_GRID_PARAM, global portbar_worklist *list, global uint *items, global uint *out)
{
    local uint task;
    PORTBAR_ENTER(grid);
    PORTBAR_TASK_QUEUE(queue, &grid, list);
    bool fits = true;
    while (portbar_work_group_task_queue_pop(&grid, &queue, items, &task))
        if (get_local_id(0) == 0u)
            for (uint c = 0u; c < 2u; ++c)
                fits = portbar_task_queue_push(&grid, &queue, items, task + 1u) && fits;
    if (!fits)
        out[0] = 1u;
}
"""

#: Rounds with no barrier but that between pushes and pops: groups that are late take part in the next one.
_ROUNDS_ON: Final = """
kernel void NAME(PORTBAR_GRID_PARAM, global portbar_worklist *list, global uint *items, global uint *seen, const uint rounds,
                 const uint each)
{
    local uint task;
    PORTBAR_ENTER(grid);
    PORTBAR_TASK_QUEUE(queue, &grid, list);
    uint mine = 0u;
    for (uint r = 0u; r < rounds; ++r) {
        if (portbar_global_id(&grid) == 0u)
            for (uint k = 0u; k < each; ++k)
                portbar_task_queue_push(&grid, &queue, items, r * each + k);
        if (!portbar_device_barrier(&grid))
            return;
        POP
    }
}
"""
_NOTED: Final = "portbar_atomic_fetch_add_explicit(seen + NUMBER, 1u, memory_order_relaxed, memory_scope_device);"
_POPS: Final = {
    "rounds_of_groups": """while (portbar_work_group_task_queue_pop(&grid, &queue, items, &task))
            if (get_local_id(0) == 0u)
                """
    + _NOTED.replace("NUMBER", "task"),
    "rounds_of_leaders": """if (get_local_id(0) == 0u)
            while (portbar_task_queue_pop(&grid, &queue, items, &mine))
                """
    + _NOTED.replace("NUMBER", "mine"),
    "rounds_of_items": """for (uint got = PORTBAR_TASK_LATER; got != PORTBAR_TASKS_DONE;) {
            got = portbar_task_queue_try_pop(&grid, &queue, items, &mine);
            if (got == PORTBAR_TASK_TAKEN)
                """
    + _NOTED.replace("NUMBER", "mine")
    + "\n        }",
}
#: Names of the kernels with rounds that nothing separates.
ROUNDS_ON: Final = tuple(_POPS)

PLACES: Final = _HEAD + "".join(
    _RESERVES.replace("NAME", name).replace("RESERVE", way) for name, way in RESERVES.items()
)
SOURCE: Final = _HEAD + _VISIT + (_LEVELS + _FRONTIERS + _TASKS).replace("TREE", _TREE)
FAULTS: Final = _HEAD + _MORE_TASKS.replace(
    "ROUNDS_ON", "".join(_ROUNDS_ON.replace("NAME", name).replace("POP", pop) for name, pop in _POPS.items())
)
