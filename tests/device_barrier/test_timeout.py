"""The spin limit: a barrier that one group skips ends with false on the device and an error on the host, and nothing hangs."""

from __future__ import annotations

import numpy as np
import pytest

import portbar
from portbar.choices.timing import limit_rounds
from portbar.primitives import layout
from tests import support
from tests.device_barrier.support import check_error, launch_short, limit

pytestmark = pytest.mark.device


SKIP = r"""
#include "portbar/device_barrier.h"

/* Groups below `skippers` leave after `sound` barriers; the others go on and count what held, as if nothing were wrong. */
kernel void skip(PORTBAR_GRID_PARAM, global uint *held, const uint sound, const uint skippers, const uint rounds)
{
    PORTBAR_ENTER(grid);
    uint passed = 0u;
    for (uint r = 0u; r < sound; ++r)
        passed += portbar_device_barrier(&grid) ? 1u : 0u;
    if (PORTBAR_UNIFORM(portbar_group_id(&grid) < skippers))
        return;
    for (uint r = 0u; r < rounds; ++r)
        passed += portbar_device_barrier(&grid) ? 1u : 0u;
    held[portbar_global_id(&grid)] = passed;
}
"""

# Apart from `skip`, which nearly every test builds: compilers take seconds for all of them.
SOURCE = r"""
#include "portbar/device_barrier.h"

/* The same through the split form; a loop on test_wait must end, too. */
kernel void split_skip(PORTBAR_GRID_PARAM, global uint *held, const uint polls)
{
    PORTBAR_ENTER(grid);
    if (PORTBAR_UNIFORM(portbar_group_id(&grid) == 0u))
        return;
    portbar_device_token token = portbar_device_barrier_arrive(&grid);
    uint held_here = portbar_device_barrier_wait(&grid, token) ? 1u : 0u;
    token = portbar_device_barrier_arrive(&grid);
    while (!portbar_device_barrier_test_wait(&grid, token))
        held_here += 2u;
    held_here += portbar_device_barrier_wait(&grid, token) ? 4u : 0u;
    held_here += portbar_device_barrier(&grid) ? 8u : 0u;
    held[portbar_global_id(&grid)] = held_here + polls;
}

/* Nobody waits: all groups but the first test in a loop. `most` turns end the loop of a test that does not end it. */
kernel void all_test(PORTBAR_GRID_PARAM, global uint *held, const uint most)
{
    PORTBAR_ENTER(grid);
    if (PORTBAR_UNIFORM(portbar_group_id(&grid) == 0u))
        return;
    const portbar_device_token token = portbar_device_barrier_arrive(&grid);
    uint turns = 0u;
    while (!portbar_device_barrier_test_wait(&grid, token) && turns < most)
        ++turns;
    uint held_here = turns < most ? 16u : 0u;
    held_here += portbar_device_barrier_wait(&grid, token) ? 1u : 0u;
    held_here += portbar_device_barrier(&grid) ? 2u : 0u;
    held[portbar_global_id(&grid)] = held_here;
}

/* What the reader does not know, the inside of tokens and of the state, is for functions without barriers. */
static portbar_device_token later(portbar_device_token token)
{
    return token + 1u;
}

static void fail(portbar_grid grid)
{
    portbar_report_fault(grid.state, grid.epoch, PORTBAR_STATUS_TIMEOUT, 0u, 0u, 0u);
}

/* One group, so that the whole barrier holds although the launch is draining; the token is of a phase that never completes. */
#define ANSWERS(name, ask) \
    kernel void name(PORTBAR_GRID_PARAM, global uint *held) \
    { \
        PORTBAR_ENTER(grid); \
        const portbar_device_token token = later(portbar_device_barrier_arrive(&grid)); \
        if (portbar_global_id(&grid) == 0u) \
            fail(grid); \
        const bool whole = portbar_device_barrier(&grid); \
        const bool split = ask(&grid, token); \
        const bool after = portbar_device_barrier_wait(&grid, token); \
        held[portbar_global_id(&grid)] = (whole ? 1u : 0u) + (split ? 2u : 0u) + (after ? 4u : 0u); \
    }
ANSWERS(answers_of_wait, portbar_device_barrier_wait)
ANSWERS(answers_of_test_wait, portbar_device_barrier_test_wait)

/* Group 0 arrives at the split form, where nobody is missing, and skips the whole barrier: what the others get from both. */
kernel void apart(PORTBAR_GRID_PARAM, global uint *held, const uint rounds)
{
    PORTBAR_ENTER(grid);
    const portbar_device_token token = portbar_device_barrier_arrive(&grid);
    const uint mine = PORTBAR_UNIFORM(portbar_group_id(&grid) == 0u) ? 0u : rounds;
    uint passed = 0u;
    for (uint r = 0u; r < mine; ++r) {
        passed += portbar_device_barrier(&grid) ? 1u : 0u;
        passed += portbar_device_barrier_wait(&grid, token) ? 100u : 0u;
    }
    held[portbar_global_id(&grid)] = passed;
}
"""

