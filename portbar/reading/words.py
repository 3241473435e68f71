"""The identifiers of a program's text: a superset of those that a driver compiles, whatever its macros."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Final

from portbar.rendering.source import spliced, without_comments, words_in

#: Names that no reader of the text alone can know: made of pieces, spelled otherwise, or in files that portbar does not read.
_HIDDEN: Final = re.compile(
    r"##|%:|\?\?=|\\u|#\s*(?:include_next|import|include(?!\s*[\"<]portbar/))|-include\b(?<!\S-include)"
)

#: Directives and options by which a driver reads files, and the words that all of them have.
_FILES: Final = re.compile(
    r"(?:#|%:|\?\?=)\s*(?:include|import|embed)|\b__has_(?:include|embed)|-include\b(?<!\S-include)"
)
_FILE_WORDS: Final = ("include", "import", "embed")


def may_use(name: str, text: str, options: Sequence[str] = ()) -> bool:
    """Whether a program may use a name, in whatever part of it a driver compiles."""
    return name in words(text, tuple(options)) or hides_names(text, tuple(options))


@lru_cache(maxsize=128)
def words(text: str, options: tuple[str, ...] = ()) -> frozenset[str]:
    """The identifiers of a program and its build options, without those in comments and strings."""
    # An option may be `-Dname=...`.
    given = "\n".join(option.replace("-D", " ") for option in options)
    return words_in(spliced(without_comments(text, keep_strings=False)) + "\n" + given)


def code_of(text: str, options: tuple[str, ...] = ()) -> str | None:
    """A program's text without comments, with what its build options may define; None if it hides names."""
    if hides_names(text, options):
        return None
    given = [part for option in options for part in (option, option.replace("-D", " "))]
    return spliced("\n".join([without_comments(text), *given]))


@lru_cache(maxsize=32)
def hides_names(text: str, options: tuple[str, ...] = ()) -> bool:
    """Whether a program may use names that neither its text nor its build options spell out."""
    return _HIDDEN.search(spliced("\n".join([without_comments(text), *options]))) is not None


def reads_files(text: str, options: tuple[str, ...] = ()) -> bool:
    """Whether a driver that compiles a text may read other files."""
    given = spliced("\n".join([text, *options]))
    if not any(word in given for word in _FILE_WORDS):
        return False
    return _FILES.search(spliced("\n".join([without_comments(text), *options]))) is not None
