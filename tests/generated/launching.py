"""Draws, builds and launches programs on a device, and compares with the interpreter."""

from __future__ import annotations

import random
import warnings

import numpy as np
import pyopencl as cl

import portbar
from tests.generated.drawing import Draw
from tests.generated.expressions import INPUTS
from tests.generated.guards import Guard, GuardDraw
from tests.generated.interpreter import Machine, TooLongError
from tests.generated.loops import KINDS, LoopDraw
from tests.generated.primitives import CAPACITY, ROOM, Exchange
from tests.generated.programs import ARGUMENTS, VARIABLES, Program
from tests.generated.scan_programs import ScanProgram
from tests.generated.statements import Atomic
from tests.generated.tree import Node
from tests.generated.verdicts import Verdict
from tests.generated.waiting import Locked
from tests.support import filled, to_device, uints

LOCAL_SIZES = (1, 8, 13)
MOST_GROUPS = 4
SCANNED_GROUPS = 7
SPIN_LIMIT_S = 5.0
#: One of that many programs makes a scan without a grid.
SCANS = 8
#: From this seed on, programs have loops that work-items leave at different turns, and `goto`.
LOOPS_FROM = 1_000_000
#: From this one on, they have guards as well: jumps of all that none makes, in places to which only some come.
GUARDS_FROM = 10_000_000
#: First seed -> what draws the programs from it on, and nodes of which each has one.
KINDS_FROM: dict[int, tuple[type[Draw], tuple[type[Node], ...]]] = {
    0: (Draw, ()),
    LOOPS_FROM: (LoopDraw, KINDS),
    GUARDS_FROM: (GuardDraw, (Guard,)),
}
SCAN = {"add": "+", "max": "max", "xor": "^"}
SUM = portbar.ReductionLoop("sum", {"total": portbar.Reduction(np.uint32, "+")})


def inputs(seed: int) -> np.ndarray:
    """Return the values of `x`."""
    draw = random.Random(seed)  # noqa: S311 (nothing secret)
    return np.array(draw.choices((0, 1, 2, 7), k=INPUTS), np.uint32)


def memory(program: Program, seed: int) -> dict[str, np.ndarray]:
    """Return what the kernel reads and writes, before a launch."""
    cells = max((node.cell for node in program.walk() if isinstance(node, (Atomic, Locked))), default=0)
    return {
        "cells": np.zeros(cells + 1, np.uint32),
        "out": np.full(len(VARIABLES) * ROOM, 0xABCD, np.uint32),
        "x": inputs(seed),
        "flag": np.zeros(3, np.uint32),
    }


def expected(program: Program, seed: int, groups: int, local: int) -> Machine:
    """Return the machine after the launch of that many groups."""
    machine = Machine(groups, local, memory(program, seed))
    program.run(machine)
    return machine


def drawn(seed: int) -> Program:
    """Return the program of a seed: the first that it draws whose loops end soon and that contains collectives."""
    draws = random.Random(seed)  # noqa: S311 (nothing secret)
    kind, has = KINDS_FROM[max(first for first in KINDS_FROM if first <= seed)]
    while True:
        program = kind(draws).scan_program() if seed % SCANS == SCANS - 1 else kind(draws).program()
        if has and not any(isinstance(node, has) for node in program.walk()):
            continue
        try:
            met = [expected(program, seed, groups, 8).met for groups in (1, 2, MOST_GROUPS)]
        except TooLongError:
            continue
        if min(met) >= 2:
            return program


class Bench:
    """A device on which programs are tried."""

    def __init__(self, context: cl.Context) -> None:
        self.context = context
        self.queue = cl.CommandQueue(context)

    def verdict(self, program: Program, seed: int) -> Verdict:
        """Build a program and launch it with each local size."""
        text = program.text()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                made = portbar.Program(
                    self.context,
                    text,
                    reductions=(SUM,) if "sum" in program.parts else (),
                    scans=(portbar.DeviceScan("rank", np.uint32, SCAN[program.operator]),)
                    if isinstance(program, ScanProgram)
                    else (),
                    spin_limit=SPIN_LIMIT_S,
                ).kernel("k")
        except portbar.UnsupportedFeatureError as error:
            return Verdict("unsupported", str(error))
        except portbar.MisuseError as error:
            return Verdict("refused", str(error))
        except portbar.BuildError as error:
            return Verdict("not built", str(error))
        for local in LOCAL_SIZES:
            found = self.launched(made, program, seed, local)
            if found:
                return found
        return Verdict("right")

    def launched(self, made: portbar.Kernel, program: Program, seed: int, local: int) -> Verdict | None:
        """Launch once; return None where the result is right."""
        queue, before = self.queue, memory(program, seed)
        buffers = {name: to_device(queue, values) for name, values in before.items()}
        flag = buffers.pop("flag")
        slots = 1 + max((node.slot for node in program.walk() if isinstance(node, Exchange)), default=0)
        own = {
            "board": [filled(queue, slots * ROOM)],
            "signal": [filled(queue, MOST_GROUPS + 1), filled(queue, MOST_GROUPS)],
            "lock": [filled(queue, 1), filled(queue, 2)],
            "flag": [flag],
            "frontier": [],
            "tasks": [],
        }
        for name, kind in (("frontier", portbar.Frontier), ("tasks", portbar.TaskQueue)):
            if name in program.parts:
                worklist = kind(queue, capacity=CAPACITY, dtype=np.uint32)
                worklist.set([])
                own[name] = list(worklist.args)
        parts = [one for name in program.parts for one in own.get(name, [])]
        given = [*buffers.values(), *parts, *(np.uint32(value) for value in ARGUMENTS.values())]
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                if isinstance(program, ScanProgram):
                    groups = SCANNED_GROUPS
                    made(queue, (groups * local,), (local,), *given).wait()
                else:
                    groups = min(MOST_GROUPS, made.occupancy(queue, (local,), *given).groups)
                    launch = made(queue, None, (local,), *given, num_groups=groups)
                    launch.wait()
                    groups = launch.num_groups
        except (portbar.Error, cl.Error) as error:
            return Verdict(type(error).__name__, f"local size {local}: {error}")
        after = expected(program, seed, groups, local).memory
        for name in ("cells", "out", "flag"):
            found = uints(queue, flag if name == "flag" else buffers[name])
            wrong = np.flatnonzero(found != after[name])
            if wrong.size:
                first = int(wrong[0])
                place = f"{name}[{first}]" if name != "out" else f"{VARIABLES[first // ROOM]} of {first % ROOM}"
                return Verdict(
                    "wrong",
                    f"local size {local}, {groups} groups: {wrong.size} values, the first is {place}: "
                    f"{found[first]}, not {after[name][first]}",
                )
        return None
