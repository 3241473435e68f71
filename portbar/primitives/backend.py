"""How barriers talk to a device: defs of the backend's own template, of a quirk's workaround, or those for all others."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from portbar.device import quirks
from portbar.primitives import layout
from portbar.primitives.pieces import Piece
from portbar.rendering.templates import fragment, has_def, render_def

if TYPE_CHECKING:  # a package that it is made of imports this module
    from portbar.primitives.strategy import Strategy

_COMMON: Final = "backend/barrier.mako"
_WORKAROUNDS: Final = "backend/workarounds.mako"

#: Defs of the workarounds that a device with an effect needs in place of the others'.
_BY_EFFECT: Final[Mapping[str, tuple[str, ...]]] = {quirks.IDS_LOST: ("leader", "grid_fields", "enter_first")}

#: How a device pauses and yields -> the template that does it. A pause counts as polls, as waits are bounded by polls: a pause
#: on x86 takes as long as a round of polls, and that of NVIDIA, which may be empty, returns how many it took.
_PAUSES: Final = {
    "nanosleep": ("backend/ptx/barrier.mako", layout.POLLS_PER_ROUND),
    "x86_pause": ("backend/x86.mako", 1),
}
_YIELDS: Final = {"syscall": "backend/x86.mako"}


def defines(strategy: Strategy, name: str) -> bool:
    """Whether the strategy's backend does this in a way of its own."""
    return has_def(f"backend/{strategy.atomics.value}/barrier.mako", name)


def pieces(strategy: Strategy, *names: str) -> list[Piece]:
    """Each of these defs as the strategy's device needs it."""
    return [(places[-1], name) for name in names if (places := _places(strategy, name))]


def _places(strategy: Strategy, name: str) -> list[str]:
    """The templates whose def of this name a device gets: the backend's, and after it those that its quirks ask for."""
    own = f"backend/{strategy.atomics.value}/barrier.mako"
    found = [own if has_def(own, name) else _COMMON]
    found += [_WORKAROUNDS for effect, names in _BY_EFFECT.items() if strategy.has(effect) and name in names]
    return found


def fragments(strategy: Strategy, context: Mapping[str, Any]) -> Callable[[str], str]:
    """Name of a def -> the lines that it puts into another one, of all templates that have some for this device."""
    return lambda name: "".join(fragment(place, name, context) for place in _places(strategy, name))


@cache
def work_of_all() -> str:
    """A statement that each work-item executes: some compilers lose what only one does without one."""
    return render_def(_WORKAROUNDS, "work_of_all", {}).strip()


def stride(strategy: Strategy) -> Callable[[str], str]:
    """Return how to write the stride of a loop: so that the compiler knows that it is not 0, where the device needs that."""
    return "max({}, 1u)".format if strategy.has(quirks.LOOPS_ENDLESS) else str


def exchanged(other: int) -> str:
    """The macros before a text that is launched with this dimension and the first one exchanged; nothing for the first one."""
    return render_def(_WORKAROUNDS, "exchanged", {"other": other}) if other else ""


def pause_piece(pause: str) -> list[Piece]:
    """The pause between polls, with what it needs; nothing for `none`."""
    return [(_PAUSES[pause][0], "relax")] if pause in _PAUSES else []


def polls_in_wait(pause: str, otherwise: int) -> int:
    """Polls that a round of a wait has, so that it takes as long with pauses as without."""
    return _PAUSES[pause][1] if pause in _PAUSES else otherwise


def yield_piece(yield_by: str) -> Piece:
    """How a waiting work-group gives its processor to another one."""
    return _YIELDS.get(yield_by, _COMMON), "yield_processor"
