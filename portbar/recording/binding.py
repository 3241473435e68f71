"""The arguments of a step as they are recorded: memory, sizes of local memory, and values as the parameters take them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import pyopencl as cl
import pyopencl.array

from portbar.choices.timing import shortened
from portbar.errors import LaunchError
from portbar.primitives.run_kernels.phases import Phase, PhaseParameter
from portbar.recording.steps import Argument, Buffer, Local, Opaque, StepValue, Turn
from portbar.records.plain import amount

_KINDS: Final = cl.mem_object_type
#: Types of images in OpenCL C -> kinds of memory objects.
_IMAGES: Final = {
    "image1d_t": _KINDS.IMAGE1D,
    "image1d_array_t": _KINDS.IMAGE1D_ARRAY,
    "image1d_buffer_t": _KINDS.IMAGE1D_BUFFER,
    "image2d_t": _KINDS.IMAGE2D,
    "image2d_array_t": _KINDS.IMAGE2D_ARRAY,
    "image3d_t": _KINDS.IMAGE3D,
}
#: CL_DEPTH, which PyOpenCL does not name.
_DEPTH: Final = 0x10BD


def bound(label: str, phase: Phase, args: Sequence[Any]) -> tuple[Argument, ...]:
    """The arguments of a call; `LaunchError` names the one that cannot be right."""
    if len(args) != len(phase.parameters):
        names = ", ".join(f"{one.type_name} {one.name}" for one in phase.parameters)
        raise LaunchError(f"{label} takes {amount(len(phase.parameters), 'argument')} ({names}), {len(args)} given")
    return tuple(
        _bound(f"{label}: argument {index} ({parameter.name!r})", parameter, argument)
        for index, (parameter, argument) in enumerate(zip(phase.parameters, args, strict=True))
    )


def _bound(where: str, parameter: PhaseParameter, argument: Any) -> Argument:
    if parameter.kind == "local":
        if not isinstance(argument, cl.LocalMemory):
            raise LaunchError(f"{where} is in local memory: pass pyopencl.LocalMemory(bytes)")
        return Local(argument.size)
    if parameter.kind == "image":
        return _image(where, parameter, argument)
    if parameter.kind == "sampler":
        if not isinstance(argument, cl.Sampler):
            raise LaunchError(f"{where} is a {parameter.type_name}: pass a pyopencl.Sampler")
        return Opaque(argument, parameter.type_name)
    if parameter.kind != "value":
        return buffer_of(where, argument)
    if isinstance(argument, Turn):
        if parameter.dtype is None:
            raise LaunchError(f"{where} is a {parameter.type_name}: only scalars can change from turn to turn")
        wrong = argument.outside(parameter.dtype)
        if wrong is not None:
            raise LaunchError(f"{where} is {shortened(wrong)} in a turn, which {parameter.type_name} does not hold")
        return StepValue(b"", argument, parameter.dtype)
    return StepValue(_bytes(where, parameter, argument))


def _image(where: str, parameter: PhaseParameter, argument: Any) -> Opaque:
    """An image of the kind that a parameter takes. Not all drivers check that."""
    is_depth = "_depth" in parameter.type_name
    wanted = _IMAGES.get(parameter.type_name.removeprefix("read_only ").replace("_depth", ""))
    if (
        not isinstance(argument, cl.Image)
        or argument.get_info(cl.mem_info.TYPE) != wanted
        or (argument.format.channel_order == _DEPTH) != is_depth
    ):
        raise LaunchError(f"{where} is a {parameter.type_name}: pass a pyopencl.Image of that kind")
    flags: Any = argument.get_info(cl.mem_info.FLAGS)
    if flags & cl.mem_flags.WRITE_ONLY:
        raise LaunchError(f"{where} is an image that was made with WRITE_ONLY, and the kernel reads it")
    return Opaque(argument, parameter.type_name, _root_of(argument))


def buffer_of(where: str, argument: Any) -> Buffer:
    """An argument in memory."""
    if isinstance(argument, pyopencl.array.Array):
        if argument.offset:
            raise LaunchError(f"{where} is an array that starts {argument.offset} bytes into its buffer: pass a copy")
        if not argument.flags.forc:
            raise LaunchError(f"{where} is an array that is not contiguous: pass a copy")
        argument = argument.base_data
    if argument is None:
        return Buffer(None, 0)
    if (
        not isinstance(argument, cl.MemoryObjectHolder)
        or argument.get_info(cl.mem_info.TYPE) != cl.mem_object_type.BUFFER
    ):
        raise LaunchError(
            f"{where} is a {type(argument).__name__}: pass a pyopencl.Buffer or a pyopencl.array.Array, or launch this "
            "kernel on its own"
        )
    return Buffer(argument, _root_of(argument))


def _root_of(memory: Any) -> int:
    """The memory object that another is a part of, or it itself."""
    try:
        whole: Any = memory.get_info(cl.mem_info.ASSOCIATED_MEMOBJECT)
    except cl.Error:  # Intel's, where the buffer of an image is gone
        whole = None
    return int(memory.int_ptr if whole is None else _root_of(whole))


def _bytes(where: str, parameter: PhaseParameter, argument: Any) -> bytes:
    """A value as the parameter takes it."""
    dtype = parameter.dtype
    if dtype is not None and isinstance(argument, bool | int | float | np.bool_):
        if isinstance(argument, float):
            return np.array(argument).astype(dtype).tobytes()
        try:
            # NumPy before 2 would wrap an integer that does not fit.
            held = dtype.kind not in "iu" or np.iinfo(dtype).min <= argument <= np.iinfo(dtype).max
            value: Any = dtype.type(argument) if held else None
        except OverflowError:
            value = None
        if value is None:
            raise LaunchError(f"{where} is {shortened(argument)}, which {parameter.type_name} does not hold")
        return bytes(value.tobytes())
    if isinstance(argument, np.generic | np.ndarray):
        if dtype is not None and argument.dtype != dtype:
            raise LaunchError(
                f"{where} has NumPy type {argument.dtype}: pass np.{dtype}(...) for {parameter.type_name}"
            )
        data = argument.tobytes()
    else:
        try:
            data = bytes(memoryview(argument))
        except TypeError:
            raise LaunchError(
                f"{where} is a {type(argument).__name__}: pass a NumPy value for {parameter.type_name}"
            ) from None
    if parameter.size is not None and len(data) != parameter.size:
        raise LaunchError(f"{where} has {len(data)} bytes: {parameter.type_name} has {parameter.size}")
    return data
