"""`portbar.survey.report.compare` and `portbar compare`: what counts as a difference, and what as a regression."""

from __future__ import annotations

import json
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from portbar.records.reading import measured, missing
from portbar.survey.report.compare import Comparison, compare
from tests.checkout import ROOT
from tests.report_support import (
    MEASURED,
    Json,
    both,
    device,
    groups,
    occupancy_row,
    put,
    record,
    run,
    step,
    times,
    without,
)


def changed(change: Any) -> tuple[Json, Json]:
    """A record, and a copy of it to whose device something was done."""
    old = record(device())
    new = deepcopy(old)
    change(new["devices"][0])
    return old, new


def only(comparison: Comparison) -> Any:
    assert len(comparison.differences) == 1, [item.path for item in comparison.differences]
    return comparison.differences[0]


def test_a_record_equals_itself() -> None:
    one = record()
    comparison = compare(one, deepcopy(one))
    assert comparison.differences == ()
    assert comparison.equal["barrier"] == 12 + 4 + 1
    assert comparison.equal["occupancy"] == 6 * 2 + 3 + 1


@pytest.mark.parametrize(
    ("before", "after", "found"),
    [
        (times(1.0), times(1.015), []),
        (measured(1.0, "us", [0.5, 0.8, 1.0, 4.0, 9.0]), measured(3.0, "us", [1.0, 2.0, 3.0, 4.0, 9.0]), []),
        (times(0.001), times(0.004), []),
        (times(90.0, "ns"), times(0.09, "us"), []),
        (times(90.0, "ns"), times(0.18, "us"), [("regression", pytest.approx(2.0))]),
        (times(90.0, "ns"), times(0.09, "GB/s"), [("", None)]),
        (measured(1e18, "ns"), measured(5e-324, "ns"), [("", None)]),
        (measured(5e-324, "ns"), measured(1e18, "ns"), [("", None)]),
    ],
    ids=[
        "within the spread",
        "samples overlap, whatever the ratio",
        "below the clock",
        "equal in another unit",
        "twice as long in another unit",
        "units of different things",
        "nothing left",
        "out of nothing",
    ],
)
def test_times_differ_where_samples_clock_and_units_tell_them_apart(before: Json, after: Json, found: Any) -> None:
    old, new = changed(put(("split_barrier", "rows", 0, "time", after)))
    put(("split_barrier", "rows", 0, "time", before))(old["devices"][0])
    assert [(item.mark, item.ratio) for item in compare(old, new).differences] == found


@pytest.mark.parametrize(("weight", "mark"), [(1.2, ""), (1.3, "regression"), (1 / 1.2, ""), (1 / 1.3, "improvement")])
def test_slower_than_the_factor_is_a_regression(weight: float, mark: str) -> None:
    def change(entry: Json) -> None:
        row = entry["barrier"]["rows"][-1]
        row["barrier_time"] = times(row["barrier_time"]["value"] * weight)

    item = only(compare(*changed(change)))
    assert (item.mark, item.group) == (mark, "barrier")
    assert item.path == "barrier / tree, 8 groups of 64 / barrier_time"
    assert item.ratio == pytest.approx(weight, rel=1e-3)
    assert ("slower" if weight > 1 else "faster") in item.text


def test_the_factor_is_the_callers() -> None:
    old, new = changed(lambda entry: entry["split_barrier"]["rows"][0].update(time=times(180.0, "ns")))
    assert compare(old, new, 2.5).regressions == ()
    assert len(compare(old, new, 1.5).regressions) == 1
    with pytest.raises(ValueError, match="at least 1"):
        compare(old, new, 0.8)


def test_times_of_a_busy_machine_are_not_a_regression() -> None:
    slow = [("barrier", "rows", 0, "barrier_time", times(50.0)), ("reduction", "rows", 0, "time", times(50.0))]
    found = compare(*changed(put(*slow, ("barrier", "unsteady", True)))).differences
    assert [(item.group, item.mark) for item in found] == [("barrier", ""), ("reduction", "")]
    assert all("busy machine" in item.text for item in found)


def test_relaunching_is_compared_once_a_grid() -> None:
    def change(entry: Json) -> None:
        for row in entry["barrier"]["rows"]:
            row["relaunch_time"] = times(60.0)

    found = compare(*changed(change)).regressions
    assert [item.path for item in found] == [
        f"barrier / {grid} of 64 / relaunch_time" for grid in ("1 group", "2 groups", "4 groups", "8 groups")
    ]


