"""Groups that never come, come late or leave, and processes that compete: each ends in its error, in time."""

from __future__ import annotations

import json
import subprocess
import sys
import time

import numpy as np
import pyopencl as cl
import pytest

import portbar
from portbar.device.addresses import address_of
from tests import support
from tests.checkout import environment, have_ended
from tests.programs import LIMIT_S

pytestmark = pytest.mark.device

SOURCE = """
#include "portbar/device_barrier.h"

/* Group 0 leaves after `sound` barriers, or comes `late`: once another group has given up. */
kernel void meet(PORTBAR_GRID_PARAM, volatile global uint *gone, const uint sound, const uint late)
{
    PORTBAR_ENTER(grid);
    const bool mine = PORTBAR_UNIFORM(portbar_group_id(&grid) == 0u);
    bool held = true;
    for (uint r = 0u; r < sound; ++r)
        held = portbar_device_barrier(&grid);
    for (uint turn = 0u; turn < (mine && late ? 0xFFFFFFFFu : 0u) && atomic_add(gone, 0u) == 0u; ++turn)
        ;
    if (mine && !late)
        return;
    /* All have arrived at the barrier that a late group completes; the next one must tell it. */
    for (uint r = 0u; r < (mine ? 2u : 1u); ++r)
        held = portbar_device_barrier(&grid);
    atomic_xchg(gone + (mine ? 1 : 0), held ? 2u : 1u);
}
"""


@pytest.mark.parametrize(("sound", "late"), [(0, 0), (3, 0), (3, 1)], ids=["never arrives", "leaves early", "is late"])
def test_a_group_that_others_wait_for_in_vain_is_an_error_within_the_limit_and_a_second(context, queue, sound, late):
    if support.scale(queue.device).is_simulator:
        pytest.skip("Oclgrind interprets every poll, which takes longer than this may")
    made = support.kernel(context, SOURCE, "meet", spin_limit=LIMIT_S)
    gone = support.filled(queue, 2)
    support.need_groups(made, queue, (4,), 2)

    def again():
        cl.enqueue_fill_buffer(queue, gone, np.uint32(0), 0, gone.size)
        queue.finish()
        return made(queue, None, (4,), gone, np.uint32(sound), np.uint32(late), num_groups=2)

    launch = support.launched_with(again, 2)
    in_time = support.within(LIMIT_S + 1, queue.device, 2)
    with in_time, pytest.raises(portbar.BarrierTimeoutError) as caught:
        launch.wait()
    assert (caught.value.kernel, caught.value.arrived, caught.value.expected) == ("meet", 1, 2)
    assert support.uints(queue, gone).tolist() == [1, late]


ROUNDS = """
#include "portbar/device_barrier.h"

/* Each round counts up elements that the next group had in the round before. */
kernel void rounds(PORTBAR_GRID_PARAM, global uint *out, const uint n, const uint rounds)
{
    PORTBAR_ENTER(grid);
    for (uint r = 0u; r < rounds; ++r) {
        for (uint i = portbar_global_id(&grid); i < n; i += portbar_global_size(&grid))
            out[(i + r * 4u) % n] = out[(i + r * 4u) % n] == r ? r + 1u : 0xDEADu;
        if (!portbar_device_barrier(&grid))
            return;
    }
}
"""


def test_launches_in_another_queue_are_right_beside_one_that_times_out(context, queue):
    made = support.kernel(context, SOURCE, "meet", spin_limit=LIMIT_S)
    support.need_groups(made, queue, (4,), 2)
    rounds = support.kernel(context, ROUNDS, "rounds")
    n, gone = 512, support.filled(queue, 2)
    with cl.CommandQueue(context) as other:
        rounds.occupancy(other, (4,))
        outs = [support.filled(other, n) for _ in range(5)]
        made(queue, None, (4,), gone, np.uint32(0), np.uint32(0), num_groups=2)
        for launch in [rounds(other, None, (4,), out, np.uint32(n), np.uint32(9)) for out in outs]:
            launch.wait()
        assert all((support.uints(other, out) == 9).all() for out in outs)


PROCESS = """
import json, sys, time
import numpy as np
import pyopencl as cl
import portbar
from portbar.device.addresses import DeviceAddress

job = json.loads(sys.argv[1])
device = DeviceAddress.from_json(job["address"]).resolve()
context = cl.Context([device])
queue = cl.CommandQueue(context)
program = portbar.Program(context, job["source"], spin_limit=job["limit"])
made = program.kernel(job["kernel"])
made.occupancy(queue, (4,))
right = timeouts = wrong = 0
print("ready", flush=True)
sys.stdin.readline()
if job["kernel"] == "meet":
    out = cl.Buffer(context, cl.mem_flags.READ_WRITE, 8)
    cl.enqueue_fill_buffer(queue, out, np.uint32(0), 0, 8)
    launch = made(queue, None, (4,), out, np.uint32(0), np.uint32(0), num_groups=2)
    queue.flush()
    print("launched", flush=True)
    launch.wait()
n = 4096
out = cl.Buffer(context, cl.mem_flags.READ_WRITE, 4 * n)
end = time.monotonic() + job["seconds"]
while time.monotonic() < end:
    cl.enqueue_fill_buffer(queue, out, np.uint32(0), 0, 4 * n)
    launch = made(queue, None, (4,), out, np.uint32(n), np.uint32(20))
    try:
        launch.wait()
    except portbar.BarrierTimeoutError:
        timeouts += 1
        continue
    values = np.empty(n, np.uint32)
    cl.enqueue_copy(queue, values, out)
    ok = (values == 20).all()
    right, wrong = right + bool(ok), wrong + (not ok)
print(json.dumps([right, timeouts, wrong]), flush=True)
"""


def start(device, source, kernel, limit):
    job = {"address": address_of(device).to_json(), "source": source, "kernel": kernel, "limit": limit, "seconds": 1.5}
    command = [sys.executable, "-c", PROCESS, json.dumps(job)]
    return subprocess.Popen(command, env=environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


@pytest.mark.once
@pytest.mark.skipif(sys.platform == "win32", reason="kills a process by a signal")
def test_processes_that_compete_are_right_and_one_of_them_may_be_killed(context, device, queue):
    """Two launch grids for a while; a third waits for a group that never comes, for ten minutes if it is let."""
    support.need_groups(support.kernel(context, SOURCE, "meet", spin_limit=LIMIT_S), queue, (4,), 2)
    working = [start(device, ROUNDS, "rounds", 20.0) for _ in range(2)]
    hung = start(device, SOURCE, "meet", 600.0)
    everyone = [*working, hung]
    try:
        for process in everyone:
            assert process.stdout.readline() == "ready\n"
        for process in everyone:
            process.stdin.write("\n")
            process.stdin.flush()
        assert hung.stdout.readline() == "launched\n"
        time.sleep(0.5)
        hung.kill()
        assert have_ended([hung.pid], within=1.0)
        for process in working:
            right, timeouts, wrong = json.loads(process.stdout.readline())
            assert (wrong, timeouts) == (0, 0)
            assert right > 0
            assert process.wait(10) == 0
    finally:
        for process in everyone:
            process.kill()
            process.communicate()
