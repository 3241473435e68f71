"""Litmus tests with published verdicts: what shows that the axioms are those of the models.

A test's threads are written one a line, each in a work-group of its own where nothing else is said. `W x 1 release`
writes, `R x a acquire` reads into `a`, `U x a 2` exchanges, `F seq_cst` is a fence, `D a` makes later operations depend on
`a`, `B` is a work-group's barrier; `.group` after an order narrows its scope. The outcome names registers, or places
with a final value.

Each verdict is that of a published file where one was found (`CHECKED`); `unverified` names the others, which follow from
the papers and specifications. OpenCL's are Batty, Donaldson and Wickerson (POPL 2016) and the OpenCL C 3.0 specification,
section 6.13.11 and the API specification's section 3.3.4; PTX's are Lustig, Sahasrabuddhe and Giroux (ASPLOS 2019) and the
PTX ISA's chapter "Memory Consistency Model". The tests' names are those of Alglave, Maranget and Tautschnig (TOPLAS 2014).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import z3

from .axioms import Constraints
from .events import Event, Execution


@dataclass(frozen=True)
class Litmus:
    """A program, an outcome, and the models that allow it."""

    name: str
    threads: tuple[str, ...]
    outcome: str
    allowed: tuple[str, ...]
    models: tuple[str, ...] = ("OpenCL", "PTX")
    groups: tuple[int, ...] = ()


def _both(name: str, threads: str, outcome: str, *allowed: str, groups: tuple[int, ...] = ()) -> Litmus:
    return Litmus(name, tuple(threads.split(" | ")), outcome, allowed, groups=groups)


def _only(model: str, name: str, threads: str, outcome: str, *, allowed: bool, groups: tuple[int, ...] = ()) -> Litmus:
    return Litmus(name, tuple(threads.split(" | ")), outcome, (model,) if allowed else (), (model,), groups)


_MP: Final = "y=1 x=0"
_IRIW: Final = "a=1 b=0 c=1 d=0"
TESTS: Final = (
    _both("MP", "W x 1; W y 1 | R y y; R x x", _MP, "OpenCL", "PTX"),
    _both("MP+rel+acq", "W x 1; W y 1 release | R y y acquire; R x x", _MP),
    _both("MP+rel+rlx", "W x 1; W y 1 release | R y y; R x x", _MP, "OpenCL", "PTX"),
    _both("MP+rlx+acq", "W x 1; W y 1 | R y y acquire; R x x", _MP, "OpenCL", "PTX"),
    _both("MP+fences", "W x 1; F release; W y 1 | R y y; F acquire; R x x", _MP),
    _both("MP+fence.acq_rel", "W x 1; F acq_rel; W y 1 | R y y; F acq_rel; R x x", _MP),
    _both("MP+fence+rlx", "W x 1; F acq_rel; W y 1 | R y y; R x x", _MP, "OpenCL", "PTX"),
    _both("MP+fence one way wrong", "W x 1; F acquire; W y 1 | R y y; F acq_rel; R x x", _MP, "OpenCL", "PTX"),
    _both("MP+scopes", "W x 1; W y 1 release.group | R y y acquire.group; R x x", _MP, "OpenCL", "PTX"),
    _both("MP+one scope", "W x 1; W y 1 release | R y y acquire.group; R x x", _MP, "OpenCL", "PTX"),
    _both("MP+scopes in group", "W x 1; W y 1 release.group | R y y acquire.group; R x x", _MP, groups=(0, 0)),
    _both("MP+rmw between", "W x 1; W y 1 release | U y a 2 | R y y acquire; R x x", "a=1 y=2 x=0"),
    _both(
        "MP+store between",
        "W x 1; W y 1 release | R y a; D a; W y 2 | R y y acquire; R x x",
        "a=1 y=2 x=0",
        "OpenCL",
        "PTX",
    ),
    _both("MP+barrier", "W x 1; B; W z 1 | B; R x x", "x=0", groups=(0, 0)),
    _only("PTX", "MP+acquire pattern", "W x 1; W y 1 release | R y a; R y y acquire; R x x", "a=1 x=0", allowed=False),
    _only("PTX", "MP+release pattern", "W x 1; W y 1 release; W y 2 | R y y acquire; R x x", "y=2 x=0", allowed=False),
    _both("SB", "W x 1; R y a | W y 1; R x b", "a=0 b=0", "OpenCL", "PTX"),
    _both("SB+rel+acq", "W x 1 release; R y a acquire | W y 1 release; R x b acquire", "a=0 b=0", "OpenCL", "PTX"),
    _both("SB+fence.acq_rel", "W x 1; F acq_rel; R y a | W y 1; F acq_rel; R x b", "a=0 b=0", "OpenCL", "PTX"),
    _both("SB+fence.sc", "W x 1; F seq_cst; R y a | W y 1; F seq_cst; R x b", "a=0 b=0"),
    _both("SB+one fence.sc", "W x 1; F seq_cst; R y a | W y 1; R x b", "a=0 b=0", "OpenCL", "PTX"),
    _both(
        "SB+fence.sc.group", "W x 1; F seq_cst.group; R y a | W y 1; F seq_cst.group; R x b", "a=0 b=0", "OpenCL", "PTX"
    ),
    _only("OpenCL", "SB+sc", "W x 1 seq_cst; R y a seq_cst | W y 1 seq_cst; R x b seq_cst", "a=0 b=0", allowed=False),
    _both("SB+rmws", "U x p 1 acq_rel; R y a acquire | U y q 1 acq_rel; R x b acquire", "a=0 b=0", "OpenCL", "PTX"),
    _both("LB", "R x a; W y 1 | R y b; W x 1", "a=1 b=1", "OpenCL", "PTX"),
    _both("LB+rel+acq", "R x a acquire; W y 1 release | R y b acquire; W x 1 release", "a=1 b=1"),
    _both("LB+dependencies", "R x a; D a; W y 1 | R y b; D b; W x 1", "a=1 b=1"),
    _both("CoRR", "W x 1 | R x a; R x b", "a=1 b=0"),
    _both("CoWR", "W x 1; R x a | W x 2", "a=0"),
    _both("CoRW", "R x a; W x 1 | W x 2", "a=1"),
    _both("CoWW", "W x 1; W x 2", "x:1"),
    _both("CoRR+two", "W x 1 | W x 2 | R x a; R x b | R x c; R x d", "a=1 b=2 c=2 d=1"),
    _both("IRIW", "W x 1 | W y 1 | R x a; R y b | R y c; R x d", _IRIW, "OpenCL", "PTX"),
    _both(
        "IRIW+acq",
        "W x 1 release | W y 1 release | R x a acquire; R y b acquire | R y c acquire; R x d acquire",
        _IRIW,
        "OpenCL",
        "PTX",
    ),
    # C11's fences are known to be too weak for this one (Lahav et al., "Repairing sequential consistency", PLDI 2017).
    _both("IRIW+fence.sc", "W x 1 | W y 1 | R x a; F seq_cst; R y b | R y c; F seq_cst; R x d", _IRIW, "OpenCL"),
    _only(
        "OpenCL",
        "IRIW+sc",
        "W x 1 seq_cst | W y 1 seq_cst | R x a seq_cst; R y b seq_cst | R y c seq_cst; R x d seq_cst",
        _IRIW,
        allowed=False,
    ),
    _both("WRC", "W x 1 | R x a; W y 1 | R y b; R x c", "a=1 b=1 c=0", "OpenCL", "PTX"),
    _both("WRC+rel+acq", "W x 1 release | R x a acquire; W y 1 release | R y b acquire; R x c", "a=1 b=1 c=0"),
    _only(
        "OpenCL", "WRC+rlx first", "W x 1 | R x a; W y 1 release | R y b acquire; R x c", "a=1 b=1 c=0", allowed=False
    ),
    _only("PTX", "WRC+rlx first", "W x 1 | R x a; W y 1 release | R y b acquire; R x c", "a=1 b=1 c=0", allowed=False),
    _both("ISA2", "W x 1; W y 1 | R y a; W z 1 | R z b; R x c", "a=1 b=1 c=0", "OpenCL", "PTX"),
    _both("ISA2+rel+acq", "W x 1; W y 1 release | R y a acquire; W z 1 release | R z b acquire; R x c", "a=1 b=1 c=0"),
    _both(
        "ISA2+rlx middle",
        "W x 1; W y 1 release | R y a; D a; W z 1 release | R z b acquire; R x c",
        "a=1 b=1 c=0",
        "OpenCL",
        "PTX",
    ),
    _both("2+2W", "W x 1; W y 2 | W y 1; W x 2", "x:1 y:1", "OpenCL", "PTX"),
    _both("2+2W+rel", "W x 1 release; W y 2 release | W y 1 release; W x 2 release", "x:1 y:1", "OpenCL", "PTX"),
    _both("2+2W+fence.sc", "W x 1; F seq_cst; W y 2 | W y 1; F seq_cst; W x 2", "x:1 y:1"),
    _both("exchange once", "U x a 1 | U x b 2", "a=0 b=0"),
)

_POP: Final = "goens/lost-pop-lean, Litmus/PTX.lean: "
_MIXED: Final = "NVlabs/mixedproxy, tests/"
_DAT3M: Final = "hernanponcedeleon/Dat3M, litmus/"
#: Test and model -> a public repository's file, and the test in it, whose verdict is the same. In brackets how that test
#: differs; where it does, its verdict implies this one's, or its operations are plain where these are relaxed.
CHECKED: Final = {
    ("MP", "PTX"): _POP + "MP",
    ("MP+rel+acq", "PTX"): _MIXED + "MP_gpu.test, first row",
    ("MP+fences", "PTX"): _POP + "MP_fence_rel_acq",
    ("MP+fence+rlx", "PTX"): _POP + "MP_fence1 (fence.sc, and allowed nevertheless)",
    ("MP+scopes", "PTX"): _POP + "MP_fence_cta (fence.sc of that scope)",
    ("MP+one scope", "PTX"): _POP + "MP_fence_cta_1fence (fence.sc of these scopes)",
    ("MP+scopes in group", "PTX"): _MIXED + "MP_cta.test, first row",
    # NVlabs/mixedproxy's Release_acquire_pattern.test permits the like, as its model lacks acquire patterns that end in a
    # fence; PTX ISA 8.8 and Dat3M's litmus/PTX/Nvidia/Release-acquire-pattern.litmus (forbidden) have them.
    ("MP+release pattern", "PTX"): _POP + "MP_rel_seq",
    ("SB", "PTX"): _POP + "dekkers",
    ("SB+rel+acq", "PTX"): _POP + "dekkers_acqrel",
    ("SB+fence.acq_rel", "PTX"): _POP + "dekkers_acqrelfence",
    ("SB+fence.sc", "PTX"): _MIXED + "Manual/SB+sc-gpu.test",
    ("CoRR", "PTX"): _POP + "simple_write_serialization (of two writes)",
    ("CoWR", "PTX"): _MIXED + "CoWR.test, first row (without the other work-item)",
    ("CoWW", "PTX"): _MIXED + "Manual/CoWW-R.test (by a read)",
    ("CoRR+two", "PTX"): _MIXED + "Manual/Coherence.test (reads acquire, in one group)",
    ("IRIW", "PTX"): _POP + "IRIW",
    ("IRIW+acq", "PTX"): _POP + "IRIW_relacq",
    ("IRIW+fence.sc", "PTX"): _POP + "IRIW_fences",
    ("WRC", "PTX"): _POP + "WRC_no_dep (one read acquires, and allowed nevertheless)",
    ("WRC+rel+acq", "PTX"): _POP + "WRC_acqrel",
    ("WRC+rlx first", "PTX"): _POP + "WRC_rel_mid_no_fence (acquires by a fence)",
    ("ISA2", "PTX"): _POP + "MP3",
    ("ISA2+rel+acq", "PTX"): _MIXED + "ISA2.test (the first pair in one group)",
    ("ISA2+rlx middle", "PTX"): _POP + "MP3_fences_rel (by fences)",
    ("2+2W", "PTX"): _POP + "two_plus_two2_rlx",
    ("2+2W+rel", "PTX"): _POP + "two_plus_two2",
    ("MP", "OpenCL"): _DAT3M + "C11/manual/mp_relaxed.litmus",
    ("MP+rel+acq", "OpenCL"): _DAT3M + "OPENCL/overhauling/MP_ra_dev.litmus",
    ("MP+fences", "OpenCL"): _DAT3M + "C11/manual/mp_fences.litmus",
    ("MP+fence+rlx", "OpenCL"): _DAT3M + "OPENCL/herd/MP.litmus",
    ("MP+scopes", "OpenCL"): _DAT3M + "OPENCL/overhauling/MP_ra_wg.litmus",
    ("SB", "OpenCL"): _DAT3M + "OPENCL/herd/SB.litmus (plain)",
    ("LB", "OpenCL"): _DAT3M + "OPENCL/herd/LB.litmus (plain)",
    ("IRIW+acq", "OpenCL"): _DAT3M + "C11/manual/cppmem_iriw_relacq.litmus",
    ("IRIW+sc", "OpenCL"): _DAT3M + "OPENCL/overhauling/IRIW_sc_dev.litmus",
    ("ISA2", "OpenCL"): _DAT3M + "OPENCL/herd/ISA2.litmus (plain)",
    ("ISA2+rel+acq", "OpenCL"): _DAT3M + "OPENCL/overhauling/ISA2.litmus (the first pair in one group)",
}


def unverified() -> list[tuple[str, str]]:
    """Return the tests and models for whose verdict no published file was found."""
    return [(test.name, model) for test in TESTS for model in test.models if (test.name, model) not in CHECKED]


def execution(test: Litmus) -> tuple[Execution, dict[str, z3.BitVecRef]]:
    """Return a test's events, and the registers."""
    found = Execution()
    registers: dict[str, z3.BitVecRef] = {}
    members: dict[int, int] = {}
    numbers = test.groups or tuple(range(len(test.threads)))
    waiting: dict[int, list[tuple[int, ...]]] = {}
    threads = [[step.split() for step in thread.split("; ")] for thread in test.threads]
    rest = []

    def run(number: int, steps: list[list[str]], item: int, before: tuple[int, ...], guard: z3.BoolRef) -> None:
        group = numbers[number]
        for index, step in enumerate(steps):
            kind, *given = step
            if kind == "B":
                waiting.setdefault(group, []).append(before)
                rest.append((number, steps[index + 1 :], item, guard))
                return
            if kind == "D":
                guard = z3.And(guard, registers[given[0]] != 0)
                continue
            order, _, scope = (
                given[{"F": 0, "R": 2}.get(kind, 2 if kind == "W" else 3) :][0:1][0].partition(".")
                if (len(given) > {"F": 0, "R": 2, "W": 2, "U": 3}[kind])
                else ("relaxed", "", "")
            )
            both = order in ("acq_rel", "seq_cst")
            event = Event(
                len(found.events),
                group,
                item,
                {"F": "fence", "R": "read", "W": "write", "U": "update"}[kind],
                before,
                guard,
                (),
                " ".join(step),
                place=None if kind == "F" else (given[0], 0),
                acquires=kind != "W" and (both or order == "acquire"),
                releases=kind != "R" and (both or order == "release"),
                sc=order == "seq_cst",
                scope=scope or "device",
                found=z3.BitVec(f"register_{given[1]}", 32) if kind in "RU" else None,
                value=z3.BitVecVal(int(given[1 if kind == "W" else 2]), 32) if kind in "WU" else None,
                wrote=guard,
            )
            if event.found is not None:
                registers[given[1]] = event.found
            found.events.append(event)
            before = (event.number,)

    for number, steps in enumerate(threads):
        item = members.get(numbers[number], 0)
        members[numbers[number]] = item + 1
        run(number, steps, item, (), z3.BoolVal(True))
    hubs = {}
    for group, befores in waiting.items():
        hub = Event(len(found.events), group, -1, "barrier", sum(befores, ()), z3.BoolVal(True), (), "barrier")
        found.events.append(hub)
        hubs[group] = hub.number
    for number, steps, item, guard in rest:
        run(number, steps, item, (hubs[numbers[number]],), guard)
    return found, registers


def allows(test: Litmus, model: str) -> bool:
    """Whether the axioms allow a test's outcome."""
    found, registers = execution(test)
    constraints = Constraints(found, ptx=model == "PTX", unread=True)
    solver = constraints.solver
    for part in test.outcome.split():
        name, mark, number = (part[0], part[1], part[2:])
        if mark == "=":
            solver.add(registers[name] == int(number))
            continue
        writers = [event for event in constraints.by_place[name, 0] if event.writes]
        for event in writers:
            last = z3.And(
                *(z3.UGE(constraints.position[event.number], constraints.position[other.number]) for other in writers)
            )
            solver.add(z3.Implies(last, event.value == int(number)))
    return bool(solver.check() == z3.sat)
