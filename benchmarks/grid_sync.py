"""The device barrier beside CUDA's, on an NVIDIA device: `python -m benchmarks.grid_sync --json`.

Peers, all at the same work-groups and local sizes and in turns with ours: `grid.sync()` of cooperative groups, two barriers as
they were written by hand before it (one counter; one flag per block, as in CUB's `GridBarrier`), empty kernels replayed by a
CUDA graph, and kernels relaunched through OpenCL. A ratio below 1 means that portbar is faster. `grid.sync()` returns nothing,
so the result of ours is tested once, after the last barrier; the cost of a test after each is a separate row. Further: barriers
with memory traffic between them, the split form with work between its halves, a sum over the grid beside CUDA's way, entering
a grid, and recall.
"""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import numpy as np
import pyopencl as cl

import portbar
from benchmarks.cuda import PRELUDE, CudaProgram, capability_of, cuda_program
from benchmarks.shared import Row, Session, command_line, complete, judged, note, number, paired, run
from portbar.errors import Error
from portbar.survey.measuring.barrier_timer import BarrierTimer, Relaunch
from portbar.survey.measuring.rounds import device_s, in_turns, profiled_queue

#: (work-groups, local size) -> what a barrier may cost beside `grid.sync()`.
SHAPES: Final = {
    (132, 256): 0.88,
    (132, 1024): 0.88,
    (264, 256): 0.88,
    (264, 1024): 0.88,
    (528, 256): 0.80,
    (1056, 256): 0.70,
    (2112, 64): 0.50,
    (4224, 32): 0.50,
}
TRAFFIC_SHAPES: Final = ((132, 256), (264, 256), (264, 1024), (528, 256), (1056, 256))
ENTER_SHAPES: Final = ((132, 256), (264, 1024), (1056, 256), (2112, 64), (4224, 32))

#: The bound on the time that the barrier adds to streaming, relative to that of `grid.sync()`.
TRAFFIC_TARGET: Final = 0.9
#: Microseconds above an empty kernel that entering may take, by the largest number of work-groups; with an unknown count.
ENTER_US: Final = {1056: 10.0, 4224: 15.0}
ENTER_UNKNOWN_US: Final = 60.0

#: The accesses of work-groups to the streamed data.
STREAMS: Final = ("read", "write", "copy")
#: Bytes that each work-group streams between two barriers, and bytes in all that it streams through.
CHUNK: Final = 65536
FIELD: Final = 1 << 29

_RECALL_LAUNCHES: Final = 1000
_LAUNCH_NS: Final = 4e6
_SOAK_BARRIERS: Final = 10_000_000
_SOAK_LAUNCHES: Final = 10

#: Asks once whether all barriers were met, as `grid.sync()` cannot be asked at all: after one that is not, none is.
ROUNDS: Final = """
#include "portbar/device_barrier.h"

kernel void portbar_bench(PORTBAR_GRID_PARAM, global uint *passed, const uint rounds)
{
    PORTBAR_ENTER(grid);
    bool met = true;
    for (uint round = 0u; round < rounds; ++round)
        met = portbar_device_barrier(&grid);
    if (portbar_global_id(&grid) == 0u)
        passed[0] = met ? rounds : 0u;
}
"""

CUDA_SUM: Final = "CUDA, atomicAdd and grid.sync()"

#: A sum over the grid in each round.
SUMS: Final = """
#include "portbar/device_barrier.h"
#include "portbar/reduction.h"

kernel SIZE void portbar_bench(PORTBAR_GRID_PARAM, global uint *passed, const uint rounds)
{
    PORTBAR_ENTER(grid);
    PORTBAR_REDUCTION_SCRATCH(scratch);
    uint right = 0u;
    for (uint round = 0u; round < rounds; ++round) {
        const float sum = portbar_device_reduce_add(&grid, scratch, round < rounds ? 1.0f : 0.0f);
        right += sum == (float)portbar_global_size(&grid) ? 1u : 0u;
    }
    if (portbar_global_id(&grid) == 0u)
        passed[0] = right;
}
"""

