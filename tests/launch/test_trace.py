"""Traces of launches: when work-groups arrive at device barriers and leave them, and what is made of that."""

from __future__ import annotations

import itertools
import json
import re
from dataclasses import replace

import numpy as np
import pyopencl as cl
import pytest

import portbar
from portbar.device.facts import DeviceFacts
from portbar.device.findings import Findings
from portbar.launching.program import _events
from portbar.launching.trace import NEVER, Trace
from portbar.primitives import layout
from portbar.primitives.grid import BARRIERS, DISCOVERIES
from portbar.primitives.headers import render_header, resolve_includes
from portbar.primitives.strategy import Choice, Strategy
from portbar.primitives.tracing import PLACE_WORD, Tracing, tracing_of
from tests import gpu_code, support
from tests.checkout import ROOT
from tests.rows import cover, some

on_device = pytest.mark.device

HEADER = '#include "portbar/device_barrier.h"\n'
MEET = """#include "portbar/device_barrier.h"
kernel void meet(PORTBAR_GRID_PARAM, global uint *out, const uint rounds)
{
    PORTBAR_ENTER(grid);
    for (uint r = 0u; r < rounds; ++r) {
        if (portbar_global_id(&grid) == r % portbar_global_size(&grid))
            out[0] += 1u;
        BARRIER
    }
}
"""
WHOLE = MEET.replace("BARRIER", "if (!portbar_device_barrier(&grid)) return;")
HALVES = MEET.replace(
    "BARRIER",
    """const portbar_device_token token = portbar_device_barrier_arrive(&grid);
        for (bool done = false; r % 2u == 0u && !done; )
            done = portbar_device_barrier_test_wait(&grid, token);
        if (!portbar_device_barrier_wait(&grid, token))
            return;""",
)
#: Time that passed for the last work-item of each group between two barriers, by the clock that traces use.
BETWEEN = """#include "portbar/device_barrier.h"
kernel void between(PORTBAR_GRID_PARAM, global ulong *times)
{
    PORTBAR_ENTER(grid);
    bool held = portbar_device_barrier(&grid);
    if (portbar_local_linear_id() == 0u)
        times[2u * portbar_group_id(&grid)] = portbar_trace_clock();
    if (portbar_local_linear_id() == portbar_local_linear_size() - 1u) {
        for (volatile uint i = 0u; i < 1000u; ++i) { }
        times[2u * portbar_group_id(&grid) + 1u] = portbar_trace_clock();
    }
    held = portbar_device_barrier(&grid) && held;
}
"""
#: Collectives over the grid: how often they were right, each with one barrier.
COLLECTIVES = """#include "portbar/device_barrier.h"
#include "portbar/reduction.h"
kernel void collectives(PORTBAR_GRID_PARAM, global uint *out)
{
    PORTBAR_ENTER(grid);
    PORTBAR_REDUCTION_SCRATCH(scratch);
    const bool first = portbar_global_id(&grid) == 0u;
    const uint size = portbar_global_size(&grid);
    uint right = portbar_device_barrier_any(&grid, first) ? 1u : 0u;
    right += portbar_device_barrier_all(&grid, first) ? 0u : 1u;
    right += portbar_device_barrier_count(&grid, true) == size ? 1u : 0u;
    right += portbar_device_barrier_sum(&grid, 2u) == 2u * size ? 1u : 0u;
    right += portbar_device_reduce_logical_or(&grid, scratch, first ? 1 : 0) ? 1u : 0u;
    if (ADDS)
        right += portbar_device_reduce_add(&grid, scratch, 1u) == size ? 1u : 0u;
    if (first)
        out[0] = right;
}
"""

OFF = Strategy(Choice("c11", "test"), Choice("packed", "test"), Choice("counter", "test"))
ON = replace(OFF, tracing=Tracing("cycle_counter", 5))


