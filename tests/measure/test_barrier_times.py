"""Times of barriers, and the table that they are condensed to."""

from __future__ import annotations

import itertools
import statistics
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyopencl as cl
import pytest

from portbar.choices import profile
from portbar.device.facts import device_key, facts
from portbar.device.findings import CACHE_KIND, Findings
from portbar.errors import Error
from portbar.primitives.grid import bounded
from portbar.records import cache
from portbar.records.reading import missing
from portbar.survey.measuring.barrier import default_counts, time_barriers
from portbar.survey.measuring.barrier_table import barrier_table, store_table, unsteady
from portbar.survey.measuring.barrier_timer import BarrierSamples, BarrierTimer, Relaunch
from tests.survey.support import barrier_row


def times(rows: dict[int, dict[str, float | None]], local_size: int = 1) -> list[dict[str, Any]]:
    """Rows of the barrier step, by number of work-groups and algorithm."""
    return [
        barrier_row([us or 0.0], 4.0, name, groups=groups, local_size=local_size)
        | ({} if us else {"barrier_time": missing("error", "it failed")})
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
            {groups: {"counter": us, "tree": 2.0} for groups, us in {1: 1.0, 2: 1.5, 4: 3.0, 8: 5.0, 16: 1.0}.items()},
            ((1, 1, "counter"), (1, 4, "tree"), (1, 16, "counter")),
        ),
    ],
)
def test_a_table_names_the_fastest_where_it_changes(
    rows: dict[int, dict[str, float | None]], table: tuple[tuple[int, int, str], ...]
) -> None:
    assert barrier_table(reversed(times(rows))) == table


def test_simplest_of_equals_wins_in_any_order() -> None:
    for order in itertools.permutations(bounded()):
        assert barrier_table(times({3: dict.fromkeys(order, 0.7)})) == ((1, 3, "counter"),)


def test_each_local_size_has_a_table_of_its_own() -> None:
    small = times({2: {"counter": 0.1, "flag": 0.05}, 8: {"counter": 0.2, "flag": 0.1}})
    large = times({2: {"counter": 10.0, "flag": 30.0}, 8: {"counter": 20.0, "flag": 15.0}}, local_size=64)
    assert barrier_table([*large, *small]) == ((1, 2, "flag"), (64, 2, "counter"), (64, 8, "flag"))


LATE = missing("skipped", "no time was left")
STEADY = barrier_row([0.1, 0.1, 0.1])


@pytest.mark.parametrize(
    ("rows", "busy"),
    [
        ([barrier_row([0.1, 0.11, 0.1])], False),
        ([barrier_row([0.1, 0.19, 0.3])], False),
        ([barrier_row([0.1, 0.21, 0.3])], True),
        ([barrier_row([0.1, 0.1])], True),
        ([barrier_row([0.1, 7000.0, 8000.0])], True),
        ([barrier_row([7000.0, 7500.0, 8000.0])], True),
        ([barrier_row([9.0, 9.1, 9.2])], False),
        # A few of many may be fast by luck.
        ([barrier_row([*[0.1] * 3, *[0.4] * 12])], False),
        ([barrier_row([*[0.1] * 4, *[0.4] * 11])], True),
        # Rows without a time say nothing.
        ([barrier_row([0.1], barrier_time=LATE), barrier_row([90.0, 91.0, 92.0], relaunch_time=LATE)], False),
        ([barrier_row([0.1], barrier_time=LATE), barrier_row([90.0, 91.0, 92.0])], True),
        # Times that vary count where they might be the fastest of their shape.
        ([STEADY, barrier_row([0.2, 0.6, 0.7], algorithm="tree")], False),
        ([STEADY, barrier_row([0.09, 0.6, 0.7], algorithm="tree")], True),
        ([STEADY, barrier_row([0.2, 0.6, 0.7], groups=1)], True),
    ],
)
def test_times_of_a_busy_machine_are_distinguished_from_those_of_an_idle_one(
    rows: list[dict[str, Any]], busy: bool
) -> None:
    assert unsteady(rows) is busy


@pytest.mark.parametrize(
    ("known", "us", "winner"),
    [
        ((), {"counter": 1.0, "tree": 0.9}, "tree"),
        (((1, 1, "counter"),), {"counter": 1.0, "tree": 0.9}, "counter"),
        (((1, 1, "counter"),), {"counter": 1.0, "tree": 0.79}, "tree"),
        (((1, 2, "tree"), (1, 1, "counter")), {"counter": 1.0, "tree": 1.2}, "tree"),
        (((1, 2, "tree"),), {"counter": 1.0, "tree": 1.3}, "counter"),
        # Times of other local sizes, of more groups, or of algorithms not measured now, are ignored.
        (((64, 1, "counter"),), {"counter": 1.0, "tree": 0.9}, "tree"),
        (((1, 4, "counter"),), {"counter": 1.0, "tree": 0.9}, "tree"),
        (((1, 1, "flag"),), {"counter": 1.0, "tree": 0.9}, "tree"),
    ],
)
def test_a_known_winner_stays_unless_another_is_clearly_faster(
    known: tuple[tuple[int, int, str], ...], us: dict[str, float | None], winner: str
) -> None:
    assert barrier_table(times({2: us}), known) == ((1, 2, winner),)


