"""Fuzzes the targets of this folder by coverage: `python -m tests.fuzz --minutes 10`.

Atheris (libFuzzer) changes the bytes that hypothesis makes its cases of, towards code that no case has reached. The
targets are the tests here that take no fixture, each in a process of its own, in turns. Exit 1 where one failed; its last
lines and the bytes that did it are printed. Needs `pip install atheris`, which the tests do without.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import inspect
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent


def targets() -> Iterator[tuple[str, Callable[[], Any]]]:
    """Yield the name and the function of each test that hypothesis gives all its arguments; not those that run commands."""
    for path in sorted(set(FOLDER.glob("test_*.py")) - {FOLDER / "test_fuzz_cli.py"}):
        module = importlib.import_module(f"tests.fuzz.{path.stem}")
        for name, test in vars(module).items():
            if hasattr(test, "hypothesis") and not inspect.signature(test).parameters:
                yield f"{path.stem}.{name}", test


def fuzz(name: str, seconds: float) -> None:
    """Fuzz one target in this process, which ends with it."""
    import atheris  # noqa: PLC0415 (this process alone needs it)

    with atheris.instrument_imports(include=["portbar"]):
        importlib.import_module("portbar")
        test: Any = dict(targets())[name]
    arguments = [f"-max_total_time={max(1, round(seconds))}", "-timeout=20", "-max_len=2048", "-verbosity=0"]
    atheris.Setup([sys.argv[0], *arguments, "-print_final_stats=1"], test.hypothesis.fuzz_one_input)
    atheris.Fuzz()


def main(arguments: list[str] | None = None) -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0, help="for all targets together (10)")
    parser.add_argument("--only", metavar="NAME", default="", help="part of the names of targets")
    parser.add_argument("--here", metavar="TARGET", help=argparse.SUPPRESS)
    chosen = parser.parse_args(arguments)
    names = [name for name, _ in targets() if chosen.only in name]
    seconds = chosen.minutes * 60 / max(1, len(names))
    if chosen.here:
        fuzz(chosen.here, chosen.minutes * 60)
        return 0
    if importlib.util.find_spec("atheris") is None:
        print("atheris is not installed: pip install atheris", file=sys.stderr)
        return 2
    failed = 0
    for name in names:
        command = [sys.executable, "-m", "tests.fuzz", "--here", name, "--minutes", str(seconds / 60)]
        with tempfile.TemporaryDirectory() as folder:
            environment = {**os.environ, "PYTHONPATH": str(FOLDER.parent.parent)}
            ran = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
        cases = next((line.split()[-1] for line in ran.stderr.splitlines() if "number_of_executed_units" in line), "?")
        print(f"{name}: {cases} cases, {'ok' if ran.returncode == 0 else f'failed ({ran.returncode})'}", flush=True)
        if ran.returncode != 0:
            failed += 1
            print(ran.stdout[-2000:] + ran.stderr[-6000:], flush=True)
    return int(failed > 0)


if __name__ == "__main__":
    raise SystemExit(main())
