"""Counts of barriers pass 2^32 in one launch, with the words of the hidden state set to what they hold shortly before."""

from __future__ import annotations

import numpy as np
import pytest

import portbar
from portbar.primitives import device_barrier
from tests import support
from tests.device_barrier.support import WITH_INTEL

pytestmark = pytest.mark.device

#: Work-items of a group, and rounds, of which about half come before the wrap.
ITEMS, ROUNDS = 4, 40

#: A round of each kind of barrier counts what goes wrong. `g` groups, `n` work-items, of which this one is `me`.
KINDS = {
    "whole": "bad += portbar_device_barrier(&grid) ? 0u : 1u;",
    "split": "bad += portbar_device_barrier_wait(&grid, portbar_device_barrier_arrive(&grid)) ? 0u : 1u;",
    "votes": """bad += portbar_device_barrier_count(&grid, me % 2u == r % 2u) == n / 2u ? 0u : 1u;
        bad += portbar_device_barrier_sum(&grid, 0x40000000u + me) == n * 0x40000000u + n * (n - 1u) / 2u ? 0u : 1u;""",
    "reduction": "bad += portbar_device_reduce_add(&grid, scratch, me + r) == n * (n - 1u) / 2u + n * r ? 0u : 1u;",
    "team": "bad += portbar_team_barrier_count(&grid, &team, true) == portbar_team_global_size(&team) ? 0u : 1u;",
    "tiles": """PORTBAR_FOR_TILES(tile, &grid, 3u)
            if (lead)
                portbar_atomic_fetch_add_explicit(tiles + tile, 1u, memory_order_relaxed, memory_scope_device);""",
}
DECLARED = {
    "reduction": "PORTBAR_REDUCTION_SCRATCH(scratch);",
    "team": "portbar_team team = portbar_team_split(&grid, 2u);",
}
MEETS = "(void)portbar_device_barrier(&grid);"
MEETS_SPLIT = "(void)portbar_device_barrier_wait(&grid, portbar_device_barrier_arrive(&grid));"

HEADS = """
#include "portbar/atomics.h"
#include "portbar/device_barrier.h"
"""
#: The state's words, which the reader does not know, are for functions without barriers.
KERNEL = """
static void set_mine_KIND(portbar_grid grid, uint p, uint gMORE)
{
    MINE
}

static void set_words_KIND(portbar_grid grid, uint p, uint g)
{
    WORDS
}

kernel void wraps_KIND(PORTBAR_GRID_PARAM, global uint *wrong, global uint *tiles, const uint p)
{
    PORTBAR_ENTER(grid);
    DECLARED
    const uint g = portbar_num_groups(&grid), n = portbar_global_size(&grid), me = portbar_global_id(&grid);
    const bool lead = get_local_id(0) == 0u;
    uint bad = 0u;
    (void)g;
    MEET
    if (lead)
        set_mine_KIND(grid, p, gGIVEN);
    if (lead && portbar_group_id(&grid) == 0u)
        set_words_KIND(grid, p, g);
    MEET
    for (uint r = 0u; r < ROUNDSu; ++r) {
        ROUND
    }
    wrong[me] = portbar_device_ok(&grid) ? bad : 99u;
}
"""


WITH_PHASE = """
static portbar_team with_phase(portbar_team team, uint phase)
{
    team.phase = phase;
    return team;
}
"""


def mine(name, value):
    return f"grid.shared[PORTBAR_SHARED_{name}] = {value};\n"


def word(place, value):
    return f"grid.state[{place}] = {value};\n"


def in_slots(strategy, place):
    """Set a counter in each slot that is counted in: to all arrivals, or to those of the groups that arrive there."""
    algorithm = device_barrier._algorithm(strategy)
    slots, shares = algorithm.slots(strategy), algorithm.counters == "device_barrier/sharded.mako"
    counts = ["p * ((g + 1u) / 2u)", "p * (g / 2u)"] if slots > 1 and shares else ["p * g"] * slots
    firsts = ("grid.first_slot", "grid.second_slot")
    return "".join(word(f"{first} + {place}", count) for first, count in zip(firsts, counts, strict=False))


