"""docs/ci.md and docs/cluster.md are true about launchers and pytest, and the test that they show passes."""

from __future__ import annotations

import re

import pytest

from portbar.survey.fleet import hosts
from tests.checkout import ROOT, python_path

pytest_plugins = ["pytester"]

PAGES = [ROOT / "docs" / name for name in ("ci.md", "cluster.md")]
TEXT = {page.stem: page.read_text(encoding="utf-8") for page in PAGES}


def blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", TEXT[page], re.MULTILINE | re.DOTALL)


def test_the_page_names_every_variable_of_a_launcher():
    assert [name for name in (*hosts.SIZES, "PMIX_RANK") if f"`{name}`" not in TEXT["cluster"]] == []


def test_options_of_pytest_are_those_of_the_plugin():
    plugin = (ROOT / "portbar" / "cli" / "pytest_plugin.py").read_text(encoding="utf-8")
    shown = set(re.findall(r"--portbar-\w+|PORTBAR_PYTEST_\w+", TEXT["ci"]))
    assert shown == {"--portbar-device", "--portbar-require", "PORTBAR_PYTEST_DEVICE"}
    assert all(f'"{name}"' in plugin for name in shown)


def test_shell_and_workflow_are_well_formed():
    yaml = pytest.importorskip("yaml")
    (workflow,) = blocks("ci", "yaml")
    steps = yaml.safe_load(workflow)["jobs"]["pocl"]["steps"]
    assert any("--portbar-require" in step.get("run", "") for step in steps)
    assert any("--check records/pocl.json" in step.get("run", "") for step in steps)


@pytest.mark.device
def test_the_test_on_the_page_passes(pytester, monkeypatch, selector):
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.setenv("PYTHONPATH", python_path())
    monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)
    (program,) = blocks("ci", "python")
    pytester.makepyfile(program)
    result = pytester.runpytest_subprocess(
        "-p", "portbar.cli.pytest_plugin", "-rsA", "--portbar-require", "--portbar-device", selector, timeout=100
    )
    outcomes = {name: count for name, count in result.parseoutcomes().items() if not name.startswith("warning")}
    assert outcomes in ({"passed": 1}, {"skipped": 1})
    if "skipped" in outcomes:
        result.stdout.fnmatch_lines_random(["*concurrently, the test needs 2*"])
