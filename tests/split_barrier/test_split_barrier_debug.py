"""Promises of debug builds: each misuse of a split barrier is caught, kept and printed, and right programs show no fault.

That right programs show none is also what the mode `debug` of the other tests of the split barrier is for.
"""

from __future__ import annotations

import functools
import re
import subprocess
import sys
from dataclasses import dataclass

import pytest

import portbar
from portbar.device import quirks
from portbar.device.facts import facts
from tests.checkout import ROOT, environment
from tests.split_barrier.support import OVERLAPPING, PRELUDE
from tests.support import filled, skipped_where_refused, uints

pytestmark = pytest.mark.device

OVER_EXPECTED, COMPLETED, STALE_TOKEN, INVALID, NOT_COMPLETE = range(1, 6)


@dataclass(frozen=True)
class Misuse:
    """An error of a kernel, and its fault."""

    title: str
    fault: int
    statements: str
    uniform_only: bool = False


INVALIDATE = "if (i == 0u) portbar_split_barrier_invalidate(&b); barrier(CLK_LOCAL_MEM_FENCE);"
OLD = "const portbar_arrival_token old = portbar_split_barrier_arrive(&b); portbar_split_barrier_wait(&b, old);"
#: Sets the memory of the barrier.
FILL = "for (uint k = i; k < sizeof(b) / 4u; k += n) ((local uint *)&b)[k] = {0}; barrier(CLK_LOCAL_MEM_FENCE);"

MISUSES = [
    Misuse("too many at once", OVER_EXPECTED, "if (i == 0u) portbar_split_barrier_arrive_count(&b, n + 1u);"),
    Misuse("one too many", OVER_EXPECTED, """
        if (i == 0u) { portbar_split_barrier_arrive_no_complete(&b, n - 1u); portbar_split_barrier_arrive_count(&b, 2u); }"""),
    Misuse("no_complete that completes", COMPLETED, "if (i == 0u) portbar_split_barrier_arrive_no_complete(&b, n);"),
    Misuse("drop_no_complete that completes", COMPLETED, """
        if (i == 0u) portbar_split_barrier_arrive_count(&b, n - 2u);
        barrier(CLK_LOCAL_MEM_FENCE);
        if (i == 0u) portbar_split_barrier_arrive_and_drop_no_complete(&b, 2u);"""),
    Misuse("test_wait with a token of two phases ago", STALE_TOKEN, OLD + """
        portbar_split_barrier_arrive_and_wait(&b); portbar_split_barrier_test_wait(&b, old);"""),
    Misuse("wait with a token of three phases ago", STALE_TOKEN, OLD + """
        portbar_split_barrier_arrive_and_wait(&b); portbar_split_barrier_arrive_and_wait(&b);
        portbar_split_barrier_wait(&b, old);"""),
    Misuse("arrive after invalidate", INVALID, INVALIDATE + "if (i == 1u) portbar_split_barrier_arrive(&b);"),
    Misuse(
        "test_wait_parity after invalidate", INVALID,
        INVALIDATE + "if (i == 1u) portbar_split_barrier_test_wait_parity(&b, 0u);"),
    Misuse("invalidate twice", INVALID, """
        if (i == 0u) { portbar_split_barrier_invalidate(&b); portbar_split_barrier_invalidate(&b); }"""),
    Misuse(
        "arrive_copy_async before initialize", INVALID,
        FILL.format("0u") + "if (i == 1u) portbar_split_barrier_arrive_copy_async(&b);"),
    Misuse(
        "arrive before initialize, where the memory holds something", INVALID,
        FILL.format("0xdeadbeefu") + "if (i == 1u) portbar_split_barrier_arrive(&b);"),
    Misuse("all wait, one has not arrived", NOT_COMPLETE, """
        const portbar_arrival_token t = i == 0u ? 0 : portbar_split_barrier_arrive(&b);
        const bool complete = portbar_split_barrier_wait(&b, t); if (complete) bad[place()] = 77u;""", uniform_only=True),
    Misuse(
        "all wait for a parity, nobody has arrived", NOT_COMPLETE,
        "if (portbar_split_barrier_wait_parity(&b, 0u)) bad[place()] = 77u;", uniform_only=True),
]  # fmt: skip

KERNEL = r"""
kernel void misuse(global uint *bad, global uint *faults)
{
    BEGIN;
    local portbar_split_barrier b;
    INITIALIZE(b, n);
    bad[place()] = wrong;
    STATEMENTS
    barrier(CLK_LOCAL_MEM_FENCE);
    faults[place()] = portbar_split_barrier_fault(&b);
}
"""

RIGHT = Misuse("nothing wrong", 0, """
    portbar_arrival_token t;
    if (i == 0u) { portbar_split_barrier_arrive_copy_async(&b); t = portbar_split_barrier_arrive_count(&b, 1u); }
    else t = i == 1u ? portbar_split_barrier_arrive_and_drop(&b) : portbar_split_barrier_arrive(&b);
    if (!portbar_split_barrier_wait(&b, t)) bad[place()] = 77u;
    if (i == 0u) portbar_split_barrier_arrive_no_complete(&b, 2u);
    else if (i == 2u) portbar_split_barrier_arrive_and_drop_no_complete(&b, 1u);
    barrier(CLK_LOCAL_MEM_FENCE);
    if (i == 3u) portbar_split_barrier_arrive_copy_async_no_inc(&b);
    else if (i > 4u) portbar_split_barrier_arrive(&b);
    if (!portbar_split_barrier_wait_parity(&b, 1u)) bad[place()] = 77u;""")  # fmt: skip

