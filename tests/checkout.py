"""The environment of a child process that is to find this very portbar, installed or not.

Not for device tests alone, so it imports nothing but the standard library.
"""

from __future__ import annotations

import os
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def python_path(*folders: Path) -> str:
    """Return a PYTHONPATH: the folders, the checkout, and what this process was given, where its packages may be."""
    given = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    return os.pathsep.join(filter(None, [*map(str, folders), str(ROOT), *given]))


def environment(**variables: str) -> dict[str, str]:
    """Return this process's environment with the checkout in front of its path, and more variables."""
    return {**os.environ, "PYTHONPATH": python_path(), **variables}
