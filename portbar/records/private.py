"""Finds and removes what would tell of a machine's owner: paths, homes, addresses, names of hosts and people.

Drivers' messages and tracebacks quote them, so whole JSON values are cleaned rather than texts where they are made. What this
machine writes is cleaned; of a stranger's record the faults are named.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, Final

from portbar.records.untrusted import Place, pointer, walk

#: Members that name somebody or one machine, wherever they stand.
_TELLING: Final = frozenset(
    {
        *("argv", "cwd", "directory", "folder", "home", "path", "paths"),
        *("host_name", "hostname", "ip", "ip_address", "mac", "mac_address", "node", "nodename"),
        *("e_mail", "email", "login", "user", "user_name", "username"),
        *("machine_id", "serial", "serial_number", "uuid"),
    }
)

#: Folders that are the same everywhere; remedies name files in them.
_COMMON: Final = ("/etc/", "/dev/", "/proc/", "/sys/")

_PATH: Final = re.compile(
    r"(?<![\w./~])(?:~[\w.-]*|\.{1,2})?(?:/[^\s/:;,'\"`()<>]+){2,}/?|(?<![\w./])~[\w.-]*/[^\s'\"`]+"
)
_WINDOWS: Final = re.compile(r"file:/|(?<!\w)[A-Za-z]:[\\/][^\s:;,'\"`()<>]+|\\\\[\w.-]+\\\S+")
_EMAIL: Final = re.compile(r"(?<![\w.+-])[\w.+-]+@[\w-]+(?:\.[\w-]+)*\.[A-Za-z]{2,}")
_OCTET: Final = r"(?:25[0-5]|2[0-4]\d|1?\d?\d)"
_IPV4: Final = re.compile(rf"(?<![\w.]){_OCTET}(?:\.{_OCTET}){{3}}(?![\w.]*\d)")
_IPV6: Final = re.compile(
    r"(?<![\w:])(?:[0-9A-Fa-f]{1,4}:){4,7}[0-9A-Fa-f]{1,4}(?![\w:])|(?<![\w:])[0-9A-Fa-f]{2,4}::[0-9A-Fa-f:]+"
)
_UUID: Final = re.compile(r"(?<![0-9A-Fa-f])[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}(?![0-9A-Fa-f])")
_HOST: Final = re.compile(
    r"(?<![\w.-])[\w-]+\.(?:local|localdomain|lan|internal|intranet|corp)(?![\w-])", re.IGNORECASE
)

_KINDS: Final = (
    (_EMAIL, "an e-mail address"),
    (_PATH, "a path"),
    (_WINDOWS, "a path"),
    (_UUID, "the identity of one device or machine"),
    (_HOST, "a host's name"),
    (_IPV6, "a network address"),
    (_IPV4, "a network address"),
)

#: Members with versions, in which four numbers with dots are no address.
_VERSIONS: Final = frozenset(
    {"driver_version", "numpy", "platform_version", "pyopencl", "python", "release", "version"}
)

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

_POSIX_FILE: Final = re.compile(r"(?<![\w./])(?:~|\.{1,2})?(?:/[^\s/:;,'\"`()<>]+)+/([^\s/:;,'\"`()<>]*)")
_WINDOWS_FILE: Final = re.compile(r"(?<!\w)(?:[A-Za-z]:|\\)(?:[\\/][^\s\\/:;,'\"`()<>]+)*[\\/]([^\s\\/:;,'\"`()<>]*)")


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
        text = _WINDOWS_FILE.sub(_last_part, _POSIX_FILE.sub(_last_part, value))
        return host.sub("host", text) if host is not None else text
    return value


def _last_part(match: re.Match[str]) -> str:
    return match[0] if match[0].startswith(_COMMON) else match[1]


def without_personal_data(text: str, name: str) -> str:
    """A text in which whatever `personal_data` would find has been replaced by words for what it was.

    Parameters
    ----------
    text : str
    name : str
        The member that holds it: versions look like addresses.
    """
    while _found(text, name):
        for pattern, what in _KINDS:
            if pattern is not _IPV4 or name not in _VERSIONS:
                text = pattern.sub(lambda match, what=what: _replaced(match, what), text)  # type: ignore[misc]
    return text


def _replaced(match: re.Match[str], what: str) -> str:
    return match[0] if match[0].startswith(_COMMON) else f"[{what}]"


def personal_data(value: Any) -> Iterator[str]:
    """Yield what a record tells of its machine's owner, as sentences with a JSON pointer."""
    for _, held, place, _ in walk(value):
        for key, entry in held:
            if type(key) is str and (what := _told_by_name(key)):
                yield f"{pointer((place, key))}: {what}; remove it"
            if type(entry) is str and _found(entry, "") and (what := _found(entry, _member((place, key)))):
                where = pointer((place, key))
                yield f"{where}: looks as if it held {what}, which says whose machine it is; replace that part"


def _member(place: Place) -> str:
    """The name of the member that holds a value, itself or in a list."""
    while place is not None:
        place, part = place
        if isinstance(part, str):
            return part
    return ""


@lru_cache(maxsize=2048)
def _told_by_name(name: str) -> str:
    """What is wrong with a member's name, in words; empty if nothing."""
    if name.lower().replace("-", "_") in _TELLING:
        return "a record has no member of this name, which would tell whose machine it is"
    what = _found(name, "")
    return f"the member's name looks like {what}, which says whose machine it is" if what else ""


@lru_cache(maxsize=8192)
def _found(text: str, name: str) -> str:
    """What a text holds that a record must not, in words; empty if nothing. Most texts of records are the same few."""
    if not any(mark in text for mark in "/\\@.:-"):
        return ""
    for pattern, what in _KINDS:
        if pattern is _IPV4 and name in _VERSIONS:
            continue
        for match in pattern.finditer(text):
            if not match[0].startswith(_COMMON):
                return what
    return ""
