"""Draws programs at random. Each has uniform control flow around every collective, by construction.

A value has a level: it is the same in all work-items of the grid, of a team, of a work-group, or in none. Control flow has
one, too: that of the conditions around it. A collective is placed where control flow is the same for all who make the call. A
variable is assigned where control flow and the value are of its level or a lower one. Where nothing says which work-item or
group executes a statement (elements, tiles and tasks), it uses nothing that tells them apart: such a scope is detached.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from tests.generated.collectives import Barrier, Scan, Vote
from tests.generated.expressions import (
    Both,
    Choice,
    Comparison,
    Name,
    Number,
    Remainder,
)
from tests.generated.primitives import (
    Declared,
    Elements,
    Exchange,
    Frontier,
    GroupBarrier,
    LocalExchange,
    Relay,
    SplitDevice,
    Sum,
    Tasks,
    Team,
    Tiles,
)
from tests.generated.programs import OWN, VARIABLES, Call, Function, Macro, Program, Use
from tests.generated.scan_programs import ScanProgram
from tests.generated.scopes import LEVELS, Scope
from tests.generated.statements import (
    ATOMICS,
    Assign,
    Atomic,
    Break,
    Case,
    Continue,
    Declare,
    Evaluate,
    Fault,
    For,
    If,
    Return,
    Switch,
    While,
)
from tests.generated.tree import GRID, GROUP, ITEM, TEAM, Block, Expression, Statement
from tests.generated.values import Values
from tests.generated.waiting import Awaited, Directive, Locked

_COMMON = {"n": GRID, "none": GRID, "m": GRID, "items": GRID, "lid": ITEM}
_OF_GRID = {"groups": GRID, "all": GRID, "group": GROUP, "me": ITEM}


@dataclass
class Draw(Values):
    """The state of a drawing."""

    cells: int = 0
    slots: int = 0
    functions: list[tuple[Function, int]] = field(default_factory=list)
    macros: list[Macro] = field(default_factory=list)

    def block(self, scope: Scope, most: int = 3) -> Block:
        """Return some statements."""
        found: Block = []
        for _ in range(self.random.randint(1, most)):
            if scope.reach < ITEM and self.likely(0.08):
                letter = self.random.choice([one for one, level in LEVELS.items() if level >= scope.reach])
                name = self.name(letter)
                level = LEVELS[letter]
                found.append(Declare(name, self.value(scope, level)))
                scope = replace(scope, readable=scope.readable | {name: level}, writable=scope.writable | {name: level})
            found.append(self.statement(scope))
        return found

    def statement(self, scope: Scope) -> Statement:
        """Return a statement for this place."""
        weights = self.weights(scope)
        return self.random.choices(list(weights), list(weights.values()))[0](scope)

    def weights(self, scope: Scope) -> dict[Callable[[Scope], Statement], float]:
        """Return what draws a statement for this place, and how often each is taken."""
        weights: dict[Callable[[Scope], Statement], float] = {self.atomic: 3, self.assignment: 2}
        if scope.depth > 0:
            weights |= {self.branch: 4, self.switch: 1, self.counted: 2, self.looped: 2}
        if scope.reach == ITEM:
            weights |= {self.jump: 1}
        else:
            weights |= {
                self.together: 5,
                self.one: 3,
                self.jump: 2,
                self.exchange_locally: 0.7,
                self.group_barrier: 0.5,
            }
            weights |= {self.function: 1.5, self.declared: 0.6}
            weights |= {self.locked: 0.4} if scope.waits else {}
        if scope.depth > 0 and scope.directives:
            weights |= {self.directive: 0.5}
        if scope.reach == GRID and scope.depth > 0:
            weights |= {
                self.exchange: 1.5,
                self.elements: 1,
                self.tiles: 1.2,
                self.sum: 0.7,
                self.relay: 0.4,
                self.use: 1.5,
            }
            weights |= {self.awaited: 0.4}
            if scope.splits:
                weights |= {self.split: 0.8}
            if scope.teams:
                weights |= {self.team: 0.6}
            if scope.lists:
                weights |= {self.frontier: 0.5, self.tasks: 0.5}
        return weights

    def target(self, scope: Scope, level: int) -> str | None:
        """Return a variable that may be assigned here, with a value of this level."""
        least = max(scope.reach, level)
        return self.random.choice([name for name, own in scope.writable.items() if own >= least] or [None])

    def atomic(self, scope: Scope) -> Statement:
        self.cells += 1
        operator = self.random.choice(("add", "add", "add", *sorted(ATOMICS)))
        made = Atomic(operator, self.cells, self.value(scope, ITEM), portable=self.likely(0.3))
        if scope.reach < ITEM and "lid" in scope.readable and self.likely(0.4):
            return If(Comparison("==", Name("lid"), Number(0)), [made], bare=self.likely(0.5))
        return made

    def assignment(self, scope: Scope) -> Statement:
        name = self.target(scope, GRID)
        if name is None:
            return self.atomic(scope)
        return Assign(name, self.value(scope, scope.writable[name]), self.random.choice(("", "+", "^", "*")))

    def group_barrier(self, _scope: Scope) -> Statement:
        return GroupBarrier()

    def together(self, scope: Scope) -> Statement:
        """Return a statement with a collective, whose result is used in one of many ways."""
        level = self.random.choice((scope.reach, GROUP, ITEM))
        made = self.collective(scope, max(level, scope.reach))
        if isinstance(made, Barrier) and scope.returns is not None and self.likely(0.5):
            return Fault(made)
        way = self.random.choice(("ignored", "assigned", "assigned", "added", "added", "decides", "decides"))
        if isinstance(made, Barrier) and not scope.uses_barriers:
            way = "ignored"
        call: Expression = made
        if self.likely(0.1):
            other = self.value(scope, GRID) if self.likely(0.5) else made
            pair = [made, other] if self.likely(0.5) else [other, made]
            call = Choice(self.condition(scope, min(made.level, scope.reach)), *pair)
        used = ITEM if isinstance(made, Scan) else GRID if scope.reach == GRID and made.level == GRID else GROUP
        name = self.target(scope, used)
        if way == "decides" or name is None or way == "ignored":
            if way == "decides" and scope.depth > 0:
                level = self.level(scope, items=False)
                return self.branch(scope, self.decided(scope, level), level)
            return Evaluate(call, void=self.likely(0.5))
        return Assign(name, call, "" if way == "assigned" else self.random.choice(("+", "^")))

    def one(self, scope: Scope) -> Statement:
        """Return statements of one work-item, with a branch that depends on data."""
        inner = scope.under(ITEM, returns=None)
        condition = Comparison("==", Name("lid" if "lid" in scope.readable else "m"), self.small(scope, GRID, 8))
        self.cells += 2
        yes, no = (Atomic("add", self.cells - i, self.value(inner, ITEM), portable=False) for i in range(2))
        return If(condition, [If(self.condition(inner, ITEM), [yes], [no], bare=self.likely(0.5))])

    def branch(self, scope: Scope, condition: Expression | None = None, level: int | None = None) -> Statement:
        """Return an `if`, most often one that all take alike."""
        if level is None:
            level = self.level(scope)
        condition = condition or self.condition(scope, level)
        inner = scope.under(level)
        otherwise = self.block(inner) if self.likely(0.4) else []
        return If(condition, self.block(inner), otherwise, bare=self.likely(0.3), alias=self.likely(0.1))

    def switch(self, scope: Scope) -> Statement:
        level = self.level(scope)
        inner = scope.under(level, breaks=False)
        labels = self.random.sample((0, 1, 2, 3), self.random.randint(1, 3))
        cases = [Case(label, self.block(inner, 2), falls=self.likely(0.2)) for label in labels]
        cases.append(Case(None, self.block(inner, 2)))
        return Switch(self.small(scope, level), cases)

    def counted(self, scope: Scope) -> Statement:
        level = self.level(scope)
        counter = self.name("k")
        inner = scope.under(level).having(**{counter: level})
        inner = replace(inner, loop=inner.reach, breaks=True)
        turns = self.small(replace(scope, readable=self.fixed(scope, ITEM)), level)
        return For(counter, turns, self.body(inner), down=self.likely(0.2), alias=self.likely(0.1))

    def fixed(self, scope: Scope, level: int) -> dict[str, int]:
        """Return names of at most a level that no body assigns: what bounds a loop is read again each turn."""
        return {name: own for name, own in scope.readable.items() if own <= level and name not in scope.writable}

    def bound(self, scope: Scope, counter: str) -> Expression:
        """Return a bound on the turns that a variable counts."""
        return Comparison("<", Name(counter), self.small(replace(scope, readable=self.fixed(scope, GRID)), GRID))

    def looped(self, scope: Scope) -> Statement:
        """Return a loop whose condition bounds its turns, and which a collective may decide."""
        level = self.level(scope)
        counter = self.name("k")
        known, _, condition = self.bounded(scope, level, counter)
        inner = replace(known.under(level), breaks=True)
        inner = replace(inner, loop=inner.reach)
        return While(self.random.choice(("while", "do", "do", "ever", "for")), counter, condition, self.body(inner))

    def body(self, scope: Scope) -> Block:
        """Return the body of a loop."""
        return self.block(scope)

    def bounded(self, scope: Scope, level: int, counter: str) -> tuple[Scope, Expression, Expression]:
        """Return the scope of a loop that a variable counts, a bound on its turns, and a condition with that bound."""
        known = scope.having(**{counter: level})
        bound = self.bound(scope, counter)
        # The condition is evaluated again by those who go on.
        again = replace(known, reach=level)
        if level < GROUP and self.likely(0.35):
            vote = Both(bound, self.condition(known, ITEM)) if self.likely(0.5) else bound
            return known, bound, Vote("any", vote, scope.team if level == TEAM else "")
        if level < ITEM and self.likely(0.4):
            return known, bound, Both(bound, self.decided(again, level))
        return known, bound, bound

    def jump(self, scope: Scope) -> Statement:
        """Return a jump of all who are there, under a condition."""
        kinds = self.ways_out(scope)
        if scope.loop == scope.reach:
            kinds += [Continue, Break] if scope.breaks else [Continue]
        if scope.returns == scope.reach:
            kinds.append(lambda: Return(None if scope.result is None else self.value(scope, scope.result)))
        if not kinds:
            return self.together(scope) if scope.reach < ITEM else self.atomic(scope)
        made = self.random.choice(kinds)()
        rare = isinstance(made, Return) and self.likely(0.7)
        condition: Expression = (
            Comparison("!=", Name("none"), Number(0))
            if rare
            else self.decided(scope, scope.reach)
            if scope.reach < ITEM and self.likely(0.3)
            else self.condition(scope, scope.reach)
        )
        before = [self.atomic(scope.under(scope.reach))] if self.likely(0.3) else []
        return If(condition, [*before, made], bare=self.likely(0.5))

    def ways_out(self, _scope: Scope) -> list[Callable[[], Statement]]:
        """Return jumps of all who are there that need a label."""
        return []

    def sync(self, scope: Scope) -> Statement:
        """Return a statement with a collective of the grid, which orders memory."""
        made = self.collective(scope, TEAM if self.likely(0.5) else GRID)
        while made.level != GRID:
            made = self.collective(scope, GRID)
        if isinstance(made, Barrier) and scope.returns is not None and self.likely(0.5):
            return Fault(made)
        name = self.target(scope, GRID)
        is_ignored = isinstance(made, Barrier) and not scope.uses_barriers
        if name is None or is_ignored or self.likely(0.4):
            return Evaluate(made, void=self.likely(0.5))
        return Assign(name, made, self.random.choice(("", "+")))

    def exchange_locally(self, scope: Scope) -> Statement:
        name = self.target(scope, ITEM)
        if name is None:
            return self.group_barrier(scope)
        split = self.name("t") if self.likely(0.5) else ""
        between = self.value(scope, ITEM) if split and self.likely(0.5) else None
        return LocalExchange(self.value(scope, ITEM), name, self.random.randrange(1, 5), split, between)

    def declared(self, scope: Scope) -> Statement:
        of_grid = scope.reach == GRID and self.likely(0.6)
        name = self.target(scope, GRID if of_grid else GROUP)
        if name is None:
            return self.together(scope)
        return Declared(self.name("d"), of_grid, self.value(scope, ITEM), name)

    def locked(self, scope: Scope) -> Statement:
        self.cells += 1
        return Locked(self.random.choice(("spin", "ticket")), self.cells, self.value(scope, GROUP))

    def directive(self, scope: Scope) -> Statement:
        inner = scope.under(scope.reach)
        condition = self.condition(scope, scope.reach) if self.likely(0.4) else None
        return Directive(self.block(inner, 2), self.likely(0.5), condition)

    def function(self, scope: Scope) -> Statement:
        """Return a call of a function, whose result is used in one of many ways."""
        known = [(made, own) for made, own in self.functions if scope.reach <= (GRID if made.of_grid else GROUP)]
        known = [(made, own) for made, own in known if not made.of_grid or (scope.splits and scope.teams)]
        if not known:
            return self.together(scope)
        made, level = self.random.choice(known)
        call = Call(made, [self.value(scope, LEVELS[name[0]]) for name in made.parameters])
        level = max(level, scope.reach if made.of_grid else GROUP)
        name = self.target(scope, level)
        if scope.depth > 0 and level <= GROUP and self.likely(0.4):
            return self.branch(scope, Comparison("!=", Remainder(call, 2), Number(0)), level)
        if name is None or self.likely(0.2):
            return Evaluate(call)
        return Assign(name, call, self.random.choice(("", "+")))

    # Statements of the grid

    def exchange(self, scope: Scope) -> Statement:
        name = self.target(scope, ITEM)
        assert name is not None
        self.slots += 1
        value, shift = self.value(scope, ITEM), self.random.randrange(1, 12)
        return Exchange(self.slots - 1, value, self.sync(scope), name, shift, self.sync(scope))

    def split(self, scope: Scope) -> Statement:
        inner = replace(scope.under(GRID), splits=False, teams=False, lists=False, loop=None, labels=(), returns=None)
        return SplitDevice(self.name("t"), self.block(inner, 2), tested=self.likely(0.2))

    def elements(self, scope: Scope) -> Statement:
        counter, value = self.name("i"), self.name("v")
        inner = scope.detached(ITEM, **{counter: ITEM, value: ITEM})
        body = [Declare(value, self.value(scope.detached(ITEM, **{counter: ITEM}), ITEM)), *self.block(inner)]
        chunk = self.random.choice((1, 3, 16)) if self.likely(0.4) else 0
        return Elements(counter, self.count(scope), body, chunk)

    def tiles(self, scope: Scope) -> Statement:
        counter, group, own = self.name("i"), self.name("g"), self.name("v")
        start = scope.detached(GROUP, **{counter: GROUP})
        inner = scope.detached(GROUP, **{counter: GROUP, group: GROUP, own: ITEM})
        declared = [Declare(group, self.value(start, GROUP)), Declare(own, self.value(start, ITEM))]
        return Tiles(counter, self.count(scope), [*declared, *self.block(inner, 4)])

    def count(self, scope: Scope) -> Expression:
        """Return a number of elements."""
        return Number(self.random.choice((1, 5, 29))) if self.likely(0.5) else self.small(scope, GRID, 9)

    def sum(self, scope: Scope) -> Statement:
        counter, name = self.name("i"), self.target(scope, GRID)
        assert name is not None
        term = self.value(scope.detached(ITEM, **{counter: ITEM}), ITEM)
        return Sum(self.name("s"), counter, self.count(scope), term, name, self.random.choice(("add", "xor")))

    def team(self, scope: Scope) -> Statement:
        name = self.name("team")
        inner = replace(scope.under(GRID), team=name, teams=False, lists=False, loop=None, labels=(), returns=None)
        return Team(name, self.random.choice((1, 2, 3)), self.block(inner, 4), self.likely(0.4))

    def relay(self, scope: Scope) -> Statement:
        name = self.target(scope, GRID)
        assert name is not None
        return Relay(self.value(scope, GROUP), name, self.sync(scope))

    def awaited(self, scope: Scope) -> Statement:
        return Awaited(self.name("a"), self.sync(scope), self.value(scope, GRID), self.sync(scope))

    def frontier(self, scope: Scope) -> Statement:
        value = self.name("e")
        visit = replace(scope.detached(ITEM, **{value: ITEM}), loop=None)
        phase = replace(scope.under(GRID), lists=False, loop=GRID, breaks=False, labels=())
        plain = replace(visit, depth=0)
        return Frontier(
            value,
            self.value(scope, GRID),
            self.value(plain, ITEM),
            self.block(visit),
            self.block(phase, 2),
            self.likely(0.4),
        )

    def tasks(self, scope: Scope) -> Statement:
        value, own = self.name("e"), self.name("v")
        start = scope.detached(GROUP, **{value: GROUP})
        inner = replace(scope.detached(GROUP, **{value: GROUP, own: ITEM}), loop=None)
        body = [Declare(own, self.value(start, ITEM)), *self.block(inner)]
        return Tasks(value, self.value(scope, GRID), self.value(start, GROUP, 1), body)

    def use(self, scope: Scope) -> Statement:
        allowed = scope.splits and scope.teams and scope.result is None and scope.returns is not None
        return Use(self.random.choice(self.macros)) if self.macros and allowed else self.together(scope)

    # Parts of a program

    def kernel(self, depth: int) -> Scope:
        return Scope(
            GRID,
            _COMMON | _OF_GRID | {name: LEVELS[name[0]] for name in VARIABLES},
            {name: LEVELS[name[0]] for name in VARIABLES},
            depth,
            returns=GRID,
        )

    def new_function(self, number: int, *, of_grid: bool) -> None:
        """Draw a function of the author's, which may call those before it."""
        level = self.random.choice((GRID, ITEM)) if of_grid else self.random.choice((GROUP, ITEM))
        if of_grid:
            scope = replace(self.kernel(2), result=level, lists=False)
        else:
            names = dict.fromkeys(OWN, ITEM)
            scope = Scope(GROUP, _COMMON | names, names, 2, returns=GROUP, result=level, teams=False, lists=False)
        body = self.block(scope)
        head = self.random.choice(("static uint", "static inline uint", "static uint __attribute__((noinline))"))
        made = Function(f"f{number}", of_grid, body, self.value(scope, level), head)
        self.functions.append((made, level))

    def program(self) -> Program:
        """Draw a program."""
        for number in range(self.random.choice((0, 0, 1, 2))):
            self.new_function(number, of_grid=self.likely(0.5))
        for number in range(self.random.choice((0, 0, 1))):
            scope = replace(self.kernel(2), lists=False, directives=False)
            self.macros.append(Macro(f"M{number}", self.block(scope), self.random.choice(("do", "braces"))))
        body = self.block(self.kernel(3), 6)
        after = replace(self.kernel(2), reach=ITEM, returns=ITEM)
        tail = self.block(after) if self.likely(0.3) else []
        return Program([made for made, _ in self.functions], self.macros, body, tail)

    def scan_program(self) -> ScanProgram:
        """Draw a program without a grid."""
        for number in range(self.random.choice((0, 1, 2))):
            self.new_function(number, of_grid=False)
        grid = self.kernel(3)
        writable = {name: level for name, level in grid.writable.items() if level >= GROUP}
        scope = replace(grid, reach=GROUP, writable=writable, returns=None, waits=False)
        names = {name: level for name, level in scope.readable.items() if name in {"n", "none", "m", "lid", "group"}}
        value = self.value(replace(scope, readable=names), ITEM)
        body, after = self.block(scope, 4), self.block(replace(scope, returns=GROUP), 4)
        operator, exclusive = self.random.choice(("add", "max", "xor")), self.likely(0.5)
        return ScanProgram([made for made, _ in self.functions], [], body, [], value, operator, exclusive, after)
