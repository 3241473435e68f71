"""Shared by the tests of atomics: the types, the legal orders, the operations in NumPy, and histories run on a device.

Not fixtures and not tests. A history is what many work-items saw of operations on the same cell.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyopencl as cl
import pytest

import portbar
from tests import support

Array = np.ndarray[Any, np.dtype[Any]]

DTYPES: Final[dict[str, Any]] = {
    "char": np.int8,
    "uchar": np.uint8,
    "short": np.int16,
    "ushort": np.uint16,
    "int": np.int32,
    "uint": np.uint32,
    "long": np.int64,
    "ulong": np.uint64,
    "float": np.float32,
    "double": np.float64,
    "half": np.float16,
}
TYPES: Final = tuple(DTYPES)
FLOATS: Final = ("float", "double", "half")
INTEGERS: Final = tuple(name for name in TYPES if name not in FLOATS)
NARROW: Final = ("char", "uchar", "short", "ushort")
COUNTERS: Final = ("uint", "ulong")
SPACES: Final = ("global", "local")
#: Atomics strategies to test; one that is the default, or that the device does not allow, is skipped.
STRATEGIES: Final = ("default", "c11", "cl12")
#: Types that a strategy other than the default is tested with: a small integer, 32 bits, 64 bits, a float.
SAMPLED: Final = ("uchar", "uint", "ulong", "float")

ORDERS: Final = ("relaxed", "acquire", "release", "acq_rel", "seq_cst")
LOADS: Final = ("relaxed", "acquire", "seq_cst")
STORES: Final = ("relaxed", "release", "seq_cst")
#: Success and failure orders of compare_exchange: a failure does not release and is not stronger than a success.
PAIRS: Final = (
    ("relaxed", "relaxed"),
    ("acquire", "relaxed"),
    ("acquire", "acquire"),
    ("release", "relaxed"),
    ("acq_rel", "relaxed"),
    ("acq_rel", "acquire"),
    ("seq_cst", "relaxed"),
    ("seq_cst", "acquire"),
    ("seq_cst", "seq_cst"),
)

HEADER: Final = '#include "portbar/atomics.h"\n'


def over(
    kinds: Sequence[str], spaces: Sequence[str] = SPACES, sampled: Sequence[str] = SAMPLED
) -> pytest.MarkDecorator:
    """Run a test that has a fixture `made` with these types and address spaces; not all types where not by default."""
    several = [
        (strategy, kind, space)
        for strategy in STRATEGIES
        for kind in kinds
        for space in spaces
        if strategy == "default" or kind in sampled
    ]
    return pytest.mark.parametrize("made", several, ids="-".join, indirect=True)


def pragmas(kind: str) -> str:
    """Return the beginning of a program that uses a type."""
    return "#pragma OPENCL EXTENSION cl_khr_fp16 : enable\n" if kind == "half" else ""


def heading(kind: str) -> str:
    """The first lines of a program that uses a type."""
    return f"{pragmas(kind)}{HEADER}typedef {kind} T;\n"


def bits(values: Any) -> Array:
    """The bits of numbers, as unsigned integers of their size."""
    array = np.asarray(values)
    return np.atleast_1d(array).view(f"u{array.dtype.itemsize}")


# The operations in NumPy: what is stored after an operation with operand `v` found `old`.


def lower(old: Array, v: Array) -> Array:
    """`fetch_min`: a NaN operand changes nothing, a number replaces a stored NaN, and -0.0 is below +0.0."""
    if old.dtype.kind != "f":
        return np.minimum(old, v)
    below = (v < old) | ((v == old) & np.signbit(v) & ~np.signbit(old)) | np.isnan(old)
    return np.where(below & ~np.isnan(v), v, old)


def higher(old: Array, v: Array) -> Array:
    """`fetch_max`, as `lower` is `fetch_min`."""
    if old.dtype.kind != "f":
        return np.maximum(old, v)
    above = (v > old) | ((v == old) & np.signbit(old) & ~np.signbit(v)) | np.isnan(old)
    return np.where(above & ~np.isnan(v), v, old)


AFTER: Final[dict[str, Callable[[Array, Array], Array]]] = {
    "exchange": lambda _, v: v,
    "fetch_add": lambda old, v: old + v,
    "fetch_sub": lambda old, v: old - v,
    "fetch_min": lower,
    "fetch_max": higher,
    "fetch_and": lambda old, v: old & v,
    "fetch_or": lambda old, v: old | v,
    "fetch_xor": lambda old, v: old ^ v,
    "fetch_inc": lambda old, limit: np.where(old >= limit, np.zeros_like(old), old + old.dtype.type(1)),
    "fetch_dec": lambda old, limit: np.where((old == 0) | (old > limit), limit, old - old.dtype.type(1)),
}


def after(operation: str, old: Array, v: Array) -> Array:
    """Return a cell's value after an operation, in the type of `old`."""
    with np.errstate(all="ignore"):
        return AFTER[operation](old, v).astype(old.dtype)


