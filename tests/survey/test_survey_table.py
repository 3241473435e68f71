"""The terminal table: the verdict in words first, every kind of record, and never more than 100 columns."""

from __future__ import annotations

from typing import Any

import pytest

from portbar import records
from portbar.findings.findings import Findings
from portbar.records.reading import measured, missing
from portbar.survey.table import verdict
from tests.checkout import ROOT
from tests.survey.support import UNUSABLE, barrier_row, entry, occupancy_row, shown

MATRIX = sorted((ROOT / "vendor_matrix").glob("*.json"))
STRATEGY = {
    "atomics": {"value": "c11", "reason": "claimed"},
    "device_barrier": {"value": "flag", "reason": "measured"},
}


def test_the_table_says_why_not_and_what_would_help():
    text = shown(UNUSABLE)
    assert "unusable: nothing compiles" in text
    assert 'pip install "portbar[cpu]"' in text
    assert "D [x] (P, V)" in text


def test_the_table_says_what_became_of_a_step_and_that_the_record_is_partial():
    text = shown(entry(occupancy={"status": "crash", "rows": [], "reason": "ended by SIGABRT"}), interrupted=True)
    assert "occupancy: crash: ended by SIGABRT" in text
    assert "Interrupted" in text


def test_the_table_says_that_loops_of_the_users_kernels_end_early_and_what_would_help():
    found = Findings(loop_limit=65_535).to_json()
    text = " ".join(shown(entry(findings=found)).split())
    assert "ends loops silently after 65535 iterations" in text
    assert "your own kernels" in text
    assert "another runtime" in text


def test_the_table_says_why_an_algorithm_has_no_time():
    why = missing("error", "7281 of 8191 rounds were run")
    rows = [barrier_row([0.5]), *(barrier_row([0.5], algorithm="xf", barrier_time=why) for _ in range(2))]
    text = shown(entry(barrier={"status": "ok", "rows": rows}))
    assert text.count("No time of xf: 7281 of 8191 rounds were run") == 1
    assert "No time of counter" not in text


def test_a_verdict_for_every_way_that_a_survey_of_a_device_can_end():
    assert "interrupted before it was checked" in verdict({"status": "waiting"})
    refused = verdict(entry(status="refused", reason="no ordering"))
    assert "refuses" in refused
    assert "no ordering" in refused
    one = {"max_groups": {"value": "1", "reason": "loops end early: one group"}}
    assert "grids of one work-group" in verdict(entry(strategy=one))
    assert "loops end early" in verdict(entry(strategy=one))
    assert "before its strategy was known" in verdict(entry())
    assert "was not measured" in verdict(entry(strategy=STRATEGY))
    assert "cannot" in verdict(entry(status="failed", reason="cannot"))
    alone = {"status": "ok", "rows": [occupancy_row([1], occupancy=1)]}
    assert "no two at the same time" in verdict(entry(strategy=STRATEGY, occupancy=alone))


def working(**more: Any) -> dict[str, Any]:
    occupancy = {"status": "ok", "rows": [occupancy_row([2, 3])]}
    rows = [barrier_row([0.5]), barrier_row([8.0], local_size=64, algorithm="tree")]
    return entry(strategy=STRATEGY, occupancy=occupancy, barrier={"status": "ok", "rows": rows}, **more)


def test_the_verdict_says_how_many_groups_meet_at_what_cost_and_by_what():
    said = verdict(working())
    assert "up to 3 work-groups meet at a barrier" in said
    assert "8 times faster than relaunching at local size 1 and slower than relaunching at local size 64" in said
    assert "by the flag barrier on c11 atomics" in said
    assert "wrong" not in said


def test_the_verdict_says_that_other_work_was_in_the_times():
    busy = working()
    assert "busy" not in verdict(busy)
    busy["barrier"]["unsteady"] = True
    assert "at local size 64, as measured while the machine was busy" in verdict(busy)


