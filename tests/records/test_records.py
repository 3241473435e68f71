"""Readings, names, splitting and the text of records, and the page that describes them."""

from __future__ import annotations

import json
import re
import shutil
import subprocess

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from portbar import records
from portbar.records import measured, missing, samples_of, slug, value_of
from tests.checkout import ROOT
from tests.records_support import FACTS, STATUSES, UNITS, device, record

GIT = shutil.which("git")


def test_a_reading_holds_a_value_or_a_reason():
    assert measured(3, "us", (2, 3, 7)) == {"value": 3, "unit": "us", "samples": [2, 3, 7]}
    assert measured(True) == {"value": True}
    assert measured(1, "1", min=0, max=None, note="why") == {"value": 1, "unit": "1", "min": 0, "note": "why"}
    assert missing("timeout", "it hung") == {"status": "timeout", "reason": "it hung"}
    assert value_of(measured(0, "us")) == 0
    assert value_of(missing("error", "why")) is None
    assert value_of(None, 5) == value_of(missing("error", "why"), 5) == 5
    assert samples_of(measured(3, "us", [2, 4])) == [2, 4]
    assert samples_of(measured(3, "us")) == [3]
    assert samples_of(missing("error", "why")) == samples_of(None) == []


def test_a_record_is_named_after_platform_device_and_driver():
    assert slug(device()) == "test-platform--test-gpu-r-5--10.20.30.40"
    published = {"facts": {"name": "GTX 980", "vendor": "Nvidia"}, "status": "published"}
    assert slug(published) == "published--nvidia--gtx-980"
    assert slug({"facts": {"name": "x"}}) == "unknown--x--unknown"


@settings(max_examples=300, deadline=None)
@given(st.text(), st.text(), st.text(), st.booleans())
def test_a_name_never_leads_out_of_its_folder(platform, name, driver, published):
    facts = {"platform_name": platform, "name": name, "driver_version": driver, "vendor": driver}
    given = slug({"facts": facts, "status": "published" if published else "complete"})
    assert re.fullmatch(r"[a-z0-9][a-z0-9._-]*[a-z0-9]", given)
    assert len(given) <= 200
    assert "--" in given


def test_names_that_are_cut_short_still_differ():
    one, other = (slug({"facts": {"name": "x" * 300 + end}}) for end in ("a", "b"))
    assert one != other
    assert len(one) < 120


def test_splitting_leaves_out_unmeasured_devices_and_marks_partial_ones():
    whole = record(
        device(),
        device(status="partial", facts=FACTS | {"name": "B"}),
        device(status="unusable", facts=FACTS | {"name": "C"}),
        device(status="complete", findings=None, facts=FACTS | {"name": "D"}),
        partial=True,
        interrupted=True,
    )
    parts = list(records.split(whole))
    assert [one["devices"][0]["facts"]["name"] for _, one in parts] == ["Test GPU (R) 5", "B"]
    assert [(one["partial"], one["interrupted"]) for _, one in parts] == [(False, False), (True, True)]
    assert all(records.validate(one) == [] for _, one in parts)


def test_text_is_the_same_record_with_lists_of_numbers_on_one_line():
    whole = record(device(), device(facts=FACTS | {"name": "Gerät"}))
    whole["devices"][0]["barrier"]["rows"][0]["barrier_time"]["samples"] = [n / 7 for n in range(60)]
    text = records.text(whole)
    assert json.loads(text) == whole
    assert text.endswith("}\n")
    assert "Gerät" in text
    (line,) = (line for line in text.splitlines() if line.lstrip().startswith('"samples": [0.0, '))
    assert line.count(",") >= 59
    assert all(len(line) <= 121 for line in text.splitlines() if '"samples"' not in line)
    assert records.text(json.loads(text)) == text
    with pytest.raises(ValueError, match="JSON"):
        records.text({"x": float("nan")})


def test_records_of_this_format_are_valid_and_of_no_other():
    assert records.validate(record()) == []
    (newer,) = records.validate(record(format=3))
    assert "newer" in newer
    assert "update portbar" in newer
    for value in (
        {},
        {"schema": "portbar-survey", "format": 2},
        [],
        None,
        record(format=1),
        record(format=True),
        record(format=2.0),
    ):
        (problem,) = records.validate(value)
        assert problem.startswith(("/: a record is", "/schema: a portbar record says"))


