"""Runs portbar for as long as asked on each OpenCL runtime, checking every result: `python -m tests.soak --minutes 10`.

Six kinds of work take turns: barriers after which each group checks what all groups wrote, signals and barriers of teams
after which each checks what its neighbours or its team wrote, launches from 16 threads, programs that are built and
dropped, and launches of four times as many work-groups as the device holds while other processes keep the processor busy.
The table counts what was done, what was wrong, which launches gave up, and how much the process grew after its first turns,
over how many launches; programs first fill the caches of portbar, PyOpenCL and the driver, which are bounded. Runtimes that do
not work here, and ways of PoCL that it was built without, are skipped with a word. Exit 1 where anything was wrong or gave up,
which the last lines name.

`--only pocl` picks runtimes, as for `python -m tests.runtimes`; `--here` takes the first device that this process sees.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from itertools import count, cycle
from pathlib import Path

import numpy as np
import pyopencl as cl
from rich.console import Console
from rich.table import Table

import portbar
from portbar.primitives import grid
from tests.checkout import ROOT, ran
from tests.machine import Configuration, Workshop, check, configurations
from tests.support import filled, to_device, uints

#: A kernel whose groups each write one value per round, meet, and check values of others.
KERNEL = """
kernel void NAME(PORTBAR_GRID_PARAM, global uint *cells, global uint *wrong, const uint rounds, const uint salt)
{
    PORTBAR_ENTER(grid);
    const uint groups = portbar_num_groups(&grid), group = portbar_group_id(&grid);
    const uint item = (uint)get_local_id(0), items = (uint)get_local_size(0);
    BEGIN
    uint bad = 0u;
    for (uint round = 0u; round < rounds; ++round) {
        /* Two rows in turns: a group may still read the one while another writes the other. */
        global uint *row = cells + (round & 1u) * groups;
        if (item == 0u)
            row[group] = VALUE(round, group);
        CHECK
    }
    if (bad != 0u)
        atomic_add(wrong, bad);
    if (item == 0u)
        atomic_inc(wrong + 1);
}
"""
VALUE = "#define VALUE(round, group) (((round) + salt) * 2654435761u + (group) * 40503u)\n"


def kernel(name: str, begin: str, check: str) -> str:
    """Return a kernel of this name."""
    return KERNEL.replace("NAME", name).replace("BEGIN", begin).replace("CHECK", check)


#: All groups meet.
SOURCE = f'#include "portbar/device_barrier.h"\n{VALUE}' + kernel(
    "meet",
    "",
    """if (!portbar_device_barrier(&grid))
            return;
        for (uint other = item; other < groups; other += items)
            bad += row[other] != VALUE(round, other) ? 1u : 0u;""",
)
#: Each group waits for both neighbours, which are at most a round apart, or for its team of TEAM neighbouring groups. They are
#: apart from SOURCE, which would only be slower to build.
PARTS = (
    f'#include "portbar/signal.h"\n#include "portbar/team.h"\n{VALUE}'
    "#define MET(other) portbar_work_group_signal_wait_until_at_least(&grid, signals + SPACE * (other), round + 1u)\n"
    + kernel(
        "relay",
        """const uint left = (group + groups - 1u) % groups, right = (group + 1u) % groups;
    global portbar_signal *signals = (global portbar_signal *)(cells + 2u * groups);
    if (!portbar_device_signals_clear(&grid, signals, SPACE * groups))
        return;""",
        """portbar_work_group_signal_add(&grid, signals + SPACE * group, 1u);
        if (!MET(left) || !MET(right))
            return;
        bad += row[left] != VALUE(round, left) || row[right] != VALUE(round, right) ? 1u : 0u;""",
    )
    + kernel(
        "teams",
        """portbar_team team = portbar_team_split(&grid, min(TEAM, groups));
    const uint first = group - portbar_team_rank(&team), size = portbar_team_num_groups(&team);""",
        """if (!portbar_team_barrier(&grid, &team))
            return;
        for (uint other = first + item; other < first + size; other += items)
            bad += row[other] != VALUE(round, other) ? 1u : 0u;""",
    )
)
#: Words from one signal to the next, and work-groups of a team.
SPACE, TEAM = 32, 2
THREADS = 16
#: Seconds that one launch of many barriers should take.
LAUNCH_S = 0.05
WARM_TURNS = 3
#: Programs after which bounded caches are full.
WARM_PROGRAMS = 400


@dataclass
class Counts:
    """Barriers that several groups passed, signals between groups, barriers of teams of several groups, all of these in
    grids of one group, launches, and programs built; wrong values and launches that gave up.
    """

    barriers: int = 0
    signals: int = 0
    team_barriers: int = 0
    alone: int = 0
    launches: int = 0
    programs: int = 0
    wrong: int = 0
    gave_up: int = 0

    def add(self, other: Counts) -> None:
        """Add another's."""
        for field in fields(self):
            setattr(self, field.name, getattr(self, field.name) + getattr(other, field.name))


