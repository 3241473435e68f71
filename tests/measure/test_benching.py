"""Times of barriers, and the table that they are condensed to."""

from __future__ import annotations

import itertools
import json
import statistics
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyopencl")

from portbar.choices import profile
from portbar.device.facts import device_key, facts
from portbar.device.findings import CACHE_KIND, Findings
from portbar.errors import Error
from portbar.primitives.grid import bounded
from portbar.records import cache
from portbar.survey.measuring import benching

if TYPE_CHECKING:
    from pathlib import Path

    import pyopencl as cl


def times(rows: dict[int, dict[str, float | None]], local_size: int = 1) -> list[benching.BarrierTime]:
    return [
        benching.BarrierTime(name, groups, local_size, us)
        for groups, values in rows.items()
        for name, us in values.items()
    ]


@pytest.mark.parametrize(
    ("rows", "table"),
    [
        ({}, ()),
        ({2: {"counter": None, "flag": None}}, ()),
        ({2: {"counter": None, "flag": 9.0}}, ((1, 2, "flag"),)),
        # A challenger needs more than three per cent.
        *(({2: {"xf": us, "counter": 1.0}}, ((1, 2, "counter"),)) for us in (0.98, 0.971)),
        *(({2: {"xf": us, "counter": 1.0}}, ((1, 2, "xf"),)) for us in (0.969, 0.5)),
        # An algorithm without a spin limit never enters.
        ({2: {"counter": 1.0, "intel_device_barrier": 0.1}}, ((1, 2, "counter"),)),
        # Only counts where the winner changes.
        (
            {
                groups: {"counter": us, "tree": 2.0}
                for groups, us in ((1, 1.0), (2, 1.5), (4, 3.0), (8, 5.0), (16, 1.0))
            },
            ((1, 1, "counter"), (1, 4, "tree"), (1, 16, "counter")),
        ),
    ],
)
def test_a_table_names_the_fastest_where_it_changes(
    rows: dict[int, dict[str, float | None]], table: tuple[tuple[int, int, str], ...]
) -> None:
    assert benching.barrier_table(reversed(times(rows))) == table


def test_simplest_of_equals_wins_in_any_order() -> None:
    for order in itertools.permutations(bounded()):
        assert benching.barrier_table(times({3: dict.fromkeys(order, 0.7)})) == ((1, 3, "counter"),)


def test_each_local_size_has_a_table_of_its_own() -> None:
    small = times({2: {"counter": 0.1, "flag": 0.05}, 8: {"counter": 0.2, "flag": 0.1}})
    large = times({2: {"counter": 10.0, "flag": 30.0}, 8: {"counter": 20.0, "flag": 15.0}}, local_size=64)
    assert benching.barrier_table([*large, *small]) == ((1, 2, "flag"), (64, 2, "counter"), (64, 8, "flag"))


@pytest.mark.parametrize(
    ("bound", "counts"), [(1, (1,)), (2, (1, 2)), (6, (1, 2, 4, 6)), (8, (1, 2, 4, 8)), (1056, None)]
)
def test_default_counts_are_powers_of_two_and_the_bound(bound: int, counts: tuple[int, ...] | None) -> None:
    found = benching.default_counts(bound)
    assert counts is None or found == counts
    assert found[0] == 1
    assert found[-1] == bound


@pytest.mark.device
def test_every_algorithm_gets_a_time_or_a_reason(queue: cl.CommandQueue, findings: Findings | None) -> None:
    told: list[benching.BarrierTime] = []
    steps: list[str] = []
    measured = benching.time_barriers(queue, local_sizes=[2, 4], budget_s=3, on_row=told.append, on_step=steps.append)
    assert {entry.algorithm for entry in measured} == set(bounded())
    assert {entry.local_size for entry in measured} == {2, 4}
    for entry in measured:
        assert benching.BarrierTime.from_row(json.loads(json.dumps(entry.to_row()))) == entry
        if entry.us is None:
            assert entry.note
        else:
            assert entry.us == pytest.approx(statistics.median(entry.samples_us))
            assert min(entry.samples_us) > 0
            assert entry.relaunch_us == pytest.approx(statistics.median(entry.relaunch_samples_us))
            assert min(entry.relaunch_samples_us) > 0
    assert set(told) == set(measured)
    assert len(told) == len(measured)
    # The most informative first, so that a driver that hangs has cost the least.
    assert [entry.groups for entry in told if entry.local_size == 2] == sorted(
        (entry.groups for entry in told if entry.local_size == 2), reverse=True
    )
    assert any("barriers between" in step for step in steps)
    assert any(entry.us for entry in measured)
    table = benching.barrier_table(measured)
    local_size, groups, _ = table[0]
    assert groups == min(entry.groups for entry in measured if entry.us and entry.local_size == local_size)


