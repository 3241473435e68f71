"""Texts and values that portbar makes of others, from one process to the next, until something that they follow from changes.

A changed file of portbar's own counts as such a change.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
import os
from collections.abc import Callable, Collection, Iterable, Mapping
from collections.abc import Set as AbstractSet
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, TypeVar

import portbar
from portbar.records import cache, scratch
from portbar.records.coding import DamagedError, decoded, encoded

T = TypeVar("T")

#: Entries of a kind that stay on disk, the newest of all.
MOST_KEPT: Final = 512

#: Characters of an entry at most, so that all of them take a bounded part of the disk.
MOST_CHARACTERS: Final = 1 << 20

#: The folders of the cache that have them: texts with what was read, and what drivers compiled, which is larger.
KIND: Final = "texts"
BINARIES: Final = "binaries"

#: With a value other than 0, everything is made anew, and nothing of it is kept.
VARIABLE: Final = "PORTBAR_NO_CACHE"


def text_of(parts: tuple[Any, ...], make: Callable[[], str]) -> str:
    """Return the text that follows from `parts` alone, from an earlier process or by `make`, as `value_of` does."""
    return value_of(parts, make)


def value_of(
    parts: tuple[Any, ...],
    make: Callable[[], T],
    classes: Iterable[type] = (),
    later: Callable[[], Iterable[type]] = tuple,
) -> T:
    """Return the value that follows from `parts` alone, from an earlier process or by `make`.

    Parts are what `stable` takes; the value is what `coding.encoded` takes, with dataclasses among `classes` and those of
    `later`. Errors of `make` are not remembered.
    """
    key = key_of(parts)
    if key is None:
        return make()
    found = load(key, classes, later=later)
    if found is not None:
        known: T = found[0]
        return known
    made = make()
    store(key, made)
    return made


def is_off() -> bool:
    """Whether the user wants everything to be made anew."""
    return os.environ.get(VARIABLE, "") not in {"", "0"}


def key_of(parts: tuple[Any, ...]) -> str | None:
    """Return the key of a value that follows from `parts`, which are values that `stable` takes; None where none is kept."""
    if is_off() or cache.cache_dir() is None:
        return None
    own = _own_files()
    if own is None:
        return None
    return hashlib.sha256(stable((own, *parts)).encode(errors="surrogatepass")).hexdigest()[:32]


def load(
    key: str, classes: Iterable[type] = (), kind: str = KIND, later: Callable[[], Iterable[type]] = tuple
) -> tuple[Any] | None:
    """Return the value that an earlier process stored under a key, in a tuple; None without one that is whole.

    Classes are as for `coding.decoded`.
    """
    entry = cache.load(kind, key)
    if entry is None:
        return None
    try:
        return (decoded(_whole(entry), classes, later),)
    except (ValueError, DamagedError) as error:
        cache.reject(kind, key, str(error))
        return None


def _whole(entry: Mapping[str, Any]) -> Any:
    text = entry.get("json")
    if not isinstance(text, str) or entry.get("sha256") != _digest(text):
        raise DamagedError("its content is damaged")
    return json.loads(text)


def store(key: str, value: Any, kind: str = KIND) -> None:
    """Keep a value under a key; one that cannot be written stays out."""
    folder = cache.cache_dir()
    with suppress(ValueError, TypeError, OSError):
        text = json.dumps(encoded(value), allow_nan=False)
        if len(text) > MOST_CHARACTERS or folder is None:
            return
        # Never in memory, where a full disk would let entries grow without bound.
        cache.store(kind, key, {"json": text, "sha256": _digest(text)}, in_memory=False)
        most = MOST_KEPT if kind == KIND else MOST_KEPT // 4
        scratch.leave_newest(folder / cache.safe_name(kind), most, suffix=".json")


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()


def stable(value: Any) -> str:
    """Return a text that two values share only if they are the same, in any process: sets have no order of their own there."""
    kind = type(value)
    if value is None or kind in {str, int, bool, float}:
        return repr(value)
    if kind is not type and dataclasses.is_dataclass(kind):
        fields = [f"{name}={stable(getattr(value, name))}" for name in _field_names(kind)]
        return f"{kind.__qualname__}({','.join(fields)})"
    if isinstance(value, Mapping):
        return f"{{{','.join(sorted(f'{stable(key)}:{stable(one)}' for key, one in value.items()))}}}"
    if isinstance(value, AbstractSet):
        return f"{{{','.join(sorted(map(stable, value)))}}}"
    if isinstance(value, tuple | list):
        return f"({','.join(map(stable, value))},)"
    return repr(value)


@functools.cache
def _field_names(kind: Any) -> tuple[str, ...]:
    return tuple(field.name for field in dataclasses.fields(kind))


#: The parts of portbar that make nothing of what is remembered: no other part imports them.
_APART: Final = ("cli", "survey")


@functools.cache
def _own_files() -> str | None:
    """A hash of names, sizes and times of portbar's code, templates and records; None where they are not files."""
    found = [portbar.__version__]
    try:
        for root in portbar.__path__:
            if Path(root, "__init__.py").is_file():
                found += _files_below(root, _APART)
            else:
                # A checkout has its data beside the package, in a folder with much else.
                data = [Path(root, name) for name in ("cl_templates", "vendor_matrix")]
                found += [line for folder in data if folder.is_dir() for line in _files_below(str(folder))]
    except OSError:
        return None
    if not any(".mako " in line for line in found):
        return None
    return hashlib.sha256("\n".join(found).encode(errors="surrogatepass")).hexdigest()


def _files_below(folder: str, without: Collection[str] = ()) -> list[str]:
    """Names, sizes and times of the files of portbar in a folder and those below, but for some folders."""
    found, places = [], [folder]
    for place in places:
        below = place.removeprefix(folder)
        with os.scandir(place) as entries:
            for entry in entries:
                name = entry.name
                if name.endswith((".py", ".mako", ".json")):
                    about = entry.stat()
                    found.append(f"{below}/{name} {about.st_size} {about.st_mtime_ns}")
                elif (
                    "." not in name
                    and name != "__pycache__"
                    and name not in without
                    and entry.is_dir(follow_symlinks=False)
                ):
                    places.append(entry.path)
    return sorted(found)
