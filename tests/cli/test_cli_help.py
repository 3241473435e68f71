"""Help at the command line: examples that parse, completion in real shells, colours and progress for terminals only."""

from __future__ import annotations

import io
import json
import os
import pty
import re
import select
import shlex
import shutil
import signal
import subprocess
import sys
import time
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import click
import pytest
from rich.console import Console

from portbar.cli import cli
from portbar.cli.progress import WORTH_SAYING_S, ShownSteps, about, titled
from portbar.cli.show import slugs
from tests.checkout import ROOT, environment
from tests.cli.support import commands, parsed

pytestmark = pytest.mark.skipif(os.name != "posix", reason="pseudo-terminals and shells")


def help_of(path: tuple[str, ...]) -> str:
    command = commands()[path]
    return command.get_help(click.Context(command, info_name=" ".join(("portbar", *path)), max_content_width=100))


def words_of(example: str) -> list[str]:
    """The words of a command, without what the shell does with its output."""
    return shlex.split(re.split(r"[|>]", example)[0], comments=True)


def test_every_command_has_examples_and_each_of_them_parses() -> None:
    seen = 0
    for path in commands():
        text = help_of(path)
        lines = text.partition("Examples:")[2].splitlines()
        parts = [part for line in lines if line.strip().startswith("portbar") for part in line.split("&&")]
        examples = [words_of(part) for part in parts]
        assert any(words[1 : 1 + len(path)] == [*path] for words in examples), f"{path} has no examples"
        assert "\b" not in text
        for name, *words in examples:
            assert name == "portbar"
            inner, _ = parsed(words)
            assert inner or words[0] in {"COMMAND", "--help"}, words
            seen += 1
    assert seen > 20


def test_every_command_takes_json_and_says_what_it_does() -> None:
    listing = help_of(())
    assert max(map(len, listing.splitlines())) <= 100
    for path, found in commands().items():
        assert len(path) != 1 or re.search(rf"^  {path[0]} ", listing, re.MULTILINE), path
        assert (found.help or "").strip(), path
        if not isinstance(found, click.Group):
            assert "--json" in {option for parameter in found.params for option in parameter.opts}, path
            for parameter in found.params:
                if isinstance(parameter, click.Option):
                    assert parameter.help or parameter.hidden, f"{path}: {parameter.name}"


def test_help_fits_80_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    for path in commands():
        assert max(map(len, help_of(path).splitlines())) <= 80, path


def test_help_of_everything_loads_no_command() -> None:
    program = """
import sys
from portbar.cli import main
try:
    main()
except SystemExit:
    loaded = sorted(name for name in sys.modules if name.startswith("portbar."))
    print(loaded, "pyopencl" in sys.modules, "numpy" in sys.modules)
"""
    done = subprocess.run(
        [sys.executable, "-c", program, "--help"], capture_output=True, text=True, check=True, env=environment()
    )
    assert done.stdout.splitlines()[-1] == "['portbar.cli', 'portbar.errors'] False False"


# Completion.


@pytest.fixture
def with_command(tmp_path: Path) -> dict[str, str]:
    """An environment in which `portbar` is a command that cannot load a driver."""
    program = f"""#!{sys.executable}
import sys
import pyopencl
pyopencl.get_platforms = lambda: sys.exit("drivers were loaded")
from portbar.cli import main
main()
"""
    (tmp_path / "portbar").write_text(program, encoding="utf-8")
    (tmp_path / "portbar").chmod(0o755)
    return {**environment(), "HOME": str(tmp_path), "TERM": "dumb", "PATH": f"{tmp_path}:{os.environ['PATH']}"}