TRAFFIC: Final = f"""
#include "portbar/device_barrier.h"
#define CHUNK_WORDS {CHUNK // 16}u
#define FIELD_CHUNKS {FIELD // CHUNK}u

/* Streams a chunk a round, which is read, written, or half of it read and written to the other half; with barriers in between
   where `met` is not 0. */
kernel void stream(PORTBAR_GRID_PARAM, global uint4 *field, global uint *sums, const uint rounds, const uint met)
{{
    PORTBAR_ENTER(grid);
    const uint me = portbar_group_id(&grid), count = portbar_num_groups(&grid);
    const uint item = (uint)get_local_id(0), items = (uint)get_local_size(0);
    uint4 sum = (uint4)(0u);
    for (uint round = 0u; round < rounds; ++round) {{
        global uint4 *chunk = field + (ulong)((round * count + me) % FIELD_CHUNKS) * CHUNK_WORDS;
#if defined(STREAM_read)
        for (uint word = item; word < CHUNK_WORDS; word += items)
            sum += chunk[word];
#elif defined(STREAM_write)
        for (uint word = item; word < CHUNK_WORDS; word += items)
            chunk[word] = sum + word;
#else
        for (uint word = item; word < CHUNK_WORDS / 2u; word += items)
            chunk[CHUNK_WORDS / 2u + word] = chunk[word];
#endif
        if (met != 0u)
            (void)portbar_device_barrier(&grid);
    }}
    sums[portbar_global_id(&grid)] = sum.x + sum.y + sum.z + sum.w;
}}
"""

OVERLAP: Final = """
#include "portbar/device_barrier.h"

/* The same instructions wherever it is inlined. */
static inline uint worked(uint value, const uint steps)
{
#pragma unroll 1
    for (uint step = 0u; step < steps; ++step)
        __asm__ volatile("mad.lo.u32 %0, %0, %1, %2;" : "+r"(value) : "r"(1664525u), "r"(1013904223u));
    return value;
}

/* `form` 0: work alone. 1: the whole barrier, then work. 2: work between arrive and wait. */
kernel void overlap(PORTBAR_GRID_PARAM, global uint *left, const uint rounds, const uint steps, const uint form)
{
    PORTBAR_ENTER(grid);
    uint value = portbar_global_id(&grid);
    for (uint round = 0u; round < rounds; ++round) {
        if (form == 2u) {
            const portbar_device_token token = portbar_device_barrier_arrive(&grid);
            value = worked(value, steps);
            if (!portbar_device_barrier_wait(&grid, token))
                return;
        } else {
            if (form == 1u && !portbar_device_barrier(&grid))
                return;
            value = worked(value, steps);
        }
    }
    left[portbar_global_id(&grid)] = value;
}
"""

SOAK: Final = """
#include "portbar/device_barrier.h"

/* Each group's word is the number of the barrier before which it was written; two sets, so that none is written while read. */
kernel void soak(PORTBAR_GRID_PARAM, global uint *words, global uint *late, const uint barriers)
{
    PORTBAR_ENTER(grid);
    const uint me = portbar_group_id(&grid), count = portbar_num_groups(&grid);
    const bool first = get_local_id(0) == 0u;
    uint errors = 0u;
    for (uint barrier_number = 1u; barrier_number <= barriers; ++barrier_number) {
        global uint *set = words + (barrier_number & 1u) * count;
        if (first)
            set[me] = barrier_number;
        if (!portbar_device_barrier(&grid))
            return;
        if (first && set[(me + barrier_number) % count] != barrier_number)
            ++errors;
    }
    if (first) {
        late[me] += errors;
        late[count + me] += 1u;
    }
}
"""

