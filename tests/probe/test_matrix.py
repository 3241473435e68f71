"""The shipped records: each can be read, is named after its device, and serves devices like it and no others."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from portbar import records
from portbar.backends import cl12
from portbar.choices import profile
from portbar.choices.strategy import ALTERNATIVES, DeviceProfile, choose
from portbar.device import matrix
from portbar.device.facts import DeviceFacts, architecture
from portbar.device.findings import Findings
from portbar.errors import RecordError, UnsupportedFeatureError
from portbar.primitives.headers import render_header
from portbar.records import placing
from tests.checkout import ROOT

FOLDER = ROOT / "vendor_matrix"
ALL = sorted(FOLDER.glob("*.json"))
PUBLISHED = sorted(FOLDER.glob("published--*.json"))
RECORDS = sorted(set(ALL) - set(PUBLISHED))
H200 = next(path for path in RECORDS if "h200" in path.stem)

#: Emulated processors, of other architectures than the host's.
EMULATED = [path for path in RECORDS if path.stem.endswith("--emulated")]

#: Devices where litmus tests refuted each way to order memory: no strategy follows.
REFUSED = [path for path in RECORDS if "zink" in path.stem]

each_record = pytest.mark.parametrize("path", RECORDS, ids=lambda path: path.stem[:40])

each_usable = pytest.mark.parametrize("path", sorted(set(RECORDS) - set(REFUSED)), ids=lambda path: path.stem[:40])

#: The table "Recall of occupancy discovery" of the slides by Sorensen and others: compute units, occupancy bound, work-groups
#: found by the spin lock and by the ticket lock.
STUDY = {
    "GTX 980": (16, 32, 3.1, 32.0),
    "Quadro K500": (12, 12, 2.3, 12.0),
    "Iris 6100": (47, 6, 3.5, 6.0),
    "HD 5500": (24, 3, 2.7, 3.0),
    "Radeon R9": (28, 48, 7.7, 48.0),
    "Radeon R7": (8, 16, 4.6, 16.0),
    "T628-4": (4, 4, 3.1, 4.0),
    "T628-2": (2, 2, 2.0, 2.0),
}


def only_device(path: Path) -> dict[str, Any]:
    (device,) = json.loads(path.read_text(encoding="utf-8"))["devices"]
    return device


def entry(path: Path) -> tuple[DeviceFacts, Findings]:
    device = only_device(path)
    return DeviceFacts.from_json(device["facts"]), Findings.from_json(device["findings"])


def host_of(path: Path) -> str:
    """The architecture of the host that a record is from."""
    return architecture(json.loads(path.read_text(encoding="utf-8"))["environment"]["machine"])


def known_of(path: Path) -> Findings | None:
    """The findings that the matrix lends to a device on a host like its own."""
    return matrix.nearest(entry(path)[0], host_of(path))


@pytest.fixture(autouse=True)
def on_the_machine_of_the_records(monkeypatch):
    monkeypatch.setattr(matrix, "host_architecture", lambda: "x86_64")
    monkeypatch.setattr(cl12, "host_architecture", lambda: "x86_64")


@each_record
def test_each_record_is_named_after_its_device_and_serves_it(path):
    _, findings = entry(path)
    assert records.slug(only_device(path)) == path.stem
    known = known_of(path)
    assert known is not None
    assert replace(known, source="") == replace(findings, source="")
    assert path.stem in known.source


@each_usable
def test_a_strategy_follows_from_each_record_and_renders(path):
    facts, _ = entry(path)
    strategy = choose(DeviceProfile(facts, known_of(path)))
    assert all(name in ALTERNATIVES["device_barrier"] for _, _, name in strategy.tuning.table)
    assert "portbar_device_barrier(portbar_grid *grid)" in render_header("device_barrier", strategy)


@pytest.mark.parametrize("path", REFUSED, ids=lambda path: path.stem[:40])
def test_a_device_whose_record_refutes_each_strategy_is_refused_with_what_was_seen(path):
    facts, findings = entry(path)
    assert only_device(path)["status"] == "refused"
    assert all(verdict.startswith("fail") for verdict in findings.litmus.values())
    with pytest.raises(UnsupportedFeatureError, match=r"c11: the litmus tests found: MP-device-global-fences"):
        choose(DeviceProfile(facts, matrix.nearest(facts)))


@pytest.mark.parametrize("path", REFUSED, ids=lambda path: path.stem[:40])
def test_a_refused_device_is_filed_only_with_litmus_tests(path):
    record = json.loads(path.read_text(encoding="utf-8"))
    assert [slug for slug, _ in placing.split(record)] == [path.stem]
    record["devices"][0]["findings"]["litmus"] = {}
    assert not list(placing.split(record))


@each_usable
def test_choices_by_a_record_say_so_and_those_by_a_probe_do_not(path):
    facts, findings = entry(path)
    borrowed = choose(DeviceProfile(facts, known_of(path)))
    assert f"vendor matrix record {path.stem} (never probed on this machine)" in borrowed.atomics.reason
    own = choose(DeviceProfile(facts, replace(findings, source="probed 2026-11-21")))
    assert "vendor matrix" not in own.atomics.reason
    if borrowed.tuning.table:
        groups = borrowed.tuning.table[-1][1]
        reasons = [s.for_groups(groups, borrowed.tuning.table[-1][0]).device_barrier.reason for s in (borrowed, own)]
        assert reasons[0].startswith("measured fastest") == reasons[1].startswith("measured fastest")
        if reasons[0].startswith("measured fastest"):
            assert f"on such a device (vendor matrix record {path.stem})" in reasons[0]
            assert "on this device" in reasons[1]


@pytest.mark.parametrize(
    ("lacks", "origins"),
    [
        ({"barrier_table": (), "tuning": None, "arrays": None}, (True, True, True)),
        ({"barrier_table": ()}, (True, False, False)),
        ({"tuning": None}, (False, True, False)),
        ({"arrays": None}, (False, False, True)),
    ],
    ids=["all", "table", "waits", "arrays"],
)
def test_a_part_that_alone_is_borrowed_is_named_with_its_record(monkeypatch, lacks, origins):
    """The choice of atomics is then the probe's own."""
    facts, findings = entry(H200)
    monkeypatch.setattr(profile, "stored_findings", lambda _: replace(findings, source="probed 2026-11-21", **lacks))
    found = profile._findings(facts)
    assert all(getattr(found, part) == getattr(findings, part) for part in matrix.LENT)
    chosen = choose(DeviceProfile(facts, found))
    assert "vendor matrix" not in chosen.atomics.reason
    record = f"on such a device (vendor matrix record {H200.stem})"
    told = (chosen.tuning.origin, chosen.tuning.waits_origin, chosen.tuning.arrays_origin)
    assert told == tuple(record if lent else "on this device" for lent in origins)


