"""Checks a kernel's arguments before the launch: a `LaunchError` says which one is wrong and what would be right."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyopencl as cl
import pyopencl.array

from portbar.choices.timing import shortened
from portbar.errors import LaunchError
from portbar.launching.compiled import CompiledKernel
from portbar.launching.launch import Launch
from portbar.launching.parameters import SCALARS, Parameter
from portbar.records.plain import amount

_CONTEXT: Final = cl.mem_info.CONTEXT

#: The attribute of memory objects in which the handle of their context is noted: asking the driver makes an object each time.
CONTEXT_MARK: Final = "_portbar_context"

_OBJECT: Final = re.compile(r"\b(?P<kind>image|sampler)\w*_t\b")

#: The types that PyOpenCL passes to a pointer into global or constant memory.
_MEMORY: Final = (cl.MemoryObjectHolder, cl.SVMPointer, pyopencl.array.Array)


@dataclass(frozen=True)
class Signature:
    """The work that an argument list needs at each launch: the places of arrays, local memory and buffers."""

    arrays: tuple[int, ...]
    locals: tuple[int, ...]
    memories: tuple[int, ...]
    #: Places that may hold a pointer to shared virtual memory, which an array may lie in, too.
    pointers: tuple[int, ...]

    @property
    def is_simple(self) -> bool:
        """Whether all arguments are buffers and scalars, so that their types and the sizes determine the plan."""
        return not (self.arrays or self.locals or self.pointers)


def signature_of(args: Sequence[Any]) -> Signature:
    """Return what arguments need at each launch, which depends on their types alone."""

    def places(*types: type) -> tuple[int, ...]:
        return tuple(index for index, argument in enumerate(args) if isinstance(argument, types))

    array = pyopencl.array.Array
    return Signature(
        places(array), places(cl.LocalMemory), places(cl.MemoryObjectHolder, array), places(cl.SVMPointer, array)
    )


def _problem(parameter: Parameter, argument: Any) -> str | None:
    """Why `argument` cannot be passed to `parameter`, None when it can."""
    kind, type_name = parameter.kind, parameter.type_name
    given = "is None" if argument is None else f"is a {type(argument).__name__}"
    if kind == "local":
        fits = isinstance(argument, cl.LocalMemory)
        return None if fits else "must be pyopencl.LocalMemory(bytes), because the parameter is in local memory"
    if kind == "pointer":
        if isinstance(argument, np.ndarray):
            return "is a NumPy array in the host's memory: copy it to the device first (pyopencl.array.to_device)"
        # None is a null pointer. A driver may end the process over anything else: the effect ARGUMENTS_UNCHECKED.
        if argument is None or (isinstance(argument, _MEMORY) and not isinstance(argument, cl.Image)):
            return None
        return (
            f"{given}, the parameter is the pointer {type_name}: pass a pyopencl.Buffer, a pyopencl.array.Array or shared "
            "virtual memory"
        )
    found = _OBJECT.search(type_name)
    if found is not None:
        wanted, name = (cl.Sampler, "Sampler") if found["kind"] == "sampler" else (cl.MemoryObjectHolder, "Image")
        fits = isinstance(argument, wanted) and not isinstance(argument, cl.Buffer)
        return None if fits else f"{given}, the parameter is the {type_name}: pass a pyopencl.{name}"
    allowed = [SCALARS[name] for name in parameter.scalars or (type_name,) if name in SCALARS]
    if isinstance(argument, np.generic):
        if not allowed or argument.dtype in allowed:
            return None
        types = " or ".join(f"np.{dtype}(...)" for dtype in allowed)
        return f"has NumPy type {argument.dtype}, the parameter is {type_name}: pass {types}"
    if isinstance(argument, bool | int | float | complex):
        remedy = f": pass np.{parameter.dtype}({argument!r})" if kind == "scalar" else f"; the parameter is {type_name}"
        return f"is a Python {type(argument).__name__}, which has no fixed size{remedy}"
    return f"{given}, the parameter is {type_name}: pass np.{parameter.dtype}(...)" if kind == "scalar" else None


def check_arguments(kernel: CompiledKernel, args: Sequence[Any]) -> None:
    """Check the author's arguments against the author's parameters."""
    parameters = kernel.parameters
    if len(args) != kernel.count:
        names = "" if parameters is None else " (" + ", ".join(f"{p.type_name} {p.name}" for p in parameters) + ")"
        raise LaunchError(
            f"kernel {kernel.name!r} takes {amount(kernel.count, 'argument')}{names}, {len(args)} given; "
            "portbar fills in PORTBAR_GRID_PARAM itself"
        )
    for index, parameter in enumerate(parameters or ()):
        problem = _problem(parameter, args[index])
        if problem is not None:
            raise LaunchError(f"argument {index} ({parameter.name!r}) of kernel {kernel.name!r} {problem}")


def without_arrays(kernel: CompiledKernel, signature: Signature, args: Sequence[Any]) -> tuple[Any, ...]:
    """Return the arguments with the memory of arrays in their place, where a kernel would see the caller's elements."""
    bare = list(args)
    for index in signature.arrays:
        array = args[index]
        name = "" if kernel.parameters is None else f" ({kernel.parameters[index].name!r})"
        where = f"argument {index}{name} of kernel {kernel.name!r} is an array that"
        if array.offset:
            raise LaunchError(
                f"{where} starts {array.offset} bytes into its buffer; pass array.copy(), or array.base_data and the offset as "
                "an argument of its own"
            )
        if not array.flags.forc:
            raise LaunchError(f"{where} is not contiguous; pass array.copy()")
        bare[index] = array.base_data
    return tuple(bare)


