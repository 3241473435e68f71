"""Slow launches beside slow parallel regions: `python -m benchmarks.launch_tails --json`.

Each launch, from the call to the end of `wait`, has 200 device barriers between sums over 1,024 floats, one group per core.
libgomp does the same in a parallel region with as many threads, as it is and with its threads bound. They take turns of 50
launches, back to back and 2 ms apart. A row has percentiles in microseconds; its ratio is that of the medians.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyopencl as cl
import pyopencl.array

import portbar
from benchmarks.device_barrier import compiled_by_cc
from benchmarks.shared import COLUMNS, Row, Session, command_line, run

SOURCE: Final = """
#include "portbar/device_barrier.h"
kernel void steps(PORTBAR_GRID_PARAM, global float *a, const uint rounds)
{
    PORTBAR_ENTER(grid);
    for (uint round = 0; round < rounds; ++round) {
        PORTBAR_FOR(i, &grid, 1024)
            a[i] += 1.0f;
        if (!portbar_device_barrier(&grid))
            return;
    }
}
"""

GOMP_SOURCE: Final = r"""
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

int main(int argc, char **argv)
{
    const int threads = atoi(argv[1]), rounds = atoi(argv[2]), launches = atoi(argv[3]);
    const struct timespec gap = { 0, atol(argv[4]) * 1000 };
    static float a[1024];
    omp_set_dynamic(0);
    for (int launch = 0; launch < launches; ++launch) {
        const double start = omp_get_wtime();
#pragma omp parallel num_threads(threads)
        {
            const int n = omp_get_num_threads(), id = omp_get_thread_num();
            for (int round = 0; round < rounds; ++round) {
                for (int i = 1024 * id / n; i < 1024 * (id + 1) / n; ++i)
                    a[i] += 1.0f;
#pragma omp barrier
            }
        }
        printf("%f\n", (omp_get_wtime() - start) * 1e6);
        if (gap.tv_nsec)
            nanosleep(&gap, 0);
    }
    return 0;
}
"""

ROUNDS: Final = 200
#: Launches of one turn, of which the first two are left out: libgomp starts its threads then.
TURN: Final = 50
PEERS: Final[Mapping[str, Mapping[str, str]]] = {"libgomp": {}, "libgomp, bound": {"OMP_PROC_BIND": "true"}}
PERCENTILES: Final = (50, 90, 99)
LIMIT_S: Final = 100


def tails(session: Session) -> Iterator[Row]:
    """Launches back to back, and 2 ms apart."""
    queue = session.queue
    kernel = portbar.Program(session.context, SOURCE).kernel("steps")
    array = cl.array.zeros(queue, 1024, np.float32)
    local = kernel.suggested_local_size(queue)
    (size,) = local

    def launches(gap_s: float) -> list[float]:
        taken = []
        for _ in range(TURN):
            start = time.perf_counter()
            launch = kernel(queue, None, local, array.data, np.uint32(ROUNDS))
            launch.wait()
            taken.append((time.perf_counter() - start) * 1e6)
            if gap_s:
                time.sleep(gap_s)
        return taken[2:]

    launch = kernel(queue, None, local, array.data, np.uint32(ROUNDS))
    launch.wait()
    groups = launch.num_groups
    turns = 3 if session.quick else 8
    with compiled_by_cc(GOMP_SOURCE) as binary:
        for gap_us in (0, 2000):
            times: dict[str, list[float]] = {}
            for _ in range(turns):
                times.setdefault("", []).extend(launches(gap_us / 1e6))
                if binary is not None:
                    for peer, variables in PEERS.items():
                        times.setdefault(peer, []).extend(_regions(binary, groups, gap_us, variables))
            ours = times.pop("")
            extra = {"local_size": size, "groups": groups, "gap_us": gap_us}
            for peer, theirs in times.items():
                found = {f"p{q}_us": _percentile(ours, q) for q in PERCENTILES} | {"most_us": max(ours)}
                found |= {f"peer_p{q}_us": _percentile(theirs, q) for q in PERCENTILES} | {"peer_most_us": max(theirs)}
                yield session.compare("launch_tails", peer, ours, theirs, **extra, **found)


def _regions(binary: Path, threads: int, gap_us: int, variables: Mapping[str, str]) -> list[float]:
    command = [str(binary), *map(str, (threads, ROUNDS, TURN, gap_us))]
    done = subprocess.run(
        command, env=os.environ | variables, capture_output=True, text=True, check=True, timeout=LIMIT_S
    )
    return [float(line) for line in done.stdout.split()][2:]


def _percentile(times: Sequence[float], percent: int) -> float:
    return sorted(times)[min(len(times) - 1, len(times) * percent // 100)]


def _shown(name: str) -> Any:
    return lambda row: f"{row.extra[name]:.0f}"


TABLE: Final = {
    **{name: COLUMNS[name] for name in ("benchmark", "peer", "groups")},
    "gap, us": lambda row: str(row.extra["gap_us"]),
    "ratio": COLUMNS["ratio"],
    **{f"p{q}": _shown(f"p{q}_us") for q in PERCENTILES},
    **{f"peer p{q}": _shown(f"peer_p{q}_us") for q in PERCENTILES},
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print."""
    options = command_line("launch_tails", __doc__, "fewer launches").parse_args(arguments)

    def opened(device: cl.Device, name: str) -> Any:
        is_cpu = bool(device.type & cl.device_type.CPU)
        return nullcontext(Session(device, name, cl.Context([device]), options.quick) if is_cpu else None)

    return run(options, opened, {"launch_tails": tails}, TABLE, width=120)


if __name__ == "__main__":
    raise SystemExit(main())
