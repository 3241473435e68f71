"""Compares two records: what differs beyond noise, and which differences are regressions.

Not for printing them: `portbar compare` and `portbar survey --check` do.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from portbar.report.judging import BETTER, WORSE, Judgement, judge, said
from portbar.report.leaves import GROUPS, STEPS, Leaf, is_missing, leaves
from portbar.report.noise import TIMES, unit

#: How many times slower counts as a regression unless the user says otherwise.
FACTOR: Final = 1.25

Entry = Mapping[str, Any]


@dataclass(frozen=True)
class Item:
    """One difference.

    Attributes
    ----------
    device : str
        Name of the device in the new record, or in the old one where the new one has it no more.
    group : str
        Part of the record, one of `portbar.report.leaves.GROUPS`.
    path : str
        Where the value stands: group, row and name, joined by " / ".
    old, new : object
        The readings or plain values; None where there is none.
    text : str
        The change in words, without the path.
    mark : str
        "regression", "improvement" or empty.
    ratio : float or None
        `new` over `old` where both are numbers.
    """

    device: str
    group: str
    path: str
    old: Any
    new: Any
    text: str
    mark: str = ""
    ratio: float | None = None


@dataclass(frozen=True)
class Pair:
    """Two entries that were compared, by their names and driver versions; `same` tells whether they are one device."""

    old: str
    new: str
    same: bool


@dataclass(frozen=True)
class Comparison:
    """How two records differ.

    Attributes
    ----------
    differences : tuple of Item
        Everything that differs, regressions and improvements among it, in the order of the groups.
    equal : mapping of str to int
        Group -> how many of its values are the same.
    pairs : tuple of Pair
        What was compared with what. Empty when no device of one record is in the other.
    factor : float
        How many times slower counts as a regression.
    """

    differences: tuple[Item, ...]
    equal: Mapping[str, int]
    pairs: tuple[Pair, ...]
    factor: float = FACTOR

    @property
    def regressions(self) -> tuple[Item, ...]:
        """What a device can no longer do, or does more slowly; only of pairs that are one device."""
        return tuple(item for item in self.differences if item.mark == WORSE)

    @property
    def improvements(self) -> tuple[Item, ...]:
        """What a device can do now, or does faster; only of pairs that are one device."""
        return tuple(item for item in self.differences if item.mark == BETTER)

    def to_json(self) -> dict[str, Any]:
        """The comparison as JSON values."""
        return {
            "factor": self.factor,
            "pairs": [vars(pair) for pair in self.pairs],
            "regressions": len(self.regressions),
            "improvements": len(self.improvements),
            "differences": [vars(item) for item in self.differences],
            "equal": dict(self.equal),
        }


def compare(
    old: Mapping[str, Any], new: Mapping[str, Any], factor: float = FACTOR, *, same_device: bool | None = None
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
    same_device : bool, optional
        Whether the two are one device, so that a difference can be a regression; by default their names and platforms tell.

    Raises
    ------
    ValueError
        The factor is below 1.
    """
    if not factor >= 1:
        raise ValueError(f"factor is {factor}; it is how many times slower counts as a regression, so at least 1")
    pairs, gone, come = _matched(old["devices"], new["devices"])
    found: list[Item] = []
    equal: Counter[str] = Counter()
    said_pairs = []
    for one, other in pairs:
        same = _is_same(one, other) if same_device is None else same_device
        said_pairs.append(Pair(_title(one), _title(other), same))
        items = _differences(one, other, factor, equal)
        found += [item if same else replace(item, mark="") for item in items]
    may_be_lost = bool(pairs) if same_device is None else same_device
    for entry in gone:
        lost = may_be_lost and entry["status"] in {"complete", "partial"}
        text = f"only in the old record: {_title(entry)}"
        found.append(Item(_name(entry), "devices", "devices", _title(entry), None, text, WORSE if lost else ""))
    for entry in come:
        text = f"only in the new record: {_title(entry)}"
        found.append(Item(_name(entry), "devices", "devices", None, _title(entry), text))
    found.sort(key=lambda item: GROUPS.index(item.group))
    return Comparison(tuple(found), {name: equal[name] for name in GROUPS if equal[name]}, tuple(said_pairs), factor)


def _name(entry: Entry) -> str:
    return str((entry.get("facts") or {}).get("name") or "a device without a name")


def _title(entry: Entry) -> str:
    facts = entry.get("facts") or {}
    return (
        f"{_name(entry)} ({facts.get('platform_name') or 'no platform'}, driver {facts.get('driver_version') or '?'})"
    )


def _identity(entry: Entry) -> tuple[str, str]:
    """Platform and name of a device, without the versions and the driver's words that some runtimes put into the name."""
    facts = entry.get("facts") or {}
    name = re.sub(r"\s*\([^()]*\d[^()]*\)", "", facts.get("name") or "")
    if "CPU" in (facts.get("type") or ()):
        # How a runtime drives the processor, as in "pthread-skylake-avx512-AMD EPYC", changes between its versions.
        name = re.sub(r"^[a-z0-9]+(?:-[a-z0-9]+)*-(?=[A-Z])", "", name)
    return facts.get("platform_name") or "", name.lower()


