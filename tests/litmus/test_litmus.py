"""Litmus tests: that they are sound, that they pass where atomics are right, and that they catch atomics that are not."""

from __future__ import annotations

import contextlib
import itertools
import json
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyopencl as cl
import pytest

import portbar
from portbar.choices import profile
from portbar.choices.strategy import ALTERNATIVES
from portbar.device import child, quirks
from portbar.device.addresses import address_of
from portbar.device.facts import device_key, facts
from portbar.device.findings import CACHE_KIND, Findings
from portbar.errors import BuildError, Error, UnsupportedFeatureError
from portbar.primitives import headers
from portbar.primitives.strategy import Strategy
from portbar.records import cache
from portbar.records.reading import NO_TIME
from portbar.survey import litmus
from portbar.survey.litmus import checking, children, model, patterns, results, running, sizes, source, stress
from portbar.survey.litmus.model import UNREAD, Litmus, Operation
from portbar.survey.litmus.tests import TESTS, matching
from tests.weakened import weaken

SEED = 20261121


each_test = pytest.mark.parametrize("test", TESTS.values(), ids=TESTS)


@each_test
def test_no_order_of_whole_operations_gives_a_forbidden_outcome(test: Litmus) -> None:
    possible = model.sequential(test)
    assert model.serial(test) <= possible
    for values in possible:
        assert not test.is_forbidden(model.as_mapping(test, values)), model.outcome_text(test, values)


def unordered(test: Litmus) -> set[model.Values]:
    """Outcomes where a thread's operations may take effect in any order, which no order of atomics would allow."""
    shuffled = itertools.product(
        *(itertools.permutations(op for op in thread if op.kind != "fence") for thread in test.threads)
    )
    return {model._run(test, order) for threads in shuffled for order in model._interleavings(threads)}


@each_test
def test_operations_out_of_order_give_every_forbidden_outcome(test: Litmus) -> None:
    if test.name.startswith("NEIGHBOUR"):
        pytest.skip("a lost store is not an order of operations: the test of unwritten values covers it")
    reached = [model.as_mapping(test, values) for values in unordered(test)]
    for part in test.forbidden:
        assert any(all(found[name] == value for name, value in part.items()) for found in reached), part


@each_test
def test_only_what_the_test_is_about_keeps_its_outcome_away(test: Litmus) -> None:
    """Every order is the weakest that forbids the outcome: none is stronger than its family needs."""
    orders = {op.order for op in test.operations}
    if test.name.startswith(("Co", "NEIGHBOUR")):
        assert orders <= {"relaxed", "plain"}
    elif test.name.startswith(("SB", "R-", "2+2W", "IRIW")):
        assert "seq_cst" in orders
        assert orders <= {"seq_cst", "relaxed"}
    else:
        assert "seq_cst" not in orders
        assert "acquire" in orders
        assert "release" in orders


@each_test
def test_plain_accesses_never_race(test: Litmus) -> None:
    plain = [op for op in test.operations if op.order == "plain"]
    for op in plain:
        assert op.kind in {"load", "store"}
        assert op.kind == "store" or op.guard is not None
    for location in {op.location for op in plain}:
        assert sum(op.kind == "store" and op.location == location for op in test.operations) == 1


def test_every_family_is_there_and_message_passing_in_all_eight_combinations() -> None:
    found = {(test.scope, test.space, test.form) for test in TESTS.values() if test.name.startswith("MP")}
    assert found >= set(itertools.product(("work_group", "device"), ("global", "local"), ("ops", "fences")))
    families = {name.partition("-")[0] for name in running.NAMES}
    assert families == {
        *("MP", "SB", "LB", "S", "R", "2+2W", "CoRR", "CoRW", "CoWR", "CoWW", "WRC", "ISA2", "IRIW"),
        *("NEIGHBOUR", "LAST", "LOOK"),
    }


