"""Programs of `portbar.device.quirks` that take more of the host than a kernel: what child processes of the quirk tests run.

None uses portbar's workarounds. Every function takes the address of a device and returns what it saw as JSON values; some are
meant to take the process down.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyopencl as cl

from portbar.device import child, quirks, vendor
from portbar.device.addresses import DeviceAddress
from portbar.device.facts import facts
from portbar.recording import khr_command_buffer


def _queue(payload: dict[str, Any]) -> tuple[cl.Context, cl.CommandQueue]:
    # Kept by name: Intel's runtime was seen to lose a context that only its queue refers to.
    context = cl.Context([DeviceAddress.from_json(payload["address"]).resolve()])
    return context, cl.CommandQueue(context)


def _ready(context: cl.Context, source: str, size: int, *arguments: Any) -> tuple[cl.Kernel, cl.Buffer]:
    """The kernel of a source, with a buffer of `size` bytes and more arguments, and that buffer."""
    (kernel,) = cl.Program(context, source).build().all_kernels()
    buffer = cl.Buffer(context, cl.mem_flags.READ_WRITE, size)
    kernel.set_args(buffer, *arguments)
    return kernel, buffer


def _strategy_without(effects: set[str], device: cl.Device, asked: dict[str, str] | None = None) -> Any:
    """The strategy that portbar chooses for a device, without its workarounds for some effects."""
    from dataclasses import replace  # noqa: PLC0415 (few programs')

    from portbar.choices.profile import describe  # noqa: PLC0415 (needs PyOpenCL)
    from portbar.choices.strategy import choose  # noqa: PLC0415

    chosen = choose(describe(device), asked)
    return replace(chosen, workarounds=chosen.workarounds - effects)


NAMES_ITSELF = "kernel void names_itself(global uint *out) { out[get_global_id(0)] = 7u + (uint)get_local_id(0); }"


def work_group_sizes(payload: dict[str, Any]) -> dict[str, Any]:
    """Return the work-group limits of a kernel and of the device, and whether the latter gives correct numbers."""
    context, queue = _queue(payload)
    device = context.devices[0]
    size = min(256 if "CPU" in facts(device).type else 1024, device.max_work_group_size)
    found = np.zeros(2 * size, np.uint32)
    kernel, buffer = _ready(context, NAMES_ITSELF, found.nbytes)
    said = kernel.get_work_group_info(cl.kernel_work_group_info.WORK_GROUP_SIZE, device)
    cl.enqueue_nd_range_kernel(queue, kernel, (2 * size,), (size,))
    cl.enqueue_copy(queue, found, buffer)
    right = bool((found == 7 + np.arange(2 * size) % size).all())
    return {"said": int(said), "size": int(size), "right": right}


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
    """Return the types that a device reports."""
    context, _ = _queue(payload)
    return list(facts(context.devices[0]).type)


def without_its_context(payload: dict[str, Any]) -> int:
    """Ask for the context of a queue, which nothing but the queue refers to."""
    queue = cl.CommandQueue(cl.Context([DeviceAddress.from_json(payload["address"]).resolve()]))
    return len(queue.context.devices)


def without_its_buffer(payload: dict[str, Any]) -> bool:
    """Ask a sub-buffer for its buffer, to which nothing else refers."""
    context, _ = _queue(payload)
    part = cl.Buffer(context, cl.mem_flags.READ_WRITE, 1 << 16).get_sub_region(0, 1 << 12)
    return part.get_info(cl.mem_info.ASSOCIATED_MEMOBJECT) is not None


def failed(payload: dict[str, Any]) -> None:
    """Let a command fail by its wait list; report its status, whether a wait says more, then whether another one runs."""
    context, _ = _queue(payload)
    queue = cl.CommandQueue(context, properties=cl.command_queue_properties.OUT_OF_ORDER_EXEC_MODE_ENABLE)
    kernel, _buffer = _ready(context, NAMES_ITSELF, 4)
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


def behind_a_failure(payload: dict[str, Any]) -> None:
    """Wait for a command whose wait list had failed before."""
    context, queue = _queue(payload)
    kernel, _buffer = _ready(context, NAMES_ITSELF, 4)
    cause = cl.UserEvent(context)
    cause.set_status(-5)
    event = cl.enqueue_nd_range_kernel(queue, kernel, (1,), (1,), wait_for=[cause])
    child.progress({"enqueued": True})
    event.wait()


COUNTS = """
kernel void counts(global uint *out, const uint n)
{
    uint seen = 0;
    for (volatile uint i = 0; i < n; ++i)
        seen += i;
    out[get_global_id(0)] = seen;
}
"""


def released_after_a_failure(payload: dict[str, Any]) -> None:
    """Let a command fail while another one runs, release its event, and wait for the running one."""
    context, queue = _queue(payload)
    kernel, _buffer = _ready(context, COUNTS, 8, np.uint32(50_000_000))
    running = cl.enqueue_nd_range_kernel(queue, kernel, (2,), (1,))
    cause = cl.UserEvent(context)
    event = cl.enqueue_nd_range_kernel(queue, kernel, (2,), (1,), wait_for=[cause])
    cause.set_status(-5)
    with contextlib.suppress(cl.Error):
        event.wait()
    child.progress({"failed": event.command_execution_status < 0})
    del event
    cl.enqueue_nd_range_kernel(queue, kernel, (2,), (1,))
    running.wait()


def stamps(payload: dict[str, Any]) -> dict[str, float]:
    """Seconds that a kernel of some milliseconds took by its time stamps, and on the host."""
    context, _ = _queue(payload)
    queue = cl.CommandQueue(context, properties=cl.command_queue_properties.PROFILING_ENABLE)
    kernel, _buffer = _ready(context, COUNTS, 4 * 64, np.uint32(30_000))
    # Compilation in the first launch is not part of the time.
    for _ in range(2):
        began = time.perf_counter()
        event = cl.enqueue_nd_range_kernel(queue, kernel, (64,), (1,))
        event.wait()
        wall = time.perf_counter() - began
    return {"stamps": (event.profile.end - event.profile.start) * 1e-9, "wall": wall}


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


TAKES_TIME = """
kernel void takes_time(global uint *out)
{
    for (uint i = 0u; i < 200u; ++i)
        out[get_global_id(0)] += i;
}
"""


def drops_queues(payload: dict[str, Any]) -> None:
    """Drop out-of-order queues whose commands may still run."""
    context, other = _queue(payload)
    kernel, _buffer = _ready(context, TAKES_TIME, 1024)
    for _ in range(3000):
        queue = cl.CommandQueue(context, properties=cl.command_queue_properties.OUT_OF_ORDER_EXEC_MODE_ENABLE)
        cl.enqueue_nd_range_kernel(queue, kernel, (64,), (4,), None, [cl.enqueue_marker(queue)])
        del queue
        cl.enqueue_nd_range_kernel(other, kernel, (64,), (4,)).wait()


_SKIPPED = """
kernel void skipped(global uint *out, const uint none)
{
    if (none != 0u)
        barrier(CLK_LOCAL_MEM_FENCE);
    out[get_local_id(1)] += 1u;
    barrier(CLK_LOCAL_MEM_FENCE);
}
"""


def counts_after_skipped_barrier(payload: dict[str, Any]) -> list[int]:
    """How often each work-item of a group of (1, 4) executes a statement after a barrier that all skip."""
    context, queue = _queue(payload)
    kernel, buffer = _ready(context, _SKIPPED, 16, np.uint32(0))
    out = np.zeros(4, np.uint32)
    cl.enqueue_copy(queue, buffer, out)
    cl.enqueue_nd_range_kernel(queue, kernel, (1, 4), (1, 4))
    cl.enqueue_copy(queue, out, buffer)
    return [int(count) for count in out]


def flushed(payload: dict[str, Any]) -> None:
    """Flush a queue whose command waits for an event that this thread sets afterwards."""
    context, queue = _queue(payload)
    child.progress({"flushed": _flushed(context, queue, [])})
    gate = cl.UserEvent(context)
    child.progress({"flushed": _flushed(context, queue, [gate])})
    gate.set_status(cl.command_execution_status.COMPLETE)
    queue.finish()


def run_by_threads(payload: dict[str, Any]) -> None:
    """Launch and wait in four threads, each with a queue and a kernel of its own."""
    context, _ = _queue(payload)

    def launches() -> None:
        queue = cl.CommandQueue(context)
        kernel, _buffer = _ready(context, NAMES_ITSELF, 256)
        for _ in range(200):
            cl.enqueue_nd_range_kernel(queue, kernel, (64,), (8,)).wait()

    threads = [threading.Thread(target=launches) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


_kept: list[object] = []


def _flushed(context: cl.Context, queue: cl.CommandQueue, wait_for: list[cl.Event]) -> int:
    kernel, buffer = _ready(context, NAMES_ITSELF, 64)
    _kept.append(buffer)
    cl.enqueue_nd_range_kernel(queue, kernel, (8,), (8,), wait_for=wait_for)
    queue.flush()
    return len(wait_for)


def missed_stores(payload: dict[str, Any]) -> dict[str, int]:
    """Store buffering under stress, by the driver's own sequentially consistent C11 atomics: in how many both sides missed."""
    from portbar.survey.litmus.checking import check  # noqa: PLC0415 (it starts processes of its own)

    device = DeviceAddress.from_json(payload["address"]).resolve()
    found = check(device, seconds=15, strategies=("c11",), tests=("SB-device-global-ops",)).results[0]
    return {"instances": found["instances"], "both": sum(found["forbidden"].values())}