CUDA_SOURCE: Final = (
    PRELUDE
    + r"""
#include <cooperative_groups.h>

namespace cg = cooperative_groups;

/* Rounds of grid.sync(). */
__global__ void __launch_bounds__(1024) sync_rounds(unsigned *out, unsigned rounds)
{
    cg::grid_group grid = cg::this_grid();
    for (unsigned round = 0; round < rounds; ++round)
        grid.sync();
    if (blockIdx.x == 0 && threadIdx.x == 0)
        out[0] = rounds;
}

/* A sum over the grid in each round as in CUDA's conjugate-gradient sample: shuffles, shared memory, one atomicAdd a block
   and grid.sync(). Three totals take turns, so that one grid.sync() a round is enough. */
__global__ void __launch_bounds__(1024) sum_rounds(unsigned *out, unsigned rounds)
{
    cg::grid_group grid = cg::this_grid();
    __shared__ float parts[32];
    float *totals = reinterpret_cast<float *>(out + 64);
    const unsigned lane = threadIdx.x % 32, warps = blockDim.x / 32;
    unsigned right = 0;
    for (unsigned round = 0; round < rounds; ++round) {
        float x = round < rounds ? 1.0f : 0.0f;
        for (unsigned by = 16; by > 0; by /= 2)
            x += __shfl_down_sync(0xffffffffu, x, by);
        if (lane == 0)
            parts[threadIdx.x / 32] = x;
        __syncthreads();
        if (threadIdx.x < 32) {
            x = lane < warps ? parts[lane] : 0.0f;
            for (unsigned by = 16; by > 0; by /= 2)
                x += __shfl_down_sync(0xffffffffu, x, by);
            if (lane == 0) {
                if (blockIdx.x == 0)
                    totals[(round + 1) % 3 * 32] = 0.0f;
                atomicAdd(totals + round % 3 * 32, x);
            }
        }
        grid.sync();
        right += *(volatile float *)(totals + round % 3 * 32) == (float)(gridDim.x * blockDim.x) ? 1 : 0;
    }
    if (blockIdx.x == 0 && threadIdx.x == 0)
        out[0] = right;
}

/* One counter that only grows. */
__global__ void __launch_bounds__(1024) counter_rounds(unsigned *out, unsigned rounds)
{
    unsigned target = 0;
    for (unsigned round = 0; round < rounds; ++round) {
        target += gridDim.x;
        __syncthreads();
        if (threadIdx.x == 0) {
            __threadfence();
            atomicAdd(out + 32, 1u);
            while ((int)(*(volatile unsigned *)(out + 32) - target) < 0) {
            }
            __threadfence();
        }
        __syncthreads();
    }
    if (blockIdx.x == 0 && threadIdx.x == 0)
        out[0] = rounds;
}

/* One flag a block: the threads of block 0 gather and release. */
__global__ void __launch_bounds__(1024) flag_rounds(unsigned *out, unsigned rounds)
{
    volatile unsigned *flags = out + 64;
    for (unsigned round = 1; round <= rounds; ++round) {
        __threadfence();
        __syncthreads();
        if (blockIdx.x == 0) {
            for (unsigned block = threadIdx.x + 1; block < gridDim.x; block += blockDim.x)
                while (flags[block] != 2 * round - 1) {
                }
            __syncthreads();
            for (unsigned block = threadIdx.x + 1; block < gridDim.x; block += blockDim.x)
                flags[block] = 2 * round;
        } else if (threadIdx.x == 0) {
            flags[blockIdx.x] = 2 * round - 1;
            while (flags[blockIdx.x] != 2 * round) {
            }
        }
        __threadfence();
        __syncthreads();
    }
    if (blockIdx.x == 0 && threadIdx.x == 0)
        out[0] = rounds;
}

__global__ void __launch_bounds__(1024) nothing(unsigned *) {}

enum Stream { READ, WRITE, COPY };

/* Streams a chunk a round, with grid.sync() in between where `met` is not 0. */
template <Stream how>
__global__ void __launch_bounds__(1024) stream(uint4 *field, unsigned *sums, unsigned rounds, unsigned met)
{
    cg::grid_group grid = cg::this_grid();
    uint4 sum = make_uint4(0, 0, 0, 0);
    for (unsigned round = 0; round < rounds; ++round) {
        uint4 *chunk = field + size_t((round * gridDim.x + blockIdx.x) % FIELD_CHUNKS) * CHUNK_WORDS;
        if (how == READ)
            for (unsigned word = threadIdx.x; word < CHUNK_WORDS; word += blockDim.x) {
                const uint4 got = chunk[word];
                sum.x += got.x, sum.y += got.y, sum.z += got.z, sum.w += got.w;
            }
        else if (how == WRITE)
            for (unsigned word = threadIdx.x; word < CHUNK_WORDS; word += blockDim.x)
                chunk[word] = make_uint4(sum.x + word, sum.y + word, sum.z + word, sum.w + word);
        else
            for (unsigned word = threadIdx.x; word < CHUNK_WORDS / 2; word += blockDim.x)
                chunk[CHUNK_WORDS / 2 + word] = chunk[word];
        if (met != 0)
            grid.sync();
    }
    sums[blockIdx.x * blockDim.x + threadIdx.x] = sum.x + sum.y + sum.z + sum.w;
}

/* Reads lines "KIND GROUPS LOCAL ROUNDS", and replies to each with a line of JSON. */
int main()
{
    cudaDeviceProp device;
    cudaEvent_t before, after;
    cudaStream_t queue;
    unsigned *out = nullptr, *sums = nullptr;
    uint4 *field = nullptr;
    const size_t words = 64 + (1u << 20);
    if (refused(cudaGetDeviceProperties(&device, 0)) || refused(cudaEventCreate(&before)) ||
        refused(cudaEventCreate(&after)) || refused(cudaStreamCreate(&queue)) ||
        refused(cudaMalloc(&out, words * sizeof *out)) || refused(cudaMalloc(&sums, (1u << 22) * sizeof *sums)))
        return 1;
    std::printf("{\"name\": \"%s\", \"nvcc\": \"%d.%d\"}\n", device.name, __CUDACC_VER_MAJOR__, __CUDACC_VER_MINOR__);
    std::fflush(stdout);
    char kind[32];
    unsigned groups, local, rounds;
    while (std::scanf("%31s %u %u %u", kind, &groups, &local, &rounds) == 4) {
        unsigned met = std::strstr(kind, "_sync") != nullptr;
        const bool streams = std::strncmp(kind, "stream", 6) == 0;
        if (streams && field == nullptr &&
            (refused(cudaMalloc(&field, size_t(FIELD_BYTES))) || refused(cudaMemset(field, 1, size_t(FIELD_BYTES)))))
            continue;
        void *plain[] = {&out, &rounds};
        void *streamed[] = {&field, &sums, &rounds, &met};
        if (refused(cudaMemset(out, 0, words * sizeof *out)) || refused(cudaDeviceSynchronize()))
            continue;
        cudaGraphExec_t replay = nullptr;
        if (std::strcmp(kind, "graph") == 0) {
            cudaGraph_t graph;
            bool bad = refused(cudaStreamBeginCapture(queue, cudaStreamCaptureModeGlobal));
            for (unsigned round = 0; round < rounds && !bad; ++round)
                nothing<<<groups, local, 0, queue>>>(out);
            if (bad || refused(cudaStreamEndCapture(queue, &graph)) || refused(cudaGraphInstantiate(&replay, graph, 0)) ||
                refused(cudaGraphUpload(replay, queue)) || refused(cudaStreamSynchronize(queue)) ||
                refused(cudaGraphDestroy(graph)))
                continue;
        }
        cudaEventRecord(before, queue);
        cudaError_t error = cudaSuccess;
        const void *kernel = std::strcmp(kind, "sync") == 0      ? (const void *)sync_rounds
                             : std::strcmp(kind, "counter") == 0 ? (const void *)counter_rounds
                             : std::strcmp(kind, "sum") == 0     ? (const void *)sum_rounds
                                                                 : (const void *)flag_rounds;
        if (replay != nullptr)
            error = cudaGraphLaunch(replay, queue);
        else if (streams)
            error = cudaLaunchCooperativeKernel(std::strstr(kind, "_read")    ? (const void *)stream<READ>
                                                : std::strstr(kind, "_write") ? (const void *)stream<WRITE>
                                                                              : (const void *)stream<COPY>,
                                                groups, local, streamed, 0, queue);
        else
            error = cudaLaunchCooperativeKernel(kernel, groups, local, plain, 0, queue);
        cudaEventRecord(after, queue);
        float ms = 0.0f;
        unsigned left = 0;
        if (refused(error) || refused(cudaDeviceSynchronize()) || refused(cudaEventElapsedTime(&ms, before, after)) ||
            refused(cudaMemcpy(&left, out, sizeof left, cudaMemcpyDeviceToHost)) ||
            (replay != nullptr && refused(cudaGraphExecDestroy(replay))))
            continue;
        const bool right = streams || replay != nullptr || left == rounds;
        std::printf("{\"seconds\": %.9g, \"right\": %s}\n", ms * 1e-3, right ? "true" : "false");
        std::fflush(stdout);
    }
    return 0;
}
""".replace("FIELD_CHUNKS", f"{FIELD // CHUNK}u")
    .replace("CHUNK_WORDS", f"{CHUNK // 16}u")
    .replace("FIELD_BYTES", str(FIELD))
)


