"""Shared by `reduce`, `scan` and `sort`: a cache of requests, and launches with their arrays' events."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, TypeVar

import pyopencl as cl
import pyopencl.array

from portbar.arrays.plan import Plan, State
from portbar.arrays.request import Returned
from portbar.launching.arguments import events_of
from portbar.launching.order import awaited, hides_failures

#: Requests that are remembered with their compiled kernels and sizes.
_MOST_PLANS: Final = 256
_lock: Final = threading.Lock()
T = TypeVar("T")


@dataclass
class Known:
    """A plan, and what the host makes of its results; no plan where nothing is to be computed."""

    plan: Plan | None
    returned: Returned


def remember(requests: OrderedDict[Any, T], key: Any, known: T) -> None:
    """Keep what is known of a request; of too many, the oldest is forgotten."""
    with _lock:
        requests[key] = known
        while len(requests) > _MOST_PLANS:
            requests.popitem(last=False)


def enqueue(
    caller: str,
    queue: cl.CommandQueue,
    plan: Plan | None,
    args: Sequence[Any],
    arrays: Mapping[str, cl.array.Array],
    inputs: Iterable[cl.array.Array],
    results: Iterable[cl.array.Array],
    wait_for: Iterable[cl.Event] | None,
) -> cl.Event:
    """Launch a plan, or a marker without one, as `enqueue_by` does.

    Raises
    ------
    LaunchError
        A dependency has failed, or is not an event.
    """
    state, launch = (None, None) if plan is None else (plan.state, partial(plan.launch, args))
    return enqueue_by(caller, queue, state, launch, arrays, inputs, results, wait_for)


def enqueue_by(
    caller: str,
    queue: cl.CommandQueue,
    state: State | None,
    launch: Callable[[list[cl.Event] | None], cl.Event] | None,
    arrays: Mapping[str, cl.array.Array],
    inputs: Iterable[cl.array.Array],
    results: Iterable[cl.array.Array],
    wait_for: Iterable[cl.Event] | None,
) -> cl.Event:
    """Launch by a function, or a marker without one, after the events of `arrays`; later calls wait for its event.

    Raises
    ------
    LaunchError
        A dependency has failed, or is not an event.
    """
    if wait_for is not None:
        wait_for = events_of(caller, wait_for)
    hidden = hides_failures(queue.device) if state is None else state.order.hidden
    events = awaited(caller, wait_for, arrays, hidden=hidden)
    event: cl.Event = launch(events or None) if launch else cl.enqueue_marker(queue, wait_for=events)
    for one in results:
        one.add_event(event)
    if state is not None and not state.order.in_order:
        for one in inputs:
            one.add_event(event)
    return event
