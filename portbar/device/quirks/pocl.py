"""Faults of PoCL."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from portbar.device.facts import DeviceFacts
from portbar.device.quirks import effects
from portbar.device.quirks.entry import ABORTS, CRASHES, FAILS, Quirk, QuirkKernel, ends, returns

if TYPE_CHECKING:  # every program asks the table, and few run its programs
    from portbar.device.child import ChildResult


def _major(facts: DeviceFacts) -> int:
    """Return the major version of PoCL, 0 for another platform."""
    match = re.search(r"PoCL (\d+)\.\d+", facts.platform_version)
    return int(match[1]) if match else 0


def _release(*majors: int, cbs: bool | None = None) -> Callable[[DeviceFacts], bool]:
    """Match PoCL of these major versions; with `cbs`, only where barriers become continuations, or the default, loops."""
    return lambda facts: _major(facts) in majors and cbs in {None, os.environ.get("POCL_WORK_GROUP_METHOD") == "cbs"}


def _llvm(facts: DeviceFacts) -> int:
    """Return the major version of the LLVM that PoCL was built with, 0 if the platform does not report it."""
    match = re.search(r"PoCL .*\bLLVM (\d+)\.", facts.platform_version)
    return int(match[1]) if match else 0


def _of_old_llvm(facts: DeviceFacts) -> bool:
    """Whether PoCL was built with an LLVM before 15, which casts structures before it copies them."""
    return 0 < _llvm(facts) < 15


def _lets_the_first_item_choose(facts: DeviceFacts) -> bool:
    """Whether PoCL copies the code after a skipped barrier: by any method in PoCL 3, by loops around work-items since."""
    return _release(3)(facts) or (_major(facts) > 3 and os.environ.get("POCL_WORK_GROUP_METHOD") != "cbs")


def _passes_wide_vectors_otherwise(facts: DeviceFacts) -> bool:
    """Whether PoCL compiles for an older processor than this one, which has AVX-512 without its LLVM knowing.

    Kernels then pass vectors of 64 bytes in one register, and PoCL's built-in functions expect two.
    """
    if not re.search(r"-znver\d$", facts.version) or not _of_old_llvm(facts):
        return False
    try:
        return "avx512f" in Path("/proc/cpuinfo").read_text(encoding="ascii", errors="replace")
    except OSError:
        return False


def _links_by_a_program(facts: DeviceFacts) -> bool:
    """Whether PoCL makes a library of each kernel for a processor of a Linux machine, which takes a linker from PATH."""
    return _major(facts) >= 3 and "CPU" in facts.type and sys.platform == "linux"


def _cache() -> Path:
    """Return the folder where PoCL stores compiled kernels."""
    for variable, below in (("POCL_CACHE_DIR", ""), ("XDG_CACHE_HOME", "pocl/kcache"), ("HOME", ".cache/pocl/kcache")):
        folder = os.environ.get(variable)
        if folder:
            return Path(folder, below)
    return Path("/tmp/pocl/kcache")  # noqa: S108 (PoCL's choice)


def _can_write(folder: Path) -> bool:
    """Whether files can be created in a folder, which need not exist yet."""
    for place in (folder, *folder.parents):
        if os.path.lexists(place):
            return place.is_dir() and os.access(place, os.W_OK | os.X_OK)
    return False


def _is_not(right: list[int]) -> Callable[[ChildResult, str], bool]:
    """Whether a program ends without a certain result: the process died, the launch failed, or nothing was executed."""
    return lambda result, _symptom: result.status != "ok" or result.value != right


def _taken_by_all(result: ChildResult, _symptom: str) -> bool:
    """Whether a loop of one work-item is right with one exit, and with a break all 64 of a group run it, or it hangs."""
    if not result.progress or result.progress[0]["found"][1] != 400:
        return False
    return result.status == "timeout" or (result.status == "ok" and bool(result.value[1] == 64 * 400))


#: A vector of 16 uints that a built-in function loads.
_WIDE_VECTORS = """
kernel void wide(global uint *out)
{
    for (uint i = 0; i < 16u; ++i)
        out[i] = i + 1u;
    *(global uint16 *)(out + 16) = vload16(0, out);
}
"""

#: A barrier under a uniform condition, followed by a value that either branch may have written.
_UNDER_IF = """
kernel void under_if(global uint *out, const uint n)
{
    local uint shared[64];
    uint value = out[get_global_id(0)];
    for (uint i = 0; i < n; ++i) {
        if (i % 2u == 1u) {
            shared[get_local_id(0)] = value;
            barrier(CLK_LOCAL_MEM_FENCE);
            value += shared[63u - get_local_id(0)];
            barrier(CLK_LOCAL_MEM_FENCE);
        } else
            value *= 3u;
        value ^= i;
    }
    out[get_global_id(0)] = value;
}
"""
#: Seen to abort PoCL 5.0.
_LOPSIDED = """
kernel void lopsided(global uint *out, const uint n)
{
    local uint shared[64];
    if (get_local_id(0) < n) {
        shared[get_local_id(0)] = out[get_local_id(0)];
        barrier(CLK_LOCAL_MEM_FENCE);
        out[get_local_id(0)] = shared[0];
        return;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    out[0] += 1u;
}
"""

#: Seen to abort PoCL 5.0, the second with work-groups of one work-item.
_BRANCHES_TWICE = """
kernel void branches_twice(global uint *out, const uint n)
{
    const uint item = (uint)get_local_id(0);
    for (uint i = 0u; i < n; ++i) {
        barrier(CLK_LOCAL_MEM_FENCE);
        if ((item & 1u) != 0u) {
            if ((item & 2u) != 0u)
                atomic_add(out + 1, 1u);
            else
                atomic_sub(out + 2, 2u);
        } else {
            if ((item & 2u) != 0u)
                atomic_or(out + 3, 1u);
            else
                atomic_xor(out + 4, 1u);
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
}
"""
_BEGINS_WITH_A_LOOP = """
kernel void begins_with_a_loop(global uint *out, const uint n)
{
    const uint item = (uint)get_local_id(0);
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint i = 0u; i < n; ++i) {
        for (uint j = 3u; j > 0u; --j)
            atomic_max(out + 1, item == n ? 1u : 0u);
        for (uint j = 0u; j < n; ++j) {
            atomic_add(out + 2, 2u);
            atomic_max(out + 3, i);
        }
    }
    barrier(CLK_LOCAL_MEM_FENCE);
}
"""

_IDS_AGAIN = """
kernel void ids_again(global uint *out, local uint *shelf)
{
    shelf[get_local_id(0)] = 5u;
    barrier(CLK_LOCAL_MEM_FENCE);
    out[get_global_id(0)] = (uint)get_local_id(0) + 1u;
}
"""

_LEFT_EARLY = """
kernel void left_early(global uint *out, const uint n)
{
    const uint here = (uint)get_local_id(0);
    uint v = 0u;
    for (uint k = n; k > here; --k)
        v = 5u;
    barrier(CLK_LOCAL_MEM_FENCE);
    out[get_global_id(0)] = v;
}
"""

_ALL_VALUES = """
kernel void all_values(global uint *out, const uint n)
{
    const uint here = (uint)get_local_id(0);
    uint v = here;
    switch (n * here & 3u) {
    case 0u: v += 10u; break;
    case 1u: v ^= 32u; break;
    case 2u: v *= 3u; break;
    case 3u: v += 40u; break;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    out[get_global_id(0)] = v;
}
"""

_LEFT_BETWEEN = """
kernel void left_between(global uint *out, const uint n)
{
    const uint here = (uint)get_local_id(0), me = (uint)get_global_id(0);
    uint v = 0u;
    for (uint k = 3u; k > 0u; --k) {
        if (n == 5u) {
            if (here)
                break;
            v = 5u;
        } else {
            uint j = 0u;
            while (j < n) {
                ++j;
                atomic_add(out + 8, 2u);
            }
        }
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    out[me] = v;
}
"""

_COPIES = """
kernel void copies(global uint *cells, local uint *shelf)
{
    const uint here = (uint)get_local_id(0), me = (uint)get_global_id(0);
    shelf[here] = cells[me];
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint i = 0u; i < 3u; ++i)
        cells[i * 16u + me] = shelf[here] + i + 1u;
}
"""

_TWICE = """
kernel void twice(global uint *out)
{
    barrier(CLK_GLOBAL_MEM_FENCE);
    for (uint i = 1; i < 3u; ++i)
        atomic_add(out + i, 1u);
    barrier(CLK_GLOBAL_MEM_FENCE);
}
"""

_TWO_LOOPS = """
kernel void two_loops(global uint *out, const uint size, local uint *shelf)
{
    const uint id = (uint)get_local_id(0), first = id - id % size;
    for (uint round = 0u; round < 32u; ++round) {
        shelf[id] = round + id;
        barrier(CLK_LOCAL_MEM_FENCE);
        uint sum = shelf[first];
        if (size <= 4u)
            for (uint i = 1u; i < size; ++i)
                sum += shelf[first + i];
        else if (id == first) {
            for (uint i = 1u; i < size; ++i)
                sum += shelf[first + i];
            shelf[first] = sum;
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        out[round * 16u + id] = size <= 4u ? sum : shelf[id];
    }
}
"""

_BREAKS = """
kernel void breaks(global uint *out, const uint rounds)
{
    local uint here[2];
    if (out[100] > 5u)
        return;
    here[get_local_id(0) & 1u] = 1u;
    barrier(CLK_LOCAL_MEM_FENCE);
    if (get_local_id(0) == 0) {
        for (uint r = 0; r < rounds; ++r) {
            if (atomic_inc(out + 1) > 1000000u)
                break;
        }
    }
}
"""
#: The same with one exit.
_ENDS = _BREAKS.replace(
    """for (uint r = 0; r < rounds; ++r) {
            if (atomic_inc(out + 1) > 1000000u)
                break;
        }""",
    """bool more = true;
        for (uint r = 0; more && r < rounds; ++r)
            more = atomic_inc(out + 1) <= 1000000u;""",
)

_UNEVEN = """
kernel void uneven(global uint *out, local uint *shelf)
{
    const uint id = (uint)get_local_id(0);
    uint most[10] = { 0 }, sums[10] = { 0 };
    for (uint i = id % 8u; i < 100u; i += 8u)
        for (uint k = 0; k < 10u; ++k) {
            sums[k] += i;
            most[k] = max(most[k], i);
        }
    for (uint k = 0; k < 10u; ++k)
        shelf[20u * id + k] = sums[k];
    for (uint k = 0; k < 10u; ++k)
        shelf[20u * id + 10u + k] = most[k];
    barrier(CLK_LOCAL_MEM_FENCE);
    out[id] = shelf[20u * id + 13u];
}
"""

_STRIDES = """
kernel void strides(global uint *out, const uint stride)
{
    volatile global uint *first = out;
    if (get_local_id(0) == 0)
        for (uint i = 0; i < 1u; i += stride)
            first[i] = 1u;
    barrier(CLK_LOCAL_MEM_FENCE);
    out[get_local_id(0) + 1] = 2u;
}
"""

_WRAPS = """
kernel void wraps(global uint *out, const uint group)
{
    global uint *data = out + 32;
    for (uint i = 0; i < 32u; ++i)
        data[i] = i + 1u;
    for (uint i = 0; i < 32u; ++i)
        out[i] = data[group * 32u + (i * 5u + 3u) % 32u];
}
"""

_DIMENSIONS = """
kernel void dimensions(global uint *out)
{
    for (uint d = 0; d < 3u; ++d)
        out[d] = (uint)get_num_groups(d);
}
"""

_STRUCTURES_KEPT = """
typedef struct { uint v[6]; } six;

kernel void structures_kept(global uint *out, const uint n, local six *shelf)
{
    const uint id = (uint)get_local_id(0);
    six mine;
    for (uint i = 0; i < 6u; ++i)
        mine.v[i] = id + 1u;
    const six kept = mine;
    mine.v[n] = 0u;
    shelf[id] = mine;
    barrier(CLK_LOCAL_MEM_FENCE);
    shelf[id] = kept;
    out[id] = shelf[id].v[5];
}
"""

_ALONE = """
kernel void alone(global uint *out)
{
    out[0] = sub_group_reduce_add(out[0] + 1u);
}
"""
#: Clang reports an error with a note.
_TOO_FEW = """
static void two(int a, int b) { }
kernel void too_few(global uint *out) { two(1); }
"""

_PAUSES = """
kernel void pauses(global uint *out)
{
    local uint seen[64];
    seen[get_local_id(0)] = 1u;
    barrier(CLK_LOCAL_MEM_FENCE);
    if (get_local_id(0) == 0) {
        __asm__ volatile("pause" ::: "memory");
        out[0] += 4u * seen[63];
    }
    barrier(CLK_LOCAL_MEM_FENCE);
}
"""

_PAUSES_IN_A_LOOP = """
kernel void pauses_in_a_loop(global uint *out)
{
    for (uint round = 0; round < 64u + (uint)get_local_id(0); ++round) {
        __asm__ volatile("pause" ::: "memory");
        if (round % 16u == 15u)
            __asm__ volatile("pause" ::: "memory");
    }
    if (get_local_id(0) == 0)
        out[0] += 4u;
}
"""

#: The other method, which is the workaround, hides these faults.
_LOOPVEC = {"POCL_WORK_GROUP_METHOD": "loopvec"}

_quirk = partial(Quirk, platform="PoCL")

ENTRIES = (
    Quirk(
        name="pocl-unknown-cpu",
        where=lambda facts: _major(facts) > 0,
        effect=effects.ANOTHER_RUNTIME,
        symptom=r"unknown target CPU",
        needs_symptom=True,
        fault="nothing compiles on a processor newer than the LLVM inside PoCL",
        seen="PoCL 3.0-rc2 of pocl-binary-distribution 3.0 on AMD family 26, 2026-11",
        workaround='install another CPU runtime: `pip install "portbar[cpu]"`, or Debian\'s pocl-opencl-icd',
        task="tests.device.quirk_programs_host:unknown_cpu",
    ),
    _quirk(
        name="pocl-without-linker",
        where=_links_by_a_program,
        effect=effects.LINKER_NEEDED,
        symptom=r"Executable .\S+ doesn't exist|cannot find -l\w+(?:: No such file|\s)",
        fault=(
            "PoCL links each kernel with the program `ld`, GCC's library and the C library, and ends the process where one of "
            "them is missing"
        ),
        seen=(
            "PoCL 3.0-rc2, 3.1 and 6.0 without `ld`, PoCL 3.0-rc2 with binutils only, on Debian 12; Debian's packages of PoCL "
            "depend on all three, 2026-11"
        ),
        workaround=(
            "install them, on Debian and Ubuntu with `apt-get install gcc libc6-dev`, and let `portbar doctor` check the "
            "device again; without `ld`, portbar compiles for it only after such a check found that it works"
        ),
        kernels=(QuirkKernel("kernel void k(global uint *out) { out[0] = 1u; }", words=1),),
        shows=ABORTS,
        environment={"PATH": os.devnull},
    ),
    Quirk(
        name="pocl-unwritable-cache",
        where=lambda facts: _major(facts) > 0 and not _can_write(_cache()),
        symptom=effects.NO_DEVICES,
        needs_symptom=True,
        fault="PoCL lists no devices if it cannot write its kernel cache, as in a read-only home directory",
        seen="PoCL 3.0-rc2 and 3.1, 2026-11",
        workaround="set POCL_CACHE_DIR to a writable folder before Python starts",
        task="tests.device.quirk_programs_host:unwritable_cache",
    ),
    _quirk(
        name="pocl-barrier-under-if",
        where=_release(5, 6),
        symptom=r"addContextSaveRestore|Cannot add context restore",
        fault="the process aborts while it compiles a barrier under an if inside a loop",
        seen="PoCL 5.0 (16 cores) and 6.0 (Debian 13), 2026-11",
        workaround="set `POCL_WORK_GROUP_METHOD=cbs` before Python starts, or move the barrier out of the if",
        kernels=(
            QuirkKernel(_UNDER_IF, words=64, global_size=64, local_size=64, arguments=(4,)),
            QuirkKernel(_LOPSIDED, words=64, global_size=64, local_size=64, arguments=(64,)),
        ),
        shows=CRASHES,
        limit=60,
        environment=_LOOPVEC,
    ),
    _quirk(
        name="pocl-part-not-found",
        where=_release(5),
        symptom=r"createParallelRegionBefore|ParallelRegion::Create",
        fault=(
            "the process aborts while it compiles a barrier in a loop after a branch of which both ways branch again, also "
            "where one of them ends with `continue`, or a loop that begins with one of several loops"
        ),
        seen="PoCL 5.0 (16 cores), 2026-11",
        workaround=(
            "portbar.Program puts a branch that no work-item takes, or a statement of all work-items, between them; for other "
            "programs, set `POCL_WORK_GROUP_METHOD=cbs` before Python starts"
        ),
        kernels=(
            QuirkKernel(_BRANCHES_TWICE, words=64, global_size=64, local_size=64, arguments=(4,)),
            QuirkKernel(_BEGINS_WITH_A_LOOP, words=64, arguments=(4,)),
        ),
        shows=CRASHES,
        limit=60,
        environment=_LOOPVEC,
    ),
    _quirk(
        name="pocl-leader-forgotten",
        where=lambda facts: _major(facts) >= 3,
        effect=effects.LEADER_FORGOTTEN,
        fault=(
            "between two barriers, a block that only one work-item executes may be dropped if the other work-items execute "
            "nothing there: a barrier between work-groups then let them pass and reported success"
        ),
        seen=(
            "PoCL 7.1 (Debian sid) and 6.0 (Debian 13), loopvec, programs of two kernels; PoCL 5.0 (16 cores), splits into "
            "teams; PoCL 3.0-rc2 and 3.1, programs of a dozen, in waits of the split device barrier, a lock under an if, and "
            "sub-group scans in both branches of an if, 2026-11"
        ),
        workaround=(
            "portbar makes every work-item write a private volatile word there, and portbar.Program also after a barrier of "
            "yours that a branch follows; do the same with exported headers, or use another runtime"
        ),
        task="tests.device.quirk_programs:left_behind",
        shows=returns(lambda missed: missed > 0),
        limit=60,
        environment=_LOOPVEC,
    ),
    _quirk(
        name="pocl-failed-wait-list",
        where=_release(3, 4, 5, 6),
        effect=effects.FAILED_WAITS_NEVER_END,
        everywhere=True,
        fault="a command that depends on an event that has already failed never ends, nor does a wait for it",
        seen="PoCL 3.1, 5.0 and 6.0, a user event in the wait list set to -5 before, 2026-11",
        workaround="check the status of events before you wait for them; portbar refuses to launch after one that failed",
        task="tests.device.quirk_programs:behind_a_failure",
        shows=ends("timeout", reports=[{"enqueued": True}]),
        limit=5,
    ),
    _quirk(
        name="pocl-failed-event-released",
        where=_release(3),
        effect=effects.FAILED_EVENTS_LINGER,
        everywhere=True,
        fault=(
            "if the event of a command that failed by its wait list is released while an earlier command of its in-order queue "
            "runs, that one may never end, or the process aborts"
        ),
        seen="PoCL 3.0-rc2 and 3.1, one more command in the queue, 2026-11",
        workaround=(
            "keep the event until the commands before it have ended; portbar keeps those of launches with a grid, gangs or a "
            "scan, and leaves those of other kernels to you"
        ),
        platform="PoCL 3",
        task="tests.device.quirk_programs:released_after_a_failure",
        shows=ends("crash", reports=[{"failed": True}]),
        limit=10,
    ),
    _quirk(
        name="pocl-cbs-ids",
        where=_release(5, cbs=True),
        effect=effects.IDS_LOST,
        fault="with POCL_WORK_GROUP_METHOD=cbs, ids that are asked for before and after a barrier may be the first work-item's",
        seen="PoCL 5.0 (Debian, 16 cores), `s[get_local_id(0)] = 5; barrier(...); out[...] = get_local_id(0);`, 2026-11",
        workaround="use portbar_global_id(), keep the id in a volatile private word, or leave POCL_WORK_GROUP_METHOD unset",
        platform="PoCL 5",
        kernels=(QuirkKernel(_IDS_AGAIN, words=16, global_size=16, local_size=8, local_bytes=32),),
        shows=returns(lambda out: out != 2 * list(range(1, 9))),
    ),
    _quirk(
        name="pocl-cbs-loop",
        where=_release(6, cbs=True),
        fault="with POCL_WORK_GROUP_METHOD=cbs, a loop with a constant number of iterations after a barrier may be dropped",
        seen="PoCL 6.0 (Debian 13), `s[l] = a[g]; barrier(...); for (i = 0; i < 3; ++i) a[i * n + g] = s[l] + i;`, 2026-11",
        workaround="make the number of iterations an argument of the kernel, or leave POCL_WORK_GROUP_METHOD unset",
        platform="PoCL 6",
        kernels=(QuirkKernel(_COPIES, words=48, global_size=16, local_size=8, local_bytes=32),),
        shows=returns(lambda out: out == [0] * 48),
    ),
    _quirk(
        name="pocl-sub-groups-of-one",
        where=_release(5, 6),
        effect=effects.SUB_GROUPS_ABORT,
        symptom="__pocl_work_group_alloca",
        fault=(
            "the process aborts where a kernel with a sub-group function that combines values is launched in work-groups of "
            "one work-item: `__pocl_work_group_alloca` is not found"
        ),
        seen="PoCL 5.0 (Ubuntu 24.04), `out[0] = sub_group_reduce_add(out[0]);`, 2026-11; 6.0 aborts there, too",
        workaround=(
            "portbar takes sub-group functions for missing and reduces without them; in your own kernels, take work-groups of "
            "two work-items or more"
        ),
        kernels=(QuirkKernel(_ALONE, words=4, options=("-cl-std=CL3.0",)),),
        shows=ABORTS,
        limit=60,
    ),
    _quirk(
        name="pocl-constant-loops",
        where=_release(5, 6),
        symptom=r"ParallelRegion::Create|chainAfter",
        fault=(
            "after a barrier, a loop with a constant number of iterations aborts the process while it is compiled; in "
            "work-groups of one work-item, PoCL 6 may drop the loop instead"
        ),
        seen="PoCL 5.0 (Ubuntu 24.04) and 6.0 (Debian 13), `for (i = 1; i < 3; ++i) atomic_add(a + i, 1);`, 2026-11",
        workaround="make the number of iterations depend on an argument of the kernel, or write the statements out",
        kernels=(QuirkKernel(_TWICE, words=8, global_size=4, local_size=2),),
        shows=ABORTS,
        limit=60,
    ),
    _quirk(
        name="pocl-loops-in-branches",
        where=_release(5, cbs=False),
        effect=effects.BRANCHES_ABORT,
        symptom=r"createParallelRegionBefore",
        fault="the process aborts while it compiles `if (a) loop else if (b) loop` between two barriers in a loop",
        seen="PoCL 5.0 (Debian, 16 cores), local sizes above 1, methods loopvec and loops, 2026-11",
        workaround=(
            "set `POCL_WORK_GROUP_METHOD=cbs` before Python starts, or merge the two loops; portbar refuses the barrier "
            "algorithm xf on PoCL 5, and debug builds of split_barrier.h record faults without printing them"
        ),
        platform="PoCL 5",
        kernels=(QuirkKernel(_TWO_LOOPS, words=512, global_size=16, local_size=16, arguments=(8,), local_bytes=64),),
        shows=ABORTS,
        limit=60,
    ),
    _quirk(
        name="pocl-break-after-return",
        # PoCL 4 was not tried; the workaround harms no compiler.
        where=_lets_the_first_item_choose,
        effect=effects.JOINS_LOST,
        fault=(
            "after a barrier that some path skips, by an earlier return (PORTBAR_ENTER has one) or an if around it, a "
            "data-dependent branch of one work-item is executed by all work-items or by none, or never ends; PoCL 5 to 7 end "
            "the kernel early or abort"
        ),
        seen=(
            "PoCL 3.0-rc2, 3.1, 5.0, 6.0 and 7.1, all methods but cbs, "
            "`if (get_global_id(0) == 0) { if (x[0]) atomic_inc(a); else atomic_inc(b); }` as the last statement, 2026-11"
        ),
        workaround=(
            "portbar.Program brings the kernels that it compiles into a form with barriers on all edges. With exported headers "
            "end each kernel, each branch that holds a barrier, and the other branches beside it, with "
            "barrier(CLK_LOCAL_MEM_FENCE), and after a barrier jump to the kernel's last one instead of returning"
        ),
        kernels=(
            QuirkKernel(_ENDS, words=128, global_size=128, local_size=64, arguments=(200,)),
            QuirkKernel(_BREAKS, words=128, global_size=128, local_size=64, arguments=(200,)),
        ),
        shows=_taken_by_all,
        limit=5,
    ),
    _quirk(
        name="pocl-first-item-twice",
        where=_lets_the_first_item_choose,
        effect=effects.FIRST_ITEM_TWICE,
        fault=(
            "in work-groups of several work-items whose first dimension is 1, the first work-item executes statements twice "
            "before a branch, a loop or a return that skips a barrier, and after it"
        ),
        seen=(
            "PoCL 3.0-rc2, 3.1, 5.0, 6.0 and 7.1, all methods but cbs, local sizes (1, 7) and (1, 1, 7), "
            "`if (none) barrier(...); out[get_local_id(1)] += 1; barrier(...);`, 2026-11"
        ),
        workaround=(
            "portbar launches such kernels with two dimensions exchanged, and compiles them once more for that; in your own, "
            "give the work-items in the first dimension, (7, 1)"
        ),
        task="tests.device.quirk_programs:counts_after_skipped_barrier",
        shows=returns(lambda counts: counts == [2, 1, 1, 1]),
    ),
    _quirk(
        name="pocl-uneven-loops",
        where=lambda facts: _of_old_llvm(facts) or _release(5, 7, cbs=False)(facts) or _release(3, cbs=True)(facts),
        fault=(
            "before a barrier, a loop with a bound that the compiler knows, which work-items leave at different times, ends "
            "for all of them when the first one leaves it, if there is a loop in it"
        ),
        seen=(
            "PoCL 3.0-rc2, 5.0 and 7.1, and 3.1 with another POCL_WORK_GROUP_METHOD than loopvec, "
            "`for (i = id % 8; i < 100; i += 8) for (k = 0; k < 10; ++k) a[k] += i;`, 2026-11"
        ),
        workaround="make the outer bound an argument of the kernel, or its counter volatile",
        kernels=(QuirkKernel(_UNEVEN, words=32, global_size=32, local_size=32, local_bytes=32 * 80),),
        shows=returns(lambda out: out != [96, 97, 98, 99, 92, 93, 94, 95] * 4),
    ),
    _quirk(
        name="pocl-endless-loops",
        where=_release(3),
        effect=effects.LOOPS_ENDLESS,
        fault=(
            "before a barrier, a loop with one iteration and a stride that the compiler does not know never ends, or crashes "
            "the process, if its stores are volatile or atomic: the compiler keeps a loop without end for a stride of 0"
        ),
        seen="PoCL 3.1 (Debian 12), `if (get_local_id(0) == 0) for (i = 0; i < 1; i += n) v[i] = 1; barrier(...);`, 2026-11",
        workaround=(
            "add max(n, 1u) in place of n, or make the bound an argument of the kernel; portbar_num_groups(), "
            "portbar_global_size() and those of teams are such strides already"
        ),
        platform="PoCL 3",
        kernels=(QuirkKernel(_STRIDES, words=16, global_size=8, local_size=8, arguments=(1,)),),
        shows=_is_not([1] + [2] * 8 + [0] * 7),
        limit=5,
    ),
    _quirk(
        name="pocl-values-after-loops",
        where=_release(3),
        fault=(
            "after a loop that work-items leave at different turns, and a barrier, a private variable has one work-item's "
            "value in all of them if each value that the loop gives it is the same for all"
        ),
        seen="PoCL 3.0-rc2 and 3.1, `for (k = n; k > get_local_id(0); --k) v = 5; barrier(...); out[...] = v;`, 2026-11",
        workaround=(
            "write `if (get_local_id(0) < get_local_size(0))` before such a loop; portbar.Program does so in programs with its "
            "headers"
        ),
        platform="PoCL 3",
        kernels=(QuirkKernel(_LEFT_EARLY, words=8, global_size=8, local_size=8, arguments=(3,)),),
        shows=_is_not([5] * 3 + [0] * 5),
    ),
    _quirk(
        name="pocl-all-values",
        where=_release(3, 5),
        fault=(
            "in a kernel with a barrier, work-items take other cases than their own, or the process ends, where a switch has a "
            "case for each value that its subject can have; also with a chain of if and else if, of which LLVM makes a switch"
        ),
        seen="PoCL 3.0-rc2, 3.1 and 5.0, `switch (x & 3)` with the cases 0 to 3 and `barrier(...);`, 2026-11",
        workaround=(
            "make the last case the default, and the last `else if` an `else`; portbar.Program hides from the compiler, in "
            "programs with its headers, which values there are, but not from cbs of PoCL 5.0"
        ),
        kernels=(QuirkKernel(_ALL_VALUES, words=8, global_size=8, local_size=8, arguments=(1,)),),
        shows=_is_not([10, 33, 6, 43, 14, 37, 18, 47]),
        limit=20,
    ),
    _quirk(
        name="pocl-loops-left-between",
        where=_release(5, cbs=False),
        fault=(
            "all work-items stay in a loop that some leave by a jump, if a branch beside the jump, in a kernel with a barrier, "
            "has a loop that all would go through alike"
        ),
        seen=(
            "PoCL 5.0 (LLVM 16), `for (...) if (n == 5) { if (get_local_id(0)) break; v = 5; } else while (j < n) ...`, 2026-11"
        ),
        workaround=(
            "write `if (get_local_id(0) < get_local_size(0))` before the outer loop; portbar.Program does so in programs with "
            "its headers"
        ),
        platform="PoCL 5",
        kernels=(QuirkKernel(_LEFT_BETWEEN, words=16, global_size=8, local_size=8, arguments=(5,)),),
        shows=_is_not([5] + [0] * 15),
    ),
    _quirk(
        name="pocl-wrapped-indices",
        where=lambda facts: _llvm(facts) == 21,
        fault=(
            "in a loop, or by all work-items after a barrier, an element `a[n + (5 * i + 3) % 32]` is read as if its index "
            "did not wrap around, for any odd factor and power of two"
        ),
        seen="PoCL 7.1 (Debian sid, LLVM 21) on a processor with AVX-512, all methods, 2026-11",
        workaround="make the factor an argument of the kernel, combine with `^` instead, or use a PoCL built with another LLVM",
        kernels=(QuirkKernel(_WRAPS, words=64, arguments=(0,)),),
        shows=_is_not([(5 * i + 3) % 32 + 1 for i in range(32)] + list(range(1, 33))),
    ),
    _quirk(
        name="pocl-loops-over-dimensions",
        where=_release(6, 7),
        fault=(
            "a kernel that asks for get_num_groups(d), get_group_id(d) or get_global_offset(d), where d counts a loop, cannot "
            "be loaded: PoCL 6 ends the process at its launch, and PoCL 7 executes nothing"
        ),
        seen="PoCL 6.0 (Debian 13) and 7.1 (Debian sid), all methods, 2026-11",
        workaround="write the dimensions as constants: get_num_groups(0), get_num_groups(1)",
        kernels=(QuirkKernel(_DIMENSIONS, words=3, global_size=4, local_size=2),),
        shows=_is_not([2, 1, 1]),
    ),
    _quirk(
        name="pocl-structure-copies",
        where=_of_old_llvm,
        effect=effects.COPIES_SHARED,
        fault="a private structure that is copied before a barrier and read after it holds the last work-item's values",
        seen="PoCL 3.0-rc2 (LLVM 14), `kept = mine; mine.v[n] = 0; s[l] = mine; barrier(...); s[l] = kept;`, 2026-11",
        workaround=(
            "portbar takes the address of the structures that its reductions keep across barriers; do the same in your "
            'kernels, as in `__asm__ volatile("" : : "r"(&kept));`, or use a PoCL built with LLVM 15 or later'
        ),
        platform="PoCL 3.0",
        kernels=(
            QuirkKernel(_STRUCTURES_KEPT, words=8, global_size=8, local_size=8, arguments=(1,), local_bytes=8 * 24),
        ),
        shows=returns(lambda out: out == [8] * 8),
    ),
    _quirk(
        name="pocl-wide-vectors",
        where=_passes_wide_vectors_otherwise,
        effect=effects.WIDE_VECTORS_LOST,
        fault="on AMD processors with AVX-512, built-ins lose the upper half of vectors of 64 bytes, or the compiler aborts",
        seen="PoCL 3.0-rc2 (LLVM 14, `znver3`) on a Zen 4, `vload16` of uints, 2026-11",
        workaround="portbar loads 32 bytes at once there; use such vectors, or a PoCL built with LLVM 15 or later",
        platform="PoCL 3.0",
        kernels=(QuirkKernel(_WIDE_VECTORS, words=32),),
        shows=returns(lambda out: out[:24] == [*range(1, 17), *range(1, 9)] and out[24:] != [*range(9, 17)]),
    ),
    _quirk(
        name="pocl-parents-listed",
        where=_release(3),
        effect=effects.PARENTS_LISTED,
        everywhere=True,
        fault="a context that was made of a sub-device lists the device that it is a part of in its place",
        seen="PoCL 3.0-rc2 and 3.1 (Debian 12), one compute unit of two, 2026-11",
        workaround="portbar builds for the queue's device; for plain OpenCL, remember the sub-device, or ask the queue",
        task="tests.device.quirk_programs:listed_in_place_of_a_part",
        shows=returns(lambda listed: listed == {"part": False, "parent": True}),
    ),
    _quirk(
        name="pocl-arguments-unchecked",
        where=_release(3, 4, 5, 6),
        effect=effects.ARGUMENTS_UNCHECKED,
        everywhere=True,
        fault="arguments of the wrong size are accepted for a typedef, and those of the wrong kind crash the process",
        seen="PoCL 3.1, 5.0 and 6.0, `typedef uint word; kernel void k(global uint *out, word w)` with eight bytes, 2026-11",
        workaround="portbar checks its launches' arguments; in your own, pass NumPy scalars of the parameter's type",
        task="tests.device.quirk_programs:unchecked_arguments",
        shows=ends("crash", reports=[{"taken": 8}]),
    ),
    _quirk(
        name="pocl-samplers-in-command-buffers",
        where=_release(3),
        effect=effects.SAMPLERS_LAUNCHED,
        fault="a sampler as an argument of a launch in a command buffer is taken for memory: the process hangs or ends",
        seen="PoCL 3.1 (Debian 12), `clCommandNDRangeKernelKHR` of a kernel with a `sampler_t`, 2026-11",
        workaround="portbar launches such steps; for plain OpenCL, declare the sampler in the program",
        platform="PoCL 3.1",
        task="tests.device.quirk_programs:sampler_in_command_buffer",
        shows=lambda result, _symptom: result.status in {"crash", "timeout"},
    ),
    _quirk(
        name="pocl-rewritten-logs",
        where=lambda facts: _major(facts) >= 3,
        effect=effects.LOGS_REWRITTEN,
        everywhere=True,
        fault='a build log lacks the compiler\'s notes, and locations follow the word "error"',
        seen="PoCL 3.1, 5.0, 6.0 and 7.1, a function called with too few arguments, 2026-11",
        workaround="look for the declaration yourself: the error names neither it nor its place",
        kernels=(QuirkKernel(_TOO_FEW),),
        shows=lambda result, _symptom: (
            FAILS(result, r"error: \S+:\d+:\d+: too few arguments") and "declared here" not in result.message
        ),
    ),
    _quirk(
        name="pocl-untold-local-memory",
        where=_release(5, 6),
        effect=effects.LOCAL_MEMORY_UNREPORTED,
        everywhere=True,
        fault="CL_KERNEL_LOCAL_MEM_SIZE is 0 for kernels that have local memory",
        seen="PoCL 5.0 (Debian, 16 cores) and 6.0 (Debian 13), 2026-11",
        workaround="count it yourself; portbar reads the kernel's text where it must know whether there is any",
        task="tests.device.quirk_programs:told_local_memory",
        shows=returns(lambda reported: reported == 0),
    ),
    _quirk(
        name="pocl-threads-wander",
        where=lambda facts: _major(facts) >= 3 and "CPU" in facts.type and sys.platform == "linux",
        fault=(
            "the threads that run work-groups are not bound to cores: those that wait for each other may be put on one core, "
            "where they take turns"
        ),
        seen="PoCL 3.0-rc2, 3.1 and 5.0, Linux 6.18, 2026-11",
        workaround=(
            "on a machine that runs little else, set `POCL_AFFINITY=1` before Python starts; not where another process keeps a "
            "core busy, which then delays every barrier"
        ),
        task="tests.device.quirk_programs:fewest_cores_of_a_thread",
        shows=returns(lambda cores: cores > 1),
        environment={"POCL_AFFINITY": "0"},
    ),
    _quirk(
        name="pocl-vectorised-assembly",
        where=_release(5, 6, cbs=False),
        effect=effects.ASSEMBLY_APART,
        fault=(
            "inline assembly in a kernel is taken for an allocation of local memory: the process aborts while it compiles the "
            "kernel for more than one work-item, or the assembly is lost"
        ),
        seen=(
            "PoCL 5.0 and 6.0, loopvec, on processors of Intel and AMD with AVX-512, `pause` by one work-item and in a loop; "
            "6.0 on an emulated AArch64, `isb`, 2026-11"
        ),
        workaround=(
            "use the compiler's own functions, such as `__builtin_ia32_pause()` and `__builtin_arm_isb(15)`; "
            "portbar's call of the host is in a function whose name keeps it out of kernels"
        ),
        kernels=(QuirkKernel(_PAUSES, words=64, global_size=64, local_size=64),),
        shows=CRASHES,
    ),
    _quirk(
        name="pocl-assembly-in-loops",
        where=_release(5, 6),
        effect=effects.ASSEMBLY_APART,
        fault="the process aborts while it compiles inline assembly in a loop of another length per work-item",
        seen="PoCL 5.0 (Debian, 16 cores) and 6.0 (Debian 13), 2026-11",
        workaround="the same as for pocl-vectorised-assembly",
        kernels=(QuirkKernel(_PAUSES_IN_A_LOOP, words=64, global_size=64, local_size=64),),
        shows=CRASHES,
    ),
)
