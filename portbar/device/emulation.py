"""Says whether another program executes this process's instructions in place of its processor.

Such a processor is slower than its name, and keeps memory in the order of the one below: nothing measured on it holds for a
real one, nor the other way round.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path, PurePath
from typing import Final

from portbar.records.plain import plain_text

_PROC: Final = Path("/proc")

#: Pattern in /proc/cpuinfo -> the emulator that writes it.
_PROCESSORS: Final = {r"QEMU TCG CPU": "qemu", r"VirtualApple": "rosetta"}

#: Characters of a name at most.
_LONGEST: Final = 60


@cache
def emulator() -> str:
    """Return the name of the emulator that this process runs under; empty where none is known."""
    return emulator_by(_PROC)


def emulator_by(proc: Path) -> str:
    """Return the name of an emulator by what the kernel says of this process in the folder `proc`."""
    try:
        # Emulators of user programs, such as qemu-aarch64, change how the process looks under its own name. The kernel has
        # other names for it, which they leave alone: there it is the emulator.
        shown, running = ((proc / of / "exe").readlink() for of in ("self", "thread-self"))
    except OSError:
        shown = running = Path()
    if shown != running:
        return plain_text(PurePath(running).name, _LONGEST) or "unknown"
    try:
        processor = (proc / "cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    return next((name for pattern, name in _PROCESSORS.items() if re.search(pattern, processor)), "")
