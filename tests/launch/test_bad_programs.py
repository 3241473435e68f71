"""Invalid programs are refused before they run, with an error that names the cause and the remedy."""

from __future__ import annotations

import os
import tempfile
import time
import warnings
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyopencl.array as cl_array
import pytest

import portbar
from portbar.device import quirks
from portbar.device.facts import device_key, facts
from portbar.launching import program
from portbar.records import cache
from tests import support
from tests.launch.support import HEADER, SOURCE, refused

pytestmark = pytest.mark.device


@pytest.mark.parametrize(
    ("more", "error", "words"),
    [
        ({"devices": []}, portbar.DeviceError, ["devices="]),
        ({"devices": 7}, portbar.Error, ["devices= must be a list, not int"]),
        ({"devices": ["CPU"]}, portbar.DeviceError, ["a list of pyopencl.Device, but it contains 'CPU'"]),
        ({"context": None}, portbar.Error, ["a pyopencl.Context, not NoneType"]),
        ({"options": 7}, portbar.Error, ["options= must be a list, not int"]),
        (
            {"options": {"-DX": 1}},
            portbar.Error,
            ["options= must be a list of build options, such as ['-DSIZE=64'], not dict"],
        ),
        ({"options": b"-DX"}, portbar.Error, ["options= must be a list, not bytes"]),
        ({"options": [7]}, portbar.Error, ["options= must hold build options as strings, but it contains 7"]),
        ({"options": ["-DX\0"]}, portbar.Error, ["but it contains '-DX\\x00'"]),
        ({"options": ["-DX=\ud800"]}, portbar.Error, ["but it contains '-DX=\\ud800'"]),
        ({"require": 7}, portbar.Error, ["require= must be a list, not int"]),
        ({"reductions": 7}, portbar.Error, ["reductions= must be a list, not int"]),
        ({"source": None}, portbar.Error, ["text"]),
        ({"source": b"kernel void k(void) { }"}, portbar.Error, ["text"]),
        ({"source": "kernels/stencil.cl"}, portbar.Error, ["'kernels/stencil.cl'", "pathlib.Path"]),
        ({"strategy": "tree"}, portbar.UnsupportedFeatureError, ["'tree'", "mapping", "device_barrier"]),
        (
            {"strategy": {"device_barrier": "wishful"}},
            portbar.UnsupportedFeatureError,
            ["'wishful'", "counter_backoff"],
        ),
        ({"require": ["teleport"]}, portbar.UnsupportedFeatureError, ["'teleport'"]),
        (
            {"source": '\n#include "portbar/device_barriers.h"\n'},
            portbar.RenderError,
            ["line 2", "portbar/device_barriers.h", "did you mean portbar/device_barrier.h"],
        ),
    ],
)
def test_a_program_that_cannot_be(context, more, error, words):
    support.program(context, SOURCE)
    refused(words, portbar.Program, **{"context": context, "source": SOURCE, **more}, error=error)


def test_a_kernel_that_does_not_exist_is_named_beside_those_that_do(context):
    made = support.program(context, SOURCE)
    refused(["'meat'", "meet", "plain", "scale", "shaped"], made.kernel, "meat", error=portbar.Error)


def test_a_program_without_kernels_has_none(context):
    made = portbar.Program(context, "#ifdef UNDEFINED\nkernel void k(void) { }\n#endif\nconstant int nothing = 1;\n")
    assert made.kernel_names() == ()
    refused(["'k'", "kernels: none"], made.kernel, "k", error=portbar.Error)


def build(context, source, **keywords):
    """Build a source that differs from `SOURCE`; skip where the device is refused altogether."""
    support.program(context, SOURCE)
    return portbar.Program(context, source, **keywords)


