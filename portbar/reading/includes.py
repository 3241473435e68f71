"""The whole text of a program: the files that it includes in place of its includes, as they are when it is made.

A driver reads included files at every build, which may be long after: then they have changed, or are gone, or the working
directory is another. So each file is read once, and `#line` keeps the author's files and lines in the driver's messages. An
include is left for the driver where no file is found, or where no text could replace it; it is not looked at where the
program itself excludes it (`portbar.reading.conditions`).
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final

import pyopencl as cl

from portbar.reading.conditions import CONDITIONALS, Macros
from portbar.reading.encoding import decoded, printable
from portbar.reading.options import given_folders, given_macros
from portbar.reading.places import Places
from portbar.rendering.source import line_of, spaced, spliced, without_comments

#: More than these are left for the driver, which has limits of its own: files within each other, files in all, characters.
_DEEPEST: Final = 60
_MOST_INCLUDES: Final = 20_000
_MOST_CHARACTERS: Final = 1 << 25

#: A directive of its own line, in text whose comments are spaces.
_DIRECTIVE: Final = re.compile(
    r"^(?<!\\\n)(?<!\\\r\n)[ \t]*(?P<sign>\#)(?:[ \t]|\\\r?\n)*(?P<word>\w+)(?P<rest>(?:\\\r?\n|[^\n])*)", re.MULTILINE
)
#: Without these words, no file is included.
_INCLUDE: Final = re.compile(r"(?:__has_include(?<!\w__has_include)|include(?<!\winclude))\b(?!\s*[\"<]portbar/)")
_NAME: Final = re.compile(r'(?:\s|\\\r?\n)*(?P<written>(?P<quoted>")?(?(quoted)|<)(?P<name>[^">\n]+)(?(quoted)"|>))')
_HAS_INCLUDE: Final = re.compile(r'\b__has_include\s*\(\s*(?P<name>"[^"\n]+"|<[^>\n]+>)\s*\)')
#: Begins the names of macros that stand for `#pragma once`.
_ONCE: Final = "PORTBAR_ONCE_"
_PYOPENCL: Final = str(Path(cl.__file__).parent / "cl")


def whole_text(text: str, name: str, folder: Path | None = None, options: Sequence[str] = ()) -> str:
    """Return a program's text with the files that it includes; includes of portbar's headers stay.

    Parameters
    ----------
    text : str
    name : str
        Of the program, in messages.
    folder : pathlib.Path, optional
        Where its file is, if it was read from one.
    options : sequence of str
        Build options: `-I`, `-D` and `-U`.
    """
    if _INCLUDE.search(text) is None:
        return text
    program = _File(name, None if folder is None else folder / name, text, is_program=True)
    return _Reader(options).text(program)


@dataclass(frozen=True)
class _Directive:
    """One directive of a file."""

    word: str
    #: The text after the word, lines joined, and as written.
    rest: str
    written: str
    #: Where its sign is, where the rest begins, and where its line ends.
    start: int
    middle: int
    end: int
    #: Whether there is code between the directive before and this one.
    follows_code: bool


@dataclass
class _File:
    """A file, or the program itself."""

    #: In messages.
    name: str
    #: None for a program that was not read from a file.
    path: Path | None
    text: str
    is_program: bool = False

    @cached_property
    def directives(self) -> list[_Directive]:
        """Its directives, in order, and an empty one at its end."""
        code = spaced(self.text)
        made, done = [], 0
        for found in _DIRECTIVE.finditer(code):
            rest, start, middle = found["rest"], found.start("sign"), found.start("rest")
            has_code = not code[done:start].isspace() and start > done
            made.append(_Directive(found["word"], spliced(rest).strip(), rest, start, middle, found.end(), has_code))
            done = found.end()
        end = len(code)
        return [*made, _Directive("", "", "", end, end, end, bool(code[done:].strip()))]

    @cached_property
    def may_replace(self) -> bool:
        """Whether its comments and conditionals end in it, so that its text may be where it is included."""
        depth = 0
        for directive in self.directives:
            depth += directive.word.startswith("if") - (directive.word == "endif")
            if depth < 0 or (depth == 0 and directive.word.startswith("el")):
                return False
        return depth == 0 and not without_comments(f"{self.text}\nx").endswith(" ")

    @cached_property
    def is_once(self) -> bool:
        """Whether it asks to be included once."""
        return any(directive.word == "pragma" and directive.rest == "once" for directive in self.directives)

    @cached_property
    def _places(self) -> Places:
        return Places(self.text, self.name)

    def line(self, position: int, after: int = 0) -> str:
        """The `#line` for the text after a position, or for a line some lines after."""
        return self._places.directive(line_of(self.text, position) + after)


@dataclass(frozen=True)
class _Edit:
    """A text in place of a part of a file."""

    start: int
    end: int
    text: str
    #: Where it is of other lines than the file's: the directive for the rest of its line.
    lines: str = ""
    #: Whether nothing of it can be compiled.
    is_nothing: bool = False


def _decoded(data: bytes) -> str | None:
    """The text of a file that may be where it is included; None if it is not text.

    Its comments may be in any encoding.
    """
    text, line = printable(decoded(data))
    if line is not None or "\0" in text:
        return None
    # A last line that continues would include the one after the file.
    return f"{text}\n\n" if text.rstrip("\n").endswith("\\") else text


class _Reader:
    """Reads one program."""

    def __init__(self, options: Sequence[str]) -> None:
        self._macros = Macros()
        for definition in given_macros(options):
            self._macros.give(definition)
        self._folders = given_folders(options)
        self._files: dict[Path, _File | None] = {}
        #: Macros of files that ask to be included once, links or not.
        self._onces: dict[Path, str] = {}
        self._count = self._characters = 0

    def text(self, file: _File, depth: int = 0) -> str:
        """The text of a file with others in place of its includes; empty if nothing in it can be compiled."""
        macros = self._macros
        once = ""
        if depth and file.path is not None and file.is_once:
            once = self._once(file.path.resolve())
        parts: list[str] = [f"#ifndef {once}\n{file.line(0)}"] if once else []
        done, is_live = 0, not depth
        #: Of each conditional around the place that is read: whether lines were added in it.
        grown: list[bool] = []
        if once:
            macros.conditional("ifndef", once)
        for directive in file.directives:
            is_live |= macros.is_possible and directive.follows_code
            edit = None
            if directive.word in CONDITIONALS:
                edit = self._conditional(file, directive, grown)
            elif macros.is_possible:
                edit = self._other(file, directive, once, depth)
                grown = [True for _ in grown] if edit and edit.lines else grown
                is_live |= directive.word != "" and not (edit and edit.is_nothing)
            if edit is not None:
                before = file.text[done : edit.start]
                begins = not edit.lines or not before.rpartition("\n")[2].strip()
                parts += [before, "" if begins else "\n", edit.text, edit.lines]
                done = edit.end
        if once:
            macros.conditional("endif", "")
        if not is_live:
            return ""
        text = "".join([*parts, file.text[done:]])
        return f"{text}\n#endif\n" if once else text

    def _once(self, path: Path) -> str:
        """The macro that stands for a file's `#pragma once`."""
        if path not in self._onces:
            self._onces[path] = f"{_ONCE}{len(self._onces)}"
            self._macros.begin_without(self._onces[path])
        return self._onces[path]

    def _conditional(self, file: _File, directive: _Directive, grown: list[bool]) -> _Edit | None:
        """Read a directive of a conditional."""
        word = directive.word
        if not word.startswith("if") and not grown:
            return None  # The driver says so.
        self._macros.conditional(word, self._has_included(file, directive.rest))
        written = file.text[directive.middle : directive.end]
        known = self._has_included(file, written)
        if word.startswith("if"):
            grown.append(False)
        elif grown[-1]:
            # Where lines were skipped, the driver counts on from those of the text.
            known += f"\n{file.line(directive.end, 1)[:-1]}"
        if word == "endif" and grown.pop() and grown:
            grown[-1] = True
        return None if known == written else _Edit(directive.middle, directive.end, known)

    def _has_included(self, file: _File, condition: str) -> str:
        """A condition with the answer to each `__has_include` whose file is there; the driver knows about others."""

        def known(found: re.Match[str]) -> str:
            name = _NAME.fullmatch(found["name"])
            return "1" if name and self._found(file, name) else found[0]

        return _HAS_INCLUDE.sub(known, condition)

    def _other(self, file: _File, directive: _Directive, once: str, depth: int) -> _Edit | None:
        """Read a directive in text that may be compiled."""
        word, macros = directive.word, self._macros
        if word == "define":
            macros.define(directive.rest)
        elif word == "undef":
            macros.undefine(directive.rest)
        elif word == "pragma" and directive.rest == "once" and once:
            macros.define(once)
            return _Edit(directive.start, directive.end, f"#define {once}", is_nothing=True)
        elif word == "include":
            return self._include(file, directive, depth)
        elif word in {"include_next", "import"}:
            macros.doubt(_ONCE)
        return None

    def _include(self, file: _File, directive: _Directive, depth: int) -> _Edit | None:
        """The text in place of an include, None where it stays as it is."""
        name, end = _NAME.match(directive.written), directive.end
        if name is not None:
            end = directive.middle + name.end()
        elif directive.rest == "__FILE__":
            name = _NAME.fullmatch(f'"{file.name}"')
        else:
            name = _NAME.fullmatch(self._macros.expanded(directive.rest) or "")
        if name is None:
            self._macros.doubt(_ONCE)
            return None
        if name["name"].startswith("portbar/"):
            return _Edit(directive.start, end, f"#include {name['written']}")
        found = self._found(file, name)
        if found is None:
            self._macros.doubt(_ONCE)
            return None
        shown, path = found
        included = self._file(shown, path)
        if included is None or not included.may_replace or self._is_too_much(included, depth):
            self._macros.doubt(_ONCE)
            # The driver has no folder to begin in.
            return _Edit(directive.start, end, f'#include "{path}"')
        text = self.text(included, depth + 1)
        if text:
            text = f"{included.line(0)}{text}" + ("" if text.endswith("\n") else "\n")
        return _Edit(directive.start, end, text, file.line(end), is_nothing=not text)

    def _is_too_much(self, included: _File, depth: int) -> bool:
        self._count += 1
        self._characters += len(included.text)
        return depth >= _DEEPEST or self._count > _MOST_INCLUDES or self._characters > _MOST_CHARACTERS

    def _found(self, file: _File, name: re.Match[str]) -> tuple[str, Path] | None:
        """A file that an include names, and its name in messages; None if there is none.

        Drivers look beside the file itself, beside a program without file in the working directory, in the folders of `-I`,
        and in PyOpenCL's own folder, which it adds to them. Some look in the working directory in any case.
        """
        wanted, here = name["name"], Path()
        folders: list[tuple[str, Path]] = []
        if name["quoted"]:
            folders.append((os.path.dirname(file.name), file.path.parent if file.path else here))  # noqa: PTH120
            if file.is_program:
                folders.append(("", here))
        folders += [(folder, Path(folder)) for folder in (*self._folders, _PYOPENCL)]
        for shown, folder in [*folders, ("", here)]:
            try:
                path = (folder / wanted).absolute()
                if path.is_file():
                    return os.path.join(shown, wanted), path  # noqa: PTH118
            except (OSError, ValueError):
                continue
        return None

    def _file(self, name: str, path: Path) -> _File | None:
        """A file, read once; None if it is not text."""
        if path not in self._files:
            try:
                text = _decoded(path.read_bytes())
            except OSError:
                text = None
            self._files[path] = None if text is None else _File(name, path, text)
        return self._files[path]
