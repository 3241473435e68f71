"""The device barrier: what any work-item wrote before it, every work-item of every group reads after it."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pyopencl as cl
import pytest

import portbar
from portbar.device import quirks
from portbar.device.facts import facts
from tests import support
from tests.device_barrier.support import HEADER, SPLIT, WHOLE, WITH_INTEL, arguments, chain_kernel, check_chain, one
from tests.rows import some
from tests.support import grid_state

pytestmark = pytest.mark.device

SIZES = [(1,), (8,), (64,), (7,), (4, 2), (4, 2, 2)]
#: Algorithm, discovery and local size: each algorithm; the other discoveries with algorithms that keep their words in different
#: places; and shapes, of which all work-items take part in the waiting of xf alone.
MEETINGS = [
    *((algorithm, "packed", (8,)) for algorithm in WITH_INTEL),
    *((*pair, (8,)) for pair in (("counter", "ticket"), ("tree", "ticket"), ("xf", "spin"), ("tree", "spin"))),
    *(("counter", "packed", local) for local in [(7,), (4, 2, 2)]),
    *(("tree", "packed", local) for local in [(1,), (64,)]),
    *(("xf", "packed", local) for local in [(1,), (7,), (64,), (4, 2), (4, 2, 2)]),
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


FUNCTIONS = """
#include "portbar/device_barrier.h"

static bool meet(private portbar_grid *grid)
{
    return portbar_device_barrier(grid);
}

