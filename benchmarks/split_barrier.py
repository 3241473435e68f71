"""The barrier of `portbar/split_barrier.h` beside its peers: `python -m benchmarks.split_barrier --json`.

Whether it orders memory is the subject of the tests. A ratio below 1 means that portbar is faster. The peers are `barrier()`,
and on NVIDIA devices libcu++'s `cuda::barrier` and `__syncthreads()`, in a program that nvcc compiles and that runs alternately
with ours.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
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
    judged,
    note,
    number,
    paired,
    run,
    sampled,
    verdict,
)
from portbar.errors import Error
from portbar.launching.build import build_options, compile_program
from portbar.survey.measuring.rounds import device_s, most_rounds, profiled_queue, rounds_for

#: The bound on a uniform arrive and wait on a CPU, in plain barriers.
BARRIER_TARGET: Final = 1.3
#: Local size -> the bound on arrive and wait, relative to `cuda::barrier`.
CUDA_TARGETS: Final = {256: 0.92, 1024: 0.80}
#: How many times as fast as with `barrier()` a pipeline should be.
PIPELINE_TARGET: Final = 1.3

#: Register work between arrive and wait, which a loop cannot shorten: the same in OpenCL C and CUDA C++.
FACTOR: Final = 1664525
TERM: Final = 1013904223
#: Words of a pipeline's source are their indices times this.
SPREAD: Final = 2654435761

#: Tiles that a pipeline has room for. Two are being read, the others are on their way.
STAGES: Final = 4

_MASK: Final = 0xFFFF_FFFF

HEADER: Final = '#include "portbar/split_barrier.h"\n'

CYCLES: Final = r"""
static inline ulong cycles_now(void)
{
    ulong now;
    __asm__ volatile("mov.u64 %0, %%clock64;" : "=l"(now) :: "memory");
    return now;
}
"""
NO_CYCLES: Final = "#define cycles_now() 0ul\n"

#: The ids are kept from before the first barrier, for the sake of the quirk pocl-cbs-ids.
LOOP: Final = """
kernel void {name}(global uint *values, global ulong *cycles, const uint rounds)
{{
    const uint me = (uint)get_global_id(0);
    volatile uint item = (uint)get_local_id(0);
{before}
    barrier(CLK_LOCAL_MEM_FENCE);
    uint value = me;
    const ulong start = cycles_now();
#pragma unroll 1
    for (uint round = 0; round < rounds; ++round) {{
{body}
    }}
    const ulong end = cycles_now();
    values[me] = value;
    if (item == 0)
        cycles[get_group_id(0)] = end - start;
}}
"""
WORK: Final = f"value = value * {FACTOR}u + {TERM}u;"

_MET: Final = """    local portbar_split_barrier met;
    if (get_local_id(0) == 0)
        portbar_split_barrier_initialize(&met, (uint)get_local_size(0));"""
#: Side -> the text before the loop, and in it. `checked` is not timed: it stops at the first wait that fails.
SIDES: Final = {
    "portbar": (
        _MET,
        f"""        const portbar_arrival_token token = portbar_split_barrier_arrive(&met);
        {WORK}
        portbar_split_barrier_wait(&met, token);""",
    ),
    "checked": (
        _MET,
        f"""        const portbar_arrival_token token = portbar_split_barrier_arrive(&met);
        {WORK}
        if (!portbar_split_barrier_wait(&met, token))
            break;""",
    ),
    "barrier": ("", f"        {WORK}\n        barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);"),
    "barrier-local": ("", f"        {WORK}\n        barrier(CLK_LOCAL_MEM_FENCE);"),
}

#: One barrier a stage counts both the copies of a tile and the work-items that are done with the tile before the last.
PIPELINE: Final = f"""
#define AHEAD ({STAGES}u - 2u)

static inline uint4 consume(local const uint4 *tile, const uint item, uint4 sum, const uint steps)
{{
    const uint4 value = tile[item] + 3u * tile[SIZE - 1u - item];
    for (uint step = 0; step < steps; ++step)
        sum = sum * {FACTOR}u + value;
    return sum;
}}

