"""Turns a strategy into OpenCL C: the text of portbar's headers, and an author's source with its includes resolved.

Not for choosing the strategy (`portbar.strategy`) nor for building the text (`portbar.program`).
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from typing import Any, Final

from portbar import layout
from portbar._version import __version__
from portbar.errors import RenderError
from portbar.source import includes
from portbar.strategy import Strategy
from portbar.templates import render_def

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
    "intel_device_barrier": (
        ("device_barrier/intel_device_barrier.mako", "declaration"),
        ("device_barrier/counter.mako", "device_barrier"),
    ),
}

#: Algorithms whose barrier is another one's template with other parameters.
_BARRIER_TEMPLATE: Final = {"counter_backoff": "counter"}


def _device_barrier_pieces(strategy: Strategy) -> list[Piece]:
    algorithm = strategy.device_barrier.value
    atomics = f"atomics/{strategy.atomics.value}.mako"
    discovery = "packed" if strategy.discovery.value == "packed" else "locked"
    pieces: list[Piece] = [("grid/constants.mako", "constants")]
    if strategy.atomics.value == "cl12":
        pieces.append((atomics, "word_fence"))
    pieces += [(atomics, name) for name in WORDS]
    pieces.append(("grid/yield.mako", "yield_processor"))
    pieces += [
        ("grid/state.mako", name)
        for name in (
            "local_linear_id",
            "local_linear_size",
            "is_leader",
            "state_prepare",
            "report_open",
            "report_count",
            "report_fault",
            "await_publication",
        )
    ]
    if discovery == "packed":
        pieces += [("discovery/packed.mako", "poll_heal"), ("discovery/packed.mako", "poll_close")]
    else:
        pieces += [("discovery/locked.mako", "lock_acquire"), ("discovery/locked.mako", "lock_release")]
    pieces += [(f"discovery/{discovery}.mako", "discover")]
    pieces += [("grid/grid.mako", name) for name in ("grid_type", "enter", "ids")]
    pieces += [("device_barrier/wait.mako", name) for name in ("relax", "wait_word", "wait_counted")]
    pieces += _BARRIER_PIECES[algorithm]
    template = _BARRIER_TEMPLATE.get(algorithm, algorithm)
    pieces.append((f"device_barrier/{template}.mako", "device_barrier"))
    pieces += [("device_barrier/split.mako", name) for name in ("token_type", "arrive", "wait", "test_wait")]
    return pieces


def _device_barrier_context(strategy: Strategy) -> dict[str, Any]:
    return {
        "layout": layout.OFFSETS,
        "line_words": layout.LINE_WORDS,
        "reports": layout.REPORTS,
        "report_words": layout.REPORT_WORDS,
        "tree_fan": layout.TREE_FAN,
        "polls_per_round": layout.POLLS_PER_ROUND,
        "status_open": layout.STATUS_OPEN,
        "status_timeout": layout.STATUS_TIMEOUT,
        "status_lost": layout.STATUS_LOST,
        "barrier": strategy.device_barrier.value,
        "lock": strategy.discovery.value,
        "pause": strategy.relax,
        "polls_in_wait": {"x86_pause": 1, "nanosleep": 8}.get(strategy.relax, layout.POLLS_PER_ROUND),
        "yield_by": strategy.yield_by,
        "acquire_polls": strategy.acquire_polls,
        "sleep_above": strategy.sleep_above,
        "sleep_ns": strategy.sleep_ns,
        "counted": strategy.device_barrier.value == "intel_device_barrier",
    }


#: Each header -> what it is made of and the names that its templates may use. A new primitive adds one entry.
_HEADERS: Final[Mapping[str, tuple[Callable[[Strategy], list[Piece]], Callable[[Strategy], dict[str, Any]], str]]] = {
    "device_barrier": (
        _device_barrier_pieces,
        _device_barrier_context,
        "A barrier between the work-groups of a running kernel.",
    ),
}


def header_names() -> tuple[str, ...]:
    """Names of the headers that exist, as in `#include "portbar/NAME.h"`."""
    return tuple(_HEADERS)


def _header_text(name: str, strategy: Strategy) -> str:
    pieces_of, context_of, summary = _HEADERS[name]
    context = context_of(strategy)
    guard = f"PORTBAR_{name.upper()}_H"
    parts = [
        f"/* portbar/{name}.h: {summary}",
        f"   Rendered by portbar {__version__} for: {strategy.summary()}.",
        f"   Build options: {f'-cl-std={strategy.std}' if strategy.std else 'none needed'}. */",
        f"#ifndef {guard}",
        f"#define {guard}",
        f"#define PORTBAR_{name.upper()} 1",
        "",
    ]
    for template, def_name in pieces_of(strategy):
        parts.append(render_def(template, def_name, context))
    parts.append(f"#endif /* {guard} */")
    return "\n".join(parts) + "\n"


def render_header(name: str, strategy: Strategy) -> str:
    """Text of `portbar/NAME.h` for one strategy.

    Raises
    ------
    RenderError
        There is no such header; the message names those that there are.
    """
    key = name.removeprefix("portbar/").removesuffix(".h")
    if key not in _HEADERS:
        near = difflib.get_close_matches(key, _HEADERS, n=1)
        hint = f"; did you mean portbar/{near[0]}.h?" if near else ""
        raise RenderError(
            f"there is no header {name!r}{hint} Headers: " + ", ".join(f"portbar/{header}.h" for header in _HEADERS)
        )
    return _header_text(key, strategy)


def resolve_includes(source: str, strategy: Strategy, *, name: str = "program.cl") -> str:
    """`source` with every `#include "portbar/..."` replaced by that header's text.

    `#line` directives keep the author's line numbers, so that a driver's message about line 12 means the author's line 12.
    Includes of other files are left for the driver and its `-I` options.

    Raises
    ------
    RenderError
        An include names a header that does not exist; the message gives the author's line.
    """
    quoted = name.replace("\\", "/").replace('"', "'").replace("\n", " ")
    parts = [f'#line 1 "{quoted}"\n']
    done = 0
    for include in includes(source):
        try:
            text = render_header(include.name, strategy)
        except RenderError as error:
            raise RenderError(f"{name}, line {include.line}: {error}") from None
        parts += [
            source[done : include.start],
            f'#line 1 "{include.name}"\n',
            text,
            f'#line {include.line + 1} "{quoted}"',
        ]
        done = include.end
    parts.append(source[done:])
    return "".join(parts)
