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
from portbar.errors import RenderError
from portbar.primitives import headers
from portbar.primitives.grid import bounded
from portbar.primitives.headers import header_names, render_header, resolve_includes
from portbar.primitives.strategy import Choice, Strategy
from portbar.reading.used import used_by
from portbar.records.files import find, shipped
from portbar.rendering.parts import Def, parts_in, written
from portbar.rendering.pruning import reached
from portbar.rendering.source import without_comments
from tests.gpu_code import TARGETS, clang, complaints, strategy_for
from tests.kept import proof, version
from tests.reading.trees import use_of

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
<%def name="header()">
${defines()}
#pragma always

${group()}
/* Shared by both. */
${defines("ONE")}
#define ONE 1
${defines("TWO")}
#define TWO 2
${end()}

${defines("UNUSED")}
/* Not used by anything. */
#define UNUSED 3

${defines("OVERLOAD")}
#define OVERLOAD static inline __attribute__((overloadable))

${group()}
#ifdef ONLY_SOMETIMES
${feature("ONLY_SOMETIMES_TWICE")}
${end()}
#endif
${group()}
#if ONE > 0
${defines("outer")}
/* Calls { another } by "name", not UNUSED. */
static inline int outer(int x)
{
    /* } UNUSED */
    return inner(x, ") UNUSED") + TWO;
}
${end()}
#endif

${defines("inner")}
static inline int inner(int x, constant char *text) { return x; }

% for kind in ("global int", "global char", "local int"):
${group()}
/* One of several. */
${defines("pick", of=f"{kind} *")}
OVERLOAD int pick(${kind} *p)
{
    return *p;
}
${end()}
% endfor
% for kind in ("int", "long", "float"):
${defines("value", of=kind)}
OVERLOAD int value(${kind} x) { return (int)x; }
% endfor

${defines("thing")}
/* An object. */
typedef struct {
    int member;
% if reached("extra"):
    int extra;
% endif
} thing;
${defines("extra_of")}
static inline int extra_of(thing *x) { return x->extra; }
${defines("FIRST", "SECOND")}
enum { FIRST = 0, SECOND };
</%def>
"""


@pytest.fixture
def kept(tmp_path):
    """The text of a template that a source reaches."""

    def of(source: str, *options: str, template: str = HEADER) -> str:
        path = tmp_path / "header.mako"
        path.write_text(template)
        used = used_by(source, tuple(options))
        assert used is not None
        [parts], live = reached([[Def(str(path), "header", {})]], used)
        return written(parts, live)

    return of


def test_unused_parts_are_gone_with_their_comments_and_empty_groups(kept):
    assert kept("int f(void) { return ONE; }") == "#pragma always\n\n/* Shared by both. */\n#define ONE 1\n"


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ("outer(1)", {"outer", "inner", "ONE", "TWO"}),
        ("inner(1)", {"inner"}),
        ("thing t;", {"thing"}),
        ("thing t; extra_of(&t);", {"thing", "extra_of", "extra"}),
        ("SECOND", {"FIRST", "SECOND"}),
        ("#ifdef ONLY_SOMETIMES_TWICE", {"ONLY_SOMETIMES_TWICE"}),
        ("nothing", set()),
        ("/* outer */", set()),
    ],
)
def test_used_parts_are_kept_with_what_they_need(kept, source, names):
    text = without_comments(kept(source), keep_strings=False)
    known = (
        "outer",
        "inner",
        "ONE",
        "TWO",
        "UNUSED",
        "thing",
        "extra",
        "extra_of",
        "FIRST",
        "SECOND",
        "ONLY_SOMETIMES_TWICE",
    )
    assert {name for name in known if re.search(rf"\b{name}\b", text)} == names
    assert text.count("#if") == text.count("#endif")


def test_a_group_keeps_the_macros_of_its_condition(kept):
    text = kept("outer")
    assert "#if ONE > 0" in text
    assert "#define ONE 1" in text


@pytest.mark.parametrize("option", ["-DX=outer", "-D X=outer", "-Douter=1", "-DX(y)=outer(y)"])
def test_options_name_something_too(kept, option):
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
    whole = render_header("lock", strategy_for(BY_NAME["gfx90a c11"]))
    text = resolve_includes(f'#include "portbar/lock.h"\n{source}\n', strategy_for(BY_NAME["gfx90a c11"]))
    assert set(re.findall(r"portbar_\w+", without_comments(whole))) <= set(re.findall(r"portbar_\w+", text))


@pytest.mark.parametrize(
    ("text", "message"),
    [("${group()}\n", r"a group\(\) without end\(\)"), ("${end()}\n", r"end\(\) without a group\(\)")],
)
def test_groups_begin_and_end(kept, text, message):
    with pytest.raises(RenderError, match=message):
        kept("", template=f'<%def name="header()">\n{text}</%def>\n')


def test_a_template_without_parts_stays_whole(kept):
    assert kept("", template='<%def name="header()">\n#define X 1\n</%def>\n') == "#define X 1\n"


def test_a_reached_name_may_reach_more(kept):
    template = """\
