"""The faults of `portbar.device.quirks`, each in a few lines of plain PyOpenCL: what child processes of the quirk tests run.

Not for portbar's workarounds, which none of this uses: a fault that is gone must show here. Every function takes the address of
a device and returns what it saw as JSON values; some are meant to take the process down.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import pyopencl as cl

from portbar.device import child, quirks, vendor
from portbar.device.facts import DeviceAddress, facts


def _queue(payload: dict[str, Any]) -> tuple[cl.Context, cl.CommandQueue]:
    # Kept by name: Intel's runtime was seen to lose a context that only its queue refers to.
    context = cl.Context([DeviceAddress.from_json(payload["address"]).resolve()])
    return context, cl.CommandQueue(context)


def _run(
    payload: dict[str, Any],
    source: str,
    sizes: tuple[tuple[int, ...], tuple[int, ...]],
    words: int,
    *arguments: object,
    options: tuple[str, ...] = (),
) -> list[int]:
    """Build the one kernel of a source, run it with a buffer of zeros as its first argument, and return the buffer."""
    context, queue = _queue(payload)
    program = cl.Program(context, source).build(list(options))
    (kernel,) = program.all_kernels()
    found = np.zeros(words, np.uint32)
    flags = cl.mem_flags
    buffer = cl.Buffer(context, flags.READ_WRITE | flags.COPY_HOST_PTR, hostbuf=found)
    kernel.set_args(buffer, *arguments)
    cl.enqueue_nd_range_kernel(queue, kernel, *sizes)
    cl.enqueue_copy(queue, found, buffer)
    queue.finish()
    return [int(word) for word in found]


def builds(payload: dict[str, Any]) -> str:
    """Build a program and create its kernels; empty, or what the driver said."""
    context, _ = _queue(payload)
    try:
        cl.Program(context, payload["source"]).build(payload.get("options", [])).all_kernels()
    except cl.Error as error:
        return str(error)
    return ""


COUNTS = """
kernel void counts(global uint *out, const uint n)
{
    uint seen = 0;
    /* Volatile, so that no compiler works the sum out. */
    for (volatile uint i = 0; i < n; ++i)
        seen += 1;
    out[0] = seen;
}
"""


def counted(payload: dict[str, Any]) -> int:
    """How often a loop of 70000 iterations ran."""
    return _run(payload, COUNTS, ((1,), (1,)), 1, np.uint32(70_000))[0]


NAMES_ITSELF = "kernel void names_itself(global uint *out) { out[get_global_id(0)] = 7u + (uint)get_local_id(0); }"


def work_group_sizes(payload: dict[str, Any]) -> dict[str, Any]:
    """What a kernel says it can have as a work-group, what the device says, and whether the latter gives right numbers."""
    context, queue = _queue(payload)
    device = context.devices[0]
    kernel = cl.Program(context, NAMES_ITSELF).build().names_itself
    said = kernel.get_work_group_info(cl.kernel_work_group_info.WORK_GROUP_SIZE, device)
    size = min(256 if "CPU" in facts(device).type else 1024, device.max_work_group_size)
    found = np.zeros(2 * size, np.uint32)
    buffer = cl.Buffer(context, cl.mem_flags.READ_WRITE, found.nbytes)
    kernel.set_args(buffer)
    cl.enqueue_nd_range_kernel(queue, kernel, (2 * size,), (size,))
    cl.enqueue_copy(queue, found, buffer)
    right = bool((found == 7 + np.arange(2 * size) % size).all())
    return {"said": int(said), "size": int(size), "right": right}


EXCHANGES = """
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


def exchanged(payload: dict[str, Any]) -> list[int]:
    """The numbers that 64 work-items drew, sorted: each of 1 to 64 once where none was lost."""
    return sorted(_run(payload, EXCHANGES, ((64,), (16,)), 65)[1:])


