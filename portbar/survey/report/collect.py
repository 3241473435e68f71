"""Collects what a page shows of each device in many records: one flat summary per device."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import Any

from portbar.survey.device import Device
from portbar.survey.steps import STEPS
from portbar.survey.steps.occupancy import most_groups
from portbar.survey.summary import cost

Json = dict[str, Any]


def collect(records: Iterable[tuple[str, Mapping[str, Any]]]) -> list[Json]:
    """Return summaries of all devices of records, which come with their names."""
    return [_summary(name, record, Device(entry)) for name, record in records for entry in record["devices"]]


def distinct(devices: Iterable[Json]) -> list[Json]:
    """Return summaries with distinct labels: those of one label name their records too, and say so by `repeated`."""
    found = list(devices)
    labels = Counter(one["label"] for one in found)
    places = Counter((one["label"], one["record"]) for one in found)

    def told_apart(one: Json) -> Json:
        repeated = labels[one["label"]] > 1
        more = [one["record"]] if repeated else []
        more += [one["number"]] if places[one["label"], one["record"]] > 1 else []
        return one | {"repeated": repeated, "label": ", ".join((one["label"], *more))}

    return [told_apart(one) for one in found]


def in_order(devices: Iterable[Json]) -> list[Json]:
    """Sort summaries: published ones first, as they came; then by platform, name, driver and time."""

    def order(one: Json) -> list[str]:
        names = () if one["kind"] == "published" else ("platform", "name", "driver", "created")
        return [str(one[name] or "").lower() for name in names]

    return sorted(devices, key=order)


def _summary(name: str, record: Mapping[str, Any], device: Device) -> Json:
    facts = device.facts
    return {
        "record": name,
        "kind": record["kind"],
        "source": _citation(record),
        "year": (record.get("source") or {}).get("year"),
        "created": record["created"],
        "portbar": (record.get("portbar") or {}).get("version"),
        "partial": record["partial"],
        "label": device.label,
        "repeated": False,
        "number": device.number,
        "name": device.name,
        "vendor": facts.get("vendor"),
        "platform": facts.get("platform_name"),
        "version": device.version,
        "driver": facts.get("driver_version"),
        "type": ", ".join(facts.get("type") or []),
        "compute_units": facts.get("compute_units"),
        "verdict": _verdict(device),
        "reason": device.one_group or device.why_not,
        "groups": most_groups(device.entry),
        "cost": _cost(device),
        "strategy": device.strategy,
        "quirks": device.quirks,
        **{step.summary_name or step.name: step.summary(device.entry) for step in STEPS},
    }


def _cost(device: Device) -> Json | None:
    """The cost of a barrier as the survey's summary has it, and whether the times vary too much to go by."""
    found = None if "max_groups" in device.strategy else cost(device.entry)
    if found is None:
        return None
    return {**asdict(found), "speedup": found.speedup, "unsteady": bool(device.part("barrier").get("unsteady"))}


def _citation(record: Mapping[str, Any]) -> str | None:
    source = record.get("source")
    if source is None:
        return None
    return f"{', '.join(source['authors'])} ({source['year']}): {source['title']}. {source['venue']}"


def _verdict(device: Device) -> str:
    if device.verdict != "usable":
        return device.verdict
    groups = most_groups(device.entry)
    if "max_groups" in device.strategy or groups == 1:
        return "one work-group"
    return "usable" if groups else "usable, not measured"
