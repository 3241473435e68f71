"""Usable devices and the quirk table: verdicts on what really happened, each failure with a remedy."""

from __future__ import annotations

import dataclasses
import os
import sys
import time
from dataclasses import replace

import pytest

from portbar.choices.strategy import DeviceProfile, choose
from portbar.device import child, quirks, usable
from portbar.device.addresses import DeviceAddress, list_devices
from portbar.device.child import ChildResult
from portbar.device.facts import DeviceFacts, facts
from portbar.device.findings import Findings
from portbar.errors import UnsupportedFeatureError
from portbar.records import cache

ADDRESS = DeviceAddress(0, 0, "Portable Computing Language", "pthread-EPYC")
POCL = DeviceFacts(
    platform_name="Portable Computing Language", platform_version="OpenCL 3.0 PoCL 3.0-rc2", name="pthread-EPYC"
)
RIGHT = ChildResult("ok", usable.expected(16), "", 1.0)
WRONG = ChildResult("ok", [*usable.expected(16)[:61], 0, 0, 0], "", 1.0)


pytestmark = pytest.mark.usefixtures("own_cache")


@pytest.fixture
def children(monkeypatch):
    """Results for the next children; the list says how many were not needed."""
    results = []
    monkeypatch.setattr(child, "run_task", lambda *_, **__: results.pop(0))
    return results


def judge(*, refresh=False):
    return usable._check(ADDRESS, POCL, (20, 20), refresh=refresh)


def test_a_right_answer_is_usable_and_remembered(children):
    children += [RIGHT, WRONG]
    assert judge().usable
    assert judge().usable
    assert len(children) == 1


def test_refresh_checks_again_and_replaces_what_was_remembered(children):
    children += [RIGHT, WRONG]
    judge()
    assert not judge(refresh=True).usable
    assert not judge().usable


def test_a_failure_is_remembered_with_its_reason_for_an_hour_only(children, monkeypatch):
    children += [WRONG, RIGHT]
    first = judge()
    assert "3 wrong numbers of 64" in first.reason
    assert first.remedy
    assert judge() == first
    later = time.time() + 3601
    monkeypatch.setattr(usable.time, "time", lambda: later)
    assert judge().usable


def test_another_driver_is_another_device(children):
    children += [RIGHT, WRONG]
    judge()
    newer = DeviceFacts(platform_name="Portable Computing Language", name="pthread-EPYC", driver_version="2")
    assert not usable._check(ADDRESS, newer, (20, 20), refresh=False).usable


@pytest.mark.parametrize("damage", [{}, {"seconds": "long"}, {"seconds": 10**400}, {"checked": 10**400}])
def test_a_damaged_memory_is_measured_again(children, damage):
    children += [RIGHT, RIGHT]
    judge()
    whole = {"usable": True, "reason": "", "remedy": "", "seconds": 1.0, "checked": 1e9}
    cache.store("usable", usable.device_key(POCL), {**whole, **damage} if damage else {"usable": True})
    assert judge().usable
    assert not children


def test_a_build_failure_gives_the_compilers_line_and_the_remedy_of_its_quirk(children):
    log = "RuntimeError: clBuildProgram failed: BUILD_PROGRAM_FAILURE\n\nerror: unknown target CPU 'generic'\n"
    children.append(ChildResult("error", None, log, 1.0))
    verdict = judge()
    assert verdict.reason.endswith("compiling: error: unknown target CPU 'generic'")
    assert "portbar[cpu]" in verdict.remedy
    assert "pocl-opencl-icd" in verdict.remedy


WITHOUT_LINKER = (
    "the process was killed by SIGABRT; last lines of its standard error:\n"
    'error: unable to execute command: Executable "ld" doesn\'t exist!\n'
    "error: linker command failed with exit code 1 (use -v to see invocation)\n"
    "Final linking of kernel portbar_usable failed."
)
WITHOUT_LIBRARIES = (
    "the process was killed by SIGABRT; last lines of its standard error:\n"
    "/usr/bin/ld: cannot find -lgcc: No such file or directory\n"
    "error: linker command failed with exit code 1 (use -v to see invocation)\n"
    "Final linking of kernel portbar_usable failed."
)


@pytest.mark.parametrize(
    ("log", "cause"), [(WITHOUT_LINKER, 'Executable "ld"'), (WITHOUT_LIBRARIES, "cannot find -lgcc")]
)
def test_pocl_without_a_linker_is_told_what_to_install(children, monkeypatch, log, cause):
    monkeypatch.setattr(sys.modules[__name__], "POCL", dataclasses.replace(POCL, type=("CPU",)))
    children.append(ChildResult("crash", None, log, 1.0))
    verdict = judge()
    assert cause in verdict.reason
    assert "links each kernel" in verdict.reason
    assert "apt-get install gcc libc6-dev" in verdict.remedy
    assert "update" not in verdict.remedy


