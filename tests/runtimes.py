"""Runs the tests once for each OpenCL runtime of this machine, one more at a time than there are cores; ends with a table.

`python -m tests.runtimes` takes the short way, `--all` runs what CI runs; `--list` shows the configurations,
`--only pocl` picks some. Each is a pytest process of its own, so that a driver's abort costs one row;
`tests.rows` says which tests it runs.

Exit 0 means that nothing failed, and that device tests passed: on any device, with `--all` on one of PoCL.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field, replace
from pathlib import Path
from xml.etree import ElementTree as ET

from rich.console import Console
from rich.live import Live
from rich.table import Table

from tests import kept
from tests.checkout import ROOT
from tests.machine import Configuration, Workshop, check, configurations, last_line, other_threads
from tests.rows import HALVES, SAMPLE_VARIABLE, SHARES

#: The end of a test in pytest's log; a driver may have printed on the line before.
OUTCOME = r"^(?:\S+::.* )?(PASSED|FAILED|ERROR|SKIPPED)(?: \((.*)\))? +\[ *\d+%\]"
PROGRESS = 10.0
NICENESS = "10"
LIMIT_S = 3600.0


class Progress:
    """The progress of a row, from its log."""

    def __init__(self, configuration: Configuration) -> None:
        self.configuration, self.log, self.started = configuration, Path(), time.monotonic()
        seconds = kept.duration(configuration.part) or SHARES[configuration.share].seconds
        #: As long as it took last on this machine, or as its share once took; empty if neither is known.
        self.of_about = f" of about {seconds:.0f}" if seconds else ""

    def __str__(self) -> str:
        text = self.log.read_text(errors="replace") if self.log.is_file() else ""
        total = re.search(r"^collecting.*?(\d+)(?: selected| items?)\s*$", text, re.MULTILINE)
        done = len(re.findall(OUTCOME, text, re.MULTILINE))
        seconds = time.monotonic() - self.started
        counts = f"{done:4} of {total[1]} tests" if total else "collecting tests"
        return f"    {self.configuration.name:28} {counts:18} {seconds:5.0f}{self.of_about} s"


@dataclass
class Row:
    """The result of one configuration."""

    name: str
    passed: int = 0
    failed: int = 0
    skips: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0
    notes: list[str] = field(default_factory=list)
    #: Each test that failed, with its error, and why a run broke off, for the end of the output.
    failures: list[str] = field(default_factory=list)
    is_device: bool = False
    is_pocl: bool = False

    @property
    def remarks(self) -> str:
        """Reasons of what did not run or failed, one a line, those of skipped tests with their number."""
        return "\n".join([*self.notes, *(f"{count} skipped: {reason}" for reason, count in self.skips.most_common())])


def share_of(configuration: Configuration, first: str, *, quick: bool) -> str:
    """Return the share of the tests that a configuration runs; `first` is the one that runs all."""
    name = configuration.name
    if not configuration.wanted:
        return "quick host" if quick else "host"
    if quick:
        return "quick"
    if name == first:
        return "first"
    if other_threads(configuration):
        return "threads"
    if configuration.is_pocl:
        return "relative"
    return {"Intel(R) OpenCL": "sample", "Oclgrind x1": "simulator", "rusticl": "second"}.get(name, "whole")


def alone_or_not(chosen: Sequence[Configuration]) -> list[Configuration]:
    """Let the row that runs all tests run all cases, too, where a row is missing that takes a half of the cases."""
    samples = {SHARES[one.share].sample for one in chosen if not one.unusable}
    if samples >= set(HALVES):
        return list(chosen)
    return [replace(one, share="alone") if one.share == "first" else one for one in chosen]


def is_relative(configuration: Configuration, first: str) -> bool:
    """Whether a configuration is of PoCL, and one of PoCL works that is not this one."""
    return configuration.is_pocl and first.startswith("PoCL") and configuration.name != first


def first_of(workshop: Workshop, configurations: Sequence[Configuration]) -> str:
    """Return the name of the configuration that runs all device tests: one that works, of PoCL if any does."""

    def rank(one: Configuration) -> tuple[bool, bool, bool]:
        return (not one.is_pocl, "loopvec x2" not in one.name, "Oclgrind" in one.name)

    ranked = sorted((one for one in configurations if one.wanted and not other_threads(one)), key=rank)
    return next((one.name for one in ranked if not check(workshop, one)[1]), "")


def checked(workshop: Workshop, configuration: Configuration) -> Configuration:
    """Return the configuration with its device, or with why it cannot be tested."""
    device, reason = check(workshop, configuration)
    return replace(configuration, device=device, unusable=reason)


def run(
    workshop: Workshop,
    configuration: Configuration,
    arguments: argparse.Namespace,
    progress: Progress | None = None,
    stop: threading.Event | None = None,
) -> Row:
    """Run one configuration's tests and count."""
    row = Row(configuration.name, is_device=bool(configuration.wanted), is_pocl=configuration.is_pocl)
    if configuration.unusable:
        row.notes.append(f"unusable: {configuration.unusable}")
        return row
    scratch = workshop.scratch(configuration.name)
    environment = workshop.environment(configuration.library, **configuration.environment)
    # Drivers and portbar leave files of programs that did not compile.
    temporary = scratch / "tmp"
    temporary.mkdir(exist_ok=True)
    environment |= {"PORTBAR_CACHE_DIR": str(scratch / "cache"), "TMPDIR": str(temporary)}
    if configuration.wanted:
        environment["PORTBAR_TEST_PLATFORM"] = configuration.wanted
    marks = SHARES[configuration.share].marks
    if chooses_tests(arguments.pytest):
        marks = "device" if configuration.wanted else "not device"
    elif (sample := SHARES[configuration.share].sample) and not arguments.everything:
        environment[SAMPLE_VARIABLE] = sample
    report, log = scratch / "report.xml", scratch / "log.txt"
    if progress:
        progress.log = log
    # The longest row goes first: two others wait for it, which share its compiled kernels.
    later = shutil.which("nice") if configuration.share not in {"first", "alone"} else None
    command = [
        *([later, "-n", NICENESS] if later else []),
        sys.executable,
        "-m",
        "pytest",
        "tests",
        "-v",
        "-m",
        marks,
        "--color=no",
        "-p",
        "no:cacheprovider",
        # A driver prints into the log itself: pytest's capture would be lost with a process that ends.
        "--capture=sys",
        f"--timeout={arguments.test_limit:g}",
        f"--junitxml={report}",
        f"--basetemp={scratch / 'pytest'}",
        *arguments.pytest,
    ]
    started = time.monotonic()
    with log.open("w") as sink:
        child = subprocess.Popen(
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=sink,
            stderr=subprocess.STDOUT,
            cwd=ROOT,
            start_new_session=True,
        )
        if later:
            # Linux shares its cores among sessions, and niceness counts within one only.
            with contextlib.suppress(OSError):
                Path(f"/proc/{child.pid}/autogroup").write_text(NICENESS)
        late = not finish(child, arguments.limit, stop or threading.Event())
    row.seconds = time.monotonic() - started
    text = log.read_text(errors="replace")
    if report.exists() and not late:
        count_report(report, row)
        if child.returncode not in (0, 1, 5):
            row.failed += row.failed == 0
            row.notes.append(f"pytest exited with {child.returncode}: {last_line(text)}")
            row.failures.append(row.notes[-1])
    else:
        # The report of a run that broke off counts the unfinished test as passed; the log does not.
        count_log(text, row)
        row.failed += 1
        how = (
            f"were stopped at the limit of {arguments.limit:g} s" if late else f"ended early (exit {child.returncode})"
        )
        words = "" if late else last_words(text)
        row.notes.append(f"the tests {how} in {last_test(text)}{': ' if words else ''}{words}")
        row.failures.append(row.notes[-1])
    if row.failed:
        say(text)
    elif not row.passed:
        row.notes.append("no test passed")
    elif not (arguments.everything or chooses_tests(arguments.pytest)):
        kept.note_duration(configuration.part, row.seconds)
    row.notes += re.findall(r"^(sample: .*)$", text, re.MULTILINE)
    return row


