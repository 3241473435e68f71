"""Rendering: templates that cannot be filled in say where, and includes keep the author's line numbers."""

from __future__ import annotations

import itertools
import re
import shutil
import subprocess
from dataclasses import replace
from types import SimpleNamespace

import pytest

from portbar.arrays import plan
from portbar.choices.strategy import ALTERNATIVES
from portbar.device import quirks
from portbar.errors import RenderError
from portbar.primitives import headers as rendering
from portbar.primitives.headers import header_names, render_header, resolve_includes
from portbar.primitives.strategy import Choice, Strategy
from portbar.rendering import templates
from portbar.rendering.source import without_comments
from tests.checkout import ROOT

PLAIN = Strategy(Choice("c11", "test"), Choice("packed", "test"), Choice("counter", "test"))
INCLUDE = '#include "portbar/device_barrier.h"'

BROKEN = """\
## -*- coding: utf-8 -*-
<%def name="fine()">
int fine;
</%def>
<%def name="bad()">
int first;
int ${missing};
</%def>
<%def name="after()">
int after;
</%def>
"""


@pytest.fixture
def broken(monkeypatch):
    """Let `test/broken.mako` be the template above."""
    monkeypatch.setattr(templates, "_source", lambda _: BROKEN)
    templates._template.cache_clear()
    yield "test/broken.mako"
    templates._template.cache_clear()


def test_backends_own_the_assembly_and_workarounds_the_quirks():
    """Elsewhere templates know neither; lines are short, and each backend says once what an operation is."""
    effects = ("ids_lost", "joins_lost", "copies_shared", "leader_forgotten", "fences_are_barriers")
    names = [quirk.name for quirk in quirks.table()]
    banned = {
        **dict.fromkeys(header_names(), ("__asm__",)),
        **dict.fromkeys(("reduction", "split_barrier"), ("__asm__", *effects)),
        **dict.fromkeys(("grid", "device_barrier", "discovery"), ("__asm__", "in_registers", *names)),
    }
    for folder, words in banned.items():
        for path in (ROOT / "cl_templates" / folder).rglob("*.mako"):
            text = path.read_text(encoding="utf-8")
            assert not [word for word in words if word in text], path
            assert "in_registers" not in words or max(map(len, text.splitlines())) <= 120, path
    for backend in ("ptx", "membar", "c11", "cl12"):
        text = (ROOT / "cl_templates" / "backend" / f"{backend}.mako").read_text(encoding="utf-8")
        assert text.count('<%def name="operation(') == 1
        atomics, _, of_barriers = text.partition('<%def name="word_acquire()">')
        assert bool(of_barriers) == (backend == "ptx")
        assert "portbar_word_load" not in atomics


@pytest.mark.parametrize("folder", [*(name for name in header_names() if name != "device_barrier"), "host", "backend"])
def test_no_comment_of_the_rendered_text_has_a_branch(folder):
    for path in (ROOT / "cl_templates" / folder).rglob("*.mako"):
        comments = re.findall(r"/\*.*?\*/", path.read_text(encoding="utf-8"), re.DOTALL)
        assert not [comment for comment in comments if re.search(r"\$\{[^}]* if ", comment)], path


def test_an_undefined_name_is_an_error_that_shows_the_failing_def_numbered(broken):
    with pytest.raises(RenderError) as caught:
        templates.render_def(broken, "bad", {"other": 1, "another": 2})
    message = str(caught.value)
    assert "'bad'" in message
    assert broken in message
    assert "missing" in message.splitlines()[0]
    assert re.search(r"^\s*5 \| <%def name=\"bad\(\)\">$", message, re.MULTILINE)
    assert re.search(r"^\s*7 \| int \$\{missing\};$", message, re.MULTILINE)
    assert "int fine" not in message
    assert "int after" not in message
    assert "another, other" in message


def test_a_def_that_does_not_exist_is_named(broken):
    with pytest.raises(RenderError, match=r"broken\.mako.*no def 'nothing'"):
        templates.render_def(broken, "nothing", {})


def test_a_template_with_a_syntax_error_is_named(monkeypatch):
    monkeypatch.setattr(templates, "_source", lambda _: '<%def name="open()">\nint a;\n')
    templates._template.cache_clear()
    with pytest.raises(RenderError, match=r"test/open\.mako"):
        templates.render_def("test/open.mako", "open", {})
    templates._template.cache_clear()


@pytest.mark.parametrize(
    "name",
    ["../secret.mako", "/etc/passwd", "grid/../grid/grid.mako", "grid/grid.mako\0", "Grid/grid.mako", "grid//grid.mako",
     "grid/grid", "grid\\grid.mako", "gr id/grid.mako", "grid/grid.mako ", "", "ü/grid.mako", "grid/${name}.mako",
     "grid/grid.mako\n"],
)  # fmt: skip
def test_a_template_name_with_odd_characters_is_refused(name):
    with pytest.raises(RenderError, match=r"not a template name"):
        templates.render_def(name, "enter", {})


def test_a_template_that_does_not_exist_is_named():
    with pytest.raises(RenderError, match=r"no template 'grid/nothing\.mako'"):
        templates.render_def("grid/nothing.mako", "enter", {})