def _is_same(one: Entry, other: Entry) -> bool:
    return _identity(one) == _identity(other)


def _matched(old: Sequence[Entry], new: Sequence[Entry]) -> tuple[list[tuple[Entry, Entry]], list[Entry], list[Entry]]:
    """Pairs of entries to compare, and what is left of both."""
    if len(old) == len(new) == 1:
        return [(old[0], new[0])], [], []
    left, right = list(old), list(new)
    pairs: list[tuple[int, Entry, Entry]] = []
    for same in (_same_driver, _is_same):
        for entry in list(left):
            other = next((candidate for candidate in right if same(entry, candidate)), None)
            if other is not None:
                left = [one for one in left if one is not entry]
                right = [one for one in right if one is not other]
                pairs.append((next(i for i, one in enumerate(old) if one is entry), entry, other))
    pairs.sort(key=lambda pair: pair[0])
    return [(entry, other) for _, entry, other in pairs], left, right


def _same_driver(one: Entry, other: Entry) -> bool:
    facts, others = one.get("facts") or {}, other.get("facts") or {}
    return all(facts.get(name) == others.get(name) for name in ("platform_name", "name", "driver_version"))


def _differences(old: Entry, new: Entry, factor: float, equal: Counter[str]) -> Iterator[Item]:
    before, after = ({leaf.path: leaf for leaf in leaves(entry)} for entry in (old, new))
    device = _name(new)
    for path, leaf in before.items():
        other = after.get(path)
        if other is None:
            continue
        judgement = judge(leaf, other, factor)
        if judgement is None:
            equal[leaf.group] += 1
            continue
        judgement = _softened(leaf, judgement, old, new)
        text = judgement.text + (f" ({_reason(leaf, new)})" if leaf.name == "status" and _reason(leaf, new) else "")
        value, replaced = leaf.value, other.value
        yield Item(device, leaf.group, path, value, replaced, text, judgement.mark, judgement.ratio)
    known = bool(old.get("strategy") and new.get("strategy"))
    yield from _unmatched(device, before, after, known)


def _softened(leaf: Leaf, judgement: Judgement, old: Entry, new: Entry) -> Judgement:
    """A difference between times that other work on the machine has spoilt is none of the device's."""
    # Only the barrier step tells; the times of the other steps were taken beside the same work.
    spoilt = any((entry.get("barrier") or {}).get("unsteady") for entry in (old, new))
    if spoilt and unit(leaf.value) in TIMES and judgement.ratio is not None:
        return replace(judgement, mark="", text=f"{judgement.text} (measured on a busy machine)")
    return judgement


def _reason(leaf: Leaf, entry: Entry) -> str:
    """Why a device or a step has the status that it has."""
    if leaf.group == "status":
        usable = entry.get("usable") or {}
        given = entry.get("reason") or (usable.get("reason") if not usable.get("usable") else "")
    else:
        given = (entry.get(leaf.group) or {}).get("reason")
    return str(given or "")


def _unmatched(
    device: str, before: Mapping[str, Leaf], after: Mapping[str, Leaf], strategies_known: bool
) -> Iterator[Item]:
    """What only one of the two has: single values one by one, rows of a step counted."""
    counted: dict[str, tuple[list[Leaf], list[Leaf]]] = {}
    for path in [*before, *(path for path in after if path not in before)]:
        leaf = before.get(path) or after[path]
        if path in before and path in after:
            continue
        if leaf.row and leaf.group in STEPS:
            rows = counted.setdefault(leaf.group, ([], []))
            rows[path not in before].append(leaf)
            continue
        item = _single(device, path, before.get(path), after.get(path))
        yield item if strategies_known else replace(item, mark="")
    for group, (gone, come) in counted.items():
        parts = [
            f"{len(some)} values only in the {which} record ({some[0].row} ...)" if len(some) > 1
            else f"only in the {which} record: {some[0].row}, {some[0].name} {said(some[0].value)}"
            for some, which in ((gone, "old"), (come, "new"))
            if some
        ]  # fmt: skip
        yield Item(device, group, f"{group} / rows", len(gone), len(come), "; ".join(parts))


def _single(device: str, path: str, old: Leaf | None, new: Leaf | None) -> Item:
    leaf = old or new
    assert leaf is not None
    before, after = (None if one is None else one.value for one in (old, new))
    mark = ""
    if leaf.path == "strategy / max_groups":
        # With this choice a grid may have no more than so many work-groups, so that barriers between them are gone.
        mark = WORSE if old is None else BETTER
    elif leaf.group == "strategy":
        mark = WORSE if new is None else ""
    text = f"only in the {'old' if new is None else 'new'} record: {said(leaf.value)}"
    if is_missing(leaf.value):
        mark = ""
    return Item(device, leaf.group, path, before, after, text, mark)