@pytest.mark.parametrize(
    ("status", "log", "remedy"),
    [
        # Logs of PoCL 3.1 and 6.0, and of loaders; the codes are those of the specification.
        ("crash", "SIGABRT\n/usr/bin/ld: cannot find -lgcc: Too many open files", "ulimit -n"),
        ("error", "OSError: [Errno 28] No space left on device: '/root/.cache/pocl/kcache'", "disk space"),
        ("error", "PermissionError: [Errno 13] Permission denied: '/dev/dri/renderD128'", "let this user"),
        ("crash", "the process was killed by SIGABRT\nNot enough memory to run on this device.", "other programs"),
        ("crash", "the process was killed by SIGKILL", "other programs"),
        ("error", "MemoryError: clEnqueueNDRangeKernel failed: OUT_OF_HOST_MEMORY", "other programs"),
        ("error", "RuntimeError: Context failed: DEVICE_NOT_AVAILABLE", "to itself"),
        ("crash", "libze.so.1: cannot open shared object file: No such file or directory", "install the library"),
        ("crash", "the process was killed by SIGSEGV", "update the driver"),
        ("error", "RuntimeError: clBuildProgram failed: BUILD_PROGRAM_FAILURE\nerror: bad", "update the driver"),
    ],
)
def test_a_new_driver_is_the_remedy_only_where_nothing_else_is_to_blame(children, status, log, remedy):
    children.append(ChildResult(status, None, log, 1.0))
    told = judge().remedy
    assert remedy in told
    assert told.startswith("update") == (remedy == "update the driver")


LATE = ChildResult("timeout", None, "no answer within 20 s", 20.0)


def test_a_check_that_took_too_long_says_nothing_of_the_device_and_is_made_again(children):
    children += [LATE, RIGHT, LATE]
    late = judge()
    assert not late.measured
    assert not late.usable
    assert "unknown" in late.reason
    assert "20 s" in late.reason
    assert "update" not in late.remedy
    assert "--timeout" in late.remedy
    right = judge()
    assert right.usable
    assert right.measured
    assert judge() == right


def test_a_missing_package_says_nothing_of_the_device_and_it_is_checked_again(children):
    message = "ModuleNotFoundError: No module named 'pytools'"
    children += [ChildResult("error", None, message, 1.0, unimportable=True), RIGHT]
    missing = judge()
    assert (missing.usable, missing.measured) == (False, False)
    assert "pytools" in missing.reason
    assert missing.remedy.startswith("install")
    assert judge().usable


def test_a_check_that_took_too_long_does_not_replace_what_was_seen(children):
    children += [RIGHT, LATE, WRONG]
    right = judge()
    assert not judge(refresh=True).measured
    assert judge() == right


def test_a_caller_s_limit_is_kept_and_the_usual_one_grows_on_slow_machines():
    assert usable._limits(0.5) == (0.5, 0.5)
    assert usable._limits(20, 120) == (20, 120)
    usual, most = usable._limits(None)
    assert most > 5 * usual


@pytest.mark.parametrize("status", ["crash", "timeout", "error"])
def test_a_child_that_fails_is_not_usable_and_says_how(children, status):
    children.append(ChildResult(status, None, "ended by SIGABRT", 1.0))
    verdict = judge()
    assert not verdict.usable
    assert "SIGABRT" in verdict.reason
    assert verdict.remedy


def test_the_smaller_of_the_measured_and_the_known_loop_limit_holds():
    old = DeviceFacts(name="llvmpipe (LLVM 15)", driver_version="22.3.6")
    assert quirks.loop_limit(old, None) == 65_535
    assert quirks.loop_limit(old, 1000) == 1000
    assert quirks.loop_limit(old, 100_000) == 65_535
    assert quirks.loop_limit(POCL, None) is None
    assert quirks.loop_limit(POCL, 70) == 70
    assert "Mesa 25.0" in quirks.loop_notice(old, 65_535)
    assert "70 iterations" in quirks.loop_notice(POCL, 70)
    assert "another runtime" in quirks.loop_notice(POCL, 70)


INTEL = DeviceFacts(platform_name="Intel(R) OpenCL", name="AMD EPYC", type=("CPU",))
SIMULATOR = DeviceFacts(name="Oclgrind Simulator", type=("CPU", "GPU", "ACCELERATOR"))
SHORT = DeviceFacts(name="llvmpipe (LLVM 15)", driver_version="22.3.6", type=("CPU",))


