"""The backend of a device: its atomics, waits and loops, and the defs of templates that it has of its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from typing import Any, Final

from portbar.backends.units import UNKNOWN, Clock, ComputeUnits
from portbar.backends.variants import Variant, Variants
from portbar.device import quirks
from portbar.device.facts import DeviceFacts
from portbar.device.findings import Findings
from portbar.records.dataclass import dataclass
from portbar.rendering import Piece
from portbar.rendering.templates import fragment, has_def, render_def

#: How the reason of a strategy begins that a measurement has refuted.
REFUTED: Final = "found:"

#: Name of a def, and names that it may use beside those of its header -> its lines.
Fragments = Callable[..., str]

_COMMON: Final = "backend/barrier.mako"
_WORKAROUNDS: Final = "backend/workarounds.mako"

#: Defs of the workarounds that a device with an effect needs in place of the others'.
_BY_EFFECT: Final[Mapping[str, tuple[str, ...]]] = {
    quirks.IDS_LOST: ("leader", "grid_fields", "enter_first"),
    quirks.LOCAL_POINTERS_LOST: ("enter_shared",),
    quirks.ITEMS_BEYOND: ("enter_beyond",),
    quirks.FENCES_ARE_BARRIERS: ("word_fence",),
}


@dataclass(frozen=True)
class Backend(Variant):
    """One way to talk to devices. `summary` says how its atomics order memory.

    Those of `BACKENDS` know no device; that of a strategy is `on` the units of its device.
    """

    #: The devices that it is for.
    where: str = ""
    #: How it makes operations sequentially consistent.
    seq_cst: str = ""
    #: Path of the template with the defs `operation` and `fences`, below `cl_templates` or absolute. It may have those of
    #: `cl_templates/backend/barrier.mako`, too, in place of them.
    template: str = ""
    #: The `-cl-std` values to try, best first; None is the driver's default.
    standards: tuple[str | None, ...] = (None,)
    #: Whether it has instructions for loads and stores of 8 and 16 bits.
    small_access: bool = False
    #: Whether it has instructions for increments that wrap.
    wraps: bool = False
    #: Whether acquire loads are plain loads where the units have such, so that waits poll by them there.
    polls_acquire: bool = False
    #: Whether operations take pointers to the generic address space, where a probe compiled those.
    generic_pointers: bool = False
    #: Whether its fences have orders of their own, where a probe compiled them.
    orders_fences: bool = False
    #: Whether its template has a pause between polls (`relax`) that sleeps (`sleep`), and says how many polls it took.
    sleeps: bool = False
    #: Whether waits at barriers between work-groups are timed by the device's clock, which measured numbers tune.
    waits_by_clock: bool = False
    #: Whether the fences of a loop of compare-exchanges are placed around it.
    loops_fenced: bool = False
    #: Whether loads are read-modify-writes.
    loads_write: bool = False
    #: Whether its orders hold within a work-group on every device.
    within_groups: bool = False
    #: Defs of the template that the words need before them.
    before_words: tuple[str, ...] = ()
    #: The units that run the work-groups.
    units: ComputeUnits = UNKNOWN
    #: Effects of the device's quirks that its text must respect.
    effects: frozenset[str] = frozenset()

    def on(self, units: ComputeUnits, effects: frozenset[str] = frozenset()) -> Backend:
        """Return the backend of one device."""
        return replace(self, units=units, effects=effects)

    @property
    def probes(self) -> dict[str, str | None]:
        """Name of each compile probe, as in `Findings.builds` -> its `-cl-std`."""
        return {self.name if std is None else f"{self.name}@{std}": std for std in self.standards}

    @property
    def row(self) -> str:
        """The row of the documentation's table."""
        return f"| `{self.name}` | {self.where} | {self.summary} | {self.seq_cst} |"

    # Its requirements.

    def std(self, facts: DeviceFacts, findings: Findings | None) -> str | None:  # noqa: ARG002
        """The `-cl-std` that it needs."""
        return None

    def lack(self, facts: DeviceFacts, findings: Findings | None) -> str:
        """Why it does not compile; empty where it does, as far as is known."""
        raise NotImplementedError

    def claimed(self, facts: DeviceFacts) -> bool:  # noqa: ARG002
        """Whether the device claims the order."""
        return False

    def doubt(self, facts: DeviceFacts) -> str:  # noqa: ARG002
        """Why only litmus tests could justify it; empty where the ordering probe may."""
        return ""

    def promise(self, facts: DeviceFacts) -> str:  # noqa: ARG002
        """Why it may be used before it is probed; empty where it may not."""
        return ""

    def judge(self, facts: DeviceFacts, findings: Findings | None) -> tuple[bool, str]:
        """Whether it may be used, and the reason either way."""
        if lack := self.lack(facts, findings):
            return False, lack
        litmus = findings.litmus.get(self.name, "") if findings is not None else ""
        passed = litmus.startswith("pass")
        if litmus.startswith("fail"):
            return False, f"the litmus tests {REFUTED} {litmus.partition(': ')[2] or litmus}"
        if not passed and (doubt := self.doubt(facts)):
            return False, doubt
        measured = findings.ordering.get(self.name) if findings is not None else None
        if measured == "pass":
            claim = "claimed by the device and " if self.claimed(facts) else ""
            tested = " and by the litmus tests" if passed else ""
            return True, f"device-scope ordering {claim}confirmed by the ordering probe{tested}"
        if measured is not None and not measured.startswith("untested"):
            return False, f"the ordering probe {REFUTED} {measured}"
        if promise := self.promise(facts):
            return True, f"{promise}; not yet probed here"
        return False, "not confirmed by the ordering probe (run portbar survey, or portbar.probe(device))"

    # Its features.

    def takes_text(self, facts: DeviceFacts) -> bool:  # noqa: ARG002
        """Whether the device's compiler may be given its text."""
        return True

    def polls_volatile(self, facts: DeviceFacts, builds: Mapping[str, bool]) -> bool:
        """Whether waits poll with volatile loads: where atomic loads write and the probe of volatile ones passed."""
        writes = self.loads_write or quirks.has_effect(quirks.LOADS_WRITE, facts)
        return writes and self.units.polls_volatile and builds.get("volatile_polls", False)

    def has_one_way_fences(self, builds: Mapping[str, bool]) -> bool:
        """Whether one-way fences (acquire or release alone) are available."""
        return self.orders_fences and builds.get("one_way_fences", False)

    def lacks_seq_cst(self, facts: DeviceFacts, findings: Findings | None) -> str:  # noqa: ARG002
        """Why seq_cst is refused; empty where it holds."""
        return ""

    def adds(self, kind: str, probe: str, facts: DeviceFacts, findings: Findings | None) -> bool:  # noqa: ARG002
        """Whether the device has an addition of its own for a float type; `probe` is that of OpenCL C's."""
        return False

    # Its text.

    @property
    def words(self) -> list[Piece]:
        """Defs before those of the words."""
        return self.pieces(*self.before_words)

    @property
    def more_pieces(self) -> list[Piece]:
        """Defs after the raw operations."""
        return []

    @property
    def context(self) -> dict[str, Any]:
        """Names that its templates may use beside those of every backend; they win over those."""
        return {}

    def defines(self, name: str) -> bool:
        """Whether it does this in a way of its own."""
        return has_def(self.template, name)

    def pieces(self, *names: str) -> list[Piece]:
        """Each of these defs as the device needs it."""
        return [(places[-1], name) for name in names if (places := self._places(name))]

    def _places(self, name: str) -> list[str]:
        """The templates whose def of this name a device gets: the backend's, and after it those that its quirks ask for."""
        found = [self.template if self.defines(name) else _COMMON]
        found += [_WORKAROUNDS for effect, names in _BY_EFFECT.items() if effect in self.effects and name in names]
        return found

    def fragments(self, context: Mapping[str, Any]) -> Fragments:
        """Name of a def, and names for it alone -> the lines that it puts into another one.

        They are those of all templates that have some for this device.
        """
        return lambda name, **more: "".join(fragment(place, name, {**context, **more}) for place in self._places(name))

    # Its waits.

    @property
    def acquire_polls(self) -> bool:
        """Whether waits poll with acquire loads."""
        return self.polls_acquire and self.units.loads_are_plain

    @property
    def rolled(self) -> Callable[[str], str]:
        """A function that writes a number of polls: where loops must stay rolled, so that the compiler does not know it."""
        return "PORTBAR_ROLLED_POLLS({})".format if self.units.unrolls_polls else str

    @property
    def pauses(self) -> bool:
        """Whether a work-item can pause between polls."""
        return self.sleeps or "pause" in self.units.instructions

    @property
    def pause(self) -> list[Piece]:
        """The pause between polls."""
        if self.sleeps:
            return [(self.template, "relax")]
        return [(self.units.template, "relax")] if self.pauses else []

    @property
    def pause_is_round(self) -> bool:
        """Whether a pause takes as long as a round of polls, rather than saying of how many polls it took the time."""
        return self.pauses and not self.sleeps

    @property
    def yields(self) -> Piece:
        """The def by which a waiting work-group gives its processor to another one."""
        return self.units.template if "yield" in self.units.instructions else _COMMON, "yield_processor"

    def reads(self, clock: Clock) -> Piece:
        """The def that reads a clock."""
        template, name = clock.read
        return (clock.apart if clock.apart and clock.apart == self.units.template else template), name

    @property
    def pauses_anywhere(self) -> bool:
        """Whether pauses and yields may be used in any kernel, not only where barriers are."""
        return "anywhere" in self.units.instructions

    @property
    def lost_race(self) -> Piece:
        """The def for a loop of compare-exchanges, after one that another work-item won."""
        by_pause = self.pauses_anywhere and self.pause_is_round
        return self.units.template if by_pause else "atomics/common.mako", "lost_race"

    # Its loops.

    @property
    def stride(self) -> Callable[[str], str]:
        """A function that writes the stride of a loop, where needed so that the compiler knows that it is not 0."""
        return "max({}, 1u)".format if quirks.LOOPS_ENDLESS in self.effects else str

    @property
    def work_before_leader(self) -> str:
        """A statement for all work-items before code that only a leader executes; empty where compilers need none."""
        return work_of_all() if quirks.LEADER_FORGOTTEN in self.effects else ""


@cache
def work_of_all() -> str:
    """A statement that each work-item executes: some compilers lose what only one does without one."""
    return render_def(_WORKAROUNDS, "work_of_all", {}).strip()


def exchanged(other: int) -> str:
    """The macros before a text that is launched with this dimension and the first one exchanged; nothing for the first one."""
    return render_def(_WORKAROUNDS, "exchanged", {"other": other}) if other else ""


#: Every way to talk to devices, by the name of its atomics.
BACKENDS: Final[Variants[Backend]] = Variants("portbar.backends")
