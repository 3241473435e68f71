"""Keeps a record about the machine and not about its owner: no host name, no path that says who or where.

Drivers' messages and tracebacks quote both, so this is applied to whole records rather than where text is made.
"""

from __future__ import annotations

import re
import socket
from typing import Any, Final

#: Folders that are the same everywhere; remedies name files in them.
_COMMON: Final = ("/etc/", "/dev/", "/proc/", "/sys/")

#: Members that hold what drivers and systems call themselves, which a host may be called too.
_NAMES: Final = {"address", "environment", "facts", "host", "name", "platform"}

#: Members that hold portbar's own words wherever they hold text, so that a host called `us` or `ok` makes no record invalid.
_WORDS: Final = {
    "algorithm",
    "command",
    "implementation",
    "kind",
    "level",
    "lock",
    "operation",
    "schema",
    "space",
    "status",
    "strategy",
    "type",
    "unit",
}

_POSIX: Final = re.compile(r"(?<![\w./])(?:~|\.{1,2})?(?:/[^\s/:;,'\"`()<>]+)+/([^\s/:;,'\"`()<>]*)")
_WINDOWS: Final = re.compile(r"(?<!\w)(?:[A-Za-z]:|\\)(?:[\\/][^\s\\/:;,'\"`()<>]+)*[\\/]([^\s\\/:;,'\"`()<>]*)")


def anonymous(value: Any, host: str | None = None) -> Any:
    """A copy of a JSON value in which every path is cut to its last part, and the host's name to `host`.

    Parameters
    ----------
    value : JSON value
    host : str, optional
        The host name to remove; by default that of this machine.
    """
    name = socket.gethostname() if host is None else host
    pattern = re.compile(rf"(?<!\w){re.escape(name)}(?!\w)", re.IGNORECASE) if name else None
    return _scrubbed(value, pattern)


def _scrubbed(value: Any, host: re.Pattern[str] | None) -> Any:
    if isinstance(value, dict):
        return {
            key: _scrubbed(item, None if key in _NAMES or (key in _WORDS and isinstance(item, str)) else host)
            for key, item in value.items()
        }
    if isinstance(value, (list, tuple)):
        return [_scrubbed(item, host) for item in value]
    if isinstance(value, str):
        text = _WINDOWS.sub(_last_part, _POSIX.sub(_last_part, value))
        return host.sub("host", text) if host is not None else text
    return value


def _last_part(match: re.Match[str]) -> str:
    return match[0] if match[0].startswith(_COMMON) else match[1]
