"""An algorithm of a program's own: a module and a template, outside the package, used like those within."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pyopencl as cl
import pytest

import portbar
from portbar.choices.strategy import ALTERNATIVES, DeviceProfile, choose
from portbar.device.facts import DeviceFacts
from portbar.errors import UnsupportedFeatureError
from portbar.primitives import layout
from portbar.primitives.grid import BARRIERS, DISCOVERIES, PUBLISHED_WORDS, BarrierAlgorithm, Discovery, bounded
from portbar.primitives.headers import render_header
from portbar.primitives.strategy import Choice, Strategy
from portbar.survey.measuring.barrier import time_barriers
from portbar.survey.measuring.barrier_table import barrier_table
from tests import support
from tests.device_barrier.support import check_chain
from tests.device_barrier.test_device_barrier import FORMS

KNOCK = """
<%def name="prepare()">
    portbar_word_store(state + PORTBAR_STATE_KNOCKS, 0u);
</%def>
<%def name="device_barrier()">
/* By one counter, counted up by compare-and-exchange. */
static inline bool portbar_device_barrier(portbar_grid *grid)
{
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
    if (PORTBAR_LEADER(grid) && grid->shared[PORTBAR_SHARED_OK] != 0u) {
        volatile global uint *knocks = grid->state + PORTBAR_STATE_KNOCKS;
        const uint target = grid->shared[PORTBAR_SHARED_TARGET] + grid->num_groups;
        grid->shared[PORTBAR_SHARED_TARGET] = target;
        uint before = ${guess}u, found;
        while ((found = portbar_word_compare_exchange(knocks, before, before + 1u)) != before)
            before = found;
        if (!portbar_wait_counted(grid, knocks, target, knocks, target))
            PORTBAR_GIVE_UP(grid);
    }
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
    return grid->shared[PORTBAR_SHARED_OK] != 0u;
}
</%def>
"""

LATCH = """
<%def name="lock()">
/* A lock by compare-and-exchange; false when `limit` rounds of polls did not suffice. */
static inline bool portbar_discovery_lock(volatile global uint *state, uint limit)
{
    for (uint round = 0; round < limit; ++round) {
        for (uint i = 0; i < PORTBAR_POLLS; ++i)
            if (portbar_word_compare_exchange(state + PORTBAR_STATE_LATCH, 0u, 1u) == 0u)
                return true;
        portbar_yield(round);
    }
    return false;
}

/* Opens it. */
static inline void portbar_discovery_unlock(volatile global uint *state)
{
    portbar_word_store_release(state + PORTBAR_STATE_LATCH, 0u);
}
</%def>
"""


@contextmanager
def outside(folder: Path) -> Iterator[None]:
    knock, latch = folder / "knock.mako", folder / "latch.mako"
    knock.write_text(KNOCK, encoding="utf-8")
    latch.write_text(LATCH, encoding="utf-8")
    knocking = BarrierAlgorithm(
        "knock",
        99,
        "one counter, counted up by compare-and-exchange",
        words=(("KNOCKS",),),
        lacks=lambda facts: "nobody knocks there" if facts.name == "Deaf" else None,
        pieces=lambda _: [(str(knock), "device_barrier")],
        context=lambda _: {"guess": 0},
        prepare=lambda _: (str(knock), "prepare"),
    )
    latched = Discovery(
        "latch",
        99,
        "the published protocol under a latch",
        words=(PUBLISHED_WORDS, ("LATCH",)),
        pieces=lambda _: [(str(latch), "lock"), ("discovery/published.mako", "discover")],
    )
    before = {name: tuple(ALTERNATIVES[name]) for name in ("device_barrier", "discovery")}
    with BARRIERS.registered(knocking), DISCOVERIES.registered(latched):
        yield
    assert {name: tuple(ALTERNATIVES[name]) for name in before} == before


@pytest.fixture
def _outside(tmp_path: Path) -> Iterator[None]:
    with outside(tmp_path):
        yield


@pytest.mark.usefixtures("_outside")
def test_a_registered_variant_is_in_the_tables() -> None:
    deaf = DeviceFacts(name="Deaf", type=("CPU",), opencl_c_versions=("3.0",), version="OpenCL 2.0")
    with pytest.raises(UnsupportedFeatureError, match="knock was requested, but nobody knocks there"):
        choose(DeviceProfile(deaf), {"device_barrier": "knock"})
    assert tuple(ALTERNATIVES["device_barrier"])[-1] == "knock"
    assert bounded()[-1] == "knock"
    assert tuple(ALTERNATIVES["discovery"])[-1] == "latch"
    words = [layout.OFFSETS[name] // layout.LINE_WORDS for name in ("FLAG", "KNOCKS", "LATCH", "SLOTS")]
    assert words == sorted(set(words))


@pytest.mark.device
@pytest.mark.usefixtures("_outside")
@pytest.mark.parametrize(("algorithm", "discovery"), [("knock", "packed"), ("counter", "latch"), ("knock", "latch")])
def test_a_registered_variant_meets_as_the_others_do(context, queue, algorithm, discovery) -> None:
    with support.skipped_where_refused():
        program = portbar.Program(
            context, FORMS, strategy={"device_barrier": algorithm, "discovery": discovery}, spin_limit=20.0
        )
    for name in ("chain", "split_chain"):
        check_chain(program.kernel(name), queue, (8,), 6)


@pytest.mark.usefixtures("_outside")
def test_another_variant_of_the_same_name_is_rendered_anew() -> None:
    strategy = Strategy(Choice("c11", ""), Choice("packed", ""), Choice("again", ""))
    for guess in (0, 7):
        again = replace(BARRIERS["knock"], name="again", context=lambda _, guess=guess: {"guess": guess})
        with BARRIERS.registered(again):
            assert f"before = {guess}u" in render_header("device_barrier", strategy)


@pytest.mark.device
def test_programs_meet_whatever_is_registered_meanwhile(context, queue, tmp_path) -> None:
    def made() -> portbar.Kernel:
        return portbar.Program(context, FORMS, strategy={"device_barrier": "counter"}, spin_limit=20.0).kernel("chain")

    before = made()
    with outside(tmp_path):
        during = made()
        for kernel in (before, during):
            check_chain(kernel, queue, (8,), 6)
    for kernel in (before, during, made()):
        check_chain(kernel, cl.CommandQueue(context), (8,), 6)


@pytest.mark.device
@pytest.mark.usefixtures("_outside")
def test_a_registered_algorithm_is_timed_as_the_others_are(queue, findings) -> None:
    rows = list(time_barriers(queue, ["counter", "knock"], group_counts=[1, 2], local_sizes=[4], budget_s=30))
    assert {row["algorithm"] for row in rows} == {"counter", "knock"}
    assert any("value" in row["barrier_time"] for row in rows if row["algorithm"] == "knock")
    assert all(entry[2] in {"counter", "knock"} for entry in barrier_table(rows))
