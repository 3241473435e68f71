"""OpenACC's nests of loops with reductions, written in OpenCL C as the pages teach, and their results by NumPy.

A nest is the levels of its loops from the outermost, as in ``("gang", "worker", "vector")``; `seq` is a loop of each member.
The innermost one goes through the elements of a row, of which there is one for each iteration of the loops around it, as in
a sparse matrix: rows may be empty and of any length.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import portbar
from portbar.primitives.reduction.types import type_of
from tests.reduction.support import head, kernel_text

Array = np.ndarray[Any, np.dtype[Any]]
Nest = tuple[str, ...]

#: Loops in each other as OpenACC has them: gangs around workers around lanes, each level once, in one loop or in several, with
#: loops of each member between them and around them.
NESTS: tuple[Nest, ...] = tuple(
    tuple(text.split(" / "))
    for text in (
        "gang",
        "worker",
        "vector",
        "gang_worker",
        "gang_vector",
        "worker_vector",
        "gang_worker_vector",
        "gang / worker",
        "gang / vector",
        "worker / vector",
        "gang / worker_vector",
        "gang_worker / vector",
        "gang / worker / vector",
        "gang / seq",
        "worker / seq",
        "vector / seq",
        "gang_worker / seq",
        "gang_vector / seq",
        "worker_vector / seq",
        "gang_worker_vector / seq",
        "seq / worker",
        "seq / vector",
        "seq / worker_vector",
        "seq / worker / vector",
        "worker / seq / vector",
        "worker / vector / seq",
        "gang / seq / worker",
        "gang / seq / vector",
        "gang / seq / worker_vector",
        "gang / worker / seq",
        "gang / vector / seq",
        "gang / worker_vector / seq",
        "gang_worker / seq / vector",
        "gang_worker / vector / seq",
        "gang / seq / worker / vector",
        "gang / worker / seq / vector",
        "gang / worker / vector / seq",
    )
)


@dataclass(frozen=True)
class Op:
    """An operator: the statement that applies it, its result in NumPy, and values whose combination shows which there were."""

    step: str
    on_host: Callable[[Array], Any]
    #: Results of no values, and start values, by the dtype.
    neutral: Callable[[np.dtype[Any]], Any]
    start: int
    draw: Callable[[np.random.Generator, int, np.dtype[Any]], Array]
    kinds: str = "iuf"


def _extreme(dtype: np.dtype[Any], sign: int) -> Any:
    if dtype.kind == "f":
        return sign * np.inf
    return np.iinfo(dtype).max if sign > 0 else np.iinfo(dtype).min


def _numbers(random: np.random.Generator, count: int, dtype: np.dtype[Any]) -> Array:
    least = 0 if dtype.kind == "u" else -50
    made = random.integers(least, 60, count)
    return made + 1j * random.integers(-50, 60, count) if dtype.kind == "c" else made


def _factors(random: np.random.Generator, count: int, dtype: np.dtype[Any]) -> Array:
    """Ones but for few, so that products of reals are exact."""
    if dtype.kind == "c":
        return np.array([1, -1, 1j, -1j])[random.integers(0, 4, count)]
    made = np.ones(count, np.int64)
    few = random.permutation(count)[:12]
    made[few] = 2 if dtype.kind == "f" else random.integers(2, 6, len(few))
    return made


def _masks(random: np.random.Generator, count: int, dtype: np.dtype[Any]) -> Array:
    """All bits but one, of few values."""
    bits = 8 * dtype.itemsize - 1
    cleared = np.where(random.random(count) < 0.1, random.integers(0, bits, count), -1)
    return np.array([~(1 << int(bit)) if bit >= 0 else -1 for bit in cleared], np.int64)


def _bits(random: np.random.Generator, count: int, dtype: np.dtype[Any]) -> Array:
    """One bit, of few values."""
    bit = random.integers(0, 8 * dtype.itemsize - 1, count)
    return np.where(random.random(count) < 0.1, 1 << bit.astype(np.int64), 0)


def _rarely(often: int, rare: int) -> Callable[[np.random.Generator, int, np.dtype[Any]], Array]:
    return lambda random, count, _: np.where(random.random(count) < 0.03, rare, often)


OPS = {
    "+": Op("{0} += {1};", np.sum, lambda _: 0, 5, _numbers, "iufc"),
    "*": Op("{0} *= {1};", np.prod, lambda _: 1, 3, _factors, "iufc"),
    "min": Op("{0} = min({0}, {1});", np.min, lambda dtype: _extreme(dtype, 1), 30, _numbers),
    "max": Op("{0} = max({0}, {1});", np.max, lambda dtype: _extreme(dtype, -1), 7, _numbers),
    "&": Op("{0} &= {1};", np.bitwise_and.reduce, lambda _: -1, 125, _masks, "iu"),
    "|": Op("{0} |= {1};", np.bitwise_or.reduce, lambda _: 0, 2, _bits, "iu"),
    "^": Op("{0} ^= {1};", np.bitwise_xor.reduce, lambda _: 0, 6, _bits, "iu"),
    "&&": Op("{0} = {0} && {1};", np.all, lambda _: 1, 1, _rarely(3, 0), "iu"),
    "||": Op("{0} = {0} || {1};", np.any, lambda _: 0, 0, _rarely(0, 2), "iu"),
    ".neqv.": Op("{0} = ({0} != 0) != ({1} != 0);", np.logical_xor.reduce, lambda _: 0, 1, _rarely(0, 4), "iu"),
}
TYPES = ("int32", "uint8", "float32", "int64", "complex64", "uint16", "float64", "int8", "uint32", "int16", "uint64")
#: Each operator with each type that it is defined for.
VALUES = tuple((op, dtype) for dtype in TYPES for op, made in OPS.items() if np.dtype(dtype).kind in made.kinds)


def combined(op: str, values: Array, dtype: np.dtype[Any]) -> Any:
    """Return all values combined, with the neutral element where there are none."""
    made = OPS[op]
    if not len(values):
        return np.array(made.neutral(dtype)).astype(dtype)[()]
    with np.errstate(over="ignore"):
        how = {"dtype": dtype} if op in {"+", "*"} else {}
        return np.array(made.on_host(values, **how)).astype(dtype)[()]


def joined(levels: Sequence[str]) -> str:
    """Return the level of several loops at once."""
    parts = {part for level in levels for part in level.split("_")}
    return "_".join(part for part in ("gang", "worker", "vector") if part in parts)


@dataclass(frozen=True)
class Program:
    """A nest written in one of the styles, of one operator and type."""

    nest: Nest
    style: str
    op: str
    dtype: str
    #: Lanes of a sub-group that the program defines, 0 for those that portbar takes.
    lanes: int = 0
    #: Whether the kernel has a grid.
    grid: bool = False

    @property
    def has_gangs(self) -> bool:
        """Whether work-groups share the work."""
        return any(level.startswith("gang") for level in self.nest)

    @property
    def c(self) -> str:
        """The type in OpenCL C."""
        return type_of(np.dtype(self.dtype), "").c

    @property
    def loop(self) -> portbar.ReductionLoop:
        """The declaration: the number of values, and these combined."""
        value = portbar.Reduction(np.dtype(self.dtype), self.op)
        return portbar.ReductionLoop("all", {"n": portbar.Reduction(np.uint32, "+"), "v": value})

    @property
    def times(self) -> int:
        """How often each value is combined."""
        return 2 if self.style == "same variable" else 1

    def step(self, into: str, value: str) -> str:
        """A statement that combines a value into a variable."""
        if self.op == "*" and np.dtype(self.dtype).kind == "c":
            return f"{into} = times({into}, {value});"
        return OPS[self.op].step.format(into, value)

    def text(self) -> str:
        """The program."""
        sizes = f"#define PORTBAR_SUB_GROUP_SIZE {self.lanes}\n" if self.lanes else ""
        times = ""
        if self.op == "*" and self.c.endswith("2"):
            times = f"static {self.c} times({self.c} a, {self.c} b)\n{{\n"
            times += f"    return ({self.c})(a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x);\n}}\n"
        parameters = ", ".join(
            [
                f"global const {self.c} *in",
                "global const uint *first",
                *(f"uint n{depth}" for depth in range(3)),
                *(f"global {self.c} *v{depth}, global uint *n_of{depth}" for depth in range(4)),
                f"global {self.c} *each",
            ]
        )
        body = {
            "each level": self._each_level,
            "at the end": self._at_the_end,
            "same variable": self._same_variable,
            "private": self._private,
        }[self.style]()
        hidden = "grid" if self.grid else "gangs" if self.has_gangs else ""
        return head(64, grid=self.grid, more=sizes) + times + kernel_text("k", parameters, "\n".join(body), hidden)

    # Parts of the text

    def _grid(self, level: str, *, more: bool = True) -> str:
        if not self.grid or not level.startswith("gang"):
            return ""
        return "&grid, " if more else "&grid"

    def _row(self, depth: int) -> str:
        """The number of an iteration of the loops above a depth, among all."""
        return (
            functools.reduce(lambda row, at: f"({row} * n{at} + i{at})" if row else f"i{at}", range(depth), "") or "0u"
        )

    def _loop(self, depth: int, *, back: bool = False) -> str:
        """The head of a loop."""
        level, i, row = self.nest[depth], f"i{depth}", self._row(depth)
        is_last = depth + 1 == len(self.nest)
        begin, end = (f"first[{row}]", f"first[{row} + 1u]") if is_last else ("0u", f"n{depth}")
        start, step = (
            ("0u", "1u")
            if level == "seq"
            else tuple(f"portbar_loop_{what}_{level}({self._grid(level, more=False)})" for what in ("id", "count"))
        )
        if back:
            return f"for (uint left = {end} - {begin}, {i} = {start}; {i} < left; {i} += {step}) {{"
        return f"for (uint {i} = {begin} + {start}; {i} < {end}; {i} += {step}) {{"

    def _owner(self, depth: int) -> str:
        """One of the work-items that run an iteration of the loops above a depth together, which have its result."""
        around = joined(self.nest[:depth])
        if "vector" in around:
            return "true" if "worker" in around else "portbar_sub_group_id() == 0u"
        return "portbar_loop_id_vector() == 0u" if "worker" in around else "portbar_reduction_id() == 0u"

    def _kept(self, depth: int, name: str) -> str:
        row = self._row(depth)
        return f"if ({self._owner(depth)}) {{ v{depth}[{row}] = {name}.v; n_of{depth}[{row}] = {name}.n; }}"

    def _call(self, step: str, level: str, *arguments: str) -> str:
        return f"all_{step}_{level}({self._grid(level)}scratch, {', '.join(arguments)})"

    # Styles

    def _each_level(self, depth: int = 0) -> Iterator[str]:
        """Each loop has a variable of its own, which is reduced at its end and combined into that of the loop around it."""
        level, mine = self.nest[depth], f"a{depth}"
        if depth == 0:
            yield "const all_results results = { n_of0, v0 };"
        begin = self._call("init", level, "results", "all_identity()") if level.startswith("gang") else "all_identity()"
        yield f"all_local {mine} = {begin};"
        yield self._loop(depth)
        if depth + 1 == len(self.nest):
            yield f"{self.step(f'{mine}.v', f'in[i{depth}]')} {mine}.n += 1u;"
        else:
            yield from self._each_level(depth + 1)
            yield f"{mine} = all_combine({mine}, a{depth + 1});"
        yield "}"
        if level.startswith("gang"):
            yield f"{self._call('teardown', level, 'results', self._call('fini', level, 'results', mine))};"
        elif level != "seq":
            yield f"{mine} = {self._call('reduce', level, mine)};"
        if not level.startswith("gang"):
            yield self._kept(depth, mine)

    def _at_the_end(self) -> Iterator[str]:
        """Every work-item combines what it meets, and one reduction over all levels follows the nest."""
        level = joined([level for level in self.nest if level != "seq"])
        yield "const all_results results = { n_of0, v0 };"
        setup = self._call("setup", level, "results", "all_identity()")
        yield f"all_local mine = {self._call('init', level, 'results', setup)};"
        yield from self._nested(f"{self.step('mine.v', f'in[i{len(self.nest) - 1}]')} mine.n += 1u;")
        yield f"{self._call('teardown', level, 'results', self._call('fini', level, 'results', 'mine'))};"

    def _nested(self, statement: str) -> Iterator[str]:
        yield from (self._loop(depth) for depth in range(len(self.nest)))
        yield statement
        yield "}" * len(self.nest)

    def _same_variable(self, depth: int = 0) -> Iterator[str]:
        """One variable for all loops, whose results feed the loops around them; rows are read forth and back."""
        level = self.nest[depth]
        is_last = depth + 1 == len(self.nest)
        results = "results" if depth == 0 else "none"
        if depth == 0:
            yield "const all_results results = { n_of0, v0 }, none = { 0 };"
            yield "all_local mine = all_identity();"
            yield f"mine = {self._call('setup', level, results, 'mine')};" if level != "seq" else ""
        for back in (False, True) if is_last else (False,):
            if level != "seq":
                yield f"mine = {self._call('init', level, results, 'mine')};"
            yield self._loop(depth, back=back)
            if is_last:
                element = f"in[first[{self._row(depth)} + 1u] - 1u - i{depth}]" if back else f"in[i{depth}]"
                yield f"{self.step('mine.v', element)} mine.n += 1u;"
            else:
                yield from self._same_variable(depth + 1)
            yield "}"
            if level != "seq":
                yield f"mine = {self._call('fini', level, results, 'mine')};"
                if depth == 0 and level.startswith("gang"):
                    yield f"{self._call('teardown', level, results, 'mine')};"
        if depth == 0 and not level.startswith("gang"):
            yield (
                f"mine = {self._call('teardown', level, results, 'mine')};" if level != "seq" else self._kept(0, "mine")
            )

    def _private(self) -> Iterator[str]:
        """A row's result is private to its iteration, where a second loop over the row uses it."""
        last = len(self.nest) - 1
        level = self.nest[last]
        yield from (self._loop(depth) for depth in range(last))
        yield "all_local mine = all_identity();"
        yield f"{self._loop(last)} {self.step('mine.v', f'in[i{last}]')} mine.n += 1u; }}"
        if level != "seq":
            yield f"mine = {self._call('reduce', level, 'mine')};"
        yield self._kept(last, "mine")
        yield f"{self._loop(last)} {self.c} x = in[i{last}]; {self.step('x', 'mine.v')} each[i{last}] = x; }}"
        yield "}" * last

    # Expectations

    @property
    def starts(self) -> bool:
        """Whether the receivers' start values count."""
        return self.style == "at the end" or (
            self.nest[0] != "seq" if self.style == "same variable" else self.has_gangs
        )

    def calls_of_lanes(self) -> set[int]:
        """Lines of the calls that the lanes of a sub-group make in a loop that workers share."""
        around = self.nest[: self.nest.index("vector")] if "vector" in self.nest else ()
        if self.style == "at the end" or "worker" not in joined(around):
            return set()
        lines = enumerate(self.text().split("\n"), 1)
        return {number for number, line in lines if re.search(r"all_(?:init|fini|reduce)_vector\(", line)}


