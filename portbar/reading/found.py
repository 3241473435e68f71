"""The findings of a reader in a program, as data that outlasts the process: a later one needs no reader."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from portbar.errors import BuildError

#: The bits of a condition's number.
NUMBER_BITS: Final = 24


@dataclass(frozen=True, order=True)
class Place:
    """A file as the author named it, and a 1-based line and column."""

    file: str
    line: int
    column: int = 1

    def __str__(self) -> str:
        """The place as messages name it."""
        return f"{self.file}, line {self.line}"


@dataclass(frozen=True)
class Unread:
    """A part that the front end could not parse."""

    place: Place
    reason: str


@dataclass(frozen=True)
class OpenclAtomic:
    """An atomic type of OpenCL C's, where the object that a call takes is declared with it, and the type to declare instead."""

    place: Place
    name: str
    plain: str


@dataclass(frozen=True)
class Mistakes:
    """Mistakes with portbar's names in a text that a driver refused."""

    #: Names that stand for a grid where no grid is declared.
    grids: tuple[str, ...] = ()
    #: Macros of the author's that are used as the name of a grid, or of memory of reductions.
    macros: tuple[str, ...] = ()
    #: Macros of parameters that no comma separates from the next parameter.
    parameters: tuple[str, ...] = ()
    #: Functions that are called with other arguments than they take -> the arguments before their values.
    hidden: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Entering:
    """Faults in how a kernel enters its grid."""

    #: Where the inner block begins that holds it.
    block: Place | None = None
    #: The first statement with an effect before it.
    early: Place | None = None


@dataclass(frozen=True)
class ReadKernel:
    """One kernel."""

    name: str
    #: Names of its parameters, in order.
    parameters: tuple[str, ...] = ()
    #: Its `reqd_work_group_size`, None where it states none.
    required: tuple[int, int, int] | None = None
    #: Types of the variables that it declares, and the functions that are called in what it reaches.
    types: frozenset[str] = frozenset()
    calls: frozenset[str] = frozenset()
    #: How it enters its grid; None where it does not.
    entering: Entering | None = None
    #: Whether it was read with all that it reaches.
    is_whole: bool = True


@dataclass(frozen=True)
class Facts:
    """The kernels of a program, and names that it declares and calls."""

    kernels: Mapping[str, ReadKernel] = field(default_factory=dict)
    #: Functions that are called -> types of the values that macros of their name take.
    calls: Mapping[str, frozenset[str]] = field(default_factory=dict)
    #: Functions whose result is used where they are called.
    results: frozenset[str] = frozenset()
    #: Names that the text declares outside of functions.
    declared: Mapping[str, Place] = field(default_factory=dict)
    #: Names of types -> the types that they stand for.
    typedefs: Mapping[str, str] = field(default_factory=dict)
    #: Whether the whole text was read, with the types of all values.
    is_whole: bool = True

    def check_undefined(self, names: Iterable[str], what: str) -> None:
        """Raise a `BuildError` if the text declares one of these names outside of functions, which `what` defines, too."""
        for name in sorted(self.declared.keys() & set(names)):
            place = self.declared[name]
            raise BuildError(
                f"{place}: {name!r} is defined in the source, but {what} defines a function or type of "
                "that name too; rename one"
            )


def joined(facts: Collection[Facts | None]) -> Facts | None:
    """The facts of a program that is compiled for several devices; None where there are none for one of them.

    A size that kernels do not state on all of them is not stated.
    """
    known = [one for one in facts if one is not None]
    if len(known) < len(facts) or not known:
        return None
    made = known[0]
    for other in known[1:]:
        made = Facts(
            {
                name: _both(made.kernels.get(name), other.kernels.get(name))
                for name in {**made.kernels, **other.kernels}
            },
            {
                name: made.calls.get(name, frozenset()) | other.calls.get(name, frozenset())
                for name in {**made.calls, **other.calls}
            },
            made.results | other.results,
            {**other.declared, **made.declared},
            {name: kind for name, kind in made.typedefs.items() if other.typedefs.get(name, kind) == kind},
            is_whole=made.is_whole and other.is_whole,
        )
    return made


def _both(one: ReadKernel | None, other: ReadKernel | None) -> ReadKernel:
    if one is None or other is None or one == other:
        found = one or other
        assert found is not None
        return found
    return ReadKernel(
        one.name,
        one.parameters if one.parameters == other.parameters else (),
        one.required if one.required == other.required else None,
        one.types | other.types,
        one.calls | other.calls,
        one.entering or other.entering,
        is_whole=one.is_whole and other.is_whole,
    )


@dataclass(frozen=True)
class Condition:
    """A condition that is checked: its place and text, and the call that depends on it."""

    place: Place
    source: str
    call: str
    line: int
    #: Whether all work-groups must agree; those of a work-group otherwise.
    is_grid: bool


@dataclass(frozen=True)
class Checked:
    """A program with checks, and its conditions by their numbers. Without conditions the text is as it was."""

    text: str
    conditions: Mapping[int, Condition]
