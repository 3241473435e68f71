"""Checks a kernel's arguments before the launch, and says which one is wrong and what would be right.

Not for setting them: PyOpenCL does.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Final, NoReturn

import numpy as np
import pyopencl as cl
import pyopencl.array

from portbar.choices.timing import shortened
from portbar.errors import LaunchError
from portbar.launching.launch import Launch
from portbar.primitives.reduction import types
from portbar.rendering.source import without_comments

#: First hidden parameter of a kernel that uses a grid, and how many hidden parameters there are.
GRID_PARAMETER: Final = "portbar_grid_param"
LAUNCH_PARAMETER: Final = "portbar_grid_launch"
HIDDEN: Final = 2
#: The same for a kernel without a grid that reduces at gang level.
GANG_PARAMETER: Final = "portbar_reduction_param"
GANG_LAUNCH_PARAMETER: Final = "portbar_reduction_launch"
#: The same for a kernel that scans over its work-groups.
SCAN_PARAMETER: Final = "portbar_scan_param"
SCAN_LAUNCH_PARAMETER: Final = "portbar_scan_launch"

_CONTEXT: Final = cl.mem_info.CONTEXT

#: The attribute of memory objects in which the handle of their context is noted: asking the driver makes an object each time.
CONTEXT_MARK: Final = "_portbar_context"

#: Scalar types of OpenCL C, by each of their names -> the NumPy type.
SCALARS: Final[dict[str, np.dtype[Any]]] = {
    "bool": np.dtype(np.uint8),
    **{scalar.c: scalar.dtype for scalar in types.SCALARS},
    **{f"unsigned {scalar.c[1:]}": scalar.dtype for scalar in types.SCALARS if scalar.kind == "uint"},
}

_TYPEDEF: Final = re.compile(r"\btypedef\s+(?P<type>[A-Za-z_]\w*(?:\s+[A-Za-z_]\w*)?)\s+(?P<name>[A-Za-z_]\w*)\s*;")

_OBJECT: Final = re.compile(r"\b(?P<kind>image|sampler)\w*_t\b")

#: The types that PyOpenCL passes to a pointer into global or constant memory.
_MEMORY: Final = (cl.MemoryObjectHolder, cl.SVMPointer, pyopencl.array.Array)


@dataclass(frozen=True)
class Parameter:
    """One parameter of a kernel: its name, its type as written, and what kind of argument it takes.

    `kind` is `local`, `pointer`, `scalar`, or `other` (images, samplers, vectors, structs: left to PyOpenCL). `scalars` are
    the scalar types that a typedef of the author's may stand for, several where they depend on the preprocessor. `access` is
    `unchanging` for a pointer to what nothing may write during the launch (`constant`, or `const` and `restrict`), `writable`
    for a pointer to what the kernel may write, and empty for the rest.
    """

    name: str
    type_name: str
    kind: str
    scalars: tuple[str, ...] = ()
    access: str = ""

    @property
    def dtype(self) -> np.dtype[Any] | None:
        """The NumPy type of a scalar parameter, None for anything else."""
        names = self.scalars or (self.type_name,)
        scalar = SCALARS.get(names[0])
        return scalar if len(names) == 1 and self.kind == "scalar" else None


def scalar_typedefs(source: str) -> dict[str, tuple[str, ...]]:
    """Names that a program's own text gives to scalar types -> those types.

    A driver may report a parameter's type by such a name, and accept an argument of any size for it (the effect
    ARGUMENTS_UNCHECKED).
    """
    given: dict[str, set[str]] = {}
    for match in _TYPEDEF.finditer(without_comments(source, keep_strings=False)):
        given.setdefault(match["name"], set()).add(" ".join(match["type"].split()))

    def scalars(name: str, seen: frozenset[str]) -> set[str]:
        if name in SCALARS:
            return {name}
        if name in seen or name not in given:
            return set()
        return set().union(*(scalars(other, seen | {name}) for other in given[name]))

    found = {name: scalars(name, frozenset()) for name in given}
    return {name: tuple(sorted(types)) for name, types in found.items() if types}


def parameters_of(
    kernel: cl.Kernel, typedefs: Mapping[str, tuple[str, ...]] | None = None
) -> tuple[Parameter, ...] | None:
    """Return the parameters of a kernel, None if the driver does not report them. `typedefs` are as from `scalar_typedefs`."""
    query, found = cl.kernel_arg_info, []
    try:
        for index in range(kernel.num_args):
            address = kernel.get_arg_info(index, query.ADDRESS_QUALIFIER)
            type_name = str(kernel.get_arg_info(index, query.TYPE_NAME)).strip("\0 ")
            name = str(kernel.get_arg_info(index, query.NAME)).strip("\0 ")
            if address == cl.kernel_arg_address_qualifier.LOCAL:
                kind = "local"
            elif type_name.endswith("*"):
                kind = "pointer"
            elif type_name in SCALARS:
                kind = "scalar"
            else:
                kind = "other"
            access = _access(kernel, index, address) if kind == "pointer" else ""
            found.append(_with_scalars(Parameter(name, type_name, kind, access=access), typedefs or {}))
    except cl.Error:
        return None
    return tuple(found)


def _access(kernel: cl.Kernel, index: int, address: object) -> str:
    of_pointer = cl.kernel_arg_type_qualifier
    if address == cl.kernel_arg_address_qualifier.CONSTANT:
        return "unchanging"
    try:
        qualifier: Any = kernel.get_arg_info(index, cl.kernel_arg_info.TYPE_QUALIFIER)
    except cl.Error:
        return ""
    if not qualifier & of_pointer.CONST:
        return "writable"
    return "unchanging" if qualifier & of_pointer.RESTRICT and not qualifier & of_pointer.VOLATILE else ""


def exclusive_pairs(parameters: Sequence[Parameter] | None) -> tuple[tuple[int, int], ...]:
    """Places of parameters that must not get one buffer: one that a compiler takes for unchanging, and one that is written."""
    places: dict[str, list[int]] = {"unchanging": [], "writable": [], "": []}
    for index, parameter in enumerate(parameters or ()):
        places[parameter.access].append(index)
    return tuple((fixed, written) for fixed in places["unchanging"] for written in places["writable"])


def refuse_shared(kernel: str, parameters: Sequence[Parameter], fixed: int, written: int) -> NoReturn:
    """Refuse one buffer for both parameters of a pair of `exclusive_pairs`.

    Raises
    ------
    LaunchError
        Always; the message names both parameters.
    """
    first, second = parameters[fixed].name, parameters[written].name
    raise LaunchError(
        f"kernel {kernel!r}: arguments {fixed} ({first!r}) and {written} ({second!r}) are the same buffer, but the first is "
        "declared `constant` or `const restrict`: the device may read old values through it after a barrier. Remove restrict "
        "(or replace constant by global), or pass sub-buffers if the two parts are disjoint"
    )


def _with_scalars(parameter: Parameter, typedefs: Mapping[str, tuple[str, ...]]) -> Parameter:
    scalars = typedefs.get(parameter.type_name, ())
    if parameter.kind != "other" or not scalars:
        return parameter
    return replace(parameter, kind="scalar" if len(scalars) == 1 else "other", scalars=scalars)


def passed_as(parameter: Parameter) -> np.dtype[Any] | None:
    """Return how PyOpenCL should pass an argument: a scalar's type, raw bytes, or None for what it must look at itself."""
    if parameter.name in {LAUNCH_PARAMETER, GANG_LAUNCH_PARAMETER, SCAN_LAUNCH_PARAMETER}:
        return np.dtype("V16")
    return parameter.dtype


