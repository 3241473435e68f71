"""The features that a program may require, by name: a table of names, each with the reason why a device lacks it.

Not for features that a program uses unasked: rendering and the compiler refuse those.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from portbar.choices.timing import is_cpu, shortened
from portbar.errors import Error, UnsupportedFeatureError
from portbar.primitives.split_barrier.selection import FEATURES

if TYPE_CHECKING:
    from portbar.choices.strategy import DeviceProfile
    from portbar.device.findings import Findings
    from portbar.primitives.strategy import Strategy

#: Begins each name for a use of split barriers, whose header the program must include.
SPLIT_BARRIER: Final = "split_barrier."

#: The requirement that is checked again at each launch of a grid.
GROUPS: Final = "groups"

_PROBE: Final = "Run portbar.probe(device) once: it measures this"
_OTHER: Final = "Use another device (`portbar devices` lists them)"

#: The driver's bit of a queue that runs its commands in any order.
_OUT_OF_ORDER: Final = 1

_WRITTEN: Final = re.compile(r"\s*([\w.]*)\s*(?:>=\s*(.*?)\s*)?", re.DOTALL)
_NUMBER: Final = re.compile(r"[0-9]{1,18}")


@dataclass(frozen=True)
class Candidate:
    """A device as requirements see it.

    Attributes
    ----------
    profile : DeviceProfile
    strategy : Strategy
    ask : callable
        The name of a member of `pyopencl.device_info` -> the driver's answer, None where it has none.
    """

    profile: DeviceProfile
    strategy: Strategy
    ask: Callable[[str], object]

    @property
    def findings(self) -> Findings | None:
        """The measurements of the device."""
        return self.profile.findings


#: Why a device does not meet a requirement, and the remedy; None if it does.
Lack: TypeAlias = "tuple[str, str] | None"


@dataclass(frozen=True)
class Requirement:
    """One name that a program may require.

    Attributes
    ----------
    name : str
    summary : str
        What the device then has, in a few words.
    lack : callable
        A device, and the number that the program requires (0 where it takes none) -> why the device does not meet it.
    unit : str
        Of the number in `name>=number`; empty where the name takes none.
    """

    name: str
    summary: str
    lack: Callable[[Candidate, int], Lack]
    unit: str = ""

    @property
    def written(self) -> str:
        """How a program writes it, with N for a number."""
        return f"{self.name}>=N" if self.unit else self.name


@dataclass(frozen=True)
class Required:
    """A requirement as a program wrote it, with its number (0 where it takes none)."""

    requirement: Requirement
    number: int = 0

    def __str__(self) -> str:
        return f"{self.requirement.name}>={self.number}" if self.requirement.unit else self.requirement.name


def _compiled(
    probe: str, claim: Callable[[Candidate], bool | None], remedy: str, *, believed: bool = True
) -> Callable[[Candidate, int], Lack]:
    """A feature of the language: the compile probe decides, without one what the driver reports.

    `believed` is whether a probe that passed is enough where the driver denies the feature.
    """

    def lack(device: Candidate, _: int) -> Lack:
        compiles = device.findings.builds.get(probe) if device.findings is not None else None
        claimed = claim(device)
        if compiles is False:
            return "the compile probe failed", remedy
        if claimed is False and not (compiles and believed):
            return "the driver does not report it", remedy
        if compiles is None and claimed is None:
            return "the driver does not report it, and no probe has tried it", _PROBE
        return None

    return lack


def _listed(feature: str) -> Callable[[Candidate], bool | None]:
    """Whether the device lists a feature of OpenCL C 3.0; unknown where it lists none at all."""
    return lambda device: feature in device.profile.facts.features if device.profile.facts.features else None


def _answered(question: str, says: Callable[[int], bool], remedy: str) -> Callable[[Candidate, int], Lack]:
    """A fact that the driver is asked for when it is required."""

    def lack(device: Candidate, _: int) -> Lack:
        answer = device.ask(question)
        if not isinstance(answer, int):
            return f"the driver does not answer CL_DEVICE_{question}", _OTHER
        return None if says(answer) else ("the driver does not report it", remedy)

    return lack


def _at_least(fact: str, unit: str, remedy: str) -> Callable[[Candidate, int], Lack]:
    """A number that the device reports."""

    def lack(device: Candidate, number: int) -> Lack:
        has: int | None = getattr(device.profile.facts, fact)
        if has is None:
            return "the driver does not report it", _OTHER
        return None if has >= number else (f"the device has {has} {unit}", remedy)

    return lack


def _capable(device: Candidate, number: int) -> Lack:
    has = device.profile.facts.compute_capability
    if not has:
        return "the device does not report one, as NVIDIA devices do", _OTHER
    return None if has >= number else (f"the device has {has}", _OTHER)


def _refused(what: str, also: str = "") -> Callable[[Candidate, int], Lack]:
    """Something that the capability table of `portbar/atomics.h` refuses with a reason, which names the remedy."""

    def lack(device: Candidate, _: int) -> Lack:
        refused = device.strategy.capabilities.atomics_table.refused
        why = refused.get(what) or refused.get(also)
        return (why, _OTHER) if why else None

    return lack


def _native(kind: str, probe: str) -> Callable[[Candidate, int], Lack]:
    def lack(device: Candidate, _: int) -> Lack:
        if (kind, "global") in device.strategy.capabilities.atomics_table.native_add:
            return None
        if device.findings is None or probe not in device.findings.builds:
            return "no probe has tried it", _PROBE
        remedy = f"Without this requirement, results are correct but slower. {_OTHER}"
        return "additions use compare-exchange loops on this device", remedy

    return lack


def _shares(capability: str) -> Callable[[Candidate, int], Lack]:
    def lack(device: Candidate, _: int) -> Lack:
        has = device.profile.facts.svm_capabilities
        if has is None:
            return "the driver does not report it", "Use buffers, or another device"
        return None if capability in has else ("the driver does not report it", "Use buffers, or another device")

    return lack


def _progress(who: str, remedy: str) -> Callable[[Candidate, int], Lack]:
    def lack(device: Candidate, _: int) -> Lack:
        found = device.findings.progress.get(who) if device.findings is not None else None
        if found is None:
            return "no probe has measured it", _PROBE
        if found == "independent":
            return _loops(device, 0)
        return ("a probe saw none" if found == "none" else f"the probe was inconclusive ({found})"), remedy

    return lack


def _loops(device: Candidate, _: int) -> Lack:
    limit, found = device.profile.loop_limit, device.findings
    if limit is not None:
        return (
            f"the device ends loops silently after {limit} iterations in a kernel",
            "Use a newer driver, or another device",
        )
    if found is None:
        return "no probe has measured it", _PROBE
    if not found.loops_run_whole:
        return f"the probe was inconclusive ({found.lost['loop_limit']})", _PROBE
    return None


def _ordered(kind: str, remedy: str) -> Callable[[Candidate, int], Lack]:
    """Return the measured order of the atomics that the program uses."""

    def lack(device: Candidate, _: int) -> Lack:
        atomics = device.strategy.atomics.value
        seen = getattr(device.findings, kind).get(atomics) if device.findings is not None else None
        if seen is None:
            return f"nothing was measured of the atomics strategy {atomics}", remedy
        if seen == "pass" or seen.startswith("pass:"):
            return None
        return f"the atomics strategy {atomics} has {seen}", _OTHER

    return lack


def _groups(device: Candidate, number: int) -> Lack:
    """Check the groups that a probe found, before a kernel is known; its occupancy is checked at each launch."""
    most = device.strategy.max_groups
    if most is not None and most < number:
        return device.strategy.max_groups_reason, _OTHER
    threads = device.findings.groups_in_flight if device.findings is not None else None
    if is_cpu(device.profile) and threads is not None and threads < number:
        return (
            f"a probe saw {threads} run concurrently",
            (
                "Give the runtime more threads, or measure again if the machine was busy: "
                "portbar.probe(device, refresh=True)"
            ),
        )
    return None


def _split(feature: str) -> Callable[[Candidate, int], Lack]:
    def lack(device: Candidate, _: int) -> Lack:
        if feature in device.strategy.capabilities.split_features:
            return None
        chosen = device.strategy.split_barrier
        return (
            f"the device uses the strategy {chosen}: {chosen.reason}",
            "Use waits that all work-items of the group reach, or another device",
        )

    return lack


def _lists_extension(name: str) -> Callable[[Candidate, int], Lack]:
    def lack(device: Candidate, _: int) -> Lack:
        has = device.profile.facts.extensions
        near = difflib.get_close_matches(name, has, n=1)
        like = f"; the closest extension that it lists is {near[0]}" if near else ""
        return None if name in has else (f"the device does not list the extension{like}", _OTHER)

    return lack


def _table() -> dict[str, Requirement]:
    made = (
        Requirement("fp64", "double precision", _compiled("fp64", lambda d: d.profile.facts.fp64, "Compute in float")),
        Requirement(
            "fp16",
            "half precision",
            _compiled("fp16", lambda d: d.profile.facts.fp16, "Compute in float", believed=False),
        ),
        Requirement("int64_atomics", "64-bit atomics", _refused("ulong")),
        Requirement("float_atomics", "a native atomic addition of floats", _native("float", "float_atomics")),
        Requirement("double_atomics", "a native atomic addition of doubles", _native("double", "double_atomics")),
        Requirement("seq_cst", "`memory_order_seq_cst` at device scope", _refused("seq_cst", "ordering")),
        Requirement("all_svm_devices", "`memory_scope_all_svm_devices`", _refused("all_svm_devices")),
        Requirement(
            "sub_groups",
            "OpenCL's sub-groups",
            _compiled("sub_groups", _has_sub_groups, "Use `portbar/reduction.h`, which works without them"),
        ),
        *(
            Requirement(name, summary, _compiled(name, claim, _OTHER))
            for name, summary, claim in (
                (
                    "work_group_collectives",
                    "`work_group_reduce_add` and related functions",
                    _listed("__opencl_c_work_group_collective_functions"),
                ),
                ("generic_address_space", "generic pointers", _listed("__opencl_c_generic_address_space")),
                (
                    "program_scope_variables",
                    "global variables of a program",
                    _listed("__opencl_c_program_scope_global_variables"),
                ),
                ("printf", "`printf` in kernels", lambda _: None),
            )
        ),
        Requirement("images", "images", _answered("IMAGE_SUPPORT", bool, "Use buffers")),
        Requirement(
            "out_of_order",
            "out-of-order queues",
            _answered("QUEUE_PROPERTIES", lambda bits: bool(bits & _OUT_OF_ORDER), "Use several in-order queues"),
        ),
        Requirement("unified_memory", "memory shared with the host", _answered("HOST_UNIFIED_MEMORY", bool, _OTHER)),
        *(
            Requirement(f"svm.{name}", f"shared virtual memory: {summary}", _shares(name))
            for name, summary in (
                ("coarse_grain_buffer", "buffers that are mapped"),
                ("fine_grain_buffer", "buffers that host and device use concurrently"),
                ("fine_grain_system", "any memory of the host"),
                ("atomics", "atomics with the host"),
            )
        ),
        *(
            Requirement(name, summary, _at_least(fact, unit, remedy), unit)
            for name, fact, unit, summary, remedy in (
                ("local_memory", "local_mem_size", "bytes", "local memory of a work-group", "Use smaller tiles"),
                ("global_memory", "global_mem_size", "bytes", "global memory", "Process the data in smaller parts"),
                ("work_group_size", "max_work_group_size", "work-items", "work-items of a work-group", _OTHER),
                ("compute_units", "compute_units", "units", "compute units", _OTHER),
            )
        ),
        Requirement("compute_capability", "NVIDIA's compute capability, times ten", _capable, "as 80 for 8.0"),
        Requirement(
            GROUPS,
            "work-groups that run concurrently",
            _groups,
            "work-groups",
        ),
        Requirement(
            "progress.work_groups",
            "a work-group progresses while another one waits",
            _progress("work_groups", "Relaunch the kernel for each step, or use another device"),
        ),
        Requirement(
            "progress.sub_groups",
            "a sub-group progresses while another one of its work-group waits",
            _progress("sub_groups", "Wait with barrier() only"),
        ),
        Requirement(
            "progress.lanes",
            "a work-item progresses while another one of its sub-group waits",
            _progress("lanes", "Wait with barrier() only"),
        ),
        Requirement("loops", "loops of any length run to completion", _loops),
        Requirement("ordering", "the ordering probe passed", _ordered("ordering", _PROBE)),
        Requirement(
            "litmus", "the litmus tests passed", _ordered("litmus", "Run `portbar check` once: it measures this")
        ),
        *(Requirement(f"{SPLIT_BARRIER}{name}", summary, _split(name)) for name, summary in FEATURES.items()),
    )
    return {one.name: one for one in made}


def _has_sub_groups(device: Candidate) -> bool | None:
    most = device.profile.facts.max_sub_groups
    return None if most is None else most > 0


#: Every name that a program may require, but for extensions, which have the driver's names.
REQUIREMENTS: Final = _table()


def parse(names: Iterable[Any]) -> tuple[Required, ...]:
    """Read what a program requires.

    Raises
    ------
    Error
        A name is not text.
    UnsupportedFeatureError
        There is no such name; the message names the nearest and lists all. Or a number is missing, or cannot be.
    """
    return tuple(_parsed(name) for name in names)


def _parsed(text: Any) -> Required:
    if not isinstance(text, str):
        raise Error(f"require= must hold names as strings, but it contains {shortened(text)}")
    written = _WRITTEN.fullmatch(text)
    name, number = (written[1], written[2]) if written else ("", None)
    if name.startswith("cl_") and number is None:
        return Required(Requirement(name, "an extension", _lists_extension(name)))
    found = REQUIREMENTS.get(name)
    if found is None:
        raise UnsupportedFeatureError(
            f"unknown requirement {shortened(text)}{_nearest(name or str(text))}. Requirements: "
            f"{', '.join(one.written for one in REQUIREMENTS.values())}, and extensions (cl_...)"
        )
    if not found.unit:
        if number is not None:
            raise UnsupportedFeatureError(f"require={shortened(text)}: {name} has no number; write {name!r}")
        return Required(found)
    if number is None or not _NUMBER.fullmatch(number) or not int(number):
        raise UnsupportedFeatureError(
            f"require={shortened(text)}: write {found.written}, where N is a whole number ({found.unit}) of at least 1"
        )
    return Required(found, int(number))


def _nearest(name: str) -> str:
    """Return a hint at the name that was probably meant, also if the part before its dot is missing."""
    known = {**{one.partition(".")[2]: one for one in REQUIREMENTS if "." in one}, **{one: one for one in REQUIREMENTS}}
    near = difflib.get_close_matches(name.strip().lower().replace("-", "_"), known, n=1)
    return f"; did you mean {REQUIREMENTS[known[near[0]]].written!r}?" if near else ""


def check(required: Iterable[Required], name: str, device: Candidate) -> None:
    """Refuse a device that does not meet what a program requires; `name` is the device's, in the message.

    Raises
    ------
    UnsupportedFeatureError
        Each requirement that it does not meet, with the cause and the remedy.
    """
    lacks = [(one, lack) for one in required if (lack := one.requirement.lack(device, one.number)) is not None]
    if not lacks:
        return
    reasons = [f"{one} ({one.requirement.summary}): {cause}. {remedy}" for one, (cause, remedy) in lacks]
    raise UnsupportedFeatureError(
        f"{name} does not support what the program requires, {reasons[0]}"
        if len(reasons) == 1
        else "\n  ".join([f"{name} does not support what the program requires:", *reasons])
    )


def least_groups(required: Iterable[Required]) -> int:
    """How many work-groups each launch of a grid needs; 1 where the program does not say."""
    return max((one.number for one in required if one.requirement.name == GROUPS), default=1)
