"""The table of faults of OpenCL implementations: where each was seen, its workaround, and a program that shows it.

Missing features are not faults: facts and findings report those. Code asks this table for an effect instead of testing names. A
new fault is one entry in the module of its implementation; documentation, `portbar doctor` and the tests follow.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from portbar.device.facts import DeviceFacts
from portbar.device.quirks.effects import *  # noqa: F403 (code asks for them as `quirks.NAME`)
from portbar.device.quirks.effects import ANOTHER_RUNTIME

if TYPE_CHECKING:  # each start asks for the entries of its device alone
    from portbar.device.quirks.entry import Quirk

_UPDATE = "update the driver, or use another runtime"

#: The modules of the table, in its order: the name of each, and whether a device may have one of its faults.
MODULES: Final[Mapping[str, Callable[[DeviceFacts], bool]]] = {
    "pocl": lambda facts: "PoCL" in facts.platform_version,
    "mesa": lambda facts: facts.platform_name in {"rusticl", "Clover"} or facts.name.startswith("llvmpipe"),
    "intel": lambda facts: (
        facts.platform_name.startswith("Intel") or "cl_intel_concurrent_dispatch" in facts.extensions
    ),
    "nvidia": lambda facts: facts.nvidia is not None or facts.compute_capability > 0,
    "oclgrind": lambda facts: facts.name.startswith("Oclgrind"),
    "apple": lambda facts: facts.platform_name == "Apple",
}

#: Entries that `registered` adds for a while.
_added: list[Quirk] = []


def _entries(module: str) -> tuple[Quirk, ...]:
    entries: tuple[Quirk, ...] = importlib.import_module(f"{__name__}.{module}").ENTRIES
    return entries


def table() -> list[Quirk]:
    """Return the table."""
    return [*(one for module in MODULES for one in _entries(module)), *_added]


@contextmanager
def registered(quirk: Quirk) -> Iterator[None]:
    """Add an entry to the table for the duration of a `with` block, as for an implementation of your own.

    Programs that were compiled before it keep their choices. `ValueError` if the table has an entry of this name.
    """
    if any(quirk.name == known.name for known in table()):
        raise ValueError(f"the table of faults has an entry {quirk.name!r} already: choose another name")
    _added.append(quirk)
    _of_device.cache_clear()
    try:
        yield
    finally:
        _added.remove(quirk)
        _of_device.cache_clear()


def matching(facts: DeviceFacts, log: str = "") -> list[Quirk]:
    """Return the quirks of a device, in the order of the table."""
    of_modules = (one for module, may_have in MODULES.items() if may_have(facts) for one in _entries(module))
    return [quirk for quirk in (*of_modules, *_added) if quirk.matches(facts, log)]


@lru_cache(maxsize=64)
def _of_device(facts: DeviceFacts) -> tuple[Quirk, ...]:
    """Return the quirks of a device; each program and the first launch of a kernel ask several times."""
    return tuple(matching(facts))


def effects_of(facts: DeviceFacts) -> frozenset[str]:
    """Return the effects that the quirks of a device have on portbar."""
    return frozenset(quirk.effect for quirk in _of_device(facts) if quirk.effect)


def has_effect(effect: str, facts: DeviceFacts) -> bool:
    """Return whether any quirk of a device has this effect on portbar."""
    return effect in effects_of(facts)


def with_effect(effect: str, facts: DeviceFacts) -> Quirk | None:
    """Return the first quirk of a device that has this effect on portbar."""
    return next((quirk for quirk in _of_device(facts) if quirk.effect == effect), None)


def loop_limit(facts: DeviceFacts, measured: int | None) -> int | None:
    """Return the iterations after which a device ends loops: the smaller of the measured limit and the table's."""
    known = [quirk.loop_limit for quirk in _of_device(facts) if quirk.loop_limit]
    return min([*known, *([] if measured is None else [measured])], default=None)


def loop_notice(facts: DeviceFacts, limit: int) -> str:
    """Return the warning for users of a device that ends loops, with the remedy."""
    known = [quirk.workaround for quirk in matching(facts) if quirk.loop_limit]
    return (
        f"the device ends loops silently after {limit} iterations in the whole kernel, including loops of your own kernels: "
        f"longer loops give wrong results without an error. Remedy: {(known or [_UPDATE])[0]}"
    )


def only_another_runtime() -> frozenset[str]:
    """Return the remedies that ask for another runtime, which may already be installed."""
    return frozenset(quirk.workaround for quirk in table() if quirk.effect == ANOTHER_RUNTIME)


def explanation(facts: DeviceFacts, log: str) -> Quirk | None:
    """Return the fault that a log shows, or None if the table has none."""
    return next((one for one in matching(facts, log) if one.symptom and re.search(one.symptom, log)), None)


def remedy(facts: DeviceFacts, log: str) -> str:
    """Return the workaround for the fault that a log shows, or an empty string if the table has none."""
    known = explanation(facts, log)
    return known.workaround if known is not None else ""


def markdown() -> str:
    """Return the table as Markdown for the documentation, one section per entry."""
    parts = []
    for quirk in table():
        parts += [f"## {quirk.name}\n\n{_sentence(quirk.fault)}\n", f"- **Seen.** {_sentence(quirk.seen)}"]
        parts.append(f"- **Workaround.** {_sentence(quirk.workaround)}")
        if quirk.everywhere:
            parts.append("- **Applied.** On every device, because it costs nothing.")
        parts[-1] += "\n"
    return "\n".join(parts)


def tests_markdown() -> str:
    """Return for maintainers, as Markdown, the command of each entry that fails where its fault is gone."""
    rows = [f"| {quirk.name} | `{quirk.retire.replace('|', chr(92) + '|')}` |" for quirk in table()]
    return "\n".join(["| entry | gone when this fails |", "| --- | --- |", *rows, ""])


def _sentence(text: str) -> str:
    """Return a text of the table with a full stop, and with a capital unless it begins with a name."""
    first = text.split(maxsplit=1)[0]
    plain = first.isalpha() and first.islower() and first != "portbar"
    return f"{text[0].upper() if plain else text[0]}{text[1:]}."