LOSE_BUILD = put(
    ("probe", "rows", 0, "result", missing("unsupported", "the compiler refuses -cl-std=CL3.0")),
    ("findings", "builds", "CL3.0", False),
)
CRASH_ALGORITHM = put(("barrier", "rows", 0, "barrier_time", missing("crash", "signal 11")))
UNUSABLE = {"usable": False, "reason": "the probe kernel gave 7", "remedy": ""}
CL12 = {"value": "cl12", "reason": "c11 does not compile"}
ONE_GROUP = {"value": "1", "reason": "loops end: 65535"}
LOSSES = [
    (LOSE_BUILD, "findings / build CL3.0"),
    (put(("findings", "progress", "sub_groups", "none")), "findings / progress sub_groups"),
    (put(("findings", "ordering", "cl12", "fail: 3 of 1000")), "findings / ordering cl12"),
    (put(("findings", "loop_limit", 65535)), "findings / loop_limit"),
    (put(("litmus", "rows", 0, "verdict", measured("fail"))), "litmus / c11 / verdict"),
    (put(("atomics", "rows", 0, "implementation", "loop")), "atomics / fetch_add, uint, global / implementation"),
    (
        put(("atomics", "rows", 0, "result", missing("error", "wrong sum"))),
        "atomics / fetch_add, uint, global / result",
    ),
    (CRASH_ALGORITHM, "barrier / counter, 1 group of 64 / barrier_time"),
    (
        put(("occupancy", "rows", 0, "found", groups(4, 4, 4, 4, 4))),
        "occupancy / packed, local size 64, 16 bytes / found",
    ),
    (put(("strategy", "atomics", CL12)), "strategy / atomics"),
    (lambda entry: without("split_barrier")(entry["strategy"]), "strategy / split_barrier"),
    (put(("strategy", "max_groups", ONE_GROUP)), "strategy / max_groups"),
    (put(("reduction", "status", "crash")), "reduction / status"),
    (put(("status", "unusable"), ("usable", UNUSABLE)), "status / status"),
]


@pytest.mark.parametrize(("change", "path"), LOSSES, ids=[path for _, path in LOSSES])
def test_a_loss_is_a_regression_and_its_return_an_improvement(change: Any, path: str) -> None:
    old, new = changed(change)
    there = compare(old, new)
    assert [item.path for item in there.regressions] == [path]
    assert there.improvements == ()
    back = compare(new, old)
    assert back.regressions == ()
    expected = [] if path == "strategy / split_barrier" else [path]
    assert [item.path for item in back.improvements] == expected


@pytest.mark.parametrize("status", ["skipped", "interrupted"])
def test_unmeasured_values_are_not_lost(status: str) -> None:
    gone = missing(status, "no time was left")
    old, new = changed(lambda entry: entry["occupancy"]["rows"][0].update(found=gone))
    assert only(compare(old, new)).mark == ""


def test_rows_of_one_record_only_are_counted() -> None:
    def change(entry: Json) -> None:
        entry["occupancy"]["rows"] = entry["occupancy"]["rows"][:2]
        entry["occupancy"]["rows"].append(occupancy_row("packed", True, local_size=128))

    item = only(compare(*changed(change)))
    assert item.mark == ""
    assert (item.path, item.old, item.new) == ("occupancy / rows", 8, 5)
    assert "values only in the old record (spin, local size 64, 16 bytes" in item.text


def test_another_device_is_compared_without_regressions() -> None:
    other = device("Another GPU", bound=4)
    comparison = compare(record(device()), record(other))
    assert comparison.pairs[0].same is False
    assert comparison.differences
    assert comparison.regressions == comparison.improvements == ()


@pytest.mark.parametrize(
    ("old", "new", "kind"),
    [
        ("pthread-skylake-avx512-AMD EPYC", "cpu-znver4-AMD EPYC", "CPU"),
        ("llvmpipe (LLVM 15.0.6, 256 bits)", "llvmpipe (LLVM 19.1.7, 256 bits)", "CPU"),
        ("Test GPU", "Test GPU", "GPU"),
    ],
)
def test_a_new_driver_may_write_the_name_another_way(old: str, new: str, kind: str) -> None:
    comparison = compare(record(device(old, type=[kind])), record(device(new, "2.0", type=[kind])))
    assert comparison.pairs[0].same


def test_devices_of_longer_records_are_matched_the_same_driver_first() -> None:
    old = record(device("A", "1"), device("A", "2"), device("B"))
    new = record(device("B"), device("A", "2"), device("A", "3"))
    comparison = compare(old, new)
    assert [(pair.old, pair.new) for pair in comparison.pairs] == [
        ("A (Test platform, 1)", "A (Test platform, 3)"),
        ("A (Test platform, 2)", "A (Test platform, 2)"),
        ("B (Test platform, 1.0)", "B (Test platform, 1.0)"),
    ]


