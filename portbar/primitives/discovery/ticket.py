"""The published protocol under a ticket lock."""

from __future__ import annotations

from typing import Final

from portbar.primitives.grid import PUBLISHED_WORDS, Discovery

_TEMPLATE: Final = "discovery/ticket.mako"

VARIANT: Final = Discovery(
    "ticket",
    1,
    "the published protocol under a ticket lock: fair, two lock acquisitions per group",
    words=(PUBLISHED_WORDS, ("LOCK_NEXT",), ("LOCK_SERVING",)),
    pieces=lambda _: [(_TEMPLATE, "lock"), ("discovery/published.mako", "discover")],
)
