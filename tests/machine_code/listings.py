"""Reads listings of machine code: a kernel's memory accesses, in its loops and in all."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class Isa:
    """How a listing of one instruction set is read."""

    #: Regular expression of a line that names a place; group 1 is the name.
    label: str
    #: Of a line that may go elsewhere; its groups that are not None are names of places.
    branch: str
    #: Of a line after which control does not go on with the next.
    leaves: str
    #: Of a line that is an instruction.
    instruction: str
    #: `load`, `rmw`, `store` of global memory; `acquire`, which makes what other work-groups have written visible; `release`,
    #: which waits for or writes back what this one has written; `scratch`, private values in memory.
    kinds: Mapping[str, str]


AMD: Final = Isa(
    label=r"^(\.LBB\w+):",
    branch=r"^\s+s_c?branch\w*\s+(\.LBB\w+)",
    leaves=r"^\s+s_(?:branch|endpgm|setpc)",
    instruction=r"^\s+[a-z]\w+ ",
    kinds={
        "load": r"^\s+(?:global|flat)_load_d?(?:word|b32|dword)\b",
        "rmw": r"^\s+(?:global|flat)_atomic_",
        "store": r"^\s+(?:global|flat)_store_",
        # On gfx10 and later an invalidation of L1 comes with each of L0 that orders memory throughout the device.
        "acquire": r"^\s+(?:buffer_wbinvl1|buffer_inv sc1|buffer_gl1_inv|global_inv scope:SCOPE_(?:DEV|SYS))",
        "release": r"^\s+(?:buffer_wbl2|global_wb|s_waitcnt.*(?:vmcnt|vscnt)\(?\s*0|s_wait_storecnt|s_waitcnt_vscnt)",
        "scratch": r"^\s+(?:scratch_|buffer_(?:load|store)_)",
    },
)

#: Only the first part of an instruction that is executed in parts; the text after `//` is the disassembler's reading of it.
#: A descriptor that ends with FE is of local memory.
_SENDS: Final = r"\bsend\w*(?:\.\w+)? +\(\d+\|M0\).*\b0x\w{6}(?!FE)\w\w\b.*//.*"
INTEL: Final = Isa(
    label=r"^(L\d+):",
    # Of two places a work-item goes to the second; its group goes on with the first, where others may come in.
    branch=r"\b(?:(?:jmpi|while)\b.*?\s(L\d+)|goto(?:\.b)?\b.*?\sL\d+\s+(L\d+))",
    leaves=r"^ +(?:\(W\) +jmpi|goto)\b|\bEOT\b",
    instruction=r"^(?:\(| +\w)",
    kinds={
        "load": _SENDS + r"(?:gathering read|untyped (?:a64|surface) read|load\.ugm\.\w+\.a64)",
        # An exchange is a store with a result.
        "rmw": _SENDS
        + r"(?:atomic int32 (?!store)|atomic_(?!store|load)\w+\.ugm|rd:[1-9].*(?:atomic int32 |atomic_)store)",
        "store": _SENDS
        + r"rd:0.*(?:atomic int32 store|atomic_store\.ugm|scattering write|untyped a64 write|store\.ugm)",
        "acquire": _SENDS + r"(?:global fence flushing|fence\.ugm\.(?:evict|invalidate)\.gpu)",
        "release": _SENDS + r"(?:global fence flushing|fence\.ugm\.\w+\.gpu)",
        "scratch": _SENDS + r"(?:scratch|a32.*ss\[)",
    },
)

PTX: Final = Isa(
    label=r"^(\$?L(?:__)?BB\w+):",
    branch=r"^\s+(?:@!?%p\d+ )?bra(?:\.uni)?\s+(\$?L(?:__)?BB\w+)",
    leaves=r"^\s+(?:bra|ret)\b",
    instruction=r"^\s+(?:@!?%p\d+ )?[a-z]\w+\.",
    kinds={
        "load": r"^\s+ld\.(?:relaxed|acquire|volatile)\b",
        "rmw": r"^\s+(?:atom|red)\.",
        "store": r"^\s+st\.(?:relaxed|release|volatile)\b",
        "acquire": r"^\s+(?:ld\.acquire|atom\.acq\w*|fence\.(?:acquire|acq_rel|sc)|membar)\b",
        "release": r"^\s+(?:st\.release|(?:atom|red)\.(?:release|acq_rel)|fence\.(?:release|acq_rel|sc)|membar)\b",
        "scratch": r"^\s+(?:ld|st)\.local\b",
    },
)

SASS: Final = Isa(
    label=r"^(\.L_x_\d+):",
    branch=r"\bBRA(?:\.\w+)*\s+.*?(?:`\()?(\.L_x_\d+)",
    leaves=r"^\s+/\*\w+\*/\s+(?:BRA(?:\.\w+)* +`|EXIT|RET)",
    instruction=r"^\s+/\*\w+\*/\s+[A-Z@]",
    kinds={
        "load": r"\bLDG?(?:\.\w+)*\.STRONG\.GPU\b",
        "rmw": r"\b(?:ATOMG?|REDG?)\.",
        "store": r"\bSTG?(?:\.\w+)*\.STRONG\.GPU\b",
        "acquire": r"\bCCTL\.IVALL\b",
        "release": r"\bMEMBAR\b",
        "scratch": r"\b(?:LDL|STL)\b",
    },
)

#: Loads of 32 bits that are not relative to the stack: most words of portbar's. Listings do not tell local memory from global.
AARCH64: Final = Isa(
    label=r"^(\.LBB\w+):",
    branch=r"^\s+(?:b(?:\.\w+)?|cbn?z|tbn?z)\s+(?:.*, )?(\.LBB\w+)",
    leaves=r"^\s+(?:b\s|ret\b)",
    instruction=r"^\s+[a-z]\w*(?:\.\w+)?\s",
    kinds={
        "load": r"^\s+(?:ldr|ldap?r)\s+w\d+, \[x",
        "rmw": r"^\s+(?:ld(?:add|set|clr|eor|[su]max|[su]min)a?l?|swpa?l?|casa?l?|stl?xr)\b",
        "store": r"^\s+(?:str|stlr)\s+w\w+, \[x",
        "acquire": r"^\s+(?:ldap?r|ldaxr|ld(?:add|set|clr|eor|[su]max|[su]min)al?|swpal?|casal?|dmb\s+ish(?:ld)?)\b",
        "release": r"^\s+(?:stlr|stlxr|ld(?:add|set|clr|eor|[su]max|[su]min)a?l|swpa?l|casa?l|dmb\s+ish)\b",
        "scratch": r"\[sp",
    },
)

RISCV: Final = Isa(
    label=r"^(\.LBB\w+):",
    branch=r"^\s+(?:b\w+|j)\s+(?:.*, )?(\.LBB\w+)",
    leaves=r"^\s+(?:j|ret|tail)\b",
    instruction=r"^\s+[a-z]\w*(?:\.\w+)*\s",
    kinds={
        "load": r"^\s+lw\s+\w+, -?\d+\((?!sp)",
        "rmw": r"^\s+(?:amo\w+|sc)\.",
        "store": r"^\s+sw\s+\w+, -?\d+\((?!sp)",
        "acquire": r"^\s+(?:fence\s+r, rw|fence\s+rw, rw|fence\.tso|(?:amo\w+|lr)\.\w\.aq)",
        "release": r"^\s+(?:fence\s+rw, w|fence\s+rw, rw|fence\.tso|(?:amo\w+|sc)\.\w\.(?:aq)?rl)",
        "scratch": r"\(sp\)",
    },
)


@dataclass(frozen=True)
class Figures:
    """The properties of the machine code of one kernel."""

    instructions: int = 0
    #: In the whole kernel: loads of global memory, read-modify-writes, invalidations of what was read before, and fences that
    #: let others see what was written.
    loads: int = 0
    atomics: int = 0
    acquires: int = 0
    releases: int = 0
    #: Innermost loops that read global memory and wait there for others.
    poll_loops: int = 0
    #: The most accesses in one of them: unrolled loops have many.
    polls_in_loop: int = 0
    #: Those with a read-modify-write.
    writing_loops: int = 0
    #: Those that order memory in each round.
    acquiring_loops: int = 0
    #: Accesses to private memory, and registers that were written there for want of room.
    scratch: int = 0
    spills: int = 0


#: Number of each basic block -> those that control may go to from there.
Graph = dict[int, set[int]]


def _blocks(text: str, isa: Isa) -> tuple[list[list[str]], Graph]:
    """The basic blocks of a listing and where control goes from each."""
    label, branch, leaves = re.compile(isa.label), re.compile(isa.branch), re.compile(isa.leaves)
    blocks: list[list[str]] = [[]]
    named: dict[str, int] = {}
    goes: list[tuple[int, str]] = []
    graph: Graph = {}
    for line in text.splitlines():
        if found := label.match(line):
            blocks.append([])
            named[found[1]] = len(blocks) - 1
        blocks[-1].append(line)
        here = len(blocks) - 1
        jump = branch.search(line)
        if jump:
            goes += [(here, name) for name in jump.groups() if name]
        if jump or leaves.search(line):
            graph[here] = set() if leaves.search(line) else {here + 1}
            blocks.append([])
    for number in range(len(blocks)):
        graph.setdefault(number, {number + 1})
    for here, name in goes:
        graph[here].add(named[name])
    # Code after a jump and without a label is never reached; functions are called.
    begin = re.compile(r"[A-Za-z_]\S*:")
    starts = {0} | {
        number
        for number, lines in enumerate(blocks)
        if any(begin.match(line) and not label.match(line) for line in lines)
    }
    used = starts.union(*(_reached(start, set(graph), graph) for start in starts))
    return blocks, {number: graph[number] & used for number in sorted(used)}


def _reached(start: int, nodes: set[int], graph: Graph) -> set[int]:
    """The nodes, among these, that some way leads to."""
    found: set[int] = set()
    left = [start]
    while left:
        new = (graph[left.pop()] & nodes) - found
        found |= new
        left += new
    return found


def _by_latch(cycle: set[int], entry: int, graph: Graph, polls: set[int]) -> list[set[int]]:
    """The loops that begin at one block, each by the block that goes back to it, without those that hold others."""
    reversed_graph = {node: {other for other in cycle - {entry} if node in graph[other]} for node in cycle}
    latches = [node for node in cycle if entry in graph[node]]
    found = [
        {entry, latch} | _reached(latch, cycle, reversed_graph) if latch != entry else {entry} for latch in latches
    ]
    found = [loop for loop in found if loop & polls]
    return [loop for loop in found if not any(other < loop for other in found)]


def _loops(nodes: set[int], graph: Graph, polls: set[int]) -> Iterator[set[int]]:
    """Yield the blocks of each innermost loop with any of `polls` in it.

    They are the cycles that are left when the entries of those around them are taken away.
    """
    reached = {start: _reached(start, nodes, graph) for start in nodes}
    done: set[int] = set()
    for node in sorted(nodes):
        if node in done or node not in reached[node]:
            continue
        cycle = {other for other in reached[node] if node in reached[other]}
        done |= cycle
        entries = {to for other in graph.keys() - cycle for to in graph[other] & cycle} or {min(cycle)}
        inner = list(_loops(cycle - entries, graph, polls))
        if not inner and cycle & polls:
            inner = _by_latch(cycle, *entries, graph, polls) if len(entries) == 1 else [cycle]
        yield from inner


def _counted(lines: list[str], isa: Isa) -> dict[str, int]:
    """How many lines are of each kind."""
    return {kind: sum(bool(re.search(shape, line)) for line in lines) for kind, shape in isa.kinds.items()}


def loops_of(text: str, isa: Isa) -> list[dict[str, int]]:
    """How many instructions of each kind are in each loop of a listing that accesses memory and has no such loop in it."""
    blocks, graph = _blocks(text, isa)
    counts = {number: _counted(blocks[number], isa) for number in graph}
    polls = {number for number, of in counts.items() if of["load"] + of["rmw"]}
    return [
        {kind: sum(counts[number][kind] for number in loop) for kind in isa.kinds}
        for loop in _loops(set(graph), graph, polls)
    ]


def read(text: str, isa: Isa, *, spills: int = 0) -> Figures:
    """The figures of a listing."""
    lines = text.splitlines()
    counts = _counted(lines, isa)
    polls = loops_of(text, isa)
    return Figures(
        instructions=sum(bool(re.match(isa.instruction, line)) for line in lines),
        loads=counts["load"],
        atomics=counts["rmw"],
        acquires=counts["acquire"],
        releases=counts["release"],
        poll_loops=len(polls),
        polls_in_loop=max((loop["load"] + loop["rmw"] for loop in polls), default=0),
        writing_loops=sum(loop["rmw"] > 0 for loop in polls),
        acquiring_loops=sum(loop["acquire"] > 0 for loop in polls),
        scratch=counts["scratch"],
        spills=spills,
    )
