"""Draws, as well, jumps of all that none ever makes, where only some work-items come: guards against what never happens.

Conditions that keep work-items away from a guard come from memory alone: before a launch, they may be the same for all.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from tests.generated.expressions import Comparison, Input, Name, Number, Remainder
from tests.generated.jumps import Goto, Labelled
from tests.generated.loops import LoopDraw
from tests.generated.scopes import Label, Scope
from tests.generated.statements import Break, Case, Continue, For, If, Return, Switch
from tests.generated.tree import ITEM, Block, Expression, Statement


def known(scope: Scope) -> int:
    """The level of control flow at a place, as far as anyone can know it without what is in memory."""
    return scope.reach if scope.known is None else scope.known


@dataclass
class Guard(If):
    """A branch that no work-item takes, with a jump."""


@dataclass
class GuardDraw(LoopDraw):
    """The state of a drawing of such programs."""

    #: Labels past guards, to which no work-items jump that anyone knows.
    past: set[str] = field(default_factory=set)

    def ways_out(self, scope: Scope) -> list[Callable[[], Statement]]:
        return super().ways_out(replace(scope, labels=tuple(one for one in scope.labels if one.name not in self.past)))

    def weights(self, scope: Scope) -> dict[Callable[[Scope], Statement], float]:
        weights = super().weights(scope)
        if self.jumps(scope):
            weights |= {self.guard: 1 if scope.reach < ITEM else 4}
        if scope.depth > 0 and known(scope) < ITEM:
            weights |= {self.some: 4}
        return weights

    def jumps(self, scope: Scope) -> list[Callable[[], Statement]]:
        """Return jumps of all out of a place where some may be."""
        levels = range(known(scope), ITEM)
        made: list[Callable[[], Statement]] = [
            lambda label=label: Goto(label.name) for label in scope.labels if label.level in levels
        ]
        if scope.loop in levels:
            made += [Continue, Break] if scope.breaks else [Continue]
        if scope.returns in levels:
            made.append(lambda: Return(None if scope.result is None else self.value(scope, scope.result)))
        return made

    def guard(self, scope: Scope) -> Statement:
        """Return a jump that no work-item makes."""
        never = self.random.choice(
            (
                Comparison("!=", Name("none"), Number(0)),
                Comparison("==", Name("n"), Number(99)),
                Comparison(">", Input(self.value(scope, ITEM)), Number(7)),
            )
        )
        before = [self.atomic(scope.under(scope.reach))] if self.likely(0.3) else []
        return Guard(never, [*before, self.random.choice(self.jumps(scope))()], bare=self.likely(0.5))

    def from_memory(self, scope: Scope) -> Expression:
        """Return a condition that some work-items meet, as far as memory says."""
        return self.compared(Input(self.value(scope, ITEM)), self.random.choice((2, 3)))

    def for_some(self, scope: Scope) -> Scope:
        """Return the scope under such a condition."""
        return replace(scope.under(ITEM), known=known(scope))

    def some(self, scope: Scope) -> Statement:
        """Return statements of some work-items, with guards among them."""
        inner = self.for_some(scope)
        ways: list[Callable[[Scope, Scope], Statement]] = [self.taken, self.taken, self.chosen, self.turned]
        if scope.directives:
            ways.append(self.jumped)
        return self.random.choice(ways)(scope, inner)

    def guarded(self, scope: Scope, most: int = 2) -> Block:
        """Return statements with a guard among them, if there is one for that place."""
        body = self.block(scope, most)
        if self.jumps(scope) and self.likely(0.7):
            body.insert(self.random.randint(0, len(body)), self.guard(scope))
        return body

    def taken(self, scope: Scope, inner: Scope) -> Statement:
        otherwise = self.guarded(inner) if self.likely(0.4) else []
        return If(self.from_memory(scope), self.guarded(inner), otherwise, bare=self.likely(0.3))

    def chosen(self, scope: Scope, inner: Scope) -> Statement:
        inner = replace(inner, breaks=False)
        labels = self.random.sample((0, 1, 2), self.random.randint(1, 2))
        cases = [Case(label, self.guarded(inner), falls=self.likely(0.2)) for label in labels]
        cases.append(Case(None, self.guarded(inner)))
        return Switch(Remainder(Input(self.value(scope, ITEM)), 3), cases)

    def turned(self, scope: Scope, inner: Scope) -> Statement:
        counter = self.name("k")
        # Nothing that anyone knows lets work-items leave it before a guard.
        inner = replace(inner.having(**{counter: ITEM}), loop=None, breaks=False)
        fixed = replace(scope, readable=self.fixed(scope, ITEM))
        return For(counter, Remainder(Input(self.value(fixed, ITEM)), 4), self.guarded(inner), down=self.likely(0.2))

    def jumped(self, scope: Scope, inner: Scope) -> Statement:
        """Return statements over which some work-items jump."""
        label = self.name("l")
        self.past.add(label)
        inner = replace(inner, labels=(*scope.labels, Label(label, ITEM)))
        leaves = If(self.from_memory(scope), [Goto(label)], bare=self.likely(0.5))
        before = self.block(inner, 1) if self.likely(0.3) else []
        return Labelled(label, [*before, leaves, *self.guarded(inner)], self.likely(0.5))

    def body(self, scope: Scope) -> Block:
        """Return the body of a loop, the rest of which some work-items may leave out."""
        body = super().body(scope)
        if scope.reach < ITEM and scope.loop == scope.reach and self.likely(0.4):
            skips = If(self.from_memory(scope), [Continue()], bare=self.likely(0.5))
            body += [skips, *self.guarded(self.for_some(scope), 3)]
        return body