@pytest.mark.parametrize(
    ("bound", "counts"), [(1, (1,)), (2, (1, 2)), (6, (1, 2, 4, 6)), (8, (1, 2, 4, 8)), (1056, None)]
)
def test_default_counts_are_powers_of_two_and_the_bound(bound: int, counts: tuple[int, ...] | None) -> None:
    found = default_counts(bound)
    assert counts is None or found == counts
    assert found[0] == 1
    assert found[-1] == bound


@pytest.mark.device
def test_every_algorithm_gets_a_time_or_a_reason(queue: cl.CommandQueue, findings: Findings | None) -> None:
    steps: list[str] = []
    rows = list(time_barriers(queue, local_sizes=[2, 4], budget_s=3, on_step=steps.append))
    assert {row["algorithm"] for row in rows} == set(bounded())
    for row in rows:
        if "value" not in row["barrier_time"]:
            assert row["barrier_time"]["reason"]
            continue
        for name in ("barrier_time", "relaunch_time"):
            assert row[name]["value"] == pytest.approx(statistics.median(row[name]["samples"]))
            assert min(row[name]["samples"]) > 0
    # The most informative first, so that a driver that hangs has cost the least.
    shapes = [(row["local_size"], row["groups"]) for row in rows]
    assert shapes == sorted(shapes, key=lambda shape: (shape[0], -shape[1]))
    assert {local_size for local_size, _ in shapes} == {2, 4}
    assert any("barriers between" in step for step in steps)
    timed = [(row["local_size"], row["groups"]) for row in rows if "value" in row["barrier_time"]]
    assert barrier_table(rows)[0][:2] == min(timed)


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
    samples = BarrierSamples(timer, 2, 0.02)  # type: ignore[arg-type]
    assert samples.take() is None
    assert samples.take() is None
    for _ in range(4):
        assert samples.take() == pytest.approx(0.05, rel=0.05)
    # The results of the short launches are gone.
    assert samples.us == pytest.approx([0.05] * 4, rel=0.05)
    assert samples.rounds * 0.05 >= 0.02e6 / 4
    assert timer.launched[-4:] == [samples.rounds] * 4


def test_rounds_stay_below_their_limit_however_short_the_launch() -> None:
    samples = BarrierSamples(LateTimer(), 2, 0.02, most_rounds=1000)  # type: ignore[arg-type]
    for _ in range(3):
        assert samples.take() is not None
    assert samples.rounds == 1000


@pytest.mark.device
def test_counts_above_the_bound_are_noted_and_not_launched(queue: cl.CommandQueue, findings: Findings | None) -> None:
    bound = BarrierTimer(queue, 1, {"device_barrier": "flag"}).bound
    above, one = time_barriers(queue, ["flag"], [bound + 1, 1], budget_s=0.1)
    assert (above["groups"], one["groups"]) == (bound + 1, 1)
    assert one["barrier_time"]["value"]
    assert f"runs {bound} work-groups" in above["barrier_time"]["reason"]


@pytest.mark.device
def test_unknown_algorithm_is_refused_alone_and_noted_among_others(
    queue: cl.CommandQueue, findings: Findings | None
) -> None:
    with pytest.raises(Error, match="not a strategy"):
        next(time_barriers(queue, ["sundial"], budget_s=0.1))
    unknown, known = time_barriers(queue, ["sundial", "counter"], [1], budget_s=0.1)
    assert "sundial" in unknown["barrier_time"]["reason"]
    assert known["barrier_time"]["value"]


@pytest.mark.device
def test_relaunch_takes_time(queue: cl.CommandQueue) -> None:
    assert Relaunch(queue, 1, 1).sample_us(5) > 0


@pytest.mark.device
def test_describe_returns_the_stored_table(device: cl.Device, findings: Findings | None, own_cache: Path) -> None:
    known = replace(findings or Findings(), barrier_table=(), polls_per_second=12345.0)
    with pytest.raises(Error, match="probe"):
        store_table(device, ((1, 1, "flag"),), [])
    cache.store(CACHE_KIND, device_key(facts(device)), known.to_json())
    stored = store_table(device, ((1, 1, "flag"), (1, 2, "counter")), [])
    assert stored == replace(known, barrier_table=((1, 1, "flag"), (1, 2, "counter")))
    assert profile.describe(device).findings == stored
