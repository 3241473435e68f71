"""Faults of Intel's CPU runtime and GPU compiler."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from portbar.device.quirks import effects
from portbar.device.quirks.entry import ABORTS, FAILS, Quirk, QuirkKernel, ends, returns

if TYPE_CHECKING:  # every program asks the table, and few run its programs
    from portbar.device.child import ChildResult


def _hangs_at_the_bound(result: ChildResult, _symptom: str) -> bool:
    """Whether two work-groups met, and the bound's number of them did not."""
    begun = result.progress[:2] == [{"launched": 2}, {"met": 2}]
    return result.status == "timeout" and begun and len(result.progress) == 3


_SMALL = """
kernel void small(global uint *same, const uint first, const uint second, local ushort *object)
{
    object[0] = (ushort)first;
    volatile local atomic_uint *word = (volatile local atomic_uint *)((size_t)object & ~(size_t)3);
    uint seen = atomic_load_explicit(word, memory_order_relaxed, memory_scope_work_group);
    for (;;) {
        uint found = seen;
        atomic_compare_exchange_strong_explicit(word, &found, (seen & ~0xffffu) | second, memory_order_seq_cst,
                                                memory_order_relaxed, memory_scope_work_group);
        if (found == seen)
            break;
        seen = found;
    }
    same[0] = object[0] == (ushort)second ? 1u : 2u;
}
"""

_CARRIES = """
kernel void carries(global float2 *values)
{
    const uint id = (uint)get_local_id(0), size = (uint)get_local_size(0);
    const float2 sign = (float2)(0, id % 7 == 0 ? 1 : -1);
    KIND float2 mine = (float2)(1.0f * sign.x - 0.0f * sign.y, 1.0f * sign.y + 0.0f * sign.x);
    for (uint step = 1; step < size; step *= 2u)
        barrier(CLK_LOCAL_MEM_FENCE);
    if (id == 0u)
        values[get_group_id(0)] = mine;
}
"""

_MEETS = """
static __attribute__((HOW)) void meet(global uint *word)
{
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
    if (get_local_id(0) == 0)
        atomic_add(word, 1u);
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
}
kernel void meets(global uint *out)
{
    for (uint i = 2; i < 10; ++i)
        out[i] += 7u;
    meet(out);
    const uint seen = out[4];
    meet(out);
    out[1] = seen;
}
"""

_THREES = """
kernel void sums(global const char3 *x, global char3 *to, const uint n, const uint groups, global char3 *found)
{
    const uint id = (uint)get_local_id(0);
    char3 a = (char3)(0), b = a;
    for (uint e = 0; e + 2u <= n; e += 2u) {
        a += x[e + id];
        b += x[e + id + 1u];
    }
    char3 own = a + b;
    if (groups == 1u) {
        to[0] = own;
        return;
    }
    found[0] = own;
    own = (char3)(0);
    for (uint k = 0; k < groups; ++k)
        own += found[k];
    to[0] = own;
}
"""

_quirk = partial(
    Quirk, where=lambda facts: facts.platform_name.startswith("Intel") and "CPU" in facts.type, platform="Intel"
)

