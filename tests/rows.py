"""The tests of each row of `tests.runtimes`: its share of the tests, and samples where a function has many cases.

The runner hands a share's marks to pytest and names its sample in `PORTBAR_TEST_SAMPLE`; without that variable
nothing is left out. Files get their marks here, so that one page says what runs where.
"""

from __future__ import annotations

import os
import random
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatch
from itertools import combinations
from typing import TypeVar

import pytest

T = TypeVar("T")

SEED = 20261122
SAMPLE_VARIABLE = "PORTBAR_TEST_SAMPLE"

#: Values that the row with all cases may lack: a sample keeps every case that has one.
RARE = frozenset({"half"})

#: Marks by file. A row with another number of threads runs `concurrency` only; `product` files are sampled.
FILES = {
    "concurrency": (
        "test_atomics_wait.py",
        "test_device_barrier.py",
        "test_discovery.py",
        "test_grid_loops.py",
        "test_launch.py",
        "test_litmus.py",
        "test_lock.py",
        "test_order.py",
        "test_overwritten_state.py",
        "test_probing.py",
        "test_reduction_bad_input.py",
        "test_reduction_device.py",
        "test_reduction_faults.py",
        "test_reduction_locks.py",
        "test_reduction_uneven.py",
        "test_residency.py",
        "test_runtimes.py",
        "test_scan.py",
        "test_signal.py",
        "test_sizes.py",
        "test_sort.py",
        "test_split_barrier*.py",
        "test_state.py",
        "test_team.py",
        "test_timeout.py",
        "test_trace.py",
        "test_votes.py",
        "test_worklist.py",
        "test_task_graph.py",
    ),
    "product": (
        "test_atomics_operations.py",
        "test_atomics_rules.py",
        "test_atomics_values.py",
        "test_compact.py",
        "test_device_scan.py",
        "test_reduction_[!u]*.py",
        "test_scan*.py",
        "test_segments.py",
        "test_sort.py",
        "test_split_barrier*.py",
        "test_votes.py",
    ),
    "once": ("test_barrier_times.py", "test_benchmarks*.py", "test_soak.py"),
    "few": (
        "test_*docs.py",
        "test_c_host.py",
        "test_cli*.py",
        "test_cluster*.py",
        "test_examples.py",
        "test_pytest_plugin.py",
        "test_survey_check.py",
        "test_survey_steps.py",
        "test_tutorials.py",
    ),
}


#: Sample -> what it takes of a function's cases.
SAMPLES = {
    "": "all",
    "pairs": "of products a sample of pairs",
    "values": "of products what has each value of those pairs",
    "one half": "every second case, of products every second of a sample of values",
    "other half": "what the first half leaves out",
    "some values": "a third of a sample of values",
}

#: Samples that share the cases of a loop, each with the part that `some` gives it.
THIRDS = {"pairs": 0, "one half": 1, "other half": 2}

#: Samples of every second case, each with its first.
HALVES = {"one half": 0, "other half": 1}


@dataclass(frozen=True)
class Share:
    """The tests of a row: `marks` selects them, `sample` says what is sampled of them, `proves` what they show."""

    rows: str
    marks: str
    proves: str
    sample: str = ""
    #: How long a row took on two cores of a slow server, with nothing kept from earlier runs.
    seconds: int = 0


_SAMPLE = Share(
    "Intel's CPU runtime",
    "device and not once and not few",
    "the promises of every primitive on this compiler",
    "one half",
    seconds=1000,
)

#: Rows begin in this order: the longest first, then those of other numbers of threads, one by one as soon as they may run; the
#: short ones fill the end.
SHARES = {
    "first": Share(
        "the first PoCL with 2 threads, or what works in its place",
        "device",
        "every device test, benchmarks, examples, surveys and the programs of the documentation",
        "pairs",
        seconds=1840,
    ),
    "alone": Share(
        "the same where Intel's CPU runtime or rusticl is missing", "device", "every device test with all its cases"
    ),
    "host": Share(
        "host",
        "not device",
        "all that needs no OpenCL: rendering, records, reports, command line, documents",
        seconds=1510,
    ),
    "whole": Share("GPUs", "device and not once", "every device test but benchmarks"),
    "sample": _SAMPLE,
    "second": Share(
        "rusticl",
        "device and not once",
        "every device test but benchmarks, on a compiler that shares no code with PoCL's work-group functions",
        "other half",
        seconds=900,
    ),
    "threads": Share(
        "PoCL x1 and x8, Oclgrind x2",
        "device and concurrency",
        "what depends on how many work-groups run at once: barriers, discovery, timeouts, locks, litmus tests, gangs",
        "values",
        seconds=190,
    ),
    "simulator": replace(_SAMPLE, rows="Oclgrind x1", sample="some values", seconds=330),
    "relative": Share(
        "PoCL's wheel, PoCL with `cbs`",
        "device and not slow and not once and not few",
        "the promises that are quick to check, on a relative of the first row's compiler",
        "some values",
        seconds=450,
    ),
    "quick host": Share(
        "host without `--all`",
        "not device and not slow",
        "what the host row proves, without what takes long",
        seconds=480,
    ),
    "quick": Share(
        "each runtime without `--all`, of several PoCLs the first that works",
        "device and not slow and not once and not few",
        "the promises that are quick to check",
        "some values",
        seconds=460,
    ),
}


