"""A primitive of a program's own: a module and a template outside the package, registered by one line, is like those within."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyopencl as cl
import pytest

import portbar
from portbar.primitives import layout
from portbar.primitives.device_barrier import poll_context
from portbar.primitives.fault import Fault
from portbar.primitives.headers import (
    ALL_FAULTS,
    FAULTS,
    HEADERS,
    header_names,
    layout_of,
    render_header,
    whole_headers,
)
from portbar.primitives.pieces import Area, Header, LocalWords, Preparation
from portbar.primitives.strategy import Choice, Strategy
from tests.support import filled, skipped_where_refused, uints

TEMPLATE = """
<%def name="prepare()">
/* Sets the count of calls. */
${once} void portbar_shout_prepare(volatile global uint *words, uint4 launch)
{
    (void)launch;
    portbar_word_store(words, ${first_call}u);
}
</%def>
<%def name="shout()">
/* The value of work-group `from` in all of the grid. Caller: all work-items of all participating work-groups, in uniform
   control flow. Order: that of portbar_device_barrier. Result: valid in every work-item; 0 after a fault. Cost: two device
   barriers. */
static inline uint portbar_shout(portbar_grid *grid, uint x, uint from)
{
    volatile global uint *calls = grid->state + PORTBAR_STATE_SHOUT_CALLS(grid->capacity);
    volatile global uint *said = grid->state + PORTBAR_STATE_SHOUTED(grid->capacity);
    if (PORTBAR_LEADS(grid)) {
        if (from >= grid->num_groups) {
            portbar_report_fault(grid->state, grid->epoch, PORTBAR_STATUS_NOBODY, from, grid->group_id, 0u);
            PORTBAR_GIVE_UP(grid);
        }
        portbar_word_store(said + grid->group_id, x);
        grid->shared[PORTBAR_SHARED_SHOUTS] += 1u;
    }
    const bool met = portbar_device_barrier(grid);
    if (PORTBAR_LEADS(grid)) {
        grid->shared[PORTBAR_SHARED_HEARD] = met ? ${poll}(said + from) : 0u;
        if (grid->group_id == 0u)
            portbar_word_store(calls, ${poll}(calls) + 1u);
    }
    (void)portbar_device_barrier(grid);
    return portbar_device_ok(grid) ? grid->shared[PORTBAR_SHARED_HEARD] : 0u;
}

