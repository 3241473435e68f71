"""Each collective of each header in each uniform control flow, against what it comes to on the host."""

from __future__ import annotations

import os

import numpy as np
import pytest

import portbar
from tests.device_barrier.control_flow_support import (
    FAMILIES,
    LOCAL,
    NONE,
    Case,
    N,
    all_cases,
    every_sixth,
    received,
    some_cases,
    source,
)
from tests.rows import runs_part
from tests.support import filled, skipped_where_refused, uints

pytestmark = pytest.mark.device

#: Kernels in a program: more take long where a compiler goes through all of them for each.
TOGETHER = 12
SEED = 20261122
#: Set it to anything to have each collective in each nest, which takes minutes where each kernel is compiled for long.
EVERY_NEST = "PORTBAR_TEST_EVERY_NEST"


def run(queue, cases: list[Case], family: str, strategy=None, launches: int = 1) -> list[str]:
    """Return the faults of the cases of a family in some launches of each, a line each."""
    wanted = [case for case in cases if case.family == family]
    failures = []
    for first in range(0, len(wanted), TOGETHER):
        part = [Case(c.family, c.call, c.flow, number) for number, c in enumerate(wanted[first : first + TOGETHER])]
        with skipped_where_refused():
            made = portbar.Program(
                queue.context, source(part), strategy=strategy, reductions=FAMILIES[family].loops, spin_limit=5.0
            )
        for case in part:
            said = next(filter(None, (wrong(queue, made, case) for _ in range(launches))), "")
            if said:
                failures.append(f"{case.name}: {said}")
    return failures


def wrong(queue, made: portbar.Program, case: Case) -> str:
    """Return the fault of one case; empty if none."""
    family = FAMILIES[case.family]
    kernel = made.kernel(f"case{case.number}")
    out, ones, board = filled(queue, 256 * LOCAL, 7), filled(queue, 512), filled(queue, 256 * LOCAL)
    x = filled(queue, 256 * LOCAL, 1)
    locks = [filled(queue, 4), filled(queue, 4)] if case.family == "locks" else []
    size = (2 * LOCAL,) if family.groups is None else (family.groups * LOCAL,)
    args = (*locks, out, ones, board, x, np.uint32(N), np.uint32(NONE))
    try:
        launch = kernel(queue, size, (LOCAL,), *args)
        launch.wait()
    except portbar.Error as error:
        return f"{type(error).__name__}: {error}"
    groups = launch.num_groups if family.groups is None else family.groups
    expected = case.results(groups)
    found = uints(queue, out)[: groups * LOCAL].tolist()
    taken = uints(queue, ones)
    if found != expected:
        return f"{found} in place of {expected}"
    if taken[:groups].tolist() != [case.ones()] * groups or taken[64:].any():
        return f"one work-item's part ran {taken[:groups].tolist()} times in place of {case.ones()}, {taken[64:].sum()} wrongly"
    kept = uints(queue, board)
    times = expected[0]
    if case.family == "gangs" and kept[0] != times * received(case.call, groups):
        return f"the receiver holds {kept[0]} in place of {times} times {received(case.call, groups)}"
    if case.family == "locks" and kept[:2].tolist() != [times * groups, 0]:
        return f"{kept[:2].tolist()} turns with the lock, and without, in place of {times * groups}"
    return ""


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("family", FAMILIES)
def test_collectives_are_right_in_uniform_control_flow(queue, family):
    """Each nest with five collectives, others for the next one; a row that repeats another's tests takes fewer."""
    cases = some_cases(SEED) if runs_part() else every_sixth()
    if os.environ.get(EVERY_NEST):
        cases = all_cases()
    failures = run(queue, cases, family)
    assert not failures, f"seed {SEED}:\n" + "\n".join(failures)