@pytest.mark.parametrize(
    ("atomics", "discovery", "barrier"),
    [*itertools.product(ALTERNATIVES["atomics"], ALTERNATIVES["discovery"], ALTERNATIVES["device_barrier"])],
)
def test_every_combination_renders_complete_text(atomics, discovery, barrier):
    strategy = replace(
        PLAIN,
        atomics=Choice(atomics, "test"),
        discovery=Choice(discovery, "test"),
        device_barrier=Choice(barrier, "test"),
    )
    text = render_header("device_barrier", strategy)
    code = without_comments(text)
    for name in (
        "portbar_device_barrier",
        "portbar_device_barrier_arrive",
        "portbar_device_barrier_wait",
        "portbar_device_barrier_test_wait",
        "portbar_device_barrier_any",
        "portbar_device_barrier_all",
        "portbar_device_barrier_count",
        "portbar_device_barrier_sum",
        "portbar_group_id",
        "portbar_num_groups",
        "portbar_global_id",
        "portbar_global_size",
        "portbar_discover",
    ):
        assert len(re.findall(rf"^static inline .*\b{name}\(", code, re.MULTILINE)) == 1, name
    assert "#define PORTBAR_ENTER(" in code
    assert "#define PORTBAR_GRID_PARAM" in code
    assert not re.search(r"\$\{|<%|^\s*%|UNDEFINED", text, re.MULTILINE)
    assert "#include" not in code
    assert f"atomics {atomics}, discovery {discovery}, device barrier {barrier}" in text
    assert code.count("{") == code.count("}")
    assert code.count("(") == code.count(")")


@pytest.mark.parametrize("pause", ["none", "nanosleep", "x86_pause"])
def test_only_the_algorithm_with_backoff_pauses(pause):
    atomics, known = "ptx" if pause == "nanosleep" else "c11", {"pause"} if pause == "x86_pause" else set()
    usual = replace(PLAIN, atomics=Choice(atomics, "test")).with_units(instructions=frozenset(known))

    def instructions(barrier):
        strategy = replace(usual, device_barrier=Choice(barrier, "test"))
        return re.findall(r"nanosleep\.u32|\"pause\"", without_comments(render_header("device_barrier", strategy)))

    assert instructions("counter") == []
    assert len(instructions("counter_backoff")) == (pause != "none")


@pytest.mark.parametrize("discovery", ALTERNATIVES["discovery"])
def test_only_functions_that_run_once_per_launch_are_compiled_apart(discovery):
    """On processors of the host; a barrier's own functions are inlined and optimised everywhere."""
    usual = replace(PLAIN, discovery=Choice(discovery, "test"))
    apart = render_header("device_barrier", usual.with_units(once_apart=True))
    once = re.findall(r"^PORTBAR_APART \w+ (\w+)\(", apart, re.MULTILINE)
    assert {"portbar_discover", "portbar_state_prepare", "portbar_report_fault"} <= set(once)
    assert not [name for name in once if re.search("_wait_|arriv|barrier", name)]
    same = re.sub(r"/\*[^*]*\*/\n#define PORTBAR_APART .*\n\n", "", apart).replace("PORTBAR_APART", "static inline")
    assert same == render_header("device_barrier", usual)


def test_nothing_is_compiled_apart_where_all_functions_must_be_inlined():
    """An attribute `noinline` would outdo the one around the header."""
    shared = replace(PLAIN, workarounds=PLAIN.workarounds | {quirks.CALLS_SHARED}).with_units(once_apart=True)
    for name in header_names():
        assert "noinline" not in without_comments(render_header(name, shared)), name


@pytest.mark.parametrize("needed", [False, True])
def test_functions_of_operations_on_arrays_are_inlined_where_all_must_be(needed):
    """Those of a scan include no header."""
    job = SimpleNamespace(kernel="sums", text=lambda _: "static inline int twice(int a) { return 2 * a; }")
    strategy = replace(PLAIN, workarounds=PLAIN.workarounds | ({quirks.CALLS_SHARED} if needed else set()))
    assert ("always_inline" in plan._text_of(job, strategy)) is needed


def test_every_c_function_has_a_comment_before_it():
    lines = render_header("device_barrier", PLAIN).splitlines()
    functions = [i for i, line in enumerate(lines) if line.startswith("static inline")]
    assert len(functions) > 15
    for i in functions:
        # Functions without a line between them share one.
        assert lines[i - 1].rstrip().endswith("*/") or (lines[i - 1] == "}" and "portbar_word_" in lines[i]), lines[i]


@pytest.mark.parametrize("name", header_names())
def test_a_header_is_guarded_against_double_inclusion(name):
    whole = render_header(name, PLAIN)
    own = whole[whole.index(f"/* portbar/{name}.h:") :]
    lines = [line for line in without_comments(own).splitlines() if line.strip()]
    assert lines[0] == f"#ifndef PORTBAR_{name.upper()}_H"
    assert lines[1] == f"#define PORTBAR_{name.upper()}_H"
    assert lines[-1].split() == ["#endif"]
    text = resolve_includes(f'#include "portbar/{name}.h"\n' * 2, PLAIN)
    assert text.count(f"#ifndef PORTBAR_{name.upper()}_H") == 2


