"""Places in a program that is drawn: who are there together, and what they may use."""

from __future__ import annotations

from dataclasses import dataclass, replace

from tests.generated.tree import GRID, GROUP, ITEM, Expression

#: Level of a variable by its first letter.
LEVELS = {"u": GRID, "g": GROUP, "v": ITEM}


@dataclass(frozen=True)
class Label:
    """Where a `goto` may lead: the level of control flow there, and a condition that bounds turns if it leads back."""

    name: str
    level: int
    bound: Expression | None = None


@dataclass(frozen=True)
class Scope:
    """A place in a program: `reach` is the level of control flow there."""

    reach: int
    readable: dict[str, int]
    writable: dict[str, int]
    depth: int
    #: The level of the loop that `continue` would go on with, and whether `break` would leave it.
    loop: int | None = None
    breaks: bool = False
    labels: tuple[Label, ...] = ()
    #: The level of the function's control flow and of its result, where a return is allowed.
    returns: int | None = None
    result: int | None = None
    team: str = ""
    #: Whether a split barrier of the grid, teams, a worklist may begin here.
    splits: bool = True
    teams: bool = True
    lists: bool = True
    #: Whether work-groups may wait for each other.
    waits: bool = True
    #: Whether a directive is allowed here: not in a macro.
    directives: bool = True
    #: The level of control flow here as far as anyone can know it without what is in memory; None for `reach`.
    known: int | None = None

    @property
    def uses_barriers(self) -> bool:
        """Whether the result of a barrier may be used: not where `false`, after a fault, may lead to a `continue`."""
        return self.loop is None and not self.labels and self.result is None and self.directives

    def under(self, level: int, **changes: object) -> Scope:
        """Return the scope under a condition of this level."""
        return replace(self, reach=max(self.reach, level), depth=self.depth - 1, known=None, **changes)

    def having(self, **names: int) -> Scope:
        """Return the scope with more names, which are not assigned."""
        return replace(self, readable=self.readable | names)

    def detached(self, reach: int, **names: int) -> Scope:
        """Return the scope of a body that any work-item or group may execute, with these names."""
        shared = {
            name: level for name, level in self.readable.items() if level == GRID or (name == "lid" and reach == GROUP)
        }
        return replace(
            self,
            reach=reach,
            readable=shared | names,
            writable={name: LEVELS[name[0]] for name in names if name[0] in LEVELS},
            depth=self.depth - 1,
            loop=reach,
            breaks=False,
            labels=(),
            returns=None,
            team="",
            known=None,
        )
