"""The capability table of atomics as measured: each operation on each type and address space, compiled and run once.

One work-item runs each operation, and its results are compared with NumPy's. Whether operations are atomic and in order is the
subject of the litmus tests.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyopencl as cl

from portbar.choices.strategy import choose
from portbar.errors import Error
from portbar.launching.program import Program
from portbar.primitives import scalars
from portbar.primitives.atomics_table import TYPES, AtomicType
from portbar.primitives.strategy import Strategy
from portbar.records.reading import NO_TIME, measured, missing
from portbar.survey.measuring.rounds import in_one_line
from portbar.survey.measuring.session import Session

SPACES: Final = ("global", "local")

#: The placeholder for `implementation` if there is none.
NONE: Final = "none"
INSTRUCTION: Final = "instruction"
LOOP: Final = "loop"

Values = Any

#: Operation -> what is stored where `old` was found, with operand `v`, in the type of both.
AFTER: Final[dict[str, Callable[[Values, Values], Values]]] = {
    "load": lambda old, _: old,
    "store": lambda _, v: v,
    "exchange": lambda _, v: v,
    "compare_exchange": lambda _, v: v,
    "fetch_add": lambda old, v: old + v,
    "fetch_sub": lambda old, v: old - v,
    "fetch_min": np.minimum,
    "fetch_max": np.maximum,
    "fetch_and": lambda old, v: old & v,
    "fetch_or": lambda old, v: old | v,
    "fetch_xor": lambda old, v: old ^ v,
    "fetch_inc": lambda old, limit: np.where(old >= limit, old * 0, old + 1),
    "fetch_dec": lambda old, limit: np.where((old == 0) | (old > limit), limit, old - 1),
}
_INTEGERS: Final = ("fetch_and", "fetch_or", "fetch_xor")
_WRAPPING: Final = ("fetch_inc", "fetch_dec")

#: In the order of measuring: those that programs use most come first.
_ORDER: Final = ("uint", "float", "int", "ulong", "double", "long", "uchar", "ushort", "char", "short", "half")


@dataclass(frozen=True)
class Case:
    """One operation on one type in one address space."""

    operation: str
    kind: AtomicType
    space: str


def operations_of(kind: AtomicType) -> tuple[str, ...]:
    """The operations that `portbar/atomics.h` has on a type."""
    left_out: tuple[str, ...] = ()
    if kind.kind == "float":
        left_out += _INTEGERS
    if kind.kind != "uint" or kind.is_small:
        left_out += _WRAPPING
    return tuple(operation for operation in AFTER if operation not in left_out)


def cases() -> Iterator[Case]:
    """Every case, in the order of measuring."""
    for kind in sorted(TYPES, key=lambda kind: _ORDER.index(kind.name)):
        for space in SPACES:
            for operation in operations_of(kind):
                yield Case(operation, kind, space)


def implementation(case: Case, strategy: Strategy) -> str:
    """How portbar does an operation: `instruction`, one of the device's own, or `loop`, of compare-exchanges.

    The rules are those of `cl_templates/atomics/common.mako`. A device's compiler may implement its own operation by a loop: a
    CPU has no fetch_min, for example.
    """
    kind, operation = case.kind, case.operation
    backend = strategy.backend
    if kind.is_small:
        # On the 32 bits around the object, of which the others must stay as they are.
        return INSTRUCTION if operation == "load" or (operation == "store" and backend.small_access) else LOOP
    if kind.kind == "float" and operation in {"fetch_add", "fetch_sub"}:
        return INSTRUCTION if (kind.name, case.space) in strategy.capabilities.atomics_table.native_add else LOOP
    if kind.kind == "float" and operation in {"fetch_min", "fetch_max"}:
        return LOOP
    if operation in _WRAPPING:
        return INSTRUCTION if backend.wraps and kind.name == "uint" else LOOP
    return INSTRUCTION


def values_of(case: Case) -> tuple[Any, Any]:
    """Return a cell's value before the operation, and the operand: such that no two operations have the same result."""
    dtype = np.dtype(scalars.TYPES[case.kind.name])
    if case.kind.kind == "float":
        before, operand = 1.5, -2.25
    elif case.kind.kind == "int":
        before, operand = -77, 86
    else:
        before, operand = 0xCA, 0xCB if case.operation in _WRAPPING else 0x56
    if dtype.kind != "f":
        # High bits count, too.
        before += 0x51 << (8 * dtype.itemsize - 8) if dtype.itemsize > 1 else 0
        operand += 0x51 << (8 * dtype.itemsize - 8) if dtype.itemsize > 1 and case.operation in _WRAPPING else 0
    return dtype.type(before), dtype.type(operand)


def expected_of(case: Case) -> Any:
    """Return the cell's value after the operation."""
    before, operand = values_of(case)
    with np.errstate(over="ignore"):
        return np.asarray(AFTER[case.operation](before, operand)).astype(before.dtype)[()]


