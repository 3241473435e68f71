"""Describes misuse: where it is, which parts of the program lead to it and why, and what to write instead."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from portbar.reading import kinds
from portbar.reading.endless import Endless
from portbar.reading.found import Place
from portbar.reading.loop_bounds import Cut
from portbar.reading.loops import LOOPS
from portbar.reading.paths import Control, Finding
from portbar.reading.stores import Store
from portbar.reading.tree import Node, Tree
from portbar.reading.values import GROUP, ITEM, SAME, SUB_GROUP, Declaration, Why

_CALLERS: Final = {
    SAME: "all work-items of all work-groups",
    GROUP: "all work-items of a work-group",
    SUB_GROUP: "all work-items of a sub-group",
}
_PARTS: Final = "all work-items of a work-group (on this device, sub-groups are parts of it)"
_SINGLE: Final = "all work-items of a work-group (this device has no sub-groups of its own)"
_DIFFERING: Final = {GROUP: "work-groups", SUB_GROUP: "work-items", ITEM: "work-items"}
_JUMPS: Final = {kinds.RETURN: "return", kinds.BREAK: "break", kinds.CONTINUE: "continue"}
#: Remedies where sub-groups take turns that others do not.
_OWN_SIZE: Final = "Without the program's PORTBAR_SUB_GROUP_SIZE, sub-groups need not meet here."
_LEVELS: Final = "To share work among sub-groups, loop from portbar_loop_id_worker()."
#: The kind of misuse that the rest of this module describes; others have their own names.
DIVERGENCE: Final = "divergence"
#: Links of a chain that are shown, and characters of source in one.
_LINKS: Final = 4
_SHOWN: Final = 90


@dataclass(frozen=True)
class Excerpt:
    """One part of the program that a report shows."""

    place: Place
    source: str
    says: str


@dataclass(frozen=True)
class Misuse:
    """A part of a program that is certainly wrong.

    Attributes
    ----------
    place : Place
        File, line and column of the call or the store.
    call : str
        The function or macro that is called; the pointer that is stored through.
    message : str
        What is wrong, in one sentence.
    steps : tuple of Step
        The parts of the program that lead to it. For a call that not all reach: the condition, and why it differs, from there
        back to an id.
    remedy : str
        What to write instead.
    kind : str
        ``"divergence"``: not all reach a call who must make it together; ``"failure"``: a loop goes on after a fault;
        ``"bound"``: a loop's bound has 64 bits; ``"store"``: a store through a `const restrict` pointer.
    """

    place: Place
    call: str
    message: str
    steps: tuple[Excerpt, ...]
    remedy: str
    kind: str = DIVERGENCE

    @property
    def condition(self) -> Place:
        """Where the condition is."""
        return self.steps[0].place if self.steps else self.place

    def __str__(self) -> str:
        lines = [f"{self.place.file}, line {self.place.line}: {self.message}"]
        lines += [f"  line {step.place.line}: `{step.source}` {step.says}" for step in self.steps]
        return "\n".join([*lines, f"  {self.remedy}"])


def described(tree: Tree, found: Finding) -> Misuse:
    """A finding in words."""
    control, known = found.control, found.known
    name = _called(tree, found.collective, found.name)
    caller = SAME if known.caller is None else known.caller
    who = _CALLERS[caller]
    if known.is_part:
        who = _PARTS
    elif known.is_single and control.level == SUB_GROUP:
        caller, who = GROUP, _SINGLE
    through = ""
    if found.call is not found.collective:
        _, own, _ = tree.called(found.call)
        inner = tree.place(found.collective)
        place = tree.place(found.call)
        there = f"line {inner.line}" if inner.file == place.file else f"{inner.file}, line {inner.line}"
        through, name = f", which calls {name} ({there}),", own
    message = (
        f"{name}{through} must be called by {who}, but control flow differs between {_DIFFERING[control.level]} here"
    )
    return Misuse(tree.place(found.call), name, message, tuple(_steps(tree, control)), _remedy(known, caller, control))


def failure(tree: Tree, found: Endless) -> Misuse:
    """A loop that a failed launch does not leave, in words."""
    node = found.call.node
    word, name = tree.word_at(tree.extent(node)[0]), tree.called(node)[1]
    name = word if word.startswith("portbar_") else name
    is_bool = tree.type_name(node) == "bool"
    returned = ("true" if found.call.returns else "false") if is_bool else str(found.call.returns)
    condition = found.loop.kids[-1] if found.loop.kind == kinds.DO else found.loop
    loop = Excerpt(tree.start(condition), _head(tree, found.loop), "does not end then")
    message = f"{name} returns {returned} at once after a fault, and the loop around it then never ends"
    remedy = f"Leave the kernel where it fails: if (!{name}(...)) return;"
    if not found.call.is_failure:
        remedy = "Let a fault end the loop, by portbar_device_ok(&grid) && ... in its condition."
    if found.jump is not None:
        message = f"{name} returns {returned} at once after a fault, and `continue` then goes on with the loop"
        says = f"begins the next iteration of the loop in line {loop.place.line}"
        loop = Excerpt(tree.start(found.jump), "continue", says)
    return Misuse(tree.place(node), name, message, (loop,), remedy, "failure")


def bound(tree: Tree, found: Cut) -> Misuse:
    """A bound of 64 bits in words."""
    name = _called(tree, found.call, "PORTBAR_FOR")
    spelled, kind = tree.spelling(found.part), tree.type_name(found.part)
    shown = f"`{spelled}` is of the type {kind}" if spelled else f"this one is of the type {kind}"
    message = f"a bound of {name} has 32 bits, but {shown}: the loop would drop its upper half"
    remedy = (
        "Loop over a 64-bit index yourself, by portbar_global_id and portbar_global_size. If you know that the value fits: "
        "(uint)(value)."
    )
    return Misuse(tree.place(found.call), name, message, (), remedy, "bound")


def store(tree: Tree, found: Store) -> Misuse:
    """A store to what is only read, in words."""
    name = tree.spelling(found.pointer)
    node = found.node if found.call is None else found.call
    steps = [
        Excerpt(tree.start(found.pointer), _cut(tree.source(found.pointer)), "says that nothing writes this memory")
    ]
    message = (
        f"a store through `{name}`, which is declared `const` and `restrict`: the device may read old values of it"
    )
    if found.call is not None:
        message = message.replace("a store through", f"{tree.called(found.call)[1]} stores through", 1)
        steps.append(Excerpt(tree.start(found.node), _cut(tree.source(found.node)), "is the store"))
    return Misuse(
        tree.start(node),
        name,
        message,
        tuple(steps),
        "Declare it without const and restrict, and remove the cast.",
        "store",
    )


def _called(tree: Tree, node: Node, name: str) -> str:
    """The name that the author wrote for a call: a macro's, where it comes from one of portbar's."""
    word = tree.word_at(tree.extent(node)[0])
    return (
        word if word.startswith("PORTBAR_") or (word and name.startswith("portbar_") and not word.islower()) else name
    )


def _head(tree: Tree, node: Node) -> str:
    """A condition as it is written."""
    begin, end = tree.extent(node)
    if node.kind in (kinds.IF, kinds.SWITCH, kinds.WHILE, kinds.FOR) and node.kids:
        body = node.kids[1] if node.kind == kinds.IF and len(node.kids) > 1 else node.kids[-1]
        inner, _ = tree.extent(body)
        end = inner if begin < inner <= end else end
    elif node.kind == kinds.DO and node.kids:
        begin, end = tree.extent(node.kids[-1])
        return _cut(f"while ({tree.between(begin, end)})")
    return _cut(tree.between(begin, end).rstrip(" {"))


def _cut(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 3]}..."


def _steps(tree: Tree, control: Control) -> list[Excerpt]:
    differ = _DIFFERING[control.level]
    if control.jump is not None:
        word = _JUMPS.get(control.jump.kind, "goto")
        jump = f"lets some {'work-groups' if control.level == GROUP else 'work-items'} leave by `{word}`"
        line = tree.place(control.jump).line
        says = jump if line == tree.start(control.decides).line else f"{jump} in line {line}"
    elif control.decides.kind in LOOPS:
        says = f"has a number of iterations that differs between {differ}"
    else:
        says = f"differs between {differ}"
    steps = [Excerpt(tree.start(control.decides), _head(tree, control.decides), says)]
    why = control.why
    while why is not None and len(steps) <= _LINKS:
        step = _link(tree, why, differ)
        if step.source not in {one.source for one in steps} and not (
            step.place.line == steps[-1].place.line and step.source in steps[-1].source
        ):
            steps.append(step)
        why = why.before
    return steps


def _link(tree: Tree, why: Why, differ: str) -> Excerpt:
    node = why.node
    is_condition = node.kind in (kinds.IF, kinds.SWITCH, *LOOPS)
    source = _head(tree, node) if is_condition else _cut(tree.source(node))
    says = "decides about it" if is_condition else f"differs between {differ}"
    return Excerpt(tree.start(node), source, says)


def _remedy(known: Declaration, caller: int, control: Control) -> str:
    all_of = "the grid" if caller == SAME else "the work-group" if caller == GROUP else "the sub-group"
    if control.jump is not None:
        word = _JUMPS.get(control.jump.kind, "goto")
        instead = f"Without `{word}`, put the work under the condition and leave the call outside, for all of {all_of}."
    elif control.decides.kind in LOOPS:
        instead = f"Move the call out of the loop, or give all of {all_of} as many iterations."
    else:
        instead = f"Move the call out of the condition, so that all of {all_of} make it."
    if known.is_part and control.level == SUB_GROUP:
        instead += f" {_OWN_SIZE}"
    elif known.is_single and control.level == SUB_GROUP:
        instead += f" {_LEVELS}"
    return f"{instead} If you know that the condition is the same for them: PORTBAR_UNIFORM(condition)."