kernel void fill(global uint *words)
{{
    words[get_global_id(0)] = (uint)get_global_id(0) * {SPREAD}u;
}}
"""
STREAM_HEAD: Final = """
kernel __attribute__((reqd_work_group_size(SIZE, 1, 1)))
void stream(global const uint4 *source, global uint4 *sums, const uint tiles, const uint steps)
{
    const uint item = (uint)get_local_id(0);
    const size_t stride = get_global_size(0);
    global const uint4 *from = source + get_global_id(0);
    uint4 sum = (uint4)((uint)get_global_id(0));
"""
STREAM_TAIL: Final = """
    sums[get_global_id(0)] = sum;
}
"""
STREAMS: Final = {
    "portbar": f"""
    local uint4 stages[{STAGES}u * SIZE];
    local portbar_split_barrier ready[{STAGES}];
    if (item == 0)
        for (uint stage = 0; stage < {STAGES}u; ++stage)
            portbar_split_barrier_initialize(ready + stage, 2u * SIZE);
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint tile = 0; tile < AHEAD; ++tile) {{
        portbar_copy_async(stages + tile * SIZE + item, from + tile * stride, 16u);
        portbar_split_barrier_arrive_copy_async_no_inc(ready + tile);
    }}
    portbar_arrival_token token = portbar_split_barrier_arrive(ready);
    portbar_arrival_token later = portbar_split_barrier_arrive(ready + 1);
    for (uint tile = 0; tile < tiles; ++tile) {{
        const uint stage = tile % {STAGES}u;
        if (!portbar_split_barrier_wait(ready + stage, token))
            break;
        const uint next = tile + AHEAD;
        if (next < tiles) {{
            portbar_copy_async(stages + next % {STAGES}u * SIZE + item, from + next * stride, 16u);
            portbar_split_barrier_arrive_copy_async_no_inc(ready + next % {STAGES}u);
        }}
        sum = consume(stages + stage * SIZE, item, sum, steps);
        token = later;
        if (tile + 2u < tiles)
            later = portbar_split_barrier_arrive(ready + (tile + 2u) % {STAGES}u);
    }}
""",
    "barrier": """
    local uint4 tiled[SIZE];
    for (uint tile = 0; tile < tiles; ++tile) {
        tiled[item] = from[tile * stride];
        barrier(CLK_LOCAL_MEM_FENCE);
        sum = consume(tiled, item, sum, steps);
        barrier(CLK_LOCAL_MEM_FENCE);
    }
""",
    "barrier-prefetch": """
    local uint4 tiled[2u * SIZE];
    tiled[item] = from[0];
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint tile = 0; tile < tiles; ++tile) {
        const uint next = tile + 1u;
        const uint4 fetched = next < tiles ? from[next * stride] : (uint4)(0u);
        sum = consume(tiled + (tile & 1u) * SIZE, item, sum, steps);
        tiled[(next & 1u) * SIZE + item] = fetched;
        barrier(CLK_LOCAL_MEM_FENCE);
    }
""",
}

CUDA_SOURCE: Final = (
    PRELUDE
    + r"""
#include <cuda/barrier>

#include <utility>
#include <vector>

using barrier_type = cuda::barrier<cuda::thread_scope_block>;

__global__ void __launch_bounds__(1024) run_barrier(unsigned *values, long long *cycles, unsigned rounds)
{
#pragma nv_diag_suppress static_var_with_dynamic_init
    __shared__ barrier_type met;
    if (threadIdx.x == 0)
        init(&met, blockDim.x);
    __syncthreads();
    const unsigned id = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned value = id;
    const long long start = clock64();
#pragma unroll 1
    for (unsigned round = 0; round < rounds; ++round) {
        auto token = met.arrive();
        value = value * FACTOR + TERM;
        met.wait(std::move(token));
    }
    const long long end = clock64();
    values[id] = value;
    if (threadIdx.x == 0)
        cycles[blockIdx.x] = end - start;
}

