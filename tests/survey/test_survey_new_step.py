"""A step from outside of portbar: one class makes it planned, measured, kept, printed, compared and reported."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from copy import deepcopy
from typing import Any, ClassVar

import numpy as np
import pyopencl as cl
import pytest
from rich.text import Text

from portbar import records
from portbar.device.addresses import address_of
from portbar.records.reading import measured, rows_of, value_of
from portbar.survey.report.collect import collect
from portbar.survey.report.compare import compare
from portbar.survey.report.tables import tables
from portbar.survey.run import Job, Survey
from portbar.survey.steps import STEPS, in_turn
from portbar.survey.steps.step import Schedule, Step, as_used
from portbar.survey.tables import Table, cells, name_cell
from tests.checkout import python_path
from tests.report_support import device as surveyed
from tests.report_support import record, times
from tests.survey.support import shown, verdict

Json = dict[str, Any]


class Filling(Step):
    """Times how long the device takes to fill a buffer."""

    name: ClassVar[str] = "x_filling"
    title: ClassVar[str] = "filling"
    doing: ClassVar[str] = "filling buffers"
    full: ClassVar[Schedule] = Schedule(9, 1.0, 5.0)
    quick: ClassVar[Schedule] = Schedule(0, 1.0, 5.0)
    legend: ClassVar[str] = "Filling is of one buffer."
    summary_name: ClassVar[str] = "filling"

    def measure(self, session: Any) -> None:
        for size in (1024, 4096):
            session.doing(f"filling {size} bytes")
            buffer = cl.Buffer(session.context, cl.mem_flags.READ_WRITE, size)
            start = time.perf_counter()
            cl.enqueue_fill_buffer(session.queue, buffer, np.array([7], np.uint8), 0, size).wait()
            taken = measured(1e6 * (time.perf_counter() - start), "us")
            filled = np.empty(size, np.uint8)
            cl.enqueue_copy(session.queue, filled, buffer)
            right = measured(bool((filled == 7).all()))
            session.row(
                {"way": "fill", "size": size, "time": taken, "right": right, "said": "in /home/me/secret/fill.cl"}
            )

    def complete(self, part: Json) -> None:
        part["seed"] = len(part["rows"])

    def views(self, entry: Any) -> Iterator[Text]:
        for row in rows_of(entry, self.name, having="time"):
            yield Text(f"Filling {row['size']} bytes by {row['way']}: {row['time']['value']:.3f} us")

    def faults(self, entry: Any) -> Iterator[str]:
        if any(value_of(row["right"]) is False for row in rows_of(entry, self.name)):
            yield "buffers are filled wrongly"

    def values(self, row: Any) -> Iterable[tuple[str, str]]:
        title = f"{row['way']}, {row['size']} bytes"
        return ("time", title), ("right", title)

    def used(self, entry: Any) -> Iterable[Any]:
        return as_used(rows_of(entry, self.name), "time", "way", ("size",))

    def summary(self, entry: Any) -> float | None:
        return max((row["time"]["value"] for row in rows_of(entry, self.name, having="time")), default=None)

    def table(self, devices: Sequence[Json]) -> Table:
        rows = [cells(name_cell(one), one["filling"]) for one in devices if one["filling"] is not None]
        return Table("filling", "Filling", "", ("Device", "us"), rows, words=["Device"])


@pytest.fixture
def filling() -> Iterator[Filling]:
    """The step, among those of portbar for as long as the test runs."""
    step = Filling()
    STEPS.append(step)
    yield step
    STEPS.remove(step)


def filled(*rows: Json) -> Json:
    """A device with what the step left."""
    return surveyed() | {"x_filling": {"status": "ok", "seconds": 0.1, "rows": list(rows)}}


def row(us: float, way: str = "fill", *, right: bool = True) -> Json:
    return {"way": way, "size": 64, "time": times(us), "right": measured(right)}


def test_it_is_planned_where_it_says(filling: Filling) -> None:
    assert in_turn(quick=True)[0] is filling
    assert in_turn(quick=False)[-1] is filling


def test_it_is_printed_and_part_of_the_verdict(filling: Filling) -> None:
    text = shown(filled(row(2.0)))
    assert "Filling 64 bytes by fill: 2.000 us" in text
    assert "Filling is of one buffer." in text
    assert "wrongly" not in text
    assert "Problem: buffers are filled wrongly" in verdict(filled(row(2.0, right=False)))
    broken = filled(row(2.0))
    broken["x_filling"] |= {"status": "crash", "reason": "ended by SIGSEGV"}
    assert "filling: crash: ended by SIGSEGV" in shown(broken)
    assert "not measured to the end: filling" in verdict(broken)


def test_it_is_compared(filling: Filling) -> None:
    old, new = record(filled(row(2.0))), record(filled(row(6.0)))
    (item,) = compare(old, new).regressions
    assert (item.group, item.path) == ("x_filling", "x_filling / fill, 64 bytes / time")
    assert compare(old, deepcopy(old)).equal["x_filling"] == 3
    both = filled(row(2.0), row(4.0, "copy"))
    slower, lost = filled(row(6.0), row(4.0, "copy")), filled(row(2.0), row(4.0, "copy", right=False))
    (item,) = compare(record(both), record(slower), 1.5, only_used=True).regressions
    assert item.path == "x_filling / as used, 64 bytes / time"
    assert not compare(record(both), record(slower), 2.5, only_used=True).regressions
    (item,) = compare(record(both), record(lost), only_used=True).regressions
    assert item.path == "x_filling / copy, 64 bytes / right"


def test_it_is_in_the_report(filling: Filling) -> None:
    devices = collect([("one", record(filled(row(2.0)))), ("two", record())])
    assert [one["filling"] for one in devices] == [2.0, None]
    (table,) = (table for table in tables(devices) if table.name == "filling")
    assert [[cell.text for cell in line] for line in table.rows] == [["Test GPU (Test platform, 1.0)", "2.00"]]


def test_a_record_of_it_is_read_where_the_step_is_unknown() -> None:
    value = record(filled(row(2.0)))
    assert records.validate(value) == []
    assert "Filling" not in shown(*value["devices"])
    assert "x_filling" not in compare(value, deepcopy(value)).equal
    value["devices"][0]["filling"] = value["devices"][0].pop("x_filling")
    assert records.validate(value)


@pytest.mark.few
@pytest.mark.device
def test_a_device_is_measured_with_it(device: Any, findings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", python_path())
    steps, told = STEPS[:], []
    STEPS[:] = [Filling()]
    try:
        survey = Survey(Job(quick=True), on_step=lambda *step: told.append(step[1]))
        found = survey.run([(address_of(device), device)])
        text = shown(*found["devices"])
    finally:
        STEPS[:] = steps
    assert records.validate(found) == []
    (one,) = found["devices"]
    if one["status"] == "refused":
        pytest.skip(f"portbar refuses this device: {one['reason']}")
    assert "filling buffers" in told
    assert (one["status"], one["x_filling"]["status"], one["x_filling"]["seed"]) == ("complete", "ok", 2)
    for line, size in zip(one["x_filling"]["rows"], (1024, 4096), strict=True):
        assert (line["size"], line["right"], line["said"]) == (size, {"value": True}, "in fill.cl")
        assert line["time"]["value"] > 0
    assert "Filling 4096 bytes by fill" in text
    assert "Filling" not in shown(*found["devices"])
