"""`.ci/newcomer` runs the README's commands, all of them, as a user who has nothing but what they ask for."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.checkout import ROOT, ran

BASH = shutil.which("bash")
pytestmark = [
    pytest.mark.skipif(BASH is None, reason="bash is not installed"),
    pytest.mark.skipif(os.name == "nt", reason="the script is for Debian"),
]


def test_it_runs_the_commands_of_the_readme_word_for_word() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    commands = "".join(re.findall(r"^```sh\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)).splitlines()
    assert any(command.endswith("portbar survey") for command in commands)
    assert any(command.endswith("python -m tests.runtimes") for command in commands)
    assert ran(BASH, ROOT / ".ci" / "newcomer", "--list").stdout.splitlines() == commands


def test_ci_runs_it_before_it_installs_anything_and_fails_with_it() -> None:
    text = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    (call,) = re.findall(r"^stage .* newcomer \|\| failed\+=.*$", text, re.MULTILINE)
    later = text.partition(call)[2]
    assert 'together "system packages"' in later
    assert "-m tests.runtimes" in later
    assert later.splitlines()[-1] == '[ "${#failed[@]}" -eq 0 ]'


def as_newcomer(folder: Path, *commands: str) -> subprocess.CompletedProcess[str]:
    """Run commands as those of a README, with a PATH of few programs."""
    (folder / "checkout" / ".ci").mkdir(parents=True)
    (folder / "temporary").mkdir()
    for name in ("newcomer", "tree"):
        shutil.copy(ROOT / ".ci" / name, folder / "checkout" / ".ci")
    text = "".join(f"Some words.\n\n```sh\n{command}\n```\n\n```c\nint i;\n```\n" for command in commands)
    (folder / "checkout" / "README.md").write_text(text, encoding="utf-8")
    variables = {**os.environ, "TMPDIR": str(folder / "temporary"), "PIP_TIMEOUT": "77", "MINE": "1"}
    return ran(BASH, folder / "checkout" / ".ci" / "newcomer", "--path", env=variables)


def test_a_newcomer_has_python_and_no_tool_beyond_an_empty_debian(tmp_path: Path) -> None:
    tools = "ld gcc cc clang clang-15 spin tcc chromium zsh fish make portbar"
    commands = [
        f"for tool in {tools}; do if command -v $tool; then exit 9; fi; done",
        "python3 -c 'import venv' && ls README.md && touch left",
        '[ -f left ] && [ "$PIP_TIMEOUT" = 77 ] && [ -z "${MINE:-}" ] && [ "$PWD" = "$HOME/portbar" ]',
    ]
    done = as_newcomer(tmp_path, *commands)
    assert done.returncode == 0, done.stdout + done.stderr
    assert [line[2:] for line in done.stdout.splitlines() if line.startswith("$ ")][::2] == commands
    assert not (tmp_path / "checkout" / "left").exists()
    assert list((tmp_path / "temporary").iterdir()) == []


def test_a_command_that_fails_is_the_last_and_the_status(tmp_path: Path) -> None:
    done = as_newcomer(tmp_path, "echo one", "exit 7", "echo three")
    assert done.returncode == 1
    assert "ended with status 7" in done.stdout
    assert "three" not in done.stdout
    assert list((tmp_path / "temporary").iterdir()) == []


def test_a_readme_without_commands_is_a_failure(tmp_path: Path) -> None:
    done = as_newcomer(tmp_path)
    assert done.returncode == 1
    assert "README.md has no command" in done.stdout
