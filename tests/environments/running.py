"""Makes an environment in a folder, and runs there what its row of the page is about."""

from __future__ import annotations

import configparser
import contextlib
import json
import os
import re
import shlex
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tests.checkout import ROOT
from tests.environments.table import PRIMITIVES, Environment

#: Steps before the tests, in their order.
STEPS = ("system", "install", "quickstart", "survey")
_TEST = r"^(tests/\S+?\.py)::.* (PASSED|FAILED|ERROR|SKIPPED|XFAIL)\b"
#: Packages that device tests need, and no other of the extra `test`.
_FOR_TESTS = ("hypothesis", "jsonschema", "pytest", "pytest-timeout")


@dataclass(frozen=True)
class Done:
    """How a command ended: its status (None: it took too long), and what it printed."""

    status: int | None
    output: str
    seconds: float

    @property
    def last(self) -> str:
        """The last line that says something."""
        return next((line.strip() for line in reversed(self.output.splitlines()) if line.strip()), "")


def bounded(command: Sequence[str], seconds: float, environment: dict[str, str] | None = None) -> Done:
    """Run a command, and end all that it started where it takes longer."""
    began = time.monotonic()
    process = subprocess.Popen(
        command,
        cwd=ROOT,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    try:
        output, _ = process.communicate(timeout=seconds)
        status: int | None = process.returncode
    except subprocess.TimeoutExpired:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        output, _ = process.communicate()
        status = None
    except BaseException:
        # Ctrl-C reaches this process alone.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        raise
    return Done(status, output, time.monotonic() - began)


class Place:
    """An environment in a folder: a tree of Debian, or a home of its own on this machine."""

    def __init__(self, environment: Environment, folder: Path) -> None:
        self.environment, self.tree = environment, folder / "tree"
        self.home = self.tree / "home" / "newcomer" if environment.suite else folder / "home"

    def make(self) -> Done:
        """Make the folder, with a checkout; only the checkout where the folder is of an earlier run."""
        of = self.environment
        if self.home.is_dir():
            checkout = self.home / "portbar"
            command = 'rm -rf "$1" && bash .ci/tree checkout "$1" && chown -R --reference="$2" "$1"'
            return bounded(["bash", "-c", command, "-", str(checkout), str(self.home)], 300)
        if of.suite:
            command = ["make_tree", str(self.tree), of.suite, of.architecture, of.emulator, of.distribution]
        else:
            self.home.mkdir(parents=True)
            command = ["checkout", str(self.home / "portbar")]
        done = bounded(["bash", ".ci/tree", *command], 2400)
        if of.processor and done.status == 0:
            (self.tree / "etc" / "cpuinfo").write_text(of.processor, encoding="utf-8")
        return done

    def run(self, command: str, seconds: float, user: str = "newcomer") -> Done:
        """Run a command of bash in the checkout."""
        of = self.environment
        variables = {"PORTBAR_TEST_PLATFORM": of.platform, "COLUMNS": "200", **of.variables}
        if of.suite:
            named = [f"{name}={value}" for name, value in variables.items()]
            inside = command if user == "root" else f"cd portbar && {command}"
            return bounded(["bash", ".ci/tree", "in_tree", str(self.tree), user, inside, *named], seconds * of.slowness)
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        environment |= {**variables, "HOME": str(self.home), "XDG_CACHE_HOME": str(self.home / ".cache")}
        environment |= {"PORTBAR_CACHE_DIR": str(self.home / ".cache" / "portbar")}
        return bounded(["bash", "-c", f"cd ~/portbar && {command}"], seconds * of.slowness, environment)


def required(setup: Path = ROOT / "setup.cfg") -> dict[str, tuple[str, str]]:
    """Return of each requirement of portbar and its tests the lowest version that it allows, and its marker."""
    config = configparser.ConfigParser()
    config.read(setup, encoding="utf-8")
    lines = [
        *config["options"]["install_requires"].splitlines(),
        *config["options.extras_require"]["test"].splitlines(),
    ]
    found = (re.fullmatch(r"([\w-]+)>=([\d.]+)[^;]*(;.*)?", line.strip()) for line in lines if line.strip())
    # A second requirement of the same package is the higher one: of tests.
    return {one[1]: (one[2], one[3] or "") for one in found if one}


def lowest(setup: Path = ROOT / "setup.cfg") -> list[str]:
    """Return constraints for the lowest series of each requirement, as `2.3.*`: not each release is named as it is."""
    return [f"{name}=={version}.*{marker}" for name, (version, marker) in required(setup).items()]


def outcome(done: Done, note: str = "") -> dict[str, Any]:
    """Return the entry of a step."""
    word = "right" if done.status == 0 else "took too long" if done.status is None else "failed"
    return {
        "outcome": word,
        "seconds": round(done.seconds),
        "note": _plain(note or ("" if word == "right" else done.last)),
    }


def _plain(text: str) -> str:
    """Return a remark without what would name this machine or break a table."""
    return re.sub(r"(?<![\w.])/[\w.+-]+(?:/[\w.+-]+)+", "...", text).replace("|", "/")[:160]


def of_tests(output: str) -> dict[str, Counter[str]]:
    """Return for each file how its tests ended, as pytest's lines say."""
    found: dict[str, Counter[str]] = {}
    for file, word in re.findall(_TEST, output, re.MULTILINE):
        found.setdefault(file, Counter())[word.lower()] += 1
    return found


def entry_of_tests(counts: Counter[str], seconds: float = 0.0, reason: str = "") -> dict[str, Any]:
    """Return the entry of a file of tests: right where some passed, none failed, and nothing ended the process."""
    reason = reason or ("" if counts else "no test ran")
    note = ", ".join(f"{number} {word}" for word, number in sorted(counts.items()))
    bad = reason or counts["failed"] or counts["error"]
    word = "failed" if bad else "right" if counts["passed"] else "skipped"
    return {"outcome": word, "seconds": round(seconds), "note": _plain(", ".join(filter(None, [note, reason])))}


def run_tests(place: Place, primitives: Iterable[str], seconds: float = 900.0) -> dict[str, dict[str, Any]]:
    """Run a few tests of each primitive in one process, and again without a file that ended it."""
    left, entries = {name: PRIMITIVES[name] for name in primitives}, {}
    most, limit = place.environment.most, round(120 * place.environment.slowness)
    while left:
        command = (
            f"~/venv/bin/python -m pytest -p tests.environments.few --most-per-file {most} --timeout {limit}"
            f" -m device -v --color=no -p no:cacheprovider {' '.join(left.values())}"
        )
        done = place.run(command, seconds)
        counts, files = of_tests(done.output), list(left.items())
        # A test that takes too long ends the process with status 1, too, but without a summary.
        whole = done.status in {0, 1} and re.search(r"^=+ .*\bin [\d.]+s\b", done.output, re.MULTILINE)
        # pytest writes a test's name before it runs: the last one is of the file that ended the process.
        begun = re.findall(r"^(tests/\S+?\.py)::", done.output, re.MULTILINE)
        at = next((name for name, file in files if begun and file == begun[-1]), files[0][0])
        for name, file in files:
            reason = "" if whole or name != at else "took too long" if done.status is None else f"ended: {done.last}"
            entries[name] = entry_of_tests(counts.get(file, Counter()), 0.0, reason)
            del left[name]
            if not whole and name == at:
                break
    return entries


def survey(place: Place, *, quick: bool = False) -> dict[str, Any]:
    """Survey the device."""
    of = place.environment
    options = f"--timeout {of.survey_s} --device {shlex.quote(of.platform)}{' --quick' if quick else ''}"
    command = f"rm -f ~/record.json; ~/venv/bin/portbar survey {options}"
    done = place.run(f"{command} -o ~/record.json", (of.survey_s + 60) / of.slowness)
    file = place.home / "record.json"
    return of_survey(json.loads(file.read_text(encoding="utf-8")), done) if file.is_file() else outcome(done)


def of_survey(record: dict[str, Any], done: Done) -> dict[str, Any]:
    """Return the entry of a survey: right where its device works, portbar synchronises groups there, and no step failed.

    A probe tries what a compiler may abort at: that is a finding, with status 1, and a note here.
    """
    (device,) = record["devices"][:1]
    if device["status"] not in {"complete", "partial"}:
        return {**outcome(done, f"{device['status']}: {device.get('reason')}"), "outcome": "failed"}
    steps = {name: step["status"] for name, step in device.items() if isinstance(step, dict) and "rows" in step}
    bad = [f"{name} {status}" for name, status in steps.items() if status not in {"ok", "partial", "skipped"}]
    entry = outcome(done, ", ".join(bad) or f"{len(steps)} steps")
    if done.status == 1 and bad == ["probe crash"]:
        return {**entry, "outcome": "right"}
    return {**entry, "outcome": "failed"} if bad and done.status == 0 else entry


def tried(environment: Environment, folder: Path, *, quick: bool = False, only: Sequence[str] = ()) -> dict[str, Any]:
    """Make an environment in an empty folder, run all there, and return its entry of the data file.

    With `quick`, nothing is surveyed but what portbar needs. With `only`, portbar is installed, and only these steps and
    primitives are run.
    """
    place, began = Place(environment, folder), time.monotonic()
    entry: dict[str, Any] = {"date": datetime.now(UTC).date().isoformat(), "versions": {}, "steps": {}}

    def step(name: str, done: Done, note: str = "") -> bool:
        entry["steps"][name] = outcome(done, note)
        _say(name, entry["steps"][name], done)
        return done.status == 0

    going = step("system", place.make())
    if going and environment.packages:
        words = " ".join(environment.packages)
        # A mirror may be older than a release that changes daily. Signatures are checked all the same.
        lagging = "-o Acquire::Check-Valid-Until=false"
        command = f"apt-get update -q {lagging} && apt-get install -q -y --no-install-recommends {words}"
        going = step("system", place.run(command, 900, "root"))
    if going:
        # An older wheel rather than a newer version that would have to be compiled.
        options = "--prefer-binary" if environment.packaged else ""
        if environment.oldest:
            (place.home / "lowest.txt").write_text("\n".join(lowest()) + "\n", encoding="utf-8")
            options = "-c ~/lowest.txt"
        packaged = " --system-site-packages" if environment.packaged else ""
        words = " ".join(f"'{name}>={required()[name][0]}'" for name in _FOR_TESTS)
        command = f"python3 -m venv{packaged} ~/venv && ~/venv/bin/python -m pip install -q {options} . {words}"
        going = step("install", place.run(command, 600))
    if going:
        found = place.run("~/venv/bin/python -m tests.environments.inside versions", 120)
        with contextlib.suppress(json.JSONDecodeError):
            entry["versions"] = json.loads(found.last)
        for name in ("survey", "quickstart") if environment.survey_first else ("quickstart", "survey"):
            if only and name not in only:
                continue
            if name == "quickstart":
                step(name, place.run("~/venv/bin/python -m tests.environments.inside quickstart", 120))
            elif environment.survey_first or not quick:
                entry["steps"][name] = survey(place, quick=quick)
                _say(name, entry["steps"][name])
        primitives = [name for name in PRIMITIVES if not only or name in only]
        for name, result in run_tests(place, primitives).items():
            entry["steps"][name] = result
            _say(name, result)
    entry["seconds"] = round(time.monotonic() - began)
    return entry


def _say(name: str, entry: dict[str, Any], done: Done | None = None) -> None:
    print(f"{name}: {entry['outcome']} {entry['note']} ({entry['seconds']} s)", flush=True)
    if done and done.status != 0:
        print("\n".join(f"    {line}" for line in done.output.splitlines()[-15:]), flush=True)
