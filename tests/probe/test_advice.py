"""`portbar.advise`: the model by hand, verdicts, where costs come from, and what is refused."""

from __future__ import annotations

import json
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from click.testing import CliRunner

import portbar
from benchmarks.advice import plot, right, summary
from benchmarks.shared import Row
from portbar.choices import advice
from portbar.cli.advise import Duration, command
from portbar.device import matrix
from portbar.device.costs import CACHE_KIND, Costs, ShapeCosts, known_costs, store_costs
from portbar.device.facts import DeviceFacts, device_key, facts
from portbar.records import cache
from portbar.records.files import find
from portbar.survey.measuring.barrier import time_barriers
from portbar.survey.measuring.barrier_table import keep_costs
from tests import support
from tests.checkout import ROOT

FACTS = DeviceFacts(name="A device", type=("GPU",), compute_units=8)
#: A hundred times the barrier from 1 group to 100, so that 10 are in the middle.
SHAPES = tuple(
    ShapeCosts(size, groups, barrier, 4.0, enqueue=3.0, gap=1.5, launch=10.0, grid=25.0, check=30.0)
    for size, groups, barrier in ((64, 1, 0.5), (64, 100, 1.5), (256, 1, 0.7))
)
US = 1e-6


@pytest.fixture
def known(monkeypatch):
    """The costs of the device that `advise` is asked about."""
    held = {"costs": Costs(SHAPES, "a test"), "one_group": "", "facts": FACTS}
    monkeypatch.setattr(advice, "_of_record", lambda _: (held["facts"], held["costs"], held["one_group"]))
    return held


def asked(work_us=2.0, **more):
    return portbar.advise("it", work_per_iteration=work_us * US, **({"local_size": 64, "groups": 100} | more))


@pytest.mark.parametrize(
    ("work", "iterations", "host_checks", "one", "again"),
    [
        (2.0, 10, False, 25 + 10 * 3.5, 10 + 2 + 9 * 3.5),  # the device's gap
        (1.0, 10, False, 25 + 10 * 2.5, 10 + 1 + 9 * 3.0),  # the host's part is longer
        (7.0, 1, False, 25 + 8.5, 17.0),
        (7.0, 6, True, 25 + 6 * 8.5, 6 * 37.0),
        (0.0, 1000, False, 25 + 1500, 10 + 999 * 3.0),
    ],
)
def test_the_model_by_hand(known, work, iterations, host_checks, one, again):
    found = asked(work, iterations=iterations, host_checks=host_checks)
    assert found.one_kernel == pytest.approx(one * US)
    assert found.relaunching == pytest.approx(again * US)
    assert found.speedup == pytest.approx(again / one)
    assert found.verdict == advice.verdict_of(again / one)
    assert (found.complete, found.source) == (True, "a test")


def test_numbers_of_numpy_are_taken(known):
    given = portbar.advise(
        "it", work_per_iteration=np.float32(2.0) * np.float32(US), groups=np.int64(100), local_size=np.uint8(64),
        iterations=np.int32(10),
    )  # fmt: skip
    assert given.speedup == pytest.approx(asked(iterations=10).speedup, rel=1e-5)
    assert json.dumps([given.groups, given.local_size, given.iterations]) == "[100, 64, 10]"


@pytest.mark.parametrize(
    ("speedup", "verdict"), [(1.11, "one kernel"), (1.09, "either"), (0.92, "either"), (0.9, "relaunch")]
)
def test_a_tenth_is_what_a_verdict_takes(speedup, verdict):
    assert advice.verdict_of(speedup) == verdict


def test_costs_between_two_group_counts_go_by_their_logarithms(known):
    assert asked(groups=10).costs["barrier"] == pytest.approx(1.0 * US)
    assert asked(groups=1).costs["barrier"] == pytest.approx(0.5 * US)
    assert asked(groups=1, local_size=200).costs["barrier"] == pytest.approx(0.7 * US)
    assert (asked(groups=None).groups, asked(groups=None, local_size=None).local_size) == (100, 256)
    known["facts"] = replace(FACTS, type=("CPU",))
    assert asked(groups=None, local_size=None).local_size == 64


def test_the_reason_names_what_decides(known):
    assert "the host needs 3 us to enqueue" in asked(1.0).reason
    assert "a launch that follows another adds 1.5 us" in asked(5.0).reason
    few = asked(1.0, iterations=2)
    assert (few.verdict, "entering a grid costs 15 us more" in few.reason) == ("relaunch", True)
    assert "30 us to each iteration" in asked(1.0, host_checks=True).reason
    known["one_group"] = "loops end early"
    assert (asked(groups=1).verdict, asked(groups=1).reason) == ("relaunch", "loops end early")
    with pytest.raises(portbar.LaunchError, match="runs at most 1 concurrently: loops end early"):
        asked(groups=2)


