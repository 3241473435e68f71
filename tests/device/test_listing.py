"""Drivers that hang, abort, crash or talk nonsense: commands name them, leave them out and end in time."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path

import pytest

from portbar.device import icd, listing, usable
from portbar.device.child import ChildResult
from portbar.device.listing import FaultyDriver
from portbar.errors import DeviceError
from tests.checkout import environment, interruptible
from tests.fake_icd import vendors

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="vendor folders exist on Linux only")

#: Seconds that listing may take in these tests: a machine under load needs some to start an interpreter.
LIMIT_S = 6

#: Seconds that the check of a device may take.
CHECK_S = 5

COMMAND = f"""
from portbar.device import listing, usable
listing._MOST_TIMES = 1
listing.look.__defaults__ = ({LIMIT_S}, None)
usable.check_listed.__defaults__ = ({CHECK_S},)
from portbar.cli import main
main()
"""


def start(folder, *arguments):
    variables = {"OCL_ICD_VENDORS": str(folder), "PORTBAR_CACHE_DIR": str(folder.parent / "cache")}
    return interruptible([sys.executable, "-c", COMMAND, *map(str, arguments)], env=environment(**variables))


def run(folder, *arguments, timeout=100):
    process = start(folder, *arguments)
    try:
        out, err = process.communicate(timeout=timeout)
    finally:
        process.kill()
        process.wait()
    assert "Traceback" not in err, err
    return process.returncode, out, err


def of_fakes(out):
    """The fake devices that `portbar devices --json` lists; PoCL's wheel is there beside them."""
    return [entry for entry in json.loads(out)["devices"] if entry["facts"]["platform_name"].startswith("Fake")]


@pytest.mark.slow
def test_drivers_that_die_when_they_are_listed_are_named_and_the_others_listed(tmp_path):
    bad = [f"{kind}-{stage}" for kind in ("abort", "crash", "exit") for stage in ("load", "list", "info")]
    bad.append("lie-list")
    folder = vendors(tmp_path, *bad, "fine-none")
    code, out, err = run(folder, "devices", "--json")
    # Nothing runs on the one that is listed; PoCL's wheel may work.
    assert code in {0, 3}, err
    assert [entry["facts"]["name"] for entry in of_fakes(out)] == ["Fake device fine none"]
    told = {Path(fault["file"]).name: fault for fault in json.loads(out)["faulty_drivers"]}
    assert sorted(told) == sorted(f"{name}.icd" for name in bad)
    for name in bad:
        kind, stage = name.split("-")
        ended = {"abort": "SIGABRT", "crash": "SIGSEGV", "exit": "exit status 0", "lie": "SIGSEGV"}[kind]
        assert ended in told[f"{name}.icd"]["reason"]
        assert stage == "info" or "loading drivers" in told[f"{name}.icd"]["reason"]
        assert told[f"{name}.icd"]["library"].endswith(f"libfake-{name}.so")
    # Once more for people, with one that fails.
    code, out, err = run(vendors(tmp_path / "one", "abort-load", "fine-none"), "devices", "-d", "fake")
    assert code == 3
    assert "Fake device fine none" in out
    assert "abort-load.icd" in err
    assert "SIGABRT" in err


#: In its own process none of them may load the driver that hangs afterwards.
HANGING = {
    "load": ("doctor", "--json"),
    "list": ("devices", "--json"),
    "info": ("survey", "--quick", "--json", "-d", "fake"),
}


@pytest.fixture(scope="module")
def hanging(tmp_path_factory):
    """The commands, all at once: most of their time they wait for the limit."""
    begun = {}
    try:
        for stage, command in HANGING.items():
            folder = vendors(tmp_path_factory.mktemp(stage), f"hang-{stage}", "fine-none")
            begun[stage] = (folder, start(folder, *command))
        yield begun
    finally:
        for _, process in begun.values():
            process.kill()
            process.wait()


