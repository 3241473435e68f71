"""The features that a program may require, by name: a table of names, each with the reason why a device lacks it."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable
from typing import Any, Final, TypeAlias

from portbar.backends.profile import DeviceProfile
from portbar.choices.timing import shortened
from portbar.device.facts import DeviceFacts
from portbar.device.findings import Findings
from portbar.errors import Error, UnsupportedFeatureError
from portbar.primitives.split_barrier.selection import FEATURES
from portbar.primitives.strategy import Strategy
from portbar.records.dataclass import dataclass

#: Begins each name for a use of split barriers, whose header the program must include.
SPLIT_BARRIER: Final = "split_barrier."

#: The requirement that is checked again at each launch of a grid.
GROUPS: Final = "groups"

_UNREPORTED: Final = "the driver does not report it"
_PROBE: Final = "Run portbar.probe(device) once: it measures this"
_OTHER: Final = "Use another device (`portbar devices` lists them)"

#: The driver's bit of a queue that runs its commands in any order.
_OUT_OF_ORDER: Final = 1

_WRITTEN: Final = re.compile(r"\s*([\w.]*)\s*(?:>=\s*(.*?)\s*)?", re.DOTALL)
_NUMBER: Final = re.compile(r"[0-9]{1,18}")


@dataclass(frozen=True)
class Candidate:
    """A device as requirements see it."""

    profile: DeviceProfile
    strategy: Strategy
    #: The name of a member of `pyopencl.device_info` -> the driver's answer, None where it has none.
    ask: Callable[[str], object]

    @property
    def facts(self) -> DeviceFacts:
        """The facts that the device reports."""
        return self.profile.facts

    @property
    def findings(self) -> Findings:
        """The measurements of the device; none where it was never probed."""
        return self.profile.findings or Findings()


#: Why a device does not meet a requirement, and the remedy; None if it does.
Lack: TypeAlias = "tuple[str, str] | None"


@dataclass(frozen=True)
class Requirement:
    """One name that a program may require."""

    name: str
    #: The feature in a few words.
    summary: str
    #: A device, and the number that the program requires (0 where it takes none) -> why the device does not meet it.
    lack: Callable[[Candidate, int], Lack]
    #: Of the number in `name>=number`; empty where the name takes none.
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


def _language(
    name: str,
    summary: str,
    claim: Callable[[DeviceFacts], bool | None],
    remedy: str = _OTHER,
    *,
    believed: bool = True,
) -> Requirement:
    """A feature of the language: the compile probe of this name decides, without one what the driver reports.

    `believed` is whether a probe that passed is enough where the driver denies the feature.
    """

    def lack(device: Candidate, _: int) -> Lack:
        compiles, claimed = device.findings.builds.get(name), claim(device.facts)
        if compiles is False:
            return "the compile probe failed", remedy
        if claimed is False and not (compiles and believed):
            return _UNREPORTED, remedy
        if compiles is None and claimed is None:
            return f"{_UNREPORTED}, and no probe has tried it", _PROBE
        return None

    return Requirement(name, summary, lack)


def _listed(feature: str) -> Callable[[DeviceFacts], bool | None]:
    """Whether the device lists a feature of OpenCL C 3.0; unknown where it lists none at all."""
    return lambda facts: feature in facts.features if facts.features else None


def _answered(name: str, summary: str, question: str, says: Callable[[int], bool], remedy: str) -> Requirement:
    """A fact that the driver is asked for when it is required."""

    def lack(device: Candidate, _: int) -> Lack:
        answer = device.ask(question)
        if not isinstance(answer, int):
            return f"the driver does not answer CL_DEVICE_{question}", _OTHER
        return None if says(answer) else (_UNREPORTED, remedy)

    return Requirement(name, summary, lack)


def _number(name: str, summary: str, fact: str, unit: str, remedy: str = _OTHER) -> Requirement:
    """A number that the device reports."""

    def lack(device: Candidate, number: int) -> Lack:
        has: int | None = getattr(device.facts, fact)
        if has is None:
            return _UNREPORTED, _OTHER
        return None if has >= number else (f"the device has {has} {unit}", remedy)

    return Requirement(name, summary, lack, unit)


def _capability(device: Candidate, number: int) -> Lack:
    has = device.facts.compute_capability
    if not has:
        return "the device does not report one, as NVIDIA devices do", _OTHER
    return None if has >= number else (f"the device has {has}", _OTHER)


def _atomics(name: str, summary: str, *refusals: str) -> Requirement:
    """Something that the capability table of `portbar/atomics.h` refuses with a reason, which names the remedy."""

    def lack(device: Candidate, _: int) -> Lack:
        refused = device.strategy.capabilities.atomics_table.refused
        why = next((refused[one] for one in refusals if refused.get(one)), None)
        return (why, _OTHER) if why else None

    return Requirement(name, summary, lack)


def _native_addition(kind: str) -> Requirement:
    name = f"{kind}_atomics"

    def lack(device: Candidate, _: int) -> Lack:
        if (kind, "global") in device.strategy.capabilities.atomics_table.native_add:
            return None
        if name not in device.findings.builds:
            return "no probe has tried it", _PROBE
        remedy = f"Without this requirement, results are correct but slower. {_OTHER}"
        return "additions use compare-exchange loops on this device", remedy

    return Requirement(name, f"a native atomic addition of {kind}s", lack)


def _shared_memory(kind: str, summary: str) -> Requirement:
    def lack(device: Candidate, _: int) -> Lack:
        if kind in (device.facts.svm_capabilities or ()):
            return None
        return _UNREPORTED, "Use buffers, or another device"

    return Requirement(f"svm.{kind}", f"shared virtual memory: {summary}", lack)


def _progress(who: str, summary: str, remedy: str) -> Requirement:
    def lack(device: Candidate, _: int) -> Lack:
        found = device.findings.progress.get(who)
        if found is None:
            return "no probe has measured it", _PROBE
        if found == "independent":
            return _loops(device, 0)
        return ("a probe saw none" if found == "none" else f"the probe was inconclusive ({found})"), remedy

    return Requirement(f"progress.{who}", summary, lack)


def _loops(device: Candidate, _: int) -> Lack:
    limit = device.profile.loop_limit
    if limit is not None:
        cause = f"the device ends loops silently after {limit} iterations in a kernel"
        return cause, "Use a newer driver, or another device"
    if device.profile.findings is None:
        return "no probe has measured it", _PROBE
    if not device.findings.loops_run_whole:
        return f"the probe was inconclusive ({device.findings.lost['loop_limit']})", _PROBE
    return None


def _ordered(name: str, summary: str, remedy: str) -> Requirement:
    """The measured order of the atomics that the program uses."""

    def lack(device: Candidate, _: int) -> Lack:
        atomics = device.strategy.atomics.value
        seen = getattr(device.findings, name).get(atomics)
        if seen is None:
            return f"nothing was measured of the atomics strategy {atomics}", remedy
        if seen == "pass" or seen.startswith("pass:"):
            return None
        return f"the atomics strategy {atomics} has {seen}", _OTHER

    return Requirement(name, summary, lack)


def _groups(device: Candidate, number: int) -> Lack:
    """Check the groups that a probe found, before a kernel is known; its occupancy is checked at each launch."""
    most = device.strategy.max_groups
    if most is not None and most < number:
        return device.strategy.max_groups_reason, _OTHER
    threads = device.findings.groups_in_flight
    if device.profile.units.kernels_alike and threads is not None and threads < number:
        measure = "measure again if the machine was busy: portbar.probe(device, refresh=True)"
        return f"a probe saw {threads} run concurrently", f"Give the runtime more threads, or {measure}"
    return None


def _split_barrier(feature: str, summary: str) -> Requirement:
    def lack(device: Candidate, _: int) -> Lack:
        if feature in device.strategy.capabilities.split_features:
            return None
        chosen = device.strategy.split_barrier
        cause = f"the device uses the strategy {chosen}: {chosen.reason}"
        return cause, "Use waits that all work-items of the group reach, or another device"

    return Requirement(SPLIT_BARRIER + feature, summary, lack)


def _extension(name: str) -> Requirement:
    """One that has the driver's name, and so is not in the table."""

    def lack(device: Candidate, _: int) -> Lack:
        has = device.facts.extensions
        near = difflib.get_close_matches(name, has, n=1)
        like = f"; the closest extension that it lists is {near[0]}" if near else ""
        return None if name in has else (f"the device does not list the extension{like}", _OTHER)

    return Requirement(name, "an extension", lack)


