"""Any declaration of a reduction: a loop that renders, or an error. Types read from a source are those that it declares."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import portbar
from portbar.errors import Error
from portbar.primitives.atomics_table import AtomicsTable
from portbar.primitives.headers import resolve_includes
from portbar.primitives.reduction.loops import LEVELS, check_loops
from portbar.primitives.reduction.operators import OPERATORS, short_form_operators
from portbar.primitives.reduction.types import SCALARS
from portbar.primitives.strategy import Capabilities, Choice, Strategy
from tests.fuzz import target
from tests.reading.trees import use_of

STRATEGY = Strategy(
    Choice("c11", ""),
    Choice("packed", ""),
    Choice("counter", ""),
    capabilities=Capabilities(atomics_table=AtomicsTable(types=("int", "uint", "long", "ulong", "float"))),
)

#: Names of NumPy's types, some of which reductions have, and pieces of what NumPy takes for one.
DTYPES = ["i1", "u2", "i4", "u8", "f2", "f4", "f8", "c8", "c16", "?", "S3", "U2", "O", "M8[s]", ">i4", "f16", "V8", "x"]
dtypes = st.recursive(
    st.sampled_from(
        [*DTYPES, None, np.int32, np.float32, np.float64, int, float, complex, "3f4", "f4,i4", "(0,)f4", ""]
    )
    | st.text(max_size=4),
    lambda below: (
        st.tuples(below, st.integers(-1, 4) | st.lists(st.integers(0, 3), max_size=2).map(tuple))
        | st.lists(st.tuples(st.sampled_from(["x", "y", "float", "", "portbar_x", "\u00e9"]), below), max_size=3)
        | st.dictionaries(
            st.sampled_from(["names", "formats", "offsets", "itemsize", "x"]), st.lists(below, max_size=2)
        )
    ),
    max_leaves=4,
)
operators = st.sampled_from([*(op.symbol for op in OPERATORS.values()), *OPERATORS, "-", "", None, 1]) | st.builds(
    lambda text, neutral: (text, neutral), st.text('ab()+*.${}\\"\n;', max_size=9), st.sampled_from(["0", "", "{0}"])
)
neutrals = st.none() | st.integers() | st.floats() | st.text(max_size=5) | st.just([]) | st.just("9" * 5000)
shapes = (
    st.none()
    | st.integers(-1, 40)
    | st.lists(st.integers(-1, 5), max_size=3).map(tuple)
    | st.just(2**70)
    | st.just("3")
)
names = st.sampled_from(["energy", "v", "v_offset", "x", "float4", "min", "", "a b", "\u00e9", "portbar_v", None, 3])


def mostly(right: st.SearchStrategy[Any], odd: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """A valid value in three cases of four, so that many declarations are valid as a whole."""
    return st.integers(0, 3).flatmap(lambda turn: right if turn else odd)


reductions = st.tuples(
    mostly(st.sampled_from(["i4", "u8", "f4", "f8", "c8", "3f4"]), dtypes),
    mostly(st.sampled_from(["+", "max", "*"]), operators),
    mostly(st.none(), neutrals),
    mostly(st.none() | st.integers(1, 5), shapes),
)


@target
@given(
    mostly(st.just("energy"), names),
    mostly(
        st.dictionaries(mostly(st.sampled_from(["v", "w"]), names), reductions, min_size=1, max_size=3),
        st.sampled_from([None, {}, [1]]),
    ),
    st.booleans(),
    mostly(st.integers(1, 9), st.integers(-1, 2000) | st.floats() | st.just("3")),
    st.sampled_from(LEVELS),
)
def test_any_declaration_is_a_loop_that_renders_or_an_error(name, declared, deterministic, uses, level):
    try:
        if isinstance(declared, dict):
            declared = {
                field: portbar.Reduction(
                    dtype,
                    portbar.Operator(op[0], neutral=op[1]) if isinstance(op, tuple) else op,
                    neutral=neutral,
                    shape=shape,
                )
                for field, (dtype, op, neutral, shape) in declared.items()
            }
        (loop,) = check_loops(portbar.ReductionLoop(name, declared, deterministic=deterministic, uses=uses))
        assert loop.local_dtype.itemsize > 0
        assert all(made.isidentifier() for made in loop.generated_names)
        source = f"""#include "portbar/reduction.h"
