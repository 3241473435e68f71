"""Nothing that other work-items could see precedes PORTBAR_ENTER."""

from __future__ import annotations

import pytest

from portbar.reading.entering import open_enter
from portbar.reading.found import Entering, Place
from tests.reading.trees import facts, needs_libclang

TEXT = """\
#include "portbar/device_barrier.h"
struct part { uint x; uint v[4]; };
struct whole { uint n; struct part q; global float *row; };
uint f(int x); uint get_ticket(volatile global uint *a);
#define TILE(x) ((x) * 4)
#define SETUP a[0] = 1;
#define OPEN {
kernel void k(PORTBAR_GRID_PARAM, volatile global uint *a, global struct whole *p, global struct part *b, uint m)
{
HERE
PORTBAR_ENTER(grid);
a[0] = f(1);
}"""


def entering(before: str, after: str = "") -> Entering | None:
    return facts(TEXT.replace("HERE", before) + after).kernels["k"].entering


HARMLESS = [
    "",
    "const uint n = (uint)5;",
    "const float w = (1.0f + 2.0f) * 3.0f; uint four = 4;",
    "uint4 v = (uint4)(1, 2, 3, 4);",
    "const uint id = get_local_id(0) + get_local_size (0) * get_work_dim();",
    "const uint size = sizeof(float) * min(4, max(1, (int)sizeof m));",
    "const float3 half_of = convert_float3((uint3)(1)) * 0.5f; uint bits = as_uint(1.0f);",
    "float w[3] = {0.25f, (0.5f), 0.25f}, v[2][2] = {{1, 2}, {3, 4}};",
    "uint x = a[0], y = a[1] == 1 ? a[2] : a[m <= 3], z = a[y] != x;",
    "const uint n = p->n + p->q.x; global float *row = p->row;",
    "volatile global uint *const d = a + m, *c = (volatile global uint *)a;",
    "local float tile[64]; private uint *r = &m;",
    "typedef struct { int a; } pair; enum { A = 1 }; const uint2 v = (uint2){1, 2};",
    "volatile global float (*rows)[16] = (volatile global float (*)[16])a;",
    "__attribute__((aligned(16))) float g[4] = {0}; uint n __attribute__((unused)) = 1;",
    "/* if (x) f(); */ const uint n = 5; // g();",
    "{ uint n = 1; }",
    "\n#define STRANGE(x) f(x)\n#if 1\nuint n = (1);\n#endif\n",
    "const uint tile = TILE(get_local_id(0)); const float root = native_sqrt(2.0f) + fmax(1.0f, 2.0f);",
    "uint n; n = m; n += 2; ++n;",
    ";",
    'constant char *text = "a[0] = 1; f();";',
]
ACTS = [
    "atomic_inc(a);",
    "if (m) a[0] = 1;",
    "const uint ticket = get_ticket(a);",
    "const uint old = (uint)(atomic_add(a, 1));",
    "uint v[2] = {1, atomic_inc(a)};",
    "*a = 1;",
    "*(a + 1) = 1;",
    "(*a) = 1;",
    "a[0] = 1;",
    "a[0] += 1;",
    "a[0] <<= 1;",
    "a[0]++;",
    "b[0].x = 1;",
    "p->n = 1;",
    "p->q.x |= 1;",
    "b[p->n].v[2] = 1;",
    "{ a[0] = 1; }",
    "do a[0] = 1; while (0);",
    "barrier(CLK_LOCAL_MEM_FENCE);",
    "for (uint i = 0; i < 3; i += 1) m += i;",
    '__asm__ volatile ("");',
    "SETUP",
]
#: The beginning of a block, and its end.
BLOCKS = [
    ("{", "}"),
    ("if (m) {", "}"),
    ("if (m) { m = 1; } else {", "}"),
    ("do {", "} while (0); }"),
    ("switch (m) { case 1:", "}"),
    ("#if 1\n{\n#endif", "}"),
    ("OPEN", "}"),
]


@needs_libclang
@pytest.mark.parametrize("before", HARMLESS)
def test_declarations_may_precede_the_entry_of_a_grid(before):
    assert entering(before) == Entering()


@needs_libclang
@pytest.mark.parametrize("before", ACTS)
@pytest.mark.parametrize("first", ["", "const uint one = (uint)1;"])
def test_code_before_the_grid_is_entered_is_found(before, first):
    found = entering(f"{first}\n{before}")
    assert found is not None
    assert found.block is None
    assert found.early is not None
    assert (found.early.file, found.early.line) == ("program.cl", 11)


@needs_libclang
@pytest.mark.parametrize(("opens", "closes"), BLOCKS)
def test_a_block_around_the_entry_of_a_grid_is_found(opens, closes):
    text = TEXT.replace("HERE", opens).removesuffix("}") + (f"{closes}\n" if "while" in closes else f"{closes}\n}}\n")
    found = facts(text).kernels["k"].entering
    assert found is not None
    assert found.block is not None
    assert found.block.line in {10, 11}


@needs_libclang
def test_the_entry_of_a_grid_in_a_macro_is_one():
    text = TEXT.replace("HERE", "a[0] = 2;").replace("PORTBAR_ENTER(grid);", "BEGIN")
    found = facts(text, "-DBEGIN=PORTBAR_ENTER(grid);").kernels["k"].entering
    assert found == Entering(early=Place("program.cl", 10, 1))


@pytest.mark.parametrize(
    ("body", "line"),
    [
        ("PORTBAR_ENTER(grid);", None),
        ("PORTBAR_ENTER ( grid ) /* here */ ;", None),
        ("#define ENTER PORTBAR_ENTER(grid)\nENTER;", None),
        ("// PORTBAR_ENTER(grid)\nPORTBAR_ENTER(grid);", None),
        ("\nPORTBAR_ENTER(grid)\na[0] = f(1);", 2),
        ("PORTBAR_ENTER(grid) /* ; */ }", 1),
    ],
)
def test_a_missing_semicolon_would_make_the_next_statement_a_value(body, line):
    assert open_enter(body) == line
