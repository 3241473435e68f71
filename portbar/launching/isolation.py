"""Tries to compile a program in a child process, so that a driver's abort over it becomes an error here.

Some runtimes compile twice: when a program is built, and again for work-groups, when a kernel is first enqueued or when it is
about to run (PoCL 5.0 and 6.0 abort there over barriers in conditional positions). None of the program's code may run, so
the child asks for the program's binary, for which PoCL compiles all of it, and enqueues each kernel with a dependency on an
event that never completes.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Sequence
from typing import Any, Final

import pyopencl as cl

from portbar.device import causes, child, quirks
from portbar.device.addresses import DeviceAddress, list_devices, root_of
from portbar.device.facts import facts
from portbar.errors import BuildError, DeviceError
from portbar.launching.build import compile_program, kernel_names, place_of_source, save_source
from portbar.launching.parameters import arguments_of, bytes_of, parameters_of

_TASK: Final = "portbar.launching.isolation:build_task"
#: Seconds that a compilation may take, also where processes start slowly, and that one which a runtime does in a thread of its
#: own is waited for.
_LIMIT_S: Final = 120.0
_MOST_LIMIT_S: Final = 1200.0
_SETTLE_S: Final = 0.5
_LOCAL_SIZE: Final = 8
_LOCAL_BYTES: Final = 1024
_BUFFER_BYTES: Final = 4096


def try_build(device: cl.Device, text: str, options: Sequence[str]) -> None:
    """Compile rendered source in a child process; a driver that aborts or hangs there is a `BuildError`.

    Nothing is said of an ordinary refusal: the parent's build repeats it, with the driver's log.
    """
    listed, root = list_devices(), root_of(device)
    own = [address for address, known in listed if known == root]
    # A device of a context that was made in another way has a name only.
    addresses = own or [address for address, known in listed if known.name == device.name]
    if len(addresses) != 1:
        raise DeviceError(
            f"{device.name.strip()} is not among the platforms' devices, so no child process can compile for it; omit "
            "isolate_build"
        )
    payload = {"address": addresses[0].to_json(), "text": text, "options": list(options)}
    result = child.run_task(_TASK, payload, timeout=_LIMIT_S, at_most=_MOST_LIMIT_S)
    if result.status in {"ok", "error"}:
        return
    path = save_source(text)
    ended = "took too long" if result.status == "timeout" else "aborted"
    doing = result.progress[-1]["doing"] if result.progress else "starting"
    hint = (
        quirks.remedy(facts(device), result.message)
        or causes.remedy(result.message)
        or (
            "where the compiler is only slow, build without isolate_build; one that never ends may stumble over barriers that "
            "only some work-items reach, or that follow an early return"
            if result.status == "timeout"
            else "some compilers crash on barriers that only some work-items reach, or that follow an early return; let all "
            "work-items of a work-group reach every barrier"
        )
    )
    message = (
        f"the driver of {device.name.strip()} {ended} while it was {doing} (options: {' '.join(options) or 'none'}): "
        f"{result.message}\n{place_of_source(path)}\nHint: {hint}"
    )
    raise BuildError(message, device=device.name.strip(), options=tuple(options), log=result.message, source_path=path)


def build_task(payload: dict[str, Any]) -> None:
    """The child's side: build, and make the driver compile every kernel for a local size, without running any."""
    device = DeviceAddress.from_json(payload["address"]).resolve()
    context = cl.Context([device])
    child.progress({"doing": "building the program"})
    program = compile_program(context, device, payload["text"], payload["options"])
    child.progress({"doing": "compiling the program for work-groups of any size"})
    with contextlib.suppress(cl.Error):
        program.get_info(cl.program_info.BINARIES)
    for name in kernel_names(program):
        child.progress({"doing": f"compiling kernel {name!r} for work-groups"})
        kernel = cl.Kernel(program, name)
        try:
            _enqueue_behind_a_gate(context, device, kernel, _filled(context, kernel))
        except (cl.Error, ValueError):
            # Arguments that cannot be invented, or a local size that this kernel does not take: the build was tried at least.
            continue
    time.sleep(_SETTLE_S)


def _filled(context: cl.Context, kernel: cl.Kernel) -> list[Any]:
    """Arguments of the right sizes for a kernel that never runs; a `ValueError` where they cannot be invented."""
    parameters = parameters_of(arguments_of(kernel), lambda _: None)
    if parameters is None and kernel.num_args:
        raise ValueError("the driver does not report it")
    buffer = cl.Buffer(context, cl.mem_flags.READ_WRITE, _BUFFER_BYTES)
    made: list[Any] = []
    for parameter in parameters or ():
        size = bytes_of(parameter.type_name)
        if parameter.kind == "local":
            made.append(cl.LocalMemory(_LOCAL_BYTES))
        elif parameter.kind == "pointer":
            made.append(buffer)
        elif parameter.dtype is not None:
            made.append(parameter.dtype.type(0))
        elif size is not None:
            made.append(bytes(size))
        else:
            raise ValueError(parameter.type_name)
    return made


def _enqueue_behind_a_gate(context: cl.Context, device: cl.Device, kernel: cl.Kernel, arguments: Sequence[Any]) -> None:
    query = cl.kernel_work_group_info
    required = tuple(int(n) for n in kernel.get_work_group_info(query.COMPILE_WORK_GROUP_SIZE, device))
    most = int(kernel.get_work_group_info(query.WORK_GROUP_SIZE, device))
    local = required if any(required) else (min(_LOCAL_SIZE, most),)
    kernel.set_args(*arguments)
    gate = cl.UserEvent(context)
    queue = cl.CommandQueue(context, device)
    cl.enqueue_nd_range_kernel(queue, kernel, local, local, wait_for=[gate])
    # No flush, which may not return while an event is outstanding (the effect FLUSHES_WAIT). The process ends without setting
    # the event and without tearing anything down.
    _kept.append((queue, gate))


_kept: list[Any] = []
