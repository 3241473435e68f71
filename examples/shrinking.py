"""Work-items leave a barrier one by one, and those that stay wait for fewer each time: a prefix sum whose workers retire.

The third example of SYCL's sycl_ext_oneapi_cuda_async_barrier. A work-item that has left reaches no further wait, which needs
work-items that progress independently: the program requires that by `require`, and an error names a device that lacks it, with
the reason. The result is checked against NumPy: `python examples/shrinking.py [--platform "PoCL 3.1"]`.
"""

from __future__ import annotations

import argparse

import numpy as np
import pyopencl as cl
import pyopencl.array

import portbar

SOURCE = """
#include "portbar/split_barrier.h"

kernel void shrink(global uint *data, local uint *values)
{
    const uint i = get_local_id(0), n = get_local_size(0);
    local portbar_split_barrier b;
    local uint *now = values, *next = values + n;
    now[i] = data[get_global_id(0)];
    if (i == 0)
        portbar_split_barrier_initialize(&b, n);
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint step = 0; step < n; ++step) {
        if (i == step) {                                        /* the value of this work-item is final */
            data[get_global_id(0)] = now[i];
            portbar_split_barrier_arrive_and_drop(&b);
            break;
        }
        next[i] = now[i] + (step + 1 == i ? now[step] : 0u);    /* the next one takes over its sum */
        if (step + 1 == i)
            next[i] *= 3u;
        portbar_split_barrier_arrive_and_wait(&b);
        local uint *other = now;
        now = next;
        next = other;
    }
}
"""

GROUPS, LOCAL_SIZE = 16, 64


def make_context(platform: str | None) -> cl.Context:
    """A context on the platform that is named, or the one that PyOpenCL picks (PYOPENCL_CTX chooses)."""
    platforms = portbar.load_platforms()
    if platform is None:
        return cl.create_some_context(interactive=False)
    for found in platforms:
        if platform.lower() in f"{found.name} {found.version}".lower():
            return cl.Context(found.get_devices()[:1])
    raise SystemExit(f"no OpenCL platform matches {platform!r}")


def expected(start: np.ndarray) -> np.ndarray:
    """The same recurrence in NumPy."""
    result = start.copy()
    for i in range(1, LOCAL_SIZE):
        result[:, i] = (result[:, i] + result[:, i - 1]) * np.uint32(3)
    return result


def main() -> None:
    """Run and check where the device can do it, else say why it cannot."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--platform", help='a part of "NAME VERSION" of an OpenCL platform')
    context = make_context(parser.parse_args().platform)
    queue = cl.CommandQueue(context)
    device = context.devices[0]
    if portbar.describe(device).findings is None:
        portbar.probe(device)  # once for each device and driver: how its work-items progress is kept

    try:
        program = portbar.Program(context, SOURCE, require=("split_barrier.divergent",))
    except portbar.UnsupportedFeatureError as error:
        print(f"{device.name.strip()} cannot do this: {error}")
        return
    start = np.random.default_rng(1).integers(0, 1 << 32, (GROUPS, LOCAL_SIZE), dtype=np.uint32)
    data = cl.array.to_device(queue, start)
    kernel = program.kernel("shrink")
    kernel(queue, (GROUPS * LOCAL_SIZE,), (LOCAL_SIZE,), data.data, cl.LocalMemory(8 * LOCAL_SIZE)).wait()

    assert (data.get() == expected(start)).all(), "a work-item went on before all remaining ones had arrived"
    print(f"{device.name.strip()}: in {GROUPS} work-groups, {LOCAL_SIZE} work-items left one by one")
    print(f"split barrier: {program.strategy(device).split_barrier}")


if __name__ == "__main__":
    main()
