"""Pruned headers hold what a program uses and no more, whatever the strategy."""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import replace
from pathlib import Path

import pytest

from portbar.choices.strategy import DeviceProfile, choose
from portbar.device.facts import DeviceFacts
from portbar.device.findings import Findings
from portbar.primitives.grid import bounded
from portbar.primitives.headers import header_names, render_header, resolve_includes
from portbar.primitives.reduction.use import use_of
from portbar.primitives.strategy import Choice, Strategy
from portbar.records.files import find, shipped
from portbar.rendering.pruning import pruned
from portbar.rendering.source import without_comments
from tests.gpu_code import TARGETS, clang, complaints, strategy_for
from tests.kept import proof, version

BY_NAME = {target.name: target for target in TARGETS}

ADD = """#include "portbar/atomics.h"
kernel void add(global KIND *a) { a[1] = portbar_atomic_fetch_add_explicit(a, 1, memory_order_ORDER, memory_scope_device); }
"""
BARRIER = """#include "portbar/device_barrier.h"
kernel void meet(PORTBAR_GRID_PARAM, global uint *a) { PORTBAR_ENTER(grid); a[0] = portbar_device_barrier(&grid); }
"""
SUM = """#include "portbar/reduction.h"
kernel void sum(global KIND *a)
{
    PORTBAR_REDUCTION_SCRATCH(scratch);
    a[0] = portbar_work_group_reduce_add(scratch, a[get_global_id(0)]);
}
"""

HEADER = """\
/* Title. */
#ifndef GUARD
#define GUARD
#ifdef __clang__
#pragma clang diagnostic push
#endif

/* Shared by both. */
#define ONE 1
#define TWO 2

/* Not used by anything. */
#define UNUSED 3

#define OVERLOAD static inline __attribute__((overloadable))

/* Makes names. */
#define SLOT(kind) slot_##kind
typedef char slot_char;
typedef int slot_int;

#ifdef ONLY_SOMETIMES
#define ONLY_SOMETIMES_TWICE 2
#endif
#if ONE > 0
/* Calls { another } by "name". */
static inline int outer(int x)
{
    /* } */
    return inner(x, ")") + TWO;
}
#else
static inline int never(int x);
#endif

static inline int inner(int x, constant char *text) { return x; }

/* One of several. */
OVERLOAD int pick(global int *p)
{
    return *p;
}
/* One of several. */
OVERLOAD int pick(global char *p)
{
    return *p;
}
/* One of several. */
OVERLOAD int pick(local int *p)
{
    return *p;
}
OVERLOAD int value(int x) { return x; }
OVERLOAD int value(long x) { return (int)x; }
OVERLOAD int value(float x) { return (int)x; }

/* An object. */
typedef struct {
    slot_int member;
} thing;
enum { FIRST = 0, SECOND };

#ifdef __clang__
#pragma clang diagnostic pop
#endif
#endif /* GUARD */
"""


def kept(source: str, *options: str, header: str = HEADER) -> str:
    (text,) = pruned([header], source, options)
    return text


def test_unused_functions_are_gone_with_their_comments_and_empty_regions():
    text = kept("int f(void) { return ONE; }")
    assert text == (
        "/* Title. */\n#ifndef GUARD\n#define GUARD\n#ifdef __clang__\n#pragma clang diagnostic push\n#endif\n\n"
        "/* Shared by both. */\n#define ONE 1\n\n#ifdef __clang__\n#pragma clang diagnostic pop\n#endif\n#endif /* GUARD */\n"
    )


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ("outer(1)", {"outer", "inner", "ONE", "TWO"}),
        ("inner(1)", {"inner"}),
        ("thing t;", {"thing", "slot_int"}),
        ("SECOND", {"FIRST", "SECOND"}),
        ("SLOT(int)", {"SLOT", "slot_int"}),
        ("slot_char", {"slot_char"}),
        ("#ifdef ONLY_SOMETIMES_TWICE", {"ONLY_SOMETIMES_TWICE"}),
        ("nothing", set()),
        ("/* outer */", set()),
    ],
)
def test_used_functions_are_kept_with_their_dependencies(source, names):
    text = without_comments(kept(source))
    known = ("outer", "inner", "ONE", "TWO", "UNUSED", "SLOT", "slot_char", "slot_int", "thing", "FIRST", "SECOND",
             "ONLY_SOMETIMES_TWICE", "never")  # fmt: skip
    assert {name for name in known if re.search(rf"\b{name}\b", text)} == names
    assert text.count("#if") == text.count("#endif")


def test_a_region_keeps_the_macros_of_its_condition():
    text = kept("outer")
    assert "#if ONE > 0" in text
    assert "#define ONE 1" in text
    assert "#else" not in text


