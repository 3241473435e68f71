"""Breaks the atomics of rendered text on purpose, for the tests that show that litmus tests can fail."""

from __future__ import annotations

import re
from typing import Final

#: Broken part -> macros for the order (of a store, too) and the scope that the raw operations get.
_BROKEN: Final = {
    "no_release": (
        "((o) == memory_order_relaxed || (o) == memory_order_release ? memory_order_relaxed : memory_order_acquire)",
        "memory_order_relaxed",
        "(s)",
    ),
    "work_group_fence": ("(o)", "(o)", "memory_scope_work_group"),
    "relaxed_seq_cst": (
        "((o) == memory_order_seq_cst ? memory_order_relaxed : (o))",
        "((o) == memory_order_seq_cst ? memory_order_relaxed : (o))",
        "(s)",
    ),
}

WAYS: Final = tuple(_BROKEN)

#: Raw operations that public functions call -> parameters.
RAW: Final = {
    "load": "p, o, s",
    "store": "p, v, o, s",
    "compare_exchange": "p, e, v, o, f, s",
    "fence": "p, o, s",
    **dict.fromkeys(("exchange", "add", "and", "or", "xor", "min", "max", "inc", "dec"), "p, v, o, s"),
}

#: The first public function.
_PUBLIC: Final = re.compile(r"^PORTBAR_ATOMIC ", re.MULTILINE)


def weaken(text: str, how: str) -> str:
    """Let the public functions of portbar/atomics.h in `text` hand weaker orders or scopes to the raw operations."""
    order, store, scope = _BROKEN[how]
    lines = [
        f"#define PORTBAR_TEST_ORDER(o) {order}",
        f"#define PORTBAR_TEST_STORE_ORDER(o) {store}",
        f"#define PORTBAR_TEST_SCOPE(s) {scope}",
    ]
    for name, parameters in RAW.items():
        of = "PORTBAR_TEST_STORE_ORDER" if name == "store" else "PORTBAR_TEST_ORDER"
        given = (
            parameters.replace(" o,", f" {of}(o),").replace(" f,", f" {of}(f),").replace(" s", " PORTBAR_TEST_SCOPE(s)")
        )
        # A macro is not expanded within itself.
        lines.append(f"#define portbar_raw_{name}({parameters}) portbar_raw_{name}({given})")
    public = _PUBLIC.search(text)
    assert public is not None, "the text has no portbar/atomics.h"
    return text[: public.start()] + "\n".join(lines) + "\n" + text[public.start() :]


def public_part(text: str) -> str:
    """The text from the first public function on."""
    public = _PUBLIC.search(text)
    assert public is not None
    return text[public.start() :]
