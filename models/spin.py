"""Run the SPIN models beside this file: `python -m models.spin [NAME ...] [--nightly] [--json]`.

A model is a Promela file whose first comment says what the protocol promises, which templates it mirrors, and what to
run. SPIN (Holzmann) tries every interleaving of the work-groups: a run must find no error, and every seeded bug one.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from rich.console import Console
from rich.table import Table

MODELS = Path(__file__).parent
TEMPLATES = MODELS.parent
MEMORY_MB = 6000  # of one search
_LINE = re.compile(r"^\s*(Mirrors|Run|Liveness|Nightly|Nightly liveness|Bug): +(.*?) *$", re.MULTILINE)


@dataclass(frozen=True)
class Case:
    """One search: a model, the words defined for it, and whether it looks for endless waits or for wrong states."""

    model: str
    words: tuple[str, ...]
    liveness: bool = False
    nightly: bool = False
    bug: str = ""

    def __str__(self) -> str:
        kind = "bug " + self.bug if self.bug else "liveness" if self.liveness else "safety"
        return " ".join((self.model, kind, *self.words))


@dataclass(frozen=True)
class Outcome:
    """The result of a search: `problem` is empty if all is as the model says; `trail` is SPIN's way to an error."""

    case: Case
    states: int
    seconds: float
    problem: str
    trail: str = ""


def models() -> list[str]:
    """Return the names of all models."""
    return sorted(path.stem for path in MODELS.glob("*.pml"))


def header(model: str) -> list[tuple[str, str]]:
    """Return the fields of a model's first comment, in order."""
    text = (MODELS / f"{model}.pml").read_text(encoding="utf-8")
    return _LINE.findall(text[: text.index("*/")])


def cases(model: str) -> Iterator[Case]:
    """Yield the searches that a model asks for."""
    for field, value in header(model):
        words = tuple(value.split())
        if field == "Bug":
            yield Case(model, words[1:], bug=words[0])
        elif field != "Mirrors":
            yield Case(model, words, liveness="iveness" in field, nightly=field.startswith("Nightly"))


def digest(template: str) -> str:
    """Return the digest of a template's text; notes for its developers and white space do not count."""
    text = (TEMPLATES / template).read_text(encoding="utf-8")
    bare = " ".join(re.sub(r"^\s*##.*$", "", text, flags=re.MULTILINE).split())
    return hashlib.sha256(bare.encode()).hexdigest()[:12]


def changed(model: str) -> list[str]:
    """Return the templates that have changed since the model was last compared with them."""
    mirrored = [value.split() for field, value in header(model) if field == "Mirrors"]
    return [template for template, seen in mirrored if digest(template) != seen]


def accept(model: str) -> None:
    """Write today's digests of its templates into a model."""
    path = MODELS / f"{model}.pml"
    text = path.read_text(encoding="utf-8")
    renewed = re.sub(r"(Mirrors: +)(\S+) +\S+", lambda m: f"{m[1]}{m[2]} {digest(m[2])}", text)
    path.write_text(renewed, encoding="utf-8")


def lacking() -> str:
    """Return which of the tools that a search needs is not installed, or an empty string."""
    return next((tool for tool in ("spin", "gcc") if shutil.which(tool) is None), "")


def search(case: Case, folder: Path, timeout: float = 600.0) -> Outcome:
    """Search one case in an empty folder; a case with a bug is searched for wrong states first, then for endless waits.

    A search that takes longer than `timeout` seconds proves nothing, which is a problem, too.
    """
    started = time.monotonic()
    if case.bug and not case.liveness:
        found = _search(case, folder, timeout)
        if not found.trail and not found.problem:
            found = _search(replace(case, liveness=True), folder, timeout)
        if not found.trail and not found.problem:
            found = replace(found, problem="the seeded bug was not found")
    else:
        found = _search(case, folder, timeout)
        if found.trail:
            found = replace(found, problem="an error was found")
    return replace(found, case=case, seconds=time.monotonic() - started)


