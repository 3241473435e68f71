"""A build in a child process first: what takes a driver down there is an error here."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest

import portbar
from portbar.device import child
from portbar.device.facts import facts
from portbar.device.quirks import JOINS_LOST, has_effect, matching, table
from portbar.errors import BuildError
from portbar.launching import isolation
from tests.checkout import environment
from tests.fake_icd import vendors

UNDER_IF, LOPSIDED = (
    kernel.source for quirk in table() if quirk.name == "pocl-barrier-under-if" for kernel in quirk.kernels
)

RIGHT = """
#include "portbar/device_barrier.h"
kernel void meet(PORTBAR_GRID_PARAM, global uint *out)
{
    PORTBAR_ENTER(grid);
    if (portbar_device_barrier(&grid))
        out[0] = 1u;
}
kernel void plain(global uint *out) { out[0] = 0xDEADu; while (out[0]) { } }
"""


@pytest.mark.device
def test_a_program_that_builds_is_built_as_without(context, device):
    program = portbar.Program(context, RIGHT, devices=[device], isolate_build=True)
    assert program.kernel_names() == ("meet", "plain")


@pytest.mark.device
def test_an_ordinary_refusal_has_the_driver_s_log(context, device):
    with pytest.raises(BuildError, match="nonsense") as caught:
        portbar.Program(context, "kernel void k(void) { nonsense; }", devices=[device], isolate_build=True)
    assert caught.value.log


@pytest.mark.device
@pytest.mark.parametrize(("status", "words"), [("crash", "aborted"), ("timeout", "took too long")])
def test_a_driver_crash_is_a_build_error(context, device, monkeypatch, status, words):
    def run_task(task, payload, *, timeout, at_most):
        assert payload["text"]
        assert timeout > 0
        doing = [{"doing": "compiling kernel 'meet' for work-groups"}]
        return child.ChildResult(status, None, "the process was killed by SIGABRT", 1.0, doing)

    monkeypatch.setattr(isolation.child, "run_task", run_task)
    with pytest.raises(BuildError, match=words) as caught:
        portbar.Program(context, RIGHT, devices=[device], isolate_build=True)
    for word in (device.name.strip(), "compiling kernel 'meet'", "SIGABRT", "Hint:"):
        assert word in str(caught.value)
    assert caught.value.source_path


BUILDS = """
import json, sys, time
import pyopencl as cl
import portbar
from portbar.launching import isolation
isolation._LIMIT_S = isolation._MOST_LIMIT_S = 5
source = '#include "portbar/atomics.h"\\nkernel void k(global uint *out) { out[0] = 1u; }'
told = {}
for platform in portbar.load_platforms():
    if platform.name.startswith("Fake"):
        context, began = cl.Context(platform.get_devices()), time.monotonic()
        try:
            portbar.Program(context, source, isolate_build=True)
        except portbar.BuildError as error:
            told[platform.name.removeprefix("Fake platform ")] = (str(error), time.monotonic() - began)
json.dump(told, sys.stdout)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="vendor folders exist on Linux only")
def test_drivers_that_hang_abort_or_fail_in_a_build_are_a_build_error_in_time(tmp_path):
    ends = {"hang-build": "took too long", "abort-build": "SIGABRT", "crash-build": "SIGSEGV", "fail-build": "nothing"}
    env = environment(OCL_ICD_VENDORS=str(vendors(tmp_path, *ends)), PORTBAR_CACHE_DIR=str(tmp_path / "cache"))
    command = [sys.executable, "-c", BUILDS]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=180, check=True)
    told = json.loads(done.stdout)
    assert sorted(told) == sorted(name.replace("-", " ") for name in ends)
    for name, words in ends.items():
        said, seconds = told[name.replace("-", " ")]
        assert words in said
        assert seconds < 60


@pytest.mark.device
def test_every_kernel_is_compiled_for_work_groups_and_none_is_run(context, device, monkeypatch):
    """Runs the child's task here: a kernel that ran would loop for ever."""
    if any(name in device.platform.name for name in ("Oclgrind", "NVIDIA")):
        pytest.skip("releasing a queue behind a user event does not return there; a child process ends without that")
    source = """
    #include "portbar/device_barrier.h"
    kernel void meet(PORTBAR_GRID_PARAM, global uint *out, local uint *shelf, const float3 wide, const uchar small)
    {
        PORTBAR_ENTER(grid);
        shelf[0] = small;
        if (portbar_device_barrier(&grid))
            out[0] = (uint)wide.x + shelf[0];
    }
    kernel void endless(global uint *out) { volatile global uint *p = out; p[0] = 1u; while (p[0]) { } }
    """
    sent: list[Any] = []
    enqueued: list[str] = []
    whole = isolation._enqueue_behind_a_gate

    def watched(context, device, kernel, arguments):
        whole(context, device, kernel, arguments)
        enqueued.append(kernel.function_name)

    def run_task(task, payload, *, timeout, at_most):
        isolation.build_task(payload)
        return child.ChildResult("ok", None, "", timeout)

    monkeypatch.setattr(isolation, "_enqueue_behind_a_gate", watched)
    monkeypatch.setattr(isolation.child, "run_task", run_task)
    monkeypatch.setattr(isolation.child, "progress", sent.append)
    portbar.Program(context, source, devices=[device], isolate_build=True)
    assert sorted(enqueued) == ["endless", "meet"]
    assert sent[0] == {"doing": "building the program"}
    assert sent[1] == {"doing": "compiling the program for work-groups of any size"}
    assert len(sent) == 4


@pytest.mark.device
@pytest.mark.parametrize("source", [UNDER_IF, LOPSIDED], ids=["under_if", "lopsided"])
def test_barriers_in_conditional_positions_never_take_this_process_down(context, device, monkeypatch, source):
    """Where the table says that the compiler aborts over one of them, it does, and the author reads why.

    Barriers that portbar puts where branches meet, for another fault of some of these compilers, help against it as well.
    """
    monkeypatch.setenv("POCL_KERNEL_CACHE", "0")
    known = {quirk.name for quirk in matching(facts(device))}
    aborts = "pocl-barrier-under-if" in known and os.environ.get("POCL_WORK_GROUP_METHOD") != "cbs"
    words = ""
    # Its author says that the condition is the same for all, which portbar would refuse.
    source = source.replace("if (get_local_id(0) < n)", "if (PORTBAR_UNIFORM(get_local_id(0) < n))")
    try:
        portbar.Program(context, source, devices=[device], isolate_build=True)
    except BuildError as error:
        words = str(error)
    if aborts and source is UNDER_IF and not has_effect(JOINS_LOST, facts(device)):
        assert "POCL_WORK_GROUP_METHOD=cbs" in words
    assert not words or "aborted" in words


def test_a_program_that_cannot_be_read_is_tried_there_too(context, device, monkeypatch):
    """Where a compiler needs another form, the driver gets the text as it is, to explain what is wrong with it."""
    tried = []
    monkeypatch.setattr(isolation, "try_build", lambda _device, text, _options: tried.append(text))
    source = (
        '#include "portbar/device_barrier.h"\n'
        "kernel void k(PORTBAR_GRID_PARAM, uint n)\n{\n    PORTBAR_ENTER(grid);\n"
        "    if (n != 0u)\n        if (!portbar_device_barrier(&grid))\n            return;\n    nonsense(;\n}\n"
    )
    with pytest.raises(portbar.BuildError, match="expected"):
        portbar.Program(context, source, devices=[device], isolate_build=True)
    assert len(tried) == 1
    assert "nonsense" in tried[0]
