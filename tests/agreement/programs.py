"""Programs whose conditions come from memory, with the calls that depend on them: right where all values are the same.

Each body is for a kernel with barriers of a work-group, and for one with barriers of the grid: `MEET` adds to `v` what the next
work-item, of the work-group or of the grid, has stored before it. `/* by */` marks the line of the condition that differs
where a work-item, or a work-group, has another value in `a`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class Body:
    """A body, and how often it meets where all values of `a` are one."""

    title: str
    text: str
    meets: Callable[[int], int]
    #: Text before the kernels, where `TYPES`, `NAMES` and `MEET` stand for what a function needs to meet.
    before: str = ""


BODIES: Final = (
    Body("an if", "if (a[i] > 1u) { /* by */\nMEET\n}", lambda c: int(c > 1)),
    Body("an else", "if (a[i] > 1u) /* by */\nv += 0u;\nelse {\nMEET\n}", lambda c: int(c <= 1)),
    Body("a while", "uint s = 0u;\nwhile (s < a[i]) { /* by */\nMEET ++s;\n}", lambda c: c),
    Body("a for", "for (uint s = 0u; s < a[i]; ++s) { /* by */\nMEET\n}", lambda c: c),
    Body("a do", "uint s = 0u;\ndo {\nMEET\n++s;\n} while (s < a[i]); /* by */", lambda c: max(c, 1)),
    Body("an early return", "if (a[i] > 1u) { /* by */\nSAVE return; }\nMEET", lambda c: int(c <= 1)),
    Body("a break", "for (uint s = 0u; s < 3u; ++s) {\nif (a[i] == s) /* by */\nbreak;\nMEET\n}", lambda c: c),
    Body("a break of an endless loop", "for (uint s = 0u; ; ++s) {\nif (a[i] == s) /* by */\nbreak;\nMEET\n}", lambda c: c),
    Body("a continue", "for (uint s = 0u; s < 3u; ++s) {\nif (a[i] != s) /* by */\ncontinue;\nMEET\n}", lambda c: int(c < 3)),
    Body(
        "a switch",
        "switch (a[i]) { /* by */\ncase 0u: MEET break;\ncase 1u: v += 0u; break;\ndefault: MEET MEET\n}",
        lambda c: (1, 0, 2)[c],
    ),
    Body(
        "a break of a switch",
        "switch (n) {\ncase 77u: MEET break;\ncase 5u:\nif (a[i] > 1u) break; /* by */\nMEET\nbreak;\ndefault: MEET\n}",
        lambda c: int(c <= 1),
    ),
    Body("a conditional operator", "v += a[i] > 1u ? /* by */\nmeet(NAMES) : 0u;", lambda c: int(c > 1),
         "static uint meet(TYPES) {\nuint v = 0u;\nMEET\nreturn v;\n}"),
    Body("an operand", "if (a[i] > 1u && (v += meet(NAMES)) != 0u) /* by */\nv += 0u;", lambda c: int(c > 1),
         "static uint meet(TYPES) {\nuint v = 0u;\nMEET\nreturn v;\n}"),
    Body("a helper's condition", "v += meet(NAMES, a[i]);", lambda c: int(c > 1),
         "static uint meet(TYPES, uint go);\n"
         "static uint meet(TYPES, uint go) {\nuint v = 0u;\nif (go > 1u) { /* by */\nMEET\n}\nreturn v;\n}"),
    Body("a helper's return", "v += meet(NAMES, a[i]);", lambda c: int(c <= 1),
         "static uint meet(TYPES, uint go) {\nuint v = 0u;\nif (go > 1u) /* by */\nreturn 0u;\nMEET\nreturn v;\n}"),
    Body("a helper that decides", "if (wanted(a, i)) { /* by */\nMEET\n}", lambda c: int(c > 1),
         "static bool wanted(global const uint *a, uint i) { return a[i] > 1u; }"),
    Body("a return from a loop without barriers",
         "for (uint s = 0u; s < n; ++s) {\nif (a[i] == s + 1u) { /* by */\nSAVE return; }\n}\nMEET", lambda c: int(c == 0)),
    Body("a return from nested conditions",
         "if (a[i] > 0u) {\nif (a[i] > 1u) { /* by */\nSAVE return; }\nv += 0u;\n}\nMEET", lambda c: int(c <= 1)),
    Body("a helper's return from a loop without barriers", "v += meet(NAMES, a[i]);", lambda c: int(c == 0),
         "static uint meet(TYPES, uint go) {\nuint v = 0u;\nfor (uint s = 0u; s < 9u; ++s)\nif (go == s + 1u) /* by */\n"
         "return v;\nMEET\nreturn v;\n}"),
    Body("a condition in a condition", "if (n == 5u) {\nif (a[i] > 1u) { /* by */\nMEET\n}\nMEET\n}", lambda c: 1 + (c > 1)),
    Body("a macro", "WHEN(a[i] > 1u) /* by */", lambda c: int(c > 1), "#define WHEN(c) if (c) { MEET }"),
    Body("a goto", "if (a[i] > 1u) goto end; /* by */\nMEET\nend: ;", lambda c: int(c <= 1)),
    Body("a helper in a loop that ends by its results",
         "for (uint s = 0u; s < 2u;) {\nconst uint r = meet(NAMES, a[i]);\nif (PORTBAR_UNIFORM(r != 0u)) ++s;\nv += r;\n}",
         lambda c: 2 + 2 * (c > 1),
         "static uint meet(TYPES, uint go) {\nuint v = 0u;\nMEET\nif (go > 1u) { /* by */\nMEET\n}\nreturn v;\n}"),
)  # fmt: skip

_GROUP: Final = (
    "t[l] = i + 1u; barrier(CLK_LOCAL_MEM_FENCE); v += t[(l + 1u) % size]; barrier(CLK_LOCAL_MEM_FENCE);",
    "local uint *t, uint i, uint l, uint size",
    "t, i, l, size",
)
_GRID: Final = (
    "o[i] = i + 1u; portbar_device_barrier(grid); v += o[(i + 1u) % size]; portbar_device_barrier(grid);",
    "portbar_grid *grid, volatile global uint *o, uint i, uint size",
    "grid, o, i, size",
)


def plain(body: Body) -> str:
    """A program with a kernel `k` whose work-groups meet on their own, at most 64 work-items each."""
    head = f"{_filled(body.before, _GROUP)}\n" if body.before else ""
    return f"""{head}
kernel void k(global const uint *a, global uint *out, uint n)
{{
    local uint t[64];
    const uint l = get_local_id(0), size = get_local_size(0), i = get_global_id(0);
    uint v = 0u;
{_filled(body.text, _GROUP)}
    out[i] = v;
}}
"""


def grid(body: Body) -> str:
    """A program with a kernel `k` whose work-groups all meet."""
    return f"""#include "portbar/device_barrier.h"
{_filled(body.before, _GRID)}
kernel void k(PORTBAR_GRID_PARAM, global const uint *a, global uint *out, uint n, volatile global uint *o)
{{
    PORTBAR_ENTER(entered);
    portbar_grid *grid = &entered;
    const uint size = portbar_global_size(grid), i = portbar_global_id(grid);
    uint v = 0u;
{_filled(body.text, _GRID)}
    out[i] = v;
}}
"""


def _filled(text: str, meeting: tuple[str, str, str]) -> str:
    for word, filling in zip(("MEET", "TYPES", "NAMES"), meeting, strict=True):
        text = text.replace(word, filling)
    return text.replace("SAVE", "out[i] = v;")
