"""The steps as a table of 32-bit words, which the kernel of `cl_templates/recording/replay.mako` replays: operations and rows.

Equal rows are there once. The values of a step are in its row; those that change from turn to turn are after all rows.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias

import numpy as np

from portbar.recording.dependences import Waits
from portbar.recording.steps import Argument, Buffer, Call, Conditional, Flag, Repetition, Step, StepValue
from portbar.records.dataclass import dataclass

Words: TypeAlias = "np.ndarray[Any, np.dtype[np.uint32]]"

#: Codes of operations: the end, a loop begins, another turn, a loop with a flag, its turn, a condition, and steps.
END, REPEAT, AGAIN, WHILE, TURN, IF, STEP = range(7)
#: Marks an operation before which all work-groups wait.
MARK: Final = 0x8000_0000
#: Words of a row before its arguments: dimensions, sizes and offsets.
HEAD_WORDS: Final = 7
#: Words that say where the values of each turn are: bytes from the table, bytes of each, and the loop's level.
CHANGING_WORDS: Final = 3
NULL: Final = 0xFFFF_FFFF
_ROW_BYTES: Final = 128


def aligned(size: int) -> int:
    """The alignment of a value of this many bytes."""
    alignment = 4
    while alignment < min(size, _ROW_BYTES):
        alignment *= 2
    return alignment


@dataclass(frozen=True)
class Slot:
    """Where the rows of a kernel have an argument: bytes from the row's begin."""

    at: int
    #: Whether its value changes from turn to turn in some row.
    changes: bool = False