_TABLE: Final = (
    _language("fp64", "double precision", lambda facts: facts.fp64, "Compute in float"),
    _language("fp16", "half precision", lambda facts: facts.fp16, "Compute in float", believed=False),
    _atomics("int64_atomics", "64-bit atomics", "ulong"),
    _native_addition("float"),
    _native_addition("double"),
    _atomics("seq_cst", "`memory_order_seq_cst` at device scope", "seq_cst", "ordering"),
    _atomics("all_svm_devices", "`memory_scope_all_svm_devices`", "all_svm_devices"),
    _language(
        "sub_groups",
        "OpenCL's sub-groups",
        lambda facts: None if facts.max_sub_groups is None else facts.max_sub_groups > 0,
        "Use `portbar/reduction.h`, which works without them",
    ),
    _language(
        "work_group_collectives",
        "`work_group_reduce_add` and related functions",
        _listed("__opencl_c_work_group_collective_functions"),
    ),
    _language("generic_address_space", "generic pointers", _listed("__opencl_c_generic_address_space")),
    _language(
        "program_scope_variables",
        "global variables of a program",
        _listed("__opencl_c_program_scope_global_variables"),
    ),
    _language("printf", "`printf` in kernels", lambda _: None),
    _answered("images", "images", "IMAGE_SUPPORT", bool, "Use buffers"),
    _answered(
        "out_of_order",
        "out-of-order queues",
        "QUEUE_PROPERTIES",
        lambda bits: bool(bits & _OUT_OF_ORDER),
        "Use several in-order queues",
    ),
    _answered("unified_memory", "memory shared with the host", "HOST_UNIFIED_MEMORY", bool, _OTHER),
    _shared_memory("coarse_grain_buffer", "buffers that are mapped"),
    _shared_memory("fine_grain_buffer", "buffers that host and device use concurrently"),
    _shared_memory("fine_grain_system", "any memory of the host"),
    _shared_memory("atomics", "atomics with the host"),
    _number("local_memory", "local memory of a work-group", "local_mem_size", "bytes", "Use smaller tiles"),
    _number("global_memory", "global memory", "global_mem_size", "bytes", "Process the data in smaller parts"),
    _number("work_group_size", "work-items of a work-group", "max_work_group_size", "work-items"),
    _number("compute_units", "compute units", "compute_units", "units"),
    Requirement("compute_capability", "NVIDIA's compute capability, times ten", _capability, "as 80 for 8.0"),
    Requirement(GROUPS, "work-groups that run concurrently", _groups, "work-groups"),
    _progress(
        "work_groups",
        "a work-group progresses while another one waits",
        "Relaunch the kernel for each step, or use another device",
    ),
    _progress(
        "sub_groups",
        "a sub-group progresses while another one of its work-group waits",
        "Wait with barrier() only",
    ),
    _progress("lanes", "a work-item progresses while another one of its sub-group waits", "Wait with barrier() only"),
    Requirement("loops", "loops of any length run to completion", _loops),
    _ordered("ordering", "the ordering probe passed", _PROBE),
    _ordered("litmus", "the litmus tests passed", "Run `portbar check` once: it measures this"),
    *(_split_barrier(feature, summary) for feature, summary in FEATURES.items()),
)

