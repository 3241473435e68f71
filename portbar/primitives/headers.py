"""Turns a strategy into OpenCL C: the text of portbar's headers, and an author's source with its includes resolved."""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import lru_cache
from typing import Any, Final

from portbar import __version__
from portbar.backends.backend import work_of_all
from portbar.backends.variants import Variants
from portbar.device import quirks
from portbar.errors import RenderError, UnsupportedFeatureError, UnwrittenError
from portbar.primitives import (
    agreement,
    atomics,
    device_barrier,
    fault,
    lock,
    run_kernels,
    scan,
    signal,
    split_barrier,
    task_graph,
    team,
    worklist,
)
from portbar.primitives.layout import Areas, Layout, Shared
from portbar.primitives.pieces import Header
from portbar.primitives.reduction import header as reduction
from portbar.primitives.reduction.declared import SINGLE_SUB_GROUPS
from portbar.primitives.reduction.loops import ReductionLoop
from portbar.primitives.reduction.use import Use
from portbar.primitives.registry import Faults, Headers
from portbar.primitives.strategy import Strategy
from portbar.reading.apart import apart
from portbar.reading.conditions import defined_names
from portbar.reading.edits import UnformedError
from portbar.reading.found import Checked, Unread
from portbar.reading.own_headers import Include, ends_of_skipped, includes
from portbar.reading.places import Places
from portbar.reading.reader import checked, in_normal_form
from portbar.reading.used import used_by
from portbar.reading.words import words
from portbar.records.dataclass import dataclass
from portbar.rendering.folding import COLUMNS, folded, narrow
from portbar.rendering.parts import Def, Group, Part, parts_in, written
from portbar.rendering.pruning import reached
from portbar.rendering.source import line_of
from portbar.rendering.templates import marked

#: Every header. A new primitive adds one entry; one from outside is added by `HEADERS.register`.
HEADERS: Final = Headers(
    (
        atomics.HEADER,
        device_barrier.HEADER,
        lock.HEADER,
        run_kernels.HEADER,
        signal.HEADER,
        worklist.HEADER,
        task_graph.HEADER,
        team.HEADER,
        split_barrier.HEADER,
        reduction.HEADER,
        scan.HEADER,
    ),
    checks=(agreement.HEADER, agreement.GRID_HEADER),
)

#: Status -> every fault that a launch can report, without those of debug builds, and with them.
FAULTS: Final = Faults(HEADERS)
ALL_FAULTS: Final = Faults(HEADERS, checks=True)

#: The header for C hosts, which no kernel includes: `portbar.launching.export` renders it.
HOST_HEADER: Final = "host"


def needed_ordering(headers: Iterable[str]) -> str:
    """How far memory order must hold for these headers to work at all: `device` or `work_group`."""
    names = {_key(name) for name in headers}
    local = {name for name, header in HEADERS.items() if header.is_local}
    return "work_group" if names and names <= local else "device"


def header_names() -> tuple[str, ...]:
    """Names of the headers that exist, as in `#include "portbar/NAME.h"`."""
    return tuple(HEADERS)


#: The words and statuses of a header.
_OWNED: Final = ("grid/owned.mako", "owned")
_BARRIER: Final = "barrier(CLK_LOCAL_MEM_FENCE);"


def declarations(loops: tuple[ReductionLoop, ...] = (), scans: tuple[scan.DeviceScan, ...] = ()) -> dict[str, str]:
    """Each header of a program, as ``"portbar/NAME.h"``, for the reader of its source."""
    texts: dict[str, str] = {}
    for name in HEADERS:
        header = _header(name, _contents(Use(loops=loops), scans))
        guard = f"PORTBAR_{name.upper()}_H"
        needed = "".join(f'#include "portbar/{other}.h"\n' for other in header.requires)
        texts[f"portbar/{name}.h"] = f"#ifndef {guard}\n#define {guard}\n{needed}{header.declared}#endif\n"
    return texts | {f"portbar/{name}.h": header.declared for name, header in HEADERS.checks.items()}


def _key(name: str) -> str:
    """The name of a header, which may be given with folder and ending."""
    return name.removeprefix("portbar/").removesuffix(".h")


def _contents(use: Use | None, scans: tuple[scan.DeviceScan, ...]) -> Mapping[str, Any]:
    """Header -> what a program declares for it on the host, None where that is not known."""
    return {"reduction": use, "scan": scans}


