"""Findings as JSON: written values are read back, and impossible ones are refused with the cause."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from types import SimpleNamespace

import pytest

from portbar.choices import profile
from portbar.device.facts import DeviceFacts, device_key
from portbar.device.findings import CACHE_KIND, Findings
from portbar.device.tuning import ArrayTuning, FewTilesShape, ReduceShape, ScanShape, SortShape, WaitTuning
from portbar.errors import RecordError
from portbar.records import cache, writing
from portbar.survey.measuring import probe as probing
from tests import checkout

FOUND = Findings(
    builds={"cl12": True, "c11@CL3.0": False},
    ordering={"cl12": "pass"},
    litmus={"cl12": "pass: 28 tests"},
    progress={"lanes": "none"},
    groups_in_flight=3,
    loop_limit=65_535,
    polls_per_second=2.5e8,
    barrier_table=((1, 1, "flag"), (256, 70, "tree")),
    tuning=WaitTuning(rest_ns=64, hold=((320, 0), (900, 4)), placing=(64, 6000, 8)),
    arrays=ArrayTuning(
        reduce=(ReduceShape(1 << 19, 128, 32, 2, 8, strided=True), ReduceShape(1 << 20, 512, 16, 4, 2, strided=False)),
        scan=ScanShape(128, 22, 2, few=(FewTilesShape(64, 256, 4, 8),)),
        sort=(SortShape(4, 384, 20, 21, 6, 4),),
    ),
    lost={"groups_in_flight": "timed out"},
    source="a test",
)
SHAPE = {"up_to": 9, "local": 128, "load_bytes": 16, "loads": 4, "per_unit": 2, "strided": True}
SCAN = {"local": 128, "rows": 22, "polls": 2}
FEW = {"up_to": 64, "local": 256, "rows": 4, "polls": 8}
FACTS = DeviceFacts(platform_name="P", name="Device of test_findings")


def test_findings_survive_json():
    assert Findings.from_json(json.loads(json.dumps(FOUND.to_json()))) == FOUND
    assert Findings.from_json({}) == Findings()


def test_an_entry_from_before_lost_measurements_were_recorded_has_none():
    value = FOUND.to_json()
    del value["lost"]
    assert Findings.from_json(value).lost == {}


LATE = {"feature fp64": "timed out", "level CL3.0": "timed out before it began", "progress lanes": "timed out"}


def test_earlier_findings_fill_what_there_was_no_time_for_and_nothing_else():
    earlier = Findings(
        builds={"fp64": True, "CL3.0": True, "CL2.0": True},
        progress={"lanes": "none"},
        groups_in_flight=4,
        loop_limit=9,
    )
    found = Findings(
        builds={"CL2.0": False},
        progress={"lanes": "unknown: timed out"},
        groups_in_flight=None,
        loop_limit=None,
        lost={**LATE, "groups_in_flight": "timed out", "loop_limit": "child aborted: x", "who knows": "timed out"},
    )
    filled = found.filled(earlier)
    assert filled.builds == {"fp64": True, "CL3.0": True, "CL2.0": False}
    assert filled.progress == {"lanes": "none"}
    assert filled.groups_in_flight == 4
    assert filled.loop_limit is None
    assert filled.lost == {"loop_limit": "child aborted: x", "who knows": "timed out"}
    assert not filled.loops_run_whole


def test_earlier_findings_that_are_unknown_too_fill_nothing():
    found = Findings(progress={"lanes": "unknown: timed out"}, lost=LATE)
    assert found.filled(found) is found
    assert found.filled(Findings()) is found
    assert found.filled(Findings(progress={"lanes": "unknown: child aborted"})) is found


@pytest.mark.parametrize(
    ("field", "value", "word"),
    [
        ("barrier_table", [[1, "No Name"]], "No Name"),
        ("barrier_table", [[1, ["counter"]]], "counter"),
        ("barrier_table", [["1", "counter"]], "int"),
        ("barrier_table", [7], "int"),
        ("groups_in_flight", "x", "'x'"),
        ("groups_in_flight", -1, "-1 is not between 1 and"),
        ("groups_in_flight", 0, "0 is not between 1 and"),
        ("loop_limit", 1.5, "int"),
        ("groups_in_flight", 10**9, "1000000000 is not between 1 and"),
        ("groups_in_flight", 1 << 40, "is not between 1 and 1048576"),
        ("groups_in_flight", True, "int"),
        ("loop_limit", 1 << 40, "is not between 0 and 4294967296"),
        ("barrier_table", [[1, -4, "counter"]], "-4 is not between 0 and"),
        ("barrier_table", [[1 << 40, 4, "counter"]], "is not between 0 and 1048576"),
        ("polls_per_second", 0, "rate"),
        ("polls_per_second", 10**14, "rate"),
        ("polls_per_second", 1e-3, "rate"),
        ("polls_per_second", 10**400, "rate"),
        ("polls_per_second", float("inf"), "rate"),
        ("tuning", {"rest": 1}, "rest_ns"),
        ("tuning", {"rest_ns": -1}, "-1"),
        ("tuning", {"rest_ns": 1.5}, "int"),
        ("tuning", {"hold": [[2, 0], [1, 0]]}, "ascend"),
        ("tuning", {"hold": [[1, 2, 3]]}, "unpack"),
        ("tuning", {"placing": [1]}, "three"),
        ("tuning", {"sleep_divisor": 0}, "sleep_divisor"),
        ("tuning", {"rest_ns": 10**9}, "1000000000 is not"),
        ("tuning", {"sleep_ns": 10**9}, "1000000000 is not"),
        ("tuning", {"hold": [[1056, 10**9]]}, "1000000000 is not"),
        ("tuning", {"first_poll": [[1056, 10**9]]}, "1000000000 is not"),
        ("tuning", {"placing": [64, 6000, 10**9]}, "1000000000 is not"),
        ("arrays", {"scans": None}, "reduce, scan, sort"),
        ("arrays", {"scan": {"local": 128}}, "local, rows, polls"),
        ("arrays", {"scan": {"local": 100, "rows": 22, "polls": 2}}, "whole warps"),
        ("arrays", {"scan": {"local": 128, "rows": 10**9, "polls": 2}}, "1000000000 is not"),
        ("arrays", {"scan": SCAN | {"few": [FEW, FEW]}}, "the ranges of few are not in ascending order"),
        ("arrays", {"scan": SCAN | {"few": [FEW | {"local": 100}]}}, "whole warps"),
        ("arrays", {"reduce": [SHAPE | {"strided": 1}]}, "bool"),
        ("arrays", {"reduce": [SHAPE | {"local": 96}]}, "power of two"),
        ("arrays", {"reduce": [SHAPE, SHAPE]}, "ascend"),
        (
            "arrays",
            {"sort": [{"key_bytes": 4, "local": 128, "items": 9, "items_alone": 9, "polls": 6, "back": 4}]},
            "128",
        ),
        ("builds", {"cl12": 1}, "bool"),
        ("ordering", {"cl12": True}, "str"),
        ("lost", {"loop_limit": 3}, "str"),
        ("lost", ["loop_limit"], "items"),
        ("colour", "red", "colour"),
    ],
)
def test_impossible_values_are_refused_with_the_cause(field, value, word):
    with pytest.raises(RecordError, match=word):
        Findings.from_json({**FOUND.to_json(), field: value})


def test_older_tables_without_local_sizes_speak_for_few_work_items():
    known = Findings.from_json({"barrier_table": [[1, "flag"], [70, "tree"]]})
    assert known.barrier_table == ((1, 1, "flag"), (1, 70, "tree"))


@pytest.mark.parametrize(
    "damage", [{"barrier_table": [[1, "No Name"]]}, {"groups_in_flight": "x"}, {"polls_per_second": 1e14}]
)
def test_a_foreign_entry_of_the_cache_warns_once_with_its_path_and_counts_as_absent(damage, own_cache):
    cache.store(CACHE_KIND, device_key(FACTS), {**FOUND.to_json(), **damage})
    with pytest.warns(cache.CacheWarning, match=f"{device_key(FACTS)}.json") as caught:
        assert profile.stored_findings(FACTS) is None
        assert profile.stored_findings(FACTS) is None
    assert len(caught) == 1
    cache.store(CACHE_KIND, device_key(FACTS), FOUND.to_json())
    assert profile.stored_findings(FACTS) == FOUND


@pytest.fixture
def known(own_cache, monkeypatch):
    """A device with findings in a cache of its own."""
    monkeypatch.setattr(profile, "facts", lambda _: FACTS)
    cache.store(CACHE_KIND, device_key(FACTS), FOUND.to_json())
    return SimpleNamespace(name=FACTS.name, get_info=None, platform=None)


@pytest.mark.parametrize("disk", [True, False], ids=["on disk", "in memory"])
def test_changes_of_many_threads_are_all_kept(known, monkeypatch, disk):
    if not disk:
        monkeypatch.setenv(cache.ENVIRONMENT_VARIABLE, "off")
        cache.store(CACHE_KIND, device_key(FACTS), FOUND.to_json())

    def add(thread):
        for turn in range(10):
            name = f"{thread}.{turn}"
            profile.change_findings(
                known, "a verdict", lambda found, name=name: replace(found, litmus={**found.litmus, name: "pass"})
            )

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(add, range(8)))
    assert len(profile.stored_findings(FACTS).litmus) == 80 + len(FOUND.litmus)


_COUNTING = """
import sys
from portbar.records import cache, writing

