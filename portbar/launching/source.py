"""An author's source as portbar takes it: read, and checked, with its build options."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from portbar.choices.timing import shortened
from portbar.errors import BuildError, Error
from portbar.primitives.headers import known_includes
from portbar.primitives.reduction.checks import check_source as check_reductions
from portbar.primitives.reduction.loops import ReductionLoop
from portbar.primitives.scan import DeviceScan
from portbar.primitives.scan import check_source as check_scanned
from portbar.rendering.source import early_statement, hides_names, mentions, open_enter, spliced, without_comments

#: Where a driver stops reading, and what has no UTF-8.
_UNREADABLE: Final = re.compile("[\0\ud800-\udfff]")

#: Text that can only be meant as the path of a source.
_PATH: Final = re.compile(r"[^\s(){};]+\.(?:cl|clh|c|h|ocl|opencl)")


@dataclass(frozen=True)
class Source:
    """A source that was checked."""

    #: In messages: of its file, or "program.cl".
    name: str
    text: str
    #: Its build options.
    options: tuple[str, ...]
    #: Those of portbar's that it includes, as ``"portbar/atomics.h"``.
    headers: tuple[str, ...]


def read_source(
    source: Any, options: Any = (), loops: tuple[ReductionLoop, ...] = (), scans: tuple[DeviceScan, ...] = ()
) -> Source:
    """Read a source, and check that it can be what its author means.

    `Error` if the source is not text, or an option is not. `BuildError` if the source cannot work as it is. `RenderError` if an
    include names an unknown header of portbar's.
    """
    options = listed("options", options.split() if isinstance(options, str) else options)
    for option in options:
        if not isinstance(option, str) or _UNREADABLE.search(option):
            raise Error(f"options= must hold build options as strings, but it contains {shortened(option)}")
    name, text = _name_and_text(source)
    headers = tuple(include.name for include in known_includes(text, name))
    check_reductions(name, text, loops)
    check_scanned(name, text, scans)
    _check_entering(name, text)
    return Source(name, text, options, headers)


def listed(what: str, given: Any) -> tuple[Any, ...]:
    """Return as a tuple what a caller passed as a list or as one string."""
    if isinstance(given, str):
        return (given,)
    if not isinstance(given, Iterable) or isinstance(given, bytes):
        raise Error(f"{what}= must be a list, not {type(given).__name__}")
    return tuple(given)


def _check_entering(name: str, text: str) -> None:
    """Refuse a source whose kernels do not enter their grid by their first statement."""
    misses = mentions(text, "PORTBAR_GRID_PARAM") and not mentions(text, "PORTBAR_ENTER")
    if misses and not hides_names(spliced(without_comments(text))):
        raise BuildError(
            f"{name}: a kernel takes PORTBAR_GRID_PARAM, but the source never uses PORTBAR_ENTER; make "
            "PORTBAR_ENTER(grid); the first statement of that kernel"
        )
    line = open_enter(text)
    if line is not None:
        raise BuildError(f"{name}, line {line}: PORTBAR_ENTER is a statement and needs a semicolon after it")
    early = early_statement(text)
    if early is not None:
        raise BuildError(
            f"{name}, line {early[1]}: kernel {early[0]!r} executes code before PORTBAR_ENTER, which surplus work-groups "
            "and occupancy measurements would execute too; move it after PORTBAR_ENTER. Only declarations may precede it, "
            "with initialisers that call only get_local_id and similar functions"
        )


def _name_and_text(source: Any) -> tuple[str, str]:
    """Return the name of a source in messages, and its text."""
    if not isinstance(source, str | Path):
        raise Error(f"the source of a program must be text or a pathlib.Path, not {type(source).__name__}")
    if isinstance(source, str) and _PATH.fullmatch(source):
        raise Error(
            f"the source of a program is its text, and {source!r} looks like a path: pass pathlib.Path({source!r})"
        )
    name = source.name if isinstance(source, Path) else "program.cl"
    try:
        text = source.read_text(encoding="utf-8") if isinstance(source, Path) else source
        text.encode()
    except (UnicodeDecodeError, UnicodeEncodeError) as error:
        raise Error(f"{name} is not UTF-8 ({error.reason}, at {error.start}): save it as UTF-8") from None
    before, null, _ = text.partition("\0")
    if null:
        line = before.count("\n") + 1
        raise Error(f"{name}, line {line}: a null character, where drivers stop reading; remove it")
    # Editors mark UTF-8 by it, and compilers of OpenCL C refuse it.
    return name, text.removeprefix("\ufeff")
