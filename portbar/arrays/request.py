"""The arguments of `portbar.reduce` and `portbar.scan`, checked: arrays, operators, maps, initial values, results.

Errors are raised before anything is enqueued.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pyopencl as cl
import pyopencl.array

from portbar.arrays.source import Output, converts
from portbar.errors import Error, LaunchError
from portbar.launching.arguments import CONTIGUOUS
from portbar.primitives.host_values import converted
from portbar.primitives.reduction.code import literal
from portbar.primitives.reduction.loops import Reduction, check_identifier
from portbar.primitives.reduction.operators import BuiltIn, Operator, operator_of
from portbar.primitives.reduction.types import Array, Complex, Indexed, Scalar, Struct, Type, Vector, type_of
from portbar.records.dataclass import dataclass
from portbar.records.plain import amount


@dataclass(frozen=True)
class Returned:
    """The arrays that a call returns: all of one shape, with their types; their names, or None where there is just one."""

    shape: tuple[int, ...]
    dtypes: tuple[np.dtype[Any], ...]
    names: tuple[str, ...] | None = None
    #: Of elements in memory: ``"F"`` if the caller's arrays are in Fortran order and the results have several axes.
    order: str = "C"


def named(array: Any) -> dict[str, Any]:
    """Return the arrays of a call by their names in map expressions."""
    return dict(array) if isinstance(array, Mapping) else {"x": array}


def checked_arrays(array: Any) -> dict[str, cl.array.Array]:
    """The arrays of a call as by `named`, checked."""
    arrays: dict[str, cl.array.Array] = named(array)
    if not arrays:
        raise LaunchError("the mapping holds no array: pass at least one")
    for name in arrays:
        check_name("an array", name)
    for name, one in arrays.items():
        check_array(f"array {name!r}", one)
    first = next(iter(arrays.values()))
    for name, one in arrays.items():
        if one.shape != first.shape:
            raise LaunchError(
                f"array {name!r} has shape {one.shape}, the first one {first.shape}: they must be the same"
            )
    return arrays


def check_array(what: str, given: Any) -> None:
    """Check that an argument is an array on a device."""
    if not isinstance(given, cl.array.Array):
        raise LaunchError(
            f"{what} is a {type(given).__name__}, not a pyopencl.array.Array: copy it to the device with "
            "pyopencl.array.to_device(queue, ...)"
        )


def collected(values: Any) -> Any:
    """Values that NumPy makes an array of; those of a generator, a set or a view of a mapping as a list."""
    is_array_like = isinstance(values, Sequence) or hasattr(values, "__array__") or not isinstance(values, Iterable)
    return values if is_array_like else list(values)


def host_array(what: str, values: Any, dtype: Any = None) -> np.ndarray[Any, Any]:
    """Values of the host as an array; of a type, in which each value is what it was."""
    try:
        return np.asarray(values, order="C") if dtype is None else converted(values, dtype)
    except (TypeError, ValueError, OverflowError) as error:
        raise LaunchError(f"{what} cannot be made an array{'' if dtype is None else f' of {dtype}'}: {error}") from None


def array_types(arrays: Mapping[str, cl.array.Array]) -> tuple[tuple[str, Type], ...]:
    """Name and element type of each array."""
    kinds = tuple((name, element_type(one.dtype, f"{name}_type")) for name, one in arrays.items())
    for (name, kind), one in zip(kinds, arrays.values(), strict=True):
        if one.offset % kind.size:
            raise LaunchError(
                f"array {name!r} starts {one.offset} bytes into its buffer, which is not a multiple of {kind.size}: pass "
                f"{name}.copy()"
            )
    return kinds


def input_arguments(inputs: tuple[cl.array.Array, ...], context: cl.Context) -> list[Any]:
    """Buffer and first element of each array, as kernels take them."""
    args: list[Any] = []
    for one in inputs:
        check_memory("the array", one, context)
        args += (one.base_data, one.offset // one.dtype.itemsize)
    return args


def check_contiguous(what: str, array: cl.array.Array) -> None:
    """Check that an array's elements lie in the order of C."""
    if array.size and not array.flags.c_contiguous:
        raise LaunchError(f"{what} of shape {array.shape} has strides {array.strides}: {CONTIGUOUS}")


