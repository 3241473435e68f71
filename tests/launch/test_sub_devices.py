"""Programs on sub-devices: a context of one may list the device that it is a part of, and its numbers are its own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace

import numpy as np
import pyopencl as cl
import pyopencl.array as cl_array
import pytest

import portbar
from portbar.choices import profile as profiles
from portbar.device.addresses import root_of
from portbar.device.facts import device_key, facts
from portbar.device.findings import CACHE_KIND, Findings
from portbar.records import cache

pytestmark = pytest.mark.device

SOURCE = """
#include "portbar/device_barrier.h"
kernel void counts(PORTBAR_GRID_PARAM, global uint *cells)
{
    PORTBAR_ENTER(grid);
    PORTBAR_FOR(i, &grid, 8)
        cells[i] += 1u;
    portbar_device_barrier(&grid);
    if (portbar_global_id(&grid) == 0u)
        cells[8] = cells[3] + 10u * cells[7];
}
"""


@pytest.fixture
def part(device: cl.Device) -> cl.Device:
    """A sub-device with one compute unit."""
    if cl.device_partition_property.EQUALLY not in device.partition_properties:
        pytest.skip("the device cannot be partitioned")  # Mesa 22 ends the process when asked to
    try:
        return device.create_sub_devices([cl.device_partition_property.EQUALLY, 1])[0]
    except cl.Error as error:
        pytest.skip(f"the device cannot be partitioned: {error}")


@pytest.fixture
def part_queue(part: cl.Device) -> Iterator[cl.CommandQueue]:
    context = cl.Context([part])
    queue = cl.CommandQueue(context, part)
    yield queue
    queue.finish()


@pytest.mark.parametrize("named", [False, True])
@pytest.mark.parametrize("isolated", [False, True])
def test_a_program_of_a_sub_device_s_context_runs_there(part, part_queue, named, isolated):
    devices = [part] if named else None
    program = portbar.Program(part_queue.context, SOURCE, devices=devices, isolate_build=isolated)
    cells = cl_array.zeros(part_queue, 9, np.uint32)
    for _ in range(2):
        launch = program.kernel("counts")(part_queue, None, (2,), cells)
        launch.wait()
    assert cells.get().tolist() == [2] * 8 + [22]
    assert program.profile(part).facts.compute_units == part.max_compute_units
    assert launch.num_groups >= 1


def test_a_device_that_the_context_cannot_use_is_refused_as_before(device, part):
    """A part belongs to the contexts that take a queue on it; the whole device belongs to no context of another platform."""
    others = [one for platform in portbar.load_platforms() for one in platform.get_devices() if one != device]
    program = None
    for other in others:
        with suppress(portbar.BuildError):
            program = portbar.Program(cl.Context([other]), SOURCE)
            break
    if program is None:
        pytest.skip("there is no other device that works")
    for one in (device, part):
        with pytest.raises(portbar.DeviceError, match="was not built for"):
            program.strategy(one)
        with pytest.raises(portbar.DeviceError, match="is not a device of"):
            portbar.Program(program.context, SOURCE, devices=[one])


@pytest.mark.usefixtures("own_cache")
def test_a_sub_device_has_the_findings_of_its_device_without_counts(device, part):
    of_device = facts(device)
    if of_device.compute_units == part.max_compute_units:
        pytest.skip("a part of a device with one compute unit is all of it")
    found = Findings(
        builds={"cl12": True},
        ordering={"cl12": "pass"},
        groups_in_flight=7,
        polls_per_second=1e6,
        barrier_table=((1, 1, "flag"),),
        source="probed in a test",
    )
    cache.store(CACHE_KIND, device_key(of_device), found.to_json())
    profiles.forget()
    try:
        known = portbar.describe(part).findings
        assert known is not None
        # The vendor matrix may lend tuning besides.
        assert replace(known, tuning=None, arrays=None, barrier_table=(), source="") == replace(
            found, groups_in_flight=None, barrier_table=(), source=""
        )
        assert known.barrier_table != found.barrier_table
        assert portbar.describe(device).findings.groups_in_flight == 7
    finally:
        profiles.forget()


def test_the_root_of_a_part_is_the_device_and_a_device_is_its_own(device, part):
    assert root_of(part) == device
    assert root_of(device) == device
