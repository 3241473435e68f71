"""Reads the part of LLVM's language that clang makes of portbar's OpenCL C without optimisation.

Types become tuples, operands `Operand`s, instructions `Instruction`s; both typed and opaque pointers are known.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

#: A type: ("i", bits), ("f", bits), ("ptr",), ("void",), ("array" | "vector", count, type), ("struct", types).
Type = tuple[Any, ...]

_TOKEN: Final = re.compile(
    r"""[%@!]"[^"]*"|[%@][-\w.$]+|c?"(?:[^"\\]|\\.)*"|-?\d+|[A-Za-z_][\w.]*|\.\.\.|[()\[\]{}<>,*=:]"""
)
_WORDS_BEFORE_OPERANDS: Final = frozenset(
    re.findall(
        r"\w+",
        "noundef nonnull zeroext signext nocapture readonly readnone immarg noalias inbounds volatile exact nuw nsw tail "
        "musttail notail fast spir_func spir_kernel internal dso_local writeonly returned",
    )
)
_FLOATS: Final = {"half": 16, "float": 32, "double": 64}


class UnreadableError(Exception):
    """The text holds something that this reader does not know."""


@dataclass(frozen=True)
class Operand:
    """A typed value: a register, a global name, a number, or an expression of constants."""

    type: Type
    kind: str  # "register", "global", "number", "undefined", "vector", "gep", "cast"
    value: object


@dataclass(frozen=True)
class Instruction:
    """One instruction; `parts` depend on its name."""

    name: str
    result: str
    parts: tuple[Any, ...]
    line: int


@dataclass
class Function:
    """Parameters and labelled blocks; the first block is the entry."""

    name: str
    parameters: list[str]
    blocks: dict[str, list[Instruction]] = field(default_factory=dict)
    entry: str = ""


@dataclass
class Module:
    """Functions with a body, the structures' types, and the types of variables outside functions."""

    functions: dict[str, Function] = field(default_factory=dict)
    structures: dict[str, Type] = field(default_factory=dict)
    variables: dict[str, Type] = field(default_factory=dict)

    def resolve(self, kind: Type) -> Type:
        """Return the type that a structure's name stands for."""
        return self.structures[kind[1]] if kind[0] == "named" else kind

    def align(self, kind: Type) -> int:
        """Return the alignment in bytes, as data layouts of GPUs have it."""
        kind = self.resolve(kind)
        if kind[0] == "array":
            return self.align(kind[2])
        if kind[0] == "struct":
            return max((self.align(part) for part in kind[1]), default=1)
        return self.size(kind)

    def size(self, kind: Type) -> int:
        """Return the size in bytes."""
        kind = self.resolve(kind)
        if kind[0] in ("i", "f"):
            return max(1, int(kind[1]) // 8)
        if kind[0] == "ptr":
            return 8
        if kind[0] == "array":
            return int(kind[1]) * self.size(kind[2])
        if kind[0] == "vector":
            return (4 if kind[1] == 3 else int(kind[1])) * self.size(kind[2])
        if kind[0] == "struct":
            end = self.offset(kind, len(kind[1]))
            return -(-end // self.align(kind)) * self.align(kind)
        raise UnreadableError(f"no size: {kind}")

    def offset(self, kind: Type, index: int) -> int:
        """Return where a structure's member begins; after the last, where it ended."""
        position = 0
        for number, part in enumerate(kind[1]):
            position = -(-position // self.align(part)) * self.align(part)
            if number == index:
                return position
            position += self.size(part)
        return position


class _Line:
    """The tokens of one line, read from the left."""

    def __init__(self, text: str) -> None:
        self.tokens = _TOKEN.findall(text)
        self.at = 0

    def peek(self) -> str:
        return self.tokens[self.at] if self.at < len(self.tokens) else ""

    def take(self, expected: str = "") -> str:
        word = self.peek()
        if not word or (expected and word != expected):
            raise UnreadableError(f"{expected or 'more'} expected at {self.at} of {' '.join(self.tokens)}")
        self.at += 1
        return word

    def skip(self, word: str) -> bool:
        if self.peek() != word:
            return False
        self.at += 1
        return True

    def skip_words(self) -> None:
        while True:
            if self.peek() in _WORDS_BEFORE_OPERANDS:
                self.at += 1
            elif self.peek() in ("align", "dereferenceable", "sret", "byval"):
                self.at += 1
                if self.skip("("):
                    while not self.skip(")"):
                        self.at += 1
                else:
                    self.at += 1
            else:
                return

    def type(self) -> Type:
        word = self.take()
        kind: Type
        if re.fullmatch(r"i\d+", word):
            kind = ("i", int(word[1:]))
        elif word in _FLOATS:
            kind = ("f", _FLOATS[word])
        elif word in ("void", "metadata"):
            kind = ("void",)
        elif word == "ptr":
            kind = ("ptr",)
            self._space()
        elif word in "[<" and self.peek() != "{":
            count = int(self.take())
            self.take("x")
            kind = ("array" if word == "[" else "vector", count, self.type())
            self.take("]" if word == "[" else ">")
        elif word in "{<":
            packed = word == "<" and self.skip("{")
            parts = []
            while not self.skip("}"):
                parts.append(self.type())
                self.skip(",")
            if packed:
                self.take(">")
            kind = ("struct", tuple(parts))
        elif word.startswith("%"):
            kind = ("named", word)
        elif word == "opaque":
            kind = ("struct", ())
        else:
            raise UnreadableError(f"no type: {word} in {' '.join(self.tokens)}")
        while True:
            if self.peek() == "addrspace":
                self._space()
            elif self.skip("*"):
                kind = ("ptr",)
            elif self.peek() == "(" and self._is_function_type():
                while not self.skip(")"):
                    self.at += 1
            else:
                return kind

    def _space(self) -> None:
        if self.skip("addrspace"):
            self.take("(")
            self.take()
            self.take(")")

    def _is_function_type(self) -> bool:
        depth = 0
        for index in range(self.at, len(self.tokens)):
            depth += {"(": 1, ")": -1}.get(self.tokens[index], 0)
            if depth == 0:
                return index + 1 < len(self.tokens) and self.tokens[index + 1] == "*"
        return False

    def typed(self) -> Operand:
        self.skip_words()
        kind = self.type()
        self.skip_words()
        return self.operand(kind)

    def operand(self, kind: Type) -> Operand:
        self.skip_words()
        word = self.take()
        if word.startswith("%"):
            return Operand(kind, "register", word)
        if word.startswith("@"):
            return Operand(kind, "global", word)
        if re.fullmatch(r"-?\d+", word):
            return Operand(kind, "number", int(word))
        if word in ("true", "false", "null", "zeroinitializer"):
            return Operand(kind, "number", int(word == "true"))
        if word in ("undef", "poison"):
            return Operand(kind, "undefined", None)
        if word == "<":
            parts = []
            while not self.skip(">"):
                parts.append(self.typed())
                self.skip(",")
            return Operand(kind, "vector", tuple(parts))
        if word == "getelementptr":
            self.skip_words()
            self.take("(")
            source = self.type()
            self.take(",")
            parts = [self.typed()]
            while self.skip(","):
                parts.append(self.typed())
            self.take(")")
            return Operand(kind, "gep", (source, tuple(parts)))
        if word in ("bitcast", "addrspacecast", "ptrtoint", "inttoptr"):
            self.take("(")
            inner = self.typed()
            self.take("to")
            self.type()
            self.take(")")
            return Operand(kind, "cast", inner)
        raise UnreadableError(f"no operand: {word} in {' '.join(self.tokens)}")

    def list(self) -> tuple[Operand, ...]:
        """Operands with types, separated by commas, to the end."""
        found = [self.typed()]
        while self.skip(","):
            if self.peek() in ("align", ""):
                break
            found.append(self.typed())
        return tuple(found)


def _branch(rest: _Line) -> tuple[Any, ...]:
    if rest.skip("label"):
        return (rest.take(),)
    condition = rest.typed()
    targets = []
    while rest.skip(","):
        rest.take("label")
        targets.append(rest.take())
    return (condition, *targets)


def _switch(rest: _Line) -> tuple[Any, ...]:
    condition = rest.typed()
    rest.take(",")
    rest.take("label")
    default, ways = rest.take(), []
    rest.take("[")
    while not rest.skip("]"):
        value = rest.typed()
        rest.take(",")
        rest.take("label")
        ways.append((value, rest.take()))
    return (condition, default, tuple(ways))


def _phi(rest: _Line) -> tuple[Any, ...]:
    kind, ways = rest.type(), []
    while True:
        rest.take("[")
        value = rest.operand(kind)
        rest.take(",")
        ways.append((value, rest.take()))
        rest.take("]")
        if not rest.skip(","):
            return (tuple(ways),)


def _call(rest: _Line) -> tuple[Any, ...]:
    kind = rest.type()
    callee: object
    if rest.skip("asm"):
        while rest.peek() in {"sideeffect", "alignstack"}:
            rest.take()
        code = rest.take()[1:-1]
        rest.take(",")
        constraints = rest.take()[1:-1]
        callee = (re.sub(r"\\([0-9A-F]{2})", lambda found: chr(int(found[1], 16)), code), constraints)
    else:
        callee = rest.operand(kind)
    rest.take("(")
    given = []
    while not rest.skip(")"):
        given.append(rest.typed())
        rest.skip(",")
    return (callee, tuple(given))


def _pair(rest: _Line) -> tuple[Any, ...]:
    kind = rest.type()
    first = rest.operand(kind)
    rest.take(",")
    return (first, rest.operand(kind))


def _compared(rest: _Line) -> tuple[Any, ...]:
    return (rest.take(), *_pair(rest))


def _converted(rest: _Line) -> tuple[Any, ...]:
    first = rest.typed()
    rest.take("to")
    return (first, rest.type())


def _loaded(rest: _Line) -> tuple[Any, ...]:
    kind = rest.type()
    rest.take(",")
    return (kind, rest.typed())


def _element(rest: _Line) -> tuple[Any, ...]:
    source = rest.type()
    rest.take(",")
    return (source, rest.list())


_PARTS: Final[dict[str, Callable[[_Line], tuple[Any, ...]]]] = {
    "alloca": lambda rest: (rest.type(),),
    "load": _loaded,
    "getelementptr": _element,
    "icmp": _compared,
    "br": _branch,
    "switch": _switch,
    "phi": _phi,
    "call": _call,
    "ret": lambda rest: () if rest.peek() == "void" else (rest.typed(),),
    "unreachable": lambda _: (),
    **dict.fromkeys(("zext", "sext", "trunc", "bitcast", "addrspacecast", "ptrtoint", "inttoptr"), _converted),
    **dict.fromkeys(("extractelement", "insertelement", "select", "store", "freeze"), lambda rest: rest.list()),
    **dict.fromkeys(("add", "sub", "mul", "udiv", "urem", "shl", "lshr", "ashr", "and", "or", "xor"), _pair),
}


def _instruction(text: str, lines: dict[str, int]) -> Instruction:
    debug = re.search(r"!dbg (!\d+)", text)
    text = re.split(r",? ![a-z]", text)[0]
    match = re.match(r"(?:(%[-\w.$]+|%\"[^\"]*\") = )?(.*)", text)
    assert match is not None
    rest = _Line(match[2])
    rest.skip_words()
    name = rest.take()
    rest.skip_words()
    if name not in _PARTS:
        raise UnreadableError(f"no instruction: {text.strip()}")
    return Instruction(name, match[1] or "", _PARTS[name](rest), lines.get(debug[1], 0) if debug else 0)


def read(text: str) -> Module:
    """Read a module.

    Raises
    ------
    UnreadableError
        It holds an instruction or operand that portbar's text has not needed so far.
    """
    module = Module()
    places = re.findall(r"^(!\d+) = (?:distinct )?!DILocation\(line: (\d+)", text, re.MULTILINE)
    lines = {name: int(line) for name, line in places}
    for name, kind in re.findall(r"^(%[-\w.$]+) = type (.*)$", text, re.MULTILINE):
        module.structures[name] = _Line(kind).type()
    for match in re.finditer(r"^(@[-\w.$]+) = .*?\b(?:global|constant) (.*)$", text, re.MULTILINE):
        module.variables[match[1]] = _Line(match[2]).type()
    for match in re.finditer(r"^define [^@]*(@[-\w.$]+)\(([^\n]*)\{\n(.*?)^\}", text, re.DOTALL | re.MULTILINE):
        parameters = re.findall(r"(%[-\w.$]+)(?=[,)])", match[2])
        function = Function(match[1], parameters)
        label = "%entry"
        joined = re.sub(r"\[\n(.*?)\]", lambda found: f"[{' '.join(found[1].split())}]", match[3], flags=re.DOTALL)
        for line in joined.splitlines():
            begin = re.match(r"([-\w.$]+):", line)
            if begin:
                label = f"%{begin[1]}"
            elif line.strip() and not line.lstrip().startswith(";"):
                function.entry = function.entry or label
                function.blocks.setdefault(label, []).append(_instruction(line.strip(), lines))
        module.functions[function.name] = function
    return module
