"""Writes files so that an error, such as a full disk, leaves the old content in place; locks them between processes."""

from __future__ import annotations

import errno
import os
import secrets
import stat
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

#: Windows' errors for a file that is open, and seconds that a reader of a small file has it open at most.
_OPEN: Final = {5, 32, 33}
_OPEN_S: Final = 1.0

#: The system's error if another process has the lock.
_TAKEN: Final = {errno.EAGAIN, errno.EACCES, errno.EDEADLK}


def is_file(path: Path) -> bool:
    """Whether a file has this name; False for a name that no file can have, such as one that is too long."""
    return os.path.isfile(path)  # noqa: PTH113 (pathlib's raises for such a name)


def is_folder(path: Path) -> bool:
    """Whether a folder has this name, as `is_file`."""
    return os.path.isdir(path)  # noqa: PTH112


def write(path: Path, text: str) -> None:
    """Write a user's file in UTF-8: the new content beside it first, which then takes its name.

    A link is followed. An old file keeps its owner and its mode. A pipe or a device, such as /dev/stdout, is written to.
    `OSError` if the file cannot be written, and is as it was.
    """
    content = text.encode()
    target = Path(os.path.realpath(path))
    try:
        old = target.stat()
    except FileNotFoundError:
        old = None
    if old is None or stat.S_ISREG(old.st_mode):
        replace(target, content, mode=0o666, like=old)
    else:
        target.write_bytes(content)


def replace(path: Path, content: bytes, *, mode: int = 0o600, like: os.stat_result | None = None) -> None:
    """Put a new file in the place of whatever has this name; readers see the old content or the new, never a part.

    Its folder must exist. It gets the owner and permissions of `like` as far as this user may give them; without, the
    permissions are `mode`, less the process's mask. `OSError` if the file cannot be written.
    """
    temporary = path.parent / f".writing-{secrets.token_hex(8)}"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    descriptor = os.open(temporary, flags, mode)
    try:
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(content)
        if like is not None:
            with suppress(OSError, AttributeError):
                os.chown(temporary, like.st_uid, like.st_gid)
            temporary.chmod(stat.S_IMODE(like.st_mode))
        _take_name(temporary, path)
    except BaseException:
        with suppress(OSError):
            temporary.unlink()
        raise


def _take_name(temporary: Path, path: Path) -> None:
    """Rename a file; where Windows refuses because the old one is open, try for a second until its reader has closed it."""
    deadline = time.monotonic() + _OPEN_S
    while True:
        try:
            temporary.replace(path)
        except PermissionError as error:
            if getattr(error, "winerror", None) not in _OPEN or time.monotonic() >= deadline:
                raise
            time.sleep(0.005)
        else:
            return


def lock(path: Path, wait_s: float = 0.0) -> int | None:
    """Lock a file until the descriptor that this returns is closed; None if another process has the lock for `wait_s`.

    The file is made where it is missing, in a folder that exists; a link is refused. The lock ends with the process, however
    that ends. The file stays: removing it would let a third process lock another of the same name. `OSError` if the file
    cannot be opened, or the file system has no locks.
    """
    # Otherwise opening a pipe waits for a reader, and children keep the lock.
    flags = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NONBLOCK", 0)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | flags, 0o600)
    deadline = time.monotonic() + wait_s
    is_mine = False
    try:
        while not (is_mine := _has_locked(descriptor)) and time.monotonic() < deadline:
            time.sleep(0.005)
    finally:
        if not is_mine:
            os.close(descriptor)
    return descriptor if is_mine else None


def _has_locked(descriptor: int) -> bool:
    try:
        if sys.platform == "win32":
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        else:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in _TAKEN:
            return False
        raise
    return True
