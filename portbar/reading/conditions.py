"""Macros and conditions, as far as the text of a program alone shows them.

A driver defines macros of its own. A macro is therefore defined, undefined or unknown, and a condition true, false or
unknown. After a conditional, a macro is in the state on which the branches agree.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from portbar.reading.options import GivenMacro, given_macros
from portbar.rendering.source import WORD, spaced, spliced

_DEFINE: Final = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(?P<name>\w+)", re.MULTILINE)
_DEFINITION: Final = re.compile(r"(?P<name>[A-Za-z_]\w*)(?P<parameters>\([^)]*\))?(?P<body>.*)", re.DOTALL)
_WORD_OR_STRING: Final = re.compile(r'"[^"\n]*"|(?P<name>[A-Za-z_]\w*)')
_TOKEN: Final = re.compile(
    r"\s*(?:(?P<number>\d[\w.]*)|(?P<name>[A-Za-z_]\w*)|(?P<sign>\|\||&&|<<|>>|[=!<>]=|[-+*/%&|^~!<>()?:,]))"
)
_NUMBER: Final = re.compile(r"(?P<value>0[xX][\da-fA-F]+|0[bB][01]+|\d+)[uUlL]*")
_DEFINED: Final = re.compile(r"\bdefined\b\s*(?:\(\s*(?P<inside>[A-Za-z_]\w*)\s*\)|(?P<bare>[A-Za-z_]\w*))")
_ONE_NAME: Final = re.compile(r"\s*(?P<negated>!?)\s*defined\s*(?:\(\s*(?P<inside>\w+)\s*\)|(?P<bare>\w+))\s*")
_LARGEST: Final = 2**63 - 1
CONDITIONALS: Final = ("if", "ifdef", "ifndef", "elif", "elifdef", "elifndef", "else", "endif")

#: Operators of two operands, by precedence.
_BINARY: Final[tuple[dict[str, Callable[[int, int], int]], ...]] = (
    {"|": operator.or_},
    {"^": operator.xor},
    {"&": operator.and_},
    {"==": operator.eq, "!=": operator.ne},
    {"<": operator.lt, ">": operator.gt, "<=": operator.le, ">=": operator.ge},
    {"<<": lambda a, b: a << min(b, 64), ">>": operator.rshift},
    {"+": operator.add, "-": operator.sub},
    {"*": operator.mul, "/": operator.floordiv, "%": operator.mod},
)


class Status(Enum):
    """The state of a macro whose definition is unknown."""

    UNKNOWN = "unknown"
    UNDEFINED = "undefined"
    #: In one way or another.
    DEFINED = "defined"


@dataclass(frozen=True)
class Macro:
    """A definition."""

    body: str
    takes_arguments: bool = False


State = Status | Macro


@dataclass
class _Conditional:
    """One `#if` to its `#endif`."""

    #: Whether the text around it may be compiled.
    is_possible: bool
    #: The states of macros after each branch that may be compiled, where they differ from those before it.
    outcomes: list[dict[str, State]] = field(default_factory=list)
    #: States that hold in a branch since the conditions of earlier ones are false.
    denied: dict[str, State] = field(default_factory=dict)
    #: Whether one of the branches is compiled in any case.
    is_settled: bool = False
    #: Whether the branch that is read may be compiled.
    is_open: bool = False


def defined_names(text: str, options: Sequence[str] = ()) -> set[str]:
    """The names of all macros that a program defines at some place, or its build options do."""
    given = {macro.word for macro in given_macros(options) if macro.body is not None}
    return given | set(_DEFINE.findall(spliced(spaced(text))))


class Macros:
    """The macros of a program at the place where its text is read, directive by directive."""

    def __init__(self) -> None:
        self._levels: list[dict[str, State]] = [{}]
        self._conditionals: list[_Conditional] = []

    @property
    def is_possible(self) -> bool:
        """Whether the text that is read may be compiled."""
        return not self._conditionals or self._conditionals[-1].is_open

    @property
    def is_certain(self) -> bool:
        """Whether the text that is read is compiled in any case."""
        return all(one.is_open and one.is_settled and not one.outcomes for one in self._conditionals)

    @property
    def is_inside(self) -> bool:
        """Whether a conditional is open."""
        return bool(self._conditionals)

    def __getitem__(self, name: str) -> State:
        """Return the state of a macro."""
        return next((level[name] for level in reversed(self._levels) if name in level), Status.UNKNOWN)

    def __setitem__(self, name: str, state: State) -> None:
        """Set the state of a macro from here on."""
        self._levels[-1][name] = state

    def begin_without(self, name: str) -> None:
        """Say that no driver defines a macro."""
        self._levels[0].setdefault(name, Status.UNDEFINED)

    def give(self, macro: GivenMacro) -> None:
        """Take a macro of the build options."""
        if macro.body is None:
            self.undefine(macro.name)
        elif macro.is_quoted:
            self[macro.word] = Status.DEFINED
        else:
            self.define(f"{macro.name} {macro.body}")

    def define(self, text: str) -> None:
        """Read the rest of a `#define`."""
        found = _DEFINITION.match(text)
        if found is not None:
            self[found["name"]] = Macro(found["body"].strip(), found["parameters"] is not None)

    def undefine(self, text: str) -> None:
        """Read the rest of an `#undef`."""
        found = WORD.match(text)
        if found is not None:
            self[found[0]] = Status.UNDEFINED

    def doubt(self, kept: str) -> None:
        """Take into account text that cannot be read here; it leaves alone the macros whose names begin with `kept`.

        A macro that was defined stays so in some way: it may be a guard, which no file removes.
        """
        names: set[str] = set().union(*self._levels)
        for name in names:
            state = self[name]
            if state is not Status.UNKNOWN and not name.startswith(kept):
                self[name] = Status.UNKNOWN if state is Status.UNDEFINED else Status.DEFINED

    def conditional(self, word: str, rest: str) -> None:
        """Read a directive of a conditional: `if`, `ifdef`, `elif`, `endif` and similar ones.

        `IndexError` where none is open.
        """
        if word.startswith("if"):
            self._conditionals.append(_Conditional(self.is_possible))
        else:
            self._close()
        here = self._conditionals[-1]
        if word == "endif":
            self._conditionals.pop()
            self._merge(here)
            return
        value, supposed = (True, None) if word == "else" else self._judged(word.removeprefix("el"), rest)
        here.is_open = here.is_possible and not here.is_settled and value is not False
        if not here.is_open:
            return
        level = dict(here.denied)
        if supposed is not None and self[supposed[0]] is Status.UNKNOWN:
            name, is_defined = supposed
            level[name] = Status.DEFINED if is_defined else Status.UNDEFINED
            here.denied[name] = Status.UNDEFINED if is_defined else Status.DEFINED
        self._levels.append(level)
        here.is_settled = value is True

    def _close(self) -> None:
        """End a branch."""
        here = self._conditionals[-1]
        if here.is_open:
            here.outcomes.append(self._levels.pop())
            here.is_open = False

    def _merge(self, ended: _Conditional) -> None:
        """Know after a conditional what holds after each of its branches."""
        outcomes = ended.outcomes if ended.is_settled else [*ended.outcomes, ended.denied]
        if not ended.is_possible:
            return
        for name in set().union(*outcomes):
            before = self[name]
            first, *others = [outcome.get(name, before) for outcome in outcomes]
            if all(other == first for other in others):
                self[name] = first
            elif {Status.UNKNOWN, Status.UNDEFINED}.isdisjoint([first, *others]):
                self[name] = Status.DEFINED
            else:
                self[name] = Status.UNKNOWN

    def _judged(self, word: str, rest: str) -> tuple[bool | None, tuple[str, bool] | None]:
        """The value of a condition, and the name that it is about where it is only about whether that is defined."""
        found = _ONE_NAME.fullmatch(rest) if word == "if" else WORD.match(rest)
        if found is None:
            value = _Expression(self, rest).value()
            return None if value is None else value != 0, None
        if word == "if":
            name, wanted = found["inside"] or found["bare"], not found["negated"]
        else:
            name, wanted = found[0], word == "ifdef"
        is_defined = self.is_defined(name)
        return None if is_defined is None else is_defined == wanted, (name, wanted)

    def is_defined(self, name: str) -> bool | None:
        """Whether a macro is defined, None if that is unknown."""
        state = self[name]
        return None if state is Status.UNKNOWN else state is not Status.UNDEFINED

    def value(self, text: str) -> int | None:
        """The value of a constant expression, None if that is unknown."""
        return _Expression(self, text).value()

    def expanded(self, text: str, within: frozenset[str] = frozenset()) -> str | None:
        """A text with what its macros stand for; None if that is unknown."""
        parts, done = [], 0
        for found in _WORD_OR_STRING.finditer(text):
            name = found["name"]
            if name is None or name in within or not any(name in level for level in self._levels):
                continue
            state, inner = self[name], None
            if state is Status.UNDEFINED:
                continue
            if isinstance(state, Macro) and not state.takes_arguments:
                inner = self.expanded(state.body, within | {name})
            if inner is None:
                return None
            parts += [text[done : found.start()], inner]
            done = found.end()
        return "".join(parts) + text[done:]


class _UnknownError(Exception):
    """An expression's value is unknown."""


