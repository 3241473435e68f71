"""One table of what OpenCL implementations get wrong: where it was seen, what helps, when an entry can go.

Not for what a device merely lacks, which its facts and findings tell. Code asks this table instead of testing
names.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from portbar.device.facts import DeviceFacts

NO_DEVICES = "lists no devices"
"""What a platform without devices is reported as; the log text of the quirks that explain such a platform."""

UNDERSTATED_WORK_GROUP_SIZE = "understated work-group size"
"""An effect: the kernel's own limit cannot be believed, so that the device's is checked instead."""

BRANCHES_ABORT = "branches abort"
"""An effect: what branches much must not stand between two barriers in a loop."""

LEADER_FORGOTTEN = "leader forgotten"
"""An effect: what stands between two barriers under an if for one work-item must have something beside it that all do."""

JOINS_LOST = "joins lost"
"""An effect: branches behind a barrier that some path avoids must meet at a barrier."""

COPIES_SHARED = "copies shared"
"""An effect: a private structure that is kept across a barrier must have its address taken."""

IDS_LOST = "ids lost"
"""An effect: what a work-item asks of its ids behind a barrier may be the leader's."""

FENCES_ARE_BARRIERS = "fences are barriers"
"""An effect: fences must not stand in loops that work-items leave at different times."""

ANOTHER_RUNTIME = "another runtime"
"""An effect: nothing helps but another runtime for the same processor."""

NOTHING_LOST = "nothing lost"
"""An effect: none; what looks like a fault costs nothing."""

ARGUMENT_INFO_BREAKS = "argument info breaks"
"""An effect: -cl-kernel-arg-info may break a program that compiles without it."""

LOCAL_ATOMICS_LOSE_STORES = "local atomics lose stores"
"""An effect: operations of 8 and 16 bits must not go by C11's atomics."""

FAILURES_HIDDEN = "failures hidden"
"""An effect: a failed event looks complete until somebody waits for it, and ends an out-of-order queue."""

QUEUES_SPLIT_THREADS = "queues split threads"
"""An effect: a launch beside one in another queue need not wait long for threads, which the other has."""

INLINED_STRUCTURES_UNKNOWN = "inlined structures unknown"
"""An effect: functions that return structures must not be inlined."""


_UPDATE = "update the driver, or use another runtime"


def _retire(name: str, platform: str = "") -> str:
    """The command that fails once a fault is gone: the test that shows it in plain PyOpenCL, on one platform."""
    test = f"python -m pytest tests/device/test_quirks.py -k {name}"
    return f'PORTBAR_TEST_PLATFORM="{platform}" {test}' if platform else test


@dataclass(frozen=True)
class Quirk:
    """One fault of one implementation.

    Attributes
    ----------
    name : str
        How code and reports refer to it.
    matches : callable
        Whether a device with these facts has it; the second argument is a build log, the end of a crashed
        process's standard error, or empty.
    symptom : str
        Regular expression of the text that shows this fault at work; empty where it shows itself in no text.
    effect : str
        What code asks for with `has_effect`; empty where no code needs to know.
    loop_limit : int
        Iterations in a whole kernel after which loops end silently; 0 where they do not.
    fault, seen, workaround, retire : str
        What goes wrong; where and when it was seen; what helps; the command that tells when the entry can go: a test in
        portbar's checkout that shows the fault, and that fails where it does not show any more.
    """

    name: str
    matches: Callable[[DeviceFacts, str], bool]
    fault: str
    seen: str
    workaround: str
    retire: str
    symptom: str = ""
    effect: str = ""
    loop_limit: int = 0


def _pocl_major(facts: DeviceFacts) -> int | None:
    """Return the major version of PoCL, or None for another platform."""
    match = re.search(r"PoCL (\d+)\.\d+", facts.platform_version)
    return int(match[1]) if match else None


