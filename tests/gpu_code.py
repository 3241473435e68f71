"""Shared by the tests of generated GPU code: strategies that offer everything, kernels that use it, compilers to check them
with.

Not tests. Clang comes from Debian (`apt-get install clang`), ptxas from the extra `ptx`; tests skip without them.
"""

from __future__ import annotations

import functools
import importlib.util
import re
import shlex
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from models.weak_memory.programs import clang
from portbar.backends import nvidia
from portbar.backends.units import OWN
from portbar.device.facts import DeviceFacts
from portbar.device.findings import Findings
from portbar.primitives.atomics_table import TYPES, AtomicsTable
from portbar.primitives.headers import resolve_includes
from portbar.primitives.split_barrier.selection import FEATURES
from portbar.primitives.strategy import Capabilities, Choice, Strategy, Tuning
from portbar.records.files import find
from tests.checkout import ran
from tests.reading.trees import use_of

_H200 = Findings.from_json(find("h200").record["devices"][0]["findings"])
assert _H200.tuning is not None
assert _H200.arrays is not None
#: A tuned device's, with every range and place.
TUNED = Tuning(**vars(_H200.tuning), arrays=_H200.arrays)

ORDERS = ("relaxed", "acquire", "release", "acq_rel", "seq_cst")
SCOPES = ("sub_group", "work_group", "device", "all_svm_devices")

_EVERYTHING = AtomicsTable(
    types=tuple(kind.name for kind in TYPES),
    spaces=("global", "local", "generic"),
    scopes=SCOPES,
    native_add=frozenset((kind, space) for kind in ("float", "double") for space in ("global", "local")),
    refused={},
)


@dataclass(frozen=True)
class Target:
    """A device that the tests do not require: strategies, clang's options for it, and for PTX the architecture to assemble
    for."""

    name: str
    atomics: str
    options: tuple[str, ...]
    assemble_for: str = ""
    split_barrier: str = "uniform"
    device_barrier: str = "counter"


def nvptx_options(chip: str, version: str, std: str) -> tuple[str, ...]:
    """Return clang's options for a version of PTX."""
    features = ("-target-cpu", chip, "-target-feature", f"+ptx{version}")
    through = (part for feature in features for part in ("-Xclang", feature))
    return ("-target", "nvptx64-nvidia-nvcl", f"-cl-std={std}", *through)


def _nvptx(
    name: str, atomics: str, chip: str, version: str, std: str, assemble_for: str, split_barrier: str = "counter"
) -> Target:
    return Target(name, atomics, nvptx_options(chip, version, std), assemble_for, split_barrier)


#: Clang 14 and 15 know PTX up to 7.5, and newer chips take the code of older ones. Of chips with PTX's memory model the oldest
#: and the newest: one between them differs in the split barrier only, for which there is `SM_80`.
TARGETS = (
    _nvptx("sm_60 membar", "membar", "sm_60", "60", "CL1.2", "sm_60"),
    _nvptx("sm_70 ptx", "ptx", "sm_70", "63", "CL1.2", "sm_70"),
    _nvptx("sm_90 ptx, generic pointers, mbarrier", "ptx", "sm_80", "74", "CL2.0", "sm_90", "mbarrier"),
    Target("gfx90a c11", "c11", ("-target", "amdgcn-amd-amdhsa", "-mcpu=gfx90a", "-nogpulib", "-cl-std=CL2.0")),
    Target("spir64 cl12", "cl12", ("-target", "spir64-unknown-unknown", "-cl-std=CL1.2", "-emit-llvm")),
)
SM_80 = _nvptx("sm_80 ptx, mbarrier", "ptx", "sm_80", "74", "CL1.2", "sm_80", "mbarrier")


