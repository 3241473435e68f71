"""Compares two records: what differs beyond noise, and which differences are regressions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from portbar.records.reading import TIMES, is_missing, rows_of, unit_of
from portbar.survey.device import Device
from portbar.survey.report.differences import BETTER, WORSE, Leaf, judge, said
from portbar.survey.steps import STEPS

#: How many times slower counts as a regression unless the user says otherwise.
FACTOR: Final = 1.25

#: The remark on times that are not judged, since other work was in them.
BUSY: Final = "measured on a busy machine"

#: The parts of a device that are compared before those of the steps, in the order in which they are shown. The rows of the
#: probe are merged with the findings, which are their digest.
_GROUPS: Final = ("devices", "status", "facts", "findings", "quirks", "strategy")

#: Findings by the names of the probe's rows.
_PROBE_NAMES: Final = {"builds": "build", "progress": "progress", "ordering": "ordering", "litmus": "litmus"}


@dataclass(frozen=True)
class Difference:
    """One difference."""

    #: Title of the device in the new record, or in the old record if only that has it.
    device: str
    #: Part of the record, such as `strategy`, or the name of a step.
    group: str
    #: Path of the value: group, row and name, joined by " / ".
    path: str
    #: The readings or plain values; None if missing.
    old: Any
    new: Any
    #: The change in words, without the path.
    text: str
    #: "regression", "improvement" or empty.
    mark: str = ""
    #: `new` over `old` where both are numbers.
    ratio: float | None = None


@dataclass(frozen=True)
class Pair:
    """Two entries that were compared, by their labels; `same` says whether they are one device."""

    old: str
    new: str
    same: bool


@dataclass(frozen=True)
class Comparison:
    """How two records differ."""

    #: Everything that differs, regressions and improvements among it, in the order of the groups.
    differences: tuple[Difference, ...]
    #: Group -> how many of its values are the same.
    equal: Mapping[str, int]
    #: The devices that were compared. Empty when no device of one record is in the other.
    pairs: tuple[Pair, ...]
    #: How many times slower counts as a regression.
    factor: float = FACTOR

    @property
    def regressions(self) -> tuple[Difference, ...]:
        """Return lost features and slower times; only of pairs that are one device."""
        return tuple(item for item in self.differences if item.mark == WORSE)

    @property
    def improvements(self) -> tuple[Difference, ...]:
        """Return new features and faster times; only of pairs that are one device."""
        return tuple(item for item in self.differences if item.mark == BETTER)

    @property
    def doubtful(self) -> frozenset[str]:
        """Return the devices with numbers that are worse, which may be so at the moment only."""
        return frozenset(item.device for item in self.regressions if item.ratio is not None)

    def confirmed_by(self, again: Comparison) -> Comparison:
        """Call numbers worse only if they are so in both comparisons."""
        still = {(item.device, item.path) for item in again.regressions}
        differences = [
            item
            if item.mark != WORSE or item.ratio is None or (item.device, item.path) in still
            else replace(item, mark="", text=f"{item.text} (not so when measured again)")
            for item in self.differences
        ]
        return replace(self, differences=tuple(differences))

    def to_json(self) -> dict[str, Any]:
        """Return the comparison as JSON values."""
        return {
            "factor": self.factor,
            "pairs": [vars(pair) for pair in self.pairs],
            "regressions": len(self.regressions),
            "improvements": len(self.improvements),
            "differences": [vars(item) for item in self.differences],
            "equal": dict(self.equal),
        }


def compare(
    old: Mapping[str, Any], new: Mapping[str, Any], factor: float = FACTOR, *, only_used: bool = False
) -> Comparison:
    """Compare two records of format 2.

    Records of one device each are compared whatever the devices are. Of longer ones, devices are matched by platform and name,
    those with the same driver version first.

    Parameters
    ----------
    old, new : dict
        As `portbar.records.load` returns them.
    factor : float
        How many times slower, or how many times fewer work-groups, counts as a regression; at least 1. Numbers whose samples
        overlap are the same whatever their ratio.
    only_used : bool
        Compare only what a user of portbar would notice: of several ways to do one thing the fastest, or the one that portbar
        chose, and whether the others still work.

    Raises
    ------
    ValueError
        The factor is below 1.
    """
    if not factor >= 1:
        raise ValueError(f"factor is {factor}; it is how many times slower counts as a regression, so at least 1")
    before, after = ([Device(entry) for entry in record["devices"]] for record in (old, new))
    one_each = len(before) == len(after) == 1
    positions = {0: 0} if one_each else matched(before, after)
    found: list[Difference] = []
    equal: Counter[str] = Counter()
    pairs = []
    for index, position in positions.items():
        one, other = before[index], after[position]
        same = one.identity == other.identity
        pairs.append(Pair(one.label, other.label, same))
        items = _differences(one, other, factor, equal, only_used=only_used)
        found += [item if same else replace(item, mark="") for item in items]
    for index, device in enumerate(before):
        if index not in positions:
            text, mark = f"only in the old record: {device.label}", WORSE if pairs and device.is_surveyed else ""
            found.append(Difference(device.title, "devices", "devices", device.label, None, text, mark))
    for index, device in enumerate(after):
        if index not in positions.values():
            text = f"only in the new record: {device.label}"
            found.append(Difference(device.title, "devices", "devices", None, device.label, text))
    groups = (*_GROUPS, *(step.name for step in STEPS))
    found.sort(key=lambda item: groups.index(item.group))
    return Comparison(tuple(found), {name: equal[name] for name in groups if equal[name]}, tuple(pairs), factor)


def matched(old: Sequence[Device], new: Sequence[Device]) -> dict[int, int]:
    """Return the positions of the same devices in two lists: those with the same driver first, then with another driver."""
    pairs: dict[int, int] = {}
    for name in ("driver", "identity"):
        for index, device in enumerate(old):
            same = (
                position
                for position, other in enumerate(new)
                if position not in pairs.values() and getattr(device, name) == getattr(other, name)
            )
            position = next(same, None) if index not in pairs else None
            if position is not None:
                pairs[index] = position
    return dict(sorted(pairs.items()))


def _leaves(device: Device, *, only_used: bool) -> Iterator[Leaf]:
    """Yield everything of a device that can be compared, or only what is used.

    Left out are values that depend on the moment, such as a device's number, and derived values, such as a recall.
    """
    entry = device.entry
    yield Leaf("status", "", "status", entry.get("status"))
    for name, value in device.facts.items():
        yield Leaf("facts", "", name, value)
    yield from _findings(entry)
    yield Leaf("quirks", "", "names", sorted(device.quirks))
    for name, value in device.strategy.items():
        yield Leaf("strategy", "", name, value)
    for step in STEPS:
        outcome = entry.get(step.name)
        if outcome is not None:
            yield Leaf(step.name, "", "status", outcome["status"])
            yield from _once(
                Leaf(step.name, title, name, row[name])
                for row in (step.used(entry) if only_used else outcome.get("rows") or ())
                for name, title in step.values(row)
                if name in row
            )


def _once(found: Iterator[Leaf]) -> Iterator[Leaf]:
    """Yield each leaf once, with a value if it has one: a common baseline of several rows is repeated in each of them."""
    kept: dict[str, Leaf] = {}
    for leaf in found:
        if leaf.path not in kept or (is_missing(kept[leaf.path].value) and not is_missing(leaf.value)):
            kept[leaf.path] = leaf
    yield from kept.values()


def _findings(entry: Mapping[str, Any]) -> Iterator[Leaf]:
    found: dict[str, Any] = {}
    for field, value in (entry.get("findings") or {}).items():
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


def _differences(
    old: Device, new: Device, factor: float, equal: Counter[str], *, only_used: bool
) -> Iterator[Difference]:
    before, after = ({leaf.path: leaf for leaf in _leaves(device, only_used=only_used)} for device in (old, new))
    # Only the barrier step records it; the times of the other steps were taken beside the same work.
    spoilt = any(device.part("barrier").get("unsteady") for device in (old, new))
    for path, leaf in before.items():
        other = after.get(path)
        if other is None:
            continue
        judgement = judge(leaf, other, factor)
        if judgement is None:
            equal[leaf.group] += 1
            continue
        mark, text = judgement.mark, judgement.text
        if spoilt and unit_of(leaf.value) in TIMES and judgement.ratio is not None:
            mark, text = "", f"{text} ({BUSY})"
        if leaf.name == "status":
            reason = new.why_not if leaf.group == "status" else new.part(leaf.group).get("reason")
            text += f" ({reason})" if reason else ""
        yield Difference(new.title, leaf.group, path, leaf.value, other.value, text, mark, judgement.ratio)
    yield from _unmatched(new.title, before, after, bool(old.strategy and new.strategy))


def _unmatched(
    device: str, before: Mapping[str, Leaf], after: Mapping[str, Leaf], strategies_known: bool
) -> Iterator[Difference]:
    """Yield values in only one of the two: single values one by one, rows of a step counted."""
    counted: dict[str, tuple[list[Leaf], list[Leaf]]] = {}
    for path, leaf in (*before.items(), *after.items()):
        is_new = path not in before
        if path in before and path in after:
            continue
        if leaf.row:
            counted.setdefault(leaf.group, ([], []))[is_new].append(leaf)
            continue
        old, new = (None, leaf.value) if is_new else (leaf.value, None)
        text = f"only in the {'new' if is_new else 'old'} record: {said(leaf.value)}"
        yield Difference(device, leaf.group, path, old, new, text, _mark(leaf, is_new) if strategies_known else "")
    for group, (gone, come) in counted.items():
        parts = [
            f"{len(some)} values only in the {which} record ({some[0].row} ...)" if len(some) > 1
            else f"only in the {which} record: {some[0].row}, {some[0].name} {said(some[0].value)}"
            for some, which in ((gone, "old"), (come, "new"))
            if some
        ]  # fmt: skip
        yield Difference(device, group, f"{group} / rows", len(gone), len(come), "; ".join(parts))


def _mark(leaf: Leaf, is_new: bool) -> str:
    """Return whether it is worse or better that a value is in one record only, the new one or the old one."""
    if leaf.group != "strategy" or is_missing(leaf.value):
        return ""
    if leaf.name == "max_groups":
        # With this choice a grid may have only this many work-groups, so barriers between them are gone.
        return WORSE if is_new else BETTER
    return "" if is_new else WORSE
