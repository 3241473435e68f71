"""Faults of the simulator Oclgrind."""

from __future__ import annotations

from functools import partial

from portbar.device.quirks import effects
from portbar.device.quirks.entry import ABORTS, CRASHES, LINE_70, LINE_UNKNOWN, Quirk, QuirkKernel, ends, returns

_STRUCTURES = """
typedef struct { short a[10]; } ten;
HOW ten larger(ten a, ten b)
{
    ten both;
    for (uint i = 0; i < 10u; ++i)
        both.a[i] = max(a.a[i], b.a[i]);
    return both;
}
kernel void structures(global ten *out)
{
    ten sum = out[0];
    for (uint i = 1; i < 4; ++i)
        sum = larger(sum, out[i]);
    out[0] = sum;
}
"""

#: The operands come from memory, so that compilers cannot precompute the result.
_TRUTH = """
kernel void truth(global uint *out)
{
    out[2] = out[3] = 0x01010101u;
    mem_fence(CLK_GLOBAL_MEM_FENCE);
    global const uchar *values = (global const uchar *)(out + 2);
    const uchar4 both = as_uchar4(vload4(0, values) && vload4(1, values)) & (uchar4)1;
    vstore4(both, 0, (global uchar *)out);
}
"""

#: A case for each value of two bits, and values of more bits.
_CASES = """
kernel void cases(volatile global uint *out, const uint value)
{
    uint v = value;
    switch (value & 3u) {
    case 0: v += 10u; break;
    case 1: v ^= 32u; break;
    case 2: v *= 3u; break;
    case 3: v += 40u; atomic_inc(out + 1); break;
    }
    out[0] = v;
}
"""

#: Of two work-groups one adds to a word, the other stores to a byte of it that no addition changes, and looks at that byte.
_TAKEN = """
kernel void beside(volatile global uint *out, const uint rounds)
{
    volatile global uint *const word = out + 1u + (uint)get_group_id(0) / 2u;
    if (get_group_id(0) % 2 == 0)
        for (uint r = 0; r < rounds && out[0] == 0u; ++r)
            atomic_inc(word);
    else
        for (uint r = 0; r < rounds && out[0] == 0u; ++r) {
            volatile global uchar *const mine = (volatile global uchar *)word + 3;
            *mine = (uchar)r;
            for (uint look = 0; look < 4u; ++look)
                if (*mine != (uchar)r)
                    out[0] = out[0] + 1u;
        }
}
"""

_quirk = partial(Quirk, where=lambda facts: facts.name.startswith("Oclgrind"), platform="Oclgrind")

ENTRIES = (
    _quirk(
        name="oclgrind-inlined-structures",
        effect=effects.INLINED_STRUCTURES_UNKNOWN,
        symptom=r"llvm\.experimental\.noalias\.scope\.decl",
        fault="creating a kernel fails if it inlines a function that returns a structure of more than 16 bytes",
        seen="Oclgrind 21.10, Debian 12, `Undefined external function: llvm.experimental.noalias.scope.decl`, 2026-11",
        workaround="portbar declares such functions noinline; declare yours __attribute__((noinline))",
        kernels=(
            QuirkKernel(_STRUCTURES.replace("HOW", "__attribute__((noinline))")),
            QuirkKernel(_STRUCTURES.replace("HOW", "static inline __attribute__((always_inline))")),
        ),
        controls=1,
        shows=ABORTS,
    ),
    _quirk(
        name="oclgrind-flush-waits",
        effect=effects.FLUSHES_WAIT,
        fault="clFlush runs the queue synchronously and deadlocks on an event that this thread has yet to set",
        seen="Oclgrind 21.10, Debian 12, 2026-11",
        workaround="set user events before you flush or release a queue, or from another thread; portbar flushes none there",
        task="tests.device.quirk_programs:flushed",
        shows=ends("timeout", reports=[{"flushed": 0}]),
        limit=5,
    ),
    _quirk(
        name="oclgrind-one-thread",
        fault="the process aborts when two host threads run commands at the same time, also in queues of their own",
        seen="Oclgrind 21.10, Debian 12, four threads, an assertion of m_kernelInvocation or a crash, 2026-11",
        workaround="launch, flush and wait in one thread at a time",
        task="tests.device.quirk_programs:run_by_threads",
        shows=CRASHES,
    ),
    _quirk(
        name="oclgrind-claims-all-types",
        fault="the simulator reports that it is a CPU, a GPU and an accelerator at once",
        seen="Oclgrind 21.10, Debian 12, 2026-11",
        workaround="select it by its name; do not conclude from the type GPU that many work-groups run concurrently",
        task="tests.device.quirk_programs:types",
        shows=returns(lambda types: {"CPU", "GPU", "ACCELERATOR"} <= set(types)),
    ),
    _quirk(
        name="oclgrind-ignored-lines",
        effect=effects.LINES_IGNORED,
        fault="compiler messages ignore #line: they count the lines of the text and call it input.cl",
        seen="Oclgrind 21.10, Debian 12, 2026-11",
        workaround="portbar translates the locations in its errors and warnings",
        kernels=(LINE_70,),
        shows=LINE_UNKNOWN,
    ),
    _quirk(
        name="oclgrind-vector-truth",
        effect=effects.TRUTH_IS_255,
        everywhere=True,
        fault="`as_uchar4(a && b) & (uchar4)1` is 255 where both are true: the mask is dropped",
        seen="Oclgrind 21.10, Debian 12, 2026-11",
        workaround="combine logical values one by one, or use select(); portbar.reduce and portbar.scan use no vectors here",
        kernels=(QuirkKernel(_TRUTH, words=8),),
        shows=returns(lambda out: out[0] == 0xFFFFFFFF),
    ),
    _quirk(
        name="oclgrind-narrow-switches",
        fault=(
            "a `switch` over `x & 3`, or a chain of `else if`, with a case for each value takes a wrong one, or the default, "
            "which the compiler has left out: the kernel's execution ends there"
        ),
        seen="Oclgrind 21.10, Debian 12, `Encountered unreachable instruction`, 2026-11",
        workaround='build with the option "-cl-opt-disable", or take the value from a volatile variable',
        kernels=(
            QuirkKernel(_CASES, words=2, arguments=(6,), options=("-cl-opt-disable",)),
            QuirkKernel(_CASES, words=2, arguments=(6,)),
        ),
        shows=lambda result, _symptom: (
            result.status == "ok" and result.progress == [{"found": [18, 0]}] and result.value != [18, 0]
        ),
    ),
    _quirk(
        name="oclgrind-stores-taken-back",
        fault="with several threads, a plain store may be lost beside an atomic operation on the 32 bits that it lies in",
        seen="Oclgrind 21.10, Debian 12, in about one of 1,000 stores, 2026-11",
        workaround="set OCLGRIND_NUM_THREADS=1, or keep plain stores out of words of which atomic operations take a part",
        # It ends with the first lost store: on a busy machine threads may run in turns, with few of them.
        kernels=(QuirkKernel(_TAKEN, words=5, global_size=8, arguments=(1_000_000,)),),
        shows=returns(lambda out: out[0] > 0),
        environment={"OCLGRIND_NUM_THREADS": "4"},
    ),
)