@pytest.mark.parametrize(
    "source",
    [
        f"one\n{INCLUDE}\nthree\nfour\n",
        f"{INCLUDE}\ntwo",
        f"/* a\n b */ int c;\n\n{INCLUDE} // why\nfive\n{INCLUDE}\nseven\n",
        f"one\n{INCLUDE}",
        "one\ntwo\n",
        f"one\r\n{INCLUDE}\r\nthree\r\n",
        f"{INCLUDE} /* begun here\nended there */ int two;\nthree\n",
        f"/* begun here\nended there */ {INCLUDE} /* and\nagain */\nfour\n",
    ],
)
def test_the_author_s_lines_keep_their_numbers(source):
    """Follow the directives as a compiler does: each line of the author's must come out at its own number."""
    here: dict[int, str] = {}
    number, file = 1, ""
    for line in resolve_includes(source, PLAIN, name="mine.cl").replace("\r", "").split("\n"):
        directive = re.match(r'#line (\d+) "(.*)"$', line)
        if directive:
            number, file = int(directive[1]), directive[2]
            continue
        if file == "mine.cl":
            here[number] = line
        number += 1
    for number, line in enumerate(source.replace("\r", "").split("\n"), start=1):
        assert here.get(number, "").strip() in (line.replace(INCLUDE, "").strip(), line.partition(INCLUDE)[2].strip())


@pytest.mark.parametrize(
    "opening",
    ["#if 0", "#ifdef NEVER", "#if 1\n#elif 1", "#if 0 /* two\nlines */", "#if 0\n#if 1\n#endif", "#if \\\n0"],
)
@pytest.mark.parametrize(
    "closing", ["#endif", "#endif /* two\nlines */", "#else\n#endif", "#elif 1\n#endif //", "#endif \\\n"]
)
def test_an_include_that_is_not_compiled_keeps_the_author_s_lines(opening, closing):
    """A compiler ignores directives where it skips text, so #line is repeated after it."""
    compiler = shutil.which("cpp")
    if compiler is None:
        pytest.skip("no C preprocessor (cpp) is installed")
    source = f"one\n{opening}\n  {INCLUDE} // why\n{closing}\nint here;\n{INCLUDE}\nint there;\n"
    text = resolve_includes(source, PLAIN, name="mine.cl")
    ran = subprocess.run([compiler, "-undef"], input=text, capture_output=True, text=True, check=True)
    number, file, found = 0, "", {}
    for line in ran.stdout.splitlines():
        if directive := re.match(r'# (\d+) "(.*?)"', line):
            number, file = int(directive[1]), directive[2]
            continue
        if file == "mine.cl" and line:
            found[line] = number
        number += 1
    written = source.split("\n")
    assert found == {line: written.index(line) + 1 for line in ("one", "int here;", "int there;")}


def test_includes_in_comments_and_of_other_files_are_left_alone():
    source = f'// {INCLUDE}\n/*\n{INCLUDE}\n*/\n#include "mine.h"\n#include <portable/x.h>\n'
    assert resolve_includes(source, PLAIN, name="mine.cl") == f'#line 1 "mine.cl"\n{source}'


@pytest.mark.parametrize("name", ['odd"name.cl', "back\\slash.cl", "two\nlines.cl"])
def test_a_file_name_cannot_break_out_of_its_directive(name):
    first, rest = resolve_includes("int a;\n", PLAIN, name=name).split("\n", 1)
    assert re.fullmatch(r'#line 1 "[^"\\]*"', first)
    assert rest == "int a;\n"


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ("device_barier", "did you mean portbar/device_barrier.h? Headers: "),
        ("devicebarrier", "did you mean portbar/device_barrier.h"),
        ("Device_Barrier", "did you mean portbar/device_barrier.h"),
        ("barrier", "did you mean portbar/device_barrier.h"),
        ("atomic", "did you mean portbar/atomics.h"),
        ("graph", "did you mean portbar/task_graph.h"),
        ("lok", "did you mean portbar/lock.h"),
        ("qwxz", "header 'qwxz'. Headers: "),
    ],
)
def test_an_unknown_header_names_the_line_and_what_was_meant_or_there_is(wrong, told):
    with pytest.raises(RenderError) as caught:
        resolve_includes(f'int a;\n\n  #include "portbar/{wrong}.h"\n', PLAIN, name="mine.cl")
    for word in ("mine.cl, line 3", f"portbar/{wrong}.h", "portbar/device_barrier.h"):
        assert word in str(caught.value)
    assert ("did you mean" in str(caught.value)) == (wrong != "qwxz")
    with pytest.raises(RenderError) as caught:
        render_header(wrong, PLAIN)
    assert told in str(caught.value)


def test_no_def_hides_a_name_that_its_template_is_given():
    for header in rendering.HEADERS.values():
        for template in {template for template, _ in header.pieces(PLAIN)}:
            assert not set(templates._template(template).list_defs()) & set(header.context(PLAIN)), template