def _problem(parameter: Parameter, argument: Any) -> str | None:
    """Why `argument` cannot be passed to `parameter`, None when it can."""
    dtype = parameter.dtype
    if parameter.kind == "scalar" and dtype is not None:
        if isinstance(argument, np.generic):
            if argument.dtype != dtype:
                return f"has NumPy type {argument.dtype}, the parameter is {parameter.type_name}: pass np.{dtype}(...)"
            return None
        if isinstance(argument, bool | int | float | complex):
            return f"is a Python {type(argument).__name__}, which has no fixed size: pass np.{dtype}({argument!r})"
        return f"is a {type(argument).__name__}, the parameter is the scalar {parameter.type_name}"
    if parameter.kind == "local":
        if not isinstance(argument, cl.LocalMemory):
            return "must be pyopencl.LocalMemory(bytes), because the parameter is in local memory"
        return None
    if parameter.kind == "pointer":
        if isinstance(argument, np.ndarray):
            return "is a NumPy array in the host's memory: copy it to the device first (pyopencl.array.to_device)"
        # Allocations of other libraries show themselves by a handle; None is a null pointer.
        if argument is not None and not isinstance(argument, _MEMORY) and not hasattr(argument, "int_ptr"):
            return (
                f"is a {type(argument).__name__}, the parameter is the pointer {parameter.type_name}: pass a pyopencl.Buffer, "
                "a pyopencl.array.Array or shared virtual memory"
            )
        return None
    found = _OBJECT.search(parameter.type_name)
    if found is not None:
        # A driver may end the process over anything else: the effect ARGUMENTS_UNCHECKED.
        wanted, name = (cl.Sampler, "Sampler") if found["kind"] == "sampler" else (cl.MemoryObjectHolder, "Image")
        if not isinstance(argument, wanted) or isinstance(argument, cl.Buffer):
            given = "None" if argument is None else f"a {type(argument).__name__}"
            return f"is {given}, the parameter is the {parameter.type_name}: pass a pyopencl.{name}"
        return None
    if parameter.scalars and isinstance(argument, np.generic):
        allowed = [SCALARS[name] for name in parameter.scalars]
        if argument.dtype not in allowed:
            types = " or ".join(f"np.{dtype}" for dtype in allowed)
            return f"has NumPy type {argument.dtype}, the parameter is {parameter.type_name}: pass {types}"
        return None
    if isinstance(argument, bool | int | float | complex):
        return f"is a Python {type(argument).__name__}, which has no fixed size; the parameter is {parameter.type_name}"
    return None