#: Kernel -> what a launch of these rounds and groups, two at least, did.
DONE: dict[str, Callable[[int, int], Counts]] = {
    "meet": lambda rounds, _: Counts(barriers=rounds),
    "relay": lambda rounds, groups: Counts(signals=rounds * groups),
    "teams": lambda rounds, groups: Counts(team_barriers=rounds * (groups // TEAM)),
}


class Meeting:
    """A kernel with its buffers on a queue of its own; not for two threads at once."""

    def __init__(self, made: portbar.Kernel, context: cl.Context, local_size: int, surplus: int = 1) -> None:
        self._made, self._local = made, (local_size,)
        self._queue = cl.CommandQueue(context)
        one = filled(self._queue, 1)
        holds = made.occupancy(self._queue, self._local, one, one, np.uint32(0), np.uint32(0)).groups
        self._size = (surplus * holds * local_size,) if surplus > 1 else None
        self._cells = filled(self._queue, (2 + SPACE) * (2 * holds * surplus + 64))
        self._wrong = to_device(self._queue, np.zeros(2, np.uint32))

    def launch(self, rounds: int, salt: int) -> Counts:
        """Launch once, and count."""
        cl.enqueue_copy(self._queue, self._wrong, np.zeros(2, np.uint32))
        launch = self._made(
            self._queue, self._size, self._local, self._cells, self._wrong, np.uint32(rounds), np.uint32(salt)
        )
        done = Counts(launches=1)
        try:
            launch.wait()
        except portbar.BarrierTimeoutError:
            done.gave_up = 1
            return done
        wrong, complete = map(int, uints(self._queue, self._wrong))
        done.wrong = wrong + abs(complete - launch.num_groups)
        if launch.num_groups > 1:
            done.add(DONE[self._made.name](rounds, launch.num_groups))
        else:
            done.alone = rounds
        return done


class Soak:
    """One device under load."""

    def __init__(self, device: cl.Device) -> None:
        self.device = device
        self.context = cl.Context([device])
        self.program = portbar.Program(self.context, SOURCE)
        self._salts = count(1)
        self._fresh = count(1)
        sizes = [size for size in (1, 64) if size <= device.max_work_group_size]
        self.meetings: Iterator[Meeting] = cycle(
            [Meeting(made, self.context, size) for made in self._algorithms() for size in sizes]
        )
        parts = portbar.Program(self.context, PARTS, options=[f"-DSPACE={SPACE}u", f"-DTEAM={TEAM}u"])
        self.relays = cycle([Meeting(parts.kernel("relay"), self.context, size) for size in sizes])
        self.teams = cycle([Meeting(parts.kernel("teams"), self.context, size) for size in sizes])
        self._rounds: dict[Meeting, int] = {}
        # Loops that a device cuts short would look like wrong values.
        limit = portbar.describe(device).loop_limit
        self._most_rounds = 1 << 24 if limit is None else limit // 16
        self._crowd = Meeting(self.program.kernel("meet"), self.context, sizes[-1], surplus=4)
        self._threads = [Meeting(self.program.kernel("meet"), self.context, 1) for _ in range(THREADS)]

    def _algorithms(self) -> Iterator[portbar.Kernel]:
        for algorithm in grid.bounded():
            try:
                program = portbar.Program(self.context, SOURCE, strategy={"device_barrier": algorithm})
            except portbar.UnsupportedFeatureError:
                continue
            yield program.kernel("meet")

    def many(self, meetings: Iterator[Meeting], seconds: float) -> Counts:
        """Launches of many rounds, of these kernels in turn."""

        def once() -> Counts:
            meeting = next(meetings)
            rounds = self._rounds.get(meeting, 16)
            start = time.monotonic()
            done = meeting.launch(rounds, next(self._salts))
            if time.monotonic() - start < LAUNCH_S:
                self._rounds[meeting] = min(2 * rounds, self._most_rounds)
            return done

        return repeated(once, seconds)

    def threads(self, seconds: float) -> Counts:
        """Launches of a few barriers from many threads at once."""
        found: list[Counts] = []

        def work(meeting: Meeting) -> None:
            found.append(repeated(lambda: meeting.launch(20, next(self._salts)), seconds))

        workers = [threading.Thread(target=work, args=(meeting,)) for meeting in self._threads]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        total = Counts(wrong=len(workers) - len(found))
        for one in found:
            total.add(one)
        return total

    def programs(self, seconds: float) -> Counts:
        """Programs that no cache has, each built, launched once and dropped."""

        def once() -> Counts:
            text = f"{SOURCE}\nkernel void other_{next(self._fresh)}(global int *out) {{ out[0] = 1; }}\n"
            made = portbar.Program(self.context, text).kernel("meet")
            done = Meeting(made, self.context, 1).launch(20, next(self._salts))
            done.programs = 1
            return done

        return repeated(once, seconds)

    def crowd(self, seconds: float) -> Counts:
        """Launches of more groups than fit, on a processor that other processes keep busy."""
        with busy_processor():
            return repeated(lambda: self._crowd.launch(20, next(self._salts)), seconds)


KINDS: dict[str, Callable[[Soak, float], Counts]] = {
    "barriers": lambda work, seconds: work.many(work.meetings, seconds),
    "signals": lambda work, seconds: work.many(work.relays, seconds),
    "teams": lambda work, seconds: work.many(work.teams, seconds),
    "threads": Soak.threads,
    "programs": Soak.programs,
    "crowd": Soak.crowd,
}


#: Column of a row -> what it counts.
FAULTS = {"wrong": "values wrong", "gave_up": "launches that gave up"}


def repeated(once: Callable[[], Counts], seconds: float) -> Counts:
    """Do it until the time is over, at least once."""
    end, total = time.monotonic() + seconds, Counts()
    while True:
        total.add(once())
        if time.monotonic() >= end:
            return total


@contextmanager
def busy_processor() -> Iterator[None]:
    """Keep every core busy with two processes, which end with this one, however that ends."""
    command = [sys.executable, "-c", f"import os\nwhile os.getppid() == {os.getpid()}: pass"]
    busy = [subprocess.Popen(command) for _ in range(2 * (os.cpu_count() or 1))]
    try:
        yield
    finally:
        for one in busy:
            one.kill()
            one.wait()


def memory_kib() -> int:
    """Return the memory of the process after freeing unused blocks; 0 if the system does not report it."""
    gc.collect()
    try:
        ctypes.CDLL(None).malloc_trim(0)
        status = Path("/proc/self/status").read_text(encoding="ascii")
    except (OSError, AttributeError):
        return 0
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS"))


def soak(device: cl.Device, minutes: float, kinds: list[str]) -> Iterator[dict[str, object]]:
    """Yield a row for each kind of work; turns of a few seconds each, until the minutes are over."""
    warnings.simplefilter("ignore", cl.CompilerWarning)
    if "Oclgrind" in device.name:
        kinds = [kind for kind in kinds if kind != "threads"]  # it ends the process when two threads use it at once
    work = Soak(device)
    seconds = min(5.0, minutes * 60 / (len(kinds) * 2 * WARM_TURNS))
    totals = {kind: Counts() for kind in kinds}
    grown, counted = dict.fromkeys(kinds, 0), dict.fromkeys(kinds, 0)
    end = time.monotonic() + minutes * 60
    turn = 0
    while turn <= WARM_TURNS or time.monotonic() < end:
        for kind in kinds:
            warm = turn >= WARM_TURNS and (kind != "programs" or totals[kind].programs >= WARM_PROGRAMS)
            before, launches = memory_kib(), totals[kind].launches
            totals[kind].add(KINDS[kind](work, seconds))
            if warm:
                grown[kind] += memory_kib() - before
                counted[kind] += totals[kind].launches - launches
        turn += 1
    for kind in kinds:
        row = {"kind": kind, **asdict(totals[kind]), "grown_kib": grown[kind], "grown_over": counted[kind]}
        yield {**row, "memory_kib": memory_kib()}


def soak_here(minutes: float, kinds: list[str]) -> int:
    """Soak the first device that this process sees, and print a JSON object for each kind of work."""
    wanted = os.environ.get("PORTBAR_TEST_PLATFORM", "").lower()
    platforms = (one for one in portbar.load_platforms() if wanted in f"{one.name} {one.version}".lower())
    device = next(device for platform in platforms for device in platform.get_devices())
    if portbar.describe(device).findings is None:
        portbar.probe(device)
    fine = True
    for row in soak(device, minutes, kinds):
        fine = fine and not fault_of(row)
        print(json.dumps(row), flush=True)
    return 0 if fine else 1


def soak_runtime(workshop: Workshop, one: Configuration, options: argparse.Namespace) -> Iterator[dict[str, object]]:
    """Soak a runtime in a process that sees it alone; a row with `error` where that ends otherwise."""
    environment = workshop.environment(one.library, **one.environment)
    environment |= {
        "PORTBAR_CACHE_DIR": str(workshop.scratch(f"{one.name}-cache")),
        "PORTBAR_TEST_PLATFORM": one.wanted,
        # PyOpenCL's cache in a folder of its own: without any, it makes code for each kernel anew, and keeps all of it.
        "XDG_CACHE_HOME": str(workshop.scratch(f"{one.name}-pyopencl")),
    }
    environment.pop("PYOPENCL_NO_CACHE", None)
    kinds = [part for kind in options.kinds for part in ("--kind", kind)]
    command = [sys.executable, "-m", "tests.soak", "--here", "--minutes", str(options.minutes), *kinds]
    limit = options.minutes * 60 + 600
    try:
        done = ran(*command, env=environment, cwd=ROOT, timeout=limit)
    except subprocess.TimeoutExpired:
        yield {"kind": "all", "error": f"did not end within {limit:.0f} s"}
        return
    rows = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    yield from rows
    if not rows:
        yield {"kind": "all", "error": f"exit {done.returncode}: {done.stderr.strip()[-300:]}"}


def fault_of(row: dict[str, object]) -> str:
    """Return what is wrong in a row, empty if nothing is."""
    if "error" in row:
        return str(row["error"])
    return ", ".join(f"{row[name]} {words}" for name, words in FAULTS.items() if row[name])


def main(arguments: list[str] | None = None) -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__.partition("\n")[0])
    parser.add_argument("--minutes", type=float, default=10.0, help="how long, for each runtime (default: 10)")
    parser.add_argument("--only", action="append", default=[], metavar="TEXT", help="runtimes with it in their name")
    parser.add_argument(
        "--kind", dest="kinds", action="append", choices=[*KINDS], help="one kind of work; may be repeated"
    )
    parser.add_argument("--json", action="store_true", help="one JSON object a line in place of a table")
    parser.add_argument("--here", action="store_true", help="the first device that this process sees, as JSON")
    options = parser.parse_args(arguments)
    options.kinds = options.kinds or [*KINDS]
    if options.here:
        return soak_here(options.minutes, options.kinds)
    columns = (*(field.name for field in fields(Counts)), "grown_kib", "grown_over", "memory_kib")
    table = Table("runtime", "work", *columns)
    faults, known = [], False
    with tempfile.TemporaryDirectory(prefix="portbar-soak-") as folder:
        workshop = Workshop(Path(folder))
        for one in configurations(workshop, quick=True):
            if not one.wanted or not all(text.lower() in one.name.lower() for text in options.only):
                continue
            known = True
            if reason := check(workshop, one)[1]:
                print(f"{one.name}: skipped, {reason}", file=sys.stderr)
                continue
            for row in soak_runtime(workshop, one, options):
                if fault := fault_of(row):
                    faults.append(f"FAILED: {one.name}, {row['kind']}: {fault}")
                if options.json:
                    print(json.dumps({"runtime": one.name, **row}), flush=True)
                else:
                    cells = [str(row["error"])] if "error" in row else [f"{row[name]:,}" for name in columns]
                    table.add_row(one.name, str(row["kind"]), *cells)
    if not options.json:
        Console(width=160).print(table)
    if not known:
        print(f"no runtime is called like {options.only}", file=sys.stderr)
        return 2
    print(*faults, sep="\n", end="\n" if faults else "", file=sys.stderr)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
