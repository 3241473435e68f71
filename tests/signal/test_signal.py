"""Signals between work-groups: values written before one are read after a wait for it, launch after launch."""

from __future__ import annotations

import numpy as np
import pytest

import portbar
from tests import support
from tests.programs import LIMIT_S, amount
from tests.signal.kernels import RINGS

pytestmark = pytest.mark.device

#: Work-items of a group: no power of two, and more than a sub-group of some devices.
LOCAL = 5


@pytest.mark.parametrize("name", RINGS)
def test_each_hop_of_a_ring_sees_what_the_group_before_has_written(made, launched, queue, name):
    kernel = made(name)
    bound = kernel.occupancy(queue, (LOCAL,)).groups
    rounds = max(3, amount(queue.device, 10_000, simulated=10, cut_short=60) // min(bound, 16))
    cells, wrong = support.filled(queue, 32 * LOCAL), support.filled(queue, 32)
    signals = support.filled(queue, 32, 12345)
    launch = launched(kernel, LOCAL, lambda: (signals, cells, wrong, np.uint32(rounds), np.uint32(0)))
    launch.wait()
    n = launch.num_groups
    assert not support.uints(queue, wrong).any()
    assert (support.uints(queue, signals)[:n] == rounds).all()
    width = LOCAL if name.startswith("ring") else 1
    hops = (rounds - 1) * n + np.arange(n)[:, None]
    last = hops * 31 + np.arange(width)
    assert (support.uints(queue, cells)[: n * width] == last.ravel()).all()


@pytest.mark.parametrize("name", ["ring_add", "lone_set"])
def test_launches_in_a_row_need_no_clearing_by_the_host(made, queue, name):
    kernel, launches = made(name), amount(queue.device, 300, simulated=6)
    signals, wrong = support.filled(queue, 32, 0xFFFFFFFF), support.filled(queue, 32)
    cells = support.filled(queue, 32 * LOCAL)
    groups = min(kernel.occupancy(queue, (LOCAL,)).groups, 16)
    done = [
        kernel(queue, None, (LOCAL,), signals, cells, wrong, np.uint32(4 + turn % 3), np.uint32(0), num_groups=groups)
        for turn in range(launches)
    ]
    for launch in done:
        launch.wait()
    assert not support.uints(queue, wrong).any()
    assert (support.uints(queue, signals)[: done[-1].num_groups] == 4 + (launches - 1) % 3).all()


@pytest.mark.parametrize("name", ["ring_add", "lone_set"])
def test_counters_that_are_never_cleared_count_on_over_launches(made, queue, name):
    """The host passes each signal's value before the launch; groups that took no part have not signalled."""
    kernel, wrong, cells = made(name), support.filled(queue, 32), support.filled(queue, 32 * LOCAL)
    signals, base = support.filled(queue, 32, 1000), 1000
    for _ in range(amount(queue.device, 20, simulated=3)):
        launch = kernel(queue, None, (LOCAL,), signals, cells, wrong, np.uint32(3), np.uint32(base), num_groups=1)
        launch.wait()
        base += 3
    assert not support.uints(queue, wrong).any()
    assert support.uints(queue, signals)[:2].tolist() == [base, 1000]


def test_a_pipeline_of_groups_with_few_slots_between_them(made, launched, queue):
    kernel = made("pipeline")
    items = amount(queue.device, 1500, simulated=12, cut_short=60)
    given = np.random.default_rng(3).integers(0, 2**32, items * LOCAL, dtype=np.uint32)
    source, out = support.to_device(queue, given), support.filled(queue, items * LOCAL)
    signals, slots = support.filled(queue, 64, 77), support.filled(queue, 32 * 3 * LOCAL)
    launch = launched(kernel, LOCAL, lambda: (signals, slots, source, out, np.uint32(items)))
    launch.wait()
    expected = given
    for stage in range(launch.num_groups):
        expected = expected * np.uint32(3) + np.uint32(stage + 1)
    assert (support.uints(queue, out) == expected).all()


def test_a_signal_that_all_work_items_add_to_counts_them(made, launched, queue):
    kernel, rounds = made("gather"), amount(queue.device, 300, simulated=5, cut_short=40)
    signals, sums = support.filled(queue, 1, 5), support.filled(queue, rounds)
    launch = launched(kernel, LOCAL, lambda: (signals, support.filled(queue, 32 * LOCAL), sums, np.uint32(rounds)))
    launch.wait()
    n = launch.num_groups * LOCAL
    assert (support.uints(queue, sums) == n * (n - 1) // 2 + n * np.arange(rounds)).all()


def test_surplus_groups_leave_and_the_others_hand_on(made, queue):
    kernel, wrong = made("ring_add"), support.filled(queue, 4096)
    surplus = support.scale(queue.device).surplus
    groups = kernel.occupancy(queue, (LOCAL,)).groups + surplus
    signals, cells = support.filled(queue, groups), support.filled(queue, groups * LOCAL)
    for _ in range(3):
        launch = kernel(queue, (groups * LOCAL,), (LOCAL,), signals, cells, wrong, np.uint32(5), np.uint32(0))
        launch.wait()
        assert launch.num_groups <= groups
        assert not support.uints(queue, wrong).any()
        assert (support.uints(queue, signals)[: launch.num_groups] == 5).all()


def test_a_look_returns_at_once(made, queue):
    out, signals = support.filled(queue, 6, 99), support.filled(queue, 1, 7)
    made("looks")(queue, None, (LOCAL,), signals, out, num_groups=1).wait()
    assert support.uints(queue, out).tolist() == [1, 0, 1, 1, 0, 1]
    assert support.uints(queue, signals)[0] == 2**31 - 1


@pytest.mark.parametrize("meets", [1, 0], ids=["others at a barrier", "others left"])
@pytest.mark.parametrize("name", ["vain_group", "vain_leader", "vain_condition"])
def test_a_wait_for_what_never_comes_is_an_error_within_the_limit_and_a_second(made, launched, queue, name, meets):
    kernel = made(name, spin_limit=LIMIT_S)
    signals, out = support.filled(queue, 1, 4), support.filled(queue, 32 * LOCAL, 99)
    least = 1 if support.scale(queue.device).is_simulator or support.scale(queue.device).is_cut_short else 2

    launch = launched(kernel, LOCAL, lambda: (signals, out, np.uint32(meets)), least, 2)
    what = (
        r"portbar_device_wait_until reached its spin limit in work-group 0 of"
        if name == "vain_condition"
        else r"a wait for a signal .* work-group 0 of \d: it waited for at least 9, and the signal was 4"
    )
    if meets:
        # Those at the barrier wait for as long.
        what += "|a device barrier reached its spin limit in work-group 1"
    in_time = support.within(LIMIT_S + 1, queue.device, launch.num_groups)
    with in_time, pytest.raises(portbar.BarrierTimeoutError, match=what) as caught:
        launch.wait()
    assert (caught.value.kernel, caught.value.expected) == (name, launch.num_groups)
    found = support.uints(queue, out)
    assert (found[:LOCAL] == 2).all()
    if launch.num_groups == 2:
        assert (found[LOCAL : 2 * LOCAL] == (1 if meets else 3)).all()
    # The next launch on the queue is right.
    after = kernel(queue, None, (LOCAL,), support.filled(queue, 1, 9), out, np.uint32(0), num_groups=1)
    after.wait()
    assert support.uints(queue, out)[0] == 3


@pytest.mark.parametrize(
    ("start", "add", "set_to", "told"),
    [
        (2**31 - 3, 3, 0, "2147483645 when work-group 0 of . added, set or waited for 3"),
        (1, 2**31 - 1, 0, "1 when work-group 0 of . added, set or waited for 2147483647"),
        (1, 2**32 - 1, 0, "1 when work-group 0 of . added, set or waited for 4294967295"),
        (2**32 - 1, 1, 0, "4294967295 when work-group 0 of . added, set or waited for 1"),
        (0, 0, 2**31, "0 when work-group 0 of . added, set or waited for 2147483648"),
    ],
)
def test_a_signal_beyond_its_largest_value_is_an_error(made, launched, queue, start, add, set_to, told):
    kernel, out = made("too_far", spin_limit=20.0), support.filled(queue, 32 * LOCAL)
    launch = launched(
        kernel, LOCAL, lambda: (support.filled(queue, 1, start), out, np.uint32(add), np.uint32(set_to)), 1, 4
    )
    # A group that waits for it may be the first to report.
    waiter = r"\d+ when work-group [1-3] of . added, set or waited for 2147483647"
    with pytest.raises(
        portbar.Error, match=rf"exceeded its largest value, 2147483647.* It was (?:{told}|{waiter})\."
    ) as caught:
        launch.wait()
    assert not isinstance(caught.value, portbar.BarrierTimeoutError)
    assert (support.uints(queue, out)[LOCAL : launch.num_groups * LOCAL] == 2).all()
    # Up to the largest value all is well.
    launch = launched(
        kernel, LOCAL, lambda: (support.filled(queue, 1, 5), out, np.uint32(2**31 - 6), np.uint32(0)), 1, 4
    )
    launch.wait()
    assert (support.uints(queue, out)[: launch.num_groups * LOCAL] == 1).all()
