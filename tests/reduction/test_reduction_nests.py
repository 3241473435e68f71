"""Every nest of OpenACC's levels is right for any numbers of iterations, or refused with the lines of its calls.

The catalogue follows those of GCC's tests (libgomp.oacc-c-c++-common) and of OpenACC's validation suite: one loop of several
levels or a loop for each, loops of each member between them, reductions at every level, at one, or of one variable at all;
start values, private results and what uses them; all operators and types. Loops have no iteration, one, fewer than there are
members, as many, and numbers that nothing divides.

By default each nest is written in two styles, with one operator, type and size of launches each. With `PORTBAR_TEST_NIGHTLY`
it is written in all of them, with every operator, every type, and all sizes.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator

import numpy as np
import pyopencl as cl
import pytest

import portbar
from portbar.primitives.reduction.types import scalars_in, type_of
from portbar.reading.reader import is_available
from tests.reduction.nests import (
    NESTS,
    OPS,
    STYLES,
    TRIPS,
    VALUES,
    Array,
    Nest,
    Program,
    Work,
    combined,
    work_of,
    writes,
)
from tests.reduction.support import launched, need, program
from tests.rows import SEED
from tests.support import scale

pytestmark = [pytest.mark.device, pytest.mark.slow]

NIGHTLY = "PORTBAR_TEST_NIGHTLY" in os.environ

#: Work-groups and local sizes: whole and partial sub-groups, one alone, more than there are iterations.
SIZES = [(3, 40), (2, 7), (2, 64), (1, 1), (5, 33)]
#: As many start values as results.
STARTED = 1000


def some_styles(nest: Nest, turn: int) -> list[tuple[Nest, str]]:
    """Return a nest with reductions at each level, and in another style."""
    first, *others = [style for style in STYLES if writes(nest, style)]
    return [(nest, first), (nest, others[turn % len(others)])]


def cells() -> Iterator[tuple[Nest, str, str, str]]:
    """Yield each nest in each style with operators and types."""
    written = [(nest, style) for nest in NESTS for style in STYLES if writes(nest, style)]
    if not NIGHTLY:
        written = [one for turn, nest in enumerate(NESTS) for one in some_styles(nest, turn)]
    ops, types = (list(dict.fromkeys(names)) for names in zip(*VALUES, strict=True))
    for number, (nest, style) in enumerate(written):
        chosen = [VALUES[17 * number % len(VALUES)]]
        if NIGHTLY:
            # Each operator, with another type for each nest, and each type.
            for names, place in ((ops, 0), (types, 1)):
                chosen += [
                    of_name[number % len(of_name)]
                    for name in names
                    for of_name in [[value for value in VALUES if value[place] == name]]
                ]
        for op, dtype in dict.fromkeys(chosen):
            yield nest, style, op, dtype


def title(cell: tuple[Nest, str, str, str]) -> str:
    """Return an id of a cell."""
    nest, style, op, dtype = cell
    return f"{'/'.join(nest)}-{style}-{op}-{dtype}"


def sizes_of(made: Program, turn: int) -> list[tuple[int, int]]:
    """Return launches: one work-group where none share, one sub-group where the lanes of each do the same."""
    if made.nest[0] == "vector":
        return [(1, 1), (1, 5)]
    sizes = SIZES if made.has_gangs else [(1, local) for _, local in SIZES]
    return sizes if NIGHTLY else [sizes[turn % len(sizes)]]


def started(made: Program) -> tuple[Array, Array]:
    """Return start values."""
    return np.array([OPS[made.op].start]).astype(made.dtype), np.array([STARTED], np.uint32)


def expected(made: Program, work: Work, depth: int) -> tuple[Array, Array]:
    """Return the values and their numbers below each iteration above a depth."""
    dtype = np.dtype(made.dtype)
    rows = [np.concatenate([row] * made.times) for row in work.rows(depth)]
    values = np.array([combined(made.op, row, dtype) for row in rows], dtype)
    counts = np.array([len(row) for row in rows], np.uint32)
    if depth == 0 and made.starts:
        start, many = started(made)
        values = np.array([combined(made.op, np.concatenate([start, values]), dtype)], dtype)
        counts = counts + many
    return values, counts


def check(queue: cl.CommandQueue, kernel: portbar.Kernel, made: Program, size: tuple[int, int], trips: str) -> None:
    """Launch a program once and compare all that it stores."""
    work = work_of(made, trips, SEED)
    dtype, places = np.dtype(made.dtype), [int(np.prod(work.outer[:depth], dtype=int)) for depth in range(4)]
    kept = [
        array
        for depth, count in enumerate(places)
        for array in (started(made) if depth == 0 else (np.zeros(count or 1, dtype), np.zeros(count or 1, np.uint32)))
    ]
    each = np.zeros(len(work.values) or 1, dtype)
    values = work.values if len(work.values) else np.zeros(1, dtype)
    outer = [np.uint32(work.outer[depth] if depth < len(work.outer) else 0) for depth in range(3)]
    groups, local = size
    _, got = launched(queue, kernel, None if made.grid else groups, local, values, work.first, *outer, *kept, each)
    stored = got[2:]
    last = len(made.nest) - 1
    depths = {"each level": range(len(made.nest)), "private": [last]}.get(made.style, [0])
    for depth in depths:
        wanted = expected(made, work, depth)
        for what, found, right in zip(("values", "counts"), stored[2 * depth :], wanted, strict=False):
            assert found[: len(right)].tolist() == right.tolist(), (what, depth, size, trips, made)
    if made.style == "private":
        rows = [(row, combined(made.op, row, dtype)) for row in work.rows(last)]
        right = np.array([combined(made.op, np.array([x, of], dtype), dtype) for row, of in rows for x in row], dtype)
        assert stored[-1][: len(right)].tolist() == right.tolist(), ("each", size, trips, made)


def check_all(context: cl.Context, queue: cl.CommandQueue, made: Program, turn: int) -> None:
    """Build a program and launch it with sizes and numbers of iterations."""
    need(context, *(scalar.c for scalar in scalars_in(type_of(np.dtype(made.dtype), ""))))
    kernel = program(context, made.text(), loops=[made.loop]).kernel("k")
    sizes, trips = sizes_of(made, turn), list(TRIPS)
    if scale(context.devices[0]).is_simulator:
        trips = trips[turn % 3 :: 3]
    for size, one in itertools.product(sizes, trips):
        check(queue, kernel, made, size, one)


CELLS = list(cells())


@pytest.mark.parametrize("cell", CELLS, ids=title)
def test_a_nest_is_right_for_any_numbers_of_iterations(context, queue, cell):
    check_all(context, queue, Program(*cell), CELLS.index(cell))


GRIDS = [(nest, style) for nest, style, *_ in CELLS if nest[0].startswith("gang") and style != "private"]
GRIDS = list(dict.fromkeys(GRIDS)) if NIGHTLY else GRIDS[::5]


@pytest.mark.parametrize(("nest", "style"), GRIDS, ids=lambda part: part if isinstance(part, str) else "/".join(part))
def test_a_nest_in_a_grid_is_right_for_any_numbers_of_iterations(context, queue, nest, style):
    turn = GRIDS.index((nest, style))
    check_all(context, queue, Program(nest, style, *VALUES[13 * turn % len(VALUES)], grid=True), turn)


SIZED = [(nest, style) for nest, style, *_ in CELLS if "vector" in nest]
SIZED = list(dict.fromkeys(SIZED)) if NIGHTLY else SIZED[::3]


@pytest.mark.skipif(not is_available(), reason="no libclang for this platform")
@pytest.mark.parametrize(("nest", "style"), SIZED, ids=lambda part: part if isinstance(part, str) else "/".join(part))
def test_lanes_of_the_program_s_own_number_are_right_or_refused_with_their_lines(context, queue, nest, style):
    """Sub-groups of 8 meet at barriers, or in a warp, so they cannot take turns of their own."""
    turn = SIZED.index((nest, style))
    made = Program(nest, style, *VALUES[11 * turn % len(VALUES)], lanes=8)
    lines = made.calls_of_lanes()
    if not lines:
        check_all(context, queue, made, turn)
        return
    need(context, *(scalar.c for scalar in scalars_in(type_of(np.dtype(made.dtype), ""))))
    with pytest.raises(portbar.DivergenceError, match="PORTBAR_SUB_GROUP_SIZE") as caught:
        portbar.Program(context, made.text(), reductions=[made.loop])
    assert {misuse.place.line for misuse in caught.value.misuses} == lines
