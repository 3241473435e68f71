"""One way to do atomics: what it needs of a device, what it offers there, and its templates."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from portbar.device import quirks
from portbar.device.facts import DeviceFacts
from portbar.device.findings import Findings
from portbar.primitives.pieces import Piece
from portbar.primitives.variants import Variant, Variants

if TYPE_CHECKING:  # a package that it is made of imports this module
    from portbar.primitives.strategy import Strategy

#: How the reason of a strategy begins that a measurement has refuted.
REFUTED: Final = "found:"


@dataclass(frozen=True)
class AtomicsVariant(Variant):
    """One way to do atomics. `summary` says how it orders memory."""

    #: The devices that it is for.
    where: str = ""
    #: How it makes operations sequentially consistent.
    seq_cst: str = ""
    #: Path of the template with the defs `operation` and `fences`, below `cl_templates` or absolute.
    template: str = ""
    #: The `-cl-std` values to try, best first; None is the driver's default.
    standards: tuple[str | None, ...] = (None,)
    #: Whether it is inline PTX: only NVIDIA's compiler may be given it, and it has instructions for loads and stores of 8 and
    #: 16 bits and for increments that wrap.
    by_ptx: bool = False
    #: Whether acquire loads are plain loads on the host's processor, so that waits poll by them there.
    polls_acquire: bool = False
    #: Whether operations take pointers to the generic address space, where a probe compiled those.
    generic_pointers: bool = False
    #: Whether its fences have orders of their own, where a probe compiled them.
    orders_fences: bool = False
    #: A pause that comes with it, as in `Capabilities.pause`.
    pause: str = "none"
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

    def polls_volatile(self, facts: DeviceFacts, builds: Mapping[str, bool]) -> bool:
        """Whether waits poll with volatile loads: where atomic loads write and the probe of volatile ones passed."""
        writes = self.loads_write or quirks.has_effect(quirks.LOADS_WRITE, facts)
        return writes and "CPU" not in facts.type and builds.get("volatile_polls", False)

    def has_one_way_fences(self, builds: Mapping[str, bool]) -> bool:
        """Whether one-way fences (acquire or release alone) are available."""
        return self.orders_fences and builds.get("one_way_fences", False)

    def lacks_seq_cst(self, facts: DeviceFacts, findings: Findings | None) -> str:  # noqa: ARG002
        """Why seq_cst is refused; empty where it holds."""
        return ""

    def adds(self, kind: str, probe: str, facts: DeviceFacts, findings: Findings | None) -> bool:  # noqa: ARG002
        """Whether the device has an addition of its own for a float type; `probe` is that of OpenCL C's."""
        # PTX ISA: atom.add.f64 requires sm_60.
        return self.by_ptx and (kind != "double" or facts.compute_capability >= 60)

    # Its text.

    def more_pieces(self, strategy: Strategy) -> list[Piece]:  # noqa: ARG002
        """Defs after the raw operations."""
        return []

    def context(self, strategy: Strategy) -> dict[str, Any]:  # noqa: ARG002
        """Names that its templates may use beside those of every variant; they win over those."""
        return {}


#: Every way to do atomics.
VARIANTS: Final[Variants[AtomicsVariant]] = Variants("portbar.primitives.atomics")
