"""What an entry of the table of faults holds: the fault, its effect on portbar, what helps, and the program that shows it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeAlias

if TYPE_CHECKING:
    from portbar.device.child import ChildResult
    from portbar.device.facts import DeviceFacts

#: Whether the end of a program shows the fault; the second argument is the entry's symptom.
Shows: TypeAlias = "Callable[[ChildResult, str], bool]"


@dataclass(frozen=True)
class Kernel:
    """One kernel of plain OpenCL C and its launch.

    Attributes
    ----------
    source : str
    words : int
        32-bit words of its first argument, a buffer of zeros; 0 for a kernel that is compiled only.
    global_size, local_size : int
    arguments : tuple of int
        What follows, each a uint.
    local_bytes : int
        Bytes of local memory as the last argument; 0 where it takes none.
    options : tuple of str
        Of the compiler.
    """

    source: str
    words: int = 0
    global_size: int = 1
    local_size: int = 1
    arguments: tuple[int, ...] = ()
    local_bytes: int = 0
    options: tuple[str, ...] = ()


@dataclass(frozen=True)
class Program:
    """How a fault shows itself without portbar's workaround, in a process of its own.

    Attributes
    ----------
    platform : str
        Part of the name and version of the platform to run it on; empty for the fault of a platform that lists no devices.
    kernels : tuple of Kernel
        Run one after the other; the value is the last one's buffer, and the others' are reported.
    task : str
        In place of kernels: a function of portbar's checkout, for faults that take more of the host.
    payload : mapping
        What that function is given beside the device.
    controls : int
        How many kernels, from the first on, must come to their end even where the fault is.
    limit : float
        Seconds.
    environment : mapping of str to str
    """

    platform: str = ""
    kernels: tuple[Kernel, ...] = ()
    task: str = ""
    payload: Mapping[str, Any] = field(default_factory=dict)
    shows: Shows = lambda _result, _symptom: False
    controls: int = 0
    limit: float = 30.0
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Quirk:
    """One fault of one implementation.

    Attributes
    ----------
    name : str
        How code and reports refer to it.
    matches : callable
        Whether a device with these facts has it; the second argument is a build log, the end of a crashed
        process's standard error, or empty.
    program : Program
        Shows the fault, and tells when the entry can go.
    symptom : str
        Regular expression of the text that shows this fault at work; empty where it shows itself in no text.
    effect : str
        What code asks for with `has_effect`; empty where portbar does nothing about the fault.
    everywhere : bool
        Whether portbar does what helps on every device, because it costs nothing; a comment at each place names the effect.
    loop_limit : int
        Iterations in a whole kernel after which loops end silently; 0 where they do not.
    fault, seen, workaround : str
        What goes wrong; where and when it was seen; what helps.
    """

    name: str
    matches: Callable[[DeviceFacts, str], bool]
    fault: str
    seen: str
    workaround: str
    program: Program
    symptom: str = ""
    effect: str = ""
    everywhere: bool = False
    loop_limit: int = 0

    @property
    def retire(self) -> str:
        """The command that fails once the fault is gone: a test of portbar's checkout that runs the program."""
        test = f"python -m pytest tests/device/test_quirks.py -k {self.name}"
        return f'PORTBAR_TEST_PLATFORM="{self.program.platform}" {test}' if self.program.platform else test

    def shown_by(self, result: ChildResult) -> bool:
        """Whether the end of the program shows the fault."""
        return len(result.progress) >= self.program.controls and self.program.shows(result, self.symptom)


#: An error in line 70 of a file, which is the second line of the text.
LINE_70: Final = """#line 70 "mine.cl"
kernel void wrong(global uint *out) { out[0] = nowhere; }
"""


def returns(of: Callable[[Any], bool]) -> Shows:
    """The fault shows in what the program returns."""
    return lambda result, _symptom: result.status == "ok" and of(result.value)


def aborts(result: ChildResult, symptom: str) -> bool:
    """Whether the process died, with the symptom."""
    return result.status == "crash" and re.search(symptom, result.message) is not None


def fails(result: ChildResult, symptom: str) -> bool:
    """Whether the driver refused, with the symptom."""
    return result.status == "error" and re.search(symptom, result.message) is not None


#: A compiler calls the text by a name of its own and counts its lines.
LINE_UNKNOWN: Shows = lambda result, _symptom: fails(result, r"(input\.cl|<kernel>):2:")  # noqa: E731
#: A kernel runs rightly in larger work-groups than it is said to.
UNDERSTATES: Shows = returns(lambda found: found["right"] and found["said"] < found["size"])
