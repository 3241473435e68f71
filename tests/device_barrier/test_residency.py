"""A kernel's resources on an NVIDIA device, and the residency that follows from them."""

from __future__ import annotations

import pyopencl as cl
import pytest

from portbar.device.facts import DeviceFacts
from portbar.launching.resources import Resources, computed_bound, resources_in
from tests import support

LOG = """\
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'other' for 'sm_90'
ptxas info    : Function properties for other
ptxas         .     0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 8 registers, 360 bytes cmem[0]
ptxas info    : Compiling entry function 'heavy' for 'sm_90'
ptxas info    : Function properties for heavy
ptxas         .     128 bytes stack frame, 144 bytes spill stores, 96 bytes spill loads
ptxas info    : Used 40 registers, used 1 barriers, 16 bytes smem, 372 bytes cmem[0]
"""

H200 = DeviceFacts(
    compute_units=132, nvidia={"compute_capability_major": 9, "compute_capability_minor": 0, "warp_size": 32}
)


def test_registers_and_spills_are_read_from_the_kernel_s_own_lines():
    assert resources_in(LOG, "heavy") == Resources(40, 128, 144, 96)
    assert resources_in(LOG, "other") == Resources(8, 0, 0, 0)
    assert resources_in(LOG, "absent") is None
    assert resources_in("", "heavy") is None
    assert resources_in("ptxas info : Compiling entry function 'cut' for 'sm_90'", "cut") is None


#: Results of discovery on an H200: registers, local size, bytes of local memory of the kernel's own beside 44, work-groups.
FOUND = [
    (24, 32, 16, 4224),
    (24, 32, 11776, 2376),
    (24, 64, 23552, 1188),
    (24, 64, 47104, 528),
    (24, 128, 16, 2112),
    (24, 256, 11776, 1056),
    (24, 256, 47104, 528),
    (24, 512, 47104, 528),
    (24, 1024, 23552, 264),
    *(
        (*bound, 0, 132 * each)
        for *bound, each in [(32, 1024, 2), (33, 1024, 1), (64, 256, 4), (65, 256, 3), (255, 256, 1)]
    ),
]


@pytest.mark.parametrize(("registers", "local_size", "local_bytes", "groups"), FOUND)
def test_the_computed_bound_is_what_was_found_on_an_h200(registers, local_size, local_bytes, groups):
    assert computed_bound(H200, Resources(registers), local_size, local_bytes + 44) == groups


def test_nothing_is_computed_for_devices_whose_limits_are_not_known():
    assert computed_bound(DeviceFacts(compute_units=8), Resources(8), 64, 0) is None
    unknown = DeviceFacts(compute_units=8, nvidia={"compute_capability_major": 42, "compute_capability_minor": 1})
    assert computed_bound(unknown, Resources(8), 64, 0) is None


SOURCE = """
#include "portbar/device_barrier.h"
kernel void meet(PORTBAR_GRID_PARAM, local uint *scratch, global uint *out)
{
    PORTBAR_ENTER(grid);
    scratch[0] = 1u;
    if (portbar_device_barrier(&grid))
        out[0] = scratch[0];
}
"""


@pytest.mark.device
@pytest.mark.parametrize("local_bytes", [64, 20000])
def test_the_computed_bound_is_what_discovery_finds(context, queue, local_bytes):
    made = support.kernel(context, SOURCE, "meet", device_barrier="counter")
    computed = made.computed_bound(queue.device, (256,), local_bytes)
    if computed is None:
        assert not made.program.profile(queue.device).facts.compute_capability
        pytest.skip("only NVIDIA's compiler tells what a kernel takes")
    out = cl.Buffer(context, cl.mem_flags.READ_WRITE, 4)
    found = made.occupancy(queue, (256,), cl.LocalMemory(local_bytes), out)
    assert computed == found.groups
    taken = made.resources(queue.device)
    assert 0 < taken.registers < 256
    assert (taken.spill_store_bytes, taken.spill_load_bytes) == (0, 0)
