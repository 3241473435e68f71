"""Instructions of the host's processor in kernels: which ones, by machine and findings, and that they are machine code."""

from __future__ import annotations

import platform
import re
import sys
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from portbar.backends import host_threads
from portbar.backends.selection import units_of
from portbar.device.facts import DeviceFacts
from portbar.device.findings import Findings
from portbar.rendering.parts import Def, parts_in
from portbar.rendering.templates import render_def
from tests.gpu_code import Target, compiled_alone

CPU = DeviceFacts(name="Host", type=("CPU",))
NAMES = ("relax", "yield_processor", "lost_race", "trace_clock")
ALL = {"yield_syscall": True, "asm_anywhere": True}


def instructions(
    monkeypatch: pytest.MonkeyPatch, machine: str, builds: dict[str, bool], system: str = "linux"
) -> set[str]:
    monkeypatch.setattr(platform, "machine", lambda: machine)
    monkeypatch.setattr(sys, "platform", system)
    return set(units_of(CPU, Findings(builds=builds)).instructions)


@pytest.mark.parametrize(
    ("machine", "probe", "clock"),
    [
        ("x86_64", "x86_pause", "cycle_counter"),
        ("AMD64", "x86_pause", "cycle_counter"),
        ("aarch64", "arm_pause", "virtual_counter"),
        ("arm64", "arm_pause", "virtual_counter"),
    ],
)
def test_each_processor_has_the_instructions_that_its_own_probe_saw(monkeypatch, machine, probe, clock):
    other = {"x86_pause": "arm_pause", "arm_pause": "x86_pause"}[probe]
    assert instructions(monkeypatch, machine, {probe: True}) == {"pause", clock}
    assert instructions(monkeypatch, machine, {probe: True, **ALL}) == {"pause", clock, "yield", "anywhere"}
    assert instructions(monkeypatch, machine, {other: True, **ALL}) == set()
    # System calls have Linux's numbers.
    assert instructions(monkeypatch, machine, {probe: True, **ALL}, "darwin") == {"pause", clock, "anywhere"}


def test_other_processors_have_none(monkeypatch):
    for machine in ("riscv64", "ppc64le", "armv7l", ""):
        assert instructions(monkeypatch, machine, {"x86_pause": True, "arm_pause": True, **ALL}) == set()


def test_each_processor_has_the_text_of_its_own(monkeypatch):
    for machine, word in (("x86_64", "pause"), ("aarch64", "isb")):
        monkeypatch.setattr(platform, "machine", lambda machine=machine: machine)
        template = units_of(CPU).template
        assert f'__asm__ volatile("{word}"' in render_def(template, "relax", {})


def test_only_compilers_that_take_no_assembly_in_kernels_get_another_text(monkeypatch):
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    for version, template in (
        ("OpenCL 3.0 PoCL 5.0  Linux", "backend/x86_apart.mako"),
        ("OpenCL 3.0 PoCL 3.1  Linux", "backend/host_threads.mako"),
        ("OpenCL 3.0 PoCL 7.1  Linux", "backend/host_threads.mako"),
        ("OpenCL 3.0 LINUX", "backend/host_threads.mako"),
    ):
        facts = replace(CPU, platform_version=version)
        assert units_of(facts, Findings(builds={"x86_pause": True, **ALL})).template == template
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    for version, template in (("5.0", "backend/aarch64_apart.mako"), ("7.1", "backend/aarch64.mako")):
        assert units_of(replace(CPU, platform_version=f"OpenCL 3.0 PoCL {version}")).template == template


@pytest.mark.parametrize(
    ("template", "apart"),
    [
        ("backend/x86_apart.mako", {"yield_processor": "yield"}),
        ("backend/aarch64_apart.mako", {"yield_processor": "yield", "trace_clock": "clock"}),
    ],
)
def test_such_compilers_get_assembly_in_a_function_that_stays_apart(template, apart):
    texts = {name: render_def(template, name, {}) for name in NAMES}
    assert {name for name, text in texts.items() if "__asm__" in text} == set(apart)
    for name, function in apart.items():
        before, called, after = texts[name].partition(f"__pocl_print_portbar_{function}(void)")
        assert called
        assert "noinline" in before
        body, _, rest = after.partition("\n}")
        assert "__asm__" in body
        assert "__asm__" not in rest


@dataclass(frozen=True)
class Code:
    """Patterns of the functions' machine code."""

    machine: str
    pause: str
    yields: str
    clock: str


CODES = (
    Code("x86_64", r"\bpause\b", r"movl\s+\$24, %eax\s+syscall", r"\blfence\b.*\brdtsc\b"),
    Code("aarch64", r"\bisb\b", r"mov\s+x8, #?(?:124|0x7c)\s+svc\s+#?0", r"\bisb\b.*\bmrs\s+x\d+, CNTVCT_EL0"),
)

USES = """
void uses(global ulong *a, uint round)
{
    portbar_relax(1u);
    portbar_yield(round);
    portbar_lost_race();
    a[0] = portbar_trace_clock();
}
"""


@pytest.mark.parametrize("place", ["template", "apart"])
@pytest.mark.parametrize("code", CODES, ids=lambda code: code.machine)
def test_pauses_yields_and_the_clock_are_machine_code(code: Code, place: str, tmp_path: Path):
    processor = next(one for one in host_threads.PROCESSORS if code.machine in one.machines)
    template = getattr(processor, place)
    if not template:
        pytest.skip("this processor has one template")
    text = "".join(render_def(template, name, {}) for name in NAMES)
    target = Target(code.machine, "c11", ("-target", f"{code.machine}-linux-gnu", "-cl-std=CL2.0"))
    listing = compiled_alone(target, text + USES, tmp_path)
    for shape in (code.pause, code.yields, code.clock):
        assert re.search(shape, listing, re.DOTALL | re.IGNORECASE), f"{shape}\n{listing}"


TEMPLATES = [template for one in host_threads.PROCESSORS for template in (one.template, one.apart) if template]


@pytest.mark.parametrize("template", TEMPLATES)
def test_programs_get_the_instructions_that_they_use_alone(template):
    for name in NAMES:
        (part,) = parts_in(Def(template, name, {}).parts(None))
        assert part.names
        assert set(part.names) <= part.words
