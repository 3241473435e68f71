"""Headers that are written for a source hold what that source uses, and its kernels compile with them."""

from __future__ import annotations

from pathlib import Path

import pytest

from portbar.launching import export
from portbar.primitives.headers import HOST_HEADER, header_names
from portbar.rendering.source import without_comments
from tests.export.test_c_host import PROFILES

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
def device(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    """Let `None` be a device that is not here."""
    monkeypatch.setattr(export, "describe", lambda _: PROFILES[request.param])


def test_render_leaves_out_what_a_source_does_not_use(device: None, tmp_path: Path) -> None:
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


def test_build_options_use_something_too(device: None) -> None:
    source = "kernel void k(global uint *a) { OPERATION(a, 1u); }"
    options = ("-DOPERATION=portbar_atomic_fetch_xor",)
    text = export.render(device, "atomics", source=source, options=options)  # type: ignore[arg-type]
    assert "portbar_atomic_fetch_xor_explicit(volatile global uint *p" in text
    text = export.render(device, "atomics", source=source)  # type: ignore[arg-type]
    assert "portbar_atomic_fetch_xor_explicit" not in text


def test_a_host_header_is_the_same_for_every_source(device: None) -> None:
    both = export.render(device, ("atomics", "host"), source=KERNEL)  # type: ignore[arg-type]
    assert both.endswith(export.render(device, "host"))  # type: ignore[arg-type]


def test_a_header_that_the_source_does_not_include_says_so(device: None, tmp_path: Path) -> None:
    paths = export.export(device, tmp_path, source=KERNEL)  # type: ignore[arg-type]
    assert [path.stem for path in paths] == [*header_names(), HOST_HEADER]
    for path in paths:
        text = path.read_text(encoding="utf-8")
        assert text.startswith("#error portbar: the source") == (
            path.stem in {"lock", "signal", "worklist", "task_graph", "team", "split_barrier", "reduction", "scan"}
        )
