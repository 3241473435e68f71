"""Draws loops that work-items leave at different turns, and loops and ways out of loops by `goto`, as well.

In a loop that work-items leave at different turns, control flow is that of single work-items, so collectives are before and
after it. They may be in one whose condition is a vote by which all stay until the last is done: there, too, those who are done
may go on with the next turn, but not leave. A `goto` leads to a label whose control flow is that of its own place.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from tests.generated.collectives import Reduce, Vote
from tests.generated.drawing import Draw
from tests.generated.expressions import Arithmetic, AsValue, Both, Comparison, Name, Not, Number
from tests.generated.jumps import Again, GoBack, Goto, Labelled
from tests.generated.scopes import Label, Scope
from tests.generated.statements import (
    Assign,
    Atomic,
    Break,
    Case,
    Continue,
    Declare,
    Evaluate,
    For,
    If,
    Sequence,
    Switch,
    While,
)
from tests.generated.tree import GRID, GROUP, ITEM, TEAM, Block, Expression, Statement

#: Nodes of these programs alone.
KINDS = (Again, Labelled, Sequence)
_FORMS = ("while", "do", "ever", "for")


@dataclass
class LoopDraw(Draw):
    """The state of a drawing of such programs."""

    def block(self, scope: Scope, most: int = 3) -> Block:
        # Many of these statements are long ones.
        return super().block(scope, max(1, most - 1))

    def weights(self, scope: Scope) -> dict[Callable[[Scope], Statement], float]:
        weights = super().weights(scope)
        if scope.depth > 0:
            weights |= {self.uneven: 3}
            weights |= {self.all_stay: 2.5} if scope.reach < ITEM else {}
            # A macro that is used twice would have each label twice.
            weights |= {self.again: 3, self.left: 2} if scope.directives else {}
        return weights

    def ways_out(self, scope: Scope) -> list[Callable[[], Statement]]:
        return [lambda label=label: self.to(label, scope) for label in scope.labels if label.level == scope.reach]

    def to(self, label: Label, scope: Scope) -> Statement:
        """Return a jump to a label."""
        if label.bound is None:
            return Goto(label.name)
        return GoBack(label.name, Both(label.bound, self.condition(scope, scope.reach)))

    def uneven(self, scope: Scope) -> Statement:
        """Return a loop that work-items leave at different turns, and what is before and after it."""
        own, counter = self.name("v"), self.name("k")
        start = Declare(own, self.value(scope, self.random.choice((GRID, ITEM))))
        known = scope.having(**{own: ITEM})
        within = known.under(ITEM).having(**{counter: ITEM})
        within = replace(within, writable=within.writable | {own: ITEM})
        way = self.random.choice(("counted", "counted", *_FORMS, *(["goto"] if scope.directives else [])))
        if way != "goto":
            within = replace(within, loop=ITEM, breaks=True)
        else:
            label, bound = self.name("l"), self.bound(scope, counter)
            within = replace(within, labels=(*scope.labels, Label(label, ITEM, bound)))
        body = self.turn(within, own)
        loop: Statement
        if way == "counted":
            turns = self.small(replace(scope, readable=self.fixed(scope, ITEM)), ITEM, 6)
            loop = For(counter, turns, body, down=self.likely(0.3))
        elif way == "goto":
            loop = Again(
                self.random.choice(("while", "do")), label, counter, self.stops(within, bound), body, self.likely(0.5)
            )
        else:
            loop = While(way, counter, self.stops(within, self.bound(scope, counter)), body)
        before = [self.statement(scope)] if self.likely(0.3) else []
        return Sequence([*before, start, loop, *self.used(known, own)])

    def turn(self, scope: Scope, own: str) -> Block:
        """Return the body of a loop of work-items, which changes a variable most often to a value that all share."""
        changed = Assign(
            own, self.value(scope, GRID if self.likely(0.6) else ITEM), self.random.choice(("", "", "+", "^"))
        )
        body: Block = [changed, *self.block(scope, 2)]
        if self.likely(0.6):
            ways = self.ways_out(scope)
            if scope.loop == ITEM:
                ways += [Continue, Break, Break] if scope.breaks else [Continue]
            if ways:
                leaves = If(self.condition(scope, ITEM), [self.random.choice(ways)()], bare=self.likely(0.5))
                body.insert(self.random.randint(0, len(body)), leaves)
        return body

    def stops(self, scope: Scope, bound: Expression) -> Expression:
        """Return a condition of single work-items that bounds a loop."""
        return Both(bound, self.condition(scope, ITEM))

    def used(self, scope: Scope, own: str) -> Block:
        """Return statements that use a variable, by a collective where there may be one."""
        self.cells += 1
        if scope.reach > GROUP:
            return [self.added(own)]
        of_grid = scope.reach == GRID and self.likely(0.6)
        made = Reduce("device" if of_grid else "work_group", "add", Name(own))
        name = self.target(scope, GRID if of_grid else GROUP)
        used: Statement = Evaluate(made) if name is None else Assign(name, made, "+")
        return [self.added(own), used] if self.likely(0.5) else [used, self.added(own)]

    def added(self, own: str) -> Statement:
        """Return a statement that shows the values of a variable."""
        return Atomic("add", self.cells, Name(own), portable=False)

    def all_stay(self, scope: Scope) -> Statement:
        """Return a loop in which all stay until the last is done."""
        level = max(scope.reach, self.level(scope, items=False))
        own, counter = self.name("v"), self.name("k")
        known = scope.having(**{own: ITEM, counter: level})
        mine = Comparison(">", Name(own), Number(0))
        condition = self.any_left(known, level, Both(self.bound(scope, counter), mine))
        less = Assign(own, Arithmetic("-", Name(own), Number(1)))
        inner = known.under(level)
        if self.likely(0.5):
            # The only collective is in the condition, which those who go on reach, too.
            alone = replace(inner.under(ITEM), loop=ITEM, breaks=False)
            body = [If(Not(mine), [Continue()], bare=True), less, *self.block(alone, 2)]
        else:
            shared = self.block(replace(inner, loop=inner.reach, breaks=True), 2)
            alone = replace(inner.under(ITEM), loop=inner.reach, breaks=False)
            body = [If(mine, [less, *self.block(alone, 2)]), *shared]
        start = Declare(own, self.small(scope, ITEM, 5))
        return Sequence([start, While(self.random.choice(_FORMS), counter, condition, body), *self.used(known, own)])

    def any_left(self, scope: Scope, level: int, waits: Expression) -> Expression:
        """Return a collective that says whether any work-item of a level waits."""
        if level == GROUP:
            return Comparison(
                "!=", Reduce("work_group", self.random.choice(("or", "max", "add")), AsValue(waits)), Number(0)
            )
        team = scope.team if level == TEAM else ""
        if self.likely(0.6):
            return Vote("any", waits, team)
        return Comparison("!=", Vote("count", waits, team), Number(0))

    def again(self, scope: Scope) -> Statement:
        """Return a loop made of `goto`, whose condition bounds its turns, and which a collective may decide."""
        level = self.level(scope)
        label, counter = self.name("l"), self.name("k")
        known, bound, condition = self.bounded(scope, level, counter)
        if level == ITEM:
            condition = self.stops(known, bound)
        reach = max(scope.reach, level)
        inner = known.under(level, labels=(*scope.labels, Label(label, reach, bound)))
        return Again(
            self.random.choice(("while", "do", "do")), label, counter, condition, self.block(inner), self.likely(0.5)
        )

    def left(self, scope: Scope) -> Statement:
        """Return loops that are left by a `goto`."""
        level, label = self.level(scope), self.name("l")
        inner = scope.under(level)
        inner = replace(inner, labels=(*scope.labels, Label(label, inner.reach)))
        return Labelled(label, self.leaves(inner, label, self.random.choice((0, 1, 2, 2))), self.likely(0.5))

    def leaves(self, scope: Scope, label: str, loops: int) -> Block:
        """Return statements with a jump in that many loops."""
        body = self.block(scope, 2 if loops == 0 else 1)
        if loops == 0:
            made: Statement
            if self.likely(0.2):
                other = self.block(replace(scope, breaks=False), 1)
                made = Switch(self.small(scope, scope.reach), [Case(1, [Goto(label)]), Case(None, other)])
            else:
                decided = scope.reach < ITEM and self.likely(0.3)
                condition = (self.decided if decided else self.condition)(scope, scope.reach)
                made = If(condition, [Goto(label)], bare=self.likely(0.5))
            body.insert(self.random.randint(0, len(body)), made)
            return body
        counter = self.name("k")
        inner = replace(scope.under(scope.reach).having(**{counter: scope.reach}), loop=scope.reach, breaks=True)
        within = self.leaves(inner, label, loops - 1)
        if self.likely(0.6):
            turns = self.small(replace(scope, readable=self.fixed(scope, scope.reach)), scope.reach)
            loop: Statement = For(counter, turns, within, down=self.likely(0.2))
        else:
            _, _, condition = self.bounded(scope, scope.reach, counter)
            loop = While(self.random.choice(_FORMS), counter, condition, within)
        return [loop, *body] if self.likely(0.4) else [*body, loop]