class CudaPeer(CudaProgram):
    """The CUDA program of this benchmark."""

    def us(self, kind: str, groups: int, local_size: int, rounds: int) -> float:
        """Microseconds per round."""
        answer = self.ask(f"{kind} {groups} {local_size} {rounds}")
        if not answer["right"]:
            raise Error(f"the CUDA program's {kind} left a wrong count")
        return float(answer["seconds"]) * 1e6 / rounds


@dataclass(frozen=True)
class GridSession(Session):
    """One device, with the CUDA program if available."""

    cuda: CudaPeer | None


Sides = Mapping[str, Callable[[], float | None]]


def barrier(session: GridSession) -> Iterator[Row]:
    """One barrier at each shape beside every peer."""
    timers: dict[int, BarrierTimer] = {}
    asking: dict[int, BarrierTimer] = {}
    for (groups, local_size), target in SHAPES.items():
        timer = timers.setdefault(local_size, BarrierTimer(session.queue, local_size, source=ROUNDS))
        each = asking.setdefault(local_size, BarrierTimer(session.queue, local_size))
        if groups > timer.bound:
            note(f"{session.name}: {groups} x {local_size} skipped, the device holds {timer.bound} work-groups")
            continue
        rounds = rounds_for(groups, session.quick)
        relaunch = Relaunch(session.queue, groups, local_size)
        sides: dict[str, Callable[[], float | None]] = {"portbar": partial(timer.sample_us, groups, rounds)}
        if session.cuda is not None:
            sides["grid.sync()"] = partial(session.cuda.us, "sync", groups, local_size, rounds)
            sides["CUDA, one counter"] = partial(session.cuda.us, "counter", groups, local_size, rounds)
            sides["CUDA, a flag a block"] = partial(session.cuda.us, "flags", groups, local_size, rounds)
            sides["CUDA graph of empty kernels"] = partial(session.cuda.us, "graph", groups, local_size, 200)
        sides["OpenCL relaunch"] = relaunch.sample_us
        sides["asking"] = partial(each.sample_us, groups, rounds)
        described = {"groups": groups, "local_size": local_size, "rounds": rounds}
        algorithm = timer.algorithm(groups)
        taken = sampled(sides, session.repeats)
        asked = {"portbar": taken.pop("asking")}
        yield from rows_of(session, "device_barrier", taken, {"grid.sync()": target}, algorithm=algorithm, **described)
        if "grid.sync()" in taken:
            asked["grid.sync()"] = taken["grid.sync()"]
            yield from rows_of(session, "barrier_answer_asked", asked, {}, algorithm=algorithm, **described)


