"""Random programs whose calls all reach are not refused; with one call at a place that some miss, they are, there."""

from __future__ import annotations

import random

import pytest

from portbar.primitives.headers import declarations
from portbar.reading.reader import is_available, read

pytestmark = pytest.mark.skipif(not is_available(), reason="no libclang for this platform")

HELPERS = """\
#include "portbar/device_barrier.h"
#include "portbar/reduction.h"
#define GUARD(x, n) if ((x) < (n))
static void sync(void) { barrier(CLK_LOCAL_MEM_FENCE); }
static bool meet(private portbar_grid *g, bool vote) { return portbar_device_barrier_any(g, vote); }
static uint lane(uint width) { return get_local_id(0) % width; }
static uint rounded(uint n) { return (n + 63u) / 64u * 64u; }
static void work(global uint *a, uint i, uint n) { if (i >= n) return; a[i] += 1; }
"""
GRID_CALLS = (
    "if (!portbar_device_barrier(&grid)) return;",
    "go = portbar_device_barrier_any(&grid, lid == 3);",
    "go = meet(&grid, gid < n);",
    "s = portbar_device_reduce_add(&grid, scratch, s);",
)
GROUP_CALLS = (
    "barrier(CLK_LOCAL_MEM_FENCE);",
    "sync();",
    "q = portbar_work_group_reduce_max(scratch, s + lid);",
    "q = portbar_work_group_broadcast(scratch, lid, 0u);",
)
UNIFORM = (
    "n > 3u",
    "go",
    "a[0] > 2u",
    "s == 4u",
    "n % 2u == 0u && go",
    "a[gid] > 7u",
    "t < n",
    "PORTBAR_UNIFORM(gid < n)",
)
OF_GROUPS = ("portbar_group_id(&grid) == 0u", "first < n", "me != 1u", "get_group_id(0) > 2u")
OF_ITEMS = ("lid == 0u", "gid < n", "lane(8u) == 1u", "mine > 4u", "lid < n / 2u || gid == 3u", "!(lid & 1u)")
WORK = (
    "a[gid] = t;",
    "mine += lid;",
    "work(a, gid, n);",
    "atomic_add(a, lid);",
    "a[lid] += s;",
    "PORTBAR_FOR(i, &grid, n) { if (i == 7u) continue; a[i] += 1u; }",
    "for (uint i = lid; i < n; i += 8u) { a[i] = i; if (i == 9u) break; }",
    "while (mine > 9u) mine -= lid + 1u;",
)


class Program:
    """One random program. Places where a call would be missed by some get a number."""

    def __init__(self, seed: int, wrong: int | None) -> None:
        self.random = random.Random(seed)  # noqa: S311
        self.wrong = wrong
        self.places = 0
        self.lines = HELPERS.splitlines()
        self.line: int | None = None
        self.add(0, "kernel void k(PORTBAR_GRID_PARAM, global uint *a, uint n)")
        self.add(0, "{")
        self.add(1, "PORTBAR_ENTER(grid);")
        self.add(1, "PORTBAR_REDUCTION_SCRATCH(scratch);")
        self.add(1, "const uint lid = get_local_id(0), gid = portbar_global_id(&grid), me = portbar_group_id(&grid);")
        self.add(1, "const uint first = gid - portbar_local_linear_id();")
        self.add(1, "uint s = n, t = 0u, q = n, r = 0u, mine = lid;")
        self.add(1, "bool go = true;")
        self.block(1, "grid")
        self.add(0, "}")

    def add(self, depth: int, text: str) -> None:
        self.lines.append("    " * depth + text)

    def block(self, depth: int, reach: str) -> None:
        for _ in range(self.random.randint(1, 4)):
            self.statement(depth, reach)

    def statement(self, depth: int, reach: str) -> None:
        choose = self.random.choice
        kind = choose(
            ("work", "call", "if", "loop", "if", "loop", "switch", "assign") if depth < 4 else ("work", "call")
        )
        if kind == "work":
            self.add(depth, choose(WORK))
        elif kind == "assign":
            # Variables that all decide by are not assigned under a condition of some.
            same = {
                "grid": ("s = n;", "s = a[gid];", "t = n;", "go = n > 2u;"),
                "group": ("q = a[0];", "r = me;"),
                "item": (),
            }
            self.add(depth, choose((*same[reach], "mine = gid;", "mine += lid;")))
        elif kind == "call":
            self.call(depth, reach)
        elif kind == "switch":
            self.add(depth, f"switch ({choose(('n', 's', 'a[1]'))}) {{")
            self.add(depth, "case 1:")
            self.block(depth + 1, reach)
            self.add(depth + 1, "break;")
            self.add(depth, "default:")
            self.block(depth + 1, reach)
            self.add(depth, "}")
        else:
            inner, condition = self.condition(reach)
            counter = {"grid": "t", "group": "r", "item": "mine"}[inner]
            form = "if ({})" if kind == "if" else choose(("while ({})", f"for (; {{}}; ++{counter})"))
            self.add(depth, f"{form.format(condition)} {{")
            self.block(depth + 1, inner)
            if kind == "loop" and inner != "item" and self.random.random() < 0.3:
                self.add(depth + 1, "if (a[0] == 5u) break;")
            self.add(depth, "}")

    def condition(self, reach: str) -> tuple[str, str]:
        """Who meet under a condition, and the condition."""
        choose = self.random.choice
        which = choose(("same", "group", "item"))
        if which == "item" or reach == "item":
            return "item", choose(OF_ITEMS)
        return (
            ("group", choose(OF_GROUPS))
            if which == "group"
            else (
                reach,
                choose(UNIFORM if reach == "grid" else (*UNIFORM, "q > 2u", "r < n")),
            )
        )

    def call(self, depth: int, reach: str) -> None:
        calls = {"grid": GRID_CALLS + GROUP_CALLS, "group": GROUP_CALLS, "item": ()}[reach]
        missed = {"grid": (), "group": GRID_CALLS[:2], "item": GROUP_CALLS + GRID_CALLS}[reach]
        self.places += bool(missed)
        if missed and self.wrong == self.places:
            self.add(depth, self.random.choice(missed))
            self.line = len(self.lines)
        elif calls:
            self.add(depth, self.random.choice(calls))

    @property
    def text(self) -> str:
        return "\n".join(self.lines) + "\n"


def misused(program: Program) -> list[int]:
    found = read("k.cl", program.text, declarations())
    assert not found.unread, program.text
    return [misuse.place.line for misuse in found.misuses]


@pytest.mark.parametrize("first", range(0, 200, 20))
def test_right_programs_are_not_refused(first):
    for seed in range(first, first + 20):
        program = Program(seed, None)
        assert not misused(program), f"seed {seed}\n{program.text}"


@pytest.mark.parametrize("first", range(0, 100, 20))
def test_a_call_that_some_miss_is_refused_at_its_line(first):
    tried = 0
    for seed in range(first, first + 20):
        places = Program(seed, None).places
        for place in {1, places // 2, places} - {0}:
            program = Program(seed, place)
            if program.line is not None:
                assert program.line in misused(program), f"seed {seed}, place {place}\n{program.text}"
                tried += 1
    assert tried > 5
