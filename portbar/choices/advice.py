"""`advise`: whether one kernel with barriers pays on a device beside a launch for each step, before either is written.

It computes with what barriers and launches cost by the device's record, and runs nothing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from numbers import Integral
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from portbar.backends.selection import units_of
from portbar.choices.profile import describe
from portbar.choices.strategy import choose
from portbar.choices.timing import is_time
from portbar.device.addresses import device_of
from portbar.device.costs import Costs, known_costs
from portbar.device.facts import DeviceFacts
from portbar.errors import LaunchError, RecordError
from portbar.records.dataclass import dataclass
from portbar.records.files import find

if TYPE_CHECKING:
    import pyopencl as cl

#: How much faster one way must be for a verdict: costs of two measurements minutes apart differ by as much.
EVEN: Final = 0.1

#: The same where the costs are doubtful: those of two processors with the same runtime differ by a factor of two and more.
EVEN_DOUBTFUL: Final = 1.0

ONE_KERNEL: Final = "one kernel"
RELAUNCH: Final = "relaunch"
EITHER: Final = "either"

#: Local size of GPUs that stands for a device where the caller names none, as `Kernel.suggested_local_size` does.
_USUAL: Final = 256

_MOST_S: Final = 1e6
_MOST_COUNT: Final = 2**31


@dataclass(frozen=True)
class Advice:
    """The prediction of `portbar.advise`; times are in seconds.

    Attributes
    ----------
    device : str
    work_per_iteration : float
    groups, local_size, iterations : int
    host_checks : bool
    one_kernel, relaunching : float
        The whole program either way.
    verdict : str
        ``"one kernel"``, ``"relaunch"``, or ``"either"`` where they differ by less than a tenth. With times of another
        processor, or of an idle machine where this one was busy, ``"either"`` holds up to a factor of two.
    reason : str
        The verdict in words, with the costs that it rests on.
    costs : mapping of str to float
        Seconds of a `barrier`; of a launch: `enqueue` (the host), `gap` (the device, between two), `launch` (a plain one and a
        wait), `grid` (one that enters its grid, and a wait), `check` (a launch between two transfers of a word).
    source : str
        Where the costs come from.
    complete : bool
        Whether all of them were measured. Otherwise relaunching is counted as fast as the device may be.
    """

    device: str
    work_per_iteration: float
    groups: int
    local_size: int
    iterations: int
    host_checks: bool
    one_kernel: float
    relaunching: float
    verdict: str
    reason: str
    costs: Mapping[str, float]
    source: str
    complete: bool

    @property
    def speedup(self) -> float:
        """Time of relaunching over the time in one kernel; above 1 one kernel is faster."""
        return self.relaunching / self.one_kernel

    def to_json(self) -> dict[str, Any]:
        """The fields and `speedup`, as JSON values."""
        return vars(self) | {"costs": dict(self.costs), "speedup": self.speedup}


def advise(
    device: cl.Device | cl.CommandQueue | str,
    *,
    work_per_iteration: float,
    groups: int | None = None,
    iterations: int = 100,
    local_size: int | None = None,
    host_checks: bool = False,
) -> Advice:
    """Predict whether a loop pays in one kernel, with a barrier for each iteration, or with a launch for each.

    One kernel takes `grid` + iterations * (work + `barrier`). Relaunching takes `launch` + work for the first iteration, and
    the larger of work + `gap` and `enqueue` for each that follows; or, where the host decides after each launch whether there
    is another one, iterations * (work + `check`). Nothing is run: the costs are those that `portbar survey` or
    `portbar bench barrier` measured on this machine, or else those of the vendor matrix.

    Parameters
    ----------
    device : pyopencl.Device, pyopencl.CommandQueue or str
        Or the name of a record, such as ``"h200"``: a device that is not available.
    work_per_iteration : float
        Seconds that the work of one iteration takes on the whole device, without launching: the duration of a launch by its
        event, less that of an empty one.
    groups : int, optional
        Work-groups at the barrier; by default as many as the device runs concurrently.
    iterations : int
        An iteration is the work between two barriers.
    local_size : int, optional
        By default the smallest one measured on a CPU, else about 256.
    host_checks : bool
        Whether the host reads a word after each launch, as in loops until convergence.

    Returns
    -------
    Advice

    Raises
    ------
    LaunchError
        A time or count that cannot be, or more work-groups than the device holds.
    RecordError
        No barrier times of this device are known, or there is no record of that name.
    UnsupportedFeatureError
        portbar refuses grids on the device.
    """
    _check(work_per_iteration, groups, iterations, local_size)
    facts, costs, one_group = _of_record(device) if isinstance(device, str) else _of_device(device)
    size = local_size or (costs.local_sizes[0] if units_of(facts).small_groups else costs.nearest_size(_USUAL))
    most = 1 if one_group else costs.most_groups(size)
    if groups is not None and groups > most:
        because = f": {one_group}" if one_group else ""
        raise LaunchError(
            f"{groups} work-groups of {size} were requested, but {facts.name} runs at most {most} concurrently{because}; use "
            f"{most} or fewer and give each more of the work"
        )
    known = costs.at(size, groups or most)
    launch = known.relaunch if known.launch is None else known.launch
    # Relaunching counts as fast as it may be where something was not measured.
    least = {"enqueue": known.relaunch, "gap": 0.0, "launch": launch, "grid": launch, "check": launch}
    measured = {name: getattr(known, name) for name in least}
    complete = None not in measured.values()
    us = {"barrier": known.barrier} | {name: least[name] if us is None else us for name, us in measured.items()}
    of = {name: value * 1e-6 for name, value in us.items()}
    work = float(work_per_iteration)
    one = of["grid"] + iterations * (work + of["barrier"])
    if host_checks:
        again = iterations * (work + of["check"])
    else:
        again = of["launch"] + work + (iterations - 1) * max(work + of["gap"], of["enqueue"])
    even = EVEN_DOUBTFUL if costs.doubtful else EVEN
    verdict = RELAUNCH if one_group else verdict_of(again / one, even)
    # A launch that the host waits for costs more than one of many in a row, by an amount that no other time bounds.
    slowest = math.inf if host_checks else iterations * (work + known.relaunch * 1e-6)
    if verdict == RELAUNCH and not one_group and not complete and slowest > one / (1 + even):
        verdict = EITHER
    advice = Advice(
        device=facts.name,
        work_per_iteration=work,
        groups=int(groups or most),
        local_size=int(size),
        iterations=int(iterations),
        host_checks=bool(host_checks),
        one_kernel=one,
        relaunching=again,
        verdict=verdict,
        reason=one_group,
        costs=MappingProxyType(of),
        source=costs.source,
        complete=complete,
    )
    return advice if one_group else replace(advice, reason=_reason(advice, doubtful=costs.doubtful))


def verdict_of(speedup: float, even: float = EVEN) -> str:
    """The verdict on a program that takes this many times as long by relaunching as in one kernel."""
    return ONE_KERNEL if speedup >= 1 + even else RELAUNCH if speedup <= 1 / (1 + even) else EITHER


def us_text(seconds: float) -> str:
    """A time in words: microseconds, or larger units where they fit."""
    for unit, factor in (("s", 1.0), ("ms", 1e-3)):
        if seconds >= factor:
            return f"{seconds / factor:.3g} {unit}"
    return f"{seconds * 1e6:.3g} us"


def _reason(advice: Advice, *, doubtful: bool) -> str:
    of, work, complete = advice.costs, advice.work_per_iteration, advice.complete
    if advice.host_checks:
        least = "" if complete else "at least "
        beside = (
            f"a launch that the host waits for and reads after adds {least}{us_text(of['check'])} to each iteration"
        )
    elif of["enqueue"] > work + of["gap"]:
        beside = f"the host needs {us_text(of['enqueue'])} to enqueue a launch, longer than the device works on it"
    elif not complete:
        beside = "the cost of a launch that follows another is unknown"
    else:
        beside = f"a launch that follows another adds {us_text(of['gap'])} to each iteration"
    text = f"a barrier adds {us_text(of['barrier'])} to each iteration; {beside}"
    entering = of["grid"] - of["launch"]
    if advice.verdict == EITHER and doubtful:
        text += "; these times are not this machine's, so less than a factor of two decides nothing"
    elif advice.verdict != ONE_KERNEL and entering > advice.iterations * of["barrier"]:
        text += f"; entering a grid costs {us_text(entering)} more than a launch, "
        text += f"which {advice.iterations} iterations do not recover"
    elif advice.verdict == EITHER and complete:
        text += f"; beside {us_text(work)} of work that makes no difference"
    if not complete:
        text += "; the record lacks some times of launches, so relaunching may be slower than this"
    return text


def _check(work: Any, groups: Any, iterations: Any, local_size: Any) -> None:
    if isinstance(work, bool) or not is_time(work) or not 0 <= work <= _MOST_S:
        raise LaunchError(f"work_per_iteration= must be a number of seconds, 0 or more, such as 2e-6, not {work!r}")
    counts = {"groups": groups, "iterations": iterations, "local_size": local_size}
    for name, count in counts.items():
        if count is None and name != "iterations":
            continue
        if isinstance(count, bool) or not isinstance(count, Integral) or not 1 <= int(count) < _MOST_COUNT:
            raise LaunchError(f"{name}= must be a count of 1 or more, not {count!r}")


def _of_device(device: cl.Device | cl.CommandQueue) -> tuple[DeviceFacts, Costs, str]:
    """Facts, costs, and why a grid has one work-group only, of a device of this machine."""
    profile = describe(device_of("advise", device))
    costs = known_costs(profile.facts)
    rejected = profile.findings.times_rejected if profile.findings is not None else None
    if costs is None:
        raise RecordError(
            f"no barrier times of {profile.facts.name} are known{f' ({rejected})' if rejected else ''}: measure them once with "
            "`portbar bench barrier`, which takes half a minute, or with `portbar survey`"
        )
    if rejected:
        costs = replace(costs, source=f"{costs.source}; {rejected}", doubtful=True)
    strategy = choose(profile)
    return profile.facts, costs, strategy.max_groups_reason if strategy.max_groups == 1 else ""


def _of_record(name: str) -> tuple[DeviceFacts, Costs, str]:
    """The same from a record."""
    named = find(name)
    for entry in named.record["devices"]:
        costs = Costs.of_entry(entry, f"record {named.name}")
        if costs is not None:
            single = (entry.get("strategy") or {}).get("max_groups")
            why = str(single["reason"]) if single is not None and str(single["value"]) == "1" else ""
            return DeviceFacts.from_json(entry["facts"]), costs, why
    raise RecordError(
        f"the record {named.name} has no barrier times: name one of a survey on a device that supports barriers"
    )
