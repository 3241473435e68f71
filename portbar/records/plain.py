"""Texts that a record can hold and a terminal can show: what drivers and strangers wrote is cleaned, amounts are in words."""

from __future__ import annotations

import re
from typing import Final

#: Control characters, which a terminal obeys; marks that turn the direction of text, join or hide it; halves of pairs.
HIDDEN: Final = re.compile(
    "[\x00-\x1f\x7f-\x9f\u00ad\u061c\u115f\u1160\u180e\u200b-\u200f\u2028-\u202f\u2060-\u206f\u3164\ud800-\udfff\ufe00-\ufe0f"
    "\ufeff\uffa0\ufff0-\uffff\U000e0000-\U000e0fff]"
)


def plain_text(value: object, longest: int = 500) -> str:
    """Return a driver's text in one line, of characters that can be seen, at most `longest` of them; empty for None."""
    if not isinstance(value, str):
        return ""
    plain = " ".join(HIDDEN.sub(" ", value).split())
    return plain if len(plain) <= longest else f"{plain[: longest - 3]}..."


def amount(number: object, noun: str) -> str:
    """Return a number with its noun, as in "1 device" and "2 devices"."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def printable(name: str) -> str:
    """Return a file's name as one can print it and write it in UTF-8, with escapes for all else."""
    return name if name.isprintable() else ascii(name)[1:-1]


def harmless(text: str) -> str:
    """Return a text without the characters that a terminal obeys or hides, except for line breaks."""
    return "\n".join(HIDDEN.sub("", line) for line in text.split("\n"))
