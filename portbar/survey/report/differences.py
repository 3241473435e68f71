"""Judges one value of two records: whether it differs by more than noise, is better or worse, and by how much, in words."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import median, quantiles
from typing import Any, Final

from portbar.choices.strategy import ALTERNATIVES
from portbar.records.reading import TIMES, is_missing, number_of, samples_of, unit_of

WORSE: Final = "regression"
BETTER: Final = "improvement"

#: Statuses of a reading that describe the device; the others mean that it was not measured.
_SAYS_NO: Final = {"unsupported", "refused", "error", "crash", "timeout"}

#: Values whose loss does not matter to a user: only baselines of measurements, or a choice of the moment.
_NEUTRAL: Final = {"vendor_bound", "computed_bound", "chosen", "unsteady"}

#: The value of a supported capability.
_GOOD: Final = ("pass", "independent", "instruction")

#: How bad the status of a device or of a step is; others are not bad.
_BADNESS: Final = {"refused": 1, "error": 1, "crash": 1, "timeout": 1, "unusable": 2, "failed": 2}

#: Choices whose strategies are listed from the best guarantee to the least; the others' order says nothing by itself.
_RANKED: Final = ("atomics", "discovery")

#: How far a time without samples may be from another and still count as the same.
_UNKNOWN_SPREAD: Final = 0.10

#: Seconds below which a difference between two times is that of the clock.
_CLOCK_S: Final = 5e-9


@dataclass(frozen=True)
class Leaf:
    """One value of a device, a reading or a plain one: the part of the record, the row in it if it has rows, and its name."""

    group: str
    row: str
    name: str
    value: Any

    @property
    def path(self) -> str:
        """The place of the value, in words."""
        return " / ".join(part for part in (self.group, self.row, self.name) if part)


@dataclass(frozen=True)
class Judgement:
    """The description of a value that changed: `mark` is `WORSE`, `BETTER` or empty; `text` is for people."""

    mark: str
    text: str
    ratio: float | None = None


def judge(old: Leaf, new: Leaf, factor: float) -> Judgement | None:
    """Compare two values of the same name; None if they differ by no more than noise."""
    if old.value == new.value or _plain(old.value) == _plain(new.value) is not None:
        return None
    if is_missing(old.value) or is_missing(new.value):
        return _judge_missing(old, new)
    if number_of(old.value) is not None and number_of(new.value) is not None:
        return _judge_numbers(old, new, factor)
    return _judge_words(old, new)


def said(value: Any) -> str:
    """Return a value or a reading in a few words."""
    if is_missing(value):
        return f"{value['status']} ({value.get('reason', 'no reason given')})"
    plain = _plain(value)
    if plain is None:
        return "none"
    if isinstance(plain, bool):
        return "yes" if plain else "no"
    if isinstance(plain, list):
        return ", ".join(map(str, plain)) or "none"
    text = f"{plain:.4g}" if isinstance(plain, float) else str(plain)
    of = unit_of(value)
    return text if of in {None, "1"} else f"{text} {of}"


def _plain(value: Any) -> Any:
    return value.get("value") if isinstance(value, dict) and "value" in value else value


def _judge_missing(old: Leaf, new: Leaf) -> Judgement | None:
    text = f"{said(old.value)} -> {said(new.value)}"
    if is_missing(old.value) and is_missing(new.value):
        return None if old.value["status"] == new.value["status"] else Judgement("", text)
    lost = is_missing(new.value)
    status = (new if lost else old).value["status"]
    # A probe that says "no" and one that does not work on the device come to the same.
    there = _plain((old if lost else new).value)
    if status not in _SAYS_NO or old.name in _NEUTRAL or there is False or there is None:
        return Judgement("", text)
    return Judgement(WORSE, f"lost: {text}") if lost else Judgement(BETTER, f"gained: {text}")


def _judge_numbers(old: Leaf, new: Leaf, factor: float) -> Judgement | None:
    text = f"{said(old.value)} -> {said(new.value)}"
    if old.name == "loop_limit":
        shorter = (number_of(new.value) or 0) < (number_of(old.value) or 0)
        return Judgement(WORSE if shorter else BETTER, text)
    if _within_noise(old.value, new.value):
        return None
    change = _ratio(old.value, new.value)
    if change is None:
        return Judgement("", text)
    is_time = unit_of(old.value) in TIMES
    above, below = ("slower", "faster") if is_time else ("more", "less")
    text += f", {change:.3g} times {above}" if change > 1 else f", {1 / change:.3g} times {below}"
    bad = change if is_time else 1 / change
    if old.group == "facts" or old.name in _NEUTRAL:
        return Judgement("", text, change)
    return Judgement(WORSE if bad > factor else BETTER if bad < 1 / factor else "", text, change)


def _judge_words(old: Leaf, new: Leaf) -> Judgement:
    before, after = _plain(old.value), _plain(new.value)
    text = f"{said(old.value)} -> {said(new.value)}"
    if isinstance(before, list) and isinstance(after, list):
        return Judgement("", _list_change(before, after))
    if old.group == "facts" or old.name in _NEUTRAL:
        return Judgement("", text)
    if old.name == "status":
        return _judge_order(_BADNESS.get(before, 0), _BADNESS.get(after, 0), text)
    if old.name == "loop_limit":
        return Judgement(WORSE if before is None else BETTER, text)
    if old.group == "strategy":
        order = tuple(ALTERNATIVES.get(old.name, ()))
        if old.name in _RANKED and before in order and after in order:
            return _judge_order(order.index(before), order.index(after), text)
        return Judgement("", text)
    return _judge_order(_lack(before), _lack(after), text)


def _judge_order(before: int, after: int, text: str) -> Judgement:
    return Judgement(WORSE if after > before else BETTER if after < before else "", text)


def _lack(value: Any) -> int:
    return 0 if value is True or (isinstance(value, str) and value.startswith(_GOOD)) else 1


def _list_change(before: list[Any], after: list[Any]) -> str:
    gone = [str(one) for one in before if one not in after]
    come = [str(one) for one in after if one not in before]
    parts = [f"without {', '.join(gone)}" if gone else "", f"with {', '.join(come)}" if come else ""]
    return "; ".join(part for part in parts if part) or "in another order"


def _samples(value: Any) -> list[float]:
    """Return the samples of a reading that has a number, or the number alone; times in seconds."""
    scale = TIMES.get(unit_of(value) or "", 1.0)
    return [scale * one for one in samples_of(value)] if isinstance(value, Mapping) else [value]


def _middle(reading: Any) -> tuple[float, float]:
    """Return the range of a reading's middle half.

    Of fewer than four samples it is all of them; without samples a time gets 10% to both sides and a count nothing.
    """
    samples = _samples(reading)
    if len(samples) >= 4:
        low, _, high = quantiles(samples, n=4, method="inclusive")
        return low, high
    if len(samples) >= 2:
        return min(samples), max(samples)
    is_time = unit_of(reading) in {*TIMES, "1/s", "polls/s"}
    spread = _UNKNOWN_SPREAD * abs(samples[0]) if is_time else 0.0
    return samples[0] - spread, samples[0] + spread


def _have_other_units(old: Any, new: Any) -> bool:
    units = {unit_of(old), unit_of(new)}
    return len(units) > 1 and None not in units and not units <= set(TIMES)


def _ratio(old: Any, new: Any) -> float | None:
    """Return `new` over `old`, of the medians of their samples; None where that is no number or their units differ."""
    if _have_other_units(old, new):
        return None
    before, after = median(_samples(old)), median(_samples(new))
    if not before or not after:
        return None
    change = after / before
    # Of numbers that are too far apart it is zero or infinite.
    return change if change and math.isfinite(change) else None


def _within_noise(old: Any, new: Any) -> bool:
    """Whether two readings are equal within their samples: their middle halves overlap."""
    if _have_other_units(old, new):
        return False
    (old_low, old_high), (new_low, new_high) = _middle(old), _middle(new)
    gap = max(old_low - new_high, new_low - old_high)
    return gap <= 0 or (unit_of(old) in TIMES and gap < _CLOCK_S)
