"""Runs the tests once for each OpenCL runtime of this machine, one more at a time than there are cores; ends with a table.

`python -m tests.runtimes` takes the short way, `--all` runs what CI runs; `--list` shows the configurations,
`--only pocl` picks some. Each is a pytest process of its own, so that a driver's abort costs one row;
`tests.rows` says which tests it runs.

A configuration sees one platform: `OCL_ICD_VENDORS` names a folder that holds that runtime's library alone.
PyOpenCL adds PoCL's wheel to the installed platforms, so `PORTBAR_TEST_PLATFORM` says which platform to test. Exit 0 means that
nothing failed and that device tests passed on a PoCL device.
"""

from __future__ import annotations

import argparse
import contextlib
import json
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
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field, replace
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

from rich.console import Console
from rich.live import Live
from rich.table import Table

from tests import kept
from tests.rows import SAMPLE_VARIABLE, SHARES

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

ROOT = Path(__file__).resolve().parent.parent
SYSTEM_VENDORS = Path("/etc/OpenCL/vendors")
LIBRARY_FOLDERS = (
    "/usr/lib",
    "/usr/lib64",
    "/usr/local/lib",
    "/usr/lib/x86_64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
)
PROBE_LIMIT = 60.0
OUTCOME = r"^\S+::.* (PASSED|FAILED|ERROR|SKIPPED)(?: \((.*)\))?"
THREADS = (1, 2, 8)
PROGRESS = 10.0

# Prints a JSON line per platform: its name and whether its first device runs a kernel with a barrier correctly.
PROBE = r"""
import json, sys
import numpy as np
import pyopencl as cl

SOURCE = '''
kernel void probe(global int *out)
{
    local int first;
    if (get_local_id(0) == 0) first = (int)get_group_id(0) * 100;
    barrier(CLK_LOCAL_MEM_FENCE);
    out[get_global_id(0)] = first + (int)get_local_id(0);
}
'''

def try_out(device):
    context = cl.Context([device])
    queue = cl.CommandQueue(context)
    kernel = cl.Program(context, SOURCE).build().probe
    found = np.zeros(16, np.int32)
    buffer = cl.Buffer(context, cl.mem_flags.WRITE_ONLY, found.nbytes)
    kernel(queue, (16,), (8,), buffer)
    cl.enqueue_copy(queue, found, buffer)
    expected = [100 * group + item for group in (0, 1) for item in range(8)]
    return "" if found.tolist() == expected else "wrong answer from a kernel with a barrier"

wanted = sys.argv[1]
try:
    platforms = cl.get_platforms()
except cl.LogicError:
    platforms = []
for platform in platforms:
    title = f"{platform.name} {platform.version}".strip()
    if wanted.lower() not in title.lower():
        continue
    row = {"title": title, "name": platform.name.strip(), "device": "", "units": 0, "reason": ""}
    print(json.dumps(row | {"reason": "it ended before it answered"}), flush=True)
    try:
        devices = platform.get_devices()
    except cl.Error:
        devices = []
    if not devices:
        row["reason"] = "no device"
    else:
        row |= {"device": devices[0].name.strip(), "units": devices[0].max_compute_units}
        if wanted:
            try:
                row["reason"] = try_out(devices[0])
            except Exception as error:
                row["reason"] = " ".join(str(error).split())
    print(json.dumps(row), flush=True)
"""


@dataclass(frozen=True)
class Platform:
    """A platform as a child process saw it; `reason` is empty where its first device is usable."""

    title: str
    name: str
    device: str
    units: int
    reason: str

    @property
    def wanted(self) -> str:
        """The value of PORTBAR_TEST_PLATFORM that picks it."""
        pocl = re.search(r"PoCL [\w.+-]+", self.title)
        return pocl[0] if pocl else self.name


@dataclass(frozen=True)
class Configuration:
    """One run of the tests: a runtime and the environment that shapes it."""

    name: str
    wanted: str = ""
    library: str = ""
    environment: dict[str, str] = field(default_factory=dict)
    unusable: str = ""
    share: str = "host"
    device: str = ""

    @property
    def is_pocl(self) -> bool:
        """Whether it runs on PoCL."""
        return "pocl" in self.wanted.lower()

    @property
    def compiler(self) -> str:
        """Rows that share a cache of compiled kernels; no two rows of one run at the same time."""
        return f"{self.library or self.wanted} {self.environment.get('POCL_WORK_GROUP_METHOD', '')}"