@pytest.mark.parametrize(
    ("name", "outcome", "forbidden"),
    [
        ("SB-device-global-ops", {"r0": 2, "r1": 1}, True),
        ("SB-device-global-ops", {"r0": UNREAD, "r1": 1}, True),
        ("MP-device-global-ops", {"r0": 0, "r1": UNREAD}, False),
        ("MP-device-global-ops", {"r0": 1, "r1": UNREAD}, True),
        ("MP-device-global-ops", {"r0": 0, "r1": 1}, True),
        ("CoWW-device-global-ops", {"r0": 0, "x": 0}, True),
        # Stores to neighbours, both there or one of them lost.
        ("NEIGHBOUR-device-global-8bit", {"y": 1, "z": 1}, False),
        ("NEIGHBOUR-device-global-8bit", {"y": 1, "z": 0}, True),
        ("NEIGHBOUR-device-global-8bit", {"y": 0, "z": 1}, True),
    ],
)
def test_an_unwritten_value_and_a_lost_store_are_forbidden(name: str, outcome: model.Outcome, forbidden: bool) -> None:
    assert TESTS[name].is_forbidden(outcome) == forbidden


def chosen(device: cl.Device) -> Strategy:
    return portbar.choose(portbar.describe(device))


def skip_where_it_cannot_run(runner: running.Runner, name: str) -> None:
    size = runner.size(name)
    if isinstance(size, str):
        pytest.skip(size)


