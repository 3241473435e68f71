"""A split barrier from outside the package: one object and one template are enough to compile, check and list it."""

from __future__ import annotations

from dataclasses import replace

import pytest

import portbar
from portbar.choices.strategy import ALTERNATIVES
from portbar.primitives.split_barrier.selection import VARIANTS, SplitBarrier
from portbar.survey.measuring.split_barrier import usable_strategies
from tests.split_barrier.support import PRELUDE, Promise, keep

pytestmark = pytest.mark.device

#: Waits meet twice, and report so by their fault word.
TEMPLATE = """\
<%inherit file="split_barrier/uniform.mako"/>
<%def name="fault()">\\
    (void)b;
    return 77u;
</%def>
<%def name="wait(phase, form)">\\
    barrier(CLK_LOCAL_MEM_FENCE);
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
    return ${"portbar_split_completed_%s(b, %s)" % (phase, phase) if counted else "true"};
</%def>
"""
RIGHT = Promise(
    "values of a neighbour",
    """
    for (uint turn = 0u; turn < turns; ++turn) {
        values[i] = mixed(turn, i);
        CHECK(0, portbar_split_barrier_arrive_and_wait(&b));
        CHECK(1, values[(i + 1u) % n] == mixed(turn, (i + 1u) % n));
        CHECK(2, portbar_split_barrier_arrive_and_wait(&b));
    }
    """,
    turns=10,
    words=1,
)
BODY = f"local portbar_split_barrier b; INITIALIZE(b, n);{RIGHT.body}"
TWICE = replace(
    RIGHT, expected=None, body=BODY + "CHECK(3, portbar_split_barrier_fault(&b) == 77u); bad[place()] = wrong;"
)


def test_a_variant_from_outside_is_compiled_checked_and_listed_and_gone_afterwards(context, queue, tmp_path):
    template = tmp_path / "twice.mako"
    template.write_text(TEMPLATE, encoding="utf-8")
    twice = SplitBarrier(
        "twice", 5, "waits meet twice", str(template), lambda *_: (True, "for a test"), lambda _: ("overlapping",)
    )
    profile = portbar.describe(queue.device)
    before = portbar.choose(profile).split_barrier
    with VARIANTS.registered(twice):
        assert portbar.choose(profile).split_barrier.value == "twice"
        assert usable_strategies(profile)["twice"] == ""
        assert next(iter(ALTERNATIVES["split_barrier"])) == "twice"
        for asked in ("default", "twice"):
            keep(context, queue, asked, replace(TWICE, title=asked, turns=11), (64,))
    assert portbar.choose(profile).split_barrier == before
    assert "twice" not in ALTERNATIVES["split_barrier"]
    with pytest.raises(portbar.UnsupportedFeatureError, match="twice"):
        portbar.Program(context, PRELUDE + RIGHT.source, strategy={"split_barrier": "twice"})
    keep(context, queue, "default", RIGHT, (64,))
