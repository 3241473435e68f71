"""The ways to find the work-groups of a grid and to let them meet: a module each in `discovery` and `device_barrier`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from typing import TYPE_CHECKING, Any, Final

from portbar.backends.variants import Variant, Variants
from portbar.device.facts import DeviceFacts
from portbar.primitives.pieces import Piece
from portbar.records.dataclass import dataclass

if TYPE_CHECKING:  # a package that it is made of imports this module
    from portbar.primitives.strategy import Strategy


@dataclass(frozen=True)
class GridVariant(Variant):
    """A variant with words in the hidden state and templates of its own."""

    #: Lines of the hidden state that others do not need, each with the names of its words.
    words: tuple[tuple[str, ...], ...] = ()
    #: Facts -> why the device cannot do it, None where it can.
    lacks: Callable[[DeviceFacts], str | None] = field(default=lambda _: None)
    #: Strategy -> the defs that it is made of, in order.
    pieces: Callable[[Strategy], list[Piece]] = field(default=lambda _: [])
    #: Strategy -> names for all templates, which win over those that the header has for all variants.
    context: Callable[[Strategy], dict[str, Any]] = field(default=lambda _: {})
    #: Strategy -> the def whose statements set its words before a launch's first barrier; None without any.
    prepare: Callable[[Strategy], Piece | None] = field(default=lambda _: None)


@dataclass(frozen=True)
class Discovery(GridVariant):
    """A way to find out which work-groups take part."""


@dataclass(frozen=True)
class BarrierAlgorithm(GridVariant):
    """A barrier between work-groups."""

    #: When another one is faster.
    loses: str = ""
    #: Whether its waits end at the spin limit; only such ones may be chosen by measured times.
    bounded: bool = True
    #: Whether it degrades least where other processes use the cores on which its work-groups wait.
    suits_shared_cores: bool = False
    #: The template whose counters the split form uses where barriers count in slots.
    counters: str = "device_barrier/counter.mako"
    #: Strategy -> how many counters that are.
    slots: Callable[[Strategy], int] = field(default=lambda _: 1)


#: Words of the published discovery protocol, whatever its lock.
PUBLISHED_WORDS: Final = ("POLL_EPOCH", "POLL_COUNT", "POLL_DONE")

DISCOVERIES: Final[Variants[Discovery]] = Variants("portbar.primitives.discovery")
BARRIERS: Final[Variants[BarrierAlgorithm]] = Variants("portbar.primitives.device_barrier")


def bounded() -> tuple[str, ...]:
    """Names of the barriers with a spin limit, in order of preference."""
    return tuple(name for name, algorithm in BARRIERS.items() if algorithm.bounded)
