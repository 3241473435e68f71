"""One value of a type under one operator, as the bodies of C functions: two combined, and the neutral element.

Not for the local objects of loops, which have several fields (`portbar.primitives.reduction.code`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from portbar.primitives.reduction.code import each_part
from portbar.primitives.reduction.operators import BuiltIn, Operator
from portbar.primitives.reduction.types import Struct, Type, scalars_in


def combined(kind: Type, op: BuiltIn | Operator) -> str:
    """The body of a function that combines `a` and `b`."""
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
    """The body of a function that gives the neutral element, which is `given` in OpenCL C if not None."""
    if given is not None:
        return f"    return {given};"
    if isinstance(op, Operator):
        return f"    return {literal(op.neutral)};"
    if isinstance(kind, Struct):
        each = [f"    {head}none{path} = {op.neutral(part)};" for head, path, part in each_part(kind)]
        return "\n".join([f"    {kind.c} none;", *each, "    return none;"])
    return f"    return {op.neutral(kind)};"


def literal(value: Any) -> str:
    """Return a neutral element as an OpenCL C literal."""
    text = str(value).strip()
    return {"inf": "INFINITY", "-inf": "-INFINITY", "nan": "NAN", "True": "1", "False": "0"}.get(text, text)


def extensions_for(kinds: Sequence[Type]) -> tuple[str, ...]:
    """Extensions that types need."""
    names = {scalar.c for kind in kinds for scalar in scalars_in(kind)}
    return tuple(extension for name, extension in (("double", "cl_khr_fp64"), ("half", "cl_khr_fp16")) if name in names)
