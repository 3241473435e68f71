"""A release is whole: one version everywhere, a changelog by kind, and files that GitHub, Read the Docs and PyPI accept."""

from __future__ import annotations

import configparser
import importlib.util
import json
import re
import shutil
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

import portbar
from tests.checkout import ROOT, ran

WORKFLOWS = ROOT / ".github" / "workflows"
KINDS = ["Added", "Changed", "Deprecated", "Removed", "Fixed"]


def text_of(*path: str) -> str:
    return ROOT.joinpath(*path).read_text(encoding="utf-8")


def test_the_version_has_one_place() -> None:
    assert re.fullmatch(r"\d+\.\d+\.\d+((a|b|rc)\d+|\.dev\d+)?", portbar.__version__)
    parser = configparser.ConfigParser()
    parser.read(ROOT / "setup.cfg", encoding="utf-8")
    assert parser["metadata"]["version"] == "attr: portbar.__version__"
    assert re.findall(r"^version: (.*)$", text_of("CITATION.cff"), re.MULTILINE) == [portbar.__version__]


def test_the_changelog_has_a_heading_per_release_and_kind() -> None:
    text = text_of("CHANGELOG.md")
    releases = re.findall(r"^## (.*)$", text, re.MULTILINE)
    assert releases[:2] == ["Unreleased", portbar.__version__]
    for release in releases:
        part = text.partition(f"\n## {release}\n")[2].partition("\n## ")[0]
        kinds = re.findall(r"^### (.*)$", part, re.MULTILINE)
        assert len(kinds) == len(set(kinds)), f"CHANGELOG.md, {release}: {kinds}"
        assert set(kinds) <= set(KINDS), f"CHANGELOG.md, {release}: kinds are {KINDS}"
        assert kinds or release == "Unreleased"
        before = part.partition("\n### ")[0]
        assert "\n- " not in before or release == "Unreleased", f"CHANGELOG.md, {release}: a line without a kind"
    lines = [line for line in text.splitlines() if line.startswith("- ")]
    assert len(lines) == len(set(lines)), "CHANGELOG.md has a line twice"


def parsed(path: Path) -> Any:
    """A file in YAML, whose version 1.1 reads `on` as true."""
    value = yaml.safe_load(path.read_text(encoding="utf-8"))
    return {"on" if name is True else name: item for name, item in value.items()}


def faults(schema: Any, path: Path) -> list[str]:
    kind = jsonschema.validators.validator_for(schema)
    return [f"{path.name}: {fault.json_path}: {fault.message}" for fault in kind(schema).iter_errors(parsed(path))]


def published(name: str) -> Any:
    """A schema of SchemaStore, which check-jsonschema holds."""
    found = importlib.util.find_spec("check_jsonschema")
    if found is None or found.origin is None:
        pytest.skip("check-jsonschema is not installed; the workflow CI runs it")
    folder = Path(found.origin).parent / "builtin_schemas" / "vendor"
    if "ubuntu-24.04" not in (folder / "readthedocs.json").read_text(encoding="utf-8"):
        pytest.skip("check-jsonschema is older than what the files use: 0.29 or later is needed")
    return json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))


OWN = json.loads(text_of("tests", "package", "workflow_schema.json"))
WORKFLOW_FILES = sorted(WORKFLOWS.glob("*.yml"))
OTHERS = [(ROOT / ".readthedocs.yaml", "readthedocs"), (ROOT / "CITATION.cff", "citation-file-format")]


@pytest.mark.parametrize("path", WORKFLOW_FILES, ids=lambda path: path.stem)
def test_workflows_fit_the_schema_of_what_is_used(path: Path) -> None:
    assert faults(OWN, path) == []


@pytest.mark.parametrize(
    ("path", "schema"),
    [*((path, "github-workflows") for path in WORKFLOW_FILES), *OTHERS],
    ids=lambda value: getattr(value, "name", ""),
)
def test_the_published_schema_accepts_it(path: Path, schema: str) -> None:
    assert faults(published(schema), path) == []


MISTAKES = [
    ("ci.yml", "    runs-on:", "    runs_on:"),
    ("ci.yml", "timeout-minutes: 20", "timeout-minutes: soon"),
    ("ci.yml", "- cron:", "- corn:"),
    ("release.yml", "    steps:\n", "    step:\n"),
    ("release.yml", "id-token: write", "id-token: yes, please"),
]


@pytest.mark.parametrize("which", ["own", "published"])
@pytest.mark.parametrize(("name", "old", "new"), MISTAKES)
def test_the_schemas_refuse_mistakes(name: str, old: str, new: str, which: str, tmp_path: Path) -> None:
    text = text_of(".github", "workflows", name)
    assert old in text
    (tmp_path / name).write_text(text.replace(old, new), encoding="utf-8")
    assert faults(OWN if which == "own" else published("github-workflows"), tmp_path / name)


def test_the_documentation_is_built_as_the_tests_build_it() -> None:
    settings = parsed(ROOT / ".readthedocs.yaml")
    assert settings["version"] == 2
    assert (ROOT / settings["sphinx"]["configuration"]).is_file()
    assert settings["sphinx"]["fail_on_warning"] is True
    assert settings["python"]["install"] == [{"method": "pip", "path": ".", "extra_requirements": ["docs"]}]


def test_what_workflows_run_exists() -> None:
    scripts = set()
    for path in WORKFLOWS.glob("*.yml"):
        for script in re.findall(r"bash (\.ci/\w+)", path.read_text(encoding="utf-8")):
            assert (ROOT / script).is_file(), f"{path.name}: {script}"
            scripts.add(script)
    assert scripts == {".ci/run", ".ci/package"}


def test_the_release_needs_the_tag_of_its_version() -> None:
    """Before anything is built."""
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("bash is not installed")
    done = ran(bash, ROOT / ".ci" / "package", "--tag", "v0.0.0")
    assert done.returncode == 1
    assert f"the tag should be v{portbar.__version__}" in done.stdout
