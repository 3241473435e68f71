"""Checks a kernel's arguments before the launch: a `LaunchError` says which one is wrong and what would be right."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

import numpy as np
import pyopencl as cl
import pyopencl.array

from portbar.choices.timing import shortened
from portbar.errors import LaunchError
from portbar.launching.compiled import CompiledKernel
from portbar.launching.launch import Launch
from portbar.launching.parameters import KernelParameter, scalar_of
from portbar.launching.queues import awaited, hides_failures
from portbar.primitives.scalars import TYPES
from portbar.records.dataclass import dataclass
from portbar.records.plain import amount

_CONTEXT: Final = cl.mem_info.CONTEXT

#: The remedy for strides: PyOpenCL copies no such array.
CONTIGUOUS: Final = (
    "gather its elements by pyopencl.array.take(whole, indices), or slice it on the host, by numpy.ascontiguousarray before "
    "to_device"
)

#: The attributes of memory objects in which the handle of their context is noted: asking the driver makes an object each
#: time. A pointer takes memory with the first one, an image or a pipe memory with the second.
CONTEXT_MARK: Final = "_portbar_context"
OBJECT_MARK: Final = "_portbar_object_context"

_OBJECT: Final = r"\b(?:(?P<kind>image|sampler)\w*_t\b|(?P<pipe>pipe) )"

#: Types of memory objects; all others are images.
_OBJECT_KINDS: Final[dict[Any, str]] = {cl.mem_object_type.BUFFER: "buffer", cl.mem_object_type.PIPE: "pipe"}

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
    #: Whether all arguments are buffers and scalars, so that their types and the sizes determine the plan.
    is_simple: bool


def signature_of(args: Sequence[Any]) -> Signature:
    """Return what arguments need at each launch, which depends on their types alone."""

    def places(*types: type) -> tuple[int, ...]:
        return tuple(index for index, argument in enumerate(args) if isinstance(argument, types))

    array = pyopencl.array.Array
    arrays, in_local, pointers = places(array), places(cl.LocalMemory), places(cl.SVMPointer, array)
    simple = not (arrays or in_local or pointers)
    return Signature(arrays, in_local, places(cl.MemoryObjectHolder, array), pointers, simple)


def _problem(parameter: KernelParameter, argument: Any) -> str | None:
    """Why `argument` cannot be passed to `parameter`, None when it can."""
    kind, type_name = parameter.kind, parameter.type_name
    name = type(argument).__name__
    given = "is None" if argument is None else f"is {'an' if name[0] in 'AEIOUaeiou' else 'a'} {name}"
    if kind == "local":
        fits = isinstance(argument, cl.LocalMemory)
        return None if fits else "must be pyopencl.LocalMemory(bytes), because the parameter is in local memory"
    if kind == "pointer":
        if isinstance(argument, np.ndarray):
            return "is a NumPy array in the host's memory: copy it to the device first (pyopencl.array.to_device)"
        # None is a null pointer. A driver may end the process over anything else: the effect ARGUMENTS_UNCHECKED.
        if argument is None or (isinstance(argument, _MEMORY) and _object_kind(argument) in {"", "buffer"}):
            return None
        return (
            f"{given}, the parameter is the pointer {type_name}: pass a pyopencl.Buffer, a pyopencl.array.Array or shared "
            "virtual memory"
        )
    found = re.search(_OBJECT, type_name)
    if found is not None:
        wanted = found["kind"] or found["pipe"]
        fits = isinstance(argument, cl.Sampler) if wanted == "sampler" else _object_kind(argument) == wanted
        return None if fits else f"{given}, the parameter is the {type_name}: pass a pyopencl.{wanted.capitalize()}"
    if isinstance(argument, np.generic):
        wanted = TYPES.get(parameter.scalar or type_name)
        if wanted is None or argument.dtype == wanted:
            return None
        return f"has NumPy type {argument.dtype}, the parameter is {type_name}: pass np.{wanted}(...)"
    if kind == "scalar" and isinstance(argument, pyopencl.array.Array):
        return (
            f"is an array in the device's memory, the parameter is {type_name}: declare a pointer, global const {type_name} *, "
            "or pass array.get()[()], which waits for it"
        )
    if isinstance(argument, bool | int | float | complex):
        remedy = f": pass np.{parameter.dtype}({argument!r})" if kind == "scalar" else f"; the parameter is {type_name}"
        return f"is a Python {type(argument).__name__}, which has no fixed size{remedy}"
    return f"{given}, the parameter is {type_name}: pass np.{parameter.dtype}(...)" if kind == "scalar" else None


def _object_kind(argument: Any) -> str:
    """``buffer``, ``image`` or ``pipe``; empty for an argument that is not a memory object."""
    if not isinstance(argument, cl.MemoryObjectHolder):
        return ""
    kind: Any = argument.get_info(cl.mem_info.TYPE)
    return _OBJECT_KINDS.get(kind, "image")


def as_scalar(argument: Any) -> Any:
    """An argument, as a NumPy scalar if it is an array of shape ``()`` in the host's memory."""
    return argument[()] if isinstance(argument, np.ndarray) and argument.ndim == 0 else argument