def _pocl_llvm(facts: DeviceFacts) -> int | None:
    """Return the major version of the LLVM that PoCL was built with, or None for another platform."""
    match = re.search(r"PoCL .*\bLLVM (\d+)\.", facts.platform_version)
    return int(match[1]) if match else None


def _pocl_of_old_llvm(facts: DeviceFacts, _log: str) -> bool:
    """Whether PoCL was built with an LLVM before 15, in which a cast stands between a structure and its copies."""
    return (_pocl_llvm(facts) or 15) < 15


def _by_cbs() -> bool:
    """Whether PoCL compiles barriers by continuations; else it does by loops of work-items, which is its own choice."""
    return os.environ.get("POCL_WORK_GROUP_METHOD") == "cbs"


def _pocl_cache() -> Path:
    """Where PoCL keeps compiled kernels."""
    for variable, below in (("POCL_CACHE_DIR", ""), ("XDG_CACHE_HOME", "pocl/kcache"), ("HOME", ".cache/pocl/kcache")):
        folder = os.environ.get(variable)
        if folder:
            return Path(folder, below)
    return Path("/tmp/pocl/kcache")  # noqa: S108 (PoCL's choice)


def _can_write(folder: Path) -> bool:
    """Whether files can be made in a folder, which need not exist yet."""
    for place in (folder, *folder.parents):
        if os.path.lexists(place):
            return place.is_dir() and os.access(place, os.W_OK | os.X_OK)
    return False


def _llvmpipe_major(facts: DeviceFacts) -> int | None:
    match = re.match(r"(\d+)\.", facts.driver_version)
    return int(match[1]) if match and facts.name.startswith("llvmpipe") else None


