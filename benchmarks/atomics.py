"""Atomics through `portbar/atomics.h` beside the device's own and hand-written ones: `python -m benchmarks.atomics --json`.

Whether they order memory is the subject of `portbar check`. A ratio below 1 means that portbar is faster. Both sides are built
with the same options from the same loop, and their sums are checked once. A simulator's figures are those of a simulator.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, Final

import numpy as np
import pyopencl as cl

import portbar
from benchmarks.shared import (
    Row,
    Session,
    WrongResultError,
    command_line,
    judged,
    note,
    number,
    paired,
    plain,
    run,
    verdict,
    wrong,
)
from portbar.errors import Error
from portbar.launching.build import build_options, compile_program
from portbar.primitives.atomics_table import TYPES, AtomicType
from portbar.survey.measuring.rounds import device_s, in_turns, most_rounds, profiled_queue, rounds_for

#: Upper bounds of the ratios.
BUILT_IN_TARGET: Final = 1.02
LOOP_TARGET: Final = 1.1

#: Place -> the words that the additions go to; None: each work-item has one of its own, in a cache line of its own.
PLACES: Final[dict[str, int | None]] = {"contended": 1, "contended_64": 64, "uncontended": None}

#: Orders that are timed beside relaxed.
ORDERS: Final = {
    "fetch_add": ("acquire", "release", "acq_rel", "seq_cst"),
    "load": ("acquire", "seq_cst"),
    "store": ("release", "seq_cst"),
}

#: Work-items that a GPU may have in a loop of compare-exchanges on few words: attempts grow with their square.
MOST_IN_A_LOOP: Final = 2048

_KIND: Final = {kind.name: kind for kind in TYPES}
_DTYPES: Final[dict[str, Any]] = {"uint": np.uint32, "ulong": np.uint64, "float": np.float32, "double": np.float64}
_LOCAL_SIZE: Final = 64
#: The value that loads return.
_STORED: Final = 7

#: Loops as authors write them. The next attempt uses the value that a failed exchange found, or reads it again.
LOOPS: Final = {
    "loop-carried": """
    {word} seen = {or_}(w, 0);
    for (;;) {{
        const {word} found = {cmpxchg}(w, seen, as_{word}(as_{kind}(seen) + v));
        if (found == seen)
            return as_{kind}(seen);
        seen = found;
    }}""",
    "loop-carried-plain": """
    {word} seen = *w;
    for (;;) {{
        const {word} found = {cmpxchg}(w, seen, as_{word}(as_{kind}(seen) + v));
        if (found == seen)
            return as_{kind}(seen);
        seen = found;
    }}""",
    "loop-reread": """
    for (;;) {{
        const {word} seen = {or_}(w, 0);
        if ({cmpxchg}(w, seen, as_{word}(as_{kind}(seen) + v)) == seen)
            return as_{kind}(seen);
    }}""",
}


@dataclass(frozen=True)
class Task:
    """The operation of a kernel's loop: `fetch_add` and `add`, which drops the old value, `load` or `store`."""

    operation: str
    kind: AtomicType
    place: str

    def kernel(self, name: str, call: str, stride: int) -> str:
        """OpenCL C of the loop around one call on `p`. `stride` is that of words of one's own."""
        words = PLACES[self.place]
        index = (
            f"get_global_id(0) * {stride}u" if words is None else f"get_global_id(0) % {words}u" if words > 1 else "0"
        )
        statement = f"sum += {self.kind.to_bits(call)}" if self.operation in {"fetch_add", "load"} else call
        return f"""
kernel void {name}(global {self.kind.name} *words, global {self.kind.bits_type} *sums, const uint rounds)
{{
    volatile global {self.kind.name} *p = words + {index};
    {self.kind.bits_type} sum = 0;
    for (uint round = 0; round < rounds; ++round)
        {statement};
    sums[get_global_id(0)] = sum;
}}
"""

    def expected(self, items: int, rounds: int) -> tuple[float, int]:
        """Return each word's value after a launch, and the sum of all returned values."""
        words = PLACES[self.place] or items
        each = items * rounds // words
        if self.operation == "load":
            return _STORED, items * rounds * _STORED
        if self.operation == "store":
            return rounds, 0
        if self.operation == "add":
            return each, 0
        olds = np.arange(each, dtype=_DTYPES[self.kind.name]).view(f"u{self.kind.bits // 8}")
        return each, words * int(olds.sum(dtype=np.uint64))


