"""Teams: each meets by itself, after its members' stores; all learn their votes and reductions; faults are reported."""

from __future__ import annotations

import numpy as np
import pyopencl as cl
import pytest

import portbar
from tests import support
from tests.programs import LIMIT_S, amount, local_sizes, zeros
from tests.team.kernels import CUTS

pytestmark = pytest.mark.device


#: Maximum work-groups of a launch: as many ranks as a word has bits.
MOST = 24


def groups_of(kernel, queue, local, least=1):
    return min(support.need_groups(kernel, queue, (local,), least), MOST)


def sizes_up_to(groups):
    return sorted(k for k in {1, 2, 3, groups // 2 + 1, max(groups - 1, 1), groups} if k <= groups)


def teams_of_each_size(kernel, queue, local, arguments):
    """Launch with each size of teams of which there are enough work-groups; yield it, the groups, and the arguments."""
    groups = groups_of(kernel, queue, local)
    for k in sizes_up_to(groups):
        given = arguments(np.uint32(k), local)
        launch = kernel(queue, None, (local,), *given, num_groups=groups)
        if launch.num_groups < k:
            # On a busy machine fewer may meet than a team has.
            with pytest.raises(portbar.Error, match="requested teams of"):
                launch.wait()
            continue
        launch.wait()
        yield k, launch.num_groups, given


def test_each_group_learns_its_team_and_its_rank(made, queue):
    kernel = made("shapes")
    for local in local_sizes(queue.device, 1):
        for k, n, (out, *_) in teams_of_each_size(
            kernel, queue, local, lambda k, local: (zeros(queue, 12 * MOST * local), k, k)
        ):
            found = out.get()[: 12 * n * local].reshape(n, local, 12)
            ids, items = np.arange(n), np.arange(local)
            colours = 1000 - ids * 7 % k * 5
            values = np.unique(colours)
            cuts = (
                (ids // k, -(-n // k), ids % k, np.minimum(k, n - ids // k * k)),
                (
                    np.searchsorted(values, colours),
                    len(values),
                    np.array([(colours[:i] == colours[i]).sum() for i in ids]),
                    np.array([(colours == colour).sum() for colour in colours]),
                ),
            )
            for number, (team, teams, rank, members) in enumerate(cuts):
                mine = found[:, :, 6 * number : 6 * number + 6]
                assert (mine[:, :, 0] == team[:, None]).all()
                assert (mine[:, :, 1] == teams).all()
                assert (mine[:, :, 2] == rank[:, None]).all()
                assert (mine[:, :, 3] == members[:, None]).all()
                assert (mine[:, :, 4] == (rank * local)[:, None] + items).all()
                assert (mine[:, :, 5] == (members * local)[:, None]).all()


@pytest.mark.parametrize("cut", CUTS)
def test_a_team_sees_what_its_members_wrote_before_the_barrier(made, queue, cut):
    kernel, rounds = made(f"barriers_{cut}"), np.uint32(amount(queue.device, 200, simulated=6))

    def arguments(k, local):
        return zeros(queue, 2 * MOST * MOST * local), zeros(queue, 1), k, rounds

    for local in local_sizes(queue.device, [*CUTS].index(cut)):
        for k, n, (_, wrong, *_) in teams_of_each_size(kernel, queue, local, arguments):
            assert not wrong.get().any(), (local, k, n)


@pytest.mark.parametrize("cut", CUTS)
def test_all_of_a_team_learn_its_votes_reductions_and_broadcasts(made, queue, cut):
    kernel, rounds = made(f"collectives_{cut}"), np.uint32(amount(queue.device, 40, simulated=3))

    def arguments(k, local):
        return zeros(queue, MOST * local), k, rounds

    for local in local_sizes(queue.device, 1 + [*CUTS].index(cut)):
        for k, n, (wrong, *_) in teams_of_each_size(kernel, queue, local, arguments):
            assert not wrong.get().any(), (local, k, n, wrong.get())


def test_sums_of_floats_follow_the_ranks(made, queue):
    values = (np.random.default_rng(5).standard_normal(MOST) * 10.0 ** np.arange(MOST)).astype(np.float32)
    given = cl.array.to_device(queue, values)

    def arguments(k, local):
        return given, cl.array.zeros(queue, 2 * MOST * local, np.float32), k

    for k, n, (_, out, _) in teams_of_each_size(made("sums"), queue, 5, arguments):
        found = out.get().reshape(-1, 5, 2)[:n]
        for first in range(0, n, k):
            members = values[first : min(first + k, n)]
            total = members[0]
            for value in members[1:]:
                total = np.float32(total + value)
            assert (found[first : first + len(members), :, 0] == total).all()
            assert (found[first : first + len(members), :, 1] == members.max()).all()


def test_rows_and_columns_and_splits_in_a_loop(made, queue):
    kernel, rounds = made("rows_and_columns"), np.uint32(amount(queue.device, 30, simulated=2))
    for k, n, (wrong, *_) in teams_of_each_size(
        kernel, queue, 5, lambda k, local: (zeros(queue, MOST * local), k, rounds)
    ):
        assert not wrong.get().any(), (k, n, wrong.get())


# Bad input.


def test_two_blocks_may_each_split_by_colour(made, queue):
    kernel = made("coloured_twice")
    for local in local_sizes(queue.device, 3):
        for k, n, (wrong, *_) in teams_of_each_size(kernel, queue, local, lambda k, _: (zeros(queue, 1), k)):
            assert not wrong.get().any(), (local, k, n)


def test_strided_loops_over_one_element_of_a_team_end(context, queue):
    """A compiler that thinks that a stride may be 0 sees a loop without end (the effect LOOPS_ENDLESS)."""
    source = """
    #include "portbar/team.h"
    kernel void only(PORTBAR_GRID_PARAM, volatile global uint *a)
    {
        PORTBAR_ENTER(grid);
        portbar_team team = portbar_team_split(&grid, 1u);
        volatile global uint *mine = a + portbar_team_id(&team);
        if (get_local_id(0) == 0u)
            for (uint i = portbar_team_rank(&team); i < 1u; i += portbar_team_num_groups(&team))
                mine[i] = 1u;
        portbar_team_barrier(&grid, &team);
        for (uint i = portbar_team_global_id(&grid, &team); i < 1u; i += portbar_team_global_size(&team))
            mine[i] += 1u;
        portbar_team_barrier(&grid, &team);
    }
    """
    kernel, a = support.kernel(context, source, "only"), zeros(queue, MOST)
    launch = kernel(queue, None, (5,), a, num_groups=groups_of(kernel, queue, 5))
    launch.wait()
    assert a.get().tolist() == [2] * launch.num_groups + [0] * (MOST - launch.num_groups)


def test_a_team_of_more_groups_than_there_are_is_an_error(made, queue):
    kernel = made("asks")
    groups = groups_of(kernel, queue, 5)
    out = support.cells(kernel, queue, (5,))
    for k in (MOST + 8, 2**32 - 1, 0):
        launch = kernel(queue, None, (5,), out, np.uint32(k), num_groups=groups)
        told = rf"requested teams of {k} work-groups in a launch of {launch.num_groups}\. "
        with pytest.raises(portbar.Error, match=told) as caught:
            launch.wait()
        assert "kernel 'asks' on" in str(caught.value)
        assert not isinstance(caught.value, portbar.BarrierTimeoutError)
        # No meeting holds, results end loops, and each group is a separate team.
        assert (support.uints(queue, out)[: launch.num_groups * 5] == 4 + 16 + 64).all()
    # The next launch is right.
    launch = kernel(queue, None, (5,), out, np.uint32(1), num_groups=groups)
    launch.wait()
    assert (support.uints(queue, out)[: launch.num_groups * 5] == 1 + 2 + 8 + 32 + 64).all()


def test_a_team_size_that_a_program_requires_is_refused_before_the_launch(context, queue):
    source = """
    #include "portbar/team.h"
    kernel void teams(PORTBAR_GRID_PARAM)
    {
        PORTBAR_ENTER(grid);
        portbar_team team = portbar_team_split(&grid, 3u);
        portbar_team_barrier(&grid, &team);
    }
    """
    with pytest.raises(portbar.UnsupportedFeatureError, match="groups>=1000000"):
        portbar.Program(context, source, require=("groups>=1000000",)).kernel("teams")(queue, None, (1,))


@pytest.mark.parametrize("item", [1, 4])
def test_colours_that_differ_within_a_group_are_an_error(made, launched, queue, item):
    kernel = made("colours")
    out = support.cells(kernel, queue, (5,), 9)
    launch = launched(kernel, 5, lambda: (out, np.uint32(0), np.uint32(item)), 1, MOST)
    with pytest.raises(portbar.Error, match=rf"in work-group 0 differs: {5 - item} work-items of the group") as caught:
        launch.wait()
    assert not isinstance(caught.value, portbar.BarrierTimeoutError)
    # All groups leave.
    assert (support.uints(queue, out)[: launch.num_groups * 5] == 0).all()
    launch = kernel(queue, None, (5,), out, np.uint32(99), np.uint32(0), num_groups=launch.num_groups)
    launch.wait()
    assert (support.uints(queue, out)[: launch.num_groups * 5] == 3).all()


@pytest.mark.parametrize("first", [1, 2], ids=["within a team", "from one team to the next"])
def test_sizes_that_differ_between_groups_are_an_error(made, launched, queue, first):
    kernel = made("sizes")
    out = support.cells(kernel, queue, (5,), 9)
    launch = launched(kernel, 5, lambda: (out, np.uint32(first)), first + 1, MOST)
    told = rf"in work-group {'[01]' if first == 1 else '2'} differs: 1 work-items of the group, or work-groups"
    with pytest.raises(portbar.Error, match=told):
        launch.wait()
    assert (support.uints(queue, out)[: launch.num_groups * 5] == 0).all()


@pytest.mark.parametrize("how", [0, 1], ids=["barrier", "reduction"])
def test_a_group_that_skips_a_barrier_of_its_team_is_an_error_within_the_limit_and_a_second(
    made, queue, how, full_waits
):
    kernel = made("skips", spin_limit=LIMIT_S)
    out = support.cells(kernel, queue, (5,))
    groups = groups_of(kernel, queue, 5, 2)
    kernel(queue, None, (5,), out, np.uint32(1), np.uint32(how), num_groups=1).wait()
    launch = kernel(queue, None, (5,), out, np.uint32(2), np.uint32(how), num_groups=groups)
    in_time = support.within(LIMIT_S + 1, queue.device, launch.num_groups)
    told = r"a barrier of a team reached.*work-group 0; 1 of the"
    with in_time, pytest.raises(portbar.BarrierTimeoutError, match=told) as caught:
        launch.wait()
    assert (caught.value.kernel, caught.value.expected) == ("skips", launch.num_groups)
    assert "of the team's 2 work-groups" in str(caught.value)
    # The teams that were whole have met.
    expected = [2, 1, *(launch.num_groups - 2) * [1]]
    assert support.uints(queue, out)[: launch.num_groups * 5].tolist() == np.repeat(expected, 5).tolist()
    launch = kernel(queue, None, (5,), out, np.uint32(1), np.uint32(0), num_groups=1)
    launch.wait()


def test_a_counter_that_is_overwritten_lets_no_group_pass(made, launched, queue, full_waits):
    kernel = made("overwrites", spin_limit=LIMIT_S)
    out = support.cells(kernel, queue, (5,))
    launch = launched(kernel, 5, lambda: (out,), 2, MOST)
    with pytest.raises(portbar.Error, match=r"a barrier of a team reached|overwritten"):
        launch.wait()
    assert (support.uints(queue, out)[:10] == 2).all()
