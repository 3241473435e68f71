"""Adds barriers to an author's OpenCL C where a compiler would let one work-item's branch decide for its whole work-group.

PoCL copies all that follows a barrier that some path avoids, once for each branch that leads there, and then lets the
first work-item choose among the copies. Branches that meet at a barrier are not distinguished, so one is added where they
meet: at the end of a kernel, of each branch that holds a barrier and of those beside it, which the work-group takes as a
whole, and after branches that others follow. Code of a single work-item at the start of such a branch is executed by all
of them, unless a statement that each executes precedes it, and a branch that is all there is between two barriers may be
dropped. No line moves. Text that cannot be parsed as functions, statements and blocks stays unchanged.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from portbar.primitives.backend import work_of_all
from portbar.primitives.reduction.loops import LEVELS
from portbar.rendering.source import without_comments
from portbar.rendering.statements import Statement, functions_in

_BARRIER: Final = "barrier(CLK_LOCAL_MEM_FENCE);"
_LABEL: Final = "portbar_joined"

#: Calls that hold a barrier which the whole work-group meets.
_COLLECTIVES: Final = (
    r"(?:work_group_)?barrier|PORTBAR_(?:ENTER|REDUCTION_SCRATCH|FOR_TILES|FOR_DYNAMIC)|portbar_device_barrier(?:_\w+)?"
    r"|portbar_(?:device|work_group|sub_group)_(?:reduce|scan|broadcast)\w*|portbar_work_group_signal_\w+"
    r"|portbar_work_group_(?:frontier|task_queue|task_graph)_\w+|portbar_device_frontier_swap"
    r"|portbar_team_(?:split|by_colour|broadcast|(?:barrier|reduce)\w*)"
    r"|portbar_device_signals_clear|portbar_split_barrier_(?:arrive_and_)?wait(?:_parity)?"
    rf"|\w+_(?:fini|reduce)_(?:{'|'.join(LEVELS)})"
)
_DIRECTIVE: Final = re.compile(r"^[ \t]*#(?:\\\n|[^\n])*", re.MULTILINE)
#: Directives about the statement after them, which nothing may separate from it.
_PRAGMAS: Final = re.compile(r"(?:^[ \t]*#[ \t]*pragma\b(?:\\\n|[^\n])*\n\s*)+\Z", re.MULTILINE)
_DEFINE: Final = re.compile(r"#[ \t]*define[ \t]+(?P<name>\w+)(?P<body>.*)", re.DOTALL)


def _join() -> str:
    """Ends a branch. The code after it in two branches is not merged into one copy after both."""
    return f"{_BARRIER} {work_of_all()}"


def with_joins(source: str) -> str:
    """`source` with a barrier wherever the branches meet after a barrier that some path skips."""
    masked = without_comments(source, keep_strings=False)
    code = _DIRECTIVE.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), masked)
    functions = list(functions_in(code))
    bodies = {function.name: code[function.body.start : function.body.end] for function in functions}
    macros = [_DEFINE.search(found[0]) for found in _DIRECTIVE.finditer(masked)]
    defined = {macro["name"]: macro["body"] for macro in macros if macro}
    collective = _collective(bodies, defined)
    edits: list[tuple[int, int, str]] = []
    for function in functions:
        if collective.search(bodies[function.name]):
            edits += _Joiner(code, collective, is_kernel=function.is_kernel).edits(function.body)
    for start, end, text in sorted(edits, key=lambda edit: edit[:2], reverse=True):
        pragmas = _PRAGMAS.search(masked, 0, start) if start == end else None
        at = len(code[: pragmas.start()].rstrip()) if pragmas else start
        source = source[:at] + text + source[at + end - start :]
    return source


def _collective(functions: dict[str, str], macros: dict[str, str]) -> re.Pattern[str]:
    """A pattern of all that holds a barrier, the author's own functions and macros, by their bodies, included.

    A function's name counts where it is called: variables may have the same name.
    """
    # A macro without parameters stands for its body by its name alone.
    uses = {name: rf"{name}\b" if body[:1] != "(" else rf"{name}\s*\(" for name, body in macros.items()}
    uses |= {name: rf"{name}\s*\(" for name in functions}
    names: set[str] = set()
    while True:
        others = "|".join(sorted(set(uses) - names)) or "(?!)"
        calls = "|".join([rf"(?:{_COLLECTIVES})\b", *(uses[name] for name in sorted(names))])
        pattern = re.compile(rf"\b(?!(?:{others})\b)(?:{calls})")
        found = {name for name, body in (functions | macros).items() if pattern.search(body)}
        if found <= names:
            return pattern
        names |= found


def _runs(block: Statement) -> list[tuple[list[Statement], int]]:
    """The statements of a switch from label to label, and where the next label begins, or the block ends."""
    runs: list[tuple[list[Statement], int]] = []
    run: list[Statement] = []
    for made in [*block.parts, Statement("label", block.end - 1)]:
        if made.kind != "label":
            run.append(made)
        elif run:
            runs.append((run, made.start))
            run = []
    return runs


def _begins_with_if(made: Statement) -> bool:
    """Whether a statement begins with a branch, which may be all that is between two barriers."""
    return made.kind == "if" or (made.kind == "block" and bool(made.parts) and _begins_with_if(made.parts[0]))


class _Joiner:
    """The edits of one function."""

    def __init__(self, code: str, collective: re.Pattern[str], *, is_kernel: bool) -> None:
        self._code = code
        self._collective = collective
        self._is_kernel = is_kernel
        self._edits: list[tuple[int, int, str]] = []
        self._has_label = False
        self._begin = 0

    def edits(self, body: Statement) -> list[tuple[int, int, str]]:
        self._begin = body.start
        self._inside(body, later=False)
        if self._is_kernel:
            label = f"{_LABEL}: " if self._has_label else ""
            self._insert(body.end - 1, f" {label}{_BARRIER} ")
        else:
            self._join(body.parts, body.end - 1)
        return self._edits

    def _insert(self, at: int, text: str) -> None:
        self._edits.append((at, at, text))

    def _before(self, jump: Statement) -> None:
        if (jump.start, jump.start, f"{_join()} ") not in self._edits:
            self._insert(jump.start, f"{_join()} ")

    def _holds(self, made: Statement) -> bool:
        return self._collective.search(self._code, made.start, made.end) is not None

    def _last_barrier(self, made: Statement) -> int:
        """Where the last barrier of a statement that has any begins."""
        return list(self._collective.finditer(self._code, made.start, made.end))[-1].start()

    def _inside(self, made: Statement, *, later: bool) -> None:
        """Look through a statement; `later` says whether the work-group meets at a barrier after it."""
        if made.kind == "jump":
            if self._is_kernel and made.word == "return" and not later:
                self._edits.append((made.start, made.start + len("return"), f"goto {_LABEL}"))
                self._has_label = True
        elif made.kind == "block":
            self._list(made.parts, later=later)
        elif made.kind == "loop":
            self._loop(made, later=later)
        elif made.kind == "if":
            # The work-group takes one branch as a whole where any has a barrier, so that all of them may meet.
            meets = self._holds_in_a_branch(made)
            for part in made.parts:
                self._inside(part, later=later)
                if meets:
                    self._branch(part)
        elif made.kind == "switch":
            self._switch(made.parts[0], later=later)

    def _list(self, parts: Sequence[Statement], *, later: bool) -> None:
        for number, part in enumerate(parts):
            rest = parts[number + 1 :]
            meets, branches = any(map(self._holds, rest)), self._branches(part)
            # Insertions at one place appear in reverse order.
            if self._meets_before(part, rest) or (
                meets
                and (any(map(self._may_return, branches)) or (part.kind == "switch" and self._holds_in_a_branch(part)))
            ):
                self._insert(part.end, f" {_join()}")
            elif meets and (
                (branches and (self._ends_round(part) or self._returns_after_a_barrier(part)))
                or (part.kind in {"plain", "block"} and self._holds(part) and _begins_with_if(rest[0]))
            ):
                self._insert(part.end, f" {work_of_all()}")
            self._inside(part, later=later or meets)
            # A return before a barrier is one of the whole work-group.
            before = any(other.kind != "label" for other in parts[:number])
            if part.kind == "jump" and part.word == "return" and (later or meets) and before:
                self._before(part)

    def _meets_before(self, made: Statement, rest: Sequence[Statement]) -> bool:
        """Whether branches with a barrier meet before other branches, about which a compiler may decide together with them."""
        if not self._holds_in_a_branch(made):
            return False
        return any(other.parts for other in rest) and not self._leaves(made, self._last_barrier(made))

    def _holds_in_a_branch(self, made: Statement) -> bool:
        """Whether a branch of an `if` or a `switch` has a barrier; one in its condition does not count."""
        return any(map(self._holds, self._branches(made)))

    def _branches(self, made: Statement) -> list[Statement]:
        """The branches of an `if` or a `switch`, without the `break` that ends one; none of other statements."""
        if made.kind == "if":
            return made.parts
        if made.kind != "switch" or made.parts[0].kind != "block":
            return []
        return [
            Statement("block", run[0].start, run[-1].end, parts=run[:-1] if run[-1].word == "break" else run)
            for run, _ in _runs(made.parts[0])
        ]

    def _may_return(self, branch: Statement) -> bool:
        """Whether a branch returns in some cases and meets the others after it in other cases."""
        last = branch.parts[-1] if branch.kind == "block" and branch.parts else branch
        return last.kind != "jump" and self._returns(branch)

    def _returns(self, made: Statement) -> bool:
        return made.word == "return" or any(map(self._returns, made.parts))

    def _returns_after_a_barrier(self, made: Statement) -> bool:
        """Whether a statement that may return comes after a barrier: what precedes it is then copied for both cases."""
        return self._returns(made) and self._collective.search(self._code, self._begin, made.start) is not None

    def _loop(self, made: Statement, *, later: bool) -> None:
        part = made.parts[0]
        self._inside(part, later=later or self._holds(made))
        # As at the start of a branch: a barrier that decides about the next turn is the last thing before it.
        if part.kind == "block" and self._collective.search(made.condition):
            self._insert(part.start + 1, f" {work_of_all()}")
        # Most loops with a barrier need none at their end. A loop that never repeats is not a loop to the compiler, and a
        # continue before a barrier, which the whole work-group takes, is a branch that meets the others there.
        if (
            part.kind == "block"
            and self._holds(part)
            and (part.parts[-1].kind == "jump" or self._skips(part, part.end))
        ):
            self._branch(part)

    def _skips(self, made: Statement, end: int) -> bool:
        """Whether a `continue` of a loop that ends at `end` precedes a barrier in it."""
        if made.kind == "jump":
            return made.word == "continue" and self._collective.search(self._code, made.end, end) is not None
        return made.kind != "loop" and any(self._skips(part, end) for part in made.parts)

    def _ends_round(self, made: Statement, breaks: bool = True) -> bool:
        """Whether a statement may end a round of the loop around it; `breaks`: whether its `break` leaves that loop."""
        if made.kind == "jump":
            return made.word == "continue" or (breaks and made.word == "break")
        breaks = breaks and made.kind != "switch"
        return made.kind != "loop" and any(self._ends_round(part, breaks) for part in made.parts)

    def _branch(self, part: Statement) -> None:
        """The statement that an `if` or `else` decides about."""
        if part.kind == "block":
            self._insert(part.start + 1, f" {work_of_all()}")
            self._join(part.parts, part.end - 1)
            return
        holds = self._holds(part)
        # A jump has no end, and the branches of these meet themselves.
        if part.kind == "jump" or (holds and part.kind in {"if", "switch"}):
            return
        if holds or not self._leaves(part, part.start - 1):
            self._insert(part.start, f"{{ {work_of_all()} ")
            self._insert(part.end, f" {_join()} }}")

    def _switch(self, part: Statement, *, later: bool) -> None:
        runs = _runs(part)
        holds = [any(map(self._holds, run)) for run, _ in runs]
        # Whether control falls from each into the next one; from the last there is none.
        falls = [*(run[-1].kind != "jump" for run, _ in runs[:-1]), False]
        for number, (run, end) in enumerate(runs):
            self._list(run, later=later or (falls[number] and any(holds[number + 1 :])))
            if not any(holds):
                continue
            # Work-items that fall into a case with a barrier meet there, perhaps others who began there.
            meets = number > 0 and holds[number] and falls[number - 1] and not holds[number - 1]
            self._insert(run[0].start, f"{_join() if meets else work_of_all()} ")
            if holds[number] or not falls[number]:
                self._join(run, end)

    def _join(self, parts: Sequence[Statement], end: int) -> None:
        """Have the branches of some statements meet at their end: those after the last barrier, or all without one."""
        if not parts:
            return
        holding = [number for number, part in enumerate(parts) if self._holds(part)]
        last = parts[-1]
        is_jump = last.kind == "jump"
        if is_jump and self._holds(last):
            return
        first = holding[-1] if holding else 0
        inner = parts[first:-1] if is_jump else parts[first:]
        barrier = self._last_barrier(inner[0]) if holding else parts[0].start - 1
        if any(self._leaves(part, barrier) for part in inner):
            # Some work-items may have left: a barrier here would be wrong.
            return
        if is_jump:
            self._before(last)
        else:
            self._insert(end, f" {_join()} ")

    def _leaves(self, made: Statement, after: int, breaks: bool = True, continues: bool = True) -> bool:
        """Whether a jump after `after` leads out of a statement, except one that depends on a barrier's own result."""
        if made.kind == "jump":
            word = made.word
            return made.start > after and (
                word in {"return", "goto"} or (word == "break" and breaks) or (word == "continue" and continues)
            )
        if made.kind == "if" and self._collective.search(made.condition):
            return any(self._leaves(part, after, breaks, continues) for part in made.parts if part.kind != "jump")
        if made.kind == "loop":
            breaks = continues = False
        elif made.kind == "switch":
            breaks = False
        return any(self._leaves(part, after, breaks, continues) for part in made.parts)
