"""Included files are part of the program: read once, whatever happens to them, and checked like its own text."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

import portbar
from tests.launch.support import refused
from tests.support import filled, skipped_where_refused, uints

pytestmark = pytest.mark.device

HEADER = '#include "portbar/device_barrier.h"\n'
KERNEL = """
kernel void k(PORTBAR_GRID_PARAM, global int *out) {
    PORTBAR_ENTER(grid);
    if (!portbar_device_barrier(&grid)) return;
    out[0] = VALUE;
}
"""


def build(context, source, **keywords):
    """A program; skipped where portbar refuses the device."""
    with skipped_where_refused():
        return portbar.Program(context, source, **keywords)


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "inc").mkdir()
    (tmp_path / "inc" / "own.h").write_text("#pragma once\n#define VALUE 1\n")
    return tmp_path


def value(queue, kernel, local, **sizes):
    """The result of a launch, which compiles the kernel where its shape takes another algorithm or order."""
    out = filled(queue, 1)
    kernel(queue, None, local, out, **sizes).wait()
    return uints(queue, out)[0]


@pytest.mark.parametrize("isolate", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_every_build_of_a_program_has_the_files_of_its_first(context, queue, folder, monkeypatch, isolate):
    monkeypatch.chdir(folder)
    options = ["-I", "inc"]
    made = build(context, f'#include "own.h"\n{HEADER}{KERNEL}', options=options, isolate_build=isolate).kernel("k")
    (folder / "inc" / "own.h").write_text("#define VALUE 2\n")
    assert value(queue, made, (4,)) == 1
    options[1] = "other"
    assert value(queue, made, (4,), num_groups=1) == 1
    shutil.rmtree(folder / "inc")
    monkeypatch.chdir(folder.parent)
    assert value(queue, made, (1, 7)) == 1


def test_a_kernel_in_an_included_file_is_read_as_one_in_the_program(context, queue, folder):
    """Branches around barriers, which portbar joins for PoCL, a helper function and a macro that hold one."""
    (folder / "inc" / "macros.h").write_text("#define MEET if (!portbar_device_barrier(&grid)) return\n")
    (folder / "kernels.cl").write_text(
        """#include "portbar/device_barrier.h"
        #include <macros.h>
        void meet(void) { barrier(CLK_LOCAL_MEM_FENCE); }
        kernel void early(PORTBAR_GRID_PARAM, global uint *o, uint k) {
          local uint s[16];
          PORTBAR_ENTER(grid);
          const uint me = portbar_local_linear_id();
          if (k == 0) return;
          s[me] = me;
          meet();
          if (k == 1) { if (me == 0) o[0] = s[portbar_local_linear_size() - 1] + 1; return; }
          for (uint r = 0; r < k; ++r) {
            if (me == 0) { for (uint i = 0; i < 3; ++i) if (s[0] < 100) s[0] += i; }
            MEET;
          }
          if (me == 0 && portbar_group_id(&grid) == 0) o[0] = s[0];
        }"""
    )
    (folder / "program.cl").write_text('#include "kernels.cl"\n')
    kernel = build(context, folder / "program.cl", options=["-I", str(folder / "inc")]).kernel("early")
    for k, wanted in ((0, 0), (1, 4), (3, 9)):
        out = filled(queue, 1, 0)
        kernel(queue, None, (4,), out, np.uint32(k)).wait()
        assert uints(queue, out).tolist() == [wanted]


def test_a_reduction_in_an_included_file_is_known(context, queue, folder):
    (folder / "inc" / "sum.h").write_text(
        """#define PORTBAR_REDUCTION_LOCAL_SIZE 8
        #include "portbar/reduction.h"
        kernel void sum(global float *out) {
          PORTBAR_REDUCTION_SCRATCH(scratch);
          const float whole = portbar_work_group_reduce_add(scratch, (float)get_local_id(0));
          if (get_local_id(0) == 0) out[0] = whole;
        }"""
    )
    kernel = build(context, '#include "sum.h"\n', options=[f"-I{folder}/inc"]).kernel("sum")
    out = filled(queue, 1)
    kernel(queue, (8,), (8,), out).wait()
    assert uints(queue, out).view(np.float32).tolist() == [28]
    refused(["PORTBAR_REDUCTION_LOCAL_SIZE 16"], kernel, queue, (16,), (16,), out)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("int helper(void) {\n  return nothing;\n}\n", ["own.h:4:", "nothing"]),
        ("kernel void k(PORTBAR_GRID_PARAM) {\n  PORTBAR_ENTER(grid)\n}\n", ["own.h, line 4", "semicolon"]),
        ('\n#include "portbar/nothing.h"\n', ["own.h, line 4", "there is no header"]),
        ('\n#include "missing.h"\n', ["own.h:4:", "missing.h", "pass options=['-I', folder]"]),
    ],
)
def test_errors_name_the_included_file_and_its_line(context, folder, text, words):
    (folder / "inc" / "own.h").write_text(f"#ifndef OWN\n#define OWN\n{text}#endif\n")
    source = f"#define ONE 1\n#ifdef ONE\n#include <own.h>\n#endif\n{HEADER}"
    error = refused(words, build, context, source, options=["-I", str(folder / "inc")], error=portbar.Error)
    if getattr(error, "source_path", None):
        Path(error.source_path).unlink(missing_ok=True)


def test_the_lines_after_an_included_file_are_the_program_s(context, folder):
    source = f'#if 0\n#include <own.h>\n#else\n#include "own.h"\n#endif\n{HEADER}\nint x = nothing;\n'
    error = refused(
        ["program.cl:8:"], build, context, source, options=["-I", str(folder / "inc")], error=portbar.BuildError
    )
    Path(error.source_path).unlink(missing_ok=True)