/* A compiler that does not inline the function may load too early: the effect CALLS_REORDERED. */
kernel void functions(PORTBAR_GRID_PARAM, global uint *data, global uint *seen)
{
    PORTBAR_ENTER(grid);
    PORTBAR_FOR(i, &grid, 64u)
        data[i] += 7u;
    if (!MEET(&grid))
        return;
    const uint read = data[4];
    if (!MEET(&grid))
        return;
    seen[portbar_global_id(&grid)] = read;
}
"""


#: Needs no wait once it was true.
TESTED = """const portbar_device_token token = portbar_device_barrier_arrive(&grid);
        while (!portbar_device_barrier_test_wait(&grid, token))
            held = held && me < n;"""
#: As an author does who hands the grid on by value.
COPIED = "held = met_elsewhere(grid) && held;"
INNER = f"for (uint j = r % 3u; j > 0u && r + 1u < rounds; --j) {{ ++r; {one(WHOLE)} }}"

#: Compilers take as long for each further kernel of a program, so those that few strategies need are apart.
FORMS = HEADER + chain_kernel("chain", "++r", one(WHOLE)) + chain_kernel("split_chain", "++r", one(SPLIT))
CHAINS = (
    chain_kernel("tested_chain", "r += 2u", one(TESTED), one(WHOLE, "r + 1u"))
    + chain_kernel("copied_chain", "r += 2u", one(COPIED), one(WHOLE, "r + 1u"))
    + chain_kernel("nested_chain", "++r", one(WHOLE), INNER)
)
IDENTIFY = (
    HEADER
    + """
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
"""
)
SOURCE = (
    FORMS
    + CHAINS
    + """
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
"""
)


@pytest.mark.parametrize(("algorithm", "discovery", "local"), MEETINGS, ids=str)
def test_data_written_before_is_read_after_and_every_barrier_returns_true(context, queue, algorithm, discovery, local):
    support.skip_without_intel_barrier(queue.device, algorithm)
    source = SOURCE if discovery == "packed" else FORMS
    made = support.kernel(context, source, "chain", device_barrier=algorithm, discovery=discovery)
    rounds = support.scale(queue.device).rounds
    for many in (rounds, rounds + 1, rounds):
        check_chain(made, queue, local, many)
    if algorithm in support.ALGORITHMS:  # Intel's own was seen to hang in a grid of one group
        assert check_chain(made, queue, local, 5, num_groups=1) == 1


@pytest.mark.parametrize("name", ["portbar_device_barrier", "meet"])
@pytest.mark.parametrize("algorithm", support.ALGORITHMS)
def test_a_read_after_a_barrier_in_a_function_is_not_moved_before_it(context, queue, algorithm, name):
    made = support.kernel(context, FUNCTIONS.replace("MEET", name), "functions", device_barrier=algorithm)
    seen = support.cells(made, queue, (4,))
    launch = made(queue, None, (4,), support.filled(queue, 64), seen)
    launch.wait()
    assert set(support.uints(queue, seen)[: 4 * launch.num_groups].tolist()) == {7}


@pytest.mark.parametrize("algorithm", WITH_INTEL)
def test_many_rounds_in_one_launch(context, queue, algorithm):
    support.skip_without_intel_barrier(queue.device, algorithm)
    rounds = support.scale(queue.device).many_rounds
    chain = support.kernel(context, SOURCE, "chain", device_barrier=algorithm)
    # Rounds are what this is about: with thousands of groups they would take minutes where one group polls all others.
    holds = chain.occupancy(queue, (1,), *arguments(queue, (1,))).groups
    check_chain(chain, queue, (1,), rounds, num_groups=min(128, holds))


def test_a_group_that_is_late_at_its_second_counter_is_not_a_fault(context, queue):
    """Groups that wait for the counter at which it has been may come to the other one again before it does."""
    text = support.program(context, SOURCE, device_barrier="replicated").rendered(queue.device)
    first = re.search(
        r"portbar_check_arrival\(grid, complete - portbar_word_\w+\(p(?:, 1u)?\) - 1u, grid->num_groups\);", text
    )
    if first is None:
        assert "portbar_check_arrival(grid, complete" not in text
        pytest.skip("arrivals are not checked on this device")
    # Until it has been seen, or for some milliseconds.
    again = "(int)(portbar_word_load(q) - complete) < 0"
    turn = "portbar_yield(turn)" if "void portbar_yield(" in text else ""
    late = f"for (uint turn = 0; grid->group_id == 0u && turn < 1000000u && {again}; ++turn) {turn};"
    chain = portbar.Program(context, text.replace(first[0], first[0] + late), spin_limit=20.0).kernel("chain")
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
    for local in some(((1,), (8,)), len(algorithm) + len(name)):
        check_chain(made, queue, local, 2 * support.scale(queue.device).rounds)


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
    items, identify = math.prod(local), support.kernel(context, IDENTIFY, "identify", discovery=discovery)
    most = support.room(identify, queue, local)
    groups, ids, sizes = support.filled(queue, most), support.filled(queue, most * items), support.filled(queue, 2)
    launch = identify(queue, None, local, groups, ids, sizes)
    launch.wait()
    found = launch.num_groups
    assert support.uints(queue, sizes).tolist() == [found, found * items]
    np.testing.assert_array_equal(support.uints(queue, groups), np.arange(most) < found)
    np.testing.assert_array_equal(support.uints(queue, ids), np.arange(most * items) < found * items)


def test_all_groups_that_the_device_holds_are_found_most_times(context, queue):
    made = support.kernel(context, SOURCE, "chain")
    holds = made.occupancy(queue, (1,), *arguments(queue, (1,))).groups
    counts = [check_chain(made, queue, (1,), 2) for _ in range(10)]
    assert max(counts) >= holds, (counts, holds)


def test_a_whole_barrier_and_its_halves_may_alternate_between_launches(context, queue):
    names = ("chain", "split_chain", "tested_chain", "chain")
    skip_where_loops_end_early(queue.device)
    for before, after in pairwise(names):
        for name in (before, after):
            check_chain(support.kernel(context, SOURCE, name), queue, (7,), 4)


@pytest.mark.parametrize("name", ["chain", "split_chain", "copied_chain", "nested_chain"])
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
    """So that they stay right on machines without the compilers that need them."""
    profile = portbar.describe(queue.device)
    chosen = portbar.choose(profile, {"device_barrier": algorithm})
    strategy = replace(chosen, workarounds=chosen.workarounds | {effect})
    program = portbar.Program(context, FORMS, strategy=strategy, spin_limit=20.0)
    for name in ("chain", "split_chain"):
        check_chain(program.kernel(name), queue, (8,), 6)


@pytest.mark.parametrize("algorithm", support.ALGORITHMS)
def test_words_of_65536_launches_ago_let_no_group_pass(context, queue, algorithm):
    made = support.kernel(context, LATE, "late", device_barrier=algorithm)
    support.need_groups(made, queue, (2,), 2)
    passed, data = support.filled(queue, 64), support.filled(queue, 128)
    polls = np.uint32(0 if support.scale(queue.device).is_simulator else 2_000_000)
    support.launched_with(lambda: made(queue, None, (2,), passed, data, np.uint32(0), num_groups=2), 2)
    for more in (1 << 16, 1 << 17, 1 << 20):
        state = grid_state(made.program, queue, 2)
        # As after that many launches of one work-group, which leave nothing in the words of the second.
        state.epoch += more - 1
        for buffer in (passed, data):
            cl.enqueue_fill_buffer(queue, buffer, np.uint32(0), 0, buffer.size)
        launch = made(queue, None, (2,), passed, data, polls, num_groups=2)
        launch.wait()
        assert grid_state(made.program, queue, 2) is state
        assert support.uints(queue, passed)[: launch.num_groups].tolist() == [2] * launch.num_groups
