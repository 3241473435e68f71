"""Whether the programs of every primitive compute the right results, each in a process of its own."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from textwrap import shorten
from typing import Final

from rich.text import Text

from portbar.device import child
from portbar.records.reading import NO_TIME, measured, missing, rows_of, value_of
from portbar.survey.steps.step import Entry, Json, Row, Running, Schedule, Step
from portbar.survey.tables import Cell, Table, common, name_cell

#: Seconds that a program may take, its compiler included; halved by each one that hangs, down to the least.
MOST_S: Final = 60.0
LEAST_S: Final = 10.0

#: How a program ends whose driver failed, the worst first.
_LOST: Final = ("crash", "timeout", "error")
_LONGEST: Final = 300


class AnswersStep(Step):
    """The programs of `portbar.survey.answers`, in the order of its table."""

    name = "answers"
    title = "right results"
    doing = "checking results"
    full = quick = Schedule(1.5, 20.0, 240.0)
    typical_s = 60.0
    share_only = True
    of_refused = True
    task = "portbar.survey.answers.running:answer"

    def run(self, running: Running) -> Json:
        """Run each program in a child, which may crash; rows say beforehand which one is under way."""
        from portbar.survey.answers.table import ANSWERS  # noqa: PLC0415 (records are read without OpenCL)

        rows: list[Json] = running.entry[self.name]["rows"]
        start, hung = time.monotonic(), 0
        for name, answer in ANSWERS.items():
            row: Json = {"program": name, "primitive": answer.primitive}
            left = running.budget_s - (time.monotonic() - start)
            limit = min(max(LEAST_S, min(left, MOST_S / 2**hung)), start + running.limit_s - time.monotonic())
            if left <= 0 or limit <= 1.0:
                rows.append(row | {"result": missing("skipped", NO_TIME)})
                continue
            # The file says so, should the driver take the machine down.
            rows.append(row | {"result": missing("interrupted", "the survey ended while this program ran")})
            running.report(f"{self.doing}: {name}")
            payload = {
                "address": running.entry["address"],
                "findings": running.entry["findings"],
                "program": name,
                "seed": running.seed,
            }
            result = child.run_task(self.task, payload, timeout=limit)
            hung += result.status == "timeout"
            rows[-1] = row | row_of(result, answer.several) | {"time": measured(round(result.seconds, 2), "s")}
        return outcome_of(rows)

    def views(self, entry: Entry) -> Iterator[Text]:
        """How many are right, and each of the others with its reason."""
        rows = rows_of(entry, self.name)
        if not rows:
            return
        right = [row["program"] for row in rows if value_of(row["result"]) is True]
        yield Text(f"Right results: {len(right)} of {len(rows)} programs: {', '.join(right) or 'none'}")
        for row in rows:
            if row["program"] not in right:
                why = shorten(_why(row["result"]), _LONGEST, placeholder=" ...")
                yield Text(f"{row['program']}: {_word(row['result'])}: {why}", style="red" if _is_wrong(row) else "")

    def faults(self, entry: Entry) -> Iterator[str]:
        """The programs whose results are wrong."""
        wrong = [row["program"] for row in rows_of(entry, self.name) if _is_wrong(row)]
        if wrong:
            yield f"wrong results of {', '.join(wrong)}"

    def remedy(self, _entry: Entry) -> str:
        """A wrong answer is portbar's or the driver's fault."""
        return "send in the record, and use another driver until then"

    def values(self, row: Row) -> Iterable[tuple[str, str]]:
        """Whether the result is right."""
        return (("result", str(row.get("program"))),)

    def used(self, _entry: Entry) -> Iterable[Row]:
        """Nothing: the survey that `--check` makes has no such results."""
        return ()

    def summary(self, entry: Entry) -> dict[str, str]:
        """Primitive -> `right`, or how its worst program ended."""
        found: dict[str, str] = {}
        for row in rows_of(entry, self.name):
            word, primitive = _word(row["result"]), str(row["primitive"])
            found[primitive] = max(found.get(primitive, word), word, key=_badness)
        return found

    def table(self, devices: Sequence[Json]) -> Table | None:
        """The primitives of each device."""
        shown = [one for one in devices if one["answers"]]
        if not shown:
            return None
        names, notes = common((one["answers"] for one in shown), "primitives")
        rows = [[name_cell(one), *(_cell(one["answers"].get(name, "")) for name in names)] for one in shown]
        about = "Whether the programs of each primitive gave the results of NumPy, or how the worst of them ended."
        columns = ("Device", *names)
        return Table("answers", "Right results", about, columns, rows, columns, notes)


def row_of(result: child.ChildResult, several: str) -> Json:
    """Return what the end of a program's process adds to its row.

    `several` says why the program shows nothing where one work-group runs at a time; empty if it does.
    """
    if result.status != "ok":
        return {"result": missing(result.status, result.message)}
    found = result.value
    if "refused" in found:
        return {"result": missing("refused", found["refused"])}
    groups = {} if found["groups"] is None else {"groups": found["groups"]}
    if found["wrong"]:
        return {"result": measured(False, note="; ".join(found["wrong"])), **groups}
    if several and found["groups"] == 1:
        return {"result": missing("skipped", f"the device runs one work-group at a time: {several}"), **groups}
    return {"result": measured(True), **groups}


def outcome_of(rows: Sequence[Row]) -> Json:
    """Return how the step went: its `status`, with a `reason` unless that is ok."""
    for status in _LOST:
        for row in rows:
            if row["result"].get("status") == status:
                return {"status": status, "reason": f"{row['program']}: {row['result']['reason']}"}
    late = sum(row["result"].get("reason") == NO_TIME for row in rows)
    if late:
        return {"status": "partial", "reason": f"no time was left for {late} of {len(rows)} programs"}
    return {"status": "ok"}


def _is_wrong(row: Row) -> bool:
    return value_of(row["result"]) is False


def _word(result: Row) -> str:
    return str(result.get("status") or ("right" if value_of(result) else "wrong"))


def _why(result: Row) -> str:
    return " ".join(str(result.get("reason") or result.get("note") or "").split())


def _badness(word: str) -> int:
    order = ("right", "skipped", "refused", "interrupted", "error", "timeout", "crash", "wrong")
    return order.index(word) if word in order else 0


def _cell(word: str) -> Cell:
    return Cell(word, kind="no" if word == "wrong" or word in _LOST else "")
