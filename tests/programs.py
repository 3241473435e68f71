"""Fixtures for folders whose device code is in a module `kernels`: its programs, and how they are launched."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    import pyopencl as cl

    import portbar


@pytest.fixture
def made(request: pytest.FixtureRequest, context: cl.Context) -> Callable[..., portbar.Kernel]:
    """Return a kernel of one of the public sources in the folder's `kernels`, by its name."""
    from tests import support  # noqa: PLC0415 (needs PyOpenCL)

    found = vars(importlib.import_module(f"{request.module.__package__}.kernels"))
    sources = [text for name, text in found.items() if not name.startswith("_") and isinstance(text, str)]

    def kernel(name: str, **more: Any) -> portbar.Kernel:
        (source,) = (text for text in sources if f"kernel void {name}(" in text)
        return support.kernel(context, source, name, **more)

    return kernel


@pytest.fixture
def launched(queue: cl.CommandQueue) -> Callable[..., portbar.Launch]:
    """Launch a kernel, again until at least `least` groups took part; skip where the device holds fewer.

    The arguments are made anew for each launch by the function that is given.
    """
    from tests import support  # noqa: PLC0415

    def launch(
        kernel: portbar.Kernel, local: int, arguments: Callable[[], tuple[Any, ...]], least: int = 1, most: int = 16
    ) -> portbar.Launch:
        bound = support.need_groups(kernel, queue, (local,), least, *arguments())
        return support.launched_with(
            lambda: kernel(queue, None, (local,), *arguments(), num_groups=min(bound, most)), least
        )

    return launch