#: Every name that a program may require, but for extensions.
REQUIREMENTS: Final = {one.name: one for one in _TABLE}


def parse(names: Iterable[Any]) -> tuple[Required, ...]:
    """Read what a program requires; an `UnsupportedFeatureError` names what is nearest to an unknown name, and lists all."""
    return tuple(_parsed(name) for name in names)


def _parsed(text: Any) -> Required:
    if not isinstance(text, str):
        raise Error(f"require= must hold names as strings, but it contains {shortened(text)}")
    written = _WRITTEN.fullmatch(text)
    name, number = (written[1], written[2]) if written else ("", None)
    if name.startswith("cl_") and number is None:
        return Required(_extension(name))
    found = REQUIREMENTS.get(name)
    if found is None:
        raise UnsupportedFeatureError(
            f"unknown requirement {shortened(text)}{_nearest(name or str(text))} Requirements: "
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
    return f"; did you mean {REQUIREMENTS[known[near[0]]].written!r}?" if near else "."


def check(required: Iterable[Required], device: Candidate) -> None:
    """Refuse a device that does not meet what a program requires: each requirement, with the cause and the remedy."""
    lacks = [(one, lack) for one in required if (lack := one.requirement.lack(device, one.number)) is not None]
    if not lacks:
        return
    reasons = [f"{one} ({one.requirement.summary}): {cause}. {remedy}" for one, (cause, remedy) in lacks]
    message = f"{device.facts.name} does not support what the program requires"
    if len(reasons) == 1:
        raise UnsupportedFeatureError(f"{message}, {reasons[0]}")
    raise UnsupportedFeatureError("\n  ".join([f"{message}:", *reasons]))


def least_groups(required: Iterable[Required]) -> int:
    """How many work-groups each launch of a grid needs; 1 where the program does not say."""
    return max((one.number for one in required if one.requirement.name == GROUPS), default=1)