QUIRKS: tuple[Quirk, ...] = (
    Quirk(
        name="pocl-unknown-cpu",
        effect=ANOTHER_RUNTIME,
        matches=lambda facts, log: _pocl_major(facts) is not None and "unknown target CPU" in log,
        symptom=r"unknown target CPU",
        fault="nothing compiles on a processor newer than the LLVM inside PoCL",
        seen="PoCL 3.0-rc2 of pocl-binary-distribution 3.0 on AMD family 26, 2026-11",
        workaround=(
            'install another CPU runtime: `pip install "portbar[cpu]"` (that is intel-opencl-rt and '
            "intel-cmplr-lib-rt), or Debian's pocl-opencl-icd"
        ),
        retire=_retire("pocl-unknown-cpu"),
    ),
    Quirk(
        name="pocl-unwritable-cache",
        matches=lambda facts, log: (
            _pocl_major(facts) is not None and NO_DEVICES in log and not _can_write(_pocl_cache())
        ),
        symptom=NO_DEVICES,
        fault="PoCL lists no devices where it cannot write its cache of kernels, as in a home that is read-only",
        seen="PoCL 3.0-rc2 and 3.1, 2026-11",
        workaround="set POCL_CACHE_DIR to a folder that can be written before Python starts",
        retire=_retire("pocl-unwritable-cache"),
    ),
    Quirk(
        name="rusticl-not-enabled",
        matches=lambda facts, log: (
            facts.platform_name == "rusticl" and NO_DEVICES in log and not os.environ.get("RUSTICL_ENABLE")
        ),
        symptom=NO_DEVICES,
        fault="rusticl lists no devices unless RUSTICL_ENABLE names their drivers",
        seen="Mesa 22.3.6 and 25.0.7, 2026-11",
        workaround="set RUSTICL_ENABLE to a Mesa driver before Python starts: `RUSTICL_ENABLE=llvmpipe`",
        retire=_retire("rusticl-not-enabled"),
    ),
    Quirk(
        name="clover-without-devices",
        effect=NOTHING_LOST,
        matches=lambda facts, log: facts.platform_name == "Clover" and NO_DEVICES in log,
        symptom=NO_DEVICES,
        fault="Clover (mesa.icd) registers itself on machines that it has no device for",
        seen="Mesa 22.3.6, Debian 12, 2026-11",
        workaround="nothing is lost: Mesa has replaced Clover by rusticl, which registers itself separately",
        retire=_retire("clover-without-devices"),
    ),
    Quirk(
        name="llvmpipe-loop-limit",
        loop_limit=65_535,
        # Seen in 22.3.6 and gone in 25.0.7; the versions between were not tried, so they count as faulty.
        matches=lambda facts, _log: (_llvmpipe_major(facts) or 99) < 25,
        fault=(
            "loops end silently after 65535 iterations in the whole kernel, so that a spinning barrier lets "
            "work-groups through"
        ),
        seen="Mesa 22.3.6 (rusticl on llvmpipe), 2026-11",
        workaround="use Mesa 25.0 or newer, or another runtime",
        retire=_retire("llvmpipe-loop-limit", "rusticl"),
    ),
    Quirk(
        name="pocl-barrier-under-if",
        matches=lambda facts, _log: _pocl_major(facts) in {5, 6},
        symptom=r"addContextSaveRestore|Cannot add context restore",
        fault="the process aborts while it compiles a barrier under an if inside a loop",
        seen="PoCL 5.0 (16 cores) and 6.0 (Debian 13), 2026-11",
        workaround="set `POCL_WORK_GROUP_METHOD=cbs` before Python starts, or keep the barrier out of the if",
        retire=_retire("pocl-barrier-under-if", "PoCL"),
    ),
    Quirk(
        name="pocl-leader-forgotten",
        effect=LEADER_FORGOTTEN,
        matches=lambda facts, _log: _pocl_major(facts) in {3, 6},
        fault=(
            "between two barriers, what one work-item does under an if may be left out where no other work-item does anything "
            "there: a barrier between work-groups then let them through, and said that it held"
        ),
        seen=(
            "PoCL 6.0 (Debian 13), loopvec, programs of two kernels; PoCL 3.0-rc2 and 3.1, programs of a dozen kernels, the "
            "wait of the split device barrier and with it the device-wide reductions; a lock that one work-item takes under an "
            "if, and scans of sub-groups in both arms of one, 2026-11"
        ),
        workaround=(
            "portbar lets every work-item write a private volatile word there, on PoCL 3 at the start of each branch with a "
            "barrier as well; in kernels of your own do likewise, or use another runtime"
        ),
        retire=_retire("pocl-leader-forgotten", "PoCL"),
    ),
    Quirk(
        name="pocl-cbs-ids",
        effect=IDS_LOST,
        matches=lambda facts, _log: _pocl_major(facts) == 5 and _by_cbs(),
        fault=(
            "with POCL_WORK_GROUP_METHOD=cbs, get_local_id() and get_global_id() behind a barrier may be those of the first "
            "work-item in every work-item, where they were asked for before it as well"
        ),
        seen="PoCL 5.0 (Debian, 16 cores), `s[get_local_id(0)] = 5; barrier(...); out[...] = get_local_id(0);`, 2026-11",
        workaround=(
            "take the work-item's number from portbar_global_id(), or keep it in a volatile private word from before the first "
            "barrier; or leave POCL_WORK_GROUP_METHOD unset"
        ),
        retire=_retire("pocl-cbs-ids", "PoCL 5"),
    ),
    Quirk(
        name="pocl-cbs-loop",
        matches=lambda facts, _log: _pocl_major(facts) == 6 and _by_cbs(),
        fault=(
            "with POCL_WORK_GROUP_METHOD=cbs, a loop with a constant number of rounds behind a barrier may be left out with "
            "all that it writes"
        ),
        seen="PoCL 6.0 (Debian 13), `s[l] = a[g]; barrier(...); for (i = 0; i < 3; ++i) a[i * n + g] = s[l] + i;`, 2026-11",
        workaround="let the number of rounds be an argument of the kernel, or leave POCL_WORK_GROUP_METHOD unset",
        retire=_retire("pocl-cbs-loop", "PoCL 6"),
    ),
    Quirk(
        name="pocl-loops-in-branches",
        effect=BRANCHES_ABORT,
        matches=lambda facts, _log: _pocl_major(facts) == 5 and not _by_cbs(),
        symptom=r"createParallelRegionBefore",
        fault=(
            "the process aborts while it compiles, between two barriers in a loop, branches that hold more than a compiler "
            "makes a selection of: `if (a) loop else if (b) loop` is enough"
        ),
        seen="PoCL 5.0 (Debian, 16 cores), local sizes above 1, methods loopvec and loops, 2026-11",
        workaround=(
            "set `POCL_WORK_GROUP_METHOD=cbs` before Python starts, or make one loop of the two; portbar refuses the barrier "
            "algorithm xf there, and its debug builds of split_barrier.h keep faults without printing them"
        ),
        retire=_retire("pocl-loops-in-branches", "PoCL 5"),
    ),
    Quirk(
        name="pocl-break-after-return",
        effect=JOINS_LOST,
        # PoCL 4 was not at hand; what is done for it harms no compiler.
        matches=lambda facts, _log: _pocl_major(facts) in {3, 4, 5},
        fault=(
            "after a barrier that some path avoids, by a return before it (PORTBAR_ENTER has one) or an if around it, a branch "
            "of one work-item that depends on data is taken by all work-items or by none, or never ends; PoCL 5 leaves a "
            "kernel early or aborts over it"
        ),
        seen=(
            "PoCL 3.0-rc2, 3.1 and 5.0, methods loopvec and cbs, "
            "`if (get_global_id(0) == 0) { if (x[0]) atomic_inc(a); else atomic_inc(b); }` as the last statement, 2026-11"
        ),
        workaround=(
            "portbar.Program adds barriers to the kernels that it compiles there; in exported headers and kernels made by "
            "macros end each kernel, and each branch that holds a barrier, with barrier(CLK_LOCAL_MEM_FENCE), and jump to the "
            "kernel's last one rather than return after another"
        ),
        retire=_retire("pocl-break-after-return", "PoCL"),
    ),
    Quirk(
        name="pocl-uneven-loops",
        matches=_pocl_of_old_llvm,
        fault=(
            "before a barrier, a loop with a constant bound that work-items leave at different times ends in all of them when "
            "the first one leaves it, where a loop inside it has a constant bound as well"
        ),
        seen=(
            "PoCL 3.0-rc2 (LLVM 14), `for (i = id % 8; i < 100; i += 8) for (k = 0; k < 10; ++k) { a[k] += i; b[k] = ...; }`, "
            "2026-11"
        ),
        workaround="let the outer bound be an argument of the kernel, or use a PoCL that was built with LLVM 15 or later",
        retire=_retire("pocl-uneven-loops", "PoCL 3.0"),
    ),
    Quirk(
        name="pocl-structure-copies",
        effect=COPIES_SHARED,
        matches=_pocl_of_old_llvm,
        fault=(
            "a private structure that is copied as a whole before a barrier and read as a whole after it holds the last "
            "work-item's values in every work-item"
        ),
        seen=(
            "PoCL 3.0-rc2 (LLVM 14), `kept = mine; mine.v[n] = 0; s[l] = mine; barrier(...); s[l] = kept;` with structures of "
            "an array of six ints, 2026-11"
        ),
        workaround=(
            "portbar takes the address of the structures that its reductions keep across barriers; in kernels of your own do "
            'likewise, as in `__asm__ volatile("" : : "r"(&kept));`, or use a PoCL that was built with LLVM 15 or later'
        ),
        retire=_retire("pocl-structure-copies", "PoCL 3.0"),
    ),
    Quirk(
        name="intel-concurrent-bound",
        matches=lambda facts, _log: "cl_intel_concurrent_dispatch" in facts.extensions and "CPU" in facts.type,
        fault="clGetKernelMaxConcurrentWorkGroupCountINTEL promises more work-groups than a barrier can hold",
        seen="Intel CPU runtime 2026.22.10, 2 threads: it says 32, barriers hang from 13 on, 2026-11",
        workaround="take the number of work-groups from discovery, never from the query",
        retire=_retire("intel-concurrent-bound", "Intel"),
    ),
    Quirk(
        name="intel-local-atomics",
        effect=LOCAL_ATOMICS_LOSE_STORES,
        matches=lambda facts, _log: facts.platform_name.startswith("Intel") and "CPU" in facts.type,
        fault=(
            "an atomic operation on the 32 bits around a 16-bit object in local memory does not keep the compiler from using "
            "what was stored there before"
        ),
        seen="Intel CPU runtime 2026.22.10, OpenCL C 3.0, a ushort stored, exchanged and loaded by one work-item, 2026-11",
        workaround=(
            "portbar does operations of 8 and 16 bits there by OpenCL 1.2's atomic_cmpxchg between two mem_fence; clang's own "
            "__opencl_atomic_ functions are no way out, since this runtime runs them once for several work-items"
        ),
        retire=_retire("intel-local-atomics", "Intel"),
    ),
    Quirk(
        name="intel-queue-without-context",
        matches=lambda facts, _log: facts.platform_name.startswith("Intel") and "CPU" in facts.type,
        symptom=r"clRetainContext failed: INVALID_CONTEXT",
        fault="a command queue does not keep its context: once nothing else refers to the context, using it fails",
        seen="Intel CPU runtime 2026.22.10, 2026-11",
        workaround="keep the context in a variable for as long as its queues; portbar does so for those that it makes",
        retire=_retire("intel-queue-without-context", "Intel"),
    ),
    Quirk(
        name="intel-failed-wait-list",
        effect=FAILURES_HIDDEN,
        matches=lambda facts, _log: facts.platform_name.startswith("Intel") and "CPU" in facts.type,
        fault=(
            "a command whose wait list fails never runs, but its event has the status of a complete one; in an out-of-order "
            "queue the process dies at the next command"
        ),
        seen="Intel CPU runtime 2026.22.10, a user event in the wait list set to -5, 2026-11",
        workaround=(
            "wait for such an event, which raises an error, before you use what the command should have written, and use a new "
            "queue; portbar refuses to launch behind it"
        ),
        retire=_retire("intel-failed-wait-list", "Intel"),
    ),
    Quirk(
        name="intel-queues-split-threads",
        effect=QUEUES_SPLIT_THREADS,
        matches=lambda facts, _log: facts.platform_name.startswith("Intel") and "CPU" in facts.type,
        fault=(
            "kernels in several queues run at the same time and split the threads, so that neither has as many work-groups at "
            "once as the device runs of one"
        ),
        seen="Intel CPU runtime 2026.22.10, 2 threads, kernels of two work-groups that meet, in turns in two queues, 2026-11",
        workaround=(
            "launch grids in one queue, or wait before you use the other; portbar shortens the wait for more work-groups to a "
            "millisecond while another queue has a grid of the same process"
        ),
        retire=_retire("intel-queues-split-threads", "Intel"),
    ),
    Quirk(
        name="intel-values-across-barriers",
        matches=lambda facts, _log: facts.platform_name.startswith("Intel") and "CPU" in facts.type,
        symptom=r"sycl-kernel-reduce-cross-barrier-values",
        fault=(
            "the process dies while it compiles a value that depends on a condition, such as a product of complex numbers, and "
            "that is kept over a barrier in a loop"
        ),
        seen="Intel CPU runtime 2026.22.10, reductions of complex numbers by a tree of barriers, 2026-11",
        workaround=(
            "declare that variable volatile or build with -cl-opt-disable; portbar's reductions take no tree of barriers on "
            "CPUs; isolate_build=True of portbar.Program makes an error of it"
        ),
        retire=_retire("intel-values-across-barriers", "Intel"),
    ),
    Quirk(
        name="nvidia-work-group-size",
        effect=UNDERSTATED_WORK_GROUP_SIZE,
        matches=lambda facts, _log: facts.nvidia is not None,
        fault="CL_KERNEL_WORK_GROUP_SIZE is 256 for every kernel, also for those that run with 1,024 work-items",
        seen="driver 580.159.04, H200, 2026-11",
        workaround="the device's own limit is checked instead; a kernel with too many registers fails at its launch",
        retire=_retire("nvidia-work-group-size", "CUDA"),
    ),
    Quirk(
        name="nvidia-kernel-without-arguments",
        effect=ARGUMENT_INFO_BREAKS,
        matches=lambda facts, _log: facts.nvidia is not None,
        symptom=r"ptxas application ptx input.*Parsing error near '}'",
        fault="a kernel without arguments does not compile with -cl-kernel-arg-info: the assembler is given broken text",
        seen="driver 580.159.04, H200, `kernel void k(void) { }`, 2026-11",
        workaround="such a program is compiled again without the option; launches of its kernels then check counts only",
        retire=_retire("nvidia-kernel-without-arguments", "CUDA"),
    ),
    Quirk(
        name="nvidia-c11-store-buffering",
        matches=lambda facts, _log: facts.nvidia is not None,
        fault=(
            "C11's sequentially consistent stores and loads are not in one order: two work-groups may each store, then "
            "load, and both miss the other's store"
        ),
        seen="driver 580.159.04, H200, 40,532 of 11,083,776 instances of the litmus test SB-device-global-ops, 2026-11",
        workaround="portbar writes its atomics in PTX there, which passes all litmus tests: use portbar/atomics.h",
        retire=_retire("nvidia-c11-store-buffering", "CUDA"),
    ),
    Quirk(
        name="llvmpipe-work-group-size",
        effect=UNDERSTATED_WORK_GROUP_SIZE,
        matches=lambda facts, _log: _llvmpipe_major(facts) is not None,
        fault="CL_KERNEL_WORK_GROUP_SIZE is 32 for kernels that run rightly with 256 work-items",
        seen="Mesa 22.3.6 (rusticl on llvmpipe), 2026-11",
        workaround="the device's own limit is checked instead",
        retire=_retire("llvmpipe-work-group-size", "rusticl"),
    ),
    Quirk(
        name="llvmpipe-fences",
        effect=FENCES_ARE_BARRIERS,
        # Seen in 22.3.6; later versions were not tried, so they count as faulty up to the one that has no loop limit.
        matches=lambda facts, _log: (_llvmpipe_major(facts) or 99) < 25,
        fault=(
            "memory fences and ordered atomics act as barriers: where the work-items of a group pass them a different number "
            "of times, eight at a time, those that pass fewer are lost"
        ),
        seen="Mesa 22.3.6 (rusticl on llvmpipe), a seq_cst compare-exchange loop in groups of 16, 2026-11",
        workaround=(
            "portbar issues no fences there, relies on the device's atomics, which litmus tests found in order on x86-64 (on "
            "other processors it demands that they pass there first), and refuses the locks of reduction loops, which one "
            "work-item takes for others; in your own code keep mem_fence and ordered atomics out of control flow that differs "
            "within a group of more than 8 work-items"
        ),
        retire=_retire("llvmpipe-fences", "rusticl"),
    ),
    Quirk(
        name="oclgrind-inlined-structures",
        effect=INLINED_STRUCTURES_UNKNOWN,
        matches=lambda facts, _log: facts.name.startswith("Oclgrind"),
        symptom=r"llvm\.experimental\.noalias\.scope\.decl",
        fault="a kernel into which a function was inlined that returns a structure of more than 16 bytes cannot be created",
        seen="Oclgrind 21.10, Debian 12, `Undefined external function: llvm.experimental.noalias.scope.decl`, 2026-11",
        workaround="portbar/reduction.h keeps its functions out of line there; declare yours __attribute__((noinline))",
        retire=_retire("oclgrind-inlined-structures", "Oclgrind"),
    ),
    Quirk(
        name="oclgrind-flush-waits",
        matches=lambda facts, _log: facts.name.startswith("Oclgrind"),
        fault="clFlush runs what is in the queue, so that it never returns behind an event that the same thread sets later",
        seen="Oclgrind 21.10, Debian 12, 2026-11",
        workaround="set user events before you flush or release a queue, or from another thread",
        retire=_retire("oclgrind-flush-waits", "Oclgrind"),
    ),
    Quirk(
        name="oclgrind-claims-all-types",
        matches=lambda facts, _log: facts.name.startswith("Oclgrind"),
        fault="the simulator says that it is a CPU, a GPU and an accelerator at once",
        seen="Oclgrind 21.10, Debian 12, 2026-11",
        workaround="choose it by its name; do not conclude from GPU that many work-groups are resident",
        retire=_retire("oclgrind-claims-all-types", "Oclgrind"),
    ),
)