def test_a_syntax_error_on_line_12_says_12_and_everything_else_one_needs(context, queue):
    lines = ["", "/* line 2", "   and 3 */", HEADER.strip(), "kernel void k(PORTBAR_GRID_PARAM, global int *data)", "{",
             "    PORTBAR_ENTER(grid);", "    portbar_device_barrier(&grid);", "    int a = 1;", "    int b = 2;",
             "    int c = 3;", "    data[0] = a + b + c + missing_here;", "}", ""]  # fmt: skip
    assert "missing_here" in lines[11]
    options = ("-DSIZE=4",)
    error = refused(
        ["missing_here", "-DSIZE=4"], build, context, "\n".join(lines), error=portbar.BuildError, options=options
    )
    assert "missing_here" in error.log
    where = [line for line in str(error).splitlines() if "missing_here" in line and "error" in line]
    assert any(":12:" in line or "line 12" in line for line in where), str(error)
    assert error.device == queue.device.name.strip()
    assert error.device in str(error)
    assert "-DSIZE=4" in error.options
    assert error.source_path in str(error)
    saved = Path(error.source_path)
    try:
        text = saved.read_text(encoding="utf-8")
        assert lines[11] in text
        assert "#define PORTBAR_ENTER(" in text
        assert "#include" not in text
    finally:
        saved.unlink()


def test_a_refused_program_leaves_no_temporary_file_and_is_kept_once(context, own_cache, tmp_path, monkeypatch):
    (tmp_path / "temporary").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "temporary"))
    monkeypatch.setattr(tempfile, "tempdir", None)
    source = "kernel void k(global int *p) { p[0] = nothing; }"
    paths = {
        refused(
            ["nothing"], portbar.Program, context, source, error=portbar.BuildError, isolate_build=isolated
        ).source_path
        for isolated in (False, True, False)
    }
    assert [str(path) for path in (own_cache / "refused").iterdir()] == list(paths)
    assert list((tmp_path / "temporary").iterdir()) == []


def test_the_message_says_so_where_the_source_cannot_be_kept(context, monkeypatch):
    monkeypatch.setattr("portbar.records.scratch.keep", lambda *_: None)
    source = "kernel void k(global int *p) { p[0] = nothing; }"
    error = refused(["nothing", "Rendered source: not kept"], build, context, source, error=portbar.BuildError)
    assert error.source_path is None


def test_a_missing_linker_is_an_error_with_the_remedy_and_not_the_end_of_the_process(
    context, queue, own_cache, monkeypatch
):
    monkeypatch.setenv("PATH", os.devnull)
    source = "kernel void k(global int *p) { p[0] = 42; }"
    if not quirks.has_effect(quirks.LINKER_NEEDED, facts(queue.device)):
        portbar.Program(context, source)
        return
    error = refused(
        ["no folder of PATH has `ld`", "apt-get install gcc"],
        portbar.Program,
        context,
        source,
        error=portbar.BuildError,
    )
    assert error.device in str(error)
    # A check has found that it works: with a linker of its own, or of its user's.
    usable = {"usable": True, "reason": "", "remedy": "", "seconds": 1.0, "checked": time.time()}
    cache.store("usable", device_key(facts(queue.device)), usable)
    portbar.Program(context, source)


def test_a_byte_order_mark_and_comments_beside_an_include_are_valid(context, queue, tmp_path):
    source = f"""{HEADER.strip()} /* a comment that is
    ended here */ kernel void k(global int *p) {{ p[0] = 42; }}
    """
    path = tmp_path / "from_windows.cl"
    path.write_text(source, encoding="utf-8-sig")
    for given in (path, "\ufeff" + source):
        out = support.filled(queue, 1)
        build(context, given).kernel("k")(queue, (1,), None, out).wait()
        assert support.uints(queue, out).tolist() == [42]


@pytest.mark.parametrize(
    ("lines", "line"),
    [
        (["#if 0", HEADER.strip(), "#endif", "", "kernel void k(global int *p) { p[0] = nothing; }"], 5),
        ([HEADER, "", "kernel void k(global int *p) { p[0] = nothing; }"], 4),
    ],
    ids=["after a header that is not compiled", "after a header"],
)
def test_a_source_file_and_the_author_s_lines_are_named_in_the_log(context, tmp_path, lines, line):
    path = tmp_path / "stencil_of_mine.cl"
    path.write_text("\n".join(lines), encoding="utf-8")
    error = refused(["nothing", f"stencil_of_mine.cl:{line}:"], build, context, path, error=portbar.BuildError)
    Path(error.source_path).unlink()


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("\n/* \0 */", ["program.cl, line 2", "null character"]),
        ("// \ud800\n\ud800", ["program.cl, line 2", "not UTF-8"]),
        (b"// \xe9\n/* \xe9 */ int \xe9;", ["latin.cl, line 2", "not UTF-8", "save the file as UTF-8"]),
    ],
    ids=["a null character", "half a pair", "a file in Latin-1"],
)
def test_a_source_that_no_driver_reads_whole(context, tmp_path, source, words):
    if isinstance(source, bytes):
        (tmp_path / "latin.cl").write_bytes(source)
        source = tmp_path / "latin.cl"
    refused(words, portbar.Program, context, source, error=portbar.Error)