def _search(case: Case, folder: Path, timeout: float) -> Outcome:
    words = [f"-D{word}" for word in (*case.words, *([f"BUG_{case.bug}"] if case.bug else []))]
    source = MODELS / f"{case.model}.pml"
    kind = ["-DNFAIR=8"] if case.liveness else ["-DSAFETY", "-DNOCLAIM"]
    made = _run(["spin", "-a", *words, str(source)], folder)
    # Most searches are so short that compiling and clearing memory take longer; too small a depth is a problem, not a pass.
    compiler = ["tcc"] if shutil.which("tcc") else ["gcc", "-O0"]
    room = ["-m200000", "-w22"]
    if case.nightly:
        compiler, room = ["gcc", "-O2"], ["-m2000000"]
    made += _run([*compiler, "-w", f"-DMEMLIM={MEMORY_MB}", *kind, "-o", "pan", "pan.c"], folder)
    if not (folder / "pan").is_file():
        return Outcome(case, 0, 0.0, f"not compiled: {made[-500:]}")
    try:
        printed = _run(["./pan", *room, *(["-a", "-f"] if case.liveness else [])], folder, timeout)
    except subprocess.TimeoutExpired as late:
        seen = re.findall(r"States= *(\S+)", (late.stdout or b"").decode())
        return Outcome(case, int(float(seen[-1])) if seen else 0, 0.0, f"not finished after {timeout:.0f} s")
    states = re.search(r"(\d\S*) states, stored", printed)
    errors = re.search(r"errors: (\d+)", printed)
    if states is None or errors is None:
        return Outcome(case, 0, 0.0, f"no result: {printed[-500:]}")
    trail = ""
    if errors[1] != "0":
        cause = re.search(r"pan:\d+: (.*)", printed)
        steps = _run(["spin", "-t", "-p", "-g", "-l", "-k", f"{source.name}.trail", *words, str(source)], folder)
        trail = f"{cause[1] if cause else 'error'}\n{steps}"
    return Outcome(case, int(float(states[1])), 0.0, "" if trail else _cut_short(printed), trail)


def _cut_short(printed: str) -> str:
    """Return why a search without errors proves nothing, or an empty string."""
    for sign in ("max search depth too small", "out of memory", "Search not completed"):
        if sign in printed:
            return f"the search was cut short: {sign}"
    for name, unreached in re.findall(r"unreached in (?:proctype|init) ?(\S*)\n((?:\t.*\n)*)", printed):
        if (counts := re.search(r"\((\d+) of (\d+) states\)", unreached)) and counts[1] == counts[2]:
            return f"process {name or 'init'} never takes a step"
    return ""


def _run(command: list[str], folder: Path, timeout: float = 600.0) -> str:
    ran = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=timeout)
    return ran.stdout + ran.stderr


def search_all(chosen: Iterable[Case], workers: int = 0) -> Iterator[Outcome]:
    """Search cases side by side, and yield what they found in their order."""

    def one(case: Case) -> Outcome:
        with tempfile.TemporaryDirectory() as folder:
            return search(case, Path(folder))

    with ThreadPoolExecutor(workers or os.cpu_count() or 1) as pool:
        yield from pool.map(one, chosen)


def main(arguments: list[str] | None = None) -> int:
    """Run from the command line; 0 where every run found no error and every bug one."""
    parser = argparse.ArgumentParser(prog="python -m models.spin", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="models to search (default: all)")
    parser.add_argument("--nightly", action="store_true", help="also the searches that take minutes")
    parser.add_argument("--json", action="store_true", help="one JSON object a line in place of a table")
    parser.add_argument("--trail", action="store_true", help="print SPIN's way to each unexpected error")
    parser.add_argument("--digests", action="store_true", help="print the templates' digests, and search nothing")
    parser.add_argument("--accept", action="store_true", help="write the digests into the models that were compared")
    chosen = parser.parse_args(arguments)
    names = chosen.names or models()
    if unknown := set(names) - set(models()):
        parser.error(f"no model named {', '.join(sorted(unknown))}; there are {', '.join(models())}")
    if chosen.accept or chosen.digests:
        for name in names:
            if chosen.accept:
                accept(name)
            for field, value in header(name):
                if field == "Mirrors":
                    print(name, value.split()[0], digest(value.split()[0]))
        return 0
    if tool := lacking():
        parser.error(f"{tool} is not installed; on Debian: apt-get install spin tcc gcc libc6-dev")
    table = Table("model", "search", "states", "seconds", "found")
    fine = True
    for found in search_all(case for name in names for case in cases(name) if chosen.nightly or not case.nightly):
        case = found.case
        fine = fine and not found.problem
        said = found.problem or (found.trail.partition("\n")[0] if case.bug else "no error")
        if chosen.json:
            print(
                json.dumps(
                    {
                        **asdict(case),
                        "states": found.states,
                        "seconds": found.seconds,
                        "found": said,
                        "fine": not found.problem,
                    }
                )
            )
        else:
            what = str(case).removeprefix(case.model + " ")
            table.add_row(case.model, what, f"{found.states:,}", f"{found.seconds:.1f}", said)
        if chosen.trail and found.problem:
            print(found.trail, file=sys.stderr)
    if not chosen.json:
        Console().print(table)
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main())
