"""Long programs are parsed without the functions that cannot matter, and their reports and normal forms stay the same."""

from __future__ import annotations

import pytest

from portbar.primitives.headers import declarations
from portbar.reading import reader
from portbar.reading.opencl import BASE
from portbar.reading.outline import outline_of
from tests.reading.programs import PAIRS, WIDE, grid, kernel

pytestmark = pytest.mark.skipif(not reader.is_available(), reason="no libclang for this platform")

#: Functions that do not matter, and two that break a promise.
MORE = """
#define MORE_TWICE(x) more_helper(x)
constant float more_table[] = {
    1.0f, 2.0f, 3.0f, 4.0f, 5.0f /* } */ };
float more_helper(float x);
static float more_helper(float x) { return x * more_table[(int)x % 5]; }
static void more_copy(global float *to, global const float *from, uint n) { to[n] = MORE_TWICE(from[n]); }
kernel void more_plain(global float *to, global const float *restrict from, uint n)
{
    const char c = '}';
    if (get_global_id(0) < n) { more_copy(to, from, get_global_id(0)); to[0] += from[1] + (float)c; }
}
kernel void more_cast(global const float *restrict from, uint n)
{
    global float *to = (global float *)from;
    to[n] = 1.0f;
}
kernel void more_passed(global const float *restrict from, uint n) { more_copy((global float *)from, from, n); }
"""


@pytest.fixture
def every_program(monkeypatch):
    """Makes an outline of short programs, too, when it is called."""
    reader._read.cache_clear()
    reader._formed.cache_clear()
    yield lambda: (monkeypatch.setattr(reader, "SHORT", -1), reader._read.cache_clear(), reader._formed.cache_clear())
    reader._read.cache_clear()
    reader._formed.cache_clear()


def texts() -> list[str]:
    return [text for pair in (*PAIRS, *WIDE) for text in (pair.wrong, pair.right)]


def test_the_reports_are_those_of_the_whole_program(every_program):
    programs = [f"{MORE}{text}" if place % 2 else f"{text}\n{MORE}" for place, text in enumerate(texts())]
    found = [reader.read("k.cl", program, declarations()) for program in programs]
    assert sum(bool(reading.misuses) for reading in found) >= len(PAIRS)
    every_program()
    for program, reading in zip(programs, found, strict=True):
        assert reader.read("k.cl", program, declarations()) == reading, program


def test_the_normal_form_is_that_of_the_whole_program(every_program):
    def formed(text: str) -> str | None:
        return reader.in_normal_form(
            "k.cl", f"{text}\n{MORE}", declarations(), (), defined=(), barrier="B;", work="W;", wide=True
        )

    found = {text: formed(text) for text in texts()[1::4]}
    assert sum(form is not None for form in found.values()) > len(PAIRS) / 3
    every_program()
    for text, form in found.items():
        assert formed(text) == form, text


def emptied(text: str) -> str:
    """A program as the front end gets it, for calls of `barrier`, in one line."""
    files = {"opencl-c-base.h": BASE, **declarations()}
    found = outline_of("k.cl", text, tuple(files.items()), ("-cl-std=CL2.0",), frozenset({"barrier"}))
    assert found is not None
    assert len(found.text) == len(text)
    assert found.text.count("\n") == text.count("\n")
    return " ".join(found.text.split())


BARRIER = "kernel void k(global float *a) { barrier(CLK_LOCAL_MEM_FENCE); USE }"
USED = "float own(float x) { return x + 1.0f + 2.0f + 3.0f; }"


@pytest.mark.parametrize(
    ("before", "use", "is_kept"),
    [
        ("", "", False),
        ("", "a[0] = own(1.0f);", True),
        ("#define F(x) own(x)\n", "a[0] = F(1.0f);", True),
        ("float g(float x) { return own(x) * 2.0f * 3.0f; }\n", "a[0] = g(1.0f);", True),
        ("float g(float x) { return own(x) * 2.0f * 3.0f; }\n", "", False),
        ("float own(float x); // own\n", "/* own */", False),
    ],
)
def test_a_function_is_kept_where_one_with_a_barrier_may_call_it(before, use, is_kept):
    text = emptied(f"{before}{USED}\n{BARRIER.replace('USE', use)}\n")
    assert ("return x + 1.0f" in text) == is_kept
    assert "barrier(CLK_LOCAL_MEM_FENCE);" in text