@pytest.mark.parametrize("line_end", [b"\n", b"\r\n"])
def test_comments_of_a_file_may_be_in_latin_1(context, queue, tmp_path, line_end):
    lines = [b"/* Stra\xdfe: \xb5s */", b"kernel void k(global int *p) { *p = __LINE__; } // \xe9"]
    (tmp_path / "latin.cl").write_bytes(line_end.join(lines))
    found = cl_array.zeros(queue, 1, np.int32)
    portbar.Program(context, tmp_path / "latin.cl").kernel("k")(queue, (1,), None, found).wait()
    assert found.get().tolist() == [2]


ENTERED = "PORTBAR_ENTER(grid); portbar_device_barrier(&grid);"


def one_kernel(parameters, body):
    return f"{HEADER}kernel void k({parameters}) {{ {body} }}"


GRID = "PORTBAR_GRID_PARAM"
LATE = ["line 2", "'k'", "before PORTBAR_ENTER", "surplus work-groups"]
NO_GRID = ["Hint: ", "'mesh'", "PORTBAR_GRID_PARAM", "PORTBAR_ENTER(mesh);"]
#: Fault of a grid -> the source, and words of the error.
MISUSES = {
    "no parameter": (one_kernel("global int *p", ENTERED), ["PORTBAR_GRID_PARAM", "first"]),
    "entered twice": (one_kernel(GRID, f"PORTBAR_ENTER(other); {ENTERED}"), ["PORTBAR_ENTER", "twice"]),
    "twice by one name": (one_kernel(GRID, f"PORTBAR_ENTER(grid); {ENTERED}"), ["PORTBAR_ENTER", "twice"]),
    "never entered": (one_kernel(f"{GRID}, global int *p", "p[0] = 1;"), ["PORTBAR_ENTER", "first statement"]),
    "entered late": (one_kernel(f"{GRID}, global int *p", f"*p = 1; {ENTERED}"), LATE),
    "entered without a semicolon": (one_kernel(GRID, "PORTBAR_ENTER(grid)\nf();"), ["line 2", "semicolon"]),
    "no grid": (one_kernel("global int *p", "portbar_device_barrier( &mesh ); p[0] = 1;"), NO_GRID),
    "no folder": (
        one_kernel(GRID, ENTERED).replace("portbar/", "", 1),
        ["with their folder", "portbar/device_barrier.h"],
    ),
    "another folder": (
        one_kernel(GRID, ENTERED).replace("portbar/", "portabr/", 1),
        ["with their folder", "portbar/device_barrier.h"],
    ),
    "entered in a function": (
        f"{HEADER}void f({GRID}) {{ {ENTERED} }} kernel void k({GRID}) {{ {ENTERED} }}",
        ["belong into kernels", "private portbar_grid *grid"],
    ),
    "a macro before the header": (f"#define grid 7\n{one_kernel(GRID, ENTERED)}", ["Hint: a macro that you define"]),
    "entered in a block": (
        one_kernel(GRID, f"int n = 1;\n{{\n{ENTERED} }}"),
        ["line 3", "inside a block", "before the block"],
    ),
    "entered in a branch": (one_kernel(f"{GRID}, int n", f"if (n) {{ {ENTERED} }}"), ["line 2", "inside a block"]),
    "no comma": (
        one_kernel(f"{GRID}\n global int *p", ENTERED),
        ["Hint: PORTBAR_GRID_PARAM is", "write a comma after it"],
    ),
    "no header": (f"kernel void k({GRID}) {{ {ENTERED} }}", ['#include "portbar/device_barrier.h"']),
}


