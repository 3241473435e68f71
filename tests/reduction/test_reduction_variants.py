"""A way to combine lanes and an operator from outside the package: one object each, and a template for the former."""

from __future__ import annotations

import functools

import numpy as np
import pyopencl.array
import pytest

import portbar
from portbar.choices.strategy import ALTERNATIVES
from portbar.primitives.reduction.operators import OPERATORS, BuiltIn
from portbar.primitives.reduction.selection import VARIANTS, Lanes
from portbar.survey.measuring.reduction import usable_strategies
from tests.support import host_array, to_device

pytestmark = pytest.mark.device

LOCAL, KEPT = 48, 4096

SOURCE = """
#include "portbar/device_barrier.h"
#include "portbar/reduction.h"
#if defined(PORTBAR_REDUCTION_SERIAL)
#define SERIAL 1u
#else
#define SERIAL 0u
#endif
kernel void levels(PORTBAR_GRID_PARAM, global const uint *in, global uint *out)
{
    PORTBAR_ENTER(grid);
    PORTBAR_REDUCTION_SCRATCH(scratch);
    const uint at = portbar_global_id(&grid), x = in[at % 4096u];
    const uint lanes = portbar_sub_group_reduce_OP(scratch, x);
    const uint group = portbar_work_group_reduce_OP(scratch, x);
    const uint before = portbar_work_group_scan_exclusive_OP(scratch, x);
    const uint all = portbar_device_reduce_OP(&grid, scratch, x);
    if (at < 4096u) {
        out[at * 6u] = lanes;
        out[at * 6u + 1u] = group;
        out[at * 6u + 2u] = before;
        out[at * 6u + 3u] = all;
        out[at * 6u + 4u] = portbar_sub_group_id();
        out[at * 6u + 5u] = SERIAL;
    }
}
"""

#: Each work-item combines all values by itself.
TEMPLATE = """\
<%inherit file="reduction/lanes/tree.mako"/>
<%def name="reduce(form)">\\
    const uint id = portbar_reduction_id(), first = id - portbar_sub_group_local_id();
    *PORTBAR_OWN(${form.kind}, scratch, id) = x;
    PORTBAR_LANE_BARRIER();
    x = *PORTBAR_OWN(${form.kind}, scratch, first);
    for (uint i = 1; i < portbar_sub_group_size(); ++i)
        x = ${form.combine}(x, *PORTBAR_OWN(${form.kind}, scratch, first + i));
    PORTBAR_LANE_BARRIER();
    return x;
</%def>
"""


def check_levels(queue, op, combine, neutral, *, strategy=None, is_serial=False):
    """Launch the kernel of all three levels and compare with the operator on the host, in the work-items' order."""
    made = portbar.Program(queue.context, SOURCE.replace("OP", op), strategy=strategy or {}).kernel("levels")
    values = np.random.default_rng(7).integers(0, 1 << 32, KEPT, dtype=np.uint32)
    out = to_device(queue, np.zeros((KEPT, 6), np.uint32))
    launch = made(queue, None, (LOCAL,), to_device(queue, values), out)
    launch.wait()
    size = launch.num_groups * LOCAL
    shown = min(size, KEPT)
    found = host_array(queue, out, np.uint32).reshape(KEPT, 6)[:shown]
    items = values[np.arange(size) % KEPT].tolist()

    def all_of(some):
        return functools.reduce(lambda a, b: combine(a, b) & 0xFFFF_FFFF, some, neutral)

    assert (found[:, 3] == all_of(items)).all()
    assert (found[:, 5] == is_serial).all()
    for start in range(0, shown // LOCAL * LOCAL, LOCAL):
        mine, rows = items[start : start + LOCAL], found[start : start + LOCAL]
        assert (rows[:, 1] == all_of(mine)).all()
        assert rows[:, 2].tolist() == [all_of(mine[:i]) for i in range(LOCAL)]
        for part in np.unique(rows[:, 4]):
            lanes = rows[:, 4] == part
            assert (rows[lanes, 0] == all_of([x for x, there in zip(mine, lanes, strict=True) if there])).all()


def test_lanes_from_outside_combine_at_all_levels_and_are_gone_afterwards(context, queue, tmp_path):
    template = tmp_path / "serial.mako"
    template.write_text(TEMPLATE, encoding="utf-8")
    serial = Lanes("serial", 5, "each combines all", str(template), lambda *_: (True, "for a test"))
    profile = portbar.describe(queue.device)
    before = portbar.choose(profile).reduction
    with VARIANTS.registered(serial):
        assert portbar.choose(profile).reduction.value == "serial"
        assert usable_strategies(profile)["serial"] == ""
        check_levels(queue, "xor", int.__xor__, 0, is_serial=True)
    assert portbar.choose(profile).reduction == before
    assert "serial" not in ALTERNATIVES["reduction"]
    with pytest.raises(portbar.UnsupportedFeatureError, match="serial"):
        portbar.Program(context, SOURCE.replace("OP", "xor"), strategy={"reduction": "serial"})
    check_levels(queue, "xor", int.__xor__, 0)


def test_an_operator_from_outside_is_one_entry_and_gone_afterwards(context, queue):
    def on_host(a, b):
        return a * b + a + b

    grow = BuiltIn("grow", 99, "growth", "grow", frozenset({"uint"}), "{a} * {b} + {a} + {b}", "0", on_host)
    values = np.random.default_rng(8).integers(0, 1 << 32, 1000, dtype=np.uint32)
    wanted = functools.reduce(lambda a, b: on_host(a, b) & 0xFFFF_FFFF, values.tolist())
    with OPERATORS.registered(grow):
        check_levels(queue, "grow", on_host, 0)
        result = portbar.reduce(queue, device_array_of(queue, values), "grow")
        assert int(result.get()) == wanted
        assert portbar.Reduction(np.uint32, "grow", neutral=0).operator is grow
        with pytest.raises(portbar.Error, match="neutral=1 is not neutral"):
            portbar.Reduction(np.uint32, "grow", neutral=1)
    with pytest.raises(portbar.Error, match="unknown operator 'grow'"):
        portbar.Reduction(np.uint32, "grow")
    with pytest.raises((portbar.BuildError, portbar.Error)):
        portbar.Program(context, SOURCE.replace("OP", "grow")).kernel("levels")(
            queue, None, (LOCAL,), to_device(queue, values), to_device(queue, values)
        ).wait()


def device_array_of(queue, values):
    """Return a PyOpenCL array with a copy of NumPy's."""
    return pyopencl.array.to_device(queue, values)