#: A sum over a grid by hand. After the barrier one work-item reads the other group's value. Each kernel ends with a barrier, as
#: PoCL needs it and an author would write it: the form that portbar makes hides this fault.
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
    { volatile size_t item = get_local_id(0); (void)item; }
    if (id + 1u == size)
        values[group] = mine;
    (void)portbar_device_barrier(&grid);
    long before = 0;
    for (uint i = min(id * share, group); i < min((id + 1u) * share, group); ++i)
        before += values[i];
    out[portbar_global_id(&grid)] = portbar_work_group_reduce_add(scratch, before);
    barrier(CLK_LOCAL_MEM_FENCE);
}

/* A second kernel with a barrier: the compiler then has functions that are not used in one place only. */
kernel void beside(PORTBAR_GRID_PARAM, global long *out)
{
    PORTBAR_ENTER(grid);
    out[portbar_global_id(&grid)] = portbar_device_barrier(&grid);
    barrier(CLK_LOCAL_MEM_FENCE);
}
"""


TEAMS = """
#include "portbar/team.h"
kernel void teams(PORTBAR_GRID_PARAM)
{
    PORTBAR_ENTER(grid);
    (void)portbar_team_split(&grid, 1u);
    barrier(CLK_LOCAL_MEM_FENCE);
}
"""


def left_behind(payload: dict[str, Any]) -> int:
    """How often, in many launches, a work-group did not find what another had left before a barrier."""
    from portbar import Program  # noqa: PLC0415 (needs PyOpenCL)

    context, queue = _queue(payload)
    strategy = _strategy_without(
        {quirks.LEADER_FORGOTTEN, quirks.JOINS_LOST}, queue.device, {"device_barrier": "counter"}
    )
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
    return missed + _wrong_halves(queue, strategy) + _refused_teams(queue, strategy)


def _refused_teams(queue: cl.CommandQueue, strategy: Any) -> int:
    """How many splits into teams are refused, since work-items do not find the size that one of them has written."""
    from portbar import Error, Program  # noqa: PLC0415 (needs PyOpenCL)

    program = Program(queue.context, TEAMS, strategy=strategy)
    launch = program.kernel("teams")(queue, None, (5,), num_groups=2)
    try:
        launch.wait()
    except Error:
        return 1
    return 0


def _wrong_halves(queue: cl.CommandQueue, strategy: Any) -> int:
    """How many kernels of a program with two are wrong, one of which waits for a device barrier in two halves."""
    from tests.device_barrier import control_flow_support as support  # noqa: PLC0415 (needs portbar)
    from tests.device_barrier import test_control_flow as control_flow  # noqa: PLC0415 (as before)

    pairs = (("arrive and wait", "return in a loop"), ("barrier", "while"))
    cases = [support.Case("device", *pair) for pair in pairs]
    # A group that is let through reads what is right, where the others were early enough.
    return len(control_flow.run(queue, cases, "device", strategy, launches=25))


def fewest_cores_of_a_thread(payload: dict[str, Any]) -> int:
    """Return the fewest cores that a thread of this process may use after a launch."""
    _, queue = _queue(payload)
    kernel, _ = _ready(queue.context, NAMES_ITSELF, 64)
    cl.enqueue_nd_range_kernel(queue, kernel, (16,), (1,)).wait()
    return min(len(os.sched_getaffinity(int(task.name))) for task in Path("/proc/self/task").iterdir())


def unchecked_arguments(payload: dict[str, Any]) -> None:
    """Pass eight bytes for a type of four; then more local memory than the device has."""
    context, queue = _queue(payload)
    program = """
    typedef uint word;
    kernel void takes(global uint *out, word given, local uint *shelf)
    {
        shelf[0] = given;
        out[0] = shelf[0];
    }
    """
    kernel = cl.Program(context, program).build(["-cl-kernel-arg-info"]).takes
    kernel.set_arg(0, cl.Buffer(context, cl.mem_flags.READ_WRITE, 4))
    kernel.set_arg(1, np.uint64(7))
    child.progress({"taken": 8})
    kernel.set_arg(2, cl.LocalMemory(1 << 30))
    cl.enqueue_nd_range_kernel(queue, kernel, (1,), (1,))
    queue.finish()


def sampler_in_command_buffer(payload: dict[str, Any]) -> int:
    """Run a kernel that takes a sampler in a command buffer, and return what it wrote."""
    context, queue = _queue(payload)
    source = "kernel void takes(global uint *out, sampler_t how) { out[0] = 7; }"
    how = cl.Sampler(context, False, cl.addressing_mode.CLAMP, cl.filter_mode.NEAREST)
    kernel, buffer = _ready(context, source, 4, how)
    commands = khr_command_buffer.CommandBuffer(queue)
    commands.add(kernel, (1,), None, None)
    commands.finish()
    commands.enqueue(None).wait()
    found = np.zeros(1, np.uint32)
    cl.enqueue_copy(queue, found, buffer)
    return int(found[0])


def pointer_then_buffer(payload: dict[str, Any]) -> int:
    """Run a kernel on shared virtual memory, then on a buffer, and return what it wrote there."""
    context, queue = _queue(payload)
    kernel = cl.Program(context, NAMES_ITSELF).build().names_itself
    memory = cl.csvm_empty(context, 16, np.uint32)
    kernel.set_arg(0, cl.SVM(memory))
    cl.enqueue_nd_range_kernel(queue, kernel, (1,), (1,))
    queue.finish()
    child.progress({"pointer": True})
    buffer, found = cl.Buffer(context, cl.mem_flags.READ_WRITE, 4), np.zeros(1, np.uint32)
    kernel.set_arg(0, buffer)
    cl.enqueue_nd_range_kernel(queue, kernel, (1,), (1,))
    cl.enqueue_copy(queue, found, buffer)
    return int(found[0])


SHELVES = """
kernel void shelves(global uint *out)
{
    local uint shelf[64];
    shelf[get_local_id(0)] = out[get_local_id(0)];
    barrier(CLK_LOCAL_MEM_FENCE);
    out[get_local_id(0)] = shelf[63u - get_local_id(0)];
}
"""


def told_local_memory(payload: dict[str, Any]) -> int:
    """Bytes of local memory that a driver reports for a kernel with 256."""
    context, _ = _queue(payload)
    kernel = cl.Program(context, SHELVES).build().shelves
    return int(kernel.get_work_group_info(cl.kernel_work_group_info.LOCAL_MEM_SIZE, context.devices[0]))


def _sums(count: int) -> str:
    """Return a kernel whose loop holds `count` sums."""
    sums = "\n".join(f"        sums[{i % 16}] += values[(i * {count}u + {i}u) & 63u];" for i in range(count))
    return f"""
