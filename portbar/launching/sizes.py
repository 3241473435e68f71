"""Sizes of a launch: those that a caller gives, or a `LaunchError`, and the local size that suits a kernel and a device."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

import pyopencl as cl

from portbar.choices.timing import is_cpu, shortened
from portbar.device import quirks
from portbar.device.facts import DeviceFacts, ask
from portbar.errors import LaunchError, UnsupportedFeatureError
from portbar.launching.arguments import check_queue
from portbar.launching.compiled import CompiledKernel
from portbar.launching.parameters import GRID, SCAN, Parameter, bytes_of
from portbar.primitives import layout
from portbar.records.plain import amount
from portbar.rendering.source import mentions

Size = tuple[int, ...]


class Shape(NamedTuple):
    """A launch but for its queue and arguments."""

    global_size: Sequence[int] | None
    local_size: Sequence[int] | None
    num_groups: int | None
    #: Most work-groups, where portbar chooses their number; None without a bound.
    most: int | None

    def as_key(self) -> Shape:
        """The same with sizes that a mapping takes as keys."""
        global_size, local_size = (tuple(size) if isinstance(size, Iterable) else size for size in self[:2])
        return Shape(global_size, local_size, self.num_groups, self.most)


#: Work-items of a work-group on a GPU, unless the kernel's limit is below.
_USUAL: Final = 256

#: A program that names one of these may hand out work in steps of the whole grid.
_STRIDES: Final = ("portbar_global_size", "portbar_num_groups", "get_global_size", "get_num_groups")


def as_size(what: str, size: Sequence[int]) -> Size:
    """A size that a caller gives, one to three whole numbers above 0."""
    try:
        dims = tuple(int(n) for n in size)
    except (TypeError, ValueError, OverflowError):
        raise LaunchError(f"the {what} must be a tuple of one to three integers, not {size!r}") from None
    if not 1 <= len(dims) <= 3 or any(n < 1 for n in dims) or dims != tuple(size):
        raise LaunchError(f"the {what} must be one to three integers above 0, not {size!r}")
    return dims


def required_size(handle: cl.Kernel, device: cl.Device) -> Size | None:
    """The kernel's `reqd_work_group_size`, None where it has none."""
    query = cl.kernel_work_group_info
    required = tuple(int(n) for n in handle.get_work_group_info(query.COMPILE_WORK_GROUP_SIZE, device))
    return required if any(required) else None


def largest(handle: cl.Kernel, device: cl.Device, facts: DeviceFacts) -> int:
    """Most work-items of a work-group of a kernel."""
    if quirks.has_effect(quirks.UNDERSTATED_WORK_GROUP_SIZE, facts):
        return int(device.max_work_group_size)
    return int(handle.get_work_group_info(cl.kernel_work_group_info.WORK_GROUP_SIZE, device))


def checked_local_size(kernel: CompiledKernel, device: cl.Device, local_size: Sequence[int] | None) -> Size:
    """The local size to use, checked against the kernel's and the device's limits."""
    where = f"kernel {kernel.name!r} on {device.name.strip()}"
    handle = kernel.handle(device)
    required = required_size(handle, device)
    if local_size is None:
        if required is None:
            what = "grid" if kernel.hidden is GRID else "scan" if kernel.hidden is SCAN else "gang reduction"
            raise LaunchError(
                f"{where}: a {what} needs a local size, such as (256,) or kernel.suggested_local_size(queue)"
            )
        return required
    local = as_size("local size", local_size)
    if required is not None and local + (1,) * (3 - len(local)) != required:
        raise LaunchError(f"{where}: local size {local} does not match its reqd_work_group_size {required}")
    most = largest(handle, device, kernel.program.profile(device).facts)
    if math.prod(local) > most:
        raise LaunchError(
            f"{where}: local size {local} is {math.prod(local)} work-items, above the kernel's limit of {most}"
        )
    for axis, (asked, limit) in enumerate(zip(local, device.max_work_item_sizes, strict=False)):
        if asked > limit:
            raise LaunchError(f"{where}: local size {local} is {asked} in dimension {axis}, above the limit of {limit}")
    return local


def exchanged_with(facts: DeviceFacts, size: Size, local: Size | None) -> int:
    """The dimension that a launch exchanges with its first one, 0 for none; drivers that choose the local size may choose 1."""
    if not quirks.has_effect(quirks.FIRST_ITEM_TWICE, facts) or (local is not None and local[0] > 1):
        return 0
    shape = local or size
    return shape.index(max(shape))


def exchange(size: Size, other: int) -> Size:
    """A size with dimension `other` and the first one exchanged."""
    return size if other == 0 else (size[other], *size[1:other], size[0], *size[other + 1 :])


def counted(kernel: str, what: str, given: Any) -> int:
    """A number of work-groups or of items that a caller gives for a kernel, a whole number above 0."""
    try:
        asked = operator.index(given)
    except TypeError:
        raise LaunchError(f"kernel {kernel!r}: {what} must be an integer, not {shortened(given)}") from None
    if asked < 1:
        raise LaunchError(f"kernel {kernel!r}: {what} must be at least 1, not {shortened(asked)}")
    return asked


