"""Build options that say how a program is read: folders of included files, and macros."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

#: A part of the build options: a word, of which quotes may enclose some.
_PART: Final = re.compile(r'(?:"[^"]*"|[^\s"])+')
_QUOTE: Final = re.compile(r"\\(.)|\"")
_KINDS: Final = ("-I", "-D", "-U")


@dataclass(frozen=True)
class GivenMacro:
    """A `-D` or `-U`."""

    #: With the parameters of one that takes arguments.
    name: str
    #: None where it is undefined.
    body: str | None

    @property
    def is_quoted(self) -> bool:
        """Whether it has quotes, of which drivers leave different parts."""
        return re.search(r"[\"'\\]", f"{self.name}{self.body or ''}") is not None

    @property
    def directive(self) -> str:
        """The same as a line of a program, without the quotes that enclose a part of the option."""
        if self.body is None:
            return f"#undef {self.word}"
        return f"#define {unquoted(f'{self.name} {self.body}')}"

    @property
    def word(self) -> str:
        """Its name alone."""
        return self.name.strip("\"'\\").partition("(")[0]


def quoted(option: str) -> str:
    """An option as drivers take it: with quotes around spaces."""
    if '"' in option or not re.search(r"\s", option):
        return option
    kind = option[:2] if option.startswith(_KINDS) else ""
    return f'{kind}"{option.removeprefix(kind)}"'


def unquoted(word: str) -> str:
    """A word without the quotes that enclose a part of it; those with a backslash before belong to it."""
    return _QUOTE.sub(lambda found: found[1] or "", word)


def words_of(options: Sequence[str]) -> list[str]:
    """The words of build options; quotes stay, and may enclose spaces of a word."""
    return [found[0] for option in options for found in _PART.finditer(option)]


def _words(options: Sequence[str]) -> Iterator[tuple[str, str]]:
    """The kind and the value of each of these options."""
    parts = iter(words_of(options))
    for part in parts:
        if part[:2] in _KINDS:
            yield part[:2], part[2:] or next(parts, "")


def given_folders(options: Sequence[str]) -> list[str]:
    """The folders of `-I`, in order."""
    return [value.replace('"', "") for kind, value in _words(options) if kind == "-I"]


def given_macros(options: Sequence[str]) -> list[GivenMacro]:
    """The macros of `-D` and `-U`, in order."""
    found = []
    for kind, value in _words(options):
        if kind != "-I":
            name, equals, body = value.partition("=")
            if name.startswith('"'):
                name, body = name[1:], body.removesuffix('"')
            found.append(GivenMacro(name, None if kind == "-U" else body if equals else "1"))
    return found


def lasting_options(options: Sequence[str]) -> tuple[str, ...]:
    """Build options with the folders of `-I` as absolute paths, so that every later build finds the same files."""

    def absolute(folder: str) -> str:
        bare = folder.replace('"', "")
        try:
            path = os.path.join(os.getcwd(), bare)  # noqa: PTH109, PTH118 (Path would fold `..`, and links may be on the way)
        except OSError:
            return folder
        # Some drivers know no quotes.
        return folder if os.path.isabs(bare) or re.search(r'[\s"]', path) else path  # noqa: PTH117

    given, waiting = [], ""
    for option in options:
        parts, done = [], 0
        for found in _PART.finditer(option):
            part = found[0]
            made = part
            if waiting == "-I":
                made = absolute(part)
            elif not waiting and part.startswith("-I") and part != "-I":
                made = f"-I{absolute(part[2:])}"
            waiting = part if part in _KINDS and not waiting else ""
            parts += [option[done : found.start()], made]
            done = found.end()
        given.append("".join(parts) + option[done:])
    return tuple(given)
