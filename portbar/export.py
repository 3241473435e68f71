"""Writes portbar's headers as plain OpenCL C, and `portbar/host.h` for C hosts: `portbar.render` and `portbar export`.

Not for Python hosts: a `Program` renders what it needs by itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from portbar import files, layout
from portbar._version import __version__
from portbar.errors import RenderError, UnsupportedFeatureError
from portbar.profile import describe
from portbar.reduction.rendering import grid_extra_words
from portbar.reduction.use import Use
from portbar.rendering import HOST_HEADER, header_names, needed_ordering, render_header
from portbar.strategy import DeviceProfile, Strategy, choose
from portbar.templates import render_def
from portbar.timing import MOST_ROUNDS, limit_rounds, patience_rounds, polls_per_second

if TYPE_CHECKING:
    import pyopencl as cl

#: Capacities are this or a power of two above it.
_LEAST_CAPACITY: Final = 64


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
        Names without folder and ending, such as ``("device_barrier",)``; one name may stand alone. ``"host"`` is the header
        for C and C++ hosts, all others are for kernels.
    strategy : Strategy or mapping of str to str, optional
        As for `Program`.

    Returns
    -------
    str
        OpenCL C that includes nothing; C that includes the standard library's headers for ``"host"``.

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
    profile = describe(device)
    chosen = strategy if isinstance(strategy, Strategy) else choose(profile, strategy, ordering=ordering)
    return "\n".join(
        _host_header(profile, chosen) if name == HOST_HEADER else render_header(name, chosen) for name in headers
    )


def _host_header(profile: DeviceProfile, strategy: Strategy) -> str:
    """Text of `portbar/host.h`: the sizes and limits of the headers that are exported for the device."""
    least = _LEAST_CAPACITY
    # Sizes grow linearly over the capacities that there are.
    sizes = {
        "state": [layout.state_words(capacity) for capacity in (least, 2 * least)],
        "reduction": [grid_extra_words(Use(), capacity) for capacity in (least, 2 * least)],
    }
    linear = {f"{name}_base": 2 * one - two for name, (one, two) in sizes.items()}
    linear |= {f"{name}_share": two - one for name, (one, two) in sizes.items()}
    findings = profile.findings
    context = {
        "version": __version__,
        "device": " ".join(f"{profile.facts.name} ({profile.facts.platform_name})".split()).replace("*/", "* /"),
        "options": f"-cl-std={strategy.std}" if strategy.std else "",
        "max_groups": strategy.max_groups or layout.MAX_LAUNCHED_GROUPS,
        "last_epoch": layout.EPOCH_MASK - 1,
        "layout": layout.OFFSETS,
        "report_words": layout.REPORT_WORDS,
        "reports": layout.REPORTS,
        "dry_run": layout.DRY_RUN,
        "measured": findings is not None and findings.polls_per_second is not None,
        "polls_per_second": polls_per_second(profile),
        "polls_per_round": layout.POLLS_PER_ROUND,
        "most_rounds": MOST_ROUNDS,
        "patience": patience_rounds(profile),
        "least_limit": limit_rounds(profile, 0.0),
        "least_capacity": least,
        "status_open": layout.STATUS_OPEN,
        "status_timeout": layout.STATUS_TIMEOUT,
        "status_lost": layout.STATUS_LOST,
        "status_wait": layout.STATUS_WAIT,
        "status_overwritten": layout.STATUS_OVERWRITTEN,
        **linear,
    }
    return render_def("host/host.mako", "host", context)


def export(device: cl.Device, folder: Path, strategy: Strategy | Mapping[str, str] | None = None) -> list[Path]:
    """Write every header, `host.h` too, to `folder`/portbar/, ready for `-I folder`; the paths written.

    A header that the device cannot have becomes an `#error` with the reason.

    Raises
    ------
    RenderError
        The folder cannot be written.
    """
    written: list[Path] = []
    try:
        (folder / "portbar").mkdir(parents=True, exist_ok=True)
        for name in (*header_names(), HOST_HEADER):
            path = folder / "portbar" / f"{name}.h"
            files.write(path, _text_or_reason(device, name, strategy))
            written.append(path)
    except OSError as error:
        raise RenderError(
            f"cannot write headers to {folder}: {error.strerror or error}; {len(written)} are new, the others as they were; "
            "name a folder with -o"
        ) from error
    return written


def _text_or_reason(device: cl.Device, name: str, strategy: Strategy | Mapping[str, str] | None) -> str:
    try:
        return render(device, (name,), strategy)
    except UnsupportedFeatureError as error:
        if name == "device_barrier":
            raise  # what most export for; without it nothing is worth writing
        return f"#error portbar: {' '.join(str(error).split())}\n"
