"""Locks between work-groups, every wait bounded."""

from __future__ import annotations

from typing import Any, Final

from portbar.errors import UnsupportedFeatureError
from portbar.primitives.lock.declared import DECLARED
from portbar.primitives.pieces import Header, Piece
from portbar.primitives.strategy import Strategy


def _pieces(strategy: Strategy) -> list[Piece]:
    if strategy.max_groups is not None:
        raise UnsupportedFeatureError(
            f"portbar/lock.h makes work-groups wait for each other, which this device does not support: "
            f"{strategy.max_groups_reason}; use another device, or atomics without waits"
        )
    return [("lock/lock.mako", name) for name in ("types", "spin_lock", "ticket_lock")]


def _context(strategy: Strategy) -> dict[str, Any]:
    def poll(member: str) -> str:
        if strategy.capabilities.volatile_polls:
            return f"lock->{member}"
        return f"portbar_atomic_load_explicit(&lock->{member}, memory_order_relaxed, memory_scope_device)"

    return {"wait_polls": strategy.capabilities.wait_polls, "rolled": strategy.backend.rolled, "poll": poll}


HEADER: Final = Header(
    "lock",
    "Locks between work-groups, every wait bounded.",
    _pieces,
    _context,
    ("atomics",),
    page="locks.md",
    declared=DECLARED,
)
