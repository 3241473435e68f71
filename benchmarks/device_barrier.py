"""The device barrier and its discovery beside their peers: `python -m benchmarks.device_barrier --json`.

Not for choosing an algorithm: `portbar bench barrier` does. A ratio below 1 means that portbar is faster.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import pyopencl as cl

import portbar
from benchmarks.shared import COLUMNS, Row, Session, command_line, complete, note, run
from portbar.device.addresses import address_of
from portbar.launching.launch import Launch
from portbar.survey.measuring.barrier_timer import BarrierSamples, BarrierTimer, Relaunch
from portbar.survey.measuring.rounds import device_s, in_turns, profiled_queue

GOMP_SOURCE = r"""
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
    const int threads = argc > 1 ? atoi(argv[1]) : 1;
    const long rounds = argc > 2 ? atol(argv[2]) : 1;
    double seconds = 0.0;
    omp_set_dynamic(0);
#pragma omp parallel num_threads(threads)
    {
        for (long round = 0; round < 100; ++round) {
#pragma omp barrier
        }
        const double start = omp_get_wtime();
        for (long round = 0; round < rounds; ++round) {
#pragma omp barrier
        }
#pragma omp master
        seconds = omp_get_wtime() - start;
    }
    printf("%.9f\n", seconds);
    return 0;
}
"""

OVERSUBSCRIBED_THREADS = 8
CHILD_LIMIT_S = 300


@dataclass(frozen=True)
class BarrierSession(Session):
    """One device, with the local sizes to measure and libgomp's barrier, if available."""

    local_sizes: tuple[int, ...]
    gomp: Path | None


def barrier(session: BarrierSession) -> Iterator[Row]:
    """One barrier beside relaunching an empty kernel, and beside libgomp's barrier with as many threads."""
    for local_size in session.local_sizes:
        timer = BarrierTimer(session.queue, local_size)
        groups = timer.bound
        ours = BarrierSamples(timer, groups, session.launch_s)
        relaunch = Relaunch(session.queue, groups, local_size)
        compiled = session.gomp if session.is_cpu else None
        gomp_rounds = gomp_rounds_for(compiled, groups, session.launch_s) if compiled else 0
        peers: dict[str, Callable[[], float]] = {"relaunch": relaunch.sample_us}
        if compiled:
            peers["libgomp"] = partial(gomp_us, compiled, groups, gomp_rounds)
        samples = sampled(ours, groups, session.repeats, peers)
        extra = {
            "local_size": local_size,
            "groups": groups,
            "algorithm": timer.algorithm(groups),
            "rounds": ours.rounds,
        }
        for peer, times in samples.items():
            yield session.compare("device_barrier", peer, *times, **extra)