@pytest.mark.parametrize("path", ALL, ids=lambda path: path.stem[:40])
def test_each_file_is_a_valid_record_of_the_newest_format_under_its_name(path):
    text = path.read_text(encoding="utf-8")
    record = records.load(path)
    assert json.loads(text) == record
    assert text == records.text(record)
    assert records.slug(record["devices"][0]) == path.stem
    assert re.fullmatch(r"[a-z0-9._-]+\.json", path.name)
    # Emulators are too slow for the whole of a survey.
    assert not record["partial"] or path in EMULATED
    assert (record["kind"] == "published") == path.stem.startswith("published--")


def test_the_published_chips_are_those_of_the_study():
    found = {}
    for path in PUBLISHED:
        device = only_device(path)
        spin, ticket = device["occupancy"]["rows"]
        assert (spin["lock"], ticket["lock"]) == ("spin", "ticket")
        assert spin["occupancy"]["value"] == ticket["occupancy"]["value"] == spin["best_known_groups"]
        for row in (spin, ticket):
            assert row["recall"]["value"] == round(row["found"]["value"] / row["occupancy"]["value"], 4)
            assert row["local_size"] is row["launched"] is None
        numbers = (spin["occupancy"]["value"], spin["found"]["value"], ticket["found"]["value"])
        found[device["facts"]["name"]] = (device["facts"]["compute_units"], *numbers)
    assert found == STUDY