def test_a_device_that_is_gone_is_a_regression() -> None:
    comparison = compare(record(device("A"), device("B")), record(device("A")))
    assert [(item.mark, item.device) for item in comparison.differences] == [
        ("regression", "0:0 B (Test platform, OpenCL 3.0 Test)")
    ]
    back = compare(record(device("A")), record(device("A"), device("B")))
    assert [item.mark for item in back.differences] == [""]


def test_an_interrupted_survey_loses_nothing() -> None:
    change = both(without(*MEASURED[1:]), put(("status", "partial")))
    assert compare(*changed(change)).regressions == ()


# --- the command ---


def written(folder: Path, name: str, value: Json) -> str:
    path = folder / name
    path.write_text(json.dumps(value))
    return str(path)


@pytest.fixture
def files(tmp_path: Path) -> tuple[str, str]:
    old, new = changed(CRASH_ALGORITHM)
    new["devices"][0]["facts"]["driver_version"] = "2.0"
    return written(tmp_path, "old.json", old), written(tmp_path, "new.json", new)


def test_check_fails_only_where_something_is_worse(files: tuple[str, str]) -> None:
    old, new = files
    for arguments, status in (((old, new), 0), ((old, new, "--check"), 1), ((new, old, "--check"), 0)):
        assert run("compare", *arguments).exit_code == status


def test_the_text_names_the_loss_and_fits_80_columns(files: tuple[str, str]) -> None:
    text = run("compare", *files).stdout
    assert "1 worse, 0 better, 1 otherwise different." in text
    assert "worse   counter, 1 group of 64: barrier" in text
    assert "crash (signal 11)" in text
    assert max(map(len, text.splitlines())) <= 80


def test_several_records_are_compared_with_the_first(files: tuple[str, str], tmp_path: Path) -> None:
    third = written(tmp_path, "third.json", record(device("Another GPU")))
    result = run("compare", "--json", *files, third)
    value = json.loads(result.stdout)
    assert [(one["old"], one["new"]) for one in value] == [("old.json", "new.json"), ("old.json", "third.json")]
    assert value[0]["regressions"] == 1
    assert value[1]["pairs"][0]["same"] is False


def test_what_two_short_surveys_had_no_time_for_is_counted_and_listed_on_request(tmp_path: Path) -> None:
    late, some = missing("skipped", "no time was left"), (("barrier", "rows", at, "barrier_time") for at in range(9))
    cut = both(
        put(*((*place, late) for place in some), ("barrier", "status", "partial"), ("barrier", "reason", "no time")),
        put(("barrier", "rows", -1, "barrier_time", times(3.2)), ("split_barrier", "rows", 0, "time", times(50.0))),
    )
    old, new = changed(cut)
    names = written(tmp_path, "old.json", old), written(tmp_path, "new.json", new)
    brief, whole = (" ".join(run("compare", *more, *names).stdout.split()) for more in ((), ("--all",)))
    assert "skipped" not in brief
    assert "Not listed: 10 measured to the end in one record only, 1 less than 1.25 times apart." in brief
    assert "-> 50 us" in brief
    assert whole.count("-> skipped") == 9
    assert "Not listed" not in whole


def test_differences_of_two_devices_are_all_listed(tmp_path: Path) -> None:
    other = device("Another GPU")
    other["barrier"]["rows"][0]["barrier_time"] = missing("skipped", "no time was left")
    names = written(tmp_path, "one.json", record()), written(tmp_path, "other.json", record(other))
    text = run("compare", *names).stdout
    assert "-> skipped" in " ".join(text.split())
    assert "Not listed" not in text


def test_wrong_usage(files: tuple[str, str]) -> None:
    assert run("compare", files[0]).exit_code == 2
    result = run("compare", files[0], "no-such-record")
    assert result.exit_code == 2
    assert "there is no file 'no-such-record'" in " ".join(result.stderr.split())


def test_a_step_that_gained_rows_alone_is_said_in_words() -> None:
    old, new = record(), record()
    old["devices"][0]["litmus"] = step([])
    assert only(compare(old, new)).text == "only in the new record: c11, verdict pass"


def test_the_page_of_the_documentation_shows_what_is_printed(tmp_path: Path) -> None:
    slower, faster = (("barrier", "rows", at, "barrier_time", times(us)) for at, us in ((-2, 4.1), (-1, 1.0)))
    change = put(("facts", "driver_version", "2.0"), slower, faster)
    old, new = changed(both(CRASH_ALGORITHM, LOSE_BUILD, change))
    names = written(tmp_path, "before.json", old), written(tmp_path, "after.json", new)
    page = (ROOT / "docs" / "report.md").read_text(encoding="utf-8")
    printed = run("compare", "--check", *names).stdout
    assert f"$ portbar compare --check before.json after.json\n{printed.strip()}\n```" in page