def check_arguments(kernel: CompiledKernel, args: Sequence[Any]) -> None:
    """Check the author's arguments against the author's parameters."""
    parameters = kernel.parameters
    if len(args) != kernel.count:
        names = "" if parameters is None else " (" + ", ".join(f"{p.type_name} {p.name}" for p in parameters) + ")"
        raise LaunchError(
            f"kernel {kernel.name!r} takes {amount(kernel.count, 'argument')}{names}, {len(args)} given; "
            "portbar fills in PORTBAR_GRID_PARAM itself"
        )
    for index in range(len(parameters or ())):
        _check(kernel, index, args[index])


def _check(kernel: CompiledKernel, index: int, argument: Any) -> None:
    """Check an argument of a kernel whose parameters are known."""
    parameter = (kernel.parameters or ())[index]
    problem = _problem(parameter, argument)
    if problem is not None:
        raise LaunchError(f"argument {index} ({parameter.name!r}) of kernel {kernel.name!r} {problem}")


def without_arrays(kernel: CompiledKernel, signature: Signature, args: Sequence[Any]) -> tuple[Any, ...]:
    """Return the arguments with the memory of arrays in their place, where a kernel would see the caller's elements."""
    bare = list(args)
    for index in signature.arrays:
        array = args[index]
        if (index, array.dtype) not in kernel.fitting:
            _check_elements(kernel, index, array.dtype)
        name = "" if kernel.parameters is None else f" ({kernel.parameters[index].name!r})"
        where = f"argument {index}{name} of kernel {kernel.name!r} is an array that"
        if array.offset:
            raise LaunchError(
                f"{where} starts {array.offset} bytes into its buffer; pass array.copy(), or array.base_data and the offset as "
                "an argument of its own"
            )
        if not array.flags.forc:
            raise LaunchError(f"{where} has strides {array.strides} and is not contiguous: {CONTIGUOUS}")
        bare[index] = array.base_data
    return tuple(bare)


def _check_elements(kernel: CompiledKernel, index: int, dtype: np.dtype[Any]) -> None:
    """Check the type of an array's elements, and note it where it fits."""
    if kernel.parameters is not None:
        parameter = kernel.parameters[index]
        problem = misfit(parameter, dtype)
        if problem is not None:
            raise LaunchError(f"argument {index} ({parameter.name!r}) of kernel {kernel.name!r} {problem}")
    kernel.fitting.add((index, dtype))


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


def check_memory(kernel: CompiledKernel, places: Sequence[int], args: Sequence[Any]) -> None:
    """Check that the memory objects at these places are of the right kind and of the program's context; some drivers take any.

    Empty arrays have no memory, and shared virtual memory does not expose its context: both pass.
    """
    context = kernel.program.context
    handle = context.int_ptr
    for index in places:
        memory = args[index]
        if not isinstance(memory, cl.MemoryObjectHolder):
            continue
        known = kernel.parameters
        mark = OBJECT_MARK if known is not None and known[index].kind == "other" else CONTEXT_MARK
        if getattr(memory, mark, None) == handle:
            continue
        try:
            if known is not None:
                _check(kernel, index, memory)
            is_own = memory.get_info(_CONTEXT) == context
        except cl.Error as error:
            raise LaunchError(
                f"argument {index} of kernel {kernel.name!r} is a memory object that the driver no longer knows ({error}): "
                "it or its context was released; allocate it in the program's context"
            ) from error
        if not is_own:
            raise LaunchError(
                f"argument {index} of kernel {kernel.name!r} is a memory object of another context; allocate it in the "
                "program's context"
            )
        with suppress(AttributeError):
            # An object never changes its context nor its kind, and ends with its mark.
            setattr(memory, mark, handle)


#: The arguments of one launch as the driver gets them, with the memory of arrays in their place; the types of the caller's,
#: with NumPy scalars for arrays of shape ``()``; what such ones need; the events to wait for; and the arrays, by their places.
Taken = tuple[tuple[Any, ...], tuple[type, ...], Signature, list[cl.Event] | None, Mapping[int, pyopencl.array.Array]]


