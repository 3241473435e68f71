"""A barrier between the work-groups of a running kernel: its header, whatever the algorithm."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from portbar.device import quirks
from portbar.primitives import layout
from portbar.primitives.atomics import word_context, word_pieces
from portbar.primitives.atomics.variant import VARIANTS
from portbar.primitives.header import Header, Piece

if TYPE_CHECKING:
    from portbar.primitives.strategy import Strategy


#: Pieces that an algorithm needs beside the def `device_barrier` of its own template: before it, in order.
_BARRIER_PIECES: Final[dict[str, tuple[Piece, ...]]] = {
    "counter": (),
    "counter_backoff": (),
    "flag": (),
    "tree": (("device_barrier/tree.mako", "wait_root"),),
    "xf": (("device_barrier/xf.mako", "wait_stamp"),),
    "counters": (),
    "intel_device_barrier": (
        ("device_barrier/intel_device_barrier.mako", "declaration"),
        ("device_barrier/counter.mako", "device_barrier"),
    ),
}

#: The device barrier in two halves, whatever the algorithm.
_SPLIT_PIECES: Final = ("token_type", "arrive", "wait", "split_missing", "test_goes_on", "test_wait")

#: Algorithms whose barrier is another one's template with other parameters.
_BARRIER_TEMPLATE: Final = {"counter_backoff": "counter", "sharded": "counters", "replicated": "counters"}


def in_registers(strategy: Strategy) -> bool:
    """Whether a work-group's leader keeps its count of barriers in registers, where local memory is far from them."""
    return VARIANTS[strategy.atomics.value].in_registers


def pause_of(strategy: Strategy) -> str:
    """The pause between polls that the chosen algorithm makes."""
    return strategy.capabilities.pause if strategy.device_barrier.value == "counter_backoff" else "none"


def _barrier_template(strategy: Strategy) -> str:
    """Name of the template that has the barrier."""
    algorithm = strategy.device_barrier.value
    template = _BARRIER_TEMPLATE.get(algorithm, algorithm)
    # One counter, too, is written for registers there.
    return "counters" if template == "counter" and in_registers(strategy) else template


def _counts_in_slots(strategy: Strategy) -> bool:
    """Whether barriers, or their split form at least, count in slots that are placed."""
    return in_registers(strategy) or _barrier_template(strategy) == "counters"


def _pieces(strategy: Strategy) -> list[Piece]:
    template = _barrier_template(strategy)
    discovery = "packed" if strategy.discovery.value == "packed" else "locked"
    pieces: list[Piece] = [("grid/constants.mako", "constants")]
    pieces += word_pieces(strategy)
    pieces += [("grid/acquire.mako", "word_acquire"), ("grid/acquire.mako", "word_arrive")]
    if template == "tree" and in_registers(strategy):
        pieces.append(("backend/ptx/words.mako", "word_chain"))
    if in_registers(strategy):
        pieces.append(("backend/ptx/barrier.mako", "local_pointer"))
    pieces.append(("grid/yield.mako", "yield_processor"))
    pieces += [
        ("grid/state.mako", name)
        for name in (
            "local_linear_id",
            "local_linear_size",
            "is_smaller",
            "is_leader",
            "state_prepare",
            "report_open",
            "report_count",
            "report_fault",
            "report_lost",
            "await_publication",
        )
    ]
    if discovery == "packed":
        pieces += [("discovery/packed.mako", "poll_heal"), ("discovery/packed.mako", "poll_close")]
    else:
        pieces += [("discovery/locked.mako", "lock_acquire"), ("discovery/locked.mako", "lock_release")]
    pieces += [(f"discovery/{discovery}.mako", "discover")]
    if strategy.device_barrier.value == "replicated":
        pieces.append(("grid/acquire.mako", "word_arrive_twice"))
    if _counts_in_slots(strategy):
        pieces.append(("device_barrier/wait.mako", "hold"))
        pieces += [("grid/place.mako", name) for name in ("place_meet", "place")]
    pieces += [("grid/grid.mako", name) for name in ("grid_type", "enter", "ids", "ok")]
    pieces += [("device_barrier/wait.mako", "draining"), ("grid/grid.mako", "atomic_waits")]
    pieces += [
        ("device_barrier/wait.mako", name) for name in ("relax", "rest", "check_arrival", "wait_word", "wait_counted")
    ]
    if _counts_in_slots(strategy):
        pieces += [
            ("device_barrier/counters.mako", name)
            for name in (
                "shard_members",
                "unknown",
                "counters_of",
                "arrive_counters",
                "missing",
                "wait_longer",
                "wait_counters",
                "acquire_counters",
            )
        ]
    pieces += _BARRIER_PIECES[template]
    pieces.append((f"device_barrier/{template}.mako", "device_barrier"))
    pieces += [("device_barrier/split.mako", name) for name in _SPLIT_PIECES]
    return pieces