def run_all(workshop: Workshop, chosen: Sequence[Configuration], arguments: argparse.Namespace) -> list[Row]:
    """Run configurations, `--jobs` at a time, the longest first, and say how far they are."""
    waiting = sorted((one for one in chosen if not one.unusable), key=lambda one: list(SHARES).index(one.share))
    running: dict[Future[Row], Progress] = {}
    rows = {one.name: run(workshop, one, arguments) for one in chosen if one.unusable}
    stop = threading.Event()
    said = time.monotonic()
    screen = Console(stderr=True)
    with ThreadPoolExecutor(arguments.jobs) as pool, Live(console=screen, transient=True, auto_refresh=False) as live:
        try:
            while waiting or running:
                busy = {progress.configuration.compiler for progress in running.values()}
                free = [one for one in waiting if one.compiler not in busy]
                if free and len(running) < arguments.jobs:
                    waiting.remove(free[0])
                    progress = Progress(free[0])
                    say(f"{free[0].name}: started{free[0].device and f' on {free[0].device}'}")
                    running[pool.submit(run, workshop, free[0], arguments, progress, stop)] = progress
                    continue
                done, _ = wait(running, 1.0, FIRST_COMPLETED)
                for future in done:
                    row = rows[running.pop(future).configuration.name] = future.result()
                    say(
                        f"{row.name}: {row.passed} passed, {row.failed} failed, {row.skips.total()} skipped, "
                        f"{row.seconds:.1f} s; {len(running) + len(waiting)} of {len(chosen)} rows to go"
                    )
                now = [str(progress) for progress in running.values()]
                live.update("\n".join(now), refresh=screen.is_terminal)
                if not screen.is_terminal and time.monotonic() > said + PROGRESS:
                    said = time.monotonic()
                    say("\n".join(now))
        except BaseException:
            stop.set()
            raise
    return [rows[one.name] for one in chosen]