def broken(start: Any, olds: Array, news: Array, final: Any) -> str:
    """Say why steps from `olds` to `news` are not one walk from `start` to `final` that takes each step once; "" if they are.

    An atomic operation finds what the one before it left, so its history is a path through all steps (Euler's): each value is
    found as often as it is left, but for the start and the final value, and all values hang together.
    """
    found = Counter(bits(olds).ravel().tolist() + bits(final).tolist())
    left = Counter(bits(news).ravel().tolist() + bits(start).tolist())
    if found != left:
        missing, extra = list((left - found).items())[:4], list((found - left).items())[:4]
        return f"bits stored but never found (times): {missing}; bits found but never stored: {extra}"
    parent: dict[int, int] = {}

    def root(value: int) -> int:
        while parent.setdefault(value, value) != value:
            parent[value] = parent[parent[value]]
            value = parent[value]
        return value

    for old, new in set(zip(bits(olds).ravel().tolist(), bits(news).ravel().tolist(), strict=True)):
        parent[root(old)] = root(new)
    roots = {root(value) for value in [*parent, *bits(start).tolist()]}
    return "" if len(roots) == 1 else f"the steps fall into {len(roots)} parts that no step connects"


# Histories on a device.


@dataclass(frozen=True)
class Shape:
    """How many work-groups and work-items take part, and how often each does the operation."""

    groups: int
    items: int
    rounds: int

    @property
    def total(self) -> int:
        """Work-items in all groups."""
        return self.groups * self.items


def shape(device: cl.Device) -> Shape:
    """Return the size of a history: tiny for a simulator."""
    return Shape(2, 4, 2) if support.scale(device).is_simulator else Shape(4, 16, 8)


@dataclass(frozen=True)
class Setting:
    """A type in an address space under one atomics strategy, on the device under test."""

    context: cl.Context
    queue: cl.CommandQueue
    strategy: portbar.Strategy
    overrides: tuple[tuple[str, str], ...]
    kind: str
    space: str

    @property
    def dtype(self) -> Any:
        """The NumPy type of `kind`."""
        return np.dtype(DTYPES[self.kind])

    @property
    def seed(self) -> int:
        """A seed that differs between types and spaces."""
        return 100 * TYPES.index(self.kind) + len(self.space)

    @property
    def scopes(self) -> tuple[str, ...]:
        """The scopes that the device offers."""
        return tuple(self.strategy.capabilities.atomics_table.scopes)

    def random(self, *size: int, extra: int = 0) -> Array:
        """Seeded numbers: all bits of an integer, or floats that a sum rounds but never makes subnormal."""
        generator = np.random.default_rng(self.seed + extra)
        if self.dtype.kind != "f":
            info = np.iinfo(self.dtype)
            return generator.integers(info.min, info.max, size=size, dtype=self.dtype, endpoint=True)
        most = 50 if self.kind == "half" else 999
        return (generator.integers(-most * 8, most * 8, size=size, endpoint=True) / 8 + 0.0).astype(self.dtype)

    def kernel(self, source: str, name: str) -> portbar.Kernel:
        """Return a kernel of a program built once for a source and strategy."""
        return support.kernel(self.context, source, name, **dict(self.overrides))


@functools.cache
def _strategy(device: cl.Device, name: str) -> portbar.Strategy | str:
    profile = portbar.describe(device)
    try:
        usual = portbar.choose(profile)
        if name == "default":
            return usual
        if usual.atomics.value == name:
            return f"{name} is the default here"
        return portbar.choose(profile, {"atomics": name})
    except portbar.UnsupportedFeatureError as error:
        return f"refused: {error}"


def setting(
    context: cl.Context, queue: cl.CommandQueue, strategy: str, kind: str = "uint", space: str = "global"
) -> Setting:
    """Return what to test, or skip where the device's capability table does not offer it."""
    chosen = _strategy(queue.device, strategy)
    if isinstance(chosen, str):
        pytest.skip(chosen)
    table = chosen.capabilities.atomics_table
    if kind not in table.types:
        pytest.skip(f"the capability table has no {kind} here")
    if space not in table.spaces:
        pytest.skip(f"the capability table has no {space} memory here")
    overrides = () if strategy == "default" else (("atomics", strategy),)
    return Setting(context, queue, chosen, overrides, kind, space)