__global__ void __launch_bounds__(1024) run_syncthreads(unsigned *values, long long *cycles, unsigned rounds)
{
    __syncthreads();
    const unsigned id = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned value = id;
    const long long start = clock64();
#pragma unroll 1
    for (unsigned round = 0; round < rounds; ++round) {
        value = value * FACTOR + TERM;
        __syncthreads();
    }
    const long long end = clock64();
    values[id] = value;
    if (threadIdx.x == 0)
        cycles[blockIdx.x] = end - start;
}

/* Reads lines "KIND LOCAL GROUPS ROUNDS", and replies to each with a line of JSON. */
int main()
{
    cudaDeviceProp device;
    cudaFuncAttributes built;
    cudaEvent_t before, after;
    if (refused(cudaGetDeviceProperties(&device, 0)) || refused(cudaFuncGetAttributes(&built, run_barrier)) ||
        refused(cudaEventCreate(&before)) || refused(cudaEventCreate(&after)))
        return 1;
    std::printf("{\"name\": \"%s\", \"binary\": %d, \"ptx\": %d, \"nvcc\": \"%d.%d\"}\n", device.name,
                built.binaryVersion, built.ptxVersion, __CUDACC_VER_MAJOR__, __CUDACC_VER_MINOR__);
    std::fflush(stdout);
    char kind[32];
    unsigned local, groups, rounds;
    while (std::scanf("%31s %u %u %u", kind, &local, &groups, &rounds) == 4) {
        const size_t items = size_t(local) * groups;
        unsigned *values = nullptr;
        long long *cycles = nullptr;
        if (refused(cudaMalloc(&values, items * sizeof *values)) ||
            refused(cudaMalloc(&cycles, groups * sizeof *cycles)) || refused(cudaEventRecord(before)))
            return 1;
        if (std::strcmp(kind, "barrier") == 0)
            run_barrier<<<groups, local>>>(values, cycles, rounds);
        else
            run_syncthreads<<<groups, local>>>(values, cycles, rounds);
        float ms = 0.0f;
        std::vector<unsigned> left(items);
        std::vector<long long> taken(groups);
        if (refused(cudaGetLastError()) || refused(cudaEventRecord(after)) || refused(cudaDeviceSynchronize()) ||
            refused(cudaEventElapsedTime(&ms, before, after)) ||
            refused(cudaMemcpy(left.data(), values, items * sizeof(unsigned), cudaMemcpyDeviceToHost)) ||
            refused(cudaMemcpy(taken.data(), cycles, groups * sizeof(long long), cudaMemcpyDeviceToHost)) ||
            refused(cudaFree(values)) || refused(cudaFree(cycles)))
            return 1;
        unsigned factor = 1u, term = 0u;
        for (unsigned round = 0; round < rounds; ++round) {
            factor *= FACTOR;
            term = term * FACTOR + TERM;
        }
        size_t wrong = 0;
        for (size_t i = 0; i < items; ++i)
            wrong += left[i] != unsigned(i) * factor + term;
        double sum = 0.0;
        for (const long long one : taken)
            sum += double(one);
        std::printf("{\"seconds\": %.9g, \"cycles\": %.9g, \"wrong\": %zu}\n", ms * 1e-3, sum / groups, wrong);
        std::fflush(stdout);
    }
    return 0;
}
""".replace("FACTOR", f"{FACTOR}u").replace("TERM", f"{TERM}u")
)


@dataclass(frozen=True)
class Sample:
    """One launch: seconds, and the cycles of its loop, the mean over the work-groups, where the device counts them."""

    seconds: float
    cycles: float | None = None


class CudaPeer(CudaProgram):
    """The CUDA program, which knows two kinds of barrier."""

    def sample(self, kind: str, local_size: int, groups: int, rounds: int) -> Sample:
        """One launch of `barrier` or `syncthreads`; `WrongResultError` if it left wrong numbers."""
        answer = self.ask(f"{kind} {local_size} {groups} {rounds}")
        if answer["wrong"]:
            raise WrongResultError(f"the CUDA program left {answer['wrong']} wrong values")
        return Sample(answer["seconds"], answer["cycles"])


@dataclass(frozen=True)
class SplitSession(Session):
    """One device, with the CUDA program if available."""

    capability: tuple[int, int] | None
    cuda: CudaPeer | None

    @property
    def is_nvidia(self) -> bool:
        """Whether kernels may count cycles by PTX."""
        return self.capability is not None


class Bench:
    """Builds the loops of one device, launches them and checks what they left."""

    def __init__(self, session: SplitSession) -> None:
        self.session = session
        self.queue = profiled_queue(session.queue)
        self.launch_s = 0.003 if session.quick else 0.005 if session.is_nvidia else 0.02
        program = self.compiled(HEADER + "kernel void nothing(void) { }\n")
        self.options = build_options(program.strategy(session.device), ())
        self.most_rounds = most_rounds(program.profile(session.device))
        self.strategy = strategy_of(program, session.device)

    def compiled(self, text: str, require: Sequence[str] = ()) -> portbar.Program:
        """A program with portbar's headers."""
        return portbar.Program(self.session.context, text, devices=[self.session.device], require=require)

    def ours(self, program: portbar.Program, name: str) -> cl.Kernel:
        """A kernel of portbar's, to be launched as the peer's are."""
        device = self.session.device
        return cl.Kernel(program.built(device, program.strategy(device)), name)

    def peer(self, text: str, name: str) -> cl.Kernel:
        """A kernel that is compiled with the options that portbar's are compiled with."""
        return cl.Kernel(compile_program(self.session.context, self.session.device, text, self.options), name)

    def launch(self, kernel: cl.Kernel, groups: int, local_size: int) -> tuple[float, float]:
        """Seconds of one launch, whose arguments are set, by its event, and by the host's clock."""
        self.queue.finish()
        began = time.perf_counter()
        event = cl.enqueue_nd_range_kernel(self.queue, kernel, (groups * local_size,), (local_size,))
        event.wait()
        wall = time.perf_counter() - began
        return device_s(event, wall), wall


