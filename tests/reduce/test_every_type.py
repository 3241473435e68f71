"""Each type that the pages promise is built and run on the device, within a limit of time.

A child process builds, so that a compiler that does not end is a failure which names the type.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest

from portbar.device import child
from portbar.device.addresses import address_of
from tests.checkout import python_path
from tests.reduce.every_type import FAMILIES, types_of
from tests.reduce.support import need, reducer

#: Seconds for a family of types; on a busy machine one takes half a minute.
LIMIT_S = 150

pytestmark = [pytest.mark.device, pytest.mark.timeout(LIMIT_S + 60)]


def test_the_families_have_every_type() -> None:
    found = {dtype for family in FAMILIES for dtype in types_of(family)}
    assert {np.dtype(name) for name in ("bool", "float16", "complex64", "complex128")} <= found
    assert sum(dtype.kind in "iu" for dtype in found) == 8
    # Five vectors of each number but half, and one structure.
    assert sum(dtype.names is not None for dtype in found) == 5 * 10 + 1


def check(what: str, family: str, device: Any, queue: Any) -> None:
    reducer(queue)
    for dtype in types_of(family):
        need(device, np.uint8 if dtype == np.bool_ else dtype)
    payload = {"address": address_of(device).to_json(), "what": what, "family": family}
    result = child.run_task(
        "tests.reduce.every_type:build", payload, timeout=LIMIT_S, env={"PYTHONPATH": python_path()}
    )
    last = result.progress[-1]["building"] if result.progress else "nothing yet"
    assert result.status == "ok", f"{result.status} after {result.seconds:.0f} s, building {last}: {result.message}"


@pytest.mark.parametrize("family", FAMILIES)
def test_every_type_is_reduced(family: str, device: Any, queue: Any) -> None:
    check("reduce", family, device, queue)


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_every_type_is_scanned_sorted_and_reduced_in_kernels(family: str, device: Any, queue: Any) -> None:
    if "rusticl" in device.platform.name and "PORTBAR_TEST_NIGHTLY" not in os.environ:
        pytest.skip("its compiler takes minutes: set PORTBAR_TEST_NIGHTLY")
    check("others", family, device, queue)