/* How often this work-group and the grid have called portbar_shout. Caller: any work-item. Cost: two loads. */
static inline uint2 portbar_shouts(const portbar_grid *grid)
{
    return (uint2)(grid->shared[PORTBAR_SHARED_SHOUTS],
                   portbar_word_load(grid->state + PORTBAR_STATE_SHOUT_CALLS(grid->capacity)));
}
</%def>
"""

DECLARED = """\
#define PORTBAR_SHOUT 1
PORTBAR_CALLED_BY_GRID PORTBAR_FALSE_AFTER_FAULT uint portbar_shout(portbar_grid *grid, uint x, uint from);
uint2 portbar_shouts(const portbar_grid *grid);
"""

SOURCE = """
#include "portbar/device_barrier.h"
#include "portbar/shout.h"
kernel void hear(PORTBAR_GRID_PARAM, global uint *heard, const uint from)
{
    PORTBAR_ENTER(grid);
    const uint first = portbar_shout(&grid, 100u + portbar_group_id(&grid), 0u);
    const uint second = portbar_shout(&grid, 200u + portbar_group_id(&grid), from);
    const uint2 shouts = portbar_shouts(&grid);
    if (portbar_global_id(&grid) == 0u)
        heard[3] = shouts.x * 1000u + shouts.y;
    if (portbar_global_id(&grid) + 1u == portbar_global_size(&grid)) {
        heard[0] = first;
        heard[1] = second;
        heard[2] = portbar_num_groups(&grid);
    }
}
"""


def shout(template: Path) -> Header:
    """The module of the primitive: all that it owns."""
    return Header(
        "shout",
        "A broadcast between the work-groups of a grid.",
        lambda _: [(str(template), "shout")],
        poll_context,
        requires=("device_barrier",),
        faults=(
            Fault(
                "NOBODY",
                0,
                "a broadcast from a work-group that takes no part",
                lambda report: f"work-group {report.arrived} should have shouted, and {report.groups} took part.",
                arrived="the work-group that was asked for",
                is_timeout=False,
            ),
        ),
        areas=(Area("SHOUTED", 1, each=1), Area("SHOUT_CALLS", 1)),
        local=(LocalWords("SHOUTS", zero_for="portbar_shouts"), LocalWords("HEARD")),
        preparation=Preparation(
            "portbar_shout_prepare", (str(template), "prepare"), "SHOUT_CALLS", "portbar_shouts", (("first_call", 40),)
        ),
        declared=DECLARED,
    )


@contextmanager
def outside(folder: Path) -> Iterator[Header]:
    template = folder / "shout.mako"
    template.write_text(TEMPLATE, encoding="utf-8")
    before = header_names(), [*FAULTS], layout_of(HEADERS)
    with HEADERS.registered(shout(template)) as made:
        yield made
    assert before == (header_names(), [*FAULTS], layout_of(HEADERS))


@pytest.fixture
def made(tmp_path: Path) -> Iterator[Header]:
    with outside(tmp_path) as header:
        yield header


PLAIN = Strategy(Choice("c11", "test"), Choice("packed", "test"), Choice("counter", "test"))


def test_a_registered_header_is_in_the_tables(made: Header) -> None:
    assert header_names()[-1] == "shout"
    (fault,) = made.faults
    assert fault.status == max(ALL_FAULTS)
    assert FAULTS[fault.status] is fault
    assert f"#define PORTBAR_STATUS_NOBODY {fault.status}u" in render_header("shout", PLAIN)
    assert "portbar_shout(" in whole_headers(["shout"], PLAIN)["shout"]


def test_only_programs_that_include_it_have_its_words(made: Header) -> None:
    grid, own = layout_of(["device_barrier"]), layout_of([made.name])
    for capacity in (64, 1024):
        assert own.words(capacity) == grid.words(capacity) + capacity + layout.LINE_WORDS
    assert own.shared().local_words == grid.shared().local_words + 2
    assert [one.function for one, _ in own.shared().preparations] == ["portbar_shout_prepare"]
    assert "SHOUT" not in render_header("device_barrier", PLAIN)
    # Reductions, which depend on the program, stay the last: hosts in C may leave their words out.
    assert layout_of(HEADERS).owners[-1][0] == "reduction"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"name": "team"}, "there is a header portbar/team.h already"),
        ({"requires": ("whisper",)}, "requires portbar/whisper.h, which is not registered before it"),
        ({"faults": (Fault("TEAM", 0, "", str),)}, "another header has a fault TEAM"),
        ({"faults": (Fault("NOBODY", 21, "", str),)}, "with the number 21"),
    ],
)
def test_a_header_that_does_not_fit_is_refused(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    wrong = Header(**{**vars(shout(tmp_path)), **change})
    with pytest.raises(ValueError, match=message):
        HEADERS.register(wrong)
    assert "shout" not in HEADERS


@pytest.mark.device
def test_the_reader_knows_who_must_call_it(context: cl.Context, made: Header) -> None:
    wrong = SOURCE.replace(
        "const uint2 shouts", "if (get_local_id(0) == 0u) (void)portbar_shout(&grid, 1u, 0u);\n    const uint2 shouts"
    )
    with pytest.raises(portbar.DivergenceError, match="portbar_shout"), skipped_where_refused():
        portbar.Program(context, wrong)
    assert made.declared


@pytest.mark.device
def test_a_registered_header_works_as_those_within(context: cl.Context, queue: cl.CommandQueue, made: Header) -> None:
    """Its words, also those that a launch prepares, its collective, and its fault."""
    with skipped_where_refused():
        program = portbar.Program(context, SOURCE, spin_limit=10.0)
    kernel = program.kernel("hear")
    for _ in range(3):
        heard = filled(queue, 4)
        launch = kernel(queue, None, (8,), heard, np.uint32(0))
        launch.wait()
        assert uints(queue, heard).tolist() == [100, 200, launch.num_groups, 2042]
    nobody = launch.num_groups + 77
    with pytest.raises(portbar.Error, match=f"work-group {nobody} should have shouted"):
        kernel(queue, None, (8,), filled(queue, 4), np.uint32(nobody)).wait()
    assert made.name in {name for name, _, _ in program.states.layout.owners}