def matching(facts: DeviceFacts, log: str = "") -> list[Quirk]:
    """Return the quirks of a device, in the order of the table."""
    return [quirk for quirk in QUIRKS if quirk.matches(facts, log)]


def has_effect(effect: str, facts: DeviceFacts) -> bool:
    """Tell whether any quirk of a device has this effect on what portbar does."""
    return any(quirk.effect == effect for quirk in matching(facts))


def loop_limit(facts: DeviceFacts, measured: int | None) -> int | None:
    """Iterations after which a device ends loops: the smaller of what a probe measured and what the table knows."""
    known = [quirk.loop_limit for quirk in matching(facts) if quirk.loop_limit]
    return min([*known, *([] if measured is None else [measured])], default=None)


def loop_notice(facts: DeviceFacts, limit: int) -> str:
    """What to tell who runs kernels of their own on a device that ends loops, with the remedy."""
    known = [quirk.workaround for quirk in matching(facts) if quirk.loop_limit]
    return (
        f"the device ends loops silently after {limit} iterations in the whole kernel, also the loops of your own kernels: "
        f"what takes more gives wrong results without an error. What would help: {(known or [_UPDATE])[0]}"
    )


def only_another_runtime() -> frozenset[str]:
    """Return the remedies that tell a user to install another runtime, which may be there already."""
    return frozenset(quirk.workaround for quirk in QUIRKS if quirk.effect == ANOTHER_RUNTIME)


def remedy(facts: DeviceFacts, log: str) -> str:
    """Return what helps against what a log shows, or an empty text where the table does not know it."""
    for quirk in matching(facts, log):
        if quirk.symptom and re.search(quirk.symptom, log):
            return quirk.workaround
    return ""


def markdown() -> str:
    """The table as a part of a page, one section an entry: what the documentation shows."""
    parts = []
    for quirk in QUIRKS:
        parts.append(f"## {quirk.name}\n\n{_sentence(quirk.fault)}\n")
        rows = (("Seen", _sentence(quirk.seen)), ("What helps", _sentence(quirk.workaround)))
        parts += [f"{title}\n: {text}\n" for title, text in (*rows, ("Gone when this fails", f"`{quirk.retire}`"))]
    return "\n".join(parts)


def _sentence(text: str) -> str:
    """A text of the table with a full stop, and with a capital unless it begins with a name."""
    first = text.split(maxsplit=1)[0]
    plain = first.isalpha() and first.islower() and first != "portbar"
    return f"{text[0].upper() if plain else text[0]}{text[1:]}."


if __name__ == "__main__":
    print(markdown(), end="")
