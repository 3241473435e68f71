"""The shipped records: each can be read, is named after its device, and serves devices like it and no others."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from portbar import matrix
from portbar.device import DeviceFacts
from portbar.errors import RecordError
from portbar.findings import Findings
from portbar.rendering import render_header
from portbar.strategy import ALTERNATIVES, DeviceProfile, choose

RECORDS = sorted((Path(__file__).parent.parent / "vendor_matrix").glob("*.json"))


def entry(path: Path) -> tuple[DeviceFacts, Findings]:
    (device,) = json.loads(path.read_text(encoding="utf-8"))["devices"]
    return DeviceFacts.from_json(device["facts"]), Findings.from_json(device["findings"])


@pytest.mark.parametrize("path", RECORDS, ids=lambda path: path.stem[:40])
def test_each_record_is_named_after_its_device_and_serves_it(path):
    facts, findings = entry(path)
    assert matrix.slug(facts) == path.stem
    known = matrix.nearest(facts)
    assert known is not None
    assert replace(known, source="") == replace(findings, source="")
    assert path.stem in known.source


@pytest.mark.parametrize("path", RECORDS, ids=lambda path: path.stem[:40])
def test_a_strategy_follows_from_each_record_and_renders(path):
    facts, _ = entry(path)
    strategy = choose(DeviceProfile(facts, matrix.nearest(facts)))
    assert all(name in ALTERNATIVES["device_barrier"] for _, _, name in strategy.table)
    assert "portbar_device_barrier(portbar_grid *grid)" in render_header("device_barrier", strategy)


@pytest.mark.parametrize("path", RECORDS, ids=lambda path: path.stem[:40])
def test_a_record_tells_of_the_machine_and_not_of_its_owner(path):
    text = path.read_text(encoding="utf-8")
    assert "/home/" not in text
    assert "/root" not in text
    assert "/tmp" not in text  # noqa: S108 (a path that must not be there)
    record = json.loads(text)
    assert record["schema"] == "portbar-survey"
    assert record["partial"] is False
    assert set(record["host"]) == {"system", "release", "machine", "python", "pyopencl", "numpy"}


def test_another_driver_of_the_same_gpu_is_served_and_another_gpu_is_not():
    path = next(path for path in RECORDS if "h200" in path.stem)
    facts, _ = entry(path)
    assert matrix.nearest(replace(facts, driver_version="999.1")) is not None
    assert matrix.nearest(replace(facts, name="NVIDIA Unheard-of")) is None


def test_a_cpu_with_other_threads_gets_the_ordering_but_not_the_counts():
    path = next(path for path in RECORDS if "3.1-debian" in path.stem)
    facts, findings = entry(path)
    known = matrix.nearest(replace(facts, name="pthread-elsewhere", compute_units=(facts.compute_units or 0) + 6))
    assert known is not None
    assert known.ordering == findings.ordering
    assert known.groups_in_flight is None
    assert known.barrier_table == ()
    other = replace(facts, driver_version="9.9", platform_version="OpenCL 3.0 PoCL 9.9")
    assert matrix.nearest(other) is None


@pytest.mark.parametrize(
    "text",
    [
        '{"devices": [{"facts": {}}]}',
        '{"devices": [',
        "[]",
        '{"devices": [{"facts": {}, "findings": {"barrier_table": [[1, "nonsense"]]}}]}',
    ],
)
def test_a_damaged_record_is_named(monkeypatch, tmp_path, text):
    (tmp_path / "broken.json").write_text(text)
    monkeypatch.setattr(matrix.importlib.resources, "files", lambda _: tmp_path)
    with pytest.raises(RecordError, match="broken"):
        list(matrix._read())


def test_a_survey_is_split_into_one_record_a_device():
    whole = {
        "schema": "portbar-survey",
        "devices": [json.loads(path.read_text(encoding="utf-8"))["devices"][0] for path in RECORDS]
        + [{"status": "unusable", "facts": {}}],
    }
    parts = dict(matrix.single_device_records(whole))
    assert sorted(parts) == [path.stem for path in RECORDS]
    assert all(len(part["devices"]) == 1 for part in parts.values())
