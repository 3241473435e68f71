"""Collects what a page shows of each device in many records: one flat summary per device."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from portbar.survey.device import Device
from portbar.survey.steps import STEPS
from portbar.survey.steps.occupancy import most_groups

Json = dict[str, Any]


def collect(records: Iterable[tuple[str, Mapping[str, Any]]]) -> list[Json]:
    """Return summaries of all devices of records, which come with their names."""
    return [_summary(name, record, Device(entry)) for name, record in records for entry in record["devices"]]


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
        "created": record["created"][:10],
        "portbar": (record.get("portbar") or {}).get("version"),
        "partial": record["partial"],
        "label": device.label,
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
        "strategy": device.strategy,
        "quirks": device.quirks,
        **{step.summary_name or step.name: step.summary(device.entry) for step in STEPS},
    }


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