def test_published_records_name_their_source_and_serve_no_device_and_others_say_their_host_s_processor():
    assert {name for name, *_ in matrix._records()} == {path.stem for path in RECORDS}
    assert {name: kind for name, _, kind, _ in matrix._records()} == {path.stem: host_of(path) for path in RECORDS}
    assert {host_of(path) for path in set(RECORDS) - set(EMULATED)} == {"x86_64"}
    for path in PUBLISHED:
        record = records.load(path)
        assert record["source"]["year"] == 2016
        assert "Tyler Sorensen" in record["source"]["authors"]
        facts = DeviceFacts.from_json(record["devices"][0]["facts"])
        assert matrix.nearest(facts) is None


def test_the_nearest_driver_is_used_and_named(monkeypatch):
    facts, findings = entry(H200)
    known = tuple(
        (f"driver-{driver}", replace(facts, driver_version=driver), "", replace(findings, polls_per_second=float(rate)))
        for rate, driver in enumerate(("535.10", "570.86.15", "580.65.06", "590.1"), start=1)
    )
    monkeypatch.setattr(matrix, "_records", lambda: known)
    for driver, speaks in [("581.2", 3), ("580.95", 3), ("571.2", 2), ("100.1", 1), ("999.0", 4)]:
        chosen = matrix.nearest(replace(facts, driver_version=driver))
        assert chosen is not None
        assert chosen.polls_per_second == speaks
        assert chosen.source == f"vendor matrix record {known[speaks - 1][0]} (never probed on this machine)"


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


def gpu_like_the_h200(**changes):
    """A GPU that was never probed, with other facts than the H200's where they are given."""
    facts, _ = entry(H200)
    nvidia = {**(facts.nvidia or {}), **changes.pop("nvidia", {})}
    return replace(facts, name="NVIDIA Unheard-of", nvidia=nvidia, **changes)


def test_a_gpu_without_a_record_is_tuned_as_the_most_alike_one_and_says_so():
    _, findings = entry(H200)
    strategy = choose(DeviceProfile(gpu_like_the_h200()))
    assert strategy.tuning.hold == findings.tuning.hold
    assert strategy.tuning.table == findings.barrier_table
    who = f"a similar device (NVIDIA H200, vendor matrix record {H200.stem})"
    assert strategy.tuning.arrays == findings.arrays
    assert strategy.reasons()["waits"] == strategy.reasons()["arrays"] == ("tuned", f"as measured on {who}")
    assert who in strategy.for_groups(512, 64).device_barrier.reason
    assert strategy.capabilities.one_way_fences


@pytest.mark.parametrize(
    "other", [{"compute_units": 108}, {"nvidia": {"compute_capability_major": 8}}], ids=["fewer units", "older"]
)
def test_a_gpu_of_another_size_or_age_gets_waits_but_no_table(other):
    strategy = choose(DeviceProfile(gpu_like_the_h200(**other)))
    assert strategy.tuning.hold
    assert strategy.tuning.arrays.scan
    assert strategy.tuning.table == ()
    assert strategy.device_barrier.value == "counter"


def test_build_results_are_lent_to_the_same_capability_and_no_older_driver_only():
    assert matrix.builds_alike(gpu_like_the_h200(driver_version="999.1"))["one_way_fences"]
    assert not matrix.builds_alike(gpu_like_the_h200(driver_version="100.1"))
    assert not matrix.builds_alike(gpu_like_the_h200(nvidia={"compute_capability_minor": 1}))


def test_the_nearest_of_several_tuned_gpus_lends_its_waits(monkeypatch):
    facts, findings = entry(H200)
    tuned = [replace(findings, tuning=replace(findings.tuning, rest_ns=rest)) for rest in (1, 2, 3)]
    known = (
        ("old", replace(facts, nvidia={**facts.nvidia, "compute_capability_major": 7}), "", tuned[0]),
        ("small", replace(facts, compute_units=20), "", tuned[1]),
        ("untuned", facts, "", replace(findings, tuning=None)),
        ("near", replace(facts, compute_units=120), "", tuned[2]),
    )
    monkeypatch.setattr(matrix, "_records", lambda: known)
    lender = matrix.neighbour(gpu_like_the_h200())
    assert lender is not None
    assert lender[0] == "near"


