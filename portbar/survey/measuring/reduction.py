"""The time of the short forms of reductions with each strategy that a device can use, beside OpenCL's own function for it.

Results are checked only to ensure that a time is that of a reduction.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any, Final

import numpy as np
import pyopencl as cl

from portbar.choices.strategy import DeviceProfile, choose
from portbar.errors import Error, UnsupportedFeatureError
from portbar.launching.build import build_options, compile_program
from portbar.launching.kernel import Kernel
from portbar.launching.program import Program
from portbar.primitives.reduction.selection import VARIANTS
from portbar.records.reading import NO_TIME, missing
from portbar.survey.measuring.rounds import Budget, device_s, in_one_line, most_rounds
from portbar.survey.measuring.session import Session, TimedLoop, check, failure, possible_sizes, repeated, time_in_turns

#: In the order of measuring, so that a step that runs out of time has measured the most informative rows.
LEVELS: Final = ("work_group", "device", "sub_group")
TYPES: Final = ("float", "uint")

_DTYPES: Final[dict[str, Any]] = {"float": np.float32, "uint": np.uint32}
_FACTOR: Final = 1664525
#: The transformation of a sum before the next round: floats stay bounded, as half of the sum is shared out.
_NEXT: Final = {"float": "x * (0.5f / {items}) + id", "uint": f"x * {_FACTOR}u + id"}

_HEADERS: Final = """
#define PORTBAR_REDUCTION_LOCAL_SIZE {local}
{barrier}#include "portbar/reduction.h"
kernel void members(global uint *groups, const uint rounds)
{{
    groups[get_global_id(0)] = {member};
    (void)rounds;
}}
"""
_LOOP: Final = """
kernel {attribute}void sum_{kind}({parameter}global {kind} *left, const uint rounds)
{{
    {before}
    const {kind} id = ({kind}){id};
    {kind} x = id;
#pragma unroll 1
    for (uint round = 0; round < rounds; ++round) {{
        x = {call};
        x = {step};
    }}
    left[{id}{offset}] = x;
}}
"""


def _loop(level: str, kind: str, local: int, *, built_in: bool = False) -> str:
    device = level == "device"
    scratch = "PORTBAR_REDUCTION_SCRATCH(scratch);"
    call = f"portbar_{level}_reduce_add({'&grid, ' if device else ''}scratch, x)"
    items = {"device": "portbar_global_size(&grid)", "work_group": str(local), "sub_group": "portbar_sub_group_size()"}
    return _LOOP.format(
        kind=kind,
        attribute="" if device else f"__attribute__((reqd_work_group_size({local}, 1, 1))) ",
        parameter="PORTBAR_GRID_PARAM, " if device else "",
        before="" if built_in else f"PORTBAR_ENTER(grid);\n    {scratch}" if device else scratch,
        id="portbar_global_id(&grid)" if device else "get_local_id(0)",
        offset="" if device else f" + get_group_id(0) * {local}u",
        call="work_group_reduce_add(x)" if built_in else call,
        step=_NEXT[kind].format(items=items[level]),
    )


def source(level: str, local: int) -> str:
    """OpenCL C with the kernels `sum_float` and `sum_uint` of one level, and `members`: who is reduced together."""
    head = _HEADERS.format(
        local=local,
        barrier='#include "portbar/device_barrier.h"\n' if level == "device" else "",
        member="portbar_sub_group_id()" if level == "sub_group" else "0u",
    )
    return head + "".join(_loop(level, kind, local) for kind in TYPES)


def expected(kind: str, members: Any, rounds: int) -> Any:
    """Each work-item's result after at least one round; `members` holds the number of those that each is reduced with."""
    items = np.arange(len(members), dtype=np.int64)
    values = np.zeros(len(members), np.float64 if kind == "float" else np.uint32)
    for one in np.unique(members):
        mine = members == one
        count, ids = int(mine.sum()), int(items[mine].sum())
        if kind == "float":
            factor, term = repeated(0.5, float(ids), rounds - 1)
            values[mine] = (factor * ids + term) * 0.5 / count + items[mine]
        else:
            factor, term = repeated(count * _FACTOR, ids, rounds - 1, 1 << 32)
            left = (factor * ids + term) % (1 << 32) * _FACTOR % (1 << 32)
            values[mine] = ((left + items[mine]) % (1 << 32)).astype(np.uint32)
    return values