def strategies():
    made = list(itertools.product(("c11", "ptx", "cl12"), DISCOVERIES, BARRIERS))
    return [Strategy(*(Choice(value, "test") for value in made[place])) for place in cover(made, 2, "trace")]


@pytest.mark.parametrize("strategy", strategies(), ids=lambda one: one.summary())
def test_a_traced_text_is_the_other_one_with_lines_added_and_nothing_else_changed(strategy):
    traced = replace(strategy, tracing=Tracing("globaltimer", 7))
    for render in (lambda one: render_header("device_barrier", one), lambda one: resolve_includes(WHOLE, one)):
        off, on = render(strategy).splitlines(), iter(render(traced).splitlines())
        assert not any("trac" in line for line in off)
        assert all(line in on for line in off), "a line of the text without a trace is not there, in order, with one"
    assert "PORTBAR_TRACE" in resolve_includes(WHOLE, traced)
    plain = "kernel void k(global uint *a) { a[0] = 1u; }"
    assert resolve_includes(HEADER + plain, traced) == resolve_includes(HEADER + plain, strategy)


@pytest.mark.parametrize("target", gpu_code.TARGETS[:3], ids=lambda one: one.name)
def test_nvidia_programs_read_the_device_s_clock(target, tmp_path):
    strategy = replace(gpu_code.strategy_for(target), tracing=Tracing("globaltimer"))
    assert "%globaltimer" in gpu_code.compiled(target, WHOLE, tmp_path, strategy=strategy)
    gpu_code.assembled(target, tmp_path)


X86 = DeviceFacts(name="Host", type=("CPU",))
KNOWN = Findings(builds={"x86_pause": True})


def test_the_clock_follows_from_what_is_known_of_the_device(monkeypatch):
    nvidia = DeviceFacts(nvidia={"compute_capability_major": 6, "compute_capability_minor": 0})
    assert tracing_of(nvidia, None, 9) == Tracing("globaltimer", 9)
    assert (tracing_of(nvidia, None, 9).unit, Tracing("cycle_counter").unit) == ("ns", "ticks")
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    assert tracing_of(X86, KNOWN, 9) == Tracing("cycle_counter", 9)
    for facts, findings in ((X86, None), (X86, Findings()), (replace(X86, type=("GPU",)), KNOWN)):
        with pytest.raises(portbar.UnsupportedFeatureError, match="Host: trace=True needs a clock") as caught:
            tracing_of(facts, findings, 9)
        assert ("portbar.probe" in str(caught.value)) == (findings is None)
    monkeypatch.setattr("platform.machine", lambda: "aarch64")
    assert tracing_of(X86, Findings(builds={"arm_pause": True}), 9) == Tracing("virtual_counter", 9)
    for machine in ("aarch64", "riscv64"):
        monkeypatch.setattr("platform.machine", lambda machine=machine: machine)
        with pytest.raises(portbar.UnsupportedFeatureError):
            tracing_of(X86, KNOWN, 9)


def test_no_report_is_written_over_the_place_of_the_traces():
    templates = (ROOT / "cl_templates").rglob("*.mako")
    written = {int(word) for path in templates for word in re.findall(r"\breport \+ (\d+)", path.read_text("utf-8"))}
    assert {1, 3, 4} < written
    assert max(written) < PLACE_WORD < layout.REPORT_WORDS


def test_how_many_events_are_kept():
    assert [_events(given) for given in (False, True, 1, np.uint32(7), 1 << 20)] == [0, 256, 1, 7, 1 << 20]
    for wrong in (0, -1, 2.0, "all", None, (1 << 20) + 1):
        with pytest.raises(portbar.Error, match="trace= must be True, or the number"):
            _events(wrong)


BASE = (1 << 40) + 0xFFFF_FF00