def feature_macros(strategy: Strategy, included: tuple[str, ...], *, single: bool = False) -> tuple[str, ...]:
    """Macros by which a program can ask what a device supports, as some headers define them.

    `single` is for the reader alone: sub-groups that portbar makes are single work-items.
    """
    return _feature_macros(Variants.revision, strategy, tuple(dict.fromkeys(map(_key, included))), single=single)


@lru_cache(maxsize=64)
def _feature_macros(_: int, strategy: Strategy, included: tuple[str, ...], *, single: bool) -> tuple[str, ...]:
    made = [f"PORTBAR_REDUCTION_{strategy.reduction.value.upper()}", *([SINGLE_SUB_GROUPS] if single else [])]
    headers = _with_required(included, {})
    layout = _layout(headers)
    for header in headers:
        # Those of reductions are above; its text is long where it is not known what of it a program uses.
        if not header.needs_source:
            made += _rendered(header, strategy, layout).features()
    return tuple(made)


@dataclass(frozen=True)
class Target:
    """The device that a program is rendered for, as far as its strategy does not say it."""

    #: In messages.
    device: str = "this device"
    #: All that the reader of programs knows, by default.
    extensions: tuple[str, ...] | None = None


_ANY_TARGET: Final = Target()

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
#: An author's word on a condition, for the reader of the program; to a compiler it is the condition.
_UNIFORM: Final = "PORTBAR_UNIFORM"
_UNIFORM_DEFINED: Final = f"""\
/* A condition that the author knows to be the same for all who must call what it decides about. */
#ifndef {_UNIFORM}
#define {_UNIFORM}(condition) (condition)
#endif
"""
#: Effect of a compiler -> why functions must all be inlined for it.
_REASONS_TO_INLINE: Final = {
    quirks.CALLS_REORDERED: (
        "This compiler moves loads across calls of functions that contain a barrier. Others may be noinline."
    ),
    quirks.CALLS_SHARED: "This compiler ends the process at some functions that are not inlined.",
}
#: Around text whose functions must all be inlined, after a comment with the reason.
_INLINED: Final = (
    """\
#pragma clang diagnostic push
#pragma clang diagnostic ignored "-Wignored-attributes"
#pragma clang attribute push(__attribute__((always_inline)), apply_to = function)
#pragma clang diagnostic pop
""",
    "\n#pragma clang attribute pop\n",
)


def _inlined(strategy: Strategy) -> tuple[str, str]:
    """The texts before and after functions that must all be inlined; empty where the compiler may choose."""
    why = next((reason for effect, reason in _REASONS_TO_INLINE.items() if strategy.has(effect)), "")
    return (f"/* {why} */\n{_INLINED[0]}", _INLINED[1]) if why else ("", "")


def layout_of(names: Iterable[str], use: Use | None = None) -> Layout:
    """The words that some headers, and those that they require, own in a program with that use of reductions."""
    return _layout(_with_required(names, {"reduction": use}))


def _layout(headers: Iterable[Header]) -> Layout:
    """The words of headers in the order of registration; those that depend on the program come last."""
    order = {name: (header.of is not None, place) for place, (name, header) in enumerate(HEADERS.items())}
    return Layout.of(sorted((one for one in headers if one.name in order), key=lambda one: order[one.name]))


@dataclass(frozen=True, eq=False)
class Rendered:
    """The text of one header in a program of some layout, without those that it requires, in parts."""

    header: Header
    strategy: Strategy
    defs: tuple[Def, ...]

    def parts(self, reached: AbstractSet[str] | None = None) -> list[Part | Group]:
        """All parts where these names are reached, by default all."""
        return [part for one in self.defs for part in one.parts(reached)]

    def features(self) -> list[str]:
        """The macros by which programs can ask what a device supports."""
        return [name for part in parts_in(self.parts()) if part.is_feature for name in part.names]

    def text(
        self, parts: Sequence[Part | Group], live: AbstractSet[Part] | None = None, begin: str = "", end: str = ""
    ) -> str:
        """The header with those of its parts that are live, by default all."""
        header, strategy = self.header, self.strategy
        guard, std = f"PORTBAR_{header.name.upper()}_H", strategy.capabilities.std
        shown = f"   Rendered by portbar {__version__} for:"
        made_for = f"{strategy.summary()}.{f' Build with -cl-std={std}.' if std else ''} */"
        # Only of overloads a program may have some that it does not call.
        warns = live is None or any(part.of and part in live for part in parts_in(parts))
        return "".join(
            [
                f"/* portbar/{header.name}.h: {header.summary}\n",
                f"{shown} {made_for}\n" if len(f"{shown} {made_for}") <= COLUMNS else f"{shown}\n   {made_for}\n",
                f"#ifndef {guard}\n#define {guard}\n{begin}\n",
                f"{_UNUSED_BEGIN}\n" if warns else "",
                written(parts, live),
                f"\n{_UNUSED_END}" if warns else "",
                f"\n{end}#endif /* {guard} */\n",
            ]
        )


