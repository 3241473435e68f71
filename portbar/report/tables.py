"""The tables of a report, as rows of text: the same for the page and for Markdown.

Not for measuring or drawing out (`portbar.report.collect`), and not for markup: texts are as the records have them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from textwrap import shorten
from typing import Any, Final

from portbar.report.collect import LOCKS, Json

#: Most columns that come from names in the records; the names that most devices have go first.
MOST_COLUMNS: Final = 40

#: Longest text of a cell.
_LONGEST: Final = 70

#: Steps on the way from a device that does everything to one that does nothing, for sorting.
VERDICTS: Final = (
    "usable",
    "one work-group",
    "usable, not measured",
    "published",
    "refused",
    "not surveyed",
    "unusable",
    "failed",
)

#: How the names of capabilities begin, in the order of their columns: what decides most comes first.
_FIRST: Final = ("progress work_groups", "progress sub_groups", "progress", "loops", "ordering", "litmus", "build")


@dataclass(frozen=True)
class Cell:
    """One cell: its text, what it is sorted by where that is not the text, and a class of `yes`, `no`, `best` or none."""

    text: str
    sort: float | None = None
    kind: str = ""


EMPTY: Final = Cell("")


@dataclass(frozen=True)
class Table:
    """A table with a name for links, a title, what it shows, and its columns; numbers stand to the right.

    `columns` holds pairs of a title and whether it holds numbers; the first column names the row. `notes` stand below it. A
    `matrix` has many columns of short words, whose titles a page may turn.
    """

    name: str
    title: str
    about: str
    columns: Sequence[tuple[str, bool]]
    rows: Sequence[Sequence[Cell]]
    notes: Sequence[str] = ()
    matrix: bool = False


def tables(devices: Sequence[Json]) -> list[Table]:
    """All tables; those without a row are left out."""
    made = (
        _verdicts(devices),
        _recall(devices),
        _barriers(devices),
        _capabilities(devices),
        _atomics(devices),
        _split_barriers(devices),
        _reductions(devices),
    )
    return [table for table in made if table.rows]


def label(device: Json) -> str:
    """What a device is called in every table: its name and what tells its drivers apart."""
    platform, driver = device["platform"], device["driver"]
    where = ", ".join(part for part in (platform, driver) if part) or device["vendor"] or ""
    text = f"{device['name']} ({where})" if where else device["name"]
    return shorten(text, 100, placeholder=" ...")


def _name(device: Json) -> Cell:
    return Cell(label(device))


def _text(value: Any) -> Cell:
    return Cell(shorten(str(value), _LONGEST, placeholder=" ...")) if value not in {None, ""} else EMPTY


def _count(value: float | None) -> Cell:
    return EMPTY if value is None else Cell(f"{value:g}", value)


def _time(value: float | None) -> Cell:
    return EMPTY if value is None else Cell(digits(value), value)


def digits(value: float) -> str:
    """A number with three digits that count."""
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def _common(
    names: Iterable[Iterable[str]], first: Sequence[str] = (), most: int = MOST_COLUMNS
) -> tuple[list[str], int]:
    """The names that most devices have, in the order of how `first` says they begin, and how many were left out."""
    counted = Counter(name for of_device in names for name in of_device)
    kept = sorted(name for name, _ in sorted(counted.items(), key=lambda item: (-item[1], item[0]))[:most])
    kept.sort(
        key=lambda name: next((at for at, beginning in enumerate(first) if name.startswith(beginning)), len(first))
    )
    return kept, len(counted) - len(kept)


def _left_out(count: int, what: str) -> tuple[str, ...]:
    return (f"{count} more {what} that fewer devices have are in the output of --json.",) if count else ()


def _verdicts(devices: Sequence[Json]) -> Table:
    columns = [
        ("Device", False),
        ("Verdict", False),
        ("Work-groups that meet", True),
        ("Times faster than relaunching", True),
        ("Compute units", True),
        ("Type", False),
        ("Atomics", False),
        ("Discovery", False),
        ("Barrier", False),
        ("Known faults", False),
        ("Measured", False),
    ]
    rows = []
    for one in sorted(devices, key=lambda one: one["kind"] == "published"):
        strategy, most = one["strategy"], _most(one["barrier"])
        word = one["verdict"]
        verdict = word if not one["reason"] else f"{word}: {shorten(one['reason'], 140, placeholder=' ...')}"
        rows.append(
            [
                _name(one),
                Cell(verdict, VERDICTS.index(word), {"usable": "yes", "unusable": "no", "failed": "no"}.get(word, "")),
                _count(one["groups"]),
                _time(most[2] / most[1] if most and most[2] and most[1] else None),
                _count(one["compute_units"]),
                _text(one["type"]),
                *(_text(strategy.get(choice)) for choice in ("atomics", "discovery", "device_barrier")),
                _text(", ".join(one["quirks"])),
                _text(one["year"] or one["created"] + (" (partial)" if one["partial"] else "")),
            ]
        )
    about = (
        "Whether work-groups can meet at a barrier inside a kernel, how many, and what portbar chooses. The times are those of "
        "the fastest barrier between the most work-groups, and of an empty kernel that is launched again."
    )
    return Table("verdicts", "What each device can do", about, columns, rows)


def _most(curve: Json | None) -> tuple[int, float, float | None, str] | None:
    """Most work-groups with a time, microseconds of the fastest barrier and of a relaunch there, and its algorithm."""
    return _at(curve, max)


def _at(curve: Json | None, pick: Any) -> tuple[int, float, float | None, str] | None:
    if curve is None:
        return None
    counts = {groups for times in curve["algorithms"].values() for groups, _ in times if groups > 1}
    if not counts:
        return None
    groups = pick(counts)
    times = {name: dict(times)[groups] for name, times in curve["algorithms"].items() if groups in dict(times)}
    fastest = min(times, key=lambda name: times[name])
    return groups, times[fastest], dict(curve["relaunch"]).get(groups), fastest


def _recall(devices: Sequence[Json]) -> Table:
    columns = [
        ("Device", False),
        ("Compute units", True),
        ("Local size", True),
        ("Occupancy bound", True),
        *((f"{lock.capitalize()} lock" if lock != "packed" else "Packed", True) for lock in LOCKS),
        *((f"{lock.capitalize()}, patient", True) for lock in LOCKS),
        ("Spin, all sizes", True),
        ("Ticket, all sizes", True),
        ("Vendor's bound", True),
    ]
    rows = []
    for one in devices:
        found = one["recall"]
        if found is None:
            continue
        cells = [_found(found["cells"].get(name)) for name in (*LOCKS, *(f"{lock} patient" for lock in LOCKS))]
        name = f"{label(one)}, published" if one["kind"] == "published" else label(one)
        vendor = found["vendor_bound"]
        rows.append(
            [
                Cell(name),
                _count(one["compute_units"]),
                _count(found["local_size"]),
                _count(found["bound"]),
                *cells,
                _range(found["range"].get("spin")),
                _range(found["range"].get("ticket")),
                EMPTY if vendor is None else Cell(f"{vendor:g} ({_percent(found['vendor_recall'])})", vendor),
            ]
        )
    about = (
        "Work-groups that discovery found, mean of the runs, and in brackets how much that is of the most that any run found "
        "(the occupancy bound). Spin, ticket and packed close the poll as the published study does; patient ones wait for "
        "work-groups that have not arrived. Measured devices are shown at their largest local size with little local memory, "
        "as the published chips; the least and the most over all sizes are further to the right. The vendor's bound is the "
        "driver's own answer, in brackets how much of it was found."
    )
    sources = sorted({one["source"] for one in devices if one["source"]})
    return Table(
        "recall", "Recall of discovery, by lock", about, columns, rows, [f"Published: {one}" for one in sources]
    )


def _found(cell: Json | None) -> Cell:
    if cell is None or cell["recall"] is None:
        return EMPTY
    kind = "yes" if cell["recall"] >= 0.97 else "no" if cell["recall"] < 0.5 else ""
    return Cell(f"{cell['groups']:.4g} ({_percent(cell['recall'])})", cell["recall"], kind)


def _range(spread: Sequence[float] | None) -> Cell:
    if spread is None or spread[2] < 2:
        return EMPTY
    low, high = (f"{100 * value:.0f}" for value in spread[:2])
    return Cell(f"{high} %" if low == high else f"{low} to {high} %", spread[0])


def _percent(share: float | None) -> str:
    return "not measured" if share is None else f"{100 * share:.0f} %"


def _barriers(devices: Sequence[Json]) -> Table:
    columns = [("Device", False), ("Local size", True)]
    for which in ("Fewest", "Most"):
        columns += [(f"{which} groups", True), ("Fastest", False), ("Barrier, us", True), ("Relaunch, us", True)]
    rows = []
    unsteady = False
    for one in devices:
        few, most = _at(one["barrier"], min), _at(one["barrier"], max)
        if few is None or most is None:
            continue
        name = label(one)
        if one["barrier"]["unsteady"]:
            name, unsteady = f"{name} *", True
        row = [Cell(name), _count(one["barrier"]["local_size"])]
        for groups, us, again, fastest in (few, most):
            row += [_count(groups), _text(fastest), _time(us), _time(again)]
        rows.append(row)
    about = (
        "Microseconds of the fastest barrier between the fewest and the most work-groups that were measured, beside ending the "
        "kernel and launching an empty one."
    )
    notes = ["* Measured on a busy machine: not to be relied on."] if unsteady else []
    return Table("barriers", "Time of a barrier", about, columns, rows, notes)


def _capabilities(devices: Sequence[Json]) -> Table:
    measured = [one for one in devices if one["capabilities"]]
    names, more = _common((one["capabilities"] for one in measured), _FIRST)
    says = {True: Cell("yes", 0, "yes"), False: Cell("no", 1, "no"), None: Cell("", 2)}
    rows = [[_name(one), *(says[one["capabilities"].get(name)] for name in names)] for one in measured]
    about = (
        "What was measured, whatever the driver claims: whether work-groups, sub-groups and lanes make progress by themselves, "
        "whether long loops run to their end, what compiles and runs, and which atomics order memory (in a short probe, and in "
        "litmus tests). Empty: not measured."
    )
    titles = [("Device", False), *((name, False) for name in names)]
    return Table("capabilities", "Capabilities", about, titles, rows, _left_out(more, "capabilities"), True)


def _atomics(devices: Sequence[Json]) -> Table:
    measured = [one for one in devices if one["atomics"]]
    names, more = _common(one["atomics"] for one in measured)
    rows = [[_name(one), *(_ways(one["atomics"].get(name)) for name in names)] for one in measured]
    about = (
        "Atomic operations by type, in global and local memory: how many the device does by an instruction of its own, how "
        "many by a loop or otherwise, and how many do not work."
    )
    titles = [("Device", False), *((name, False) for name in names)]
    return Table("atomics", "Atomic operations", about, titles, rows, _left_out(more, "types"))


def _ways(counted: dict[str, int] | None) -> Cell:
    if not counted:
        return EMPTY
    ordered = sorted(counted.items(), key=lambda item: (item[0] == "none", -item[1], item[0]))
    text = ", ".join(f"{count} {how}" for how, count in ordered)
    return Cell(shorten(text, _LONGEST, placeholder=" ..."), counted.get("none", 0), "no" if "none" in counted else "")


def _split_barriers(devices: Sequence[Json]) -> Table:
    measured = [one for one in devices if one["split_barrier"]]
    names, more = _common((one["split_barrier"]["times_ns"] for one in measured), most=8)
    rows = [
        [
            _name(one),
            _count(one["split_barrier"]["local_size"]),
            *_timed(one["split_barrier"]["times_ns"], one["split_barrier"]["chosen"], names),
            _time(one["split_barrier"]["barrier_ns"]),
        ]
        for one in measured
    ]
    about = (
        "Nanoseconds of an arrive and a wait within a work-group, by strategy, beside the work-group barrier of OpenCL. "
        "The one that portbar chooses is marked with *."
    )
    columns = [("Device", False), ("Local size", True), *((name, True) for name in names), ("OpenCL's barrier", True)]
    return Table("split-barriers", "Split barriers", about, columns, rows, _left_out(more, "strategies"))


def _timed(times: dict[str, float], chosen: str | None, names: Sequence[str]) -> Iterator[Cell]:
    for name in names:
        value = times.get(name)
        if value is None:
            yield EMPTY
        else:
            yield Cell(f"{digits(value)}{' *' if name == chosen else ''}", value, "best" if name == chosen else "")


def _reductions(devices: Sequence[Json]) -> Table:
    measured = [(one, level, of) for one in devices for level, of in one["reduction"].items()]
    names, more = _common((of["times_us"] for _, _, of in measured), most=8)
    rows = [
        [
            _name(one),
            _text(level.replace("_", "-")),
            _text(f"{of['operation']} {of['type']}"),
            _text(f"{of['groups'] or '?'} x {of['local_size'] or '?'}"),
            *_timed(of["times_us"], of["chosen"], names),
            _time(of["built_in_us"]),
        ]
        for one, level, of in measured
    ]
    about = (
        "Microseconds of a reduction by level and strategy, beside the function that OpenCL has for it. The grid is "
        "work-groups times work-items. The strategy that portbar chooses is marked with *."
    )
    columns = [("Device", False), ("Level", False), ("Operation", False), ("Grid", True)]
    columns += [*((name, True) for name in names), ("Built in", True)]
    return Table("reductions", "Reductions", about, columns, rows, _left_out(more, "strategies"))
