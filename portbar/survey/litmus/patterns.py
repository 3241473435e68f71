"""The last-block reduction and the look-back scan: whole patterns whose results the host knows."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from portbar.survey.litmus.sizes import Size

UInts = np.ndarray[Any, np.dtype[np.uint32]]

#: By what the kernels multiply an index to get a value: any odd number will do, this one spreads well.
FACTOR: Final = 2654435761


@dataclass(frozen=True)
class Pattern:
    """One pattern; the first members are those of a litmus test."""

    name: str
    description: str
    why: str
    #: The outcome that must not occur.
    forbidden: str
    #: Its def in `cl_templates/litmus/patterns.mako`.
    definition: str
    #: Words that a launch of some size needs.
    memory_words: Callable[[Size], int]
    result_words: Callable[[Size], int]
    #: Counts of outcomes, from the results, the size, the instances that were run, and the seed in the numbers.
    tally: Callable[[UInts, Size, int, int], dict[str, int]]
    scope: str = "device"
    space: str = "global"
    form: str = "pattern"
    across_groups: bool = True


def _values(count: int, seed: int) -> UInts:
    return np.arange(count, dtype=np.uint32) * np.uint32(FACTOR) ^ np.uint32(seed)


def _tally_last_block(results: UInts, size: Size, ran: int, seed: int) -> dict[str, int]:
    shape = (ran, size.members, size.local_size)
    expected = np.roll(_values(math.prod(shape), seed).reshape(shape).sum(axis=1, dtype=np.uint32), -1, axis=1)
    right = int((results.reshape(-1, size.local_size)[:ran] == expected).all(axis=1).sum())
    return {"right sum": right, "wrong sum": ran - right}


def _tally_look_back(results: UInts, size: Size, ran: int, seed: int) -> dict[str, int]:
    count = ran * size.members
    expected = _values(count, seed).reshape(-1, size.members).cumsum(axis=1, dtype=np.uint32).ravel()
    sums, ended = results.reshape(2, -1)[:, :count]
    unfinished = int((ended == 0).sum())
    right = int(((ended == 1) & (sums == expected)).sum())
    return {"right prefix": right, "wrong prefix": count - right - unfinished, "unfinished": unfinished}


_PATTERNS: Final = (
    Pattern(
        "LAST-BLOCK",
        "last-block reduction",
        "each group's addition releases its values, and the last one's acquires them: they are in one release sequence",
        "wrong sum",
        "last_block",
        lambda size: size.instances * (1 + size.members * size.local_size),
        lambda size: size.instances * size.local_size,
        _tally_last_block,
    ),
    Pattern(
        "LOOK-BACK",
        "look-back scan",
        "each value and each sum is read after an acquire that saw the flag released after it",
        "wrong prefix",
        "look_back",
        lambda size: size.instances * (1 + 3 * size.members),
        lambda size: 2 * size.instances * size.members,
        _tally_look_back,
    ),
)

#: Every pattern by name.
PATTERNS: Final[Mapping[str, Pattern]] = {pattern.name: pattern for pattern in _PATTERNS}
