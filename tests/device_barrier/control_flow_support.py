"""Kernels with each collective in each uniform control flow, and their results computed on the host.

A case is a collective and a flow. The call comes to the same each time, so `v` holds what one call returns times the number of
calls. After each call one work-item takes a branch that depends on data, which compilers are seen to get wrong.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

import portbar

LOCAL = 8
#: Of the arguments `n` and `none`, which no compiler knows.
N = 5
NONE = 0

SUM = portbar.ReductionLoop("sum", {"total": portbar.Reduction(np.int32, "+")}, uses=16)


@dataclass(frozen=True)
class Flow:
    """A control flow around CALL and how often it makes the call; ONE is what one work-item does after it.

    `ones` is how often it does that, where not as often as there are calls.
    """

    text: str
    times: int
    ones: int | None = None


FLOWS = {
    "plain": Flow("CALL ONE", 1),
    "if": Flow("if (n == 5u) { CALL ONE }", 1),
    "if, left out": Flow("if (n == 6u) { CALL ONE } else v += 0u;", 0),
    "if without braces": Flow("if (n == 5u) CALL", 1),
    "both arms": Flow("if (none != 0u) { CALL ONE } else { CALL ONE }", 1),
    "both arms without braces": Flow("if (none == 0u) CALL else CALL", 1),
    "else if": Flow("if (n == 4u) { CALL } else if (n == 5u) { CALL ONE } else { CALL CALL }", 1),
    "while": Flow("{ uint k = 0; while (k < n) { CALL ONE ++k; } }", 5),
    "do": Flow("{ uint k = 0; do { CALL ONE } while (++k < n); }", 5),
    "for": Flow("for (uint k = 0; k < n; ++k) { CALL ONE }", 5),
    "once": Flow("do { CALL ONE } while (none != 0u);", 1),
    "switch": Flow("switch (n) { case 4u: v += 9u; break; case 5u: CALL ONE break; default: CALL }", 1),
    "switch, from case to case": Flow("switch (n) { case 5u: ONE case 6u: CALL ONE break; default: CALL }", 1, 2),
    "switch in a loop": Flow(
        "for (uint k = 0; k < n; ++k) { switch (k) { case 1u: CALL ONE continue; case 2u: v += 0u; break; default: ONE } "
        "CALL }",
        5,
        4,
    ),
    "switch, default": Flow("switch (none) { case 5u: CALL ONE break; default: CALL ONE }", 1),
    "after a return": Flow("if (none != 0u) return; CALL ONE", 1),
    "before a return": Flow("CALL ONE if (none != 0u) return; CALL ONE", 2),
    "after a return of one work-item's work": Flow("if (none != 0u) { ONE return; } CALL ONE", 1),
    "after a return in a branch": Flow("if (n == 4u) { if (none != 0u) return; v += 9u; } else { ONE } ONE CALL", 1, 2),
    "beside a branch with a call": Flow("if (n == 4u) { CALL ONE } else { ONE } CALL", 1),
    "return in a loop": Flow("for (uint k = 0; k < n; ++k) { CALL ONE if (none != 0u) return; }", 5),
    "returns of some at the end": Flow(
        "CALL ONE out[me] = v; if ((id & 1u) != 0u) return; if (x[id] == 0u) return;", 1
    ),
    "if in a loop": Flow("for (uint k = 0; k < n; ++k) { if ((k & 1u) != 0u) { CALL ONE } }", 2),
    "if in a loop, asked twice": Flow(
        "for (uint k = 0; k < n; ++k) { if (k == 0u) { CALL } if (k == 0u) { ONE "
        "for (uint q = 0u; q < id; ++q) { if (q == 2u) break; v += x[id] - 1u; } } }",
        1,
    ),
    "loop in an if": Flow("if (n == 5u) { for (uint k = 0; k < n; ++k) { CALL ONE } }", 5),
    "if in an if": Flow("if (n == 5u) { if (none == 0u) { CALL ONE } else { CALL } ONE }", 1, 2),
    "break": Flow("for (uint k = 0; k < 100u; ++k) { CALL ONE if (k + 1u == n) break; }", 5),
    "continue": Flow("for (uint k = 0; k < n; ++k) { if ((k & 1u) != 0u) continue; CALL ONE }", 3),
    "two ifs": Flow("if (n == 5u) { CALL ONE } if (none == 0u) { CALL ONE }", 2),
}

#: How often CALL and ONE are executed, from the values of `n`, `none` and the counters of loops.
Counts = Callable[[dict[str, int]], np.ndarray]


def nest(draw: random.Random, depth: int, counters: tuple[str, ...] = ()) -> tuple[str, Counts]:
    """Return some statements without jumps, drawn at random."""
    parts = [statement(draw, depth, counters) for _ in range(draw.randint(1, 3))]
    return " ".join(text for text, _ in parts), lambda names: sum(counts(names) for _, counts in parts)


def statement(draw: random.Random, depth: int, counters: tuple[str, ...]) -> tuple[str, Counts]:
    """Return one statement with at most `depth` others around each call."""
    kind = draw.choice(("CALL", "ONE", "for", "if", "switch")[: 5 if depth else 2])
    if kind in {"CALL", "ONE"}:
        return kind, lambda _names: np.array([kind == "CALL", kind == "ONE"], int)
    if kind == "for":
        k = f"k{depth}"
        body, counts = nest(draw, depth - 1, (*counters, k))
        return (
            f"for (uint {k} = 0; {k} < n - 2u; ++{k}) {{ {body} }}",
            lambda names: sum(counts(names | {k: turn}) for turn in range(N - 2)),
        )
    subject, labels = draw.choice(("n", "none", *counters)), draw.sample((0, 1, 2, N), 2)
    first, second, other = (nest(draw, depth - 1, counters) for _ in range(3))
    if kind == "if":
        return (
            f"if ({subject} == {labels[0]}u) {{ {first[0]} }} else {{ {other[0]} }}",
            lambda names: (first if names[subject] == labels[0] else other)[1](names),
        )
    falls = draw.random() < 0.3

    def counted(names: dict[str, int]) -> np.ndarray:
        if names[subject] not in labels:
            return other[1](names)
        begins = names[subject] == labels[0]
        return (first[1](names) if begins else 0) + (second[1](names) if falls or not begins else 0)

    cases = f"case {labels[0]}u: {first[0]} {'' if falls else 'break;'} case {labels[1]}u: {second[0]} break;"
    return f"switch ({subject}) {{ {cases} default: {other[0]} }}", counted


def drawn(seed: int) -> Flow:
    """Return a nest of two levels with a few calls, drawn by a seed."""
    draw = random.Random(seed)  # noqa: S311 (nothing secret)
    while True:
        text, counts = nest(draw, 2)
        times, ones = map(int, counts({"n": N, "none": NONE}))
        if 2 <= text.count("CALL") <= 5 and 0 < times < 10 and ones:
            return Flow(text, times, ones)


FLOWS |= {f"nest {seed}": drawn(seed) for seed in range(12)}

#: Statements of one work-item of each group after a call. Both branches write, so that none is a mere choice between values.
ONE = "if (id == 0u) { if (x[0] != 0u) ones[group] += 1u; else ones[64 + group] += n; }"


@dataclass(frozen=True)
class Family:
    """Collectives whose kernels look alike."""

    header: str
    params: str
    enter: str
    calls: dict[str, str]
    groups: int | None = 3
    loops: tuple[portbar.ReductionLoop, ...] = ()


def value(me: int) -> int:
    """Return the input of a work-item."""
    return 3 * me + 1


def total(members: Sequence[int]) -> int:
    return sum(value(me) for me in members)


_IDS = "const uint id = (uint)get_local_id(0), group = {group}, me = group * 8u + id, mine = 3u * me + 1u;"
_GRID_IDS = _IDS.format(group="portbar_group_id(&grid)")
_PLAIN_IDS = _IDS.format(group="(uint)get_group_id(0)")

DEVICE = Family(
    "device_barrier",
    "PORTBAR_GRID_PARAM, ",
    f"PORTBAR_ENTER(grid); {_GRID_IDS} const uint all = portbar_global_size(&grid);",
    {
        "barrier": (
            "{ board[me] = mine; (void)portbar_device_barrier(&grid); v += board[(me + 1u) % all]; "
            "(void)portbar_device_barrier(&grid); }"
        ),
        "barrier, looked at": (
            "{ board[me] = mine; if (!portbar_device_barrier(&grid)) return; v += board[(me + 1u) % all]; "
            "if (!portbar_device_barrier(&grid)) return; }"
        ),
        "arrive and wait": (
            "{ board[me] = mine; const portbar_device_token token = portbar_device_barrier_arrive(&grid); "
            "(void)portbar_device_barrier_wait(&grid, token); v += board[(me + 1u) % all]; "
            "(void)portbar_device_barrier(&grid); }"
        ),
        "arrive and test": (
            "{ board[me] = mine; const portbar_device_token token = portbar_device_barrier_arrive(&grid); "
            "for (uint t = 0; t < 1000000u; ++t) { if (portbar_device_barrier_test_wait(&grid, token)) break; } "
            "v += board[(me + 1u) % all]; (void)portbar_device_barrier(&grid); }"
        ),
        "helper": "v += meet(&grid, board, ones, x, me, n, mine);",
    },
    groups=None,
)
DEVICE_REDUCTIONS = Family(
    "reduction",
    "PORTBAR_GRID_PARAM, ",
    f"PORTBAR_ENTER(grid); PORTBAR_REDUCTION_SCRATCH(scratch); {_GRID_IDS}",
    {
        "device reduce": "v += portbar_device_reduce_add(&grid, scratch, mine);",
        "device inclusive scan": "v += portbar_device_scan_inclusive_add(&grid, scratch, mine);",
        "device exclusive scan": "v += portbar_device_scan_exclusive_max(&grid, scratch, mine);",
        "device broadcast": "v += portbar_device_broadcast(&grid, scratch, mine, 3u);",
        "gang worker vector in a grid": (
            "{ sum_local part = { (int)mine }; part = sum_reduce_gang_worker_vector(&grid, scratch, part); "
            "v += (uint)part.total; }"
        ),
        "gang worker in a grid": (
            "{ sum_local part = { (int)mine }; part = sum_reduce_gang_worker(&grid, scratch, part); "
            "v += (uint)part.total; }"
        ),
        "gang in a grid": (
            "{ sum_local part = { (int)group + 7 }; part = sum_reduce_gang(&grid, scratch, part); v += (uint)part.total; }"
        ),
    },
    groups=None,
    loops=(SUM,),
)
GROUP_REDUCTIONS = Family(
    "reduction",
    "",
    f"PORTBAR_REDUCTION_SCRATCH(scratch); {_PLAIN_IDS}",
    {
        "work-group reduce": "v += portbar_work_group_reduce_add(scratch, mine);",
        "work-group inclusive scan": "v += portbar_work_group_scan_inclusive_add(scratch, mine);",
        "work-group exclusive scan": "v += portbar_work_group_scan_exclusive_max(scratch, mine);",
        "work-group broadcast": "v += portbar_work_group_broadcast(scratch, mine, 3u);",
        "sub-group reduce": "v += portbar_sub_group_reduce_max(scratch, mine);",
        "sub-group inclusive scan": "v += portbar_sub_group_scan_inclusive_add(scratch, mine);",
        "sub-group exclusive scan": "v += portbar_sub_group_scan_exclusive_max(scratch, mine);",
        "sub-group broadcast": "v += portbar_sub_group_broadcast(scratch, mine, 3u);",
        "worker vector": (
            "{ sum_local part = { (int)mine }; part = sum_reduce_worker_vector(scratch, part); v += (uint)part.total; }"
        ),
        "worker": "{ sum_local part = { (int)mine }; part = sum_reduce_worker(scratch, part); v += (uint)part.total; }",
        "vector": "{ sum_local part = { (int)mine }; part = sum_reduce_vector(scratch, part); v += (uint)part.total; }",
    },
    loops=(SUM,),
)
#: Their results are in the receiver, which `board` is; a work-item keeps nothing.
GANGS = Family(
    "reduction",
    "PORTBAR_REDUCTION_PARAM, ",
    f"PORTBAR_REDUCTION_SCRATCH(scratch); {_PLAIN_IDS} sum_results results = {{ (global int *)board }};",
    {
        "gang worker vector": (
            "{ sum_local part = { (int)mine }; part = sum_reduce_gang_worker_vector(scratch, results, part); v += 1u; }"
        ),
        "gang worker": "{ sum_local part = { (int)mine }; part = sum_reduce_gang_worker(scratch, results, part); v += 1u; }",
        "gang": "{ sum_local part = { (int)mine }; part = sum_reduce_gang(scratch, results, part); v += 1u; }",
    },
    loops=(SUM,),
)
SPLIT = Family(
    "split_barrier",
    "",
    (
        f"{_PLAIN_IDS} local portbar_split_barrier b; "
        "if (id == 0u) portbar_split_barrier_initialize(&b, 8u); barrier(CLK_LOCAL_MEM_FENCE);"
    ),
    {
        "split barrier": (
            "{ board[me] = mine; (void)portbar_split_barrier_arrive_and_wait(&b); v += board[group * 8u + (id + 1u) % 8u]; "
            "(void)portbar_split_barrier_arrive_and_wait(&b); }"
        ),
        "split barrier in halves": (
            "{ board[me] = mine; const portbar_arrival_token token = portbar_split_barrier_arrive(&b); ONE "
            "if (!portbar_split_barrier_wait(&b, token)) return; v += board[group * 8u + (id + 1u) % 8u]; "
            "(void)portbar_split_barrier_arrive_and_wait(&b); }"
        ),
    },
)
LOCKS = Family(
    "lock",
    "volatile global portbar_spin_lock *spin, volatile global portbar_ticket_lock *ticket, ",
    f"{_PLAIN_IDS} if (PORTBAR_UNIFORM(me > 1000u)) return; barrier(CLK_LOCAL_MEM_FENCE);",
    {
        name: (
            f"{{ if (id == 0u) {{ if (portbar_{name}_acquire({word})) {{ board[0] += 1u; portbar_{name}_release({word}); }} "
            "else board[1] += 1u; } barrier(CLK_LOCAL_MEM_FENCE); v += 1u; }"
        )
        for name, word in (("spin_lock", "spin"), ("ticket_lock", "ticket"))
    },
)
TEAMS = Family(
    "team",
    "PORTBAR_GRID_PARAM, ",
    f"PORTBAR_ENTER(grid); {_GRID_IDS} const uint all = portbar_global_size(&grid); "
    "portbar_team team = portbar_team_split(&grid, portbar_num_groups(&grid));",
    {
        "team barrier": (
            "{ board[me] = mine; (void)portbar_team_barrier(&grid, &team); v += board[(me + 1u) % all]; "
            "(void)portbar_team_barrier(&grid, &team); }"
        ),
        "team reduce": "v += portbar_team_reduce_add(&grid, &team, mine);",
        "team broadcast": "v += portbar_team_broadcast(&grid, &team, mine, 1u);",
    },
    groups=None,
)
SIGNALS = Family(
    "signal",
    "PORTBAR_GRID_PARAM, ",
    f"PORTBAR_ENTER(grid); {_GRID_IDS} uint turns = 0u; "
    "volatile global portbar_signal *signals = (volatile global portbar_signal *)board;",
    {
        "work-group signal": (
            "{ portbar_work_group_signal_add(&grid, signals + group, 1u); turns += 1u; "
            "if (portbar_work_group_signal_wait_until_at_least(&grid, signals + group, turns)) v += mine; }"
        ),
        "signals cleared": "{ if (portbar_device_signals_clear(&grid, signals, 64u)) v += mine; }",
    },
    groups=None,
)
WORKLISTS = Family(
    "worklist",
    "PORTBAR_GRID_PARAM, global portbar_worklist *list, global uint *items, ",
    f"PORTBAR_ENTER(grid); {_GRID_IDS} PORTBAR_FRONTIER(frontier, &grid, list);",
    {
        "frontier": (
            "{ portbar_work_group_frontier_push(&grid, &frontier, items, mine, true); "
            "(void)portbar_device_frontier_swap(&grid, &frontier); v += portbar_frontier_size(&frontier); }"
        ),
    },
    groups=None,
)

#: Headers whose collectives make sense once in a launch, or only in a loop of their own, and where those are tested.
IN_LOOPS_OF_THEIR_OWN = {"scan": "tests/scan", "task_graph": "tests/task_graph"}

FAMILIES = {
    "device": DEVICE,
    "device reductions": DEVICE_REDUCTIONS,
    "group reductions": GROUP_REDUCTIONS,
    "gangs": GANGS,
    "split": SPLIT,
    "locks": LOCKS,
    "teams": TEAMS,
    "signals": SIGNALS,
    "worklists": WORKLISTS,
}


def result(call: str, item: int, group: int, groups: int) -> int:
    """Return the result of one call in a work-item of a group."""
    me, first, all_items = group * LOCAL + item, group * LOCAL, range(groups * LOCAL)
    here = range(first, first + LOCAL)
    through = total(here[: item + 1])
    before = value(me - 1) if item else 0
    return {
        "device reduce": total(all_items),
        "device inclusive scan": total(all_items[: me + 1]),
        "device exclusive scan": value(me - 1) if me else 0,
        "device broadcast": value(3),
        "gang worker vector in a grid": total(all_items),
        # A group of eight work-items is one sub-group, of which the first counts.
        "gang worker in a grid": total(all_items[::LOCAL]),
        "gang in a grid": sum(range(7, groups + 7)),
        "work-group reduce": total(here),
        "work-group inclusive scan": through,
        "work-group exclusive scan": before,
        "work-group broadcast": value(first + 3),
        "sub-group reduce": value(here[-1]),
        "sub-group inclusive scan": through,
        "sub-group exclusive scan": before,
        "sub-group broadcast": value(first + 3),
        "worker vector": total(here),
        "worker": value(first),
        "vector": total(here),
        "team barrier": value((me + 1) % len(all_items)),
        # Of each work-group its first work-item.
        "team reduce": total(all_items[::LOCAL]),
        "team broadcast": value(LOCAL if groups > 1 else 0),
        **dict.fromkeys(SIGNALS.calls, value(me)),
        "frontier": len(all_items),
        **dict.fromkeys(GANGS.calls, 1),
        **dict.fromkeys(LOCKS.calls, 1),
        **dict.fromkeys(SPLIT.calls, value(first + (item + 1) % LOCAL)),
        **dict.fromkeys(DEVICE.calls, value((me + 1) % len(all_items))),
    }[call]


def received(call: str, groups: int) -> int:
    """Return the sum that one reduction at gang level adds to its receiver."""
    items = range(groups * LOCAL)
    return total(items if call == "gang worker vector" else items[::LOCAL])


_HELPER = """
static inline uint meet(portbar_grid *grid, volatile global uint *board, global uint *ones, global const uint *x,
                        uint me, uint n, uint mine)
{
    const uint id = (uint)get_local_id(0), group = portbar_group_id(grid);
    board[me] = mine;
    if (!portbar_device_barrier(grid))
        return 0u;
    const uint next = board[(me + 1u) % portbar_global_size(grid)];
    (void)portbar_device_barrier(grid);
    ONE
    return next;
}
"""


@dataclass(frozen=True)
class Case:
    """A collective in a flow."""

    family: str
    call: str
    flow: str
    number: int = field(compare=False, default=0)

    @property
    def name(self) -> str:
        return f"{self.call} / {self.flow}"

    def kernel(self) -> str:
        family, flow = FAMILIES[self.family], FLOWS[self.flow]
        body = flow.text.replace("CALL", family.calls[self.call]).replace("ONE", ONE)
        return (
            f"kernel void case{self.number}({family.params}global uint *out, global uint *ones, volatile global uint *board,\n"
            f"    global const uint *x, const uint n, const uint none)\n"
            f"{{\n    {family.enter}\n    uint v = 0u;\n    {body}\n    out[me] = v;\n}}\n"
        )

    def results(self, groups: int) -> list[int]:
        """Return the values that each work-item keeps."""
        times = FLOWS[self.flow].times
        return [times * result(self.call, item, group, groups) for group in range(groups) for item in range(LOCAL)]

    def ones(self) -> int:
        """How often one work-item of each group takes its branch."""
        flow = FLOWS[self.flow]
        times = flow.ones if flow.ones is not None else flow.times if "ONE" in flow.text else 0
        own = FAMILIES[self.family].calls[self.call].count("ONE") + (self.call == "helper")
        return times + own * flow.times


def source(cases: list[Case]) -> str:
    """The program of some cases of one family."""
    family = FAMILIES[cases[0].family]
    headers = ["device_barrier"] if "GRID" in family.params else []
    headers += [family.header] if family.header not in headers else []
    text = f"#define PORTBAR_REDUCTION_LOCAL_SIZE {LOCAL}\n"
    text += "".join(f'#include "portbar/{header}.h"\n' for header in headers)
    if family is DEVICE:
        text += _HELPER.replace("ONE", ONE)
    return text + "".join(case.kernel() for case in cases)


def all_cases() -> list[Case]:
    """Every collective in every flow."""
    return [Case(*at, flow) for at in CALLS for flow in FLOWS]


#: Seen to be wrong on some runtime before portbar had an entry for it.
SEEN_WRONG = {
    "work-group reduce": ("after a return in a branch", "if in a loop, asked twice"),
    "barrier, looked at": ("plain", "both arms", "before a return"),
    "helper": ("if without braces",),
    "gang worker vector": ("if", "if without braces", "both arms", "both arms without braces", "after a return"),
    "gang": ("if", "both arms", "switch, default"),
    "barrier": ("plain", "if", "returns of some at the end", "continue"),
    "device inclusive scan": ("continue",),
    "sub-group broadcast": ("if in a loop",),
    "sub-group inclusive scan": ("both arms", "if in an if"),
    "sub-group exclusive scan": ("switch, default",),
    "vector": ("both arms",),
    "spin_lock": ("both arms without braces", "before a return", "if in a loop", "continue"),
}


CALLS = [(family, call) for family in FAMILIES for call in FAMILIES[family].calls]
WRONG = [Case(*at, flow) for at in CALLS for flow in SEEN_WRONG.get(at[1], ())]


def every_sixth() -> list[Case]:
    """Every collective in every sixth flow, the next one in others, and those that were wrong before."""
    flows = list(FLOWS)
    return list(
        dict.fromkeys(WRONG + [Case(*at, flow) for turn, at in enumerate(CALLS) for flow in flows[turn % 6 :: 6]])
    )


def some_cases(seed: int) -> list[Case]:
    """Every flow and every collective in pairs drawn by a seed, and those that were wrong before."""
    draw = random.Random(seed)  # noqa: S311 (nothing secret)
    flows, calls = list(FLOWS), CALLS.copy()
    draw.shuffle(flows)
    draw.shuffle(calls)
    drawn = [Case(*at, flows[place % len(flows)]) for place, at in enumerate(calls)]
    return list(dict.fromkeys(WRONG + drawn))