for _ in range(40):
    with cache.changing():
        count = cache.load("counts", "x") or {"n": 0}
        cache.store("counts", "x", {"n": count["n"] + 1})
"""


@pytest.mark.skipif(sys.platform == "win32", reason="processes are kept apart where the system has flock")
def test_changes_of_several_processes_are_all_kept(own_cache):
    environment = checkout.environment()
    children = [subprocess.Popen([sys.executable, "-c", _COUNTING], env=environment) for _ in range(3)]
    assert [one.wait(60) for one in children] == [0] * 3
    assert cache.load("counts", "x") == {"n": 120}


def test_a_cache_that_stays_locked_delays_a_change_and_does_not_hang_it(known, own_cache, monkeypatch):
    monkeypatch.setattr(cache, "_LOCK_S", 0.05)
    held = writing.lock(own_cache / ".lock")
    assert held is not None
    try:
        profile.change_findings(known, "nothing", lambda found: replace(found, source="changed"))
    finally:
        os.close(held)
    assert profile.stored_findings(FACTS).source == "changed"


def test_a_litmus_failure_that_comes_during_a_probe_is_kept(known, monkeypatch):
    def measured(*_):
        profile.change_findings(known, "a verdict", lambda found: replace(found, litmus={"cl12": "fail: MP 3 of 9"}))
        return Findings(source="probed anew")

    monkeypatch.setattr(probing, "facts", lambda _: FACTS)
    monkeypatch.setattr(probing, "describe", lambda _: None)
    monkeypatch.setattr(probing, "address_of", lambda _: None)
    monkeypatch.setattr(probing, "_probe_in_children", measured)
    probing.probe(known, refresh=True)
    kept = profile.stored_findings(FACTS)
    assert (kept.source, kept.litmus) == ("probed anew", {"cl12": "fail: MP 3 of 9"})
