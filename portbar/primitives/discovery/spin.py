"""The published protocol under a spin lock."""

from __future__ import annotations

from typing import Final

from portbar.primitives.grid import PUBLISHED_WORDS, Discovery

_TEMPLATE: Final = "discovery/spin.mako"

VARIANT: Final = Discovery(
    "spin",
    2,
    "the published protocol under a spin lock: unfair, two lock acquisitions per group",
    words=(PUBLISHED_WORDS, ("LOCK_HELD",)),
    pieces=lambda _: [(_TEMPLATE, "lock"), ("discovery/published.mako", "discover")],
)
