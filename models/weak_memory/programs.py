"""Kernels whose rendered text is looked at, and the devices that it is rendered for.

Each kernel marks where its work-items access plain data. `model_mark(turn)` stands for a read and a write of data that
others access at the next mark: a barrier promises that marks of one turn come before all marks of the next.
"""

from __future__ import annotations

import functools
import re
import shutil
import subprocess
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from portbar.arrays.scan_source import ScanJob
from portbar.backends import nvidia
from portbar.backends.units import UNKNOWN
from portbar.device.facts import DeviceFacts
from portbar.primitives.atomics import word_context, word_pieces
from portbar.primitives.headers import resolve_includes
from portbar.primitives.scan.look_back import LookBack
from portbar.primitives.strategy import Capabilities, Choice, Strategy, Tuning
from portbar.rendering.templates import render_def

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
_FEWER: Final = {"PORTBAR_TREE_FAN": 2, "PORTBAR_RELEASE_FLAGS": 2, "PORTBAR_SLOTS": 4}


@dataclass(frozen=True)
class Kernel:
    """A kernel and what is promised of it.

    `promise` is "barrier" (marks of a turn come before those of the next), "local" (the same, of local memory alone),
    "lock" (marks of any two work-groups are ordered), "discovery" (what group 0 prepares comes before the marks of
    all that take part), "place" (all groups know the same place), or "data" (of each word of plain global memory, what
    is written in a turn comes before what reads it in that turn, and after all accesses of earlier turns).
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
_SIGNALS: Final = """
#include "portbar/atomics.h"
#include "portbar/signal.h"
void model_mark(uint turn);
kernel void check(PORTBAR_GRID_PARAM, volatile global portbar_signal *signals)
{{
    PORTBAR_ENTER(grid);
    const uint me = portbar_group_id(&grid), groups = portbar_num_groups(&grid);
    for (uint turn = 0; turn < ROUNDS; ++turn) {{
        model_mark(turn);
        {signal}
        {wait}
    }}
    model_mark(ROUNDS);
}}
"""
_ADD: Final = "portbar_work_group_signal_add(&grid, signals, 1u);"
_WAIT: Final = """if (!portbar_work_group_signal_wait_until_at_least(&grid, signals, (turn + 1u) * groups))
            return;"""
_LEADER_WAITS: Final = """if (get_local_id(0) == 0)
            (void)portbar_device_wait_until(&grid, {condition});
        barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);"""
#: Signals by which all groups wait for all others, as a barrier does, in the forms that there are.
SIGNALS: Final = tuple(
    Kernel(f"signal {name}", _SIGNALS.format(signal=signal, wait=wait), rounds=rounds)
    for name, signal, wait, rounds in (
        ("add", _ADD, _WAIT, 2),
        (
            "set",
            "portbar_work_group_signal_set(&grid, signals + me, turn + 1u);",
            """for (uint other = 0; other < groups; ++other)
            if (!portbar_work_group_signal_wait_until_at_least(&grid, signals + other, turn + 1u))
                return;""",
            1,
        ),
        ("test", _ADD, _LEADER_WAITS.format(condition="portbar_signal_test(&grid, signals, groups)"), 1),
        (
            "condition",
            _ADD,
            _LEADER_WAITS.format(
                condition="portbar_atomic_load_explicit(&signals->value, memory_order_relaxed, memory_scope_device) >= groups"
            ),
            1,
        ),
    )
)
#: The others wait for group 0, by a signal that an earlier launch has left at the value that they wait for.
CLEARED: Final = Kernel(
    "signal cleared",
    _SIGNALS.partition("    for")[0].replace("{{", "{")
    + """
    if (!portbar_device_signals_clear(&grid, signals, 1u))
        return;
    if (me != 0 && !portbar_signal_wait_until_at_least(&grid, signals, 1u))
        return;
    model_mark(0);
    if (me == 0)
        portbar_signal_add(&grid, signals, 1u);
}
""",
    promise="lock",
)
REDUCTIONS: Final = tuple(
    Kernel(
        f"device {name}",
        f"""
