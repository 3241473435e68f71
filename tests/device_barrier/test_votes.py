"""Votes at a device barrier: every work-item learns what all of them said, and the barrier orders memory as others do."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from tests import support
from tests.device_barrier.support import (
    HEADER,
    SPLIT,
    WHOLE,
    WITH_INTEL,
    chain_kernel,
    check_chain,
    check_error,
    launch_short,
    limit,
    one,
)
from tests.rows import some

pytestmark = pytest.mark.device

#: Rounds after which each kind of vote has met each function.
PERIOD = 15
LOCALS = ((1,), (7,), (4, 2, 2))

TALLY = """
#include "portbar/device_barrier.h"

/* Nobody, everybody, one, all but one, or any. */
static bool votes(uint me, uint n, uint r)
{
    const uint bits = (me * 2654435761u) ^ (r * 40503u);
    return r % 5u == 0u ? false : r % 5u == 1u ? true : r % 5u == 2u ? me == r % n : r % 5u == 3u ? me != r % n
        : ((bits >> 13) & 1u) != 0u;
}

/* Answers of all rounds in the order of rounds, folded, for each work-item; whole and split barriers stand between votes. */
kernel void tally(PORTBAR_GRID_PARAM, global uint *answers, const uint rounds, const uint first)
{
    PORTBAR_ENTER(grid);
    const uint n = portbar_global_size(&grid), me = portbar_global_id(&grid);
    uint folded = 1u;
    for (uint r = first; r < first + rounds; r += 3u) {
        folded = folded * 31u + portbar_device_barrier_count(&grid, votes(me, n, r));
        MORE
        folded = folded * 31u + (portbar_device_barrier_any(&grid, votes(me, n, r + 1u)) ? 1u : 0u);
        folded = folded * 31u + (portbar_device_barrier_all(&grid, votes(me, n, r + 2u)) ? 1u : 0u);
    }
    answers[me] = portbar_device_ok(&grid) ? folded : 0u;
}
"""
MORE = {
    "alone": "",
    "with whole barriers": "(void)portbar_device_barrier(&grid);",
    "with split barriers": "const portbar_device_token token = portbar_device_barrier_arrive(&grid);"
    " folded += portbar_device_barrier_count(&grid, true) - n;"
    " (void)portbar_device_barrier(&grid); (void)portbar_device_barrier_wait(&grid, token);",
}

#: A round of a chain whose barrier is a vote, or a vote between the halves of another one.
CHAINS = {
    "counted": "held = portbar_device_barrier_count(&grid, r % 2u == 0u) == (r % 2u == 0u ? n : 0u) && held;",
    "any": "held = portbar_device_barrier_any(&grid, me == r % n) && held;",
    "all": "held = !portbar_device_barrier_all(&grid, me != r % n) && held;",
    "within a split one": SPLIT.replace(
        "for (uint i", "held = portbar_device_barrier_all(&grid, true) && held;\n for (uint i"
    ),
}


def expected(n: int, rounds: int, first: int) -> int:
    """Do what `tally` does, on the host."""
    me = np.arange(n, dtype=np.uint32)
    folded = 1
    for r in range(first, first + rounds):
        with np.errstate(over="ignore"):
            bits = (me * np.uint32(2654435761)) ^ np.uint32(r * 40503 & 0xFFFFFFFF)
        said = [np.zeros(n, bool), np.ones(n, bool), me == r % n, me != r % n, (bits >> 13) & 1 != 0][r % 5]
        answer = [int(said.sum()), int(said.any()), int(said.all())][(r - first) % 3]
        folded = (folded * 31 + answer) & 0xFFFFFFFF
    return folded


def check_tally(made: Any, queue: Any, local: tuple[int, ...], rounds: int, first: int = 0, **sizes: Any) -> int:
    """Run `tally`, compare each work-item's results with the host's, and return how many groups met."""
    items = math.prod(local)
    surplus = sizes.pop("surplus", 0)
    room = max(support.room(made, queue, local), surplus)
    answers = support.filled(queue, room * items, 0xDEAD)
    whole = (surplus * local[0], *local[1:]) if surplus else None
    launch = made(queue, whole, local, answers, np.uint32(rounds), np.uint32(first), **sizes)
    launch.wait()
    n = launch.num_groups * items
    found = support.uints(queue, answers)
    assert (found[:n] == expected(n, rounds, first)).all(), (launch.num_groups, found[:n], expected(n, rounds, first))
    assert (found[n:] == 0xDEAD).all()
    return int(launch.num_groups)


@pytest.mark.parametrize("more", MORE)
@pytest.mark.parametrize("algorithm", WITH_INTEL)
def test_every_work_item_learns_what_all_said(context, queue, algorithm, more):
    support.skip_without_intel_barrier(queue.device, algorithm)
    made = support.kernel(context, TALLY.replace("MORE", MORE[more]), "tally", device_barrier=algorithm)
    for local in some(LOCALS, WITH_INTEL.index(algorithm) + list(MORE).index(more)):
        check_tally(made, queue, local, 2 * PERIOD)


SUMS = """
#include "portbar/device_barrier.h"
kernel void sums(PORTBAR_GRID_PARAM, global uint *wrong, const uint rounds)
{
    PORTBAR_ENTER(grid);
    const uint n = portbar_global_size(&grid), me = portbar_global_id(&grid);
    uint bad = 0u;
    for (uint r = 0u; r < rounds; ++r) {
        uint expected = 0u;
        for (uint i = r % 3u; i < n; i += 3u)
            expected += i * 0x10000001u + r;
        bad += portbar_device_barrier_sum(&grid, me % 3u == r % 3u ? me * 0x10000001u + r : 0u) != expected ? 1u : 0u;
        bad += portbar_device_barrier_count(&grid, me == r) != (r < n ? 1u : 0u) ? 1u : 0u;
        bad += portbar_device_barrier_sum(&grid, 0u);
    }
    wrong[me] = portbar_device_ok(&grid) ? bad : 99u;
}
"""


@pytest.mark.parametrize("algorithm", WITH_INTEL)
def test_numbers_of_all_work_items_are_added_up(context, queue, algorithm):
    support.skip_without_intel_barrier(queue.device, algorithm)
    made = support.kernel(context, SUMS, "sums", device_barrier=algorithm)
    for local in some(LOCALS, WITH_INTEL.index(algorithm)):
        wrong = support.cells(made, queue, local, 77)
        launch = made(queue, None, local, wrong, np.uint32(9))
        launch.wait()
        assert not support.uints(queue, wrong)[: launch.num_groups * math.prod(local)].any()


@pytest.mark.parametrize("discovery", ["packed", "ticket", "spin"])
def test_large_groups_and_other_discoveries(context, queue, discovery):
    made = support.kernel(context, TALLY.replace("MORE", ""), "tally", discovery=discovery)
    for local in some(support.scale(queue.device).local_sizes, len(discovery)):
        check_tally(made, queue, (local,), PERIOD)


@pytest.mark.parametrize("algorithm", ["counter", "sharded", "xf"])
def test_many_rounds_in_one_launch(context, queue, algorithm):
    made = support.kernel(context, TALLY.replace("MORE", ""), "tally", device_barrier=algorithm)
    check_tally(made, queue, (2,), support.scale(queue.device).many_rounds // PERIOD * PERIOD or PERIOD)


@pytest.mark.parametrize("name", CHAINS)
@pytest.mark.parametrize("algorithm", support.ALGORITHMS)
def test_a_vote_orders_memory_as_a_barrier_does(context, queue, algorithm, name):
    source = HEADER + chain_kernel("voted", "r += 2u", one(CHAINS[name]), one(WHOLE, "r + 1u"))
    made = support.kernel(context, source, "voted", device_barrier=algorithm)
    rounds = support.scale(queue.device).rounds
    for local in some(((1,), (8,)), support.ALGORITHMS.index(algorithm) + list(CHAINS).index(name)):
        check_chain(made, queue, local, rounds)


@pytest.mark.parametrize("algorithm", support.ALGORITHMS)
def test_launches_of_any_size_follow_each_other_on_one_queue(context, queue, algorithm):
    """Each begins with no votes, wherever they are counted, and whatever the launch before has left."""
    made = support.kernel(context, TALLY.replace("MORE", ""), "tally", device_barrier=algorithm)
    holds = made.occupancy(queue, (4,)).groups
    for turn, groups in enumerate((2, 3, 80, 1, 2, holds, 3) * 3):
        # Numbers of rounds that leave the one or the other word last.
        check_tally(made, queue, (4,), 3 * (turn % 4 + 1), turn, num_groups=min(groups, holds))


@pytest.mark.parametrize("algorithm", ["counter", "replicated", "tree"])
def test_surplus_groups_have_no_vote(context, queue, algorithm):
    made = support.kernel(context, TALLY.replace("MORE", ""), "tally", device_barrier=algorithm)
    for _ in range(3):
        check_tally(made, queue, (2,), PERIOD, surplus=support.scale(queue.device).surplus)


HALVE = """
#include "portbar/device_barrier.h"
kernel void halve(PORTBAR_GRID_PARAM, global uint *a, const uint n, global uint *sweeps)
{
    PORTBAR_ENTER(grid);
    uint sweep = 0u;
    bool more;
    do {
        more = false;
        for (uint i = portbar_global_id(&grid); i < n; i += portbar_global_size(&grid))
            if (a[i] > 1u) {
                a[i] /= 2u;
                more = true;
            }
        ++sweep;
    } while (portbar_device_barrier_any(&grid, more));
    sweeps[portbar_global_id(&grid)] = sweep;
}
"""


def test_a_loop_may_end_on_a_vote(context, queue):
    made = support.kernel(context, HALVE, "halve")
    values = np.arange(1, 200, dtype=np.uint32)
    sweeps = support.cells(made, queue, (8,), 0)
    for most in (1, 8, 199):
        held = support.to_device(queue, values[:most].copy())
        launch = made(queue, None, (8,), held, np.uint32(most), sweeps)
        launch.wait()
        assert (support.uints(queue, held) == 1).all()
        assert (support.uints(queue, sweeps)[: 8 * launch.num_groups] == most.bit_length()).all()


#: Each returns 0 in the group that leaves; loops end by themselves, or at `most`.
FAULTY = """
#include "portbar/device_barrier.h"
kernel void leave(PORTBAR_GRID_PARAM, global uint *ends, const uint sound, const uint most)
{
    PORTBAR_ENTER(grid);
    uint passed = 0u;
    for (uint r = 0u; r < sound; ++r)
        passed += portbar_device_barrier_count(&grid, true) == portbar_global_size(&grid) ? 1u : 0u;
    if (PORTBAR_UNIFORM(portbar_group_id(&grid) == 0u))
        return;
    uint turns = 0u;
    while (turns < most && portbar_device_barrier_any(&grid, true))
        ++turns;
    while (turns < most && !portbar_device_barrier_all(&grid, false))
        ++turns;
    ends[portbar_global_id(&grid)] = (turns == 0u ? 1u : 0u) + (portbar_device_barrier_count(&grid, true) == 0u ? 2u : 0u)
        + (portbar_device_ok(&grid) ? 0u : 4u) + (portbar_device_barrier(&grid) ? 0u : 8u) + 16u * passed;
}
"""


@pytest.mark.parametrize("algorithm", support.ALGORITHMS)
@pytest.mark.parametrize("sound", [0, 1, 4])
def test_a_group_that_leaves_ends_the_votes_of_the_others(context, queue, algorithm, sound):
    made = support.kernel(context, FAULTY, "leave", spin_limit=limit(queue), device_barrier=algorithm)
    launch, ends, groups = launch_short(made, queue, (4,), sound, 100_000)
    said = check_error(launch, queue, ends, groups, 15 + 16 * sound, arrived=groups - 1, expected=groups)
    assert f"{groups - 1} of {groups} work-groups" in said
    assert (support.uints(queue, ends)[:4] == 0xDEAD).all(), "the group that left wrote"
    # The words of votes are as new in the next launch.
    if sound:
        again = support.kernel(context, TALLY.replace("MORE", ""), "tally", device_barrier=algorithm)
        check_tally(again, queue, (4,), PERIOD)


AFTER = """
#include "portbar/device_barrier.h"
kernel void after(PORTBAR_GRID_PARAM, global uint *ends)
{
    PORTBAR_ENTER(grid);
    uint told = portbar_device_barrier_any(&grid, true) ? 1u : 0u;
    if (PORTBAR_UNIFORM(portbar_group_id(&grid) == 0u))
        return;
    FAIL
    told += portbar_device_barrier_any(&grid, true) ? 2u : 0u;
    told += portbar_device_barrier_all(&grid, false) ? 4u : 0u;
    told += portbar_device_barrier_count(&grid, true) != 0u ? 8u : 0u;
    told += portbar_device_barrier_sum(&grid, 3u) != 0u ? 16u : 0u;
    ends[portbar_global_id(&grid)] = told;
}
"""


@pytest.mark.parametrize(
    "fails",
    [
        "(void)portbar_device_barrier(&grid);",
        "(void)portbar_device_barrier_wait(&grid, portbar_device_barrier_arrive(&grid));",
    ],
    ids=["whole", "split"],
)
@pytest.mark.parametrize("algorithm", ["counter", "sharded", "xf"])
def test_votes_fail_after_another_barrier_has(context, queue, algorithm, fails):
    source = AFTER.replace("FAIL", fails)
    made = support.kernel(context, source, "after", spin_limit=limit(queue), device_barrier=algorithm)
    launch, ends, groups = launch_short(made, queue, (4,))
    check_error(launch, queue, ends, groups, 5)
