"""Scans without a device: tiles that fit its memory, and declarations that `portbar.DeviceScan` refuses."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import portbar
from portbar.arrays.scan import fitted
from portbar.arrays.scan_source import TILES
from portbar.device.facts import DeviceFacts
from portbar.primitives.scan import check_scans


@pytest.mark.parametrize("size", [1, 4, 8, 16, 24, 200, 5_000])
def test_tiles_fit_the_local_memory(size):
    facts = DeviceFacts(name="x", max_work_group_size=1024, local_mem_size=48 << 10)
    cut = fitted(TILES["gpu"], size, facts)
    assert (cut.local * cut.length * 33 // 32 + cut.local + 2) * size + 64 <= 48 << 10 or cut.local == 1
    if size <= 8:
        assert cut == TILES["gpu"]
    assert fitted(TILES["gpu"], 4, replace(facts, max_work_group_size=100)).local == 64
    assert fitted(TILES["cpu"], size, facts) == TILES["cpu"]


PAIR = np.dtype([("a", np.float64), ("b", np.float64), ("c", np.int32)], align=True)
BAD = {
    "not an OpenCL C identifier": (("a b", np.int32), {}),
    "reserved by OpenCL C": (("int", np.int32), {}),
    "24 bytes; the limit is 16": (("sum", PAIR), {}),
    "unknown operator": (("sum", np.int32, "plus"), {}),
    "does not support float": (("sum", np.float32, "&"), {}),
    "use a portbar.Operator": (("sum", np.int32, "argmax"), {}),
    "from 1 to 4096, not 0": (("sum", np.int32), {"local_size": 0}),
    "from 1 to 4096, not True": (("sum", np.int32), {"local_size": True}),
    "array values": (("sum", np.dtype((np.int32, 3))), {}),
    "is not neutral": (("sum", np.int32), {"neutral": 7}),
}


@pytest.mark.parametrize("says", BAD)
def test_an_invalid_scan_is_refused(says):
    args, more = BAD[says]
    with pytest.raises(portbar.Error, match=says):
        portbar.DeviceScan(*args, **more)


def test_scans_of_a_program_have_names_of_their_own():
    with pytest.raises(portbar.Error, match="begin with 'sum'"):
        check_scans([portbar.DeviceScan("sum", np.int32), portbar.DeviceScan("sum", np.int64)])
    with pytest.raises(portbar.Error, match=r"must hold portbar\.DeviceScan"):
        check_scans(["sum"])
