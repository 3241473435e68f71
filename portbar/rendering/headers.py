"""Turns a strategy into OpenCL C: the text of portbar's headers, and an author's source with its includes resolved.

Not for choosing the strategy (`portbar.choices.strategy`) nor for building the text (`portbar.launching.program`).
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from portbar._version import __version__
from portbar.choices.strategy import Strategy
from portbar.errors import RenderError, UnsupportedFeatureError
from portbar.primitives import layout, split_barrier
from portbar.primitives.reduction.use import Use
from portbar.rendering import reduction
from portbar.rendering.joins import with_joins
from portbar.text.pruning import pruned
from portbar.text.source import ends_of_skipped, includes, line_of
from portbar.text.templates import render_def

Piece = tuple[str, str]

#: Functions on 32-bit words that each atomics strategy defines.
WORDS: Final = (
    "word_load",
    "word_load_acquire",
    "word_store",
    "word_store_release",
    "word_add",
    "word_add_release",
    "word_or",
    "word_exchange",
    "word_compare_exchange",
)

#: Pieces that an algorithm needs beside the def `device_barrier` of its own template: before it, in order.
_BARRIER_PIECES: Final[dict[str, tuple[Piece, ...]]] = {
    "counter": (),
    "counter_backoff": (),
    "flag": (),
    "tree": (("device_barrier/tree.mako", "wait_root"),),
    "xf": (("device_barrier/xf.mako", "wait_stamp"),),
    "counters": (),
    "intel_device_barrier": (
        ("device_barrier/intel_device_barrier.mako", "declaration"),
        ("device_barrier/counter.mako", "device_barrier"),
    ),
}

#: The device barrier in two halves, whatever the algorithm.
_SPLIT_PIECES: Final = ("token_type", "arrive", "wait", "split_missing", "test_goes_on", "test_wait")

#: Algorithms whose barrier is another one's template with other parameters.
_BARRIER_TEMPLATE: Final = {"counter_backoff": "counter", "sharded": "counters", "replicated": "counters"}


def _barrier_template(strategy: Strategy) -> str:
    """Name of the template that has the barrier."""
    algorithm = strategy.device_barrier.value
    template = _BARRIER_TEMPLATE.get(algorithm, algorithm)
    # One counter, too, is written for registers there.
    return "counters" if template == "counter" and strategy.in_registers else template


def _counts_in_slots(strategy: Strategy) -> bool:
    """Whether barriers, or their split form at least, count in slots that are placed."""
    return strategy.in_registers or _barrier_template(strategy) == "counters"


def _device_barrier_pieces(strategy: Strategy) -> list[Piece]:
    template = _barrier_template(strategy)
    atomics = f"atomics/{strategy.atomics.value}.mako"
    discovery = "packed" if strategy.discovery.value == "packed" else "locked"
    pieces: list[Piece] = [("grid/constants.mako", "constants")]
    if strategy.atomics.value == "cl12":
        pieces.append((atomics, "word_fence"))
    pieces += [(atomics, name) for name in WORDS]
    pieces += [("grid/acquire.mako", "word_acquire"), ("grid/acquire.mako", "word_arrive")]
    if template == "tree" and strategy.release_flagged:
        pieces.append((atomics, "word_chain"))
    if strategy.in_registers:
        pieces.append((atomics, "local_pointer"))
    pieces.append(("grid/yield.mako", "yield_processor"))
    pieces += [
        ("grid/state.mako", name)
        for name in (
            "local_linear_id",
            "local_linear_size",
            "is_smaller",
            "is_leader",
            "state_prepare",
            "report_open",
            "report_count",
            "report_fault",
            "report_lost",
            "await_publication",
        )
    ]
    if discovery == "packed":
        pieces += [("discovery/packed.mako", "poll_heal"), ("discovery/packed.mako", "poll_close")]
    else:
        pieces += [("discovery/locked.mako", "lock_acquire"), ("discovery/locked.mako", "lock_release")]
    pieces += [(f"discovery/{discovery}.mako", "discover")]
    if strategy.device_barrier.value == "replicated":
        pieces.append(("grid/acquire.mako", "word_arrive_twice"))
    if _counts_in_slots(strategy):
        pieces.append(("device_barrier/wait.mako", "hold"))
        pieces += [("grid/place.mako", name) for name in ("place_meet", "place")]
    pieces += [("grid/grid.mako", name) for name in ("grid_type", "enter", "ids", "ok")]
    pieces += [("device_barrier/wait.mako", "draining"), ("grid/grid.mako", "atomic_waits")]
    pieces += [
        ("device_barrier/wait.mako", name) for name in ("relax", "rest", "check_arrival", "wait_word", "wait_counted")
    ]
    if _counts_in_slots(strategy):
        pieces += [
            ("device_barrier/counters.mako", name)
            for name in (
                "shard_members",
                "unknown",
                "counters_of",
                "arrive_counters",
                "missing",
                "wait_longer",
                "wait_counters",
                "acquire_counters",
            )
        ]
    pieces += _BARRIER_PIECES[template]
    pieces.append((f"device_barrier/{template}.mako", "device_barrier"))
    pieces += [("device_barrier/split.mako", name) for name in _SPLIT_PIECES]
    return pieces


def _device_barrier_context(strategy: Strategy) -> dict[str, Any]:
    # Where a tree pays, the split form has as many arrivals to count.
    many = {"sharded", "replicated", "tree"} if strategy.in_registers else {"sharded", "replicated"}
    shards = layout.SHARDS if strategy.device_barrier.value in many else 1
    leader = "grid->item == 0u" if strategy.ids_lost else "portbar_is_leader()"
    sound_leader = f"{leader} && grid->shared[PORTBAR_SHARED_OK] != 0u"
    return {
        "layout": layout.OFFSETS,
        "line_words": layout.LINE_WORDS,
        "reports": layout.REPORTS,
        "report_words": layout.REPORT_WORDS,
        "tree_fan": layout.TREE_FAN,
        "shards": shards,
        "replicated": strategy.device_barrier.value == "replicated",
        "slots": layout.SLOTS,
        "slot_words": layout.SLOT_WORDS,
        "counts_in_slots": _counts_in_slots(strategy),
        "placing": strategy.placing,
        "release_flags": layout.RELEASE_FLAGS,
        "release_flagged": strategy.release_flagged,
        "in_registers": strategy.in_registers,
        # Where barriers are tuned to the nanosecond, only counts that are far off are noticed, by the polls.
        "checks_arrivals": not strategy.in_registers,
        "leader_forgotten": strategy.leader_forgotten,
        "ids_lost": strategy.ids_lost,
        # Whether the caller talks to the other groups: in any launch; in one that is not draining; the same as known from a
        # register, where there is one. Then its number in its group.
        "leader": leader,
        "sound_leader": sound_leader,
        "leads": "grid->leads != 0u" if strategy.in_registers else sound_leader,
        "item": "grid->item" if strategy.ids_lost else "portbar_local_linear_id()",
        "one_way_fences": strategy.one_way_fences,
        "hold_table": strategy.hold,
        "first_poll": strategy.first_poll,
        "rest_ns": strategy.rest_ns,
        "polls_per_round": layout.POLLS_PER_ROUND,
        "tests_in_round": 1 if strategy.tests_are_rounds else layout.POLLS_PER_ROUND,
        "status_open": layout.STATUS_OPEN,
        "status_timeout": layout.STATUS_TIMEOUT,
        "status_lost": layout.STATUS_LOST,
        "status_wait": layout.STATUS_WAIT,
        "status_overwritten": layout.STATUS_OVERWRITTEN,
        "barrier": strategy.device_barrier.value,
        "lock": strategy.discovery.value,
        "pause": strategy.relax,
        "polls_in_wait": {"x86_pause": 1, "nanosleep": 8}.get(strategy.relax, layout.POLLS_PER_ROUND),
        "yield_by": strategy.yield_by,
        "acquire_polls": strategy.acquire_polls,
        "sleep_above": strategy.sleep_above,
        "sleep_divisor": strategy.sleep_divisor,
        "sleep_ns": strategy.sleep_ns,
        "counted": strategy.device_barrier.value == "intel_device_barrier",
    }


#: What is above infinity, and so no number, in the bits of each float type, its sign shifted out.
_INFINITIES: Final = {
    "half": ("ushort", "0xf800"),
    "float": ("uint", "0xff000000u"),
    "double": ("ulong", "0xffe0000000000000ul"),
}


def _atomics_pieces(strategy: Strategy) -> list[Piece]:
    common, own = "atomics/common.mako", f"atomics/{strategy.atomics.value}.mako"
    yields: list[Piece] = [("grid/yield.mako", "yield_processor")] if strategy.asm_anywhere else []
    return [
        *yields,
        *((common, name) for name in ("names", "rules", "helpers")),
        (own, "raw_operations"),
        *((common, name) for name in ("operations", "refusals", "short_forms")),
    ]


def _atomics_context(strategy: Strategy) -> dict[str, Any]:
    table = strategy.atomics_table
    by_ptx = strategy.atomics.value in {"ptx", "membar"}
    return {
        "yield_by": strategy.yield_by,
        "types": table.offered(),
        "words": ("uint", "ulong") if "ulong" in table.types else ("uint",),
        "spaces": table.spaces,
        "scopes": table.scopes,
        "refused": {name: why.replace('"', "'") for name, why in table.refused.items()},
        "withheld": [(kind, why.replace('"', "'")) for kind, why in table.withheld()],
        "native_add": sorted(table.native_add),
        "floats": dict(bits for name, bits in _INFINITIES.items() if name in table.types),
        "fences_are_barriers": strategy.fences_are_barriers,
        "small_by_12": strategy.small_by_12,
        "small_word": "portbar_small_word" if strategy.small_by_12 else "portbar_raw",
        "pause": strategy.pause if strategy.asm_anywhere else "none",
        "yields": strategy.asm_anywhere,
        "small_access": by_ptx,
        "wraps": by_ptx,
        "wait_polls": strategy.wait_polls,
        "wait_fault": reduction.FAULTS["wait"],
    }


def _lock_pieces(strategy: Strategy) -> list[Piece]:
    if strategy.max_groups is not None:
        raise UnsupportedFeatureError(
            f"portbar/lock.h makes work-groups wait for each other, which cannot be right here: {strategy.max_groups_reason}; "
            "use another device, or atomics that nobody waits for"
        )
    return [("lock/lock.mako", name) for name in ("types", "spin_lock", "ticket_lock")]


def _lock_context(strategy: Strategy) -> dict[str, Any]:
    return {"wait_polls": strategy.wait_polls}


def _split_barrier_pieces(strategy: Strategy) -> list[Piece]:
    own = f"split_barrier/{strategy.split_barrier.value}.mako"
    common, software = "split_barrier/common.mako", "split_barrier/software.mako"
    if strategy.split_barrier.value == "mbarrier":
        made = [(own, name) for name in ("object", "arrivals", "waits")]
    else:
        made = [
            (software, "object"),
            (software, "counting"),
            (software, "arrivals"),
            (own, "waits"),
        ]
    return [(common, "macros"), *made, (common, "derived"), (common, "copies")]


def _split_barrier_context(strategy: Strategy) -> dict[str, Any]:
    choice = strategy.split_barrier.value
    # Fences of a runtime that makes barriers of them must not stand where only one work-item comes.
    group_wide = choice == "uniform" and strategy.fences_are_barriers
    return {
        "features": strategy.split_features,
        # Copies that run on their own can arrive on a barrier of the hardware only.
        "hardware_copies": choice == "mbarrier",
        "faults": {name: number for name, (number, _) in split_barrier.FAULTS.items()},
        "fault_words": split_barrier.FAULTS,
        # A poll by mbarrier.try_wait may sleep; before compute capability 9.0 there is none.
        "polls": min(strategy.wait_polls, 1 << 18)
        if choice == "mbarrier" and strategy.compute_capability >= 90
        else strategy.wait_polls,
        "most": split_barrier.MAX_COUNT,
        "counted": strategy.split_counted or strategy.debug or choice == "counter",
        "fenced": not group_wide,
        "debug": strategy.debug,
        "prints": strategy.debug and strategy.prints,
        "sm": strategy.compute_capability,
    }


@dataclass(frozen=True)
class _Header:
    """What a header is made of and the names that its templates may use; `requires` are headers that come before it."""

    pieces: Callable[[Strategy], list[Piece]]
    context: Callable[[Strategy], dict[str, Any]]
    summary: str
    requires: tuple[str, ...] = ()


def _reduction_header(use: Use) -> _Header:
    """The header with what a program uses of it."""
    return _Header(
        lambda _: reduction.pieces(use),
        lambda strategy: reduction.context(strategy, use),
        "Reductions, scans and broadcasts over sub-groups, work-groups and grids.",
        ("atomics",),
    )


#: Every header. A new primitive adds one entry.
_HEADERS: Final[Mapping[str, _Header]] = {
    "atomics": _Header(_atomics_pieces, _atomics_context, "Atomics whose memory order and scope hold on every device."),
    "device_barrier": _Header(
        _device_barrier_pieces, _device_barrier_context, "A barrier between the work-groups of a running kernel."
    ),
    "lock": _Header(_lock_pieces, _lock_context, "Locks between work-groups, every wait bounded.", ("atomics",)),
    "split_barrier": _Header(
        _split_barrier_pieces,
        _split_barrier_context,
        "A barrier of a work-group whose arrive and wait are apart.",
        ("atomics",),
    ),
    "reduction": _reduction_header(Use()),
}

#: The header for C hosts, which no kernel includes: `portbar.rendering.export` renders it.
HOST_HEADER: Final = "host"

#: Headers that need memory order within a work-group only, and refuse what goes further where it is used.
_LOCAL_HEADERS: Final = frozenset({"atomics", "split_barrier", "reduction"})


def needed_ordering(headers: Iterable[str]) -> str:
    """How far memory order must hold for these headers to work at all: `device` or `work_group`."""
    names = {name.removeprefix("portbar/").removesuffix(".h") for name in headers}
    return "work_group" if names and names <= _LOCAL_HEADERS else "device"


def header_names() -> tuple[str, ...]:
    """Names of the headers that exist, as in `#include "portbar/NAME.h"`."""
    return tuple(_HEADERS)


#: Clang's -Wall names each function of the main text that is not called. All compilers of OpenCL C met so far are Clang's.
_UNUSED_BEGIN: Final = """\
/* A program calls only some of these functions. */
#ifdef __clang__
#pragma clang diagnostic push
#pragma clang diagnostic ignored "-Wunused-function"
#endif
"""
_UNUSED_END: Final = """\
#ifdef __clang__
#pragma clang diagnostic pop
#endif"""


