"""Memory orders: the axioms agree with published verdicts, each protocol holds, and each order in its text is needed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("z3", reason='no z3: `pip install "portbar[test]"` brings it')

import z3

from models.weak_memory import litmus, llvm, programs, report
from models.weak_memory.__main__ import main
from models.weak_memory.cases import Case
from tests import kept

needs_clang = pytest.mark.skipif(programs.clang() is None, reason="no clang: Debian's package `clang` brings it")

#: All that judges a text: the code here, and the tools.
SOLVER = kept.text_of(Path(report.__file__).parent, "*.py")
TOOLS = (kept.version(str(programs.clang()), "--version") if programs.clang() else "") + z3.get_full_version()

CHOSEN = report.selected(nightly=False)


def name(case: Case) -> str:
    return f"{case.target.name}, {case.name}"


@pytest.mark.parametrize("test", litmus.TESTS, ids=lambda test: test.name)
def test_the_axioms_agree_with_published_verdicts(test: litmus.Litmus) -> None:
    assert {model for model in test.models if litmus.allows(test, model)} == set(test.allowed)


def test_each_file_named_for_a_verdict_is_for_a_test() -> None:
    asked = {(test.name, model) for test in litmus.TESTS for model in test.models}
    assert set(litmus.CHECKED) <= asked
    assert set(litmus.unverified()) == asked - set(litmus.CHECKED)


@needs_clang
@pytest.mark.parametrize("algorithm", ["counter", "sharded", "replicated", "tree"])
def test_counters_can_be_placed_without_waits_before_polls(algorithm: str) -> None:
    [target, *_] = (target for target in programs.TARGETS if target.atomics == "ptx")
    text = programs.rendered(programs.PLACE, target, algorithm)
    assert "portbar_place(" in text
    assert programs.compiled(text, target).functions


@needs_clang
@pytest.mark.parametrize("case", [case for case, weakens in CHOSEN if not weakens], ids=name)
def test_no_execution_breaks_the_promise(case: Case) -> None:
    verdict, _ = case.check()
    assert verdict.holds, "\n".join(verdict.trail)


@needs_clang
@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("case", [case for case, weakens in CHOSEN if weakens], ids=name)
def test_each_order_is_needed_or_kept_for_a_reason(case: Case) -> None:
    with kept.proof(repr(case), case.text, SOLVER, TOOLS):
        verdict, outcomes = report.weakened(case)
        assert verdict.holds, "\n".join(verdict.trail)
        assert [str(outcome) for outcome in outcomes if not outcome.explained] == []
        # The choice of a place is one word, which orders nothing else.
        assert sum(outcome.caught for outcome in outcomes) >= (1 if case.kernel.name == "place" else 2)


@needs_clang
def test_an_order_weakened_in_the_text_is_found_and_explained() -> None:
    case = next(case for case, _ in CHOSEN if case.name == "whole counter" and case.target.name == "c11")
    arrival = "v, memory_order_release, memory_scope_device"
    assert case.text.count(arrival) > 1
    text = case.text.replace(arrival, arrival.replace("release", "relaxed"))
    weak = replace(case)
    weak.__dict__["module"] = programs.compiled(text, case.target)
    verdict, _ = weak.check()
    assert not verdict.holds
    assert "the read may be stale" in verdict.trail[-1]
    assert any("fetch_add" in line or "add relaxed" in line for line in verdict.trail)


def test_an_instruction_that_the_reader_does_not_know_is_an_error() -> None:
    with pytest.raises(llvm.UnreadableError, match="cmpxchg"):
        llvm.read("define void @f() {\nentry:\n  %0 = cmpxchg i32* %p, i32 0, i32 1 acq_rel monotonic\n}\n")


@needs_clang
def test_the_command_prints_a_table_and_what_each_order_is_for(monkeypatch, capsys) -> None:
    monkeypatch.setattr("sys.argv", ["weak_memory", "^c11 . spin lock$", "--trails"])
    assert main() == 0
    out = capsys.readouterr().out
    assert "c11 | spin lock" in out
    assert "holds" in out
    assert "hold the lock, and neither comes before the other" in out
