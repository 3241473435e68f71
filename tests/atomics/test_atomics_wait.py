"""Atomic waits that give up: at the spin limit, with the other groups released and a report to the host."""

from __future__ import annotations

import time

import pyopencl as cl
import pytest

import portbar
from tests import support
from tests.atomics.support import STRATEGIES

pytestmark = pytest.mark.device

GRIDS = """
#include "portbar/FIRST.h"
#include "portbar/SECOND.h"

static bool waited(const portbar_grid *grid, volatile global uint *flag)
{
    return portbar_device_atomic_wait(grid, flag, 0u);
}
static bool told_nobody(volatile global uint *flag)
{
    return portbar_atomic_wait_explicit(flag, 0u, memory_order_relaxed, memory_scope_device, 200u);
}

/* Group 0 waits for what nobody stores; the others wait for it at a barrier. */
#define KERNEL(name, wait) \\
    kernel void name(PORTBAR_GRID_PARAM, volatile global uint *flag, global uint *out) \\
    { \\
        PORTBAR_ENTER(grid); \\
        bool came = true; \\
        if (portbar_global_id(&grid) == 0u) \\
            came = wait; \\
        const bool held = PORTBAR_UNIFORM(portbar_group_id(&grid) == 0u) || portbar_device_barrier(&grid); \\
        out[portbar_global_id(&grid)] = (came ? 1u : 0u) + (held ? 2u : 0u); \\
    }
KERNEL(in_kernel, portbar_atomic_wait_explicit(flag, 0u, memory_order_relaxed, memory_scope_device))
KERNEL(in_function, waited(&grid, flag))

kernel void comes(PORTBAR_GRID_PARAM, volatile global uint *flag, global uint *out)
{
    PORTBAR_ENTER(grid);
    bool came = true, missed = false;
    if (get_local_id(0) == 0u) {
        if (portbar_group_id(&grid) == portbar_num_groups(&grid) - 1u) {
            flag[2] = 42u;
            portbar_atomic_store_explicit(flag, 1u, memory_order_release, memory_scope_device);
            portbar_atomic_notify_all(flag);
            missed = told_nobody(flag + 1);
        }
        came = portbar_atomic_wait_explicit(flag, 0u, memory_order_acquire, memory_scope_device) && flag[2] == 42u
            && portbar_atomic_wait(flag, 0u) && waited(&grid, flag);
    }
    out[portbar_global_id(&grid)] = came && !missed ? 1u : 0u;
}
"""

#: The wait alone, with a report to the host or without, and the duration of a wait with its own number of polls.
ALONE = """
#include "portbar/atomics.h"
kernel void told(PORTBAR_WAIT_PARAM, global uint *flag, global uint *out)
{
    if (get_global_id(0) == 0)
        out[0] = portbar_atomic_wait_explicit(flag, 0u, memory_order_relaxed, memory_scope_device) ? 1u : 2u;
}
kernel void own_limit(PORTBAR_WAIT_PARAM, global uint *flag, global uint *out)
{
    if (get_global_id(0) == 0)
        out[0] = portbar_atomic_wait_explicit(flag, 0u, memory_order_relaxed, memory_scope_device, 100u) ? 1u : 2u;
}
"""


def launched(made, queue, least=2):
    bound = support.need_groups(made, queue, (4,), least)
    out = support.filled(queue, 4 * 4)
    start = time.monotonic()
    launch = support.launched_with(
        lambda: made(queue, None, (4,), support.filled(queue, 3), out, num_groups=min(bound, 4)), least
    )
    return launch, support.uints(queue, out)[: 4 * launch.num_groups], time.monotonic() - start


def built(context, first="device_barrier", second="atomics", limit=0.02, **strategy):
    source = GRIDS.replace("FIRST", first).replace("SECOND", second)
    return support.program(context, source, spin_limit=limit, **strategy)


@pytest.mark.parametrize("name", ["in_kernel", "in_function"])
@pytest.mark.parametrize("headers", [("device_barrier", "atomics"), ("atomics", "device_barrier")], ids="-".join)
def test_a_wait_in_a_grid_gives_up_at_its_spin_limit_and_releases_the_others(context, queue, headers, name):
    launch, out, took = launched(built(context, *headers).kernel(name), queue)
    with pytest.raises(portbar.BarrierTimeoutError) as caught:
        launch.wait()
    assert caught.value.kernel == name
    assert out[0] == 2
    assert (out[1:4] == 3).all()
    assert (out[4:] == 1).all(), "a barrier held although a group never came"
    assert took < 30


def test_a_wait_alone_in_its_grid_is_what_the_error_names(context, queue):
    made = built(context).kernel("in_kernel")
    flag, out = support.filled(queue, 2), support.filled(queue, 4)
    launch = made(queue, None, (4,), flag, out, num_groups=1)
    with pytest.raises(portbar.BarrierTimeoutError, match=r"an atomic wait .* work-group 0 of 1") as caught:
        launch.wait()
    assert caught.value.expected == 1
    launch = made(queue, None, (4,), support.filled(queue, 2, 1), out, num_groups=1)
    launch.wait()
    assert (support.uints(queue, out) == 3).all()


@pytest.mark.parametrize("atomics", STRATEGIES)
def test_successful_waits_are_true_and_one_with_its_own_polls_reports_nothing(context, queue, atomics):
    """And what was stored before is seen after the wait."""
    strategy = {} if atomics == "default" else {"atomics": atomics}
    launch, out, _ = launched(built(context, limit=5.0, **strategy).kernel("comes"), queue, least=1)
    launch.wait()
    assert (out == 1).all()


def test_a_kernel_without_a_grid_reports_a_wait_that_gave_up(context, queue):
    program = support.program(context, ALONE, spin_limit=0.02)
    flag, out = support.filled(queue, 1), support.filled(queue, 1)
    launch = program.kernel("told")(queue, (8,), (4,), flag, out)
    with pytest.raises(portbar.BarrierTimeoutError, match=r"'told' .* an atomic wait"):
        launch.wait()
    assert support.uints(queue, out)[0] == 2
    launch = program.kernel("told")(queue, (8,), (4,), support.filled(queue, 1, 7), out)
    launch.wait()
    assert support.uints(queue, out)[0] == 1
    program.kernel("own_limit")(queue, (8,), (4,), flag, out).wait()
    assert support.uints(queue, out)[0] == 2


@pytest.mark.parametrize("std", ["CL1.2", "CL2.0", "CL3.0"])
def test_waits_build_by_each_version_of_the_language_that_the_device_takes(context, queue, std):
    """NVIDIA's compiler has no macros with `...` alone before OpenCL C 3.0."""
    option = f"-cl-std={std}"
    try:
        cl.Program(context, "kernel void k(global uint *a) { a[0] = 1u; }").build(option)
    except cl.RuntimeError:
        pytest.skip(f"the compiler refuses {option}")
    text = (
        '#include "portbar/atomics.h"\nkernel void k(volatile global uint *a)\n{\n    a[1] = '
        "portbar_atomic_wait_explicit(a, 7u, memory_order_relaxed, memory_scope_device, 3u) ? 1u : 2u;\n}\n"
    )
    try:
        kernel = portbar.Program(context, text, options=[option]).kernel("k")
    except portbar.Error as error:
        # Where C11's atomics are needed, an older version is refused with that reason.
        if "-cl-std" not in str(error):
            raise
        return
    cells = support.filled(queue, 2)
    kernel(queue, (1,), (1,), cells).wait()
    assert support.uints(queue, cells).tolist() == [0, 1]