def test_a_runtime_that_cannot_know_the_processor_names_another_one_that_works(monkeypatch):
    monkeypatch.setattr(usable.icd, "hiding_variable", lambda _: "")
    remedy = next(quirk.workaround for quirk in quirks.table() if quirk.name == "pocl-unknown-cpu")
    broken = usable.Usability(False, "unknown target CPU", remedy, 1.0)
    works = usable.Usability(True, "right", "", 1.0)
    there = [(DeviceAddress(i, 0, "", ""), of) for i, of in enumerate((POCL, SIMULATOR, SHORT, INTEL))]
    checked = [(address, of, broken if of is POCL else works) for address, of in there]
    told = usable.with_alternative(broken, checked)
    assert "3:0 AMD EPYC (Intel(R) OpenCL)" in told.remedy
    assert "same processor" in told.remedy
    assert "pip install" not in told.remedy
    assert usable.with_alternative(broken, checked[:3]) == broken
    other = usable.Usability(False, "aborted", "set POCL_WORK_GROUP_METHOD=cbs", 1.0)
    assert usable.with_alternative(other, checked) == other
    assert usable.with_alternative(works, checked) == works
    monkeypatch.setattr(usable.icd, "hiding_variable", lambda _: "OCL_ICD_VENDORS")
    assert "unset OCL_ICD_VENDORS" in usable.with_alternative(broken, checked[:3]).remedy


def test_a_remedy_is_given_only_for_a_symptom_that_was_seen():
    abort = 'addContextSaveRestore: Assertion `0 && "Cannot add context restore for a PHI node"\' failed.'
    pocl6 = DeviceFacts(platform_version="OpenCL 3.0 PoCL 6.0")
    assert "POCL_WORK_GROUP_METHOD=cbs" in quirks.remedy(pocl6, abort)
    assert quirks.remedy(pocl6, "out of memory") == ""
    assert quirks.remedy(POCL, "") == ""


APPLE = DeviceFacts(
    platform_name="Apple",
    platform_version="OpenCL 1.2 (Apr 18 2025 21:45:30)",
    name="Apple M1",
    type=("GPU",),
    opencl_c_versions=("1.2",),
    atomic_memory_capabilities=("relaxed", "acq_rel", "scope_device"),
)


def test_a_device_of_apple_s_opencl_is_listed_and_never_used(children):
    """No kernel runs on it, neither by a check nor by a program."""
    verdict = usable._check(ADDRESS, APPLE, (20, 20), refresh=True)
    assert not verdict.usable
    assert "does not use" in verdict.reason
    assert "pocl" in verdict.remedy
    for overrides in ({}, {"atomics": "cl12"}):
        with pytest.raises(UnsupportedFeatureError, match=r"does not use Apple M1: .*deprecated.*pocl"):
            choose(DeviceProfile(APPLE, Findings(ordering={"cl12": "pass"})), overrides)
    choose(DeviceProfile(replace(APPLE, platform_name="Orange", opencl_c_versions=("1.2", "3.0"))))
    assert not children


def test_platforms_without_devices_are_reported_with_what_helps(monkeypatch):
    monkeypatch.delenv("RUSTICL_ENABLE", raising=False)
    names = ("rusticl", "Clover", "Other")
    empty = {name: usable.explain_empty(DeviceFacts(platform_name=name)) for name in names}
    assert "RUSTICL_ENABLE=llvmpipe" in empty["rusticl"].remedy
    assert "rusticl" in empty["Clover"].remedy
    assert empty["Other"].remedy
    assert [platform.is_fault for platform in empty.values()] == [False, False, True]
    monkeypatch.setenv("RUSTICL_ENABLE", "llvmpipe")
    assert "RUSTICL_ENABLE" not in usable.explain_empty(DeviceFacts(platform_name="rusticl")).remedy


@pytest.mark.parametrize("variable", ["POCL_CACHE_DIR", "XDG_CACHE_HOME", "HOME"])
def test_pocl_without_a_folder_for_its_cache_names_the_variable_to_set(variable, tmp_path, monkeypatch):
    for name in ("POCL_CACHE_DIR", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv(variable, str(tmp_path / "some" / "where"))
    assert quirks.remedy(POCL, quirks.NO_DEVICES) == ""
    (tmp_path / "some").write_text("not a folder")
    assert "POCL_CACHE_DIR" in quirks.remedy(POCL, quirks.NO_DEVICES)
    assert quirks.remedy(DeviceFacts(platform_version="CUDA"), quirks.NO_DEVICES) == ""


@pytest.mark.device
def test_real_devices_are_checked_without_touching_this_process():
    before = dict(os.environ)
    verdicts = usable.check_listed([(address, facts(device)) for address, device in list_devices()])
    assert any(verdict.usable for _, verdict in verdicts), verdicts
    assert all(verdict.reason and bool(verdict.remedy) != verdict.usable for _, verdict in verdicts)
    address, verdict = verdicts[0]
    assert usable.check(address) == usable.check(address.resolve()) == verdict
    assert dict(os.environ) == before
