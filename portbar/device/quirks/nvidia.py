"""What NVIDIA's driver gets wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING

from portbar.device.quirks import effects
from portbar.device.quirks.entry import LINE_70, LINE_UNKNOWN, UNDERSTATES, Kernel, Program, Quirk, fails, returns

if TYPE_CHECKING:
    from portbar.device.facts import DeviceFacts


def _is_nvidia(facts: DeviceFacts, _log: str) -> bool:
    return facts.nvidia is not None


ENTRIES = (
    Quirk(
        name="nvidia-work-group-size",
        effect=effects.UNDERSTATED_WORK_GROUP_SIZE,
        matches=_is_nvidia,
        fault="CL_KERNEL_WORK_GROUP_SIZE is 256 for every kernel, also for those that run with 1,024 work-items",
        seen="driver 580.159.04, H200, 2026-11",
        workaround="the device's own limit is checked instead; a kernel with too many registers fails at its launch",
        program=Program(platform="CUDA", task="tests.device.quirk_programs:work_group_sizes", shows=UNDERSTATES),
    ),
    Quirk(
        name="nvidia-kernel-without-arguments",
        effect=effects.ARGUMENT_INFO_BREAKS,
        matches=_is_nvidia,
        symptom=r"ptxas application ptx input.*Parsing error near '}'",
        fault="a kernel without arguments does not compile with -cl-kernel-arg-info: the assembler is given broken text",
        seen="driver 580.159.04, H200, `kernel void k(void) { }`, 2026-11",
        workaround="such a program is compiled again without the option; launches of its kernels then check counts only",
        program=Program(
            platform="CUDA",
            kernels=(Kernel("kernel void nothing(void) { }", options=("-cl-kernel-arg-info",)),),
            shows=fails,
        ),
    ),
    Quirk(
        name="nvidia-c11-store-buffering",
        matches=_is_nvidia,
        fault=(
            "C11's sequentially consistent stores and loads are not in one order: two work-groups may each store, then "
            "load, and both miss the other's store"
        ),
        seen="driver 580.159.04, H200, 40,532 of 11,083,776 instances of the litmus test SB-device-global-ops, 2026-11",
        workaround="portbar writes its atomics in PTX there, which passes all litmus tests: use portbar/atomics.h",
        program=Program(
            platform="CUDA",
            task="tests.device.quirk_programs:missed_stores",
            payload={"seconds": 15.0},
            shows=returns(lambda found: found["both"] > 0),
            limit=60,
        ),
    ),
    Quirk(
        name="nvidia-ignored-lines",
        effect=effects.LINES_IGNORED,
        matches=_is_nvidia,
        fault="messages of the compiler ignore #line: they count the lines of the text, which they call <kernel>",
        seen="driver 580.159.04, H200, 2026-11",
        workaround="portbar translates the places in its errors and warnings",
        program=Program(platform="CUDA", kernels=(Kernel(LINE_70),), shows=LINE_UNKNOWN),
    ),
)
