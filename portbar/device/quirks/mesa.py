"""Faults of Mesa: rusticl, its driver llvmpipe, and Clover."""

from __future__ import annotations

import os
import re
from functools import partial

from portbar.device.facts import DeviceFacts, host_architecture
from portbar.device.quirks import effects
from portbar.device.quirks.entry import ABORTS, CRASHES, LINE_70, LINE_UNKNOWN, UNDERSTATES, Quirk, QuirkKernel, returns


def _llvmpipe(facts: DeviceFacts) -> int | None:
    match = re.match(r"(\d+)\.", facts.driver_version)
    return int(match[1]) if match and facts.name.startswith("llvmpipe") else None


def _rusticl(facts: DeviceFacts) -> int:
    """Return the major version of Mesa under rusticl, 0 for another platform."""
    match = re.match(r"(\d+)\.", facts.driver_version)
    return int(match[1]) if match and facts.platform_name == "rusticl" else 0


def _before_25(facts: DeviceFacts) -> bool:
    """Whether this is llvmpipe before Mesa 25. Faults were seen in 22.3.6, and most were not looked for later."""
    return (_llvmpipe(facts) or 99) < 25


_COUNTS = """
kernel void counts(global uint *out, const uint n)
{
    uint seen = 0;
    /* Volatile, so that compilers cannot precompute the sum. */
    for (volatile uint i = 0; i < n; ++i)
        seen += 1;
    out[0] = seen;
}
"""

_SHELVES = """
kernel void shelves(global uint *out, const uint n, const uint turns, local uint *shelf)
{
    for (uint round = 0; round < 5; ++round) {
        out[0] += 1;
        if (get_local_id(0) == 0)
            shelf[0] = 0;
        barrier(CLK_LOCAL_MEM_FENCE);
        uint left = turns;
        for (uint seen = shelf[0]; seen < n && left != 0; seen = shelf[0]) {
            --left;
            barrier(CLK_LOCAL_MEM_FENCE);
            if (get_local_id(0) == 0)
                shelf[0] = seen + 1;
            barrier(CLK_LOCAL_MEM_FENCE);
        }
    }
}
"""

_EXCHANGES = """
kernel void exchanges(global uint *words)
{
    uint seen = atomic_or(words, 0u);
    for (;;) {
        mem_fence(CLK_GLOBAL_MEM_FENCE);
        const uint before = atomic_cmpxchg(words, seen, seen + 1u);
        mem_fence(CLK_GLOBAL_MEM_FENCE);
        if (before == seen)
            break;
        seen = before;
    }
    words[1 + get_global_id(0)] = seen + 1u;
}
"""

_FENCE = """
static inline __attribute__((always_inline)) void fence(cl_mem_fence_flags flags)
{
    atomic_work_item_fence(FLAGS, memory_order_acq_rel, memory_scope_work_group);
}
kernel void fences(global uint *out)
{
    fence(CLK_LOCAL_MEM_FENCE);
    out[0] = 1u;
}
"""

_CHOSEN = """
kernel void chosen(global uint *out, const uint n)
{
    const uint i = (uint)get_global_id(0);
    global const char *values = (global const char *)(out + 8);
    out[i] = i < n ? values[i] : 77;
}
"""


_PAIRS = """
typedef struct { FIRST first; uint count; } pair;
static pair both(pair a, pair b)
{
    pair made;
    made.first = a.first + b.first;
    made.count = a.count + b.count;
    return made;
}
kernel void pairs(global uint *out, const uint n)
{
    pair sum;
    sum.first = 0;
    sum.count = 0u;
    for (uint i = 0; i < n; ++i) {
        pair mine;
        mine.first = 0;
        mine.count = 0u;
        for (uint j = 0; j < n; ++j)
            mine.count += 1u;
        sum = both(sum, mine);
    }
    out[0] = sum.count + (uint)sum.first;
}
"""