def test_nobody_lends_waits_to_the_hosts_processor_or_to_another_platform():
    for path in HOSTED:
        assert matrix.neighbour(entry(path)[0]) is None
    assert matrix.neighbour(gpu_like_the_h200(platform_name="Another")) is None


HOSTED = [path for path in RECORDS if "CPU" in only_device(path)["facts"]["type"] and path not in EMULATED]


@pytest.mark.parametrize("path", HOSTED, ids=lambda path: path.stem[:40])
@pytest.mark.parametrize("host", ["aarch64", "arm64", "riscv64", "i686"])
def test_a_hosts_processor_gets_nothing_that_another_kind_of_processor_showed(path, host):
    """Passing where stores stay in order, as on x86, proves nothing for Arm."""
    facts, _ = entry(path)
    assert matrix.nearest(facts, host) is None
    assert matrix.nearest(facts, "AMD64") == matrix.nearest(facts, "x86_64") is not None


@pytest.mark.parametrize("path", EMULATED, ids=lambda path: path.stem[:40])
def test_an_emulated_processor_lends_nothing_to_a_real_one(path):
    facts, _ = entry(path)
    assert facts.emulator
    assert matrix.nearest(replace(facts, emulator=""), host_of(path)) is None
    assert matrix.nearest(facts, "x86_64") is None


def test_a_gpu_is_the_same_in_any_host_and_with_another_driver_and_another_gpu_is_not_served():
    facts, findings = entry(H200)
    for one in (facts, replace(facts, driver_version="999.1")):
        for host in ("aarch64", "x86_64", ""):
            known = matrix.nearest(one, host)
            assert known is not None
            assert (known.ordering, known.litmus) == (findings.ordering, findings.litmus)
    assert matrix.nearest(replace(facts, name="NVIDIA Unheard-of")) is None


@pytest.mark.parametrize(("host", "recorded"), [("", "x86_64"), ("aarch64", ""), ("", "")])
def test_without_a_known_kind_of_processor_no_order_of_memory_is_lent(monkeypatch, host, recorded):
    facts, findings = entry(HOSTED[0])
    monkeypatch.setattr(matrix, "_records", lambda: (("one", facts, recorded, findings),))
    known = matrix.nearest(facts, host)
    assert known is not None
    assert (known.ordering, known.litmus) == ({}, {})
    assert known.builds == findings.builds


def test_a_record_of_this_kind_of_processor_speaks_before_one_of_an_unknown_kind(monkeypatch):
    facts, findings = entry(HOSTED[0])
    far = replace(facts, driver_version="1." + facts.driver_version)
    monkeypatch.setattr(matrix, "_family", lambda _: ())
    monkeypatch.setattr(matrix, "_records", lambda: (("near", facts, "", findings), ("far", far, "aarch64", findings)))
    assert matrix.nearest(facts, "aarch64").source.startswith("vendor matrix record far ")


def test_without_fences_another_processor_than_x86_needs_litmus_tests_of_its_own(monkeypatch):
    facts, findings = entry(next(path for path in RECORDS if path.stem.startswith("rusticl")))
    probed = replace(findings, litmus={}, ordering={"cl12": "pass"}, source="probed")
    assert choose(DeviceProfile(facts, probed)).atomics.value == "cl12"
    monkeypatch.setattr(cl12, "host_architecture", lambda: "aarch64")
    with pytest.raises(UnsupportedFeatureError, match="the device supports no fences"):
        choose(DeviceProfile(facts, probed))
    passed = replace(probed, litmus={"cl12": "pass: 28 tests"})
    assert choose(DeviceProfile(facts, passed)).atomics.value == "cl12"
    # A later version has fences.
    newer = replace(facts, driver_version="25.0.7")
    assert choose(DeviceProfile(newer, probed)).atomics.value == "cl12"


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
    whole = {**records.load(RECORDS[0]), "devices": [only_device(path) for path in RECORDS]}
    whole["devices"].append({"status": "unusable", "facts": {"name": "x"}})
    parts = dict(records.split(whole))
    assert sorted(parts) == [path.stem for path in RECORDS]
    assert all(len(part["devices"]) == 1 for part in parts.values())
