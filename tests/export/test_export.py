"""Headers that are written for a source hold what that source uses, and its kernels compile with them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from portbar.errors import BuildError, Error, RenderError, UnsupportedFeatureError
from portbar.launching import export
from portbar.primitives.headers import HOST_HEADER, header_names
from portbar.rendering.source import without_comments
from tests.export.test_c_host import ABSENT, PROFILES

KERNEL = """
#include "portbar/device_barrier.h"
#include "portbar/atomics.h"
kernel void meet(PORTBAR_GRID_PARAM, global uint *out)
{
    PORTBAR_ENTER(grid);
    portbar_atomic_add(out, 1u);
    if (portbar_device_barrier(&grid) && portbar_atomic_wait(out, 0u))
        out[1 + portbar_global_id(&grid)] = portbar_atomic_load(out);
}
"""


@pytest.fixture(params=PROFILES)
def device(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Any:
    """A device that is not here, with a profile."""
    monkeypatch.setattr(export, "describe", lambda _: PROFILES[request.param])
    return ABSENT


def test_render_leaves_out_what_a_source_does_not_use(device: Any, tmp_path: Path) -> None:
    whole = export.render(device, ("atomics", "device_barrier"))  # type: ignore[arg-type]
    text = export.render(device, ("atomics", "device_barrier"), source=KERNEL)  # type: ignore[arg-type]
    # What is whole has its functions as macros, one for all types.
    assert len(text.splitlines()) < 0.6 * len(whole.splitlines())
    code = without_comments(text)
    assert "portbar_device_barrier(" in code
    assert "portbar_device_barrier_arrive(" not in code
    assert "portbar_atomic_fetch_add_explicit(" in code
    assert "portbar_atomic_fetch_xor_explicit(" not in code
    # The grid's part of a wait is in one header, and what names it in the other.
    assert "#define PORTBAR_REPORTED(" in code
    (tmp_path / "meet.cl").write_text(KERNEL, encoding="utf-8")
    same = export.render(device, ("atomics", "device_barrier"), source=tmp_path / "meet.cl")  # type: ignore[arg-type]
    assert same == text


def test_build_options_use_something_too(device: Any) -> None:
    source = "kernel void k(global uint *a) { OPERATION(a, 1u); }"
    options = ("-DOPERATION=portbar_atomic_fetch_xor",)
    text = export.render(device, "atomics", source=source, options=options)  # type: ignore[arg-type]
    assert "portbar_atomic_fetch_xor_explicit(volatile global uint *p" in text
    text = export.render(device, "atomics", source=source)  # type: ignore[arg-type]
    assert "portbar_atomic_fetch_xor_explicit" not in text


def test_a_host_header_is_the_same_for_every_source(device: Any) -> None:
    both = export.render(device, ("atomics", "host"), source=KERNEL)  # type: ignore[arg-type]
    assert both.endswith(export.render(device, "host"))  # type: ignore[arg-type]


def test_a_header_that_the_source_does_not_include_says_so(device: Any, tmp_path: Path) -> None:
    paths = export.export(device, tmp_path, sources=[KERNEL])  # type: ignore[arg-type]
    assert [path.stem for path in paths] == [*header_names(), HOST_HEADER]
    own = {"atomics", "device_barrier", HOST_HEADER}
    for path in paths:
        text = path.read_text(encoding="utf-8")
        assert text.startswith("#error portbar: the source") == (path.stem not in own)


def test_a_strategy_that_is_refused_leaves_earlier_headers_as_they_were(device: Any, tmp_path: Path) -> None:
    paths = export.export(device, tmp_path)  # type: ignore[arg-type]
    before = [path.read_bytes() for path in paths]
    with pytest.raises(UnsupportedFeatureError, match="intel_device_barrier"):
        export.export(device, tmp_path, {"device_barrier": "intel_device_barrier"})  # type: ignore[arg-type]
    assert [path.read_bytes() for path in paths] == before


GRID = '#include "portbar/device_barrier.h"\n'
REDUCTION = '#include "portbar/reduction.h"\n'
REFUSED = {
    "headers in the wrong order": (REDUCTION + GRID, BuildError, "must come before"),
    "code before the grid": (
        KERNEL.replace("PORTBAR_ENTER", "out[0] = 1u; PORTBAR_ENTER"),
        BuildError,
        "line 6: kernel 'meet'",
    ),
    "no such header": ('#include "portbar/barrier.h"\n', RenderError, "line 1: there is no header"),
    "a path": ("kernels/meet.cl", Error, "looks like a path"),
    "no list of options": (KERNEL, Error, "options= must be a list, not int"),
}


@pytest.mark.parametrize(("source", "error", "words"), REFUSED.values(), ids=REFUSED)
def test_a_source_that_no_program_would_take_is_refused_before_a_header_is_written(
    device: Any, tmp_path: Path, source: str, error: type[Error], words: str
) -> None:
    options = 7 if words.startswith("options=") else ()
    with pytest.raises(error, match=words):
        export.export(device, tmp_path, sources=[KERNEL, source], options=options)  # type: ignore[arg-type]
    with pytest.raises(error, match=words):
        export.render(device, "atomics", source=source, options=options)  # type: ignore[arg-type]
    assert list(tmp_path.iterdir()) == []


def test_files_are_read_each_by_its_own(device: Any, tmp_path: Path) -> None:
    """Joined, their headers would be in the wrong order, and only the first would be known to enter its grid."""
    macro = f'#include "mine.h"\n{KERNEL.replace("PORTBAR_ENTER(grid)", "BEGIN")}'
    paths = export.export(device, tmp_path, sources=[REDUCTION, GRID + REDUCTION, macro])  # type: ignore[arg-type]
    assert "#error portbar: the source" not in next(path for path in paths if path.stem == "reduction").read_text(
        "utf-8"
    )


def test_a_size_of_a_later_file_needs_its_memory_too(device: Any, tmp_path: Path) -> None:
    sizes = [f"#define PORTBAR_REDUCTION_LOCAL_SIZE {size}\n" + SUM.format("", "k") for size in (8, 900000)]
    with pytest.raises(UnsupportedFeatureError, match="900000 work-items"):
        export.export(device, tmp_path, sources=sizes)  # type: ignore[arg-type]


SUM = """
#include "portbar/device_barrier.h"
#include "portbar/reduction.h"
kernel {} void {}(PORTBAR_GRID_PARAM, global int *out)
{{
    PORTBAR_ENTER(grid);
    PORTBAR_REDUCTION_SCRATCH(scratch);
    out[portbar_global_id(&grid)] = portbar_device_reduce_add(&grid, scratch, 1);
}}
"""
REQUIRED = "__attribute__((reqd_work_group_size({}, 1, 1)))"
SIZES = "#define PORTBAR_REDUCTION_LOCAL_SIZE {}\n#define PORTBAR_REDUCTION_EXACT\n"


@pytest.mark.parametrize(
    ("source", "size", "is_exact"),
    [
        (SUM.format("", "k"), 1024, False),
        (SUM.format(REQUIRED.format(8), "k"), 8, True),
        (SIZES.format(8) + SUM.format("", "small") + SUM.format("", "large"), 1024, False),
        (SIZES.format("N") + SUM.format("", "k"), 1024, False),
        ("#ifndef N\n#define N 8\n#endif\n" + SUM.format(REQUIRED.format("N"), "k"), 1024, False),
    ],
    ids=["none", "stated", "of one of two files", "of a macro", "stated by a macro that an option may define"],
)
def test_a_local_size_is_known_where_it_holds_for_each_file_and_all_options(
    device: Any, source: str, size: int, is_exact: bool
) -> None:
    text = export.render(device, "reduction", source=source)  # type: ignore[arg-type]
    assert f"#ifndef PORTBAR_REDUCTION_LOCAL_SIZE\n#define PORTBAR_REDUCTION_LOCAL_SIZE {size}\n#endif\n" in text
    # An option may still define another size than the stated one.
    promise = f"#if PORTBAR_REDUCTION_LOCAL_SIZE == {size} && !defined(PORTBAR_REDUCTION_EXACT)\n"
    assert (f"{promise}#define PORTBAR_REDUCTION_EXACT\n#endif\n" in text) == is_exact
    assert ("#define PORTBAR_REDUCTION_EXACT\n" in text) == is_exact


def test_a_sub_group_size_of_one_file_is_not_that_of_another(device: Any) -> None:
    reduces = """#include "portbar/reduction.h"
    kernel void {}(global int *a)
    {{
        PORTBAR_REDUCTION_SCRATCH(scratch);
        a[0] = portbar_sub_group_reduce_add(scratch, 1);
    }}
    """
    source = "#define PORTBAR_SUB_GROUP_SIZE 16\n" + reduces.format("own") + reduces.format("usual")
    usual = export.render(device, "reduction", source=reduces.format("usual"))  # type: ignore[arg-type]
    defined = re.findall(r"#define PORTBAR_SUB_GROUP_SIZE .*", usual)
    text = export.render(device, "reduction", source=source)  # type: ignore[arg-type]
    assert re.findall(r"#define PORTBAR_SUB_GROUP_SIZE .*", text) == defined != []


def test_sub_groups_that_take_turns_of_their_own_are_single_where_they_would_meet(device: Any) -> None:
    source = """#include "portbar/reduction.h"
    kernel void rows(global int *a, uint n)
    {
        PORTBAR_REDUCTION_SCRATCH(scratch);
        for (uint row = portbar_sub_group_id(); row < n; row += portbar_num_sub_groups())
            a[row] = portbar_sub_group_reduce_add(scratch, 1);
    }
    """
    text = export.render(device, "reduction", source=source, strategy={"reduction": "tree"})  # type: ignore[arg-type]
    assert re.findall(r"#define PORTBAR_SUB_GROUP_SIZE .*", text) == ["#define PORTBAR_SUB_GROUP_SIZE 1"]


def test_a_size_without_memory_for_it_is_refused(device: Any) -> None:
    source = "#define PORTBAR_REDUCTION_LOCAL_SIZE 900000\n" + SUM.format("", "k")
    with pytest.raises(UnsupportedFeatureError, match="900000 work-items"):
        export.render(device, "reduction", source=source)  # type: ignore[arg-type]
