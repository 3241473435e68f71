"""The encoding of an author's files: UTF-8, but for comments, which may be in any encoding."""

from __future__ import annotations

import re
from typing import Final

from portbar.rendering.source import line_of, without_comments

_UNDECODED: Final = re.compile("[\ud800-\udfff]")


def decoded(data: bytes) -> str:
    """The text of a file, with half surrogate pairs for bytes that are not UTF-8; lines end with a line feed."""
    text = data.removeprefix(b"\xef\xbb\xbf").decode("utf-8", "surrogateescape")
    return text.replace("\r\n", "\n").replace("\r", "\n")


def printable(text: str) -> tuple[str, int | None]:
    """The text with question marks for undecoded bytes of comments, and the line of the first one elsewhere, or None."""
    if _UNDECODED.search(text) is None:
        return text, None
    outside = _UNDECODED.search(without_comments(text))
    return _UNDECODED.sub("?", text), None if outside is None else line_of(text, outside.start())
