"""The facts of a program, as `Program` reads them."""

from __future__ import annotations

import pytest

from portbar.primitives.headers import declarations
from portbar.primitives.reduction.use import Use
from portbar.primitives.reduction.use import use_of as use_of_facts
from portbar.reading.found import Facts
from portbar.reading.reader import is_available, read

needs_libclang = pytest.mark.skipif(not is_available(), reason="no libclang for this platform")


def facts(text: str, *options: str, loops=(), scans=()) -> Facts:
    """Those of a text that includes the headers which it uses."""
    found = read("program.cl", text, declarations(loops, scans), options, asked=True).facts
    assert found is not None
    return found


def use_of(source: str, options=(), loops=(), *, is_program: bool = True) -> Use:
    """The parts of reductions that a program uses, as `Program` asks its tree."""
    found = read("program.cl", source, declarations(tuple(loops)), options, asked=True).facts
    return use_of_facts(source, options, tuple(loops), found, is_program=is_program)
