"""Barriers of teams beside that of the grid: `python -m benchmarks.team --json`.

All teams of a launch meet at the same time, each by itself. A ratio below 1 means that a team's barrier is faster than
the grid's in a launch of as many work-groups; both are in one program and are measured in turns.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, Final

import numpy as np
import pyopencl as cl

import portbar
from benchmarks.shared import (
    Row,
    Session,
    WrongResultError,
    attempted,
    command_line,
    complete,
    judged,
    note,
    number,
    paired,
    plain,
    run,
    sampled,
    verdict,
)
from portbar.survey.measuring.rounds import device_s, most_rounds, profiled_queue, rounds_for

#: Work-groups of a team, and what its barrier may cost beside that of 132 groups.
MEMBERS: Final = 8
TARGET: Final = 0.6

#: Name -> one round of a team, and the statement of the whole grid beside it.
FORMS: Final = {
    "barrier": ("held = portbar_team_barrier(&grid, &team);", "held = portbar_device_barrier(&grid);"),
    "count": (
        "held = portbar_team_barrier_count(&grid, &team, (r & 1u) != 0u) == ((r & 1u) != 0u ? all : 0u);",
        "held = portbar_device_barrier_count(&grid, (r & 1u) != 0u) == ((r & 1u) != 0u ? portbar_global_size(&grid) : 0u);",
    ),
    "reduction": (
        "held = portbar_team_reduce_add(&grid, &team, r + rank) == members * r + members * (members - 1u) / 2u;",
        "held = portbar_device_barrier(&grid);",
    ),
}

KERNEL: Final = """
kernel void NAME(PORTBAR_GRID_PARAM, global uint *met, const uint k, const uint rounds)
{
    PORTBAR_ENTER(grid);
    portbar_team team = portbar_team_split(&grid, k);
    const uint members = portbar_team_num_groups(&team), rank = portbar_team_rank(&team);
    const uint all = portbar_team_global_size(&team);
    bool held = true;
    uint r = 0u;
    for (; r < rounds && held; ++r) {
        ROUND
    }
    if (get_local_id(0) == 0 && held)
        met[portbar_group_id(&grid)] = rank < members && members <= all ? r : 0u;
}
"""

SOURCE: Final = '#include "portbar/team.h"\n' + "".join(
    KERNEL.replace("NAME", f"{side}_{form}").replace("ROUND", text)
    for form, sides in FORMS.items()
    for side, text in zip(("team", "grid"), sides, strict=True)
)


class Meetings:
    """Launches of one number of work-groups, whose teams or which all meet again and again."""

    def __init__(self, session: Session, program: portbar.Program, form: str, shape: tuple[int, int, int]) -> None:
        self._queue = profiled_queue(session.queue)
        self._program = program
        self._form = form
        self._groups, self._local_size, self._members = shape
        self._met = cl.Buffer(session.context, cl.mem_flags.READ_WRITE, 4 * self._groups)
        self.most_rounds = most_rounds(program.profile(session.device), self._groups)

    def launch_s(self, side: str, rounds: int) -> float | None:
        """Seconds of a launch; None if it found fewer groups, `WrongResultError` if a round was lost."""
        cl.enqueue_fill_buffer(self._queue, self._met, np.zeros(1, np.uint32), 0, self._met.size)
        self._queue.finish()
        kernel = self._program.kernel(f"{side}_{self._form}")
        arguments = self._met, np.uint32(self._members), np.uint32(rounds)
        start = time.perf_counter()
        launch = kernel(self._queue, None, (self._local_size,), *arguments, num_groups=self._groups)
        launch.event.wait()
        seconds = device_s(launch.event, time.perf_counter() - start)
        if launch.num_groups != self._groups:
            return None
        launch.wait()
        found = np.zeros(self._groups, np.uint32)
        cl.enqueue_copy(self._queue, found, self._met)
        if (found != rounds).any():
            raise WrongResultError(f"{side}_{self._form} met {found.min()} of {rounds} times")
        return seconds

    def us(self, side: str, rounds: int) -> float:
        """Microseconds of a round, by a launch that found all groups."""
        return complete(partial(self.launch_s, side, rounds), self._groups) * 1e6 / rounds


def shapes(session: Session, program: portbar.Program) -> Iterator[tuple[int, int, int]]:
    """Work-groups, local size and groups of a team, of each comparison."""
    for local_size in (1, 64) if session.is_cpu else (256, 32):
        most = program.kernel("team_barrier").occupancy(session.queue, (local_size,)).groups
        units = session.device.max_compute_units
        for groups in sorted({min(most, units), *(() if session.is_cpu else (min(most, 132),))}):
            # Where there are few groups, a team is half of them.
            members = MEMBERS if groups > MEMBERS else max(2, groups // 2)
            if groups >= members:
                yield groups, local_size, members


def teams(session: Session) -> Iterator[Row]:
    """A team's barrier, count and reduction beside the barrier of the grid."""
    program = portbar.Program(session.context, SOURCE, devices=[session.device])
    found = list(shapes(session, program))
    if not found:
        note(f"{session.name}: skipped, the device runs one work-group at a time")
    for shape, form in itertools.product(found, FORMS):
        described = {"form": form} | dict(zip(("groups", "local_size", "members"), shape, strict=True))
        yield from attempted(session, "team", compared(session, program, form, shape, described), **described)


def compared(
    session: Session, program: portbar.Program, form: str, shape: tuple[int, int, int], described: dict[str, Any]
) -> Iterator[Row]:
    """One form and shape."""
    pair = Meetings(session, program, form, shape)
    rounds = rounds_for(partial(pair.launch_s, "grid"), session.launch_s, pair.most_rounds)
    taken = sampled({side: partial(pair.us, side, rounds) for side in ("team", "grid")}, session.repeats)
    peer = "the grid's count" if form == "count" else "the grid's barrier"
    ratio = paired(taken["team"], taken["grid"])
    row = session.compare("team", peer, taken["team"], taken["grid"], rounds=rounds, paired=ratio, **described)
    yield judged(row, TARGET if (form, *shape[::2]) == ("barrier", 132, MEMBERS) else None)


BENCHMARKS: Final[dict[str, Callable[[Session], Iterator[Row]]]] = {"team": teams}


COLUMNS: Final[dict[str, Callable[[Row], str]]] = {
    "of a team": lambda row: str(row.extra["form"]),
    "groups": lambda row: str(row.extra["groups"]),
    "local": lambda row: str(row.extra["local_size"]),
    "in a team": lambda row: str(row.extra["members"]),
    "beside": lambda row: row.peer,
    "ratio": lambda row: number(row.ratio),
    "median of ratios": lambda row: number(row.extra.get("paired")),
    "team, us": lambda row: number(row.ours_us),
    "grid, us": lambda row: number(row.peer_us),
    "target met": verdict,
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print."""
    options = command_line("team", __doc__, "short launches and five repeats", BENCHMARKS).parse_args(arguments)
    return run(options, plain(options), BENCHMARKS, COLUMNS)


if __name__ == "__main__":
    raise SystemExit(main())