def chooses_tests(arguments: Sequence[str]) -> bool:
    """Whether these arguments for pytest choose tests, so that a row's share must not choose others."""
    return any(argument.startswith(("-k", "-m")) for argument in arguments)


def finish(child: subprocess.Popen[bytes], limit: float, stop: threading.Event) -> bool:
    """Wait for a child, end all that it started, and return whether it was in time."""
    deadline = time.monotonic() + limit
    while child.poll() is None and time.monotonic() < deadline and not stop.wait(0.1):
        pass
    if child.poll() is None:
        for sent, patience in ((signal.SIGINT, 15), (signal.SIGTERM, 5)):
            child.send_signal(sent)
            try:
                child.wait(patience)
                break
            except subprocess.TimeoutExpired:
                continue
        in_time = False
    else:
        in_time = True
    if hasattr(os, "killpg"):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
    else:
        child.kill()
    child.wait()
    return in_time


def count_report(report: Path, row: Row) -> None:
    """Add the counts and reasons of a JUnit report."""
    for case in ET.parse(report).iter("testcase"):  # noqa: S314 (pytest has just written it)
        test = f"{case.get('classname')}::{case.get('name')}"
        outcome = next((child for child in case if child.tag in {"failure", "error", "skipped"}), None)
        if outcome is None:
            row.passed += 1
        elif outcome.tag == "skipped":
            row.skips[outcome.get("message") or outcome.get("type") or "no reason given"] += 1
        else:
            row.failed += 1
            row.notes.append(f"failed: {test}")
            row.failures.append(f"{test}: {' '.join((outcome.get('message') or '').split())[:600]}")


def count_log(text: str, row: Row) -> None:
    """Add the counts of a log that broke off before pytest could report."""
    for outcome, reason in re.findall(OUTCOME, text, re.MULTILINE):
        if outcome == "SKIPPED":
            row.skips[reason or "no reason given"] += 1
        else:
            row.passed += outcome == "PASSED"
            row.failed += outcome != "PASSED"


def last_test(text: str) -> str:
    """Return the last test that a broken log names."""
    tests = re.findall(r"^(\S+::\S+)", text, re.MULTILINE)
    return tests[-1] if tests else f"collection: {last_line(text)}"


def last_words(text: str) -> str:
    """Return what a broken log says first after the name of its last test, as why the driver ended the process."""
    lines = text.rpartition(last_test(text))[2].split("\n")[:5]
    return " ".join(" ".join(lines).split())[:300]


def say(text: str) -> None:
    """Print progress."""
    print(text, file=sys.stderr, flush=True)


