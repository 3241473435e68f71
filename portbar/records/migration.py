"""Brings records of older formats to the newest one, by code: no file is rewritten by hand.

Not for checking: a record is validated before it comes here, and after.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from statistics import median
from typing import Any, Final

from portbar.errors import RecordError
from portbar.records.reading import measured, missing
from portbar.records.validation import NAMES, NEWEST, format_of

#: Why a value is missing of which format 1 only said that there is none.
_UNSAID: Final = "format 1 has no value here and does not say why"

#: Where format 1 had no time left; the words are those of `portbar.benching.NO_TIME`.
_NO_TIME: Final = "no time was left"


def migrate(value: Mapping[str, Any]) -> dict[str, Any]:
    """A valid record of any known format in the newest one; a record of the newest format is returned as it is.

    Raises
    ------
    RecordError
        It is of no known format.
    """
    number = format_of(value)
    if number == NEWEST and isinstance(value, dict):
        return value
    if number == 1:
        return _from_1(value)
    raise RecordError("/format: this is no record of a format that this portbar knows: update portbar")


def _from_1(old: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "schema": NAMES[2],
        "format": 2,
        "kind": "measured",
        "created": old["created"],
        "seconds": old.get("seconds"),
        "seed": None,
        "portbar": {"version": old["portbar"]},
        "invocation": {"command": "survey", **old["invocation"], "devices": None},
        "environment": {**old["host"], "loader": None},
        "partial": old["partial"],
        "interrupted": old["interrupted"],
        "devices": [_device(device) for device in old["devices"]],
    }


def _device(old: Mapping[str, Any]) -> dict[str, Any]:
    device = {name: old[name] for name in ("address", "facts", "status", "reason", "seconds", "usable") if name in old}
    if "refused" in old:
        device["reason"] = old["refused"]
    findings = old.get("findings")
    if "probe" in old:
        device["probe"] = {
            "status": "ok",
            "seconds": old["probe"]["seconds"],
            "rows": list(_probe_rows(findings or {})),
        }
    for name in ("findings", "strategy"):
        if name in old:
            device[name] = old[name]
    if "occupancy" in old:
        device["occupancy"] = _step(old["occupancy"], _occupancy_row)
    if "barrier" in old:
        device["barrier"] = _step(old["barrier"], _barrier_row)
    if findings and findings.get("litmus"):
        rows = [_litmus_row(strategy, said) for strategy, said in findings["litmus"].items()]
        device["litmus"] = {"status": "ok", "seconds": None, "rows": rows}
    return device


def _step(old: Mapping[str, Any], row: Any) -> dict[str, Any]:
    return {**{name: item for name, item in old.items() if name != "rows"}, "rows": [row(one) for one in old["rows"]]}


def _probe_rows(findings: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The findings as rows, one a probe."""
    for name, built in findings.get("builds", {}).items():
        yield {"probe": f"build {name}", "result": measured(built)}
    for name in ("progress", "ordering"):
        for what, found in findings.get(name, {}).items():
            yield {"probe": f"{name} {what}", "result": _words(found)}
    lost = findings.get("lost", {})
    for name, unit in (("loop_limit", "1"), ("polls_per_second", "polls/s"), ("groups_in_flight", "work-groups")):
        value = findings.get(name)
        if value is not None:
            result = measured(value, unit)
        elif name in lost:
            result = missing("error", lost[name] or _UNSAID)
        elif name == "loop_limit":
            result = measured("none", note="no limit was found: loops ran to their end")
        else:
            result = missing("skipped", _UNSAID)
        yield {"probe": name, "result": result}


def _words(found: str) -> dict[str, Any]:
    """A reading of a finding in words, which may say that nothing was found."""
    for start in ("unknown: ", "untested: "):
        if found.startswith(start):
            return missing("error", found.removeprefix(start) or _UNSAID)
    return measured(found[:300]) if found else missing("error", _UNSAID)


def _verdict(said: str) -> dict[str, Any]:
    """A reading of `pass: ...` or `fail: ...`, or of why there is neither."""
    verdict, _, rest = said.partition(": ")
    return measured(verdict, note=rest or None) if verdict in {"pass", "fail"} else missing("error", said or _UNSAID)


def _litmus_row(strategy: str, said: str) -> dict[str, Any]:
    row: dict[str, Any] = {"strategy": strategy, "verdict": _verdict(said)}
    if counts := re.search(r"(\d{1,9}) tests, (\d[\d,]{0,19}) instances", said):
        row |= {"tests": int(counts[1]), "instances": measured(int(counts[2].replace(",", "")), "instances")}
    if forbidden := re.search(r"fail: ([\w.-]{1,200}): (\d{1,15}) of \d+ forbidden", said):
        row["forbidden"] = [{"test": forbidden[1], "count": int(forbidden[2])}]
    if seed := re.search(r"\(seed (\d{1,15})\)", said):
        row["seed"] = int(seed[1])
    return row


def _quantity(value: float | None, unit: str, why: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    """A reading of what format 1 held as a plain number, or None."""
    return measured(value, unit, **more) if value is not None else why or missing("skipped", _UNSAID)


def _why(old: Mapping[str, Any], said: str) -> dict[str, Any]:
    """Why a row of format 1 has no values."""
    reason = old.get(said) or _UNSAID
    return missing("skipped" if reason in {_NO_TIME, _UNSAID} else "error", reason)


def _occupancy_row(old: Mapping[str, Any]) -> dict[str, Any]:
    found, times = old["found"], old.get("times_us") or []
    why = None if found else _why(old, "reason")
    row: dict[str, Any] = {
        **{name: old[name] for name in ("local_size", "local_bytes", "lock", "patience")},
        "launched": old.get("launched"),
        "occupancy": _quantity(old.get("occupancy"), "work-groups", why),
        "found": _quantity(median(found), "work-groups", min=min(found), max=max(found), samples=found)
        if found
        else why,
        "launch_time": _quantity(median(times) if times else None, "us", why, samples=times),
        "vendor_bound": _quantity(old.get("vendor_bound"), "work-groups", why),
        "computed_bound": _quantity(old.get("computed_bound"), "work-groups", why, note=old.get("computed_note")),
        "best_known_groups": old.get("best_known_groups"),
        "recall": _quantity(old.get("recall"), "1", why),
        "recall_of_vendor_bound": _quantity(old.get("recall_of_vendor_bound"), "1", why),
    }
    return row | ({"partial": True} if old.get("partial") else {})


def _barrier_row(old: Mapping[str, Any]) -> dict[str, Any]:
    why = None if old.get("us") is not None else _why(old, "note")
    row: dict[str, Any] = {
        **{name: old[name] for name in ("algorithm", "groups", "local_size")},
        "rounds": old.get("rounds"),
        "barrier_time": _quantity(old.get("us"), "us", why, samples=old.get("samples_us", ())),
        "relaunch_time": _quantity(old.get("relaunch_us"), "us", samples=old.get("relaunch_samples_us", ())),
    }
    return row | ({"partial": True} if old.get("partial") else {})
