"""The output statement of `portbar.scan`: what runs for each element once its prefix is known, and the arrays it writes to."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

import pyopencl as cl
import pyopencl.array

from portbar.arrays.request import array_types, check_apart, check_array, check_contiguous, check_memory, check_name
from portbar.arrays.source import Input
from portbar.errors import Error, LaunchError
from portbar.primitives.reduction.types import Type
from portbar.records.dataclass import dataclass

#: The names that PyOpenCL's `GenericScanKernel` gives to the values that an output statement uses.
VALUES: Final = ("item", "prev_item", "last_item")
_RESERVED: Final = (*VALUES, "N")


def wants_last(text: str) -> bool:
    """Whether a statement needs the scan's last value, which only another launch can know before."""
    return re.search(r"\blast_item\b", text) is not None


@dataclass(frozen=True)
class Statement:
    """An output statement with the names and types of the arrays that it writes to."""

    text: str
    arrays: tuple[tuple[str, Type], ...] = ()

    @property
    def targets(self) -> tuple[Input, ...]:
        """The arrays."""
        return tuple(Input(place, name, kind) for place, (name, kind) in enumerate(self.arrays))

    def parameters(self, inputs: tuple[Input, ...], value: str) -> str:
        """The parameters of the C function that holds the statement; values are of type `value`."""
        # None is restrict: the effect INLINED_STRUCTURES_UNKNOWN.
        arrays = [f"global const {array.c} *{array.name}" for array in inputs]
        arrays += [f"global {array.c} *{array.name}" for array in self.targets]
        values = [f"const {value} {name}" for name in VALUES[: 3 if wants_last(self.text) else 2]]
        return ", ".join([*arrays, "const long i", "const long N", *values])


def statement_of(names: tuple[str, ...], text: Any, outputs: Any, *, trusted: bool) -> Statement | None:
    """The statement of a request, checked; None without one. With `trusted`, names of outputs may be portbar's own."""
    if text is None:
        if outputs is not None:
            raise Error("targets= names the arrays that output= writes to: pass output= as well")
        return None
    if not isinstance(text, str) or not text.strip():
        raise Error(f"output= must be an OpenCL C statement such as 'total[i] = item;', not {text!r}")
    given = {} if outputs is None else outputs
    if not isinstance(given, Mapping):
        raise LaunchError(f"targets= must be a mapping of name -> pyopencl.array.Array, not {type(given).__name__}")
    for name in (*names, *given):
        if name in _RESERVED:
            raise Error(f"an array is called {name!r}, which has a meaning in output statements; rename it")
    for name, one in given.items():
        if not trusted:
            check_name("a target", name)
        if name in names:
            raise Error(f"{name!r} names both an array that is scanned and one of targets=; rename one")
        check_array(f"targets[{name!r}]", one)
        check_contiguous(f"targets[{name!r}]", one)
    return Statement(text.strip(), array_types(given))


def check_targets(
    queue: cl.CommandQueue,
    inputs: tuple[cl.array.Array, ...],
    outputs: Mapping[str, cl.array.Array],
    out: cl.array.Array | None,
) -> None:
    """Check where the arrays that a statement writes to lie."""
    others = [*inputs, *([] if out is None else [out])]
    for name, one in outputs.items():
        check_memory(f"targets[{name!r}]", one, queue.context)
        check_apart(f"targets[{name!r}]", one, others)
        others.append(one)
