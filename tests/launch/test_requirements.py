"""The features that a program may require: each name is refused where the device lacks it, with the reason, and accepted
elsewhere."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pyopencl as cl
import pytest

import portbar
from portbar.choices import requirements
from portbar.choices.requirements import REQUIREMENTS, Candidate, parse
from portbar.choices.strategy import DeviceProfile, choose
from portbar.device.facts import DeviceFacts
from portbar.device.findings import Findings
from portbar.primitives.split_barrier.selection import FEATURES as SPLIT_FEATURES
from portbar.survey.measuring.probe import FEATURES
from tests import support
from tests.checkout import ROOT

on_device = pytest.mark.device

PAGE = (ROOT / "docs" / "strategies.md").read_text(encoding="utf-8")

RICH = DeviceProfile(
    DeviceFacts(
        name="Rich", type=("GPU",), opencl_c_versions=("1.2", "3.0"), compute_units=16, max_work_group_size=1024,
        local_mem_size=65536, global_mem_size=1 << 30, max_sub_groups=32, fp64=True, fp16=True, int64_atomics=True,
        atomic_memory_capabilities=("relaxed", "acq_rel", "seq_cst", "scope_device", "scope_all_devices"),
        atomic_fence_capabilities=("relaxed", "acq_rel", "seq_cst", "scope_device"),
        svm_capabilities=("coarse_grain_buffer", "fine_grain_buffer", "fine_grain_system", "atomics"),
        nvidia={"compute_capability_major": 9, "compute_capability_minor": 0},
    ),
    Findings(
        builds={**dict.fromkeys(FEATURES, True), "CL3.0": True, "c11@CL3.0": True, "ptx": True},
        ordering={"c11": "pass", "ptx": "pass"}, litmus={"c11": "pass: 24 tests", "ptx": "pass: 24 tests"},
        progress=dict.fromkeys(("work_groups", "sub_groups", "lanes"), "independent"), groups_in_flight=64,
    ),
)  # fmt: skip
POOR = DeviceProfile(
    DeviceFacts(
        name="Poor", type=("CPU",), compute_units=1, max_work_group_size=16, local_mem_size=1024, global_mem_size=1 << 20,
        max_sub_groups=0, fp64=False, fp16=False, int64_atomics=False, atomic_memory_capabilities=("relaxed",),
        svm_capabilities=(), features=("__opencl_c_int64",),
    ),
    Findings(
        builds={**dict.fromkeys(FEATURES, False), "CL1.2": True, "cl12": True},
        progress=dict.fromkeys(("work_groups", "sub_groups", "lanes"), "none"),
        groups_in_flight=1,
    ),
)  # fmt: skip
UNKNOWN = DeviceProfile(DeviceFacts(name="Unknown", type=("GPU",), atomic_memory_capabilities=("acq_rel", "scope_device"),
                                    opencl_c_versions=("3.0",)))  # fmt: skip
#: Requirements that are known without a driver's answer or a probe.
ALWAYS_KNOWN = {"groups", "split_barrier.overlapping", "all_svm_devices", "seq_cst"}

NUMBERS = {"local_memory": 32768, "global_memory": 1 << 22, "work_group_size": 256, "compute_units": 4,
           "compute_capability": 80, "groups": 2}  # fmt: skip


def candidate(profile, answers=None):
    ordering = "work_group" if profile is POOR else "device"
    return Candidate(profile, choose(profile, ordering=ordering), (answers or {}).get)


def written(name):
    return f"{name}>={NUMBERS[name]}" if name in NUMBERS else name


def check(device, *names):
    requirements.check(parse(names), device)


def refusal(device, *names):
    with pytest.raises(portbar.UnsupportedFeatureError) as caught:
        check(device, *names)
    return str(caught.value)


@pytest.mark.parametrize("name", REQUIREMENTS)
def test_each_name_is_accepted_where_it_is_known_and_refused_where_it_is_denied(name):
    check(candidate(RICH, {"IMAGE_SUPPORT": 1, "QUEUE_PROPERTIES": 3, "HOST_UNIFIED_MEMORY": 1}), written(name))
    poor = candidate(POOR, {"IMAGE_SUPPORT": 0, "QUEUE_PROPERTIES": 2, "HOST_UNIFIED_MEMORY": 0})
    if name in {"split_barrier.overlapping", "loops"}:
        check(poor, written(name))
        return
    if name in {"ordering", "litmus"}:
        seen = replace(POOR.findings, **{name: {"cl12": "fail: 7 of 100"}})
        poor = replace(poor, profile=replace(POOR, findings=seen))
    message = refusal(poor, written(name))
    assert message.startswith("Poor does not support what the program requires")
    assert f"{written(name)} ({REQUIREMENTS[name].summary}): " in message
    cause, remedy = message.partition("): ")[2], message.rpartition(". ")[2]
    assert len(cause) > len(remedy) > 10
    assert ("fail: 7 of 100" in cause) == (name in {"ordering", "litmus"})


@pytest.mark.parametrize("name", [name for name in REQUIREMENTS if name not in ALWAYS_KNOWN])
def test_an_unknown_feature_is_refused_and_the_message_says_how_to_find_out(name):
    words = "does not report|no probe|was measured|lacks|does not answer|unknown|uses the strategy"
    assert re.search(words, refusal(candidate(UNKNOWN), written(name)))


@pytest.mark.parametrize(
    ("change", "names", "word"),
    [
        ({"lost": {"loop_limit": "timed out"}}, ("loops", "progress.work_groups"), "timed out"),
        ({"loop_limit": 65535}, ("loops", "progress.work_groups", "groups>=2"), "65535"),
        ({"progress": {"lanes": "the driver aborted"}}, ("progress.lanes",), "the driver aborted"),
        ({"builds": {**RICH.findings.builds, "fp64": False}}, ("fp64",), "the compile probe failed"),
    ],
)
def test_inconclusive_and_negative_findings_win_over_the_driver(change, names, word):
    device = candidate(replace(RICH, findings=replace(RICH.findings, **change)))
    for name in names:
        assert word in refusal(device, name)


def test_a_probe_that_passed_wins_over_a_driver_that_denies():
    check(candidate(replace(RICH, facts=replace(RICH.facts, max_sub_groups=0))), "sub_groups")
    # NVIDIA computes with half, but lacks the extension.
    assert "does not report" in refusal(candidate(replace(RICH, facts=replace(RICH.facts, fp16=False))), "fp16")


@pytest.mark.parametrize(
    ("name", "has"),
    [
        ("local_memory", 65536),
        ("work_group_size", 1024),
        ("compute_units", 16),
        ("compute_capability", 90),
        ("global_memory", 1 << 30),
    ],
)
def test_numbers_hold_exactly(name, has):
    check(candidate(RICH), f"{name}>={has}", f" {name} >= 1 ")
    assert f"the device has {has}" in refusal(candidate(RICH), f"{name}>={has + 1}")


def test_all_missing_features_of_a_device_are_reported_at_once():
    lines = refusal(candidate(POOR), "fp64", "loops", "groups>=2").splitlines()
    assert [line.split()[0] for line in lines[1:]] == ["fp64", "groups>=2"]


def test_extensions_are_required_by_their_own_names():
    device = candidate(replace(RICH, facts=replace(RICH.facts, extensions=("cl_khr_fp64", "cl_khr_subgroup_shuffle"))))
    check(device, "cl_khr_fp64")
    message = refusal(device, "cl_khr_subgroups_shuffle")
    assert "cl_khr_subgroup_shuffle" in message.partition("closest")[2]


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("fp46", "fp64"),
        ("FP64", "fp64"),
        ("divergent", "split_barrier.divergent"),
        ("work-groups", "progress.work_groups"),
        ("progress.workgroups", "progress.work_groups"),
        ("local_mem>=4096", "local_memory>=N"),
        ("group>=2", "groups>=N"),
        ("subgroups", "sub_groups"),
        ("litmus_tests", "litmus"),
    ],
)
def test_an_unknown_name_is_answered_by_the_nearest_and_by_all_that_there_are(name, meant):
    message = refusal(None, name)
    assert f"did you mean {meant!r}?" in message
    assert all(one.written in message for one in REQUIREMENTS.values())


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("groups", "write groups>=N, where N is a whole number (work-groups)"),
        ("groups>=", "write groups>=N"),
        ("groups>=0", "at least 1"),
        ("groups>=-2", "at least 1"),
        ("groups>=2.5", "whole number"),
        ("groups>=many", "whole number"),
        ("local_memory>=64 KiB", "whole number (bytes)"),
        ("groups>2", "unknown requirement 'groups>2'"),
        ("grups>=2", "did you mean 'groups>=N'? Requirements: fp64"),
        ("groups==2", "unknown requirement"),
        ("fp64>=1", "fp64 has no number"),
        ("cl_khr_fp64>=1", "unknown requirement"),
        ("zzzzzz", "unknown requirement 'zzzzzz'. Requirements: fp64, "),
    ],
)
def test_a_name_that_cannot_be_read_is_refused(name, says):
    assert says in refusal(None, name)


def test_a_name_that_is_not_text_is_refused():
    with pytest.raises(portbar.Error, match="names as strings, but it contains 7"):
        parse(["fp64", 7])


def test_the_table_of_the_page_is_that_of_the_code():
    section = PAGE.partition("## What a program requires")[2].partition("\n## ")[0]
    rows = dict(re.findall(r"^\| `([^`]+)` \| (.*?) \|$", section, re.MULTILINE))
    uses = rows.pop("split_barrier.USE")
    assert rows.pop("cl_...") == "an extension that the device lists"
    others = {one.written: one.summary for one in REQUIREMENTS.values() if "split_barrier" not in one.name}
    assert rows == others
    assert all(f"`{feature}`" in uses for feature in SPLIT_FEATURES)


SOURCE = """
#include "portbar/device_barrier.h"
kernel void meet(PORTBAR_GRID_PARAM, global uint *out)
{
    PORTBAR_ENTER(grid);
    if (!portbar_device_barrier(&grid))
        return;
    if (portbar_global_id(&grid) == 0u)
        out[0] = (uint)get_num_groups(0);
}
"""


def required(context, *names, source=SOURCE):
    return portbar.Program(context, source, require=names)


def accepted(context, name):
    try:
        required(context, name)
    except portbar.UnsupportedFeatureError:
        return False
    return True


@on_device
def test_facts_are_those_of_the_driver(context, device):
    in_any_order = cl.command_queue_properties.OUT_OF_ORDER_EXEC_MODE_ENABLE
    assert accepted(context, "images") == bool(device.image_support)
    assert accepted(context, "out_of_order") == bool(device.queue_properties & in_any_order)
    assert accepted(context, "unified_memory") == bool(device.host_unified_memory)
    for name, has in (("local_memory", device.local_mem_size), ("work_group_size", device.max_work_group_size),
                      ("compute_units", device.max_compute_units)):  # fmt: skip
        assert accepted(context, f"{name}>={has}")
        assert not accepted(context, f"{name}>={has + 1}")
    for name in device.extensions.split()[:3]:
        assert accepted(context, name)


@on_device
@pytest.mark.parametrize("name", ["fp64", "fp16", "sub_groups", "generic_address_space", "int64_atomics"])
def test_a_program_that_may_be_required_can_use_the_feature(context, queue, name):
    uses = {
        "fp64": "out[0] = (uint)((double)out[0] * 2.5 + 0.5);",
        "fp16": "out[0] = (uint)((half)out[0] * (half)2.5f + (half)0.5f);",
        "sub_groups": "out[0] = 3u * (uint)(get_sub_group_size() > 0u) + out[0] - 2u;",
        "generic_address_space": "uint *any = (uint *)out; any[0] += 1u;",
        "int64_atomics": "volatile global ulong *wide = (volatile global ulong *)out; atom_add(wide, (ulong)1);",
    }
    # The header makes the program one of its own, with the language level that portbar picks.
    lines = [
        '#include "portbar/atomics.h"',
        *(["#pragma OPENCL EXTENSION cl_khr_subgroups : enable"] if name == "sub_groups" else []),
    ]
    source = "\n".join([*lines, "kernel void use(global uint *out) { " + uses[name] + " }"])
    if not accepted(context, name):
        pytest.skip(f"the device does not support {name}")
    out = support.to_device(queue, np.array([2, 0], np.uint32))
    required(context, name, source=source).kernel("use")(queue, (1,), (1,), out).wait()
    assert support.uints(queue, out)[0] in {3, 5}


@on_device
def test_a_device_is_refused_before_the_driver_sees_the_program(context, device):
    with pytest.raises(portbar.UnsupportedFeatureError, match=re.escape(device.name.strip())):
        required(context, "compute_units>=1000000", source="this is not OpenCL C")


@on_device
def test_findings_of_the_probe_decide(context, findings):
    for name in ("work_groups", "sub_groups", "lanes"):
        expected = findings.progress.get(name) == "independent" and findings.loops_run_whole
        assert accepted(context, f"progress.{name}") == expected
    assert accepted(context, "loops") == findings.loops_run_whole


@pytest.fixture
def unknown_before_a_launch(monkeypatch):
    """Accept every number of groups until a kernel is launched, as for GPUs."""
    monkeypatch.setitem(REQUIREMENTS, "groups", replace(REQUIREMENTS["groups"], lack=lambda *_: None))


@on_device
@pytest.mark.usefixtures("unknown_before_a_launch")
def test_too_small_an_occupancy_is_refused_at_the_launch(context, device, queue):
    out = support.filled(queue, 1)
    holds = required(context).kernel("meet").occupancy(queue, (4,)).groups
    many = required(context, f"groups>={holds * 64}", "groups>=1").kernel("meet")
    for sizes in ((None, (4,)), ((4 * holds * 64,), (4,))):
        with pytest.raises(portbar.UnsupportedFeatureError) as caught:
            many(queue, *sizes, out)
        words = ["'meet'", f"groups>={holds * 64}", device.name.strip(), f"at most {holds} work-group", "local size"]
        assert [word for word in words if word not in str(caught.value)] == []
    enough = required(context, f"groups>={holds}").kernel("meet")
    enough(queue, None, (4,), out).wait()


@on_device
@pytest.mark.usefixtures("unknown_before_a_launch")
def test_a_launch_of_fewer_groups_than_required_is_refused(context, queue):
    out = support.filled(queue, 1)
    holds = required(context).kernel("meet").occupancy(queue, (4,)).groups
    if holds == 1:
        pytest.skip("the device holds one work-group, so no launch has fewer than are required")
    both = required(context, "groups>=2").kernel("meet")
    for sizes, more in (((None, (4,)), {"num_groups": 1}), (((4,), (4,)), {}), ((None, (4,)), {"max_groups": 1})):
        with pytest.raises(portbar.LaunchError, match="requires groups>=2"):
            both(queue, *sizes, out, **more)
    both(queue, None, (4,), out, items=1).wait()
    assert support.uints(queue, out)[0] == 2


@on_device
def test_too_few_threads_of_a_cpu_are_reported_when_the_program_is_made(context, device, findings):
    if "CPU" not in portbar.describe(device).facts.type:
        pytest.skip("occupancy of other devices depends on the kernel")
    has = findings.groups_in_flight if findings.loops_run_whole else 1
    assert accepted(context, f"groups>={has}")
    with pytest.raises(portbar.UnsupportedFeatureError, match=rf"groups>={has + 1} \("):
        required(context, f"groups>={has + 1}")