@dataclass(frozen=True)
class Case:
    """One operation with its order and scope; `failure` is compare_exchange's, or the load's that follows a store."""

    operation: str
    order: str
    scope: str
    failure: str = ""

    @property
    def is_shared(self) -> bool:
        """Whether several work-items work on one cell."""
        return self.operation != "store" and self.scope != "sub_group"

    def call(self) -> str:
        """The statement, with `v` the operand, `d` what is desired, `found` and `ok` for its results."""
        scope = f"memory_scope_{self.scope}"
        orders = ", ".join(f"memory_order_{order}" for order in (self.order, self.failure) if order)
        name = f"portbar_atomic_{self.operation}_explicit"
        if self.operation == "store":
            load = f"found = portbar_atomic_load_explicit(p, memory_order_{self.failure}, {scope});"
            return f"{name}(p, v, memory_order_{self.order}, {scope}); {load}"
        if self.operation.startswith("compare"):
            hit = f"ok = {name}(p, &guess, d, {orders}, {scope}) ? 1u : 0u;"
            return f"{hit} found = guess; if (ok) guess = d;"
        answer = "found = " if self.operation in AFTER else ""
        return f"{answer}{name}(p, v, {orders}, {scope});"


def _turns(
    made: Setting, operations: Sequence[str], pairs: Sequence[tuple[str, str]], *, every_order: bool
) -> list[Case]:
    """Each operation in several orders, with scopes that go round: all at once would take minutes to compile."""
    scopes, turn = made.scopes, TYPES.index(made.kind) + len(made.space)
    listed = []
    for which, operation in enumerate(operations):
        first = turn + 2 * which
        chosen = range(len(pairs)) if every_order else (first % len(pairs), (first + 1) % len(pairs))
        listed += [
            Case(operation, pairs[i][0], scopes[(first + i) % len(scopes)], pairs[i][1]) for i in dict.fromkeys(chosen)
        ]
    return listed


def cases(
    made: Setting, operations: Sequence[str], orders: Sequence[str] = ORDERS, *, every_order: bool = True
) -> list[Case]:
    """Each operation in each order for uint and float, in two orders that go round for the other types."""
    every = every_order and made.kind in {"uint", "float"}
    return _turns(made, operations, [(order, "") for order in orders], every_order=every)


def paired_cases(made: Setting, operations: Sequence[str], pairs: Sequence[tuple[str, str]]) -> list[Case]:
    """The same for operations with two orders."""
    return _turns(made, operations, pairs, every_order=made.kind == "uint")


def all_cases(made: Setting, operation: str) -> list[Case]:
    """One operation in each order and each scope."""
    return [Case(operation, order, scope) for order in ORDERS for scope in made.scopes]


#: PoCL 3.1 takes minutes to compile a long kernel with barriers and loops, but not a function that has the loops. The function
#: must not ask who it is, or PoCL inlines it all the same. Only PoCL defines this name.
APART: Final = """
#ifdef POCL_DEVICE_ADDRESS_BITS
#define APART static __attribute__((noinline))
#else
#define APART static
#endif
"""


def history_kernel(name: str, listed: Sequence[Case], space: str) -> str:
    """The text of a kernel that does all cases, each on cells of its own; a program has `APART` once before such kernels.

    `cells` has a place for each case, group and work-item. Where work-items share a cell, it is the first place of the group,
    or the first of all in global memory at a scope that covers several groups; places that are left over must not change.
    `rounds` is an argument, since a loop of a constant length is unrolled, which takes compilers several times as long;
    `count`, the number of cases, is one for the sake of the quirk pocl-cbs-loop.
    """
    blocks = []
    for i, case in enumerate(listed):
        item = "0u" if case.is_shared else "item"
        if space == "local":
            place = f"shelf + {i}u * items + {item}"
        elif case.is_shared and case.scope != "work_group":
            place = f"cells + {i}u * total"
        else:
            place = f"cells + {i}u * total + group * items + {item}"
        wish = "            const T d = desired[at];\n" if case.operation.startswith("compare") else ""
        blocks.append(f"""    {{
        volatile {space} T *p = {place};
        T guess = operands[({i}u * total + me) * rounds];
        for (uint r = 0u; r < rounds; ++r) {{
            const uint at = ({i}u * total + me) * rounds + r;
            const T v = operands[at];
{wish}            T found = v;
            uint ok = 0u;
            {case.call()}
            seen[at] = found;
            hits[at] = ok;
        }}
    }}
""")
    parameters = """global T *cells, global const T *operands, global const T *desired, global T *seen, global uint *hits,
    const uint rounds, const uint count, local T *shelf"""
    places = """    const uint items = get_local_size(0), item = get_local_id(0), group = get_group_id(0);
    const uint total = get_global_size(0), me = get_global_id(0);
"""
    at = "const uint items, const uint item, const uint group, const uint total, const uint me"
    if space == "global":
        return f"\nkernel void {name}({parameters})\n{{\n{places}{''.join(blocks)}}}\n"
    return f"""
APART void {name}_steps({parameters}, {at})
{{
{"".join(blocks)}}}

kernel void {name}({parameters})
{{
{places}    for (uint i = 0u; i < count; ++i)
        shelf[i * items + item] = cells[i * total + me];
    barrier(CLK_LOCAL_MEM_FENCE);
    {name}_steps(cells, operands, desired, seen, hits, rounds, count, shelf, items, item, group, total, me);
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint i = 0u; i < count; ++i)
        cells[i * total + me] = shelf[i * items + item];
}}
"""


