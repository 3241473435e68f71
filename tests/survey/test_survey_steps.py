"""The survey's steps for atomics, split barriers, reductions and litmus tests: checked results, times, or reasons."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import product
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from portbar import records
from portbar.choices.strategy import DeviceProfile
from portbar.device.addresses import address_of
from portbar.device.facts import DeviceFacts
from portbar.device.findings import Findings
from portbar.errors import Error
from portbar.primitives.atomics_table import TYPES, AtomicsTable
from portbar.primitives.headers import render_header
from portbar.primitives.strategy import Capabilities, Choice, Strategy
from portbar.records.reading import NO_TIME, missing
from portbar.survey.environment import environment, loader
from portbar.survey.measuring import atomics, reduction, session, split_barrier
from portbar.survey.measuring.rounds import Budget, most_rounds
from portbar.survey.steps import STEPS, OccupancyStep, litmus
from portbar.survey.steps.step import run_step
from tests.report_support import device as surveyed
from tests.report_support import record
from tests.survey.support import occupancy_row

KINDS = {kind.name: kind for kind in TYPES}


# Atomics.


def strategy_by(name: str) -> Strategy:
    """A strategy that offers every type, and adds floats in global memory by itself where it is PTX."""
    native = frozenset({("float", "global"), ("double", "global")}) if name in {"ptx", "membar"} else frozenset()
    table = AtomicsTable(types=tuple(KINDS), native_add=native)
    return Strategy(
        Choice(name, ""),
        Choice("packed", ""),
        Choice("counter", ""),
        capabilities=Capabilities(std="CL3.0", atomics_table=table),
    )


def body_of(text: str, name: str, case: atomics.Case) -> str:
    """The function of this name on this kind of pointer."""
    pointer = rf"(?:const )?volatile {case.space} {case.kind.name} \*"
    found = re.search(rf"\b{name}\({pointer}p\b.*?\n}}\n", text, re.DOTALL)
    assert found, (name, case)
    return found[0]


def has_loop(text: str, name: str, case: atomics.Case) -> bool:
    body = body_of(text, name, case)
    inner = re.findall(r"\b(portbar_(?:small|float|wrap)_\w+)\((?=p,)", body)
    return "for (;;)" in body or any(has_loop(text, other, case) for other in inner)


@pytest.mark.parametrize("name", ["c11", "cl12", "ptx", "membar"])
def test_how_an_operation_is_done_is_what_the_rendered_header_does(name):
    strategy = strategy_by(name)
    text = render_header("atomics", strategy)
    seen = set()
    for case in atomics.cases():
        public = {"compare_exchange": "compare_exchange_strong"}.get(case.operation, case.operation)
        done = atomics.LOOP if has_loop(text, f"portbar_atomic_{public}_explicit", case) else atomics.INSTRUCTION
        assert atomics.implementation(case, strategy) == done, case
        seen.add(done)
    assert seen == {atomics.LOOP, atomics.INSTRUCTION}


def test_cases_have_every_type_in_both_spaces_and_no_operation_that_it_lacks():
    every = list(atomics.cases())
    assert len(every) == len(set(every))
    assert {(case.kind.name, case.space) for case in every} == set(product(KINDS, atomics.SPACES))
    of = {name: set(atomics.operations_of(kind)) for name, kind in KINDS.items()}
    assert of["uint"] - of["int"] == {"fetch_inc", "fetch_dec"}
    assert of["int"] - of["float"] == {"fetch_and", "fetch_or", "fetch_xor"}
    assert of["uchar"] == of["char"] == of["long"]


@pytest.mark.parametrize("kind", KINDS)
def test_no_two_operations_could_be_taken_for_each_other(kind):
    """A header that confuses operations must leave something wrong: min and max, which keep one of the two values, apart."""
    left = {
        operation: atomics.expected_of(atomics.Case(operation, KINDS[kind], "global")).tobytes()
        for operation in atomics.operations_of(KINDS[kind])
    }
    assert left["load"] != left["store"] == left["exchange"] == left["compare_exchange"]
    changing = [bits for name, bits in left.items() if name.startswith("fetch_")]
    assert len(set(changing)) == len(changing)


@pytest.mark.device
def test_every_atomic_operation_of_the_device_leaves_what_it_should(payload):
    outcome, rows = step_of("atomics", payload, 60)
    assert outcome["status"] == "ok", outcome
    assert {(row["operation"], row["type"], row["space"]) for row in rows} == {
        (case.operation, case.kind.name, case.space) for case in atomics.cases()
    }
    for row in rows:
        offered = row["implementation"] != atomics.NONE
        assert row["result"] == {"value": True} or (not offered and row["result"]["status"] == "unsupported"), row
    assert faults_of(atomics=outcome | {"rows": rows}) == []


@pytest.mark.device
def test_a_wrong_result_is_an_error_with_both_values(context, queue, monkeypatch):
    case = atomics.Case("fetch_add", KINDS["uint"], "local")
    assert atomics._run(queue, [case]) == [{"value": True}]
    monkeypatch.setitem(atomics.AFTER, "fetch_add", lambda old, v: old + v + np.uint32(1))
    (reading,) = atomics._run(queue, [case])
    assert reading["status"] == "error"
    before, operand = atomics.values_of(case)
    assert str(before + operand) in reading["reason"]


@pytest.mark.device
def test_a_failed_build_costs_only_itself(context, queue, monkeypatch):
    good, bad = (atomics.Case(name, KINDS["int"], "global") for name in ("fetch_add", "fetch_nonsense"))
    monkeypatch.setitem(atomics.AFTER, "fetch_nonsense", lambda old, _: old)
    right, wrong = atomics._results(queue, [good, bad])
    assert (right, wrong["status"]) == ({"value": True}, "error")


# Loops of rounds.


def test_repeating_a_step_is_one_step():
    for times in (0, 1, 2, 7, 100):
        x = y = 12_345
        for _ in range(times):
            y = (y * 1_664_525 + 99) % (1 << 32)
        factor, term = session.repeated(1_664_525, 99, times, 1 << 32)
        assert (factor * x + term) % (1 << 32) == y


class FakeSide:
    """Launches that take this many seconds per round."""

    def __init__(self, seconds: float, broken_from: int = 1 << 30) -> None:
        self.seconds, self.broken_from, self.launched = seconds, broken_from, []

    def __call__(self, count: int) -> float:
        self.launched.append(count)
        if count >= self.broken_from:
            raise Error("wrong values")
        return 1e-5 + count * self.seconds


def test_sides_are_timed_in_turns_and_each_has_rounds_of_its_own():
    sides = {"fast": FakeSide(1e-7), "slow": FakeSide(1e-4), "broken": FakeSide(1e-6, 64)}
    times = session.time_in_turns(sides, 1 << 20, Budget(1.0))
    assert times["broken"] == missing("error", "wrong values")
    assert {times[name]["unit"] for name in ("fast", "slow")} == {"ns"}
    assert times["fast"]["value"] == pytest.approx(100, rel=0.2)
    assert times["slow"]["value"] == pytest.approx(1e5, rel=0.2)
    assert max(sides["fast"].launched) > 100 * max(sides["slow"].launched)


def test_no_launch_has_more_rounds_than_the_device_may_loop():
    side = FakeSide(1e-9)
    times = session.time_in_turns({"": side}, 50, Budget(0.0))
    assert max(side.launched) == 50
    assert len(times[""]["samples"]) == 3
    assert most_rounds(DeviceProfile(DeviceFacts(), Findings(loop_limit=65_535))) < 65_535 / 32


def test_wrong_values_are_an_error():
    session.check(np.array([1, 2], np.uint32), np.array([1, 2]), 5)
    session.check(np.array([1.0], np.float32), np.array([1.0005]), 5)
    with pytest.raises(Error, match="1 of 2 values are wrong after 5 rounds"):
        session.check(np.array([1, 3], np.uint32), np.array([1, 2]), 5)


# Split barriers and reductions.


@pytest.mark.parametrize("kind", reduction.TYPES)
def test_rounds_of_sums_equal_adding_up(kind):
    members = [0, 0, 0, 1, 1]
    x: list[Any] = list(range(5))
    for _ in range(6):
        sums = [sum(x[i] for i in range(5) if members[i] == one) for one in members]
        if kind == "float":
            x = [sums[i] * 0.5 / members.count(members[i]) + i for i in range(5)]
        else:
            x = [(sums[i] * 1_664_525 + i) % (1 << 32) for i in range(5)]
    assert np.allclose(reduction.expected(kind, np.array(members), 6), x, rtol=1e-12, atol=0)


def test_strategies_that_a_device_cannot_use_are_named_with_the_reason():
    cpu = DeviceProfile(DeviceFacts(name="a CPU", type=("CPU",)), Findings(ordering={"cl12": "pass"}))
    assert split_barrier.usable_strategies(cpu)["uniform"] == ""
    assert "PTX" in split_barrier.usable_strategies(cpu)["mbarrier"]
    assert reduction.usable_strategies(cpu)["tree"] == ""
    assert "PTX" in reduction.usable_strategies(cpu)["shuffle"]


def test_sizes_are_ones_that_the_device_can_have():
    cpu, gpu = (DeviceProfile(DeviceFacts(type=(kind,), max_work_group_size=512)) for kind in ("CPU", "GPU"))
    assert split_barrier.split_barrier_sizes(cpu) == [1, 64, 256]
    assert split_barrier.split_barrier_sizes(gpu) == [32, 256, 512]
    assert split_barrier.split_barrier_sizes(gpu, 128, quick=True) == [128]
    assert reduction.reduction_sizes(cpu) == [64]
    assert reduction.reduction_sizes(gpu) == [64, 256]


@pytest.fixture
def payload(device, findings):
    return {
        "address": address_of(device).to_json(),
        "findings": None if findings is None else findings.to_json(),
        "quick": True,
    }


def step_of(name: str, payload: dict[str, Any], seconds: float) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    rows: list[dict[str, Any]] = []
    (step,) = (step for step in STEPS if step.name == name)
    return run_step(step, payload | {"budget_s": seconds}, 2 * seconds + 60, rows), rows


def faults_of(**steps: Any) -> list[str]:
    """The faults of a record of these steps."""
    return records.validate(record(surveyed() | steps))


@pytest.mark.device
def test_split_barriers_have_a_time_or_a_reason_and_the_chosen_one_a_time(payload):
    outcome, rows = step_of("split_barrier", payload, 5)
    assert outcome["status"] == "ok", outcome
    assert [row["strategy"] for row in rows if row["chosen"]]
    for row in rows:
        if row["chosen"]:
            assert row["time"]["value"] > 0
            assert row["barrier_time"]["value"] > 0
        assert "value" in row["time"] or row["time"]["reason"]
    assert faults_of(split_barrier=outcome | {"rows": rows}) == []


@pytest.mark.device
def test_reductions_have_a_time_or_a_reason_at_every_level(payload):
    outcome, rows = step_of("reduction", payload, 20)
    assert outcome["status"] == "ok", outcome
    chosen = [row for row in rows if row["chosen"]]
    assert {(row["level"], row["type"]) for row in chosen} == set(product(reduction.LEVELS, reduction.TYPES))
    for row in chosen:
        assert row["time"]["value"] > 0, row
        assert (row["time"]["unit"] == "us") is (row["level"] == "device")
        assert ("built_in_time" in row) is (row["level"] == "work_group")
    assert faults_of(reduction=outcome | {"rows": rows}) == []


@pytest.mark.device
@pytest.mark.parametrize("name", ["split_barrier", "reduction", "atomics"])
def test_without_time_a_step_measures_something_and_says_so_of_the_rest(payload, name):
    outcome, rows = step_of(name, payload | {"quick": name == "split_barrier"}, 1e-6)
    readings = [row.get("time") or row["result"] for row in rows]
    assert any("value" in reading for reading in readings)
    late = [reading for reading in readings if reading.get("reason") == NO_TIME]
    if name == "split_barrier":
        return
    assert late
    assert outcome["status"] == "partial"
    assert f"after {len(rows) - len(late)} of {len(rows)} rows" in outcome["reason"]


# Occupancy.


def test_recall_is_of_the_most_that_any_run_found_and_of_the_vendors_answer():
    rows = [*map(occupancy_row, ([2, 2, 2], [4, 1, 1], [])), occupancy_row([3], vendor=None, local_size=64)]
    OccupancyStep().complete({"rows": rows})
    first, second, empty, other = rows
    assert (first["best_known_groups"], first["recall"]["value"]) == (4, 0.5)
    assert first["recall_of_vendor_bound"]["value"] == 0.25
    assert second["recall"]["value"] == 0.5
    assert "recall" not in empty
    assert (other["best_known_groups"], other["recall"]["value"]) == (3, 1.0)
    assert other["recall_of_vendor_bound"]["status"] == "unsupported"


# Litmus tests.


def result(test: str, status: str, strategy: str = "c11", **more: Any) -> dict[str, Any]:
    blank = {"reason": "", "instances": 10, "forbidden": {}, "seed": 3}
    return {"test": test, "status": status, "strategy": strategy, **blank, **more}


def test_litmus_results_become_a_row_a_strategy():
    fail = result("SB", "fail", forbidden={"1:0": 2, "0:0": 1}, reason="3 of 10 forbidden")
    results = [result("MP", "pass"), fail, result("MP", "pass", "cl12")]
    rows = litmus.result_rows(results, {"c11": "fail: SB: 3 of 10", "cl12": "pass: 1 tests"})
    first, second = rows
    assert first["verdict"] == {"value": "fail", "note": "SB: 3 of 10"}
    assert (first["tests"], first["instances"]["value"]) == (2, 20)
    assert first["forbidden"] == [{"test": "SB", "count": 3}]
    assert (second["verdict"]["value"], second["forbidden"]) == ("pass", [])
    assert litmus.outcome_of(results) == {"status": "ok"}
    assert faults_of(litmus={"status": "ok", "rows": rows, "seed": 3}) == []


def test_an_interrupted_run_of_litmus_tests_proves_a_fault_but_not_that_there_is_none():
    fail = result("SB", "fail", forbidden={"1:0": 2}, reason="2 of 10")
    assert litmus.result_rows([fail], {})[0]["verdict"]["value"] == "fail"
    assert litmus.result_rows([result("MP", "pass")], {})[0]["verdict"] == missing("skipped", "interrupted; 1 passed")


def test_the_outcome_of_litmus_tests_is_that_of_the_worst():
    lost, crash = result("SB", "skipped", reason=NO_TIME), result("SB", "crash", reason="ended by SIGSEGV")
    assert litmus.outcome_of([result("MP", "pass"), lost])["status"] == "partial"
    assert litmus.outcome_of([lost, crash]) == {"status": "crash", "reason": "c11 SB: ended by SIGSEGV"}


def test_a_pass_is_kept_only_of_what_portbar_uses_without_it(monkeypatch):
    """An order that a device does not claim needs more proof than a survey has time for."""
    kept: dict[str, str] = {}
    monkeypatch.setattr(litmus, "store_verdicts", lambda _, verdicts: kept.update(verdicts))
    claims = DeviceProfile(
        DeviceFacts(name="a CPU", type=("CPU",), atomic_memory_capabilities=("relaxed",)),
        Findings(builds={"c11@CL3.0": True, "cl12": True}, ordering={"c11": "pass", "cl12": "pass"}),
    )
    monkeypatch.setattr(litmus, "describe", lambda _: claims)
    device: Any = SimpleNamespace()
    litmus.keep_verdicts(device, {"c11": "pass: 24 tests", "cl12": "pass: 24 tests", "ptx": "untested: x"})
    assert kept == {"cl12": "pass: 24 tests"}
    litmus.keep_verdicts(device, {"c11": "fail: SB"})
    assert kept["c11"] == "fail: SB"
    known = replace(claims.facts, atomic_memory_capabilities=("relaxed", "acq_rel", "scope_device"))
    monkeypatch.setattr(litmus, "describe", lambda _: replace(claims, facts=known))
    litmus.keep_verdicts(device, {"c11": "pass: 24 tests"})
    assert kept["c11"] == "pass: 24 tests"


# The environment.


@pytest.mark.device
def test_the_environment_has_versions_and_no_names(device, monkeypatch):
    monkeypatch.setenv("POCL_AFFINITY", "1")
    monkeypatch.setenv("HOME", "/home/somebody")
    found = environment()
    assert set(found) == {
        *("system", "release", "machine", "python", "pyopencl", "numpy", "loader", "packages", "variables")
    }
    assert found["variables"]["POCL_AFFINITY"] == "1"
    assert "somebody" not in str(found)
    assert found["pyopencl"]
    named = loader()
    assert named is None or (named["name"] and re.match(r"\d+\.\d+", named["version"]))