SMALL = """
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


def small_object(payload: dict[str, Any]) -> int:
    """1 where a ushort in local memory holds what was exchanged into it, 2 where it does not."""
    arguments = (np.uint32(12), np.uint32(15), cl.LocalMemory(16))
    return _run(payload, SMALL, ((1,), (1,)), 1, *arguments, options=("-cl-std=CL3.0",))[0]


MEETS = """
void __attribute__((overloadable)) intel_device_barrier(cl_mem_fence_flags flags);
kernel void meets(global uint *met)
{
    intel_device_barrier(CLK_GLOBAL_MEM_FENCE);
    met[get_group_id(0)] = 1u;
}
"""


def promised(payload: dict[str, Any]) -> None:
    """Let as many work-groups meet in the driver's own barrier as the driver says run at once; reports how many met.

    First two, then the most; the kernel is marked for concurrent dispatch as cl_intel_concurrent_dispatch asks for.
    """
    context, queue = _queue(payload)
    kernel = cl.Program(context, MEETS).build(["-cl-std=CL3.0"]).meets
    buffer = cl.Buffer(context, cl.mem_flags.READ_WRITE, 4 * 4096)
    kernel.set_args(buffer)
    set_exec_info = vendor.loader().clSetKernelExecInfo
    set_exec_info.argtypes = [ctypes.c_void_p, ctypes.c_uint32, ctypes.c_size_t, ctypes.c_void_p]
    dispatch_type, concurrent = 0x4257, ctypes.c_uint32(1)
    assert set_exec_info(kernel.int_ptr, dispatch_type, 4, ctypes.byref(concurrent)) == 0
    bound = vendor.vendor_bound(queue, kernel, (1,))
    assert bound is not None
    for groups in (2, min(bound, 4096)):
        child.progress({"launched": groups})
        met = np.zeros(groups, np.uint32)
        cl.enqueue_copy(queue, buffer, met)
        cl.enqueue_nd_range_kernel(queue, kernel, (groups,), (1,))
        cl.enqueue_copy(queue, met, buffer)
        queue.finish()
        child.progress({"met": int(met.sum())})


def types(payload: dict[str, Any]) -> list[str]:
    """What a device says it is."""
    context, _ = _queue(payload)
    return list(facts(context.devices[0]).type)


def without_its_context(payload: dict[str, Any]) -> str:
    """Ask for the context of a queue, which nothing but the queue refers to; empty, or what the driver said."""
    queue = cl.CommandQueue(cl.Context([DeviceAddress.from_json(payload["address"]).resolve()]))
    try:
        assert queue.context.devices
    except cl.Error as error:
        return str(error)
    return ""


def failed(payload: dict[str, Any]) -> None:
    """Let a command fail by its wait list; report its status, whether a wait says more, then whether another one runs."""
    context, _ = _queue(payload)
    queue = cl.CommandQueue(context, properties=cl.command_queue_properties.OUT_OF_ORDER_EXEC_MODE_ENABLE)
    kernel = cl.Program(context, "kernel void one(global uint *out) { out[0] = 1; }").build().one
    buffer = cl.Buffer(context, cl.mem_flags.READ_WRITE, 4)
    kernel.set_args(buffer)
    cause = cl.UserEvent(context)
    event = cl.enqueue_nd_range_kernel(queue, kernel, (1,), (1,), wait_for=[cause])
    queue.flush()
    cause.set_status(-5)
    said = ""
    try:
        event.wait()
    except cl.Error as error:
        said = str(error)
    child.progress({"status": event.command_execution_status, "failed": bool(said)})
    cl.enqueue_nd_range_kernel(queue, kernel, (1,), (1,)).wait()
    child.progress({"status": 0, "failed": False})


OVERLAPS = """
kernel void overlaps(global uint *words, const uint limit)
{
    atomic_inc(words);
    for (uint i = 0u; i < limit; ++i)
        if (atomic_add(words, 0u) == 2u) {
            atomic_inc(words + 1);
            break;
        }
}
"""


def split(payload: dict[str, Any]) -> dict[str, int]:
    """Launches of two work-groups in which both met, of thirty in one queue and of thirty in turns in two."""
    context, queue = _queue(payload)
    kernel = cl.Program(context, OVERLAPS).build().overlaps
    queues, met = [queue, cl.CommandQueue(context)], {"one": 0, "two": 0}
    for name, turns in (("one", [0] * 30), ("two", [0, 1] * 15)):
        zeros = np.zeros(2, np.uint32)
        flags = cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR
        words = [cl.Buffer(context, flags, hostbuf=zeros) for _ in turns]
        for turn, buffer in zip(turns, words, strict=True):
            kernel.set_args(buffer, np.uint32(1_000_000))
            cl.enqueue_nd_range_kernel(queues[turn], kernel, (2,), (1,))
        for one in queues:
            one.flush()
        for one in queues:
            one.finish()
        for buffer in words:
            cl.enqueue_copy(queue, zeros, buffer)
            met[name] += int(zeros[1] == 2)
    return met


def flushed(payload: dict[str, Any]) -> None:
    """Flush a queue whose command waits for an event that this thread sets afterwards."""
    context, queue = _queue(payload)
    child.progress({"flushed": _flushed(context, queue, [])})
    gate = cl.UserEvent(context)
    child.progress({"flushed": _flushed(context, queue, [gate])})
    gate.set_status(cl.command_execution_status.COMPLETE)
    queue.finish()


_kept: list[object] = []


def _flushed(context: cl.Context, queue: cl.CommandQueue, wait_for: list[cl.Event]) -> int:
    kernel = cl.Program(context, NAMES_ITSELF).build().names_itself
    buffer = cl.Buffer(context, cl.mem_flags.READ_WRITE, 64)
    _kept.append(buffer)
    kernel.set_args(buffer)
    cl.enqueue_nd_range_kernel(queue, kernel, (8,), (8,), wait_for=wait_for)
    queue.flush()
    return len(wait_for)


BREAKS = """
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
ENDS = BREAKS.replace(
    """for (uint r = 0; r < rounds; ++r) {
            if (atomic_inc(out + 1) > 1000000u)
                break;
        }""",
    """bool more = true;
        for (uint r = 0; more && r < rounds; ++r)
            more = atomic_inc(out + 1) <= 1000000u;""",
)
assert ENDS != BREAKS


