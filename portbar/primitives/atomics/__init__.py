"""Atomics whose memory order and scope hold on every device: the header, whatever the strategy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from portbar.device import quirks
from portbar.primitives import layout
from portbar.primitives.header import Header, Piece

if TYPE_CHECKING:
    from portbar.primitives.strategy import Strategy


#: What is above infinity, and so no number, in the bits of each float type, its sign shifted out.
_INFINITIES: Final = {
    "half": ("ushort", "0xf800"),
    "float": ("uint", "0xff000000u"),
    "double": ("ulong", "0xffe0000000000000ul"),
}


def _pieces(strategy: Strategy) -> list[Piece]:
    common, own = "atomics/common.mako", f"backend/{strategy.atomics.value}/atomics.mako"
    yields: list[Piece] = [("grid/yield.mako", "yield_processor")] if strategy.capabilities.asm_anywhere else []
    return [
        *yields,
        *((common, name) for name in ("names", "rules", "helpers")),
        (own, "raw_operations"),
        *((common, name) for name in ("operations", "refusals", "short_forms")),
    ]


def _context(strategy: Strategy) -> dict[str, Any]:
    table = strategy.capabilities.atomics_table
    small_by_12 = strategy.atomics.value == "c11" and strategy.has(quirks.LOCAL_ATOMICS_LOSE_STORES)
    by_ptx = strategy.atomics.value in {"ptx", "membar"}
    return {
        "yield_by": strategy.capabilities.yield_by,
        "types": table.offered(),
        "words": ("uint", "ulong") if "ulong" in table.types else ("uint",),
        "spaces": table.spaces,
        "scopes": table.scopes,
        "refused": {name: why.replace('"', "'") for name, why in table.refused.items()},
        "withheld": [(kind, why.replace('"', "'")) for kind, why in table.withheld()],
        "native_add": sorted(table.native_add),
        "floats": dict(bits for name, bits in _INFINITIES.items() if name in table.types),
        "fences_are_barriers": strategy.has(quirks.FENCES_ARE_BARRIERS),
        "small_by_12": small_by_12,
        "small_word": "portbar_small_word" if small_by_12 else "portbar_raw",
        "pause": strategy.capabilities.pause if strategy.capabilities.asm_anywhere else "none",
        "yields": strategy.capabilities.asm_anywhere,
        "small_access": by_ptx,
        "wraps": by_ptx,
        "wait_polls": strategy.capabilities.wait_polls,
        "wait_fault": layout.FAULTS["wait"],
    }


HEADER: Final = Header(
    "atomics", "Atomics whose memory order and scope hold on every device.", _pieces, _context, is_local=True
)
