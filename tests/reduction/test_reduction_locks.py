"""Locks of a loop guard what no operator says: among work-groups, among sub-groups, in kernels with a grid and without."""

from __future__ import annotations

import numpy as np
import pytest

import portbar
from tests.reduction.support import head, kernel_text, launched, program
from tests.support import host_array, scale, to_device

pytestmark = [pytest.mark.device, pytest.mark.slow]

LOOPS = [portbar.ReductionLoop(name, {"total": portbar.Reduction(np.int32, "+")}) for name in ("loop", "other")]


def guarding(name, level, hidden, leads, own="data"):
    """Return a kernel whose members count under a lock, by plain accesses far apart, which only the lock orders."""
    grid = "&grid, " if hidden == "grid" else ""
    loop = "other" if hidden == "grid" else "loop"
    body = f"""
    global uint *own = {own};
    uint bad = 0u;
    if ({leads}) {{
        for (uint r = 0; r < rounds; ++r) {{
            if (!{loop}_lock_{level}({grid}scratch)) {{
                bad = 2u;
                break;
            }}
            const uint before = own[0];
            if (own[64] != before * 3u)
                bad = 1u;
            own[0] = before + 1u;
            own[64] = (before + 1u) * 3u;
            {loop}_unlock_{level}({grid}scratch);
        }}
        if (bad != 0u)
            fault[0] = bad;
    }}
    fault[1] = portbar_num_sub_groups();"""
    return kernel_text(name, "global uint *data, global uint *fault, uint rounds", body, hidden)


GANGS = (
    head(128, grid=True)
    + guarding("gangs", "gang", "gangs", "get_local_id(0) == 0")
    + guarding("grids", "gang", "grid", "get_local_id(0) == 0")
    + kernel_text(
        "other_lock",
        "global uint *data",
        """
    data[0] = loop_lock_gang(scratch);
    data[1] = other_lock_gang(scratch);
    other_unlock_gang(scratch);
    loop_unlock_gang(scratch);""",
        "gangs",
    )
)
#: In a program of its own: PoCL 3.1 was seen to hang in a kernel with a grid whose scratch memory has the workers' locks too.
WORKERS = head(128) + guarding(
    "workers", "worker", "", "portbar_sub_group_local_id() == 0u", "data + 128u * (uint)get_group_id(0)"
)


@pytest.mark.parametrize("kernel", ["gangs", "grids", "workers"])
def test_one_holder_at_a_time_sees_what_the_last_one_wrote(context, queue, kernel):
    size = scale(context.devices[0])
    rounds = 3 if size.is_simulator or size.is_cut_short else 200
    data, fault = (to_device(queue, np.zeros(length, np.uint32)) for length in (128 * 16, 2))
    source = WORKERS if kernel == "workers" else GANGS
    locking = program(context, source, loops=LOOPS).kernel(kernel)
    args = (data, fault, np.uint32(rounds))
    if kernel == "grids":
        # A lock is not fair: among the thousands of groups that a GPU holds, one may wait for seconds.
        groups = min(16, locking.occupancy(queue, (64,), *args).groups)
        launch = locking(queue, None, (64,), *args, num_groups=groups)
    else:
        launch = locking(queue, (16 * 64,), (64,), *args)
    launch.wait()
    bad, workers = host_array(queue, fault, np.uint32).tolist()
    assert bad == 0
    counts = host_array(queue, data, np.uint32)[::128].tolist()
    if kernel == "workers":
        assert counts == [workers * rounds] * 16
    else:
        assert counts[0] == rounds * (16 if kernel == "gangs" else launch.num_groups)


def test_every_loop_has_a_lock_of_its_own(context, queue):
    kernel = program(context, GANGS, loops=LOOPS).kernel("other_lock")
    assert launched(queue, kernel, 1, 1, np.zeros(2, np.uint32))[1][0].tolist() == [1, 1]
