"""The OpenCL C of one loop's types and of how two of its local objects become one.

Not for levels and strategies: `cl_templates/reduction` has those.
"""

from __future__ import annotations

from collections.abc import Iterator

from portbar.primitives.reduction.forms import Form
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
    scalars_in,
    structs_in,
)


def structs(loops: tuple[ReductionLoop, ...]) -> Iterator[Struct]:
    """Every structure that portbar defines for some loops, inner ones first, the local objects among them."""
    seen: set[str] = set()
    for loop in loops:
        for struct in structs_in(loop.struct):
            if struct.c not in seen:
                seen.add(struct.c)
                yield struct


def struct_lines(struct: Struct) -> list[str]:
    """The members of a structure, declared."""
    return [f"{declaration(kind, name)};" for name, kind in struct.members]


def indexed(loops: tuple[ReductionLoop, ...]) -> tuple[str, ...]:
    """The scalar types for which values with an index are needed."""
    found = {part.part.c for loop in loops for kind in loop.types.values() for part in _indexed_in(kind)}
    return tuple(sorted(found))


def _indexed_in(kind: Type) -> Iterator[Indexed]:
    if isinstance(kind, Array):
        yield from _indexed_in(kind.element)
    elif isinstance(kind, Indexed):
        yield kind


def each_part(kind: Type, depth: int = 0) -> Iterator[tuple[str, str, Type]]:
    """Loop heads, the path to a part, and the part's type, for each part of a value that an operator takes whole."""
    if isinstance(kind, Array):
        i = f"i{depth}"
        head = f"for (uint {i} = 0; {i} < {kind.count}u; ++{i}) "
        for inner, path, part in each_part(kind.element, depth + 1):
            yield head + inner, f"[{i}]{path}", part
    elif isinstance(kind, Struct):
        for name, member in kind.members:
            for inner, path, part in each_part(member, depth):
                yield inner, f".{name}{path}", part
    else:
        yield "", "", kind


def parts(reduction: Reduction, kind: Type) -> list[tuple[str, str, Type]]:
    """As the operator sees a field: every element of an array for an `Operator`, every number for a built-in one."""
    if isinstance(reduction.operator, BuiltIn):
        return list(each_part(kind))
    if isinstance(kind, Array):
        return [(f"for (uint i0 = 0; i0 < {kind.count}u; ++i0) ", "[i0]", kind.element)]
    return [("", "", kind)]


def custom(loop: ReductionLoop) -> Iterator[tuple[str, str, str, str, str]]:
    """Name, type, expression, neutral element and what to call it, for each operator that an author wrote."""
    for name, reduction in loop.fields.items():
        op = reduction.operator
        if isinstance(op, Operator):
            kind = loop.types[name]
            kind = kind.element if isinstance(kind, Array) else kind
            neutral = op.neutral if reduction.neutral is None else reduction.neutral
            yield f"{loop.name}_{name}", kind.c, op.expression, str(neutral), f"{loop.name}.{name}"


def combine_lines(loop: ReductionLoop, into: str, a: str, b: str) -> list[str]:
    """Statements that make `into` of the local objects `a` and `b`."""
    lines = []
    for name, reduction in loop.fields.items():
        for head, path, part in parts(reduction, loop.types[name]):
            x, y = f"{a}.{name}{path}", f"{b}.{name}{path}"
            lines.append(f"{head}{into}.{name}{path} = {combined(loop, name, part, x, y)};")
    return lines


def combined(loop: ReductionLoop, name: str, part: Type, x: str, y: str) -> str:
    """Two parts of a field combined, an expression."""
    op = loop.fields[name].operator
    if isinstance(op, BuiltIn):
        return op.combine(part, x, y)
    return f"portbar_operator_{loop.name}_{name}({x}, {y})"


def neutral_lines(loop: ReductionLoop, into: str) -> list[str]:
    """Statements that make `into` the neutral element of each field."""
    lines = []
    for name, reduction in loop.fields.items():
        op = reduction.operator
        for head, path, part in parts(reduction, loop.types[name]):
            value = op.neutral(part) if isinstance(op, BuiltIn) else f"portbar_neutral_{loop.name}_{name}()"
            lines.append(f"{head}{into}.{name}{path} = {value};")
    return lines


def is_symmetric(loop: ReductionLoop) -> bool:
    """Whether `a op b` and `b op a` are the same to the last bit.

    Products of complex numbers need not be where multiplications and additions are fused.
    """
    for name, reduction in loop.fields.items():
        op = reduction.operator
        if not isinstance(op, BuiltIn):
            return False
        if op.on_complex and any(isinstance(part, Complex) for _, _, part in parts(reduction, loop.types[name])):
            return False
    return True


def form_of(loop: ReductionLoop, *, keeps: bool = False) -> Form:
    """The loop as one operator on its local object, which the text says it keeps across barriers where `keeps` is true."""
    struct = loop.struct
    body = [f"{struct.c} both;", *combine_lines(loop, "both", "a", "b"), "return both;"]
    return Form(
        struct.c,
        loop.name,
        struct.size,
        "\n    ".join(body),
        f"{loop.name}_identity()",
        symmetric=is_symmetric(loop),
        commutative=loop.commutative,
        prepare="\n    ".join([*(["PORTBAR_KEEP(x);"] if keeps else []), *_prepare_lines(loop)]),
    )


def scalar_names(loops: tuple[ReductionLoop, ...]) -> set[str]:
    """Every scalar type that some loops need."""
    return {part.c for loop in loops for kind in loop.types.values() for part in scalars_in(kind)}


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
        for head, path, part in parts(reduction, kind):
            # Atomics of 8 and 16 bits touch the 32 bits around them, which may not be the receiver's.
            if not isinstance(part, Scalar) or part.c not in offered or part.bits < 32:
                return None
            start, at, owner = head, path, f"(*results.{name})"
            if isinstance(kind, Array):
                start, at, owner = (
                    _in_section(name, kind) + head.partition(") ")[2],
                    path.replace("[i0]", "[i]", 1),
                    f"results.{name}",
                )
            place, value = f"&{owner}{at}", f"mine.{name}{at}"
            if isinstance(op, BuiltIn) and op.atomic:
                lines.append(f"    {start}portbar_atomic_{op.atomic}_explicit({place}, {value}, {relaxed});")
            else:
                again = combined(loop, name, part, "seen", value)
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


def _in_section(name: str, kind: Array) -> str:
    taking_part = f"results.{name}_length == 0u || i - results.{name}_offset < results.{name}_length"
    return f"for (uint i = results.{name}_offset; i < {kind.count}u && ({taking_part}); ++i) "


def _prepare_lines(loop: ReductionLoop) -> Iterator[str]:
    """Statements that make true logical values of the fields of `x` that are combined as such."""
    for name, reduction in loop.fields.items():
        op = reduction.operator
        if isinstance(op, BuiltIn) and op.is_logical:
            for head, path, part in parts(reduction, loop.types[name]):
                place = f"x.{name}{path}"
                yield f"{head}{place} = {op.combine(part, op.neutral(part), place)};"