def _statements(index: int, case: Case) -> str:
    """OpenCL C that runs one case on cell `index` and leaves in `found` what it found there."""
    kind = case.kind.name
    how = f"memory_order_relaxed, memory_scope_{'device' if case.space == 'global' else 'work_group'}"
    cell, operand, found = f"cell + {index}", f"operands[{index}]", f"found[{index}]"
    if case.operation == "load":
        return f"{found} = portbar_atomic_load_explicit({cell}, {how});"
    if case.operation == "store":
        return f"{found} = cell[{index}]; portbar_atomic_store_explicit({cell}, {operand}, {how});"
    if case.operation == "compare_exchange":
        # One that fails and returns the current value, and one that then succeeds.
        call = f"portbar_atomic_compare_exchange_strong_explicit({cell}, &seen, {operand}, memory_order_relaxed, {how})"
        return (
            f"{{ {kind} seen = {operand}; const bool first = {call}; const bool second = {call}; "
            f"{found} = !first && second ? seen : {operand}; }}"
        )
    return f"{found} = portbar_atomic_{case.operation}_explicit({cell}, {operand}, {how});"


def source(of: Sequence[Case]) -> str:
    """OpenCL C with a kernel `run` for cases of one type and address space."""
    kind, space = of[0].kind.name, of[0].space
    pragma = {
        "half": "#pragma OPENCL EXTENSION cl_khr_fp16 : enable\n",
        "double": "#pragma OPENCL EXTENSION cl_khr_fp64 : enable\n",
    }.get(kind, "")
    body = "\n    ".join(_statements(index, case) for index, case in enumerate(of))
    if space == "local":
        # Small objects need the aligned four bytes around them.
        room = -(-len(of) // 4) * 4
        copies = "for (uint i = 0; i < {0}u; ++i)\n        {1}[i] = {2}[i];"
        body = "\n    ".join(
            (
                f"local {kind} cell[{room}] __attribute__((aligned(8)));",
                copies.format(len(of), "cell", "cells"),
                body,
                copies.format(len(of), "cells", "cell"),
            )
        )
    else:
        body = f"global {kind} *cell = cells;\n    {body}"
    return (
        f'{pragma}#include "portbar/atomics.h"\nkernel void run(global {kind} *cells, global const {kind} *operands, '
        f"global {kind} *found)\n{{\n    {body}\n}}\n"
    )


def _run(queue: cl.CommandQueue, of: Sequence[Case]) -> list[dict[str, Any]]:
    """Compile and run cases of one type and address space; a reading for each."""
    context = queue.context
    program = Program(context, source(of))
    before, operands = (np.array(values) for values in zip(*map(values_of, of), strict=True))
    # Objects of 8 and 16 bits are changed by way of the four bytes around them.
    room = np.zeros(-(-len(of) // 8) * 8, before.dtype)
    room[: len(of)] = before
    flags = cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR
    cells, given, found = (
        cl.Buffer(context, flags, hostbuf=values) for values in (room, operands, np.zeros_like(room))
    )
    kernel = cl.Kernel(program.built(queue.device, program.strategy(queue.device)), "run")
    kernel.set_args(cells, given, found)
    cl.enqueue_nd_range_kernel(queue, kernel, (1,), (1,)).wait()
    after, olds = np.empty_like(room), np.empty_like(room)
    cl.enqueue_copy(queue, after, cells)
    cl.enqueue_copy(queue, olds, found)
    wanted = [expected_of(case) for case in of]
    return [_reading(*values) for values in zip(before, wanted, olds, after, strict=False)]


def _reading(before: Any, wanted: Any, found: Any, left: Any) -> dict[str, Any]:
    if (before.tobytes(), wanted.tobytes()) == (found.tobytes(), left.tobytes()):
        return measured(True)
    return missing("error", f"it found {found} and left {left} in place of {before} and {wanted}")


def _results(queue: cl.CommandQueue, of: Sequence[Case]) -> list[dict[str, Any]]:
    """Readings of cases; where they do not work together, each is tried alone."""
    try:
        return _run(queue, of)
    except (Error, cl.Error) as error:
        if len(of) == 1:
            return [missing("error", in_one_line(error))]
        return [reading for case in of for reading in _results(queue, [case])]


def measure(session: Session) -> None:
    """Run every operation on every type in global and local memory once.

    Rows: `operation`, `type`, `space`, `implementation` (`instruction`, `loop` or `none`), and `result`: true, or why not.
    """
    strategy = choose(session.profile)
    table = strategy.capabilities.atomics_table
    wanted = list(cases())
    tried = False
    for kind, space in dict.fromkeys((case.kind, case.space) for case in wanted):
        of = [case for case in wanted if (case.kind, case.space) == (kind, space)]
        offered = kind.name in table.types
        if not offered:
            why = table.refused.get(kind.name, "the device does not have this type")
            readings = [missing("unsupported", why)] * len(of)
        elif tried and session.late:
            readings = [missing("skipped", NO_TIME)] * len(of)
        else:
            session.doing(f"atomic operations on {kind.name} in {space} memory")
            readings = _results(session.queue, of)
            tried = True
        for case, reading in zip(of, readings, strict=True):
            how = implementation(case, strategy) if offered else NONE
            row = {"operation": case.operation, "type": kind.name, "space": space, "implementation": how}
            session.row(row | {"result": reading})
