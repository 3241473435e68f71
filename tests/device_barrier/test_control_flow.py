"""Each collective of each header in each uniform control flow, against what it comes to on the host."""

from __future__ import annotations

import os

import numpy as np
import pytest

import portbar
from portbar.primitives.headers import HEADERS
from tests.checkout import ROOT
from tests.device_barrier.control_flow_support import (
    FAMILIES,
    IN_LOOPS_OF_THEIR_OWN,
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
from tests.docs.c_functions import SCAN
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
            text, loops = source(part), FAMILIES[family].loops
            made = portbar.Program(queue.context, text, strategy=strategy, reductions=loops, spin_limit=5.0)
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
    own = [filled(queue, 4), filled(queue, 4)] if case.family == "locks" else []
    if case.family == "worklists":
        frontier = portbar.Frontier(queue, 256 * LOCAL)
        frontier.set([0])
        own = [*frontier.args]
    size = (2 * LOCAL,) if family.groups is None else (family.groups * LOCAL,)
    args = (*own, out, ones, board, x, np.uint32(N), np.uint32(NONE))
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


def test_every_header_with_a_collective_has_a_family():
    collective = {
        name
        for name, header in HEADERS.items()
        if "PORTBAR_CALLED_BY_" in header.with_content((SCAN,) if name == "scan" else None).declared
    }
    held = {family.header for family in FAMILIES.values()}
    assert collective <= held | set(IN_LOOPS_OF_THEIR_OWN), "add a family to control_flow_support.py"
    assert len(collective) > 5
    for name, folder in IN_LOOPS_OF_THEIR_OWN.items():
        assert name in collective - held
        assert (ROOT / folder).is_dir()


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("family", FAMILIES)
def test_collectives_are_right_in_uniform_control_flow(queue, family):
    """Each nest with five collectives, others for the next one; a row that takes a sample of the cases has one for each."""
    cases = some_cases(SEED) if runs_part() else every_sixth()
    if os.environ.get(EVERY_NEST):
        cases = all_cases()
    failures = run(queue, cases, family)
    assert not failures, f"seed {SEED}:\n" + "\n".join(failures)
