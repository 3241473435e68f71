"""Shared by the benchmarks of whole arrays: sessions, times of calls, and CUB's scans and sorts in a CUDA program."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np
import pyopencl as cl
import pyopencl.array

from benchmarks.cuda import CUB_PRELUDE, CudaProgram, capability_of, cuda_program
from benchmarks.shared import Row, Session, command_line, number, run, verdict
from portbar.launching.build import compile_program
from portbar.survey.measuring.rounds import profiled_queue

#: Keeps an NVIDIA device busy for some time of its own clock.
BUSY: Final = """kernel void busy(global uint *p, const ulong nanoseconds)
{
    (void)p;
    if (nanoseconds == 0)
        return;
    ulong begin, now;
    __asm__ volatile("mov.u64 %0, %%globaltimer;" : "=l"(begin));
    do
        __asm__ volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    while (now - begin < nanoseconds);
}
"""
BUSY_NS: Final = 1_000_000

CUDA_SOURCE: Final = (
    CUB_PRELUDE
    + r"""
__global__ void fill(unsigned *a, size_t n)
{
    for (size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x; i < n; i += size_t(gridDim.x) * blockDim.x) {
        unsigned x = unsigned(i) * 2654435761u;
        x = (x ^ x >> 15) * 0x2c1b3c6du;
        x = (x ^ x >> 12) * 0x297a2d39u;
        a[i] = x ^ x >> 15;
    }
}

static char *a, *b, *c, *d, *room;
static size_t room_size;

/* Calls CUB twice: for the size of its memory, and after a busy kernel, so that events show the device's time alone. */
template <typename Call> static bool timed(Call call)
{
    static cudaEvent_t before, after;
    if (before == nullptr && (refused(cudaEventCreate(&before)) || refused(cudaEventCreate(&after))))
        return true;
    size_t size = 0;
    if (refused(call(nullptr, size)))
        return true;
    if (size > room_size) {
        if (refused(cudaFree(room)) || refused(cudaMalloc(&room, size)))
            return true;
        room_size = size;
    }
    float ms = 0.0f;
    busy<<<1, 1>>>(1000000);
    if (refused(cudaEventRecord(before)) || refused(call(room, size)) || refused(cudaEventRecord(after)) ||
        refused(cudaEventSynchronize(after)) || refused(cudaEventElapsedTime(&ms, before, after)))
        return true;
    std::printf("{\"seconds\": %.9g}\n", ms * 1e-3);
    std::fflush(stdout);
    return false;
}

template <typename T> static bool scan(long long n)
{
    return timed([=](void *p, size_t &size) { return cub::DeviceScan::InclusiveSum(p, size, (T *)a, (T *)b, n); });
}

template <typename K> static bool keys(long long n)
{
    return timed([=](void *p, size_t &size) { return cub::DeviceRadixSort::SortKeys(p, size, (K *)a, (K *)b, n); });
}

template <typename K, typename V> static bool pairs(long long n)
{
    return timed([=](void *p, size_t &size) {
        return cub::DeviceRadixSort::SortPairs(p, size, (K *)a, (K *)b, (V *)c, (V *)d, n);
    });
}

static bool copy(long long bytes)
{
    return timed([=](void *p, size_t &size) {
        size = 1;
        return p == nullptr ? cudaSuccess : cudaMemcpyAsync(b, a, bytes, cudaMemcpyDeviceToDevice);
    });
}