def _header_text(name: str, strategy: Strategy, use: Use | None = None, *, embeds: bool = True) -> str:
    header = _header(name, use)
    context = header.context(strategy)
    guard = f"PORTBAR_{name.upper()}_H"
    parts = [
        f"/* portbar/{name}.h: {header.summary}",
        f"   Rendered by portbar {__version__} for: {strategy.summary()}.",
        f"   Build options: {f'-cl-std={strategy.std}' if strategy.std else 'none needed'}. */",
        f"#ifndef {guard}",
        f"#define {guard}",
        f"#define PORTBAR_{name.upper()} 1",
        "",
        _UNUSED_BEGIN,
        *(_header_text(required, strategy) for required in header.requires if embeds),
    ]
    for template, def_name in header.pieces(strategy):
        parts.append(render_def(template, def_name, context))
    parts += [_UNUSED_END, f"#endif /* {guard} */"]
    return "\n".join(parts) + "\n"


def _header(name: str, use: Use | None) -> _Header:
    return _reduction_header(use) if name == "reduction" and use is not None else _HEADERS[name]


def render_header(name: str, strategy: Strategy, use: Use | None = None) -> str:
    """Text of `portbar/NAME.h` for one strategy; of reductions only what a program uses, if `use` says so.

    Raises
    ------
    RenderError
        There is no such header; the message names those that there are.
    UnsupportedFeatureError
        The device cannot do what the header is for.
    """
    return _header_text(_key(name), strategy, use)


