"""How the trial of a program ends."""

from __future__ import annotations

from dataclasses import dataclass

#: Ends that are not faults: the device lacks something, or there is none.
EXCUSED = frozenset({"right", "unsupported", "no device"})


@dataclass(frozen=True)
class Verdict:
    """`kind` is right, wrong, refused, not built, hangs, aborts or an error's name; `what` says more."""

    kind: str
    what: str = ""

    @property
    def is_fault(self) -> bool:
        return self.kind not in EXCUSED
