"""Headers without a source: short, narrow, each once, and compiled to what a `Program` compiles."""

from __future__ import annotations

import itertools
import re
from dataclasses import replace

import pytest

from portbar.backends.backend import BACKENDS
from portbar.backends.ptx_base import Nvidia
from portbar.choices.strategy import choose
from portbar.errors import UnsupportedFeatureError
from portbar.launching import export
from portbar.primitives.headers import header_names, render_header, whole_headers
from portbar.primitives.strategy import Choice
from portbar.rendering.folding import COLUMNS, folded, narrow
from tests.docs.pages import DOCS
from tests.export.test_c_host import ABSENT, PROFILES
from tests.gpu_code import READ_ONLY, TARGETS, calls, clang, compiled, compiled_alone, strategy_for

#: Lines of headers with a limit of their own; all others have one together.
MOST_LINES = {"signal": 250, "worklist": 550, "task_graph": 320, "team": 1_100, "run_kernels": 120}
NAMES = tuple(name for name in header_names() if name != "reduction")
SPLITS = ("uniform", "counter")
LOCKS = """kernel void locks(global portbar_spin_lock *spin, global portbar_ticket_lock *ticket, global uint *out)
{
    if (portbar_spin_lock_acquire(spin) && portbar_ticket_lock_acquire(ticket))
        out[0] += 1u;
    portbar_ticket_lock_release(ticket);
    portbar_spin_lock_release(spin);
}
"""


def source_of(strategy) -> str:
    parts = ['#include "portbar/lock.h"\n#include "portbar/atomics.h"\n', LOCKS]
    for kind, space in itertools.product(strategy.capabilities.atomics_table.offered(), ("global", "local")):
        body = "\n    ".join(calls(kind.name, "device"))
        parts.append(
            f"kernel void {kind.name}_{space}({space} {kind.name} *p, {kind.name} v, global {kind.name} *out)\n"
            f"{{\n    {body}\n}}\n"
        )
    return "".join(parts)


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_all_headers_together_are_short_and_narrow(target):
    strategy = strategy_for(target)
    if isinstance(BACKENDS[target.atomics], Nvidia):
        # Generic pointers are tried with clang only: no strategy by PTX offers them.
        table = replace(strategy.capabilities.atomics_table, spaces=("global", "local"))
        strategy = strategy.with_capabilities(atomics_table=table)
    for split in {target.split_barrier, *SPLITS}:
        texts = whole_headers(NAMES, replace(strategy, split_barrier=Choice(split, "test")))
        lengths = {name: text.count("\n") for name, text in texts.items()}
        # Votes and loops over a grid, with those over static tiles, have about 310 lines; all else stays below 2,560.
        assert sum(length for name, length in lengths.items() if name not in MOST_LINES) <= 2_870, lengths
        assert all(lengths[name] <= most for name, most in MOST_LINES.items()), lengths
        lines = [line for text in texts.values() for line in text.splitlines()]
        assert max(map(len, lines)) <= COLUMNS
        assert not any("{* " in line or "/*{" in line for line in lines)


@pytest.mark.parametrize("name", PROFILES)
def test_the_page_says_how_many_lines_there_are(name):
    page = (DOCS / "c_and_cpp.md").read_text(encoding="utf-8")
    strategy = choose(PROFILES[name])
    without, reductions = (int(said.replace(",", "")) for said in re.findall(r"some ([\d,]+) lines\b", page)[:2])
    texts = whole_headers(NAMES, strategy)
    assert without == pytest.approx(sum(text.count("\n") for text in texts.values()), rel=0.05)
    whole = render_header("reduction", strategy).count("\n") - render_header("atomics", strategy).count("\n")
    assert reductions == pytest.approx(whole, rel=0.15)


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_they_compile_to_what_a_program_compiles(target, tmp_path):
    if clang() is None:
        pytest.skip("no clang, which compiles for devices that are not here")
    strategy = strategy_for(target)
    (tmp_path / "portbar").mkdir()
    for name, text in whole_headers(NAMES, strategy).items():
        (tmp_path / "portbar" / f"{name}.h").write_text(text, encoding="utf-8")
    source = source_of(strategy)
    # Compared as clang reads them, before it optimises.
    expected = compiled(target, source, tmp_path, *READ_ONLY)
    assert code_of(compiled_alone(target, source, tmp_path, *READ_ONLY, f"-I{tmp_path}")) == code_of(expected)


