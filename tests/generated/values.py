"""Draws values, conditions and collectives."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

from tests.generated.collectives import Barrier, Broadcast, Collective, Reduce, Scan, Vote
from tests.generated.expressions import (
    ARITHMETIC,
    COMPARISONS,
    Arithmetic,
    AsValue,
    Both,
    Choice,
    Comparison,
    Input,
    Name,
    Not,
    Number,
    Remainder,
)
from tests.generated.scopes import Scope
from tests.generated.tree import GRID, GROUP, ITEM, TEAM, Expression


@dataclass
class Values:
    """Draws the parts of statements."""

    random: random.Random
    names: int = 0

    def name(self, letter: str) -> str:
        """Return a name that no other variable has."""
        self.names += 1
        return f"{letter}{self.names + 9}"

    def likely(self, chance: float) -> bool:
        return self.random.random() < chance

    def value(self, scope: Scope, level: int, depth: int = 2) -> Expression:
        """Return a value of at most this level."""
        choose = self.random.choice
        if depth == 0 or self.likely(0.3):
            known = [name for name, own in scope.readable.items() if own <= level]
            favoured = [name for name in known if scope.readable[name] == level]
            if self.likely(0.2) or not known:
                return Number(choose((0, 1, 2, 3, 5, 7, 100)))
            return Name(choose(favoured if favoured and self.likely(0.6) else known))
        kind = choose(("arithmetic", "arithmetic", "arithmetic", "remainder", "input", "choice", "condition"))
        if kind == "arithmetic":
            left, right = (self.value(scope, level, depth - 1) for _ in range(2))
            return Arithmetic(choose(sorted(ARITHMETIC)), left, right)
        if kind == "remainder":
            return Remainder(self.value(scope, level, depth - 1), choose((2, 3, 5, 7)))
        if kind == "input":
            return Input(self.value(scope, level, depth - 1))
        if kind == "choice":
            yes, no = (self.value(scope, level, depth - 1) for _ in range(2))
            return Choice(self.condition(scope, level, depth - 1), yes, no)
        return AsValue(self.condition(scope, level, depth - 1))

    def small(self, scope: Scope, level: int, most: int = 4) -> Expression:
        """Return a value below `most`, and often one that no compiler knows."""
        if self.likely(0.3):
            return Number(self.random.randrange(1, most))
        return Name("n") if self.likely(0.4) else Remainder(self.value(scope, level, 1), most)

    def condition(self, scope: Scope, level: int, depth: int = 1) -> Expression:
        """Return a condition of at most this level that holds about as often as not."""
        choose = self.random.choice
        if depth and self.likely(0.2):
            left, right = (self.condition(scope, level, depth - 1) for _ in range(2))
            return Both(left, right, either=self.likely(0.5))
        if depth and self.likely(0.1):
            return Not(self.condition(scope, level, depth - 1))
        if level == ITEM and "lid" in scope.readable and self.likely(0.4):
            return Comparison(choose(("==", "<", "!=")), Name("lid"), self.small(scope, GRID, 8))
        if self.likely(0.3):
            return Comparison(choose(("==", "!=")), Name(choose(("n", "none", "m"))), Number(choose((0, 3, 5, 4))))
        return self.compared(self.value(scope, level, 1), choose((2, 3, 4)))

    def compared(self, value: Expression, most: int) -> Expression:
        """Return a condition on a value's remainder that holds for some remainders only."""
        operator = self.random.choice(sorted(COMPARISONS))
        least = int(operator in {"<", ">="})
        highest = most - 1 - int(operator in {">", "<="})
        return Comparison(operator, Remainder(value, most), Number(self.random.randint(least, highest)))

    def collective(self, scope: Scope, level: int) -> Collective:
        """Return a collective that all who must make the call make here, with a result of at most this level."""
        choose = self.random.choice
        operand = self.value(scope, ITEM)
        operator = choose(("add", "add", "max", "min", "xor", "or", "and"))
        alias = self.likely(0.15)
        kinds: list[Callable[[], Collective]] = []
        if scope.reach <= GROUP:
            kinds += [
                lambda: Reduce("work_group", operator, operand, alias=alias),
                lambda: Broadcast("work_group", operand, choose((0, 1, 3, 7)), alias=alias),
            ]
            if level == ITEM:
                kinds.append(lambda: Scan("work_group", operator, self.likely(0.5), operand, alias=alias))
        if scope.reach <= TEAM <= level and scope.team:
            kinds = [
                lambda: Vote(choose(("any", "all", "count")), self.condition(scope, ITEM), scope.team, alias=alias),
                lambda: Reduce("team", operator, self.value(scope, GROUP), scope.team, alias=alias),
                lambda: Broadcast("team", self.value(scope, GROUP), choose((0, 1)), scope.team, alias=alias),
            ]
        if scope.reach == GRID and (level < GROUP or self.likely(0.7)):
            kinds = [
                Barrier,
                lambda: self.vote(scope, alias=alias),
                lambda: self.vote(scope, alias=alias),
                lambda: Reduce("device", operator, operand, alias=alias),
                lambda: Broadcast("device", operand, choose((0, 1, 3, 7)), alias=alias),
                *([lambda: Scan("device", operator, self.likely(0.5), operand, alias=alias)] if level == ITEM else []),
            ]
        return choose(kinds)()

    def vote(self, scope: Scope, *, alias: bool) -> Vote:
        """Return a vote of the grid."""
        kind = self.random.choice(("any", "all", "count", "sum"))
        return Vote(kind, self.value(scope, ITEM) if kind == "sum" else self.condition(scope, ITEM), alias=alias)

    def decided(self, scope: Scope, level: int) -> Expression:
        """Return a condition of this level that a collective decides."""
        found = self.collective(scope, level)
        if isinstance(found, Barrier) and not scope.uses_barriers:
            found = self.vote(scope, alias=False)
        if isinstance(found, Barrier) or (isinstance(found, Vote) and found.kind in {"any", "all"}):
            return Not(found) if self.likely(0.2) else found
        compared = self.compared(found, self.random.choice((2, 3)))
        if self.likely(0.3):
            # Where it decides whether the call is made, it is the same for all who make it.
            return Both(self.condition(scope, min(level, found.level)), compared, either=self.likely(0.5))
        return compared

    def level(self, scope: Scope, *, items: bool = True) -> int:
        """Return the level of a condition here, most often one that keeps control flow as it is."""
        levels = {scope.reach: 6.0, GROUP: 1.0, ITEM: 1.0} if items else {scope.reach: 6.0, GROUP: 1.0}
        if scope.team:
            levels[TEAM] = 4.0
        levels = {level: weight for level, weight in levels.items() if level >= scope.reach}
        return self.random.choices(list(levels), list(levels.values()))[0]