def pruned_headers(
    names: Sequence[str], strategy: Strategy, source: str, *, options: Sequence[str] = (), use: Use | None = None
) -> list[str]:
    """Texts of headers, each with those that it requires before it, without what `source` cannot reach.

    Raises
    ------
    RenderError, UnsupportedFeatureError
        As `render_header`.
    """
    keys = [_key(name) for name in names]
    parts = [(*_header(key, use).requires, key) for key in keys]
    texts = iter(
        pruned([_header_text(part, strategy, use, embeds=False) for made in parts for part in made], source, options)
    )
    return ["".join(next(texts) for _ in made) for made in parts]


def _key(name: str) -> str:
    """The name of a header without folder and ending.

    Raises
    ------
    RenderError
        There is no such header.
    """
    key = name.removeprefix("portbar/").removesuffix(".h")
    if key not in _HEADERS:
        near = difflib.get_close_matches(key, _HEADERS, n=1)
        hint = f"; did you mean portbar/{near[0]}.h?" if near else "."
        if key == HOST_HEADER:
            hint = " for kernels: it is for C and C++ hosts."
        raise RenderError(
            f"there is no header {name!r}{hint} Headers: " + ", ".join(f"portbar/{header}.h" for header in _HEADERS)
        )
    return key


def resolve_includes(
    source: str,
    strategy: Strategy,
    *,
    name: str = "program.cl",
    use: Use | None = None,
    options: Sequence[str] = (),
) -> str:
    """`source` with every `#include "portbar/..."` replaced by what it uses of that header; `options` may use something, too.

    `#line` directives keep the author's line numbers, so that a driver's message about line 12 means the author's line 12.
    Includes of other files are left for the driver and its `-I` options.

    Raises
    ------
    RenderError
        An include names a header that does not exist; the message gives the author's line.
    """
    if strategy.joins_lost:
        source = with_joins(source)
    quoted = name.replace("\\", "/").replace('"', "'").replace("\n", " ")
    pieces = [(0, 0, "")]
    found = list(includes(source))
    for include in found:
        try:
            _key(include.name)
        except RenderError as error:
            raise RenderError(f"{name}, line {include.line}: {error}") from None
    texts = pruned_headers([include.name for include in found], strategy, source, options=options, use=use)
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
    parts.append(source[done:])
    return "".join(parts)
