"""Edits of a text that are made in any order, of which no line moves."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

_LAST_PRAGMA: Final = re.compile(rb"[ \t]*#[ \t]*pragma\b(?:\\\r?\n|[^\n])*\n\s*\Z")
_PRAGMAS: Final = re.compile(rb"(?:^[ \t]*#[ \t]*pragma\b(?:\\\r?\n|[^\n])*\n\s*)+\Z", re.MULTILINE)
#: Between two tokens.
_SKIPPED: Final = re.compile(rb"(?:\s|//(?:\\\r?\n|[^\n])*|/\*.*?\*/|\\\r?\n)*", re.DOTALL)
_VOID: Final = re.compile(rb"void\b")
#: Strings and characters, comments, lines that go on, and white space.
_FLATTENED: Final = re.compile(
    r"""(?P<kept>"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')|(?:/\*.*?\*/|//(?:\\\r?\n|[^\n])*|\\\r?\n|\s)+""", re.DOTALL
)


def flat(text: str) -> str:
    """A part of a program in one line, without comments."""
    return _FLATTENED.sub(lambda found: found["kept"] or " ", text).strip()


#: The remedy for most parts that cannot be brought into a form.
_WRITE: Final = "Write each barrier as a statement of its own, under if, for, while, do or switch."


class UnformedError(Exception):
    """A part of a program, which the message names, cannot be written in the form that is asked for.

    Attributes
    ----------
    remedy : str
        What to write instead.
    line : int
        The 1-based line of the text, 0 where it is unknown.
    macro : str
        The author's macro that has to be written out first, "" where that does not help.
    span : tuple of int, optional
        The part of the text, in bytes, whose directives have to be decided first.
    """

    def __init__(
        self,
        part: str,
        line: int = 0,
        *,
        remedy: str = _WRITE,
        macro: str = "",
        span: tuple[int, int] | None = None,
    ) -> None:
        super().__init__(part)
        self.line, self.remedy, self.macro, self.span = line, remedy, macro, span


@dataclass(eq=False)
class Inserted:
    """Text that is inserted somewhere."""

    text: str


class Edits:
    """Insertions and replacements by their places in bytes. `barrier` and `work` are statements that are inserted often."""

    def __init__(self, contents: bytes, barrier: str, work: str) -> None:
        self._bytes, self._barrier, self._work = contents, barrier, work
        self._before: dict[int, list[Inserted]] = {}
        self._after: dict[int, list[Inserted]] = {}
        self._replaced: dict[int, tuple[int, str]] = {}
        self._count = 0

    def _skip(self, at: int) -> int:
        """The place of the next token."""
        found = _SKIPPED.match(self._bytes, at)
        return found.end() if found else at

    def _empty_until(self, at: int) -> int | None:
        """Where a list of parameters that begins at a place ends if it is empty, before the bracket; None of others."""
        found = _VOID.match(self._bytes, self._skip(at))
        end = self._skip(found.end() if found else at)
        return end if self._bytes[end : end + 1] == b")" else None

    def text(self) -> str:
        """The text with all edits."""
        return self._squeezed(self._edited(0, len(self._bytes)))

    def _edited(self, begin: int, end: int) -> str:
        """A part of the text with all edits, each of which is within it."""
        parts: list[str] = []
        at = begin
        for place in sorted({*self._before, *self._after, *self._replaced}):
            if place < at:
                continue
            parts.append(self._bytes[at:place].decode())
            at = place
            parts += [one.text for one in (*self._after.get(place, ()), *self._before.get(place, ()))]
            if place in self._replaced:
                stop, made = self._replaced[place]
                lines = self._bytes[place:stop].count(b"\n") - made.count("\n")
                parts.append(made + "\n" * lines)
                at = stop
        parts.append(self._bytes[at:end].decode())
        return "".join(parts)

    @contextmanager
    def _apart_from_others(self) -> Iterator[None]:
        """Keep the edits made so far apart from those of a part of the text that is written elsewhere."""
        kept = self._before, self._after, self._replaced
        self._before, self._after, self._replaced = {}, {}, {}
        try:
            yield
        finally:
            self._before, self._after, self._replaced = kept

    def _squeezed(self, text: str) -> str:
        barrier, work = re.escape(self._barrier), re.escape(self._work)
        return re.sub(rf"(?:{barrier} *(?:{work} *)?)+(?={barrier})", "", text)

    def _begin(self, at: int, text: str) -> None:
        """Insert before a statement that begins there, after what its surroundings insert."""
        # Only a directive right before it can be one of these: most searches end there.
        line = self._bytes.rfind(b"\n", 0, max(self._bytes.rfind(b"#", 0, at), 0)) + 1
        is_last = _LAST_PRAGMA.match(self._bytes, line, at) is not None
        pragmas = _PRAGMAS.search(self._bytes, 0, at) if is_last else None
        if pragmas:
            at = len(self._bytes[: pragmas.start()].rstrip())
        self._before.setdefault(at, []).append(Inserted(f" {text} "))

    def _end(self, at: int, text: str) -> Inserted:
        """Insert after a statement that ends there, before what its surroundings insert."""
        made = Inserted(f" {text} ")
        self._after.setdefault(at, []).insert(0, made)
        return made

    def _replace(self, begin: int, end: int, text: str) -> None:
        if b"\n#" in re.sub(rb"[ \t]", b"", self._bytes[begin:end]):
            raise UnformedError("a directive within a statement", self._line(begin), span=(begin, end))
        self._replaced[begin] = (end, text)

    def _line(self, at: int) -> int:
        return self._bytes.count(b"\n", 0, at) + 1

    def _name(self, stem: str) -> str:
        self._count += 1
        return f"portbar_{stem}_{self._count}"

    @property
    def _apart_after(self) -> str:
        return f"{self._barrier} {self._work}"
