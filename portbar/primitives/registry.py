"""The headers that programs can include: those of portbar's packages, and any that a program registers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace

from portbar.backends.variants import Variants
from portbar.primitives.fault import Fault
from portbar.primitives.pieces import Header


class Headers(Mapping[str, Header]):
    """Name -> header, those before it that it requires."""

    def __init__(self, known: Iterable[Header], checks: Iterable[Header] = ()) -> None:
        self._known: dict[str, Header] = {}
        #: Those that only portbar includes, in debug builds.
        self.checks = {header.name: header for header in checks}
        for header in known:
            self._add(header)

    def __getitem__(self, name: str) -> Header:
        return self._known[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._known)

    def __len__(self) -> int:
        return len(self._known)

    def register(self, header: Header) -> Header:
        """Add a header; returns it with the numbers of its faults.

        `ValueError` if there is one of this name, if one that it requires is missing, or if a fault has the name or number of
        another one.
        """
        made = self._add(header)
        Variants.changed(1)
        return made

    def unregister(self, name: str) -> None:
        """Remove a header that `register` has added."""
        del self._known[name]
        Variants.changed(-1)

    @contextmanager
    def registered(self, header: Header) -> Iterator[Header]:
        """Add a header for the time of a `with` block."""
        made = self.register(header)
        try:
            yield made
        finally:
            self.unregister(header.name)

    def _add(self, header: Header) -> Header:
        if header.name in self._known or header.name in self.checks:
            raise ValueError(f"there is a header portbar/{header.name}.h already: choose another name")
        if missing := [name for name in header.requires if name not in self._known]:
            raise ValueError(
                f"portbar/{header.name}.h requires portbar/{missing[0]}.h, which is not registered before it"
            )
        made = self._known[header.name] = replace(header, faults=self._numbered(header))
        return made

    def _numbered(self, header: Header) -> tuple[Fault, ...]:
        """The header's faults, with the next numbers for those that have none."""
        known = [fault for other in (*self._known.values(), *self.checks.values()) for fault in other.faults]
        for fault in header.faults:
            if any(fault.name == other.name or fault.status == other.status for other in known):
                raise ValueError(f"another header has a fault {fault.name} or with the number {fault.status}")
            known.append(fault if fault.status else replace(fault, status=max(other.status for other in known) + 1))
        return tuple(known[len(known) - len(header.faults) :])


class Faults(Mapping[int, Fault]):
    """Status -> every fault that a launch can report, by the headers that there are."""

    def __init__(self, headers: Headers, *, checks: bool = False) -> None:
        self._headers, self._checks = headers, checks
        #: The faults with the headers of a revision.
        self._known: tuple[int, dict[int, Fault]] = (-1, {})

    def _all(self) -> dict[int, Fault]:
        if self._known[0] != Variants.revision:
            headers = (*self._headers.values(), *(self._headers.checks.values() if self._checks else ()))
            faults = {fault.status: fault for header in headers for fault in header.faults}
            self._known = Variants.revision, faults
        return self._known[1]

    def __getitem__(self, status: int) -> Fault:
        return self._all()[status]

    def __iter__(self) -> Iterator[int]:
        return iter(self._all())

    def __len__(self) -> int:
        return len(self._all())