def explicit_groups(kernel: str, shape: Shape, local: Size) -> int | None:
    """Work-groups that the caller asks for, None for as many as fit."""
    if shape.num_groups is not None:
        if shape.global_size is not None:
            raise LaunchError(f"kernel {kernel!r}: pass a global size or num_groups, not both")
        return shape.num_groups
    if shape.global_size is None:
        return None
    size = as_size("global size", shape.global_size)
    if len(size) != len(local) or any(g % n for g, n in zip(size, local, strict=False)):
        raise LaunchError(
            f"kernel {kernel!r}: global size {size} must be a multiple of the local size {local} in each dimension"
        )
    groups = math.prod(size) // math.prod(local)
    if groups > layout.MAX_LAUNCHED_GROUPS:
        raise LaunchError(
            f"kernel {kernel!r}: {groups} work-groups in one launch exceed the limit of {layout.MAX_LAUNCHED_GROUPS}"
        )
    return groups


def most_groups(
    kernel: CompiledKernel,
    queue: cl.CommandQueue,
    global_size: Sequence[int] | None,
    local_size: Sequence[int] | None,
    num_groups: int | None,
    max_groups: Any,
    items: Any,
) -> int:
    """Most work-groups of a launch, by the caller's `max_groups` and `items`; at least as many as the program requires."""
    name, least = kernel.name, kernel.program.least_groups
    if kernel.hidden is not GRID:
        what = "items" if max_groups is None else "max_groups"
        raise LaunchError(f"kernel {name!r} has no grid: {what} requires a kernel that takes PORTBAR_GRID_PARAM")
    if local_size is None:
        check_queue(queue)
        local = checked_local_size(kernel, queue.device, None)
    else:
        local = as_size("local size", local_size)
    fixed = "a global size" if global_size is not None else "num_groups" if num_groups is not None else ""
    for what, given in (("max_groups", max_groups), ("items", items)):
        if given is not None and fixed:
            raise LaunchError(
                f"kernel {name!r}: pass {fixed} or {what}, not both: {what} applies only when portbar chooses the number of "
                "work-groups"
            )
    most = layout.MAX_LAUNCHED_GROUPS
    if max_groups is not None:
        most = min(most, counted(name, "max_groups", max_groups))
        if most < least:
            raise LaunchError(
                f"kernel {name!r}: max_groups is {most}, but its program requires groups>={least}: pass at least that"
            )
    if items is not None:
        most = min(most, max(least, -(-counted(name, "items", items) // math.prod(local))))
    return most


def check_least(kernel: str, device: str, least: int, local: Size, bound: int, asked: int | None) -> None:
    """Check a launch against the work-groups that its program requires (`groups>=N`)."""
    if bound < least:
        raise UnsupportedFeatureError(
            f"kernel {kernel!r}: its program requires groups>={least}, but {device} runs at most {amount(bound, 'work-group')} "
            f"of {local} concurrently. Use a smaller local size, less local memory, or a device with more compute units"
        )
    if asked is not None and asked < least:
        raise LaunchError(
            f"kernel {kernel!r}: a launch of {amount(asked, 'work-group')} was requested, but its program requires "
            f"groups>={least}: launch at least that many"
        )


def element_bytes(parameters: Iterable[Parameter] | None) -> int:
    """Bytes of the smallest element that a kernel's writable pointers lead to; 4 if the driver does not report them."""
    written = [parameter for parameter in parameters or () if parameter.access == "writable"]
    found = [bytes_of(parameter.type_name.removesuffix("*").rstrip()) for parameter in written]
    return min(filter(None, found), default=4)


def suits_cpu(source: str, parameters: Iterable[Parameter] | None, cache_line: int) -> int:
    """The local size for a device whose work-groups are threads of the host.

    Such a thread runs the work-items one after the other between two barriers, so that one of them is enough. Where the
    program may hand out elements in turns to all work-items of the grid, a work-group takes as many neighbours as fill a
    line of the cache: with fewer, several threads write to each line; with more, the loop over work-items costs more.
    A line has 64 bytes if the driver does not report it (0).
    """
    if not any(mentions(source, name) for name in _STRIDES):
        return 1
    return max(1, (cache_line or 64) // element_bytes(parameters))


def suggested(kernel: CompiledKernel, device: cl.Device, scratch: int | None) -> Size:
    """The local size that suits a kernel; `scratch` is the limit of its reductions' local memory, None where it has none."""
    handle, profile, use = kernel.handle(device), kernel.program.profile(device), kernel.program.reduction_use
    required = required_size(handle, device)
    if required is not None:
        return required
    if scratch is not None and use is not None and use.exact:
        return (scratch,)
    limit = largest(handle, device, profile.facts)
    limit = min(limit, scratch or limit)
    # Where loops end early, more work-items leave each fewer turns.
    if is_cpu(profile) and profile.loop_limit is None:
        line = ask(device, "GLOBAL_MEM_CACHELINE_SIZE")
        wanted = suits_cpu(kernel.program.source, kernel.parameters, line if isinstance(line, int) else 0)
        return (min(limit, wanted),)
    try:
        query: Any = cl.kernel_work_group_info.PREFERRED_WORK_GROUP_SIZE_MULTIPLE
        multiple = int(handle.get_work_group_info(query, device))
    except cl.Error:
        multiple = 0
    return (suits_gpu(limit, multiple),)


def suits_gpu(limit: int, multiple: int) -> int:
    """The local size for other devices: 256 work-items or the kernel's limit, of whole sub-groups where one fits.

    `multiple` is the preferred work-group size multiple, such as a warp; 0 if the driver does not report it.
    """
    multiple = max(1, multiple)
    return min(limit, max(multiple, min(limit, _USUAL) // multiple * multiple))
