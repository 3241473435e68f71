"""The words of the hidden state: regions do not overlap, and those that are polled have a cache line each."""

from __future__ import annotations

import re
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from portbar.primitives import layout
from portbar.primitives.strategy import Choice, Strategy
from portbar.rendering.headers import render_header

PLAIN = Strategy(Choice("c11", "test"), Choice("packed", "test"), Choice("tree", "test"))


def test_words_that_are_polled_while_others_are_written_have_a_line_each():
    polled = ("POLL_EVEN", "PUBLISHED", "COUNTER", "SPLIT", "FLAG", "LOCK_NEXT", "LOCK_SERVING", "LOCK_HELD")
    lines = [layout.OFFSETS[name] // layout.LINE_WORDS for name in polled]
    assert len(set(lines)) == len(lines)
    assert layout.OFFSETS["GROUPS"] % layout.LINE_WORDS == 0
    assert layout.LINE_WORDS * 4 >= 128


def test_regions_do_not_overlap():
    starts = sorted(layout.OFFSETS.values())
    sizes = {layout.OFFSETS["REPORTS"]: layout.REPORTS * layout.REPORT_WORDS}
    for start, following in pairwise(starts):
        assert start + sizes.get(start, 1) <= following
    assert max(layout.OFFSETS, key=lambda name: layout.OFFSETS[name]) == "GROUPS"


@given(st.integers(0, 24))
def test_the_state_holds_two_flags_a_group_and_a_line_a_tree_node(log2):
    capacity = 1 << log2
    nodes = -(-capacity // layout.TREE_FAN)
    last = layout.OFFSETS["GROUPS"] + 2 * capacity + (nodes - 1) * layout.LINE_WORDS
    assert last < layout.state_words(capacity)
    assert layout.state_words(capacity) <= last + layout.LINE_WORDS


def test_every_field_of_the_hidden_words_holds_what_is_put_there():
    assert layout.EPOCH_MASK == (1 << 24) - 1
    assert layout.MAX_LAUNCHED_GROUPS <= layout.EPOCH_MASK
    assert layout.MAX_LAUNCHED_GROUPS.bit_length() < 1 << 5
    assert layout.DRY_RUN == 1 << 31
    assert len({0, layout.STATUS_OPEN, layout.STATUS_TIMEOUT, layout.STATUS_LOST}) == 4
    assert (layout.EPOCH_MASK + 1) % layout.REPORTS == 0


@pytest.mark.parametrize("name", layout.OFFSETS)
def test_the_rendered_text_and_the_host_agree(name):
    text = render_header("device_barrier", PLAIN)
    assert re.findall(rf"^#define PORTBAR_STATE_{name} (\d+)u$", text, re.MULTILINE) == [str(layout.OFFSETS[name])]