def sums(session: GridSession) -> Iterator[Row]:
    """A sum over the grid beside CUDA's way, in kernels that state their work-group size and in others."""
    if session.cuda is None:
        return
    for groups, local_size in SHAPES:
        stated = f"__attribute__((reqd_work_group_size({local_size}, 1, 1)))"
        timers = {
            size: BarrierTimer(session.queue, local_size, source=SUMS.replace("SIZE", size)) for size in ("", stated)
        }
        if groups > min(timer.bound for timer in timers.values()):
            note(f"{session.name}: sums of {groups} x {local_size} skipped, the device holds fewer work-groups")
            continue
        rounds = rounds_for(groups, session.quick)
        sides: dict[str, Callable[[], float | None]] = {
            size: partial(timer.sample_us, groups, rounds) for size, timer in timers.items()
        }
        sides[CUDA_SUM] = partial(session.cuda.us, "sum", groups, local_size, rounds)
        taken = sampled(sides, session.repeats)
        described = {"groups": groups, "local_size": local_size, "rounds": rounds}
        for size in timers:
            both = {size: taken[size], CUDA_SUM: taken[CUDA_SUM]}
            yield from rows_of(session, "grid_sum", both, {CUDA_SUM: 1.0}, size_stated=bool(size), **described)


def traffic(session: GridSession) -> Iterator[Row]:
    """Measure the time that barriers add if each work-group streams 64 KB between them, beside that of `grid.sync()`."""
    if session.cuda is None:
        return
    kernels = {
        how: portbar.Program(session.context, TRAFFIC, [f"-DSTREAM_{how}"], devices=[session.device]).kernel("stream")
        for how in STREAMS
    }
    queue = profiled_queue(session.queue)
    field = cl.Buffer(session.context, cl.mem_flags.READ_WRITE, FIELD)
    cl.enqueue_fill_buffer(queue, field, np.full(1, 0x01010101, np.uint32), 0, FIELD)
    rounds = 100 if session.quick else 400
    for (groups, local_size), (how, kernel) in itertools.product(TRAFFIC_SHAPES, kernels.items()):
        sums = cl.Buffer(session.context, cl.mem_flags.READ_WRITE, groups * local_size * 4)

        shape = (queue, groups, local_size)
        given = (field, sums, np.uint32(rounds))
        peer = session.cuda
        sides: dict[str, Callable[[], float | None]] = {
            "portbar": partial(round_us, rounds, kernel, *shape, *given, np.uint32(1)),
            "portbar without": partial(round_us, rounds, kernel, *shape, *given, np.uint32(0)),
            "grid.sync()": partial(peer.us, f"stream_{how}_sync", groups, local_size, rounds),
            "CUDA without": partial(peer.us, f"stream_{how}", groups, local_size, rounds),
        }
        taken = sampled(sides, session.repeats)
        met, alone, peer_met, peer_alone = (np.array(taken[side]) for side in sides)
        extra: dict[str, object] = {
            "streamed": how,
            "groups": groups,
            "local_size": local_size,
            "rounds": rounds,
            "bytes": CHUNK,
        }
        extra |= {f"{side}_us": statistics.median(values) for side, values in taken.items()}
        added = (met - alone).tolist(), (peer_met - peer_alone).tolist()
        row = session.compare("added_under_traffic", "grid.sync()", *added, **extra)
        yield judged(row, TRAFFIC_TARGET)


