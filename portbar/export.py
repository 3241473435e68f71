"""Writes portbar's headers as plain OpenCL C for hosts in C or C++: `portbar.render` and `portbar export`.

Not for Python hosts: a `Program` renders what it needs by itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from portbar.errors import RenderError, UnsupportedFeatureError
from portbar.profile import describe
from portbar.rendering import header_names, needed_ordering, render_header
from portbar.strategy import Strategy, choose

if TYPE_CHECKING:
    import pyopencl as cl


def render(
    device: cl.Device,
    headers: Sequence[str] | str = ("device_barrier",),
    strategy: Strategy | Mapping[str, str] | None = None,
) -> str:
    """Text of one or more of portbar's headers for a device, as `Program` would compile it.

    Parameters
    ----------
    device : pyopencl.Device
    headers : sequence of str
        Names without folder and ending, such as ``("device_barrier",)``; one name may stand alone.
    strategy : Strategy or mapping of str to str, optional
        As for `Program`.

    Returns
    -------
    str
        OpenCL C that includes nothing.

    Raises
    ------
    RenderError
        There is no such header.
    UnsupportedFeatureError
        The device cannot do what the header needs.
    """
    if isinstance(headers, str):
        headers = (headers,)
    ordering = needed_ordering(headers)
    chosen = strategy if isinstance(strategy, Strategy) else choose(describe(device), strategy, ordering=ordering)
    return "\n".join(render_header(name, chosen) for name in headers)


def export(device: cl.Device, folder: Path, strategy: Strategy | Mapping[str, str] | None = None) -> list[Path]:
    """Write every header to `folder`/portbar/, ready for the driver's `-I folder`; the paths written.

    A header that the device cannot have becomes an `#error` with the reason.

    Raises
    ------
    RenderError
        The folder cannot be written.
    """
    written: list[Path] = []
    try:
        (folder / "portbar").mkdir(parents=True, exist_ok=True)
        for name in header_names():
            path = folder / "portbar" / f"{name}.h"
            path.write_text(_text_or_reason(device, name, strategy), encoding="utf-8")
            written.append(path)
    except OSError as error:
        raise RenderError(
            f"cannot write headers to {folder}: {error.strerror or error}; name a folder with -o"
        ) from error
    return written


def _text_or_reason(device: cl.Device, name: str, strategy: Strategy | Mapping[str, str] | None) -> str:
    try:
        return render(device, (name,), strategy)
    except UnsupportedFeatureError as error:
        if name == "device_barrier":
            raise  # what most export for; without it nothing is worth writing
        return f"#error portbar: {' '.join(str(error).split())}\n"