def oversubscribed(session: BarrierSession) -> Iterator[Row]:
    """More groups than cores: the barrier stays live; beside libgomp with as many threads."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    for local_size in session.local_sizes:
        timer = BarrierTimer(session.queue, local_size)
        groups = timer.bound
        if groups <= cores:
            if "PoCL" not in session.device.platform.version or "POCL_MAX_PTHREAD_COUNT" in os.environ:
                note(f"{session.name}: oversubscribed skipped, {groups} work-groups on {cores} cores")
            else:
                yield from in_child(session)
            return
        ours = BarrierSamples(timer, groups, session.launch_s, most_rounds=1000)
        gomp_rounds = gomp_rounds_for(session.gomp, groups, session.launch_s) if session.gomp else 0
        peers: dict[str, Callable[[], float]] = {}
        if session.gomp:
            peers["libgomp"] = partial(gomp_us, session.gomp, groups, gomp_rounds)
        samples = sampled(ours, groups, session.repeats, peers)
        extra = {
            "local_size": local_size,
            "groups": groups,
            "cores": cores,
            "algorithm": timer.algorithm(groups),
            "rounds": ours.rounds,
        }
        for peer, times in samples.items():
            yield session.compare("device_barrier_oversubscribed", peer, *times, **extra)
        if not samples:
            note(
                f"{session.name}: {statistics.median(ours.us):.1f} us per barrier with {groups} groups on {cores} cores"
            )


def discovery(session: BarrierSession) -> Iterator[Row]:
    """A kernel that enters its grid and returns, with `packed` beside the two locks of the published protocol."""
    queue = profiled_queue(session.queue)
    local_size = session.local_sizes[0] if session.is_cpu else 256
    timers = {name: BarrierTimer(queue, local_size, {"discovery": name}) for name in ("packed", "ticket", "spin")}
    bound = timers["packed"].bound
    empty = Relaunch(queue, bound, local_size)
    counts = [bound] if session.is_cpu else sorted({bound, min(bound, 1000)})
    for groups in counts:
        # The first launches pay for the driver's own set-up.
        sides = {name: partial(entered, timer, groups) for name, timer in timers.items()}
        in_turns(sides, 2)
        taken = in_turns(sides, session.repeats * 5)
        times = {name: [us for us, _ in samples] for name, samples in taken.items()}
        complete = {name: sum(found == groups for _, found in samples) for name, samples in taken.items()}
        for peer in ("ticket", "spin"):
            yield session.compare(
                "discovery",
                f"{peer}-discovery",
                times["packed"],
                times[peer],
                local_size=local_size,
                groups=groups,
                complete=complete["packed"],
                peer_complete=complete[peer],
                empty_us=empty.sample_us(),
            )


def recall(session: BarrierSession) -> Iterator[Row]:
    """How many of a hundred launches found every work-group that the device can hold."""
    timer = BarrierTimer(session.queue, session.local_sizes[0])
    expected = expected_groups(
        timer.program.profile(session.device), timer.program.strategy(session.device), timer.bound
    )
    launches, found, times = 100, [], []
    for _ in range(launches):
        start = time.perf_counter()
        launch = enter(timer, None)
        launch.event.wait()
        times.append((time.perf_counter() - start) * 1e6)
        found.append(launch.num_groups)
        # Threads that went to sleep in between are the harder case.
        time.sleep(0.002)
    missed = sum(count < expected for count in found)
    yield Row(
        "discovery-recall",
        session.name,
        "expected-count",
        missed / launches,
        statistics.median(times),
        None,
        launches,
        {"missed": missed, "groups": expected, "fewest": min(found), "worst_us": max(times)},
    )


def expected_groups(profile: portbar.DeviceProfile, strategy: portbar.Strategy, bound: int) -> int:
    """Work-groups that each launch should find: the most that were ever found, unless the strategy starts fewer."""
    known = profile.findings.groups_in_flight if profile.findings is not None else None
    most = max(bound, (known or 0) if "CPU" in profile.facts.type else 0)
    return most if strategy.max_groups is None else min(most, strategy.max_groups)


def in_child(session: BarrierSession) -> Iterator[Row]:
    """Rows of `oversubscribed` from a process in which PoCL starts more threads than there are cores."""
    where = address_of(session.device)
    command = [sys.executable, "-m", "benchmarks.device_barrier", "--json", "--only", "oversubscribed"]
    command += ["--device", f"{where.platform_index}:{where.device_index}", *(["--quick"] if session.quick else [])]
    command += [f"--local={local_size}" for local_size in session.local_sizes]
    environment = os.environ | {"POCL_MAX_PTHREAD_COUNT": str(OVERSUBSCRIBED_THREADS)}
    try:
        done = subprocess.run(
            command, env=environment, stdout=subprocess.PIPE, text=True, timeout=CHILD_LIMIT_S, check=False
        )
    except subprocess.TimeoutExpired:
        note(f"{session.name}: oversubscribed skipped, it took more than {CHILD_LIMIT_S} s")
        return
    for line in done.stdout.splitlines():
        record = json.loads(line)
        fields = {key: record.pop(key) for key in Row.__dataclass_fields__ if key != "extra"}
        yield Row(**fields, extra=record)


BENCHMARKS: dict[str, Callable[[BarrierSession], Iterator[Row]]] = {
    "barrier": barrier,
    "discovery": discovery,
    "recall": recall,
    "oversubscribed": oversubscribed,
}


def sampled(
    ours: BarrierSamples, groups: int, repeats: int, peers: Mapping[str, Callable[[], float]]
) -> dict[str, tuple[list[float], list[float]]]:
    """Microseconds of ours and of the peer, for each peer; taken in turns.

    Launches again where a busy machine kept discovery from finding all groups.
    """
    mine: Callable[[], float] = partial(complete, ours.take, groups)
    mine()
    taken: dict[str, list[float]] = {name: [] for name in peers}
    # Longer launches may replace the samples so far; those of the last turns are then left. The first has no peer.
    while (missing := repeats + 1 - len(ours.us)) > 0:
        more = in_turns({"": mine, **peers}, missing)
        for name in peers:
            taken[name] += more[name]
    kept = ours.us[-repeats:]
    return {name: (kept, taken[name][-len(kept) :]) for name in peers}


def enter(timer: BarrierTimer, groups: int | None) -> Launch:
    """Launch the kernel with no barrier at all."""
    passed = cl.Buffer(timer.queue.context, cl.mem_flags.READ_WRITE, 4)
    return timer.kernel(timer.queue, None, (timer.local_size,), passed, np.uint32(0), num_groups=groups)


def entered(timer: BarrierTimer, groups: int) -> tuple[float, int]:
    """Microseconds of such a launch, and the work-groups that it found."""
    start = time.perf_counter()
    launch = enter(timer, groups)
    launch.event.wait()
    return device_s(launch.event, time.perf_counter() - start) * 1e6, launch.num_groups


def libgomp() -> AbstractContextManager[Path | None]:
    """The program that times libgomp's barrier."""
    return compiled_by_cc(GOMP_SOURCE)


