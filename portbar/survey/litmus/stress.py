"""Stress: where members, locations and disturbing work-groups lie in one launch, drawn from a seed.

After "Foundations of empirical memory consistency testing" (Kirkham, Sorensen, Tureci
and Martonosi, OOPSLA 2020): many instances at once, memory stress, permuted threads and locations.
"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping
from itertools import accumulate
from typing import Any, Final

import numpy as np

from portbar.survey.litmus.sizes import MOST_BLOCK, Size

#: Words that each work-item disturbs; a power of two.
DISTURBED: Final = 8

#: Threads and locations that a test may have.
MOST_THREADS: Final = 4
MOST_LOCATIONS: Final = 3

#: Numbers of one word each, and those with a word for each location or thread.
_SINGLE: Final = (
    *("teams", "rounds", "polls", "first_polls", "block", "group_mul", "group_add", "before", "disturb", "warm"),
    *("pattern", "items", "mixed", "seed", "members", "spins"),
)
_WIDE: Final = {
    **dict.fromkeys(("slot_mul", "slot_add", "offset"), MOST_LOCATIONS),
    **dict.fromkeys(("lane_mul", "lane_add"), MOST_THREADS),
}
_ENDS: Final = tuple(accumulate(_WIDE.values(), initial=len(_SINGLE)))

#: Number -> its word in the buffer that kernels get, `n` in the templates; of those with several the first.
NUMBERS: Final[Mapping[str, int]] = {name: at for at, name in enumerate(_SINGLE)} | dict(
    zip(_WIDE, _ENDS[:-1], strict=True)
)

#: Above this a product of a multiplier and a team could exceed 32 bits.
_MOST_MULTIPLIER: Final = 4093


def _coprime(draw: random.Random, length: int) -> int:
    """A multiplier that permutes `range(length)`; 1, the identity, a third of the time."""
    if length < 3 or draw.random() < 1 / 3:
        return 1
    while True:
        multiplier = draw.randrange(1, min(length, _MOST_MULTIPLIER))
        if math.gcd(multiplier, length) == 1:
            return multiplier


def stress_numbers(seed: str, size: Size) -> np.ndarray[Any, np.dtype[np.uint32]]:
    """The numbers of one launch; the same for the same size and `seed`, which names the seed, the test and the launch."""
    draw = random.Random(seed)  # noqa: S311 (permutations, no secrets)
    numbers: dict[str, int | list[int]] = {
        "teams": size.teams,
        "rounds": size.rounds,
        "polls": draw.choice((size.polls, size.polls, 0)) if not size.always_meet else size.polls,
        "group_mul": _coprime(draw, size.groups),
        "group_add": draw.randrange(size.groups),
        "before": draw.choice((0, 0, 1, 2, 4, 8)) if size.before is None else size.before,
        "disturb": draw.choice((8, 32, 128)),
        "warm": draw.randrange(1 << MOST_LOCATIONS),
        "pattern": draw.choice((0b0000, 0b1111, 0b0101, 0b0011, 0b0111, 0b0001)),
        "items": size.items,
        # Whether neighbours in the disturbed memory are work-items of one group or of different ones.
        "mixed": draw.randrange(2),
        "slot_mul": [_coprime(draw, size.teams) for _ in range(MOST_LOCATIONS)],
        "slot_add": [draw.randrange(size.teams) for _ in range(MOST_LOCATIONS)],
        "lane_mul": [_coprime(draw, size.local_size) for _ in range(MOST_THREADS)],
        "lane_add": [draw.randrange(size.local_size) for _ in range(MOST_THREADS)],
        "seed": draw.getrandbits(32),
        "members": size.members,
        "spins": size.spins,
    }
    numbers["first_polls"] = size.first_polls if numbers["polls"] else 0
    block, numbers["offset"] = _offsets(draw, size)
    numbers["block"] = block
    words = np.zeros(_ENDS[-1], np.uint32)
    for name, value in numbers.items():
        values = value if isinstance(value, list) else [value]
        words[NUMBERS[name] : NUMBERS[name] + len(values)] = values
    return words


def _offsets(draw: random.Random, size: Size) -> tuple[int, list[int]]:
    """Words from one instance to the next, and where in there, or in a region of its own, each location lies.

    A location's word and the next one belong to it, so offsets are even.
    """
    if draw.random() < 1 / 3:
        block = draw.choice([b for b in (2, 8, 16, 32) if b * MOST_LOCATIONS <= MOST_BLOCK])
        region = size.rounds * size.teams * block
        order = draw.sample(range(MOST_LOCATIONS), MOST_LOCATIONS)
        return block, [region * k + 2 * draw.randrange(block // 2) for k in order]
    block = draw.choice((8, 16, 32, MOST_BLOCK))
    return block, [2 * place for place in draw.sample(range(block // 2), MOST_LOCATIONS)]


def memory_words(size: Size, numbers: np.ndarray[Any, np.dtype[np.uint32]]) -> int:
    """Words that the locations of a launch take."""
    offset = NUMBERS["offset"]
    block = int(numbers[NUMBERS["block"]])
    return size.instances * block + max(map(int, numbers[offset : offset + MOST_LOCATIONS]))
