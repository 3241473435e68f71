"""Takes the entry of one device apart into what can be compared: a flat list of named values, in groups.

Not for judging them (`portbar.report.compare`). What depends on the moment, such as a device's number or how long the survey
took, is left out, and so is what follows from other values, such as a recall.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from portbar.records.reading import rows_of


@dataclass(frozen=True)
class Leaf:
    """One value of a device.

    Attributes
    ----------
    group : str
        The part of the record that it stands in.
    row : str
        The row within the group, in words; empty where the group has no rows.
    name : str
        What it is.
    value : object
        A reading, or a plain value.
    """

    group: str
    row: str
    name: str
    value: Any

    @property
    def path(self) -> str:
        """Where the value stands, in words."""
        return " / ".join(part for part in (self.group, self.row, self.name) if part)


#: The groups in the order in which they are shown.
GROUPS: Final = (
    "devices",
    "status",
    "facts",
    "findings",
    "quirks",
    "strategy",
    "occupancy",
    "barrier",
    "litmus",
    "atomics",
    "split_barrier",
    "reduction",
)

#: The steps whose rows are compared. Those of the probe are merged with the findings, which are their digest.
STEPS: Final = GROUPS[GROUPS.index("occupancy") :]

#: Findings by the names of the probe's rows.
_PROBE_NAMES: Final = {"builds": "build", "progress": "progress", "ordering": "ordering", "litmus": "litmus"}


def leaves(entry: Mapping[str, Any]) -> Iterator[Leaf]:
    """Everything of a device's entry that can be compared."""
    yield Leaf("status", "", "status", entry.get("status"))
    facts = entry.get("facts") or {}
    for name, value in facts.items():
        yield Leaf("facts", "", name, value)
    yield from _findings(entry)
    yield Leaf("quirks", "", "names", sorted(quirk["name"] for quirk in entry.get("quirks") or []))
    for name, choice in (entry.get("strategy") or {}).items():
        yield Leaf("strategy", "", name, choice["value"])
    for step in STEPS:
        outcome = entry.get(step)
        if outcome is not None:
            yield Leaf(step, "", "status", outcome["status"])
            yield from _once(leaf for row in outcome.get("rows") or [] for leaf in _row(step, row))


def _once(found: Iterator[Leaf]) -> Iterator[Leaf]:
    """Each leaf once, with a value if it has one: what several rows are measured against stands in each of them."""
    kept: dict[str, Leaf] = {}
    for leaf in found:
        if leaf.path not in kept or (is_missing(kept[leaf.path].value) and not is_missing(leaf.value)):
            kept[leaf.path] = leaf
    yield from kept.values()


def is_missing(value: Any) -> bool:
    """Whether this is a reading that has a reason in place of a value."""
    return isinstance(value, Mapping) and "value" not in value and "status" in value


def _findings(entry: Mapping[str, Any]) -> Iterator[Leaf]:
    found: dict[str, Any] = {}
    findings = entry.get("findings") or {}
    for field, value in findings.items():
        if field in _PROBE_NAMES:
            found |= {f"{_PROBE_NAMES[field]} {name}": one for name, one in value.items()}
        elif field == "lost":
            found |= {f"{name} lost": why for name, why in value.items()}
        elif field != "source":
            found[field] = value
    for row in rows_of(entry, "probe"):
        # No limit is None among the findings, which a row of the probe cannot say.
        if row["probe"] != "loop_limit" or "loop_limit" not in found:
            found[row["probe"]] = row["result"]
    for name in sorted(found):
        yield Leaf("findings", "", name, found[name])


def _row(step: str, row: Mapping[str, Any]) -> Iterator[Leaf]:
    """The values of one row. What it is measured against has a row of its own, which several rows share."""
    for name, title in _own(step, row):
        if name in row:
            yield Leaf(step, title, name, row[name])


def _own(step: str, row: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Names of a row's values, each with the title of the row that it is shown under."""
    get = row.get
    if step == "occupancy":
        shape = f"local size {get('local_size')}, {get('local_bytes')} bytes"
        title = f"{get('lock')}{'' if get('patience') else ' without patience'}, {shape}"
        return [
            ("found", title),
            ("launch_time", title),
            ("vendor_bound", shape),
            ("computed_bound", shape),
            ("occupancy", shape),
        ]
    if step == "barrier":
        grid = _grid(row)
        return [("barrier_time", f"{get('algorithm')}, {grid}"), ("relaunch_time", grid)]
    if step == "litmus":
        return [("verdict", str(get("strategy")))]
    if step == "atomics":
        title = f"{get('operation')}, {get('type')}, {get('space')}"
        return [("result", title), ("implementation", title), ("time", title)]
    if step == "split_barrier":
        size = f"local size {get('local_size')}"
        title = f"{get('strategy')}, {size}"
        return [("time", title), ("chosen", title), ("barrier_time", size)]
    what = f"{get('level')} {get('operation')} {get('type')}, {_grid(row)}"
    title = f"{get('strategy')}, {what}"
    return [("time", title), ("chosen", title), ("built_in_time", what)]


def _grid(row: Mapping[str, Any]) -> str:
    count = row.get("groups")
    return f"{count} {'group' if count == 1 else 'groups'} of {row.get('local_size')}"
