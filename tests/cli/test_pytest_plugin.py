"""The fixtures that portbar gives to other projects' tests: which devices they run on, and what happens without any."""

from __future__ import annotations

import configparser
import sys

import pytest

from portbar.device.addresses import address_of
from tests.checkout import ROOT, python_path
from tests.fake_icd import vendors

pytest_plugins = ["pytester"]

#: Stands for OpenCL in the inner pytest: two devices that work and one that does not.
FAKES = """
import collections
from portbar.cli import pytest_plugin
from portbar.device.addresses import DeviceAddress

Device = collections.namedtuple("Device", "name extensions max_work_group_size")
FIRST = (DeviceAddress(0, 0, "A platform", "First CPU", "1.0"), Device("First CPU", "cl_khr_fp64 cl_x", 64))
SECOND = (DeviceAddress(1, 0, "B platform", "Second CPU", "2.0"), Device("Second CPU", "", 64))
BROKEN = "2:0 Third CPU (C platform): it crashed"
calls = []

def find(selectors):
    calls.append(selectors)
    every = {"first": FIRST, "second": SECOND}
    usable = tuple(every[one] for one in (selectors or every) if one in every)
    empty = tuple(one for one in selectors if one not in every)
    return pytest_plugin._Found(usable, (BROKEN,), empty)

pytest_plugin._find = find
pytest_plugin._groups = lambda device, size: {"First CPU": 4, "Second CPU": 1}[device.name]
"""

ASKING = """
import conftest

def test_device(portbar_device):
    print("ran on", portbar_device.name)

def test_again(portbar_device):
    assert len(conftest.calls) == 1
"""


@pytest.fixture
def inner(pytester, monkeypatch):
    """Run pytest on files in a process of its own, with the plugin loaded whether or not it is installed."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.setenv("PYTHONPATH", python_path())
    monkeypatch.delenv("PORTBAR_PYTEST_DEVICE", raising=False)
    monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)

    def run(test: str, *arguments: str, fakes: str = FAKES):
        pytester.makeconftest(fakes)
        pytester.makepyfile(test)
        return pytester.runpytest_subprocess("-p", "portbar.cli.pytest_plugin", "-rsA", *arguments, timeout=100)

    return run


def test_nothing_is_imported_or_looked_for_unless_a_test_asks(inner):
    program = """
import sys

def test_plain():
    assert "portbar.cli.pytest_plugin" in sys.modules
    assert not {"pyopencl", "numpy", "portbar.device.addresses", "portbar.device.usable"} & set(sys.modules)
"""
    result = inner(program, "--portbar-require", "--portbar-device", "nonsense", fakes="")
    result.assert_outcomes(passed=1)
    assert "portbar device" not in result.stdout.str()


def test_a_test_runs_once_for_each_usable_device_and_devices_are_looked_for_once(inner):
    result = inner(ASKING)
    result.assert_outcomes(passed=4)
    result.stdout.fnmatch_lines_random(
        [
            "PASSED *::test_device[[]0:0-First-CPU[]]",
            "PASSED *::test_device[[]1:0-Second-CPU[]]",
            "portbar device: 1:0 Second CPU (B platform 2.0)",
            "portbar: not used: 2:0 Third CPU (C platform): it crashed",
        ]
    )


#: One process in both parts: a worker of pytest-xdist, then the process that prints, which looks for no devices itself.
TWO_WORKERS = """
from types import SimpleNamespace
import pytest

def pytest_configure(config):
    config.workeroutput = {}

@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session):
    config = session.config
    del config.stash[pytest_plugin._KEY].found
    nodes = [SimpleNamespace(config=config, workeroutput=config.workeroutput) for _ in range(2)]
    for node in (*nodes, SimpleNamespace(config=config)):
        pytest_plugin.pytest_testnodedown(node)
