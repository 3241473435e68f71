"""Exceptions in the middle of portbar's code, at places counted one after another: as Ctrl-C or a driver raises them.

A signal's handler runs where Python looks for signals: at a function's start, after a call, at the end of a loop's round. Other
exceptions come from a line. All are counted, in portbar's modules, in the functions that it generates, and in those that
PyOpenCL generates, in which a command is in its queue already when the driver's call returns.
"""

from __future__ import annotations

import dis
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, Final

import portbar
from portbar import locks

_PARTS: Final = (str(Path(portbar.__file__).parent), "<portbar launch>", "<generated")

#: A finalizer's exception goes nowhere.
_FINALIZERS: Final = {"retire", "may_run"}


class Interrupt(KeyboardInterrupt):
    """Raised at one place."""


@cache
def _first_instructions(code: CodeType) -> frozenset[int]:
    """The offsets of the first instructions of lines."""
    first: dict[int, int] = {}
    for one in dis.get_instructions(code):
        if one.positions is not None and one.positions.lineno is not None and one.opname != "RESUME":
            first.setdefault(one.positions.lineno, one.offset)
    return frozenset(first.values())


def _is_ours(frame: FrameType) -> bool:
    code = frame.f_code
    return code.co_filename.startswith(_PARTS) and code.co_name not in _FINALIZERS


def _takes_a_lock(frame: FrameType) -> bool:
    """Whether Python looks for no signal between the end of a function and what its caller does next: a `with` begins."""
    return frame.f_code.co_filename == locks.__file__ and frame.f_code.co_name == "__enter__"


class _Places:
    """Counts places, and raises at the one with a number."""

    def __init__(self, number: int) -> None:
        self.left = number
        self.where: str | None = None

    def trace(self, frame: FrameType, event: str, _arg: Any) -> Any:
        """Of `sys.settrace`: lines."""
        if not _is_ours(frame):
            return None
        # The later instructions of a line are those that leave a `with`, between which Python does not look for signals.
        if event == "line" and frame.f_lasti in _first_instructions(frame.f_code):
            self._count(frame, event)
        return self.trace

    def profile(self, frame: FrameType, event: str, _arg: Any) -> None:
        """Of `sys.setprofile`: functions, and the ends of those in C."""
        if event == "c_call" or not _is_ours(frame) or (event == "return" and _takes_a_lock(frame)):
            return
        self._count(frame, event)

    def _count(self, frame: FrameType, event: str) -> None:
        self.left -= 1
        if self.left < 0 and self.where is None:
            self.where = f"{event} at {frame.f_code.co_filename}:{frame.f_lineno}, {frame.f_code.co_name}"
            raise Interrupt(self.where)


def every_place(call: Callable[[], Any], step: int = 1) -> Iterator[str]:
    """Interrupt a call at each of its places in turn, or at every `step`-th; yields where, after each."""
    number = 0
    while True:
        places = _Places(number)
        before = sys.gettrace(), sys.getprofile()
        sys.setprofile(places.profile)
        sys.settrace(places.trace)
        with suppress(Interrupt):
            try:
                call()
            finally:
                sys.settrace(before[0])
                sys.setprofile(before[1])
        if places.where is None:
            assert number > 0, "no place of the call was counted"
            return
        yield places.where
        number += step
