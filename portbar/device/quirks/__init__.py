"""One table of what OpenCL implementations get wrong: where it was seen, what helps, and the program that shows it.

Not for what a device merely lacks, which its facts and findings tell. Code asks this table for an effect instead of testing
names. A new fault is one entry in the module of its implementation; documentation, `portbar doctor` and the tests follow.
"""

from __future__ import annotations

import re
from contextlib import contextmanager
from typing import TYPE_CHECKING

from portbar.device.quirks import intel, mesa, nvidia, oclgrind, pocl
from portbar.device.quirks.effects import *  # noqa: F403 (code asks for them as `quirks.NAME`)
from portbar.device.quirks.effects import ANOTHER_RUNTIME
from portbar.device.quirks.entry import Quirk

if TYPE_CHECKING:
    from collections.abc import Iterator

    from portbar.device.facts import DeviceFacts

_UPDATE = "update the driver, or use another runtime"

#: The table. `registered` adds to it for a while.
QUIRKS: list[Quirk] = [*pocl.ENTRIES, *mesa.ENTRIES, *intel.ENTRIES, *nvidia.ENTRIES, *oclgrind.ENTRIES]


@contextmanager
def registered(quirk: Quirk) -> Iterator[None]:
    """Have an entry in the table for the length of a `with` block, as for an implementation of one's own.

    Programs that were compiled before it keep what was chosen for them.

    Raises
    ------
    ValueError
        The table has an entry of this name.
    """
    if any(quirk.name == known.name for known in QUIRKS):
        raise ValueError(f"the table of faults has an entry {quirk.name!r} already: choose another name")
    QUIRKS.append(quirk)
    try:
        yield
    finally:
        QUIRKS.remove(quirk)


def matching(facts: DeviceFacts, log: str = "") -> list[Quirk]:
    """Return the quirks of a device, in the order of the table."""
    return [quirk for quirk in QUIRKS if quirk.matches(facts, log)]


def has_effect(effect: str, facts: DeviceFacts) -> bool:
    """Tell whether any quirk of a device has this effect on what portbar does."""
    return any(quirk.effect == effect for quirk in matching(facts))


def loop_limit(facts: DeviceFacts, measured: int | None) -> int | None:
    """Iterations after which a device ends loops: the smaller of what a probe measured and what the table knows."""
    known = [quirk.loop_limit for quirk in matching(facts) if quirk.loop_limit]
    return min([*known, *([] if measured is None else [measured])], default=None)


def loop_notice(facts: DeviceFacts, limit: int) -> str:
    """What to tell who runs kernels of their own on a device that ends loops, with the remedy."""
    known = [quirk.workaround for quirk in matching(facts) if quirk.loop_limit]
    return (
        f"the device ends loops silently after {limit} iterations in the whole kernel, also the loops of your own kernels: "
        f"what takes more gives wrong results without an error. What would help: {(known or [_UPDATE])[0]}"
    )


def only_another_runtime() -> frozenset[str]:
    """Return the remedies that tell a user to install another runtime, which may be there already."""
    return frozenset(quirk.workaround for quirk in QUIRKS if quirk.effect == ANOTHER_RUNTIME)


def remedy(facts: DeviceFacts, log: str) -> str:
    """Return what helps against what a log shows, or an empty text where the table does not know it."""
    for quirk in matching(facts, log):
        if quirk.symptom and re.search(quirk.symptom, log):
            return quirk.workaround
    return ""


def markdown() -> str:
    """The table as a part of a page, one section an entry: what the documentation shows."""
    parts = []
    for quirk in QUIRKS:
        parts.append(f"## {quirk.name}\n\n{_sentence(quirk.fault)}\n")
        rows = [("Seen", _sentence(quirk.seen)), ("What helps", _sentence(quirk.workaround))]
        if quirk.everywhere:
            rows.append(("Where portbar does it", "On every device, since it costs nothing."))
        parts += [f"{title}\n: {text}\n" for title, text in (*rows, ("Gone when this fails", f"`{quirk.retire}`"))]
    return "\n".join(parts)


def _sentence(text: str) -> str:
    """A text of the table with a full stop, and with a capital unless it begins with a name."""
    first = text.split(maxsplit=1)[0]
    plain = first.isalpha() and first.islower() and first != "portbar"
    return f"{text[0].upper() if plain else text[0]}{text[1:]}."