class Loop:
    """One side's loop at one size: `sample` launches it and checks its values."""

    def __init__(self, bench: Bench, kernel: cl.Kernel, groups: int, local_size: int) -> None:
        self.bench, self.kernel, self.groups, self.local_size = bench, kernel, groups, local_size
        flags = cl.mem_flags.READ_WRITE
        self._values = cl.Buffer(bench.session.context, flags, groups * local_size * 4)
        self._cycles = cl.Buffer(bench.session.context, flags, groups * 8)
        self.stamped = True

    def sample(self, rounds: int) -> Sample:
        """One launch; `WrongResultError` if the values are not those of that many rounds."""
        queue, items = self.bench.queue, self.groups * self.local_size
        cl.enqueue_fill_buffer(queue, self._values, np.zeros(1, np.uint32), 0, items * 4)
        self.kernel.set_args(self._values, self._cycles, np.uint32(rounds))
        seconds, wall = self.bench.launch(self.kernel, self.groups, self.local_size)
        values, cycles = np.empty(items, np.uint32), np.empty(self.groups, np.uint64)
        cl.enqueue_copy(queue, values, self._values)
        cl.enqueue_copy(queue, cycles, self._cycles)
        factor, term = powers(rounds)
        expected = np.arange(items, dtype=np.uint32) * np.uint32(factor) + np.uint32(term * TERM & _MASK)
        wrong = int((values != expected).sum())
        if wrong:
            raise WrongResultError(f"{wrong} of {items} values are wrong after {rounds} rounds")
        # Stamps that miss half of a long launch are invalid.
        self.stamped = self.stamped and (seconds >= wall / 2 or wall < 1e-3)
        return Sample(seconds if self.stamped else wall, float(cycles.mean()) if self.bench.session.is_nvidia else None)


def loop(side: str) -> str:
    """OpenCL C of one side's loop."""
    before, body = SIDES[side]
    return LOOP.format(name=loop_name(side), before=before, body=body)


def loop_name(side: str) -> str:
    """Its kernel's name."""
    return f"{side.replace('-', '_')}_rounds"


def powers(rounds: int) -> tuple[int, int]:
    """The factor's power, and the sum of its lower powers, modulo 2**32: what rounds do to a value and to what they add."""
    power, total = 1, 0
    for bit in f"{rounds:b}":
        power, total = power * power & _MASK, total * (power + 1) & _MASK
        if bit == "1":
            power, total = power * FACTOR & _MASK, (total * FACTOR + 1) & _MASK
    return power, total


