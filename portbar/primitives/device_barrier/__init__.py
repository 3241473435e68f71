"""A barrier between the work-groups of a running kernel: its header, whatever the algorithm."""

from __future__ import annotations

from typing import Any, Final

from portbar.backends.selection import CLOCKS
from portbar.device import quirks
from portbar.primitives import fault, layout
from portbar.primitives.atomics import word_context, word_pieces
from portbar.primitives.device_barrier.declared import DECLARED
from portbar.primitives.fault import Fault
from portbar.primitives.grid import BARRIERS, DISCOVERIES, BarrierAlgorithm
from portbar.primitives.pieces import Area, Header, LocalWords, Piece
from portbar.primitives.strategy import Strategy
from portbar.rendering.templates import fragment, has_def

#: The device barrier in two halves, whatever the algorithm.
_SPLIT_PIECES: Final = ("token_type", "arrive", "wait", "split_missing", "test_goes_on", "test_wait")

#: Votes that travel with the arrivals, whatever the algorithm.
_VOTE_PIECES: Final = ("meet_votes", "count", "any", "sum", "sum_within", "all")

#: The preparation of the hidden state before a launch's first barrier, besides the discovery.
_STATE_PIECES: Final = (
    "local_linear_id",
    "local_linear_size",
    "is_smaller",
    "is_leader",
    "state_prepare",
    "report_fault",
)


_TRACE: Final = "device_barrier/trace.mako"

#: How functions take the counters of a barrier, and how a caller passes its own.
_ONE_COUNTER: Final = {
    "counters_type": "volatile global uint *counter",
    "counters_name": "counter",
    "counters_given": "counter",
}
_COUNTERS: Final = {
    "counters_type": "const portbar_counters *counters",
    "counters_name": "counters",
    "counters_given": "&counters",
}


_CAUSES: Final = (
    "Likely causes: a work-group skips the barrier or returns before it (a condition that differs between work-groups, or a "
    "barrier inside PORTBAR_FOR), the work between two barriers takes longer than the limit, or the device was busy or does "
    "not run the groups concurrently. Raise spin_limit= if the work takes that long; `portbar survey` shows what the device "
    "does."
)


#: Faults of every grid. After a discovery that did not come to its end, its lock may be taken.
FAULTS: Final = (
    Fault(
        "TIMEOUT",
        2,
        "a barrier reached the spin limit; results are incomplete",
        lambda report: (
            f"a device barrier reached its spin limit in work-group {report.group}; {report.arrived} of {report.groups} "
            f"work-groups had arrived. {_CAUSES}"
        ),
        arrived="work-groups that had arrived",
        counts_arrivals=True,
    ),
    Fault(
        "LOST",
        3,
        "a work-group waited for the end of discovery until the spin limit",
        lambda report: (
            f"work-group {report.group} reached the spin limit while it waited for the end of occupancy discovery. {_CAUSES}"
        ),
        keeps_state=False,
    ),
    Fault(
        "WAIT",
        4,
        "an atomic wait reached the spin limit; results are incomplete",
        lambda report: (
            f"an atomic wait reached its spin limit in work-group {report.group} of {report.groups}. Likely causes: the "
            "value was never stored, or the work-item that stores it cannot run concurrently. Raise spin_limit= if the "
            "work takes that long."
        ),
    ),
    Fault(
        "OVERWRITTEN",
        5,
        "the state was overwritten: something writes outside its buffer",
        lambda _: (
            "portbar's hidden state was overwritten, so results may be wrong. Likely cause: a kernel writes outside its "
            "buffers. Check its indices; Oclgrind reports such writes."
        ),
        is_timeout=False,
        keeps_state=False,
    ),
)
TIMEOUT, OVERWRITTEN = FAULTS[0], FAULTS[-1]


def _algorithm(strategy: Strategy) -> BarrierAlgorithm:
    return BARRIERS[strategy.device_barrier.value]


def _counts_in_slots(strategy: Strategy) -> bool:
    """Whether barriers, or their split form at least, count in slots that are placed: always where registers keep the count."""
    return strategy.backend.defines("local_pointer") or _algorithm(strategy).slots(strategy) > 1


def _once_apart(strategy: Strategy) -> bool:
    """Whether functions that run once per launch are not inlined; `noinline` would win where all must be."""
    return strategy.units.once_apart and not strategy.has(quirks.CALLS_SHARED)


def _places(strategy: Strategy) -> bool:
    """Whether the best slots are measured."""
    return _counts_in_slots(strategy) and bool(strategy.tuning.placing) and strategy.backend.defines("clock")


def _holds(strategy: Strategy) -> bool:
    """Whether a wait begins with some cycles without polls."""
    return _counts_in_slots(strategy) and bool(strategy.tuning.hold) and strategy.backend.defines("clock")


def _counting(strategy: Strategy, name: str) -> Piece:
    """A def of the algorithm's counters; those of a single one where it has none of its own."""
    template = _algorithm(strategy).counters
    return template if has_def(template, name) else "device_barrier/counter.mako", name


