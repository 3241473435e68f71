"""Turns a strategy into OpenCL C: the text of portbar's headers, and an author's source with its includes resolved."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Final

from portbar import __version__
from portbar.device import quirks
from portbar.errors import RenderError, UnsupportedFeatureError
from portbar.primitives import atomics, device_barrier, lock, scan, signal, split_barrier, task_graph, team, worklist
from portbar.primitives.fault import Fault
from portbar.primitives.joins import with_joins
from portbar.primitives.pieces import Header
from portbar.primitives.reduction import header as reduction
from portbar.primitives.reduction.use import Use
from portbar.primitives.strategy import Strategy
from portbar.primitives.variants import Variants
from portbar.rendering.folding import COLUMNS, folded, narrow
from portbar.rendering.items import unmarked
from portbar.rendering.pruning import pruned
from portbar.rendering.source import Include, ends_of_skipped, includes, line_of, without_comments
from portbar.rendering.templates import render_def

#: Every header. A new primitive adds one entry.
_HEADERS: Final[Mapping[str, Header]] = {
    header.name: header
    for header in (
        atomics.HEADER,
        device_barrier.HEADER,
        lock.HEADER,
        signal.HEADER,
        worklist.HEADER,
        task_graph.HEADER,
        team.HEADER,
        split_barrier.HEADER,
        reduction.header(Use()),
        scan.header(),
    )
}

#: Status -> every fault that a launch can report.
FAULTS: Final[Mapping[int, Fault]] = {fault.status: fault for header in _HEADERS.values() for fault in header.faults}

#: The header for C hosts, which no kernel includes: `portbar.launching.export` renders it.
HOST_HEADER: Final = "host"


def needed_ordering(headers: Iterable[str]) -> str:
    """How far memory order must hold for these headers to work at all: `device` or `work_group`."""
    names = {name.removeprefix("portbar/").removesuffix(".h") for name in headers}
    local = {name for name, header in _HEADERS.items() if header.is_local}
    return "work_group" if names and names <= local else "device"


def header_names() -> tuple[str, ...]:
    """Names of the headers that exist, as in `#include "portbar/NAME.h"`."""
    return tuple(_HEADERS)


#: Clang's -Wall and -Wextra name each function of the main text that is not called, and each unused parameter. All compilers
#: of OpenCL C met so far are Clang's.
_UNUSED_BEGIN: Final = """\
/* A program calls only some of these functions, and some need only some of their parameters. */
#ifdef __clang__
#pragma clang diagnostic push
#pragma clang diagnostic ignored "-Wunused-function"
#pragma clang diagnostic ignored "-Wunused-parameter"
#endif
"""
_UNUSED_END: Final = """\
#ifdef __clang__
#pragma clang diagnostic pop
#endif"""
#: Around text whose functions must all be inlined (CALLS_REORDERED).
_INLINED: Final = (
    """\
/* This compiler moves loads across calls of functions that contain a barrier. Others may be noinline. */
#pragma clang diagnostic push
#pragma clang diagnostic ignored "-Wignored-attributes"
#pragma clang attribute push(__attribute__((always_inline)), apply_to = function)
#pragma clang diagnostic pop
""",
    "\n#pragma clang attribute pop\n",
)


def _text(header: Header, strategy: Strategy, *, folding: bool = False) -> str:
    """The text of one header, without those that it requires. Cached: programs differ in what they keep of it."""
    return _text_at(Variants.revision, header, strategy, folding=folding)


@lru_cache(maxsize=64)
def _text_at(_: int, header: Header, strategy: Strategy, *, folding: bool) -> str:
    context = {**header.context(strategy), "folding": folding}
    guard = f"PORTBAR_{header.name.upper()}_H"
    std = strategy.capabilities.std
    rendered = f"   Rendered by portbar {__version__} for:"
    made_for = f"{strategy.summary()}.{f' Build with -cl-std={std}.' if std else ''} */"
    parts = [
        f"/* portbar/{header.name}.h: {header.summary}",
        f"{rendered} {made_for}" if len(f"{rendered} {made_for}") <= COLUMNS else f"{rendered}\n   {made_for}",
        f"#ifndef {guard}",
        f"#define {guard}",
        f"#define PORTBAR_{header.name.upper()} 1",
        "",
        _UNUSED_BEGIN,
        *(render_def(template, def_name, context) for template, def_name in header.pieces(strategy)),
        _UNUSED_END,
        f"#endif /* {guard} */",
    ]
    return "\n".join(parts) + "\n"


def _with_required(names: Iterable[str], use: Use | None, scans: tuple[scan.DeviceScan, ...] = ()) -> list[Header]:
    """Headers by name, each once and after those that it requires."""
    found: dict[str, Header] = {}
    for name in names:
        header = _header(name, use, scans)
        found |= {other.name: other for other in (*(_header(part, use) for part in header.requires), header)}
    return list(found.values())


def render_header(name: str, strategy: Strategy, use: Use | None = None) -> str:
    """Text of `portbar/NAME.h` for one strategy, after those that it requires; of reductions what `use` says, if anything.

    `RenderError` if there is no such header; the message names those that there are. `UnsupportedFeatureError` if the device
    cannot do what the header is for.
    """
    return "".join(
        _as_file(unmarked(_text(header, strategy)), header, strategy) for header in _with_required([name], use)
    )


