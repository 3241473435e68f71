"""Reads just enough of an author's OpenCL C to resolve portbar's includes and to name the kernels.

It separates comments and strings from code and leaves the rest to the driver.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

_TOKEN = re.compile(
    r"""
    (?P<comment> //(?:\\\r?\n|[^\n])* | /\*.*?(?:\*/|\Z) )
  | (?P<string> "(?:\\.|[^"\\\n])*" | '(?:\\.|[^'\\\n])*' )
    """,
    re.VERBOSE | re.DOTALL,
)
#: Directives that matter here, in text whose comments are spaces, line breaks in them included.
_DIRECTIVE = re.compile(
    r"""
    ^[ \t]* (?P<sign>\#) (?:[ \t]|\\\r?\n)*
    (?: include (?:[ \t]|\\\r?\n)* ["<](?P<name>portbar/[^">\n]*)[">]
      | (?P<conditional>ifdef|ifndef|if|elif|else|endif)\b (?:\\\r?\n|[^\n])* \n? )
    """,
    re.MULTILINE | re.VERBOSE,
)
_KERNEL = re.compile(
    r"\b(?:__kernel|kernel)\b(?:\s|__attribute__\s*\(\(.*?\)\))*\bvoid\b"
    r"(?:\s|__attribute__\s*\(\(.*?\)\))*\b(?P<name>[A-Za-z_]\w*)\s*\(",
    re.DOTALL,
)

#: An opening bracket -> what finds brackets of its kind.
_BRACKETS: Final = {"(": re.compile(r"[()]"), "{": re.compile(r"[{}]"), "[": re.compile(r"[\[\]]")}

#: Parts of a declaration without effects: attributes, built-in functions that only compute, pointers to arrays, members of
#: types, and types of literals.
_HARMLESS = re.compile(
    r"""
    __attribute__\s*\(\(.*?\)\)
  | ^[ \t]*\#(?:\\\r?\n|[^\n])*
  | \b(?: sizeof | min | max | (?:convert|as)_(?:u?(?:char|short|int|long)|half|float|double)\w*
        | get_(?: work_dim | (?:local|global)_(?:linear_)?id | (?:enqueued_)?local_size
                | (?:group|sub_group|sub_group_local)_id | global_(?:size|offset) | num_(?:groups|sub_groups) ) ) \b (?=\s*\()
  | \w\s*\(\s*\*\s*\w*\s*\)\s*\[[^]]*\]
  | \b(?:enum|struct|union)\b\s*\w*\s*\{[^{}]*\}
  | \(\s*\w+\s*\)\s*(?=\{)
    """,
    re.MULTILINE | re.VERBOSE | re.DOTALL,
)

#: A directive, with the lines that continue it.
_LINE_OF_DIRECTIVE = re.compile(r"^[ \t]*\#(?:\\\r?\n|[^\n])*", re.MULTILINE)
_OPEN_ENTER = re.compile(r"\bPORTBAR_ENTER\s*\(\s*\w+\s*\)(?!\s*;)")

#: Parts that make a statement more than a declaration: a call or a condition, a block, a store through a pointer or into an
#: array.
_ACTION = re.compile(
    r"""
    \w\s*\( | \+\+ | -- | ^\s*[*(]
  | (?:^|[^\s=,{(])\s*\{
  | (?:\]|->\s*\w+) (?:\s*\.\s*\w+)* \s* (?:[-+*/%&|^]|<<|>>)? = (?![={]|\s*\{)
    """,
    re.VERBOSE,
)

#: Names that no reader of the source alone can know: made of pieces, spelled otherwise, or in files that portbar does not read.
_HIDDEN: Final = re.compile(
    r"##|%:|\?\?=|\\u|#\s*(?:include_next|import|include(?!\s*[\"<]portbar/))|(?:^|\s)-include\b"
)


class UnreadableError(Exception):
    """A text is not what it was taken for."""


@dataclass(frozen=True)
class Include:
    """One `#include "portbar/..."`: its header, its 1-based line, and its span from `#` to the closing quote."""

    name: str
    line: int
    start: int
    end: int


def _blank(match: re.Match[str]) -> str:
    return "\n".join(" " * len(line) for line in match[0].split("\n"))


def without_comments(text: str, *, keep_strings: bool = True) -> str:
    """`text` with each comment (and each string, unless kept) blanked out, same length and same lines."""
    return _TOKEN.sub(lambda match: match[0] if match["string"] is not None and keep_strings else _blank(match), text)


def _directives(text: str) -> Iterator[re.Match[str]]:
    """Each include of a portbar header and each conditional directive outside comments, in order."""
    # To a preprocessor, a comment is one space: a directive continues after a comment of several lines.
    code = _TOKEN.sub(lambda match: match[0] if match["string"] is not None else " " * len(match[0]), text)
    return _DIRECTIVE.finditer(code)


def closed(code: str, start: int) -> int:
    """Where the bracket that opens at `start` has been closed. `UnreadableError` if it is not."""
    depth = 0
    opening = code[start]
    for found in _BRACKETS[opening].finditer(code, start):
        depth += 1 if found[0] == opening else -1
        if depth == 0:
            return found.end()
    raise UnreadableError


def line_of(text: str, position: int) -> int:
    """Return the 1-based line of a position in `text` ."""
    return text.count("\n", 0, position) + 1


def includes(text: str) -> Iterator[Include]:
    """Each include of a portbar header outside comments, in order."""
    for match in _directives(text):
        if match["name"] is not None:
            yield Include(match["name"], line_of(text, match.start("sign")), match.start("sign"), match.end())


def ends_of_skipped(text: str) -> Iterator[int]:
    """Where compiled text may continue after includes of portbar headers that were skipped: after `#elif`, `#else` and
    `#endif`.
    """
    open_conditionals: list[bool] = []
    for match in _directives(text):
        what = match["conditional"]
        if what is None:
            open_conditionals = [True] * len(open_conditionals)
        elif what in {"if", "ifdef", "ifndef"}:
            open_conditionals.append(False)
        elif open_conditionals:
            if open_conditionals[-1]:
                yield match.end()
            if what == "endif":
                open_conditionals.pop()


def kernel_names(text: str) -> list[str]:
    """Names of the kernels that `text` spells out, in order; kernels made by macros are not seen."""
    return [m["name"] for m in _KERNEL.finditer(without_comments(text, keep_strings=False))]


def kernel_text(text: str, name: str) -> str:
    """The code from a kernel's definition to that of the next, comments and strings left out; "" if it is not spelled out."""
    code = without_comments(text, keep_strings=False)
    kernels = list(_KERNEL.finditer(code))
    following = [*(kernel.start() for kernel in kernels[1:]), len(code)]
    # One more end than there are kernels where there are none.
    pairs = zip(kernels, following, strict=False)
    return "".join(code[kernel.start() : end] for kernel, end in pairs if kernel["name"] == name)


def early_statement(text: str) -> tuple[str, int] | None:
    """The first kernel that does something before PORTBAR_ENTER, with the 1-based line of what it does; None if none does.

    Declarations do nothing, nor do their initial values unless they call something other than the built-in functions of
    `_HARMLESS`. Kernels whose PORTBAR_ENTER comes from a macro of the author's are not judged.
    """
    code = without_comments(text, keep_strings=False)
    for match in _KERNEL.finditer(code):
        body = code.find("{", match.end())
        enter = re.compile(r"\bPORTBAR_ENTER\b").search(code, body)
        following = _KERNEL.search(code, match.end())
        if body < 0 or enter is None or (following is not None and following.start() < enter.start()):
            continue
        before = _HARMLESS.sub(_blank, code[body + 1 : enter.start()])
        for statement in re.finditer(r"[^;]+", before):
            if _ACTION.search(statement[0]):
                blank = len(statement[0]) - len(statement[0].lstrip())
                return match["name"], line_of(code, body + 1 + statement.start() + blank)
    return None


def open_enter(text: str) -> int | None:
    """The 1-based line of the first PORTBAR_ENTER without a semicolon, None if there is none.

    The macro ends in `return`, which would take the next statement for its value. Macros of the author's are not judged.
    """
    code = _LINE_OF_DIRECTIVE.sub(_blank, without_comments(text, keep_strings=False))
    found = _OPEN_ENTER.search(code)
    return None if found is None else line_of(code, found.start())


def spliced(text: str) -> str:
    """The text with each line that a backslash continues in one."""
    return text.replace("\\\r\n", "").replace("\\\n", "")


def hides_names(code: str) -> bool:
    """Whether a text of `spliced` lines without comments may use names that it does not spell out."""
    return _HIDDEN.search(code) is not None


def mentions(text: str, word: str) -> bool:
    """Whether the identifier `word` occurs anywhere in the code of `text`, comments and strings left out."""
    return re.search(rf"\b{re.escape(word)}\b", without_comments(text, keep_strings=False)) is not None