def table(rows: Sequence[Row]) -> Table:
    """Return the table of all rows."""
    made = Table("runtime", title="OpenCL runtimes of this machine", show_lines=True)
    for column in ("passed", "failed", "skipped", "s"):
        made.add_column(column, justify="right")
    made.add_column("remarks", overflow="fold")
    for row in rows:
        counts = (row.passed, row.failed, row.skips.total())
        made.add_row(row.name, *map(str, counts), f"{row.seconds:.0f}", row.remarks.replace("[", r"\["))
    return made


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.runtimes", description="Run the tests once for each OpenCL runtime."
    )
    parser.add_argument("--list", action="store_true", help="list the configurations and end")
    parser.add_argument(
        "--only",
        metavar="SUBSTR",
        action="append",
        default=[],
        help="run those with SUBSTR in their name, in any case; may be repeated",
    )
    parser.add_argument("--all", action="store_true", help="run what CI runs: all runtimes, all tests")
    parser.add_argument(
        "--quick", dest="all", action="store_false", help="one row for each runtime, no test marked slow (the default)"
    )
    parser.add_argument(
        "--fresh",
        action="store_true",
        help="use nothing that earlier runs on this machine have kept: proofs of unchanged texts, compiled kernels",
    )
    parser.add_argument(
        "--everything", action="store_true", help="run what CI runs, each row with all cases of its tests"
    )
    parser.add_argument(
        "--jobs",
        type=int,
        default=cores() + 1,
        help="rows at a time (default: one more than cores, here %(default)s, since rows also wait)",
    )
    parser.add_argument(
        "--limit", type=float, help="seconds for one configuration (default 3600, four times as long with --everything)"
    )
    parser.add_argument("--test-limit", type=float, default=120.0, help="seconds for one test (default %(default)g)")
    parser.add_argument("pytest", nargs="*", metavar="-- ARG", help="arguments for pytest, such as -- -k barrier")
    options = parser.parse_args(arguments)
    options.limit = options.limit or LIMIT_S * (4 if options.everything else 1)
    return options


def cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what the command line asks for and return the exit code."""
    options = parse(arguments)
    if options.fresh:
        os.environ[kept.VARIABLE] = "1"
    kept.prune()
    folder = Path(tempfile.mkdtemp(prefix="portbar-tests-"))
    try:
        workshop = Workshop(folder)
        options.all = options.all or options.everything
        found = list(configurations(workshop, quick=not options.all))
        chosen = [
            one for one in found if not options.only or any(part.lower() in one.name.lower() for part in options.only)
        ]
        first = first_of(workshop, found) if options.all or not options.only else ""
        if not options.all and not options.only:
            chosen = [one for one in chosen if not is_relative(one, first)]
        if options.list:
            for configuration in chosen:
                print(configuration.name, configuration.unusable and f"(unusable: {configuration.unusable})")
            return 0
        if not chosen:
            say(f"no configuration is called like {options.only}; --list shows them")
            return 2
        chosen = [replace(one, share=share_of(one, first, quick=not options.all)) for one in chosen]
        with ThreadPoolExecutor(options.jobs) as pool:
            chosen = alone_or_not(list(pool.map(lambda one: checked(workshop, one), chosen)))
        rows = run_all(workshop, chosen, options)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return report_all(rows, need="" if options.only else "PoCL" if options.all else "OpenCL")


def report_all(rows: Sequence[Row], *, need: str) -> int:
    """Print the table, what failed, and the summary, in this order, and return the exit code.

    The end of a long log then says what to look at.
    """
    Console(width=None if sys.stdout.isatty() else 150).print(table(rows))
    missing = bool(need) and not any(
        row.passed and (row.is_pocl or (need == "OpenCL" and row.is_device)) for row in rows
    )
    if missing:
        print(f"no device test passed on any {need} device; install Debian's pocl-opencl-icd or the extra `cpu`")
    passed, failed, skipped = (
        sum(counts) for counts in zip(*((row.passed, row.failed, row.skips.total()) for row in rows), strict=True)
    )
    for row in rows:
        for failure in row.failures:
            print(f"FAILED on {row.name}: {failure}")
    print(f"{passed} passed, {failed} failed, {skipped} skipped", flush=True)
    return 1 if failed or missing else 0


if __name__ == "__main__":
    sys.exit(main())