def check_arguments(kernel: str, parameters: Sequence[Parameter] | None, count: int, arguments: Sequence[Any]) -> None:
    """Check the author's arguments against the author's parameters (hidden ones left out of both).

    Raises
    ------
    LaunchError
        A wrong number of arguments, or one of the wrong type; the message names it.
    """
    if len(arguments) != count:
        names = "" if parameters is None else " (" + ", ".join(f"{p.type_name} {p.name}" for p in parameters) + ")"
        raise LaunchError(
            f"kernel {kernel!r} takes {count} argument{'s' * (count != 1)}{names}, {len(arguments)} given; "
            "portbar fills in PORTBAR_GRID_PARAM itself"
        )
    for index, (parameter, argument) in enumerate(zip(parameters or (), arguments, strict=parameters is not None)):
        problem = _problem(parameter, argument)
        if problem is not None:
            raise LaunchError(f"argument {index} ({parameter.name!r}) of kernel {kernel!r} {problem}")


def base_buffer(kernel: str, parameters: Sequence[Parameter] | None, index: int, array: pyopencl.array.Array) -> Any:
    """Return the memory of a PyOpenCL array argument.

    Raises
    ------
    LaunchError
        The array starts inside its buffer, or is not contiguous: the kernel would see other elements than the caller.
    """
    if not array.offset and array.flags.forc:
        return array.base_data
    name = "" if parameters is None else f" ({parameters[index].name!r})"
    if array.offset:
        raise LaunchError(
            f"argument {index}{name} of kernel {kernel!r} is an array that starts {array.offset} bytes into its buffer; "
            "pass array.copy(), or array.base_data and the offset as an argument of its own"
        )
    raise LaunchError(
        f"argument {index}{name} of kernel {kernel!r} is an array that is not contiguous; pass array.copy()"
    )


