"""A vendor's own bound: an answer where there is a query, None everywhere else, and never a crash."""

from __future__ import annotations

import ctypes.util
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyopencl as cl
import pytest

import portbar
from portbar.device import vendor


@pytest.fixture
def fresh():
    """The loader is looked for anew, and again after the test."""
    vendor.loader.cache_clear()
    vendor._query.cache_clear()
    yield
    vendor.loader.cache_clear()
    vendor._query.cache_clear()


def fakes(extensions: str = "cl_intel_concurrent_dispatch") -> tuple[Any, Any]:
    platform = SimpleNamespace(int_ptr=1)
    queue = SimpleNamespace(device=SimpleNamespace(extensions=extensions, platform=platform), int_ptr=2)
    return queue, SimpleNamespace(int_ptr=3)


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="looks libraries up in /proc")
def test_the_loader_is_the_one_in_this_process(fresh):
    before = Path("/proc/self/maps").read_text(encoding="utf-8").count("libOpenCL")
    assert vendor.loader() is not None
    assert Path("/proc/self/maps").read_text(encoding="utf-8").count("libOpenCL") == before > 0


@pytest.mark.parametrize("name", ["libOpenCL-that-is-not-there.so", ctypes.util.find_library("c")])
def test_no_loader_means_no_bound(fresh, monkeypatch, name):
    monkeypatch.setattr(vendor.importlib, "import_module", lambda _: SimpleNamespace(__file__=name))
    assert vendor.loader() is None
    assert vendor.vendor_bound(*fakes(), (64,)) is None


def test_a_device_without_the_extension_is_not_asked(monkeypatch):
    monkeypatch.setattr(vendor, "_query", lambda _: pytest.fail("asked"))
    assert vendor.vendor_bound(*fakes("cl_khr_fp64 cl_intel_concurrent_dispatch2"), (64,)) is None


@pytest.mark.parametrize(("status", "answer", "bound"), [(0, 17, 17), (0, 0, None), (-30, 17, None)])
def test_only_a_success_with_a_number_is_an_answer(monkeypatch, status, answer, bound):
    asked = []

    def function(queue, kernel, dims, _offset, local, out):
        asked.append((queue, kernel, dims, list(local)))
        out._obj.value = answer
        return status

    monkeypatch.setattr(vendor, "_query", lambda _: function)
    assert vendor.vendor_bound(*fakes(), (8, 4)) == bound
    assert asked == [(2, 3, 2, [8, 4])]


@pytest.mark.device
def test_the_device_replies_if_it_has_the_query(queue, context):
    source = """
    #include "portbar/device_barrier.h"
    kernel void meet(PORTBAR_GRID_PARAM, global uint *out) { PORTBAR_ENTER(grid); out[0] = portbar_num_groups(&grid); }
    """
    program = portbar.Program(context, source)
    out = cl.Buffer(context, cl.mem_flags.READ_WRITE, np.dtype(np.uint32).itemsize)
    bound = program.kernel("meet").occupancy(queue, (16,), out).vendor_bound
    if "cl_intel_concurrent_dispatch" in queue.device.extensions.split():
        assert isinstance(bound, int)
        assert bound >= 1
    else:
        assert bound is None
