"""The device barrier: what any work-item wrote before it, every work-item of every group reads after it."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

cl = pytest.importorskip("pyopencl")

import portbar  # noqa: E402
from portbar.device import quirks  # noqa: E402
from portbar.device.facts import facts  # noqa: E402
from tests import support  # noqa: E402 (needs PyOpenCL)

pytestmark = pytest.mark.device

WITH_INTEL = (*support.ALGORITHMS, "intel_device_barrier")
SIZES = [(1,), (8,), (64,), (7,), (4, 2), (4, 2, 2)]
#: Each algorithm with the default discovery, and the other two with algorithms that keep their words in different places.
PAIRS = [
    *((algorithm, "packed") for algorithm in WITH_INTEL),
    *(("counter", "ticket"), ("tree", "ticket"), ("xf", "spin"), ("tree", "spin")),
]
#: All work-items take part in the waiting of xf alone; in the others one does, whatever the shape. (8,) is everywhere else.
SHAPES = [
    *(("counter", local) for local in [(7,), (4, 2, 2)]),
    *(("tree", local) for local in [(1,), (64,)]),
    *(("xf", local) for local in [(1,), (7,), (64,), (4, 2), (4, 2, 2)]),
]

LATE = """
#include "portbar/device_barrier.h"

/* Group 1 writes after a while, or as soon as group 0 has passed the barrier without it: what group 0 reads then. */
kernel void late(PORTBAR_GRID_PARAM, volatile global uint *passed, global uint *data, const uint polls)
{
    PORTBAR_ENTER(grid);
    const uint me = portbar_group_id(&grid);
    for (uint i = 0u; me == 1u && i < polls; ++i)
        if (passed[0] != 0u)
            i = polls;
    data[portbar_global_id(&grid)] = 1u;
    const bool held = portbar_device_barrier(&grid);
    const uint read = data[(portbar_global_id(&grid) + get_local_size(0)) % portbar_global_size(&grid)];
    passed[me] = held ? 1u + read : 1u;
}
"""

COPIED = """
#include "portbar/device_barrier.h"

/* Meets by a copy of the grid, as an author does who hands it on by value. */
static bool met_elsewhere(portbar_grid grid)
{
    return portbar_device_barrier(&grid);
}

kernel void copied(PORTBAR_GRID_PARAM, global uint *words, global uint *early, const uint rounds)
{
    PORTBAR_ENTER(grid);
    const uint me = portbar_group_id(&grid), count = portbar_num_groups(&grid);
    const bool first = get_local_id(0) == 0u;
    for (uint r = 1u; r <= rounds; ++r) {
        if (first)
            words[me] = r;
        const bool held = (r % 3u) ? met_elsewhere(grid) : portbar_device_barrier(&grid);
        if (!held)
            return;
        if (first && words[(me + r) % count] < r)
            early[me] = 1u;
        if (!portbar_device_barrier(&grid))
            return;
    }
    if (first)
        early[me] += 2u;
}
"""

SOURCE = """
#include "portbar/device_barrier.h"

/* Each round's values depend on what another work-item wrote in the round before, so one early passage spoils the result. */
kernel void chain(PORTBAR_GRID_PARAM, global uint *even, global uint *odd, global uint *sums, local uint *shelves,
                  const uint rounds)
{
    PORTBAR_ENTER(grid);
    const uint n = portbar_global_size(&grid), me = portbar_global_id(&grid);
    const uint items = n / portbar_num_groups(&grid), here = me - portbar_group_id(&grid) * items;
    uint sum = 0u;
    bool held = true;
    for (uint r = 0u; r < rounds; ++r) {
        global uint *from = (r & 1u) ? odd : even;
        global uint *to = (r & 1u) ? even : odd;
        local uint *shelf = shelves + (r & 1u) * items;
        const uint got = from[(me + 17u * r + 5u) % n];
        to[me] = got * 1664525u + me + r;
        shelf[here] = got ^ r;
        held = portbar_device_barrier(&grid) && held;
        sum = sum * 31u + shelf[items - 1u - here];
    }
    sums[me] = held ? sum : 0u;
}

