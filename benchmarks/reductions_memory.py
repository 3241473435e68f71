"""A kernel that only reads an array: the memory bandwidth of all threads of a CPU, as a peer of sums of large arrays.

On GPUs the peer is CUB.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import pyopencl as cl
import pyopencl.array

from benchmarks.shared import WrongResultError
from portbar.launching.build import compile_program

#: The fastest reader of an array: a work-group of one work-item for each of a few parts.
READ: Final = """kernel void only_read(global const ulong8 *a, const ulong n, global ulong *left)
{
    const ulong part = (n + get_num_groups(0) - 1) / get_num_groups(0), first = min(part * get_group_id(0), n);
    const ulong last = min(first + part, n), whole = first + (last - first) / 4 * 4;
    ulong8 w = 0, x = 0, y = 0, z = 0;
    for (ulong i = first; i < whole; i += 4) {
        w ^= a[i];
        x ^= a[i + 1];
        y ^= a[i + 2];
        z ^= a[i + 3];
    }
    for (ulong i = whole; i < last; ++i)
        w ^= a[i];
    w ^= x ^ y ^ z;
    left[get_group_id(0)] = w.s0 ^ w.s1 ^ w.s2 ^ w.s3 ^ w.s4 ^ w.s5 ^ w.s6 ^ w.s7;
}
"""
READS: Final = "a kernel that only reads"


def reader_of(queue: cl.CommandQueue, array: cl.array.Array, values: np.ndarray[Any, Any]) -> Callable[[], cl.Event]:
    """Return a function that reads an array of whole cache lines on a queue, checked once against the host's copy."""
    groups = 4 * queue.device.max_compute_units
    kernel = cl.Kernel(compile_program(queue.context, queue.device, READ, ()), "only_read")
    left = cl.Buffer(queue.context, cl.mem_flags.READ_WRITE, 8 * groups)
    data = array.data
    assert isinstance(data, cl.Buffer)

    def run() -> cl.Event:
        # Kernels do not keep their buffers.
        kernel.set_args(data, np.uint64(array.nbytes // 64), left)
        return cl.enqueue_nd_range_kernel(queue, kernel, (groups,), (1,))

    run()
    found = np.empty(groups, np.uint64)
    cl.enqueue_copy(queue, found, left)
    if np.bitwise_xor.reduce(found) != np.bitwise_xor.reduce(values.view(np.uint64)):
        raise WrongResultError("the kernel that only reads has not read everything")
    return run