class LateTimer:
    """Stands for a timer on a machine that takes 5 ms to wake the threads of a launch, with barriers of 0.05 us."""

    most_rounds = 1 << 20

    def __init__(self, missing: int = 0) -> None:
        self.missing = missing
        self.launched: list[int] = []

    def launch_s(self, _groups: int, _rounds: int) -> float:
        return 0.005

    def sample_us(self, _groups: int, rounds: int) -> float | None:
        self.launched.append(rounds)
        if self.missing:
            self.missing -= 1
            return None
        wake_us = 50.0 if len(self.launched) > 1 else 5000.0
        return wake_us / rounds + 0.05


def test_rounds_are_raised_where_waking_the_threads_took_most_of_a_launch() -> None:
    timer = LateTimer(missing=2)
    samples = benching.BarrierSamples(timer, 2, 0.02)  # type: ignore[arg-type]
    assert samples.take() is None
    assert samples.take() is None
    for _ in range(4):
        assert samples.take() == pytest.approx(0.05, rel=0.05)
    # The results of the short launches are gone.
    assert samples.us == pytest.approx([0.05] * 4, rel=0.05)
    assert samples.rounds * 0.05 >= 0.02e6 / 4
    assert timer.launched[-4:] == [samples.rounds] * 4


def test_rounds_stay_below_their_limit_however_short_the_launch() -> None:
    samples = benching.BarrierSamples(LateTimer(), 2, 0.02, most_rounds=1000)  # type: ignore[arg-type]
    for _ in range(3):
        assert samples.take() is not None
    assert samples.rounds == 1000


@pytest.mark.device
def test_counts_above_the_bound_are_noted_and_not_launched(queue: cl.CommandQueue, findings: Findings | None) -> None:
    bound = benching.BarrierTimer(queue, 1, {"device_barrier": "flag"}).bound
    measured = benching.time_barriers(queue, ["flag"], [bound + 1, 1], budget_s=0.1)
    assert [entry.groups for entry in measured] == [1, bound + 1]
    assert measured[0].us
    assert measured[1].us is None
    assert f"runs {bound} work-groups" in measured[1].note


@pytest.mark.device
def test_unknown_algorithm_is_refused_alone_and_noted_among_others(
    queue: cl.CommandQueue, findings: Findings | None
) -> None:
    with pytest.raises(Error, match="not a strategy"):
        benching.time_barriers(queue, ["sundial"], budget_s=0.1)
    measured = benching.time_barriers(queue, ["sundial", "counter"], [1], budget_s=0.1)
    assert measured[0].us is None
    assert "sundial" in measured[0].note
    assert measured[1].us


@pytest.mark.device
def test_relaunch_takes_time(queue: cl.CommandQueue) -> None:
    assert benching.Relaunch(queue, 1, 1).sample_us(5) > 0


@pytest.mark.device
def test_describe_returns_the_stored_table(device: cl.Device, findings: Findings | None, own_cache: Path) -> None:
    known = replace(findings or Findings(), barrier_table=(), polls_per_second=12345.0)
    with pytest.raises(Error, match="probe"):
        benching.store_table(device, ((1, 1, "flag"),))
    cache.store(CACHE_KIND, device_key(facts(device)), known.to_json())
    stored = benching.store_table(device, ((1, 1, "flag"), (1, 2, "counter")))
    assert stored == replace(known, barrier_table=((1, 1, "flag"), (1, 2, "counter")))
    assert profile.describe(device).findings == stored
