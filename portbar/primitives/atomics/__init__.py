"""Atomics whose memory order and scope hold on every device: the header, whatever the strategy."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

from portbar.device import quirks
from portbar.primitives import layout
from portbar.primitives.atomics.declared import DECLARED
from portbar.primitives.pieces import Header, Piece

if TYPE_CHECKING:  # a package that it is made of imports this module
    from portbar.primitives.strategy import Strategy


#: The bits of infinity in each float type, with the sign shifted out: larger values are NaNs.
_INFINITIES: Final = {
    "half": ("ushort", "0xf800"),
    "float": ("uint", "0xff000000u"),
    "double": ("ulong", "0xffe0000000000000ul"),
}


#: Functions on 32-bit words of global memory: name after `portbar_word_` -> operation and order.
WORDS: Final[Mapping[str, tuple[str, str]]] = {
    "load": ("load", "relaxed"),
    "load_acquire": ("load", "acquire"),
    "store": ("store", "relaxed"),
    "store_release": ("store", "release"),
    "add": ("add", "acq_rel"),
    "add_release": ("add", "release"),
    "add_relaxed": ("add", "relaxed"),
    "or": ("or", "release"),
    "exchange": ("exchange", "acq_rel"),
    "compare_exchange": ("compare_exchange", "acq_rel"),
    "compare_exchange_relaxed": ("compare_exchange", "relaxed"),
}


def word_pieces(strategy: Strategy) -> list[Piece]:
    """The defs of the words that `word_context` names, with what they need."""
    return [*strategy.backend.words, ("atomics/words.mako", "words")]


def word_context(strategy: Strategy, words: Iterable[str] = WORDS) -> dict[str, Any]:
    """The names that the defs of `word_pieces` may use, for some of `WORDS`."""
    return {
        "backend": strategy.backend.template,
        "one_way_fences": strategy.capabilities.one_way_fences,
        "atomic_words": {name: WORDS[name] for name in words},
    }


def _pieces(strategy: Strategy) -> list[Piece]:
    common, backend = "atomics/common.mako", strategy.backend
    return [
        *([backend.yields] if backend.pauses_anywhere else []),
        *((common, name) for name in ("names", "rules", "helpers")),
        backend.lost_race,
        ("atomics/raw.mako", "raw_operations"),
        *backend.more_pieces,
        *((common, name) for name in ("operations", "refusals", "short_forms")),
    ]


def _context(strategy: Strategy) -> dict[str, Any]:
    table, backend = strategy.capabilities.atomics_table, strategy.backend
    return {
        **word_context(strategy),
        "types_offered": table.offered(),
        "folding": False,
        "words": ("uint", "ulong") if "ulong" in table.types else ("uint",),
        "spaces": table.spaces,
        "scopes": table.scopes,
        "refused": {name: why.replace('"', "'") for name, why in table.refused.items()},
        "withheld": [(kind, why.replace('"', "'")) for kind, why in table.withheld()],
        "native_add": sorted(table.native_add),
        "floats": dict(bits for name, bits in _INFINITIES.items() if name in table.types),
        "fences_are_barriers": strategy.has(quirks.FENCES_ARE_BARRIERS),
        "loops_fenced": backend.loops_fenced,
        "loads_write": backend.loads_write,
        "small_word": "portbar_raw",
        "yields": backend.pauses_anywhere,
        "small_access": backend.small_access,
        "wraps": backend.wraps,
        "acquire_polls": backend.acquire_polls,
        "rolled_polls": backend.units.unrolls_polls,
        "volatile_polls": strategy.capabilities.volatile_polls,
        "rolled": backend.rolled,
        "wait_polls": strategy.capabilities.wait_polls,
        "wait_fault": layout.FAULTS["wait"],
        **backend.context,
    }


HEADER: Final = Header(
    "atomics",
    "Atomics whose memory order and scope hold on every device.",
    _pieces,
    _context,
    is_local=True,
    page="atomics.md",
    declared=DECLARED,
)