def test_an_author_s_expression_stays_though_nothing_uses_it():
    neutral = 'static int none(void)\n{\n#line 1 "neutral element of x"\n    return nowhere;\n}\n'
    unused = "static int other(void) { return 1; }\n"
    assert pruned([neutral + unused], "kernel void k(void) {}") == [neutral]


@pytest.mark.parametrize("option", ["-DX=outer", "-D X=outer", "-Douter=1", "-DX(y)=outer(y)"])
def test_options_name_something_too(option):
    assert "int outer(" in kept("X(1)", option)


@pytest.mark.parametrize(
    "source",
    [
        "#define CALL(x) out##x(1)",
        '#include "mine.h"',
        "#include <mine.h>",
        "#  include MINE",
        "#import <mine.h>",
        "%:include <mine.h>",
        "#define CALL(x) out%:%:x(1)",
        "#inc\\\nlude <mine.h>",
        "int \\u0061bc;",
    ],
)
def test_nothing_is_dropped_where_names_cannot_be_read(source):
    assert kept(f"{source}\n") == HEADER
    assert kept("", "-include mine.h") == HEADER


@pytest.mark.parametrize(
    "broken",
    [
        "#endif\n",
        "#if 1\n",
        "}\n",
        "static int f(int x) {\n",
        "static int f(int x\n",
        "/* begun",
        "#define PASTE(x, y) x##y\n#pragma PASTE\n",
    ],
)
def test_a_header_that_cannot_be_read_stays_whole(broken):
    header = HEADER + broken
    assert kept("PASTE", header=header) == header
    first, second = pruned([HEADER, header], "PASTE")
    assert (first, second) == (HEADER, header)


@pytest.mark.parametrize(
    ("source", "parameters"),
    [
        ("kernel void k(global uint *p) { pick(p); }", {"global int *p"}),
        ("kernel void k(global int *p) { pick(p); }", {"global int *p"}),
        ("kernel void k(global uchar4 *p) { pick(p); }", {"global int *p", "global char *p"}),
        ("kernel void k(global unsigned char *p) { pick(p); }", {"global int *p", "global char *p"}),
        ("kernel void k(global int *p) { local int l; pick(&l); }", {"global int *p", "local int *p"}),
        ("kernel void k(__local int *p) { pick(p); }", {"global int *p", "local int *p"}),
        ("kernel void k(global int *p) { pick(p + get_local_id(0)); }", {"global int *p"}),
        ("kernel void k(__typeof__(other) p) { pick(p); }", {"global int *p", "global char *p", "local int *p"}),
        ("kernel void k(global int *p) { value(p[0]); }", {"int x", "long x"}),
        ("kernel void k(global int *p) { value(p[get_global_id(0)]); }", {"int x", "long x"}),
        ("kernel void k(global float *p) { value(p[0]); }", {"int x", "long x", "float x"}),
        ("kernel void k(global half *p) { value(p[0]); }", {"int x", "long x", "float x"}),
        ("kernel void k(global int *p) { value(1.0f * p[0]); }", {"int x", "long x", "float x"}),
        ("kernel void k(global int *p) { value(1e3 * p[0]); }", {"int x", "long x", "float x"}),
        ("kernel void k(image2d_t i, int2 p) { value(read_imagef(i, p).x); }", {"int x", "long x", "float x"}),
        ("kernel void k(global int *p) { value(unknown(p)); }", {"int x", "long x", "float x"}),
        ("uint mine(uint x) { return x; } kernel void k(global int *p) { value(mine(3)); }", {"int x", "long x"}),
    ],
)
def test_overloads_stay_unless_no_argument_can_be_of_their_type(source, parameters):
    assert set(re.findall(r"OVERLOAD int (?:pick|value)\((.*?)\)", kept(source))) == parameters


def test_overloads_share_their_comment():
    assert kept("char c; local pick").count("OVERLOAD int pick") == 3
    assert kept("char c; local pick").count("/* One of several. */") == 1


def test_headers_of_one_program_keep_what_they_need_of_each_other():
    other = "#define DEEPER outer(1)\n#define ELSE 4\n"
    first, second = pruned([HEADER, other], "DEEPER")
    assert "int outer(" in first
    assert second == "#define DEEPER outer(1)\n"


def test_a_line_for_a_name_stays_only_where_something_else_uses_the_name():
    header = """\
#define START(x) \\
    unsigned more = 0; /* where extra is used */ \\
    begin(x)
#define EXTRA 5
typedef struct {
    int own;
    int extra;  /* where extra is used */
} thing;
static inline void begin(thing *x)
{
    x->own = 0;
    x->extra = EXTRA;  /* where extra is used */
}
static inline int more(thing *x)
{
    return x->extra;
}
"""
    whole = re.sub(r" +/\*.*?\*/", "", header)
    assert "where" not in whole
    assert pruned([header], "thing x; START(x); more(&x);") == [whole]
    assert pruned([header], "thing x; START(x);") == [
        """\
#define START(x) \\
    begin(x)
typedef struct {
    int own;
} thing;
static inline void begin(thing *x)
{
    x->own = 0;
}
"""
    ]


