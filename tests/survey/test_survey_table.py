"""The terminal table: the verdict in words first, every kind of record, and never more than 80 columns."""

from __future__ import annotations

import re
from typing import Any

import pytest

from portbar import records
from portbar.device.findings import Findings
from portbar.records.reading import measured, missing
from portbar.survey.device import Device
from portbar.survey.summary import Line, summary, usual_grid
from portbar.survey.views import MOST_LINES, OneScreen, SummaryView, record_view
from tests.checkout import ROOT
from tests.report_support import printed, step
from tests.survey.support import UNUSABLE, barrier_row, entry, occupancy_row, record, shown, verdict

MATRIX = sorted((ROOT / "vendor_matrix").glob("*.json"))
STRATEGY = {"atomics": {"value": "c11", "reason": "claimed"}, "device_barrier": {"value": "flag", "reason": "measured"}}


def test_the_table_says_why_not_and_what_would_help():
    text = shown(UNUSABLE)
    assert "unusable: nothing compiles" in text
    assert 'pip install "portbar[cpu]"' in text
    assert "D [x] (P, V)" in text


def test_the_table_says_what_became_of_a_step_and_that_the_record_is_partial():
    text = shown(entry(occupancy=step([], "crash") | {"reason": "ended by SIGABRT"}), interrupted=True)
    assert "occupancy: crash: ended by SIGABRT" in text
    assert "Interrupted" in text


def test_the_table_says_that_loops_of_the_users_kernels_end_early_and_what_would_help():
    found = Findings(loop_limit=65_535).to_json()
    text = " ".join(shown(entry(findings=found)).split())
    assert "ends loops silently after 65535 iterations" in text
    assert "your own kernels" in text
    assert "another runtime" in text


def test_the_table_says_why_an_algorithm_has_no_time():
    why = missing("error", "7281 of 8191 rounds ran")
    rows = [barrier_row([0.5]), *(barrier_row([0.5], algorithm="xf", barrier_time=why) for _ in range(2))]
    text = shown(entry(barrier=step(rows)))
    assert text.count("No time of xf: 7281 of 8191 rounds ran") == 1
    assert "No time of counter" not in text


def test_algorithms_that_lack_times_for_one_reason_share_a_line():
    late = missing("unmeasured", "no time was left")
    rows = [barrier_row([0.5]), *(barrier_row([0.5], algorithm=name, barrier_time=late) for name in ("xf", "tree"))]
    assert "No time of xf, tree: no time was left" in shown(entry(barrier=step(rows)))


def test_a_verdict_for_every_way_that_a_survey_of_a_device_can_end():
    assert "interrupted before it was checked" in verdict({"status": "waiting"})
    assert "does not say whether the device works" in verdict({"status": "complete"})
    assert "refuses barriers between work-groups: no ordering" in verdict(entry(status="refused", reason="no ordering"))
    assert "refuses barriers" in verdict({"status": "refused", "reason": "no ordering"})
    one = {"max_groups": {"value": "1", "reason": "loops end early: one group"}}
    assert "grids of one work-group" in verdict(entry(strategy=one))
    assert "loops end early" in verdict(entry(strategy=one))
    assert "before its strategy was known" in verdict(entry())
    assert "was not measured" in verdict(entry(strategy=STRATEGY))
    assert "cannot" in verdict(entry(status="failed", reason="cannot"))
    alone = step([occupancy_row([1], occupancy=1)])
    assert "no two at the same time" in verdict(entry(strategy=STRATEGY, occupancy=alone))


def working(**more: Any) -> dict[str, Any]:
    barrier = step([barrier_row([0.5]), barrier_row([8.0], local_size=64, algorithm="tree")])
    return entry(strategy=STRATEGY, occupancy=step([occupancy_row([2, 3])]), barrier=barrier, **more)


def test_the_summary_says_how_many_groups_meet_at_what_cost_and_by_what():
    assert summary(working()) == [
        Line("Verdict", "usable: 3 work-groups of 64 work-items meet", "green"),
        Line("Barrier", "8.00 us by tree (2 groups), 2.00 times slower than relaunching (4.00 us)"),
    ]
    fast = working()
    fast["barrier"]["rows"][1]["barrier_time"] = measured(0.5, "us")
    assert "0.500 us by tree (2 groups), 8.00 times faster than relaunching (4.00 us)" in verdict(fast)


def test_the_summary_says_that_other_work_was_in_the_times():
    busy = working()
    assert "busy" not in verdict(busy)
    busy["barrier"]["unsteady"] = True
    assert "Problem: barrier times vary, as on a busy machine. Remedy: measure again" in verdict(busy)


def test_the_summary_says_which_steps_were_cut_short():
    cut = working()
    assert "in part" not in verdict(cut)
    cut["barrier"]["status"] = "partial"
    assert "Problem: measured in part, for want of time: " in verdict(cut)
    assert "without --quick" in verdict(cut)