def check_memory(what: str, array: cl.array.Array, context: cl.Context) -> None:
    """Check that an array, which is contiguous, lies within memory of the queue's context; an empty array has no memory."""
    if array.context != context:
        raise LaunchError(f"{what} belongs to another context than the queue: copy it with get() and to_device()")
    memory: Any = array.base_data
    if memory is not None and not 0 <= array.offset <= memory.size - array.nbytes:
        raise LaunchError(
            f"{what} reaches beyond its memory: {array.nbytes} bytes from byte {array.offset}, in a buffer of {memory.size}"
        )


def checked_axis(axis: Any, count: int) -> int:
    """An axis of an array of `count` dimensions, from 0 on."""
    if isinstance(axis, bool) or not isinstance(axis, int | np.integer) or not -count <= axis < count:
        raise LaunchError(
            f"axis= must be an axis of an array of {amount(count, 'dimension')}, or None for all of them, not {axis!r}"
        )
    return int(axis) % count


def check_name(what: str, name: Any) -> None:
    """Check that an array or an output may be called so."""
    check_identifier(what, name)
    if name == "i":
        raise Error(f"{what} is called 'i', which is the index in map expressions; rename it")


def element_type(dtype: np.dtype[Any], name: str) -> Type:
    """The type of an array's elements; a structure that PyOpenCL does not know is called `name`."""
    kind = type_of(np.uint8 if dtype == np.bool_ else dtype, name)
    if isinstance(kind, Array):
        raise Error(f"an array whose elements are arrays ({dtype}) cannot be reduced; reshape it, and reduce an axis")
    return kind


def looks_whole(kind: Type, op: BuiltIn | Operator) -> bool:
    """Whether a result is a whole number, to which a floating-point map would be cut."""
    part = kind.part if isinstance(kind, Indexed) else kind
    return isinstance(part, Scalar) and part.kind != "float" and not (isinstance(op, BuiltIn) and op.is_logical)


def outputs_of(
    names: tuple[str, ...],
    dtype: np.dtype[Any],
    op: Any,
    mapped: Any,
    outputs: Any,
    initial: Any,
    asked: Any,
    *,
    neighbours: bool = False,
) -> tuple[Output, ...]:
    """The outputs of a request, checked; with `neighbours`, maps may look at other elements than their own."""
    if outputs is None:
        if isinstance(mapped, Mapping) or isinstance(initial, Mapping):
            raise Error("map= and initial= can be mappings only if outputs= names several results")
        specs: dict[str, Any] = {"result": op}
    else:
        if not isinstance(outputs, Mapping) or not outputs:
            raise Error(f"outputs= must be a mapping of name -> portbar.Reduction or operator, not {outputs!r}")
        if op != "+" or asked is not None:
            raise Error("pass op= and dtype=, or outputs=, not both: outputs={name: portbar.Reduction(dtype, op)}")
        specs = dict(outputs)
        for what, given in (("map", mapped), ("initial", initial)):
            for name in given if isinstance(given, Mapping) else ():
                if name not in specs:
                    raise Error(f"{what}= names {name!r}, which is not an output; outputs: {', '.join(specs)}")
        if initial is not None and not isinstance(initial, Mapping):
            raise Error("with outputs=, initial= must be a mapping of output -> value")
    element, made = element_type(dtype, f"{names[0]}_type"), []
    for name, spec in specs.items():
        check_name("an output", name)
        if isinstance(spec, Reduction):
            reduction = spec
        else:
            chosen = operator_of(spec)
            reduction = Reduction(_asked_dtype(dtype, chosen, asked), chosen)
        if reduction.shape is not None:
            raise Error(f"output {name!r} is an array, which only reductions inside kernels support; omit shape=")
        # A structure that is the array's own has its name.
        called = names[0] if np.dtype(reduction.dtype) == dtype else name
        kind, op = reduction.type_called(f"{called}_type"), reduction.operator
        given = mapped.get(name) if isinstance(mapped, Mapping) else mapped
        expression = _expression(given, names, neighbours=neighbours)
        if expression is None and not converts(element, kind, op):
            raise Error(
                f"output {name!r} has the type {kind.c}, to which elements of {element.c} are not converted: pass map=, an "
                f"expression of that type such as map='{_example(element, names[0])}'"
            )
        none = None if reduction.neutral is None or isinstance(op, BuiltIn) else literal(reduction.neutral, kind)
        start = name in initial if isinstance(initial, Mapping) else initial is not None
        is_bool = asked is not None and np.dtype(asked) == np.bool_
        is_whole = (
            asked is None and not isinstance(spec, Reduction) and expression is not None and looks_whole(kind, op)
        )
        made.append(Output(name, kind, op, expression, none, start=start, is_bool=is_bool, is_whole=is_whole))
    return tuple(made)