def usable_strategies(profile: DeviceProfile) -> dict[str, str]:
    """Reduction strategies of the table -> why the device cannot use them; empty where it can."""
    std = choose(profile).capabilities.std
    judged = {name: one.judge(profile.facts, profile.findings, std) for name, one in VARIANTS.items()}
    return {name: "" if allowed else why for name, (allowed, why) in judged.items()}


class _Grid:
    """Launches of a kernel whose work-groups meet; as many as the device holds."""

    def __init__(self, queue: cl.CommandQueue, kernel: Kernel, local: int, kind: str) -> None:
        self._queue, self._kernel, self._local, self._kind = queue, kernel, (local,), kind
        # More groups may meet with one barrier algorithm than with another, and the count decides which one it is.
        room = 2 * kernel.occupancy(queue, self._local).groups + 32
        values = cl.Buffer(queue.context, cl.mem_flags.READ_WRITE, 4 * room * local)
        launch = kernel(queue, None, self._local, values, np.uint32(1))
        launch.wait()
        self.groups = launch.num_groups
        self._values = np.empty(self.groups * local, _DTYPES[kind])
        self._left = cl.Buffer(queue.context, cl.mem_flags.READ_WRITE, self._values.nbytes)

    def launch(self, rounds: int) -> float:
        """Seconds that a launch of `rounds` rounds took; `Error` if it left wrong values or not all groups took part."""
        start = time.perf_counter()
        launch = self._kernel(self._queue, None, self._local, self._left, np.uint32(rounds), num_groups=self.groups)
        launch.event.wait()
        wall = time.perf_counter() - start
        launch.wait()
        if launch.num_groups != self.groups:
            raise Error(f"discovery found {launch.num_groups} of {self.groups} work-groups")
        cl.enqueue_copy(self._queue, self._values, self._left)
        check(self._values, expected(self._kind, np.zeros(len(self._values)), rounds), rounds)
        return device_s(launch.event, wall)


