"""A vendor's own bound: an answer where there is a query, None everywhere else, and never a crash."""

from __future__ import annotations

import ctypes
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

cl = pytest.importorskip("pyopencl")

import portbar  # noqa: E402 (after the check that PyOpenCL is there)
from portbar.device import vendor  # noqa: E402

MAPS = """\
7f0000000000-7f0000001000 r-xp 00000000 08:01 1 /usr/lib/libc.so.6
7f0000001000-7f0000002000 r-xp 00000000 08:01 2 /opt/a folder/libOpenCL-5519dec5.so.1.0.0
7f0000002000-7f0000003000 r--p 00000000 08:01 2 /opt/a folder/libOpenCL-5519dec5.so.1.0.0
7f0000003000-7f0000004000 r-xp 00000000 08:01 3 /usr/lib/libRusticlOpenCL.so.1
7f0000004000-7f0000005000 rw-p 00000000 00:00 0
"""


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


def test_the_loader_is_the_one_in_this_process_and_no_driver_is_taken_for_it(tmp_path, monkeypatch):
    (tmp_path / "maps").write_text(MAPS, encoding="utf-8")
    monkeypatch.setattr(vendor, "_MAPS", tmp_path / "maps")
    assert vendor._candidates() == ["/opt/a folder/libOpenCL-5519dec5.so.1.0.0"]


@pytest.mark.parametrize("name", [None, "libOpenCL-that-is-not-there.so", ctypes.util.find_library("c")])
def test_no_loader_means_no_bound(fresh, tmp_path, monkeypatch, name):
    monkeypatch.setattr(vendor, "_MAPS", tmp_path / "absent")
    monkeypatch.setattr(ctypes.util, "find_library", lambda _: name)
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
def test_the_device_answers_where_it_has_the_query(queue, context):
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