def whole_headers(names: Sequence[str], strategy: Strategy) -> dict[str, str]:
    """Name -> text of headers that include each other, for sources that are not known; those that they require come first.

    `RenderError` or `UnsupportedFeatureError` as by `render_header`; the latter also for a header that only a source can give
    its content.
    """
    texts: dict[str, str] = {}
    for header in _with_required(names, None):
        if header.needs_source:
            raise UnsupportedFeatureError(f"portbar/{header.name}.h {header.needs_source}")
        texts[header.name] = narrow(
            _as_file(folded(unmarked(_text(header, strategy, folding=True))), header, strategy, header.requires)
        )
    return texts


def pruned_folder(
    names: Sequence[str], strategy: Strategy, source: str, *, options: Sequence[str] = (), use: Use | None = None
) -> dict[str, str]:
    """As `whole_headers`, without what `source` cannot reach."""
    headers = _with_required(names, use)
    texts = pruned([_text(header, strategy) for header in headers], source, options)
    return {
        header.name: narrow(_as_file(_slim(text), header, strategy, header.requires))
        for header, text in zip(headers, texts, strict=True)
    }


def _as_file(text: str, header: Header, strategy: Strategy, requires: Sequence[str] = ()) -> str:
    """A header that no program is around: it includes what it requires, and inlines its functions where they must be."""
    guard = f"PORTBAR_{header.name.upper()}_H"
    begin, end = "".join(f'#include "portbar/{name}.h"\n' for name in requires), f"#endif /* {guard} */"
    if strategy.has(quirks.CALLS_REORDERED) and re.search(r"^(?:static|PORTBAR_COLLECTIVE)\b", text, re.MULTILINE):
        begin, end = begin + _INLINED[0], _INLINED[1] + end
    text = text.replace(f"#define {guard}\n", f"#define {guard}\n{begin}", 1)
    return text.replace(f"#endif /* {guard} */", end)


def known_includes(source: str, name: str) -> list[Include]:
    """Each include of a portbar header in a source of that name in messages; raises RenderError where there is none."""
    found = list(includes(source))
    for include in found:
        try:
            _header(include.name)
        except RenderError as error:
            raise RenderError(f"{name}, line {include.line}: {error}") from None
    return found


def _pruned_includes(
    names: Sequence[str],
    strategy: Strategy,
    source: str,
    options: Sequence[str],
    use: Use | None,
    scans: tuple[scan.DeviceScan, ...],
) -> list[str]:
    """Texts of headers, each with those that it requires before it, without what `source` cannot reach."""
    parts = [_with_required([name], use, scans) for name in names]
    texts = iter(pruned([_text(header, strategy) for made in parts for header in made], source, options))
    found: list[str] = []
    for made in parts:
        *required, own = (next(texts) for _ in made)
        found.append("".join(_slim(text) for text in (*(text for text in required if not _is_shell(text)), own)))
    return found


def _slim(text: str) -> str:
    """A pruned header without directives against warnings, which only overloads deserve."""
    if "overloadable" in text:
        return text
    return re.sub(r"\n{3,}", "\n\n", text.replace(_UNUSED_BEGIN, "").replace(_UNUSED_END + "\n", ""))


def _is_shell(text: str) -> bool:
    """Whether nothing is left of a header but its guard."""
    code = without_comments(text)
    is_other = re.search(r"^[ \t]*(?:[^#\s]|#pragma OPENCL)", code, re.MULTILINE)
    return is_other is None and code.count("#define") == 1


def _header(name: str, use: Use | None = None, scans: tuple[scan.DeviceScan, ...] = ()) -> Header:
    """The header of a name, with or without folder and ending; raises RenderError where there is none."""
    key = name.removeprefix("portbar/").removesuffix(".h")
    if key not in _HEADERS:
        near = difflib.get_close_matches(key, _HEADERS, n=1)
        hint = f"; did you mean portbar/{near[0]}.h?" if near else "."
        if key == HOST_HEADER:
            hint = " for kernels: it is for C and C++ hosts."
        raise RenderError(
            f"there is no header {name!r}{hint} Headers: " + ", ".join(f"portbar/{header}.h" for header in _HEADERS)
        )
    if key == "scan":
        return scan.header(scans)
    return reduction.header(use) if key == "reduction" and use is not None else _HEADERS[key]


def resolve_includes(
    source: str,
    strategy: Strategy,
    *,
    name: str = "program.cl",
    use: Use | None = None,
    options: Sequence[str] = (),
    scans: tuple[scan.DeviceScan, ...] = (),
) -> str:
    """`source` with every `#include "portbar/..."` replaced by what it uses of that header; `options` may use something, too.

    `#line` directives keep the author's line numbers, so that a driver's message about line 12 means the author's line 12.
    Includes of other files are left for the driver and its `-I` options. `RenderError` if an include names a header that does
    not exist; the message gives the author's line.
    """
    if strategy.has(quirks.JOINS_LOST):
        source = with_joins(source)
    quoted = name.replace("\\", "/").replace('"', "'").replace("\n", " ")
    found = known_includes(source, name)
    begin, ending = _INLINED if found and strategy.has(quirks.CALLS_REORDERED) else ("", "")
    pieces = [(0, 0, begin)]
    texts = _pruned_includes([include.name for include in found], strategy, source, options, use, scans)
    for include, text in zip(found, texts, strict=True):
        pieces.append((include.start, include.end, f'#line 1 "{include.name}"\n{text}'))
    # A compiler ignores the directives of headers that it skips.
    pieces += [(position, position, "") for position in ends_of_skipped(source)]
    parts: list[str] = []
    done = 0
    for start, end, text in sorted(pieces):
        before = source[done:start]
        if before.rpartition("\n")[2].strip():
            before += "\n"
        parts += [before, text, f'#line {line_of(source, end)} "{quoted}"\n']
        done = end
    parts += [source[done:], ending]
    return "".join(parts)
