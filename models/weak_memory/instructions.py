"""OpenCL C's and PTX's operations on memory, as one shape each: what is done, with which order and scope."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

_ORDERS: Final = {0: "relaxed", 2: "acquire", 3: "release", 4: "acq_rel", 5: "seq_cst"}
_SCOPES: Final = {0: "item", 1: "group", 2: "device", 3: "device", 4: "group"}
_PTX_SCOPES: Final = {"cta": "group", "gpu": "device", "gl": "device", "sys": "device"}
#: OpenCL 1.2's atomics, relaxed.
_OLD: Final = {"add": "add", "or": "or", "and": "and", "xchg": "exchange", "cmpxchg": "compare_exchange", "inc": "inc"}


@dataclass(frozen=True)
class Operation:
    """`name` is load, store, fence, or that of a read-modify-write; `operands` are the indices of pointer and values."""

    name: str
    order: str
    scope: str
    operands: tuple[int, ...] = ()


def demangled(name: str) -> str:
    """Return the name of an overloaded function."""
    match = re.match(r"@_ZL?(\d+)(.*)", name)
    return match[2][: int(match[1])] if match else name.removeprefix("@")


def builtin(name: str, given: list[object]) -> Operation | None:
    """Return OpenCL C's operation of that name, None if it is unknown; `given` are the arguments."""
    fence = {"mem_fence": "acq_rel", "read_mem_fence": "", "write_mem_fence": ""}
    if name in fence:
        # A fence of OpenCL 1.2 is issued with its read and write forms around it: the three count as one.
        return Operation("fence", fence[name] if int(given[0]) & 2 else "", "device")  # type: ignore[call-overload]
    if name == "atomic_work_item_fence":
        flags, order, scope = (int(value) for value in given)  # type: ignore[call-overload]
        return Operation("fence", _ORDERS[order] if flags & 2 else "", _SCOPES[scope])
    match = re.fullmatch(r"atomic_(?:fetch_)?(\w+?)(?:_strong)?_explicit", name)
    if match:
        numbers = [int(value) for value in given[-3:] if isinstance(value, int)]
        order = numbers[-3] if match[1] == "compare_exchange" else numbers[-2]
        values = {"load": 1, "compare_exchange": 3}.get(match[1], 2)
        return Operation(match[1], _ORDERS[order], _SCOPES[numbers[-1]], tuple(range(values)))
    match = re.fullmatch(r"atom(?:ic)?_(\w+)", name)
    if match and match[1] in _OLD:
        return Operation(_OLD[match[1]], "relaxed", "device", tuple(range(len(given))))
    return None


@dataclass(frozen=True)
class Assembly:
    """One instruction of PTX: an operation on memory, or `moved`: the register that gets a number."""

    operation: Operation | None
    target: str = ""
    moved: str = ""
    operands: tuple[str, ...] = ()


def assembly(code: str) -> list[Assembly]:
    """Return the instructions of an inline assembly text.

    Raises
    ------
    ValueError
        It holds an instruction that this reader does not know.
    """
    found = []
    for statement in re.split(r"[;\n{}]+", code):
        text = statement.strip()
        if not text or text.startswith(".reg"):
            continue
        name, _, rest = text.partition(" ")
        operands = tuple(part.strip(" []") for part in rest.split(",")) if rest else ()
        words = name.split(".")
        scope = next((_PTX_SCOPES[word] for word in words if word in _PTX_SCOPES), "device")
        order = next((word for word in words if word in ("relaxed", "acquire", "release", "acq_rel", "sc")), "relaxed")
        if words[0] == "membar":
            found.append(Assembly(Operation("fence", "acq_rel", scope)))
        elif words[0] == "fence":
            found.append(Assembly(Operation("fence", "seq_cst" if order == "sc" else order, scope)))
        elif words[0] == "ld":
            found.append(Assembly(Operation("load", order, scope, (0,)), operands[0], operands=operands[1:]))
        elif words[0] == "st":
            found.append(Assembly(Operation("store", order, scope, (0, 1)), operands=operands))
        elif words[0] in ("atom", "red"):
            kind = next(word for word in words if word in ("add", "inc", "or", "and", "exch", "cas"))
            kind = {"exch": "exchange", "cas": "compare_exchange"}.get(kind, kind)
            target, given = (operands[0], operands[1:]) if words[0] == "atom" else ("", operands)
            found.append(Assembly(Operation(kind, order, scope, tuple(range(len(given)))), target, operands=given))
        elif words[0] == "mov":
            found.append(Assembly(None, operands[0], moved=operands[1]))
        elif words[0] != "nanosleep" and text != "pause":
            raise ValueError(f"no instruction: {text}")
    return found
