"""Types and operators as OpenCL C: of one value, and of the local object of a loop, which has several fields."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from portbar.primitives.reduction.loops import Reduction, ReductionLoop
from portbar.primitives.reduction.operators import BuiltIn, Operator
from portbar.primitives.reduction.types import (
    Array,
    Complex,
    Indexed,
    Scalar,
    Struct,
    Type,
    declaration,
    each_part,
    scalars_in,
    structs_in,
)


def structs(loops: tuple[ReductionLoop, ...]) -> tuple[Struct, ...]:
    """Every structure that portbar defines for some loops, inner ones first, the local objects among them."""
    return tuple({struct.c: struct for loop in loops for struct in structs_in(loop.struct)}.values())


def struct_lines(struct: Struct) -> list[str]:
    """The members of a structure, declared."""
    return [f"{declaration(kind, name)};" for name, kind in struct.members]


def indexed(loops: tuple[ReductionLoop, ...]) -> tuple[str, ...]:
    """The scalar types for which values with an index are needed."""
    return tuple(sorted({part.part.c for loop in loops for *_, part in parts(loop) if isinstance(part, Indexed)}))


def scalar_names(loops: tuple[ReductionLoop, ...]) -> set[str]:
    """Every scalar type that some loops need."""
    return {part.c for loop in loops for kind in loop.types.values() for part in scalars_in(kind)}


def extensions_for(kinds: Sequence[Type]) -> tuple[str, ...]:
    """Extensions that types need."""
    names = {scalar.c for kind in kinds for scalar in scalars_in(kind)}
    return tuple(extension for name, extension in (("double", "cl_khr_fp64"), ("half", "cl_khr_fp16")) if name in names)


def literal(value: Any, kind: Type) -> str:
    """Return a neutral element of a type, text or a number, in OpenCL C."""
    if isinstance(kind, Complex) and not isinstance(value, str):
        number = complex(value)
        return f"({kind.c})({_number(number.real)}, {_number(number.imag)})"
    return _number(value)


def _number(value: Any) -> str:
    text = str(value).strip()
    if text == str(-(1 << 63)):
        # In C, a minus before a number beyond the range of long.
        return f"({text[:-1]}7 - 1)"
    return {"inf": "INFINITY", "-inf": "-INFINITY", "nan": "NAN", "True": "1", "False": "0"}.get(text, text)


def combined(kind: Type, op: BuiltIn | Operator) -> str:
    """The body of a function that combines `a` and `b` by an operator that takes them whole."""
    if isinstance(op, Operator):
        return f"    return {op.expression};"
    if isinstance(kind, Struct):
        each = [
            f"    {head}both{path} = {op.combine(part, f'a{path}', f'b{path}')};"
            for head, path, part in each_part(kind)
        ]
        return "\n".join([f"    {kind.c} both;", *each, "    return both;"])
    return f"    return {op.combine(kind, 'a', 'b')};"


def neutral(kind: Type, op: BuiltIn | Operator, given: str | None = None) -> str:
    """The body of a function that returns the neutral element, which is `given` in OpenCL C if not None."""
    if given is not None:
        return f"    return {given if given[0] != '{' else f'({kind.c}){given}'};"
    if isinstance(op, Operator):
        return neutral(kind, op, literal(op.neutral, kind))
    if isinstance(kind, Struct):
        each = [f"    {head}none{path} = {op.neutral(part)};" for head, path, part in each_part(kind)]
        return "\n".join([f"    {kind.c} none;", *each, "    return none;"])
    return f"    return {op.neutral(kind)};"


def _parts_of(reduction: Reduction, kind: Type) -> list[tuple[str, str, Type]]:
    """As the operator sees a field: every element of an array for an `Operator`, every number for a built-in one."""
    if isinstance(reduction.operator, BuiltIn):
        return list(each_part(kind))
    if isinstance(kind, Array):
        return [(f"for (uint i0 = 0; i0 < {kind.count}u; ++i0) ", "[i0]", kind.element)]
    return [("", "", kind)]


def parts(loop: ReductionLoop) -> Iterator[tuple[str, str, str, Type]]:
    """Field, loop heads, path and type of each part of a loop's local object, as the fields' operators see them."""
    for name, reduction in loop.fields.items():
        for head, path, part in _parts_of(reduction, loop.types[name]):
            yield name, head, f"{name}{path}", part


def custom(loop: ReductionLoop) -> Iterator[tuple[str, str, str, str, str]]:
    """Name, type, expression, neutral element and what to call it, for each operator that an author wrote."""
    for name, reduction in loop.fields.items():
        op = reduction.operator
        if isinstance(op, Operator):
            given = op.neutral if reduction.neutral is None else reduction.neutral
            kind = loop.types[name]
            text = literal(given, kind.element if isinstance(kind, Array) else kind)
            yield f"{loop.name}_{name}", kind.c, op.expression, text, f"{loop.name}.{name}"


def combine_lines(loop: ReductionLoop, into: str, a: str, b: str) -> list[str]:
    """Statements that make `into` of the local objects `a` and `b`."""
    return [
        f"{head}{into}.{path} = {_field_combined(loop, name, part, f'{a}.{path}', f'{b}.{path}')};"
        for name, head, path, part in parts(loop)
    ]


def _field_combined(loop: ReductionLoop, name: str, part: Type, x: str, y: str) -> str:
    """Two parts of a field combined, an expression."""
    op = loop.fields[name].operator
    if isinstance(op, BuiltIn):
        return op.combine(part, x, y)
    return f"portbar_operator_{loop.name}_{name}({x}, {y})"


def neutral_lines(loop: ReductionLoop, into: str) -> list[str]:
    """Statements that make `into` the neutral element of each field."""
    lines = []
    for name, head, path, part in parts(loop):
        op = loop.fields[name].operator
        value = op.neutral(part) if isinstance(op, BuiltIn) else f"portbar_neutral_{loop.name}_{name}()"
        lines.append(f"{head}{into}.{path} = {value};")
    return lines


def copy(kind: Type, to: str, source: str) -> str:
    """A statement that assigns one field to another; C assigns no arrays."""
    if isinstance(kind, Array):
        return f"for (uint i = 0; i < {kind.count}u; ++i) {to}[i] = {source}[i];"
    return f"{to} = {source};"


def atomic_lines(loop: ReductionLoop, offered: tuple[str, ...]) -> list[str] | None:
    """Statements that update the receivers by atomic operations with `mine`; None where some part has none."""
    lines: list[str] = []
    relaxed = "memory_order_relaxed, memory_scope_device"
    for name, reduction in loop.fields.items():
        op = reduction.operator
        kind = loop.types[name]
        lines.append(f"if (results.{name} != 0)" + " {")
        for head, path, part in _parts_of(reduction, kind):
            # Atomics of 8 and 16 bits touch the 32 bits around them, which may not be the receiver's.
            if not isinstance(part, Scalar) or part.c not in offered or part.bits < 32:
                return None
            start, at, owner = head, path, f"(*results.{name})"
            if isinstance(kind, Array):
                start, at, owner = (
                    f"{section(name, kind)} {head.partition(') ')[2]}",
                    path.replace("[i0]", "[i]", 1),
                    f"results.{name}",
                )
            place, value = f"&{owner}{at}", f"mine.{name}{at}"
            if isinstance(op, BuiltIn) and op.atomic:
                lines.append(f"    {start}portbar_atomic_{op.atomic}_explicit({place}, {value}, {relaxed});")
            else:
                again = _field_combined(loop, name, part, "seen", value)
                # In a variable, since there may be `||` in it: the effect CONDITIONS_NOT_ARGUMENTS.
                lines += [
                    f"    {start}{{",
                    f"        volatile global {part.c} *at = {place};",
                    f"        {part.c} seen = portbar_atomic_load_explicit(at, {relaxed});",
                    "        for (uint i = 0; i < PORTBAR_REDUCTION_POLLS; ++i) {",
                    f"            const {part.c} next = {again};",
                    "            if (portbar_atomic_compare_exchange_weak_explicit(",
                    f"                    at, &seen, next, memory_order_relaxed, {relaxed}))",
                    "                break;",
                    "            portbar_lost_race();",
                    "        }",
                    "    }",
                ]
        lines.append("}")
    return lines


def section(name: str, kind: Array) -> str:
    """The head of a loop over the elements `i` of a receiving array that take part."""
    taking_part = f"results.{name}_length == 0u || i - results.{name}_offset < results.{name}_length"
    return f"for (uint i = results.{name}_offset; i < {kind.count}u && ({taking_part}); ++i)"
