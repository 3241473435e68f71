"""Runs the program of an entry in a child process, on one device."""

from __future__ import annotations

import re
from dataclasses import asdict
from typing import Any, Final

from portbar.device import child
from portbar.device.addresses import DeviceAddress
from portbar.device.quirks.entry import Quirk

#: Builds and runs kernels in a child process.
KERNELS_TASK: Final = "portbar.device.quirks.running:kernels_task"


def run(quirk: Quirk, address: DeviceAddress) -> child.ChildResult:
    """Run the program that shows a fault; `Quirk.shown_by` says whether the result shows it."""
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
