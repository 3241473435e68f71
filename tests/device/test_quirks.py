"""Every entry of the quirk table has a program that shows its fault without portbar's workaround, and fails where it is gone.

A fault shows in a child process with a time limit. It is looked for on the device under test (`PORTBAR_TEST_PLATFORM`) where
the table says that this device has it; the faults of platforms that list no devices are looked for once, by the host tests.
When a test fails, the entry's range of versions, or the entry, can go.
"""

from __future__ import annotations

import importlib
import json
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyopencl as cl
import pyopencl.array
import pytest
from click.testing import CliRunner

from portbar import BuildError, Program, describe
from portbar.choices.profile import forget
from portbar.choices.strategy import choose
from portbar.cli import doctor
from portbar.device import matrix, quirks
from portbar.device.addresses import address_of
from portbar.device.child import ChildResult
from portbar.device.facts import DeviceFacts, device_key, facts
from portbar.device.quirks import mesa
from portbar.device.quirks.entry import Quirk, QuirkKernel, returns, run
from tests.checkout import ROOT
from tests.device import quirk_programs_host
from tests.machine import Platform

QUIRKS = quirks.table()
OF_DEVICES = [quirk for quirk in QUIRKS if quirk.platform]
OF_PLATFORMS = [quirk for quirk in QUIRKS if not quirk.platform]


def named(quirk: Quirk) -> str:
    return quirk.name


def by_name(name: str) -> Quirk:
    return next(quirk for quirk in QUIRKS if quirk.name == name)


def told(result: ChildResult) -> str:
    return f"{result.status}, value {result.value}, reports {result.progress}\n{result.message}"


def flags_of_processor() -> set[str]:
    """The flags of the host's processor, and its vendor."""
    text = Path("/proc/cpuinfo").read_text(encoding="utf-8") if Path("/proc/cpuinfo").exists() else ""
    return set(re.findall(r"\w+", text))


def function(task: str) -> Callable[..., Any]:
    module, _, name = task.partition(":")
    found: Callable[..., Any] = getattr(importlib.import_module(module), name)
    return found


@pytest.mark.device
@pytest.mark.slow
@pytest.mark.timeout(180)
@pytest.mark.parametrize("quirk", OF_DEVICES, ids=named)
def test_the_fault_shows(quirk: Quirk, device: Any, findings: Any) -> None:
    reported = facts(device)
    if not quirk.matches(reported):
        pytest.skip(f"the table does not say that {reported.name} ({reported.platform_version}) has {quirk.name}")
    if lacking := set(quirk.flags) - flags_of_processor():
        pytest.skip(f"{quirk.name} does not show on a processor without {', '.join(sorted(lacking))}")
    result = run(quirk, address_of(device))
    assert quirk.shown_by(result), f"{quirk.name} does not show any more: its entry may go\n{told(result)}"


@pytest.mark.device
@pytest.mark.slow
def test_the_programs_are_right_where_the_fault_is_not(device: Any) -> None:
    """A program that reports a fault on every device would never fail."""
    names = ("llvmpipe-loop-limit", "llvmpipe-fences", "intel-queue-without-context", "oclgrind-claims-all-types")
    without = [quirk for quirk in map(by_name, names) if not quirk.matches(facts(device))]
    assert len(without) >= 2
    for quirk in without:
        result = run(quirk, address_of(device))
        assert result.status == "ok", f"{quirk.name}\n{told(result)}"
        assert not quirk.shown_by(result), f"{quirk.name} shows where the table does not know it\n{told(result)}"


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="OCL_ICD_VENDORS is how Linux chooses runtimes")
@pytest.mark.parametrize("quirk", OF_PLATFORMS, ids=named)
def test_the_fault_of_the_platform_shows(quirk: Quirk, tmp_path: Path) -> None:
    function(quirk.task)(tmp_path, quirk.symptom)


def test_a_fault_of_another_kind_is_not_taken_for_an_unknown_processor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    linker = 'Executable "ld" doesn\'t exist!'
    seen = Platform("Portable Computing Language PoCL 3.0", "Portable Computing Language", "pthread", 2, linker)
    monkeypatch.setattr(quirk_programs_host, "ask", lambda *_: ([seen], ""))
    monkeypatch.setattr(quirk_programs_host, "processor_is_new", lambda: False)
    symptom = by_name("pocl-unknown-cpu").symptom
    with pytest.raises(pytest.skip.Exception, match="another reason: Executable"):
        quirk_programs_host.unknown_cpu(tmp_path, symptom)
    monkeypatch.setattr(quirk_programs_host, "processor_is_new", lambda: True)
    with pytest.raises(AssertionError, match="the wheel compiles"):
        quirk_programs_host.unknown_cpu(tmp_path, symptom)