def strategy_of(program: portbar.Program, device: cl.Device) -> str:
    """The split barrier's strategy."""
    return program.strategy(device).reasons()["split_barrier"][0]


def barrier(session: SplitSession) -> Iterator[Row]:
    """One arrive and wait in a loop, beside `barrier()`, and beside CUDA's where there is a CUDA program."""
    bench = Bench(session)
    head = CYCLES if session.is_nvidia else NO_CYCLES
    program = bench.compiled(HEADER + head + loop("portbar") + loop("checked"))
    kernels = {side: bench.ours(program, loop_name(side)) for side in ("portbar", "checked")}
    kernels |= {side: bench.peer(head + loop(side), loop_name(side)) for side in SIDES if side not in kernels}
    units = session.device.max_compute_units
    for local_size in (32, 256, 1024) if session.is_nvidia else (1, 64, 256):
        for groups in dict.fromkeys((1, units) if session.is_nvidia else (units,)):
            rows = barrier_rows(bench, kernels, groups, local_size)
            yield from attempted(session, "arrive_wait", rows, local_size=local_size, groups=groups)


def barrier_rows(bench: Bench, kernels: Mapping[str, cl.Kernel], groups: int, local_size: int) -> Iterator[Row]:
    """Rows of one size."""
    session = bench.session
    loops = {side: Loop(bench, kernel, groups, local_size) for side, kernel in kernels.items()}
    loops.pop("checked").sample(min(100, bench.most_rounds))
    sides: dict[str, Callable[[int], Sample]] = {side: one.sample for side, one in loops.items()}
    if session.cuda is not None:
        sides["cuda::barrier"] = partial(session.cuda.sample, "barrier", local_size, groups)
        sides["__syncthreads"] = partial(session.cuda.sample, "syncthreads", local_size, groups)
    for side in list(sides):
        try:
            sides[side](3)
        except (Error, cl.Error) as error:
            if side == "portbar":
                raise
            note(f"{session.name}: {side} left out at {groups} work-groups of {local_size}, {error}")
            del sides[side]
    rounds = rounds_for(lambda rounds: loops["portbar"].sample(rounds).seconds, bench.launch_s, bench.most_rounds)
    taken = sampled({side: partial(each_of, run, rounds) for side, run in sides.items()}, session.repeats)
    described = {"strategy": bench.strategy, "local_size": local_size, "groups": groups, "rounds": rounds}
    described["clock"] = "device" if all(one.stamped for one in loops.values()) else "host"
    for peer in list(taken)[1:]:
        more: dict[str, Any] = {}
        target = None
        if peer == "cuda::barrier" and session.cuda is not None:
            target, more = CUDA_TARGETS.get(local_size), {"cuda": session.cuda.about}
        elif session.is_cpu and peer == "barrier" and bench.strategy == "uniform":
            # The other one orders less.
            target = BARRIER_TARGET
        yield compared(session, "arrive_wait", peer, taken["portbar"], taken[peer], target, **described | more)


def pipeline(session: SplitSession) -> Iterator[Row]:
    """Tiles that are copied while the last is computed on, beside the same tiles loaded between two barriers."""
    bench = Bench(session)
    units = session.device.max_compute_units
    # On a GPU more than its cache holds.
    size, tiles = (256, 256) if session.is_nvidia else (64, 16)
    head = f"#define SIZE {size}u\n{PIPELINE}"
    texts = {side: head + STREAM_HEAD + body + STREAM_TAIL for side, body in STREAMS.items()}
    program = bench.compiled(HEADER + texts.pop("portbar"), ("split_barrier.overlapping",))
    kernels = {"portbar": bench.ours(program, "stream")}
    kernels |= {side: bench.peer(text, "stream") for side, text in texts.items()}
    fill = bench.ours(program, "fill")
    described: dict[str, Any] = {"strategy": strategy_of(program, session.device), "local_size": size, "tiles": tiles}
    described["hardware_copies"] = "cp.async" in program.rendered(session.device)
    rows: list[Row] = []
    for groups in (units, 2 * units) if session.is_nvidia else (units,):
        described["groups"] = groups
        rows += attempted(session, "pipeline", pipelines(bench, fill, kernels, described), **described)
    scored = [row for row in rows if row.extra.get("target")]
    best = max(scored, key=lambda row: row.extra["speedup"], default=None)
    for row in rows:
        yield replace(row, extra=row.extra | {"best": row is best})


