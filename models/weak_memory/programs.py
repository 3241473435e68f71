"""Kernels whose rendered text is looked at, and the devices that it is rendered for.

Each kernel marks where its work-items access plain data. `model_mark(turn)` stands for a read and a write of data that
others access at the next mark: what a barrier promises is that marks of one turn come before all marks of the next.
"""

from __future__ import annotations

import functools
import re
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from portbar.primitives.strategy import Capabilities, Choice, Strategy
from portbar.rendering.headers import resolve_includes

from . import llvm

_SPIR: Final = ("-target", "spir64-unknown-unknown")
_NVPTX: Final = ("-target", "nvptx64-nvidia-nvcl", "-cl-std=CL1.2")


@dataclass(frozen=True)
class Target:
    """A backend: its atomics, clang's options for it, and whether PTX's model holds for it or OpenCL's."""

    name: str
    atomics: str
    options: tuple[str, ...]
    ptx: bool = False
    one_way_fences: bool = False


TARGETS: Final = (
    Target("c11", "c11", (*_SPIR, "-cl-std=CL2.0")),
    Target("cl12", "cl12", (*_SPIR, "-cl-std=CL1.2")),
    Target("membar", "membar", (*_NVPTX, "-Xclang", "-target-cpu", "-Xclang", "sm_60"), ptx=True),
    Target("ptx", "ptx", (*_NVPTX, "-Xclang", "-target-cpu", "-Xclang", "sm_70"), ptx=True),
    Target("ptx sm_90", "ptx", (*_NVPTX, "-Xclang", "-target-cpu", "-Xclang", "sm_80"), ptx=True, one_way_fences=True),
)


#: So that three groups make a tree of two levels, and have flags to share.
_FEWER: Final = {"PORTBAR_TREE_FAN": 2, "PORTBAR_RELEASE_FLAGS": 2}


@dataclass(frozen=True)
class Kernel:
    """A kernel and what is promised of it.

    `promise` is "barrier" (marks of a turn come before those of the next), "local" (the same, of local memory alone),
    "lock" (marks of any two work-groups are ordered), or "discovery" (what group 0 prepares comes before the marks of
    all that take part).
    """

    name: str
    source: str
    promise: str = "barrier"
    rounds: int = 2
    discovery: str = "packed"


_HEAD: Final = """
#include "portbar/device_barrier.h"
void model_mark(uint turn);
void model_identity(uint id, uint count);
kernel void check(PORTBAR_GRID_PARAM)
{
    PORTBAR_ENTER(grid);
"""

WHOLE: Final = Kernel(
    "whole",
    _HEAD
    + """
    for (uint turn = 0; turn < ROUNDS; ++turn) {
        model_mark(turn);
        if (!portbar_device_barrier(&grid))
            return;
    }
    model_mark(ROUNDS);
}
""",
)
SPLIT: Final = Kernel(
    "split",
    _HEAD
    + """
    for (uint turn = 0; turn < ROUNDS; ++turn) {
        model_mark(turn);
        const portbar_device_token token = portbar_device_barrier_arrive(&grid);
        if (!portbar_device_barrier_wait(&grid, token))
            return;
    }
    model_mark(ROUNDS);
}
""",
)
TESTED: Final = Kernel(
    "tested",
    _HEAD
    + """
    for (uint turn = 0; turn < ROUNDS; ++turn) {
        model_mark(turn);
        const portbar_device_token token = portbar_device_barrier_arrive(&grid);
        while (!portbar_device_barrier_test_wait(&grid, token))
            ;
    }
    model_mark(ROUNDS);
}
""",
)
BETWEEN: Final = Kernel(
    "whole within split",
    _HEAD
    + """
    for (uint turn = 0; turn < ROUNDS; ++turn) {
        model_mark(turn);
        const portbar_device_token token = portbar_device_barrier_arrive(&grid);
        if (!portbar_device_barrier(&grid))
            return;
        if (!portbar_device_barrier_wait(&grid, token))
            return;
    }
    model_mark(ROUNDS);
}
""",
    "local",
    rounds=1,
)
DISCOVERY: Final = Kernel(
    "discovery",
    _HEAD
    + """
    model_identity(portbar_group_id(&grid), portbar_num_groups(&grid));
    model_mark(0);
}
""",
    promise="discovery",
)
_LOCK: Final = """
#include "portbar/lock.h"
void model_mark(uint turn);
kernel void check(volatile global portbar_{kind}_lock *lock)
{{
    for (uint turn = 0; turn < ROUNDS; ++turn) {{
        if (get_local_id(0) == 0) {{
            if (!portbar_{kind}_lock_{acquire}(lock{polls}))
                return;
            model_mark(turn);
            portbar_{kind}_lock_release(lock);
        }}
    }}
}}
"""
LOCKS: Final = tuple(
    Kernel(f"{kind} lock{' (try)' if polls else ''}", _LOCK.format(kind=kind, acquire=acquire, polls=polls), "lock")
    for kind in ("spin", "ticket")
    for acquire, polls in (("acquire", ""), ("try_acquire", ", 9u"))
)


@functools.cache
def clang() -> str | None:
    """Return the newest clang on the path."""
    names = ["clang", *(f"clang-{version}" for version in range(22, 13, -1))]
    return next((found for name in names if (found := shutil.which(name))), None)


def rendered(kernel: Kernel, target: Target, algorithm: str) -> str:
    """Return the OpenCL C that a program with this kernel compiles on such a device."""
    why = "for a model"
    strategy = Strategy(
        Choice(target.atomics, why),
        Choice(kernel.discovery, why),
        Choice(algorithm, why),
        split_barrier=Choice("uniform", why),
        capabilities=Capabilities(
            one_way_fences=target.one_way_fences,
            compute_capability=90 if target.one_way_fences else 0,
        ),
    )
    text = resolve_includes(kernel.source, strategy)
    for name, value in _FEWER.items():
        text = re.sub(rf"(#define {name} )\d+u", rf"\g<1>{value}u", text)
    return f"#define ROUNDS {kernel.rounds}u\n{text}"


def compiled(text: str, target: Target) -> llvm.Module:
    """Return a text as clang reads it, without optimisation.

    Raises
    ------
    RuntimeError
        Clang refuses the text.
    """
    with tempfile.TemporaryDirectory() as folder:
        source, out = Path(folder) / "in.cl", Path(folder) / "out.ll"
        source.write_text(text, encoding="utf-8")
        command = [str(clang()), "-x", "cl", "-Xclang", "-finclude-default-header", "-O1", "-S", "-emit-llvm"]
        command += [
            "-Xclang",
            "-disable-llvm-passes",
            "-fno-discard-value-names",
            "-gline-tables-only",
            *target.options,
            "-o",
            str(out),
            str(source),
        ]
        ran = subprocess.run(command, capture_output=True, text=True, check=False, timeout=100)
        if ran.returncode != 0:
            raise RuntimeError(f"clang refuses the rendered text: {ran.stderr[:2000]}")
        return llvm.read(out.read_text(encoding="utf-8"))