def _counts_in_one(strategy: Strategy) -> bool:
    """Whether the counter is one word, which needs no structure."""
    return _counting(strategy, "counters")[0] == "device_barrier/counter.mako"


def _votes_in_one_word(strategy: Strategy) -> bool:
    """Whether arrivals and votes are counted by one addition: where there are 64-bit atomics whose loads only read."""
    writes = strategy.backend.loads_write or strategy.capabilities.volatile_polls
    return "ulong" in strategy.capabilities.atomics_table.types and not writes


def _votes_in_two(strategy: Strategy) -> bool:
    """Whether votes have two counters, as the algorithm's barriers have."""
    return (
        _votes_in_one_word(strategy)
        and _algorithm(strategy).slots(strategy) > 1
        and has_def(_algorithm(strategy).counters, "votes")
        and strategy.backend.defines("votes_add_twice")
    )


def _vote_pieces(strategy: Strategy) -> list[Piece]:
    pieces: list[Piece] = [("device_barrier/vote.mako", "local_words")]
    if _votes_in_two(strategy):
        pieces += strategy.backend.pieces("votes_add_twice")
        pieces += [(_algorithm(strategy).counters, "votes"), ("device_barrier/vote.mako", "acquire_votes")]
    return [*pieces, *(("device_barrier/vote.mako", name) for name in ("wait_votes", *_VOTE_PIECES))]


def _vote_context(strategy: Strategy, poll: str) -> dict[str, Any]:
    """How arrivals with votes are counted."""
    wide, in_two = _votes_in_one_word(strategy), _votes_in_two(strategy)
    template = _algorithm(strategy).counters if in_two else "device_barrier/vote.mako"
    context = {
        "votes_wide": wide,
        "votes_in_two": in_two,
        "vote_type": "ulong" if wide else "uint",
        "votes_type": "const portbar_votes *word" if in_two else f"volatile global {'ulong' if wide else 'uint'} *word",
        "vote_poll": "portbar_votes_load" if wide else poll,
    }
    return {
        **context,
        "look_at_votes": fragment(template, "votes_seen", context).strip(),
        "carried_votes": fragment(template, "votes_carried", context).strip(),
    }


def _pieces(strategy: Strategy) -> list[Piece]:
    algorithm, backend = _algorithm(strategy), strategy.backend
    pauses = pauses_between_polls(strategy)
    pieces: list[Piece] = [("grid/constants.mako", "constants")]
    pieces += backend.pieces("rolled")
    pieces += word_pieces(strategy)
    pieces += backend.pieces("word_acquire", "word_arrive")
    if strategy.capabilities.volatile_polls:
        pieces += backend.pieces("word_poll")
    if backend.defines("local_pointer"):
        pieces += backend.pieces("local_pointer")
    if strategy.tuning.rest_ns or (pauses and backend.sleeps):
        pieces += backend.pieces("sleep")
    pieces.append(backend.yields)
    pieces.append(("device_barrier/vote.mako", "vote_words"))
    if _once_apart(strategy):
        pieces.append(("grid/state.mako", "once_apart"))
    pieces += [("grid/state.mako", name) for name in _STATE_PIECES]
    pieces += DISCOVERIES[strategy.discovery.value].pieces(strategy)
    if _holds(strategy) or _places(strategy):
        pieces += backend.pieces("clock")
    if _holds(strategy):
        pieces.append(("device_barrier/wait.mako", _own_context(strategy)["hold_by"]))
    if _counts_in_slots(strategy) and backend.defines("word_arrive_twice"):
        pieces += backend.pieces("word_arrive_twice")
    if _places(strategy):
        pieces += [("grid/place.mako", name) for name in ("place_wait", "place")]
    pieces += [("grid/grid.mako", "grid_type"), *backend.pieces("leader", "leads")]
    if strategy.tracing is not None:
        pieces += [backend.reads(CLOCKS[strategy.tracing.clock]), (_TRACE, "notes")]
    pieces += [("grid/grid.mako", name) for name in ("enter", "ids", "ok")]
    pieces += [("grid/loops.mako", name) for name in ("fixed_loops", "static_tiles", "dynamic_loops")]
    pieces += [("device_barrier/wait.mako", "draining"), ("grid/grid.mako", "atomic_waits")]
    if pauses:
        pieces += backend.pause
    pieces += backend.pieces("check_arrival")
    pieces += [("device_barrier/wait.mako", name) for name in ("wait_word", "wait_counted")]
    if _counts_in_slots(strategy):
        pieces += backend.pieces("unknown", "arrive_at_both")
        pieces += [_counting(strategy, name) for name in ("counters", "missing")]
        pieces += [("device_barrier/counters.mako", name) for name in ("wait_longer", "wait_counters")]
        if not _counts_in_one(strategy):
            pieces.append(("device_barrier/counters.mako", "acquire_counters"))
    pieces.append(("device_barrier/contract.mako", "contract"))
    pieces += algorithm.pieces(strategy)
    pieces += [("device_barrier/split.mako", name) for name in _SPLIT_PIECES]
    pieces += _vote_pieces(strategy)
    if strategy.tracing is not None:
        pieces.append((_TRACE, "traced"))
    return pieces


