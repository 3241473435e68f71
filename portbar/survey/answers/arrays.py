"""Programs of calls on arrays, and of launches that are recorded and replayed in one kernel."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pyopencl as cl

from portbar.arrays.reduce import reduce
from portbar.arrays.scan import scan
from portbar.arrays.sort import argsort, sort
from portbar.recording.recorder import record
from portbar.survey.answers.program import Compared, Desk, Results

#: Elements of an array; no power of two, and more than one work-group takes at once.
ELEMENTS: Final = 20_011
#: Side of the square whose rows are passed on, and turns.
SIDE: Final = 32
TURNS: Final = 5

SMOOTH: Final = """
kernel void smooth(global const uint *from, global uint *to, uint factor)
{
    const size_t x = get_global_id(0), y = get_global_id(1), n = get_global_size(0);
    to[y * n + x] = factor * from[y * n + x] + from[(y + 1u) % n * n + x];
}
"""

DRIVER: Final = """
#include "portbar/run_kernels.h"
kernel void driver(PORTBAR_GRID_PARAM, global uint *a, global uint *b, uint side, uint turns)
{
    PORTBAR_ENTER(grid);
    for (uint turn = 0; turn < turns; ++turn) {
        if (!PORTBAR_RUN(&grid, smooth, (side, side), (), a, b, 3u))
            return;
        if (!PORTBAR_RUN(&grid, smooth, (side, side), (), b, a, 5u))
            return;
    }
}
"""


def reduced(desk: Desk) -> Results:
    """Sums, extremes and where they are, of a whole array and of its rows."""
    numbers, x = desk.drawn(ELEMENTS, np.int32)
    yield Compared("the sum of integers", reduce(desk.queue, x).get(), numbers.sum())
    values = desk.random.uniform(0.5, 1.0, ELEMENTS).astype(np.float32)
    y = desk.given(values)
    total = reduce(desk.queue, y).get()
    yield Compared("the sum of floats", total, values.sum(dtype=np.float64), tolerance=1e-5)
    found = reduce(desk.queue, y, outputs={"least": "min", "largest": "argmax"})
    yield Compared("the minimum", found["least"].get(), values.min())
    yield Compared("the place of the maximum", found["largest"].get()["index"], values.argmax())
    table, rows = desk.drawn((37, 211), np.int32)
    yield Compared("maxima of rows", reduce(desk.queue, rows, "max", axis=1).get(), table.max(axis=1))


def scanned(desk: Desk) -> Results:
    """Prefix sums with and without the element, and prefix maxima."""
    numbers, x = desk.drawn(ELEMENTS, np.int32)
    sums = np.cumsum(numbers)
    yield Compared("prefix sums", scan(desk.queue, x).get(), sums)
    yield Compared("exclusive prefix sums", scan(desk.queue, x, exclusive=True).get(), sums - numbers)
    yield Compared("prefix maxima", scan(desk.queue, x, "max").get(), np.maximum.accumulate(numbers))


def sorted_(desk: Desk) -> Results:
    """Keys with values, of which many keys are equal, and the places of floats."""
    keys, x = desk.drawn(ELEMENTS)
    places = np.arange(ELEMENTS, dtype=np.uint32)
    found, moved = sort(desk.queue, x, desk.given(places))
    order = np.argsort(keys, kind="stable")
    yield Compared("keys", found.get(), keys[order])
    yield Compared("values of the keys", moved.get(), places[order])
    floats = desk.random.normal(size=ELEMENTS).astype(np.float32)
    yield Compared("places of floats", argsort(desk.queue, desk.given(floats)).get(), np.argsort(floats, kind="stable"))


def recorded(desk: Desk) -> Results:
    """Launches of a kernel that uses nothing of portbar's, in one kernel with barriers in place of launches."""
    queue = desk.queue
    # Some drivers forget the options of a program that is gone, or that came from a cache.
    uncached: Any = False
    program = cl.Program(queue.context, SMOOTH).build(cache_dir=uncached)
    smooth = program.smooth
    numbers, a = desk.drawn((SIDE, SIDE))
    b = desk.given(np.zeros_like(numbers))
    steps = record(queue)
    with steps.repeat(TURNS):
        steps(smooth, (SIDE, SIDE), None, a, b, np.uint32(3))
        steps(smooth, (SIDE, SIDE), None, b, a, np.uint32(5))
    launch = steps.launch(fused=True)
    launch.wait()
    desk.groups = launch.num_groups
    yield Compared("the square after all turns", a.get(), _smoothed(numbers))


def driven(desk: Desk) -> Results:
    """The same kernel, run by another one."""
    numbers, a = desk.drawn((SIDE, SIDE))
    b = desk.given(np.zeros_like(numbers))
    driver = desk.kernel(SMOOTH + DRIVER, "driver")
    desk.launch(driver, a.data, b.data, np.uint32(SIDE), np.uint32(TURNS))
    yield Compared("the square after all turns", a.get(), _smoothed(numbers))


def _smoothed(numbers: np.ndarray) -> np.ndarray:
    for _ in range(TURNS):
        for factor in (3, 5):
            numbers = np.uint32(factor) * numbers + np.roll(numbers, -1, axis=0)
    return numbers
