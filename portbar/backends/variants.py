"""The variants of a primitive, and backends: one module each in their package, and any that a program registers.

A package of variants is a folder whose modules each have a `VARIANT`; no list of them is kept anywhere else. The order of
preference is the order of `rank`. After CUB's `block/specializations` and reikna, where `X.py` owns `X.mako`.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import ClassVar, Generic, TypeVar

from portbar.errors import UnsupportedFeatureError
from portbar.records.dataclass import dataclass


@dataclass(frozen=True)
class Variant:
    """One way to do a primitive."""

    #: As overrides, records and reports call it.
    name: str
    #: Order of preference, lowest first.
    rank: int
    #: One line, for tables of the documentation and of reports.
    summary: str


V = TypeVar("V", bound=Variant)


class Variants(Mapping[str, V], Generic[V]):
    """Name -> variant, in order of preference.

    The modules of `package` each have a `VARIANT`; they are imported at first use. Variants that need no module each are
    `known` in place of those.
    """

    #: How often variants of any primitive were added or removed. Texts from before may no longer be right.
    revision: ClassVar[int] = 0
    #: How many of them a program has added and not removed.
    added: ClassVar[int] = 0

    def __init__(self, package: str, known: Iterable[V] | None = None) -> None:
        self._package = package
        self._found = None if known is None else self._ordered(list(known))

    def _all(self) -> dict[str, V]:
        if self._found is None:
            import pkgutil  # noqa: PLC0415 (the count of changes is asked more often than what there is)

            folder = importlib.import_module(self._package).__path__
            modules = [importlib.import_module(f"{self._package}.{info.name}") for info in pkgutil.iter_modules(folder)]
            self._found = self._ordered([module.VARIANT for module in modules if hasattr(module, "VARIANT")])
        return self._found

    @staticmethod
    def _ordered(variants: list[V]) -> dict[str, V]:
        return {variant.name: variant for variant in sorted(variants, key=lambda variant: variant.rank)}

    def __getitem__(self, name: str) -> V:
        return self._all()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._all())

    def __len__(self) -> int:
        return len(self._all())

    def register(self, variant: V) -> None:
        """Add a variant. `ValueError` if there is one of this name."""
        known = self._all()
        if variant.name in known:
            raise ValueError(f"{self._package} already has a variant {variant.name!r}: choose another name")
        self._found = self._ordered([*known.values(), variant])
        Variants.changed(1)

    def unregister(self, name: str) -> None:
        """Remove a variant that `register` has added."""
        self._found = self._ordered([variant for key, variant in self._all().items() if key != name])
        Variants.changed(-1)

    @staticmethod
    def changed(more: int) -> None:
        """Note that a program has added variants or headers, or has removed them."""
        Variants.revision += 1
        Variants.added += more

    @contextmanager
    def registered(self, variant: V) -> Iterator[V]:
        """Add a variant for the time of a `with` block."""
        self.register(variant)
        try:
            yield variant
        finally:
            self.unregister(variant.name)


def first_allowed(
    variants: Mapping[str, V], judge: Callable[[V], tuple[bool, str]], asked: str | None, who: str
) -> tuple[str, str]:
    """Name of the variant that is asked for, or of the first that is allowed, and the reason.

    The last variant is right on every device. `judge` says whether a device can have one, and the reason either way. `who` is
    device and primitive, for the message of the `UnsupportedFeatureError` if it cannot have the one that is asked for.
    """
    for name in variants if asked is None else (asked,):
        allowed, reason = judge(variants[name])
        if allowed:
            return name, reason if asked is None else f"requested; {reason}"
        if asked is not None:
            raise UnsupportedFeatureError(f"{who} strategy {asked} was requested, but {reason}")
    raise AssertionError("the last variant is right on every device")