@pytest.fixture
def throw_away(device: Any) -> Iterator[Quirk]:
    """An entry for the device under test, with an effect that no code asks for."""
    reported = facts(device)
    yield Quirk(
        name="throw-away",
        where=lambda of: device_key(of) == device_key(reported),
        effect="sevens are eights",
        loop_limit=777,
        fault="seven is not eight",
        seen="on the device under test",
        workaround="write eight",
        platform=reported.platform_name,
        kernels=tuple(QuirkKernel(f"kernel void k(global uint *o) {{ o[0] = {n}u; }}", words=1) for n in (8, 7)),
        controls=1,
        shows=returns(lambda words: words == [7]),
    )
    forget()


@pytest.mark.device
def test_an_entry_from_outside_works_like_the_others(device: Any, throw_away: Quirk) -> None:
    def seen() -> tuple[bool, bool, bool, bool]:
        # Profiles are kept; the cache of findings has no part in this.
        forget()
        return (
            throw_away in quirks.matching(facts(device)),
            quirks.has_effect("sevens are eights", facts(device)),
            describe(device).loop_limit == 777,
            "## throw-away\n\nSeven is not eight." in quirks.markdown(),
        )

    assert not any(seen())
    with quirks.registered(throw_away):
        assert all(seen())
        report = json.loads(CliRunner().invoke(doctor.command, ["--json"]).stdout)
        on_device = [one for one in report["devices"] if throw_away.name in [quirk["name"] for quirk in one["quirks"]]]
        assert [one["name"] for one in on_device] == [facts(device).name], report
        shown = run(throw_away, address_of(device))
        assert throw_away.shown_by(shown), told(shown)
        assert shown.progress == [{"found": [8]}]
        with pytest.raises(ValueError, match="throw-away"), quirks.registered(throw_away):
            pass
    assert not any(seen())
    mended = replace(throw_away, kernels=throw_away.kernels[:1], controls=0)
    assert not mended.shown_by(run(mended, address_of(device)))


@pytest.mark.device
def test_the_error_of_a_build_says_what_helps(device: Any, throw_away: Quirk) -> None:
    known = replace(throw_away, symptom="seven_is_eight", loop_limit=0)
    program = "kernel void k(global uint *out) { out[0] = seven_is_eight; }"
    with quirks.registered(known), pytest.raises(BuildError, match=r"Hint: .*write eight.*portbar doctor"):
        Program(cl.Context([device]), program).kernel("k")


def test_a_fault_does_not_show_before_the_controls_have_run() -> None:
    quirk = by_name("intel-values-across-barriers")
    crash = ChildResult("crash", None, quirk.symptom, 1.0)
    assert not quirk.shown_by(crash)
    assert quirk.shown_by(replace(crash, progress=[{"found": []}]))
    assert not quirk.shown_by(replace(crash, progress=[{"found": []}], message="another"))


# The table itself.


@pytest.mark.parametrize("quirk", QUIRKS, ids=named)
def test_an_entry_is_complete_and_its_command_runs_its_program(quirk: Quirk) -> None:
    assert all([quirk.fault, quirk.seen, quirk.workaround])
    found = re.fullmatch(
        r'(?:PORTBAR_TEST_PLATFORM="([\w .]+)" )?python -m pytest (tests/[\w/]+\.py) -k ([\w-]+)', quirk.retire
    )
    assert found, quirk.retire
    assert (ROOT / found[2], found[3]) == (Path(__file__).resolve(), quirk.name)
    # `-k` takes parts of names.
    assert [one.name for one in QUIRKS if quirk.name in one.name] == [quirk.name]
    assert bool(quirk.kernels) != bool(quirk.task)
    if quirk.task:
        assert callable(function(quirk.task))


@pytest.mark.parametrize("effect", sorted({quirk.effect for quirk in QUIRKS} - {""}))
def test_an_effect_is_asked_for_by_its_name(effect: str) -> None:
    """An entry without effect on portbar needs none; a workaround on every device is named in a comment there."""
    (constant,) = [name for name, value in vars(quirks).items() if value == effect]
    texts = [
        path.read_text(encoding="utf-8")
        for path in (*(ROOT / "portbar").rglob("*.py"), *(ROOT / "cl_templates").rglob("*.mako"))
        if path.parent.name != "quirks"
    ]
    everywhere = {quirk.everywhere for quirk in QUIRKS if quirk.effect == effect}
    asking = any(f"quirks.{constant}" in text for text in texts)
    assert asking != everywhere.pop() or constant == "ANOTHER_RUNTIME"
    assert not everywhere, f"{effect} is worked around on every device for some entries and not for others"
    assert asking or constant == "ANOTHER_RUNTIME" or any(f"effect {constant}" in text for text in texts)


