"""For folders whose device code is in a module `kernels`: fixtures for its programs and launches, sizes and arrays."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyopencl as cl
import pyopencl.array as cla
import pytest

import portbar
from tests import support
from tests.rows import some

#: A spin limit above the patience of discovery, below which no limit takes effect.
LIMIT_S = 0.4


def zeros(queue: cl.CommandQueue, count: int) -> Any:
    """Return an array of words on the device."""
    return cla.zeros(queue, count, np.uint32)


def amount(device: cl.Device, usual: int, *, simulated: int, cut_short: int | None = None) -> int:
    """Return how much work takes a device well below a second: a simulator, one that ends loops early, or another one."""
    found = support.scale(device)
    return simulated if found.is_simulator else cut_short if found.is_cut_short and cut_short else usual


def local_sizes(device: cl.Device, turn: int | None = None) -> Sequence[int]:
    """Return sizes of work-groups: one, no power of two, and more than a sub-group of some devices.

    With a turn those of `some`, for tests whose cases all run on each of the three rows that share them.
    """
    if support.scale(device).is_simulator:
        return (1, 5)
    return (1, 5, 64) if turn is None else some((1, 5, 64), turn)


@pytest.fixture
def made(request: pytest.FixtureRequest, context: cl.Context) -> Callable[..., portbar.Kernel]:
    """Return a kernel of one of the public sources in the folder's `kernels`, by its name."""
    found = vars(importlib.import_module(f"{request.module.__package__}.kernels"))
    sources = [text for name, text in found.items() if not name.startswith("_") and isinstance(text, str)]

    def kernel(name: str, **more: Any) -> portbar.Kernel:
        (source,) = (text for text in sources if f"kernel void {name}(" in text)
        return support.kernel(context, source, name, **more)

    return kernel


@pytest.fixture
def full_waits(device: cl.Device) -> None:
    """Skip where the device ends waits before their limit."""
    if support.scale(device).is_cut_short:
        pytest.skip("the device ends the wait before its limit")


@pytest.fixture
def launched(queue: cl.CommandQueue) -> Callable[..., portbar.Launch]:
    """Launch a kernel, again until at least `least` groups took part; skip where the device holds fewer.

    The arguments are made anew for each launch by the function that is given.
    """

    def launch(
        kernel: portbar.Kernel, local: int, arguments: Callable[[], tuple[Any, ...]], least: int = 1, most: int = 16
    ) -> portbar.Launch:
        bound = support.need_groups(kernel, queue, (local,), least, *arguments())
        return support.launched_with(
            lambda: kernel(queue, None, (local,), *arguments(), num_groups=min(bound, most)), least
        )

    return launch
