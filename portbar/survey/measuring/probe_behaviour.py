"""The probe of how a device behaves: loops, polls, who runs at the same time as whom, and whether memory is ordered.

A driver may abort or hang in any of these.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

import numpy as np
import pyopencl as cl

from portbar.backends.backend import BACKENDS
from portbar.backends.selection import backend_of
from portbar.choices.strategy import DeviceProfile
from portbar.device import quirks
from portbar.device.findings import RATES, UnmeasuredError
from portbar.errors import BarrierTimeoutError, Error
from portbar.launching.program import Program
from portbar.primitives import layout
from portbar.primitives.headers import layout_of, resolve_includes
from portbar.primitives.strategy import Capabilities, Choice, Strategy
from portbar.survey.measuring.probe_builds import CompileProbes, probe_text, words_text

_LOOPS: Final = 300_000
_LOOPS_S: Final = 0.1
#: Asked for however slow loops seem, since a limit of 65,535 is known and one timing may have been held up.
_LEAST_LOOPS: Final = 70_000
_LOOP_TIMINGS: Final = 5
#: Least seconds of one timing of polls, short enough to be over before a busy CPU turns to other work, and of all together.
_POLL_S: Final = 0.001
_ALL_POLLS_S: Final = 0.06
_LEAST_TIMINGS: Final = 5
_MOST_POLL_ROUNDS: Final = 1 << 20
_MOST_POLLS: Final = 0x7FFF_FFFF

#: Seconds that a wait for another work-group may take. A thread may be kept off its core for tens of milliseconds by the very
#: group that waits for it; a GPU's work-groups start together.
_PATIENCE_S: Final = {"cpu": 0.25, "gpu": 0.005}
#: How many times as long waits are at most on a device or a machine that is slower than usual.
_MOST_PACE: Final = 8.0
#: The same for a work-item of the same group, which is there from the start or never.
_PATIENCE_WITHIN_S: Final = 0.01

#: Polls in one iteration of `portbar_probe_residents`, so that patience lasts where loops are cut short.
_UNROLL: Final = 15
#: Attempts to meet where a wait is too short to outlast the start of a thread.
_SHORT_ATTEMPTS: Final = 25
_MOST_GROUPS: Final = 1 << 18

_PAYLOAD: Final = 8
_ROUNDS: Final = 20_000
_FIRST_ROUNDS: Final = 16
_ORDERING_S: Final = 0.5
_FAILED_WAITS: Final = 6
#: A wait in vain that takes less than this part of its time had too few polls, or does not wait.
_LEAST_OF_WAIT: Final = 20.0
_BARRIER_FAILURES: Final = 2
_BARRIER_LOCAL_SIZE: Final = 32
_SPIN_LIMIT_S: Final = 3.0


def _fastest(seconds: Callable[[int], float], most: int) -> float:
    """Rounds per second of a loop that is launched with their number, at most `most`. Other work only makes it look slower."""
    # A launch may take longer than the loop: Oclgrind starts threads for each, late on a busy machine.
    least = max(_POLL_S, 4 * min(seconds(1) for _ in range(_LEAST_TIMINGS)))
    rounds, rate, end = min(4, most), 0.0, time.monotonic() + _ALL_POLLS_S
    while True:
        before, best, timings = rate, math.inf, 0
        while timings < _LEAST_TIMINGS or time.monotonic() < end:
            best, timings = min(best, seconds(rounds)), timings + 1
            if best < least and rounds < most:
                break
        rate = max(rate, rounds / max(best, 1e-9))
        # Where four times the rounds take less than twice the time, it is still the launch that was timed.
        if rounds == most or (best >= least and rate < 2 * before):
            return rate
        rounds = min(most, 4 * rounds)


class _MeasuringProgram(Program):
    """A program that takes the profile from the probe under way, where others look at what was stored."""

    measured: DeviceProfile | None = None

    def profile(self, device: cl.Device) -> DeviceProfile:
        return self.measured or super().profile(device)


class Probes(CompileProbes):
    """All measurements of one device."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._spins: dict[tuple[str, str], cl.Program] = {}
        self._rates: dict[str, float] = {}
        self._spin_rates: dict[str, float] = {}

    def feature(self, name: str) -> bool:
        """Whether a kernel that uses a feature compiles and works, at the highest language level that does."""
        return self._volatile_polls_hold() if name == "volatile_polls" else super().feature(name)

    def _volatile_polls_hold(self) -> bool:
        """Whether waits may poll by volatile loads, asked only where they would: all come, with what they announce."""
        atomics = self._best_atomics()
        asked = backend_of(atomics, self.facts).polls_volatile(self.facts, {"volatile_polls": True})
        if not asked:
            return False
        for needed in ("loop_limit", "groups_in_flight"):
            if needed in self.known.unmeasured:
                raise UnmeasuredError(needed)
        if self.known.groups_in_flight == 1 or self._may_cut_loops:
            return False
        return self._messages_fault(atomics, self._spin_kernel("messages", atomics, "*theirs")) is None

    def _best_atomics(self) -> str:
        best, unmeasured = None, None
        for name in BACKENDS:
            try:
                best = best or (name if self.builds(name) else None)
            except UnmeasuredError as error:
                unmeasured = unmeasured or error
        if best is None:
            raise unmeasured or Error("no atomics strategy works")
        return best

    def _strategy(self, atomics: str) -> Strategy:
        why, backend = "under test", backend_of(atomics, self.facts)
        return Strategy(
            atomics=Choice(atomics, why),
            discovery=Choice("packed", why),
            device_barrier=Choice("counter", why),
            max_groups=1 if self._may_cut_loops else None,
            max_groups_reason="loops may be cut short" if self._may_cut_loops else "",
            units=backend.units.bare(),
            capabilities=Capabilities(
                std=self.std(atomics),
                volatile_polls=backend.polls_volatile(self.facts, self.known.builds),
                one_way_fences=backend.has_one_way_fences(self.known.builds),
            ),
            workarounds=quirks.effects_of(self.facts),
        )

    # Loops and polls.

    @property
    def _limit(self) -> int | None:
        """The loop limit that is known so far, by this probe or by the quirk table."""
        return self._profile().loop_limit

    @property
    def _may_cut_loops(self) -> bool:
        return self._limit is not None or not self.known.loops_run_whole

    def loop_limit(self) -> int | None:
        """Return the total iterations after which loops end silently, None if all requested ones ran: 300,000, or on a slow
        simulator as many as take 0.1 s but at least 70,000, and the same again.
        """
        kernel = cl.Kernel(self._build(probe_text("loops", "loops")), "portbar_probe_loops")
        ones = cl.Buffer(
            self.context, cl.mem_flags.READ_ONLY | cl.mem_flags.COPY_HOST_PTR, hostbuf=np.ones(2, np.uint32)
        )
        counted = self._buffer(2)
        asked = 2000
        self._run(kernel, 1, 1, ones, counted, np.uint32(1))  # some drivers compile at the first launch
        seconds = min(self._run(kernel, 1, 1, ones, counted, np.uint32(asked)) for _ in range(_LOOP_TIMINGS))
        asked = max(_LEAST_LOOPS, min(_LOOPS, int(asked * _LOOPS_S / max(seconds, 1e-9))))
        self._run(kernel, 1, 1, ones, counted, np.uint32(asked))
        first, second = map(int, self._read(counted))
        if (first, second) == (asked, asked):
            return None
        return first if first < asked else first + second

    def polls_per_second(self) -> float:
        """How fast one work-item polls a word in the loop in which barriers wait."""
        return self._rate(self._best_atomics())

    def _rate(self, atomics: str) -> float:
        """The same for one atomics strategy: a load may be forty times as fast as a read-modify-write."""
        if atomics not in self._rates:
            self._rates[atomics] = self._measure_rate(self._strategy(atomics))
        return self._rates[atomics]

    def _measure_rate(self, strategy: Strategy) -> float:
        text = resolve_includes('#include "portbar/device_barrier.h"\n' + probe_text("polls", "polls"), strategy)
        kernel = cl.Kernel(self._build(text, strategy.capabilities.std), "portbar_probe_polls")
        words = layout_of(["device_barrier"]).words(64)
        most = _MOST_POLL_ROUNDS
        if self._limit is not None:
            most = max(1, self._limit // (layout.POLLS_PER_ROUND + 1) - 1)
        rounds_per_second = _fastest(
            lambda rounds: self._run(kernel, 1, 1, self._buffer(words), np.uint32(rounds)), most
        )
        return min(max(rounds_per_second * layout.POLLS_PER_ROUND, RATES[0]), RATES[1])

    def _spin_rate(self, atomics: str) -> float:
        """How fast kernels poll that do nothing else: on Intel's runtime 25 times as fast as barriers, which pause."""
        if atomics not in self._spin_rates:
            kernel = self._spin_kernel("handshake", atomics)
            words, met = self._buffer(2 * layout.LINE_WORDS), self._buffer(2)
            nobody = np.uint32(1)
            self._spin_rates[atomics] = _fastest(
                lambda polls: self._run(kernel, 1, 1, words, met, np.uint32(0), nobody, np.uint32(polls)),
                _MOST_POLLS if self._limit is None else max(1, self._limit // 2),
            )
        return self._spin_rates[atomics]

    def _polls(self, seconds: float, atomics: str) -> int:
        """Polls that take about `seconds`, fewer where loops would be cut short."""
        polls = max(1000, min(_MOST_POLLS, int(self._spin_rate(atomics) * seconds)))
        limit = self._limit
        return polls if limit is None else min(polls, max(1, limit // 2))

    def _profile(self) -> DeviceProfile:
        return DeviceProfile(self.facts, self.known)

    @property
    def _patience(self) -> float:
        return min(self.pace, _MOST_PACE) * _PATIENCE_S[self._profile().units.kind]

    # Who runs at the same time as whom.

    def _spin_kernel(self, name: str, atomics: str, message_poll: str = "portbar_word_load(theirs)") -> cl.Kernel:
        key = atomics, message_poll
        if key not in self._spins:
            names = ("residents", "handshake", "messages")
            text = (
                words_text(atomics)
                + "\n"
                + probe_text("spins", *names, message_poll=message_poll, payload=_PAYLOAD, unroll=_UNROLL)
            )
            self._spins[key] = self._build(text, self.std(atomics))
        return cl.Kernel(self._spins[key], f"portbar_probe_{name}")

    def groups_in_flight(self) -> int:
        """Work-groups that were seen in a small kernel at the same time."""
        atomics = self._best_atomics()
        kernel = self._spin_kernel("residents", atomics)
        units, threads = self.facts.compute_units or 1, self._profile().units.kernels_alike
        local_size = 1 if threads else min(256, self.facts.max_work_group_size or 256)
        # A CPU runtime takes work-groups in chunks, so that few of them find its threads sooner than many.
        asked = 2 * max(units, os.cpu_count() or 1) if threads else 32 * units
        patience, attempts = max(1, self._polls(self._patience, atomics) // (_UNROLL + 1)), 3
        if self._limit is not None:
            patience, attempts = max(1, self._limit * 9 // 10), _SHORT_ATTEMPTS
        found = 1
        while True:
            for _ in range(attempts):
                words, most = self._buffer(2 * layout.LINE_WORDS), self._buffer(asked)
                self._run(kernel, asked, local_size, words, most, np.uint32(asked), np.uint32(patience))
                found = max(found, int(self._read(most).max()))
                if found >= units:
                    break
            if found < asked or 2 * asked > _MOST_GROUPS:
                return found
            asked *= 2

    def progress(self, what: str) -> str:
        """Whether two `work_groups`, `sub_groups` of a group or `lanes` of a sub-group make progress while the other spins."""
        atomics = self._best_atomics()
        kernel = self._spin_kernel("handshake", atomics)
        cut = self._limit
        if what == "work_groups":
            groups, local_size, last, seconds = 2, 1, 1, self._patience
            attempts = 3 if cut is None else _SHORT_ATTEMPTS
        else:
            query = cl.kernel_work_group_info.WORK_GROUP_SIZE
            largest: Any = kernel.get_work_group_info(query, self.device)
            local_size = min(128, int(largest))
            if local_size < 2:
                return "unknown: work-groups have one work-item"
            # The first and the last are in different sub-groups where a group has several, neighbours are in the same.
            groups, seconds, attempts = 1, _PATIENCE_WITHIN_S, 1
            last = local_size - 1 if what == "sub_groups" else 1
        limit = np.uint32(self._polls(seconds, atomics))
        for a, b in ((0, last), (last, 0)):
            for _ in range(attempts):
                words, met = self._buffer(2 * layout.LINE_WORDS), self._buffer(2)
                self._run(kernel, groups, local_size, words, met, np.uint32(a), np.uint32(b), limit)
                if self._read(met).all():
                    break
            else:
                if what == "work_groups" and cut is not None:
                    return f"unknown: loops end after {cut} iterations, and no other work-group was seen by then"
                return "none"
        return "independent"

    # Whether memory is ordered.

    def ordering(self, atomics: str) -> str:
        """Whether an atomics strategy orders memory, by messages between pairs of groups and through the device barrier.

        A device that runs one group at a time, or whose loops are cut short, gets grids of one group: there the barrier of
        that group is what has to hold.
        """
        if self.known.groups_in_flight != 1:
            fault = self._messages_fault(atomics, self._spin_kernel("messages", atomics))
            if fault is not None:
                return fault
        return self._barrier_fault(atomics) or "pass"

    def _messages_fault(self, atomics: str, kernel: cl.Kernel) -> str | None:
        known, alike = self.known.groups_in_flight or 2, self._profile().units.kernels_alike
        pairs = 1 if alike else max(1, min(known, 2 * (self.facts.compute_units or 1)) // 2)
        limit = np.uint32(self._polls(self._patience, atomics))
        most_polls = _MOST_POLLS if self._limit is None else int(limit)
        chunk, done, stale, absent, missed = _FIRST_ROUNDS, 0, 0, 0, 0
        # Work-groups that are known to meet may be kept from it by other work.
        most, most_absent = _ROUNDS, _FAILED_WAITS * (4 if (self.known.groups_in_flight or 1) > 1 else 1)
        if self._limit is not None:
            # The waits of a launch get the iterations that the checks' loops do not use up.
            most = max(1, self._limit // (8 * _PAYLOAD))
        deadline = time.monotonic() + _ORDERING_S
        while done < _ROUNDS * pairs and stale == 0 and missed < _FAILED_WAITS and absent < most_absent:
            flags = self._buffer(2 * pairs * layout.LINE_WORDS)
            data = self._buffer(2 * pairs * layout.LINE_WORDS * _PAYLOAD)
            report = self._buffer(8 * pairs)
            seconds = self._run(kernel, 2 * pairs, 1, flags, data, report, np.uint32(chunk), limit)
            finished, wrong, late, unseen = self._read(report).reshape(-1, 4).sum(axis=0, dtype=np.int64).tolist()
            done, stale = done + finished, stale + wrong
            ended = late == unseen == 0
            # A group whose peer has given up waits in vain, too: the launch counts once, for the worse.
            if unseen:
                missed += 1
            elif late and seconds < self._patience / _LEAST_OF_WAIT:
                # The rate was measured on a machine that was busier, or a compiler has taken the poll out of its loop: then no
                # limit makes the wait long.
                longer = min(most_polls, int(limit * self._patience / max(seconds, 1e-9)))
                missed, limit = missed + (limit == most_polls), np.uint32(longer)
            elif late:
                absent += 1
            # Rounds may end even where a compiler keeps the polled value: the message may come before its first poll.
            if ended and time.monotonic() > deadline:
                break
            if ended and seconds < _ORDERING_S / 8:
                chunk = min(most, 4 * chunk)
        if stale:
            return f"fail: {stale} of {done} messages between work-groups came with stale data"
        # A message may come between the last poll and the addition, once.
        if self._limit is not None or (done >= _FIRST_ROUNDS and missed <= 1):
            return None
        if missed:
            return f"fail: {missed} launches ended with one work-group never having seen what the other one released"
        return "untested: no two work-groups met"

    def _barrier_fault(self, atomics: str) -> str | None:
        source = '#include "portbar/device_barrier.h"\n' + probe_text(
            "barrier", "barrier", local_size=_BARRIER_LOCAL_SIZE
        )
        patient = _SPIN_LIMIT_S * min(self.pace, _MOST_PACE)
        program = _MeasuringProgram(self.context, source, strategy=self._strategy(atomics), spin_limit=patient)
        program.measured = replace(self._profile(), findings=replace(self.known, polls_per_second=self._rate(atomics)))
        kernel = program.kernel("portbar_probe_barrier")
        at_least = 2 if (self.known.groups_in_flight or 1) > 1 and not self._may_cut_loops else 1
        chunk, seed, held, stale, attempts, given_up = _FIRST_ROUNDS // 2, 1, 0, 0, 0, 0
        most = _ROUNDS if self._limit is None else max(1, self._limit // 64)
        groups = kernel.occupancy(self.queue, (_BARRIER_LOCAL_SIZE,)).groups
        # More groups than run at once find nothing more, and take turns by the time slice.
        groups = self._profile().units.at_once(groups)
        deadline = time.monotonic() + _ORDERING_S
        while held < _ROUNDS and stale == 0:
            size = groups * _BARRIER_LOCAL_SIZE
            data, report = self._buffer(size), self._buffer(2 * size)
            start = time.perf_counter()
            numbers = np.uint32(chunk), np.uint32(seed)
            launch = kernel(self.queue, None, (_BARRIER_LOCAL_SIZE,), data, report, *numbers, num_groups=groups)
            try:
                launch.wait()
            except BarrierTimeoutError as error:
                given_up += 1
                # Once may be the machine's fault.
                if given_up == _BARRIER_FAILURES:
                    return f"fail: {str(error).split('. ', maxsplit=1)[0]}"
                continue
            except Error:
                # Nothing but the barrier writes to the state here.
                return "fail: arrivals at a device barrier were lost or counted twice"
            seconds = time.perf_counter() - start
            rounds, wrong = self._read(report).reshape(-1, 2)[: launch.num_groups * _BARRIER_LOCAL_SIZE].T
            if launch.num_groups >= at_least:
                held, stale = held + int(rounds.min()), stale + int(wrong.max())
            else:
                attempts += 1
            seed += chunk * size
            if (held or attempts >= _FAILED_WAITS) and time.monotonic() > deadline:
                break
            if seconds < _ORDERING_S / 8:
                chunk = min(most, 4 * chunk)
        if stale:
            return f"fail: {stale} of {held} rounds saw stale data after a device barrier"
        if not held:
            return "untested: no two work-groups met at a device barrier"
        return None
