"""Launching follows PyOpenCL: its arguments, events, queues, contexts, and host threads."""

from __future__ import annotations

import struct
import subprocess
import sys
import threading
import time
from dataclasses import replace

import numpy as np
import pyopencl as cl
import pyopencl.array as cl_array
import pyopencl.tools as cl_tools
import pytest

import portbar
from portbar.device import quirks
from portbar.device.addresses import address_of
from portbar.device.facts import facts
from tests import checkout, support
from tests.rows import runs_part

pytestmark = pytest.mark.device

SOURCE = """
#include "portbar/device_barrier.h"

/* out[i] = factor * in[n - 1 - i] + offset, by way of a buffer that the other groups fill. */
kernel void reverse(PORTBAR_GRID_PARAM, global const int *in, global int *between, global int *out, const uint n,
                    const short factor, const float offset)
{
    PORTBAR_ENTER(grid);
    for (uint i = portbar_global_id(&grid); i < n; i += portbar_global_size(&grid))
        between[i] = in[i] * factor;
    portbar_device_barrier(&grid);
    for (uint i = portbar_global_id(&grid); i < n; i += portbar_global_size(&grid))
        out[i] = between[n - 1u - i] + (int)offset;
}

/* Every group adds to every cell, one round after the other: overlapping launches on one state would be seen. All start from
   one cell, since a smaller launch leaves the others behind. */
kernel void bump(PORTBAR_GRID_PARAM, global uint *cells, global uint *wrong, const uint rounds)
{
    PORTBAR_ENTER(grid);
    const uint me = portbar_global_id(&grid), n = portbar_global_size(&grid);
    const uint before = cells[0];
    bool held = portbar_device_barrier(&grid);
    for (uint r = 0u; r < rounds; ++r) {
        cells[(me + r) % n] = before + r + 1u;
        held = portbar_device_barrier(&grid) && held;
        if (cells[me] != before + r + 1u)
            atomic_inc(wrong);
        held = portbar_device_barrier(&grid) && held;
    }
    if (!held)
        atomic_inc(wrong);
}

kernel __attribute__((reqd_work_group_size(4, 2, 1))) void shaped(PORTBAR_GRID_PARAM, global uint *out)
{
    PORTBAR_ENTER(grid);
    portbar_device_barrier(&grid);
    out[portbar_global_id(&grid)] = (uint)(get_local_size(0) * 100u + get_local_size(1) * 10u + get_local_size(2));
}

kernel void staged(PORTBAR_GRID_PARAM, local uint *first, global uint *out, local uint *second)
{
    PORTBAR_ENTER(grid);
    const uint i = (uint)get_local_id(0), n = (uint)get_local_size(0);
    first[i] = portbar_global_id(&grid) + 1u;
    second[n - 1u - i] = 1000u * (i + 1u);
    portbar_device_barrier(&grid);
    out[portbar_global_id(&grid)] = first[n - 1u - i] + second[i];
}

kernel void given(PORTBAR_GRID_PARAM, global const uint *memory, global uint *out)
{
    PORTBAR_ENTER(grid);
    portbar_device_barrier(&grid);
    if (portbar_group_id(&grid) == 0u)
        out[get_local_id(0)] = memory == 0 ? 2u : 1u;
}

kernel void given_without_a_grid(global const uint *memory, global uint *out)
{
    out[get_global_id(0)] = memory == 0 ? 2u : 1u;
}

/* Takes a while, and writes only at its end. */
kernel void late(global int *out, global const int *in, const uint n, const uint turns)
{
    uint x = 1u;
    for (uint i = 0u; i < turns; ++i)
        x = x * 1664525u + (x >> 7) + (uint)in[i % n];
    for (uint i = 0u; i < n; ++i)
        out[i] = in[i] + (x == 0u ? 1 : 0);
}

kernel void plain(global uint *out, const uint salt)
{
    const size_t i = get_global_id(0) + get_global_size(0) * (get_global_id(1) + get_global_size(1) * get_global_id(2));
    out[i] = (uint)i * 3u + salt;
}
"""

N = 1_001
INTS = np.random.default_rng(5).integers(-(1 << 14), 1 << 14, N).astype(np.int32)
RIGHT = INTS[::-1] * 3 + 7
SCALARS = (np.uint32(N), np.int16(3), np.float32(7))


def reversed_by(made, queue, local=(8,), **sizes):
    between, out = support.filled(queue, N), support.filled(queue, N)
    launch = made(
        queue, sizes.pop("global_size", None), local, support.to_device(queue, INTS), between, out, *SCALARS, **sizes
    )
    launch.wait()
    return launch, support.uints(queue, out).view(np.int32)


