"""What a user may do on a device, in one sentence, from its entry in a record.

Not for numbers in detail (`portbar.survey.table`).
"""

from __future__ import annotations

from typing import Any, Final

from portbar.records.reading import rows_of, value_of

#: Steps whose failures a verdict names, and what they are called in a sentence.
STEPS: Final = {
    "probe": "probe",
    "litmus": "litmus tests",
    "occupancy": "occupancy",
    "barrier": "barrier times",
    "split_barrier": "split barriers",
    "reduction": "reductions",
    "atomics": "atomics",
}


def occupancy_rows(entry: dict[str, Any]) -> list[dict[str, Any]]:
    """The occupancy rows that hold a measurement."""
    return rows_of(entry, "occupancy", having="found")


def barrier_rows(entry: dict[str, Any]) -> list[dict[str, Any]]:
    """The barrier rows that hold a time."""
    return [
        row for row in rows_of(entry, "barrier") if value_of(row["barrier_time"]) and value_of(row["relaunch_time"])
    ]


def verdict(entry: dict[str, Any]) -> str:
    """Whether a barrier between work-groups works on a device, for how many, at what cost, by what, and what is wrong."""
    if entry["status"] == "failed":
        return f"survey failed: {entry.get('reason', 'why is not known')}"
    if entry["status"] == "published":
        return _published(entry)
    usable = entry.get("usable")
    if usable is None:
        return "not surveyed: interrupted before it was checked"
    if not usable["usable"]:
        remedy = f". What would help: {usable['remedy']}" if usable["remedy"] else ""
        return f"unusable: {usable['reason']}{remedy}"
    if entry["status"] == "refused":
        return (
            f"usable, but portbar refuses to synchronise work-groups on it: {entry.get('reason', 'why is not known')}"
        )
    return _meeting(entry) + _faults(entry)


def _meeting(entry: dict[str, Any]) -> str:
    strategy = entry.get("strategy")
    if not strategy:
        return "usable; the survey was interrupted before its strategy was known"
    if "max_groups" in strategy:
        reason = str(strategy["max_groups"]["reason"]).partition(": ")[0]
        return f"usable with grids of one work-group, so that no barrier is between work-groups: {reason}"
    groups = [value_of(row.get("occupancy"), 0) for row in occupancy_rows(entry)]
    if not groups:
        return "usable; how many work-groups can meet at a barrier was not measured"
    if max(groups) <= 1:
        return "usable with grids of one work-group: it ran no two at the same time"
    return f"usable: up to {max(groups):g} work-groups meet at a barrier{_gain(entry)}{_means(strategy)}"


def _means(strategy: dict[str, Any]) -> str:
    """By which strategy, for the sentence."""
    barrier, atomics = strategy.get("device_barrier"), strategy.get("atomics")
    if barrier is None or atomics is None:
        return ""
    return f", by the {barrier['value']} barrier on {atomics['value']} atomics"


def _gain(entry: dict[str, Any]) -> str:
    """How a barrier compares with relaunching where most work-groups met, for the sentence."""
    rows = barrier_rows(entry)
    if not rows:
        return ""
    most = max(row["groups"] for row in rows)
    ratios: dict[int, float] = {}
    for row in rows:
        if row["groups"] == most:
            ratio = row["relaunch_time"]["value"] / row["barrier_time"]["value"]
            ratios[row["local_size"]] = max(ratio, ratios.get(row["local_size"], ratio))
    said = [
        (size, f"{ratio:.3g} times faster than" if ratio >= 1 else "slower than")
        for size, ratio in sorted(ratios.items())
    ]
    ends = said if len(said) <= 2 else [said[0], said[-1]]
    busy = ", as measured while the machine was busy" if entry["barrier"].get("unsteady") else ""
    return f", {' and '.join(f'{how} relaunching at local size {size}' for size, how in ends)}{busy}"


def _faults(entry: dict[str, Any]) -> str:
    """What is wrong, for the sentence."""
    wrong = [
        f"{name} {row['verdict'].get('note', '')}".strip()
        for name, row in ((row["strategy"], row) for row in rows_of(entry, "litmus"))
        if value_of(row["verdict"]) == "fail"
    ]
    parts = [f"the litmus tests refuted {'; '.join(wrong)}"] if wrong else []
    broken = sum(row["result"].get("status") in {"error", "crash", "timeout"} for row in rows_of(entry, "atomics"))
    if broken:
        parts.append(f"{broken} atomic operations do not work")
    lost = [name for step, name in STEPS.items() if entry.get(step, {}).get("status") in {"error", "crash", "timeout"}]
    if lost:
        parts.append(f"not measured to the end: {', '.join(lost)}")
    quirks = [quirk["name"] for quirk in entry.get("quirks", [])]
    if quirks:
        parts.append(f"known faults: {', '.join(quirks)}")
    return f". What is wrong: {'; '.join(parts)}" if parts else ""


def _published(entry: dict[str, Any]) -> str:
    rows = occupancy_rows(entry)
    if not rows:
        return "published, without a number of work-groups"
    bound = max(row.get("best_known_groups") or value_of(row.get("occupancy"), 0) for row in rows)
    shares = [
        f"{100 * value_of(row['recall']):.0f}% of them by the {row['lock']} lock"
        for row in rows
        if value_of(row.get("recall")) is not None
    ]
    return f"published: {bound} work-groups run at once" + (f"; discovery found {', '.join(shares)}" if shares else "")
