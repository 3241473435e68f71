"""Keeps findings about a device from one run to the next, as JSON files in the user's cache folder.

A file may vanish or be ignored at any time, and no error of the file system reaches the caller: what is kept here can be
measured again.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import stat
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import platformdirs

from portbar import __version__
from portbar.locks import Lock
from portbar.records import writing

ENVIRONMENT_VARIABLE = "PORTBAR_CACHE_DIR"

#: Largest entry that is read.
_MOST_BYTES = 1 << 22

#: Seconds that a change waits for that of another process.
_LOCK_S = 10.0

_lock = Lock()
_changes = Lock()
_memory: dict[tuple[Path | None, str, str], str] = {}
_warned: set[Path] = set()


class CacheWarning(UserWarning):
    """The cache on disk could not be used; findings are measured again, or kept for this process only."""


def cache_dir() -> Path | None:
    """Return the folder of the cache, which need not exist yet, or None where the disk is not to be used.

    `PORTBAR_CACHE_DIR` names another folder; the value `off` disables the disk. A user without a home folder has no cache on
    disk, which a `CacheWarning` says once.
    """
    chosen = os.environ.get(ENVIRONMENT_VARIABLE, "")
    if chosen.lower() == "off":
        return None
    try:
        if chosen:
            return Path(os.path.expandvars(chosen)).expanduser().absolute()
        return Path(platformdirs.user_cache_dir("portbar", appauthor=False))
    except RuntimeError as error:
        why = str(error).rstrip(".")
        _warn_once(
            Path(chosen),
            f"portbar has no folder for its cache ({why}), so findings last only as long as this process; set "
            f"{ENVIRONMENT_VARIABLE} to the path of a writable folder, or to 'off'",
        )
        return None


def load(kind: str, key: str) -> dict[str, Any] | None:
    """Return what was stored under a kind and a key by this version of portbar, or None.

    A file that cannot be read as such an entry, or that another user may have written, is reported once, as a `CacheWarning`
    that names its path. It counts as absent, and the next `store` replaces it. An entry of another version of portbar is
    absent without a word. The kind is the sort of finding, such as ``"usable"``, and has a folder of its own;
    `portbar.device.facts.device_key` gives keys.
    """
    folder = cache_dir()
    with _lock:
        kept = _memory.get((folder, kind, key))
    if kept is not None:
        entry: dict[str, Any] = json.loads(kept)
        return entry
    if folder is None:
        return None
    path = _path(folder, kind, key)
    try:
        record = json.loads(_read(path))
        header, value = record["header"], record["value"]
        if isinstance(value, dict) and (header["kind"], header["key"]) == (kind, key):
            return value if header["portbar"] == __version__ else None
        why = "its key differs" if isinstance(value, dict) else "its value is not a JSON object"
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, _DistrustedError) as error:
        why = str(error)
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        why = f"{type(error).__name__}: {error}"
    _ignore(path, why)
    return None


def store(kind: str, key: str, value: dict[str, Any], *, in_memory: bool = True) -> None:
    """Keep a JSON object under a kind and a key, on disk where that is possible, else for this process if `in_memory`.

    The file appears whole or not at all, so that processes may store the same entry at the same time. The first time that the
    disk refuses, a `CacheWarning` says so. `TypeError` or `ValueError` if the value cannot be written as JSON.
    """
    folder = cache_dir()
    entry = json.dumps(value, sort_keys=True, allow_nan=False)
    if folder is not None:
        header = {"portbar": __version__, "kind": kind, "key": key}
        text = json.dumps({"header": header, "value": value}, indent=1, sort_keys=True)
        try:
            write_atomically(_path(folder, kind, key), text.encode())
        except OSError as error:
            _warn_once(
                folder,
                f"portbar cannot write its cache in {folder} ({error.strerror or error}), so findings last only as long as "
                f"this process; set {ENVIRONMENT_VARIABLE} to a writable folder, or to 'off'",
            )
        else:
            with _lock:
                _memory.pop((folder, kind, key), None)
            return
    if in_memory:
        with _lock:
            _memory[folder, kind, key] = entry


@contextmanager
def changing() -> Iterator[None]:
    """Keep other threads and processes out between a `load` and the `store` of what changed, if they ask for this as well.

    After `_LOCK_S` seconds, or where the disk has no locks, this goes on without the lock: a change may be lost then.
    """
    with _changes:
        folder, descriptor = cache_dir(), None
        if folder is not None:
            with suppress(OSError):
                folder.mkdir(parents=True, exist_ok=True)
                descriptor = writing.lock(folder / ".lock", _LOCK_S)
        try:
            yield
        finally:
            if descriptor is not None:
                os.close(descriptor)


def reject(kind: str, key: str, why: str) -> None:
    """Report once, as a `CacheWarning`, that a loaded entry is not what it should be; the next `store` replaces it."""
    folder = cache_dir()
    if folder is not None:
        _ignore(_path(folder, kind, key), why)


def write_atomically(path: Path, content: bytes) -> None:
    """Write a file, and the folders above it; readers see the old content or the new, never a part."""
    path.parent.mkdir(parents=True, exist_ok=True)
    writing.replace(path, content)


def safe_name(text: str) -> str:
    """Return a file name for any text: the text itself where it is plain, else a readable part and a hash."""
    plain = re.sub(r"[^A-Za-z0-9._-]+", "-", text).strip("-.")[:100]
    if plain == text and plain:
        return plain
    return f"{plain or 'x'}-{hashlib.sha256(text.encode()).hexdigest()[:8]}"


class _DistrustedError(Exception):
    """A file is not one that this user's portbar wrote; the text says why."""


def _read(path: Path) -> str:

    def opened(name: str, flags: int) -> int:
        # Otherwise opening a pipe waits for a writer.
        return os.open(name, flags | getattr(os, "O_NONBLOCK", 0))

    with open(path, "rb", opener=opened) as stream:
        why = _distrust(os.fstat(stream.fileno()))
        if why:
            raise _DistrustedError(why)
        return stream.read(_MOST_BYTES).decode()


def _distrust(about: os.stat_result) -> str:
    """Return why a file is not to be believed, or an empty text."""
    if not stat.S_ISREG(about.st_mode):
        return "it is not a regular file"
    if about.st_size > _MOST_BYTES:
        return f"it has {about.st_size} bytes, more than any entry"
    if hasattr(os, "geteuid"):
        if about.st_uid not in {os.geteuid(), 0}:
            return f"it belongs to another user, with the id {about.st_uid}"
        if about.st_mode & stat.S_IWOTH:
            return "every user may write to it; chmod o-w if you trust it"
    return ""


def _path(folder: Path, kind: str, key: str) -> Path:
    return folder / safe_name(kind) / f"{safe_name(key)}.json"


def _ignore(path: Path, why: str) -> None:
    _warn_once(path, f"portbar ignores the cache file {path} ({why}); it is replaced at the next measurement")


def _warn_once(path: Path, message: str) -> None:
    with _lock:
        if path in _warned:
            return
        _warned.add(path)
    warnings.warn(message, CacheWarning, stacklevel=4)