def rounds_of_one(payload: dict[str, Any]) -> None:
    """How often one work-item of each of two groups went through a loop of 200 rounds: with one exit, then with a break."""
    for source in (ENDS, BREAKS):
        child.progress({"rounds": _run(payload, source, ((128,), (64,)), 128, np.uint32(200))[1]})


#: A barrier under a condition that is the same for all work-items, and behind it a value that either branch may have left.
UNDER_IF = """
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
LOPSIDED = """
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


def conditional_barriers(payload: dict[str, Any]) -> None:
    """Run barriers that stand under a condition which is the same for all work-items."""
    for source, argument in ((UNDER_IF, 4), (LOPSIDED, 64)):
        _run(payload, source, ((64,), (64,)), 64, np.uint32(argument))


def missed_stores(payload: dict[str, Any]) -> dict[str, int]:
    """Store buffering under stress, by the driver's own sequentially consistent C11 atomics: in how many both sides missed."""
    from portbar.litmus.checking import check  # noqa: PLC0415 (it starts processes of its own)

    device = DeviceAddress.from_json(payload["address"]).resolve()
    found = check(device, seconds=payload["seconds"], strategies=("c11",), tests=("SB-device-global-ops",)).results[0]
    return {"instances": found["instances"], "both": sum(found["forbidden"].values())}


STRUCTURES = """
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


def structures(payload: dict[str, Any]) -> None:
    """Create a kernel with a function that returns a structure of 20 bytes, out of line and then inlined."""
    for how in ("__attribute__((noinline))", "static inline __attribute__((always_inline))"):
        said = builds({**payload, "source": STRUCTURES.replace("HOW", how)})
        assert said == "", said
        child.progress({"created": how})


CARRIES = """
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


def carried(payload: dict[str, Any]) -> None:
    """Compile a value that depends on a condition and is kept over barriers, volatile and then as it comes."""
    for kind in ("volatile", "const"):
        said = builds({**payload, "source": CARRIES.replace("KIND", kind)})
        assert said == "", said
        child.progress({"built": kind})


#: A sum over a grid by hand. Behind the barrier one work-item reads what the other group left.
LEFT_BEHIND = """
#define PORTBAR_REDUCTION_LOCAL_SIZE 128
#include "portbar/device_barrier.h"
#include "portbar/reduction.h"

kernel void left_behind(PORTBAR_GRID_PARAM, global long *values, global long *out)
{
    PORTBAR_ENTER(grid);
    PORTBAR_REDUCTION_SCRATCH(scratch);
    const uint id = portbar_reduction_id(), size = portbar_reduction_size(), group = portbar_group_id(&grid);
    const uint share = (group + size - 1u) / size;
    const long mine = portbar_work_group_scan_inclusive_add(scratch, 1L + group);
    if (id + 1u == size)
        values[group] = mine;
    (void)portbar_device_barrier(&grid);
    long before = 0;
    for (uint i = min(id * share, group); i < min((id + 1u) * share, group); ++i)
        before += values[i];
    out[portbar_global_id(&grid)] = portbar_work_group_reduce_add(scratch, before);
}

/* A second kernel with a barrier: the compiler then has functions that are not used in one place only. */
kernel void beside(PORTBAR_GRID_PARAM, global long *out)
{
    PORTBAR_ENTER(grid);
    out[portbar_global_id(&grid)] = portbar_device_barrier(&grid);
}
"""