def slots_of(arguments: Sequence[Sequence[Argument]]) -> tuple[Slot | None, ...]:
    """The places of each argument of a kernel, by those of all of its calls; None for those in local memory."""
    made: list[Slot | None] = []
    at = HEAD_WORDS * 4
    for given in zip(*arguments, strict=True):
        changes = any(isinstance(one, StepValue) and one.turn is not None for one in given)
        if changes or isinstance(given[0], Buffer):
            made.append(Slot(at, changes))
            at += 4 * CHANGING_WORDS if changes else 4
        elif isinstance(given[0], StepValue):
            size = max(len(one.data) for one in given if isinstance(one, StepValue))
            at = -(-at // aligned(size)) * aligned(size)
            made.append(Slot(at))
            at += -(-size // 4) * 4
        else:
            made.append(None)
    return tuple(made)


class StepTable:
    """The table of a recording.

    Parameters
    ----------
    steps : sequence of Step
    waits : Waits
    numbers : mapping
        Identity of a call -> the number of its function, and the places of its arguments.
    buffers : mapping
        Identity of a memory object -> its number.
    """

    def __init__(
        self,
        steps: Sequence[Step],
        waits: Waits,
        numbers: Mapping[int, tuple[int, tuple[Slot | None, ...]]],
        buffers: Mapping[int, int],
    ) -> None:
        self._waits, self._numbers, self._buffers = waits, numbers, buffers
        self._operations: list[list[int]] = []
        self._rows: dict[tuple[int, bytes], int] = {}
        self._levels: dict[int, int] = {}
        #: Values of each turn.
        self._more: list[bytes] = []
        self._more_bytes = 0
        self._data = bytearray()
        #: Rows with a word that is the number of an operation, -1 for the last.
        self._jumps: list[tuple[int, int, int]] = []
        self.depth = 1
        self._steps(steps, 0)
        self._operations.append([MARK + END, 0])
        self._operations[0][0] |= MARK
        self.words = self._finished()

    def _steps(self, steps: Sequence[Step], level: int) -> None:
        for step in steps:
            mark = MARK if step in self._waits else 0
            if isinstance(step, Call):
                number, slots = self._numbers[id(step)]
                self._operations.append([mark + STEP + number, self._row(STEP + number, self._call(step, slots))])
            elif isinstance(step, Conditional):
                row = self._row_with_target(self._flag(step.flag), (0, 0))
                self._operations.append([mark + IF, row])
                self._steps(step.body, level)
                self._jumps.append((row, 2, len(self._operations)))
            else:
                self._loop(step, level, mark)

    def _loop(self, loop: Repetition, level: int, mark: int) -> None:
        self.depth = max(self.depth, level + 1)
        self._levels[id(loop)] = level
        self._operations.append([REPEAT, self._row(REPEAT, struct.pack("<3I", level, 0, 0))])
        begin = len(self._operations)
        if loop.flag is None:
            self._steps(loop.body, level + 1)
            row = self._row_with_target(b"", (level, loop.turns))
            self._operations.append([AGAIN, row])
            self._jumps.append((row, 2, begin))
            return
        row = self._row_with_target(self._flag(loop.flag) + struct.pack("<2I", loop.number, 0), (level, loop.turns))
        self._operations.append([mark + WHILE, row])
        self._steps(loop.body, level + 1)
        again = self._row_with_target(b"", (level, 0))
        self._operations.append([TURN, again])
        self._jumps += [(again, 2, begin), (row, 2, len(self._operations)), (row, 7, -1)]

    def _flag(self, flag: Flag) -> bytes:
        return struct.pack("<3I", self._buffers[id(flag.buffer.memory)], flag.offset, flag.size)

    def _row_with_target(self, more: bytes, begin: tuple[int, int]) -> int:
        """A row of a loop or a condition, which no other shares."""
        return self._new_row(struct.pack("<3I", *begin, 0) + more)

    def _call(self, call: Call, slots: tuple[Slot | None, ...]) -> bytes:
        row = bytearray(struct.pack("<7I", call.dimensions, *call.size, *call.offset))
        for argument, slot in zip(call.arguments, slots, strict=True):
            if slot is None:
                continue
            row.extend(bytes(max(0, slot.at - len(row))))
            if isinstance(argument, Buffer):
                number = NULL if argument.memory is None else self._buffers[id(argument.memory)]
                row += struct.pack("<I", number)
            elif isinstance(argument, StepValue):
                row += self._changing(argument) if slot.changes else argument.data
        return bytes(row)

    def _changing(self, value: StepValue) -> bytes:
        if value.turn is None:
            return struct.pack("<3I", self._keep(value.data, len(value.data)), 0, 0)
        assert value.dtype is not None
        data = value.turn.all(value.dtype).tobytes()
        size = value.dtype.itemsize
        return struct.pack("<3I", self._keep(data, size), size, self._levels[id(value.turn.loop)])

    def _keep(self, data: bytes, size: int) -> int:
        """The place of values of each turn, from the first of them."""
        at = -(-self._more_bytes // aligned(size)) * aligned(size)
        self._more += [bytes(at - self._more_bytes), data]
        self._more_bytes = at + len(data)
        return at

    def _row(self, code: int, data: bytes) -> int:
        """The row of an operation, which equal ones share."""
        if (code, data) not in self._rows:
            self._rows[code, data] = self._new_row(data)
        return self._rows[code, data]

    def _new_row(self, data: bytes) -> int:
        self._data.extend(bytes(-len(self._data) % _ROW_BYTES))
        at = len(self._data)
        self._data += data
        return at

    def _finished(self) -> Words:
        """All words: operations, rows, values of each turn."""
        first = -(-len(self._operations) * 8 // _ROW_BYTES) * _ROW_BYTES
        last = 2 * (len(self._operations) - 1)
        for row, word, target in self._jumps:
            struct.pack_into("<I", self._data, row + 4 * word, last if target < 0 else 2 * target)
        rows = bytearray(self._data)
        rows.extend(bytes(-len(rows) % _ROW_BYTES))
        values = first + len(rows)
        for place in self._moved_places():
            (old,) = struct.unpack_from("<I", rows, place)
            struct.pack_into("<I", rows, place, old + values)
        operations = np.array([[code, (first + row) // 4] for code, row in self._operations], np.uint32)
        head = operations.tobytes() + bytes(first - operations.nbytes)
        data = head + bytes(rows) + b"".join(self._more)
        return np.frombuffer(data + bytes(-len(data) % 4), np.uint32)

    def _moved_places(self) -> list[int]:
        """Where rows have the place of values of each turn."""
        slots = dict(self._numbers.values())
        return [
            row + slot.at
            for (code, _), row in self._rows.items()
            if code >= STEP
            for slot in slots[code - STEP]
            if slot is not None and slot.changes
        ]
