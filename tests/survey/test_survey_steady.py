"""A busy machine must not change the table of barriers, nor findings that a probe once saw; and the outcome of rows."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

pytest.importorskip("pyopencl")

from portbar.device.findings import Findings
from portbar.records.reading import measured, missing, value_of
from portbar.survey import probe
from portbar.survey.measuring.benching import BarrierTime
from portbar.survey.measuring.rounds import NO_TIME
from portbar.survey.steps import Occupancy
from portbar.survey.tasks import barrier
from tests.survey.support import barrier_row, occupancy_row


@pytest.mark.parametrize(
    ("samples", "unsteady"),
    [
        ([0.1, 0.11, 0.1], False),
        ([0.1, 0.19, 0.3], False),
        ([0.1, 0.21, 0.3], True),
        ([0.1, 0.1], True),
        ([0.1, 7000.0, 8000.0], True),
        ([7000.0, 7500.0, 8000.0], True),
        ([9.0, 9.1, 9.2], False),
    ],
)
def test_times_of_a_busy_machine_are_distinguished_from_those_of_an_idle_one(samples, unsteady):
    assert barrier.unsteady([barrier_row(samples)]) is unsteady


def test_a_few_samples_of_many_that_are_fast_by_luck_do_not_make_a_machine_busy():
    assert not barrier.unsteady([barrier_row([*[0.1] * 3, *[0.4] * 12])])
    assert barrier.unsteady([barrier_row([*[0.1] * 4, *[0.4] * 11])])


def test_rows_without_a_time_say_nothing_about_steadiness():
    late = missing("skipped", NO_TIME)
    rows = [barrier_row([0.1], barrier_time=late), barrier_row([90.0, 91.0, 92.0], relaunch_time=late)]
    assert not barrier.unsteady(rows)
    rows[1]["relaunch_time"] = measured(4.0, "us")
    assert barrier.unsteady(rows)


def test_times_that_vary_count_where_they_might_be_the_fastest():
    steadily = barrier_row([0.1, 0.1, 0.1])
    assert not barrier.unsteady([steadily, barrier_row([0.2, 0.6, 0.7], algorithm="tree")])
    assert barrier.unsteady([steadily, barrier_row([0.09, 0.6, 0.7], algorithm="tree")])
    assert barrier.unsteady([steadily, barrier_row([0.2, 0.6, 0.7], groups=1)])


def times(**us: float) -> list[BarrierTime]:
    return [BarrierTime(name, 2, 1, value, (value,), 4.0, (4.0,), 10) for name, value in us.items()]


@pytest.mark.parametrize(
    ("known", "measured", "winner"),
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
def test_a_known_winner_stays_unless_another_is_clearly_faster(known, measured, winner):
    assert barrier.settled_table(known, times(**measured)) == ((1, 2, winner),)


BEFORE = Findings(
    ordering={"c11": "pass", "cl12": "pass"},
    progress={"work_groups": "independent", "lanes": "none"},
    groups_in_flight=2,
    loop_limit=65_535,
)


def test_a_wait_that_gave_up_does_not_outdate_what_was_seen_before():
    busy = Findings(
        ordering={
            "c11": "fail: 6 launches ended with one work-group never having seen it",
            "cl12": "untested: timed out",
        },
        progress={"work_groups": "none", "lanes": "unknown: timed out"},
        groups_in_flight=1,
        lost={"loop_limit": "timed out"},
    )
    assert probe.settled_findings(BEFORE, busy) == BEFORE


@pytest.mark.parametrize(
    "changed",
    [
        {"ordering": {"c11": "fail: 3 of 90 messages between work-groups came with stale data", "cl12": "pass"}},
        {"progress": {"work_groups": "independent", "lanes": "independent"}},
        {"groups_in_flight": 4},
        {"loop_limit": 70_000},
        {"builds": {"c11@CL3.0": False}},
    ],
)
def test_current_findings_count(changed):
    found = replace(BEFORE, **changed)
    assert probe.settled_findings(BEFORE, found) == found


def test_without_an_earlier_probe_findings_are_as_found():
    found = Findings(ordering={"c11": "untested: timed out"}, lost={"loop_limit": "timed out"})
    assert probe.settled_findings(None, found) == found


def test_recall_is_of_the_most_that_any_run_found_and_of_the_vendors_answer():
    entry: dict[str, Any] = {
        "occupancy": {
            "rows": [
                occupancy_row([2, 2, 2]),
                occupancy_row([4, 1, 1]),
                occupancy_row([]),
                occupancy_row([3], vendor=None, local_size=64),
            ]
        }
    }
    Occupancy().complete(entry["occupancy"])
    first, second, empty, other = entry["occupancy"]["rows"]
    assert (first["best_known_groups"], first["recall"]["value"], first["recall_of_vendor_bound"]["value"]) == (
        4,
        0.5,
        0.25,
    )
    assert second["recall"]["value"] == 0.5
    assert "recall" not in empty
    assert (other["best_known_groups"], other["recall"]["value"]) == (3, 1.0)
    assert other["recall_of_vendor_bound"]["status"] == "unsupported"


def test_each_finding_is_a_row_and_lost_ones_say_why():
    found = Findings(
        builds={"CL2.0": True, "fp64": False},
        progress={"lanes": "none", "work_groups": "unknown: timed out"},
        ordering={
            "c11": "pass",
            "cl12": "fail: 3 of 9 came with stale data",
            "ptx": "untested: no two work-groups met",
        },
        polls_per_second=1e9,
        lost={"loop_limit": "timed out"},
    )
    rows = {row["probe"]: row["result"] for row in probe.probe_rows(found)}
    assert (value_of(rows["build CL2.0"]), value_of(rows["build fp64"])) == (True, False)
    assert value_of(rows["progress lanes"]) == "none"
    assert rows["progress work_groups"] == missing("timeout", "timed out")
    assert value_of(rows["ordering cl12"]) == "fail: 3 of 9 came with stale data"
    assert rows["ordering ptx"] == missing("error", "no two work-groups met")
    assert rows["polls_per_second"] == {"value": 1e9, "unit": "polls/s"}
    assert rows["loop_limit"] == missing("error", "timed out")
    assert rows["groups_in_flight"]["status"] == "skipped"
    whole = {row["probe"]: row["result"] for row in probe.probe_rows(Findings(groups_in_flight=2))}
    assert value_of(whole["loop_limit"]) == "none"
    assert value_of(whole["groups_in_flight"]) == 2