/* The same through arrive and wait, with work in between that the others may not depend on. */
kernel void split_chain(PORTBAR_GRID_PARAM, global uint *even, global uint *odd, global uint *sums, local uint *shelves,
                        const uint rounds)
{
    PORTBAR_ENTER(grid);
    const uint n = portbar_global_size(&grid), me = portbar_global_id(&grid);
    const uint items = n / portbar_num_groups(&grid), here = me - portbar_group_id(&grid) * items;
    uint sum = 0u, work = 0u;
    bool held = true;
    for (uint r = 0u; r < rounds; ++r) {
        global uint *from = (r & 1u) ? odd : even;
        global uint *to = (r & 1u) ? even : odd;
        local uint *shelf = shelves + (r & 1u) * items;
        const uint got = from[(me + 17u * r + 5u) % n];
        to[me] = got * 1664525u + me + r;
        shelf[here] = got ^ r;
        const portbar_device_token token = portbar_device_barrier_arrive(&grid);
        for (uint i = 0u; i < (me + r) % 5u; ++i)
            work = work * 31u ^ (i + r);
        held = portbar_device_barrier_wait(&grid, token) && held;
        sum = sum * 31u + shelf[items - 1u - here];
    }
    sums[me] = held && work < 0xffffffffu ? sum : 0u;
}

/* The same by polling test_wait, which needs no wait once it was true; every third round is a whole barrier. */
kernel void tested_chain(PORTBAR_GRID_PARAM, global uint *even, global uint *odd, global uint *sums, local uint *shelves,
                         const uint rounds)
{
    PORTBAR_ENTER(grid);
    const uint n = portbar_global_size(&grid), me = portbar_global_id(&grid);
    const uint items = n / portbar_num_groups(&grid), here = me - portbar_group_id(&grid) * items;
    uint sum = 0u;
    bool held = true;
    for (uint r = 0u; r < rounds; r += 2u) {
        uint got = even[(me + 17u * r + 5u) % n];
        odd[me] = got * 1664525u + me + r;
        shelves[here] = got ^ r;
        const portbar_device_token token = portbar_device_barrier_arrive(&grid);
        while (!portbar_device_barrier_test_wait(&grid, token))
            held = held && me < n;
        sum = sum * 31u + shelves[items - 1u - here];
        got = odd[(me + 17u * (r + 1u) + 5u) % n];
        even[me] = got * 1664525u + me + r + 1u;
        shelves[items + here] = got ^ (r + 1u);
        held = portbar_device_barrier(&grid) && held;
        sum = sum * 31u + shelves[items + items - 1u - here];
    }
    sums[me] = held ? sum : 0u;
}

kernel void identify(PORTBAR_GRID_PARAM, global uint *groups, global uint *items, global uint *sizes)
{
    PORTBAR_ENTER(grid);
    if ((get_local_id(0) | get_local_id(1) | get_local_id(2)) == 0u)
        atomic_inc(groups + portbar_group_id(&grid));
    atomic_inc(items + portbar_global_id(&grid));
    if (portbar_global_id(&grid) == 0u) {
        sizes[0] = portbar_num_groups(&grid);
        sizes[1] = portbar_global_size(&grid);
    }
}

/* Loops whose end depends on what another work-group writes, the barrier as the author would write it. */
kernel void until(PORTBAR_GRID_PARAM, global uint *level, global uint *trips, const uint target)
{
    PORTBAR_ENTER(grid);
    const uint n = portbar_global_size(&grid), me = portbar_global_id(&grid);
    uint trip = 0u;
    while (level[0] < target) {
        if (!portbar_device_barrier(&grid))
            return;
        if (me == trip % n)
            level[0] += 1u + (trip & 1u);
        if (!portbar_device_barrier(&grid))
            return;
        ++trip;
    }
    trips[me] = trip;
}

/* Triangular nested loops, a barrier on both levels. */
kernel void nested(PORTBAR_GRID_PARAM, global uint *cell, global uint *wrong, const uint outer)
{
    PORTBAR_ENTER(grid);
    const uint n = portbar_global_size(&grid), me = portbar_global_id(&grid);
    for (uint i = 0u; i < outer; ++i) {
        for (uint j = 0u; j <= i; ++j) {
            cell[me] = i * 1000u + j * 10u + me;
            if (!portbar_device_barrier(&grid))
                return;
            const uint other = (me + i + j + 1u) % n;
            if (cell[other] != i * 1000u + j * 10u + other)
                atomic_inc(wrong);
            if (!portbar_device_barrier(&grid))
                return;
        }
        cell[me] = i + 7u;
        if (!portbar_device_barrier(&grid))
            return;
        if (cell[n - 1u - me] != i + 7u)
            atomic_inc(wrong);
        if (!portbar_device_barrier(&grid))
            return;
    }
    if (me == 0u)
        wrong[1] = 1u;
}

