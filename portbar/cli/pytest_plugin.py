"""Fixtures for people who test OpenCL kernels of their own: every usable device, a context and a queue on it.

pytest loads this by itself where portbar is installed. Nothing looks for devices, and PyOpenCL is not imported, unless a test
asks for one of the fixtures.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any, Final

import pytest

if TYPE_CHECKING:
    import pyopencl as cl

    from portbar.device.addresses import DeviceAddress

ENVIRONMENT_VARIABLE: Final = "PORTBAR_PYTEST_DEVICE"

_FIXTURE: Final = "portbar_device"
_MARKER: Final = (
    "portbar(groups=None, local_size=64, extensions=()): the device that a test with a portbar fixture requires"
)

#: Counts the work-groups that meet: where a test says that it needs several, its own kernel is like this or larger.
_MEETING: Final = """
#include "portbar/device_barrier.h"
kernel void meet(PORTBAR_GRID_PARAM)
{
    PORTBAR_ENTER(grid);
    if (!portbar_device_barrier(&grid)) return;
}
"""


@dataclass(frozen=True)
class _Found:
    """The devices that the selectors match on this machine."""

    usable: tuple[tuple[DeviceAddress, cl.Device], ...] = ()
    #: A sentence for each selected device that does not work, and each selector that matches nothing.
    problems: tuple[str, ...] = ()
    #: Selectors without a usable device, of those that the user gave.
    empty: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Nothing:
    """A placeholder for a missing device: why it is missing, and whether that is a failure."""

    reason: str
    fails: bool


@dataclass
class _Devices:
    """The devices of one pytest session, looked for once."""

    selectors: tuple[str, ...]
    required: bool
    #: The lines of workers of pytest-xdist, each once.
    said: dict[str, None] = field(default_factory=dict)

    @cached_property
    def found(self) -> _Found:
        return _find(self.selectors)

    def lines(self) -> list[str]:
        """Return what the end of the session says: the devices that tests ran on, and those that did not work."""
        if "found" not in vars(self):
            return list(self.said)
        devices = [f"portbar device: {address}" for address, _ in self.found.usable]
        return devices + [f"portbar: not used: {problem}" for problem in self.found.problems]

    def parameters(self) -> list[Any]:
        """Return the parameters of the fixture: usable devices, or a placeholder for each that is missing."""
        usable = [pytest.param(entry, id=_id(entry[0])) for entry in self.found.usable]
        missing = {}
        if self.required:
            missing = {one: f"--portbar-require: no usable device for {one!r}" for one in self.found.empty}
        if not usable and not missing:
            missing = {"no-device": "no usable OpenCL device"}
        why = "; ".join(self.found.problems) or "this machine has none"
        absent = [pytest.param(_Nothing(f"{what}: {why}", self.required), id=name) for name, what in missing.items()]
        return usable + absent


_KEY: Final = pytest.StashKey[_Devices]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare the options."""
    group = parser.getgroup("portbar", "OpenCL devices for tests (portbar)")
    group.addoption(
        "--portbar-device",
        action="append",
        default=[],
        metavar="SELECTOR",
        help=(
            "device for the portbar fixtures: PLATFORM:DEVICE as `portbar devices` numbers them, or part of a platform's name "
            f"device's name; may be repeated. Default: {ENVIRONMENT_VARIABLE} (several, separated by semicolons), or all that "
            "work."
        ),
    )
    group.addoption(
        "--portbar-require",
        action="store_true",
        help="fail tests with portbar fixtures if no selected device works, instead of skipping them",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Declare the marker, and note what the user chose."""
    config.addinivalue_line("markers", _MARKER)
    given = config.getoption("portbar_device") or os.environ.get(ENVIRONMENT_VARIABLE, "").split(";")
    selectors = tuple(one.strip() for one in given if one.strip())
    config.stash[_KEY] = _Devices(selectors, bool(config.getoption("portbar_require")))


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run each test that asks for a device once per device that works."""
    if _FIXTURE in metafunc.fixturenames:
        devices = metafunc.config.stash[_KEY].parameters()
        metafunc.parametrize(_FIXTURE, devices, indirect=True, scope="session")


@pytest.fixture(scope="session")
def portbar_device(request: pytest.FixtureRequest) -> cl.Device:
    """An OpenCL device that works: it compiled and ran a kernel, and the answer was right.

    A test that asks for it runs once for each device that works, or that `--portbar-device` or PORTBAR_PYTEST_DEVICE selects;
    without any it is skipped, or fails with `--portbar-require`.
    """
    # A test that asks by `request.getfixturevalue` has no parameter: it gets the first device.
    given = getattr(request, "param", None) or request.config.stash[_KEY].parameters()[0].values[0]
    if isinstance(given, _Nothing):
        (pytest.fail if given.fails else pytest.skip)(given.reason)
    _, device = given
    found: cl.Device = device
    return found


@pytest.fixture(scope="session")
def portbar_context(portbar_device: cl.Device) -> cl.Context:
    """A context on the device alone, shared by all tests."""
    import pyopencl as cl  # noqa: PLC0415 (this module is loaded by every pytest)

    return cl.Context([portbar_device])


@pytest.fixture
def portbar_queue(portbar_context: cl.Context) -> Iterator[cl.CommandQueue]:
    """A fresh in-order queue with profiling, finished at the end of the test."""
    import pyopencl as cl  # noqa: PLC0415 (this module is loaded by every pytest)

    with cl.CommandQueue(portbar_context, properties=cl.command_queue_properties.PROFILING_ENABLE) as queue:
        yield queue


@pytest.hookimpl(trylast=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip a test whose marker asks for more than its device has; the fixtures have been made by now."""
    # The closest one last: it wins over those of its class and module, and adds to their extensions.
    markers = [*item.iter_markers("portbar")][::-1]
    if not markers:
        return
    stated: dict[str, Any] = {}
    wanted: list[str] = []
    try:
        for marker in markers:
            wanted += _checked(*marker.args, **marker.kwargs)
            stated |= marker.kwargs
    except TypeError as error:
        wrong = str(error).replace("_checked()", "it")
        raise pytest.UsageError(f"{item.nodeid}: the marker is {_MARKER.partition(': ')[0]}, and {wrong}") from error
    groups: int | None = stated.get("groups")
    local_size: int = stated.get("local_size") or (1 if groups is None else 64)
    device = getattr(item, "funcargs", {}).get(_FIXTURE)
    if device is None:
        raise pytest.UsageError(
            f"{item.nodeid}: the marker portbar states requirements of a device, but the test uses no portbar fixture"
        )
    for name in dict.fromkeys(wanted):
        if name not in device.extensions.split():
            pytest.skip(f"{device.name.strip()} lacks {name}")
    if local_size > device.max_work_group_size:
        most = device.max_work_group_size
        pytest.skip(f"{device.name.strip()} supports at most {most} work-items per group, not {local_size}")
    if groups is not None:
        there = _groups(device, local_size)
        if isinstance(there, str):
            pytest.skip(there)
        if there < groups:
            pytest.skip(
                f"{device.name.strip()} runs {there} work-group(s) of {local_size} concurrently, the test needs {groups}"
            )


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Under pytest-xdist, a worker sends its lines to the process that prints them."""
    output = getattr(session.config, "workeroutput", None)
    if output is not None:
        output["portbar"] = session.config.stash[_KEY].lines()


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Keep the lines of a worker of pytest-xdist that has ended; one that crashed has none."""
    lines = getattr(node, "workeroutput", {}).get("portbar", ())
    node.config.stash[_KEY].said.update(dict.fromkeys(lines))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Name the devices that tests ran on, and those that did not work."""
    for line in config.stash[_KEY].lines():
        terminalreporter.write_line(line)


def _checked(*, groups: Any = None, local_size: Any = None, extensions: Any = ()) -> tuple[str, ...]:
    """The extensions of one marker; TypeError where a value cannot be what it should."""
    for name, count in (("groups", groups), ("local_size", local_size)):
        if count is not None and (type(count) is not int or count < 1):
            raise TypeError(f"{name} must be an integer of 1 or more, not {count!r}")
    if isinstance(extensions, str):
        return (extensions,)
    names = tuple(extensions) if isinstance(extensions, Iterable) else (extensions,)
    if not all(isinstance(name, str) for name in names):
        raise TypeError(f"extensions must be names of OpenCL extensions, not {extensions!r}")
    return names


def _find(selectors: tuple[str, ...]) -> _Found:
    """Look for devices, each checked in a child process unless that was done before with its driver."""
    from portbar.device import listing, usable  # noqa: PLC0415 (this module is loaded by every pytest)
    from portbar.device.addresses import list_devices, select  # noqa: PLC0415 (the same)
    from portbar.errors import DeviceError  # noqa: PLC0415 (the same)

    problems, owners = [], {}
    try:
        # In a child first: a driver that hangs or aborts over it is left out of this process.
        problems += [str(fault) for fault in listing.look().faulty]
        known = list_devices()
    except DeviceError as error:
        return _Found(problems=(*problems, str(error)), empty=selectors)
    except ImportError as error:
        return _Found(problems=(f"PyOpenCL cannot be imported ({error})",), empty=selectors)
    chosen: dict[DeviceAddress, cl.Device] = {} if selectors else dict(known)
    for selector in selectors:
        try:
            matching = select(known, [selector])
        except DeviceError as error:
            problems.append(str(error))
            matching = []
        owners[selector] = [address for address, _ in matching]
        chosen.update(matching)
    working = []
    for address, device in chosen.items():
        verdict = usable.check(address, timeout=60)
        if verdict.usable:
            working.append((address, device))
        else:
            problems.append(f"{address}: {verdict.reason}")
    names = {address for address, _ in working}
    empty = tuple(selector for selector, owned in owners.items() if not names & set(owned))
    return _Found(tuple(working), tuple(dict.fromkeys(problems)), empty)


@cache
def _groups(device: cl.Device, local_size: int) -> int | str:
    """Return how many work-groups of a small kernel meet at a barrier, or why none do; measured once per session."""
    import pyopencl as cl  # noqa: PLC0415 (this module is loaded by every pytest)

    import portbar  # noqa: PLC0415 (the same)

    context = cl.Context([device])
    try:
        kernel = portbar.Program(context, _MEETING).kernel("meet")
        with cl.CommandQueue(context) as queue:
            return int(kernel.occupancy(queue, (local_size,)).groups)
    except portbar.UnsupportedFeatureError as error:
        return f"work-groups cannot synchronise on {device.name.strip()}: {error}"


def _id(address: DeviceAddress) -> str:
    name = re.sub(r"[^A-Za-z0-9.]+", "-", address.device_name).strip("-")[:40].rstrip("-")
    return f"{address.platform_index}:{address.device_index}-{name}"
