"""Compares this machine with a record of it: what it can no longer do, and what it does more slowly, in sentences.

Only what a user of portbar would notice counts: of several ways to do one thing the fastest, or the one that portbar chose, and
whether the others still work.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from portbar.errors import RecordError
from portbar.report.compare import Item, compare, matched
from portbar.survey.device import Device
from portbar.survey.steps import STEPS

#: How many times slower is a fault unless the user says otherwise: machines that are shared vary by less than that.
FACTOR: Final = 2.0

#: States of a device in a record that leave something to compare with.
_SURVEYED: Final = {"complete", "partial"}

Entry = Mapping[str, Any]


@dataclass(frozen=True)
class Fault:
    """Something that has become worse.

    Attributes
    ----------
    device : str
        Number and name of the device.
    path : str
        What has, in words.
    text : str
        Before and after.
    ratio : float or None
        `new` over `old`, where both are numbers; measuring again may then give another answer.
    """

    device: str
    path: str
    text: str
    ratio: float | None = None

    def __str__(self) -> str:
        return f"{self.device}: {self.path}: {self.text}" if self.path else f"{self.device}: {self.text}"


@dataclass(frozen=True)
class Outcome:
    """What a check found.

    Attributes
    ----------
    faults : tuple of Fault
    improvements, notes : tuple of str
        What has become better; what differs and could not be judged.
    devices : tuple of str
        Those that were compared.
    factor : float
    """

    faults: tuple[Fault, ...]
    improvements: tuple[str, ...]
    notes: tuple[str, ...]
    devices: tuple[str, ...]
    factor: float

    def is_doubtful(self, entry: Entry) -> bool:
        """Whether numbers of a device, by its entry in the new record, are faults that may be the moment's."""
        return any(fault.ratio is not None and fault.device == _title(entry) for fault in self.faults)

    def confirmed_by(self, again: Outcome) -> Outcome:
        """Leave out the numbers that were no fault when they were measured again."""
        still = {(fault.device, fault.path) for fault in again.faults}
        kept = tuple(one for one in self.faults if one.ratio is None or (one.device, one.path) in still)
        passed = tuple(f"{one} (not so when measured again)" for one in self.faults if one not in kept)
        return Outcome(kept, self.improvements, self.notes + passed, self.devices, self.factor)

    def to_json(self) -> dict[str, Any]:
        """The outcome as JSON values."""
        return {
            "ok": not self.faults,
            "factor": self.factor,
            "devices": list(self.devices),
            "faults": [vars(fault) for fault in self.faults],
            "improvements": list(self.improvements),
            "notes": list(self.notes),
        }


@dataclass(frozen=True)
class Matched:
    """A record's devices and those of this machine.

    Attributes
    ----------
    pairs : tuple of (dict, int)
        A device of the record, and the position of the same one here.
    gone : tuple of dict
        Devices of the record that are not here.
    """

    pairs: tuple[tuple[Entry, int], ...]
    gone: tuple[Entry, ...]


def match(stored: Entry, here: Sequence[Entry]) -> Matched:
    """Find the devices of a record on this machine: the same driver first, else the same device with another driver.

    Parameters
    ----------
    stored : dict
        A record of format 2.
    here : sequence of dict
        Facts of this machine's devices.

    Raises
    ------
    RecordError
        No device of the record was surveyed, so that there is nothing to compare with.
    """
    surveyed = [entry for entry in stored["devices"] if entry["status"] in _SURVEYED]
    if not surveyed:
        raise RecordError(
            "no device of this record was measured by `portbar survey`, so there is nothing to check this machine against: "
            "name a record that `portbar survey -o FILE` wrote"
        )
    found = dict(matched(surveyed, [{"facts": facts} for facts in here]))
    pairs = tuple((surveyed[index], position) for index, position in found.items())
    return Matched(pairs, tuple(entry for index, entry in enumerate(surveyed) if index not in found))


def judge(
    stored: Entry, pairs: Sequence[tuple[Entry, Entry]], gone: Sequence[Entry] = (), factor: float = FACTOR
) -> Outcome:
    """Say what has become worse.

    Parameters
    ----------
    stored : dict
        The record, of format 2.
    pairs : sequence of (dict, dict)
        Entries of the same device: from the record, and from a survey of this machine just now.
    gone : sequence of dict
        Entries of the record whose devices are not here any more.
    factor : float
        How many times slower is a fault, or how many times fewer work-groups; at least 1.
    """
    faults = [_gone(entry) for entry in gone]
    improvements: list[str] = []
    notes: list[str] = []
    for old, new in pairs:
        found = compare(_alone(stored, old), _alone(stored, new), factor, same_device=True)
        faults += [Fault(_title(new), _words(item), item.text, item.ratio) for item in found.regressions]
        improvements += [_sentence(new, item) for item in found.improvements]
        notes += [_sentence(new, item) for item in found.differences if "busy machine" in item.text]
        notes += _unfinished(new)
    return Outcome(
        tuple(faults), tuple(improvements), tuple(notes), tuple(_title(new) for _, new in pairs), float(factor)
    )


def _alone(record: Entry, entry: Entry) -> dict[str, Any]:
    """A record of one device, with what a user would notice of it."""
    used = {step.name: {**entry[step.name], "rows": list(step.used(entry))} for step in STEPS if step.name in entry}
    return {**record, "devices": [{**entry, **used}]}


def _gone(entry: Entry) -> Fault:
    why = "is in the record and not on this machine; `portbar doctor` says which drivers there are and what is wrong with them"
    return Fault(_named(entry), "", why)


def _unfinished(entry: Entry) -> Iterator[str]:
    for name, value in entry.items():
        if isinstance(value, Mapping) and value.get("status") == "partial" and value.get("reason"):
            yield f"{_title(entry)}: {name.replace('_', ' ')}: {value['reason']}"


def _named(entry: Entry) -> str:
    facts = Device(entry).facts
    return f"{facts.get('name') or 'a device'} ({facts.get('platform_name') or 'no platform'})"


def _title(entry: Entry) -> str:
    """Which device of this machine an entry is about, by its number: there may be two of a kind."""
    return f"{Device(entry).number} {_named(entry)}"


def _words(item: Item) -> str:
    return item.path.replace(" / ", ", ")


def _sentence(entry: Entry, item: Item) -> str:
    return f"{_title(entry)}: {_words(item)}: {item.text}"