def test_short_macros_are_written_out_and_leave_nothing_where_they_do_nothing():
    header = """\
#define portbar_add(p) portbar_add_more(p, 1u)
#define portbar_acquire(p) ((void)portbar_load(p))
#define portbar_count(number, limit) (number)
#define portbar_yield(round) ((void)(round))
#define portbar_ready() do { } while (0)
#define portbar_twice(x) ((x) * 2)
static inline void meet(int *p, int n)
{
    /* Calls portbar_add(p). */
    portbar_ready();
    for (int i = 0; i < portbar_count(n, 5); ++i)
        portbar_yield(i);
    for (int i = portbar_count(n + 1, 5); i; --i) {
        portbar_acquire(p + portbar_add(p));
        portbar_acquire(p);
        portbar_yield(i);
    }
    portbar_yield(portbar_twice(n));
}
"""
    assert pruned([header], "meet(p, 1);") == [
        """\
#define portbar_twice(x) ((x) * 2)
static inline void meet(int *p, int n)
{
    /* Calls portbar_add(p). */
    for (int i = 0; i < n; ++i)
        ((void)(i));
    for (int i = (n + 1); i; --i) {
        ((void)portbar_load(p + portbar_add_more(p, 1u)));
        (void)portbar_load(p);
    }
    ((void)(portbar_twice(n)));
}
"""
    ]
    other = "#define portbar_count(number, limit) (number + limit)\n"
    assert "portbar_count(n, 5)" in pruned([header, other], "meet(p, 1);")[0]


def lines_of(source: str, target: str, **choices: Choice) -> list[str]:
    """The lines of the headers that a program compiles; `choices` are those that the target's strategy does not make."""
    return lines_for(source, replace(strategy_for(BY_NAME[target]), **choices))


def lines_for(source: str, strategy: Strategy) -> list[str]:
    """The lines of the headers that a program compiles with a strategy."""
    text = resolve_includes(source, strategy, use=use_of(source))
    assert text.count("diagnostic push") == text.count("diagnostic pop")
    return text.partition('#line 1 "portbar/')[2].rpartition('#line 1 "program.cl"')[0].splitlines()[1:]


@pytest.mark.parametrize("target", BY_NAME)
@pytest.mark.parametrize("kind", ["int", "uint", "ulong", "float"])
def test_one_atomic_operation_compiles_under_300_lines(target, kind):
    for order in ("relaxed", "seq_cst"):
        lines = lines_of(ADD.replace("KIND", kind).replace("ORDER", order), target)
        assert 40 < len(lines) < 300


@pytest.mark.parametrize("target", BY_NAME)
@pytest.mark.parametrize("kind", ["int", "uint", "ulong", "float"])
@pytest.mark.parametrize(("lanes", "most"), [("tree", 130), ("shuffle", 285), ("sub_group", 150)])
def test_one_work_group_sum_compiles_for_its_type_alone(target, kind, lanes, most):
    lines = lines_of(SUM.replace("KIND", kind), target, reduction=Choice(lanes, "for its text"))
    assert 40 < len(lines) < most
    assert "\n".join(lines).count("portbar_work_group_reduce_add(private") == 1


@pytest.mark.parametrize("target", BY_NAME)
def test_a_device_barrier_compiles_no_split_form_and_no_waits(target):
    lines = lines_of(BARRIER, target)
    code = [line for line in without_comments("\n".join(lines)).splitlines() if line.strip()]
    # Barriers that are tuned for NVIDIA's memory measure where to count.
    assert len(lines) < (485 if strategy_for(BY_NAME[target]).atomics.value == "ptx" else 330)
    assert not re.search(r"test_wait|portbar_device_token|atomic_wait|_TREE", "\n".join(code))


@pytest.mark.parametrize("record", [name for name in shipped() if not name.startswith("published--")])
def test_a_device_barrier_compiles_under_350_lines_with_what_a_device_needs(record):
    [device] = find(record).record["devices"]
    facts = DeviceFacts.from_json(device["facts"])
    strategy = choose(DeviceProfile(facts, Findings.from_json(device["findings"])))
    if "CPU" in facts.type:
        strategy = strategy.with_capabilities(yield_by="syscall")
    lines = lines_for(BARRIER, strategy)
    assert 300 < len(lines) < (540 if strategy.atomics.value == "ptx" else 350)