def test_buffers_and_numpy_scalars_and_the_event_s_times(context, queue):
    launch, out = reversed_by(support.kernel(context, SOURCE, "reverse"), queue)
    np.testing.assert_array_equal(out, RIGHT)
    assert isinstance(launch, portbar.Launch)
    assert isinstance(launch.event, cl.Event)
    assert launch.event.command_execution_status == cl.command_execution_status.COMPLETE
    assert launch.event.profile.end >= launch.event.profile.start > 0


def filled_late(context, queue, target):
    """Fill `target` with INTS by a kernel that starts in 0.1 s; return its event."""
    is_simulator = support.scale(queue.device).is_simulator
    late, source = support.kernel(context, SOURCE, "late"), support.to_device(queue, INTS)
    scratch = support.filled(queue, N)
    turns = np.uint32(100 if is_simulator else 60_000)
    late(queue, (1,), (1,), scratch, source, np.uint32(N), turns).wait()  # pays for what the driver prepares once
    start = time.monotonic()
    late(queue, (1,), (1,), scratch, source, np.uint32(N), turns).wait()
    for _ in range(1 if is_simulator else int(0.1 / (time.monotonic() - start)) + 1):
        late(queue, (1,), (1,), scratch, source, np.uint32(N), turns)
    launch = late(queue, (1,), (1,), target, source, np.uint32(N), turns)
    queue.flush()
    return launch.event


def test_arrays_are_taken_with_their_events_and_a_wait_list_is_waited_for(context, queue):
    made = support.kernel(context, SOURCE, "reverse")
    made.occupancy(queue, (8,))
    other = cl.CommandQueue(context)
    for by_array in (True, False):
        a, between, out = (cl_array.zeros(queue, N, np.int32) for _ in range(3))
        queue.finish()
        event = filled_late(context, queue, a.base_data)
        if by_array:
            a.add_event(event)
        given = (a, between, out) if by_array else (a.base_data, between.base_data, out.base_data)
        launch = made(other, None, (8,), *given, *SCALARS, wait_for=None if by_array else iter([event]))
        assert (launch.event in out.events) == (launch.event in a.events) == by_array
        launch.wait()
        np.testing.assert_array_equal(out.get(), RIGHT)


def test_an_empty_array_is_a_null_pointer(context, queue):
    empty = cl_array.zeros(queue, 0, np.uint32)
    for name, size in [("given", None), ("given_without_a_grid", (4,))]:
        made = support.kernel(context, SOURCE, name)
        for memory, told in [(empty, 2), (cl_array.zeros(queue, 4, np.uint32), 1), (empty, 2)]:
            out = cl_array.zeros(queue, 4, np.uint32)
            made(queue, size, (4,), memory, out).wait()
            assert out.get().tolist() == [told] * 4


def test_arrays_on_shared_virtual_memory_are_taken(context, queue):
    device = queue.device
    if device.platform._get_cl_version() < (2, 0) or not device.svm_capabilities:
        pytest.skip("the device has no shared virtual memory")
    # Without a queue: PoCL 3.0 sometimes crashes after an enqueued `clEnqueueSVMFree`: it reads the command after freeing it.
    allocator = cl_tools.SVMAllocator(context, flags=cl.svm_mem_flags.READ_WRITE)
    a, between, out = (cl_array.to_device(queue, values, allocator=allocator) for values in (INTS, 0 * INTS, 0 * INTS))
    made = support.kernel(context, SOURCE, "reverse")
    made(queue, None, (8,), a, between, out, *SCALARS).wait()
    np.testing.assert_array_equal(out.get(), RIGHT)
    assert portbar.reduce(queue, out).get() == RIGHT.sum()
    # NVIDIA's driver takes no buffer in a handle that has had such a pointer.
    _, found = reversed_by(made, queue)
    np.testing.assert_array_equal(found, RIGHT)
    assert portbar.reduce(queue, cl_array.to_device(queue, RIGHT)).get() == RIGHT.sum()
    assert portbar.reduce(queue, out).get() == RIGHT.sum()


def test_an_array_that_the_kernel_would_see_otherwise_is_refused(context, queue):
    made = support.kernel(context, SOURCE, "reverse")
    a, b, c = (cl_array.zeros(queue, 2 * N, np.int32) for _ in range(3))
    with pytest.raises(portbar.LaunchError, match=r"argument 0 \('in'\) .*4 bytes into its buffer.*copy"):
        made(queue, None, (8,), a[1:], b, c, *SCALARS)
    with pytest.raises(portbar.LaunchError, match=r"argument 2 \('out'\) .*not contiguous.*take"):
        made(queue, None, (8,), a, b, c[::2], *SCALARS)


