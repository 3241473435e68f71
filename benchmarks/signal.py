"""One-way latency of signals beside hand-written flags: `python -m benchmarks.signal --json`.

Two work-groups send a counter to and fro; half of a round trip is a latency. A ratio below 1 means that portbar is faster. The
peers wait without a limit: the device's own atomics in OpenCL C, release and acquire where it has them; on NVIDIA devices
red.release and ld.acquire in inline PTX, and the same in a CUDA program that nvcc compiles and that runs in turns with ours.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import numpy as np
import pyopencl as cl

import portbar
from benchmarks.cuda import PRELUDE, CudaProgram, capability_of, cuda_program
from benchmarks.shared import (
    Row,
    Session,
    WrongResultError,
    attempted,
    command_line,
    complete,
    judged,
    note,
    number,
    paired,
    run,
    sampled,
    verdict,
)
from portbar.errors import Error
from portbar.survey.measuring.rounds import device_s, most_rounds, profiled_queue, rounds_for

#: The bound on a latency, relative to the CUDA program's.
TARGET: Final = 1.0
LOCAL_SIZES: Final = (1, 64, 256)
#: Most rounds of a launch in a quick run.
QUICK_ROUNDS: Final = 50

SOURCE: Final = """
#include "portbar/signal.h"

/* Flags as one writes them by hand: PEER is 1 for atomics of OpenCL C 2.0, 2 for PTX, 0 for OpenCL 1.2. */
#if PEER == 1
#define ADD(p) ((void)atomic_fetch_add_explicit((volatile global atomic_uint *)(p), 1u, memory_order_release, \\
                                                memory_scope_device))
#define LOAD(p) atomic_load_explicit((volatile global atomic_uint *)(p), memory_order_acquire, memory_scope_device)
#elif PEER == 2
#define ADD(p) __asm__ volatile("red.release.gpu.global.add.u32 [%0], 1;" :: "l"(p) : "memory")
static inline uint loaded(volatile global uint *p)
{
    uint found;
    __asm__ volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(found) : "l"(p) : "memory");
    return found;
}
#define LOAD(p) loaded(p)
#else
#define ADD(p) (mem_fence(CLK_GLOBAL_MEM_FENCE), (void)atomic_inc(p))
#define LOAD(p) atomic_or(p, 0u)
#endif

/* Group 0 sends by the first signal and waits for the second one, group 1 the other way round. `data` goes with each. */
kernel void ours_item(PORTBAR_GRID_PARAM, global portbar_signal *s, global uint *data, const uint rounds)
{
    PORTBAR_ENTER(grid);
    const uint me = portbar_group_id(&grid);
    if (portbar_num_groups(&grid) == 2u && get_local_id(0) == 0u)
        for (uint r = 0u; r < rounds; ++r) {
            if (!portbar_signal_wait_until_at_least(&grid, s + 32u * (1u - me), r + me))
                return;
            data[0] += 1u;
            portbar_signal_add(&grid, s + 32u * me, 1u);
        }
}
kernel void ours_group(PORTBAR_GRID_PARAM, global portbar_signal *s, global uint *data, const uint rounds)
{
    PORTBAR_ENTER(grid);
    const uint me = portbar_group_id(&grid), n = portbar_num_groups(&grid) == 2u ? rounds : 0u;
    for (uint r = 0u; r < n; ++r) {
        if (!portbar_work_group_signal_wait_until_at_least(&grid, s + 32u * (1u - me), r + me))
            return;
        if (get_local_id(0) == 0u)
            data[0] += 1u;
        portbar_work_group_signal_add(&grid, s + 32u * me, 1u);
    }
}
kernel void peer_item(PORTBAR_GRID_PARAM, volatile global uint *s, global uint *data, const uint rounds)
{
    PORTBAR_ENTER(grid);
    const uint me = portbar_group_id(&grid);
    if (portbar_num_groups(&grid) == 2u && get_local_id(0) == 0u)
        for (uint r = 0u; r < rounds; ++r) {
            while (LOAD(s + 32u * (1u - me)) < r + me)
                ;
            data[0] += 1u;
            ADD(s + 32u * me);
        }
}
kernel void peer_group(PORTBAR_GRID_PARAM, volatile global uint *s, global uint *data, const uint rounds)
{
    PORTBAR_ENTER(grid);
    const uint me = portbar_group_id(&grid), n = portbar_num_groups(&grid) == 2u ? rounds : 0u;
    for (uint r = 0u; r < n; ++r) {
        if (get_local_id(0) == 0u)
            while (LOAD(s + 32u * (1u - me)) < r + me)
                ;
        barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
        if (get_local_id(0) == 0u)
            data[0] += 1u;
        barrier(CLK_GLOBAL_MEM_FENCE);
        if (get_local_id(0) == 0u)
            ADD(s + 32u * me);
    }
}
"""

CUDA_SOURCE: Final = (
    PRELUDE
    + r"""