def test_without_all_times_of_launches_relaunching_is_as_fast_as_can_be(known):
    known["costs"] = Costs((ShapeCosts(64, 8, 1.0, 4.0),), "old")
    sure = asked(1.0, groups=8, iterations=1000)
    assert (sure.verdict, sure.complete, sure.costs["gap"]) == ("one kernel", False, 0.0)
    # From 5 us on one kernel is 6, and relaunching anything from 5 to 9.
    open_ = asked(5.0, groups=8, iterations=1000)
    assert open_.speedup < 1
    assert open_.verdict == "either"
    assert "unknown" in open_.reason
    known["costs"] = Costs((ShapeCosts(64, 8, 9.0, 4.0),), "old")
    assert asked(5.0, groups=8, iterations=1000).verdict == "relaunch"
    # A launch that the host waits for may cost any time.
    checked = asked(5.0, groups=8, iterations=1000, host_checks=True)
    assert checked.speedup < 1 / 1.1
    assert checked.verdict == "either"
    assert "adds at least 4 us" in checked.reason


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"work_per_iteration": -1e-6}, "work_per_iteration="),
        ({"work_per_iteration": float("nan")}, "work_per_iteration="),
        ({"work_per_iteration": "2us"}, "work_per_iteration="),
        ({"iterations": 0}, "iterations="),
        ({"iterations": None}, "iterations="),
        ({"groups": 0}, "groups="),
        ({"groups": 1.5}, "groups="),
        ({"local_size": True}, "local_size="),
        (
            {"groups": 101, "local_size": 64},
            "101 work-groups of 64 were requested, but A device runs at most 100 concurrently",
        ),
    ],
)
def test_what_cannot_be_is_refused(known, more, said):
    with pytest.raises(portbar.LaunchError, match=said):
        portbar.advise("it", **({"work_per_iteration": 1e-6} | more))


def test_a_device_without_a_record_names_the_remedy(monkeypatch):
    monkeypatch.setattr(advice, "describe", lambda _: portbar.DeviceProfile(replace(FACTS, name="Unknown chip")))
    with pytest.raises(portbar.RecordError, match=r"Unknown chip.*portbar bench barrier.*portbar survey"):
        portbar.advise(SimpleNamespace(get_info=None, platform=None), work_per_iteration=1e-6)  # type: ignore[arg-type]


def test_a_published_record_has_no_times():
    with pytest.raises(portbar.RecordError, match="has no barrier times"):
        portbar.advise("gtx-980", work_per_iteration=1e-6)
    with pytest.raises(portbar.RecordError, match="no record"):
        portbar.advise("no such chip", work_per_iteration=1e-6)


def test_costs_that_were_kept_come_before_those_of_the_matrix(tmp_path, monkeypatch):
    monkeypatch.setenv("PORTBAR_CACHE_DIR", str(tmp_path))
    h200 = DeviceFacts.from_json(find("h200").record["devices"][0]["facts"])
    lent = known_costs(h200)
    assert lent is not None
    assert lent.source == f"{matrix.SOURCE}nvidia-cuda--nvidia-h200--580.159.04"
    assert known_costs(replace(h200, compute_units=99)) is None
    kept = Costs(SHAPES, "measured here")
    store_costs(h200, kept)
    assert known_costs(h200) == kept


@pytest.mark.parametrize(
    "spoilt",
    [
        {},
        {"shapes": []},
        {"shapes": [{"local_size": 0}]},
        {"shapes": [{"barrier": -1.0}]},
        {"shapes": [{"gap": "1"}]},
        {"source": 3},
        {"shapes": [{"unknown": 1}]},
    ],
)
def test_costs_that_cannot_be_count_as_absent_with_a_warning(tmp_path, monkeypatch, spoilt):
    monkeypatch.setenv("PORTBAR_CACHE_DIR", str(tmp_path))
    good = Costs(SHAPES[:1], "x").to_json()
    shapes = [good["shapes"][0] | one for one in spoilt["shapes"]] if "shapes" in spoilt else good["shapes"]
    value = (good | spoilt | {"shapes": shapes}) if spoilt else {}
    cache.store(CACHE_KIND, device_key(FACTS), value)
    with pytest.warns(cache.CacheWarning, match="costs"):
        assert known_costs(FACTS) is None


def test_the_page_shows_what_the_command_prints():
    page = (ROOT / "docs" / "advise.md").read_text(encoding="utf-8")
    (call,) = (line for line in page.splitlines() if line.startswith("portbar advise "))
    shown = page.partition("```text\n")[2].partition("```")[0]
    done = CliRunner().invoke(command, call.split()[2:])
    assert (done.exit_code, done.stdout) == (0, shown)
    assert max(map(len, shown.splitlines())) <= 80