def strategy_for(target: Target) -> Strategy:
    """Return a strategy that offers all that clang's own header knows for the target."""
    table = _EVERYTHING
    if target.atomics == "c11":
        # Clang's header has no additions of floats without cl_ext_float_atomics.
        table = replace(table, native_add=frozenset())
    else:
        table = replace(table, types=tuple(name for name in table.types if name != "half"))
    if target.atomics == "cl12":
        table = replace(table, scopes=SCOPES[:3], native_add=frozenset(), refused=AtomicsTable().refused)
    if "-cl-std=CL1.2" in target.options:
        table = replace(table, spaces=("global", "local"))
    why, number = "for a compiler", int(target.assemble_for.removeprefix("sm_") or 0)
    capability = {"compute_capability_major": number // 10, "compute_capability_minor": number % 10}
    return Strategy(
        Choice(target.atomics, why),
        Choice("packed", why),
        Choice(target.device_barrier, why),
        split_barrier=Choice(target.split_barrier, why),
        units=replace(OWN, instructions=nvidia.instructions(DeviceFacts(nvidia=capability))),
        capabilities=Capabilities(
            one_way_fences=target.atomics == "ptx" and target.assemble_for == "sm_90",
            split_features=tuple(FEATURES),
            atomics_table=table,
        ),
        tuning=TUNED if target.atomics == "ptx" else Tuning(),
    )


@functools.cache
def ptxas() -> str | None:
    """Return NVIDIA's assembler, from the extra `ptx` or from the path."""
    try:
        package = importlib.util.find_spec("nvidia.cuda_nvcc")
    except ModuleNotFoundError:
        package = None
    folders = (package.submodule_search_locations or ()) if package else ()
    packaged = (str(path) for folder in folders for path in Path(folder).glob("bin/ptxas*"))
    return next(packaged, None) or shutil.which("ptxas")


#: For `compiled`: read, and neither optimised nor made assembly, which proves no more of a text without inline assembly.
READ_ONLY = ("-emit-llvm", "-Xclang", "-disable-llvm-passes")


def needed_clang() -> str:
    """Return clang; skips where there is none."""
    found = clang()
    if found is None:
        pytest.skip("no clang: Debian's package `clang` brings it")
    return found


def compiled(target: Target, source: str, folder: Path, *more: str, strategy: Strategy | None = None, loops=()) -> str:
    """Compile portbar source for a target with clang; its assembly text, or LLVM's with `-emit-llvm`."""
    use = use_of(source, (), tuple(loops)) if "portbar/reduction.h" in source else None
    text = resolve_includes(source, strategy or strategy_for(target), use=use)
    return compiled_alone(target, text, folder, *more)


def compiled_alone(target: Target, text: str, folder: Path, *more: str) -> str:
    """Compile unchanged OpenCL C for a target with clang."""
    (folder / "in.cl").write_text(text, encoding="utf-8")
    command = [needed_clang(), "-x", "cl", "-Xclang", "-finclude-default-header", "-O2", "-S", *target.options, *more]
    command += ["-Werror=implicit-function-declaration", "-o", str(folder / "out.s"), str(folder / "in.cl")]
    done = ran(*command)
    assert done.returncode == 0, done.stderr[:4000]
    return (folder / "out.s").read_text(encoding="utf-8")


def complaints(target: Target, texts: dict[str, str], folder: Path, *more: str) -> str:
    """Return what clang says against texts in OpenCL C for a target, by their names; nothing is compiled.

    To start clang takes longer than to read a text, so its second stage, which takes many files, reads all of them. One that it
    complains of is read again alone: between files clang 14 may lose what a pragma ignores.
    """
    options = [option for option in target.options if option != "-emit-llvm"]
    command = [needed_clang(), "-###", "-x", "cl", "-Xclang", "-finclude-default-header", *options, *more]
    stages = ran(*command, "-fsyntax-only", "-")
    [*reader, _] = shlex.split(stages.stderr.splitlines()[-1])
    for name, text in texts.items():
        (folder / f"{name}.cl").write_text(text, encoding="utf-8")
    files = [f"{name}.cl" for name in texts]
    done = ran(*reader, *files, cwd=folder)
    assert done.returncode in {0, 1}, done.stderr[-3000:]
    again = [file for file in files if f"{file}:" in done.stderr]
    assert again or not done.stderr, done.stderr[-3000:]
    return "".join(ran(*reader, file, cwd=folder).stderr for file in again)


def assemblable(text: str, chip: str) -> str:
    """Return clang's PTX as ptxas takes it for a chip.

    Clang declares OpenCL's built-ins as functions of this module without a body; for ptxas they are external.
    """
    defined = set(re.findall(r"^\.func\b[^{};]*?(\w+)\s*\([^{};]*\{", text, flags=re.MULTILINE))

    def external(declared: re.Match[str]) -> str:
        return declared[0] if declared[2] in defined else f".extern {declared[0]}"

    text = re.sub(r"^(\.func\b[^{};]*?(\w+)\s*\([^{};]*\n;)$", external, text, flags=re.MULTILINE)
    if int(chip.removeprefix("sm_")) >= 90:
        # Clang 14 and 15 know no sm_90; newer instructions are in inline assembly, which they do not read.
        text = re.sub(r"^\.version .*$", ".version 8.6", text, flags=re.MULTILINE)
        text = re.sub(r"^\.target sm_\d+", ".target sm_90", text, flags=re.MULTILINE)
    return text


def by_ptxas(text: str, chip: str, folder: Path, *options: str) -> str | None:
    """Assemble PTX into `out.cubin` of a folder; what ptxas printed, or None if this ptxas has dropped the chip."""
    (folder / "in.ptx").write_text(text, encoding="utf-8")
    done = ran(ptxas(), *options, "-arch", chip, "-c", folder / "in.ptx", "-o", folder / "out.cubin")
    told = done.stdout + done.stderr
    if "is not defined for option 'gpu-name'" in told:
        return None
    assert done.returncode == 0, told[:4000]
    return told


def assembled(target: Target, folder: Path) -> None:
    """Assemble what `compiled` left in the folder; skips without an assembler that knows the target."""
    if ptxas() is None:
        pytest.skip('compiled, but not assembled: no ptxas, which `pip install "portbar[ptx]"` brings')
    text = assemblable((folder / "out.s").read_text(encoding="utf-8"), target.assemble_for)
    if by_ptxas(text, target.assemble_for, folder) is None:
        pytest.skip(f'not assembled: this ptxas has dropped {target.assemble_for}; `pip install "portbar[ptx]"` has it')


def operations(kind: str) -> tuple[str, ...]:
    """Return the read-modify-write operations of a type."""
    always = ("exchange", "fetch_add", "fetch_sub", "fetch_min", "fetch_max")
    bitwise = () if kind in {"float", "double", "half"} else ("fetch_and", "fetch_or", "fetch_xor")
    return always + bitwise + (("fetch_inc", "fetch_dec") if kind in {"uint", "ulong"} else ())


def calls(kind: str, scope: str) -> Iterator[str]:
    """Yield every operation of a type with every order, at one scope; `p` is the object, `v` a value, `out[0]` the answer."""
    at = f"memory_scope_{scope}"
    for order in ("relaxed", "acquire", "seq_cst"):
        yield f"out[0] = portbar_atomic_load_explicit(p, memory_order_{order}, {at});"
    for order in ("relaxed", "release", "seq_cst"):
        yield f"portbar_atomic_store_explicit(p, v, memory_order_{order}, {at});"
        yield f"portbar_atomic_wait_explicit(p, v, memory_order_{order.replace('release', 'acquire')}, {at}, 9u);"
    for order in ORDERS:
        for name in operations(kind):
            yield f"out[0] = portbar_atomic_{name}_explicit(p, v, memory_order_{order}, {at});"
        failure = "relaxed" if order in {"relaxed", "release"} else "acquire"
        orders = f"memory_order_{order}, memory_order_{failure}"
        yield f"{{ {kind} e = v; portbar_atomic_compare_exchange_weak_explicit(p, &e, v, {orders}, {at}); out[0] = e; }}"
        yield f"portbar_atomic_work_item_fence(CLK_GLOBAL_MEM_FENCE, memory_order_{order}, {at});"


def everything(strategy: Strategy) -> str:
    """Return a program that uses every operation with every type, address space and order of a strategy.

    Scopes go round: two for each type and address space, so that each type and each space has all of them.
    """
    table = strategy.capabilities.atomics_table
    parts = ['#include "portbar/atomics.h"\n#include "portbar/lock.h"\n']
    for number, kind in enumerate(table.offered()):
        for turn, space in enumerate(table.spaces):
            scopes = table.scopes[(number + turn) % 2 :: 2]
            body = "\n    ".join(call for scope in scopes for call in calls(kind.name, scope))
            name = f"use_{kind.name}_{space}"
            where = "global" if space == "generic" else space
            pointer = f"volatile {kind.name} *p = q;" if space == "generic" else f"volatile {space} {kind.name} *p = q;"
            parts.append(
                f"kernel void {name}(volatile {where} {kind.name} *q, global {kind.name} *out)\n"
                f"{{\n    const {kind.name} v = out[1];\n    {pointer}\n    {body}\n}}\n"
            )
    return "".join(parts)


def ptx_kernels(text: str) -> dict[str, list[str]]:
    """Return the instructions of each kernel of a PTX text, without directives, labels and comments."""
    found: dict[str, list[str]] = {}
    for match in re.finditer(r"\.entry\s+(\w+)\s*\((?:.*?)\)[^{]*\{(.*?)\n\}", text, re.DOTALL):
        lines = (re.sub(r"//.*", "", line).strip() for line in match[2].splitlines())
        found[match[1]] = [line for line in lines if line and not line.startswith((".", "$", "{", "}"))]
    return found
