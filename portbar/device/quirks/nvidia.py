"""Faults of NVIDIA's driver."""

from __future__ import annotations

from functools import partial
from itertools import pairwise

from portbar.device.quirks import effects
from portbar.device.quirks.entry import FAILS, LINE_70, LINE_UNKNOWN, UNDERSTATES, Quirk, QuirkKernel, ends, returns

_STARTS = """
kernel void starts(global uint *out)
{
    ulong now;
    __asm__ volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    out[get_group_id(0)] = (uint)now;
}
"""

_CONDITION = """
static inline __attribute__((overloadable)) uint sum(uint value, int order)
    __attribute__((enable_if((order) == (order), "a constant order")))
{
    return value + (uint)order;
}
kernel void conditions(global uint *out)
{
    const uint a = out[0], b = out[1], either = a || b;
    out[2] = sum(GIVEN, 1);
}
"""

_CONSTANT = """
static inline __attribute__((overloadable)) uint sum(uint value, int order)
    __attribute__((diagnose_if(!__builtin_constant_p(order), "no constant order", "error")))
{
    return value + (uint)order;
}
kernel void constants(global uint *out)
{
    out[2] = sum(out[0], 1);
}
"""


def _starts_together(times: list[int]) -> bool:
    """Whether at most 10 microseconds lie between starts, given the low 32 bits of nanoseconds."""
    ordered = sorted((time - times[0] + (1 << 31)) % (1 << 32) for time in times)
    return any(times) and max(later - earlier for earlier, later in pairwise(ordered)) <= 10_000


_quirk = partial(Quirk, where=lambda facts: facts.nvidia is not None, platform="CUDA")

ENTRIES = (
    _quirk(
        name="nvidia-work-group-size",
        effect=effects.UNDERSTATED_WORK_GROUP_SIZE,
        fault="CL_KERNEL_WORK_GROUP_SIZE is 256 for every kernel, even for those that run with 1,024 work-items",
        seen="driver 580.159.04, H200, 2026-11",
        workaround="portbar checks the device's limit instead; a kernel with too many registers fails at its launch",
        task="tests.device.quirk_programs:work_group_sizes",
        shows=UNDERSTATES,
    ),
    _quirk(
        name="nvidia-kernel-without-arguments",
        effect=effects.ARGUMENT_INFO_BREAKS,
        symptom=r"ptxas application ptx input.*Parsing error near '}'",
        fault="a kernel without arguments does not compile with -cl-kernel-arg-info: the driver generates invalid assembly",
        seen="driver 580.159.04, H200, `kernel void k(void) { }`, 2026-11",
        workaround="portbar compiles it without the option; launches then check only the number of arguments",
        kernels=(QuirkKernel("kernel void nothing(void) { }", options=("-cl-kernel-arg-info",)),),
        shows=FAILS,
    ),
    _quirk(
        name="nvidia-c11-store-buffering",
        fault="C11's seq_cst stores and loads have no single order: two work-groups may both miss the other's store",
        seen="driver 580.159.04, H200, 40,532 of 11,083,776 instances of the litmus test SB-device-global-ops, 2026-11",
        workaround="portbar's atomics use PTX on this device, which passes all litmus tests: use portbar/atomics.h",
        task="tests.device.quirk_programs:missed_stores",
        shows=returns(lambda found: found["both"] > 0),
        limit=60,
    ),
    _quirk(
        name="nvidia-ignored-lines",
        effect=effects.LINES_IGNORED,
        fault="compiler messages ignore #line: they count the lines of the text and call it <kernel>",
        seen="driver 580.159.04, H200, 2026-11",
        workaround="portbar translates the locations in its errors and warnings",
        kernels=(LINE_70,),
        shows=LINE_UNKNOWN,
    ),
    _quirk(
        name="nvidia-groups-start-together",
        where=lambda facts: facts.compute_capability > 0,
        effect=effects.GROUPS_START_TOGETHER,
        fault="not a fault, but a property that others do not promise: concurrent work-groups start nanoseconds apart",
        seen="driver 580.159.04, H200, 4,224 work-groups within 20 microseconds, 2026-11",
        workaround="portbar waits 10 microseconds for the next work-group instead of 2 milliseconds",
        kernels=(QuirkKernel(_STARTS, words=128, global_size=128, local_size=1),) * 2,
        controls=1,
        shows=returns(_starts_together),
    ),
    _quirk(
        name="nvidia-pointers-stay",
        effect=effects.POINTERS_STAY,
        everywhere=True,
        fault="a kernel argument that was a pointer to shared virtual memory accepts no buffer afterwards",
        seen="driver 580.159.04, H200, 2026-11",
        workaround="create another pyopencl.Kernel of the program; portbar keeps one for each set of such arguments",
        task="tests.device.quirk_programs:pointer_then_buffer",
        shows=ends("error", reports=[{"pointer": True}]),
    ),
    _quirk(
        name="nvidia-conditions-as-arguments",
        effect=effects.CONDITIONS_NOT_ARGUMENTS,
        everywhere=True,
        fault="a function with an enable_if condition cannot be called with `||` or `&&` among its arguments",
        seen="driver 580.159.04, H200, 2026-11",
        workaround="put the value in a variable; portbar's headers do",
        kernels=(
            QuirkKernel(_CONDITION.replace("GIVEN", "either"), words=3),
            QuirkKernel(_CONDITION.replace("GIVEN", "(uint)(a || b)"), words=3),
        ),
        controls=1,
        shows=FAILS,
    ),
    _quirk(
        name="nvidia-unknown-constants",
        effect=effects.CONSTANTS_UNKNOWN,
        everywhere=True,
        fault="__builtin_constant_p in a diagnose_if condition is false for constant arguments, as in clang before version 9",
        seen="driver 580.159.04, H200, 2026-11",
        workaround=(
            "use enable_if with a comparison of the argument with itself, in functions that take no values beside it: where "
            "one has a && or ||, no such condition is evaluated; portbar/atomics.h does so"
        ),
        kernels=(QuirkKernel(_CONSTANT, words=3),),
        shows=FAILS,
    ),
)
