"""One lock-free word."""

from __future__ import annotations

from typing import Final

from portbar.primitives.grid import Discovery

_TEMPLATE: Final = "discovery/packed.mako"

VARIANT: Final = Discovery(
    "packed",
    0,
    "lock-free, one atomic per group; requires only 32-bit atomics",
    pieces=lambda _: [(_TEMPLATE, name) for name in ("await_count", "poll_heal", "discover")],
)