def test_json_has_the_fields(known):
    done = CliRunner().invoke(command, ["-w", "2us", "--record", "it", "-l", "64", "-g", "100", "--json"])
    assert done.exit_code == 0
    (one,) = json.loads(done.stdout)
    found = asked(2.0)
    assert one["speedup"] == pytest.approx(found.speedup)
    assert (one["verdict"], one["reason"], one["name"]) == (found.verdict, found.reason, "A device")


@pytest.mark.parametrize("wrong", ["2", "us", "-2us", "2 hours", "1e3us", "nan", "9999999999s", "inf s"])
def test_a_time_without_a_unit_is_wrong_usage(wrong):
    done = CliRunner().invoke(command, [f"--work-per-iteration={wrong}", "--record", "h200"])
    assert (done.exit_code, done.stdout) == (2, "")


def test_times_have_units():
    read = [Duration().convert(text, None, None) for text in ("2us", "350 ns", "1.5ms", ".5s", "3.us")]
    assert read == pytest.approx([2e-6, 3.5e-7, 1.5e-3, 0.5, 3e-6])


def test_more_groups_than_there_are_end_in_status_1():
    done = CliRunner().invoke(command, ["-w", "2us", "-g", "100000", "--record", "h200"])
    assert (done.exit_code, done.stdout) == (1, "")
    assert "runs at most 1056 concurrently" in done.stderr


@pytest.mark.parametrize(
    ("verdict", "speedup", "loses_little"),
    [
        ("one kernel", 3.0, True),
        ("one kernel", 0.95, True),
        ("one kernel", 0.8, False),
        ("relaunch", 0.5, True),
        ("relaunch", 1.2, False),
        ("either", 1.2, True),
        ("either", 1.3, False),
        ("either", 0.7, False),
    ],
)
def test_a_verdict_is_right_where_who_follows_it_loses_little(verdict, speedup, loses_little):
    assert right(verdict, speedup) == loses_little


def _rows():
    def row(ratio, guess, verdict, work):
        extra = {"predicted_ratio": guess, "verdict": verdict, "work_us": work}
        return Row("life", "A device", "launches", ratio, ratio, 1.0, 15, extra)

    return [
        row(0.5, 0.25, "one kernel", 1.0),
        row(0.5, 0.6, "one kernel", 10.0),
        row(2.0, 2.0, "either", 100.0),
        Row("life", "A device", "launches", 1.0, 1.0, 1.0, 15, {"no_prediction": "no costs"}),
    ]


def test_the_summary_has_the_error_of_a_median_row_and_the_verdicts_that_were_right():
    found = summary(_rows())
    assert (found["rows"], found["without"], found["verdicts"], found["verdicts_right"]) == (3, 1, 3, 2)
    assert found["median_error"] == pytest.approx(0.2)
    assert found["largest_error"] == pytest.approx(1.0)
    assert summary([])["median_error"] is None


def test_the_plot_has_measured_and_predicted_points(tmp_path, monkeypatch):
    pytest.importorskip("matplotlib", reason="plots need matplotlib")
    plot(_rows(), tmp_path / "plot.svg")
    text = (tmp_path / "plot.svg").read_text(encoding="utf-8")
    assert "work per iteration" in text
    plot([], tmp_path / "empty.png")
    assert (tmp_path / "empty.png").stat().st_size > 0
    with pytest.raises(portbar.UnsupportedFeatureError, match=r"plot\.nonsense"):
        plot(_rows(), tmp_path / "plot.nonsense")
    monkeypatch.setitem(__import__("sys").modules, "matplotlib.figure", None)
    with pytest.raises(portbar.UnsupportedFeatureError, match=r"portbar\[plot\]"):
        plot(_rows(), tmp_path / "plot.svg")


@pytest.mark.device
def test_a_bench_leaves_what_advice_needs(context, queue, tmp_path, monkeypatch):
    device = context.devices[0]
    profile = portbar.describe(device)
    monkeypatch.setattr(advice, "describe", lambda _: profile)
    with support.skipped_where_refused():
        (row,) = time_barriers(queue, ["counter"], (1,), (1,), budget_s=2)
    time = row["barrier_time"]
    if "value" not in time:
        pytest.skip(f"no barrier was timed: {time['reason']}")
    assert min(min(row[f"{name}_time"]["samples"]) for name in ("enqueue", "launch", "grid", "check")) > 0
    assert min(row["gap_time"]["samples"]) >= 0
    monkeypatch.setenv("PORTBAR_CACHE_DIR", str(tmp_path))
    keep_costs(device, [row])
    costs = known_costs(facts(device))
    assert costs is not None
    assert costs.source.startswith("measured ")
    found = portbar.advise(device, work_per_iteration=1e-6, groups=1)
    assert (found.complete, found.groups) == (True, 1)
    assert found.costs["barrier"] == pytest.approx(time["value"] * 1e-6)