class Progress:
    """Return the progress of a row, from its log."""

    def __init__(self, configuration: Configuration) -> None:
        self.configuration, self.log, self.started = configuration, Path(), time.monotonic()

    def __str__(self) -> str:
        text = self.log.read_text(errors="replace") if self.log.is_file() else ""
        total = re.search(r"^collecting.*?(\d+)(?: selected| items?)\s*$", text, re.MULTILINE)
        done = len(re.findall(OUTCOME, text, re.MULTILINE))
        seconds = time.monotonic() - self.started
        counts = f"{done:4} of {total[1]} tests" if total else "collecting tests"
        return f"    {self.configuration.name:28} {counts:18} {seconds:5.0f} s"


@dataclass
class Row:
    """The result of one configuration."""

    name: str
    passed: int = 0
    failed: int = 0
    skips: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0
    notes: list[str] = field(default_factory=list)
    is_pocl: bool = False

    @property
    def remarks(self) -> str:
        """Reasons of what did not run or failed, one a line, those of skipped tests with their number."""
        return "\n".join([*self.notes, *(f"{count} skipped: {reason}" for reason, count in self.skips.most_common())])


class Workshop:
    """The temporary folders and the environment of the child processes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def environment(self, library: str, **extra: str) -> dict[str, str]:
        """Return an environment in which the loader finds `library` (none if empty) and PoCL's wheel."""
        slug = re.sub(r"\W+", "-", library) or "none"
        method = extra.get("POCL_WORK_GROUP_METHOD", "")
        kernels = self.scratch(f"pocl-{slug}-{method}") if kept.is_fresh() else kept.kernels(library, method)
        kernels.mkdir(parents=True, exist_ok=True)
        environment = {
            key: value
            for key, value in os.environ.items()
            if not key.startswith(("POCL_", "OCLGRIND_", "PORTBAR_", "PYOPENCL_", "OCL_ICD_", "RUSTICL_", "LP_NUM"))
        }
        if sys.platform.startswith("linux"):
            vendors = self.folder / "vendors" / slug
            vendors.mkdir(parents=True, exist_ok=True)
            if library:
                (vendors / "only.icd").write_text(library + "\n")
            environment["OCL_ICD_VENDORS"] = str(vendors)
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        environment |= {
            "PYOPENCL_NO_CACHE": "1",
            # For hundreds of child processes.
            "PYTHONPYCACHEPREFIX": os.environ.get("PYTHONPYCACHEPREFIX") or str(self.folder / "bytecode"),
            "PYTHONUNBUFFERED": "1",
            "COLUMNS": "400",
            "POCL_CACHE_DIR": str(kernels),
            **({kept.VARIABLE: "1"} if kept.is_fresh() else {}),
        }
        return environment | extra

    def scratch(self, name: str) -> Path:
        """Return a folder of that name, made when missing."""
        path = self.folder / re.sub(r"[^\w.+-]+", "-", name)
        path.mkdir(parents=True, exist_ok=True)
        return path


def ask(environment: dict[str, str], wanted: str = "") -> tuple[list[Platform], str]:
    """List the platforms that a child process sees, and its messages; try out those that `wanted` picks."""
    try:
        child = subprocess.run(
            [sys.executable, "-c", PROBE, wanted],
            env=environment,
            capture_output=True,
            text=True,
            timeout=PROBE_LIMIT,
            check=False,
            cwd=ROOT,
        )
        output, errors = child.stdout, child.stderr
        if child.returncode < 0:
            errors += f"\nkilled by signal {signal.Signals(-child.returncode).name}"
    except subprocess.TimeoutExpired as late:
        output, errors = (
            text.decode(errors="replace") if isinstance(text, bytes) else text or ""
            for text in (late.stdout, late.stderr)
        )
        errors += f"\nno answer within {PROBE_LIMIT:.0f} s"
    found: list[Platform] = []
    for line in output.splitlines():
        if line.startswith("{"):
            row = Platform(**json.loads(line))
            if found and found[-1].reason == "it ended before it answered":
                found.pop()
            found.append(row)
    return found, errors.strip()