@pytest.mark.parametrize("quirk", QUIRKS, ids=named)
def test_templates_name_effects_instead_of_entries(quirk: Quirk) -> None:
    naming = [str(path) for path in (ROOT / "cl_templates").rglob("*.mako") if quirk.name in path.read_text("utf-8")]
    assert not naming, f"say what {quirk.name} does to the code there"


def pocl(release: str) -> DeviceFacts:
    return DeviceFacts(platform_name="Portable Computing Language", platform_version=f"OpenCL 3.0 PoCL {release}")


def llvmpipe(driver: str) -> DeviceFacts:
    return DeviceFacts(name="llvmpipe (LLVM 15)", driver_version=driver)


def rusticl(driver: str) -> DeviceFacts:
    return replace(llvmpipe(driver), platform_name="rusticl")


def intel(kind: str) -> DeviceFacts:
    return DeviceFacts(platform_name="Intel(R) OpenCL", type=(kind,), extensions=("cl_intel_concurrent_dispatch",))


POCL = pocl("3.0-rc2  Linux, Release, RELOC, LLVM 14.0.6, SLEEF")
OCLGRIND = DeviceFacts(name="Oclgrind Simulator")


@pytest.mark.parametrize(
    ("name", "has", "has_not", "log"),
    [
        ("pocl-without-linker", replace(POCL, type=("CPU",)), DeviceFacts(type=("CPU",)), ""),
        ("pocl-unknown-cpu", POCL, DeviceFacts(platform_version="CUDA"), "error: unknown target CPU 'generic'"),
        ("rusticl-not-enabled", DeviceFacts(platform_name="rusticl"), POCL, quirks.NO_DEVICES),
        ("clover-without-devices", DeviceFacts(platform_name="Clover"), POCL, quirks.NO_DEVICES),
        ("llvmpipe-loop-limit", llvmpipe("22.3.6"), llvmpipe("25.0.7-2"), ""),
        ("rusticl-inline-assembly", rusticl("26.2.6-1"), llvmpipe("26.2.6-1"), ""),
        ("rusticl-ignored-lines", rusticl("26.2.6-1"), rusticl("22.3.6"), ""),
        ("llvmpipe-long-bodies", llvmpipe("22.3.6"), DeviceFacts(driver_version="22.3.6"), ""),
        ("pocl-barrier-under-if", pocl("5.0+debian"), POCL, ""),
        ("pocl-break-after-return", pocl("7.1+debian"), llvmpipe("22.3.6"), ""),
        ("pocl-structure-copies", POCL, pocl("3.1+debian  Linux, None+Asserts, RELOC, SPIR, LLVM 15.0.6"), ""),
        ("pocl-uneven-loops", pocl("5.0+debian"), pocl("6.0+debian"), ""),
        ("pocl-wrapped-indices", pocl("7.1+debian  Linux, SPIR-V, LLVM 21.1.8"), pocl("6.0+debian, LLVM 18.1.8"), ""),
        ("pocl-arguments-unchecked", pocl("6.0+debian"), pocl("7.1+debian"), ""),
        ("pocl-samplers-in-command-buffers", POCL, pocl("5.0+debian"), ""),
        ("pocl-untold-local-memory", pocl("6.0+debian"), pocl("7.1+debian"), ""),
        ("intel-concurrent-bound", intel("CPU"), intel("GPU"), ""),
        ("intel-queue-without-context", intel("CPU"), intel("GPU"), ""),
        ("intel-values-across-barriers", intel("CPU"), POCL, ""),
        ("nvidia-c11-store-buffering", DeviceFacts(nvidia={"warp_size": 32}), POCL, ""),
        (
            "nvidia-groups-start-together",
            DeviceFacts(nvidia={"compute_capability_major": 9}),
            DeviceFacts(nvidia={"warp_size": 32}),
            "",
        ),
        ("rusticl-called-functions", rusticl("26.2.6-1"), rusticl("25.0.7-2"), ""),
        ("oclgrind-flush-waits", OCLGRIND, DeviceFacts(name="pthread"), ""),
        ("oclgrind-claims-all-types", OCLGRIND, POCL, ""),
    ],
)
def test_an_entry_matches_where_it_was_seen_and_not_elsewhere(
    name: str, has: DeviceFacts, has_not: DeviceFacts, log: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in ("RUSTICL_ENABLE", "POCL_WORK_GROUP_METHOD"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr(sys, "platform", "linux")
    assert by_name(name) in quirks.matching(has, log)
    assert by_name(name) not in quirks.matching(has_not, log)


#: Facts of every implementation in the table, and of all devices with a record.
SEEN = (
    *(pocl(f"{release}  LLVM {llvm}.0.1") for release in ("3.0", "5.0+debian", "6.0", "7.1") for llvm in (14, 18, 21)),
    *(kind(driver) for kind in (llvmpipe, rusticl) for driver in ("22.3.6", "25.0.7-2", "26.2.6-1")),
    *(replace(intel(kind), extensions=extensions) for kind in ("CPU", "GPU") for extensions in ((), ("cl_khr_fp64",))),
    *(intel("CPU"), replace(intel("CPU"), platform_name="another"), OCLGRIND),
    *(DeviceFacts(nvidia=known) for known in ({"warp_size": 32}, {"compute_capability_major": 9})),
    *(DeviceFacts(platform_name=name) for name in ("Apple", "Clover", "rusticl")),
    *(known[1] for known in matrix._records()),
)


@pytest.mark.parametrize("module", quirks.MODULES)
def test_a_module_is_imported_wherever_one_of_its_entries_may_match(
    module: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("RUSTICL_ENABLE", raising=False)
    for method in ("loopvec", "cbs"):
        monkeypatch.setenv("POCL_WORK_GROUP_METHOD", method)
        for of in SEEN:
            wrong = [entry.name for entry in quirks._entries(module) if entry.where(of)]
            assert not wrong or quirks.MODULES[module](of), f"{wrong} match {of}"
    assert not all(quirks.MODULES[module](of) for of in SEEN)


def test_all_modules_of_entries_are_in_the_table() -> None:
    folder = Path(quirks.__file__).parent
    found = {path.stem for path in folder.glob("*.py") if "\nENTRIES = " in path.read_text("utf-8")}
    assert found == set(quirks.MODULES)


def test_functions_that_kernels_share_are_inlined_where_that_ends_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    name = "rusticl-shared-functions"
    monkeypatch.setattr(mesa, "host_architecture", lambda: "riscv64")
    quirks._of_device.cache_clear()
    try:
        assert by_name(name) in quirks.matching(rusticl("25.0.7-2"))
        assert by_name(name) not in quirks.matching(rusticl("26.2.6-1"))
        monkeypatch.setattr(mesa, "host_architecture", lambda: "x86_64")
        assert by_name(name) not in quirks.matching(rusticl("25.0.7-2"))
    finally:
        quirks._of_device.cache_clear()


@pytest.mark.device
def test_a_program_with_shared_functions_builds_with_all_of_them_inlined(context: Any, device: Any, queue: Any) -> None:
    """The workaround for another processor compiles here, and changes nothing."""
    if describe(device).facts.nvidia:
        pytest.skip("NVIDIA's compiler does not give functions attributes by a pragma")
    strategy = choose(describe(device))
    strategy = replace(strategy, workarounds=strategy.workarounds | {quirks.CALLS_SHARED})
    source = '#include "portbar/atomics.h"\n' + mesa._SHARED.replace(
        "out[0] =", "portbar_atomic_add(&out[0], 1u); out[0] +="
    )
    program = Program(context, source, strategy=strategy, devices=[device])
    assert "apply_to = function" in program.rendered(device)
    words = cl.array.to_device(queue, np.array([0, 5], np.uint32))
    for kernel in ("first", "second"):
        program.kernel(kernel)(queue, (1,), (1,), words).wait()
    assert int(words.get()[0]) == 1 + 16 + 1 + 17


@pytest.mark.parametrize(
    ("page", "made", "option"), [("quirks", quirks.markdown, ""), ("verification", quirks.tests_markdown, " --tests")]
)
def test_the_pages_are_what_the_table_says(page: str, made: Callable[[], str], option: str) -> None:
    text = (ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8")
    begun, table = text.split("<!-- table -->\n")
    assert table == made(), f"put in what `python -m portbar.device.quirks{option}` prints"
    assert f"{'portbar doctor' if not option else option.strip()}" in begun
