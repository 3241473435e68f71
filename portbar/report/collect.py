"""Draws out of many records what a page shows of each device: one flat summary a device.

Not for choosing words or columns (`portbar.report.tables`), and not for reading files.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, Final

from portbar.records.reading import mean_of, rows_of, value_of

Json = dict[str, Any]

#: Microseconds in a unit of time.
_US: Final = {"us": 1.0, "ns": 1e-3, "s": 1e6}

#: Local size whose barrier times stand for a device where several were measured.
_USUAL_LOCAL_SIZE: Final = 256

LOCKS: Final = ("spin", "ticket", "packed")


def collect(records: Iterable[tuple[str, Mapping[str, Any]]]) -> list[Json]:
    """Summaries of all devices.

    Parameters
    ----------
    records : iterable of (str, dict)
        Name of the record, and the record.
    """
    return [summary(name, record, entry) for name, record in records for entry in record["devices"]]


def in_order(devices: Iterable[Json]) -> list[Json]:
    """The published ones first, in the order in which they came; then by platform, name, driver and time."""
    return sorted(devices, key=lambda one: (one["kind"] != "published", *_order(one)))


def _order(one: Json) -> tuple[str, ...]:
    if one["kind"] == "published":
        return ("",)
    return tuple(str(one[name] or "").lower() for name in ("platform", "name", "driver", "created"))


def summary(name: str, record: Mapping[str, Any], entry: Mapping[str, Any]) -> Json:
    """What a page shows of one device."""
    facts = entry.get("facts") or {}
    curve = _curve(entry)
    return {
        "record": name,
        "kind": record["kind"],
        "source": citation(record),
        "year": (record.get("source") or {}).get("year"),
        "created": record["created"][:10],
        "portbar": (record.get("portbar") or {}).get("version"),
        "partial": record["partial"],
        "name": facts.get("name") or "a device without a name",
        "vendor": facts.get("vendor"),
        "platform": facts.get("platform_name"),
        "version": facts.get("platform_version") or facts.get("version"),
        "driver": facts.get("driver_version"),
        "type": ", ".join(facts.get("type") or []),
        "compute_units": facts.get("compute_units"),
        "verdict": _verdict(entry),
        "reason": _reason(entry),
        "groups": _groups(entry),
        "strategy": {choice: made["value"] for choice, made in (entry.get("strategy") or {}).items()},
        "quirks": [quirk["name"] for quirk in entry.get("quirks") or []],
        "recall": _recall(entry),
        "barrier": curve,
        "capabilities": _capabilities(entry),
        "atomics": _atomics(entry),
        "split_barrier": _split_barrier(entry),
        "reduction": _reduction(entry),
    }


def citation(record: Mapping[str, Any]) -> str | None:
    """Where a published record comes from, as one would cite it."""
    source = record.get("source")
    if source is None:
        return None
    return f"{', '.join(source['authors'])} ({source['year']}): {source['title']}. {source['venue']}"


def _number(reading: Mapping[str, Any] | None) -> float | None:
    value = value_of(reading)
    return value if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def _us(reading: Mapping[str, Any] | None) -> float | None:
    value = _number(reading)
    return None if value is None or reading is None else value * _US.get(reading.get("unit", "us"), 1.0)


def _verdict(entry: Mapping[str, Any]) -> str:
    status = entry["status"]
    usable = entry.get("usable")
    if status in {"published", "failed", "refused"}:
        return str(status)
    if usable is not None and not usable["usable"]:
        return "unusable"
    if status == "waiting" or usable is None:
        return "not surveyed"
    if "max_groups" in (entry.get("strategy") or {}) or _groups(entry) == 1:
        return "one work-group"
    return "usable" if _groups(entry) else "usable, not measured"


def _reason(entry: Mapping[str, Any]) -> str:
    """Why a device is not simply usable."""
    usable = entry.get("usable") or {}
    if "max_groups" in (entry.get("strategy") or {}):
        return str(entry["strategy"]["max_groups"]["reason"])
    return str(entry.get("reason") or ("" if usable.get("usable") else usable.get("reason")) or "")


def _groups(entry: Mapping[str, Any]) -> int | None:
    """Most work-groups that were found to meet."""
    found = [
        value
        for row in rows_of(entry, "occupancy")
        for value in (_number(row.get("occupancy")), row.get("best_known_groups") if _found(row) else None)
        if value
    ]
    return int(max(found)) if found else None


def _found(row: Mapping[str, Any]) -> float | None:
    """Work-groups that a lock found, mean of its runs."""
    reading = row["found"]
    return reading.get("mean", mean_of(reading)) if _number(reading) is not None else None


def _share(row: Mapping[str, Any]) -> float | None:
    recall, found, bound = _number(row.get("recall")), _found(row), row.get("best_known_groups")
    return found / bound if recall is None and found is not None and bound else recall


def _column(row: Mapping[str, Any]) -> str:
    return f"{row['lock']}{' patient' if row['patience'] else ''}"


def _recall(entry: Mapping[str, Any]) -> Json | None:
    """Recall by lock, for the largest local size and the least local memory, which is what the published study asked.

    Of the shapes measured with as many locks as any, that is. `range` holds the least and the most over all shapes.
    """
    rows = [row for row in rows_of(entry, "occupancy") if _found(row) is not None and _share(row) is not None]
    if not rows:
        return None
    shapes: dict[tuple[int, int], dict[str, Mapping[str, Any]]] = {}
    spread: dict[str, list[float]] = {}
    for row in rows:
        shape = (row.get("local_size") or 0, row.get("local_bytes") or 0)
        shapes.setdefault(shape, {}).setdefault(_column(row), row)
        spread.setdefault(_column(row), []).append(_share(row) or 0.0)
    chosen = max(shapes, key=lambda shape: (len(shapes[shape]), -shape[1], shape[0]))
    cells = shapes[chosen]
    first = next(iter(cells.values()))
    vendor = [_number(row.get("recall_of_vendor_bound")) for row in cells.values()]
    asked = [value for value in vendor if value is not None]
    return {
        "local_size": chosen[0] or None,
        "local_bytes": chosen[1] or None,
        "bound": first.get("best_known_groups"),
        "cells": {name: {"groups": _found(row), "recall": _share(row)} for name, row in cells.items()},
        "range": {name: [min(shares), max(shares), len(shares)] for name, shares in spread.items()},
        "vendor_bound": _number(first.get("vendor_bound")),
        "vendor_recall": max(asked) if asked else None,
    }


def _curve(entry: Mapping[str, Any]) -> Json | None:
    """Barrier times over group counts at one local size: of those with the most counts, the one nearest to the usual."""
    rows = [row for row in rows_of(entry, "barrier") if row["groups"] and _us(row["barrier_time"]) is not None]
    if not rows:
        return None
    counts: dict[int, set[int]] = {}
    for row in rows:
        counts.setdefault(row["local_size"], set()).add(row["groups"])
    size = max(counts, key=lambda size: (len(counts[size]), -abs(size - _USUAL_LOCAL_SIZE)))
    algorithms: dict[str, dict[int, float]] = {}
    relaunch: dict[int, float] = {}
    for row in (row for row in rows if row["local_size"] == size):
        algorithms.setdefault(row["algorithm"], {})[row["groups"]] = _us(row["barrier_time"]) or 0.0
        again = _us(row["relaunch_time"])
        if again is not None:
            relaunch.setdefault(row["groups"], again)
    return {
        "local_size": size,
        "algorithms": {name: sorted(times.items()) for name, times in algorithms.items()},
        "relaunch": sorted(relaunch.items()),
        "unsteady": bool((entry.get("barrier") or {}).get("unsteady")),
    }


def _capabilities(entry: Mapping[str, Any]) -> dict[str, bool]:
    """What a device was measured to be capable of; what was not measured is left out."""
    findings = entry.get("findings") or {}
    found: dict[str, bool] = {f"build {name}": value for name, value in (findings.get("builds") or {}).items()}
    for field in ("ordering", "litmus"):
        found |= {f"{field} {name}": said.startswith("pass") for name, said in (findings.get(field) or {}).items()}
    for row in rows_of(entry, "litmus"):
        if value_of(row["verdict"]) is not None:
            found[f"litmus {row['strategy']}"] = value_of(row["verdict"]) == "pass"
    for name, said in (findings.get("progress") or {}).items():
        if said in {"independent", "none"}:
            found[f"progress {name}"] = said == "independent"
    if findings and "loop_limit" not in (findings.get("lost") or {}):
        found["loops whole"] = findings.get("loop_limit") is None
    return found


def _atomics(entry: Mapping[str, Any]) -> dict[str, dict[str, int]]:
    """Type -> how many operations are done in which way; those that do not work count as `none`."""
    counted: dict[str, dict[str, int]] = {}
    for row in rows_of(entry, "atomics"):
        if row["result"].get("status") in {"skipped", "interrupted"}:
            continue
        how = row["implementation"] if value_of(row["result"]) else "none"
        of_type = counted.setdefault(row["type"], {})
        of_type[how] = of_type.get(how, 0) + 1
    return counted


def _split_barrier(entry: Mapping[str, Any]) -> Json | None:
    """Time of a split barrier by strategy, nanoseconds, at the local size measured with the most strategies."""
    rows = [row for row in rows_of(entry, "split_barrier") if _us(row["time"]) is not None]
    if not rows:
        return None
    sizes = Counter(row["local_size"] for row in rows)
    size = max(sizes, key=lambda size: (sizes[size], size))
    here = [row for row in rows if row["local_size"] == size]
    plain = [value for row in here if (value := _us(row.get("barrier_time"))) is not None]
    return {
        "local_size": size,
        "times_ns": {row["strategy"]: 1e3 * (_us(row["time"]) or 0.0) for row in here},
        "chosen": next((row["strategy"] for row in here if row["chosen"]), None),
        "barrier_ns": 1e3 * plain[0] if plain else None,
    }


def _reduction(entry: Mapping[str, Any]) -> dict[str, Json]:
    """Level -> time of a reduction by strategy, microseconds, at the largest grid that has the most strategies."""
    shown: dict[str, Json] = {}
    rows = [row for row in rows_of(entry, "reduction") if _us(row["time"]) is not None]
    for level in ("sub_group", "work_group", "device"):
        grids: dict[tuple[Any, ...], list[Mapping[str, Any]]] = {}
        for row in rows:
            if row["level"] == level:
                grid = (row["operation"], row["type"], row.get("local_size") or 0, row.get("groups") or 0)
                grids.setdefault(grid, []).append(row)
        if not grids:
            continue
        grid = max(grids, key=lambda grid: (len(grids[grid]), grid[1] == "float", grid[3], grid[2]))
        here = grids[grid]
        built_in = [value for row in here if (value := _us(row.get("built_in_time"))) is not None]
        shown[level] = {
            **dict(zip(("operation", "type", "local_size", "groups"), grid, strict=True)),
            "times_us": {row["strategy"]: _us(row["time"]) for row in here},
            "chosen": next((row["strategy"] for row in here if row["chosen"]), None),
            "built_in_us": built_in[0] if built_in else None,
        }
    return shown
