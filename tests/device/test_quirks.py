"""Every entry of the quirk table has a test here that shows its fault without portbar's workaround, and fails where it is gone.

A fault shows in a child process with a time limit. It is looked for on the device under test (`PORTBAR_TEST_PLATFORM`) where
the table says that this device has it; the faults of platforms that list no devices are looked for once, by the host tests.
When a test fails, the entry's range of versions, or the entry, can go.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from portbar.device import child, quirks
from portbar.device.child import ChildResult
from portbar.device.facts import DeviceFacts, address_of, facts
from portbar.device.quirks import QUIRKS, Quirk
from tests.checkout import ROOT
from tests.device import quirk_programs_host as host

HERE = Path(__file__).resolve()


@dataclass(frozen=True)
class Reproduction:
    """How a fault of a device shows: a function of `tests.device.quirk_programs`, and what tells the fault from health."""

    task: str
    shows: Callable[[ChildResult], object]
    payload: dict[str, Any] = field(default_factory=dict)
    limit: float = 30.0
    environment: dict[str, str] = field(default_factory=dict)


def value(of: Callable[[Any], object]) -> Callable[[ChildResult], object]:
    """The fault shows in what the task returned."""
    return lambda result: result.status == "ok" and of(result.value)


def symptom(name: str) -> str:
    return next(quirk.symptom for quirk in QUIRKS if quirk.name == name)


def aborts(name: str) -> Callable[[ChildResult], object]:
    """The fault takes the process down, with the words that the table knows it by."""
    return lambda result: result.status == "crash" and re.search(symptom(name), result.message)


WORK_GROUP_SIZE = Reproduction(
    "tests.device.quirk_programs:work_group_sizes",
    value(lambda found: found["right"] and found["said"] < found["size"]),
)

#: With the other method, which is the workaround, these do not show.
LOOPVEC = {"POCL_WORK_GROUP_METHOD": "loopvec"}

REPRODUCTIONS: dict[str, Reproduction] = {
    "llvmpipe-loop-limit": Reproduction("tests.device.quirk_programs:counted", value(lambda rounds: rounds == 65_535)),
    "pocl-barrier-under-if": Reproduction(
        "tests.device.quirk_programs:conditional_barriers",
        lambda result: result.status == "crash",
        limit=60,
        environment=LOOPVEC,
    ),
    "pocl-loops-in-branches": Reproduction(
        "tests.device.quirk_programs:looped_twice", aborts("pocl-loops-in-branches"), limit=60
    ),
    "pocl-leader-forgotten": Reproduction(
        "tests.device.quirk_programs:left_behind",
        value(lambda missed: missed > 0),
        payload={"forgotten": False},
        limit=60,
        environment=LOOPVEC,
    ),
    "pocl-cbs-ids": Reproduction(
        "tests.device.quirk_programs:numbered", value(lambda found: found != 2 * list(range(1, 9)))
    ),
    "pocl-cbs-loop": Reproduction("tests.device.quirk_programs:copied", value(lambda found: found == [0] * 48)),
    "pocl-break-after-return": Reproduction(
        "tests.device.quirk_programs:rounds_of_one",
        # With one exit it is right. With a break it is run by all 64 work-items of each group, or hangs.
        lambda result: (
            result.progress[:1] == [{"rounds": 400}]
            and (result.status == "timeout" or result.progress[1:] == [{"rounds": 64 * 400}])
        ),
        limit=15,
    ),
    "pocl-uneven-loops": Reproduction(
        "tests.device.quirk_programs:uneven", value(lambda last: last != [96, 97, 98, 99, 92, 93, 94, 95] * 4)
    ),
    "pocl-structure-copies": Reproduction("tests.device.quirk_programs:kept", value(lambda found: found == [8] * 8)),
    "intel-concurrent-bound": Reproduction(
        "tests.device.quirk_programs:promised",
        lambda result: (
            result.status == "timeout"
            and result.progress[:2] == [{"launched": 2}, {"met": 2}]
            and len(result.progress) == 3
        ),
        limit=15,
    ),
    "intel-local-atomics": Reproduction("tests.device.quirk_programs:small_object", value(lambda same: same == 2)),
    "intel-queue-without-context": Reproduction(
        "tests.device.quirk_programs:without_its_context",
        value(lambda said: re.search(symptom("intel-queue-without-context"), said)),
    ),
    "intel-failed-wait-list": Reproduction(
        "tests.device.quirk_programs:failed",
        lambda result: result.status == "crash" and result.progress == [{"status": 0, "failed": True}],
    ),
    "intel-queues-split-threads": Reproduction(
        "tests.device.quirk_programs:split", value(lambda met: met["two"] < met["one"] - 5), limit=60
    ),
    "intel-values-across-barriers": Reproduction(
        "tests.device.quirk_programs:carried",
        lambda result: aborts("intel-values-across-barriers")(result) and result.progress == [{"built": "volatile"}],
    ),
    "nvidia-work-group-size": WORK_GROUP_SIZE,
    "nvidia-kernel-without-arguments": Reproduction(
        "tests.device.quirk_programs:builds",
        value(lambda said: re.search(symptom("nvidia-kernel-without-arguments"), said)),
        {"source": "kernel void nothing(void) { }", "options": ["-cl-kernel-arg-info"]},
    ),
    "nvidia-c11-store-buffering": Reproduction(
        "tests.device.quirk_programs:missed_stores", value(lambda found: found["both"] > 0), {"seconds": 15.0}, limit=60
    ),
    "llvmpipe-work-group-size": WORK_GROUP_SIZE,
    "llvmpipe-fences": Reproduction(
        "tests.device.quirk_programs:exchanged", value(lambda drawn: drawn != list(range(1, 65)))
    ),
    "oclgrind-inlined-structures": Reproduction(
        "tests.device.quirk_programs:structures",
        lambda result: (
            aborts("oclgrind-inlined-structures")(result)
            and result.progress == [{"created": "__attribute__((noinline))"}]
        ),
    ),
    "oclgrind-flush-waits": Reproduction(
        "tests.device.quirk_programs:flushed",
        lambda result: result.status == "timeout" and result.progress == [{"flushed": 0}],
        limit=8,
    ),
    "oclgrind-claims-all-types": Reproduction(
        "tests.device.quirk_programs:types", value(lambda types: {"CPU", "GPU", "ACCELERATOR"} <= set(types))
    ),
}


def by_name(name: str) -> Quirk:
    return next(quirk for quirk in QUIRKS if quirk.name == name)


def told(result: ChildResult) -> str:
    return f"{result.status}, value {result.value}, reports {result.progress}\n{result.message}"


@pytest.mark.device
@pytest.mark.slow
@pytest.mark.timeout(180)
@pytest.mark.parametrize("name", REPRODUCTIONS)
def test_the_fault_shows(name: str, device: Any, findings: Any) -> None:
    reported = facts(device)
    if not by_name(name).matches(reported, ""):
        pytest.skip(f"the table does not say that {reported.name} ({reported.platform_version}) has {name}")
    one = REPRODUCTIONS[name]
    payload = {"address": address_of(device).to_json(), **one.payload}
    # What a compiler gets wrong must be compiled.
    environment = {"PYOPENCL_NO_CACHE": "1", "POCL_KERNEL_CACHE": "0", **one.environment}
    result = child.run_task(one.task, payload, timeout=one.limit, env=environment)
    assert one.shows(result), f"{name} does not show any more: its entry may go\n{told(result)}"


@pytest.mark.device
@pytest.mark.slow
def test_the_programs_are_right_where_the_fault_is_not(device: Any) -> None:
    """A reproduction that tells of a fault on every device would never fail."""
    reported, address = facts(device), address_of(device).to_json()
    tried = 0
    for name in ("llvmpipe-loop-limit", "llvmpipe-fences", "intel-queue-without-context", "oclgrind-claims-all-types"):
        if by_name(name).matches(reported, ""):
            continue
        one = REPRODUCTIONS[name]
        result = child.run_task(
            one.task, {"address": address, **one.payload}, timeout=60, env={"PYOPENCL_NO_CACHE": "1"}
        )
        assert result.status == "ok", f"{name}\n{told(result)}"
        assert not one.shows(result), f"{name} shows on a device that the table does not know it of\n{told(result)}"
        tried += 1
    assert tried >= 2


# Faults of whole platforms: each child sees one runtime and an environment of its own.


def _unknown_cpu(tmp_path: Path) -> None:
    result = host.ask("build", env=host.only_the_wheel(tmp_path))
    if result["platforms"] == {}:
        pytest.skip("PoCL's wheel (pocl-binary-distribution) is not installed")
    said = "\n".join(result["said"].values())
    if not said and not host.processor_is_new():
        pytest.skip("this processor is older than the compiler inside PoCL's wheel, which knows it")
    assert re.search(symptom("pocl-unknown-cpu"), said), f"the wheel compiles for this processor\n{result}"


def _unwritable_cache(tmp_path: Path) -> None:
    library = host.library("pocl")
    environment = host.only(tmp_path, library) if library else host.only_the_wheel(tmp_path)
    folder = tmp_path / "cache"
    healthy = host.ask("list", env={**environment, "POCL_CACHE_DIR": str(folder)})
    pocl = [title for title in healthy["platforms"] if "PoCL" in title]
    if not pocl:
        pytest.skip("no PoCL on this machine")
    assert all(healthy["platforms"][title] for title in pocl)
    # No folder can be made below a file, not even by root.
    (tmp_path / "file").write_text("", encoding="utf-8")
    broken = host.ask("list", env={**environment, "POCL_CACHE_DIR": str(tmp_path / "file" / "cache")})
    assert not any(broken["platforms"].values()), f"PoCL lists devices without a cache that it can write\n{broken}"


def _rusticl_not_enabled(tmp_path: Path) -> None:
    library = host.library("rusticl")
    if not library:
        pytest.skip("no rusticl on this machine")
    environment = host.only(tmp_path, library)
    environment.pop("RUSTICL_ENABLE", None)
    found = host.ask("list", env=environment)["platforms"]
    (title,) = [title for title in found if title.startswith("rusticl")]
    assert not found[title], "rusticl lists devices without RUSTICL_ENABLE"
    found = host.ask("list", env={**environment, "RUSTICL_ENABLE": "llvmpipe"})["platforms"]
    assert found[title], "rusticl lists no device at all, so that this test shows nothing"


def _clover_without_devices(tmp_path: Path) -> None:
    library = host.library("mesa")
    if not library:
        pytest.skip("no Clover (mesa.icd) on this machine")
    found = host.ask("list", env=host.only(tmp_path, library))["platforms"]
    clover = [devices for title, devices in found.items() if title.startswith("Clover")]
    assert clover, f"mesa.icd is not Clover any more\n{found}"
    if clover[0]:
        pytest.skip("Clover has a device on this machine")


PLATFORM_REPRODUCTIONS: dict[str, Callable[[Path], None]] = {
    "pocl-unknown-cpu": _unknown_cpu,
    "pocl-unwritable-cache": _unwritable_cache,
    "rusticl-not-enabled": _rusticl_not_enabled,
    "clover-without-devices": _clover_without_devices,
}


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="OCL_ICD_VENDORS is how Linux chooses runtimes")
@pytest.mark.parametrize("name", PLATFORM_REPRODUCTIONS)
def test_the_fault_of_the_platform_shows(name: str, tmp_path: Path) -> None:
    pytest.importorskip("pyopencl")
    PLATFORM_REPRODUCTIONS[name](tmp_path)


# The table itself.


def test_every_entry_has_a_test_that_shows_its_fault() -> None:
    names = [*REPRODUCTIONS, *PLATFORM_REPRODUCTIONS]
    assert sorted(names) == sorted(quirk.name for quirk in QUIRKS)


@pytest.mark.parametrize("quirk", QUIRKS, ids=lambda quirk: quirk.name)
def test_the_command_that_retires_an_entry_runs_its_test(quirk: Quirk) -> None:
    found = re.fullmatch(
        r'(?:PORTBAR_TEST_PLATFORM="([\w .]+)" )?python -m pytest (tests/[\w/]+\.py) -k ([\w-]+)', quirk.retire
    )
    assert found, quirk.retire
    platform, path, name = found.groups()
    assert (ROOT / path) == HERE
    assert name == quirk.name
    assert (platform is not None) == (name in REPRODUCTIONS)


def test_no_name_is_a_part_of_another() -> None:
    """`-k` takes parts of names."""
    names = [quirk.name for quirk in QUIRKS]
    assert not [(one, other) for one in names for other in names if one != other and one in other]


@pytest.mark.parametrize(
    ("name", "has", "has_not"),
    [
        (
            "pocl-break-after-return",
            {"platform_version": "OpenCL 3.0 PoCL 3.1+debian"},
            {"platform_version": "PoCL 6.0"},
        ),
        (
            "pocl-structure-copies",
            {"platform_version": "OpenCL 3.0 PoCL 3.0-rc2  Linux, Release, RELOC, LLVM 14.0.6, SLEEF"},
            {"platform_version": "OpenCL 3.0 PoCL 3.1+debian  Linux, None+Asserts, RELOC, SPIR, LLVM 15.0.6, SLEEF"},
        ),
        (
            "intel-queue-without-context",
            {"platform_name": "Intel(R) OpenCL", "type": ("CPU",)},
            {"platform_name": "Intel(R) OpenCL", "type": ("GPU",)},
        ),
        (
            "intel-values-across-barriers",
            {"platform_name": "Intel(R) OpenCL", "type": ("CPU",)},
            {"platform_name": "Portable Computing Language", "type": ("CPU",)},
        ),
        ("nvidia-c11-store-buffering", {"nvidia": {"warp_size": 32}}, {}),
        ("oclgrind-flush-waits", {"name": "Oclgrind Simulator"}, {"name": "pthread"}),
    ],
)
def test_an_entry_matches_where_it_was_seen_and_not_elsewhere(
    name: str, has: dict[str, Any], has_not: dict[str, Any]
) -> None:
    assert by_name(name) in quirks.matching(DeviceFacts(**has))
    assert by_name(name) not in quirks.matching(DeviceFacts(**has_not))


def test_the_page_is_what_the_table_says() -> None:
    page = ROOT / "docs" / "quirks.md"
    begun, table = page.read_text(encoding="utf-8").split("<!-- table -->\n")
    assert table == quirks.markdown(), "put in what `python -m portbar.device.quirks` prints"
    assert "portbar doctor" in begun
