"""Adds barriers to an author's OpenCL C where a compiler would let one work-item's branch decide for its whole work-group.

PoCL copies all that follows a barrier that some path avoids, once for each branch that leads there, and then lets the
first work-item choose among the copies. Branches that meet at a barrier are not distinguished, so one is added where they
meet: at the end of a kernel, and of each branch that holds a barrier. Code of a single work-item at the start of such a branch
is executed by all of them, unless a statement that each executes precedes it. No line moves. Text that cannot be parsed as
functions, statements and blocks stays unchanged.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

from portbar.primitives.backend import work_of_all
from portbar.primitives.reduction.loops import LEVELS
from portbar.rendering.source import BRACKETS, UnreadableError, closed, without_comments

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
_DEFINE: Final = re.compile(r"#[ \t]*define[ \t]+(?P<name>\w+)(?P<body>.*)", re.DOTALL)
#: Loops that are macros.
_LOOPS: Final = re.compile(r"PORTBAR_FOR(?:_\w+)?")
_WORD: Final = re.compile(r"[A-Za-z_]\w*")
_LABELLED: Final = re.compile(r"(?:case\b[^:;{}]*|default\s*|[A-Za-z_]\w*\s*):(?!:)")

_Kind = Literal["block", "if", "loop", "switch", "label", "jump", "plain"]


@dataclass
class _Statement:
    """A statement, its span, what decides about its parts, and these."""

    kind: _Kind
    start: int
    end: int = 0
    condition: str = ""
    word: str = ""
    parts: list[_Statement] = field(default_factory=list)


@dataclass(frozen=True)
class _Function:
    name: str
    start: int
    is_kernel: bool
    body: _Statement


def _join() -> str:
    """Ends a branch. The code after it in two branches is not merged into one copy after both."""
    return f"{_BARRIER} {work_of_all()}"


def with_joins(source: str) -> str:
    """`source` with a barrier wherever the branches meet after a barrier that some path skips."""
    masked = without_comments(source, keep_strings=False)
    code = _DIRECTIVE.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), masked)
    functions = list(_functions(code))
    bodies = {function.name: code[function.body.start : function.body.end] for function in functions}
    macros = [_DEFINE.search(found[0]) for found in _DIRECTIVE.finditer(masked)]
    defined = {macro["name"]: macro["body"] for macro in macros if macro}
    collective = _collective(bodies, defined)
    edits: list[tuple[int, int, str]] = []
    for function in functions:
        if collective.search(bodies[function.name]):
            edits += _Joiner(code, collective, is_kernel=function.is_kernel).edits(function.body)
    for start, end, text in sorted(edits, key=lambda edit: edit[:2], reverse=True):
        source = source[:start] + text + source[end:]
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


def _functions(code: str) -> Iterator[_Function]:
    """The functions that a text defines, as far as they can be read."""
    at = begin = 0
    while at < len(code):
        if code[at] == ";":
            begin = at + 1
        elif code[at] in BRACKETS:
            try:
                end = closed(code, at)
            except UnreadableError:
                return
            if code[at] == "{":
                head = re.sub(r"__attribute__\s*\(\(.*?\)\)", "", code[begin:at], flags=re.DOTALL)
                named = re.search(r"([A-Za-z_]\w*)\s*\(.*\)\s*$", head, re.DOTALL)
                if named and "=" not in head:
                    try:
                        body, _ = _read(code, at)
                    except UnreadableError:
                        return
                    yield _Function(named[1], begin, re.search(r"\b(?:__)?kernel\b", head) is not None, body)
                    begin = end
            at = end
            continue
        at += 1


def _skip(code: str, at: int) -> int:
    while at < len(code) and code[at].isspace():
        at += 1
    if at == len(code):
        raise UnreadableError
    return at


def _read(code: str, at: int) -> tuple[_Statement, int]:
    """The statement that begins at or after `at`, and where it ends."""
    at = _skip(code, at)
    if code[at] == "{":
        made = _Statement("block", at)
        at = _skip(code, at + 1)
        while code[at] != "}":
            part, at = _read(code, at)
            made.parts.append(part)
            at = _skip(code, at)
        return _ended(made, at + 1)
    if code[at] in ")]}":
        raise UnreadableError
    labelled = _LABELLED.match(code, at)
    if labelled:
        return _ended(_Statement("label", at), labelled.end())
    found = _WORD.match(code, at)
    word = found[0] if found else ""
    if word in {"if", "for", "while", "switch"} or _LOOPS.fullmatch(word):
        return _ended(*_headed(code, at, word))
    if word == "do":
        made = _Statement("loop", at)
        part, at = _read(code, at + 2)
        made.parts.append(part)
        return _ended(made, _plain_end(code, at))
    kind: _Kind = "jump" if word in {"return", "goto", "break", "continue"} else "plain"
    return _ended(_Statement(kind, at, word=word), _plain_end(code, at))


def _headed(code: str, at: int, word: str) -> tuple[_Statement, int]:
    """A statement that begins with a word and a condition."""
    made = _Statement("if" if word == "if" else "switch" if word == "switch" else "loop", at)
    opening = _skip(code, at + len(word))
    if code[opening] != "(":
        raise UnreadableError
    end = closed(code, opening)
    made.condition = code[at:end]
    part, end = _read(code, end)
    made.parts.append(part)
    other = re.compile(r"\s*else\b").match(code, end) if word == "if" else None
    if other:
        part, end = _read(code, other.end())
        made.parts.append(part)
    return made, end


def _ended(made: _Statement, end: int) -> tuple[_Statement, int]:
    made.end = end
    return made, end


def _plain_end(code: str, at: int) -> int:
    """Where a statement without parts ends."""
    while at < len(code):
        if code[at] in BRACKETS:
            at = closed(code, at)
        elif code[at] in ")]}":
            raise UnreadableError
        elif code[at] == ";":
            return at + 1
        else:
            at += 1
    raise UnreadableError


class _Joiner:
    """The edits of one function."""

    def __init__(self, code: str, collective: re.Pattern[str], *, is_kernel: bool) -> None:
        self._code = code
        self._collective = collective
        self._is_kernel = is_kernel
        self._edits: list[tuple[int, int, str]] = []
        self._has_label = False

    def edits(self, body: _Statement) -> list[tuple[int, int, str]]:
        self._inside(body, later=False)
        if self._is_kernel:
            label = f"{_LABEL}: " if self._has_label else ""
            self._insert(body.end - 1, f" {label}{_BARRIER} ")
        else:
            self._join(body.parts, body.end - 1)
        return self._edits

    def _insert(self, at: int, text: str) -> None:
        self._edits.append((at, at, text))

    def _before(self, jump: _Statement) -> None:
        edit = (jump.start, jump.start, f"{_join()} ")
        if edit not in self._edits:
            self._edits.append(edit)

    def _holds(self, made: _Statement) -> bool:
        return self._collective.search(self._code, made.start, made.end) is not None

    def _inside(self, made: _Statement, *, later: bool) -> None:
        """Look through a statement; `later` says whether the work-group meets at a barrier after it."""
        if made.kind == "jump":
            self._jump(made, later=later)
        elif made.kind == "block":
            self._list(made.parts, later=later)
        elif made.kind == "loop":
            self._loop(made, later=later)
        elif made.kind == "if":
            for part in made.parts:
                self._inside(part, later=later)
                self._branch(part)
        elif made.kind == "switch":
            self._switch(made.parts[0], later=later)

    def _list(self, parts: Sequence[_Statement], *, later: bool) -> None:
        for number, part in enumerate(parts):
            after = later or any(map(self._holds, parts[number + 1 :]))
            self._inside(part, later=after)
            # A return before a barrier is one of the whole work-group.
            before = any(other.kind != "label" for other in parts[:number])
            if part.kind == "jump" and part.word == "return" and after and before:
                self._before(part)
            if part.kind == "if" and self._ends_round(part) and any(map(self._holds, parts[number + 1 :])):
                self._insert(part.end, f" {work_of_all()}")

    def _jump(self, made: _Statement, *, later: bool) -> None:
        if self._is_kernel and made.word == "return" and not later:
            self._edits.append((made.start, made.start + len("return"), f"goto {_LABEL}"))
            self._has_label = True

    def _loop(self, made: _Statement, *, later: bool) -> None:
        part = made.parts[0]
        self._inside(part, later=later or self._holds(made))
        # As at the start of a branch: a barrier that decides about the next turn is the last thing before it.
        if part.kind == "block" and self._collective.search(made.condition):
            self._insert(part.start + 1, f" {work_of_all()}")
        # Most loops with a barrier need none at their end. A loop that never repeats is not a loop to the compiler, and a
        # continue before a barrier, which the whole work-group takes, is a branch that meets the others there.
        if part.kind == "block" and part.parts and (part.parts[-1].kind == "jump" or self._skips(part, part.end)):
            self._branch(part)

    def _skips(self, made: _Statement, end: int) -> bool:
        """Whether a `continue` of a loop that ends at `end` precedes a barrier in it."""
        if made.kind == "jump":
            return made.word == "continue" and self._collective.search(self._code, made.end, end) is not None
        return made.kind != "loop" and any(self._skips(part, end) for part in made.parts)

    def _ends_round(self, made: _Statement) -> bool:
        """Whether a statement may end a round of the loop around it."""
        if made.kind == "jump":
            return made.word in {"continue", "break"}
        return made.kind != "loop" and any(map(self._ends_round, made.parts))

    def _branch(self, part: _Statement) -> None:
        """The statement that an `if` or `else` decides about."""
        if not self._holds(part):
            return
        if part.kind == "block":
            self._insert(part.start + 1, f" {work_of_all()}")
            self._join(part.parts, part.end - 1)
        elif part.kind in {"plain", "loop"}:
            self._insert(part.start, f"{{ {work_of_all()} ")
            self._insert(part.end, f" {_join()} }}")

    def _switch(self, part: _Statement, *, later: bool) -> None:
        if part.kind != "block":
            return
        self._list(part.parts, later=later)
        case: list[_Statement] = []
        for made in [*part.parts, _Statement("label", part.end - 1)]:
            if made.kind != "label":
                case.append(made)
                continue
            if any(map(self._holds, case)):
                self._insert(case[0].start, f"{work_of_all()} ")
            self._join(case, made.start)
            case = []

    def _join(self, parts: Sequence[_Statement], end: int) -> None:
        """Have those branches meet that follow the last barrier of some statements."""
        holding = [number for number, part in enumerate(parts) if self._holds(part)]
        if not holding:
            return
        last = parts[-1]
        is_jump = last.kind == "jump"
        if is_jump and self._holds(last):
            return
        inner = parts[holding[-1] : -1] if is_jump else parts[holding[-1] :]
        barriers = list(self._collective.finditer(self._code, inner[0].start, inner[0].end))
        if any(self._leaves(part, barriers[-1].start()) for part in inner):
            # Some work-items may have left: a barrier here would be wrong.
            return
        if is_jump:
            self._before(last)
        else:
            self._insert(end, f" {_join()} ")

    def _leaves(self, made: _Statement, after: int, breaks: bool = True, continues: bool = True) -> bool:
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
