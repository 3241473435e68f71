"""Only `portbar.reading` applies regular expressions to an author's source: all others ask it.

Each module's patterns, and its `re`, are replaced by some that note who gives them a text with the author's in it.
"""

from __future__ import annotations

import importlib
import re
import sys
import uuid
from types import ModuleType
from typing import Any, Final

import numpy as np
import pyopencl as cl
import pyopencl.array as cl_array
import pytest

import portbar
from portbar.errors import UnsupportedFeatureError
from portbar.launching import export, request
from portbar.reading.reader import is_available
from tests.checkout import ROOT

PACKAGE: Final = f"{ROOT / 'portbar'}/"
READING: Final = "portbar.reading"
#: Helpers that take any text, which count as their callers.
HELPERS: Final = "portbar.rendering.source"
#: More than one token, since names are not texts. Some are in comments.
MARK: Final = "author_mark /* of the author's */ = 7"
BARE: Final = re.compile(r"author_mark\s+=\s*7")

SOURCE: Final = f"""
#include "portbar/device_barrier.h"
#include "portbar/reduction.h"
#include "portbar/split_barrier.h"
#ifdef NEVER
#error never
#endif
kernel void k(PORTBAR_GRID_PARAM, global uint *a, const uint n)
{{
    PORTBAR_ENTER(grid);
    PORTBAR_REDUCTION_SCRATCH(scratch);
    int {MARK};
    for (uint i = 0; i < n; ++i) {{
        portbar_atomic_fetch_add(a, (uint)author_mark);
        portbar_device_barrier(&grid);
    }}
    a[1] = portbar_work_group_reduce_add(scratch, n);
}}
"""
PLAIN: Final = f"kernel void k(global uint *a, const uint n) {{ int {MARK}; a[get_global_id(0)] += n * author_mark; }}"


class Noting:
    """A pattern that notes the texts it is given."""

    def __init__(self, pattern: re.Pattern[Any], met: set[str]) -> None:
        self.pattern, self._met = pattern, met

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.pattern, name)
        if not callable(found):
            return found

        def call(*args: Any, **named: Any) -> Any:
            note(self._met, args)
            return found(*args, **named)

        return call


class NotingModule(ModuleType):
    """`re` with such patterns."""

    def __init__(self, met: set[str]) -> None:
        super().__init__("re")
        self._met = met

    def __getattr__(self, name: str) -> Any:
        found = getattr(re, name)
        if name == "compile":
            return lambda *args: Noting(re.compile(*args), self._met)
        if name not in {"search", "match", "fullmatch", "findall", "finditer", "sub", "subn", "split"}:
            return found

        def call(pattern: Any, *args: Any, **named: Any) -> Any:
            note(self._met, args)
            return found(pattern.pattern if isinstance(pattern, Noting) else pattern, *args, **named)

        return call


def note(met: set[str], args: tuple[Any, ...]) -> None:
    texts = (one.decode(errors="replace") if isinstance(one, bytes) else one for one in args)
    if any(isinstance(one, str) and (MARK in one or BARE.search(one)) for one in texts):
        met.add(asker())


def asker() -> str:
    """The module of portbar's that gives a text to a pattern."""
    frame = sys._getframe(1)
    while frame is not None:
        name = frame.f_globals.get("__name__", "")
        if frame.f_code.co_filename.startswith(PACKAGE) and name != HELPERS:
            return f"{name}.{frame.f_code.co_name}"
        frame = frame.f_back
    return "a test"


def noting(value: Any, met: set[str]) -> Any:
    """A module's value with each pattern in it replaced."""
    if isinstance(value, re.Pattern):
        return Noting(value, met)
    if isinstance(value, dict):
        return {key: noting(one, met) for key, one in value.items()}
    if type(value) in (tuple, list):
        return type(value)(noting(one, met) for one in value)
    return value


@pytest.fixture
def met(monkeypatch) -> set[str]:
    """Who gave a text of the author's to a pattern."""
    found: set[str] = set()
    for path in sorted((ROOT / "portbar").rglob("*.py")):
        dotted = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        if dotted.startswith(READING) or dotted.endswith("__main__"):
            continue
        try:
            module = importlib.import_module(dotted)
        except UnsupportedFeatureError as error:
            if "pip install" not in str(error):
                raise
            # It needs an extra that is not installed, so that it gives no text to anything.
            continue
        for name, value in vars(module).copy().items():
            if value is re:
                monkeypatch.setattr(module, name, NotingModule(found))
            elif not name.startswith("__") and (made := noting(value, found)) != value:
                monkeypatch.setattr(module, name, made)
    return found


def outside(met: set[str]) -> list[str]:
    return sorted(one for one in met if not one.startswith(READING))


#: Asks whether a text of one line is the path of a file, before anything reads it as OpenCL C.
MAY: Final = ["portbar.launching.request._name_and_text"]


def test_who_gives_a_text_to_a_pattern_is_found(met):
    export._INCLUDE.search(f"int {MARK};")
    export.re.sub("a", "b", "int author_mark                = 7;")
    assert met == {"a test"}
    met.clear()
    request.given_source(f"int {MARK};")
    assert outside(met) == MAY


needs_reader = pytest.mark.skipif(not is_available(), reason="no libclang for this platform")


@pytest.mark.device
@needs_reader
@pytest.mark.parametrize("debug", [False, True])
def test_a_program_is_read_by_the_reader_alone(context, queue, met, debug):
    # A text that no other test had, since what was read is remembered.
    source = f"/* {uuid.uuid4()} */{SOURCE}"
    program = portbar.Program(context, source, ["-DSIZE=4"], debug=debug)
    a = cl_array.zeros(queue, 4, np.uint32)
    program.kernel("k")(queue, None, (4,), a, np.uint32(2), num_groups=1).wait()
    assert a.get()[0] == 56
    assert any(one.startswith(READING) for one in met)
    assert outside(met) == []


@pytest.mark.device
@needs_reader
@pytest.mark.parametrize(
    "fault", ["a[1] = nowhere;", "portbar_device_barrier(&mesh);", "portbar_work_group_reduce_add(n);"]
)
def test_hints_come_from_the_reader_alone(context, met, fault):
    with pytest.raises(portbar.BuildError):
        portbar.Program(context, SOURCE.replace("a[1] =", f"{fault}\n a[1] ="))
    assert outside(met) == []


@pytest.mark.device
@needs_reader
def test_headers_are_rendered_by_what_the_reader_finds(queue, met, tmp_path):
    names = ("device_barrier", "reduction", "split_barrier")
    portbar.render(queue, names, source=SOURCE)
    (tmp_path / "k.cl").write_text(SOURCE)
    export.export(queue.device, tmp_path / "made", sources=[tmp_path / "k.cl"])
    assert outside(met) == []


@pytest.mark.device
@needs_reader
def test_recorded_kernels_are_read_by_the_reader_alone(context, queue, met):
    program = cl.Program(context, PLAIN).build()
    a = cl_array.zeros(queue, 4, np.uint32)
    # Drivers may forget the source and the options of what PyOpenCL built from its cache.
    steps = portbar.record(queue, programs=[program], options=[])
    with steps.repeat(3):
        steps(program.k, (4,), None, a.data, np.uint32(2))
    steps.launch(fused=True).wait()
    assert a.get().tolist() == [42] * 4
    assert outside(met) == MAY
