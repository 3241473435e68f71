"""Programs of loopy with global barriers: what they compute, their arrays, and their numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import loopy as lp
import numpy as np

#: Work-items of a work-group.
ITEMS = 16


@dataclass(frozen=True)
class LoopyProgram:
    """A program for any target, and what it is called with."""

    domains: Any
    body: str
    arrays: Mapping[str, np.ndarray]
    numbers: Mapping[str, Any]
    #: Index -> axis of work-groups and work-items.
    axes: Mapping[str, int]
    more: tuple[Any, ...] = ()
    transformed: Callable[[Any], Any] = lambda program: program
    options: Mapping[str, Any] = field(default_factory=dict)

    def made(self, target: Any) -> Any:
        """The program."""
        program = lp.make_kernel(
            self.domains,
            self.body,
            [
                *(lp.GlobalArg(name, array.dtype, shape=lp.auto) for name, array in self.arrays.items()),
                *(lp.ValueArg(name, value.dtype) for name, value in self.numbers.items()),
                *self.more,
            ],
            name="made",
            target=target,
            seq_dependencies=True,
            lang_version=(2018, 2),
            **self.options,
        )
        for index, axis in self.axes.items():
            program = lp.split_iname(program, index, ITEMS, outer_tag=f"g.{axis}", inner_tag=f"l.{axis}")
        return self.transformed(program)


def _random(*shape: int) -> np.ndarray:
    return np.random.default_rng(39).random(shape).astype(np.float32)


STENCIL = LoopyProgram(
    "{[t, i, j]: 0 <= t < steps and 0 <= i, j < n}",
    """
    for t
        for i
            b[i] = scale * (a[i] + a[(i + 1) % n] + t)
        end
        ... gbarrier
        for j
            a[j] = b[j] + scale * b[(j + 3) % n]
        end
        ... gbarrier
    end
    """,
    {"a": _random(100), "b": np.zeros(100, np.float32)},
    {"n": np.int32(100), "steps": np.int32(7), "scale": np.float32(0.25)},
    {"i": 0, "j": 0},
)

#: Work-items take part by the turn.
ELIMINATION = LoopyProgram(
    "{[t, i, k, j]: 0 <= t < n - 1 and t + 1 <= i, k < n and t <= j < n}",
    """
    for t
        for i
            f[i] = a[i, t] / a[t, t]
        end
        ... gbarrier
        for k, j
            a[k, j] = a[k, j] - f[k] * a[t, j]
        end
        ... gbarrier
    end
    """,
    {"a": _random(40, 40) + 40 * np.eye(40, dtype=np.float32), "f": np.zeros(40, np.float32)},
    {"n": np.int32(40)},
    {"i": 0, "k": 1, "j": 0},
    options={"assumptions": "n >= 2"},
)

#: A loop whose bound is the turn of another, and a statement of some turns only.
TRIANGLE = LoopyProgram(
    [
        "{[t]: 0 <= t < steps}",
        "[t] -> {[s]: 0 <= s <= t}",
        "{[i, j]: 0 <= i, j < n}",
        "[n, t] -> {[k]: 0 <= k < n and t >= 2}",
    ],
    """
    for t
        for s
            for i
                b[i] = b[i] + a[(i + s) % n]
            end
            ... gbarrier
            for j
                a[j] = a[j] + 2 * b[(j + t) % n]
            end
            ... gbarrier
        end
        for k
            a[k] = a[k] - b[k]
        end
        ... gbarrier
    end
    """,
    {"a": np.arange(50, dtype=np.int32), "b": np.zeros(50, np.int32)},
    {"n": np.int32(50), "steps": np.int32(5)},
    {"i": 0, "j": 0, "k": 0},
    options={"assumptions": "n >= 1"},
)

#: An array of the program's own.
REVERSAL = LoopyProgram(
    "{[t, i, j]: 2 <= t < 7 and 0 <= i, j < n}",
    """
    for t
        for i
            own[i] = 2 * a[i] + t
        end
        ... gbarrier
        for j
            a[j] = own[n - 1 - j]
        end
        ... gbarrier
    end
    """,
    {"a": np.arange(70, dtype=np.int32)},
    {"n": np.int32(70)},
    {"i": 0, "j": 0},
    (lp.TemporaryVariable("own", np.int32, shape="n", address_space=lp.AddressSpace.GLOBAL),),
)

#: Parts are summed through local memory, and then each element is changed by a neighbour's sum.
PREFIX = LoopyProgram(
    "{[t, part, at, to, j]: 0 <= t < 3 and 0 <= part < parts and 0 <= at, to < 16 and 0 <= j < parts}",
    """
    for t
        for part
            sums[part] = sum(at, a[16 * part + at])
        end
        ... gbarrier
        for j, to
            a[16 * j + to] = a[16 * j + to] + sums[(j + 1) % parts]
        end
        ... gbarrier
    end
    """,
    {"a": np.arange(160, dtype=np.int32), "sums": np.zeros(10, np.int32)},
    {"parts": np.int32(10)},
    {},
    transformed=lambda program: lp.tag_inames(program, {"part": "g.0", "at": "l.0", "j": "g.0", "to": "l.0"}),
    options={"silenced_warnings": ["write_race(insn)"]},
)

#: Work-groups of 16 and of 8 work-items, which both meet.
UNEVEN = LoopyProgram(
    "{[one, at, two, to]: 0 <= one, two < parts and 0 <= at < 16 and 0 <= to < 8}",
    """
    sums[one] = sum(at, a[16 * one + at])
    ... gbarrier
    halves[two] = sums[two] + sum(to, a[16 * two + to])
    """,
    {"a": np.arange(160, dtype=np.int32), "sums": np.zeros(10, np.int32), "halves": np.zeros(10, np.int32)},
    {"parts": np.int32(10)},
    {},
    transformed=lambda program: lp.tag_inames(program, {"one": "g.0", "at": "l.0", "two": "g.0", "to": "l.0"}),
    options={"silenced_warnings": ["write_race(insn)", "write_race(insn_1)"]},
)

COMPLEX = LoopyProgram(
    "{[t, i, j]: 0 <= t < 4 and 0 <= i, j < n}",
    """
    for t
        for i
            b[i] = factor * a[i] * a[i] + 1
        end
        ... gbarrier
        for j
            a[j] = b[(j + 1) % n]
        end
        ... gbarrier
    end
    """,
    {"a": ((_random(50) + 1j * _random(50)) / 4).astype(np.complex64), "b": np.zeros(50, np.complex64)},
    {"n": np.int32(50), "factor": np.complex64(0.5 + 0.25j)},
    {"i": 0, "j": 0},
)

PROGRAMS = {
    "stencil": STENCIL,
    "elimination": ELIMINATION,
    "triangle": TRIANGLE,
    "reversal": REVERSAL,
    "prefix": PREFIX,
    "complex": COMPLEX,
}
