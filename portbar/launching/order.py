"""The order of launches that share a hidden state, and which events have failed.

A command whose wait list fails never runs, and its own event fails. Commands that wait for that event fail as well, or wait
for ever.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

import numpy as np
import pyopencl as cl
import pyopencl.array

from portbar.device import quirks
from portbar.device.facts import facts
from portbar.errors import LaunchError

_COMPLETE: Final = cl.command_execution_status.COMPLETE

#: Events that are kept before those that have ended are looked for and dropped.
_MANY: Final = 64


@lru_cache(maxsize=64)
def hides_failures(device: cl.Device) -> bool:
    """Whether failed events look complete until the host waits for them."""
    return quirks.has_effect(quirks.FAILURES_HIDDEN, facts(device))


def failed(event: cl.Event, *, hidden: bool) -> bool:
    """Whether an event is known to have failed; without blocking. `hidden` is what `hides_failures` says."""
    status = event.command_execution_status
    if status == _COMPLETE and hidden:
        try:
            event.wait()
        except cl.Error:
            return True
    return bool(status < _COMPLETE)


def has_run(event: cl.Event, *, hidden: bool) -> bool:
    """Whether a command is known to have run to its end; without blocking. `hidden` is what `hides_failures` says."""
    return event.command_execution_status == _COMPLETE and not failed(event, hidden=hidden)


def awaited(
    caller: str, wait_for: Iterable[cl.Event] | None, arrays: Mapping[Any, cl.array.Array], *, hidden: bool
) -> list[cl.Event]:
    """The events that a launch waits for: those of its wait list and of its arrays, each once.

    Refuses one that has failed: the launch could never run, and a wait for it might never end (FAILED_WAITS_NEVER_END).
    Messages begin with the `caller`, such as "kernel 'k'", and name arrays by their places among the arguments, or by names.
    """
    # The launches of a program add the same event to several arrays.
    events = {id(event): event for event in wait_for or ()}
    for array in arrays.values():
        events.update((id(event), event) for event in array.events)
    for event in events.values():
        if failed(event, hidden=hidden):
            raise LaunchError(f"{caller}: {_why(event, arrays)}")
    return [*events.values()]


def _why(event: cl.Event, arrays: Mapping[Any, cl.array.Array]) -> str:
    """Return the consequence for a launch that `event` has failed."""
    status = event.command_execution_status
    status_note = f" (execution status {status})" if status < _COMPLETE else ""
    for place, array in arrays.items():
        if any(one is event for one in array.events):
            name = f"argument {place}, an array," if isinstance(place, int) else f"array {place!r}"
            return (
                f"the last command on {name} failed{status_note}, so its contents are undefined. Clear its list of events "
                "(array.events.clear()) and fill it again"
            )
    return (
        f"a command in wait_for failed{status_note}, so the launch could never run. Find out why that command failed, and "
        "remove its "
        "event"
    )


class Order:
    """Keeps the launches on one state apart.

    An in-order queue does so by itself, and on an out-of-order queue each launch waits for the one before. After a launch that
    failed, the next one waits for those before it: PoCL's in-order queues, too, would run it at once.
    """

    def __init__(self, queue: cl.CommandQueue) -> None:
        self.in_order = not queue.properties & cl.command_queue_properties.OUT_OF_ORDER_EXEC_MODE_ENABLE
        self.hidden = hides_failures(queue.device)
        self.last: cl.Event | None = None
        #: The launches before the last one, from one on that may fail by its own wait list; None where there is no such.
        self._before: list[cl.Event] | None = None
        self._many = _MANY
        #: The last ones that failed, whose events must outlive those of launches before them: the effect FAILED_EVENTS_LINGER.
        self._failed: deque[cl.Event] = deque(maxlen=_MANY)
        #: Whether the next launch may follow by the queue's own order, whatever became of the last one.
        self.is_free = self.in_order

    @property
    def is_busy(self) -> bool:
        """Whether the last launch is not known to have ended."""
        return self.last is not None and self.last.command_execution_status > _COMPLETE

    def may_run(self) -> bool:
        """Whether any of the launches is not known to have ended."""
        return self.is_busy or any(one.command_execution_status > _COMPLETE for one in self._before or ())

    def after(self, wait_for: Sequence[cl.Event] | None) -> Sequence[cl.Event] | None:
        """The wait list of the next launch: the caller's, and what the launch must not overlap."""
        last = self.last
        if last is None or self.is_free:
            return wait_for
        if failed(last, hidden=self.hidden):
            if self.hidden and not self.in_order:
                raise LaunchError(
                    "the last launch in this out-of-order queue failed with its wait list, and the driver ends the process at "
                    "the next command; use a new queue"
                )
            before = [event for event in self._before or () if not failed(event, hidden=self.hidden)]
            return [*(wait_for or ()), *before]
        if last.command_execution_status == _COMPLETE:
            self._keep(None)
            self.is_free = self.in_order
        return wait_for if self.in_order else [*(wait_for or ()), last]

    def add(self, event: cl.Event, wait_for: Sequence[cl.Event] | None) -> None:
        """Note a launch, and the wait list that its caller gave."""
        if wait_for or self._before is not None:
            if self._before is None:
                self._before = []
                self.is_free = False
            if self.last is not None:
                self._before.append(self.last)
            if len(self._before) > self._many:
                running = [one for one in self._before if one.command_execution_status > _COMPLETE]
                self._keep(running)
                self._many = max(_MANY, 2 * len(running))
        self.last = event

    def clear(
        self, queue: cl.CommandQueue, buffer: cl.Buffer, size: int, wait_for: Sequence[cl.Event] | None = None
    ) -> None:
        """Set the first bytes of a buffer to zeros after the launches before, and before those that follow."""
        before = self.after(wait_for)
        self.add(cl.enqueue_fill_buffer(queue, buffer, np.zeros(1, np.uint32), 0, size, wait_for=before), None)

    def _keep(self, running: list[cl.Event] | None) -> None:
        """Keep of the launches before these, and the last ones that failed."""
        self._failed.extend(one for one in self._before or () if one.command_execution_status < _COMPLETE)
        self._before = running
