"""What Mesa gets wrong: rusticl, its driver llvmpipe, and Clover."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from portbar.device.quirks import effects
from portbar.device.quirks.entry import UNDERSTATES, Kernel, Program, Quirk, returns

if TYPE_CHECKING:
    from portbar.device.facts import DeviceFacts


def _llvmpipe(facts: DeviceFacts) -> int | None:
    match = re.match(r"(\d+)\.", facts.driver_version)
    return int(match[1]) if match and facts.name.startswith("llvmpipe") else None


_COUNTS = """
kernel void counts(global uint *out, const uint n)
{
    uint seen = 0;
    /* Volatile, so that no compiler works the sum out. */
    for (volatile uint i = 0; i < n; ++i)
        seen += 1;
    out[0] = seen;
}
"""

_EXCHANGES = """
kernel void exchanges(global uint *words)
{
    uint seen = atomic_or(words, 0u);
    for (;;) {
        mem_fence(CLK_GLOBAL_MEM_FENCE);
        const uint before = atomic_cmpxchg(words, seen, seen + 1u);
        mem_fence(CLK_GLOBAL_MEM_FENCE);
        if (before == seen)
            break;
        seen = before;
    }
    words[1 + get_global_id(0)] = seen + 1u;
}
"""

ENTRIES = (
    Quirk(
        name="rusticl-not-enabled",
        matches=lambda facts, log: (
            facts.platform_name == "rusticl" and effects.NO_DEVICES in log and not os.environ.get("RUSTICL_ENABLE")
        ),
        symptom=effects.NO_DEVICES,
        fault="rusticl lists no devices unless RUSTICL_ENABLE names their drivers",
        seen="Mesa 22.3.6 and 25.0.7, 2026-11",
        workaround="set RUSTICL_ENABLE to a Mesa driver before Python starts: `RUSTICL_ENABLE=llvmpipe`",
        program=Program(task="tests.device.quirk_programs_host:rusticl_not_enabled"),
    ),
    Quirk(
        name="clover-without-devices",
        effect=effects.NOTHING_LOST,
        matches=lambda facts, log: facts.platform_name == "Clover" and effects.NO_DEVICES in log,
        symptom=effects.NO_DEVICES,
        fault="Clover (mesa.icd) registers itself on machines that it has no device for",
        seen="Mesa 22.3.6, Debian 12, 2026-11",
        workaround="nothing is lost: Mesa has replaced Clover by rusticl, which registers itself separately",
        program=Program(task="tests.device.quirk_programs_host:clover_without_devices"),
    ),
    Quirk(
        name="llvmpipe-loop-limit",
        loop_limit=65_535,
        # Seen in 22.3.6 and gone in 25.0.7; the versions between were not tried, so they count as faulty.
        matches=lambda facts, _log: (_llvmpipe(facts) or 99) < 25,
        fault=(
            "loops end silently after 65535 iterations in the whole kernel, so that a spinning barrier lets "
            "work-groups through"
        ),
        seen="Mesa 22.3.6 (rusticl on llvmpipe), 2026-11",
        workaround="use Mesa 25.0 or newer, or another runtime",
        program=Program(
            platform="rusticl",
            kernels=(Kernel(_COUNTS, words=1, arguments=(70_000,)),),
            shows=returns(lambda out: out == [65_535]),
        ),
    ),
    Quirk(
        name="llvmpipe-time-stamps",
        effect=effects.STAMPS_WRONG,
        everywhere=True,
        # Seen in 22.3.6; later versions were not tried.
        matches=lambda facts, _log: (_llvmpipe(facts) or 99) < 25,
        fault="the profiling time stamps of a command are a few nanoseconds apart, whatever ran between them",
        seen="Mesa 22.3.6 (rusticl on llvmpipe), a kernel of 5 ms, 2026-11",
        workaround="time kernels on the host; portbar does so where time stamps cannot be right",
        program=Program(
            platform="rusticl",
            task="tests.device.quirk_programs:stamps",
            shows=returns(lambda seconds: seconds["stamps"] < seconds["wall"] / 1000),
        ),
    ),
    Quirk(
        name="llvmpipe-work-group-size",
        effect=effects.UNDERSTATED_WORK_GROUP_SIZE,
        matches=lambda facts, _log: _llvmpipe(facts) is not None,
        fault="CL_KERNEL_WORK_GROUP_SIZE is 32 for kernels that run rightly with 256 work-items",
        seen="Mesa 22.3.6 (rusticl on llvmpipe), 2026-11",
        workaround="the device's own limit is checked instead",
        program=Program(platform="rusticl", task="tests.device.quirk_programs:work_group_sizes", shows=UNDERSTATES),
    ),
    Quirk(
        name="llvmpipe-fences",
        effect=effects.FENCES_ARE_BARRIERS,
        # Seen in 22.3.6; later versions were not tried, so they count as faulty up to the one that has no loop limit.
        matches=lambda facts, _log: (_llvmpipe(facts) or 99) < 25,
        fault=(
            "memory fences and ordered atomics act as barriers: where the work-items of a group pass them a different number "
            "of times, eight at a time, those that pass fewer are lost"
        ),
        seen="Mesa 22.3.6 (rusticl on llvmpipe), a seq_cst compare-exchange loop in groups of 16, 2026-11",
        workaround=(
            "portbar issues no fences there, relies on the device's atomics, which litmus tests found in order on x86-64 (on "
            "other processors it demands that they pass there first), and refuses the locks of reduction loops, which one "
            "work-item takes for others; in your own code keep mem_fence and ordered atomics out of control flow that differs "
            "within a group of more than 8 work-items"
        ),
        program=Program(
            platform="rusticl",
            kernels=(Kernel(_EXCHANGES, words=65, global_size=64, local_size=16),),
            shows=returns(lambda out: sorted(out[1:]) != list(range(1, 65))),
        ),
    ),
)
