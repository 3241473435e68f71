"""docs/refused.md shows the messages that its programs get."""

from __future__ import annotations

import itertools

import pytest

from portbar.primitives.headers import declarations
from portbar.reading.reader import is_available, read
from tests.docs.pages import DOCS, blocks

#: Each kernel that text follows.
SHOWN = [
    (one.text, other.text)
    for one, other in itertools.pairwise(blocks(DOCS / "refused.md"))
    if one.language == "c" and other.language == "text"
]


@pytest.mark.skipif(not is_available(), reason="no libclang for this platform")
@pytest.mark.parametrize(("source", "said"), SHOWN, ids=["divergence", "other misuse"])
def test_messages_are_those_of_the_page(source, said):
    found = read("program.cl", source, declarations())
    assert "".join(f"{misuse}\n" for misuse in found.misuses) == said
