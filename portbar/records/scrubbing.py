"""Personal data in records: finds and removes what identifies a person or a machine, such as paths, hosts and addresses.

Drivers' messages and tracebacks quote them, so whole JSON values are cleaned rather than texts where they are made.
"""

from __future__ import annotations

import getpass
import re
import socket
from collections.abc import Mapping
from functools import lru_cache, partial
from typing import Any, Final

#: Members that name a person or one machine, anywhere in a record.
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

#: Network addresses are last: texts of versions are not searched for them.
_KINDS: Final = (
    (_EMAIL, "an e-mail address"),
    (_PATH, "a path"),
    (_WINDOWS, "a path"),
    (_UUID, "the identity of one device or machine"),
    (_HOST, "a host's name"),
    (_IPV6, "a network address"),
    (_IPV4, "a network address"),
)

#: Members with versions, in which four numbers with dots are not an address.
_VERSIONS: Final = frozenset(
    {"driver_version", "numpy", "platform_version", "pyopencl", "python", "release", "version"}
)

#: Members that hold what drivers and systems call themselves, which a host may be called too.
_NAMES: Final = {"address", "environment", "facts", "host", "name", "platform"}

#: Members that hold portbar's own words wherever they hold text, so that a host called `us` or `ok` makes no record invalid.
_WORDS: Final = {
    *("algorithm", "command", "implementation", "kind", "level", "lock", "operation"),
    *("schema", "space", "status", "strategy", "type", "unit"),
}

#: Names of users that many systems have, and that texts hold as words.
_NO_NAMES: Final = frozenset({"admin", "administrator", "nobody", "root", "runner", "test", "user"})

_POSIX_FILE: Final = re.compile(r"(?<![\w./])(?:~|\.{1,2})?(?:/[^\s/:;,'\"`()<>]+)+/([^\s/:;,'\"`()<>]*)")
_WINDOWS_FILE: Final = re.compile(r"(?<!\w)(?:[A-Za-z]:|\\)(?:[\\/][^\s\\/:;,'\"`()<>]+)*[\\/]([^\s\\/:;,'\"`()<>]*)")


def anonymous(value: Any, host: str | None = None, user: str | None = None) -> Any:
    """Return a copy of a JSON value in which each path is cut to its last part, and names of this host and user are words.

    `host` and `user` are other names to remove.
    """
    names = {"host": socket.gethostname() if host is None else host, "user": _user() if user is None else user}
    patterns = {by: re.compile(rf"(?<!\w){re.escape(name)}(?!\w)", re.IGNORECASE) for by, name in names.items() if name}
    return _scrubbed(value, patterns)


def _user() -> str:
    """The user's name; empty where the system has none, or one that many have."""
    try:
        name = getpass.getuser()
    except (KeyError, OSError, ImportError):
        return ""
    return "" if name.lower() in _NO_NAMES else name


def _scrubbed(value: Any, names: Mapping[str, re.Pattern[str]]) -> Any:
    if isinstance(value, dict):
        return {
            key: _scrubbed(item, {} if key in _NAMES or (key in _WORDS and isinstance(item, str)) else names)
            for key, item in value.items()
        }
    if isinstance(value, (list, tuple)):
        return [_scrubbed(item, names) for item in value]
    if isinstance(value, str):
        text = _WINDOWS_FILE.sub(_last_part, _POSIX_FILE.sub(_last_part, value))
        for by, name in names.items():
            text = name.sub(by, text)
        return text
    return value


def _last_part(match: re.Match[str]) -> str:
    return match[0] if match[0].startswith(_COMMON) else match[1]


@lru_cache(maxsize=2048)
def fault_of_name(name: str) -> str:
    """Return why a record may not have a member of this name, in words; empty if it may."""
    if name.lower().replace("-", "_") in _TELLING:
        return "a record has no member of this name, which would identify the machine or its owner"
    what = told_by(name)
    return f"the member's name looks like {what}, which identifies the machine or its owner" if what else ""


@lru_cache(maxsize=8192)
def told_by(text: str, member: str = "") -> str:
    """Return the personal data in the text of a member, in words; empty if none. Most texts of records are the same few."""
    if not any(mark in text for mark in "/\\@.:-"):
        return ""
    for pattern, what in _kinds(member):
        if any(not match[0].startswith(_COMMON) for match in pattern.finditer(text)):
            return what
    return ""


def without_personal_data(text: str, member: str) -> str:
    """Return the text of a member in which words replace what `told_by` would find."""
    while told_by(text, member):
        for pattern, what in _kinds(member):
            text = pattern.sub(partial(_replaced, f"[{what}]"), text)
    return text


def _replaced(by: str, match: re.Match[str]) -> str:
    return match[0] if match[0].startswith(_COMMON) else by


def _kinds(member: str) -> tuple[tuple[re.Pattern[str], str], ...]:
    """The patterns for a member's text: in versions, four numbers with dots are not an address."""
    return _KINDS[:-1] if member in _VERSIONS else _KINDS