@dataclass(frozen=True)
class History:
    """The values that work-items saw in one case; arrays are by group, work-item and round, `cells` by group and work-item."""

    made: Setting
    case: Case
    start: Any
    operands: Array
    desired: Array
    seen: Array
    hits: Array
    cells: Array

    def __str__(self) -> str:
        pair = f"/{self.case.failure}" if self.case.failure else ""
        where = f"{self.made.kind} in {self.made.space} memory, {self.made.strategy.atomics} atomics"
        return f"{self.case.operation} {self.case.order}{pair} {self.case.scope} of {where}, seed {self.made.seed}"

    def teams(self) -> Iterator[tuple[Any, tuple[Any, ...]]]:
        """Each cell that was worked on: its final value, and the index of those who worked on it."""
        groups, items = self.cells.shape
        if not self.case.is_shared:
            for group in range(groups):
                for item in range(items):
                    yield self.cells[group, item], (group, item)
        elif self.made.space == "global" and self.case.scope != "work_group":
            yield self.cells[0, 0], (slice(None), slice(None))
        else:
            for group in range(groups):
                yield self.cells[group, 0], (group, slice(None))

    def check_neighbours(self) -> None:
        """Check that the places between the cells hold what they held."""
        touched = np.zeros(self.cells.shape, bool)
        if not self.case.is_shared:
            touched[:] = True
        elif self.made.space == "global" and self.case.scope != "work_group":
            touched[0, 0] = True
        else:
            touched[:, 0] = True
        left = bits(self.cells).reshape(self.cells.shape)[~touched]
        assert (left == bits(self.start)).all(), f"{self}: a place beside the cell changed"

    def check_chain(self) -> None:
        """Check that each operation found the start or what another had left, and that the last one left the final value."""
        self.check_neighbours()
        for final, who in self.teams():
            olds = self.seen[who].ravel()
            news = after(self.case.operation, olds, self.operands[who].ravel())
            why = broken(self.start, olds, news, final)
            assert not why, f"{self}: {why}"


@dataclass(frozen=True)
class Part:
    """Some cases of a kernel and their data: the value that all cells start with, and functions that make the operands."""

    listed: Sequence[Case]
    start: Any
    operands: Array
    desired: Array | None = None


def run(made: Setting, source: str, name: str, parts: Sequence[Part], size: Shape) -> list[History]:
    """Run a history kernel once, and return what each case saw."""
    dtype, full = made.dtype, (size.groups, size.items, size.rounds)
    listed = [(part, case) for part in parts for case in part.listed]
    count = len(listed)
    with np.errstate(all="ignore"):
        starts = np.array([np.asarray(part.start).astype(dtype) for part, _ in listed], dtype)
    cells = np.repeat(starts, size.total)
    operands = np.stack([np.broadcast_to(part.operands, full) for part, _ in listed]).astype(dtype)
    desired = np.stack(
        [np.broadcast_to(part.operands if part.desired is None else part.desired, full) for part, _ in listed]
    ).astype(dtype)
    seen, hits = np.zeros((count, *full), dtype), np.zeros((count, *full), np.uint32)
    queue = made.queue
    buffers = [support.to_device(queue, array) for array in (cells, operands, desired, seen, hits)]
    shelf = cl.LocalMemory((count if made.space == "local" else 1) * size.items * dtype.itemsize)
    numbers = np.uint32(size.rounds), np.uint32(count)
    made.kernel(source, name)(queue, (size.total,), (size.items,), *buffers, *numbers, shelf).wait()
    for array, buffer in ((cells, buffers[0]), (seen, buffers[3]), (hits, buffers[4])):
        cl.enqueue_copy(queue, array, buffer)
    places = cells.reshape(count, size.groups, size.items)
    return [
        History(made, case, starts[i], operands[i], desired[i], seen[i], hits[i], places[i])
        for i, (_, case) in enumerate(listed)
    ]