@contextmanager
def compiled_by_cc(text: str) -> Iterator[Path | None]:
    """Compile a program with OpenMP into a folder that goes away; None, with the reason on standard error, where that fails."""
    compiler = shutil.which("cc")
    if compiler is None:
        note("peer libgomp skipped: there is no C compiler (cc)")
        yield None
        return
    with tempfile.TemporaryDirectory(prefix="portbar-bench-") as folder:
        source, binary = Path(folder, "gomp.c"), Path(folder, "gomp")
        source.write_text(text, encoding="utf-8")
        done = subprocess.run(
            [compiler, "-O2", "-fopenmp", "-o", str(binary), str(source)], capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            note(f"peer libgomp skipped: cc -fopenmp failed: {done.stderr.strip().splitlines()[-1:]}")
            yield None
        else:
            yield binary


def gomp_us(binary: Path, threads: int, rounds: int) -> float:
    """Microseconds a barrier of libgomp's, in a process of its own."""
    done = subprocess.run(
        [str(binary), str(threads), str(rounds)], capture_output=True, text=True, check=True, timeout=CHILD_LIMIT_S
    )
    return float(done.stdout) * 1e6 / rounds


def gomp_rounds_for(binary: Path, threads: int, seconds: float) -> int:
    """Rounds that make libgomp's run take about `seconds`."""
    us = min(gomp_us(binary, threads, 200) for _ in range(3))
    return max(50, min(1 << 20, int(seconds * 1e6 / max(us, 1e-3))))


def size(text: str) -> int:
    """Read a local size."""
    if int(text) < 1:
        raise ValueError
    return int(text)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print."""
    parser = command_line("device_barrier", __doc__, "short launches and five repeats", BENCHMARKS)
    parser.add_argument("--local", action="append", type=size, help="local size, 1 and 64 by default; may be repeated")
    options = parser.parse_args(arguments)
    with libgomp() as gomp:

        def opened(device: cl.Device, name: str) -> AbstractContextManager[BarrierSession]:
            sizes = tuple(options.local or (1, 64))
            return nullcontext(BarrierSession(device, name, cl.Context([device]), options.quick, sizes, gomp))

        return run(options, opened, BENCHMARKS, COLUMNS, width=120)


if __name__ == "__main__":
    raise SystemExit(main())
