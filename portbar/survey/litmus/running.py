"""Runs litmus tests on a device in this process, and counts their outcomes."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np
import pyopencl as cl

from portbar.choices.profile import describe
from portbar.choices.strategy import DeviceProfile, choose
from portbar.errors import BuildError, Error
from portbar.launching.build import compile_program
from portbar.launching.kernel import Kernel
from portbar.launching.program import Program
from portbar.primitives.strategy import Strategy
from portbar.survey.litmus.model import UNREAD, Litmus, as_mapping, outcome_text, sequential, serial
from portbar.survey.litmus.patterns import PATTERNS, UInts
from portbar.survey.litmus.results import NAMES, Tally, blank
from portbar.survey.litmus.sizes import Scale, Size
from portbar.survey.litmus.source import collect_text, kernel_name, program_text
from portbar.survey.litmus.stress import DISTURBED, NUMBERS, memory_words, stress_numbers
from portbar.survey.litmus.tests import TESTS, matching

#: Tests in one program: a compiler reads the headers once for all of them.
TOGETHER: Final = 8

#: Seconds that a launch should take at least, so that what surrounds it does not count.
_LAUNCH_S: Final = 0.02

#: Part of a test's time that is left for its launches, however long the compiler took.
_LEAST_PART: Final = 0.5

#: How `portbar/atomics.h` says in a compiler's log that the device lacks something.
_REFUSED: Final = re.compile(r"error: portbar: ([^\n]*)")

_TAKES_TURNS: Final = (
    "this device runs the work-items of a work-group one after the other, so only its compiler could fail"
)
_ONE_AFTER_THE_OTHER: Final = "only outcomes of threads that run one after the other were seen"


def strategy_for(profile: DeviceProfile, atomics: str) -> Strategy:
    """Return portbar's choices for a device if this atomics strategy were known to hold on it.

    `UnsupportedFeatureError` if the strategy does not build on the device.
    """
    findings = profile.findings
    if findings is not None:
        # Whether it holds is what is to be found out, so that earlier findings about that do not count.
        findings = replace(
            findings, ordering={**findings.ordering, atomics: "pass"}, litmus={atomics: "pass: under test"}
        )
    return choose(DeviceProfile(profile.facts, findings), {"atomics": atomics})


class Runner:
    """Runs tests of one strategy on one device; `names` will be run (all by default), and are compiled `together` at a time."""

    def __init__(
        self,
        queue: cl.CommandQueue,
        strategy: Strategy,
        *,
        seed: int = 1,
        names: Sequence[str] | None = None,
        together: int = TOGETHER,
    ) -> None:
        self.queue = queue
        self.strategy = strategy
        self.seed = seed
        profile = describe(queue.device)
        self.scale = Scale.of(profile, strategy.atomics.value)
        findings = profile.findings
        #: Whether the work-items of a group are known to run one after the other.
        self.takes_turns = findings is not None and findings.progress.get("sub_groups") == "none"
        self.names = matching(NAMES, names)
        self._together = together
        self._programs: dict[tuple[str, ...], Program] = {}
        self._refused: dict[tuple[str, ...], Error] = {}
        self._collect: cl.Kernel | None = None
        self._buffers: dict[str, cl.Buffer] = {}

    def size(self, name: str) -> Size | str:
        """The size of a test's first launch, or why it cannot be run here."""
        if name in PATTERNS:
            return self.scale.pattern(1 if name == "LOOK-BACK" else 256)
        test = TESTS[name]
        return (self.scale.across if test.across_groups else self.scale.within)(len(test.threads))

    def build(self, name: str) -> None:
        """Compile a test's kernel, if it can be run, and others with it; each alone where the driver refuses them together.

        `Error` if the driver refused the program, or it cannot be rendered.
        """
        chunk = self._chunk(name)
        if chunk in self._refused:
            raise self._refused[chunk]
        if chunk in self._programs or isinstance(self.size(name), str):
            return
        sizes = [self.size(other) for other in chunk]
        local_sizes = [size.local_size for size in sizes if isinstance(size, Size)]
        text = program_text(chunk, local_sizes, self.scale.unroll)
        try:
            program = Program(self.queue.context, text, strategy=self.strategy, devices=[self.queue.device])
        except Error as error:
            self._refused[chunk] = error
            if len(chunk) == 1:
                raise
            self.build(name)
        else:
            self._programs[chunk] = program

    def run(self, name: str, seconds: float) -> dict[str, Any]:
        """Run a test for about `seconds`, and at least two launches; its result as JSON values."""
        start = time.perf_counter()
        result = blank(name, self.strategy.atomics.value, self.seed)
        size = self.size(name)
        if isinstance(size, str):
            return {**result, "status": "skipped", "reason": size}
        tally = Tally()
        try:
            self.build(name)
            kernel = self._programs[self._chunk(name)].kernel(kernel_name(name))
            until = start + seconds
            while True:
                began = time.perf_counter()
                self._launch(kernel, name, size, tally)
                now = time.perf_counter()
                if tally.launches == 1:
                    # Compilers may not have begun before the first launch, which says little about the next ones.
                    until = max(until, now + _LEAST_PART * seconds)
                if now >= until and tally.launches > 1:
                    break
                if now - began < min(_LAUNCH_S, seconds / 4):
                    size = size.longer()
        except BuildError as error:
            words = _REFUSED.search(error.log or str(error))
            status, reason = (
                ("skipped", words[1]) if words else ("error", f"it does not compile: {_first_error(error)}")
            )
            return {**result, "status": status, "reason": reason, "seconds": _since(start)}
        except (Error, cl.Error) as error:
            result |= {"status": "error", "reason": f"{type(error).__name__}: {error}".splitlines()[0]}
        return {**result, **self._judged(name, tally, result), "seconds": _since(start)}

    def _judged(self, name: str, tally: Tally, result: dict[str, Any]) -> dict[str, Any]:
        status, reason = str(result["status"]), str(result["reason"])
        if tally.forbidden:
            status = "fail"
            reason = f"{sum(tally.forbidden.values())} of {tally.instances} forbidden (seed {self.seed})"
        elif status != "error":
            status = "pass"
            if not tally.instances:
                status, reason = "unfinished", "the device ended loops before any round was complete"
            elif set(tally.outcomes) == {"unfinished"}:
                status, reason = "unfinished", "no look-back completed"
            elif name in TESTS:
                reason = self._weakness(TESTS[name], tally)
        outcomes = dict(sorted(tally.outcomes.items(), key=lambda entry: -entry[1]))
        return {"status": status, "reason": reason, **vars(tally), "outcomes": outcomes}

    def _weakness(self, test: Litmus, tally: Tally) -> str:
        """Why a pass says little, as far as that is known."""
        if not test.across_groups and self.takes_turns:
            return _TAKES_TURNS
        if not tally.interleaved and not tally.weak and sequential(test) - serial(test):
            return _ONE_AFTER_THE_OTHER
        return ""

    def _chunk(self, name: str) -> tuple[str, ...]:
        """The tests that are compiled together with this one, this one included."""
        names = [other for other in self.names if isinstance(self.size(other), Size)]
        if name not in names:
            return (name,)
        at = names.index(name) // self._together * self._together
        chunk = tuple(names[at : at + self._together])
        return chunk if chunk not in self._refused else (name,)

    def _buffer(self, name: str, words: int) -> cl.Buffer:
        """Return a buffer of at least `words` words, kept between launches."""
        kept = self._buffers.get(name)
        if kept is None or kept.size < 4 * words:
            if kept is not None:
                kept.release()
            kept = self._buffers[name] = cl.Buffer(self.queue.context, cl.mem_flags.READ_WRITE, 4 * words)
        return kept

    def _filled(self, name: str, words: int, value: int) -> cl.Buffer:
        buffer = self._buffer(name, words)
        cl.enqueue_fill_buffer(self.queue, buffer, np.array([value], np.uint32), 0, 4 * words)
        return buffer

    def _launch(self, kernel: Kernel, name: str, size: Size, tally: Tally) -> None:
        numbers = stress_numbers(f"{self.seed}:{name}:{tally.launches}", size)
        flags = cl.mem_flags.READ_ONLY | cl.mem_flags.COPY_HOST_PTR
        n = cl.Buffer(self.queue.context, flags, hostbuf=numbers)
        pattern, test = PATTERNS.get(name), TESTS.get(name)
        if pattern is not None:
            words, results = pattern.memory_words(size), pattern.result_words(size)
        else:
            assert test is not None
            words, results = memory_words(size, numbers), len(test.columns) * size.instances
        items = size.items
        mem, regs = self._filled("mem", words, 0), self._filled("regs", max(1, results), UNREAD)
        meet, scratch = self._filled("meet", size.teams + items, 0), self._buffer("scratch", DISTURBED * items)
        kernel(self.queue, (items,), (size.local_size,), mem, regs, meet, scratch, n).wait()
        # Where loops are cut short, the last rounds may be missing.
        ran = size.teams * int(self._read(meet, size.teams + items)[size.teams :].min())
        tally.launches += 1
        if pattern is not None:
            seed = int(numbers[NUMBERS["seed"]])
            for outcome, count in pattern.tally(self._read(regs, results), size, ran, seed).items():
                tally.add(outcome, count, forbidden=outcome == pattern.forbidden)
        elif test is not None:
            self._count(test, self._codes(test, size, mem, regs, n)[:ran], tally)

    def _read(self, buffer: cl.Buffer, words: int) -> UInts:
        values = np.empty(words, np.uint32)
        cl.enqueue_copy(self.queue, values, buffer)
        return values

    def _codes(self, test: Litmus, size: Size, mem: cl.Buffer, regs: cl.Buffer, n: cl.Buffer) -> UInts:
        if self._collect is None:
            program = compile_program(self.queue.context, self.queue.device, collect_text(), ())
            self._collect = cl.Kernel(program, "portbar_litmus_collect")
        codes = self._buffer("codes", size.instances)
        bits = sum(1 << k for k, name in enumerate(test.locations) if name in test.finals)
        finals = bits if test.space == "global" else 0
        layout = (test.registers, finals, len(test.columns), test.bits, _places(test))
        self._collect.set_args(mem, regs, codes, n, *map(np.uint32, layout))
        local_size = min(64, self.scale.most_local)
        items = -(-size.instances // local_size) * local_size
        cl.enqueue_nd_range_kernel(self.queue, self._collect, (items,), (local_size,))
        return self._read(codes, size.instances)

    @staticmethod
    def _count(test: Litmus, codes: UInts, tally: Tally) -> None:
        counted = np.bincount(codes, minlength=1)
        for code in map(int, np.flatnonzero(counted)):
            values = tuple(code >> 2 * k & UNREAD for k in range(len(test.columns)))
            count = int(counted[code])
            forbidden = test.is_forbidden(as_mapping(test, values))
            tally.add(outcome_text(test, values), count, forbidden=forbidden)
            if values not in sequential(test):
                tally.weak += 0 if forbidden else count
            elif values not in serial(test):
                tally.interleaved += count


def _places(test: Litmus) -> int:
    """Where each location lies, a byte each: the location whose word it is in, and the index there in the upper half."""
    places = 0
    for k, name in enumerate(test.locations):
        if name in test.together:
            host, index = test.locations.index(test.together[0]), test.together.index(name)
        else:
            host, index = k, 0
        places |= (host | index << 4) << 8 * k
    return places


def _since(start: float) -> float:
    return round(time.perf_counter() - start, 3)


def _first_error(error: BuildError) -> str:
    """Return the most informative line of the driver's log; the rest names private folders."""
    lines = [line.strip() for line in str(error.log).splitlines() if "error" in line.lower()]
    return (lines or str(error).splitlines())[0][:300]
