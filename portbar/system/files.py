"""Writes files so that an error, such as a full disk, leaves the old content in place.

Not for findings that can be measured again: `portbar.system.cache` keeps those.
"""

from __future__ import annotations

import os
import secrets
import stat
from contextlib import suppress
from pathlib import Path


def write(path: Path, text: str) -> None:
    """Write a user's file in UTF-8: the new content beside it first, which then takes its name.

    A link is followed. An old file keeps its owner and its mode. A pipe or a device, such as /dev/stdout, is written to.

    Raises
    ------
    OSError
        The file cannot be written, and is as it was.
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

    Parameters
    ----------
    path : Path
        In a folder that exists.
    content : bytes
    mode : int
        Permissions of the file, less the process's mask.
    like : os.stat_result, optional
        The file whose owner and permissions the new one gets, as far as this user may give them.

    Raises
    ------
    OSError
        The file cannot be written.
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
        temporary.replace(path)
    except BaseException:
        with suppress(OSError):
            temporary.unlink()
        raise