#: How a nest's reductions are written.
STYLES = ("each level", "at the end", "same variable", "private")


def writes(nest: Nest, style: str) -> bool:
    """Whether a nest can be written in a style."""
    if style == "private":
        return len(nest) > 1
    if style == "same variable":
        # The result of the first of two loops of gangs is in the receivers alone.
        return not (len(nest) == 1 and nest[0].startswith("gang"))
    return True


@dataclass(frozen=True)
class Work:
    """Iterations of the outer loops of a nest, and the rows of its innermost one."""

    outer: tuple[int, ...]
    lengths: Array
    values: Array

    @property
    def first(self) -> Array:
        """Where each row begins, and where the last one ends."""
        return np.concatenate([[0], np.cumsum(self.lengths)]).astype(np.uint32)

    def row(self, number: int) -> Array:
        """The values of a row."""
        first = self.first
        return self.values[first[number] : first[number + 1]]

    def rows(self, depth: int) -> list[Array]:
        """The values below each iteration of the loops above a depth."""
        count = int(np.prod(self.outer[:depth], dtype=int))
        each = [self.row(number) for number in range(len(self.lengths))]
        if not count:
            return []
        share = len(each) // count
        empty = self.values[:0]
        return [np.concatenate([empty, *each[at * share : (at + 1) * share]]) for at in range(count)]


