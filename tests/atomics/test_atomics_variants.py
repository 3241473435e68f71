"""One atomics strategy, one module: the lists are made of these, and a program may register one of its own."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import portbar
from portbar.backends.backend import BACKENDS
from portbar.backends.c11 import VARIANT as C11
from portbar.choices.strategy import ALTERNATIVES, DeviceProfile, choose
from portbar.device.facts import DeviceFacts
from portbar.device.findings import Findings
from portbar.errors import UnsupportedFeatureError
from portbar.survey.measuring.probe import STEPS
from tests.checkout import ROOT
from tests.support import cells, filled, uints

HOPPER = DeviceFacts(
    name="a Hopper",
    nvidia={"compute_capability_major": 9},
    opencl_c_versions=("3.0",),
    atomic_memory_capabilities=("acq_rel", "scope_device"),
)

SOURCE = """\
#include "portbar/device_barrier.h"
#include "portbar/atomics.h"

kernel void count(PORTBAR_GRID_PARAM, global uint *arrived, global uint *seen)
{
    PORTBAR_ENTER(grid);
    portbar_atomic_add_explicit(arrived, 3u, memory_order_relaxed, memory_scope_device);
    if (!portbar_device_barrier(&grid))
        return;
    const uint i = portbar_global_id(&grid);
    seen[i] = arrived[0] - 3u * portbar_global_size(&grid);
}
"""


class Twin(type(C11)):
    """C11's atomics by another name, wherever C11's compile."""

    def std(self, facts, findings):
        return C11.std(facts, findings)

    def judge(self, facts, findings):
        found = C11.std(facts, findings) is not None
        return found, "made for a test" if found else "no C11 atomics"


@pytest.fixture
def twin(tmp_path):
    """Register a strategy with a template of its own for the test."""
    text = Path(ROOT / "cl_templates" / C11.template).read_text(encoding="utf-8")
    marked = text.replace('<%def name="fences()">', '<%def name="fences()">\n#define TWINS_OWN_FENCES 1', 1)
    path = tmp_path / "atomics.mako"
    path.write_text(marked.replace("    return ${", "    /* the twin's own */ return ${"), encoding="utf-8")
    variant = replace(Twin(**vars(C11)), name="twin", rank=99, template=str(path))
    with BACKENDS.registered(variant):
        yield variant
    assert "twin" not in ALTERNATIVES["atomics"]


def test_the_order_of_preference_is_written_once_and_lists_follow_it():
    assert list(BACKENDS) == list(ALTERNATIVES["atomics"]) == ["ptx", "c11", "membar", "cl12"]
    assert [step.removeprefix("ordering ") for step in STEPS if step.startswith("ordering ")] == list(BACKENDS)
    probes = [step.removeprefix("atomics ") for step in STEPS if step.startswith("atomics ")]
    assert probes == ["ptx", "c11@CL3.0", "c11@CL2.0", "membar", "cl12"]
    builds = dict.fromkeys(probes, True)
    ordering = dict.fromkeys(BACKENDS, "pass")
    for name in BACKENDS:
        assert choose(DeviceProfile(HOPPER, Findings(builds=builds, ordering=dict(ordering)))).atomics.value == name
        ordering[name] = "3 stale"


def test_the_page_has_the_row_of_each_strategy_in_their_order():
    page = (ROOT / "docs" / "atomics_strategies.md").read_text(encoding="utf-8")
    table = page.partition("## Strategies\n")[2].partition("\n\nThe mapping")[0].strip().splitlines()
    assert table[2:] == [variant.row for variant in BACKENDS.values()]


def test_a_registered_strategy_comes_last_and_goes(twin):
    assert list(ALTERNATIVES["atomics"])[-1] == "twin"
    strategy = choose(DeviceProfile(HOPPER), {"atomics": "twin"})
    assert (strategy.atomics.value, strategy.capabilities.std) == ("twin", "CL3.0")
    assert choose(DeviceProfile(HOPPER)).atomics.value == "ptx"
    BACKENDS.unregister("twin")
    with pytest.raises(UnsupportedFeatureError, match="'twin' is not a strategy for atomics"):
        choose(DeviceProfile(HOPPER), {"atomics": "twin"})


@pytest.mark.device
def test_a_registered_strategy_does_atomics_and_barriers(context, queue, twin):
    profile = portbar.describe(queue.device)
    if not twin.judge(profile.facts, profile.findings)[0]:
        pytest.skip("the device has no C11 atomics to make another strategy of")
    if choose(profile).max_groups == 1:
        pytest.skip("grids have one work-group here")
    program = portbar.Program(context, SOURCE, strategy={"atomics": "twin"})
    assert program.strategy(queue.device).atomics.value == "twin"
    kernel = program.kernel("count")
    arrived, seen = filled(queue, 1), cells(kernel, queue, (8,), value=1)
    if kernel.occupancy(queue, (8,), arrived, seen).groups == 1:
        pytest.skip("the device runs one work-group at a time, which meets nobody")
    launch = kernel(queue, None, (8,), arrived, seen)
    launch.wait()
    assert launch.num_groups > 1
    assert not uints(queue, seen)[: launch.num_groups * 8].any()
    assert "the twin's own" in program.rendered(queue.device)
