"""`Program` refuses certain misuse before the driver compiles it, takes an author's word, and says what it could not read."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import portbar
from portbar.launching import analysis
from portbar.reading.reader import is_available
from tests import support

pytestmark = [
    pytest.mark.device,
    pytest.mark.skipif(not is_available(), reason="no libclang for this platform"),
]

PADDED = """
kernel void k(global uint *a, const uint n)
{
    local uint first;
    const uint i = get_global_id(0);
    if (CONDITION) {
        if (get_local_id(0) == 0)
            first = a[i];
        barrier(CLK_LOCAL_MEM_FENCE);
        a[i] += first;
    }
}
"""
GRID = """
#include "portbar/device_barrier.h"
kernel void k(PORTBAR_GRID_PARAM, global uint *a, const uint n)
{
    PORTBAR_ENTER(grid);
    PORTBAR_FOR(i, &grid, n) {
        a[i] += 1u;
        portbar_device_barrier(&grid);
    }
}
"""


def test_misuse_is_an_error_before_the_driver_sees_the_program(context, device, monkeypatch):
    monkeypatch.setattr("portbar.launching.build.compile_program", None)
    with pytest.raises(portbar.DivergenceError) as caught:
        portbar.Program(context, GRID, devices=[device])
    (found,) = caught.value.misuses
    assert isinstance(caught.value, portbar.BuildError)
    assert (found.place.file, found.place.line, found.place.column) == ("program.cl", 8, 9)
    assert (found.call, found.condition.line) == ("portbar_device_barrier", 6)
    assert str(caught.value).startswith(
        "program.cl, line 8: portbar_device_barrier must be called by all work-items of"
    )
    assert "line 6: `PORTBAR_FOR(i, &grid, n)`" in str(caught.value)


def test_plain_opencl_is_refused_and_an_author_s_word_is_taken(context, device, queue):
    with pytest.raises(portbar.DivergenceError, match=r"line 9: barrier must be .*\n  line 6: `if \(i < n\)` differs"):
        portbar.Program(context, PADDED.replace("CONDITION", "i < n"), devices=[device])
    program = portbar.Program(context, PADDED.replace("CONDITION", "PORTBAR_UNIFORM(i < n)"), devices=[device])
    size = min(8, device.max_work_item_sizes[0])
    a = support.filled(queue, 4 * size, 3)
    program.kernel("k")(queue, (4 * size,), (size,), a, np.uint32(4 * size)).wait()
    assert (support.uints(queue, a) == 6).all()


def test_a_sub_group_s_call_by_one_of_them_is_refused_where_reductions_are_trees(context, device):
    source = """
#include "portbar/reduction.h"
kernel void k(global uint *a)
{
    PORTBAR_REDUCTION_SCRATCH(scratch);
    uint s = a[get_local_id(0)];
    if (portbar_sub_group_id() == 0)
        s = portbar_sub_group_reduce_add(scratch, s);
    a[get_local_id(0)] = s;
}
"""
    with pytest.raises(portbar.DivergenceError, match="line 8: portbar_sub_group_reduce_add must be called by"):
        portbar.Program(context, source, devices=[device], strategy={"reduction": "tree"})


def test_included_files_are_read_too(context, device, tmp_path):
    (tmp_path / "own.h").write_text(
        "void step(void)\n{\n    if (get_local_id(0) == 0)\n        barrier(CLK_LOCAL_MEM_FENCE);\n}\n"
    )
    source = '#include "own.h"\nkernel void k(global uint *a) { step(); a[0] = 1; }\n'
    with pytest.raises(portbar.DivergenceError) as caught:
        portbar.Program(context, source, ("-I", str(tmp_path)), devices=[device])
    (found,) = caught.value.misuses
    assert (found.place.file.endswith("own.h"), found.place.line) == (True, 4)


def test_what_the_driver_takes_and_the_reader_does_not_is_a_warning(context, device, monkeypatch):
    source = "kernel void k(global uint *a) { barrier(CLK_LOCAL_MEM_FENCE); a[0] = VENDOR; }\n"
    read = analysis.read

    def hidden(name: str, source: str, *arguments: Any, **named: Any) -> Any:
        return read(name, source.replace("1u", "(vendor_t)1"), *arguments, **named)

    monkeypatch.setattr(analysis, "read", hidden)
    with pytest.warns(
        portbar.UnreadWarning, match=r"program.cl, line 1: portbar could not read this function"
    ) as caught:
        portbar.Program(context, source.replace("VENDOR", "1u"), devices=[device])
    assert caught[0].filename == __file__
    # A program that the driver refuses is its error, without the warning.
    with warnings.catch_warnings():
        warnings.simplefilter("error", portbar.UnreadWarning)
        with pytest.raises(portbar.BuildError, match="vendor_t"):
            portbar.Program(context, source.replace("VENDOR", "(vendor_t)1"), devices=[device])


def test_without_libclang_a_program_builds_with_one_warning(context, device, monkeypatch):
    monkeypatch.setattr(analysis, "is_available", lambda: False)
    monkeypatch.setattr(analysis, "_told", set())
    with pytest.warns(portbar.UnreadWarning, match="pip install libclang") as caught:
        program = portbar.Program(context, PADDED.replace("CONDITION", "n > 3"), devices=[device])
    assert caught[0].filename == __file__
    assert isinstance(program, portbar.Program)
    with warnings.catch_warnings():
        warnings.simplefilter("error", portbar.UnreadWarning)
        portbar.Program(context, PADDED.replace("CONDITION", "n > 4"), devices=[device])
        # Nothing is said of a program without such calls.
        monkeypatch.setattr(analysis, "_told", set())
        portbar.Program(context, "kernel void k(global uint *a) { a[0] = 1; }", devices=[device])


@pytest.mark.parametrize(
    ("kind", "statement", "message"),
    [
        ("failure", "while (!portbar_device_barrier(&grid)) a[0] = 1u;", "the loop around it then never ends"),
        (
            "bound",
            "PORTBAR_FOR(i, &grid, n) a[i] = 1u;",
            "a bound of PORTBAR_FOR has 32 bits, but `n` is of the type ulong",
        ),
        ("store", "((global uint *)b)[0] = 1u;", "a store through `b`"),
    ],
)
def test_other_misuse_is_an_error_of_its_base_class(context, device, kind, statement, message):
    source = (
        '#include "portbar/device_barrier.h"\n'
        "kernel void k(PORTBAR_GRID_PARAM, global uint *a, const global uint *restrict b, ulong n)\n"
        f"{{\n    PORTBAR_ENTER(grid);\n    {statement}\n}}\n"
    )
    with pytest.raises(portbar.MisuseError, match=f"program.cl, line 5: .*{message}") as caught:
        portbar.Program(context, source, devices=[device])
    assert not isinstance(caught.value, portbar.DivergenceError)
    assert [found.kind for found in caught.value.misuses] == [kind]
    # With divergence beside it, the error is of that class, and names both.
    both = source.replace("PORTBAR_ENTER(grid);", "PORTBAR_ENTER(grid); if (get_local_id(0) == 0) barrier(1);")
    with pytest.raises(portbar.DivergenceError) as caught:
        portbar.Program(context, both, devices=[device])
    assert [found.kind for found in caught.value.misuses] == ["divergence", kind]