@pytest.mark.slow
@pytest.mark.timeout(200)
@pytest.mark.parametrize("stage", HANGING)
def test_a_driver_that_hangs_ends_no_command(hanging, stage):
    command = HANGING[stage]
    folder, process = hanging[stage]
    out, err = process.communicate(timeout=150)
    code = process.returncode
    assert "Traceback" not in err, err
    assert code == (1 if command[0] == "doctor" and code != 3 else code)
    assert code in {0, 1, 3}, err
    report = json.loads(out)
    if command[0] == "survey":
        (entry,) = report["devices"]
        assert entry["status"] == "unusable"
        assert f"no answer within {LIMIT_S} s" in err
        assert f"hang-{stage}.icd" in err
    else:
        (fault,) = report["faulty_drivers"]
        assert fault["file"] == str(folder / f"hang-{stage}.icd")
        assert f"no answer within {LIMIT_S} s" in fault["reason"]
        assert "Fake" in out


#: Driver -> why its device does not work.
AT_WORK = {
    "abort-build": "SIGABRT",
    "exit-build": "exit status 0",
    "fail-build": "compiling: error: this driver builds nothing",
    "fail-context": "OUT_OF_RESOURCES",
    "fail-read": "OUT_OF_RESOURCES",
    "fail-run": "OUT_OF_RESOURCES",
    "crash-run": "SIGSEGV",
    "fine-run": "64 wrong numbers of 64",
    "hang-build": f"no answer within {CHECK_S} s",
    "hang-read": f"no answer within {CHECK_S} s",
    "lie-info": "64 wrong numbers of 64",
    "lie-read": "64 wrong numbers of 64",
}


def test_drivers_that_fail_at_work_have_devices_that_do_not_work(tmp_path):
    code, out, err = run(vendors(tmp_path, *AT_WORK), "devices", "--json", "-d", "fake")
    assert code == 3, err
    found = {entry["facts"]["name"].removeprefix("Fake device ").replace(" ", "-"): entry for entry in of_fakes(out)}
    assert sorted(found) == sorted(AT_WORK)
    for name, why in AT_WORK.items():
        assert not found[name]["usable"]
        assert why in found[name]["reason"]
        assert found[name]["remedy"]
    kept = [json.loads(file.read_text(encoding="utf-8")) for file in (tmp_path / "cache" / "usable").iterdir()]
    # A check that took too long says nothing that holds for another time.
    late = [name for name, why in AT_WORK.items() if why.startswith("no answer")]
    assert late
    assert len(kept) == len(AT_WORK) - len(late)
    assert all(entry["value"]["seconds"] < CHECK_S + 1 for entry in kept)


def test_a_device_without_properties_does_not_work(tmp_path):
    code, out, err = run(vendors(tmp_path, "fail-info"), "devices", "--json")
    assert code in {0, 3}, err
    (entry,) = (entry for entry in json.loads(out)["devices"] if not entry["facts"]["name"])
    assert "OUT_OF_RESOURCES" in entry["reason"]


def test_absurd_texts_of_a_driver_reach_no_terminal(tmp_path):
    folder = vendors(tmp_path, "absurd-info")
    code, out, err = run(folder, "devices", "-d", "fake")
    assert code == 3
    assert len(out) < 8000
    for hidden in ("\x1b", "\x07", "\r", "\u202e"):
        assert hidden not in out + err
    code, out, _ = run(folder, "devices", "--json", "-d", "fake")
    (entry,) = of_fakes(out)
    assert entry["facts"]["name"].startswith("Fake device [31m ]0;title <b>[/red] xxx")
    assert len(entry["facts"]["name"]) == 500
    assert entry["facts"]["driver_version"] == ""


def test_output_of_a_driver_is_not_part_of_the_data(tmp_path):
    code, out, err = run(vendors(tmp_path, "absurd-load", "fine-none"), "check", "--json", "-d", "fake")
    assert code == 3, err
    assert len(json.loads(out)) == 2
    assert "{ words on standard output" in err


@pytest.mark.parametrize("stage", ["list", "build"])
def test_ctrl_c_ends_devices_at_once_with_status_130(tmp_path, stage):
    folder = vendors(tmp_path, f"hang-{stage}")
    process = start(folder, "devices")
    try:
        # By then the child hangs, or the interpreter is still starting: both end.
        time.sleep(3.0)
        process.send_signal(signal.SIGINT)
        began = time.monotonic()
        _, err = process.communicate(timeout=120)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 130, err
    assert err.splitlines()[-1] == "portbar: interrupted"
    assert "Traceback" not in err
    assert time.monotonic() - began < 15
    # An interrupted driver was not found to fail.
    assert not list((tmp_path / "cache" / "usable").glob("Fake*"))