def libraries() -> list[str]:
    """Return the OpenCL libraries of this machine: registered ones, Oclgrind's, and the Intel wheel's."""
    found: dict[str, str] = {}
    folders = [SYSTEM_VENDORS, Path(os.environ.get("OCL_ICD_VENDORS") or SYSTEM_VENDORS)]
    for icd in (path for folder in folders if folder.is_dir() for path in sorted(folder.glob("*.icd"))):
        library = icd.read_text().strip()
        if library and (not Path(library).is_absolute() or Path(library).exists()):
            found.setdefault(Path(library).name, library)
    for folder in map(Path, LIBRARY_FOLDERS):
        for library_path in (folder / "liboclgrind-rt-icd.so", folder / "oclgrind" / "liboclgrind-rt-icd.so"):
            if library_path.exists():
                found.setdefault(library_path.name, str(library_path))
    try:
        files = metadata.files("intel-opencl-rt") or []
    except metadata.PackageNotFoundError:
        files = []
    for file in files:
        if file.name == "libintelocl.so":
            found.setdefault(file.name, str(Path(str(file.locate())).resolve()))
    return list(found.values())


def configurations(workshop: Workshop, *, quick: bool) -> Iterator[Configuration]:
    """Yield the host tests' configuration, then those of each runtime that a child process can see."""
    yield Configuration("host")
    bundled, _ = ask(workshop.environment(""))
    if not sys.platform.startswith("linux"):
        for platform in bundled:
            yield Configuration(platform.wanted, platform.wanted)
        return
    for platform in bundled:
        yield Configuration(f"{platform.wanted} (wheel)", platform.wanted)
    for library in libraries():
        base = {"RUSTICL_ENABLE": os.environ.get("RUSTICL_ENABLE", "llvmpipe")} if "rusticl" in library.lower() else {}
        seen, errors = ask(workshop.environment(library, **base))
        own = list((Counter(seen) - Counter(bundled)).elements())
        if not own:
            yield Configuration(
                Path(library).name,
                Path(library).name,
                library,
                unusable=f"no platform: {last_line(errors) or 'the loader rejected the library'}",
            )
        for platform in own:
            for name, extra in variants(platform, quick=quick):
                yield Configuration(name, platform.wanted, library, base | extra)


def variants(platform: Platform, *, quick: bool) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield a name and the environment of each way to run a platform's tests."""
    name = platform.wanted
    if name.startswith("PoCL"):
        for method in ("loopvec", "cbs"):
            for threads in (2,) if quick else THREADS:
                count = str(threads)
                yield (
                    f"{name} {method} x{count}",
                    {
                        "POCL_WORK_GROUP_METHOD": method,
                        "POCL_MAX_PTHREAD_COUNT": count,  # up to PoCL 3
                        "POCL_CPU_MAX_CU_COUNT": count,  # from PoCL 4
                    },
                )
    elif name.lower() == "oclgrind":
        for threads in (1,) if quick else (1, 2):
            yield f"{name} x{threads}", {"OCLGRIND_NUM_THREADS": str(threads)}
    else:
        yield name, {}


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
    return {"Intel(R) OpenCL": "sample", "Oclgrind x1": "sample", "rusticl": "second"}.get(name, "whole")


def alone_or_not(chosen: Sequence[Configuration]) -> list[Configuration]:
    """Let the row that runs all tests run all cases, too, where the rows are missing whose samples it leaves out."""
    samples = {SHARES[one.share].sample for one in chosen if not one.unusable}
    if {"pairs", "other pairs"} <= samples:
        return list(chosen)
    return [replace(one, share="alone") if one.share == "first" else one for one in chosen]


def other_threads(configuration: Configuration) -> bool:
    """Whether a configuration differs from another one in the number of threads only."""
    name = configuration.name
    return (configuration.is_pocl and name.endswith((" x1", " x8"))) or name == "Oclgrind x2"


def is_relative(configuration: Configuration, first: str) -> bool:
    """Whether a configuration is of PoCL, and one of PoCL works that is not this one."""
    return configuration.is_pocl and first.startswith("PoCL") and configuration.name != first


def first_of(workshop: Workshop, configurations: Sequence[Configuration]) -> str:
    """Return the name of the configuration that runs all device tests: one that works, of PoCL if any does."""

    def rank(one: Configuration) -> tuple[bool, bool, bool]:
        return (not one.is_pocl, "loopvec x2" not in one.name, "Oclgrind" in one.name)

    ranked = sorted((one for one in configurations if one.wanted and not other_threads(one)), key=rank)
    return next((one.name for one in ranked if not check(workshop, one)[1]), "")