def _rendered(header: Header, strategy: Strategy, layout: Layout | None = None, *, folding: bool = False) -> Rendered:
    """Cached: programs differ in what they keep of it."""
    if layout is None:
        layout = _layout([*_with_required(header.requires, {}), header])
    shared = layout.shared() if header.is_grid else None
    return _rendered_at(Variants.revision, header, strategy, layout.areas_of(header.name), shared, folding=folding)


@lru_cache(maxsize=64)
def _rendered_at(
    _: int, header: Header, strategy: Strategy, areas: Areas, shared: Shared | None, *, folding: bool
) -> Rendered:
    context = {**fault.context(header.faults), **header.context(strategy), "folding": folding}
    owned = {
        "statuses": [(one.name, one.status) for one in header.faults],
        "areas": areas,
        "header": header.name.upper(),
    }
    if shared is not None:
        prepared = [(one, first, marked(*one.piece, context | dict(one.names))) for one, first in shared.preparations]
        context |= {
            "local_words": shared.local_words,
            "places": shared.local,
            "zeroed": shared.zeroed,
            "preparations": prepared,
        }
    pieces = ((piece, context) for piece in header.pieces(strategy))
    return Rendered(header, strategy, tuple(Def(*piece, given) for piece, given in ((_OWNED, owned), *pieces)))


def _with_required(names: Iterable[str], contents: Mapping[str, Any]) -> list[Header]:
    """Headers by name, each once and after those that it requires."""
    found: dict[str, Header] = {}
    for name in names:
        header = _header(name, contents)
        found |= {other.name: other for other in (*(_header(part, contents) for part in header.requires), header)}
    return list(found.values())


def rendered_with(name: str, strategy: Strategy, use: Use | None = None) -> list[Rendered]:
    """A header by itself, after those that it requires."""
    made = _with_required([name], {"reduction": use})
    layout = _layout(made)
    return [_rendered(header, strategy, layout) for header in made]


def render_header(name: str, strategy: Strategy, use: Use | None = None) -> str:
    """Text of `portbar/NAME.h` for one strategy, after those that it requires; of reductions what `use` says, if anything.

    `RenderError` if there is no such header; the message names those that there are. `UnsupportedFeatureError` if the device
    cannot do what the header is for.
    """
    return "".join(_as_file(made) for made in rendered_with(name, strategy, use))


def whole_headers(names: Sequence[str], strategy: Strategy) -> dict[str, str]:
    """Name -> text of headers that include each other, for sources that are not known; those that they require come first.

    `RenderError` or `UnsupportedFeatureError` as by `render_header`; the latter also for a header that only a source can give
    its content.
    """
    texts: dict[str, str] = {}
    layout = layout_of(HEADERS)
    for header in _with_required(names, {}):
        if header.needs_source:
            raise UnsupportedFeatureError(f"portbar/{header.name}.h {header.needs_source}")
        made = _rendered(header, strategy, layout, folding=True)
        texts[header.name] = narrow(folded(_as_file(made, requires=header.requires)))
    return texts


def pruned_folder(
    names: Sequence[str], strategy: Strategy, source: str, *, options: Sequence[str] = (), use: Use | None = None
) -> dict[str, str]:
    """As `whole_headers`, without what `source` cannot reach.

    Words of the state lie where they do for other sources: one header for C hosts serves all.
    """
    layout = layout_of(HEADERS, use)
    headers = [_rendered(header, strategy, layout) for header in _with_required(names, {"reduction": use})]
    names_of_macros = defined_names(source, options) - _words_in(use)
    texts: dict[str, str] = {}
    for made, (parts, live) in zip(headers, _kept(headers, source, options), strict=True):
        begin, end = apart(text := narrow(_as_file(made, parts, live, made.header.requires)), names_of_macros)
        texts[made.header.name] = begin + text + end
    return texts