def pipelines(
    bench: Bench, fill: cl.Kernel, kernels: Mapping[str, cl.Kernel], described: Mapping[str, Any]
) -> Iterator[Row]:
    """The rows of one number of work-groups, at each intensity."""
    streams = Streams(bench, fill, kernels, *(described[name] for name in ("groups", "local_size", "tiles")))
    for intensity, steps in streams.intensities().items():
        yield from streams.rows(steps, **described, intensity=intensity)


class Streams:
    """The pipelines of one size."""

    def __init__(
        self, bench: Bench, fill: cl.Kernel, kernels: Mapping[str, cl.Kernel], groups: int, size: int, tiles: int
    ) -> None:
        self.bench, self.kernels, self.groups, self.size = bench, kernels, groups, size
        context, flags = bench.session.context, cl.mem_flags.READ_WRITE
        while tiles > STAGES and groups * size * 16 * tiles > bench.session.device.max_mem_alloc_size:
            tiles //= 2
        self.tiles = tiles
        self._source = cl.Buffer(context, flags, groups * size * tiles * 16)
        self._sums = cl.Buffer(context, flags, groups * size * 16)
        fill.set_args(self._source)
        bench.queue.finish()
        cl.enqueue_nd_range_kernel(bench.queue, fill, (groups * size * tiles * 4,), None).wait()

    def run(self, side: str, steps: int) -> Sample:
        """Return the seconds per tile in one launch; `sums` returns its results."""
        kernel, bench = self.kernels[side], self.bench
        kernel.set_args(self._source, self._sums, np.uint32(self.tiles), np.uint32(steps))
        cl.enqueue_fill_buffer(bench.queue, self._sums, np.zeros(1, np.uint32), 0, self.groups * self.size * 16)
        return Sample(bench.launch(kernel, self.groups, self.size)[0] / self.tiles)

    def sums(self) -> Any:
        """Return the results of the last launch, by work-group, work-item and component."""
        left = np.empty((self.groups, self.size, 4), np.uint32)
        cl.enqueue_copy(self.bench.queue, left, self._sums)
        return left

    def expected(self, group: int, steps: int) -> Any:
        """Return the expected results of a work-group."""
        power, total = powers(steps)
        first = group * self.size
        items = np.arange(first, first + self.size, dtype=np.uint32)
        sums: Any = np.repeat(items[:, None], 4, axis=1)
        for tile in range(self.tiles):
            places = (items + np.uint32(tile * self.groups * self.size))[:, None] * np.uint32(4)
            words = (places + np.arange(4, dtype=np.uint32)) * np.uint32(SPREAD)
            sums = sums * np.uint32(power) + (words + np.uint32(3) * words[::-1]) * np.uint32(total)
        return sums

    def check(self, side: str, steps: int) -> None:
        """Launch one side, and raise `WrongResultError` where it leaves other sums than it should."""
        self.run(side, steps)
        left = self.sums()
        for group in sorted({0, self.groups // 2, self.groups - 1}):
            wrong = int((left[group] != self.expected(group, steps)).sum())
            if wrong:
                raise WrongResultError(f"{side}: {wrong} of {self.size * 4} sums of work-group {group} are wrong")

    def intensities(self) -> dict[str, int]:
        """Steps of arithmetic on each tile: as many as take the time of copying it, half and twice as many."""
        if not self.bench.session.is_nvidia:
            return {"some": 4}
        few, many = 8, 264
        for _ in range(3):
            self.run("barrier", many)
        least = statistics.median(self.run("barrier", few).seconds for _ in range(5))
        most = statistics.median(self.run("barrier", many).seconds for _ in range(5))
        each = max((most - least) / (many - few), least * 1e-3)
        balanced = min(4096, max(8, round(least / each) - few))
        return {"half": balanced // 2, "balanced": balanced, "double": balanced * 2}

    def rows(self, steps: int, **described: Any) -> Iterator[Row]:
        """The rows of one intensity, all sides checked before and after."""
        session = self.bench.session
        for side in self.kernels:
            self.check(side, steps)
        sides = {side: partial(self.run, side, steps) for side in self.kernels}
        taken = sampled(sides, session.repeats)
        self.check("portbar", steps)
        described |= {"tiles": self.tiles, "steps": steps}
        for peer in list(taken)[1:]:
            target = 1 / PIPELINE_TARGET if session.is_nvidia and peer == "barrier" else None
            row = compared(session, "pipeline", peer, taken["portbar"], taken[peer], target, **described)
            assert row.ratio is not None
            yield replace(row, extra=row.extra | {"speedup": 1 / row.ratio})


BENCHMARKS: Final[dict[str, Callable[[SplitSession], Iterator[Row]]]] = {
    "arrive_wait": barrier,
    "pipeline": pipeline,
}


def each_of(run: Callable[[int], Sample], rounds: int) -> Sample:
    """Run one launch of `rounds` rounds and return the time of one of them."""
    whole = run(rounds)
    return Sample(whole.seconds / rounds, None if whole.cycles is None else whole.cycles / rounds)


def compared(
    session: SplitSession,
    benchmark: str,
    peer: str,
    ours: Sequence[Sample],
    theirs: Sequence[Sample],
    target: float | None,
    **extra: Any,
) -> Row:
    """A row with its target, and whether the ratio meets it; None where there is no target.

    The ratio is the median of those of launches that followed one another: of cycles where both count them, else of times.
    """
    us = [[one.seconds * 1e6 for one in side] for side in (ours, theirs)]
    cycles = [(a.cycles, b.cycles) for a, b in zip(ours, theirs, strict=True) if a.cycles and b.cycles]
    counted = list(zip(*cycles, strict=True))
    extra |= {"time_ratio": paired(*us), "by": "cycles" if cycles else "time"}
    for side, counts in zip(("ours", "peer"), counted, strict=False):
        extra |= {f"{side}_cycles": statistics.median(counts), f"{side}_best_cycles": min(counts)}
    return judged(session.compare(benchmark, peer, *us, **extra), target, ratio=paired(*(counted or us)))


def cycles_of(row: Row) -> str:
    """Cycles of both sides."""
    counts = [row.extra.get(f"{side}_cycles") for side in ("ours", "peer")]
    return "" if None in counts else " / ".join(map(number, counts))


COLUMNS: Final[dict[str, Callable[[Row], str]]] = {
    "benchmark": lambda row: row.benchmark,
    "strategy": lambda row: str(row.extra.get("strategy", "")),
    "local": lambda row: str(row.extra["local_size"]),
    "groups": lambda row: str(row.extra["groups"]),
    "steps": lambda row: f"{row.extra['intensity']} {row.extra['steps']}" if "steps" in row.extra else "",
    "peer": lambda row: row.peer,
    "ratio": lambda row: "" if row.ratio is None else f"{row.ratio:.3f}",
    "ours, ns": lambda row: "" if row.ours_us is None else number(row.ours_us * 1e3),
    "peer, ns": lambda row: "" if row.peer_us is None else number(row.peer_us * 1e3),
    "cycles": cycles_of,
    "target met": lambda row: verdict(row) + (" best" if row.extra.get("best") else ""),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print."""
    quick = "short launches and five repeats"
    options = command_line("split_barrier", __doc__, quick, BENCHMARKS).parse_args(arguments)

    @contextmanager
    def opened(device: cl.Device, name: str) -> Iterator[SplitSession]:
        capability = capability_of(device)
        with cuda_program(CUDA_SOURCE, "split_barrier", capability, CudaPeer) as cuda:
            yield SplitSession(device, name, cl.Context([device]), options.quick, capability, cuda)

    return run(options, opened, BENCHMARKS, COLUMNS)


if __name__ == "__main__":
    raise SystemExit(main())