@pytest.mark.parametrize("target", BY_NAME)
@pytest.mark.parametrize("algorithm", bounded())
def test_no_device_barrier_compiles_much_more_than_the_simplest(target, algorithm):
    strategy = strategy_for(replace(BY_NAME[target], device_barrier=algorithm))
    text = resolve_includes(BARRIER, strategy).partition('#line 1 "portbar/')[2].rpartition('#line 1 "program.cl"')[0]
    assert 300 < text.count("\n") < (590 if strategy.atomics.value == "ptx" else 445)


@pytest.mark.parametrize("target", BY_NAME)
def test_every_header_can_be_read(target):
    for name in header_names():
        text = render_header(name, strategy_for(BY_NAME[target]))
        (rest,) = pruned([text], "int nothing;")
        # A shell of a header, and those of the headers that it needs.
        shells = len(re.findall(r"^#ifndef PORTBAR_\w+_H$", rest, re.MULTILINE))
        assert len(rest.splitlines()) < 20 * max(2, shells)
        assert without_comments(rest).count("#if") == without_comments(rest).count("#endif")


#: A function's name and parameters in a rendered header.
FUNCTION = re.compile(
    r"^(?:static inline|PORTBAR_(?:RAW|ATOMIC|COLLECTIVE|MEMBER)\b)[\w ()*,]*?[\s*](portbar_\w+)\(([^()]*)\)",
    re.MULTILINE,
)
#: Parameters that must be constants.
CONSTANTS = {
    "order": "memory_order_relaxed",
    "success": "memory_order_relaxed",
    "failure": "memory_order_relaxed",
    "scope": "memory_scope_work_group",
    "flags": "CLK_GLOBAL_MEM_FENCE",
    "copies_left": "0",
}


def callers(text: str) -> dict[str, str]:
    """For each function of a header a source that calls all its overloads with variables of their parameters' types."""
    found: dict[str, list[str]] = defaultdict(list)
    for name, parameters in FUNCTION.findall(without_comments(text)):
        made = [" ".join(part.split()) for part in parameters.split(",") if part.split() != ["void"]]
        names = [re.findall(r"\w+", part)[-1] for part in made]
        taken = ", ".join(part for part, own in zip(made, names, strict=True) if own not in CONSTANTS) or "void"
        given = ", ".join(CONSTANTS.get(own, own) for own in names)
        caller = f"void use_{len(found[name])}({taken}) {{ (void){name}({given}); }}"
        if not any(caller.split("(", 1)[1] == other.split("(", 1)[1] for other in found[name]):
            found[name].append(caller)
    return {name: "\n".join(made) + "\n" for name, made in found.items()}


def refusals(texts: dict[str, str], target: str, folder: Path) -> str:
    """Return clang's errors for texts, without warnings."""
    options = ["-Werror=implicit-function-declaration", "-w", "-Xclang", "-fdeclare-opencl-builtins"]
    return complaints(BY_NAME[target], texts, folder, *options)[:3000]


@pytest.mark.parametrize("target", BY_NAME)
@pytest.mark.parametrize("header", [name for name in header_names() if name not in {"reduction", "scan"}])
def test_every_function_compiles_alone(target, header, tmp_path):
    """Each with all its overloads, called as exactly as they are declared."""
    if clang() is None:
        pytest.skip("no clang is installed")
    strategy = strategy_for(BY_NAME[target])
    include = f'#include "portbar/{header}.h"\n'
    found = callers(render_header(header, strategy))
    # Those of atomics.h, which other headers hold, have their own turn.
    others = callers(render_header("atomics", strategy)) if header != "atomics" else {}
    mine = {name: source for name, source in found.items() if name not in others}
    assert len(mine) > 5
    texts = {name: resolve_includes(include + source, strategy) for name, source in mine.items()}
    with proof(repr(BY_NAME[target]), *texts.values(), version(str(clang()), "--version")):
        assert not refusals(texts, target, tmp_path)


@pytest.mark.parametrize("level", ["sub_group", "work_group", "device"])
@pytest.mark.parametrize("what", ["reduce", "scan_inclusive", "scan_exclusive", "broadcast"])
def test_every_reduction_compiles_alone(level, what, tmp_path):
    if clang() is None:
        pytest.skip("no clang is installed")
    strategy = strategy_for(BY_NAME["gfx90a c11"])
    stem = f"portbar_{level}_{what}"
    headers = '#include "portbar/device_barrier.h"\n#include "portbar/reduction.h"\n'
    names = [name for name in callers(render_header("reduction", strategy)) if name.startswith(stem)]
    assert names
    texts = {}
    for name in names:
        use = use_of(headers + f"{name}(")
        source = headers + callers(render_header("reduction", strategy, use))[name]
        texts[name] = resolve_includes(source, strategy, use=use)
    assert not refusals(texts, "gfx90a c11", tmp_path)