PAGE = (ROOT / "docs" / "command_line.md").read_text(encoding="utf-8").partition("## Completion")[2]
BASH, ZSH, FISH = re.findall(r"^```sh\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
BASH += """
given() {
    COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMPREPLY=()
    _portbar_completion portbar
    echo "${COMPREPLY[*]}"
}
given portbar su
given portbar devices --js
given portbar show nvidia-c
"""
FISH += """
source ~/.config/fish/completions/portbar.fish
complete -C "portbar su"
complete -C "portbar devices --js"
complete -C "portbar show nvidia-c"
"""
ZSH = f"""
autoload -Uz compinit && compinit -u -D
{ZSH}
echo "completed by ${{_comps[portbar]}}"
"""


@pytest.mark.parametrize(
    ("shell", "option", "script"), [("bash", "--norc", BASH), ("zsh", "-f", ZSH), ("fish", "--no-config", FISH)]
)
def test_the_instructions_of_the_page_make_a_shell_complete(
    with_command: dict[str, str], tmp_path: Path, shell: str, option: str, script: str
) -> None:
    found = shutil.which(shell)
    if found is None:
        pytest.skip(f"{shell} is not installed")
    (tmp_path / ".config" / "fish" / "completions").mkdir(parents=True)
    (tmp_path / "script").write_text(script, encoding="utf-8")
    command = [found, option, str(tmp_path / "script")]
    done = subprocess.run(command, env=with_command, capture_output=True, text=True, timeout=180, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    if shell == "zsh":
        assert done.stdout.splitlines()[-1] == "completed by _portbar_completion"
        return
    words = [line.split("\t")[0] for line in done.stdout.splitlines()]
    submit, survey, option, *named = " ".join(words).split()
    assert [submit, survey, option] == ["submit", "survey", "--json"]
    assert named
    assert all(name.startswith("nvidia-c") for name in named)


def test_files_are_completed_where_no_record_fits() -> None:
    (item,) = slugs(click.Context(cli), click.Argument(["record"]), "/some/where/")
    assert (item.value, item.type) == ("/some/where/", "file")


# Colours and progress.


def on_terminal(program: str, env: dict[str, str]) -> tuple[str, str]:
    """Run Python with standard error on a terminal; what came there, and on standard output."""
    try:
        ours, theirs = pty.openpty()
    except OSError as error:
        pytest.skip(f"this machine has no pseudo-terminal: {error}")
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=theirs, env=env) as process:
        os.close(theirs)
        text, deadline = b"", time.monotonic() + 120.0
        while time.monotonic() < deadline:
            if select.select([ours], [], [], 0.1)[0]:
                try:
                    text += os.read(ours, 65536)
                except OSError:
                    break
            elif process.poll() is not None:
                break
        process.kill()
        out = process.communicate()[0]
    os.close(ours)
    return text.decode(), out.decode()


def plain_environment(**more: str) -> dict[str, str]:
    kept = {name: text for name, text in environment().items() if name not in {"NO_COLOR", "FORCE_COLOR", "TERM"}}
    return {**kept, "TERM": "xterm-256color", **more}


STEPS = f"""
import time
from portbar.cli.output import err
from portbar.cli.progress import ShownSteps
with ShownSteps(err()) as steps:
    steps.step("0:0 A [red]device[/red]", "measuring [x]", 3.0)
    time.sleep(0.8)
    steps.note("7 done")
    time.sleep(1.4)
    steps.say("a line [b]that stays[/b]")
    steps.step("", "soon over", 0.1)
    steps.step("", "not over soon", {WORTH_SAYING_S / 10})
    time.sleep({WORTH_SAYING_S} + 0.6)
"""


def said_to(more: dict[str, str]) -> tuple[str, str]:
    """Return the output of `STEPS` on standard error, a terminal unless it is piped, and on standard output."""
    env = plain_environment(**{name: text for name, text in more.items() if name != "piped"})
    if "piped" not in more:
        return on_terminal(STEPS, env)
    done = subprocess.run([sys.executable, "-c", STEPS], capture_output=True, text=True, check=True, env=env)
    return done.stderr, done.stdout


SURROUNDINGS: dict[str, dict[str, str]] = {
    "terminal": {},
    "dumb": {"TERM": "dumb"},
    "piped in colour": {"FORCE_COLOR": "1", "piped": "1"},
    "piped": {"piped": "1"},
}


@pytest.fixture(scope="module")
def said() -> dict[str, Future[tuple[str, str]]]:
    """Return the output of `STEPS` in each of the surroundings, all at once: it sleeps most of the time."""
    with ThreadPoolExecutor() as pool:
        return {name: pool.submit(said_to, more) for name, more in SURROUNDINGS.items()}


def test_a_terminal_gets_a_bar_that_goes_away(said: dict[str, Future[tuple[str, str]]]) -> None:
    text, out = said["terminal"].result()
    assert out == ""
    assert re.search(r"measuring \[x\] for about 3 s .*0:00:0[12]", text)
    assert "7 done" in text
    assert "\x1b[" in text
    assert re.search(r"0:0 A \[red\]device\[/red\]: measuring \[x\]: \d s", text)
    assert "a line [b]that stays[/b]" in text
    assert "not over soon" in text
    assert "soon over" not in text
    # The cursor is shown again, and the bar's line is taken away.
    assert text.rindex("\x1b[?25h") > text.rindex("\x1b[?25l")


@pytest.mark.parametrize("where", ["dumb", "piped in colour", "piped"])
def test_anything_else_gets_lines(said: dict[str, Future[tuple[str, str]]], where: str) -> None:
    text, _ = said[where].result()
    lines = [re.sub(r"\x1b\[[\d;]*m", "", line) for line in text.splitlines()]
    assert [re.sub(r"^\[ +\d\.\d s\] ", "", line) for line in lines] == [
        "0:0 A [red]device[/red]: measuring [x] for about 3 s",
        "a line [b]that stays[/b]",
        "not over soon",
    ]
    assert "\r" not in text.replace("\r\n", "")
    assert "\x1b[?25" not in text


LONG_NAME = "0:0 pthread-skylake-avx512-AMD EPYC (Portable Computing Language, OpenCL 3.0 PoCL 3.1+debian Linux)"
LONG_STEP = f"""
import time
from portbar.cli.output import err
from portbar.cli.progress import ShownSteps
with ShownSteps(err()) as steps:
    steps.step("{LONG_NAME}", "measuring occupancy", 5.0)
    time.sleep(1.2)
"""


def test_a_line_of_80_columns_says_what_is_done_to_a_device_with_a_long_name() -> None:
    text, _ = on_terminal(LONG_STEP, plain_environment(COLUMNS="80"))
    plain = re.sub(r"\x1b\[[\d;?]*[A-Za-z]", "", text)
    lines = {line.strip() for line in re.split(r"[\r\n]+", plain) if line.strip()}
    assert lines
    for line in lines:
        assert re.fullmatch(r"0:0 \.\.\.: measuring occupancy for about 5 s \S+ 0:00:0\d", line), line
        assert len(line) <= 80


def test_a_name_gives_way_to_what_is_done() -> None:
    assert titled("", "checking 3 devices", 10) == "checking 3 devices"
    assert titled(LONG_NAME, "measuring") == f"{LONG_NAME}: measuring"
    assert titled("0:0 A device", "measuring", 40) == "0:0 A device: measuring"
    assert titled(LONG_NAME, "measuring", 60) == "0:0 pthread-skylake-avx512-AMD EPYC (Portable ...: measuring"
    assert titled(LONG_NAME, "measuring", 20) == "0:0 ...: measuring"
    assert titled(LONG_NAME, "measuring", 15) == "0:0: measuring"


def test_a_step_that_is_over_in_time_is_not_announced() -> None:
    stream = io.StringIO()
    with ShownSteps(Console(file=stream, width=80)) as steps:
        steps.step("x", "quick", 0.1)
        steps.step("x", "quick", 0.1)
    time.sleep(0.1)
    assert stream.getvalue() == ""


def test_estimates_are_as_rough_as_they_are() -> None:
    assert [about(seconds) for seconds in (0.2, 22.4, 89, 300, 3600, 36_000)] == [
        "about 1 s",
        "about 22 s",
        "about 89 s",
        "about 5 min",
        "about 60 min",
        "about 10.0 h",
    ]


COLOURED = "from portbar.cli.output import err, show; show('data', style='bold red'); err().print('said', style='red')"


@pytest.mark.parametrize(("more", "coloured"), [({}, True), ({"NO_COLOR": "1"}, False)])
def test_no_color_is_respected_on_a_terminal(more: dict[str, str], coloured: bool) -> None:
    text, out = on_terminal(COLOURED, plain_environment(**more))
    assert "said" in text
    assert out == "data\n"
    assert bool(re.search(r"\x1b\[(?:\d+;)*(?:3[0-7]|38|9[0-7])[;m]", text)) is coloured


def test_every_command_keeps_colours_from_pipes() -> None:
    for words in (("--help",), ("check", "--list"), ("devices", "--nonsense"), ("show", "--help")):
        done = subprocess.run(
            [sys.executable, "-m", "portbar", *words],
            capture_output=True,
            check=False,
            env=plain_environment(),
        )
        assert b"\x1b" not in done.stdout + done.stderr, words


# Ctrl-C.

#: Two devices that work.
DEVICES = """
import sys, time
from types import SimpleNamespace
from portbar import cli
from portbar.cli import selected
from portbar.device.addresses import DeviceAddress
from portbar.device.facts import DeviceFacts
from portbar.device.usable import Usability
one, other = (DeviceAddress(0, i, "P", f"D{i}", "1") for i in range(2))
selected.chosen = lambda _: [(one, one), (other, other)]
selected.facts = lambda where: DeviceFacts(name=where.device_name, platform_name="P")
selected.check = lambda _: Usability(True, "", "", 0.1)
"""
CHECK = (
    DEVICES
    + """
from portbar.cli import check as command
from portbar.survey.litmus import checking
from portbar.survey.litmus.results import blank
checking.facts = selected.facts
command.store_verdicts = lambda _, verdicts: print("STORED", verdicts, file=sys.stderr, flush=True)
def check(device, *, on_progress, **_):
    for name, status in (("MP-work_group-global-fences", "pass"), ("SB-device-global-ops", STATUS)):
        forbidden = {"r0=0 r1=0": 3} if status == "fail" else {}
        on_progress({"begin": ["c11", name]})
        on_progress({"result": {**blank(name, "c11", 7), "status": status, "instances": 9, "forbidden": forbidden,
                                "reason": "3 of 9 forbidden" if forbidden else ""}})
    print("READY", file=sys.stderr, flush=True)
    time.sleep(60)
command.check = check
cli.main()
"""
)
BENCH = (
    DEVICES
    + """
from portbar.cli import bench as command
from portbar.records.reading import measured
command.probe = lambda _: SimpleNamespace(findings=None)
command.choose = lambda _: SimpleNamespace(max_groups=None)
command.store_table = lambda *_: print("STORED", file=sys.stderr, flush=True)
def run_step(task, payload, limit, rows):
    rows.append({"algorithm": "flag", "groups": 2, "local_size": 64, "rounds": 100,
                 "barrier_time": measured(2.5, "us", [2.5, 2.6]), "relaunch_time": measured(9.0, "us", [9.0, 9.1])})
    print("READY", file=sys.stderr, flush=True)
    time.sleep(60)
command.run_step = run_step
cli.main()
"""
)


def interrupted(program: str, *arguments: str) -> tuple[int, str, str]:
    """Run a program until it says READY, press Ctrl-C, and return its exit status and what it printed."""
    with subprocess.Popen(
        [sys.executable, "-c", program, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(),
    ) as process:
        assert process.stderr is not None
        said = ""
        while "READY" not in said:
            line = process.stderr.readline()
            assert line, said
            said += line
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=120)
    return process.returncode, out, said + err


def test_check_keeps_what_is_done_on_ctrl_c() -> None:
    code, out, err = interrupted(CHECK.replace("STATUS", "'pass'"), "check", "--json")
    (entry,) = json.loads(out)
    assert (code, entry["status"], entry["stored"]) == (130, "interrupted", False)
    assert [result["test"] for result in entry["check"]["results"]] == [
        "MP-work_group-global-fences",
        "SB-device-global-ops",
    ]
    assert entry["check"]["seed"] == 7
    assert not entry["check"]["complete"]
    # Half of the tests prove nothing.
    assert entry["check"]["verdicts"] == {"c11": "untested: interrupted; 2 passed"}
    assert "interrupted" in err
    assert "STORED" not in err


def test_a_fault_that_was_found_before_ctrl_c_counts() -> None:
    code, out, err = interrupted(CHECK.replace("STATUS", "'fail'"), "check")
    assert code == 130
    assert "c11: fail: SB-device-global-ops: 3 of 9 forbidden" in out
    assert "STORED {'c11': 'fail: SB-device-global-ops" in err
    assert "D1" not in out


@pytest.mark.parametrize("extra", [(), ("--json",)])
def test_bench_keeps_the_times_on_ctrl_c(extra: tuple[str, ...]) -> None:
    code, out, err = interrupted(BENCH, "bench", "barrier", *extra)
    assert code == 130
    assert "STORED" not in err
    if extra:
        (entry,) = json.loads(out)
        assert (entry["status"], entry["stored"], entry["device"]) == ("interrupted", False, "0:0")
        assert [row["algorithm"] for row in entry["rows"]] == ["flag"]
    else:
        assert re.search(r"flag.*2\.5|2\.5.*flag", " ".join(out.split()))
        assert "D1" not in out


@pytest.mark.device
def test_check_of_a_device_keeps_what_is_done_on_ctrl_c(selector: str) -> None:
    program = """
import sys
from portbar import cli
from portbar.cli import progress
progress.ShownSteps.note = lambda self, text: print("READY", file=sys.stderr, flush=True)
cli.main()
"""
    code, out, err = interrupted(program, "check", "-d", selector, "--seconds", "60", "--no-store", "--json")
    (entry,) = json.loads(out)
    assert (code, entry["status"]) == (130, "interrupted"), err
    assert entry["check"]["results"]
