"""The second start of a script: from the import of `Program` to a kernel, in a process of its own for each sample.

PyOpenCL's side builds the same text, from its cache or the driver's. Both import PyOpenCL and find the device before. A busy
machine stretches a start, and hardly the processor time that it takes.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from typing import Final

import portbar
from benchmarks.shared import Row, Session, sampled
from portbar.device.addresses import address_of
from portbar.errors import Error
from portbar.launching.build import build_options
from portbar.records import remembered

#: The quickstart's kernel.
SOURCE: Final = """
#include "portbar/device_barrier.h"
kernel void smooth(PORTBAR_GRID_PARAM, global float *a, global float *b, uint n, uint sweeps)
{
    PORTBAR_ENTER(grid);
    for (uint s = 0; s < sweeps; ++s) {
        PORTBAR_FOR(i, &grid, n)
            b[i] = (i == 0 || i == n - 1) ? a[i] : 0.5f * (a[i - 1] + a[i + 1]);
        if (!portbar_device_barrier(&grid))
            return;
        global float *t = a;
        a = b;
        b = t;
    }
}
"""

_START: Final = """
import json, sys, time, warnings
import numpy, pyopencl as cl, pyopencl.array
import portbar
from portbar.device.addresses import DeviceAddress
warnings.simplefilter("ignore")
address, text, options = json.loads(sys.argv[1])
context = cl.Context([DeviceAddress.from_json(address).resolve()])
start = time.perf_counter(), time.process_time()
"""
_ENDS: Final = {
    "portbar": 'portbar.Program(context, text).kernel("smooth")\n',
    "pyopencl": 'cl.Kernel(cl.Program(context, text).build(options), "smooth")\n',
}
_LIMIT_S: Final = 120.0


def starting(session: Session) -> Iterator[Row]:
    """The second start of a program with a grid, beside PyOpenCL's of the text that portbar made of it."""
    program = portbar.Program(session.context, SOURCE)
    options = build_options(program.strategy(session.device), ())
    address = address_of(session.device).to_json()
    given = {"portbar": SOURCE, "pyopencl": program.rendered(session.device)}
    sides = {name: partial(_start_us, name, json.dumps([address, text, options])) for name, text in given.items()}
    taken = sampled(sides, session.repeats + 1)
    for place, name in enumerate(("second-start", "second-start-cpu")):
        # The first of each filled the caches.
        ours, theirs = ([times[place] for times in taken[side][1:]] for side in ("portbar", "pyopencl"))
        yield session.compare(name, "cached-build", ours, theirs)


def _start_us(name: str, given: str) -> tuple[float, float]:
    """The microseconds of one start in a new process, and those of processors that it took."""
    times = "(time.perf_counter() - start[0]) * 1e6, (time.process_time() - start[1]) * 1e6"
    script = f"{_START}{_ENDS[name]}print({times})\n"
    environment = {**os.environ, remembered.VARIABLE: "0", "PYOPENCL_NO_CACHE": "0"}
    done = subprocess.run(
        [sys.executable, "-c", script, given],
        env=environment, capture_output=True, text=True, timeout=_LIMIT_S, check=False,
    )  # fmt: skip
    if done.returncode:
        raise Error(f"a start through {name} failed: {done.stderr[-2000:]}")
    taken, of_processors = map(float, done.stdout.split())
    return taken, of_processors
