"""Files that no user named: in a folder that ends with this process, or the newest few of a kind in the user's cache."""

from __future__ import annotations

import atexit
import functools
import hashlib
import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Final

from portbar.records import cache

#: Files of one kind that stay.
MOST_KEPT: Final = 16


@functools.cache
def own_folder() -> Path:
    """Return the folder of this process, which ends with it: a guessable name in a shared folder would belong to others."""
    own, process = Path(tempfile.mkdtemp(prefix="portbar-")), os.getpid()

    def remove() -> None:
        # A process that was forked from this one uses its parent's folder.
        if os.getpid() == process:
            shutil.rmtree(own, ignore_errors=True)

    atexit.register(remove)
    return own


def keep(kind: str, text: str, suffix: str) -> Path | None:
    """Keep a text in a file for a person to read; one text has one file, however often it is kept.

    The newest `MOST_KEPT` of a kind stay in the user's cache folder. Without a cache on disk, files end with this process. None
    if the text can be written nowhere.
    """
    name = f"{hashlib.sha256(text.encode()).hexdigest()[:16]}{suffix}"
    base = cache.cache_dir()
    if base is not None:
        with suppress(OSError):
            path = base / cache.safe_name(kind) / name
            cache.write_atomically(path, text.encode())
            leave_newest(path.parent, MOST_KEPT, suffix=suffix, but=path)
            return path
    with suppress(OSError):
        path = own_folder() / name
        path.write_text(text, encoding="utf-8")
        return path
    return None


def leave_newest(folder: Path, most: int, *, suffix: str, but: Path | None = None) -> None:
    """Remove all files of a folder with a suffix but the newest `most`, one of which is `but`.

    Other processes may do the same.
    """
    others = [path for path in folder.glob(f"*{suffix}") if path != but]
    others.sort(key=_time_of, reverse=True)
    for path in others[most - (but is not None) :]:
        path.unlink(missing_ok=True)


def _time_of(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0
