"""Programs with known results: each is right on a device, and each can be wrong."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pyopencl as cl
import pytest

from portbar.errors import UnsupportedFeatureError
from portbar.primitives.headers import HEADERS
from portbar.survey.answers import arrays, meeting, reducing, sharing, tasks
from portbar.survey.answers.program import Compared, Desk, faults
from portbar.survey.answers.table import ANSWERS

#: Program -> a module, a text of it, a part of that, and the part in its place that makes the answer wrong.
BROKEN = {
    "atomics": (sharing, "ATOMICS", "fetch_max_explicit", "fetch_min_explicit"),
    "ordered atomics": (sharing, "ORDERED", "all * 5u", "all * 7u"),
    "device barrier": (meeting, "SHIFT", "b[next] + 1u", "b[me] + 1u"),
    "votes": (meeting, "VOTE", "barrier_any(&grid, x >= below)", "barrier_any(&grid, x < below)"),
    "split barrier": (meeting, "SPLIT", "[(i + 1u) % all]", "[i]"),
    "reduction of lanes": (reducing, "WITHIN", "mine.most = a[i]", "mine.most = 1"),
    "reduction of sub-groups": (reducing, "WITHIN", "mine.sum = a[i]", "mine.sum = 1"),
    "reduction of a work-group": (reducing, "WITHIN", "mine.most = a[i]", "mine.most = -a[i]"),
    "reduction of work-groups": (reducing, "GANG", "mine.sum += a[i]", "mine.sum = a[i]"),
    "reduction of a grid": (reducing, "GRID", "scan_inclusive_add", "scan_exclusive_add"),
    "scan of work-groups": (reducing, "SCAN", "rank_inclusive", "rank_exclusive"),
    "spin lock": (sharing, "LOCKS", "a[get_group_id(0)]", "1000u"),
    "ticket lock": (sharing, "LOCKS", "*length += 1u", "*length += 0u"),
    "signal": (meeting, "RELAY", "3u * a[", "2u * a["),
    "team": (meeting, "TEAMS", "team_reduce_add", "team_reduce_max"),
    "frontier": (tasks, "SEARCH", "depths[child] = depth;", "depths[child] = 1u;"),
    "task queue": (tasks, "WALK", "values[child] += values[vertex]", "values[child] = values[vertex]"),
    "task graph": (tasks, "SWEEP", "y > 0u", "y > 1u"),
    "recorded launches": (arrays, "SMOOTH", "factor * from", "2u * from"),
    "kernels run by a kernel": (arrays, "DRIVER", "b, a, 5u", "b, a, 6u"),
}


def breaking(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the device's answer of a program wrong."""
    if name in BROKEN:
        module, text, part, by = BROKEN[name]
        before = getattr(module, text)
        assert part in before
        monkeypatch.setattr(module, text, before.replace(part, by))
        return
    function = getattr(arrays, name)
    others: dict[str, Any] = {
        "reduce": lambda queue, x, *more, **named: function(queue, x + 1, *more, **named),
        "scan": lambda queue, x, *more, **named: function(queue, x + 1, *more, **named),
        "sort": lambda queue, x, *more: function(queue, x, *more, descending=True),
    }
    monkeypatch.setattr(arrays, name, others[name])


def results(name: str, queue: cl.CommandQueue, seed: int = 1) -> tuple[list[str], int | None]:
    """The faults of a program's results, and the work-groups of its grid; skips where portbar refuses it."""
    desk = Desk(queue, np.random.default_rng(seed))
    try:
        return faults(list(ANSWERS[name].run(desk))), desk.groups
    except UnsupportedFeatureError as error:
        pytest.skip(f"portbar refuses it: {error}")


def test_every_header_and_call_on_arrays_has_a_program() -> None:
    folder = Path(meeting.__file__).parent
    text = "".join(path.read_text(encoding="utf-8") for path in sorted(folder.glob("*.py")))
    assert set(re.findall(r'#include "portbar/(\w+)\.h"', text)) == set(HEADERS)
    assert {"reduce", "scan", "sort", "recorded launches"} <= set(ANSWERS)
    assert set(ANSWERS) == {*BROKEN, "reduce", "scan", "sort"}


@pytest.mark.parametrize("dtype", [np.uint32, np.int32, np.float32, np.float64])
@pytest.mark.parametrize("tolerance", [0.0, 1e-5])
@pytest.mark.parametrize("shape", [(), (1,), (7,), (3, 5)])
def test_one_wrong_value_is_found_wherever_it_is(dtype: Any, tolerance: float, shape: tuple[int, ...]) -> None:
    expected = np.random.default_rng(2).integers(1, 1000, shape).astype(dtype)
    assert not Compared("it", expected.copy(), expected, tolerance).fault
    for at in np.ndindex(shape):
        got = expected.copy()
        got[at] += 1
        fault = Compared("it", got, expected, tolerance).fault
        assert fault.startswith(
            f"it: 1 of {got.size} values are wrong, the first at {np.ravel_multi_index(at, shape) if shape else 0}: "
        )


def test_arrays_of_other_sizes_and_no_numbers_are_wrong() -> None:
    assert Compared("it", np.zeros(3), np.zeros(4)).fault == "it: (3,) values in place of (4,)"
    assert Compared("it", np.array([np.nan]), np.array([1.0]), 1e-5).fault
    assert (
        Compared("it", np.zeros(2), np.ones(2)).fault
        == "it: 2 of 2 values are wrong, the first at 0: 0.0 in place of 1.0"
    )


@pytest.mark.device
@pytest.mark.parametrize("name", ANSWERS)
def test_a_program_is_right(queue: cl.CommandQueue, name: str) -> None:
    for seed in (1, 2):
        assert results(name, queue, seed)[0] == []


@pytest.mark.few
@pytest.mark.device
@pytest.mark.parametrize("name", ANSWERS)
def test_a_program_can_be_wrong(queue: cl.CommandQueue, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    breaking(name, monkeypatch)
    wrong, groups = results(name, queue)
    if ANSWERS[name].several and groups == 1:
        pytest.skip(f"the device runs one work-group at a time: {ANSWERS[name].several}")
    assert wrong
    assert all(re.search(r": \d+ of \d+ values are wrong, the first at \d+: ", one) for one in wrong)