ENTRIES = (
    Quirk(
        name="intel-loads-write",
        where=lambda facts: facts.platform_name.startswith("Intel") and "GPU" in facts.type,
        effect=effects.LOADS_WRITE,
        fault="the GPU compiler makes each atomic load, even a relaxed one, a read-modify-write: polls compete for the line",
        seen="IGC 1.0.12504 of Debian 12, compiled for kbl, tgllp, dg2 and pvc, not run, 2026-11",
        workaround=(
            "portbar polls with volatile loads and one acquire after the wait, if its probe saw such polls return stored "
            "values and the data that they guard"
        ),
        task="tests.device.quirk_programs_host:intel_loads",
    ),
    _quirk(
        name="intel-concurrent-bound",
        where=lambda facts: "cl_intel_concurrent_dispatch" in facts.extensions and "CPU" in facts.type,
        fault="clGetKernelMaxConcurrentWorkGroupCountINTEL promises more work-groups than run concurrently",
        seen="Intel CPU runtime 2026.22.10, 2 threads: it reports 32, barriers hang from 13 on, 2026-11",
        workaround="take the number of work-groups from discovery, never from the query",
        task="tests.device.quirk_programs:promised",
        shows=_hangs_at_the_bound,
        limit=8,
    ),
    _quirk(
        name="intel-calls-reordered",
        effect=effects.CALLS_REORDERED,
        fault="a load after a call of a function that contains a barrier, and is not inlined, returns the value from before it",
        seen="Intel CPU runtime 2026.22.10, also where the work-item has stored to that address itself, 2026-11",
        workaround=(
            "declare functions that contain a barrier __attribute__((always_inline)); portbar.Program does so for yours, too, "
            "unless files other than portbar's headers contain them"
        ),
        kernels=(
            QuirkKernel(_MEETS.replace("HOW", "always_inline"), words=16),
            QuirkKernel(_MEETS.replace("HOW", "noinline"), words=16),
        ),
        controls=1,
        shows=returns(lambda out: out[1] == 0 and out[4] == 7),
    ),
    _quirk(
        name="intel-local-pointers",
        effect=effects.LOCAL_POINTERS_LOST,
        fault=(
            "a pointer to local memory that a private structure keeps across barriers leads elsewhere after a branch, to "
            "one place in all work-groups"
        ),
        seen=(
            "Intel CPU runtime 2026.22.10, groups of 1, after a wait for an atomic in one of two branches, in a kernel with "
            "eight barriers, 2026-11"
        ),
        workaround="read such a pointer back from a private volatile variable, once; portbar does so with its own",
        task="tests.device.quirk_programs:lost_pointers",
        shows=returns(lambda out: out == [0, 0]),
    ),
    _quirk(
        name="intel-loops-of-leaders",
        effect=effects.LOOPS_KEEP_VECTORS_OFF,
        fault=(
            "a kernel gets no vectors of work-items if one of them alone waits in a loop with atomics beside the loops that "
            "all run, which are then up to seven times as slow"
        ),
        seen="Intel CPU runtime 2026.22.10, work-groups of 64 and of 16 x 16 with barriers in loops, 2026-11",
        workaround="keep such a loop in a function that is not inlined; portbar does so with its own",
        task="tests.device.quirk_programs:vectors_kept_off",
        shows=returns(lambda sizes: sizes[0] == 64 and sizes[1] < 64),
    ),
    _quirk(
        name="intel-local-atomics",
        effect=effects.LOCAL_ATOMICS_LOSE_STORES,
        fault="after an atomic on the 32 bits around a 16-bit object in local memory, the compiler uses the object's old value",
        seen="Intel CPU runtime 2026.22.10, OpenCL C 3.0, a ushort stored, exchanged and loaded by one work-item, 2026-11",
        workaround=(
            "portbar implements operations of 8 and 16 bits with OpenCL 1.2's atomic_cmpxchg between two mem_fence; clang's "
            "own __opencl_atomic_ functions do not help, because this runtime executes them once for several work-items"
        ),
        kernels=(QuirkKernel(_SMALL, words=1, arguments=(12, 15), local_bytes=16, options=("-cl-std=CL3.0",)),),
        shows=returns(lambda out: out == [2]),
    ),
    _quirk(
        name="intel-queue-without-context",
        effect=effects.CONTEXTS_LOST,
        everywhere=True,
        symptom=r"clRetainContext failed: INVALID_CONTEXT",
        fault="a command queue does not retain its context: once nothing else refers to the context, using the queue fails",
        seen="Intel CPU runtime 2026.22.10, 2026-11",
        workaround="keep the context in a variable for as long as its queues; portbar does so for those that it creates",
        task="tests.device.quirk_programs:without_its_context",
        shows=FAILS,
    ),
    _quirk(
        name="intel-part-without-buffer",
        effect=effects.BUFFERS_LOST,
        everywhere=True,
        fault="a sub-buffer does not retain its buffer: once nothing else refers to that, asking for it fails",
        seen="Intel CPU runtime 2026.22.10, 2026-11",
        workaround=(
            "keep the buffer in a variable for as long as its sub-buffers; portbar then takes such a sub-buffer for memory of "
            "its own"
        ),
        task="tests.device.quirk_programs:without_its_buffer",
        shows=FAILS,
    ),
    _quirk(
        name="intel-failed-wait-list",
        effect=effects.FAILURES_HIDDEN,
        fault=(
            "a command whose wait list fails never runs, but its event has the status of a complete one; in an out-of-order "
            "queue the process dies at the next command"
        ),
        seen="Intel CPU runtime 2026.22.10, a user event in the wait list set to -5, 2026-11",
        workaround=(
            "wait for such an event, which raises an error, before you use the command's results, and use a new queue; "
            "portbar refuses to launch after it"
        ),
        task="tests.device.quirk_programs:failed",
        shows=ends("crash", reports=[{"status": 0, "failed": True}]),
    ),
    _quirk(
        name="intel-queues-split-threads",
        effect=effects.QUEUES_SPLIT_THREADS,
        fault="kernels in several queues run concurrently and split the threads: each has fewer concurrent work-groups",
        seen="Intel CPU runtime 2026.22.10, 2 threads, barriers of two work-groups in two queues in turn, 2026-11",
        workaround=(
            "launch grids in one queue, or wait before you use the other; portbar shortens its wait for more work-groups to a "
            "millisecond while another queue of the process runs a grid"
        ),
        task="tests.device.quirk_programs:split",
        shows=returns(lambda met: met["two"] < met["one"] - 5),
        limit=60,
    ),
    _quirk(
        name="intel-dropped-queues",
        effect=effects.QUEUES_LEFT_HANG,
        fault=(
            "an out-of-order queue whose last reference goes while its commands run stops the runtime: a thread of its own "
            "destroys the queue, and waits for itself; later waits in any queue never end"
        ),
        seen="Intel CPU runtime 2026.22.10, 2 threads, within the first ten of such queues, 2026-11",
        workaround=(
            "call finish() before you drop an out-of-order queue; portbar keeps those that it was given until their commands "
            "have ended"
        ),
        task="tests.device.quirk_programs:drops_queues",
        shows=ends("timeout"),
        limit=15,
    ),
    _quirk(
        name="intel-vectors-of-three",
        effect=effects.THREES_ENDLESS,
        everywhere=True,
        fault="the compiler does not end on two sums of char3 or uchar3 in a loop, which another loop follows",
        seen=(
            "Intel CPU runtime 2026.22.10 on an Intel Xeon with AVX-512, also with & and ^, 2026-11; not on an AMD EPYC with "
            "AVX-512"
        ),
        flags=("GenuineIntel", "avx512f"),
        workaround=(
            "use vectors of four; portbar.reduce adds up whole loads of such vectors, which is also faster; isolate_build=True "
            "of portbar.Program ends the compiler after a limit of time"
        ),
        kernels=(QuirkKernel(_THREES.replace("char3", "char4")), QuirkKernel(_THREES)),
        controls=1,
        shows=ends("timeout"),
        limit=15,
    ),
    _quirk(
        name="intel-values-across-barriers",
        symptom=r"sycl-kernel-reduce-cross-barrier-values",
        fault=(
            "the process dies while it compiles a value that depends on a condition, such as a product of complex numbers, "
            "and is live across a barrier in a loop"
        ),
        seen="Intel CPU runtime 2026.22.10, reductions of complex numbers by a tree of barriers, 2026-11",
        workaround=(
            "declare that variable volatile or build with -cl-opt-disable; portbar's reductions use no tree of barriers on "
            "CPUs; isolate_build=True of portbar.Program turns the crash into an error"
        ),
        kernels=(QuirkKernel(_CARRIES.replace("KIND", "volatile")), QuirkKernel(_CARRIES.replace("KIND", "const"))),
        controls=1,
        shows=ABORTS,
    ),
)