class _Reductions:
    """Builds and times the reductions of one device."""

    def __init__(self, session: Session) -> None:
        self.session, self.queue = session, session.queue
        self.chosen = choose(session.profile)
        self.usable = usable_strategies(session.profile)
        self.units = session.profile.facts.compute_units or 1

    def rows(self, level: str, local: int, budget: Budget) -> Iterator[dict[str, Any]]:
        """The rows of one level and local size."""
        where = level.replace("_", "-")
        text = source(level, local)
        what = f"reductions over a {where} by"
        programs, refused = self.session.programs("reduction", text, self.usable, what, late=False)
        for index, kind in enumerate(TYPES):
            self.session.doing(f"reductions of {kind} over a {where}")
            yield from self._rows(level, kind, local, programs, refused, budget.part(1 / (len(TYPES) - index)))

    def skipped(self, level: str, local: int) -> Iterator[dict[str, Any]]:
        """The rows of a level and local size without any time left."""
        for kind in TYPES:
            for name, why in self.usable.items():
                time = missing("unsupported", why) if why else missing("skipped", NO_TIME)
                yield self._row(level, kind, local, None, name, time)

    def _row(
        self, level: str, kind: str, local: int, groups: int | None, name: str, time: dict[str, Any]
    ) -> dict[str, Any]:
        return {
            "level": level,
            "operation": "add",
            "type": kind,
            "local_size": local,
            "groups": groups,
            "strategy": name,
            "chosen": name == self.chosen.reduction.value,
            "time": time,
        }

    def _rows(
        self,
        level: str,
        kind: str,
        local: int,
        programs: dict[str, Program],
        refused: dict[str, dict[str, Any]],
        budget: Budget,
    ) -> Iterator[dict[str, Any]]:
        sides: dict[str, Callable[[int], float]] = {}
        groups = self.units
        wrong = dict(refused)
        for name, program in programs.items():
            try:
                if level == "device":
                    grid = _Grid(self.queue, program.kernel(f"sum_{kind}"), local, kind)
                    groups, sides[name] = grid.groups, grid.launch
                else:
                    built = program.built(self.queue.device, program.strategy(self.queue.device))
                    sides[name] = self._loop(built, kind, local, self._who(built, local))
            except (Error, cl.Error) as error:
                wrong[name] = missing("error", in_one_line(error))
        own: dict[str, Any] | None = None
        if level == "work_group" and sides:
            try:
                sides[""] = self._loop(self._own(kind, local), kind, local, np.zeros(local))
            except (Error, cl.Error) as error:
                own = failure(error, "unsupported")
        unit = "us" if level == "device" else "ns"
        times = time_in_turns(sides, most_rounds(self.session.profile), budget, unit) if sides else {}
        own = times.get("", own)
        for name in VARIANTS:
            row = self._row(level, kind, local, groups, name, wrong.get(name) or times[name])
            if own is not None and name in sides:
                row["built_in_time"] = own
            yield row

    def _loop(self, built: cl.Program, kind: str, local: int, members: Any) -> Callable[[int], float]:
        kernel = cl.Kernel(built, f"sum_{kind}")

        def every(rounds: int) -> Any:
            return np.tile(expected(kind, members, rounds), self.units)

        return TimedLoop(self.queue, kernel, self.units, local, _DTYPES[kind], every).launch

    def _who(self, built: cl.Program, local: int) -> Any:
        """The number of those that each work-item of a group is reduced with."""
        left = cl.Buffer(self.queue.context, cl.mem_flags.READ_WRITE, 4 * local)
        kernel = cl.Kernel(built, "members")
        kernel.set_args(left, np.uint32(0))
        cl.enqueue_nd_range_kernel(self.queue, kernel, (local,), (local,))
        members = np.empty(local, np.uint32)
        cl.enqueue_copy(self.queue, members, left)
        return members

    def _own(self, kind: str, local: int) -> cl.Program:
        """OpenCL's own work_group_reduce_add; an error where it does not build."""
        findings = self.session.profile.findings
        builds = findings.builds if findings is not None else {}
        if not builds.get("work_group_collectives"):
            raise UnsupportedFeatureError("work_group_reduce_add did not build when the device was probed")
        others = tuple(option for option in build_options(self.chosen, ()) if not option.startswith("-cl-std"))
        std = "-cl-std=CL3.0" if builds.get("CL3.0") else "-cl-std=CL2.0"
        text = _loop("work_group", kind, local, built_in=True)
        return compile_program(self.queue.context, self.queue.device, text, (*others, std))


#: Kind of compute units -> local sizes, and those of a quick survey.
_SIZES: Final = {"cpu": (64,), "gpu": (64, 256)}
_QUICK_SIZES: Final = {"cpu": (64,), "gpu": (256,)}


def reduction_sizes(profile: DeviceProfile, *, quick: bool = False) -> list[int]:
    """Local sizes of the reduction step, whose functions are compiled for one each."""
    return possible_sizes((_QUICK_SIZES if quick else _SIZES)[profile.units.kind], profile)


def measure(session: Session) -> None:
    """Time of a sum over sub-groups, work-groups and the device for each strategy, of float and uint.

    Rows: `level`, `operation` (`add`), `type`, `local_size`, `groups` (work-groups), `strategy`, `chosen` (bool), and the
    readings `time` and, over work-groups, `built_in_time` (ns; us over the device). A strategy that the device cannot use has a
    row with the reason.
    """
    reductions = _Reductions(session)
    wanted = [(level, size) for level in LEVELS for size in reduction_sizes(session.profile, quick=session.quick)]
    for index, (level, size) in enumerate(wanted):
        if index and session.late:
            rows = reductions.skipped(level, size)
        else:
            rows = reductions.rows(level, size, session.budget.part(1 / (len(wanted) - index)))
        for row in rows:
            session.row(row)
