"""Records of older formats become records of the newest one by code, and lose nothing on the way."""

from __future__ import annotations

import json
import shutil
import subprocess

import pytest

from portbar import records
from portbar.errors import RecordError
from portbar.findings import Findings
from portbar.records import samples_of, value_of
from tests.checkout import ROOT
from tests.records_support import old_record, record

GIT = shutil.which("git")


def test_a_record_of_the_newest_format_stays_as_it_is():
    value = record()
    assert records.migrate(value) is value


def test_no_unknown_format_is_guessed_at():
    with pytest.raises(RecordError, match="update portbar"):
        records.migrate(record(format=3))


def test_what_was_said_of_the_run_is_kept():
    old = old_record()
    new = records.migrate(old)
    assert records.validate(new) == []
    assert (new["schema"], new["format"], new["kind"]) == ("portbar-record", 2, "measured")
    assert new["portbar"] == {"version": old["portbar"]}
    assert new["invocation"] == {"command": "survey", "quick": True, "timeout_s": 35.0, "devices": None}
    assert new["environment"] == old["host"] | {"loader": None}
    assert new["seed"] is None
    assert new["seconds"] is None
    assert [new[name] for name in ("created", "partial", "interrupted")] == [old["created"], True, True]
    assert [one["status"] for one in new["devices"]] == ["partial", "refused", "waiting"]
    assert new["devices"][1]["reason"] == "no order holds on it"
    assert "probe" not in new["devices"][2]


def test_numbers_become_readings_and_gaps_say_why():
    whole = records.migrate(old_record())["devices"][0]
    found, late, refused = whole["occupancy"]["rows"]
    assert found["found"] == {"value": 15.5, "unit": "work-groups", "min": 13, "max": 16, "samples": [16, 15, 16, 13]}
    assert found["launch_time"] == {"value": 11.0, "unit": "us", "samples": [10.5, 11.5, 9.0, 12.0]}
    assert found["occupancy"] == {"value": 16, "unit": "work-groups"}
    assert found["computed_bound"] == {"value": 12, "unit": "work-groups", "note": "found 16: the limits are too small"}
    assert found["recall"] == {"value": 0.9375, "unit": "1"}
    assert (found["best_known_groups"], found["launched"]) == (16, 32)
    assert found["vendor_bound"]["status"] == found["recall_of_vendor_bound"]["status"] == "skipped"
    assert late["found"] == late["recall"] == {"status": "skipped", "reason": "no time was left"}
    assert late["partial"] is True
    assert refused["found"] == {"status": "error", "reason": "it does not compile"}
    assert whole["occupancy"]["reason"] == "time was spent"

    tree, unbounded = whole["barrier"]["rows"]
    assert tree["barrier_time"] == {"value": 0.5, "unit": "us", "samples": [0.4, 0.5, 0.7]}
    assert tree["relaunch_time"] == {"value": 4.0, "unit": "us", "samples": [3.0, 4.0, 5.0]}
    assert tree["rounds"] == 100
    assert unbounded["barrier_time"]["reason"] == "it has no spin limit"
    assert unbounded["relaunch_time"]["status"] == "skipped"
    assert whole["barrier"]["unsteady"] is False


def test_findings_stay_and_are_told_as_rows_too():
    whole = records.migrate(old_record())["devices"][0]
    assert whole["findings"] == old_record()["devices"][0]["findings"]
    rows = {row["probe"]: row["result"] for row in whole["probe"]["rows"]}
    assert rows["build ptx"] == {"value": False}
    assert rows["progress lanes"] == {"value": "none"}
    assert rows["progress sub_groups"] == {"status": "error", "reason": "timed out"}
    assert rows["ordering c11"] == {"value": "pass"}
    assert rows["loop_limit"] == {"value": 65535, "unit": "1"}
    assert rows["groups_in_flight"] == {"value": 16, "unit": "work-groups"}
    passed, failed = whole["litmus"]["rows"]
    assert (passed["strategy"], passed["verdict"]["value"], passed["tests"], passed["seed"]) == ("c11", "pass", 28, 16)
    assert passed["instances"] == {"value": 394697808, "unit": "instances"}
    assert (failed["verdict"]["value"], failed["forbidden"]) == ("fail", [{"test": "SB", "count": 7}])


def test_a_loop_limit_that_was_lost_is_not_one_that_is_not_there():
    old = old_record()
    old["devices"][0]["findings"] |= {"loop_limit": None, "lost": {"loop_limit": "it timed out"}}
    rows = {row["probe"]: row["result"] for row in records.migrate(old)["devices"][0]["probe"]["rows"]}
    assert rows["loop_limit"] == {"status": "error", "reason": "it timed out"}
    old["devices"][0]["findings"]["lost"] = {}
    rows = {row["probe"]: row["result"] for row in records.migrate(old)["devices"][0]["probe"]["rows"]}
    assert value_of(rows["loop_limit"]) == "none"


def _git(*arguments: str) -> str:
    done = subprocess.run([GIT or "", *arguments], cwd=ROOT, capture_output=True, text=True, timeout=60, check=True)
    return done.stdout


def _old_files() -> list[tuple[str, str]]:
    """Every version of every record that the history has: its name and the name of its content."""
    if GIT is None or not (ROOT / ".git").exists():
        return []
    found = set()
    for commit in _git("log", "--format=%H", "--", "vendor_matrix").split():
        for line in _git("ls-tree", commit, "vendor_matrix/").splitlines():
            about, _, name = line.partition("\t")
            if name.endswith(".json"):
                found.add((name.removeprefix("vendor_matrix/").removesuffix(".json"), about.split()[2]))
    return sorted(found)


def test_every_record_that_was_ever_kept_can_be_read():
    files = _old_files()
    if not files:
        pytest.skip("no history of this checkout is to be had")
    for name, blob in files:
        old = json.loads(_git("cat-file", "blob", blob))
        assert records.validate(old) == [], (name, blob)
        new = records.migrate(old)
        assert records.validate(new) == [], (name, blob)
        ((slug, _),) = records.split(new)
        assert slug == name
        if old["format"] == 1:
            _nothing_is_lost(old["devices"][0], new["devices"][0])


def _nothing_is_lost(old, new):
    assert new["facts"] == old["facts"]
    assert Findings.from_json(new["findings"]) == Findings.from_json(old["findings"])
    assert new["strategy"] == old["strategy"]
    for before, after in zip(old["occupancy"]["rows"], new["occupancy"]["rows"], strict=True):
        assert samples_of(after["found"]) == before["found"]
        assert samples_of(after["launch_time"]) == before["times_us"]
        for name in ("vendor_bound", "recall", "recall_of_vendor_bound", "occupancy"):
            assert value_of(after[name]) == before[name]
        assert value_of(after["computed_bound"]) == before.get("computed_bound")
        for name in ("local_size", "local_bytes", "lock", "patience", "launched", "best_known_groups"):
            assert after[name] == before[name]
    for before, after in zip(old["barrier"]["rows"], new["barrier"]["rows"], strict=True):
        assert value_of(after["barrier_time"]) == before["us"]
        assert value_of(after["relaunch_time"]) == before["relaunch_us"]
        assert samples_of(after["barrier_time"]) == before["samples_us"]
        assert samples_of(after["relaunch_time"]) == before["relaunch_samples_us"]
        assert after["barrier_time"].get("reason", "") == before.get("note", "")