<%def name="header()">
${defines("A")}
#define A ${"B" if reached("C") else 0}
${defines("B")}
#define B ${"D" if reached("D") else 1}
${defines("E")}
#define E C
</%def>
"""
    assert kept("A", template=template) == "#define A 0\n"
    assert kept("A E", template=template) == "#define A B\n#define B 1\n#define E C\n"
    assert kept("A C D", template=template) == "#define A B\n#define B D\n"


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
        ("kernel void k(global int *p) { value(M_PI_F * p[0]); }", {"int x", "long x", "float x"}),
        ("kernel void k(global int *p) { value(p[0] ? M_PI : 0); }", {"int x", "long x", "float x"}),
        ("kernel void k(global int *p) { value(p[0] ? INFINITY : 0); }", {"int x", "long x", "float x"}),
        ("kernel void k(global int *p) { value(FLT_EPSILON > p[0]); }", {"int x", "long x", "float x"}),
        ("kernel void k(global int *p) { value(0x3p-1f * p[0]); }", {"int x", "long x", "float x"}),
        ("kernel void k(image2d_t i, int2 p) { value(read_imagef(i, p).x); }", {"int x", "long x", "float x"}),
        ("kernel void k(global int *p) { value(unknown(p)); }", {"int x", "long x", "float x"}),
        ("uint mine(uint x) { return x; } kernel void k(global int *p) { value(mine(3)); }", {"int x", "long x"}),
    ],
)
def test_overloads_stay_unless_no_argument_can_be_of_their_type(kept, source, parameters):
    assert set(re.findall(r"OVERLOAD int (?:pick|value)\((.*?)\)", kept(source))) == parameters


def test_overloads_share_their_comment(kept):
    assert kept("char c; local pick").count("OVERLOAD int pick") == 3
    assert kept("char c; local pick").count("/* One of several. */") == 1


def test_headers_of_one_program_keep_what_they_need_of_each_other(tmp_path):
    texts = HEADER, '<%def name="header()">\n${defines("DEEPER")}\n#define DEEPER outer(1)\n</%def>\n'
    defs = []
    for number, text in enumerate(texts):
        path = tmp_path / f"header_{number}.mako"
        path.write_text(text)
        defs.append([Def(str(path), "header", {})])
    used = used_by("DEEPER")
    assert used is not None
    (first, second), live = reached(defs, used)
    assert "int outer(" in written(first, live)
    assert written(second, live) == "#define DEEPER outer(1)\n"


@pytest.mark.parametrize("target", BY_NAME)
def test_every_part_defines_what_its_text_names(target):
    for name in header_names():
        for made in headers.rendered_with(name, strategy_for(BY_NAME[target])):
            for part in parts_in(made.parts()):
                # Extensions alone stay always.
                assert part.names or "#pragma OPENCL EXTENSION" in part.text, part.text
                # A contract's part is a comment; PORTBAR_SLOT pastes the names of its types.
                named = set(part.names) - ({"PORTBAR_SLOT"} if part.of else set())
                assert named <= part.words or not part.words, part.text


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
@pytest.mark.parametrize(("lanes", "most"), [("tree", 140), ("shuffle", 292), ("sub_group", 158)])
def test_one_work_group_sum_compiles_for_its_type_alone(target, kind, lanes, most):
    lines = lines_of(SUM.replace("KIND", kind), target, reduction=Choice(lanes, "for its text"))
    assert 40 < len(lines) < most
    assert "\n".join(lines).count("portbar_work_group_reduce_add(private") == 1


@pytest.mark.parametrize("target", BY_NAME)
def test_a_device_barrier_compiles_no_split_form_and_no_waits(target):
    lines = lines_of(BARRIER, target)
    code = [line for line in without_comments("\n".join(lines)).splitlines() if line.strip()]
    # Barriers that are tuned for NVIDIA's memory measure where to count.
    assert len(lines) < (510 if strategy_for(BY_NAME[target]).atomics.value == "ptx" else 365)
    assert not re.search(r"test_wait|portbar_device_token|atomic_wait|_TREE", "\n".join(code))


@pytest.mark.parametrize("record", [name for name in shipped() if not name.startswith("published--")])
def test_a_device_barrier_compiles_under_390_lines_with_what_a_device_needs(record):
    [device] = find(record).record["devices"]
    facts = DeviceFacts.from_json(device["facts"])
    if device["status"] == "refused":
        pytest.skip("portbar refuses the device")
    strategy = choose(DeviceProfile(facts, Findings.from_json(device["findings"])))
    if "CPU" in facts.type:
        strategy = strategy.with_units(instructions=strategy.units.instructions | {"yield"})
    lines = lines_for(BARRIER, strategy)
    # Counters in slots come with what chooses a slot.
    has_slots = strategy.atomics.value == "ptx" or strategy.device_barrier.value == "replicated"
    assert 300 < len(lines) < (570 if has_slots else 390)


@pytest.mark.parametrize("target", BY_NAME)
@pytest.mark.parametrize("algorithm", bounded())
def test_no_device_barrier_compiles_much_more_than_the_simplest(target, algorithm):
    strategy = strategy_for(replace(BY_NAME[target], device_barrier=algorithm))
    text = resolve_includes(BARRIER, strategy).partition('#line 1 "portbar/')[2].rpartition('#line 1 "program.cl"')[0]
    assert 300 < text.count("\n") < (590 if strategy.atomics.value == "ptx" else 460)


@pytest.mark.parametrize("target", BY_NAME)
@pytest.mark.parametrize("header", header_names())
def test_nothing_of_a_header_stays_for_a_program_that_uses_nothing(target, header):
    lines = lines_of(f'#include "portbar/{header}.h"\nint nothing;\n', target)
    code = [line for line in without_comments("\n".join(lines)).splitlines() if line.strip()]
    # Its guard, and extensions that the compiler is to know.
    assert len([line for line in code if "#pragma OPENCL" not in line]) < 12


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