class _Expression:
    """The controlling expression of an `#if`."""

    def __init__(self, macros: Macros, text: str) -> None:
        self._macros = macros
        self._text = text
        self._tokens: list[tuple[str, str]] = []
        self._at = 0
        self._is_unsigned = False

    def value(self) -> int | None:
        """Its value, None if that is unknown."""
        try:
            self._tokens = list(self._read(self._text, frozenset()))
            self._is_unsigned = any(kind == "number" and "u" in token.lower() for kind, token in self._tokens)
            value = self._conditional()
            return value if self._at == len(self._tokens) else None
        except (_UnknownError, IndexError, ZeroDivisionError, ValueError, RecursionError):
            return None

    def _read(self, text: str, within: frozenset[str]) -> Iterable[tuple[str, str]]:
        def known(match: re.Match[str]) -> str:
            is_defined = self._macros.is_defined(match["inside"] or match["bare"])
            return " portbar_unknown " if is_defined is None else f" {int(is_defined)} "

        text = _DEFINED.sub(known, text).strip()
        at = 0
        while at < len(text):
            token = _TOKEN.match(text, at)
            if token is None:
                raise _UnknownError
            at = token.end()
            state = self._macros[token["name"]] if token["name"] else None
            if isinstance(state, Macro) and not state.takes_arguments and token["name"] not in within:
                yield from self._read(state.body, within | {token["name"]})
            else:
                yield (token.lastgroup or "", token[token.lastgroup or 0])

    def _next(self, *signs: str) -> str | None:
        """Take the next token if it is one of some signs."""
        if self._at < len(self._tokens) and self._tokens[self._at][1] in signs:
            self._at += 1
            return self._tokens[self._at - 1][1]
        return None

    def _conditional(self) -> int | None:
        condition = self._or()
        if self._next("?") is None:
            return condition
        first = self._conditional()
        if self._next(":") is None:
            raise _UnknownError
        second = self._conditional()
        return None if condition is None else first if condition else second

    def _or(self) -> int | None:
        value = self._and()
        while self._next("||"):
            other = self._and()
            value = 1 if value or other else None if None in (value, other) else 0
        return value

    def _and(self) -> int | None:
        value = self._binary(0)
        while self._next("&&"):
            other = self._binary(0)
            value = 0 if 0 in (value, other) else None if None in (value, other) else 1
        return value

    def _binary(self, level: int) -> int | None:
        if level == len(_BINARY):
            return self._unary()
        value = self._binary(level + 1)
        while sign := self._next(*_BINARY[level]):
            other = self._binary(level + 1)
            # C rounds quotients to zero, and shifts by negative numbers are undefined.
            is_odd = sign in {"/", "%", "<<", ">>"} and min(value or 0, other or 0) < 0
            if value is not None:
                value = None if other is None or is_odd else self._checked(int(_BINARY[level][sign](value, other)))
        return value

    def _unary(self) -> int | None:
        sign = self._next("!", "-", "+", "~")
        if sign is not None:
            value = self._unary()
            if value is None:
                return None
            return self._checked({"!": int(not value), "-": -value, "+": value, "~": ~value}[sign])
        if self._next("("):
            value = self._conditional()
            if self._next(")") is None:
                raise _UnknownError
            return value
        kind, token = self._tokens[self._at]
        self._at += 1
        if kind == "name":
            return self._named(token)
        number = _NUMBER.fullmatch(token)
        if number is None:
            raise _UnknownError
        digits = number["value"]
        is_octal = digits.isdigit() and digits.startswith("0")
        return self._checked(int(digits, 8) if is_octal else int(digits, 0))

    def _named(self, name: str) -> int | None:
        if self._macros[name] is Status.UNDEFINED:
            return 0
        if self._next("("):
            # A call of a macro with arguments.
            depth = 1
            while depth:
                sign = self._tokens[self._at][1]
                depth += (sign == "(") - (sign == ")")
                self._at += 1
        return None

    def _checked(self, value: int) -> int | None:
        """A value that any compiler computes with."""
        return value if -_LARGEST <= value <= _LARGEST and not (value < 0 and self._is_unsigned) else None