def words_of(*groups, epoch=3, events=3):
    """The words that groups leave, each given as (epoch, met, entered, (arrive, leave), ...) after `BASE`."""
    rows = np.zeros((len(groups), Tracing("globaltimer", events).words), np.uint32)
    for row, (at, met, entered, *times) in zip(rows, groups, strict=True):
        row[0], row[1] = at, met
        for place, time in enumerate(np.ravel([entered, *itertools.chain(*times)]).tolist()):
            row[2 + 2 * place : 4 + 2 * place] = (BASE + time) & 0xFFFF_FFFF, (BASE + time) >> 32
    return rows.reshape(-1)


def trace_of(*groups, events=3):
    return Trace.from_words(words_of(*groups, events=events), Tracing("globaltimer", events), 3, ("k", "Device"))


def test_times_are_read_from_words():
    trace = trace_of((3, 2, 50, (150, 400), (500, 900)), (3, 2, 90, (390, 410), (890, 899)))
    assert trace.entered.tolist() == [0, 40]
    assert trace.arrive.tolist() == [[100, 450], [340, 840]]
    assert trace.leave.tolist() == [[350, 850], [360, 849]]
    assert trace.waiting.tolist() == [[250, 400], [20, 9]]
    assert trace.last.tolist() == [1, 1]
    assert (trace.kernel, trace.device, trace.unit, trace.lost.tolist()) == ("k", "Device", "ns", [0, 0])


def test_missing_and_lost_events_are_distinguished_from_recorded_ones():
    trace = trace_of(
        (3, 5, 0, (1, 2), (3, 4), (5, 6)),
        (3, 2, 0, (1, 3), (7, 5)),  # the second wait did not end, and its place holds an older time
        (3, 0, 9, (70, 80)),  # met nothing, so that all is of an older launch
        (2, 3, -900, (1, 2), (3, 4), (5, 6)),  # took no part
    )
    assert trace.lost.tolist() == [2, 0, 0, 0]
    assert trace.entered.tolist() == [0, 0, 9, NEVER]
    assert trace.arrive.tolist() == [[1, 3, 5], [1, 7, NEVER], [NEVER] * 3, [NEVER] * 3]
    assert trace.leave.tolist() == [[2, 4, 6], [3, NEVER, NEVER], [NEVER] * 3, [NEVER] * 3]
    assert trace.waiting.tolist() == [[1, 1, 1], [2, NEVER, NEVER], [NEVER] * 3, [NEVER] * 3]
    assert "2 barriers were not recorded: pass a larger number as trace=" in str(trace)
    assert "no work-group reached a barrier" in str(trace_of((3, 0, 9)))


def test_a_summary_names_who_waited_and_for_whom():
    trace = trace_of((3, 2, 50, (150, 400), (500, 900)), (3, 2, 90, (390, 410), (890, 899)))
    title, _, _, first, second, _, _, *phases = str(trace).splitlines()
    assert title == "kernel 'k' on Device: 2 work-groups, 2 barriers, times in ns"
    assert first.split() == ["0", "650", "76.5%", "400", "1", "0"]
    assert second.split() == ["1", "29", "3.6%", "20", "0", "2"]
    assert [line.split() for line in phases] == [["0", "270", "1", "240"], ["1", "409", "1", "390"]]
    many = trace_of(*[(3, 1, 0, (group, 100)) for group in range(40)])
    assert "the 12 that waited longest, of 40" in str(many)
    assert max(map(len, str(many).splitlines())) <= 80


def test_a_file_for_trace_viewers_has_work_and_waits_of_each_work_group(tmp_path):
    trace = trace_of((3, 2, 0, (100, 400), (500, 900)), (3, 1, 90, (390, 10)))
    trace.save(tmp_path / "trace.json")
    told = json.loads((tmp_path / "trace.json").read_text(encoding="utf-8"))
    spans = [
        (e["tid"], e["name"], e["ts"], e["dur"], e["args"]["phase"]) for e in told["traceEvents"] if e["ph"] == "X"
    ]
    assert spans == [
        (0, "work", 0, 0.1, 0),
        (0, "wait", 0.1, 0.3, 0),
        (0, "work", 0.4, 0.1, 1),
        (0, "wait", 0.5, 0.4, 1),
        (1, "work", 0.09, 0.3, 0),
    ]
    names = [e["args"]["name"] for e in told["traceEvents"] if e["ph"] == "M"]
    assert names == ["k on Device", "work-group 0", "work-group 1"]
    assert told["otherData"] == {"unit": "ns", "lost": 0}