SEVERAL = Misuse("two faults, of which the first is kept", COMPLETED, """
    if (i == 0u) portbar_split_barrier_arrive_no_complete(&b, n);
    if (i == 0u) portbar_split_barrier_arrive_count(&b, n + 1u);""")  # fmt: skip

LOCAL, GROUPS = 8, 2


def source_of(misuse: Misuse) -> str:
    return PRELUDE + KERNEL.replace("STATEMENTS", misuse.statements)


def build(context, misuse, mode, *, debug=True):
    strategy = {} if mode == "default" else {"split_barrier": mode}
    with skipped_where_refused():
        made = portbar.Program(context, source_of(misuse), strategy=strategy, require=(OVERLAPPING,), debug=debug)
    chosen = made.strategy(context.devices[0]).split_barrier.value
    if misuse.uniform_only and chosen != "uniform":
        pytest.skip(f"{chosen} waits until its limit for a phase that cannot complete")
    return made


def faults_of(queue, made):
    bad, faults = filled(queue, LOCAL * GROUPS, 99), filled(queue, LOCAL * GROUPS, 99)
    made.kernel("misuse")(queue, (LOCAL * GROUPS,), (LOCAL,), bad, faults).wait()
    assert not uints(queue, bad).any(), "a wait returned what it must not"
    return set(uints(queue, faults).tolist())


@pytest.mark.parametrize("mode", ["default", "counter", "uniform"])
@pytest.mark.parametrize("misuse", [*MISUSES, SEVERAL, RIGHT], ids=lambda misuse: misuse.title)
def test_a_debug_build_keeps_the_first_fault(context, queue, mode, misuse):
    assert faults_of(queue, build(context, misuse, mode)) == {misuse.fault}


@pytest.mark.parametrize("misuse", MISUSES[:2], ids=lambda misuse: misuse.title)
def test_other_builds_find_no_faults(context, queue, misuse):
    if portbar.choose(portbar.describe(queue.device)).split_barrier.value == "mbarrier":
        pytest.skip("what the hardware does with too many arrivals is undefined: it ends the kernel on an H200")
    assert faults_of(queue, build(context, misuse, "default", debug=False)) == {0}


def test_a_device_with_mbarrier_counts_in_software_in_a_debug_build(context, queue):
    made = build(context, MISUSES[0], "default")
    assert made.strategy(queue.device).split_barrier.value in {"counter", "uniform"}


def test_the_fault_numbers_have_names_in_opencl_c(context, queue):
    names = ("OVER_EXPECTED", "COMPLETED", "STALE_TOKEN", "INVALID", "NOT_COMPLETE")
    lines = "".join(f"out[{k}] = PORTBAR_FAULT_{name};" for k, name in enumerate(names))
    made = portbar.Program(context, PRELUDE + f"kernel void numbers(global uint *out) {{ {lines} }}")
    out = filled(queue, 5, 99)
    made.kernel("numbers")(queue, (1,), (1,), out).wait()
    assert uints(queue, out).tolist() == [1, 2, 3, 4, 5]


#: Runs programs one after another; a line after each marks the end of its output.
CHILD = r"""
import ctypes, os
import numpy as np
import pyopencl as cl
from tests.conftest import chosen_device
from tests.split_barrier import test_split_barrier_debug as tests

device, _ = chosen_device()
context = cl.Context([device])
queue = cl.CommandQueue(context)

def ended(what):
    queue.finish()
    ctypes.CDLL(None).fflush(None)
    os.write(1, f"\nended: {what}\n".encode())

program = cl.Program(context, 'kernel void hello(uint a) { printf("hello %u\\n", a); }').build()
program.hello(queue, (1,), (1,), np.uint32(42)).wait()
ended("printf")
for misuse in [tests.RIGHT, *tests.PRINTED]:
    try:
        program = tests.build(context, misuse, "default")
    except tests.pytest.skip.Exception:
        continue
    faults = tests.faults_of(queue, program)
    assert faults == {misuse.fault}, (misuse.title, faults)
    ended(misuse.title)
"""


@functools.cache
def printed() -> tuple[dict[str, str], str]:
    """The output of each program, by its name, and the child's messages."""
    done = subprocess.run(
        [sys.executable, "-c", CHILD],
        cwd=ROOT,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    *texts, _ = re.split(r"\nended: (.*)\n", done.stdout)
    return dict(zip(texts[1::2], texts[::2], strict=True)), done.stderr


def printed_by(misuse: Misuse) -> str:
    texts, errors = printed()
    assert misuse.title in texts, errors
    return texts[misuse.title]


def skip_where_nothing_is_printed(context):
    if quirks.has_effect(quirks.BRANCHES_ABORT, facts(context.devices[0])):
        pytest.skip("debug builds do not print here: see the quirk pocl-loops-in-branches")
    texts, errors = printed()
    if "hello 42" not in texts.get("printf", ""):
        pytest.skip(f"no printf here: {(errors.strip() or 'nothing was printed').splitlines()[-1]}")


PRINTED = [MISUSES[0], MISUSES[2], MISUSES[4], MISUSES[6], MISUSES[-1]]


@pytest.mark.parametrize("misuse", PRINTED, ids=lambda misuse: misuse.title)
def test_the_fault_is_printed_where_the_runtime_can_print(context, misuse):
    build(context, misuse, "default")
    skip_where_nothing_is_printed(context)
    assert "portbar: split barrier: " in printed_by(misuse)


def test_different_faults_are_printed_in_different_words_and_none_by_a_right_program(context):
    skip_where_nothing_is_printed(context)
    words = set()
    for misuse in PRINTED[:4]:
        words |= {line for line in printed_by(misuse).splitlines() if line.startswith("portbar: split barrier: ")}
    assert len(words) == 4, words
    assert "portbar:" not in printed_by(RIGHT)