def check_memory_contexts(kernel: str, context: cl.Context, indices: Sequence[int], arguments: Sequence[Any]) -> None:
    """Check that the buffers at these places belong to the program's context; some drivers take any.

    Empty arrays have no memory, and shared virtual memory does not expose its context: both pass.

    Raises
    ------
    LaunchError
        A buffer of another context.
    """
    handle = context.int_ptr
    for index in indices:
        memory = arguments[index]
        if not isinstance(memory, cl.MemoryObjectHolder) or getattr(memory, CONTEXT_MARK, None) == handle:
            continue
        if memory.get_info(_CONTEXT) != context:
            raise LaunchError(
                f"argument {index} of kernel {kernel!r} is a buffer of another context; allocate it in the program's context"
            )
        with suppress(AttributeError):
            # An object never changes its context, and ends with its mark.
            setattr(memory, CONTEXT_MARK, handle)


def check_local_memory(kernel: cl.Kernel, device: cl.Device, sizes: Sequence[int]) -> None:
    """Check that a launch's `LocalMemory` arguments fit a device, over which a driver may end the process.

    That is the effect ARGUMENTS_UNCHECKED. `kernel` has no arguments yet: some drivers count those that are set as the
    kernel's own memory.

    Raises
    ------
    LaunchError
        Together with the kernel's own they are larger than the device's local memory.
    """
    own = int(kernel.get_work_group_info(cl.kernel_work_group_info.LOCAL_MEM_SIZE, device))
    if own + sum(sizes) > device.local_mem_size:
        raise LaunchError(
            f"kernel {kernel.function_name!r}: its LocalMemory arguments take {sum(sizes)} bytes of local memory and its own "
            f"variables {own}, but {device.name.strip()} has {device.local_mem_size}; pass a smaller pyopencl.LocalMemory"
        )


def check_queue(queue: Any) -> None:
    """Check the first argument of a launch.

    Raises
    ------
    LaunchError
        It is not a queue.
    """
    if not isinstance(queue, cl.CommandQueue):
        raise LaunchError(f"the first argument must be a pyopencl.CommandQueue, not {type(queue).__name__}")


def events_of(caller: str, wait_for: Any) -> list[cl.Event]:
    """The events of a wait list, in which a `Launch` stands for its own.

    Raises
    ------
    LaunchError
        It is not a list, or holds something else.
    """
    if isinstance(wait_for, cl.Event | Launch):
        raise LaunchError(f"{caller}: wait_for must be a list of events, such as [event], not a single event")
    if not isinstance(wait_for, Iterable):
        raise LaunchError(f"{caller}: wait_for must be a list of events, not {type(wait_for).__name__}")
    events = [one.event if isinstance(one, Launch) else one for one in wait_for]
    for one in events:
        if not isinstance(one, cl.Event):
            raise LaunchError(f"{caller}: wait_for must be a list of events, but it contains {shortened(one)}")
    return events


def dummy_arguments(
    context: cl.Context, kernel: str, parameters: Sequence[Parameter] | None, count: int
) -> tuple[Any, ...]:
    """Arguments good enough for a launch that returns before any user code.

    Raises
    ------
    LaunchError
        A parameter's argument cannot be invented: the size of a local one matters, an image has a format.
    """
    if parameters is None and count:
        raise LaunchError(
            f"the driver does not report the arguments of kernel {kernel!r}: pass them after the local size"
        )
    made: list[Any] = []
    scratch: cl.Buffer | None = None
    for parameter in parameters or ():
        if parameter.kind == "pointer":
            scratch = scratch or cl.Buffer(context, cl.mem_flags.READ_WRITE, 256)
            made.append(scratch)
        elif parameter.dtype is not None:
            made.append(parameter.dtype.type(0))
        else:
            raise LaunchError(
                f"the occupancy of kernel {kernel!r} depends on its argument {parameter.name!r} "
                f"({parameter.type_name}): pass the kernel's arguments after the local size"
            )
    return tuple(made)
