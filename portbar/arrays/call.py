"""Shared by `reduce`, `scan` and `sort`: a cache of requests, and launches with their arrays' events."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, Protocol, TypeVar

import pyopencl as cl
import pyopencl.array

from portbar.arrays.plan import QUEUES, Plan, QueueMemory
from portbar.arrays.request import Returned
from portbar.launching.arguments import events_of
from portbar.launching.queues import awaited, hides_failures
from portbar.locks import Lock
from portbar.records.dataclass import dataclass

#: Requests that are remembered with their compiled kernels and sizes.
_MOST_PLANS: Final = 256
_lock: Final = Lock()
T = TypeVar("T")


@dataclass
class PlannedCall:
    """A plan, and what the host makes of its results; no plan where nothing is to be computed."""

    plan: Plan | None
    returned: Returned


class Launches(Protocol):
    """A plan, or several that are launched together."""

    state: QueueMemory

    def launch(self, args: Sequence[Any], wait_for: list[cl.Event] | None, /) -> cl.Event:
        """Enqueue them with the arguments that change."""


def known_of(queue: Any, caller: str, key: Callable[[], tuple[Any, ...]], make: Callable[[], T]) -> T:
    """Return what is known of a caller's request, or make and keep it; of too many, the oldest is forgotten.

    An argument that is not an array, or cannot be looked up, makes `key` raise: the checks of `make` report it.
    """
    try:
        parts = key()
        # Equal is not the same: an axis may be 1, but not True.
        asked = parts, *map(type, parts)
        if not isinstance(queue, cl.CommandQueue):
            return make()
        requests: OrderedDict[Any, T] = QUEUES(queue).requests.setdefault(caller, OrderedDict())
        known = requests.get(asked)
    except (TypeError, AttributeError, ZeroDivisionError):
        return make()
    if known is None:
        known = make()
        with _lock:
            requests[asked] = known
            while len(requests) > _MOST_PLANS:
                requests.popitem(last=False)
    return known


def copied(queue: cl.CommandQueue, source: cl.array.Array, target: cl.array.Array, event: cl.Event) -> cl.Event:
    """Copy the elements of an array, whose event this is, to one of the same size; later calls wait for it."""
    if not source.size:
        return event
    into: Any = target.base_data
    taken: Any = source.base_data
    made: cl.Event = cl.enqueue_copy(
        queue,
        into,
        taken,
        byte_count=source.nbytes,
        src_offset=source.offset,
        dst_offset=target.offset,
        wait_for=[event],
    )
    target.add_event(made)
    return made


def enqueue(
    caller: str,
    queue: cl.CommandQueue,
    plan: Launches | None,
    args: Sequence[Any],
    arrays: Mapping[str, cl.array.Array],
    inputs: Iterable[cl.array.Array],
    results: Iterable[cl.array.Array],
    wait_for: Iterable[cl.Event] | None,
) -> cl.Event:
    """Launch a plan, or a marker without one, after the events of `arrays`; later calls wait for its event."""
    if wait_for is not None:
        wait_for = events_of(caller, wait_for)
    hidden = hides_failures(queue.device) if plan is None else plan.state.order.hidden
    events = awaited(caller, wait_for, arrays, hidden=hidden)
    event: cl.Event = plan.launch(args, events or None) if plan else cl.enqueue_marker(queue, wait_for=events)
    if plan is not None:
        plan.state.trim()
    for one in results:
        one.add_event(event)
    if plan is not None and not plan.state.order.in_order:
        for one in inputs:
            one.add_event(event)
    return event