@pytest.mark.parametrize("local", [(8,), [4, 2], (2, 2, 2), (7,), np.array([8])], ids=str)
def test_sizes_of_any_dimension_and_sequence(context, queue, local):
    made = support.kernel(context, SOURCE, "reverse")
    for sizes in ({}, {"num_groups": 1}, {"global_size": [4 * int(n) for n in local]}):
        launch, out = reversed_by(made, queue, local, **sizes)
        np.testing.assert_array_equal(out, RIGHT)
        assert launch.num_groups >= 1


def test_num_groups_is_what_is_launched(context, queue):
    made = support.kernel(context, SOURCE, "reverse")
    holds = made.occupancy(queue, (8,)).groups
    for groups in sorted({1, 2, 3, holds // 2, holds - 1, holds} & set(range(1, holds + 1))):
        launch, out = reversed_by(made, queue, num_groups=groups)
        np.testing.assert_array_equal(out, RIGHT)
        assert launch.num_groups <= groups


def test_the_local_size_may_be_left_to_the_kernel_s_own(context, queue):
    made = support.kernel(context, SOURCE, "shaped")
    for local in (None, (4, 2), (4, 2, 1)):
        out = support.cells(made, queue, (4, 2))
        launch = made(queue, None, local, out)
        launch.wait()
        assert (support.uints(queue, out)[: 8 * launch.num_groups] == 421).all()


def test_local_memory_arguments_of_different_sizes(context, queue):
    made = support.kernel(context, SOURCE, "staged")
    with pytest.raises(portbar.LaunchError, match=r"'first'.*pass the kernel's arguments"):
        made.occupancy(queue, (8,))
    for items in (4, 8, 4):
        first, second = cl.LocalMemory(4 * items), cl.LocalMemory(8 * items)
        room = support.room(made, queue, (items,), first, support.filled(queue, 1), second)
        out = support.filled(queue, room * items)
        launch = made(queue, None, (items,), first, out, second)
        launch.wait()
        lanes, groups = np.arange(items), np.arange(launch.num_groups)[:, np.newaxis]
        right = (groups * items + items - lanes + 1000 * (items - lanes)).ravel()
        np.testing.assert_array_equal(support.uints(queue, out)[: right.size], right)


def test_a_kernel_without_a_grid_is_launched_the_same_way(context, queue):
    made = support.kernel(context, SOURCE, "plain")
    for size, local in [((24,), None), ((24,), (8,)), ((6, 4), (3, 2)), ((4, 3, 2), (2, 1, 2)), ([24], [4])]:
        out = support.filled(queue, 24)
        launch = made(queue, size, local, out, np.uint32(11))
        launch.wait()
        assert launch.num_groups == 0
        np.testing.assert_array_equal(support.uints(queue, out), np.arange(24) * 3 + 11)


def bump_many(made, queue, launches, rounds=3):
    """Launch in a row without waiting; return the launches and the buffers with the results."""
    cells, wrong = support.cells(made, queue, (8,)), support.filled(queue, 1)
    # Buffers are filled when they are made, so the launches may start at once.
    return [made(queue, None, (8,), cells, wrong, np.uint32(rounds)) for _ in range(launches)], wrong


def test_an_out_of_order_queue_keeps_launches_apart(context, queue, loose_queue):
    made = support.kernel(context, SOURCE, "bump")
    launches, wrong = bump_many(made, loose_queue, 100)
    for launch in reversed(launches):
        launch.wait()
    assert support.uints(queue, wrong)[0] == 0
    # A change of state buffers must not let launches overlap either.
    large = max(200, support.room(made, queue, (8,)))
    grown, more = support.filled(queue, large * 8), support.filled(queue, 1)
    sizes = [None, (8 * 80,), None, (8 * large,), None]
    launches = [made(loose_queue, size, (8,), grown, more, np.uint32(3)) for size in sizes]
    for launch in launches:
        launch.wait()
    assert support.uints(queue, more)[0] == 0


def test_several_queues_and_contexts_at_once(context, device, queue):
    contexts = [context, cl.Context([device])]
    running = []
    for where in contexts:
        made = support.kernel(where, SOURCE, "bump")
        running += [bump_many(made, cl.CommandQueue(where), 10) for _ in range(3)]
    for launches, wrong in running:
        for launch in launches:
            launch.wait()
        reader = cl.CommandQueue(wrong.get_info(cl.mem_info.CONTEXT))
        assert support.uints(reader, wrong)[0] == 0


def test_a_launch_beside_one_in_another_queue_waits_less_for_threads(context, device):
    """Two grids that split the threads would each wait for the other's until their patience is spent."""
    if not quirks.has_effect(quirks.QUEUES_SPLIT_THREADS, facts(device)):
        pytest.skip("queues do not split the threads of this device")
    # A program of its own, whose plans are few.
    made = portbar.Program(context, SOURCE).kernel("bump")
    first, second = cl.CommandQueue(context), cl.CommandQueue(context)
    cells, wrong = support.cells(made, first, (8,)), support.filled(first, 1)

    def patience():
        made(second, None, (8,), cells, wrong, np.uint32(0)).wait()
        return next(int(plan.words[2]) for plan in plans() if plan.queue == second)

    def plans():
        return [replace(plan, words=struct.unpack("=4I", plan.words)) for plan in made._plans.values()]

    alone = patience()
    cause = cl.UserEvent(context)
    blocked = made(first, None, (8,), cells, wrong, np.uint32(0), wait_for=[cause])
    beside = patience()
    cause.set_status(cl.command_execution_status.COMPLETE)
    blocked.wait()
    assert beside < alone
    assert patience() == alone


@pytest.fixture
def eager_threads():
    """Let Python change threads as often as it can: its usual interval of 5 ms hides that a launch has no lock."""
    usual = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(usual)


def test_threads_that_launch_one_kernel_see_no_error_and_no_wrong_value(context, eager_threads):
    """Half of the threads have a queue of their own, the others share one; some wait for each launch, some for every tenth."""
    if support.scale(context.devices[0]).is_simulator:
        # Its API is not safe for several host threads, as OpenCL asks for.
        pytest.skip("Oclgrind 21.10 aborts when several host threads call it at once")
    made, shared = support.kernel(context, SOURCE, "reverse"), cl.CommandQueue(context)
    made.occupancy(shared, (8,))
    launches, errors, wrong = [0] * 8, [], []
    start, end, seconds = threading.Barrier(8), [], 2 if runs_part() else 10

    def work(seed):
        queue = shared if seed % 2 else cl.CommandQueue(context)
        mine = INTS[seed:] if seed else INTS
        source, between, out = (support.to_device(queue, values) for values in (mine, 0 * mine, 0 * mine))
        reader, n = cl.CommandQueue(context), np.uint32(len(mine))
        start.wait(60)
        end.append(time.monotonic() + seconds)
        while time.monotonic() < end[0] and len(errors) < 10:
            try:
                offset = launches[seed] % 1000
                pending = [
                    made(queue, None, (8,), source, between, out, n, np.int16(seed + 2), np.float32(offset))
                    for _ in range(1 if seed % 4 < 2 else 10)
                ]
                for launch in pending:
                    launch.wait()
                launches[seed] += len(pending)
                if not np.array_equal(support.uints(reader, out).view(np.int32), mine[::-1] * (seed + 2) + offset):
                    wrong.append((seed, launches[seed]))
            except Exception as error:  # noqa: BLE001 (they are counted)
                errors.append(f"thread {seed}, launch {launches[seed]}: {error!r}")

    workers = [threading.Thread(target=work, args=(seed,), daemon=True) for seed in range(8)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(90)
    assert not any(worker.is_alive() for worker in workers)
    assert (errors, wrong) == ([], []), f"of {sum(launches)} launches"
    assert all(launches)


def test_waiting_for_one_launch_leaves_the_others_running(context, queue):
    launches, wrong = bump_many(support.kernel(context, SOURCE, "bump"), queue, 5)
    launches[2].wait()
    launches[2].wait()
    assert launches[0].num_groups >= 1
    launches[4].wait()
    assert support.uints(queue, wrong)[0] == 0


_TWICE = """
import sys
import numpy as np
import pyopencl as cl
import portbar
from portbar.device.addresses import select_devices

((_, device), *_) = select_devices([sys.argv[1]])
portbar.probe(device)
context = cl.Context([device])
queue = cl.CommandQueue(context)
kernel = portbar.Program(context, sys.argv[2]).kernel("shaped")
kernel(queue, None, None, cl.Buffer(context, cl.mem_flags.READ_WRITE, 1 << 16), num_groups=1).wait()
try:
    portbar.Program(context, sys.argv[2]).kernel("plain")(queue, (4,), None, cl.Buffer(context, cl.mem_flags.READ_WRITE, 64), 7)
except portbar.LaunchError as error:
    assert "np.uint32" in str(error), error
else:
    raise SystemExit("a Python int was taken")
"""


def test_compiler_caches_do_not_cost_the_checks_of_arguments(device, findings, tmp_path):
    environment = {**checkout.environment(), "XDG_CACHE_HOME": str(tmp_path), "POCL_CACHE_DIR": str(tmp_path / "pocl")}
    environment.pop("PYOPENCL_NO_CACHE", None)
    where = address_of(device)
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", _TWICE, f"{where.platform_index}:{where.device_index}", SOURCE],
            env=environment, capture_output=True, text=True, timeout=110, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