/* Counts the barriers that held in each work-item. */
kernel void count(PORTBAR_GRID_PARAM, global uint *passed, const uint rounds)
{
    PORTBAR_ENTER(grid);
    uint held = 0u;
    for (uint r = 0u; r < rounds; ++r)
        held += portbar_device_barrier(&grid) ? 1u : 0u;
    passed[portbar_global_id(&grid)] = held;
}
"""


def expected_chain(start: support.UInts, groups: int, items: int, rounds: int) -> tuple[support.UInts, support.UInts]:
    """Do what `chain` does, on the host: the last values and the sums."""
    n = groups * items
    me = np.arange(n, dtype=np.uint32)
    values, sums = start[:n].copy(), np.zeros(n, np.uint32)
    mirror = (me // items) * items + items - 1 - me % items
    with np.errstate(over="ignore"):
        for r in map(np.uint32, range(rounds)):
            got = values[(me + np.uint32(17) * r + np.uint32(5)) % np.uint32(n)]
            values = got * np.uint32(1664525) + me + r
            sums = sums * np.uint32(31) + (got ^ r)[mirror]
    return values, sums


def arguments(queue: Any, local: tuple[int, ...]) -> tuple[Any, ...]:
    """Arguments for the occupancy of a chain kernel, whose local memory counts."""
    one = support.filled(queue, 1)
    return one, one, one, cl.LocalMemory(8 * math.prod(local)), np.uint32(0)


def check_chain(made: Any, queue: Any, local: tuple[int, ...], rounds: int, **sizes: Any) -> int:
    """Run a chain kernel and compare with the host; return how many groups met."""
    items = math.prod(local)
    most = support.room(made, queue, local, *arguments(queue, local))
    start = np.random.default_rng(items + rounds).integers(1 << 32, size=most * items, dtype=np.uint32)
    even, odd = support.to_device(queue, start), support.filled(queue, most * items)
    sums = support.filled(queue, most * items, 0xDEAD)
    launch = made(queue, None, local, even, odd, sums, cl.LocalMemory(8 * items), np.uint32(rounds), **sizes)
    launch.wait()
    groups = launch.num_groups
    assert 1 <= groups <= most
    values, totals = expected_chain(start, groups, items, rounds)
    n = groups * items
    np.testing.assert_array_equal(support.uints(queue, odd if rounds % 2 else even)[:n], values)
    np.testing.assert_array_equal(support.uints(queue, sums)[:n], totals)
    assert (support.uints(queue, sums)[n:] == 0xDEAD).all()
    return groups


@pytest.mark.parametrize(("algorithm", "discovery"), PAIRS)
def test_data_written_before_is_read_after(context, queue, algorithm, discovery):
    support.skip_without_intel_barrier(queue.device, algorithm)
    chain = support.kernel(context, SOURCE, "chain", device_barrier=algorithm, discovery=discovery)
    for _ in range(3):
        check_chain(chain, queue, (8,), support.scale(queue.device).rounds)


@pytest.mark.parametrize(("algorithm", "local"), SHAPES, ids=str)
def test_every_shape_of_work_group_meets(context, queue, algorithm, local):
    check_chain(
        support.kernel(context, SOURCE, "chain", device_barrier=algorithm),
        queue,
        local,
        support.scale(queue.device).rounds + 1,
    )


@pytest.mark.parametrize("algorithm", WITH_INTEL)
def test_many_rounds_in_one_launch(context, queue, algorithm):
    support.skip_without_intel_barrier(queue.device, algorithm)
    rounds = support.scale(queue.device).many_rounds
    chain = support.kernel(context, SOURCE, "chain", device_barrier=algorithm)
    # Rounds are what this is about: with thousands of groups they would take minutes where one group polls all others.
    holds = chain.occupancy(queue, (1,), *arguments(queue, (1,))).groups
    check_chain(chain, queue, (1,), rounds, num_groups=min(128, holds))


def test_a_group_that_is_late_at_its_second_counter_is_no_fault(context, queue):
    """Groups that wait for the counter at which it has been may come to the other one again before it does."""
    text = support.program(context, SOURCE, device_barrier="replicated").rendered(queue.device)
    first = "portbar_check_arrival(grid, complete - portbar_word_arrive(p) - 1u, grid->num_groups);"
    if first not in text:
        pytest.skip("arrivals are not checked on this device")
    # Until it has been seen, or for some milliseconds.
    again = "(int)(portbar_word_load(q) - complete) < 0"
    late = f"for (uint turn = 0; grid->group_id == 0u && turn < 1000000u && {again}; ++turn) portbar_yield(turn);"
    chain = portbar.Program(context, text.replace(first, first + late), spin_limit=20.0).kernel("chain")
    holds = chain.occupancy(queue, (1,), *arguments(queue, (1,))).groups
    if holds < 3:
        pytest.skip("a third work-group is needed, to arrive again while the second one waits for the first")
    check_chain(chain, queue, (1,), 20, num_groups=min(6, holds))


def skip_where_loops_end_early(device: Any) -> None:
    """Skip where the driver leaves an outer loop as soon as an inner one with barriers ends, also with one work-item."""
    if quirks.loop_limit(facts(device), None) is not None:
        pytest.skip("this llvmpipe leaves the outer loop when an inner loop on test_wait ends")


@pytest.mark.parametrize("name", ["split_chain", "tested_chain"])
@pytest.mark.parametrize("algorithm", ["counter", "flag", "xf"])
def test_the_split_form_orders_memory_as_the_whole_barrier_does(context, queue, algorithm, name):
    if name == "tested_chain":
        skip_where_loops_end_early(queue.device)
    made = support.kernel(context, SOURCE, name, device_barrier=algorithm)
    for local in ((1,), (8,)):
        check_chain(made, queue, local, 2 * support.scale(queue.device).rounds)


@pytest.mark.parametrize("algorithm", WITH_INTEL)
def test_every_barrier_of_every_work_item_answers_true(context, queue, algorithm):
    support.skip_without_intel_barrier(queue.device, algorithm)
    rounds = support.scale(queue.device).rounds
    count = support.kernel(context, SOURCE, "count", device_barrier=algorithm)
    passed = support.cells(count, queue, (8,), 0xDEAD)
    launch = count(queue, None, (8,), passed, np.uint32(rounds))
    launch.wait()
    found = support.uints(queue, passed)
    assert (found[: 8 * launch.num_groups] == rounds).all()
    assert (found[8 * launch.num_groups :] == 0xDEAD).all()


@pytest.mark.parametrize("algorithm", support.ALGORITHMS)
def test_a_grid_of_one_group_passes(context, queue, algorithm):
    chain = support.kernel(context, SOURCE, "chain", device_barrier=algorithm)
    assert check_chain(chain, queue, (8,), 5, num_groups=1) == 1


@pytest.mark.parametrize("algorithm", support.ALGORITHMS)
def test_a_loop_may_end_on_data_that_another_group_wrote(context, queue, algorithm):
    target = support.scale(queue.device).rounds
    made = support.kernel(context, SOURCE, "until", device_barrier=algorithm)
    level, trips = support.filled(queue, 1), support.cells(made, queue, (8,), 0xDEAD)
    launch = made(queue, None, (8,), level, trips, np.uint32(target))
    launch.wait()
    steps, reached = 0, 0
    while reached < target:
        reached += 1 + steps % 2
        steps += 1
    assert support.uints(queue, level)[0] == reached
    assert (support.uints(queue, trips)[: 8 * launch.num_groups] == steps).all()


@pytest.mark.parametrize("algorithm", support.ALGORITHMS)
def test_barriers_may_stand_in_nested_loops(context, queue, algorithm):
    outer = 3 if support.scale(queue.device).is_simulator else 12
    made = support.kernel(context, SOURCE, "nested", device_barrier=algorithm)
    cell, wrong = support.cells(made, queue, (8,)), support.filled(queue, 2)
    made(queue, None, (8,), cell, wrong, np.uint32(outer)).wait()
    assert support.uints(queue, wrong).tolist() == [0, 1]


@pytest.mark.parametrize(
    ("discovery", "local"),
    [
        *(("packed", local) for local in SIZES),
        ("ticket", (7,)),
        ("ticket", (4, 2)),
        ("spin", (64,)),
        ("spin", (4, 2, 2)),
    ],
    ids=str,
)
def test_group_and_item_ids_have_no_gaps(context, queue, discovery, local):
    items, identify = math.prod(local), support.kernel(context, SOURCE, "identify", discovery=discovery)
    most = support.room(identify, queue, local)
    groups, ids, sizes = support.filled(queue, most), support.filled(queue, most * items), support.filled(queue, 2)
    launch = identify(queue, None, local, groups, ids, sizes)
    launch.wait()
    found = launch.num_groups
    assert support.uints(queue, sizes).tolist() == [found, found * items]
    np.testing.assert_array_equal(support.uints(queue, groups), np.arange(most) < found)
    np.testing.assert_array_equal(support.uints(queue, ids), np.arange(most * items) < found * items)


def test_all_groups_that_the_device_holds_are_found_most_times(context, queue):
    made = support.kernel(context, SOURCE, "count")
    holds = made.occupancy(queue, (1,)).groups
    passed = support.cells(made, queue, (1,))
    counts = []
    for _ in range(10):
        launch = made(queue, None, (1,), passed, np.uint32(2))
        launch.wait()
        counts.append(launch.num_groups)
    assert max(counts) >= holds, (counts, holds)


def test_a_whole_barrier_and_its_halves_may_alternate_between_launches(context, queue):
    names = ("chain", "split_chain", "tested_chain", "chain")
    skip_where_loops_end_early(queue.device)
    for before, after in pairwise(names):
        for name in (before, after):
            check_chain(support.kernel(context, SOURCE, name), queue, (7,), 4)


@pytest.mark.parametrize("name", ["chain", "split_chain"])
@pytest.mark.parametrize("algorithm", support.ALGORITHMS)
def test_launches_of_any_size_may_follow_each_other_on_one_queue(context, queue, algorithm, name):
    """Each begins with counters at nothing, wherever they are: places are measured by the first launch with groups enough."""
    chain = support.kernel(context, SOURCE, name, device_barrier=algorithm)
    holds = chain.occupancy(queue, (8,), *arguments(queue, (8,))).groups
    for groups in (2, 3, 40, 80, 2, holds, 3):
        check_chain(chain, queue, (8,), 6, num_groups=min(groups, holds))


@pytest.mark.parametrize("effect", [quirks.IDS_LOST, quirks.LEADER_FORGOTTEN])
@pytest.mark.parametrize("algorithm", ["replicated", "flag", "tree"])
def test_the_forms_for_faulty_compilers_are_right_everywhere(context, queue, algorithm, effect):
    """So that they stay right where the compilers that need them are not at hand."""
    profile = portbar.describe(queue.device)
    chosen = portbar.choose(profile, {"device_barrier": algorithm})
    strategy = replace(chosen, workarounds=chosen.workarounds | {effect})
    program = portbar.Program(context, SOURCE, strategy=strategy, spin_limit=20.0)
    for name in ("chain", "split_chain"):
        check_chain(program.kernel(name), queue, (8,), 6)


@pytest.mark.parametrize("algorithm", support.ALGORITHMS)
def test_a_copy_of_the_grid_meets_as_the_grid_itself_does(context, queue, algorithm):
    made = support.kernel(context, COPIED, "copied", device_barrier=algorithm)
    count = made.occupancy(queue, (8,)).groups
    words, early = support.filled(queue, count), support.filled(queue, count)
    launch = made(queue, None, (8,), words, early, np.uint32(50))
    launch.wait()
    assert support.uints(queue, early)[: launch.num_groups].tolist() == [2] * launch.num_groups


@pytest.mark.parametrize("algorithm", support.ALGORITHMS)
def test_what_a_launch_left_behind_65536_launches_ago_lets_nobody_through(context, queue, algorithm):
    made = support.kernel(context, LATE, "late", device_barrier=algorithm)
    support.need_groups(made, queue, (2,), 2)
    passed, data = support.filled(queue, 64), support.filled(queue, 128)
    polls = np.uint32(0 if support.scale(queue.device).is_simulator else 2_000_000)
    for _ in range(20):
        if made(queue, None, (2,), passed, data, np.uint32(0), num_groups=2).num_groups == 2:
            break
    else:
        pytest.skip("the busy machine never ran 2 work-groups at once")
    for more in (1 << 16, 1 << 17, 1 << 20):
        state = made.program.states.grid(queue, 2)
        # As after that many launches of one work-group, which leave nothing in the words of the second.
        state.epoch += more - 1
        for buffer in (passed, data):
            cl.enqueue_fill_buffer(queue, buffer, np.uint32(0), 0, buffer.size)
        launch = made(queue, None, (2,), passed, data, polls, num_groups=2)
        launch.wait()
        assert made.program.states.grid(queue, 2) is state
        assert support.uints(queue, passed)[: launch.num_groups].tolist() == [2] * launch.num_groups