def round_us(
    rounds: int, kernel: portbar.Kernel, queue: cl.CommandQueue, groups: int, local_size: int, *arguments: Any
) -> float | None:
    """Microseconds a round of a launch; None where discovery found too few groups."""
    launch = kernel(queue, None, (local_size,), *arguments, num_groups=groups)
    launch.wait()
    return device_s(launch.event, 1e9) * 1e6 / rounds if launch.num_groups == groups else None


def overlap(session: GridSession) -> Iterator[Row]:
    """Work between arrive and wait beside the whole barrier and the same work after it."""
    kernel = portbar.Program(session.context, OVERLAP, devices=[session.device]).kernel("overlap")
    queue = profiled_queue(session.queue)
    for groups, local_size in ((132, 256), (264, 1024), (1056, 256)):
        left = cl.Buffer(session.context, cl.mem_flags.READ_WRITE, groups * local_size * 4)
        rounds = rounds_for(groups, session.quick)
        ours = partial(round_us, rounds, kernel, queue, groups, local_size, left, np.uint32(rounds))
        for steps in (64, 256):
            sides = {
                name: partial(ours, np.uint32(steps), np.uint32(form))
                for form, name in enumerate(("work alone", "whole", "split"))
            }
            taken = sampled(sides, session.repeats)
            alone, whole, split = (statistics.median(taken[name]) for name in sides)
            extra = {"groups": groups, "local_size": local_size, "steps": steps, "work_us": alone}
            extra |= {"hidden": (whole - split) / max(whole - alone, 1e-9)}
            peer = "whole barrier, then the work"
            yield session.compare("split_with_work_between", peer, taken["split"], taken["whole"], **extra)


