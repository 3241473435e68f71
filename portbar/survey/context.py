"""What every measuring task needs in its child process: the device's context, and how many work-items a kernel takes.

Not for measuring.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyopencl as cl

from portbar.choices.profile import stored_findings
from portbar.device import quirks
from portbar.device.facts import DeviceAddress, device_key, facts
from portbar.findings.findings import CACHE_KIND
from portbar.launching.compiled import CompiledProgram
from portbar.system import cache


def context_of(payload: Mapping[str, Any]) -> cl.Context:
    """A context for the device; to be kept, since a queue does not keep its context alive on every runtime.

    Payload: `address`, and `findings` to put where `describe` looks, if nothing is there.
    """
    device = DeviceAddress.from_json(payload["address"]).resolve()
    reported = facts(device)
    if payload.get("findings") and stored_findings(reported) is None:
        # Where the cache cannot be written, what the parent's probe found has not come here.
        cache.store(CACHE_KIND, device_key(reported), payload["findings"])
    return cl.Context([device])


def largest_group(program: CompiledProgram, queue: cl.CommandQueue, name: str) -> int:
    """Most work-items that a work-group of a kernel can have."""
    device = queue.device
    if quirks.has_effect(quirks.UNDERSTATED_WORK_GROUP_SIZE, program.profile(device).facts):
        return int(device.max_work_group_size)
    kernel = cl.Kernel(program.built(device, program.strategy(device)), name)
    return int(kernel.get_work_group_info(cl.kernel_work_group_info.WORK_GROUP_SIZE, device))