_ASSEMBLY = """
kernel void assembles(global uint *out)
{
    __asm__ volatile("" : : : "memory");
    out[0] = 1u;
}
"""

_SHARED = """
__attribute__((noinline)) static uint tripled(uint value)
{
    return 3u * value + 1u;
}
kernel void first(global uint *out)
{
    out[0] = tripled(out[1]);
}
kernel void second(global uint *out)
{
    out[0] = tripled(out[1]) + 1u;
}
"""

_SEVEN = "kernel void seven(global uint *out) { out[0] = SEVEN; }"


_quirk = partial(Quirk, where=_before_25, platform="rusticl")

ENTRIES = (
    Quirk(
        name="rusticl-not-enabled",
        where=lambda facts: facts.platform_name == "rusticl" and not os.environ.get("RUSTICL_ENABLE"),
        effect=effects.SWITCHED_OFF,
        symptom=effects.NO_DEVICES,
        needs_symptom=True,
        fault="rusticl lists no devices unless RUSTICL_ENABLE names their drivers",
        seen="Mesa 22.3.6 and 25.0.7, 2026-11",
        workaround="set RUSTICL_ENABLE to a Mesa driver before Python starts: `RUSTICL_ENABLE=llvmpipe`",
        task="tests.device.quirk_programs_host:rusticl_not_enabled",
    ),
    Quirk(
        name="clover-without-devices",
        where=lambda facts: facts.platform_name == "Clover",
        effect=effects.NOTHING_LOST,
        symptom=effects.NO_DEVICES,
        needs_symptom=True,
        fault="Clover (mesa.icd) registers itself on machines where it has no device",
        seen="Mesa 22.3.6, Debian 12, 2026-11",
        workaround="none needed: Mesa has replaced Clover by rusticl, which registers itself separately",
        task="tests.device.quirk_programs_host:clover_without_devices",
    ),
    _quirk(
        name="rusticl-inline-assembly",
        where=lambda facts: _rusticl(facts) > 0,
        effect=effects.NO_ASSEMBLY,
        fault="the process ends while it compiles inline assembly, even an empty one",
        seen="Mesa 22.3.6 (Debian 12) and 26.2.6 (Debian sid), rusticl on llvmpipe, 2026-11",
        workaround="use no inline assembly; portbar does not try it there either",
        kernels=(QuirkKernel(_ASSEMBLY, words=1),),
        shows=CRASHES,
    ),
    _quirk(
        name="rusticl-ignored-lines",
        where=lambda facts: _rusticl(facts) >= 26,
        effect=effects.LINES_IGNORED,
        fault="compiler messages ignore #line: they count the lines of the text and call it input.cl",
        seen="Mesa 26.2.6 (Debian sid, LLVM 22.1.8), 2026-11; 22.3.6 (LLVM 15) follows #line",
        workaround="portbar translates the locations in its errors and warnings",
        kernels=(LINE_70,),
        shows=LINE_UNKNOWN,
    ),
    _quirk(
        name="rusticl-shared-functions",
        where=lambda facts: _rusticl(facts) == 25 and host_architecture() == "riscv64",
        effect=effects.CALLS_SHARED,
        fault="the process ends at a function that two kernels call and that is not inlined",
        seen="Mesa 25.0.7 on riscv64, 2026-11; not on x86-64 (22.3.6 and 26.2.6)",
        workaround=(
            "declare such functions __attribute__((always_inline)); portbar.Program does so for its own and yours, unless "
            "files other than portbar's headers contain them"
        ),
        kernels=(QuirkKernel(_SHARED, words=2),),
        shows=CRASHES,
    ),
    _quirk(
        name="rusticl-called-functions",
        where=lambda facts: _rusticl(facts) >= 26,
        effect=effects.CALLS_SHARED,
        fault="the process ends while it compiles some kernels that call functions which are not inlined",
        seen="Mesa 26.2.6 (Debian sid, LLVM 22.1.8), kernels with teams of work-groups, 2026-11",
        workaround="declare functions __attribute__((always_inline)); portbar.Program does so for its own and yours",
        task="tests.device.quirk_programs:team_of_called_functions",
        shows=CRASHES,
    ),
    _quirk(
        name="llvmpipe-loop-limit",
        loop_limit=65_535,
        fault="loops end silently after 65535 iterations in the whole kernel, so a spinning barrier lets work-groups pass",
        seen="Mesa 22.3.6 (rusticl on llvmpipe), 2026-11",
        workaround="use Mesa 25.0 or newer, or another runtime",
        kernels=(QuirkKernel(_COUNTS, words=1, arguments=(70_000,)),),
        shows=returns(lambda out: out == [65_535]),
    ),
    _quirk(
        name="llvmpipe-empty-lanes",
        effect=effects.ITEMS_BEYOND,
        fault=(
            "in work-groups whose size is not a multiple of 8, lanes beyond the last work-item read zeros and take part in "
            "loop conditions: a loop that waits for another value uses up all iterations of the kernel, and where it has a "
            "barrier, the last work-items of a group of more than 8 stop there"
        ),
        seen="Mesa 22.3.6 (rusticl on llvmpipe), a loop over a word of local memory in groups of 1 and 7, 2026-11",
        workaround=(
            "return at the begin of a kernel where get_local_id() of a dimension is not below get_local_size(); portbar does "
            "so in PORTBAR_ENTER and PORTBAR_REDUCTION_SCRATCH. Or use local sizes that are multiples of 8"
        ),
        kernels=(QuirkKernel(_SHELVES, words=1, local_bytes=64, arguments=(2, 100_000)),),
        shows=returns(lambda out: out == [1]),
    ),
    _quirk(
        name="rusticl-foreign-binary",
        effect=effects.FOREIGN_BINARIES_CRASH,
        everywhere=True,
        fault="the process ends at clCreateProgramWithBinary where the binary is damaged or another driver's",
        seen="Mesa 22.3.6 (Debian 12), rusticl on llvmpipe, 2026-11",
        workaround="pass only binaries that the same driver has made; portbar keeps the hash of each",
        task="tests.device.quirk_programs:foreign_binary",
        shows=CRASHES,
    ),
    _quirk(
        name="rusticl-spaces-in-options",
        fault='the process ends at a build option with a macro that has a space in quotes, such as `-DSEVEN="3u + 4u"`',
        seen="Mesa 22.3.6 (Debian 12), rusticl on llvmpipe, 2026-11",
        workaround="write such macros into the source",
        kernels=(QuirkKernel(_SEVEN, words=1, options=('-DSEVEN="3u + 4u"',)),),
        shows=CRASHES,
    ),
    _quirk(
        name="llvmpipe-time-stamps",
        effect=effects.STAMPS_WRONG,
        everywhere=True,
        fault="the profiling time stamps of a command are a few nanoseconds apart, however long it ran",
        seen="Mesa 22.3.6 (rusticl on llvmpipe), a kernel of 5 ms, 2026-11",
        workaround="time kernels on the host; portbar does so if time stamps are implausible",
        task="tests.device.quirk_programs:stamps",
        shows=returns(lambda seconds: seconds["stamps"] < seconds["wall"] / 1000),
    ),
    _quirk(
        name="llvmpipe-work-group-size",
        where=lambda facts: _llvmpipe(facts) is not None,
        effect=effects.UNDERSTATED_WORK_GROUP_SIZE,
        fault="CL_KERNEL_WORK_GROUP_SIZE is 32 for kernels that run correctly with 256 work-items",
        seen="Mesa 22.3.6 (rusticl on llvmpipe), 2026-11",
        workaround="portbar checks the device's limit instead",
        task="tests.device.quirk_programs:work_group_sizes",
        shows=UNDERSTATES,
    ),
    _quirk(
        name="llvmpipe-fences",
        effect=effects.FENCES_ARE_BARRIERS,
        fault=(
            "memory fences and ordered atomics act as barriers: if the work-items of a group execute them a different number "
            "of times, those that execute fewer stop working"
        ),
        seen="Mesa 22.3.6 (rusticl on llvmpipe), a seq_cst compare-exchange loop in groups of 16, 2026-11",
        workaround=(
            "portbar issues no fences here and relies on atomics, which pass the litmus tests on x86-64 (other processors must "
            "pass them first), and refuses the locks of reduction loops. Keep mem_fence and ordered atomics out of divergent "
            "control flow in groups of more than 8 work-items"
        ),
        kernels=(QuirkKernel(_EXCHANGES, words=65, global_size=64, local_size=16),),
        shows=returns(lambda out: sorted(out[1:]) != list(range(1, 65))),
    ),
    _quirk(
        name="llvmpipe-fence-flags",
        effect=effects.FENCE_FLAGS_FIXED,
        everywhere=True,
        symptom=r"argument of incompatible type",
        fault="the process aborts while it compiles an atomic_work_item_fence whose flags are a function's parameter",
        seen="Mesa 22.3.6 (rusticl on llvmpipe), Debian 12, an inline function with the flags as its argument, 2026-11",
        workaround="write the flags of a fence as literals; portbar does",
        kernels=(
            QuirkKernel(_FENCE.replace("FLAGS", "CLK_LOCAL_MEM_FENCE"), words=1, options=("-cl-std=CL3.0",)),
            QuirkKernel(_FENCE.replace("FLAGS", "flags"), words=1, options=("-cl-std=CL3.0",)),
        ),
        controls=1,
        shows=ABORTS,
    ),
    _quirk(
        name="llvmpipe-chosen-chars",
        fault=(
            "a `?:` between a `char` from memory and a constant gives 0 in place of the constant, or ends the process while it "
            "is compiled"
        ),
        seen="Mesa 22.3.6 (rusticl on llvmpipe), `i < n ? values[i] : 77`, right with uchar, short and int, 2026-11",
        workaround="write such a choice as an `if`, as portbar's reductions do, or hold the values as int",
        kernels=(QuirkKernel(_CHOSEN, words=16, global_size=8, local_size=8, arguments=(4,)),),
        shows=returns(lambda out: out[:8] == [0] * 8),
    ),
    _quirk(
        name="llvmpipe-byte-structures",
        effect=effects.BYTES_FIRST_LOSE_OTHERS,
        fault="a structure that begins with a `char` or `uchar` loses its other members where a function returns it",
        seen="Mesa 22.3.6 (rusticl on llvmpipe), pairs summed in two loops, right with short and with the char second, 2026-11",
        workaround="put a wider member first; portbar refuses a reduction loop whose first field of several has 8 bits",
        kernels=(
            QuirkKernel(_PAIRS.replace("FIRST", "short"), words=1, arguments=(3,)),
            QuirkKernel(_PAIRS.replace("FIRST", "char"), words=1, arguments=(3,)),
        ),
        controls=1,
        shows=returns(lambda out: out[0] == 0),
    ),
    _quirk(
        name="llvmpipe-long-bodies",
        effect=effects.LONG_BODIES_SLOW,
        fault="the time to compile the body of a loop grows with the square of its length: minutes for thousands of statements",
        seen="Mesa 22.3.6 (rusticl on llvmpipe), 256, 1,024 and 2,048 sums in a loop: 0.8, 6 and over 40 s, 2026-11",
        workaround="keep loop bodies short and do not unroll them; portbar.reduce uses one load per iteration",
        task="tests.device.quirk_programs:long_bodies",
        # Eight times as long takes eight times the time where it grows with the length.
        shows=returns(lambda seconds: seconds[1] > 16 * seconds[0]),
        limit=120,
        environment={"MESA_SHADER_CACHE_DISABLE": "true"},
    ),
)