def enter(session: GridSession) -> Iterator[Row]:
    """Entering a grid: a launch without any barrier beside an empty kernel, with the count of groups known and unknown."""
    queue = profiled_queue(session.queue)
    passed = cl.Buffer(session.context, cl.mem_flags.READ_WRITE, 4)
    source = "kernel void empty(global uint *passed, const uint rounds) { }"
    built = cl.Program(session.context, source).build(devices=[session.device])
    empty = cl.Kernel(built, "empty")
    empty.set_args(passed, np.uint32(0))
    for groups, local_size in ENTER_SHAPES:
        timer = BarrierTimer(queue, local_size)
        if groups > timer.bound:
            continue
        sizes = ((groups * local_size,), (local_size,))

        def bare(sizes: tuple[tuple[int], tuple[int]] = sizes) -> float:
            event = cl.enqueue_nd_range_kernel(queue, empty, *sizes)
            event.wait()
            return device_s(event, 1e9) * 1e6

        def unknown(timer: BarrierTimer = timer, local_size: int = local_size) -> float | None:
            launch = timer.kernel.discover(queue, (local_size,), 2 * timer.bound)
            return device_s(launch.event, 1e9) * 1e6 if launch.num_groups == timer.bound else None

        known = partial(round_us, 1, timer.kernel, queue, groups, local_size, passed, np.uint32(0))
        taken = sampled({"known": known, "unknown": unknown, "empty": bare}, 3 * session.repeats)
        base = statistics.median(taken["empty"])
        for name, limit in (("known", ENTER_US[1056 if groups <= 1056 else 4224]), ("unknown", ENTER_UNKNOWN_US)):
            above = statistics.median(taken[name]) - base
            extra = {"groups": groups, "local_size": local_size, "count": name}
            extra |= {"above_us": above, "target_us": limit, "met": above <= limit}
            yield session.compare(f"enter_count_{name}", "empty kernel", taken[name], taken["empty"], **extra)


def recall(session: GridSession) -> Iterator[Row]:
    """In how many of a thousand launches, all of the work-groups that the device holds were found."""
    for local_size in (32, 256, 1024):
        timer = BarrierTimer(session.queue, local_size)
        bound = timer.bound
        launches = _RECALL_LAUNCHES // 10 if session.quick else _RECALL_LAUNCHES
        found = [timer.kernel.discover(session.queue, (local_size,), bound).num_groups for _ in range(launches)]
        missed = sum(count < bound for count in found)
        extra = {"groups": bound, "local_size": local_size, "missed": missed, "fewest": min(found), "met": missed == 0}
        yield Row("recall", session.name, "as many as it holds", missed / launches, None, None, launches, extra)