def _context(strategy: Strategy) -> dict[str, Any]:
    # Where a tree pays, the split form has as many arrivals to count.
    many = {"sharded", "replicated", "tree"} if in_registers(strategy) else {"sharded", "replicated"}
    shards = layout.SHARDS if strategy.device_barrier.value in many else 1
    leader = "grid->item == 0u" if strategy.has(quirks.IDS_LOST) else "portbar_is_leader()"
    sound_leader = f"{leader} && grid->shared[PORTBAR_SHARED_OK] != 0u"
    return {
        "layout": layout.OFFSETS,
        "line_words": layout.LINE_WORDS,
        "reports": layout.REPORTS,
        "report_words": layout.REPORT_WORDS,
        "tree_fan": layout.TREE_FAN,
        "shards": shards,
        "replicated": strategy.device_barrier.value == "replicated",
        "slots": layout.SLOTS,
        "slot_words": layout.SLOT_WORDS,
        "counts_in_slots": _counts_in_slots(strategy),
        "placing": strategy.tuning.placing,
        "release_flags": layout.RELEASE_FLAGS,
        "release_flagged": in_registers(strategy),
        "in_registers": in_registers(strategy),
        # Where barriers are tuned to the nanosecond, only counts that are far off are noticed, by the polls.
        "checks_arrivals": not in_registers(strategy),
        "leader_forgotten": strategy.has(quirks.LEADER_FORGOTTEN),
        "ids_lost": strategy.has(quirks.IDS_LOST),
        # Whether the caller talks to the other groups: in any launch; in one that is not draining; the same as known from a
        # register, where there is one. Then its number in its group.
        "leader": leader,
        "sound_leader": sound_leader,
        "leads": "grid->leads != 0u" if in_registers(strategy) else sound_leader,
        "item": "grid->item" if strategy.has(quirks.IDS_LOST) else "portbar_local_linear_id()",
        **word_context(strategy),
        "hold_table": strategy.tuning.hold,
        "first_poll": strategy.tuning.first_poll,
        "rest_ns": strategy.tuning.rest_ns,
        "polls_per_round": layout.POLLS_PER_ROUND,
        "tests_in_round": 1 if strategy.capabilities.tests_are_rounds else layout.POLLS_PER_ROUND,
        "status_open": layout.STATUS_OPEN,
        "status_timeout": layout.STATUS_TIMEOUT,
        "status_lost": layout.STATUS_LOST,
        "status_wait": layout.STATUS_WAIT,
        "status_overwritten": layout.STATUS_OVERWRITTEN,
        "barrier": strategy.device_barrier.value,
        "lock": strategy.discovery.value,
        "pause": pause_of(strategy),
        "polls_in_wait": {"x86_pause": 1, "nanosleep": 8}.get(pause_of(strategy), layout.POLLS_PER_ROUND),
        "yield_by": strategy.capabilities.yield_by,
        "acquire_polls": strategy.capabilities.acquire_polls,
        "sleep_above": strategy.tuning.sleep_above,
        "sleep_divisor": strategy.tuning.sleep_divisor,
        "sleep_ns": strategy.tuning.sleep_ns,
        "counted": strategy.device_barrier.value == "intel_device_barrier",
    }


HEADER: Final = Header("device_barrier", "A barrier between the work-groups of a running kernel.", _pieces, _context)