#define PORTBAR_REDUCTION_LOCAL_SIZE 2
#include "portbar/device_barrier.h"
#include "portbar/reduction.h"
void model_mark(uint turn);
kernel void check(PORTBAR_GRID_PARAM)
{{
    PORTBAR_ENTER(grid);
    PORTBAR_REDUCTION_SCRATCH(scratch);
    uint v = 1u;
    for (uint turn = 0; turn < ROUNDS; ++turn) {{
        model_mark(turn);
        v = portbar_device_{call};
    }}
}}
""",
        promise="data",
        rounds=3,
    )
    for name, call in (
        ("reduction", "reduce_add(&grid, scratch, v)"),
        ("scan", "scan_exclusive_add(&grid, scratch, v)"),
        ("broadcast", "broadcast(&grid, scratch, v, 0u)"),
    )
)
#: Two collectives of a work-group, one after the other.
TWO_SCANS: Final = Kernel(
    "two scans",
    """
#define PORTBAR_REDUCTION_LOCAL_SIZE 2
#include "portbar/reduction.h"
kernel void check(const uint epoch)
{
    PORTBAR_REDUCTION_SCRATCH(scratch);
    (void)portbar_work_group_scan_exclusive_add(scratch, portbar_work_group_scan_exclusive_add(scratch, epoch));
}
""",
    promise="local",
)
PLACE: Final = Kernel(
    "place",
    _HEAD
    + """
    model_identity(portbar_group_id(&grid), grid.first_slot);
}
""",
    promise="place",
)
#: Each group's tile is that of its number: tickets order nothing. The kernels of `portbar.scan` do the same between the
#: values that a tile amounts to and those that they store, in one work-item of each group.
LOOK_BACK: Final = Kernel(
    "look-back",
    """
int model_tile(uint tile);
static void publish(const uint tile, const int value, const uint epoch, volatile global uint *flags,
                    global portbar_item *tiles)
{
    const portbar_item own = { value };
%(publish)s
}
static void publish_all(const uint tile, const int value, const int before, const uint epoch, volatile global uint *flags,
                        global portbar_item *tiles)
{
    const portbar_item own = { value }, found = { before };
%(publish_all)s
}
kernel void check(const uint epoch, volatile global uint *flags, global portbar_item *tiles)
{
    const uint tile = (uint)get_group_id(0);
    const portbar_item own = { model_tile(tile) };
    portbar_item found = { 0 };
    if (tile != 0u) {
        publish(tile, own.o0, epoch, flags, tiles);
        uint next = portbar_look_back(tile, epoch, flags, tiles, &found);
        while ((next = portbar_take_known(next, tile, epoch, flags, tiles, &found)) < tile) {
            const portbar_item computed = { model_tile(next++) };
            found = portbar_join(found, computed);
        }
    }
    publish_all(tile, own.o0, found.o0, epoch, flags, tiles);
}
""",
    promise="data",
)
#: Programs that make the same wait for one group after the other.
TURNS: Final = (LOOK_BACK, next(kernel for kernel in SIGNALS if kernel.name == "signal set"))
_ITEM: Final = """
typedef struct { int o0; } portbar_item;
#define portbar_join(a, b) ((portbar_item){(a).o0 + (b).o0})
"""


def _scanned(strategy: Strategy) -> str:
    """The look-back of `portbar.scan`, in a kernel that does nothing else."""
    template = "scan/look_back.mako"
    by = LookBack("portbar", "portbar_item", "portbar_join", "", "0u")
    context = {"by": by, "own": "own", "found": "found", "indent": "    ", **word_context(strategy, ScanJob.words)}
    words = [render_def(*piece, context) for piece in word_pieces(strategy)]
    parts = {name: render_def(template, name, context) for name in ("publish", "publish_all")}
    functions = [render_def(template, name, context) for name in ("tile_words", "look_back")]
    return "\n".join([*words, _ITEM, *functions, LOOK_BACK.source % parts])


@functools.cache
def clang() -> str | None:
    """Return the newest clang on the path."""
    names = ["clang", *(f"clang-{version}" for version in range(22, 13, -1))]
    return next((found for name in names if (found := shutil.which(name))), None)


def rendered(kernel: Kernel, target: Target, algorithm: str) -> str:
    """Return the OpenCL C that a program with this kernel compiles on such a device."""
    why, capability = "for a model", {"compute_capability_major": 9 if target.one_way_fences else 0}
    strategy = Strategy(
        Choice(target.atomics, why),
        Choice(kernel.discovery, why),
        Choice(algorithm, why),
        split_barrier=Choice("uniform", why),
        units=replace(UNKNOWN, instructions=nvidia.instructions(DeviceFacts(nvidia=capability))),
        capabilities=Capabilities(
            one_way_fences=target.one_way_fences,
        ),
        tuning=Tuning(placing=(2, 64, 1) if kernel.promise == "place" else ()),
    )
    if kernel == LOOK_BACK:
        return _scanned(strategy)
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
