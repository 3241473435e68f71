"""Fixtures that give a test its device, which is looked for only when one is asked for.

`PORTBAR_TEST_PLATFORM`, a part of "NAME VERSION" of a platform in any case, picks the platform, as in
`PORTBAR_TEST_PLATFORM="pocl 3.1" pytest -m device`. Without it the first usable device is taken.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Iterator
from pathlib import Path

import pyopencl as cl
import pytest
from hypothesis import settings

import portbar
from portbar.choices.profile import forget
from portbar.device import icd, usable
from portbar.device.addresses import address_of, devices_of
from portbar.device.findings import Findings
from portbar.errors import DeviceError
from portbar.records import cache, remembered
from tests import rows

_SAMPLE = pytest.StashKey[str]()

# Tests change modules in place, and many are about what is read, rendered and compiled: those of what is kept ask for it.
os.environ.setdefault(remembered.VARIABLE, "1")

#: The default number of hypothesis examples per test. A case that takes longer than the deadline counts as a hang.
settings.register_profile("portbar", max_examples=100, deadline=20_000)
settings.register_profile("nightly", max_examples=20_000, deadline=20_000, derandomize=False, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "portbar"))

#: Seconds that a hypothesis test may take in the nightly profile.
_NIGHTLY_S = 7200


@functools.cache
def chosen_device() -> tuple[cl.Device | None, str]:
    """Return the device to test on and what to call it, or None and why there is none."""
    try:
        platforms = icd.load_platforms()
    except DeviceError as error:
        return None, str(error)
    wanted = os.environ.get("PORTBAR_TEST_PLATFORM", "")
    refusals = []
    for platform in platforms:
        title = f"{platform.name} {platform.version}".strip()
        if wanted.lower() not in title.lower():
            continue
        for found in devices_of(platform):
            verdict = usable.check(found, timeout=180)
            if verdict.usable:
                return found, f"{found.name.strip()} ({title})"
            refusals.append(f"{title}: {verdict.reason}")
    if refusals:
        return None, "no usable OpenCL device: " + "; ".join(refusals)
    if wanted:
        return None, f"no OpenCL device on a platform that matches PORTBAR_TEST_PLATFORM={wanted!r}"
    return None, "no OpenCL device on this machine"


def pytest_report_header() -> str:
    """Name what picks the device; finding it takes seconds and is left to the first test that needs it."""
    wanted = os.environ.get("PORTBAR_TEST_PLATFORM")
    return f"OpenCL platform: {f'like {wanted!r}' if wanted else 'the first usable one'}"


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> Iterator[None]:
    """Mark tests by their file, and leave out what a sample does of those that are selected."""
    for item in items:
        for mark in rows.marks_of(item.path.name):
            item.add_marker(mark)
        if settings.get_current_profile_name() == "nightly" and getattr(item.obj, "is_hypothesis_test", False):
            item.add_marker(pytest.mark.timeout(_NIGHTLY_S))
    yield
    if sample := os.environ.get(rows.SAMPLE_VARIABLE):
        items[:], left_out = rows.sampled(items, sample)
        config.hook.pytest_deselected(items=left_out)
        config.stash[_SAMPLE] = f"sample: {len(left_out)} of {len(items) + len(left_out)} cases left out"


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Note what a sample left out, and the device that the device tests ran on, or why there was none."""
    if note := config.stash.get(_SAMPLE, ""):
        terminalreporter.write_line(note)
    if chosen_device.cache_info().currsize:
        device, note = chosen_device()
        terminalreporter.write_line(f"OpenCL device: {note if device else f'none ({note})'}")


@pytest.fixture(scope="session")
def device() -> cl.Device:
    """Return the OpenCL device under test; skip without one."""
    found, note = chosen_device()
    if found is None:
        pytest.skip(note)
    return found


@pytest.fixture(scope="session")
def findings(device: cl.Device) -> Findings | None:
    """Probe the device under test once, so that `portbar.describe` knows it; no library call does so."""
    return portbar.probe(device).findings


@pytest.fixture(scope="session")
def context(device: cl.Device, findings: Findings | None) -> cl.Context:
    """Return one context on the device under test, probed and shared by all tests."""
    return cl.Context([device])


@pytest.fixture
def selector(device: cl.Device, findings: Findings | None) -> str:
    """Return what selects the device under test on the command line."""
    address = address_of(device)
    return f"{address.platform_index}:{address.device_index}"


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Return the folder of an empty cache that this test alone uses; it is not there yet."""
    monkeypatch.setenv(cache.ENVIRONMENT_VARIABLE, str(tmp_path / "cache"))
    monkeypatch.setattr(cache, "_memory", {})
    monkeypatch.setattr(cache, "_warned", set())
    forget()
    yield tmp_path / "cache"
    monkeypatch.undo()
    forget()


@pytest.fixture
def kept_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder in which this test keeps results, in place of that of the user."""
    monkeypatch.setattr("tests.kept.FOLDER", tmp_path / "kept")
    return tmp_path / "kept"


@pytest.fixture
def queue(context: cl.Context) -> Iterator[cl.CommandQueue]:
    """Return a fresh in-order queue with profiling, drained at the end of the test."""
    with cl.CommandQueue(context, properties=cl.command_queue_properties.PROFILING_ENABLE) as made:
        yield made


@pytest.fixture
def loose_queue(context: cl.Context) -> cl.CommandQueue:
    """Return a fresh out-of-order queue; skip where the device has none."""
    in_any_order = cl.command_queue_properties.OUT_OF_ORDER_EXEC_MODE_ENABLE
    if not context.devices[0].queue_properties & in_any_order:
        pytest.skip("the device has no out-of-order queues")
    return cl.CommandQueue(context, properties=in_any_order)


#: Files of tests that Oclgrind, which interprets every instruction, would take longer for than its row may; it runs the others.
_TOO_LONG_FOR_OCLGRIND = {
    f"test_reduction_{name}.py" for name in ("catalogue", "host", "host_shapes", "levels", "short_forms", "types")
}


@pytest.fixture(autouse=True)
def _usual_width() -> Iterator[None]:
    """Hide COLUMNS, which tests.runtimes sets for the lines of pytest alone."""
    columns = os.environ.pop("COLUMNS", None)
    yield
    if columns is not None:
        os.environ["COLUMNS"] = columns


@pytest.fixture(autouse=True)
def _within_the_time_of_a_simulator(request):
    if request.path.name not in _TOO_LONG_FOR_OCLGRIND or not request.node.get_closest_marker("device"):
        return
    if "Oclgrind" in request.getfixturevalue("device").platform.name:
        pytest.skip("Oclgrind interprets every instruction: all of these would take it longer than its row may")