def _example(element: Type, name: str) -> str:
    """An expression that makes a number of an element."""
    if isinstance(element, Struct):
        return f"{name}.{element.members[0][0]}"
    return f"{name}.x" if isinstance(element, Complex | Vector) else name


def _asked_dtype(dtype: np.dtype[Any], op: BuiltIn | Operator, asked: Any) -> Any:
    """The type to compute a result in, of what the caller asked for, if anything."""
    if asked is None:
        return _default_dtype(dtype, op)
    if np.dtype(asked) != np.bool_:
        return asked
    if not (isinstance(op, BuiltIn) and op.is_logical):
        raise Error(
            f"dtype=bool is for logical operators such as 'any' and 'all', not {op.symbol!r}: pass another dtype="
        )
    return np.uint8


def _default_dtype(dtype: np.dtype[Any], op: BuiltIn | Operator) -> Any:
    if isinstance(op, BuiltIn) and op.is_logical and dtype.names is None:
        return np.int32
    return np.int64 if dtype == np.bool_ else dtype


def looks_around(expression: str | None, names: tuple[str, ...]) -> bool:
    """Whether a checked map expression looks at other elements than its own."""
    return any(re.search(rf"(?<![.\w]){name}\s*\[", expression or "") for name in names)


def _expression(expression: Any, names: tuple[str, ...], *, neighbours: bool) -> str | None:
    """A map expression with elements called by their arrays' names, or all of them as ``name[index]`` if it looks around."""
    if expression is None:
        if len(names) > 1:
            raise Error(
                f"with several arrays ({', '.join(names)}) each output needs a map expression, such as "
                f"map='{' * '.join(names[:2])}'"
            )
        return None
    if not isinstance(expression, str) or not expression.strip():
        raise Error(f"map= must be an OpenCL C expression such as '{names[0]} * {names[0]}', not {expression!r}")
    for name in names:
        expression = re.sub(rf"(?<![.\w]){name}\s*\[\s*i\s*\]", name, expression)
        if not neighbours and looks_around(expression, (name,)):
            raise Error(
                f"map {expression!r} reads elements of {name!r} other than {name}[i]: a map may only read {name}[i]"
            )
    if looks_around(expression, names):
        for name in names:
            expression = re.sub(rf"(?<![.\w]){name}\b(?!\s*\[)", f"{name}[i]", expression)
    if ";" in expression or "//" in expression or "\n" in expression:
        raise Error(f"map {expression!r} is more than one expression: no semicolons, line breaks or comments")
    if not expression.replace("\t", " ").isprintable():
        raise Error(f"map {expression!r} has an invisible character, which compilers reject: remove it")
    return str(expression)