#: Iterations of up to three outer loops, and lengths of rows: few, as many as members, numbers that nothing divides, none.
TRIPS: dict[str, tuple[tuple[int, int, int], Sequence[int]]] = {
    "none": ((0, 0, 0), [0]),
    "one": ((1, 1, 1), [1]),
    "empty rows": ((3, 2, 2), [0]),
    "few": ((2, 3, 1), [3]),
    "equal": ((2, 8, 2), [8]),
    "as many as 64": ((4, 4, 1), [64]),
    "primes": ((5, 7, 3), [13]),
    "uneven": ((7, 5, 2), [0, 1, 40, 2, 7, 0, 33, 19, 64, 5, 3]),
    "one long": ((3, 3, 2), [2, 0, 301, 1]),
}


def work_of(program: Program, trips: str, seed: int) -> Work:
    """Draw what a program goes through."""
    outer = TRIPS[trips][0][: len(program.nest) - 1]
    lengths = TRIPS[trips][1]
    rows = int(np.prod(outer, dtype=int))
    own = np.array([lengths[number % len(lengths)] for number in range(rows)], np.int64)
    random, dtype = np.random.default_rng(seed), np.dtype(program.dtype)
    values = OPS[program.op].draw(random, int(own.sum()), dtype)
    with np.errstate(over="ignore"):
        return Work(outer, own, np.asarray(values).astype(dtype))
