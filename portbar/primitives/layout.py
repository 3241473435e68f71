"""The words of the hidden state buffer: one table for the templates that index it and for the host that reads it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from portbar.primitives.grid import BARRIERS, DISCOVERIES
from portbar.primitives.variants import Variants

#: Words of 32 bits that share a cache line of 128 bytes, the largest among the devices met so far.
LINE_WORDS: Final = 32

#: Launches whose reports are kept before the oldest is overwritten.
REPORTS: Final = 64
REPORT_WORDS: Final = 8

#: Work-groups that share a leaf counter of the tree barrier.
TREE_FAN: Final = 64

#: Places among which the counters of a barrier are put, and words from one to the next: caches spread memory over their parts
#: in pieces of two lines, and neighbouring pieces may all lie in far parts. Each has words for whole barriers, for placing,
#: for split barriers, and for votes.
SLOTS: Final = 24
SLOT_WORDS: Final = 34 * LINE_WORDS

#: Release flags of the tree barrier where it has them: each is polled by its share of the work-groups.
RELEASE_FLAGS: Final = 16

#: Slices of a reduction over a grid of many groups, of each of which the last group to come combines the values.
GRID_SLICES: Final = 64

#: Most work-groups whose values each of them reads after a device barrier, and fewest of a slice where there are more.
GRID_FLAT: Final = 1024
GRID_SLICE: Final = 48

#: Teams of one launch that are usable at once: each split reuses the words of the one this many splits before.
TEAM_SPLITS: Final = 4
#: Words of teams for each work-group: half a line of counters, since a team that counts has two groups at least; for each of
#: two splits in turn its number and whether it leads; and for each split values of 64 bits, in two areas that take turns.
TEAM_WORDS: Final = LINE_WORDS // 2 + 2 * 2 + TEAM_SPLITS * 2 * 2

#: Polls between two looks at the abort flag; the unit of patience and of the spin limit.
POLLS_PER_ROUND: Final = 64

#: Largest epoch: 24 bits of the hidden launch argument. The state is replaced by a fresh one after it.
EPOCH_MASK: Final = 0x00FF_FFFF
DRY_RUN: Final = 0x8000_0000

#: Most work-groups of one launch: the poll word counts in 24 bits, and surplus groups count too.
MAX_LAUNCHED_GROUPS: Final = 0x00FF_FFFF - 1

#: Faults that a kernel without a grid reports -> number.
FAULTS: Final = {"uses": 1, "lock": 2, "wait": 3}

#: Words that share a line are not polled at the same time, or are written once a launch at most. Variants add their own lines.
_LINES: Final = (
    ("POLL_EVEN", "POLL_ODD"),
    ("PUBLISHED", "ABORT", "PLACE"),
    ("COUNTER",),
    ("SPLIT",),
    ("TICKETS",),
    ("VOTES",),
)

#: Lines that there is room for: portbar's own take a third, variants from outside the others.
_MOST_LINES: Final = 32


class _Offsets(Mapping[str, int]):
    """Name of each region of the state buffer -> its first word, which stays the same whatever variants come and go."""

    def __init__(self) -> None:
        #: The place of every line that a variant has had.
        self._places: dict[tuple[str, ...], int] = {}
        #: The offsets with the variants of a revision.
        self._known: tuple[int, Mapping[str, int]] = (-1, {})

    def _table(self) -> Mapping[str, int]:
        revision = Variants.revision
        if self._known[0] != revision:
            variants = (*BARRIERS.values(), *DISCOVERIES.values())
            lines = dict.fromkeys((*_LINES, *(line for variant in variants for line in variant.words)))
            self._known = revision, _offsets({line: self._places.setdefault(line, len(self._places)) for line in lines})
        return self._known[1]

    def __getitem__(self, name: str) -> int:
        return self._table()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._table())

    def __len__(self) -> int:
        return len(self._table())


def _offsets(places: Mapping[tuple[str, ...], int]) -> dict[str, int]:
    if max(places.values()) >= _MOST_LINES:
        raise ValueError(f"the hidden state has room for {_MOST_LINES} lines, and variants have taken more")
    found = {name: place * LINE_WORDS + word for names, place in places.items() for word, name in enumerate(names)}
    found["SLOTS"] = _MOST_LINES * LINE_WORDS
    found["RELEASED"] = found["SLOTS"] + SLOTS * SLOT_WORDS
    found["SLICES"] = found["RELEASED"] + RELEASE_FLAGS * LINE_WORDS
    found["REPORTS"] = found["SLICES"] + GRID_SLICES * LINE_WORDS
    found["GROUPS"] = found["REPORTS"] + REPORTS * REPORT_WORDS
    return found


OFFSETS: Final = _Offsets()


def state_words(capacity: int) -> int:
    """Words of 32 bits that the state of at most `capacity` launched work-groups takes."""
    nodes = -(-capacity // TREE_FAN)
    return OFFSETS["GROUPS"] + 2 * capacity + nodes * LINE_WORDS + TEAM_WORDS * capacity
