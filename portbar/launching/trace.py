"""`Trace`: when the work-groups of one launch arrived at its device barriers and when they left, as arrays, text and a file.

The kernel records it, where its program is built with `trace`.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np

from portbar.launching.memory import Words
from portbar.primitives.tracing import EVENT_WORDS, HEAD_WORDS, Tracing
from portbar.records.dataclass import dataclass

Times: TypeAlias = "np.ndarray[Any, np.dtype[np.int64]]"

#: Rows of a summary's tables.
_MOST_ROWS: Final = 12

#: The value for "never" in arrays of times.
NEVER: Final = -1


@dataclass(frozen=True, eq=False)
class Trace:
    """When each work-group arrived at each device barrier of a launch and when it left.

    Times count from the moment when the first work-group entered. Phases are device barriers in the order in which a
    work-group met them, whole ones and those in two halves. -1 stands for what did not happen or was not kept.

    Attributes
    ----------
    kernel, device : str
    unit : str
        Of all times: ``ns``, or ``ticks`` of the processor's counter, whose rate is not known.
    entered : numpy.ndarray
        int64, one for each work-group: when it entered.
    arrive, leave : numpy.ndarray
        int64, work-groups by phases. A work-group arrives when all of its work-items have.
    lost : numpy.ndarray
        int64, one for each work-group: barriers that it met after its share of memory was full.
    """

    kernel: str
    device: str
    unit: str
    entered: Times
    arrive: Times
    leave: Times
    lost: Times

    @classmethod
    def from_words(cls, words: Words, tracing: Tracing, epoch: int, label: tuple[str, str]) -> Trace:
        """Read the words that the work-groups of the launch `epoch` left."""
        rows = words.reshape(-1, tracing.words)
        present = rows[:, 0] == epoch
        met = np.where(present, rows[:, 1], 0).astype(np.int64)
        events = np.minimum(met, tracing.events)
        phases = int(events.max(initial=0))
        head = rows[:, :HEAD_WORDS].astype(np.uint64)
        kept = rows[:, HEAD_WORDS : HEAD_WORDS + EVENT_WORDS * phases].astype(np.uint64)
        entered = head[:, 2] | head[:, 3] << np.uint64(32)
        times = (kept[:, 0::2] | kept[:, 1::2] << np.uint64(32)).reshape(len(rows), phases, 2)
        there = np.arange(phases)[None, :] < events[:, None]
        # An arrival whose wait did not end holds an older launch's time there.
        left = there & (times[:, :, 1] >= times[:, :, 0])
        begin = entered[present].min() if present.any() else np.uint64(0)

        def since(values: Any, where: Any) -> Times:
            return np.where(where, (values - begin).astype(np.int64), NEVER)

        return cls(
            *label,
            tracing.unit,
            since(entered, present),
            since(times[:, :, 0], there),
            since(times[:, :, 1], left),
            met - events,
        )

    @property
    def waiting(self) -> Times:
        """int64, work-groups by phases: time from arrival to leaving, in `unit`; -1 where either is."""
        return np.where(self.leave == NEVER, NEVER, self.leave - self.arrive)

    @property
    def last(self) -> Times:
        """int64, one for each phase: the work-group that arrived last, for which the others waited; -1 if none arrived."""
        if not self.arrive.size:
            return np.full(self.arrive.shape[1], NEVER, np.int64)
        return np.where((self.arrive != NEVER).any(axis=0), self.arrive.argmax(axis=0), NEVER)

    def __str__(self) -> str:
        """Time that each work-group waited, and the phases in which work-groups waited most, as plain text."""
        groups, phases = self.arrive.shape
        head = f"kernel {self.kernel!r} on {self.device}: {groups} work-groups, {phases} barriers, times in {self.unit}"
        if not phases:
            return f"{head}\nno work-group reached a barrier"
        waiting = np.maximum(self.waiting, 0)
        last, spans = self.last, np.maximum(self.leave.max(axis=1) - self.entered, 1)
        lines = [
            head,
            "",
            f"{'group':>8} {'waited':>14} {'share':>7} {'longest':>14} {'in phase':>9} {'came last':>10}",
        ]
        order = np.argsort(-waiting.sum(axis=1), kind="stable")
        lines += [
            f"{group:>8} {waiting[group].sum():>14,} {waiting[group].sum() / spans[group]:>7.1%} {waiting[group].max():>14,} "
            f"{int(waiting[group].argmax()):>9} {int((last == group).sum()):>10}"
            for group in sorted(order[:_MOST_ROWS])
        ]
        if groups > _MOST_ROWS:
            lines.append(f"{'...':>8} the {_MOST_ROWS} that waited longest, of {groups}")
        lines += ["", f"{'phase':>8} {'waited, all':>14} {'last to come':>13} {'after the first':>16}"]
        arrived = np.where(self.arrive == NEVER, np.iinfo(np.int64).max, self.arrive)
        spread = np.maximum(self.arrive.max(axis=0) - arrived.min(axis=0), 0)
        worst = np.argsort(-waiting.sum(axis=0), kind="stable")[:_MOST_ROWS]
        lines += [
            f"{phase:>8} {waiting[:, phase].sum():>14,} {last[phase]:>13} {spread[phase]:>16,}"
            for phase in sorted(worst)
        ]
        if phases > _MOST_ROWS:
            lines.append(f"{'...':>8} the {_MOST_ROWS} with the longest waits, of {phases}")
        if self.lost.any():
            lines += ["", f"{int(self.lost.sum()):,} barriers were not recorded: pass a larger number as trace="]
        return "\n".join(lines)

    def save(self, path: str | Path) -> None:
        """Write a file that trace viewers read (chrome://tracing, ui.perfetto.dev): a row for each work-group.

        Parameters
        ----------
        path : str or pathlib.Path
            JSON with `traceEvents`. Their times are microseconds; ticks are written as if they were nanoseconds, and
            `otherData` has the unit.
        """
        events: list[dict[str, Any]] = [
            {"ph": "M", "name": "process_name", "pid": 0, "args": {"name": f"{self.kernel} on {self.device}"}}
        ]
        for group in range(len(self.entered)):
            row = {"pid": 0, "tid": group}
            events.append({"ph": "M", "name": "thread_name", **row, "args": {"name": f"work-group {group}"}})
            since = int(self.entered[group])
            for phase, (arrived, left) in enumerate(zip(self.arrive[group], self.leave[group], strict=True)):
                spans = [("work", since, int(arrived)), ("wait", int(arrived), int(left))]
                for name, begin, end in spans:
                    if NEVER not in {begin, end}:
                        span = {"ts": begin / 1000, "dur": (end - begin) / 1000, "args": {"phase": phase}}
                        events.append({"ph": "X", "name": name, "cat": name, **row, **span})
                since = int(left)
        more = {"unit": self.unit, "lost": int(self.lost.sum())}
        text = json.dumps({"traceEvents": events, "displayTimeUnit": "ns", "otherData": more})
        Path(path).write_text(text, encoding="utf-8")
