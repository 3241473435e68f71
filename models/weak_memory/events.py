"""The parts of an execution: reads, writes, read-modify-writes, fences, work-group barriers and marks."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import z3

#: One call on the way to an event: function and line of the rendered text.
Call = tuple[str, int]

#: Where in the text an event comes from, from the called function of portbar's down; the kernel's own line is left out.
Site = tuple[Call, ...]

#: A word: the object that holds it and the offset in bytes.
Place = tuple[str, int]

#: Orders of an operation that can be taken away, one at a time.
WEAKENINGS: Final = ("acquire", "release", "fence", "scope", "global", "local", "barrier")


@dataclass(frozen=True)
class Weakening:
    """One order at one place of the text, taken away."""

    site: Site
    name: str
    what: str


@dataclass(eq=False)
class Event:
    """One event of one work-item; `item` is -1 where it belongs to all of a group (a barrier).

    A plain access of global memory is of the kind "data": `datum` is its word, `stores` whether it writes, and `turn` that
    of the work-item's last mark.
    """

    number: int
    group: int
    item: int
    kind: str  # "read", "write", "update", "fence", "barrier", "mark", "data"
    before: tuple[int, ...]
    guard: z3.BoolRef
    site: Site
    name: str
    place: Place | None = None
    acquires: bool = False
    releases: bool = False
    sc: bool = False
    scope: str = "device"
    found: z3.BitVecRef | None = None
    value: z3.BitVecRef | None = None
    wrote: z3.BoolRef | None = None
    turn: int = -1
    local_phase: int = 0
    datum: Place | None = None
    stores: bool = False

    @property
    def reads(self) -> bool:
        """Whether it finds a value."""
        return self.found is not None

    @property
    def writes(self) -> bool:
        """Whether it can write."""
        return self.value is not None


@dataclass(frozen=True)
class Access:
    """An access to a work-group's local memory: how many barriers with the local flag came before it counts."""

    group: int
    item: int
    phase: int
    place: Place
    writes: bool
    site: Site
    value: int | None = None


#: An expression's id -> the names of its variables, and the expression, which keeps its id from being given away.
_VARIABLES: dict[int, tuple[frozenset[str], z3.ExprRef]] = {}


def variables(*expressions: z3.ExprRef) -> frozenset[str]:
    """Return the names of the variables in expressions."""
    return frozenset().union(*map(_variables, expressions))


def _variables(expression: z3.ExprRef) -> frozenset[str]:
    known = _VARIABLES.get(expression.get_id())
    if known is None:
        children = expression.children()
        found = frozenset().union(*map(_variables, children))
        if not children and z3.is_const(expression) and expression.decl().kind() == z3.Z3_OP_UNINTERPRETED:
            found = frozenset({str(expression)})
        known = _VARIABLES[expression.get_id()] = (found, expression)
    return known[0]


@dataclass
class Execution:
    """All executions of a program at once: events with conditions, and what is known of the values.

    `faults` are conditions under which a work-group reports overwritten state; `identities` are what work-groups know
    of themselves after discovery: condition, id, and number of groups. `expected` are writes, and that their values are
    among those by which ways were chosen.
    """

    events: list[Event] = field(default_factory=list)
    known: list[z3.BoolRef] = field(default_factory=list)
    accesses: list[Access] = field(default_factory=list)
    faults: list[tuple[z3.BoolRef, Site]] = field(default_factory=list)
    expected: list[tuple[Event, z3.BoolRef]] = field(default_factory=list)
    identities: list[tuple[z3.BoolRef, object, object]] = field(default_factory=list)
    initial: dict[Place, int] = field(default_factory=dict)
    offered: dict[tuple[Site, str], tuple[str, ...]] = field(default_factory=dict)