@pytest.mark.parametrize(
    "text",
    [
        "#define M(x) barrier(x)\nvoid g(int x) { /* long enough */ if (x) M(1); }",
        "void g(int x) {\n#if 1\nx = 100 + 200 + 300 + 400;\n#endif\n}",
        "#ifdef A\nvoid g(float x)\n#else\nvoid g(int x)\n#endif\n{ x = 100 + 200 + 300 + 400; }",
        "void g(global const int *restrict p) { global int *q = (global int *)p; *q = 1; }",
        "void g(global const int *restrict p) { atomic_add((volatile global int *)p, 100); }",
        "#define AT(x) &x\nvoid g(global const int *restrict p) { *(global int *)AT(p[0]) = 100; }",
        "#define P (global int *)p\nvoid g(global const int *restrict p) { int x = p[0] + 1000; P[x] = 100; }",
        "#define H(x, y) h(y)\nvoid h(global int *p);\nvoid g(global const int *restrict p) { H(p, 100); H(1, p); }",
        "void h(global int *p) { p[0] = 100000 + 200000; }\nvoid g(global const int *restrict p) { h((global int *)p); }",
        "void h(global const int *p) { *(global int *)p = 1; }\nvoid g(global const int *restrict p) { int x = 0; h(p); }",
    ],
)
def test_functions_that_may_matter_are_kept(text):
    assert " ".join(text.split()) in emptied(f"{text}\n{BARRIER.replace('USE', '')}\n")


@pytest.mark.parametrize(
    "text",
    [
        "void g(global const int *restrict p, global int *q) { if (q && p[0]) q[1] = p[2] + *q; }",
        "typedef struct { int x; } s; void g(global const s *restrict p, global int *q) { q[1] = p->x + p[1].x; }",
        (
            "int h(int n, global const int *p) { return p[n] + 10000; }\n"
            "void g(global const int *restrict p, global int *q) { q[0] = h(max(1, 2), p + 3) + h(0, p); }"
        ),
    ],
)
def test_functions_that_only_read_through_their_promises_are_emptied(text):
    assert f"q) {{ }} {BARRIER[:20]}" in emptied(f"{text}\n{BARRIER.replace('USE', '')}\n")


def test_values_that_no_barrier_s_function_uses_are_emptied():
    tables = "constant float t[] =\n{\n1.0f, 2.0f, 3.0f, 4.0f, 5.0f}; constant float u[2] = {1.5f, 2.5f}, v = 3.5f;\n"
    assert "t[] = { 0 }; constant float u[2] = {1.5f, 2.5f}" in emptied(tables + BARRIER.replace("USE", ""))
    assert "t[] = { 1.0f" in emptied(tables + BARRIER.replace("USE", "a[0] = t[1];"))


def test_text_that_is_not_ascii_keeps_its_places(every_program):
    every_program()
    text = f"// ä€\n{MORE}{kernel('if (get_local_id(0) == 0) barrier(1); /* ü */')}"
    (divergence,) = (one for one in reader.read("k.cl", text, declarations()).misuses if one.kind == "divergence")
    assert text.split("\n")[divergence.place.line - 1].startswith("if (get_local_id")


def test_a_program_whose_parts_are_not_where_they_seem_to_be_is_read_whole(every_program):
    every_program()
    text = "#define BEGIN {\nvoid f(int x) { if (x) BEGIN x += 10000 + 20000; } int y = x; }\n" + grid(
        "    if (get_local_id(0) == 0) portbar_device_barrier(&grid);"
    )
    (misuse,) = reader.read("k.cl", text, declarations()).misuses
    assert text.split("\n")[misuse.place.line - 1].lstrip().startswith("if")
    tree = reader._tree("k.cl", text, {"opencl-c-base.h": BASE, **declarations()}, ("-cl-std=CL2.0",), {"barrier"})
    assert tree.outline is None
    tree.close()


def test_brackets_that_are_too_deep_are_left_to_the_parser_that_counts_them():
    files = {"opencl-c-base.h": BASE, **declarations()}
    text = kernel("{" * 100_000 + "barrier(1);" + "}" * 100_000)
    assert outline_of("k.cl", text, tuple(files.items()), (), frozenset({"barrier"})) is None


def test_a_long_table_that_a_barrier_s_function_uses_is_parsed_whole():
    numbers = ", ".join(map(str, range(1000)))
    table = f"constant uint t[] = {{\n{numbers}\n}};\nfloat other(float x) {{ return x + 1.0f + 2.0f + 3.0f; }}\n"
    found = emptied(table + BARRIER.replace("USE", "a[0] = t[1];"))
    assert numbers in found
    assert "other(float x) { }" in found
    assert "t[] = { 0 };" in emptied(table + BARRIER.replace("USE", ""))
