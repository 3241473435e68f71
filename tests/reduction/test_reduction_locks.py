"""Locks of a loop guard what no operator says: among work-groups, among sub-groups, in kernels with a grid and without."""

from __future__ import annotations

import numpy as np
import pytest

import portbar
from tests.reduction.support import device_array, host_array, program, scale

LOOP = portbar.ReductionLoop("loop", {"total": portbar.Reduction(np.int32, "+")})
OTHER = portbar.ReductionLoop("other", {"total": portbar.Reduction(np.int32, "+")})

HEAD = """
#define PORTBAR_REDUCTION_LOCAL_SIZE 128
#include "portbar/device_barrier.h"
#include "portbar/reduction.h"
/* Plain accesses far apart: only the lock orders them. */
#define GUARDED(data) <%BS%>
    const uint before = (data)[0]; <%BS%>
    if ((data)[64] != before * 3u) <%BS%>
        bad = 1u; <%BS%>
    (data)[0] = before + 1u; <%BS%>
    (data)[64] = (before + 1u) * 3u;
"""

GANGS = """
kernel void gangs(PORTBAR_REDUCTION_PARAM, global uint *data, global uint *fault, uint rounds)
{
    PORTBAR_REDUCTION_SCRATCH(scratch);
    uint bad = 0u;
    if (get_local_id(0) == 0) {
        for (uint r = 0; r < rounds; ++r) {
            if (!loop_lock_gang(scratch)) {
                bad = 2u;
                break;
            }
            GUARDED(data)
            loop_unlock_gang(scratch);
        }
        if (bad != 0u)
            fault[0] = bad;
    }
}
kernel void grids(PORTBAR_GRID_PARAM, global uint *data, global uint *fault, uint rounds)
{
    PORTBAR_ENTER(grid);
    PORTBAR_REDUCTION_SCRATCH(scratch);
    uint bad = 0u;
    if (get_local_id(0) == 0) {
        for (uint r = 0; r < rounds; ++r) {
            if (!other_lock_gang(&grid, scratch)) {
                bad = 2u;
                break;
            }
            GUARDED(data)
            other_unlock_gang(&grid, scratch);
        }
        if (bad != 0u)
            fault[0] = bad;
    }
}
kernel void never_given_back(PORTBAR_REDUCTION_PARAM, global uint *data)
{
    PORTBAR_REDUCTION_SCRATCH(scratch);
    data[0] = loop_lock_gang(scratch);
    data[1] = loop_lock_gang(scratch);
}
kernel void other_lock(PORTBAR_REDUCTION_PARAM, global uint *data)
{
    PORTBAR_REDUCTION_SCRATCH(scratch);
    data[0] = loop_lock_gang(scratch);
    data[1] = other_lock_gang(scratch);
    other_unlock_gang(scratch);
    loop_unlock_gang(scratch);
}
"""

#: In a program of its own: PoCL 3.1 was seen to hang in a kernel with a grid whose scratch memory has the workers' locks too.
WORKERS = """
kernel void workers(global uint *data, global uint *fault, uint rounds)
{
    PORTBAR_REDUCTION_SCRATCH(scratch);
    uint bad = 0u;
    global uint *own = data + 128u * (uint)get_group_id(0);
    if (portbar_sub_group_local_id() == 0u) {
        for (uint r = 0; r < rounds; ++r) {
            if (!loop_lock_worker(scratch)) {
                bad = 2u;
                break;
            }
            GUARDED(own)
            loop_unlock_worker(scratch);
        }
        if (bad != 0u)
            fault[0] = bad;
    }
    fault[1] = portbar_num_sub_groups();
}
"""


def made(context, *options, kernels=GANGS):
    return program(context, (HEAD + kernels).replace("<%BS%>", "\\"), loops=[LOOP, OTHER], options=options)


@pytest.mark.device
@pytest.mark.slow
@pytest.mark.parametrize("kernel", ["gangs", "grids", "workers"])
def test_one_holder_at_a_time_sees_what_the_last_one_wrote(context, queue, kernel):
    size = scale(context.devices[0])
    rounds = 3 if size.is_simulator or size.is_cut_short else 200
    data, fault = (device_array(queue, np.zeros(length, np.uint32)) for length in (128 * 16, 2))
    kernels = WORKERS if kernel == "workers" else GANGS
    locking = made(context, kernels=kernels).kernel(kernel)
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


@pytest.mark.device
@pytest.mark.slow
def test_a_lock_that_is_not_given_back_is_told_to_the_host(context, queue):
    data = device_array(queue, np.zeros(2, np.uint32))
    kernel = made(context, "-DPORTBAR_REDUCTION_POLLS=1000").kernel("never_given_back")
    with pytest.raises(portbar.Error, match=r"lock of reduction loop 'loop' was not given back"):
        kernel(queue, (1,), (1,), data).wait()
    assert host_array(queue, data, np.uint32).tolist() == [1, 0]


@pytest.mark.device
@pytest.mark.slow
def test_every_loop_has_a_lock_of_its_own(context, queue):
    data = device_array(queue, np.zeros(2, np.uint32))
    made(context).kernel("other_lock")(queue, (1,), (1,), data).wait()
    assert host_array(queue, data, np.uint32).tolist() == [1, 1]