def soak(session: GridSession) -> Iterator[Row]:
    """Ten million barriers, at each of which every work-group looks whether another one's last word has come."""
    kernel = portbar.Program(session.context, SOAK, devices=[session.device]).kernel("soak")
    queue = profiled_queue(session.queue)
    shapes = [shape for shape in SHAPES if shape[0] <= kernel.occupancy(queue, (shape[1],)).groups]
    barriers = _SOAK_BARRIERS // (100 if session.quick else 1) // len(shapes) // _SOAK_LAUNCHES
    for groups, local_size in shapes:
        words, late = (cl.Buffer(session.context, cl.mem_flags.READ_WRITE, 8 * groups) for _ in range(2))
        cl.enqueue_fill_buffer(queue, late, np.zeros(1, np.uint32), 0, 8 * groups)
        seconds = 0.0
        for _ in range(_SOAK_LAUNCHES):
            cl.enqueue_fill_buffer(queue, words, np.zeros(1, np.uint32), 0, 8 * groups)
            launch = kernel(queue, None, (local_size,), words, late, np.uint32(barriers), num_groups=groups)
            launch.wait()
            seconds += device_s(launch.event, 1e9)
        counts = np.empty(2 * groups, np.uint32)
        cl.enqueue_copy(queue, counts, late)
        errors, ended = int(counts[:groups].sum()), int((counts[groups:] == _SOAK_LAUNCHES).sum())
        total = barriers * _SOAK_LAUNCHES
        extra = {"groups": groups, "local_size": local_size, "barriers": total, "errors": errors}
        extra |= {"met": errors == 0 and ended == groups}
        yield Row("soak", session.name, "errors", float(errors), seconds * 1e6 / total, None, _SOAK_LAUNCHES, extra)


BENCHMARKS: Final[dict[str, Callable[[GridSession], Iterator[Row]]]] = {
    "barrier": barrier,
    "sums": sums,
    "traffic": traffic,
    "overlap": overlap,
    "enter": enter,
    "recall": recall,
    "soak": soak,
}


def sampled(sides: Sides, repeats: int) -> dict[str, list[float]]:
    """Samples of each side; those that found too few groups are taken again. The first launches are not counted."""
    whole = {name: partial(complete, take) for name, take in sides.items()}
    for take in whole.values():
        take()
    return in_turns(whole, repeats)


def rounds_for(groups: int, quick: bool) -> int:
    """Rounds that take a launch some milliseconds."""
    return max(100, int((_LAUNCH_NS / 4 if quick else _LAUNCH_NS) / (900 + 2 * groups)))


def rows_of(
    session: GridSession,
    benchmark: str,
    taken: Mapping[str, Sequence[float]],
    targets: Mapping[str, float],
    **extra: object,
) -> Iterator[Row]:
    """A row for every side beside the first."""
    (_, ours), *peers = taken.items()
    for peer, theirs in peers:
        row = session.compare(benchmark, peer, ours, theirs, **extra)
        yield judged(row, targets.get(peer), ratio=paired(ours, theirs))


def verdict(row: Row) -> str:
    """Whether the target is met, in words."""
    extra = row.extra
    if extra.get("met") is None:
        return f"{100 * extra['hidden']:.0f}% of the barrier hidden" if "hidden" in extra else ""
    wanted = extra.get("target") or (f"{extra['target_us']:g} us above" if "target_us" in extra else "all")
    return f"{'yes' if extra['met'] else 'no'} ({wanted})"


COLUMNS: Final[dict[str, Callable[[Row], str]]] = {
    "benchmark": lambda row: row.benchmark,
    "groups": lambda row: str(row.extra["groups"]),
    "local": lambda row: str(row.extra["local_size"]),
    "streamed": lambda row: str(row.extra.get("streamed", "")),
    "algorithm": lambda row: str(row.extra.get("algorithm", "")),
    "peer": lambda row: row.peer,
    "ratio": lambda row: "" if row.ratio is None else f"{row.ratio:.3f}",
    "ours, us": lambda row: number(row.ours_us),
    "peer, us": lambda row: number(row.peer_us),
    "target met": verdict,
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; for NVIDIA devices only."""
    quick = "short launches and five repeats"
    options = command_line("grid_sync", __doc__, quick, BENCHMARKS).parse_args(arguments)

    @contextmanager
    def opened(device: cl.Device, name: str) -> Iterator[GridSession | None]:
        capability = capability_of(device)
        if capability is None:
            note(f"{name}: skipped, no NVIDIA device; `python -m benchmarks.device_barrier` has peers for others")
            yield None
            return
        with cuda_program(CUDA_SOURCE, "grid_sync", capability, CudaPeer) as cuda:
            yield GridSession(device, name, cl.Context([device]), options.quick, cuda)

    return run(options, opened, BENCHMARKS, COLUMNS)


if __name__ == "__main__":
    raise SystemExit(main())