"""


def test_what_workers_of_xdist_found_is_printed_once(inner):
    printed = inner(ASKING, fakes=FAKES + TWO_WORKERS).stdout.str()
    assert printed.count("portbar device: 1:0 Second CPU (B platform 2.0)") == 1
    assert printed.count("portbar: not used: 2:0 Third CPU (C platform): it crashed") == 1


@pytest.mark.parametrize(
    ("arguments", "variable", "names"),
    [
        (("--portbar-device", "second"), "", ["Second"]),
        (("--portbar-device=second", "--portbar-device=first"), "", ["Second", "First"]),
        ((), "first", ["First"]),
        ((), " first ; second ", ["First", "Second"]),
        (("--portbar-device", "second"), "first", ["Second"]),
    ],
)
def test_the_option_selects_before_the_variable(inner, monkeypatch, arguments, variable, names):
    monkeypatch.setenv("PORTBAR_PYTEST_DEVICE", variable)
    result = inner(ASKING, "-s", *arguments)
    result.assert_outcomes(passed=2 * len(names))
    for name in ("First", "Second"):
        assert (f"ran on {name}" in result.stdout.str()) == (name in names)


def test_without_a_usable_device_tests_are_skipped_with_the_reason(inner):
    result = inner(ASKING, "--portbar-device", "nonsense")
    result.assert_outcomes(skipped=2)
    result.stdout.fnmatch_lines(["*no usable OpenCL device: 2:0 Third CPU*it crashed*"])


def test_required_devices_fail_tests_where_they_are_missing(inner):
    result = inner(ASKING, "--portbar-require", "--portbar-device", "nonsense")
    result.assert_outcomes(errors=2)
    result.stdout.fnmatch_lines(["*--portbar-require: no usable device for 'nonsense': *it crashed*"])


def test_each_required_selector_needs_a_device_of_its_own(inner):
    result = inner(ASKING, "--portbar-require", "--portbar-device=first", "--portbar-device=nonsense")
    result.assert_outcomes(passed=2, errors=2)


def test_without_any_selector_required_means_at_least_one(inner):
    nothing = FAKES + "\npytest_plugin._find = lambda selectors: pytest_plugin._Found((), ('no platform',))\n"
    result = inner("def test_device(portbar_device): pass", "--portbar-require", fakes=nothing)
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*no usable OpenCL device: no platform*"])


@pytest.mark.skipif(sys.platform != "linux", reason="vendor folders exist on Linux only")
def test_a_driver_that_aborts_when_it_is_listed_ends_no_session(inner, monkeypatch, tmp_path):
    monkeypatch.setenv("OCL_ICD_VENDORS", str(vendors(tmp_path / "drivers", "abort-load", "fine-none")))
    monkeypatch.setenv("PORTBAR_CACHE_DIR", str(tmp_path / "cache"))
    result = inner("def test_device(portbar_device): pass", "--portbar-device=fine none", fakes="")
    result.assert_outcomes(skipped=1)
    result.stdout.fnmatch_lines_random(
        ["portbar: not used: skipped the driver of */abort-load.icd*", "portbar: not used: *Fake device fine none*"]
    )


def test_a_fixture_that_is_asked_for_late_gets_the_first_device(inner):
    result = inner("def test_late(request): assert request.getfixturevalue('portbar_device').name == 'First CPU'")
    result.assert_outcomes(passed=1)


def test_a_marker_skips_where_the_device_has_less(inner):
    program = """
import pytest

@pytest.mark.portbar(groups=2)
def test_groups(portbar_device):
    assert portbar_device.name == "First CPU"

@pytest.mark.portbar(extensions=["cl_khr_fp64", "cl_x"])
def test_extensions(portbar_device):
    assert portbar_device.name == "First CPU"

@pytest.mark.portbar(local_size=64)
def test_enough(portbar_device):
    pass

@pytest.mark.portbar(local_size=65)
def test_large(portbar_device):
    pass

@pytest.mark.portbar(groups=1, extensions=())
def test_little(portbar_device):
    pass
"""
    result = inner(program, "--strict-markers")
    result.assert_outcomes(passed=6, skipped=4)
    result.stdout.fnmatch_lines_random(
        [
            "*Second CPU runs 1 work-group(s) of 64 concurrently, the test needs 2",
            "*Second CPU lacks cl_khr_fp64",
            "*First CPU supports at most 64 work-items per group, not 65",
        ]
    )


def test_markers_of_module_class_and_test_merge_and_the_closest_wins(inner):
    """The first CPU has cl_x and cl_khr_fp64, two work-groups of at most 64; the second less."""
    program = """
import pytest

pytestmark = pytest.mark.portbar(local_size=65)

@pytest.mark.portbar(local_size=64, extensions="cl_khr_fp64")
class TestMerged:
    @pytest.mark.portbar(groups=2)
    def test_groups_beside_the_extension(self, portbar_device):
        assert portbar_device.name == "First CPU"

    @pytest.mark.portbar(extensions="cl_nowhere")
    def test_both_extensions(self, portbar_device):
        raise AssertionError

    @pytest.mark.portbar(groups=5)
    def test_more_groups(self, portbar_device):
        raise AssertionError

    def test_of_the_class_alone(self, portbar_device):
        assert portbar_device.name == "First CPU"

@pytest.mark.portbar(local_size=64, extensions="cl_nowhere")
class TestNowhere:
    @pytest.mark.portbar(groups=1)
    def test_groups(self, portbar_device):
        raise AssertionError