@pytest.mark.device
def test_a_store_to_the_whole_word_is_caught_as_a_lost_neighbour(
    queue: cl.CommandQueue, findings: Findings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Shows that the tests of 8 and 16 bits can fail: here each object's store covers its neighbour too."""
    kept = source._statement
    wide = "portbar_atomic_store_explicit(&mem[y], 0x10000u, memory_order_relaxed, memory_scope_device);"
    monkeypatch.setattr(
        source, "_statement", lambda test, op: wide if op.kind == "store" and op.location == "z" else kept(test, op)
    )
    name = "MP-device-global-16bit"
    runner = running.Runner(queue, chosen(queue.device), seed=SEED, names=[name])
    skip_where_it_cannot_run(runner, name)
    told = runner.run(name, 0.2)
    assert told["status"] == "fail"
    assert any("y=0 z=1" in outcome for outcome in told["forbidden"]), told


def test_an_outcome_is_described_by_names() -> None:
    test = TESTS["MP-device-global-ops"]
    assert model.outcome_text(test, (0, UNREAD)) == "r0=0 r1=-"
    assert TESTS["S-device-global-ops"].columns == ("r0", "x")


def test_tests_are_chosen_by_name_beginning_and_wildcard() -> None:
    assert matching(running.NAMES, None) == running.NAMES
    assert matching(running.NAMES, ["sb"]) == ("SB-device-global-ops", "SB-device-global-fences")
    assert matching(running.NAMES, ["last-block", "R-device"]) == ("R-device-global-ops", "LAST-BLOCK")
    assert all(TESTS[name].space == "local" for name in matching(running.NAMES, ["*-local-*"]))
    with pytest.raises(Error, match="no litmus test matches 'nonsense'"):
        matching(running.NAMES, ["nonsense"])


SCALES = [
    sizes.Scale("gpu", 132, 1056, 1024, None, 3e6, 1 << 27),
    sizes.Scale("gpu", 2, 32, 64, None, 3e6, 1 << 20),
    sizes.Scale("cpu", 64, 64, 4096, None, 1e9, 1 << 22),
    sizes.Scale("cpu", 2, 2, 1, None, 1e9, 1 << 22),
    sizes.Scale("cpu", 1, 1, 4096, None, 1e9, 1 << 22),
    sizes.Scale("short loops", 8, 8, 1024, 65_535, 6e7, 1 << 22),
    sizes.Scale("simulator", 1, 2, 1024, None, 1e6, 1 << 22),
]


def scales_and_sizes() -> Iterator[tuple[sizes.Scale, sizes.Size]]:
    for scale in SCALES:
        for found in (
            *(scale.across(threads) for threads in (2, 3, 4)),
            *(scale.within(threads) for threads in (2, 3, 4)),
            *(scale.pattern(most) for most in (1, 256)),
        ):
            if isinstance(found, sizes.Size):
                yield scale, found
            else:
                assert found


def test_sizes_stay_within_their_limits() -> None:
    for scale, size in scales_and_sizes():
        assert size.local_size <= scale.most_local
        for grown in (size, size.longer(), size.longer().longer().longer().longer()):
            assert 1 <= grown.rounds <= grown.most_rounds
            if scale.loop_limit is not None:
                spent = 2 * grown.first_polls + grown.rounds * (grown.polls + 16)
                assert spent < scale.loop_limit


@pytest.mark.parametrize("seed", range(40))
def test_every_location_of_every_instance_has_a_word_of_its_own(seed: int) -> None:
    size = replace(sizes.Scale("gpu", 3, 96, 16, None, 3e6, 1 << 20).across(3), rounds=5)  # type: ignore[arg-type]
    numbers = stress.stress_numbers(f"{SEED + seed}", size)
    assert (numbers == stress.stress_numbers(f"{SEED + seed}", size)).all()
    n = {name: int(numbers[at]) for name, at in stress.NUMBERS.items()}
    places = []
    for which in range(stress.MOST_LOCATIONS):
        mul, add, offset = (int(numbers[stress.NUMBERS[name] + which]) for name in ("slot_mul", "slot_add", "offset"))
        for at in range(size.rounds):
            slots = [(team * mul + add) % n["teams"] for team in range(n["teams"])]
            places += [(at * n["teams"] + slot) * n["block"] + offset for slot in slots]
    # The word after each belongs to it, too.
    assert len({place // 2 for place in places}) == len(places)
    assert all(place % 2 == 0 for place in places)
    assert max(places) + 1 < stress.memory_words(size, numbers)


@pytest.mark.parametrize("seed", range(20))
def test_members_are_permuted_and_none_is_lost(seed: int) -> None:
    for _, size in scales_and_sizes():
        numbers = stress.stress_numbers(f"{seed}", size)
        for length, mul, add in ((size.groups, "group_mul", "group_add"), (size.local_size, "lane_mul", "lane_add")):
            by, start = int(numbers[stress.NUMBERS[mul]]), int(numbers[stress.NUMBERS[add]])
            assert len({(index * by + start) % length for index in range(length)}) == length
            assert length * by + start < 1 << 32


def test_pattern_tallies_tell_right_from_wrong() -> None:
    size = replace(sizes.Scale("cpu", 4, 4, 64, None, 1e9, 1 << 22).pattern(4), rounds=3)  # type: ignore[arg-type]
    count = size.instances * size.members
    pattern = patterns.PATTERNS["LOOK-BACK"]
    values = np.arange(count, dtype=np.uint32) * np.uint32(patterns.FACTOR) ^ np.uint32(9)
    sums = values.reshape(-1, size.members).cumsum(axis=1, dtype=np.uint32).ravel()
    ended = np.ones(count, np.uint32)
    ended[0] = 0
    sums[count - 1] += 1
    told = pattern.tally(np.concatenate([sums, ended]), size, size.instances, 9)
    assert told == {"right prefix": count - 2, "wrong prefix": 1, "unfinished": 1}
    nothing = np.full(size.instances * size.local_size, UNREAD, np.uint32)
    told = patterns.PATTERNS["LAST-BLOCK"].tally(nothing, size, size.instances, 9)
    assert told == {"right sum": 0, "wrong sum": size.instances}


def test_program_text_has_the_operations_as_written() -> None:
    text = source.program_text(["MP-device-local-fences", "SB-device-global-ops"], [64, 1])
    assert "portbar_atomic_work_item_fence(CLK_LOCAL_MEM_FENCE, memory_order_release, memory_scope_device);" in text
    assert "portbar_atomic_store_explicit(&mem[x], 1u, memory_order_seq_cst, memory_scope_device);" in text
    assert "local uint arena[128];" in text
    assert text.count("kernel void portbar_litmus_") == 2
    assert not any(line.rstrip() != line for line in text.splitlines())


def result(status: str, **more: Any) -> dict[str, Any]:
    return {**results.blank("SB-device-global-ops", "c11", 7), "status": status, **more}


def test_verdict_fails_by_one_forbidden_outcome_and_passes_only_when_all_ran() -> None:
    passed = result("pass", instances=1000)
    failed = result("fail", instances=1000, reason="12 of 1000 forbidden (seed 7)")
    lost = result("skipped", reason=results.NO_TIME)
    cannot = result("skipped", reason="needs 4 concurrent work-groups, the device runs 2")

    def verdict(*found: dict[str, Any], partial: str = "") -> str:
        return results.verdict_of(found, partial)

    forbidden = "fail: SB-device-global-ops: 12 of 1000 forbidden (seed 7)"
    assert verdict(passed, failed, lost, partial="interrupted") == forbidden
    assert verdict(failed, failed) == f"{forbidden}; and 1 more"
    assert verdict(passed, cannot) == "pass: 1 tests, 1,000 instances, 1 skipped (seed 7)"
    assert verdict(passed, partial="interrupted") == "untested: interrupted; 1 passed"
    assert verdict(passed, lost).startswith("untested: 1 of 2")
    assert verdict(passed, result("crash", reason="gone")).startswith("untested")
    assert verdict(cannot).startswith("untested")


def strategies(device: cl.Device) -> tuple[str, ...]:
    return checking.strategies_of(portbar.describe(device))


@pytest.mark.device
def test_chosen_strategy_comes_first_and_all_that_build_are_checked(device: cl.Device, findings: Findings) -> None:
    found = strategies(device)
    assert found[0] == chosen(device).atomics.value
    assert set(found) <= set(ALTERNATIVES["atomics"])
    assert len(set(found)) == len(found)


@pytest.mark.device
def test_every_test_passes_with_the_chosen_strategy(queue: cl.CommandQueue, findings: Findings) -> None:
    runner = running.Runner(queue, chosen(queue.device), seed=SEED)
    known = {quirk.name for quirk in quirks.matching(facts(queue.device))}
    for name in running.NAMES:
        told = runner.run(name, 0.02)
        if name.endswith("bit") and "oclgrind-stores-taken-back" in known and told["status"] == "fail":
            continue
        assert told["status"] in {"pass", "skipped", "unfinished"}, told
        assert told["forbidden"] == {}, told
        if told["status"] == "skipped":
            assert told["reason"]
        else:
            assert told["instances"] >= 1
            assert sum(told["outcomes"].values()) == told["instances"]


def weakened(queue: cl.CommandQueue, how: str, monkeypatch: pytest.MonkeyPatch) -> running.Runner:
    right = headers.resolve_includes
    monkeypatch.setattr(headers, "resolve_includes", lambda *args, **named: weaken(right(*args, **named), how))
    return running.Runner(queue, chosen(queue.device), seed=SEED)


def caught(runner: running.Runner, tests: list[str], seconds: float) -> int:
    """How many forbidden outcomes there are in the first run that shows any, trying the tests in turn, seed after seed."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        for name in matching(running.NAMES, tests):
            told = runner.run(name, 0.3)
            if told["forbidden"]:
                assert told["status"] == "fail"
                assert f"(seed {runner.seed})" in told["reason"]
                return sum(told["forbidden"].values())
        runner.seed += 1
    return 0


def is_gpu(device: cl.Device) -> bool:
    return "GPU" in facts(device).type


@pytest.mark.device
def test_store_buffering_catches_relaxed_where_seq_cst_is_due(
    queue: cl.CommandQueue, findings: Findings, monkeypatch: pytest.MonkeyPatch
) -> None:
    runner = weakened(queue, "relaxed_seq_cst", monkeypatch)
    skip_where_it_cannot_run(runner, "SB-device-global-ops")
    if chosen(queue.device).atomics.value == "cl12" and not is_gpu(queue.device):
        pytest.skip("stores of cl12 are read-modify-writes, which the host's processor orders whatever is asked for")
    if runner.scale.kind == "simulator":
        pytest.skip("the simulator runs one access after the other")
    if not caught(runner, ["SB"], 20.0):
        # Where operations of two groups overlap, store buffering shows more often than they interleave.
        told = [runner.run(name, 0.3) for name in matching(running.NAMES, ["SB"])]
        assert not any(result["forbidden"] for result in told)
        if sum(result["interleaved"] for result in told) < 20:
            pytest.skip("other work keeps the work-groups from running at the same time")
        pytest.fail("work-groups ran at the same time, and relaxed operations passed for seq_cst")


@pytest.mark.device
@pytest.mark.parametrize("how", ["no_release", "work_group_fence"])
def test_message_passing_catches_a_missing_release_and_a_narrow_scope_on_a_gpu(
    queue: cl.CommandQueue, findings: Findings, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not is_gpu(queue.device) or "Oclgrind" in queue.device.name or "llvmpipe" in queue.device.name:
        pytest.skip("the host's processor keeps stores in order and its caches coherent, whatever is asked for")
    if how == "work_group_fence" and chosen(queue.device).atomics.value == "cl12":
        pytest.skip("OpenCL 1.2's fences have no scope that could be too narrow")
    assert caught(weakened(queue, how, monkeypatch), ["MP-device-global", "LAST-BLOCK", "LOOK-BACK"], 20.0)


@pytest.mark.device
@pytest.mark.timeout(900)
def test_check_reports_each_test_and_its_json_form_is_stable(device: cl.Device, findings: Findings) -> None:
    seen: list[dict[str, Any]] = []
    first = strategies(device)[0]
    # On a busy machine compilers alone may take the shorter ones.
    for seconds in (5, 40, 300):
        seen.clear()
        told = litmus.check(
            device,
            seconds=seconds,
            seed=SEED,
            strategies=[first],
            tests=["CoRR", "MP-device-local"],
            on_progress=seen.append,
        )
        if all(one["reason"] != results.NO_TIME for one in told.results):
            break
    names = ["MP-device-local-ops", "MP-device-local-fences", "CoRR-device-global-ops"]
    assert [one["test"] for one in told.results] == names
    assert [message["result"] for message in seen if "result" in message] == list(told.results)
    value = json.loads(json.dumps(told.to_json()))
    assert set(value) == {
        *("schema", "format", "name", "platform", "seed", "budget_s", "seconds", "chosen", "complete", "verdicts"),
        "results",
    }
    assert (value["schema"], value["format"], value["seed"]) == ("portbar-check", 1, SEED)
    for one in value["results"]:
        assert set(one) == set(results.blank(one["test"], first, SEED))
        assert one["strategy"] == first
        assert one["status"] in {"pass", "skipped"}, one
    assert not told.failed
    assert not told.complete
    assert value["verdicts"][first].startswith("untested: only some tests")


@pytest.mark.device
def test_check_keeps_to_its_time_and_says_what_it_left_out(device: cl.Device, findings: Findings) -> None:
    start = time.monotonic()
    told = litmus.check(device, seconds=3, seed=SEED)
    assert time.monotonic() - start < 60
    assert len(told.results) == len(running.NAMES) * len(strategies(device))
    left_out = [one for one in told.results if one["reason"] == results.NO_TIME]
    assert told.complete is not bool(left_out)
    for one in left_out:
        assert one["status"] == "skipped"
        # A strategy that failed in the time it had has failed, as C11's atomics do on NVIDIA.
        assert told.verdicts[one["strategy"]].startswith(("untested", "fail"))


@pytest.mark.device
def test_unknown_strategies_and_tests_are_refused(device: cl.Device, findings: Findings) -> None:
    with pytest.raises(Error, match="unknown atomics strategy 'sundial'"):
        litmus.check(device, seconds=1, strategies=["sundial"])
    with pytest.raises(Error, match="no litmus test matches"):
        litmus.check(device, seconds=1, tests=["sundial"])
    missing = set(ALTERNATIVES["atomics"]) - set(strategies(device))
    if missing:
        with pytest.raises(Error, match="does not build"):
            litmus.check(device, seconds=1, strategies=[min(missing)])


class FakeChildren:
    """Stands in for child processes: each call plays the next part of a script."""

    def __init__(self, *script: tuple[list[dict[str, Any]], child.ChildResult]) -> None:
        self.script = list(script)
        self.payloads: list[dict[str, Any]] = []

    def __call__(self, _task: str, payload: dict[str, Any], *, on_progress: Any, **_: Any) -> child.ChildResult:
        self.payloads.append(payload)
        messages, ended = self.script.pop(0)
        for message in messages:
            on_progress(message)
        return ended


def ended(status: Any, message: str = "") -> child.ChildResult:
    return child.ChildResult(status, None, message, 0.1)


def run_jobs(monkeypatch: pytest.MonkeyPatch, fake: FakeChildren, count: int) -> list[dict[str, Any]]:
    monkeypatch.setattr(child, "run_task", fake)
    names = list(running.NAMES[:count])
    jobs = [children.LitmusJob("c11", name, 1.0) for name in names]
    address = portbar.device.addresses.DeviceAddress(0, 0, "P", "D")
    found = children.run_in_children(address, jobs, 7, time.monotonic() + 30, None)
    assert [one["test"] for one in found] == names
    return found


def begin(index: int) -> dict[str, Any]:
    return {"begin": ["c11", running.NAMES[index]]}


def done(index: int) -> dict[str, Any]:
    return {"result": {**results.blank(running.NAMES[index], "c11", 7), "status": "pass"}}


def test_a_crash_costs_one_test(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = FakeChildren(
        ([begin(0), done(0), begin(1)], ended("crash", "the process was killed by SIGSEGV; last lines of its\nnoise")),
        ([begin(2), done(2)], ended("ok")),
    )
    found = run_jobs(monkeypatch, fake, 3)
    assert [one["status"] for one in found] == ["pass", "crash", "pass"]
    assert found[1]["reason"] == "the process was killed by SIGSEGV"
    assert [job[1] for job in fake.payloads[1]["jobs"]] == [running.NAMES[2]]


def test_a_crash_of_the_compiler_is_blamed_on_one_test_only(monkeypatch: pytest.MonkeyPatch) -> None:
    building, built = {"phase": "building", "limit": 15}, {"phase": "running", "limit": 6}
    fake = FakeChildren(
        ([begin(0), building], ended("crash", "gone")),
        ([begin(0), building, built, done(0), begin(1), building], ended("crash", "gone")),
        ([begin(2), building, built, done(2)], ended("ok")),
    )
    found = run_jobs(monkeypatch, fake, 3)
    assert [one["status"] for one in found] == ["pass", "crash", "pass"]
    assert [payload["alone"] for payload in fake.payloads] == [False, True, True]


def test_a_compiler_that_had_less_than_its_limit_did_not_hang(monkeypatch: pytest.MonkeyPatch) -> None:
    alone = ([begin(0), {"phase": "building", "limit": 15}], ended("crash", "gone"))
    late = ([begin(0), {"phase": "building", "limit": 150}], ended("timeout", "no answer within 9 s"))
    found = run_jobs(monkeypatch, FakeChildren(alone, late), 3)
    assert {(one["status"], one["reason"]) for one in found} == {("skipped", NO_TIME)}
    hung = ([begin(0), {"phase": "building", "limit": 1e-9}], ended("timeout", "no answer within 9 s"))
    found = run_jobs(monkeypatch, FakeChildren(alone, hung, ([begin(1), done(1)], ended("ok"))), 2)
    assert [one["status"] for one in found] == ["timeout", "pass"]


@pytest.mark.device
def test_a_compiler_has_longer_and_less_to_do_where_the_child_started_slowly(
    monkeypatch: pytest.MonkeyPatch, device: cl.Device
) -> None:
    limits: list[float] = []
    chunks: list[int] = []

    def build(*_: Any, together: int, **__: Any) -> None:
        chunks.append(together)
        sys.exit()

    monkeypatch.setattr(children, "_limit", lambda _phase, seconds: limits.append(seconds))
    monkeypatch.setattr(running, "Runner", build)
    job = (strategies(device)[0], running.NAMES[0], 1.0)
    about = {"address": address_of(device).to_json(), "jobs": [job], "seconds": 10.0, "seed": 1, "alone": False}
    for late in (0.0, 6.0, 1000.0):
        with pytest.raises(SystemExit):
            children.run_tests({**about, "began": time.time() - late})
    assert limits == [pytest.approx(15.0, rel=0.2), pytest.approx(75.0, rel=0.2), 150.0]
    assert chunks == [running.TOGETHER, 1, 1]


def test_children_that_fail_before_the_first_test_are_not_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = FakeChildren(([], ended("error", "DeviceError: no such device")))
    assert {one["status"] for one in run_jobs(monkeypatch, fake, 2)} == {"error"}


def test_six_deaths_end_the_check(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = FakeChildren(*(([begin(k)], ended("crash", "gone")) for k in range(6)))
    found = run_jobs(monkeypatch, fake, 8)
    assert [one["status"] for one in found] == ["crash"] * 8
    assert found[7]["reason"] == "too many child processes died"


@pytest.mark.device
def test_a_forbidden_outcome_rejects_a_strategy_from_then_on(
    device: cl.Device, findings: Findings, own_cache: Path
) -> None:
    with pytest.raises(Error, match="probe"):
        litmus.store_verdicts(device, {"c11": "pass: all"})
    known = replace(findings, litmus={}, barrier_table=())
    cache.store(CACHE_KIND, device_key(facts(device)), known.to_json())
    profile.forget()
    first = strategies(device)[0]
    assert litmus.store_verdicts(device, {first: "untested: x", "c11 no_release": "fail: x"}).litmus == {}
    assert litmus.store_verdicts(device, {first: "pass: all"}).litmus == {first: "pass: all"}
    verdict = "fail: MP-device-global-ops: 12 of 1000000 forbidden (seed 7)"
    litmus.store_verdicts(device, {first: verdict})
    # A later pass does not undo it.
    assert litmus.store_verdicts(device, {first: "pass: all"}).litmus == {first: verdict}
    with contextlib.suppress(UnsupportedFeatureError):  # where nothing else is left
        assert chosen(device).atomics.value != first
    with pytest.raises(UnsupportedFeatureError, match="12 of 1000000 forbidden"):
        portbar.choose(portbar.describe(device), {"atomics": first})
    # It is still there to be checked again by name.
    assert first in strategies(device)


@pytest.mark.device
def test_a_refused_program_is_a_result_with_the_reason(
    queue: cl.CommandQueue, findings: Findings, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = Litmus(
        "BROKEN-device-local-ops",
        "does not compile",
        ((Operation("store", "x", 1, "sideways"),), (Operation("load", "x", 0, "relaxed", 0),)),
        ({"r0": 2},),
        "",
        space="local",
    )
    monkeypatch.setitem(TESTS, broken.name, broken)  # type: ignore[arg-type]
    monkeypatch.setattr(running, "NAMES", (*running.NAMES, broken.name))
    runner = running.Runner(queue, chosen(queue.device), names=["MP-device-local-ops", broken.name])
    told = runner.run("MP-device-local-ops", 0.01)
    assert told["status"] in {"pass", "skipped"}
    if told["status"] == "pass":
        told = runner.run(broken.name, 0.01)
        assert told["status"] == "error"
        assert told["reason"].startswith("it does not compile")
        with pytest.raises(BuildError):
            runner.build(broken.name)