def table() -> list[str]:
    """Return the rows as a table in Markdown."""
    lines = ["| rows | tests | cases | what passes there proves |", "| --- | --- | --- | --- |"]
    lines += [
        f"| {share.rows} | `{share.marks}` | {SAMPLES[share.sample]} | {share.proves} |" for share in SHARES.values()
    ]
    return lines


def marks_of(file: str) -> Iterator[str]:
    """Yield the marks of all tests in a file."""
    return (mark for mark, patterns in FILES.items() if any(fnmatch(file, pattern) for pattern in patterns))


def cover(cases: Sequence[Sequence[str]], strength: int, seed: str, chosen: Iterable[int] = ()) -> list[int]:
    """Return places of cases that have, between them, each combination of `strength` values that any case has.

    Those `chosen` are among them. Of cases with one value each, where that would be all, every second one is taken.
    """
    order, chosen = list(range(len(cases))), list(chosen)
    random.Random(seed).shuffle(order)  # noqa: S311 (a sample, no secret)
    if max(map(len, cases)) <= 1:
        return sorted(chosen or order[: (len(order) + 1) // 2])
    held = [set(combinations(enumerate(values), min(strength, len(values)))) for values in cases]
    missing = set().union(*held).difference(*(held[place] for place in chosen))
    while missing:
        best = max(order, key=lambda place: len(held[place] & missing))
        missing -= held[best]
        chosen.append(best)
    return sorted(chosen)


def values_of(item: pytest.Item) -> list[str]:
    """Return a test's parameters as its id names them, one for each `parametrize`; a single one is often made of several."""
    names = ids_of(item)
    return names if len(names) != 1 else item.callspec.id.split("-")


def ids_of(item: pytest.Item) -> list[str]:
    """Return the parts of a test's id, one for each `parametrize`."""
    return list(getattr(getattr(item, "callspec", None), "_idlist", ()))


def sampled(items: Iterable[pytest.Item], sample: str) -> tuple[list[pytest.Item], list[pytest.Item]]:
    """Part the tests in those that a sample holds and those that it leaves out."""
    functions: dict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        functions[item.nodeid.partition("[")[0]].append(item)
    kept, left_out = [], []
    for name, cases in functions.items():
        # Without the folder, so that a file that moves keeps its sample.
        seed = f"{SEED} tests/{name.rpartition('/')[2]}"
        values = [values_of(item) for item in cases]
        if sample == "some values" or is_product(cases):
            chosen = places(values, sample, seed)
            chosen |= {place for place, case in enumerate(values) if RARE.intersection(case)}
        elif sample in HALVES and not runs_once(cases):
            chosen = half(range(len(cases)), sample)
        else:
            chosen = set(range(len(cases)))
        for place, item in enumerate(cases):
            (kept if place in chosen else left_out).append(item)
    return kept, left_out


def runs_once(cases: Sequence[pytest.Item]) -> bool:
    """Whether no more than two rows run these cases of one test, so that they have all of them."""
    marked = cases[0].get_closest_marker
    return bool(marked("once") or marked("few"))


def is_product(cases: Sequence[pytest.Item]) -> bool:
    """Whether these cases of one test are of a product: of a file that has that mark, or of several parameters."""
    if runs_once(cases):
        return False
    return bool(cases[0].get_closest_marker("product")) or any(len(ids_of(one)) > 1 for one in cases)


def places(cases: Sequence[Sequence[str]], sample: str, seed: str) -> set[int]:
    """Return places of the cases that a sample takes."""
    most = max(map(len, cases))
    if sample == "some values":
        found = cover(cases, 1, f"{seed} all values")
        return set(found[random.Random(seed).randrange(3) :: 3] or found[:1])  # noqa: S311 (a sample, no secret)
    if sample == "values":
        # Of what the first row takes, whose compiled kernels rows with other numbers of threads find.
        first = sorted(places(cases, "pairs", seed))
        return set(first) if most <= 1 else {first[place] for place in cover([cases[one] for one in first], 1, seed)}
    if sample in HALVES:
        return half(cover(cases, 1, f"{seed} all values") if most > 1 else range(len(cases)), sample)
    return set(cover(cases, min(2, max(1, most - 1)), f"{seed} {sample}"))


def half(chosen: Sequence[int], sample: str) -> set[int]:
    """Return every second place; a single one is in both halves."""
    return set(chosen[HALVES[sample] :: 2] or chosen)


def some(cases: Sequence[T], turn: int) -> Sequence[T]:
    """Return every third case for a test that loops over cases, others at other turns and on other rows."""
    sample = os.environ.get(SAMPLE_VARIABLE, "")
    return cases[(turn + THIRDS.get(sample, 0)) % 3 :: 3] or cases if sample else cases


def runs_part() -> bool:
    """Whether this row takes a sample of the cases."""
    return bool(os.environ.get(SAMPLE_VARIABLE))
