"""Statements that decide nothing are not read; those that may change what a condition names are."""

from __future__ import annotations

import pytest

from portbar.primitives.headers import declarations
from portbar.reading import kinds, reader, slices
from portbar.reading.tree import Tree
from tests.reading.programs import grid, kernel

pytestmark = pytest.mark.skipif(not reader.is_available(), reason="no libclang for this platform")

BARRIER = "    if (x > 3u)\n        barrier(CLK_LOCAL_MEM_FENCE);"
BEFORE = """\
#define OWN x
#define SET(value) x = value
#define AT(name) &name
typedef struct { uint one; } pair;
void put(private uint *to, uint value) { uint more = value; *to = more; a_table[value & 7u]; }
uint twice(uint value) { uint made = 2u * value; return made; }
""".replace(" a_table[value & 7u];", "")


@pytest.mark.parametrize(
    "text",
    [
        "x = get_local_id(0);",
        "x += get_local_id(0);",
        "x <<= get_local_id(0);",
        "(x) = get_local_id(0);",
        "uint y = get_local_id(0); a[0] = y; x = y;",
        "uint y, z; y = get_local_id(0); z = y; x = z;",
        "uint *p = &x; a[0] = n; *p = get_local_id(0);",
        "uint y = 0u, *p = &x; y = n; *p = get_local_id(0);",
        "put(&x, get_local_id(0));",
        "put(AT(x), get_local_id(0));",
        "SET(get_local_id(0));",
        "OWN = get_local_id(0);",
        "x = twice(get_local_id(0));",
        "{ a[1] = n; { x = get_local_id(0); } }",
        "for (uint i = 0u; i < n; ++i) { a[i] = i; x = get_local_id(0); }",
        "for (uint i = 0u; i < get_local_id(0); ++i) x++;",
        "if (get_local_id(0) == 0u) --x;",
        "switch (get_local_id(0)) { case 0u: x = 9u; break; default: a[0] = 1u; }",
        "uint y = n; for (; y > 2u; --y) if (get_local_id(0) == y) break; x = y;",
        "x = ({ uint y = get_local_id(0); y; });",
        "pair p; p.one = get_local_id(0); x = p.one;",
        "pair p, *q = &p; q->one = get_local_id(0); x = p.one;",
        "uint2 v = (uint2)(n, n); v = (uint2)(get_local_id(0), get_local_id(0)); x = v.x;",
        "n ? (x = get_local_id(0)) : 0u;",
        "uint y = (x = get_local_id(0));",
    ],
)
def test_a_statement_that_changes_what_a_condition_names_is_read(text):
    body = f"    uint x = n;\n    {text}\n{BARRIER}"
    (misuse,) = reader.read("k.cl", kernel(body, before=BEFORE), declarations()).misuses
    assert "if (x > 3u)" in str(misuse)


@pytest.mark.parametrize(
    "text",
    [
        "bool go = portbar_device_barrier(&grid); a[0] = n;\n        if (!go)\n            continue;",
        "bool go = true; go = portbar_device_barrier(&grid); bool no = !go; a[0] = n; if (no) continue;",
    ],
)
def test_a_value_that_a_barrier_returns_is_followed(text):
    found = reader.read("k.cl", grid(f"    for (uint s = 0u; s < n; ++s) {{\n        {text}\n    }}"), declarations())
    assert [one.kind for one in found.misuses] == ["failure"]


def left_out(body: str) -> list[str]:
    """The statements of a kernel's block and the blocks in it that are not read."""
    text = f'#include "portbar/atomics.h"\n{grid(body)}'
    tree = Tree("k.cl", text, {"opencl-c-base.h": reader.BASE, **declarations()}, ("-cl-std=CL2.0",))
    (function,) = tree.functions.values()
    made = slices.Slices(tree, {}, (), frozenset({"PORTBAR_ENTER", "portbar_device_barrier"}))
    found = []
    stack = made.of(function)[::-1]
    while stack:
        node = stack.pop()
        if node.kind == kinds.NOTHING:
            found.append(tree.source(node))
        stack += node.kids[::-1]
    tree.close()
    return found


def test_statements_that_only_compute_are_not_read():
    loop = "for (uint i = portbar_global_id(&grid); i < n; i += portbar_global_size(&grid)) a[i] = most + i"
    body = f"    uint most = 0u;\n    for (uint s = 0u; s < n; ++s) {{\n{loop};\nmost = max(most, a[s]);"
    body += "\nif (!portbar_device_barrier(&grid)) return;\n}\na[0] = most;"
    assert left_out(body) == ["uint most = 0u;", loop, "most = max(most, a[s])", "a[0] = most"]


@pytest.mark.parametrize(
    ("text", "is_left_out"),
    [
        ("for (;;) if (a[0]) break;", False),
        ("a[0] = n;", True),
        ("a[0] = PORTBAR_UNIFORM(n > 3u) ? 1u : 0u;", False),
        ("portbar_atomic_fetch_add(a, 1u);", True),
        ("PORTBAR_FOR(i, n) a[i] = 1u;", False),
    ],
)
def test_jumps_and_words_of_portbar_s_are_read(text, is_left_out):
    body = f"    {text}\n    portbar_device_barrier(&grid);"
    assert bool(left_out(body)) == is_left_out


def test_a_function_with_goto_is_read_as_a_whole():
    assert (
        left_out("    a[0] = n;\n    if (n) goto end;\n    portbar_device_barrier(&grid);\nend:\n    a[1] = n;") == []
    )
