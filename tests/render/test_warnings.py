"""Headers compile without a warning, and a build reports those in the author's own text."""

from __future__ import annotations

import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyopencl as cl
import pyopencl.array as cl_array
import pytest

import portbar
from portbar.choices.strategy import ALTERNATIVES
from portbar.primitives.headers import header_names, render_header
from portbar.primitives.strategy import Choice
from tests import gpu_code
from tests.gpu_code import SM_80, TARGETS, Target, complaints, strategy_for
from tests.support import skipped_where_refused

#: Headers, and the algorithm of the device barrier's.
CASES = [("device_barrier", barrier) for barrier in ALTERNATIVES["device_barrier"]] + [
    (header, "counter") for header in header_names() if header != "device_barrier"
]
EMPTY = "\nkernel void empty(global int *p) { p[0] = 1; }\n"


@pytest.mark.slow
@pytest.mark.skipif(gpu_code.clang() is None, reason="clang is not installed")
@pytest.mark.parametrize("target", [*TARGETS, SM_80], ids=lambda target: target.name)
def test_clang_warns_of_nothing(target: Target, tmp_path: Path) -> None:
    texts = {}
    for header, barrier in CASES if target is not SM_80 else [("split_barrier", "counter")]:
        discovery = "ticket" if barrier == "xf" else "packed"
        strategy = replace(
            strategy_for(target), device_barrier=Choice(barrier, "test"), discovery=Choice(discovery, "test")
        )
        texts[f"{header} {barrier}"] = render_header(header, strategy) + EMPTY
    assert not complaints(target, texts, tmp_path, "-Wall", "-Wextra")[:3000]


def build_log(context: cl.Context, source: str) -> tuple[str, list[warnings.WarningMessage]]:
    """Build a program with -Wall where the driver takes that; its log and the warnings that Python got."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with skipped_where_refused():
            try:
                made = portbar.Program(context, source, ["-Wall"])
            except portbar.BuildError as error:
                if "-Wall" not in error.log:
                    raise
                made = portbar.Program(context, source)
    device = context.devices[0]
    built = made.built(device, made.strategy(device))
    log = str(built.get_build_info(device, cl.program_build_info.LOG))
    return log, [one for one in caught if issubclass(one.category, cl.CompilerWarning)]


@pytest.mark.device
@pytest.mark.parametrize("header", header_names())
def test_a_header_builds_without_a_warning(context: cl.Context, header: str) -> None:
    before = '#include "portbar/device_barrier.h"\n' if header == "reduction" else ""
    log, caught = build_log(context, f'{before}#include "portbar/{header}.h"\n{EMPTY}')
    assert "warning" not in log
    assert caught == []


@pytest.mark.device
def test_a_reduction_of_an_array_builds_without_a_warning(context: cl.Context, queue: cl.CommandQueue) -> None:
    values = np.arange(1000, dtype=np.int32)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        # An expression of its own: PoCL finds kernels that it has compiled before in its cache, which has no log.
        found = portbar.reduce(queue, cl_array.to_device(queue, values), map="x + 20261").get()
    assert found == (values + 20261).sum()
    assert [one for one in caught if one.category.__name__ == "CompilerWarning"] == []


@pytest.mark.device
def test_a_warning_of_the_author_s_text_is_reported(context: cl.Context) -> None:
    # Another kernel than above: PoCL finds the same one compiled in its cache, which has no log.
    source = f'#include "portbar/device_barrier.h"\n#warning something of mine\n{EMPTY.replace("empty", "warned")}'
    log, caught = build_log(context, source)
    if "something of mine" not in log:
        pytest.skip("the driver logs no warnings")
    assert len(caught) == 1
