"""A machine without platforms, and one whose folders cannot be written."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys

import pyopencl as cl
import pytest

import portbar
from portbar.choices import profile
from portbar.device import icd
from portbar.device.addresses import address_of, list_devices
from portbar.records import cache
from portbar.survey.measuring.session import context_of
from tests import support
from tests.checkout import ROOT
from tests.launch.support import SOURCE


class NoPlatforms(cl.LogicError):
    """PyOpenCL's error if the loader finds no driver."""

    code = cl.status_code.PLATFORM_NOT_FOUND_KHR


def refuse():
    raise NoPlatforms("clGetPlatformIDs failed: PLATFORM_NOT_FOUND_KHR")


@pytest.mark.parametrize("get_platforms", [refuse, list])
def test_no_platform_at_all_says_what_would_help(monkeypatch, get_platforms):
    # Restored, since the loader has not really been asked.
    monkeypatch.setattr(icd, "_loaded", icd._loaded)
    monkeypatch.setattr(cl, "get_platforms", get_platforms)
    with pytest.raises(portbar.DeviceError, match=r"portbar\[cpu\]"):
        icd.load_platforms()
    with pytest.raises(portbar.DeviceError, match=r"portbar\[cpu\]"):
        list_devices()


@pytest.mark.parametrize("wrong", [None, "cpu", 3])
def test_describe_of_an_argument_that_is_not_a_device(wrong):
    with pytest.raises(portbar.DeviceError, match=r"describe requires a pyopencl\.Device"):
        portbar.describe(wrong)


CALLS = {
    "describe": portbar.describe,
    "advise": lambda device: portbar.advise(device, work_per_iteration=1e-6),
    "render": portbar.render,
    "probe": portbar.probe,
}


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("wrong", [None, 3, portbar.DeviceProfile(portbar.DeviceFacts(name="D"))])
def test_another_thing_than_a_device_is_refused_in_the_name_of_the_function(name, wrong):
    with pytest.raises(portbar.DeviceError, match=rf"{name} requires a pyopencl\.Device, or a queue on one, not "):
        CALLS[name](wrong)


@pytest.mark.parametrize("wrong", [None, "cpu", portbar.DeviceFacts(name="D")])
def test_choose_of_another_thing_than_a_profile_says_how_to_get_one(wrong):
    with pytest.raises(portbar.DeviceError, match=r"portbar\.choose\(portbar\.describe\(device\)\)"):
        portbar.choose(wrong)


@pytest.mark.device
def test_choose_of_a_device_says_how_to_get_its_profile(device, queue):
    for wrong in (device, queue):
        with pytest.raises(portbar.DeviceError, match=r"portbar\.choose\(portbar\.describe\(device\)\)"):
            portbar.choose(wrong)


@pytest.mark.device
def test_a_queue_stands_for_its_device(device, queue):
    assert portbar.describe(queue) == portbar.describe(device)
    assert portbar.render(queue, "atomics") == portbar.render(device, "atomics")
    answers = []
    for one in (device, queue):
        try:
            answers.append(portbar.advise(one, work_per_iteration=1e-6))
        except portbar.RecordError as error:
            answers.append(str(error))
    assert answers[0] == answers[1]


#: The survey and benchmarks build by themselves what they compare with.
HOMELESS = """
import pickle, sys
import numpy as np
import pyopencl as cl
import portbar
from portbar.survey.measuring.barrier_timer import Relaunch

address, source, strategy = pickle.load(sys.stdin.buffer)
context = cl.Context([address.resolve()])
queue = cl.CommandQueue(context)
made = portbar.Program(context, source, strategy=strategy).kernel("scale")
data = cl.Buffer(context, cl.mem_flags.READ_WRITE, 16)
made(queue, None, (4,), data, np.uint32(9), num_groups=1).wait()
out = np.zeros(4, np.float32)
cl.enqueue_copy(queue, out, data)
assert out.tolist() == [9.0] * 4
assert Relaunch(queue, 2, 4).sample_us(3) > 0
"""


@pytest.fixture
def block(tmp_path, monkeypatch):
    """A file where a home or a cache should be; the driver's own cache is not what this is about."""
    for name in [name for name in os.environ if name.startswith("XDG_")] + ["PORTBAR_CACHE_DIR", "PYOPENCL_NO_CACHE"]:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("POCL_CACHE_DIR", str(tmp_path / "pocl"))
    path = tmp_path / "block"
    path.write_text("not a folder")
    return path


@pytest.mark.few
@pytest.mark.device
@pytest.mark.parametrize("place", ["a cache that is a file", "a home that is a file", "a home without permission"])
def test_a_home_that_cannot_be_written_costs_the_cache_only(context, device, monkeypatch, block, place):
    strategy = support.program(context, SOURCE).strategy(device)
    if place == "a home without permission":
        block.unlink()
        block.mkdir(mode=0o500)
    monkeypatch.setenv("PORTBAR_CACHE_DIR" if "cache" in place else "HOME", str(block))
    done = subprocess.run(
        [sys.executable, "-c", HOMELESS],
        input=pickle.dumps((address_of(device), SOURCE, strategy)),
        cwd=ROOT, capture_output=True, timeout=100, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr.decode()[-3000:]


@pytest.mark.device
def test_a_childs_measurements_go_by_the_findings_that_it_is_given(context, device, monkeypatch, block):
    """Where the cache cannot be written, the survey's children would otherwise know nothing of the probe."""
    monkeypatch.setenv("PORTBAR_CACHE_DIR", str(block))
    monkeypatch.setattr(cache, "_memory", {})
    profile.forget()
    given = portbar.Findings(builds={"cl12": True}, source="as the survey's own process found")
    try:
        with pytest.warns(cache.CacheWarning):
            context_of({"address": address_of(device).to_json(), "findings": given.to_json()})
        assert portbar.describe(device).findings.source.startswith(given.source)
    finally:
        monkeypatch.undo()
        profile.forget()
