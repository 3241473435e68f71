"""Child processes of tests: the environment in which they find this very portbar, interrupts, and their end.

Not for device tests alone, so it imports nothing but the standard library.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent


def python_path(*folders: Path) -> str:
    """Return a PYTHONPATH: the folders, the checkout, and what this process was given, where its packages may be."""
    given = filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))
    return os.pathsep.join(map(str, [*folders, ROOT, *map(os.path.abspath, given)]))


def environment(**variables: str) -> dict[str, str]:
    """Return this process's environment with the checkout in front of its path, and more variables."""
    return {**os.environ, "PYTHONPATH": python_path(), **variables}


def interruptible(command: Sequence[str], **options: Any) -> subprocess.Popen[str]:
    """Start a process that takes SIGINT, which a shell that starts tests in the background has its children ignore."""
    return subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),  # noqa: PLW1509
        **options,
    )


def have_ended(pids: Sequence[int], within: float = 10.0) -> bool:
    """Whether all of these processes end in time; one without a waiting parent counts as ended."""
    deadline = time.monotonic() + within
    while running := [pid for pid in pids if _is_running(pid)]:
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return not running


def _is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def ran(*command: object, timeout: float = 100.0, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run a command; what it printed, and its exit status."""
    words = list(map(str, command))
    return subprocess.run(words, capture_output=True, text=True, timeout=timeout, check=False, **options)


def portbar(*arguments: object, timeout: float = 60.0, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run portbar's command in a process of its own."""
    return ran(sys.executable, "-m", "portbar", *arguments, timeout=timeout, env=environment(**variables))