def _kept(
    headers: Sequence[Rendered], source: str, options: Sequence[str]
) -> list[tuple[list[Part | Group], AbstractSet[Part] | None]]:
    """The parts of each header, and those that a source reaches; None if it may reach all."""
    used = used_by(source, tuple(options))
    if used is None:
        return [(made.parts(), None) for made in headers]
    parts, live = reached([made.defs for made in headers], used)
    return [(own, live) for own in parts]


def _words_in(declared: object) -> set[str]:
    """The words of what an author declares on the host: expressions and types, which may use macros of the source."""
    if isinstance(declared, str):
        return set(words(declared))
    if isinstance(declared, Mapping):
        return _words_in([*declared.keys(), *declared.values()])
    if dataclasses.is_dataclass(declared) and not isinstance(declared, type):
        return _words_in([getattr(declared, field.name) for field in dataclasses.fields(declared)])
    if isinstance(declared, Iterable) and not isinstance(declared, bytes):
        return set().union(*map(_words_in, declared))
    return set()


def _as_file(
    made: Rendered,
    parts: Sequence[Part | Group] | None = None,
    live: AbstractSet[Part] | None = None,
    requires: Sequence[str] = (),
) -> str:
    """A header that no program is around: it includes what it requires, and inlines its functions where they must be."""
    before, after = _inlined(made.strategy)
    begin = "".join(f'#include "portbar/{name}.h"\n' for name in requires) + _UNIFORM_DEFINED
    return made.text(made.parts() if parts is None else parts, live, begin + before, after)


def known_includes(source: str, name: str) -> list[Include]:
    """Each include of a portbar header in a source of that name in messages; raises RenderError where there is none."""
    found = list(includes(source))
    for include in found:
        try:
            _header(include.name, {})
        except RenderError as error:
            raise RenderError(f"{Places(source, name).shown(include.line)}: {error}") from None
    return found


def _pruned_includes(
    names: Sequence[str],
    strategy: Strategy,
    source: str,
    options: Sequence[str],
    use: Use | None,
    scans: tuple[scan.DeviceScan, ...],
    *,
    is_exported: bool,
) -> list[str]:
    """Texts of headers, each with those that it requires before it, without what `source` cannot reach."""
    layout = layout_of(HEADERS if is_exported else names, use)
    included = [
        [_rendered(header, strategy, layout) for header in _with_required([name], _contents(use, scans))]
        for name in names
    ]
    kept = iter(_kept([made for headers in included for made in headers], source, options))
    found: list[str] = []
    for headers in included:
        texts = [(made, *next(kept)) for made in headers]
        found.append(
            "".join(
                made.text(parts, live)
                for made, parts, live in texts
                if made is headers[-1] or live is None or not live.isdisjoint(parts_in(parts))
            )
        )
    return found


def _header(name: str, contents: Mapping[str, Any]) -> Header:
    """The header of a name, with or without folder and ending; raises RenderError where there is none."""
    key = _key(name)
    if key in HEADERS.checks:
        return HEADERS.checks[key]
    if key not in HEADERS:
        near = [name for name in HEADERS if key and key in name] or difflib.get_close_matches(key, HEADERS, n=1)
        hint = f"; did you mean portbar/{near[0]}.h?" if near else "."
        if key == HOST_HEADER:
            hint = " for kernels: it is for C and C++ hosts."
        raise RenderError(
            f"there is no header {name!r}{hint} Headers: " + ", ".join(f"portbar/{header}.h" for header in HEADERS)
        )
    return HEADERS[key].with_content(contents.get(key))


@dataclass(frozen=True)
class _ForReader:
    """A program's headers as its reader gets them: their names and declarations, the macros that they define, and `wide`,
    whether functions of a sub-group are barriers of the work-group.
    """

    names: tuple[str, ...]
    declared: Mapping[str, str]
    defined: tuple[str, ...]
    wide: bool