@pytest.mark.parametrize(
    ("change", "where"),
    [
        (lambda r: r["devices"][0]["facts"].update(compute_units="8"), "/devices/0/facts/compute_units"),
        (lambda r: r["devices"][0]["facts"].update(compute_units=4.0), "/devices/0/facts/compute_units"),
        (lambda r: r["devices"][0]["occupancy"]["rows"][1]["found"].pop("unit"), "/devices/0/occupancy/rows/1/found"),
        (
            lambda r: r["devices"][0]["occupancy"]["rows"][1]["found"].update(status="error"),
            "/devices/0/occupancy/rows/1/found",
        ),
        (
            lambda r: r["devices"][0]["barrier"]["rows"][1]["barrier_time"].pop("reason"),
            "/devices/0/barrier/rows/1/barrier_time",
        ),
        (lambda r: r["devices"][0]["barrier"]["rows"][1]["barrier_time"].update(status="gone"), "/status"),
        (lambda r: r["devices"][0]["litmus"]["rows"][0]["verdict"].update(value="perhaps"), "/verdict/value"),
        (lambda r: r["devices"][0]["atomics"]["rows"][0].update(colour="red"), "/devices/0/atomics/rows/0"),
        (lambda r: r["devices"][0].update(status="published"), "/devices/0/status"),
        (lambda r: r["devices"][0].pop("address"), "/devices/0"),
        (lambda r: r.update(owner="me"), "/: "),
        (lambda r: r.update(source={"title": "t", "authors": [], "year": 2016, "venue": "v"}), "/: "),
        (lambda r: r.update(kind="published"), '/: "source"'),
        (lambda r: r.update(created="yesterday"), "/created"),
        (lambda r: r.update(created="2026-02-30T10:00:00+00:00"), "/created"),
        (lambda r: r.pop("environment"), '/: "environment"'),
    ],
)
def test_a_fault_is_found_and_its_place_named(change, where):
    value = record()
    change(value)
    problems = records.validate(value)
    assert any(where in problem for problem in problems), problems


def test_facts_and_findings_may_grow_and_are_not_unbounded():
    facts = FACTS | {"cooperative_groups": True}
    findings = device()["findings"] | {"clock": 3}
    assert records.validate(record(device(facts=facts, findings=findings))) == []
    many = {f"fact{n}": n for n in range(300)}
    assert records.validate(record(device(facts=FACTS | many))) != []


def _git(*arguments: str) -> str:
    done = subprocess.run([GIT or "", *arguments], cwd=ROOT, capture_output=True, text=True, timeout=180, check=True)
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


def test_every_record_of_this_format_that_was_ever_kept_can_be_read():
    files = [(name, json.loads(_git("cat-file", "blob", blob))) for name, blob in _old_files()]
    if not files:
        pytest.skip("this checkout has no history")
    for name, old in files:
        if old["format"] == records.FORMAT:
            assert records.validate(old) == [], name
            assert [slug for slug, _ in records.split(old)] == [name]


# The page on records.

PAGE = (ROOT / "docs" / "records.md").read_text(encoding="utf-8")


def members(schema) -> set[str]:
    """Names of all members that a schema allows, apart from those of the device's own facts and findings."""
    found: set[str] = set()
    if isinstance(schema, dict):
        for key, below in schema.items():
            if key == "properties":
                found |= set(below)
            if key not in {"facts", "findings"}:
                found |= members(below)
    elif isinstance(schema, list):
        for below in schema:
            found |= members(below)
    return found


def test_the_record_on_the_page_is_valid():
    (text,) = re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL)
    assert records.validate(json.loads(text)) == []


def test_the_page_names_every_member_unit_and_status():
    schema = records.schema()
    named = set(re.findall(r"`([^`\n]+)`", PAGE))
    assert members(schema) - {"facts", "findings"} <= named | {"facts", "findings"}
    assert {*UNITS, *STATUSES} <= named
    assert set(schema["$defs"]["device"]["properties"]["status"]["enum"]) <= named
    assert set(schema["$defs"]["stepStatus"]["enum"]) <= named