kernel void adds(global uint *out)
{{
    global const float *values = (global const float *)out;
    float sums[16] = {{ 0 }}, all = 0;
    for (uint i = 0; i < out[63] + 4u; ++i) {{
{sums}
    }}
    for (uint i = 0; i < 16u; ++i)
        all += sums[i];
    out[0] = (uint)all;
}}
"""


def long_bodies(payload: dict[str, Any]) -> list[float]:
    """Seconds of this process for the first launches of kernels whose loops hold 128 and 1,024 sums."""
    context, queue = _queue(payload)
    buffer = cl.Buffer(context, cl.mem_flags.READ_WRITE, 4 * 64)
    cl.enqueue_fill_buffer(queue, buffer, np.zeros(1, np.uint32), 0, buffer.size)
    seconds = []
    for count in (1, 128, 1024):
        kernel = cl.Kernel(cl.Program(context, _sums(count)).build(), "adds")
        kernel.set_args(buffer)
        queue.finish()
        began = time.process_time()
        cl.enqueue_nd_range_kernel(queue, kernel, (1,), (1,))
        queue.finish()
        seconds.append(time.process_time() - began)
    # The first launch of all does more than compile.
    return seconds[1:]


def foreign_binary(payload: dict[str, Any]) -> bool:
    """Whether a driver refuses a binary that no driver has made, as OpenCL says."""
    device = DeviceAddress.from_json(payload["address"]).resolve()
    try:
        cl.Program(cl.Context([device]), [device], [b"no driver's"]).build()
    except cl.Error:
        return True
    return False


def listed_in_place_of_a_part(payload: dict[str, Any]) -> dict[str, bool]:
    """Whether a context that was made of a sub-device lists it, and the device that it is a part of."""
    device = DeviceAddress.from_json(payload["address"]).resolve()
    part = device.create_sub_devices([cl.device_partition_property.EQUALLY, 1])[0]
    listed = cl.Context([part]).devices
    return {"part": part in listed, "parent": device in listed}


KEEPS_POINTERS = """
#include "portbar/device_barrier.h"
#include "portbar/reduction.h"
#include "portbar/atomics.h"
kernel void keeps_pointers(PORTBAR_GRID_PARAM, global uint *out, global uint *flag, global uint *board)
{
    PORTBAR_ENTER(grid);
    PORTBAR_REDUCTION_SCRATCH(scratch);
    const uint me = portbar_global_id(&grid), all = portbar_global_size(&grid);
    uint sum = 0u, found = 0u;
    if ((portbar_device_barrier_sum(&grid, 1u) % 3u)) {
        const uint old = portbar_atomic_load_explicit(flag, memory_order_relaxed, memory_scope_device);
        sum += portbar_device_barrier_sum(&grid, 1u);
        if (me == 0u) {
            flag[1] = sum;
            (void)portbar_atomic_fetch_add_explicit(flag, 1u, memory_order_release, memory_scope_device);
        } else if (get_local_id(0) == 0u) {
            if (portbar_device_atomic_wait(&grid, flag, old))
                atomic_add(flag + 2, flag[1]);
        }
        (void)portbar_device_broadcast(&grid, scratch, 1u, 1u % all);
    }
    const portbar_device_token token = portbar_device_barrier_arrive(&grid);
    board[me] = 1u;
    sum = portbar_device_reduce_add(&grid, scratch, found);
    found += board[(me + 1u) % all];
    portbar_device_barrier_all(&grid, 1u);
    if (!portbar_device_barrier_wait(&grid, token))
        return;
    if (portbar_device_barrier_any(&grid, 1u)) {
        const portbar_device_token another = portbar_device_barrier_arrive(&grid);
        if (!portbar_device_barrier_wait(&grid, another))
            return;
    } else {
        sum = portbar_device_barrier_any(&grid, 1u);
        portbar_device_barrier(&grid);
    }
    out[me] = 1u + found + sum;
}
"""


def lost_pointers(payload: dict[str, Any]) -> list[int]:
    """Two work-groups of one work-item write 2 at the end of a kernel, and 0 stays where they left it before."""
    from portbar import Program  # noqa: PLC0415 (needs PyOpenCL)

    context, queue = _queue(payload)
    # With the loop of a barrier in the kernel, where the fault was seen.
    effects = {quirks.LOCAL_POINTERS_LOST, quirks.LOOPS_KEEP_VECTORS_OFF}
    strategy = _strategy_without(effects, queue.device, {"device_barrier": "counter"})
    buffers = [cl.Buffer(context, cl.mem_flags.READ_WRITE, 64) for _ in range(3)]
    for buffer in buffers:
        cl.enqueue_fill_buffer(queue, buffer, np.zeros(1, np.uint32), 0, 64)
    Program(context, KEEPS_POINTERS, strategy=strategy).kernel("keeps_pointers")(
        queue, None, (1,), *buffers, num_groups=2
    ).wait()
    out = np.zeros(2, np.uint32)
    cl.enqueue_copy(queue, out, buffers[0])
    return out.tolist()


WAITS_ALONE = """
static HOW uint wait_alone(volatile global uint *word, uint limit)
{
    uint seen = 0u;
    for (uint round = 0u; round < limit && seen == 0u; ++round)
        for (uint k = 64u; k != 0u && seen == 0u; --k)
            seen = atomic_add(word, 0u);
    return seen;
}
kernel void works(global float *out, volatile global uint *word, uint n)
{
    const uint id = (uint)get_local_id(0);
    for (uint turn = 0u; turn < n; ++turn) {
        float value = out[id];
        for (uint k = 0u; k < 1000u; ++k)
            value = value * value * 0.3f + 0.1f;
        out[id] = value;
        barrier(CLK_GLOBAL_MEM_FENCE);
        if (id == 0u)
            wait_alone(word, n);
        barrier(CLK_GLOBAL_MEM_FENCE);
    }
}
"""


def vectors_kept_off(payload: dict[str, Any]) -> list[int]:
    """How many of 64 work-items share a sub-group, which is a vector there or else all: with the loop inlined, and not."""
    context, queue = _queue(payload)
    asked = cl.kernel_sub_group_info.MAX_SUB_GROUP_SIZE_FOR_NDRANGE
    found = []
    for how in ("inline __attribute__((always_inline))", "__attribute__((noinline))"):
        kernel = cl.Program(context, WAITS_ALONE.replace("HOW", how)).build().works
        found.append(int(kernel.get_sub_group_info(queue.device, asked, [64])))
    return found


TEAM = """#include "portbar/team.h"
kernel void team(PORTBAR_GRID_PARAM, global uint *out, uint size)
{
    PORTBAR_ENTER(grid);
    portbar_team team = portbar_team_split(&grid, size);
    if (!portbar_team_barrier(&grid, &team))
        return;
    out[get_global_id(0)] = portbar_team_rank(&team);
}
"""


def team_of_called_functions(payload: dict[str, Any]) -> int:
    """Compile a kernel with a team, whose functions the compiler may call."""
    from portbar import Program  # noqa: PLC0415 (needs PyOpenCL)

    context, queue = _queue(payload)
    strategy = _strategy_without({quirks.CALLS_SHARED}, queue.device)
    return Program(context, TEAM, strategy=strategy).kernel("team").occupancy(queue, (4,)).groups