@pytest.mark.parametrize(("source", "words"), MISUSES.values(), ids=MISUSES)
def test_a_grid_that_is_used_wrongly_does_not_build(context, source, words):
    error = refused(words, build, context, source, error=portbar.BuildError)
    if error.source_path:
        Path(error.source_path).unlink()


def test_a_function_with_a_plain_pointer_to_the_grid_builds_or_is_told_the_address_space(context):
    """Without an address space it is generic since OpenCL C 2.0, and the grid is private."""
    body = "return portbar_device_reduce_add(grid, scratch, 1u);"
    source = f"""{HEADER}#include "portbar/reduction.h"
    uint f(portbar_grid *grid, PORTBAR_SCRATCH_PARAM scratch) {{ {body} }}
    kernel void k({GRID}, global uint *p)
    {{ PORTBAR_ENTER(grid); PORTBAR_REDUCTION_SCRATCH(scratch); *p = f(&grid, scratch); }}"""
    build(context, source.replace("portbar_grid *grid", "private portbar_grid *grid"))
    with suppress(portbar.BuildError):
        build(context, source)
        return
    hint = "PORTBAR_SCRATCH_PARAM scratch and private portbar_grid *grid"
    Path(refused([hint], build, context, source, error=portbar.BuildError).source_path).unlink()


def test_the_grid_parameter_must_be_the_first(context):
    made = build(context, one_kernel(f"global int *p, {GRID}", ENTERED))
    refused(["'k'", "first parameter"], made.kernel, "k", error=portbar.LaunchError)


def test_a_kernel_that_never_enters_is_reported_after_its_launch(context, queue):
    source = SOURCE + "kernel void idle(PORTBAR_GRID_PARAM, global float *data) { data[0] = 1.0f; }\n"
    made, data = build(context, source).kernel("idle"), support.filled(queue, 4)

    def run():
        made(queue, None, (4,), data).wait()

    refused(["'idle'", "PORTBAR_ENTER", "first statement"], run, error=portbar.Error)
    support.kernel(context, SOURCE, "scale")(queue, None, (4,), data, np.uint32(1), num_groups=1).wait()


@pytest.mark.parametrize("limit", [0, -1.0, float("nan"), "a", float("inf"), np.float32("inf"), 10**400, 1j, None])
def test_a_spin_limit_that_is_none(context, limit):
    error = refused(["spin_limit", "finite", "above 0"], build, context, SOURCE, spin_limit=limit, error=portbar.Error)
    assert len(str(error)) < 200


@pytest.mark.parametrize("limit", [10**19, np.uint64(2**63), np.float32(3e38), 1e308, 1e-300])
def test_a_spin_limit_far_from_what_the_device_counts(context, queue, limit):
    made, data = build(context, SOURCE, spin_limit=limit).kernel("scale"), support.filled(queue, 4)
    made(queue, None, (4,), data, np.uint32(1), num_groups=1).wait()


def test_loops_that_end_early_are_reported_once_per_device_with_the_remedy(context, monkeypatch):
    known = program.describe(context.devices[0])
    short = replace(known, findings=replace(known.findings, loop_limit=70))
    monkeypatch.setattr(program, "describe", lambda _: short)
    monkeypatch.setattr(program, "_warned", set())
    source = "kernel void own(global uint *out, uint n) { for (uint i = 0; i < n; ++i) out[0] += i; }"
    with pytest.warns(portbar.LoopLimitWarning) as caught:
        portbar.Program(context, source)
    (told,) = (one for one in caught if issubclass(one.category, portbar.LoopLimitWarning))
    assert told.filename == __file__
    for word in ("after 70 iterations", "own kernels", "another runtime", known.facts.name):
        assert word in str(told.message)
    with warnings.catch_warnings():
        warnings.simplefilter("error", portbar.LoopLimitWarning)
        portbar.Program(context, source)


def test_only_devices_that_end_loops_early_are_warned_of(context, monkeypatch):
    limit = portbar.describe(context.devices[0]).loop_limit
    monkeypatch.setattr(program, "_warned", set())
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        portbar.Program(context, "kernel void own(global uint *out) { out[0] = 1; }")
    told = [one for one in caught if issubclass(one.category, portbar.LoopLimitWarning)]
    assert [f"after {limit} iterations" in str(one.message) for one in told] == ([] if limit is None else [True])