BUILT_IN = """
#include "portbar/device_barrier.h"

/* Group 0 skips the split form; all groups meet in the whole barrier, so that a built-in without a limit does not hang. */
kernel void halves(PORTBAR_GRID_PARAM, global uint *held)
{
    PORTBAR_ENTER(grid);
    uint passed = 0u;
    for (uint r = PORTBAR_UNIFORM(portbar_group_id(&grid) == 0u) ? 1u : 0u; r < 1u; ++r) {
        const portbar_device_token token = portbar_device_barrier_arrive(&grid);
        passed += portbar_device_barrier_wait(&grid, token) ? 1u : 0u;
    }
    passed += portbar_device_barrier(&grid) ? 2u : 0u;
    held[portbar_global_id(&grid)] = passed;
}
"""

#: Algorithm -> a wait that reaches the limit just when both groups have come, and one of them has arrived once more.
OVERTAKEN = {
    "counter": "words[1] = 3u; portbar_wait_counted(&grid, words, 2u, words + 1, 2u);",
    "tree": "grid.state[PORTBAR_STATE_NODES(grid.capacity)] = 3u; portbar_wait_root(&grid, words, 1u);",
    "xf": "words[1] = PORTBAR_STAMP(grid.epoch, 255u); words[2] = PORTBAR_STAMP(grid.epoch, 256u);"
    " portbar_wait_stamp(&grid, words + 1, words, words[1]);",
}


#: Algorithm, barriers that hold, groups that leave after them.
SKIPPED = [
    *((name, 5, 1) for name in support.ALGORITHMS),
    *((name, 0, 1) for name in ("counter", "xf")),
    *((name, 3, 2) for name in support.ALGORITHMS),
]


@pytest.mark.parametrize(("algorithm", "sound", "skippers"), SKIPPED)
def test_a_skipped_barrier_drains_and_is_reported(context, queue, algorithm, sound, skippers):
    made = support.kernel(context, SKIP, "skip", spin_limit=limit(queue), device_barrier=algorithm)
    launch, held, groups = launch_short(made, queue, (4,), sound, skippers, 1_000, least=skippers + 1)
    device, arrived = queue.device.name.strip(), groups - skippers
    for _ in range(2):  # each wait raises
        fields = {"kernel": "skip", "device": device, "arrived": arrived, "expected": groups}
        said = check_error(launch, queue, held, groups, sound, skippers, **fields)
        for word in (
            "'skip'",
            device,
            f"{arrived} of {groups} work-groups",
            "spin limit",
            "skips the barrier",
            "spin_limit=",
        ):
            assert word in said, word
    assert launch.num_groups == groups
    assert (support.uints(queue, held)[: 4 * skippers] == 0xDEAD).all(), "a group that left wrote"


@pytest.mark.parametrize(
    ("algorithm", "discovery"),
    [*((name, "packed") for name in support.ALGORITHMS), ("counter", "ticket"), ("counter", "spin")],
)
def test_the_queue_and_its_state_work_again_right_after(context, queue, algorithm, discovery):
    made = support.kernel(context, SKIP, "skip", spin_limit=limit(queue), device_barrier=algorithm, discovery=discovery)
    launch, _, _ = launch_short(made, queue, (4,), 2, 1, 3)
    held = support.cells(made, queue, (4,), 0xDEAD)
    right = [made(queue, None, (4,), held, np.uint32(7), np.uint32(0), np.uint32(4)) for _ in range(3)]
    with pytest.raises(portbar.BarrierTimeoutError):
        launch.wait()
    for after in right:
        after.wait()
    waited = made(queue, None, (4,), held, np.uint32(7), np.uint32(0), np.uint32(5))
    waited.wait()
    assert (support.uints(queue, held)[: 4 * waited.num_groups] == 12).all()