def result_arrays(
    queue: cl.CommandQueue,
    inputs: tuple[cl.array.Array, ...],
    wanted: Returned,
    out: Any,
    allocator: Any = None,
    *,
    in_place: bool = False,
) -> list[cl.array.Array]:
    """The arrays that results go to; with `in_place`, they may be the first input."""
    if out is None:
        return [
            cl.array.Array(queue, wanted.shape, dtype, wanted.order, allocator=allocator or inputs[0].allocator)
            for dtype in wanted.dtypes
        ]
    if allocator is not None:
        raise LaunchError("pass out= or allocator=, not both: with out= no memory is allocated")
    if wanted.names is None:
        given = [out]
    else:
        if not isinstance(out, Mapping) or set(out) != set(wanted.names):
            raise LaunchError(f"out= must be a mapping with an array for each of the outputs {', '.join(wanted.names)}")
        given = [out[name] for name in wanted.names]
    for place, (one, dtype) in enumerate(zip(given, wanted.dtypes, strict=True)):
        check_array("out=", one)
        flags = one.flags
        is_contiguous = flags.f_contiguous if wanted.order == "F" else flags.c_contiguous
        if one.shape != wanted.shape or one.dtype != dtype or not is_contiguous or one.offset % dtype.itemsize:
            order = "in Fortran order" if wanted.order == "F" else "contiguous"
            raise LaunchError(
                f"out= must be {order} with shape {wanted.shape} and type {dtype}; it has shape {one.shape}, type "
                f"{one.dtype} and strides {one.strides}, and starts {one.offset} bytes into its buffer"
            )
        check_memory("out=", one, queue.context)
        others = [other for other in inputs if not (in_place and is_same(one, other))]
        check_apart("out=", one, [*others, *given[:place]])
    return given


def is_same(one: cl.array.Array, other: cl.array.Array) -> bool:
    """Whether two arrays are the same elements."""
    same = _place(one) == _place(other) and one.dtype == other.dtype
    return same and one.shape == other.shape and one.strides == other.strides


def check_apart(what: str, array: cl.array.Array, others: Iterable[cl.array.Array]) -> None:
    """Check that an array that results go to shares no memory with others of the call."""
    memory, start = _place(array)
    for other in others:
        other_memory, other_start = _place(other)
        if memory is None or memory != other_memory:
            continue
        if start < other_start + other.nbytes and other_start < start + array.nbytes:
            raise LaunchError(
                f"{what} shares memory with another array of the call, which is read or written meanwhile: pass separate arrays"
            )


def _place(array: cl.array.Array) -> tuple[Any, int]:
    """The memory that an array lies in, and its first byte there; a sub-buffer counts as part of its buffer."""
    memory: Any = array.base_data
    start = array.offset
    if isinstance(memory, cl.MemoryObjectHolder):
        try:
            whole = memory.get_info(cl.mem_info.ASSOCIATED_MEMOBJECT)
        except cl.LogicError:
            # The effect BUFFERS_LOST: its overlap with other parts goes unseen.
            whole = None
        if whole is not None:
            inside: Any = memory.get_info(cl.mem_info.OFFSET)
            return whole, start + inside
    return memory, start


def start_values(wanted: Returned, initial: Any) -> list[bytes | None]:
    """Initial values as their bytes."""
    if initial is None:
        return [None] * len(wanted.dtypes)
    if wanted.names is None:
        return [_start(initial, wanted.dtypes[0])]
    return [
        _start(initial[name], dtype) if name in initial else None
        for name, dtype in zip(wanted.names, wanted.dtypes, strict=True)
    ]


def _start(value: Any, dtype: np.dtype[Any]) -> bytes:
    try:
        made = converted(value, dtype)
    except (TypeError, ValueError, OverflowError) as error:
        raise LaunchError(
            f"initial={value!r} cannot be converted to {dtype} without loss: pass dtype= for the result ({error})"
        ) from None
    if made.shape != ():
        raise LaunchError(f"initial= must be one value, not an array of shape {made.shape}")
    return made.tobytes()
