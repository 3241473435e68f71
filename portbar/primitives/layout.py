"""Where the words of the hidden state lie: those of every grid, and after them those that a program's headers own."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import accumulate, takewhile
from typing import Final

from portbar.backends.variants import Variants
from portbar.primitives.pieces import Area, Header, LocalWords, Preparation
from portbar.records import remembered
from portbar.records.dataclass import dataclass

#: Words of 32 bits that share a cache line of 128 bytes, the largest among the devices met so far.
LINE_WORDS: Final = 32

#: Smallest number of work-groups that a state is made for; all are this or a power of two above it.
LEAST_CAPACITY: Final = 64

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

#: Polls between two looks at the abort flag; the unit of patience and of the spin limit.
POLLS_PER_ROUND: Final = 64

#: Largest epoch: 24 bits of the hidden launch argument. The state is replaced by a fresh one after it.
EPOCH_MASK: Final = 0x00FF_FFFF
DRY_RUN: Final = 0x8000_0000

#: Most work-groups of one launch: the poll word counts in 24 bits, and surplus groups count too.
MAX_LAUNCHED_GROUPS: Final = 0x00FF_FFFF - 1

#: Faults that a kernel without a grid reports -> number.
FAULTS: Final = {"uses": 1, "lock": 2, "wait": 3, "agreement": 4}

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
            # Those of a program that registers variants are known to its process alone.
            own = _own_lines() if Variants.added else remembered.value_of(("lines of the state",), _own_lines)
            lines = dict.fromkeys((*_LINES, *own))
            self._known = revision, _offsets({line: self._places.setdefault(line, len(self._places)) for line in lines})
        return self._known[1]

    def __getitem__(self, name: str) -> int:
        return self._table()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._table())

    def __len__(self) -> int:
        return len(self._table())


def _own_lines() -> tuple[tuple[str, ...], ...]:
    """The lines that variants add."""
    from portbar.primitives.grid import BARRIERS, DISCOVERIES  # noqa: PLC0415 (takes long to import)

    return tuple(line for variant in (*BARRIERS.values(), *DISCOVERIES.values()) for line in variant.words)


def _offsets(places: Mapping[tuple[str, ...], int]) -> dict[str, int]:
    if max(places.values()) >= _MOST_LINES:
        raise ValueError(f"the hidden state has room for {_MOST_LINES} lines, and variants have taken more")
    found = {name: place * LINE_WORDS + word for names, place in places.items() for word, name in enumerate(names)}
    found["SLOTS"] = _MOST_LINES * LINE_WORDS
    found["RELEASED"] = found["SLOTS"] + SLOTS * SLOT_WORDS
    found["REPORTS"] = found["RELEASED"] + RELEASE_FLAGS * LINE_WORDS
    # A copy of the last report with a fault, which right launches leave alone: the host compares one word to see a new one.
    found["FAULT"] = found["REPORTS"] + REPORTS * REPORT_WORDS
    found["AREAS"] = found["FAULT"] + LINE_WORDS
    return found


OFFSETS: Final = _Offsets()


#: Areas, each with its first word as an expression of `capacity` in OpenCL C.
Areas = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Shared:
    """The words of all headers of a program, which must be known where a grid is entered."""

    #: Words of local memory of each work-group, and the place of each in it.
    local_words: int
    local: tuple[tuple[str, int], ...]
    #: Names of those that are 0 when a grid is entered, each with the function that needs it.
    zeroed: tuple[tuple[str, str], ...]
    #: Those that set words before a launch's first barrier, each with the first word of its area in OpenCL C.
    preparations: tuple[tuple[Preparation, str], ...]


@dataclass(frozen=True)
class Layout:
    """The words that the headers of a program own: areas of the state after those of every grid, and local memory."""

    #: The name of each header that owns some, with them.
    owners: tuple[tuple[str, tuple[Area, ...], tuple[LocalWords, ...]], ...] = ()
    preparations: tuple[Preparation, ...] = ()

    @classmethod
    def of(cls, headers: Iterable[Header]) -> Layout:
        """Place the words of some headers, which are in the same order in every program."""
        found = tuple(headers)
        owners = tuple((header.name, header.areas, header.local) for header in found if header.areas or header.local)
        return cls(owners, tuple(header.preparation for header in found if header.preparation is not None))

    @property
    def areas(self) -> tuple[Area, ...]:
        """All areas, in their order."""
        return tuple(area for _, areas, _ in self.owners for area in areas)

    def words(self, capacity: int) -> int:
        """Words of 32 bits that a state for at most `capacity` launched work-groups takes."""
        return OFFSETS["AREAS"] + sum(words_of(area, capacity) for area in self.areas)

    def first(self, name: str, capacity: str) -> str:
        """The first word of an area, in OpenCL C, by an expression for the capacity."""
        fixed, growing = OFFSETS["AREAS"], 0
        for area in takewhile(lambda area: area.name != name, self.areas):
            if area.each:
                growing += words_of(area, LEAST_CAPACITY)
            else:
                fixed += words_of(area, 0)
        each, rest = divmod(growing, LEAST_CAPACITY)
        if not growing:
            return f"{fixed}u"
        return (
            f"{fixed}u + {growing}u * ({capacity} / {LEAST_CAPACITY}u)" if rest else f"{fixed}u + {each}u * {capacity}"
        )

    def areas_of(self, name: str) -> Areas:
        """Return the areas of one header."""
        own = [area.name for owner, areas, _ in self.owners if owner == name for area in areas]
        return tuple((area, self.first(area, "(capacity)")) for area in own)

    def shared(self) -> Shared:
        """Return the words of all headers."""
        local = [words for _, _, own in self.owners for words in own]
        ends = [0, *accumulate(words.words for words in local)]
        return Shared(
            ends[-1],
            tuple((words.name, place) for words, place in zip(local, ends[:-1], strict=True)),
            tuple((words.name, words.zero_for) for words in local if words.zero_for),
            tuple((one, self.first(one.area, "PORTBAR_CAPACITY_OF(launch.x)")) for one in self.preparations),
        )


def words_of(area: Area, capacity: int) -> int:
    """Words of an area of a state for at most `capacity` work-groups: whole lines."""
    words = area.words * -(-capacity // area.each) if area.each else area.words
    return -(-words // LINE_WORDS) * LINE_WORDS