def gpu(units: int, *counts: int, local_sizes: tuple[int, ...] = (32, 256)) -> dict[str, Any]:
    """A GPU on which more groups of a smaller size meet, with barrier times that tell the shapes apart."""
    facts = entry()["facts"] | {"type": ["GPU"], "compute_units": units}
    found = [(size, 8 * units * 256 // size) for size in local_sizes]
    occupancy = [occupancy_row([most], most, local_size=size, best_known_groups=most) for size, most in found]
    times = [(size, count) for size in local_sizes for count in counts]
    rows = [barrier_row([0.001 * size + count / 1000], local_size=size, groups=count) for size, count in times]
    return entry(strategy=STRATEGY, facts=facts, occupancy=step(occupancy), barrier=step(rows))


def test_the_summary_is_about_one_group_per_compute_unit():
    one = gpu(132, 2, 64, 128, 256, 4224)
    assert usual_grid(one) == (256, 132)
    said = verdict(one)
    assert said.startswith(
        "usable: 132 work-groups of 256 work-items meet, one per compute unit; at most 8448. Barrier: 0.384 us"
    )
    assert "(128 groups)" in said
    assert usual_grid(gpu(132, 2, 128, local_sizes=(64, 1024))) == (64, 132)
    assert usual_grid(gpu(132, 132, local_sizes=(200, 512))) == (200, 132)


def test_the_summary_of_a_cpu_is_about_the_local_size_that_portbar_suggests():
    """With the sizes of a survey, of which the larger one is faster than relaunching and the suggested one is not."""
    facts = entry()["facts"] | {"type": ["CPU"], "compute_units": 2}
    sizes = [occupancy_row([2], 2, local_size=size) for size in (1, 64)]
    times = [barrier_row([60.0], local_size=1), barrier_row([2.0], local_size=64)]
    one = entry(strategy=STRATEGY, facts=facts, occupancy=step(sizes), barrier=step(times))
    assert usual_grid(one) == (1, 2)
    assert verdict(one) == (
        "usable: 2 work-groups of 1 work-item meet, one per compute unit. "
        "Barrier: 60.0 us by counter, 15.0 times slower than relaunching (4.00 us)"
    )


def test_times_that_round_to_the_same_are_as_fast():
    even = working()
    even["barrier"]["rows"][1]["barrier_time"] = measured(4.01, "us")
    assert "4.01 us by tree (2 groups), as fast as relaunching (4.00 us)" in verdict(even)


LONG = " ".join(["word"] * 200)
WORST = entry(
    strategy=STRATEGY,
    facts=entry()["facts"] | {"name": LONG},
    quirks=[{"name": f"a-known-fault-{number}"} for number in range(40)],
    barrier=step([barrier_row([0.5])]) | {"unsteady": True},
    reduction=step([], "crash") | {"reason": LONG},
    litmus=step([{"strategy": "c11", "verdict": measured("fail", note=LONG)}]),
)


@pytest.mark.parametrize(
    "one", [WORST, UNUSABLE, entry(status="failed", reason=LONG)], ids=["worst", "unusable", "failed"]
)
def test_the_summary_of_three_devices_fits_one_screen(one: dict[str, Any]):
    text = printed(OneScreen(record(one, one, one, interrupted=True), "portbar show record.json")).splitlines()
    assert len(text) <= 3 * MOST_LINES + 2 <= 23
    assert max(map(len, text)) <= 80
    assert text[-1].endswith("Details: portbar show record.json")
    if one is WORST:
        labels = [line.split()[0] for line in text[: 1 + MOST_LINES] if line.startswith("  ") and line[2] != " "]
        assert labels == ["Verdict", "Barrier", "Problem", "Remedy", "Faults"]


def test_an_emulated_processor_is_called_so_where_devices_are_listed():
    facts = {"name": "cpu--cortex-a72", "platform_name": "PoCL", "driver_version": "6.0", "emulator": "qemu-aarch64"}
    device = Device({"status": "complete", "facts": facts})
    assert device.label == "cpu--cortex-a72 (PoCL, 6.0, emulated)"
    assert device.title.endswith("(PoCL, emulated)")
    assert "emulated" not in Device({"status": "complete", "facts": facts | {"emulator": ""}}).label


def test_a_title_that_is_too_long_keeps_the_version_of_the_driver():
    name = "pthread-skylake-avx512-Intel(R) Xeon(R) Processor"
    facts = {"name": name, "platform_name": "Portable Computing Language", "driver_version": "3.1+debian"}
    one = entry(facts=entry()["facts"] | facts)
    titles = [printed(OneScreen(record(one), "x"), width).splitlines()[0] for width in (120, 80, 40)]
    assert titles == [
        f"0:0 {name} (Portable Computing Language, 3.1+debian)",
        f"0:0 {name} (3.1+debian)",
        "0:0 pthread-skylake-avx512-Intel(R) ...",
    ]


@pytest.mark.parametrize("width", [80, 120])
def test_the_summary_of_three_records_fits_one_screen(width: int):
    entries = [entry for path in MATRIX for entry in records.load(path)["devices"] if entry["status"] != "published"]
    assert len(entries) > 3
    for number in range(len(entries)):
        three = [*entries, *entries][number : number + 3]
        text = printed(OneScreen(record(*three), "portbar show FILE"), width).splitlines()
        assert len(text) <= 23, text
        assert max(map(len, text)) <= width, text


def test_the_whole_summary_is_cut_nowhere():
    text = " ".join(printed(SummaryView(summary(WORST))).split())
    assert LONG in text
    assert "a-known-fault-39" in text
    assert "..." not in text


def test_known_faults_are_ids_unless_one_asks_for_more():
    quirk = {"name": "some-quirk", "fault": "it fails", "workaround": "leave it"}
    view = record(entry(quirks=[quirk]))
    brief, verbose = (" ".join(printed(record_view(view, verbose=v)).split()) for v in (False, True))
    assert "some-quirk" in brief
    assert "-v describes them" in brief
    assert "it fails" not in brief
    assert "Known fault some-quirk: it fails. Workaround: leave it" in verbose


def atomic(
    operation: str, kind: str, space: str, result: dict[str, Any], implementation: str = "loop"
) -> dict[str, Any]:
    return {"operation": operation, "type": kind, "space": space, "implementation": implementation, "result": result}


def test_the_verdict_says_what_is_wrong():
    said = verdict(
        working(
            litmus=step([{"strategy": "c11", "verdict": measured("fail", note="SB: 3 of 9 forbidden")}]),
            atomics=step([atomic("load", "uint", "global", missing("error", "found 1"))]),
            quirks=[{"name": "some-quirk", "fault": "f", "workaround": "w"}],
            reduction=step([], "crash") | {"reason": "x"},
        )
    )
    assert "refuted c11 SB: 3 of 9 forbidden" in said
    assert "1 atomic operations do not work" in said
    assert "to the end: reductions" in said
    assert "some-quirk" in said


def test_every_step_has_a_table():
    split = {"strategy": "uniform", "local_size": 64, "chosen": True}
    split |= {"time": measured(30.0, "ns"), "barrier_time": measured(20.0, "ns")}
    reduction = {"level": "work_group", "operation": "add", "type": "float", "local_size": 64, "groups": 2}
    tree = {"strategy": "tree", "chosen": True, "time": measured(99.5, "ns"), "built_in_time": measured(44, "ns")}
    shuffle = {"strategy": "shuffle", "chosen": False, "time": missing("unsupported", "no PTX")}
    atomics = [
        atomic("fetch_add", "float", "global", measured(True), "instruction"),
        atomic("fetch_add", "float", "local", measured(True)),
        atomic("fetch_add", "half", "global", missing("unsupported", "lacks it"), "none"),
        atomic("fetch_add", "uint", "global", missing("error", "left 3"), "instruction"),
        atomic("fetch_add", "long", "global", missing("skipped", "no time")),
    ]
    text = shown(
        working(
            split_barrier=step([split]),
            reduction=step([reduction | tree, reduction | shuffle]),
            atomics=step(atomics),
            litmus=step([{"strategy": "c11", "verdict": measured("pass", note="24 tests")}]),
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
    shape = {"local_size": None, "local_bytes": None, "lock": "spin", "patience": False}
    row = occupancy_row([4], 16, None, **shape, best_known_groups=16, recall=measured(0.25, "1"))
    facts = {"name": "Chip", "vendor": "V"}
    device = {"facts": facts, "status": "published", "findings": None, "occupancy": step([row])}
    source = {"title": "Barriers", "authors": ["A. Author"], "year": 2016, "venue": "Somewhere"}
    text = shown(device, kind="published", source=source)
    assert "A. Author: Barriers (Somewhere, 2016)" in text
    assert "Chip (V)" in text
    assert "16 work-groups run concurrently; discovery found 25% of them by the spin lock" in " ".join(text.split())


@pytest.mark.parametrize("path", MATRIX, ids=lambda path: path.name[:40])
def test_every_record_of_the_matrix_fits_80_columns(path):
    value = records.load(path)
    more = {name: item for name, item in value.items() if name not in {"devices", "interrupted", "partial"}}
    text, wide = (shown(*value["devices"], width=width, **more) for width in (80, 400))
    assert ("bound" in text) == ("occupancy" in value["devices"][0])
    assert max(map(len, text.splitlines())) <= 80
    # No cell is folded: the tables have as many lines as where there is room.
    tables = [" ".join(line.split()) for line in wide.splitlines() if line.startswith("   ")]
    narrow = {" ".join(line.split()) for line in text.splitlines()}
    assert [line for line in tables if re.match(r"\d+ \d+|u?(?:int|long|char)", line) and line not in narrow] == []