__device__ unsigned loaded(const unsigned *p)
{
    unsigned found;
    asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(found) : "l"(p) : "memory");
    return found;
}
__device__ void added(unsigned *p)
{
    asm volatile("red.release.gpu.global.add.u32 [%0], 1;" :: "l"(p) : "memory");
}

__global__ void item(unsigned *s, unsigned *data, unsigned rounds)
{
    const unsigned me = blockIdx.x;
    if (threadIdx.x == 0)
        for (unsigned r = 0; r < rounds; ++r) {
            while (loaded(s + 32 * (1 - me)) < r + me)
                ;
            data[0] += 1;
            added(s + 32 * me);
        }
}
__global__ void group(unsigned *s, unsigned *data, unsigned rounds)
{
    const unsigned me = blockIdx.x;
    for (unsigned r = 0; r < rounds; ++r) {
        if (threadIdx.x == 0)
            while (loaded(s + 32 * (1 - me)) < r + me)
                ;
        __syncthreads();
        if (threadIdx.x == 0)
            data[0] += 1;
        __syncthreads();
        if (threadIdx.x == 0)
            added(s + 32 * me);
    }
}

int main()
{
    unsigned *words;
    cudaEvent_t before, after;
    if (refused(cudaMalloc(&words, 65 * sizeof *words)) || refused(cudaEventCreate(&before)) ||
        refused(cudaEventCreate(&after)))
        return 1;
    std::printf("{\"ready\": true}\n");
    std::fflush(stdout);
    char kind[32];
    unsigned local, rounds;
    while (std::scanf("%31s %u %u", kind, &local, &rounds) == 3) {
        unsigned *data = words + 64, left = 0;
        float ms = 0.0f;
        void *arguments[] = {&words, &data, &rounds};
        const void *kernel = std::strcmp(kind, "item") == 0 ? (const void *)item : (const void *)group;
        if (refused(cudaMemset(words, 0, 65 * sizeof *words)) || refused(cudaEventRecord(before)) ||
            refused(cudaLaunchCooperativeKernel(kernel, 2, local, arguments)) || refused(cudaEventRecord(after)) ||
            refused(cudaDeviceSynchronize()) || refused(cudaEventElapsedTime(&ms, before, after)) ||
            refused(cudaMemcpy(&left, data, sizeof left, cudaMemcpyDeviceToHost)))
            continue;
        std::printf("{\"seconds\": %.9g, \"right\": %s}\n", ms * 1e-3, left == 2 * rounds ? "true" : "false");
        std::fflush(stdout);
    }
    return 0;
}
"""
)


class CudaPeer(CudaProgram):
    """The CUDA program of this benchmark."""

    def us(self, form: str, local_size: int, rounds: int) -> float:
        """Microseconds of a latency."""
        answer = self.ask(f"{form} {local_size} {rounds}")
        if not answer["right"]:
            raise Error("the CUDA program left a wrong count")
        return float(answer["seconds"]) * 1e6 / (2 * rounds)


@dataclass(frozen=True)
class SignalSession(Session):
    """One device, with the CUDA program if available."""

    cuda: CudaPeer | None


class PingPong:
    """Launches of two work-groups that send a counter to and fro."""

    def __init__(self, session: SignalSession, local_size: int) -> None:
        self._queue = profiled_queue(session.queue)
        chosen = portbar.choose(portbar.describe(session.device)).atomics.value
        self.peer = {"c11": "OpenCL C 2.0 atomics", "ptx": "inline PTX"}.get(chosen, "OpenCL 1.2 atomics")
        kind = {"c11": 1, "ptx": 2}.get(chosen, 0)
        self._program = portbar.Program(session.context, SOURCE, options=[f"-DPEER={kind}"], devices=[session.device])
        self._local_size = local_size
        self._words = cl.Buffer(session.context, cl.mem_flags.READ_WRITE, 4 * 64)
        self._data = cl.Buffer(session.context, cl.mem_flags.READ_WRITE, 4)
        self.most_rounds = most_rounds(self._program.profile(session.device), 256)

    def groups(self, name: str) -> int:
        """Work-groups that the device holds at once."""
        return self._program.kernel(name).occupancy(self._queue, (self._local_size,)).groups

    def launch_s(self, name: str, rounds: int) -> float | None:
        """Seconds of a launch; None if it found one group only, `WrongResultError` if a round was lost."""
        for buffer in (self._words, self._data):
            cl.enqueue_fill_buffer(self._queue, buffer, np.zeros(1, np.uint32), 0, buffer.size)
        self._queue.finish()
        start = time.perf_counter()
        made = self._program.kernel(name)
        launch = made(self._queue, None, (self._local_size,), self._words, self._data, np.uint32(rounds), num_groups=2)
        launch.wait()
        seconds = device_s(launch.event, time.perf_counter() - start)
        if launch.num_groups != 2:
            return None
        found = np.zeros(1, np.uint32)
        cl.enqueue_copy(self._queue, found, self._data)
        if found[0] != 2 * rounds:
            raise WrongResultError(f"{name} counted {found[0]} of {2 * rounds}")
        return seconds

    def us(self, name: str, rounds: int) -> float:
        """Microseconds of a latency, by a launch that found both groups."""
        return complete(partial(self.launch_s, name, rounds), 2) * 1e6 / (2 * rounds)


def latency(session: SignalSession) -> Iterator[Row]:
    """One-way latency for one work-item of each group, and for whole groups of several sizes."""
    for form, local_size in [("item", 1), *(("group", size) for size in LOCAL_SIZES)]:
        described: dict[str, Any] = {"form": form, "local_size": local_size}
        yield from attempted(session, "signal_latency", compared(session, **described), **described)


def compared(session: SignalSession, form: str, local_size: int) -> Iterator[Row]:
    """One form and local size."""
    pair = PingPong(session, local_size)
    if pair.groups(f"ours_{form}") < 2:
        note(f"{session.name}: skipped, the device runs one work-group at a time")
        return
    # On a busy machine a peer, which never yields, takes a time slice for each round.
    most = min(pair.most_rounds, QUICK_ROUNDS) if session.quick else pair.most_rounds
    rounds = rounds_for(partial(pair.launch_s, f"ours_{form}"), session.launch_s, most)
    sides: dict[str, Callable[[], float]] = {
        "portbar": partial(pair.us, f"ours_{form}", rounds),
        pair.peer: partial(pair.us, f"peer_{form}", rounds),
    }
    if session.cuda is not None:
        sides["CUDA"] = partial(session.cuda.us, form, local_size, rounds)
    (_, ours), *peers = sampled(sides, session.repeats).items()
    for peer, theirs in peers:
        extra = {"rounds": rounds, "paired": paired(ours, theirs), "form": form, "local_size": local_size}
        row = session.compare("signal_latency", peer, ours, theirs, **extra)
        yield judged(row, TARGET if peer == "CUDA" else None)


BENCHMARKS: Final[dict[str, Callable[[SignalSession], Iterator[Row]]]] = {"latency": latency}


COLUMNS: Final[dict[str, Callable[[Row], str]]] = {
    "who waits": lambda row: {"item": "a work-item", "group": "a work-group"}[row.extra["form"]],
    "local": lambda row: str(row.extra["local_size"]),
    "peer": lambda row: row.peer,
    "ratio": lambda row: number(row.ratio),
    "median of ratios": lambda row: number(row.extra.get("paired")),
    "ours, us": lambda row: number(row.ours_us),
    "peer, us": lambda row: number(row.peer_us),
    "target met": verdict,
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print."""
    options = command_line("signal", __doc__, "short launches and five repeats", BENCHMARKS).parse_args(arguments)

    @contextmanager
    def opened(device: cl.Device, name: str) -> Iterator[SignalSession]:
        with cuda_program(CUDA_SOURCE, "signal", capability_of(device), CudaPeer) as cuda:
            yield SignalSession(device, name, cl.Context([device]), options.quick, cuda)

    return run(options, opened, BENCHMARKS, COLUMNS)


if __name__ == "__main__":
    raise SystemExit(main())