def traced(context, source, *, trace=True, **more):
    """Build a traced program; skip where the device has no clock."""
    with support.skipped_where_refused():
        return portbar.Program(context, source, trace=trace, **more)


def check_order(trace, groups, phases):
    """Check what a barrier promises, by the times of its groups."""
    assert trace.arrive.shape == trace.leave.shape == (groups, phases)
    assert (trace.arrive >= trace.entered[:, None]).all()
    assert trace.entered.min() == 0
    # No group leaves before all have arrived, nor arrives at the next barrier before it has left.
    assert (trace.leave.min(axis=0) >= trace.arrive.max(axis=0)).all()
    assert (trace.arrive[:, 1:] >= trace.leave[:, :-1]).all()


@pytest.fixture
def out(queue):
    return support.to_device(queue, np.zeros(1 << 16, np.uint64))


@pytest.fixture(params=["queue", "loose_queue"], ids=["in order", "out of order"])
def any_queue(request):
    return request.getfixturevalue(request.param)


@on_device
@pytest.mark.parametrize("source", [WHOLE, HALVES], ids=["whole", "halves"])
@pytest.mark.parametrize("algorithm", [name for name, one in BARRIERS.items() if one.bounded])
def test_each_barrier_of_each_group_is_in_the_trace(context, queue, out, algorithm, source):
    made = traced(context, source, strategy={"device_barrier": algorithm}).kernel("meet")
    for local, rounds in some((((1,), 7), ((5,), 30), ((8, 4), 12)), list(BARRIERS).index(algorithm) + len(source)):
        launch = made(queue, None, local, out, np.uint32(rounds))
        launch.wait()
        trace = launch.trace()
        check_order(trace, launch.num_groups, rounds)
        assert not trace.lost.any()
        assert trace.device == queue.device.name.strip()


@on_device
def test_a_group_arrives_when_its_last_work_item_does(context, queue, out):
    made = traced(context, BETWEEN).kernel("between")
    launch = made(queue, None, (16,), out)
    launch.wait()
    times = support.host_array(queue, out, np.uint64)[: 2 * launch.num_groups].reshape(-1, 2)
    trace = launch.trace()
    check_order(trace, launch.num_groups, 2)
    assert (trace.arrive[:, 1] - trace.leave[:, 0] >= (times[:, 1] - times[:, 0]).astype(np.int64)).all()


@on_device
def test_memory_is_bounded_and_the_rest_counted(context, queue, out):
    made = traced(context, WHOLE, trace=4).kernel("meet")
    launch = made(queue, None, (4,), out, np.uint32(10))
    trace = launch.trace()
    check_order(trace, launch.num_groups, 4)
    assert trace.lost.tolist() == [6] * launch.num_groups


@on_device
def test_each_launch_keeps_its_own_trace(context, any_queue, out):
    made = traced(context, WHOLE, trace=8).kernel("meet")
    rounds = [3, 8, 0, 5, 9, 1] * 12
    launches = [made(any_queue, None, (4,), out, np.uint32(count)) for count in rounds]
    for launch, count in zip(launches, rounds, strict=True):
        trace = launch.trace()
        check_order(trace, launch.num_groups, min(count, 8)) if count else None
        assert trace.lost.max() == max(count - 8, 0)
        assert trace.arrive.shape[1] == min(count, 8)
    assert launches[0].trace().arrive.tolist() == launches[0].trace().arrive.tolist()