@pytest.mark.portbar(groups=2)
class TestGroups:
    @pytest.mark.portbar(local_size=8)
    def test_smaller_ones(self, portbar_device):
        assert portbar_device.name == "First CPU"

def test_of_the_module_alone(portbar_device):
    raise AssertionError
"""
    result = inner(program, "--strict-markers")
    result.assert_outcomes(passed=3, skipped=11)
    result.stdout.fnmatch_lines_random(
        [
            "*First CPU lacks cl_nowhere",
            "*Second CPU lacks cl_khr_fp64",
            "*Second CPU runs 1 work-group(s) of 8 concurrently, the test needs 2",
            "*First CPU runs 4 work-group(s) of 64 concurrently, the test needs 5",
            "*First CPU supports at most 64 work-items per group, not 65",
        ]
    )


@pytest.mark.parametrize(
    ("marker", "arguments", "message"),
    [
        ("groups=1", "", "*uses no portbar fixture*"),
        ("nonsense=1", "portbar_device", "*it got an unexpected keyword argument 'nonsense'*"),
        ("2", "portbar_device", "*it takes 0 positional arguments*"),
        ("groups='2'", "portbar_device", "*groups must be an integer of 1 or more, not '2'*"),
        ("groups=True", "portbar_device", "*groups must be an integer of 1 or more, not True*"),
        ("groups=0", "portbar_device", "*groups must be an integer of 1 or more, not 0*"),
        ("local_size=64.0", "portbar_device", "*local_size must be an integer of 1 or more, not 64.0*"),
        ("local_size=(8, 8)", "portbar_device", "*local_size must be an integer of 1 or more, not (8, 8)*"),
        ("extensions=64", "portbar_device", "*extensions must be names of OpenCL extensions, not 64*"),
        ("extensions=['cl_khr_fp64', None]", "portbar_device", "*extensions must be names of OpenCL extensions, not*"),
    ],
)
def test_a_wrong_marker_is_an_error(inner, marker, arguments, message):
    program = f"import pytest\n@pytest.mark.portbar({marker})\ndef test_it({arguments}): pass"
    result = inner(program, "--portbar-device", "first")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines([message])


def test_without_pyopencl_tests_are_skipped(inner):
    result = inner("def test_device(portbar_device): pass", fakes="import sys; sys.modules['pyopencl'] = None")
    result.assert_outcomes(skipped=1)
    result.stdout.fnmatch_lines(["*PyOpenCL cannot be imported*"])


KERNEL = """
import numpy as np
import pyopencl as cl
import pytest

SOURCE = "kernel void twice(global int *a) { a[get_global_id(0)] *= 2; }"

@pytest.mark.portbar(groups=1)
def test_twice(portbar_queue, portbar_context):
    numbers = np.arange(7, 71, dtype=np.int32)
    buffer = cl.Buffer(portbar_context, cl.mem_flags.COPY_HOST_PTR, hostbuf=numbers)
    kernel = cl.Kernel(cl.Program(portbar_context, SOURCE).build(), "twice")
    event = kernel(portbar_queue, numbers.shape, None, buffer)
    out = np.empty_like(numbers)
    cl.enqueue_copy(portbar_queue, out, buffer).wait()
    assert (out == 2 * numbers).all()
    assert event.profile.end >= event.profile.start > 0

@pytest.mark.portbar(groups=100_000)
def test_more_than_any_device_holds(portbar_queue):
    raise AssertionError

queues = []

@pytest.mark.parametrize("time", [1, 2])
def test_each_test_has_a_queue_of_its_own(portbar_queue, time):
    assert portbar_queue not in queues
    queues.append(portbar_queue)
"""


@pytest.mark.device
def test_a_kernel_runs_on_a_device_that_works(inner, device):
    address = address_of(device)
    selector = f"{address.platform_index}:{address.device_index}"
    result = inner(KERNEL, "--portbar-require", "--portbar-device", selector, fakes="")
    result.assert_outcomes(passed=3, skipped=1)
    result.stdout.fnmatch_lines_random([f"portbar device: {selector} *", "*concurrently, the test needs 100000"])


@pytest.mark.device
def test_a_selector_that_matches_nothing_says_what_there_is(inner, device):
    result = inner("def test_device(portbar_device): pass", "--portbar-device", "no such thing", fakes="")
    result.assert_outcomes(skipped=1)
    result.stdout.fnmatch_lines(["*no device matches 'no such thing'; available devices:*"])


def test_the_plugin_is_declared_for_pytest_to_find():
    setup = configparser.ConfigParser()
    setup.read(ROOT / "setup.cfg", encoding="utf-8")
    assert "portbar = portbar.cli.pytest_plugin" in setup["options.entry_points"]["pytest11"]
