"""The probe of a survey: a busy machine does not refute what was seen before, and each finding is a row."""

from __future__ import annotations

from dataclasses import replace

import pytest

from portbar.device.findings import Findings
from portbar.records.reading import missing, value_of
from portbar.survey.probe_rows import probe_rows, settled_findings

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
    assert settled_findings(BEFORE, busy) == BEFORE


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
    assert settled_findings(BEFORE, found) == found


def test_without_an_earlier_probe_findings_are_as_found():
    found = Findings(ordering={"c11": "untested: timed out"}, lost={"loop_limit": "timed out"})
    assert settled_findings(None, found) == found


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
    rows = {row["probe"]: row["result"] for row in probe_rows(found)}
    assert (value_of(rows["build CL2.0"]), value_of(rows["build fp64"])) == (True, False)
    assert value_of(rows["progress lanes"]) == "none"
    assert rows["progress work_groups"] == missing("timeout", "timed out")
    assert value_of(rows["ordering cl12"]) == "fail: 3 of 9 came with stale data"
    assert rows["ordering ptx"] == missing("error", "no two work-groups met")
    assert rows["polls_per_second"] == {"value": 1e9, "unit": "polls/s"}
    assert rows["loop_limit"] == missing("error", "timed out")
    assert rows["groups_in_flight"]["status"] == "skipped"
    whole = {row["probe"]: row["result"] for row in probe_rows(Findings(groups_in_flight=2))}
    assert value_of(whole["loop_limit"]) == "none"
    assert value_of(whole["groups_in_flight"]) == 2