/* Reads lines "WHAT N"; replies to each with a line of JSON. */
int main()
{
    const size_t bytes = size_t(1) << 30;
    cudaDeviceProp device;
    if (refused(cudaGetDeviceProperties(&device, 0)) || refused(cudaMalloc(&a, bytes)) || refused(cudaMalloc(&b, bytes)) ||
        refused(cudaMalloc(&c, bytes)) || refused(cudaMalloc(&d, bytes)))
        return 1;
    fill<<<1056, 256>>>((unsigned *)a, bytes / 4);
    std::printf("{\"name\": \"%s\", \"cub\": %d}\n", device.name, CUB_VERSION);
    std::fflush(stdout);
    char what[32];
    long long n;
    while (std::scanf("%31s %lld", what, &n) == 2) {
        bool failed = true;
        if (std::strcmp(what, "copy") == 0)
            failed = copy(n);
        else if (std::strcmp(what, "scan-float32") == 0)
            failed = scan<float>(n);
        else if (std::strcmp(what, "scan-int32") == 0)
            failed = scan<int>(n);
        else if (std::strcmp(what, "scan-float64") == 0)
            failed = scan<double>(n);
        else if (std::strcmp(what, "sort-uint32") == 0)
            failed = keys<unsigned>(n);
        else if (std::strcmp(what, "sort-float32") == 0)
            failed = keys<float>(n);
        else if (std::strcmp(what, "sort-uint64") == 0)
            failed = keys<unsigned long long>(n);
        else if (std::strcmp(what, "pairs-uint32") == 0)
            failed = pairs<unsigned, unsigned>(n);
        if (failed)
            return 1;
    }
    return 0;
}
"""
)


class CubPeer(CudaProgram):
    """The CUDA program."""

    def us(self, what: str, size: int) -> float:
        """Return the microseconds of one call by the device's clock."""
        return float(self.ask(f"{what} {size}")["seconds"]) * 1e6


@dataclass(frozen=True)
class BusySession(Session):
    """One device that can be kept busy, so that the next command starts when it is awake."""

    @cached_property
    def profiled(self) -> cl.CommandQueue:
        """A queue whose events have times."""
        return profiled_queue(self.queue)

    @cached_property
    def _busy(self) -> tuple[cl.Kernel, cl.Buffer]:
        kernel = cl.Kernel(compile_program(self.context, self.device, BUSY, ()), "busy")
        argument = cl.Buffer(self.context, cl.mem_flags.READ_WRITE, 4)
        kernel.set_args(argument, np.uint64(0))
        return kernel, argument

    def keep_busy(self, nanoseconds: int) -> cl.Event:
        """Enqueue a kernel that only spends this time; commands after it start on an awake device, as CUB's do."""
        kernel, _ = self._busy
        kernel.set_arg(1, np.uint64(nanoseconds))
        return cl.enqueue_nd_range_kernel(self.profiled, kernel, (1,), (1,))

    def whole_us(self, call: Callable[[], Any]) -> float:
        """Microseconds from a call until the queue is empty."""
        self.profiled.finish()
        began = time.perf_counter()
        call()
        self.profiled.finish()
        return (time.perf_counter() - began) * 1e6

    @property
    def kind(self) -> str:
        """The row of the targets."""
        return "cpu" if self.is_cpu else "gpu"


@dataclass(frozen=True)
class ArraySession(BusySession):
    """One device, with the CUDA program if available."""

    cub: CubPeer | None

    @cached_property
    def by_stamps(self) -> bool:
        """Whether calls are timed by the device's clock, after a kernel that keeps it busy."""
        return "NVIDIA" in self.device.platform.name

    def us(self, call: Callable[[], cl.Event]) -> float:
        """Microseconds of a call that returns its last event: the device's alone where it is NVIDIA's, else the whole."""
        self.profiled.finish()
        if not self.by_stamps:
            return self.whole_us(call)
        busy = self.keep_busy(BUSY_NS)
        last = call()
        last.wait()
        return float(last.profile.end - busy.profile.end) * 1e-3


def main(
    name: str, about: str | None, measure: Callable[[ArraySession], Iterator[Row]], arguments: Sequence[str] | None
) -> int:
    """Measure by a function and print; 1 when a result was wrong, 3 when no usable device matches."""
    options = command_line(name, about, "small arrays, five samples").parse_args(arguments)

    @contextmanager
    def opened(device: cl.Device, title: str) -> Iterator[ArraySession]:
        with cuda_program(CUDA_SOURCE, "arrays", capability_of(device), CubPeer) as cub:
            yield ArraySession(device, title, cl.Context([device]), options.quick, cub)

    return run(options, opened, {name: measure}, COLUMNS)


COLUMNS: Final[dict[str, Callable[[Row], str]]] = {
    "benchmark": lambda row: row.benchmark,
    "type": lambda row: str(row.extra.get("dtype", "")),
    "size": lambda row: str(row.extra.get("size", "")),
    "peer": lambda row: row.peer,
    "ratio": lambda row: number(row.ratio),
    "ours, us": lambda row: number(row.ours_us),
    "peer, us": lambda row: number(row.peer_us),
    "target met": verdict,
}
