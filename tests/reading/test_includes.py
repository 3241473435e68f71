"""Included files: a program's text has them where a compiler finds them, with their own files and lines."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from models.weak_memory.programs import clang
from portbar.reading.includes import whole_text
from portbar.reading.options import lasting_options
from portbar.reading.places import Places
from tests.reading.support import HIDDEN, Generator, preprocessed

CLANG = clang()
needs_clang = pytest.mark.skipif(CLANG is None, reason="no clang: Debian's package `clang` brings it")


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(folder: Path, **files: str | bytes) -> None:
    """Write files, whose names have `__` for a folder."""
    for name, text in files.items():
        path = folder / f"{name.replace('__', '/')}.h"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode() if isinstance(text, str) else text)


def code(text: str) -> list[str]:
    """The lines of code."""
    return [line.strip() for line in text.split("\n") if line.strip() and not line.lstrip().startswith("#")]


@needs_clang
@pytest.mark.parametrize("seed", range(8))
def test_a_compiler_finds_the_same_code_at_the_same_places(seed, here):
    made = Generator(seed, here)
    program = made.program()
    whole = whole_text(program, "program.cl", None, made.options)
    macros = [option for option in made.options if option.startswith("-D")]
    bare = here / "bare"
    bare.mkdir()
    for hidden in ([], [f"-D{HIDDEN[seed % 2]}={seed % 3}"]):
        with_files = preprocessed(CLANG, here, program, [*made.options, *hidden])
        assert preprocessed(CLANG, bare, whole, [*macros, *hidden]) == with_files, f"seed {seed}, {hidden}"


def test_files_are_found_in_the_order_of_drivers(here):
    write(
        here,
        own="cwd",
        a__own="a",
        b__own="b",
        b__deep__own="deep",
        b__deep__next='#include "own.h"',
        kernels__own="beside",
    )
    both = ["-I", "a", "-Ib"]
    cases = [
        ('#include "own.h"', None, both, "cwd"),
        ("#include <own.h>", None, both, "a"),
        ("#include <own.h>", None, [], "cwd"),
        ('#include "own.h"', here / "kernels", both, "beside"),
        ("#include <own.h>", here / "kernels", ['-I "b" -I a'], "b"),
        ('#include "deep/next.h"', None, both, "deep"),
        (f'#include "{here}/b/own.h"', None, [], "b"),
    ]
    for source, folder, options, wanted in cases:
        assert code(whole_text(source, "program.cl", folder, options)) == [wanted], (source, folder, options)


def test_messages_name_the_author_s_file_and_line(here):
    write(here, inc__own="first\nsecond", inc__deep__more='\n\n#include "most.h"\nlast', inc__deep__most="most\n")
    source = (
        '#include "own.h" /* two\nlines */\nx\n#include "deep/more.h"\n#line 70 "grammar.y"\ny\n#include <own.h>\nz'
    )
    text = whole_text(source, "program.cl", None, ["-I", "inc"])
    places = Places(text, "program.cl")
    found = {line: places[number] for number, line in enumerate(text.split("\n"), 1)}
    assert found["x"] == ("program.cl", 3)
    assert found["last"] == ("inc/deep/more.h", 4)
    assert found["most"] == ("inc/deep/most.h", 1)
    assert found["second"] == ("inc/own.h", 2)
    assert found["y"] == ("grammar.y", 70)
    assert found["z"] == ("grammar.y", 72)


def test_lines_are_right_after_files_that_the_driver_skips(here):
    write(here, own="1\n2\n3\n")
    text = whole_text('#ifdef DRIVER\n#include "own.h"\n#else\na\n#endif\nb\n', "program.cl")
    assert text == (
        '#ifdef DRIVER\n#line 1 "own.h"\n1\n2\n3\n#line 2 "program.cl"\n\n#else\n#line 4 "program.cl"\na\n'
        '#endif\n#line 6 "program.cl"\nb\n'
    )


@pytest.mark.parametrize(
    "source",
    [
        '#if 0\n#include "missing.h"\n#endif\nx',
        '#ifdef DRIVER\n#include "missing.h"\n#endif\nx',
        '#include "missing.h"\nx',
        '// #include "own.h"\nx',
        '/*\n#include "own.h"\n*/ x',
        "\"\\\n#include 'own.h'\"",
        "#define X \\\n#include <own.h>\nx",
        '#define NO 1\n#if !NO || defined(OFF)\n#include "own.h"\n#endif\nx',
        '#if 0\n#if 1\n#include "own.h"\n#endif\n#elif 0\n#else\nx\n#endif',
        '#include "portbar/device_barrier.h"\nx',
        "#include SOMETHING\nx",
        "#error it's /* unfinished\nx",
        '#endif\n#else\nx\n#if 1\n#include "missing.h"',
    ],
)
def test_what_the_driver_would_not_find_or_not_look_at_stays(here, source):
    write(here, own="WRONG\n")
    assert whole_text(source, "program.cl", None, ["-UOFF"]) == source


def test_guards_end_a_recursion_and_macros_repeat_files(here):
    write(
        here,
        one='#ifndef ONE\n#define ONE\n#include "two.h"\none\n#endif\n',
        two='#pragma once\n#include "one.h"\ntwo\n',
        item="item(ITEM)\n#undef ITEM\n",
        count="#if N < 5\nstep\n#if N == 3\n#undef N\n#define N 4\n#elif N == 4\n#undef N\n#define N 5\n#endif\n"
        "#include __FILE__\n#endif\n",
    )
    assert code(whole_text('#include "two.h"\n#include "one.h"\n', "program.cl")) == ["one", "two"]
    items = '#define ITEM 1\n#include "item.h"\n#define ITEM 2\n#include "item.h"\n'
    assert code(whole_text(items, "program.cl")) == ["item(ITEM)"] * 2
    assert code(whole_text('#define N 3\n#include "count.h"', "program.cl")) == ["step"] * 2


def test_what_never_ends_is_left_for_the_driver_in_time(here):
    write(here, twice='#include "twice.h"\n#include "twice.h"\nx\n')
    begin = time.process_time()
    text = whole_text('#include "twice.h"\n', "program.cl")
    assert time.process_time() - begin < 10
    assert f'#include "{here}/twice.h"' in text


def test_macros_name_files(here):
    write(here, own="own\n")
    for source, options in (
        ('#define NAME "own.h"\n#include NAME', ()),
        ("#define DIR .\n#define NAME <own.h>\n#define WHICH NAME\n#include WHICH // here", ()),
        ("#include NAME", ("-D", "NAME=<own.h>")),
    ):
        assert code(whole_text(source, "program.cl", None, options)) == ["own"]
    known = '#define H "portbar/atomics.h"\n#include H\n'
    assert '#include "portbar/atomics.h"' in whole_text(known, "program.cl")


def test_has_include_has_the_answer_of_the_time(here):
    write(
        here,
        inc__own="own\n",
        inc__asks='#if defined(X) || __has_include("own.h") && __has_include(<none.h>)\nx\n#endif\n',
    )
    text = whole_text('#include "asks.h"', "program.cl", None, ["-I", "inc"])
    assert "#if defined(X) || 1 && __has_include(<none.h>)" in text


@pytest.mark.parametrize(
    ("data", "wanted"),
    [
        ("// 20 °C, Gauß\nx".encode("latin-1"), ["// 20 ?C, Gau?", "x"]),
        (b"\xef\xbb\xbfx\r\ny\rz", ["x", "y", "z"]),
        (b"x \\", ["x \\"]),
        (b"y // x \\\n", ["y // x \\"]),
        ('/* é */ "é"'.encode(), ['/* é */ "é"']),
    ],
)
def test_old_files_are_read(here, data, wanted):
    write(here, own=data)
    assert code(whole_text('#include "own.h"\nlast', "program.cl")) == [*wanted, "last"]


@pytest.mark.parametrize("data", [b'"\xb0"', b"x\0", b"#if 1\n", b"#endif\n", b"/* x"])
def test_a_file_that_nothing_can_replace_is_named_by_its_whole_path(here, data):
    write(here, own=data)
    assert whole_text('#include "own.h"\nlast', "program.cl", here) == f'#include "{here}/own.h"\nlast'


def test_folders_of_options_last(here):
    given = ("-I", "a", "-Ib/c", "-I d -DI=e -cl-mad-enable", "-D", "-I", f"-I{here}/f", '-I "g"')
    absolute = ("-I", f"{here}/a", f"-I{here}/b/c", f"-I {here}/d -DI=e -cl-mad-enable", "-D", "-I", f"-I{here}/f")
    assert lasting_options(given) == (*absolute, f"-I {here}/g")


def test_a_large_program_takes_no_time(here):
    write(here, own="x\n")
    kernels = "".join(
        f"/* kernel {n} */\n#if N == {n}\n#define K{n} 'a' // it's\n#endif\nkernel void k{n}(global int *a) {{ a[0] = {n}; }}\n"
        for n in range(5000)
    )
    source = f'#include "own.h"\n{kernels}'
    assert len(source) > 500_000
    begin = time.process_time()
    assert whole_text(source, "program.cl").endswith(kernels)
    assert time.process_time() - begin < 5
    assert whole_text(kernels, "program.cl") is kernels


def test_a_lost_working_directory_is_no_error(tmp_path, monkeypatch):
    lost = tmp_path / "lost"
    lost.mkdir()
    monkeypatch.chdir(lost)
    lost.rmdir()
    source = '#include "own.h"\n'
    assert whole_text(source, "program.cl", None, ["-I", "inc"]) == source
    assert lasting_options(["-I", "inc"]) == ("-I", "inc")
