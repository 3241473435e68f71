"""Findings from the shipped records in `vendor_matrix/`, for devices that were never probed on this machine."""

from __future__ import annotations

import importlib.resources
import json
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import cache
from itertools import zip_longest
from typing import Any, Final

from portbar.device.facts import DeviceFacts, architecture, host_architecture
from portbar.device.findings import ANOTHER_PROCESSOR, Findings
from portbar.errors import RecordError

#: The beginning of the source of findings from the matrix; the record's slug follows.
SOURCE: Final = "vendor matrix record "

#: Part of the findings -> the text before a record's name if only this part comes from it.
LENT: Final = {
    "tuning": "tuned waits of ",
    "arrays": "shapes of array operations of ",
    "barrier_table": "barrier table of ",
}

#: Slug, facts, the host's processor architecture (empty where the record does not name it), findings.
Known = tuple[str, DeviceFacts, str, Findings]


@cache
def _records() -> tuple[Known, ...]:
    return tuple(_read())


def _read() -> Iterator[Known]:
    """Return the records included in portbar that have findings; published ones have none.

    Tests have validated them, so that a program that only asks for a strategy need not.
    """
    folder = importlib.resources.files("portbar.vendor_matrix")
    for entry in sorted(folder.iterdir(), key=lambda path: path.name):
        if not entry.name.endswith(".json"):
            continue
        try:
            record = json.loads(entry.read_text(encoding="utf-8"))
            devices = [one for one in record["devices"] if record["kind"] == "measured" and one.get("findings")]
            host = architecture(record["environment"].get("machine")) if devices else ""
        except (KeyError, TypeError, ValueError) as error:
            raise RecordError(f"vendor_matrix/{entry.name} is not a survey record: {error!r}") from error
        for device in devices:
            # A valid record may hold members and names of a newer portbar, which then lends nothing.
            with suppress(RecordError):
                facts, findings = DeviceFacts.from_json(device["facts"]), Findings.from_json(device["findings"])
                yield entry.name.removesuffix(".json"), facts, host, findings


def version_numbers(text: str) -> tuple[int, ...]:
    """The numbers of the first dotted version in `text`: `580.65.06` and `PoCL 3.1+debian` alike."""
    match = re.search(r"(?<!\d)\d+(?:\.\d+)+", text)
    return tuple(int(part) for part in match[0].split(".")) if match else ()


def _family(facts: DeviceFacts) -> tuple[Any, ...]:
    """Return the properties that two devices must share for one's findings to apply to the other.

    A GPU is its name. CPU runtimes put the host's processor in the name, so there the platform and its release count.
    """
    if facts.is_host:
        release = version_numbers(facts.driver_version) or version_numbers(facts.platform_version)
        return ("cpu", facts.platform_name, release[:2])
    return ("device", facts.platform_name, facts.name)


def is_same_kind(facts: DeviceFacts, other: DeviceFacts) -> bool:
    """Whether times that were measured on one of two devices of a family hold for the other."""
    return facts.name == other.name


def _distance(one: tuple[int, ...], other: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(abs(a - b) for a, b in zip_longest(one, other, fillvalue=0))


def neighbour(facts: DeviceFacts) -> tuple[str, DeviceFacts, Findings] | None:
    """The tuned record of the most similar GPU of the same platform: slug, facts and findings; None without one.

    Similar means the nearest compute capability, then number of compute units, then driver. Such a record lends numbers that
    cost or save time, nothing that decides what is correct.
    """
    if facts.is_host:
        return None
    mine = version_numbers(facts.driver_version)
    alike = [
        (
            abs(other.compute_capability - facts.compute_capability),
            abs((other.compute_units or 0) - (facts.compute_units or 0)),
            _distance(mine, version_numbers(other.driver_version)),
            name,
            other,
            findings,
        )
        for name, other, _, findings in _records()
        if other.platform_name == facts.platform_name and not other.is_host and findings.tuning is not None
    ]
    best = min(alike, key=lambda entry: entry[:4], default=None)
    return None if best is None else best[3:]


def builds_alike(facts: DeviceFacts) -> Mapping[str, bool]:
    """Compile probes of a GPU with the same compute capability and no newer driver; empty where there is none.

    A driver compiles what an older one compiled.
    """
    mine = version_numbers(facts.driver_version)
    known = [
        (version_numbers(other.driver_version), findings.builds)
        for _, other, _, findings in _records()
        if 0 < facts.compute_capability == other.compute_capability
        and facts.platform_name == other.platform_name
        and version_numbers(other.driver_version) <= mine
    ]
    return max(known, key=lambda entry: entry[0], default=((), {}))[1]


def without_counts(findings: Findings) -> Findings:
    """Findings for a device with another number of compute units: without those that depend on it."""
    return replace(findings, groups_in_flight=None, barrier_table=())


def record_named(source: str) -> str:
    """Return the record of the matrix that is named in a source of findings; empty if there is none."""
    found = re.search(rf"{re.escape(SOURCE)}[^\s;]+", source)
    return found[0] if found else ""


def nearest(facts: DeviceFacts, host: str | None = None) -> Findings | None:
    """Findings of the most similar device in the matrix, the nearest driver version first; None if there is none.

    Counts that depend on the machine (work-groups in flight) are kept only where the number of compute units agrees, and the
    table of barrier algorithms only where the name does, too: which one is fastest differs between processors. A
    device that is the host's processor gets findings from the same architecture only: x86 keeps stores in order, and so
    passes tests that another architecture fails. An emulated processor and a real one lend each other nothing. Unless both
    architectures are known, no verdict on memory order is lent.
    `host` is the host's architecture, by default this machine's.
    """
    host = host_architecture() if host is None else architecture(host)
    on_host = facts.is_host
    mine = version_numbers(facts.driver_version)
    family = _family(facts)
    best: tuple[tuple[Any, ...], Known] | None = None
    for known in _records():
        _, other, kind, _ = known
        if _family(other) != family or other.emulator != facts.emulator or (on_host and kind and host and kind != host):
            continue
        # A record that is known to be from this architecture comes before any that may be, then one of the same processor.
        drivers = _distance(mine, version_numbers(other.driver_version))
        size_differs = on_host and other.compute_units != facts.compute_units
        distance = (on_host and not kind, not is_same_kind(facts, other), size_differs, drivers)
        if best is None or distance < best[0]:
            best = (distance, known)
    if best is None:
        return None
    name, other, kind, findings = best[1]
    if on_host and not (kind and host):
        findings = replace(findings, ordering={}, litmus={})
    if other.compute_units != facts.compute_units:
        findings = without_counts(findings)
    about = "never probed on this machine"
    if not is_same_kind(facts, other):
        findings, about = replace(findings, barrier_table=()), f"{other.name}, {ANOTHER_PROCESSOR}; {about}"
    return replace(findings, times_rejected=None, source=f"{SOURCE}{name} ({about})")
