"""Valid records with unlikely values: each comes from a seed, and every reader of records must take it. Not tests."""

from __future__ import annotations

import copy
from random import Random
from typing import Any

from portbar import records
from portbar.records import measured, missing
from tests.records_support import Json, places, record, stopped_record

_TEXTS = (
    "",
    " ",
    "a",
    "{}",
    "$\\frac{1}{",
    "a" * 300,
    "[x](y)|<b>",
    "0",
    "counter",
    "pass",
    "independent",
    "\u00e9" * 40,
)
_NUMBERS = (0, 1, 2, 65_535, 2**31, 2**63 - 1)
_FLOATS = (0.0, 5e-324, 1e-300, 0.1, 1.0, 1e18)
_UNITS = ("us", "ns", "s", "work-groups", "1", "1/s", "bytes")


def mutated(seed: int) -> Json:
    """A valid record; which one the seed tells."""
    random = Random(seed)  # noqa: S311
    value = record() if seed % 4 else stopped_record()
    for _ in range(random.choice((1, 3, 30))):
        changed = copy.deepcopy(value)
        _change(changed, random)
        if not records.validate(changed):
            value = changed
    return value


def _change(value: Json, random: Random) -> None:
    *above, last = random.choice(places(value))
    holder: Any = value
    for part in above:
        holder = holder[part]
    old = holder[last]
    if isinstance(holder, list) and random.random() < 0.5:
        if random.random() < 0.5:
            del holder[last]
        else:
            holder += copy.deepcopy(holder) * random.choice((1, 7))
    elif isinstance(old, dict) and ("value" in old or "reason" in old) and random.random() < 0.7:
        holder[last] = _reading(random)
    elif random.random() < 0.2:
        del holder[last]
    elif random.random() < 0.1:
        holder[last] = None
    elif isinstance(old, bool):
        holder[last] = not old
    elif isinstance(old, str):
        holder[last] = random.choice(_TEXTS)
    elif isinstance(old, int):
        holder[last] = random.choice(_NUMBERS)
    elif isinstance(old, float) or old is None:
        holder[last] = random.choice((*_FLOATS, *_NUMBERS))
    elif isinstance(old, dict) and old:
        name = random.choice(list(old))
        old[random.choice(_TEXTS) or "x"] = copy.deepcopy(old[name])
    elif isinstance(old, list):
        holder[last] = []


def _reading(random: Random) -> Json:
    return random.choice(
        (
            missing(random.choice(("unsupported", "skipped", "refused", "error", "crash", "timeout")), "why"),
            measured(random.choice((*_NUMBERS, *_FLOATS, -1, -1e18)), random.choice(_UNITS)),
            measured(random.choice(_FLOATS), "us", [random.choice((*_FLOATS, -1.0)) for _ in range(5)]),
            measured(random.choice((True, False, "pass", "fail", "none"))),
        )
    )