kernel void k(PORTBAR_GRID_PARAM) {{ PORTBAR_ENTER(grid); {loop.name}_local a; {loop.name}_init_{level}(&grid, &a); }}"""
        text = resolve_includes(source, STRATEGY, use=use_of(source, (), (loop,)))
    except Error as error:
        assert str(error)  # noqa: PT017 (as good an end)
        return
    assert f"{loop.name}_local" in text


TYPES = [scalar.c for scalar in SCALARS]
FORMS = [
    "{type} {name} = 0;",
    "const {type} {name} = ({type})1, {name}_2 = {name};",
    "{type} {name}[4] = {{0}};",
    "local {type} {name}[4];",
    "global {type} *{name} = 0;",
    "{type} other_{name} = 0, {name} = 0;",
    "for ({type} i = 0, {name} = 0; i < 1; ++i)",
]
NOISE = [
    "/* float v0; */", "// int v1 = 0;\n", "#define V(a) float a\n", "#define v0 v1\n", "typedef float real;", "v0 = v1;",
    "return v0;", "int w = v0 * v1;", "{ char v0; }", "struct s { long v0; };", "f(v0, v1);", "if (v1) {", "}", "(", "*", ",",
    "enum { v0 };", "x.v0 = 1;", "__attribute__((unused))", "auto v1 = 2;", '"v0"', "\\\n", "#if 1\n", "#endif\n",
]  # fmt: skip
#: Variables of the same name elsewhere.
OTHERS = ["{ char v0; }", "for (long v0 = 0; v0 < 1; ++v0) { }", "struct s { double v0; };", "{ local uchar v0[2]; }"]
calls = st.tuples(
    st.sampled_from(["work_group", "sub_group"]),
    st.sampled_from(["reduce", "scan_inclusive", "scan_exclusive"]),
    st.sampled_from([op.name for op in short_form_operators()]),
)


@target
@given(
    st.lists(st.tuples(st.sampled_from(TYPES), st.sampled_from(FORMS)), min_size=1, max_size=2),
    calls,
    st.sampled_from(["{}", "{}", "{}", "{}[1]", "{}[1]", "({t}){}", "{} + {}", "{}[a[1]]", "1.0f", "2u", "f({})"]),
    st.lists(st.sampled_from(NOISE), max_size=2),
    st.lists(st.sampled_from([*OTHERS, *NOISE]), max_size=2),
)
def test_types_that_are_read_are_those_that_the_source_declares(declared, call, argument, before, after):
    level, what, op = call
    lines = [form.format(type=kind, name=f"v{n}") for n, (kind, form) in enumerate(declared)]
    value = argument.replace("{t}", "uint").replace("{}", "v0")
    call = f"portbar_{level}_{what}_{op}(s, {value});"
    head = "kernel void k(global uint *out) { PORTBAR_REDUCTION_SCRATCH(s); uint a[2] = {0}, v1 = 0;"
    source = "\n".join(['#include "portbar/reduction.h"', *before, head, *lines, *after, call, "}"])
    use = use_of(source)
    assert use.wanted is None or (level, what, op) in use.wanted
    known = dict(use.known).get(op)
    if known is None:
        return
    assert known <= set(TYPES)
    literal = {"1.0f": "float", "2u": "uint", "({t}){}": "uint"}.get(argument)
    if literal:
        assert known == {literal}
    elif argument in {"{}", "{}[1]"} and "#define v0 v1\n" not in after:
        assert declared[0][0] in known


@target
@given(st.lists(st.sampled_from(NOISE) | st.text(max_size=5), max_size=12), st.lists(st.text(max_size=8), max_size=2))
def test_any_source_and_options_can_be_read(parts, options):
    source = " ".join(parts) + " portbar_work_group_scan_inclusive_add(s, v0)"
    assert all(kinds <= set(TYPES) for _, kinds in use_of(source, options).known)


@pytest.mark.parametrize(
    ("size", "read"),
    [
        *(("64", 64), ("(64u)", 64), ("0x40", 64), ("(1 << 6)", 64), ("(OWN * 2)", 64)),
        *(("1 << 6", None), ("(1) + (63)", None), ("(__VENDORS)", None), ("=64U", None), ("9" * 5000, None)),
    ],
    ids=lambda v: str(v)[:9],
)
def test_a_local_size_is_read_whole_or_not_at_all(size, read):
    assert use_of(f"#define PORTBAR_REDUCTION_LOCAL_SIZE {size}\n#define OWN (32)\n").local_size == read
