"""Writes portbar's headers as plain OpenCL C, and `portbar/host.h` for C hosts: `portbar.render` and `portbar export`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

import pyopencl as cl

from portbar import __version__
from portbar.backends.profile import DeviceProfile
from portbar.choices.profile import describe
from portbar.choices.strategy import choose
from portbar.choices.timing import MOST_ROUNDS, limit_rounds, patience_rounds, polls_per_second
from portbar.device.addresses import device_of
from portbar.errors import Error, RenderError, UnsupportedFeatureError
from portbar.launching.analysis import CheckedSource, checked_facts, needs_single, read_source
from portbar.launching.request import RUNS, unexpanded
from portbar.primitives import fault, layout
from portbar.primitives.headers import (
    FAULTS,
    HEADERS,
    HOST_HEADER,
    Target,
    header_names,
    layout_of,
    needed_ordering,
    pruned_folder,
    resolve_includes,
    whole_headers,
)
from portbar.primitives.reduction.header import local_size_limit
from portbar.primitives.reduction.use import use_of
from portbar.primitives.strategy import Strategy
from portbar.reading.found import joined
from portbar.records import writing
from portbar.rendering.templates import render_def

#: A directive by which one header includes another.
_INCLUDE: Final = re.compile(r'^#include "portbar/\w+\.h"\n', re.MULTILINE)


def render(
    device: cl.Device | cl.CommandQueue,
    headers: Sequence[str] | str = ("device_barrier",),
    strategy: Strategy | Mapping[str, str] | None = None,
    *,
    source: str | Path | None = None,
    options: Sequence[str] = (),
) -> str:
    """Return the text of one or more of portbar's headers for a device, as `Program` would compile it.

    Parameters
    ----------
    device : pyopencl.Device or pyopencl.CommandQueue
    headers : sequence of str
        Names without folder and ending, such as ``("device_barrier",)``; a single name may be passed alone. ``"host"`` is the
        header for C and C++ hosts, all others are for kernels.
    strategy : Strategy or mapping of str to str, optional
        As for `Program`.
    source : str or pathlib.Path, optional
        The kernels that will include the headers, as text or as a file: only what they use is rendered. Name all headers
        that they include at once, since headers use each other. Without it everything is rendered, each header once and after
        those that it requires, except ``"reduction"``, whose content depends on the source.
    options : sequence of str, optional
        Build options of that source, whose macros may use functions, too.

    Returns
    -------
    str
        OpenCL C that includes nothing; C that includes the standard library's headers for ``"host"``.

    Raises
    ------
    DeviceError
        The first argument is neither a device nor a queue.
    Error
        The source is one that `Program` refuses.
    RenderError
        A header does not exist.
    UnsupportedFeatureError
        The device lacks a feature that a header requires.
    """
    if isinstance(headers, str):
        headers = (headers,)
    sources = () if source is None else (read_source(source, options),)
    texts = _texts(device_of("render", device), headers, strategy, sources)
    return "\n".join(_INCLUDE.sub("", text) for text in texts.values())


def _texts(
    device: cl.Device,
    headers: Sequence[str],
    strategy: Strategy | Mapping[str, str] | None,
    sources: Sequence[CheckedSource] = (),
) -> dict[str, str]:
    """Name -> text of headers and of those that they require, which come first; what all of the sources use of them, if any."""
    profile = describe(device)
    chosen = strategy
    if not isinstance(chosen, Strategy):
        chosen = choose(profile, chosen, ordering=needed_ordering(headers))
    names = [name for name in headers if name != HOST_HEADER]
    if sources:
        text, options = "\n".join(source.text for source in sources), sources[0].options
        facts = [checked_facts(source, profile, chosen) for source in sources]
        use = use_of(text, options, facts=joined(facts), is_program=False)
        use = replace(use, single=any(needs_single(source, profile, chosen) for source in sources))
        texts = pruned_folder(names, chosen, text, options=options, use=use)
        for source, own in zip(sources, facts, strict=True) if "reduction" in texts else ():
            # Refuses a size that the device has no memory for.
            local_size_limit(chosen, use_of(source.text, options, facts=own))
    else:
        texts = whole_headers(names, chosen)
    return texts | ({HOST_HEADER: _host_header(profile, chosen)} if HOST_HEADER in headers else {})


def _host_header(profile: DeviceProfile, strategy: Strategy) -> str:
    """Text of `portbar/host.h`: the sizes and limits of the headers that are exported for the device."""
    least = layout.LEAST_CAPACITY
    # All headers have the words that programs may use of them; those of reductions are the last. Sizes grow linearly over the
    # capacities that there are.
    every, others = layout_of(HEADERS), layout_of(name for name in HEADERS if name != "reduction")
    state = [others.words(capacity) for capacity in (least, 2 * least)]
    whole = [every.words(capacity) for capacity in (least, 2 * least)]
    sizes = {"state": state, "reduction": [all_of - part for all_of, part in zip(whole, state, strict=True)]}
    linear = {f"{name}_base": 2 * one - two for name, (one, two) in sizes.items()}
    linear |= {f"{name}_share": two - one for name, (one, two) in sizes.items()}
    findings = profile.findings
    context = {
        "version": __version__,
        "device": " ".join(f"{profile.facts.name} ({profile.facts.platform_name})".split()).replace("*/", "* /"),
        "options": f"-cl-std={strategy.capabilities.std}" if strategy.capabilities.std else "",
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
        "status_open": fault.OPEN,
        "faults": sorted(FAULTS.values(), key=lambda one: one.status),
        **linear,
    }
    return render_def("host/host.mako", "host", context)


def export(
    device: cl.Device,
    folder: Path,
    strategy: Strategy | Mapping[str, str] | None = None,
    *,
    sources: Sequence[str | Path] = (),
    options: Sequence[str] = (),
    fused: str = "",
) -> list[Path]:
    """Write every header, `host.h` too, to `folder`/portbar/, ready for `-I folder`; the paths written.

    A header that the device cannot have becomes an `#error` with the reason. Given the kernels' `sources` and build options,
    headers hold what they use, and one that none includes becomes an `#error`. With `fused`, a file name, the source that runs
    kernels by `PORTBAR_RUN` becomes one file with these kernels and all that it needs, beside `host.h`. `Error` if a source is
    one that `Program` refuses. `RenderError` if the folder cannot be written. `UnsupportedFeatureError` if the device cannot do
    what the sources, or the device barrier, need.
    """
    # All of them before the first is written: one that is refused leaves the headers of an earlier export as they were.
    if fused:
        return _written(folder, {fused: _fused_text(device, strategy, sources, options), **_host(device, strategy)})
    runs = next((source for source in sources if RUNS in unexpanded(source, options).text), None)
    if runs is not None:
        raise Error(
            f'{runs} includes "{RUNS}", so it becomes one file with the kernels that it runs: add --fused NAME.cl'
        )
    if sources:
        texts = _texts_of_sources(device, strategy, [read_source(source, options) for source in sources])
    else:
        texts = {name: _text_or_reason(device, name, strategy) for name in (*header_names(), HOST_HEADER)}
    return _written(folder, {f"portbar/{name}.h": text for name, text in texts.items()})


def _written(folder: Path, texts: Mapping[str, str]) -> list[Path]:
    """Write files below a folder."""
    written: list[Path] = []
    try:
        (folder / "portbar").mkdir(parents=True, exist_ok=True)
        for name, text in texts.items():
            path = folder / name
            writing.write(path, text)
            written.append(path)
    except OSError as error:
        raise RenderError(
            f"cannot write headers to {folder}: {error.strerror or error}; {len(written)} are new, the others as they were; "
            "name a folder with -o"
        ) from error
    return written


def _host(device: cl.Device, strategy: Strategy | Mapping[str, str] | None) -> dict[str, str]:
    return {f"portbar/{HOST_HEADER}.h": _texts(device, (HOST_HEADER,), strategy)[HOST_HEADER]}


def _fused_text(
    device: cl.Device,
    strategy: Strategy | Mapping[str, str] | None,
    sources: Sequence[str | Path],
    options: Sequence[str],
) -> str:
    """The one of some sources that runs kernels of itself and of the others, with all that it needs."""
    drivers = [source for source in sources if RUNS in unexpanded(source, options).text]
    if len(drivers) != 1:
        names = ", ".join(str(one) for one in drivers) or "none does"
        raise Error(
            f'one of the sources must include "{RUNS}" and run the kernels of all, but {names}: name it and the files of '
            "kernels with --source"
        )
    others = [source for source in sources if source is not drivers[0]]
    source = read_source(drivers[0], options, beside=others)
    profile = describe(device)
    chosen = strategy
    if not isinstance(chosen, Strategy):
        chosen = choose(profile, chosen, ordering=needed_ordering(source.headers))
    facts = checked_facts(source, profile, chosen)
    use = replace(
        use_of(source.text, source.options, facts=facts, is_program=False), single=needs_single(source, profile, chosen)
    )
    return resolve_includes(
        source.text,
        chosen,
        name=source.name,
        use=use if any("reduction" in header for header in source.headers) else None,
        options=source.options,
        target=Target(profile.facts.name, tuple(profile.facts.extensions)),
        is_exported=True,
    )


def _texts_of_sources(
    device: cl.Device, strategy: Strategy | Mapping[str, str] | None, sources: Sequence[CheckedSource]
) -> dict[str, str]:
    found = {name for source in sources for name in source.headers}
    included = [name for name in header_names() if f"portbar/{name}.h" in found]
    texts = {
        name: f"#error portbar: the source that these headers were exported for includes no portbar/{name}.h; export again\n"
        for name in header_names()
    }
    return texts | _texts(device, (*included, HOST_HEADER), strategy, sources)


def _text_or_reason(device: cl.Device, name: str, strategy: Strategy | Mapping[str, str] | None) -> str:
    try:
        return _texts(device, (name,), strategy)[name]
    except UnsupportedFeatureError as error:
        if name == "device_barrier":
            raise  # the usual reason to export; without it nothing is worth writing
        return f"#error portbar: {' '.join(str(error).split())}\n"
