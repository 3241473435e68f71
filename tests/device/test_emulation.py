"""An emulated processor and a real one are told apart, and neither gets what was measured on the other."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from portbar import records
from portbar.backends.backend import BACKENDS
from portbar.device import emulation, matrix
from portbar.device import facts as device_facts
from portbar.device.emulation import emulator_by
from portbar.device.facts import DeviceFacts, device_key, facts
from portbar.device.findings import Findings
from portbar.records import placing
from portbar.survey.measuring import probe as probing
from tests.records_support import device as device_entry
from tests.records_support import record

ARM = DeviceFacts(
    platform_name="Portable Computing Language",
    platform_version="OpenCL 3.0 PoCL 6.0",
    driver_version="6.0",
    name="cpu-cortex-a72",
    type=("CPU",),
    compute_units=4,
)
EMULATED = replace(ARM, emulator="qemu-aarch64")
FOUND = Findings(ordering={"c11": "pass"}, litmus={"c11": "pass: 28 tests"}, groups_in_flight=4)


@pytest.fixture
def proc(tmp_path):
    """The kernel's files about a process that nothing emulates."""
    for name in ("self", "thread-self"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "exe").symlink_to("/usr/bin/python3")
    (tmp_path / "cpuinfo").write_text("model name\t: Intel(R) Xeon(R) Processor\n", encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("/usr/bin/qemu-aarch64-static", "qemu-aarch64-static"),
        ("/usr/libexec/qemu-binfmt/aarch64-binfmt-P", "aarch64-binfmt-P"),
        ("/usr/bin/FEXInterpreter", "FEXInterpreter"),
        ("/", "unknown"),
    ],
)
def test_a_process_that_another_program_executes_names_it(proc, path, name):
    assert emulator_by(proc) == ""
    (proc / "thread-self" / "exe").unlink()
    (proc / "thread-self" / "exe").symlink_to(path)
    assert emulator_by(proc) == name


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("model name : QEMU TCG CPU version 2.5+", "qemu"),
        ("vendor_id : VirtualApple", "rosetta"),
        ("model name : AMD EPYC", ""),
    ],
)
def test_a_processor_that_an_emulator_names_is_emulated(proc, line, name):
    (proc / "cpuinfo").write_text(f"processor : 0\n{line}\n", encoding="utf-8")
    assert emulator_by(proc) == name


def test_a_system_without_such_files_knows_no_emulator(tmp_path):
    assert emulator_by(tmp_path) == ""
    assert emulator_by(tmp_path / "missing") == ""


@pytest.mark.skipif(sys.platform != "linux", reason="asks Linux")
def test_this_process_has_one_name_or_an_emulator():
    names = {Path(f"/proc/{of}/exe").readlink() for of in ("self", "thread-self")}
    assert (len(names) == 1) == (emulation.emulator() in {"", "qemu", "rosetta"})


@pytest.fixture
def lenders(monkeypatch):
    known: list[matrix.Known] = []
    monkeypatch.setattr(matrix, "_records", lambda: tuple(known))
    return known


@pytest.mark.parametrize(("measured", "asking"), [(ARM, EMULATED), (EMULATED, ARM)])
def test_verdicts_of_an_emulated_processor_and_a_real_one_are_not_lent(lenders, measured, asking):
    lenders.append(("a-record", measured, "aarch64", FOUND))
    assert matrix.nearest(asking, "aarch64") is None
    lent = matrix.nearest(measured, "aarch64")
    assert lent is not None
    assert lent.litmus == FOUND.litmus


def test_the_cache_and_the_records_of_an_emulated_processor_are_its_own():
    assert device_key(EMULATED) != device_key(ARM)
    assert device_key(EMULATED) != device_key(replace(ARM, emulator="FEXInterpreter"))
    slugs = [placing.slug({"facts": of.to_json(), "status": "complete"}) for of in (ARM, EMULATED)]
    assert slugs[1] == f"{slugs[0]}--emulated"


def test_a_record_says_that_its_processor_was_emulated_and_older_ones_say_nothing():
    made = record(device_entry())
    of = made["devices"][0]["facts"]
    of["emulator"] = "qemu-aarch64"
    assert records.validate(made) == []
    assert DeviceFacts.from_json(of).emulator == "qemu-aarch64"
    del of["emulator"]
    assert records.validate(made) == []
    assert DeviceFacts.from_json(of).emulator == ""


def test_an_emulated_x86_is_not_taken_for_one_that_keeps_stores_in_order(monkeypatch):
    monkeypatch.setattr(sys.modules[type(BACKENDS["cl12"]).__module__], "host_architecture", lambda: "x86_64")
    llvmpipe = DeviceFacts(name="llvmpipe (LLVM 15)", driver_version="22.3.6", type=("CPU",))
    assert BACKENDS["cl12"].doubt(llvmpipe) == ""
    assert "litmus" in BACKENDS["cl12"].doubt(replace(llvmpipe, emulator="FEXInterpreter"))


@pytest.mark.device
def test_a_device_that_is_the_processor_names_its_emulator(device, monkeypatch):
    monkeypatch.setattr(device_facts, "emulator", lambda: "qemu-x86_64")
    assert facts(device).emulator == ("qemu-x86_64" if "CPU" in facts(device).type else "")


def test_findings_say_that_they_are_of_an_emulated_processor(monkeypatch):
    monkeypatch.setattr(probing.child, "run_steps", lambda *_: True)
    found = probing._probe_in_children(None, 1.0, {}, FOUND, (), "qemu-aarch64")
    assert found.source.endswith("under the emulator qemu-aarch64")
