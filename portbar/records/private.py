"""Finds what a record would tell of a machine's owner: paths, homes, addresses, names of hosts and people.

Not for removing it: `portbar.survey.privacy` does that to what this machine writes. Here a stranger's record is judged, and
the stranger is told.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, Final

#: Members that name somebody or one machine, wherever they stand.
_NAMES: Final = frozenset(
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


def without_betrayals(text: str, name: str) -> str:
    """A text in which whatever `betrayals` would find has been replaced by words for what it was.

    Parameters
    ----------
    text : str
    name : str
        The member that holds it: versions look like addresses.
    """
    while _betrayed(text, name):
        for pattern, what in _KINDS:
            if pattern is not _IPV4 or name not in _VERSIONS:
                text = pattern.sub(lambda match, what=what: _replaced(match, what), text)  # type: ignore[misc]
    return text


def _replaced(match: re.Match[str], what: str) -> str:
    return match[0] if match[0].startswith(_COMMON) else f"[{what}]"


def betrayals(value: Any) -> Iterator[str]:
    """What a record tells of its machine's owner, as sentences with a JSON pointer; nothing if it tells nothing."""
    return iter(()) if _is_innocent(value) else _search(value, "", "")


def _is_innocent(value: Any) -> bool:
    """Whether there is nothing to find, in a quarter of the time: places are not kept, and equal texts seen once."""
    names: set[str] = set()
    texts: set[tuple[str, str]] = set()
    waiting = [value]
    while waiting:
        item = waiting.pop()
        if type(item) is dict:
            names.update(item)
            for name, entry in item.items():
                if type(entry) is str:
                    texts.add((entry, "version" if name in _VERSIONS else ""))
                elif type(entry) is dict or type(entry) is list:
                    waiting.append(entry)
        elif type(item) is list:
            waiting += [entry for entry in item if type(entry) not in {int, float}]
        elif type(item) is str:
            texts.add((item, ""))
    return not (
        any(_is_telling_name(name) or _betrayed(name, "") for name in names)
        or any(_betrayed(text, name) for text, name in texts)
    )


@lru_cache(maxsize=2048)
def _is_telling_name(name: str) -> bool:
    return name.lower().replace("-", "_") in _NAMES


def _search(value: Any, where: str, name: str) -> Iterator[str]:
    if isinstance(value, dict):
        for key, item in value.items():
            below = f"{where}/{key.replace('~', '~0').replace('/', '~1')}"
            if _is_telling_name(key):
                yield f"{below}: a record has no member of this name, which would tell whose machine it is; remove it"
            elif what := _betrayed(key, ""):
                yield f"{below}: the member's name looks like {what}, which says whose machine it is; remove it"
            yield from _search(item, below, key)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            # A list of numbers has no texts, and it is most of a record.
            if type(item) in {int, float}:
                continue
            yield from _search(item, f"{where}/{index}", name)
    elif isinstance(value, str) and (what := _betrayed(value, name)):
        yield f"{where}: looks as if it held {what}, which says whose machine it is; replace that part"


@lru_cache(maxsize=8192)
def _betrayed(text: str, name: str) -> str:
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