def nearly(strategy, kind):
    """Return what each leader sets, and what one work-item does, so that `p` phases seem to be over; `p` is even."""
    slots, algorithm = device_barrier._counts_in_slots(strategy), strategy.device_barrier.value
    if kind == "tiles":
        return mine("LOOP_END", "p"), word("PORTBAR_STATE_TICKETS", "p")
    if kind == "votes":
        place = "PORTBAR_SLOT_VOTES" if slots else "PORTBAR_STATE_VOTES"
        if device_barrier._votes_in_two(strategy):
            return mine("VOTE_PHASE", "p"), in_slots(strategy, place) + in_slots(strategy, f"{place} + 2u")
        place = f"grid.first_slot + {place}" if slots else place
        return mine("VOTE_PHASE", "p"), word(place, "p * g") + word(f"{place} + 2u", "p * g")
    if kind == "split":
        if slots:
            return mine("SPLIT", "p"), in_slots(strategy, "PORTBAR_SLOT_SPLIT")
        return mine("SPLIT", "p * g"), word("PORTBAR_STATE_SPLIT", "p * g")
    if kind == "team":
        # In each team's first group.
        return "if (team.rank == 0u) *PORTBAR_TEAM_COUNTER(&grid, team.first, team.slot) = p * team.members;\n", ""
    if algorithm == "tree":
        flags = "for (uint f = 0u; f < PORTBAR_RELEASE_FLAGS; ++f)\n" + word(
            "PORTBAR_STATE_RELEASED + f * PORTBAR_LINE", "p"
        )
        node = word("PORTBAR_STATE_NODES(grid.capacity)", "p * g")
        return mine("TARGET", "p"), node + word("PORTBAR_STATE_COUNTER", "p") + flags
    if algorithm == "xf":
        return mine("TARGET", "p"), ""
    if slots and algorithm not in ("flag", "intel_device_barrier"):
        return mine("TARGET", "p"), in_slots(strategy, "PORTBAR_SLOT_WHOLE")
    flag = word("PORTBAR_STATE_FLAG", "p * g") if algorithm == "flag" else ""
    return mine("TARGET", "p * g"), word("PORTBAR_STATE_COUNTER", "p * g") + flag


def source_of(strategy, kind):
    own, words = nearly(strategy, kind)
    declared = DECLARED.get(kind, "") + (" team = with_phase(team, p);" if kind == "team" else "")
    more, given = (", portbar_team team", ", team") if kind == "team" else ("", "")
    # The words of a kind of barrier cannot be set between two of it.
    meets = MEETS_SPLIT if kind in ("whole", "reduction") else MEETS
    parts = {"KIND": kind, "DECLARED": declared, "MINE": own, "WORDS": words, "MEET": meets, "ROUNDS": str(ROUNDS)}
    parts |= {"MORE": more, "GIVEN": given}
    text = (WITH_PHASE if kind == "team" else "") + KERNEL
    for name, part in (*parts.items(), ("ROUND", KINDS[kind])):
        text = text.replace(name, part)
    return text


def check_wraps(context, queue, algorithm, kinds):
    strategy = portbar.choose(portbar.describe(queue.device), {"device_barrier": algorithm})
    includes = "".join(f'#include "portbar/{kind}.h"\n' for kind in kinds if kind in DECLARED)
    text = HEADS + includes + "".join(source_of(strategy, kind) for kind in kinds)
    program = support.program(context, text, device_barrier=algorithm, spin_limit=5.0)
    for kind in kinds:
        made = program.kernel(f"wraps_{kind}")
        holds = min(4, made.occupancy(queue, (ITEMS,)).groups)
        for groups in sorted({holds, min(3, holds)}):
            if kind == "team" and groups < 2:
                continue
            members = {"team": 2, "tiles": 1}.get(kind, groups)
            # The count passes 2^32, or the phase does.
            for phases in (2**32 // members - ROUNDS // 2 & ~1, 2**32 - ROUNDS // 2):
                for _ in range(10):
                    wrong, tiles = support.filled(queue, groups * ITEMS, 77), support.filled(queue, 3, 0)
                    launch = made(queue, None, (ITEMS,), wrong, tiles, np.uint32(phases % 2**32), num_groups=groups)
                    # On a busy machine fewer work-groups may meet than a team has.
                    if kind != "team" or launch.num_groups >= members:
                        break
                    with pytest.raises(portbar.Error, match="requested teams of"):
                        launch.wait()
                else:
                    pytest.skip("this machine is too busy for teams of two work-groups")
                launch.wait()
                found = support.uints(queue, wrong)[: launch.num_groups * ITEMS]
                assert not found.any(), (kind, groups, phases)
                assert kind != "tiles" or (support.uints(queue, tiles) == ROUNDS).all()


@pytest.mark.parametrize("algorithm", WITH_INTEL)
def test_counts_of_every_barrier_pass_2_to_the_32(context, queue, algorithm):
    """As in a launch of an hour; where the counts are depends on the algorithm and the backend."""
    support.skip_without_intel_barrier(queue.device, algorithm)
    check_wraps(context, queue, algorithm, ("whole", "split", "votes"))


@pytest.mark.parametrize("algorithm", ["counter", "sharded", "replicated"])
def test_counts_of_what_uses_barriers_pass_2_to_the_32(context, queue, algorithm):
    check_wraps(context, queue, algorithm, ("reduction", "team", "tiles"))
