"""The SPIN models: each run finds no error, each seeded bug is found, and each model was compared with its templates."""

import os
import shutil
from pathlib import Path

import pytest

from models import spin
from tests import kept

SEARCH = Path(spin.__file__).read_text(encoding="utf-8")
INCLUDED = kept.text_of(spin.MODELS, "*.h") + kept.text_of(spin.MODELS, "*.inc")

CASES = [case for model in spin.models() for case in spin.cases(model)]

WRONG = """/* Two that add one, and forget that others do.

   Run: BY=1
   Bug: NEVER BY=1
*/
byte x, done;
active [2] proctype adder()
{
    byte seen = x;
    x = seen + BY;
    done++;
    if :: done == 2 -> assert(x == 2 * BY) :: else fi
}
"""
IDLE = """/* One that never starts.

   Run: A=1
*/
byte x;
proctype idle() { x = 1 }
init { skip }
"""
LONG = """/* One that counts for ever so long.

   Run: A=1
*/
byte a, b, c, d;
active proctype counter() { do :: a++ :: b++ :: c++ :: d++ :: a && b && c && d -> skip od }
"""


@pytest.fixture
def tools():
    if tool := spin.lacking():
        pytest.skip(f"{tool} is not installed")


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_search_finds_what_the_model_says(case, tools, tmp_path):
    if case.nightly and "PORTBAR_TEST_NIGHTLY" not in os.environ:
        pytest.skip("takes minutes: set PORTBAR_TEST_NIGHTLY")
    tools = kept.version("spin", "-V") + kept.version("tcc" if shutil.which("tcc") else "gcc", "-v")
    with kept.proof(str(case), (spin.MODELS / f"{case.model}.pml").read_text(), INCLUDED, SEARCH, tools):
        found = spin.search(case, tmp_path)
        assert not found.problem, f"{found.problem}\n{found.trail}"
        assert found.states > 10


@pytest.mark.parametrize("model", spin.models())
def test_a_model_was_compared_with_its_templates_since_they_changed(model):
    assert any(field == "Mirrors" for field, _ in spin.header(model))
    assert any(case.bug for case in spin.cases(model))
    changed = spin.changed(model)
    assert not changed, (
        f"{changed} changed: compare models/{model}.pml with it, change the model where it no longer does the same, "
        f"then run `python -m models.spin --accept {model}`"
    )


def written(monkeypatch, folder, text):
    (folder / "wrong.pml").write_text(text, encoding="utf-8")
    monkeypatch.setattr(spin, "MODELS", folder)
    return list(spin.cases("wrong"))


def test_an_error_is_reported_with_its_trail(tools, monkeypatch, tmp_path):
    run, bug = written(monkeypatch, tmp_path, WRONG)
    found = spin.search(run, tmp_path)
    assert found.problem == "an error was found"
    assert "assertion violated" in found.trail
    assert not spin.search(bug, tmp_path).problem


def test_a_bug_that_is_not_found_is_a_problem(tools, monkeypatch, tmp_path):
    _, bug = written(
        monkeypatch, tmp_path, WRONG.replace("byte seen = x;", "atomic { x = x + BY; }").replace("x = seen + BY;", "")
    )
    assert spin.search(bug, tmp_path).problem == "the seeded bug was not found"


def test_a_process_that_never_takes_a_step_proves_nothing(tools, monkeypatch, tmp_path):
    [run] = written(monkeypatch, tmp_path, IDLE)
    assert "never takes a step" in spin.search(run, tmp_path).problem


def test_a_search_that_takes_too_long_proves_nothing(tools, monkeypatch, tmp_path):
    [run] = written(monkeypatch, tmp_path, LONG)
    assert "not finished" in spin.search(run, tmp_path, timeout=0.5).problem


def test_a_changed_template_is_reported(monkeypatch, tmp_path):
    (tmp_path / "a.mako").write_text("## note\nint  x;\n", encoding="utf-8")
    monkeypatch.setattr(spin, "TEMPLATES", tmp_path)
    written(monkeypatch, tmp_path, "/* A.\n   Mirrors: a.mako 000000000000\n*/\n")
    assert spin.changed("wrong") == ["a.mako"]
    spin.accept("wrong")
    assert spin.changed("wrong") == []
    (tmp_path / "a.mako").write_text("## another note\n\nint x;\n", encoding="utf-8")
    assert spin.changed("wrong") == []
    (tmp_path / "a.mako").write_text("int y;\n", encoding="utf-8")
    assert spin.changed("wrong") == ["a.mako"]
