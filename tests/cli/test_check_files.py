"""`portbar check FILE` prints what `Program` would refuse, for editors, without a device."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from portbar.reading.reader import is_available

pytestmark = pytest.mark.skipif(not is_available(), reason="no libclang for this platform")

WRONG = """\
#include "own.h"
kernel void k(global uint *a, uint n)
{
    const uint i = get_global_id(0);
    if (i < LIMIT) {
        a[i] = n;
        barrier(CLK_GLOBAL_MEM_FENCE);
    }
    step();
}
"""


@pytest.fixture
def files(tmp_path: Path) -> Path:
    (tmp_path / "wrong.cl").write_text(WRONG)
    (tmp_path / "include").mkdir()
    (tmp_path / "include" / "own.h").write_text("void step(void)\n{\n    barrier(CLK_LOCAL_MEM_FENCE);\n}\n")
    return tmp_path


@pytest.fixture
def check(portbar_command: Callable[..., tuple[int, str, str]]) -> Callable[..., tuple[int, str]]:
    def checked(*arguments: object) -> tuple[int, str]:
        status, out, _ = portbar_command("check", *map(str, arguments))
        return status, out

    return checked


def test_an_error_has_file_line_and_column_and_notes_say_why(check, files):
    file = files / "wrong.cl"
    status, out = check(file, "-I", files / "include", "-D", "LIMIT=n")
    assert status == 1
    lines = out.splitlines()
    assert lines[0].startswith(f"{file}:7:9: error: barrier must be called by all work-items of a work-group")
    assert lines[1] == f"{file}:5:5: note: `if (i < LIMIT)` differs between work-items"
    assert lines[2] == f"{file}:4:5: note: `const uint i = get_global_id(0)` differs between work-items"
    assert len(lines) == 4


def test_it_is_json_for_programs(check, files):
    status, out = check(files / "wrong.cl", "-I", files / "include", "-D", "LIMIT=n", "--json")
    (found,) = json.loads(out)
    assert status == 1
    assert (found["line"], found["column"], found["severity"]) == (7, 9, "error")
    assert [note["line"] for note in found["notes"]] == [5, 4, 7]


def test_a_right_file_prints_nothing(check, files):
    (files / "right.cl").write_text(WRONG.replace("i < LIMIT", "n > 3"))
    status, out = check(files / "right.cl", "-I", files / "include")
    assert (status, out) == (0, "")


def test_what_is_wrong_on_some_devices_is_a_warning(check, files):
    (files / "some.cl").write_text(
        '#include "portbar/reduction.h"\nkernel void k(global uint *a)\n{\n    PORTBAR_REDUCTION_SCRATCH(scratch);\n'
        "    if (portbar_sub_group_id() == 0)\n        a[0] = portbar_sub_group_reduce_add(scratch, a[1]);\n}\n"
    )
    status, out = check(files / "some.cl")
    assert status == 0
    assert f"{files / 'some.cl'}:6:16: warning: portbar_sub_group_reduce_add must be called by" in out


def test_what_cannot_be_read_is_a_warning(check, files):
    (files / "vendor.cl").write_text(
        "kernel void k(vendor_t x)\n{\n    vendor_t y = x;\n    barrier(CLK_LOCAL_MEM_FENCE);\n}\n"
    )
    status, out = check(files / "vendor.cl")
    assert status == 0
    assert f"{files / 'vendor.cl'}:1:15: warning: this function could not be read" in out


def test_options_of_devices_and_of_files_do_not_mix(check, files):
    assert check(files / "wrong.cl", "--device", "0")[0] == 2
    assert check("-D", "X", "--list")[0] == 2
    assert check(files / "none.cl")[0] == 2
