"""A program for a compiler that needs the normal form has it, or is refused with its line; for others it stays as it is."""

from __future__ import annotations

import pytest

from portbar.device import quirks
from portbar.errors import UnsupportedFeatureError
from portbar.primitives.atomics_table import AtomicsTable
from portbar.primitives.headers import Target, resolve_includes
from portbar.primitives.strategy import Capabilities, Choice, Strategy
from portbar.reading import reader
from portbar.reading.libclang import library

CHOICES = Choice("c11", ""), Choice("packed", ""), Choice("counter", "")
CAPABILITIES = Capabilities(atomics_table=AtomicsTable(types=("int", "uint")))
OTHERS = Strategy(*CHOICES, capabilities=CAPABILITIES)
NEEDY = Strategy(*CHOICES, capabilities=CAPABILITIES, workarounds=frozenset({quirks.JOINS_LOST}))
MEET = "portbar_device_barrier(&grid);"
TARGET = Target("a device of glass", ("cl_khr_fp64",))

needs_libclang = pytest.mark.skipif(library() is None, reason="there is no libclang")


def program(body: str, before: str = "") -> str:
    """A kernel with `body` in line 5, if `before` has no line of its own."""
    return (
        f'#include "portbar/device_barrier.h"\n{before}\nkernel void k(PORTBAR_GRID_PARAM, global uint *a, uint n)\n'
        f"{{   PORTBAR_ENTER(grid);\n{body}\n}}\n"
    )


def rendered(text: str, strategy: Strategy = NEEDY, options: tuple[str, ...] = ()) -> str:
    """The text that such a device compiles."""
    return resolve_includes(text, strategy, name="k.cl", options=options, target=TARGET)


REFUSED = {
    "a case in a loop": f"switch (n) {{ case 0u: do {{ {MEET} case 1u: a[0] = 1u; }} while (a[0] < 3u); }}",
    "a case in a block": f"switch (n) {{ case 0u: {{ {MEET} case 1u: a[0] = 1u; }} }}",
    "a case in a loop without a barrier": f"switch (n) {{ case 0u: do {{ case 1u: ++a[0]; }} while (a[0] < 3u); }} {MEET}",
    "a goto into a loop": f"if (n) goto inside; for (;;) {{ ++a[0]; inside: if (a[0] > 9u) break; }} {MEET}",
    "a goto into a loop made of goto": f"if (n) goto inside; again: ++a[0]; inside: if (a[0] < 9u) goto again; {MEET}",
    "a goto into a branch": f"if (n == 1u) goto inside; if (n) {{ a[0] = 1u; inside: {MEET} }}",
    "a label that no case precedes": f"switch (n) {{ never: a[0] = 1u; case 1u: {MEET} goto never; }}",
    "what only a vendor's compiler reads": f"vendor uint x = 3u; {MEET} a[0] = x;",
    "a definition between arguments": "portbar_device_barrier(\n#define LATE 1\n&grid) ? (void)0 : (void)(a[0] = 1u);",
}


@needs_libclang
@pytest.mark.parametrize("kind", REFUSED)
def test_what_cannot_be_written_in_the_form_is_refused_with_its_line(kind: str) -> None:
    text = program(REFUSED[kind])
    with pytest.raises(UnsupportedFeatureError) as caught:
        rendered(text)
    said = str(caught.value)
    assert "k.cl, line 5: " in said or (kind.startswith("what only") and "k.cl, line 3: " in said)
    assert "a device of glass" in said
    assert said.endswith(".")
    # Other devices' compilers take it as it is.
    assert REFUSED[kind] in rendered(text, OTHERS)


@needs_libclang
def test_a_line_is_one_of_the_file_that_has_it() -> None:
    text = program(
        "",
        '#line 70 "other.cl"\n'
        "void f(portbar_grid *g, uint n) { switch (n) { case 1u: { case 2u: portbar_device_barrier(g); } } }\n#line 3",
    )
    with pytest.raises(UnsupportedFeatureError, match=r"^other\.cl, line 70: "):
        rendered(text)


@needs_libclang
@pytest.mark.parametrize(
    "text",
    [
        "kernel void k(global uint *a) { vendor uint x = 3u; if (a[0]) a[1] = x; }\n",
        "kernel void k(global uint *a) { vendor uint x = 3u; barrier(CLK_LOCAL_MEM_FENCE); a[0] = x; }\n",
        "vendor uint x;\nkernel void k(global uint *a) { if (a[0]) barrier(CLK_LOCAL_MEM_FENCE); a[0] = 1u; }\n",
    ],
    ids=["no barrier", "no branch", "another declaration"],
)
def test_what_cannot_be_read_stays_where_no_barrier_depends_on_it(text: str) -> None:
    assert "vendor uint x" in rendered(text)


@needs_libclang
def test_a_function_that_is_not_even_found_is_refused() -> None:
    text = "vendor void f(global uint *a) { if (a[0]) barrier(CLK_LOCAL_MEM_FENCE); a[0] = 1u; }\n"
    with pytest.raises(UnsupportedFeatureError, match=r"k\.cl, line 1: .*cannot be read"):
        rendered(text)


@needs_libclang
def test_the_device_has_the_extensions_that_it_has() -> None:
    body = f"\n#ifdef cl_khr_fp64\nif (n)\n#endif\n#ifdef cl_khr_fp16\nif (n > 1u)\n#endif\n{{ {MEET} }}"
    lines = rendered(program(body)).split("\n")
    assert not any("if (n > 1u)" in line and "barrier" in line for line in lines)
    assert any("if (n)" in line and "barrier" in line for line in lines)


def test_without_libclang_a_program_is_refused_where_its_rightness_depends_on_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(reader, "library", lambda: None)
    text = program(f"if (n) {{ {MEET} }}")
    with pytest.raises(UnsupportedFeatureError, match=r"libclang was not found.*pip install libclang"):
        rendered(text)
    assert MEET in rendered(text, OTHERS)
    assert "a[0] = 1u" in rendered("kernel void k(global uint *a) { if (a[1]) a[0] = 1u; }")
