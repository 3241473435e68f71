"""Results that a machine keeps between test runs: proofs of texts that are as they were, compiled kernels, durations.

The first two depend on nothing but texts and tools, so a run on another machine, and one with `--fresh`, does all the work.
Entries that were not used for two weeks are removed, and the oldest beyond a size.
"""

from __future__ import annotations

import functools
import hashlib
import os
import re
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import platformdirs
import pytest

from tests.checkout import ran

FOLDER = Path(platformdirs.user_cache_path("portbar")) / "tests"
#: Set by `python -m tests.runtimes --fresh`.
VARIABLE = "PORTBAR_TEST_FRESH"
LASTS_S = 14 * 24 * 3600.0
MOST_BYTES = 3 << 30
REASON = "shown on this machine before, with the same text and tools (--fresh shows it again)"


def is_fresh() -> bool:
    """Whether nothing of earlier runs is to be used, or nothing can be kept here."""
    if VARIABLE in os.environ:
        return True
    try:
        FOLDER.mkdir(parents=True, exist_ok=True)
    except OSError:
        return True
    return not os.access(FOLDER, os.W_OK)


@contextmanager
def proof(*parts: str) -> Iterator[None]:
    """Skip a test that an earlier run has passed with the same parts; note it when the body ends without an error.

    `parts` must hold all that the result depends on: the texts, the code that judges them, the versions of tools.
    """
    digest = hashlib.sha256("\0".join(f"{len(part)} {part}" for part in parts).encode()).hexdigest()
    note = FOLDER / "proofs" / digest
    if note.is_file() and not is_fresh():
        note.touch()
        pytest.skip(REASON)
    yield
    if not is_fresh():
        note.parent.mkdir(parents=True, exist_ok=True)
        note.touch()


def note_duration(row: str, seconds: float) -> None:
    """Note how long a row of tests took."""
    if not is_fresh():
        note = _duration(row)
        note.parent.mkdir(parents=True, exist_ok=True)
        note.write_text(f"{seconds:.0f}\n")


def duration(row: str) -> float | None:
    """Return the seconds that a row took when it ran last on this machine, or None."""
    try:
        return None if is_fresh() else float(_duration(row).read_text())
    except (OSError, ValueError):
        return None


def _duration(row: str) -> Path:
    return FOLDER / "durations" / re.sub(r"[^\w.+-]+", "-", row)


@functools.cache
def version(*command: str) -> str:
    """Return the version that a tool prints."""
    done = ran(*command)
    return done.stdout + done.stderr


@functools.cache
def text_of(folder: Path, pattern: str) -> str:
    """The files of a folder, one after the other, with their names."""
    return "\n".join(f"{path.name}\n{path.read_text(encoding='utf-8')}" for path in sorted(folder.glob(pattern)))


def kernels(library: str, method: str) -> Path:
    """The folder in which PoCL or Mesa keeps compiled kernels: one for each library and way to make work-group functions."""
    digest = hashlib.sha256(version_of_file(library).encode()).hexdigest()[:12]
    slug = re.sub(r"\W+", "-", Path(library).name) or "wheel"
    return FOLDER / "pocl" / f"{slug}-{digest}-{method or 'default'}"


def version_of_file(library: str) -> str:
    """A library as it is installed: its path, size and time."""
    path = Path(library)
    return f"{path} {path.stat().st_size} {path.stat().st_mtime_ns}" if path.is_file() else library


def prune() -> None:
    """Remove entries that were not used for two weeks, and the oldest beyond the largest size."""
    entries = [path for kind in ("proofs", "durations") for path in FOLDER.glob(f"{kind}/*") if path.is_file()]
    entries += [path for path in FOLDER.glob("pocl/*/*/*") if path.is_dir()]
    used = sorted(((_used(path), path) for path in entries), reverse=True)
    now, size = time.time(), 0
    for when, path in used:
        size += sum(one.stat().st_size for one in path.rglob("*") if one.is_file()) if path.is_dir() else 0
        if now - when > LASTS_S or size > MOST_BYTES:
            shutil.rmtree(path, ignore_errors=True) if path.is_dir() else path.unlink(missing_ok=True)


def _used(path: Path) -> float:
    accessed = path / "last_accessed"
    return (accessed if accessed.is_file() else path).stat().st_mtime