class Bench:
    """Builds and times loops on one device."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.queue = profiled_queue(session.queue)
        # Many short launches rather than a few long ones: fewer of them are torn by whatever else the machine does.
        self.repeats, self.launch_s = (9, 0.003) if session.quick else (61, 0.005)
        device = session.device
        self.local_size = 1 << min(_LOCAL_SIZE, device.max_work_group_size).bit_length() - 1
        # Many more groups than a CPU has cores: a thread that wakes up late finds some left, so that there is contention.
        self.items = _LOCAL_SIZE * device.max_compute_units * (32 if session.is_cpu else 16)
        self.line = max(64, device.global_mem_cacheline_size)
        while self.items > 1024 and self.items * self.line > device.max_mem_alloc_size:
            self.items //= 2
        flags = cl.mem_flags.READ_WRITE
        self._words = cl.Buffer(session.context, flags, self.items * self.line)
        self._busy: list[float] = []
        self._sums = cl.Buffer(session.context, flags, self.items * 8)
        # Programs that include nothing else are content with order within a work-group.
        self.program = portbar.Program(session.context, '#include "portbar/atomics.h"\nkernel void k(void) { }\n')
        self.strategy = self.program.strategy(device)
        # The tries of compare-exchange loops count, too.
        self.most_rounds = most_rounds(self.program.profile(device))

    @cached_property
    def kinds(self) -> tuple[AtomicType, ...]:
        """The offered types among those that are timed."""
        return tuple(kind for kind in self.strategy.capabilities.atomics_table.offered() if kind.name in _DTYPES)

    def build(self, heading: str, calls: Mapping[str, tuple[Task, str]], *, ours: bool = False) -> dict[str, cl.Kernel]:
        """Kernels by name, each a task with a call; the peer's are built with the options that portbar's are built with."""
        device, context = self.session.device, self.session.context
        text = heading + "".join(
            task.kernel(name, call, self.line // (task.kind.bits // 8)) for name, (task, call) in calls.items()
        )
        if ours:
            program = portbar.Program(context, text, strategy=self.strategy, devices=[device])
            built = program.built(device, self.strategy)
        else:
            built = compile_program(context, device, text, build_options(self.strategy, ()))
        return {name: cl.Kernel(built, name) for name in calls}

    def times(self, task: Task, sides: Mapping[str, cl.Kernel]) -> tuple[dict[str, list[float]], dict[str, Any]]:
        """Microseconds an operation for each side, taken in turns, and what the loops were run with.

        The first side is portbar's. Another that leaves wrong numbers, as on a compiler with faults, is left out;
        `WrongResultError` if the first side does, or all of the others do.
        """
        items = self.items
        if task.kind.kind == "float" and PLACES[task.place] is not None and not self.session.is_cpu:
            items = min(items, MOST_IN_A_LOOP)
        most = self.most_rounds
        if task.kind.name == "float":
            # Larger sums are not exact.
            most = min(most, (1 << 24) * (PLACES[task.place] or items) // items)

        def wall_s(kernel: cl.Kernel, rounds: int) -> float:
            return self._launch(task, kernel, items, rounds)[1]

        rounds = min(rounds_for(partial(wall_s, kernel), self.launch_s, most) for kernel in sides.values())
        stamped, wrong = True, {}
        for name, kernel in sides.items():
            seconds, wall = self._launch(task, kernel, items, rounds)
            # Stamps that miss half of a long launch are invalid; all samples of a row come from the same clock.
            stamped = stamped and seconds >= wall / 2
            fault = self._fault(task, items, rounds)
            if fault:
                wrong[name] = fault
        first, *others = sides
        if first in wrong or wrong.keys() >= set(others):
            raise WrongResultError("; ".join(f"{name}: {fault}" for name, fault in wrong.items()))
        for name, fault in wrong.items():
            note(f"{self.session.name}: {name} left out for {task.kind.name}, {task.place}: {fault}")
        self._busy.clear()

        def sample(name: str) -> float:
            seconds, wall = self._launch(task, sides[name], items, rounds)
            return (seconds if stamped else wall) * 1e6 / (items * rounds)

        taken = in_turns({name: partial(sample, name) for name in sides if name not in wrong}, self.repeats)
        run_with: dict[str, Any] = {"work_items": items, "local_size": self.local_size, "rounds": rounds}
        run_with["clock"] = "device" if stamped else "host"
        # A contended word is not contended where the machine leaves the launches one core.
        run_with["cores"] = statistics.median(self._busy) if self.session.is_cpu else None
        return taken, run_with

    def _launch(self, task: Task, kernel: cl.Kernel, items: int, rounds: int) -> tuple[float, float]:
        """Seconds of one launch by its event, and by the host's clock; notes how many cores were at work meanwhile."""
        start = _DTYPES[task.kind.name](_STORED if task.operation == "load" else 0)
        cl.enqueue_fill_buffer(self.queue, self._words, start, 0, self.items * self.line)
        self.queue.finish()
        kernel.set_args(self._words, self._sums, np.uint32(rounds))
        began, worked = time.perf_counter(), time.process_time()
        event = cl.enqueue_nd_range_kernel(self.queue, kernel, (items,), (self.local_size,))
        event.wait()
        wall = time.perf_counter() - began
        self._busy.append((time.process_time() - worked) / wall)
        return device_s(event, wall), wall

    def _fault(self, task: Task, items: int, rounds: int) -> str:
        """Return the fault of the last launch's numbers; empty if they are correct."""
        kind = task.kind
        words = np.empty(self.items * self.line // (kind.bits // 8), _DTYPES[kind.name])
        sums = np.empty(items, f"u{kind.bits // 8}")
        cl.enqueue_copy(self.queue, words, self._words)
        cl.enqueue_copy(self.queue, sums, self._sums)
        shared = PLACES[task.place]
        held = words[:: self.line // (kind.bits // 8)][:items] if shared is None else words[:shared]
        word, total = task.expected(items, rounds)
        summed = int(sums.sum(dtype=np.uint64)) % (1 << kind.bits)
        if not bool((held == word).all()):
            return f"a word holds {held[held != word][0]} instead of {word}"
        if summed != total % (1 << kind.bits):
            return f"the returned values add up to {summed} instead of {total % (1 << kind.bits)}"
        return ""


def ours(task: Task, order: str = "relaxed") -> str:
    """The call through portbar."""
    value = {"load": "", "store": f"({task.kind.name})(round + 1u), "}.get(task.operation, f"({task.kind.name})1, ")
    return f"portbar_atomic_{task.operation}_explicit(p, {value}memory_order_{order}, memory_scope_device)"


def c11(task: Task) -> str:
    """The call of the device's own addition by OpenCL C 2.0."""
    return (
        f"atomic_fetch_add_explicit((volatile global atomic_{task.kind.name} *)p, ({task.kind.name})1, "
        "memory_order_relaxed, memory_scope_device)"
    )


def prefix(kind: AtomicType) -> str:
    """How OpenCL 1.2's functions for a type begin."""
    return "atom_" if kind.bits == 64 else "atomic_"


def loops(kind: AtomicType) -> str:
    """The hand-written loops for a float type, as functions."""
    parts = [WIDE] if kind.bits == 64 else []
    for name, body in LOOPS.items():
        text = body.format(word=kind.word, kind=kind.name, or_=f"{prefix(kind)}or", cmpxchg=f"{prefix(kind)}cmpxchg")
        parts.append(
            f"static inline {kind.name} {identifier(name)}_{kind.name}(volatile global {kind.name} *p, {kind.name} v)\n{{\n"
            f"    volatile global {kind.word} *w = (volatile global {kind.word} *)p;{text}\n}}\n"
        )
    return "".join(parts)


HEADER: Final = '#include "portbar/atomics.h"\n'
WIDE: Final = (
    "#pragma OPENCL EXTENSION cl_khr_int64_base_atomics : enable\n"
    "#pragma OPENCL EXTENSION cl_khr_int64_extended_atomics : enable\n"
)


def identifier(name: str) -> str:
    """A peer's name as C writes it."""
    return name.replace("-", "_")


def fetch_add(session: Session) -> Iterator[Row]:
    """Relaxed additions of integers beside the same built-in called directly, contended and not, used and dropped."""
    bench = Bench(session)
    for kind in (kind for kind in bench.kinds if kind.kind == "uint"):
        tasks = {
            f"{operation}_{place}": Task(operation, kind, place)
            for operation in ("fetch_add", "add")
            for place in ("contended", "uncontended")
        }
        raw = f"{prefix(kind)}add(p, ({kind.name})1)"
        heading = WIDE if kind.bits == 64 else ""
        built = {
            "portbar": bench.build(HEADER, {name: (task, ours(task)) for name, task in tasks.items()}, ours=True),
            f"{prefix(kind)}add": bench.build(heading, {name: (task, raw) for name, task in tasks.items()}),
        }
        if bench.strategy.atomics.value == "c11":
            calls = {name: (task, c11(task)) for name, task in tasks.items()}
            built["atomic_fetch_add_explicit"] = bench.build(heading, calls)
        for name, task in tasks.items():
            yield from rows_of(bench, "fetch_add", task, {side: kernels[name] for side, kernels in built.items()})


def order(session: Session) -> Iterator[Row]:
    """Measure the cost of an order at device scope, relative to the same operation of portbar's, relaxed."""
    bench = Bench(session)
    if "ordering" in bench.strategy.capabilities.atomics_table.refused:
        note(f"{session.name}: order skipped, {bench.strategy.capabilities.atomics_table.refused['ordering']}")
        return
    calls: dict[str, tuple[Task, str]] = {}
    for operation, orders in ORDERS.items():
        for place in ("contended", "uncontended"):
            task = Task(operation, _KIND["uint"], place)
            calls |= {f"{operation}_{place}_{name}": (task, ours(task, name)) for name in ("relaxed", *orders)}
    kernels = bench.build(HEADER, calls, ours=True)
    for operation, orders in ORDERS.items():
        for place in ("contended", "uncontended"):
            task = Task(operation, _KIND["uint"], place)
            sides = {name: kernels[f"{operation}_{place}_{name}"] for name in ("relaxed", *orders)}
            try:
                times, extra = bench.times(task, sides)
            except WrongResultError as error:
                yield wrong(session, "order", "relaxed", str(error), **described(bench, task))
                continue
            for name in list(times)[1:]:
                sides_us = times[name], times["relaxed"]
                yield compared(bench, "order", "relaxed", task, *sides_us, None, **extra | {"order": name})


def float_add(session: Session) -> Iterator[Row]:
    """Additions of floats beside the fastest of the hand-written loops, and beside the native addition if available."""
    bench = Bench(session)
    for kind in (kind for kind in bench.kinds if kind.kind == "float"):
        native = (kind.name, "global") in bench.strategy.capabilities.atomics_table.native_add
        tasks = {place: Task("fetch_add", kind, place) for place in PLACES}
        mine = bench.build(HEADER, {place: (task, ours(task)) for place, task in tasks.items()}, ours=True)
        by_hand = bench.build(
            loops(kind),
            {
                f"{identifier(name)}_in_{place}": (task, f"{identifier(name)}_{kind.name}(p, ({kind.name})1)")
                for name in LOOPS
                for place, task in tasks.items()
            },
        )
        raw: dict[str, cl.Kernel] = {}
        if native and bench.strategy.atomics.value == "c11":
            try:
                heading = WIDE if kind.bits == 64 else ""
                raw = bench.build(heading, {place: (task, c11(task)) for place, task in tasks.items()})
            except Error as error:
                note(f"{session.name}: the built-in addition of {kind.name} is left out, {error}")
        for place, task in tasks.items():
            if raw:
                sides = {"portbar": mine[place], "atomic_fetch_add_explicit": raw[place]}
                yield from rows_of(bench, "float_add", task, sides, native=native)
            sides = {"portbar": mine[place]} | {name: by_hand[f"{identifier(name)}_in_{place}"] for name in LOOPS}
            yield from best_of(bench, task, sides, native=native)


BENCHMARKS: Final[dict[str, Callable[[Session], Iterator[Row]]]] = {
    "fetch_add": fetch_add,
    "order": order,
    "float_add": float_add,
}


def rows_of(bench: Bench, benchmark: str, task: Task, sides: Mapping[str, cl.Kernel], **more: Any) -> Iterator[Row]:
    """A row for each side but portbar's, all from the same launches of portbar's."""
    try:
        times, extra = bench.times(task, sides)
    except WrongResultError as error:
        yield wrong(bench.session, benchmark, "/".join(list(sides)[1:]), str(error), **described(bench, task))
        return
    mine = times.pop("portbar")
    for peer, theirs in times.items():
        yield compared(bench, benchmark, peer, task, mine, theirs, BUILT_IN_TARGET, **extra | more)


def best_of(bench: Bench, task: Task, sides: Mapping[str, cl.Kernel], *, native: bool) -> Iterator[Row]:
    """One row: portbar beside the fastest of the others. A native addition has no loop to match."""
    try:
        times, extra = bench.times(task, sides)
    except WrongResultError as error:
        yield wrong(bench.session, "float_add", "loop", str(error), **described(bench, task))
        return
    mine = times.pop("portbar")
    ratios = {name: paired(mine, theirs) for name, theirs in times.items()}
    best = max(ratios, key=lambda name: ratios[name])
    extra |= {"native": native, "ratios": ratios}
    yield compared(bench, "float_add", best, task, mine, times[best], None if native else LOOP_TARGET, **extra)


def described(bench: Bench, task: Task) -> dict[str, Any]:
    """Return the description of a measurement, for a row."""
    return {
        "operation": task.operation,
        "type": task.kind.name,
        "place": task.place,
        "strategy": bench.strategy.atomics.value,
        "order": "relaxed",
    }


def compared(
    bench: Bench,
    benchmark: str,
    peer: str,
    task: Task,
    ours: Sequence[float],
    theirs: Sequence[float],
    target: float | None,
    **extra: Any,
) -> Row:
    """A row with its target, and whether the ratio meets it; None where there is no target.

    The ratio is the median of those of launches that followed one another, not the ratio of the medians: on a CPU that others
    use, too, launches come in two speeds, by how many cores they get, and a median of times would be one or the other.
    `control` is the same of the peer's own samples, each beside the next: what noise alone does.
    """
    others = theirs[1::2]
    extra = described(bench, task) | {"control": paired(theirs[::2][: len(others)], others)} | extra
    return judged(bench.session.compare(benchmark, peer, ours, theirs, **extra), target, ratio=paired(ours, theirs))


COLUMNS: Final[dict[str, Callable[[Row], str]]] = {
    "call": lambda row: " ".join(
        [row.extra["operation"], row.extra["type"], *([row.extra["order"]] if row.benchmark == "order" else [])]
    ),
    "where": lambda row: str(row.extra["place"]),
    "peer": lambda row: row.peer,
    "native": lambda row: {True: "yes", False: "no"}.get(row.extra.get("native", ""), ""),
    "ratio": lambda row: "" if row.ratio is None else f"{row.ratio:.3f}",
    "control": lambda row: f"{row.extra['control']:.3f}" if "control" in row.extra else "",
    "ours, ns": lambda row: "" if row.ours_us is None else number(row.ours_us * 1e3),
    "peer, ns": lambda row: "" if row.peer_us is None else number(row.peer_us * 1e3),
    "cores": lambda row: f"{row.extra['cores']:.1f}" if row.extra.get("cores") else "",
    "target met": verdict,
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print."""
    quick = "short launches, and few of them"
    options = command_line("atomics", __doc__, quick, BENCHMARKS).parse_args(arguments)
    return run(options, plain(options), BENCHMARKS, COLUMNS)


if __name__ == "__main__":
    raise SystemExit(main())