TWO_LOOPS = """
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


def looped_twice(payload: dict[str, Any]) -> list[int]:
    """What a kernel writes that has loops in two branches between barriers; compiling it may take the process down."""
    return _run(payload, TWO_LOOPS, ((16,), (16,)), 512, np.uint32(8), cl.LocalMemory(64))


IDS_AGAIN = """
kernel void ids_again(global uint *out, local uint *shelf)
{
    shelf[get_local_id(0)] = 5u;
    barrier(CLK_LOCAL_MEM_FENCE);
    out[get_global_id(0)] = (uint)get_local_id(0) + 1u;
}
"""


def numbered(payload: dict[str, Any]) -> list[int]:
    """What work-items of two groups of 8 write that ask for their number once more behind a barrier."""
    return _run(payload, IDS_AGAIN, ((16,), (8,)), 16, cl.LocalMemory(32))


COPIES = """
kernel void copies(global uint *cells, local uint *shelf)
{
    const uint here = (uint)get_local_id(0), me = (uint)get_global_id(0);
    shelf[here] = cells[me];
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint i = 0u; i < 3u; ++i)
        cells[i * 16u + me] = shelf[here] + i + 1u;
}
"""


def copied(payload: dict[str, Any]) -> list[int]:
    """What work-items of two groups of 8 write in a loop of three rounds behind a barrier."""
    return _run(payload, COPIES, ((16,), (8,)), 48, cl.LocalMemory(32))


def left_behind(payload: dict[str, Any]) -> int:
    """How often, in many launches, a work-group did not find what another had left before a barrier."""
    from dataclasses import replace  # noqa: PLC0415 (one program's)

    from portbar import Program  # noqa: PLC0415 (needs PyOpenCL)
    from portbar.choices.profile import describe  # noqa: PLC0415
    from portbar.choices.strategy import choose  # noqa: PLC0415

    device = DeviceAddress.from_json(payload["address"]).resolve()
    context = cl.Context([device])
    queue = cl.CommandQueue(context)
    chosen = choose(describe(device), {"device_barrier": "counter"})
    effect = {quirks.LEADER_FORGOTTEN} if payload["forgotten"] else set()
    strategy = replace(chosen, workarounds=chosen.workarounds - {quirks.LEADER_FORGOTTEN} | effect)
    kernel = Program(context, LEFT_BEHIND, strategy=strategy).kernel("left_behind")
    missed = 0
    for _ in range(40):
        values, out = (cl.Buffer(context, cl.mem_flags.READ_WRITE, 8 * 128) for _ in range(2))
        cl.enqueue_fill_buffer(queue, values, np.zeros(1, np.int64), 0, 8 * 128)
        launch = kernel(queue, None, (33,), values, out, num_groups=2)
        launch.wait()
        found = np.zeros(128, np.int64)
        cl.enqueue_copy(queue, found, out)
        missed += launch.num_groups == 2 and found[33:66].tolist() != [33] * 33
    return missed + _wrong_halves(queue, strategy)


def _wrong_halves(queue: cl.CommandQueue, strategy: Any) -> int:
    """How many kernels of a program with many are wrong, one of which waits for a device barrier in two halves."""
    from tests.device_barrier import control_flow_support as support  # noqa: PLC0415 (needs portbar)
    from tests.device_barrier import test_control_flow as control_flow  # noqa: PLC0415 (as before)

    cases = [case for case in support.some_cases(control_flow.SEED, 1) if case.family == "device"]
    # A group that is let through reads what is right, where the others were early enough.
    return len(control_flow.run(queue, cases, "device", strategy, launches=25))


STRUCTURES_KEPT = """
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


UNEVEN = """
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


def uneven(payload: dict[str, Any]) -> list[int]:
    """The last numbers that 32 work-items come to in loops of their own to 100, by steps of 8."""
    return _run(payload, UNEVEN, ((32,), (32,)), 32, cl.LocalMemory(32 * 80))


def kept(payload: dict[str, Any]) -> list[int]:
    """What 8 work-items, which keep structures of their own across a barrier, find in them."""
    return _run(payload, STRUCTURES_KEPT, ((8,), (8,)), 8, np.uint32(1), cl.LocalMemory(8 * 24))
