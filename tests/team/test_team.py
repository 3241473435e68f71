"""Teams: each meets by itself, after its members' stores; all learn their votes and reductions; faults are reported."""

from __future__ import annotations

import numpy as np
import pytest

cl = pytest.importorskip("pyopencl")

import portbar  # noqa: E402
from tests import support  # noqa: E402 (needs PyOpenCL)
from tests.team.kernels import CUTS  # noqa: E402

pytestmark = pytest.mark.device

#: Above the patience of discovery, below which no limit takes effect.
LIMIT_S = 0.4

#: Maximum work-groups of a launch: as many ranks as a word has bits.
MOST = 24


def zeros(queue, n):
    return cl.array.zeros(queue, n, np.uint32)


def local_sizes(device):
    return (1, 5) if support.scale(device).is_simulator else (1, 5, 64)


def groups_of(kernel, queue, local, least=1):
    return min(support.need_groups(kernel, queue, (local,), least), MOST)


def sizes_up_to(groups):
    return sorted({1, 2, 3, groups // 2 + 1, max(groups - 1, 1), groups})


def launched(kernel, queue, local, least, *args):
    """Launch again until at least this many groups took part."""
    groups = groups_of(kernel, queue, local, least)
    for _ in range(20):
        launch = kernel(queue, None, (local,), *args, num_groups=groups)
        if launch.num_groups >= least:
            return launch
    return pytest.skip(f"the busy machine never ran {least} work-groups at once")


def test_each_group_learns_its_team_and_its_rank(made, queue):
    kernel = made("shapes")
    for local in local_sizes(queue.device):
        groups = groups_of(kernel, queue, local)
        for k in sizes_up_to(groups):
            out = zeros(queue, 12 * groups * local)
            launch = kernel(queue, None, (local,), out, np.uint32(k), np.uint32(k), num_groups=groups)
            if launch.num_groups < k:
                continue
            launch.wait()
            n = launch.num_groups
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
    kernel, rounds = made(f"barriers_{cut}"), 6 if support.scale(queue.device).is_simulator else 200
    for local in local_sizes(queue.device):
        groups = groups_of(kernel, queue, local)
        cells, wrong = zeros(queue, 2 * groups * groups * local), zeros(queue, 1)
        for k in sizes_up_to(groups):
            launch = kernel(queue, None, (local,), cells, wrong, np.uint32(k), np.uint32(rounds), num_groups=groups)
            if cut == "colour" or launch.num_groups >= k:
                launch.wait()
                assert not wrong.get().any(), (local, k, launch.num_groups)
            else:
                wrong.fill(0)


@pytest.mark.parametrize("cut", CUTS)
def test_all_of_a_team_learn_its_votes_reductions_and_broadcasts(made, queue, cut):
    kernel, rounds = made(f"collectives_{cut}"), 3 if support.scale(queue.device).is_simulator else 40
    for local in local_sizes(queue.device):
        groups = groups_of(kernel, queue, local)
        for k in sizes_up_to(groups):
            wrong = zeros(queue, groups * local)
            launch = kernel(queue, None, (local,), wrong, np.uint32(k), np.uint32(rounds), num_groups=groups)
            if cut == "colour" or launch.num_groups >= k:
                launch.wait()
                assert not wrong.get().any(), (local, k, launch.num_groups, wrong.get())


def test_sums_of_floats_follow_the_ranks(made, queue):
    kernel = made("sums")
    groups = groups_of(kernel, queue, 5)
    values = (np.random.default_rng(5).standard_normal(groups) * 10.0 ** np.arange(groups)).astype(np.float32)
    given = cl.array.to_device(queue, values)
    for k in sizes_up_to(groups):
        out = cl.array.zeros(queue, 10 * groups, np.float32)
        launch = kernel(queue, None, (5,), given, out, np.uint32(k), num_groups=groups)
        n = launch.num_groups
        if n < k:
            continue
        launch.wait()
        found = out.get().reshape(-1, 5, 2)[:n]
        for first in range(0, n, k):
            members = values[first : min(first + k, n)]
            total = members[0]
            for value in members[1:]:
                total = np.float32(total + value)
            assert (found[first : first + len(members), :, 0] == total).all()
            assert (found[first : first + len(members), :, 1] == members.max()).all()


def test_rows_and_columns_and_splits_in_a_loop(made, queue):
    kernel, rounds = made("rows_and_columns"), 2 if support.scale(queue.device).is_simulator else 30
    groups = groups_of(kernel, queue, 5)
    for k in sizes_up_to(groups):
        wrong = zeros(queue, groups * 5)
        launch = kernel(queue, None, (5,), wrong, np.uint32(k), np.uint32(rounds), num_groups=groups)
        if launch.num_groups >= k:
            launch.wait()
            assert not wrong.get().any(), (k, launch.num_groups, wrong.get())


# Bad input.


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
def test_colours_that_differ_within_a_group_are_an_error(made, queue, item):
    kernel = made("colours", spin_limit=LIMIT_S)
    out = support.cells(kernel, queue, (5,), 9)
    launch = launched(kernel, queue, 5, 1, out, np.uint32(0), np.uint32(item))
    with pytest.raises(portbar.Error, match=rf"in work-group 0 differs: {5 - item} work-items of the group") as caught:
        launch.wait()
    assert not isinstance(caught.value, portbar.BarrierTimeoutError)
    # All groups leave.
    assert (support.uints(queue, out)[: launch.num_groups * 5] == 0).all()
    launch = kernel(queue, None, (5,), out, np.uint32(99), np.uint32(0), num_groups=launch.num_groups)
    launch.wait()
    assert (support.uints(queue, out)[: launch.num_groups * 5] == 3).all()


def test_sizes_that_differ_between_groups_are_an_error(made, queue):
    kernel = made("sizes", spin_limit=LIMIT_S)
    out = support.cells(kernel, queue, (5,), 9)
    launch = launched(kernel, queue, 5, 2, out)
    with pytest.raises(portbar.Error, match=r"in work-group 0 differs: 1 work-items of the group, or work-groups"):
        launch.wait()
    assert (support.uints(queue, out)[: launch.num_groups * 5] == 0).all()


@pytest.mark.parametrize("how", [0, 1], ids=["barrier", "reduction"])
def test_a_group_that_skips_a_barrier_of_its_team_is_an_error_within_the_limit_and_a_second(made, queue, how):
    if support.scale(queue.device).is_cut_short:
        pytest.skip("the device ends the wait before its limit")
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


def test_a_counter_that_is_overwritten_lets_no_group_pass(made, queue):
    if support.scale(queue.device).is_cut_short:
        pytest.skip("the device ends the wait before its limit")
    kernel = made("overwrites", spin_limit=LIMIT_S)
    out = support.cells(kernel, queue, (5,))
    launch = launched(kernel, queue, 5, 2, out)
    with pytest.raises(portbar.Error, match=r"a barrier of a team reached|overwritten"):
        launch.wait()
    assert (support.uints(queue, out)[:10] == 2).all()