def test_the_verdict_says_what_is_wrong():
    litmus = {
        "status": "ok",
        "rows": [{"strategy": "c11", "verdict": measured("fail", note="SB: 3 of 9 forbidden")}],
    }
    broken = {"operation": "load", "type": "uint", "space": "global", "implementation": "instruction"}
    atomics = {"status": "ok", "rows": [broken | {"result": missing("error", "found 1")}]}
    quirk = {"name": "some-quirk", "fault": "f", "workaround": "w"}
    said = verdict(
        working(
            litmus=litmus, atomics=atomics, quirks=[quirk], reduction={"status": "crash", "reason": "x", "rows": []}
        )
    )
    for part in (
        "refuted c11 SB: 3 of 9 forbidden",
        "1 atomic operations do not work",
        "to the end: reductions",
        "some-quirk",
    ):
        assert part in said, part


def atomic(
    operation: str, kind: str, space: str, result: dict[str, Any], implementation: str = "loop"
) -> dict[str, Any]:
    return {"operation": operation, "type": kind, "space": space, "implementation": implementation, "result": result}


def test_the_new_steps_have_tables():
    split = {"strategy": "uniform", "local_size": 64, "chosen": True}
    reduction = {"level": "work_group", "operation": "add", "type": "float", "local_size": 64, "groups": 2}
    text = shown(
        working(
            split_barrier={
                "status": "ok",
                "rows": [split | {"time": measured(30.0, "ns"), "barrier_time": measured(20.0, "ns")}],
            },
            reduction={
                "status": "ok",
                "rows": [
                    reduction
                    | {
                        "strategy": "tree",
                        "chosen": True,
                        "time": measured(99.5, "ns"),
                        "built_in_time": measured(44, "ns"),
                    },
                    reduction | {"strategy": "shuffle", "chosen": False, "time": missing("unsupported", "no PTX")},
                ],
            },
            atomics={
                "status": "ok",
                "rows": [
                    atomic("fetch_add", "float", "global", measured(True), "instruction"),
                    atomic("fetch_add", "float", "local", measured(True)),
                    atomic("fetch_add", "half", "global", missing("unsupported", "lacks it"), "none"),
                    atomic("fetch_add", "uint", "global", missing("error", "left 3"), "instruction"),
                    atomic("fetch_add", "long", "global", missing("skipped", "no time"), "loop"),
                ],
            },
            litmus={"status": "ok", "rows": [{"strategy": "c11", "verdict": measured("pass", note="24 tests")}]},
        )
    )
    assert "1.50" in text  # of the split barrier to the whole one
    assert "99.5 ns" in text
    assert "44.0 ns" in text
    assert "shuffle" not in text
    assert "yes/loop" in text
    assert "WRONG" in text
    assert [line.split()[-1] for line in text.splitlines() if line.split()[:1] in (["half"], ["long"])] == ["-", "?"]
    assert "Litmus tests of c11: pass: 24 tests" in text


def test_a_published_record_shows_its_source_and_what_its_locks_found():
    row = occupancy_row(
        [4],
        16,
        None,
        local_size=None,
        local_bytes=None,
        lock="spin",
        patience=False,
        best_known_groups=16,
        recall=measured(0.25, "1"),
    )
    device = {
        "facts": {"name": "Chip", "vendor": "V"},
        "status": "published",
        "findings": None,
        "occupancy": {"status": "ok", "rows": [row]},
    }
    source = {"title": "Barriers", "authors": ["A. Author"], "year": 2016, "venue": "Somewhere"}
    text = shown(device, kind="published", source=source)
    assert "A. Author: Barriers (Somewhere, 2016)" in text
    assert "Chip (V)" in text
    assert "16 work-groups run at once; discovery found 25% of them by the spin lock" in " ".join(text.split())


@pytest.mark.parametrize("path", MATRIX, ids=lambda path: path.name[:40])
def test_every_record_of_the_matrix_fits_100_columns(path):
    value = records.load(path)
    more = {name: item for name, item in value.items() if name not in {"devices", "interrupted", "partial"}}
    text, wide = (shown(*value["devices"], width=width, **more) for width in (100, 400))
    assert "bound" in text
    # Where there is room, text stands in one line; tables stand as they are, so that at 100 columns none is cut or folded.
    tables = [line.rstrip() for line in wide.splitlines() if line.startswith("   ")]
    assert max(map(len, tables)) <= 100
    assert [line.rstrip() for line in text.splitlines() if line.startswith("   ")] == tables
