"""How large launches of litmus tests are on a device: as much at once as it runs at once, for some milliseconds."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from portbar.backends.backend import BACKENDS
from portbar.choices.strategy import DeviceProfile
from portbar.records.plain import amount

#: Seconds that a rendezvous may take on a CPU: the first one of a launch, when threads are being woken, and later ones.
_FIRST_MEETING_S: Final = 2e-2
_MEETING_S: Final = 1e-3
#: Polls of a rendezvous elsewhere.
_POLLS_OTHER: Final = 200
#: Polls per second that are assumed: where they were not measured, at most, and at most where a poll is a read-modify-write.
_ASSUMED_RATE: Final = 1e8
_MOST_RATE: Final = 1e9
_MOST_RATE_CL12: Final = 2e7
#: Copies of an unrolled poll on devices that end loops early, and the most iterations of a rendezvous there.
_UNROLL: Final = 16
_SHORT_MEETING: Final = 32
_SHORT_FIRST_MEETING: Final = 16_000

#: Words of memory that the locations of one launch may take, and the part of the device's memory.
_MOST_WORDS: Final = 1 << 27
_MOST_PART: Final = 1 / 8
_MOST_WORDS_CPU: Final = 1 << 22
_MOST_ROUNDS: Final = 1 << 15
#: Most words of memory per instance.
MOST_BLOCK: Final = 64

#: Vain polls of a look-back: where loops are cut short, and at least elsewhere.
_SPINS_SHORT: Final = 32
_LEAST_SPINS: Final = 1000
#: Approximate iterations of loops in a round on devices that end loops early; the remainder is for the first rendezvous.
_ITERATIONS_A_ROUND: Final = 160

#: Polls per second below which a device is a simulator.
_SLOW_RATE: Final = 5e6


@dataclass(frozen=True)
class Size:
    """The size of one launch."""

    groups: int
    local_size: int
    #: Instances of the test at the same time.
    teams: int
    #: Work-items, or work-groups of a pattern, that make up a team.
    members: int
    #: Instances that each team runs, one after the other.
    rounds: int
    #: Limit of a rendezvous, and of a launch's first one; 0 for none.
    polls: int
    first_polls: int
    #: Whether each launch has rendezvous: groups that are threads of the host would hardly overlap otherwise.
    always_meet: bool
    #: Disturbing accesses before each instance; None where they are drawn.
    before: int | None
    most_rounds: int
    #: Vain polls after which a look-back gives up.
    spins: int

    @property
    def items(self) -> int:
        """Work-items of a launch."""
        return self.groups * self.local_size

    @property
    def instances(self) -> int:
        """Instances in one launch."""
        return self.rounds * self.teams

    def longer(self) -> Size:
        """A launch of up to four times the rounds."""
        return replace(self, rounds=min(self.most_rounds, 4 * self.rounds))


@dataclass(frozen=True)
class Scale:
    """The properties that determine sizes: kind and width of the device."""

    kind: str
    units: int
    in_flight: int
    most_local: int
    loop_limit: int | None
    rate: float
    most_words: int

    @classmethod
    def of(cls, profile: DeviceProfile, atomics: str) -> Scale:
        """The scale of a device, from its facts and findings, with one atomics strategy."""
        facts, findings = profile.facts, profile.findings
        rate = (findings.polls_per_second if findings is not None else None) or _ASSUMED_RATE
        limit = profile.loop_limit
        kind = profile.units.kind
        if limit is not None:
            kind = "short loops"
        elif kind != "gpu" and rate < _SLOW_RATE:
            kind = "simulator"
        rate = min(rate, _MOST_RATE_CL12 if BACKENDS[atomics].loads_write else _MOST_RATE)
        words = _MOST_WORDS if kind == "gpu" else _MOST_WORDS_CPU
        if facts.global_mem_size:
            words = min(words, int(facts.global_mem_size * _MOST_PART) // 4)
        units = facts.compute_units or 1
        in_flight = (findings.groups_in_flight if findings is not None else None) or units
        return cls(kind, units, in_flight, facts.max_work_group_size or 1, limit, rate, words)

    def across(self, threads: int) -> Size | str:
        """The size of a test across work-groups, or why it cannot be run."""
        if self.in_flight < threads:
            return f"needs {threads} concurrent work-groups, the device runs {self.in_flight}"
        if self.kind == "gpu":
            local_size = min(256, self.most_local)
            # One column more than threads: its work-groups disturb.
            rows = max(1, 4 * self.units // (threads + 1))
            return self._size((threads + 1) * rows, local_size, rows * local_size, threads, 16, self._polls())
        rows = max(1, self._width() // threads)
        rounds = {"cpu": 4096, "simulator": 16}.get(self.kind, 256)
        return self._size(threads * rows, 1, rows, threads, rounds, self._polls())

    def within(self, threads: int) -> Size | str:
        """The size of a test in one work-group, or why it cannot be run."""
        if self.most_local < threads:
            return f"needs a work-group of {threads}, the device's have {amount(self.most_local, 'work-item')} at most"
        local_size = min({"gpu": 256, "simulator": 8}.get(self.kind, 64), self.most_local)
        groups = 4 * self.units if self.kind == "gpu" else self._width()
        rounds = {"cpu": 64, "simulator": 4}.get(self.kind, 16)
        return self._size(groups, local_size, groups * (local_size // threads), threads, rounds, (0, 0))

    def pattern(self, local_size: int) -> Size | str:
        """The size of a pattern whose groups have up to `local_size` work-items, or why it cannot be run."""
        if self.in_flight < 2:
            return "only one work-group runs at a time"
        local_size = min(local_size if self.kind == "gpu" else 4, local_size, self.most_local)
        groups = 4 * self.units if self.kind == "gpu" else self._width()
        members = min(16, groups)
        teams = groups // members
        rounds = {"cpu": 256, "simulator": 8}.get(self.kind, 16)
        words = members * (local_size + 3)
        return self._size(teams * members, local_size, teams, members, rounds, self._polls(), words)

    @property
    def unroll(self) -> int:
        """Polls in one iteration of a rendezvous."""
        return _UNROLL if self.kind == "short loops" else 1

    def _width(self) -> int:
        """Work-groups at the same time where they are threads of the host."""
        return max(1, min(self.in_flight, max(2, self.units)))

    def _polls(self) -> tuple[int, int]:
        """Limit of a rendezvous, and of the first one of a launch."""
        if self.kind == "gpu":
            return _POLLS_OTHER, _POLLS_OTHER
        if self.kind == "short loops":
            return _SHORT_MEETING, _SHORT_FIRST_MEETING
        return max(64, int(self.rate * _MEETING_S)), max(256, int(self.rate * _FIRST_MEETING_S))

    def _size(
        self,
        groups: int,
        local_size: int,
        teams: int,
        members: int,
        rounds: int,
        polls: tuple[int, int],
        words: int | None = None,
    ) -> Size:
        most = self.most_words // (teams * (words or MOST_BLOCK))
        if self.loop_limit is not None:
            # The loops inside a round, such as that which clears local memory, count too.
            most = min(most, self.loop_limit // _ITERATIONS_A_ROUND)
        if self.kind == "simulator":
            most = min(most, 64)
        most = max(1, min(_MOST_ROUNDS, most))
        return Size(
            groups=groups,
            local_size=local_size,
            teams=teams,
            members=members,
            rounds=min(rounds, most),
            polls=polls[0],
            first_polls=polls[1],
            always_meet=self.kind != "gpu",
            before=0 if self.kind in {"simulator", "short loops"} else None,
            most_rounds=most,
            spins=_SPINS_SHORT if self.loop_limit is not None else max(_LEAST_SPINS, polls[1]),
        )