def check_exclusive(kernel: CompiledKernel, args: Sequence[Any]) -> None:
    """Refuse one buffer for a parameter that a compiler takes for unchanging and for one that the kernel writes."""
    for fixed, written in kernel.exclusive:
        if args[fixed] is args[written] and args[fixed] is not None:
            first, second = ((kernel.parameters or ())[place].name for place in (fixed, written))
            raise LaunchError(
                f"kernel {kernel.name!r}: arguments {fixed} ({first!r}) and {written} ({second!r}) are the same buffer, but "
                "the first is declared `constant` or `const restrict`: the device may read old values through it after a "
                "barrier. Remove restrict (or replace constant by global), or pass sub-buffers if the two parts are disjoint"
            )


def check_memory_contexts(kernel: str, context: cl.Context, places: Sequence[int], args: Sequence[Any]) -> None:
    """Check that the buffers at these places belong to the program's context; some drivers take any.

    Empty arrays have no memory, and shared virtual memory does not expose its context: both pass.
    """
    handle = context.int_ptr
    for index in places:
        memory = args[index]
        if not isinstance(memory, cl.MemoryObjectHolder) or getattr(memory, CONTEXT_MARK, None) == handle:
            continue
        if memory.get_info(_CONTEXT) != context:
            raise LaunchError(
                f"argument {index} of kernel {kernel!r} is a buffer of another context; allocate it in the program's context"
            )
        with suppress(AttributeError):
            # An object never changes its context, and ends with its mark.
            setattr(memory, CONTEXT_MARK, handle)


def check_local_memory(kernel: CompiledKernel, device: cl.Device, sizes: Sequence[int]) -> None:
    """Check that `LocalMemory` arguments fit a device, over which a driver may end the process (ARGUMENTS_UNCHECKED)."""
    if not sizes:
        return
    # Of a new kernel object: some drivers count arguments that are set as the kernel's own memory.
    own = own_local_bytes(cl.Kernel(kernel.program.built(device), kernel.name), device)
    if own + sum(sizes) > device.local_mem_size:
        raise LaunchError(
            f"kernel {kernel.name!r}: its LocalMemory arguments take {sum(sizes)} bytes of local memory and its own variables "
            f"{own}, but {device.name.strip()} has {device.local_mem_size}; pass a smaller pyopencl.LocalMemory"
        )


def own_local_bytes(handle: cl.Kernel, device: cl.Device) -> int:
    """Bytes of local memory that a kernel takes."""
    return int(handle.get_work_group_info(cl.kernel_work_group_info.LOCAL_MEM_SIZE, device))


def check_queue(queue: Any) -> None:
    """Check that the first argument of a launch is a queue."""
    if not isinstance(queue, cl.CommandQueue):
        raise LaunchError(f"the first argument must be a pyopencl.CommandQueue, not {type(queue).__name__}")


def check_context(kernel: CompiledKernel, queue: cl.CommandQueue) -> None:
    """Check that a queue belongs to the program's context, and its device to the program."""
    kernel.program.strategy(queue.device)  # refuses a device that the program was not built for
    if queue.context != kernel.program.context:
        raise LaunchError(f"kernel {kernel.name!r}: the queue belongs to another context than the program")


def events_of(caller: str, wait_for: Any) -> list[cl.Event]:
    """The events of a wait list, in which a `Launch` stands for its own."""
    if isinstance(wait_for, cl.Event | Launch):
        raise LaunchError(f"{caller}: wait_for must be a list of events, such as [event], not a single event")
    if not isinstance(wait_for, Iterable):
        raise LaunchError(f"{caller}: wait_for must be a list of events, not {type(wait_for).__name__}")
    events = [one.event if isinstance(one, Launch) else one for one in wait_for]
    for one in events:
        if not isinstance(one, cl.Event):
            raise LaunchError(f"{caller}: wait_for must be a list of events, but it contains {shortened(one)}")
    return events


def dummy_arguments(kernel: CompiledKernel) -> tuple[Any, ...]:
    """Arguments good enough for a launch that returns before any user code; images and local memory cannot be invented."""
    if kernel.parameters is None and kernel.count:
        raise LaunchError(
            f"the driver does not report the arguments of kernel {kernel.name!r}: pass them after the local size"
        )
    made: list[Any] = []
    for parameter in kernel.parameters or ():
        if parameter.kind == "pointer":
            made.append(cl.Buffer(kernel.program.context, cl.mem_flags.READ_WRITE, 256))
        elif parameter.dtype is not None:
            made.append(parameter.dtype.type(0))
        else:
            raise LaunchError(
                f"the occupancy of kernel {kernel.name!r} depends on its argument {parameter.name!r} "
                f"({parameter.type_name}): pass the kernel's arguments after the local size"
            )
    return tuple(made)