@pytest.fixture
def fakes(tmp_path, monkeypatch, own_cache):
    """Results of the next children by the files that they see; missing ones fail."""
    monkeypatch.setattr(icd, "_left_out", frozenset())
    monkeypatch.setattr(icd, "_added", lambda _: [])
    folder = tmp_path / "vendors"
    folder.mkdir()
    for name in "abc":
        (folder / f"{name}.icd").write_text(f"lib{name}.so\n", encoding="utf-8")
    monkeypatch.setenv("OCL_ICD_VENDORS", str(folder))
    good = []

    def run_task(_task, _payload, *, timeout, at_most, env):
        assert timeout == 7
        assert at_most > timeout
        seen = {**os.environ, **env}
        read = "".join(file.name[0] for file in icd.vendor_files({**seen, **icd.environment(seen)}))
        if read in good:
            return ChildResult("ok", {"devices": [], "empty": [{"platform_name": read}], "problem": ""}, "", 0.1)
        return ChildResult("crash", None, f"died of {read}; last lines of its standard error:\nx", 0.1)

    monkeypatch.setattr(listing.child, "run_task", run_task)
    good.extend(["", "a", "c", "ac"])
    return good


def test_a_faulty_driver_is_found_once_and_children_do_without_it(fakes, monkeypatch):
    told = []
    seen = listing.look(7, told.append)
    assert [platform.platform_name for platform in seen.empty] == ["ac"]
    (fault,) = seen.faulty
    assert fault == FaultyDriver(fault.file, "libb.so", "died of ab")
    assert fault.file.endswith("/b.icd")
    assert len(told) == 1
    assert [file.name for file in icd.vendor_files(icd.environment(os.environ))] == ["a.icd", "c.icd"]
    assert listing.look(7, told.append).faulty == ()
    assert len(told) == 1
    # A variable that the loader may prefer names the same folder.
    monkeypatch.setenv("OPENCL_VENDOR_PATH", os.environ["OCL_ICD_VENDORS"])
    added = icd.environment(os.environ)
    assert added["OPENCL_VENDOR_PATH"] == added["OCL_ICD_VENDORS"]


def test_two_drivers_that_clash_cost_the_second_only(fakes):
    fakes[:] = ["", "a", "b", "c", "ac", "bc"]
    assert [fault.library for fault in listing.look(7).faulty] == ["libb.so"]


def test_without_icd_files_that_fail_either_the_remedy_is_another(fakes, monkeypatch):
    fakes.clear()
    with pytest.raises(DeviceError, match="even without any ICD file: reinstall PyOpenCL"):
        listing.look(7)
    # The first time and the last it fails, between them it does not.
    answers = [ChildResult("ok", {"devices": [], "empty": [], "problem": ""}, "", 0.1)] * 4
    answers = [ChildResult("timeout", None, "no answer", 7.0), *answers, ChildResult("timeout", None, "no answer", 7.0)]
    monkeypatch.setattr(listing.child, "run_task", lambda *_, **__: answers.pop(0))
    with pytest.raises(DeviceError, match="no single ICD file is the cause"):
        listing.look(7)


@pytest.mark.parametrize(("value", "kind"), [({"unimportable": "no module"}, ImportError), (None, RuntimeError)])
def test_faults_without_a_driver_are_blamed_on_none(monkeypatch, value, kind):
    answer = ChildResult("ok" if value else "error", value, "AttributeError: x", 0.1)
    monkeypatch.setattr(listing.child, "run_task", lambda *_, **__: answer)
    with pytest.raises(kind):
        listing.look(7)


def test_an_interrupted_check_is_not_remembered(monkeypatch, own_cache):
    def interrupted(*_, stop, **__):
        assert stop is not None
        raise KeyboardInterrupt

    monkeypatch.setattr(usable.child, "run_task", interrupted)
    with pytest.raises(KeyboardInterrupt):
        usable.check_listed([(listing.DeviceAddress(0, 0, "P", "D"), listing.DeviceFacts(name="D"))])
    assert not list(own_cache.rglob("*.json"))


def test_a_driver_that_only_took_too_long_is_not_told_to_be_updated():
    late = FaultyDriver("/x/a.icd", "liba.so", f"{listing.child.NO_ANSWER} 20 s while loading drivers")
    assert "less busy" in late.remedy
    assert "update" not in late.remedy
    assert "update" in FaultyDriver("/x/a.icd", "liba.so", "the process was killed by SIGABRT").remedy