@pytest.mark.parametrize("algorithm", ["counter", "tree", "xf"])
def test_groups_that_were_never_resident_drain(context, queue, algorithm):
    made = support.kernel(context, SKIP, "skip", spin_limit=limit(queue), device_barrier=algorithm)
    launch, held, groups = launch_short(made, queue, (4,), 0, 1, 3, surplus=True)
    check_error(launch, queue, held, groups, 0)


@pytest.mark.parametrize("algorithm", OVERTAKEN)
def test_a_group_that_gives_up_counts_those_that_are_a_barrier_ahead(context, queue, algorithm):
    source = f"""
        #include "portbar/device_barrier.h"
        /* The state's words, which the reader does not know, are for functions without barriers. */
        static void overtake(portbar_grid grid, global uint *words)
        {{
            {OVERTAKEN[algorithm]}
        }}
        kernel void overtaken(PORTBAR_GRID_PARAM, global uint *words)
        {{
            PORTBAR_ENTER(grid);
            if (portbar_global_id(&grid) == 0u)
                overtake(grid, words);
        }}
    """
    made = support.kernel(context, source, "overtaken", spin_limit=limit(queue), device_barrier=algorithm)
    assert support.need_groups(made, queue, (4,), 2) >= 2
    launch = support.launched_with(lambda: made(queue, None, (4,), support.filled(queue, 3), num_groups=2), 2)
    with pytest.raises(portbar.BarrierTimeoutError, match="2 of 2 work-groups had arrived"):
        launch.wait()


#: Kernel, its numbers, algorithm, and what is left by groups other than the first.
SPLIT = [
    *(("split_skip", [100], algorithm, 100) for algorithm in ("counter", "xf")),
    *(("apart", [2], algorithm, 0) for algorithm in support.ALGORITHMS),
    ("halves", [], "intel_device_barrier", 0),
]


@pytest.mark.parametrize(("name", "numbers", "algorithm", "left"), SPLIT)
def test_the_split_form_drains_too_and_whole_and_split_form_answer_alike(
    context, queue, name, numbers, algorithm, left
):
    """After false from a whole barrier, from the split form, and, of the split form, before the built-in barrier."""
    support.skip_without_intel_barrier(queue.device, algorithm)
    source = BUILT_IN if name == "halves" else SOURCE
    made = support.kernel(context, source, name, spin_limit=limit(queue), device_barrier=algorithm)
    launch, held, groups = launch_short(made, queue, (4,), *numbers)
    check_error(launch, queue, held, groups, left)


@pytest.mark.parametrize("algorithm", ["counter", "sharded", "xf"])
def test_a_loop_on_test_wait_in_all_groups_ends_at_the_spin_limit(context, queue, algorithm):
    made = support.kernel(context, SOURCE, "all_test", spin_limit=limit(queue), device_barrier=algorithm)
    # More turns than the limit counts, so that a test without a limit fails here and does not hang.
    turns = 4 * layout.POLLS_PER_ROUND * limit_rounds(made.program.profile(queue.device), limit(queue))
    if made.program.strategy(queue.device).units.tests_are_rounds:
        turns //= layout.POLLS_PER_ROUND
    launch, held, groups = launch_short(made, queue, (4,), min(turns, 2**32 - 1))
    check_error(launch, queue, held, groups, 16, arrived=groups - 1, expected=groups)


@pytest.mark.parametrize(("name", "expected"), [("answers_of_wait", 1), ("answers_of_test_wait", 3)])
@pytest.mark.parametrize("algorithm", support.ALGORITHMS)
def test_work_items_of_a_group_get_the_same_results_while_the_launch_drains(context, queue, algorithm, name, expected):
    made = support.kernel(context, SOURCE, name, spin_limit=limit(queue), device_barrier=algorithm)
    held = support.filled(queue, 64, 0xDEAD)
    launch = made(queue, None, (64,), held, num_groups=1)
    with pytest.raises(portbar.BarrierTimeoutError):
        launch.wait()
    assert support.uints(queue, held).tolist() == 64 * [expected]