@on_device
def test_a_launch_that_waits_for_events_gives_its_place_to_the_next_and_says_so(context, any_queue, out):
    made = traced(context, WHOLE).kernel("meet")
    made.occupancy(any_queue, (4,))
    gate = cl.UserEvent(context)
    first = made(any_queue, None, (4,), out, np.uint32(2), wait_for=[gate])
    second = made(any_queue, None, (4,), out, np.uint32(3))
    third = made(any_queue, None, (4,), out, np.uint32(4))
    gate.set_status(cl.command_execution_status.COMPLETE)
    third.wait()
    with pytest.raises(portbar.Error, match="the trace was overwritten"):
        first.trace()
    if not any_queue.properties & cl.command_queue_properties.OUT_OF_ORDER_EXEC_MODE_ENABLE:
        check_order(second.trace(), second.num_groups, 3)
    check_order(third.trace(), third.num_groups, 4)
    fourth = made(any_queue, None, (4,), out, np.uint32(5))
    check_order(fourth.trace(), fourth.num_groups, 5)
    assert third.trace().arrive.shape[1] == 4


@on_device
def test_surplus_groups_are_not_in_the_trace(context, queue, out):
    made = traced(context, WHOLE).kernel("meet")
    launch = made(queue, (4 * 200,), (4,), out, np.uint32(3))
    launch.wait()
    assert launch.groups == 200
    check_order(launch.trace(), launch.num_groups, 3)


@on_device
def test_a_barrier_that_gave_up_shows_who_was_missing(context, queue, out):
    source = WHOLE.replace("r < rounds;", "r < rounds + PORTBAR_UNIFORM(portbar_group_id(&grid) != 1u);")
    made = traced(context, source, spin_limit=0.2).kernel("meet")
    if made.occupancy(queue, (4,)).groups < 2:
        pytest.skip("the device runs one work-group at once, which waits for no other")
    launch = made(queue, None, (4,), out, np.uint32(2))
    with pytest.raises(portbar.BarrierTimeoutError):
        launch.wait()
    trace = launch.trace()
    assert trace.arrive.shape == (launch.num_groups, 3)
    assert [group for group in range(launch.num_groups) if trace.arrive[group, 2] == NEVER] == [1]
    assert (trace.waiting[[0], 2] > 0).all()


@on_device
@pytest.mark.parametrize("adds", [0, 1])
def test_votes_and_reductions_over_the_grid_are_in_the_trace(context, queue, out, adds):
    """Votes and a reduction of truth values have one barrier each, a sum as many as its algorithm takes."""
    launch = traced(context, COLLECTIVES.replace("ADDS", str(adds))).kernel("collectives")(queue, None, (8,), out)
    launch.wait()
    assert support.uints(queue, out)[0] == 5 + adds
    trace = launch.trace()
    phases = trace.arrive.shape[1]
    assert phases > 5 if adds else phases == 5
    check_order(trace, launch.num_groups, phases)


@on_device
def test_without_a_trace_there_is_an_error_that_says_how_to_get_one(context, queue, out):
    untraced = portbar.Program(context, WHOLE).kernel("meet")(queue, None, (4,), out, np.uint32(1))
    plain = HEADER + "kernel void plain(global ulong *out) { out[0] = 1ul; }"
    ungridded = traced(context, plain).kernel("plain")(queue, (1,), (1,), out)
    for launch in (untraced, ungridded):
        with pytest.raises(portbar.Error, match="has no trace: build its program with trace=True"):
            launch.trace()


@on_device
def test_a_device_without_a_clock_is_refused_before_the_build(context, device, findings):
    try:
        tracing_of(portbar.describe(device).facts, findings, 1)
    except portbar.UnsupportedFeatureError:
        with pytest.raises(portbar.UnsupportedFeatureError, match="trace=True needs a clock"):
            portbar.Program(context, "this is not OpenCL C", trace=True)
    else:
        pytest.skip("the device has a clock")