class Arguments:
    """Checks the arguments of one kernel's launches, and keeps what it found for each list of their types."""

    def __init__(self, kernel: CompiledKernel) -> None:
        self._kernel = kernel
        self._signatures: dict[tuple[type, ...], Signature] = {}
        self._failures_hidden = any(map(hides_failures, kernel.program.devices))

    def take(self, queue: Any, args: tuple[Any, ...], wait_for: Any) -> Taken:
        """Check all that a caller passes to a launch but its sizes."""
        check_queue(queue)
        kernel = self._kernel
        types = tuple(map(type, args))
        if np.ndarray in types:
            args = tuple(map(as_scalar, args))
            types = tuple(map(type, args))
        signature = self._signatures.get(types)
        if signature is None:
            signature = self.signature(types, args)
        if wait_for is not None:
            wait_for = events_of(f"kernel {kernel.name!r}", wait_for)
        arrays: dict[int, pyopencl.array.Array] = {}
        if signature.arrays:
            arrays = {place: args[place] for place in signature.arrays}
            args = without_arrays(kernel, signature, args)
        if kernel.exclusive:
            check_exclusive(kernel, args)
        if wait_for or arrays:
            wait_for = awaited(f"kernel {kernel.name!r}", wait_for, arrays, hidden=self._failures_hidden)
        check_memory(kernel, signature.memories, args)
        return args, types, signature, wait_for, arrays

    def signature(self, types: tuple[type, ...], args: Sequence[Any]) -> Signature:
        """Check arguments, and return what such ones need at each launch."""
        check_arguments(self._kernel, args)
        signature = signature_of(args)
        if self._kernel.parameters is not None:
            self._signatures[types] = signature
        return signature


def check_local_memory(kernel: CompiledKernel, device: cl.Device, sizes: Sequence[int]) -> None:
    """Check that `LocalMemory` arguments fit a device, over which a driver may end the process (ARGUMENTS_UNCHECKED)."""
    if not sizes:
        return
    if 0 in sizes:
        places = [index for index, parameter in enumerate(kernel.parameters or ()) if parameter.kind == "local"]
        where = f"argument {places[sizes.index(0)]}" if len(places) == len(sizes) else "an argument"
        raise LaunchError(
            f"{where} of kernel {kernel.name!r} is LocalMemory(0), which no driver takes: pass a pyopencl.LocalMemory of at "
            "least 1 byte"
        )
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


#: Kinds of NumPy types whose values are whole numbers, or count as such in memory.
_WHOLE: Final = "biuMm"
#: Those that OpenCL C has no other name for than these types or their parts.
_KNOWN: Final = f"{_WHOLE}fc"


def misfit(parameter: KernelParameter, dtype: np.dtype[Any]) -> str | None:
    """Why an array of a type cannot be passed for a pointer; None where it can, or nothing is known.

    Signed and unsigned integers of one size may stand for each other, and an array of scalars for one of vectors, complex
    numbers or structures of them. Pointers to bytes take all arrays.
    """
    name = parameter.scalar or scalar_of(parameter.type_name)
    if name is None or any(_fits(part, TYPES[name]) for part in _parts(dtype)):
        return None
    return (
        f"is an array of {_shown(dtype)}, the parameter is the pointer {parameter.type_name}: pass an array of "
        f"{TYPES[name]}, or "
        "array.data to pass its bytes as they are"
    )


def _parts(dtype: np.dtype[Any]) -> Iterator[np.dtype[Any]]:
    """The scalars that an element consists of."""
    if dtype.subdtype is not None:
        yield from _parts(dtype.subdtype[0])
    elif dtype.fields is not None:
        for name in dtype.names or ():
            yield from _parts(dtype.fields[name][0])
    elif dtype.kind == "c":
        yield np.dtype(f"f{dtype.itemsize // 2}").newbyteorder(dtype.byteorder)
    else:
        yield dtype


def _fits(part: np.dtype[Any], scalar: np.dtype[Any]) -> bool:
    if scalar.itemsize == 1 or part.kind not in _KNOWN:
        return True
    same_kind = (part.kind in _WHOLE) == (scalar.kind in _WHOLE)
    return same_kind and part.itemsize == scalar.itemsize and part.isnative


def _shown(dtype: np.dtype[Any]) -> str:
    """A type in a message; structures may be long."""
    if dtype.fields is not None:
        return "structures of " + ", ".join(dict.fromkeys(str(part) for part in _parts(dtype)))
    return str(dtype)