def code_of(assembly: str) -> list[str]:
    """Return what does not depend on where a text came from."""
    return [line for line in assembly.splitlines() if not re.search(r"^\s*[;/#!]|in\.cl|\.(?:file|loc|ident)\b", line)]


def test_one_text_of_several_headers_has_each_once_and_includes_nothing(monkeypatch):
    monkeypatch.setattr(export, "describe", lambda _: PROFILES["measured"])
    text = export.render(ABSENT, ("split_barrier", "lock", "atomics"))
    assert re.findall(r"^#define PORTBAR_(\w+)_H$", text, re.MULTILINE) == ["ATOMICS", "SPLIT_BARRIER", "LOCK"]
    assert "#include" not in text


@pytest.mark.parametrize(
    "sources",
    [(), ('#include "portbar/lock.h"\nkernel void k(global portbar_spin_lock *l) { portbar_spin_lock_release(l); }',)],
)
def test_exported_headers_include_each_other(monkeypatch, tmp_path, sources):
    monkeypatch.setattr(export, "describe", lambda _: PROFILES["measured"])
    export.export(ABSENT, tmp_path, sources=sources)
    text = (tmp_path / "portbar" / "lock.h").read_text(encoding="utf-8")
    assert text.count('#include "portbar/atomics.h"\n') == 1
    assert "#define PORTBAR_ATOMICS_H" not in text
    assert "#define PORTBAR_ATOMICS_H" in (tmp_path / "portbar" / "atomics.h").read_text(encoding="utf-8")


def test_reductions_are_written_for_the_kernels_that_use_them(monkeypatch, tmp_path):
    monkeypatch.setattr(export, "describe", lambda _: PROFILES["measured"])
    with pytest.raises(UnsupportedFeatureError, match="portbar export --source"):
        export.render(ABSENT, "reduction")
    export.export(ABSENT, tmp_path)
    text = (tmp_path / "portbar" / "reduction.h").read_text(encoding="utf-8")
    assert text.startswith("#error portbar: portbar/reduction.h is rendered for the kernels that use it")


def test_blocks_that_differ_in_types_only_become_one_macro():
    block = "/*{{ LOADS */\n{0} load(global {0} *p)\n{{\n    return as_{0}(*({1} *)p);\n}}\n/*}} */\n"
    text = folded(block.format("int", "uint") + block.format("long", "ulong") + "/*{ ALONE */\nint alone;\n/*} */\n")
    head, body, uses = text.partition("#define PORTBAR_DEFINE_LOADS(TYPE, CAST, BITS) \\\n")
    assert (head, body[:7]) == ("", "#define")
    assert uses == (
        "TYPE load(global TYPE *p) \\\n{ \\\n    return CAST(*(BITS *)p); \\\n}\n"
        "PORTBAR_DEFINE_LOADS(int, as_int, uint)\nPORTBAR_DEFINE_LOADS(long, as_long, ulong)\nint alone;\n"
    )


def test_long_lines_are_broken_where_the_compiler_reads_the_same():
    words = "word " * 40
    text = narrow(
        f'/* {words}*/\n#define A(x) f({", ".join(["x"] * 50)})\nint a = f("{words}");\nint b = {" + ".join(["1"] * 60)};\n'
    )
    assert max(map(len, text.splitlines())) <= COLUMNS
    strings = "".join(re.findall(r'"([^"]*)"', text))
    assert strings == words
    macro = text[text.index("#define") : text.index("int a")].rstrip("\n").split("\n")
    assert all(line.endswith("\\") for line in macro[:-1])
    assert not macro[-1].endswith("\\")
    assert text.count("1") == 60