def check(workshop: Workshop, configuration: Configuration) -> tuple[str, str]:
    """Return the device in words and why the configuration cannot be tested, empty if it can."""
    if configuration.unusable or not configuration.wanted:
        return "", configuration.unusable
    # A kernel from PoCL's cache would not be compiled, and what the compiler says would not be seen.
    extra = configuration.environment | {"POCL_KERNEL_CACHE": "0"}
    found, errors = ask(workshop.environment(configuration.library, **extra), configuration.wanted)
    if not found:
        return "", f"no platform: {last_line(errors)}"
    platform = found[0]
    method = configuration.environment.get("POCL_WORK_GROUP_METHOD")
    if "Unknown work group generation method" in errors:
        return (
            platform.device,
            f"this PoCL has no method {method!r}: it would run its default and say so only on stderr",
        )
    reason = platform.reason
    if reason == "it ended before it answered":
        reason = last_line(errors) or reason
    if "unknown target CPU" in reason:
        reason = "every build fails (unknown target CPU): its LLVM is older than this machine's processor"
    return f"{platform.device}, {platform.units} compute units", reason


def last_line(text: str) -> str:
    """Return the last line that says something."""
    return next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "")


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
    row = Row(configuration.name, is_pocl=configuration.is_pocl)
    if configuration.unusable:
        row.notes.append(f"unusable: {configuration.unusable}")
        return row
    scratch = workshop.scratch(configuration.name)
    environment = workshop.environment(configuration.library, **configuration.environment)
    environment |= {"PORTBAR_CACHE_DIR": str(scratch / "cache")}
    if configuration.wanted:
        environment["PORTBAR_TEST_PLATFORM"] = configuration.wanted
    marks = SHARES[configuration.share].marks
    if chooses_tests(arguments.pytest):
        marks = "device" if configuration.wanted else "not device"
    elif sample := SHARES[configuration.share].sample:
        environment[SAMPLE_VARIABLE] = sample
    report, log = scratch / "report.xml", scratch / "log.txt"
    if progress:
        progress.log = log
    # The longest row goes first: two others wait for it, which share its compiled kernels.
    later = shutil.which("nice") if configuration.share not in {"first", "alone"} else None
    command = [
        *([later, "-n", "10"] if later else []),
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
        late = not finish(child, arguments.limit, stop or threading.Event())
    row.seconds = time.monotonic() - started
    text = log.read_text(errors="replace")
    if report.exists() and not late:
        count_report(report, row)
        if child.returncode not in (0, 1, 5):
            row.failed += row.failed == 0
            row.notes.append(f"pytest exited with {child.returncode}: {last_line(text)}")
    else:
        # The report of a run that broke off counts the unfinished test as passed; the log does not.
        count_log(text, row)
        row.failed += 1
        how = (
            f"were stopped at the limit of {arguments.limit:g} s" if late else f"ended early (exit {child.returncode})"
        )
        row.notes.append(f"the tests {how} in {last_test(text)}")
    if row.failed:
        say(text)
    elif not row.passed:
        row.notes.append("no test passed")
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
        help="use nothing that earlier runs on this machine have kept: proofs of unchanged texts, kernels compiled by PoCL",
    )
    parser.add_argument("--everything", action="store_true", help="let each row run all tests with all cases")
    parser.add_argument(
        "--jobs",
        type=int,
        default=cores() + 1,
        help="rows at a time (default: one more than cores, here %(default)s, since rows also wait)",
    )
    parser.add_argument(
        "--limit", type=float, default=2700.0, help="seconds for one configuration (default %(default)g)"
    )
    parser.add_argument("--test-limit", type=float, default=120.0, help="seconds for one test (default %(default)g)")
    parser.add_argument("pytest", nargs="*", metavar="-- ARG", help="arguments for pytest, such as -- -k barrier")
    return parser.parse_args(arguments)


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
        if options.everything:
            chosen = [replace(one, share="alone" if one.wanted else "host") for one in chosen]
        with ThreadPoolExecutor(options.jobs) as pool:
            chosen = alone_or_not(list(pool.map(lambda one: checked(workshop, one), chosen)))
        rows = run_all(workshop, chosen, options)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return report_all(rows, need_pocl=not options.only)


def report_all(rows: Sequence[Row], *, need_pocl: bool) -> int:
    """Print the table and the summary, the summary last, and return the exit code."""
    Console(width=None if sys.stdout.isatty() else 150).print(table(rows))
    missing = need_pocl and not any(row.is_pocl and row.passed for row in rows)
    if missing:
        print("no device test passed on a PoCL device; install Debian's pocl-opencl-icd or the extra `cpu`")
    passed, failed, skipped = (
        sum(counts) for counts in zip(*((row.passed, row.failed, row.skips.total()) for row in rows), strict=True)
    )
    print(f"{passed} passed, {failed} failed, {skipped} skipped", flush=True)
    return 1 if failed or missing else 0


if __name__ == "__main__":
    sys.exit(main())