def _own_context(strategy: Strategy) -> dict[str, Any]:
    """The optional declarations of an algorithm."""
    return {
        "barrier_name": "portbar_device_barrier",
        "pauses": False,
        "hold_by": "hold",
        **_algorithm(strategy).context(strategy),
    }


def pauses_between_polls(strategy: Strategy) -> bool:
    """Whether the chosen algorithm pauses between polls."""
    return bool(_own_context(strategy)["pauses"])


def poll_context(strategy: Strategy) -> dict[str, Any]:
    """How waits look at a word, for the templates of all that waits in a grid."""
    acquires = strategy.backend.acquire_polls
    relaxed_poll = "portbar_word_poll" if strategy.capabilities.volatile_polls else "portbar_word_load"
    return {
        "relaxed_poll": relaxed_poll,
        "poll": "portbar_word_load_acquire" if acquires else relaxed_poll,
        "acquire_polls": acquires,
    }


def _context(strategy: Strategy) -> dict[str, Any]:
    algorithm, own, backend = _algorithm(strategy), _own_context(strategy), strategy.backend
    polls, leads_apart = poll_context(strategy), strategy.has(quirks.LOOPS_KEEP_VECTORS_OFF)
    context = {
        "layout": layout.OFFSETS,
        "line_words": layout.LINE_WORDS,
        "reports": layout.REPORTS,
        "report_words": layout.REPORT_WORDS,
        "tree_fan": layout.TREE_FAN,
        "shards": algorithm.slots(strategy),
        "slots": layout.SLOTS,
        "slot_words": layout.SLOT_WORDS,
        "counts_in_slots": _counts_in_slots(strategy),
        **(_ONE_COUNTER if _counts_in_one(strategy) else _COUNTERS),
        "placing": strategy.tuning.placing if _places(strategy) else (),
        # The most polls of a wait while slots are measured.
        "place_polls": "1u << 22",
        "holds": _holds(strategy),
        "release_flags": layout.RELEASE_FLAGS,
        "loops_in_pieces": strategy.units.loops_in_pieces,
        "vectorises_turns": strategy.units.loops_in_pieces and strategy.turns_in_registers,
        "once": "PORTBAR_APART" if _once_apart(strategy) else "static inline",
        "leads_apart": leads_apart,
        # How functions with loops begin that only a leader calls.
        "leading": "static __attribute__((noinline))" if leads_apart else "static inline",
        "stride": backend.stride,
        "work_of_all": backend.work_before_leader,
        **word_context(strategy),
        "hold_table": strategy.tuning.hold,
        "first_poll": strategy.tuning.first_poll,
        "rest_ns": strategy.tuning.rest_ns,
        "polls_per_round": layout.POLLS_PER_ROUND,
        "tests_in_round": 1 if strategy.units.tests_are_rounds else layout.POLLS_PER_ROUND,
        **(strategy.tracing.context() if strategy.tracing is not None else {}),
        "status_open": fault.OPEN,
        "polls_in_wait": 1 if own["pauses"] and backend.pause_is_round else layout.POLLS_PER_ROUND,
        "rolled_polls": strategy.units.unrolls_polls,
        **_vote_context(strategy, polls["poll"]),
        # The other way to hold takes as long as all arrivals, whose results it does not wait for.
        "votes_hold": _holds(strategy) and own["hold_by"] == "hold",
        **polls,
        "sleep_above": strategy.tuning.sleep_above,
        "sleep_divisor": strategy.tuning.sleep_divisor,
        "sleep_ns": strategy.tuning.sleep_ns,
        **DISCOVERIES[strategy.discovery.value].context(strategy),
        **own,
    }
    context["own"] = backend.fragments(context)
    if strategy.tracing is not None:
        of_backend, entered = context["own"], fragment(_TRACE, "entered", context)
        context["own"] = lambda name, **more: of_backend(name, **more) + (entered if name == "enter_last" else "")
    prepare = algorithm.prepare(strategy)
    context["prepare_lines"] = fragment(*prepare, context) if prepare else ""
    context["acquire_lines"] = fragment(*_counting(strategy, "acquire"), context)
    context["place_lines"] = fragment(*_counting(strategy, "place_round"), context)
    return context


HEADER: Final = Header(
    "device_barrier",
    "A barrier between the work-groups of a running kernel.",
    _pieces,
    _context,
    faults=FAULTS,
    # Flags of `xf`, and counters of `tree`.
    areas=(Area("STAMPS", 2, each=1), Area("NODES", layout.LINE_WORDS, each=layout.TREE_FAN)),
    local=(
        *(LocalWords(name) for name in ("ID", "COUNT", "OK", "TARGET", "SPLIT", "DONE", "PLACE", "TESTS")),
        *(LocalWords(name) for name in ("LOOP_END", "TICKET", "KEPT")),
        LocalWords("CLAIMED", 2),
        *(LocalWords(name) for name in ("VOTE_PHASE", "VOTES")),
        LocalWords("VOTES_BEFORE", 2),
        LocalWords("VOTED"),
    ),
    is_grid=True,
    page="device_barrier.md",
    declared=DECLARED,
)
