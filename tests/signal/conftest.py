"""The programs of the signal tests, and how they are launched."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from tests.signal import kernels

if TYPE_CHECKING:
    import pyopencl as cl

    import portbar

#: Work-items of a group: no power of two, and more than a sub-group of some devices.
LOCAL = 5


@pytest.fixture
def made(context: cl.Context) -> Callable[..., portbar.Kernel]:
    """Return a kernel of one of the sources in `kernels`, by its name."""
    from tests import support  # noqa: PLC0415 (needs PyOpenCL)

    def kernel(name: str, **more: Any) -> portbar.Kernel:
        return support.kernel(context, kernels.SOURCE, name, **more)

    return kernel


@pytest.fixture
def launched(queue: cl.CommandQueue) -> Callable[..., portbar.Launch]:
    """Launch a kernel with groups of `LOCAL`, again until at least `least` took part; skip where the device holds fewer.

    The arguments are made anew for each launch by the function that is given.
    """
    from tests import support  # noqa: PLC0415

    def launch(
        kernel: portbar.Kernel, arguments: Callable[[], tuple[Any, ...]], least: int = 1, most: int = 16
    ) -> portbar.Launch:
        bound = support.need_groups(kernel, queue, (LOCAL,), least, *arguments())
        for _ in range(20):
            done = kernel(queue, None, (LOCAL,), *arguments(), num_groups=min(bound, most))
            if done.num_groups >= least:
                return done
        return pytest.skip(f"the busy machine never ran {least} work-groups at once")

    return launch
