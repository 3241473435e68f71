"""An entry of the table of faults: the fault, its effect on portbar, the workaround, and a program that shows it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import asdict, field
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from portbar.device.facts import DeviceFacts
from portbar.records.dataclass import dataclass

if TYPE_CHECKING:  # every program asks the table, and few run its programs
    from portbar.device.addresses import DeviceAddress
    from portbar.device.child import ChildResult, Status

#: Whether a program's result shows the fault; the second argument is the entry's symptom.
Shows: TypeAlias = "Callable[[ChildResult, str], bool]"


@dataclass(frozen=True)
class QuirkKernel:
    """One kernel of plain OpenCL C and its launch."""

    source: str
    #: 32-bit words of its first argument, a buffer of zeros; 0 for a kernel that is compiled only.
    words: int = 0
    global_size: int = 1
    local_size: int = 1
    #: The arguments after it, each a uint.
    arguments: tuple[int, ...] = ()
    #: Bytes of local memory as the last argument; 0 for none.
    local_bytes: int = 0
    #: Compiler options.
    options: tuple[str, ...] = ()


@dataclass(frozen=True)
class Quirk:
    """One fault of one implementation, and the program that shows it without portbar's workaround, in a separate process."""

    #: How code and reports refer to it.
    name: str
    #: Whether a device with these facts has the fault.
    where: Callable[[DeviceFacts], bool]
    #: The fault, where and when it was seen, and the workaround.
    fault: str
    seen: str
    workaround: str
    #: Regular expression of the text that reveals this fault; empty if no text does.
    symptom: str = ""
    #: Whether the facts do not suffice: a device has the fault only if its log shows the symptom.
    needs_symptom: bool = False
    #: The effect that code queries with `has_effect`; empty if portbar does nothing about the fault.
    effect: str = ""
    #: Whether portbar applies the workaround on every device, because it costs nothing; a comment at each place names the
    #: effect.
    everywhere: bool = False
    #: Iterations in a whole kernel after which loops end silently; 0 for no limit.
    loop_limit: int = 0
    #: Part of the name and version of the platform that runs the program; empty for a fault of a platform without devices, or
    #: of a compiler that needs none.
    platform: str = ""
    #: Run one after the other; the last one's buffer is returned, the others' are reported.
    kernels: tuple[QuirkKernel, ...] = ()
    #: Instead of kernels: a function of portbar's checkout, for faults that involve the host.
    task: str = ""
    #: Whether the program's result shows the fault, so the entry must stay.
    shows: Shows = lambda _result, _symptom: False
    #: How many kernels, starting with the first, must complete even on a device with the fault.
    controls: int = 0
    #: Words of /proc/cpuinfo on the host's processor without any of which the program was seen not to show the fault.
    flags: tuple[str, ...] = ()
    #: Seconds.
    limit: float = 30.0
    environment: Mapping[str, str] = field(default_factory=dict)

    @property
    def retire(self) -> str:
        """The command that fails once the fault is gone: a test of portbar's checkout that runs the program."""
        test = f"python -m pytest tests/device/test_quirks.py -k {self.name}"
        return f'PORTBAR_TEST_PLATFORM="{self.platform}" {test}' if self.platform else test

    def matches(self, facts: DeviceFacts, log: str = "") -> bool:
        """Whether a device has the fault; the log is a build log or what a process printed before it crashed."""
        shows = not self.needs_symptom or (log != "" and re.search(self.symptom, log) is not None)
        return shows and self.where(facts)

    def shown_by(self, result: ChildResult) -> bool:
        """Whether the program's result shows the fault."""
        return len(result.progress) >= self.controls and self.shows(result, self.symptom)


def returns(of: Callable[[Any], bool]) -> Shows:
    """The fault shows in the value that the program returns."""
    return lambda result, _symptom: result.status == "ok" and of(result.value)


def ends(status: Status, *, matching: bool = False, reports: list[dict[str, Any]] | None = None) -> Shows:
    """The fault shows in how the program ends: with the symptom if `matching`, after these reports unless None."""
    return lambda result, symptom: (
        result.status == status
        and (not matching or re.search(symptom, result.message) is not None)
        and (reports is None or result.progress == reports)
    )


#: The process died, died with the symptom, or the driver refused with the symptom.
CRASHES: Final = ends("crash")
ABORTS: Final = ends("crash", matching=True)
FAILS: Final = ends("error", matching=True)
#: A kernel runs correctly in larger work-groups than the driver reports.
UNDERSTATES: Final = returns(lambda found: found["right"] and found["said"] < found["size"])

#: An error in line 70 of a file, which is the second line of the text; a compiler that ignores #line says that.
LINE_70: Final = QuirkKernel('#line 70 "mine.cl"\nkernel void wrong(global uint *out) { out[0] = nowhere; }\n')
LINE_UNKNOWN: Shows = lambda result, _symptom: FAILS(result, r"(input\.cl|<kernel>):2:")  # noqa: E731

#: Builds and runs kernels in a child process.
KERNELS_TASK: Final = "portbar.device.quirks.entry:kernels_task"


def run(quirk: Quirk, address: DeviceAddress) -> ChildResult:
    """Run the program that shows a fault; `Quirk.shown_by` says whether the result shows it."""
    from portbar.device import child  # noqa: PLC0415 (as above)

    return child.run_task(
        quirk.task or KERNELS_TASK,
        {"address": address.to_json(), "kernels": [asdict(kernel) for kernel in quirk.kernels]},
        timeout=quirk.limit,
        # Faults of compilers show only if the kernel is compiled.
        env={**child.NO_CACHE, "POCL_KERNEL_CACHE": "0", **quirk.environment},
    )


def kernels_task(payload: dict[str, Any]) -> list[int]:
    """Build and run kernels: the child's side of `run`. Return the buffer of the last one; report those of the others."""
    import numpy as np  # noqa: PLC0415 (only the child computes)
    import pyopencl as cl  # noqa: PLC0415 (the same)

    from portbar.device import child  # noqa: PLC0415 (as above)
    from portbar.device.addresses import DeviceAddress  # noqa: PLC0415 (as above)

    # Kept by name: Intel's runtime was seen to lose a context that only its queue refers to.
    context = cl.Context([DeviceAddress.from_json(payload["address"]).resolve()])
    queue = cl.CommandQueue(context)
    found: list[int] = []
    for number, one in enumerate(payload["kernels"]):
        if number:
            child.progress({"found": found})
        program = cl.Program(context, one["source"]).build(list(one["options"]))
        first = re.findall(r"^kernel void (\w+)", one["source"], re.MULTILINE)[0]
        try:
            kernel = cl.Kernel(program, first)
        except cl.Error:
            # Asked for all kernels, a driver may end the process where it says of one that there is none of its name.
            program.all_kernels()
            raise
        if not one["words"]:
            continue
        words = np.zeros(one["words"], np.uint32)
        buffer = cl.Buffer(context, cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR, hostbuf=words)
        local: list[Any] = [cl.LocalMemory(one["local_bytes"])] if one["local_bytes"] else []
        kernel.set_args(buffer, *map(np.uint32, one["arguments"]), *local)
        cl.enqueue_nd_range_kernel(queue, kernel, (one["global_size"],), (one["local_size"],))
        cl.enqueue_copy(queue, words, buffer)
        queue.finish()
        found = words.tolist()
    return found