def _for_reader(
    source: str, strategy: Strategy, name: str, use: Use | None, scans: tuple[scan.DeviceScan, ...]
) -> _ForReader:
    names = tuple(include.name for include in known_includes(source, name))
    return _ForReader(
        names,
        declarations(use.loops if use is not None else (), scans),
        feature_macros(strategy, names, single=use is not None and use.single),
        strategy.reduction.value == "tree",
    )


def with_checks(
    source: str,
    strategy: Strategy,
    *,
    name: str = "program.cl",
    use: Use | None = None,
    options: Sequence[str] = (),
    scans: tuple[scan.DeviceScan, ...] = (),
) -> Checked | Unread:
    """`source` with checks of the conditions on which calls depend that many must make, or why it has none.

    `portbar.primitives.agreement.register` lets faults name these. The parameters are those of `resolve_includes`.
    """
    read = _for_reader(source, strategy, name, use, scans)
    has_grid = any(header.name == "device_barrier" for header in _with_required(read.names, _contents(use, scans)))
    header = agreement.GRID_HEADER if has_grid else agreement.HEADER
    return checked(name, source, read.declared, options, defined=read.defined, header=header.name, wide=read.wide)


def _in_parts(
    source: str,
    strategy: Strategy,
    name: str,
    use: Use | None,
    options: Sequence[str],
    scans: tuple[scan.DeviceScan, ...],
    target: Target,
) -> str:
    """`source` in a form that compilers take rightly which make one loop over work-items of each part between two barriers."""
    work = work_of_all()
    if work in source:
        # Text that portbar has rendered is in that form.
        return source
    read = _for_reader(source, strategy, name, use, scans)
    try:
        formed = in_normal_form(
            name,
            source,
            read.declared,
            options,
            barrier=_BARRIER,
            work=work,
            wide=read.wide,
            extensions=target.extensions,
            defined=read.defined,
        )
    except UnformedError as error:
        place = Places(source, name).shown(error.line) if error.line else name
        raise UnwrittenError(
            f"{place}: the compiler of {target.device} needs barriers before and after each branch and loop that has one, and "
            f"portbar cannot add them to {error}. {error.remedy}"
        ) from None
    return source if formed is None else formed


def resolve_includes(
    source: str,
    strategy: Strategy,
    *,
    name: str = "program.cl",
    use: Use | None = None,
    options: Sequence[str] = (),
    scans: tuple[scan.DeviceScan, ...] = (),
    target: Target = _ANY_TARGET,
    as_it_is: bool = False,
    is_exported: bool = False,
    is_own: bool = False,
) -> str:
    """`source` with every `#include "portbar/..."` replaced by what it uses of that header; `options` may use something, too.

    `#line` directives keep the author's line numbers, so that a driver's message about line 12 means the author's line 12.
    `RenderError` if an include names a header that does not exist; `UnwrittenError` if the device's compiler would take the
    program wrongly and portbar cannot write it otherwise, which is not tried where it is to stay `as_it_is`. Both messages
    give the author's line. In an exported text, words of the state lie where `pruned_folder` has them. In a text of portbar's
    own, functions are inlined where they must be even if it includes no header.
    """
    if strategy.has(quirks.JOINS_LOST) and not as_it_is:
        source = _in_parts(source, strategy, name, use, options, scans, target)
    places = Places(source, name)
    names = defined_names(source, options) - _words_in(use) - _words_in(scans)
    found = known_includes(source, name)
    begin, ending = _inlined(strategy) if found or is_own else ("", "")
    if _UNIFORM in words(source):
        begin = _UNIFORM_DEFINED + begin
    pieces = [(0, 0, begin)]
    wanted = [include.name for include in found]
    texts = _pruned_includes(wanted, strategy, source, options, use, scans, is_exported=is_exported)
    for include, text in zip(found, texts, strict=True):
        before, after = apart(text, names)
        pieces.append((include.start, include.end, f'{before}#line 1 "{include.name}"\n{text}{after}'))
    # A compiler ignores the directives of headers that it skips.
    pieces += [(position, position, "") for position in ends_of_skipped(source)]
    parts: list[str] = []
    done = 0
    for start, end, text in sorted(pieces):
        before = source[done:start]
        if before.rpartition("\n")[2].strip():
            before += "\n"
        parts += [before, text, places.directive(line_of(source, end))]
        done = end
    parts += [source[done:], ending]
    return "".join(parts)
