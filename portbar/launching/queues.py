"""A queue of the caller's: how long it lives, the order of launches in it, and which events have failed.

As long as the caller has an object of a queue, and no longer, portbar keeps what it made for the queue. PyOpenCL's queues take
no weak references, but attributes. Several objects may be of one queue.

A command whose wait list fails never runs, and its own event fails. Commands that wait for that event fail as well, or wait
for ever.
"""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from typing import Any, Final, Generic, TypeVar

import numpy as np
import pyopencl as cl
import pyopencl.array

from portbar.device import quirks
from portbar.device.facts import facts
from portbar.errors import LaunchError
from portbar.locks import Lock

#: The attribute of a caller's object that holds its `Life`, and that of portbar's object that refers to it weakly.
LIFE_MARK: Final = "_portbar_life"
_OWN_MARK: Final = "_portbar_own"

_T = TypeVar("_T")


#: Markers at the ends of out-of-order queues whose lives are over, the queues, and their contexts.
_left: Final[deque[tuple[cl.Event, cl.CommandQueue, cl.Context]]] = deque(maxlen=64)


@lru_cache(maxsize=64)
def _hangs(device: cl.Device) -> bool:
    """Whether a queue that is dropped while its commands run stops the runtime."""
    return quirks.has_effect(quirks.QUEUES_LEFT_HANG, facts(device))


def _keep(queue: cl.CommandQueue, context: cl.Context) -> None:
    """Keep an out-of-order queue, whose life is over, and its context until its commands have ended."""
    with suppress(cl.Error):
        _left.append((cl.enqueue_marker(queue), queue, context))


def _release_ended() -> None:
    """Release the queues that were kept and whose commands have ended."""
    for entry in tuple(_left):
        if entry[0].command_execution_status <= cl.command_execution_status.COMPLETE:
            with suppress(ValueError):
                _left.remove(entry)


class Life:
    """Ends with the last of the caller's objects of one queue."""

    def __init__(self, queue: cl.CommandQueue) -> None:
        #: An object of portbar's own, for what is kept: with the caller's, no life would end.
        self.queue = cl.CommandQueue.from_int_ptr(queue.int_ptr, retain=True)
        setattr(self.queue, _OWN_MARK, weakref.ref(self))
        #: The queue's handle, which no other queue has as long as that object lives.
        self.pointer: int = queue.int_ptr
        # A queue may not keep its context alive: the effect CONTEXTS_LOST.
        self._context = queue.context
        _release_ended()
        if queue.properties & cl.command_queue_properties.OUT_OF_ORDER_EXEC_MODE_ENABLE and _hangs(queue.device):
            weakref.finalize(self, _keep, self.queue, self._context).atexit = False


_lives: Final[weakref.WeakValueDictionary[int, Life]] = weakref.WeakValueDictionary()
_lock: Final = Lock()


def life_of(queue: cl.CommandQueue) -> Life:
    """Return the life of a queue, given an object of the caller's, or portbar's own as long as one of the caller's is there."""
    life: Life | None = getattr(queue, LIFE_MARK, None)
    if life is None and (own := getattr(queue, _OWN_MARK, None)) is not None:
        life = own()
    if life is None:
        with _lock:
            life = _lives.get(queue.int_ptr)
            if life is None:
                life = _lives[queue.int_ptr] = Life(queue)
            setattr(queue, LIFE_MARK, life)
    return life


class UntilEnd(Generic[_T]):
    """Lets an owner, unless that is gone itself, forget queues whose lives have ended; `forget` gets it and the handle."""

    def __init__(self, owner: _T, forget: Callable[[_T, int], object]) -> None:
        self._owner, self._forget = weakref.ref(owner), forget
        self._watched: dict[int, weakref.ref[Life]] = {}

    def life_of(self, queue: cl.CommandQueue) -> Life:
        """The life of a queue, which the owner forgets when it ends."""
        life: Life = getattr(queue, LIFE_MARK, None) or life_of(queue)
        known = self._watched.get(life.pointer)
        if known is None or known() is not life:
            self.watch(life)
        return life

    def watch(self, life: Life) -> None:
        """Let the owner forget a queue when its life ends."""
        pointer, reference_to_self = life.pointer, weakref.ref(self)

        def ended(reference: weakref.ref[Life]) -> None:
            this = reference_to_self()
            if this is None:
                return
            # A queue that was made meanwhile may have the same handle.
            if this._watched.get(pointer) is reference:
                this._watched.pop(pointer, None)
            if (owner := this._owner()) is not None:
                this._forget(owner, pointer)

        known = self._watched.get(pointer)
        if known is None or known() is not life:
            self._watched[pointer] = weakref.ref(life, ended)


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
        self._queue = queue
        self.in_order = not queue.properties & cl.command_queue_properties.OUT_OF_ORDER_EXEC_MODE_ENABLE
        self.hidden = hides_failures(queue.device)
        self.last: cl.Event | None = None
        #: The launches before the last one, from one on that may fail by its own wait list; None where there is no such.
        self._before: list[cl.Event] | None = None
        self._many = _MANY
        #: The last ones that failed, whose events must outlive those of launches before them: the effect FAILED_EVENTS_LINGER.
        self._failed: deque[cl.Event] = deque(maxlen=_MANY)
        #: Whether the next launch may follow by the queue's own order, whatever became of the last one. False from before a
        #: command is enqueued until it is noted.
        self.is_free = self.in_order
        #: Whether a command is about to be enqueued, or was, and is not noted.
        self._begun = False
        #: Ends after all that was in the queue when `may_run` was asked with a command in doubt.
        self._end: cl.Event | None = None

    @property
    def in_doubt(self) -> bool:
        """Whether an exception came between enqueueing a command and noting it: the queue may hold it, or not."""
        return self._begun or (self.in_order and self._before is None and not self.is_free)

    @property
    def is_busy(self) -> bool:
        """Whether the last launch is not known to have ended."""
        return self.last is not None and self.last.command_execution_status > _COMPLETE

    def may_run(self) -> bool:
        """Whether any of the launches is not known to have ended. For memory that no further launch uses."""
        if self.is_busy or any(one.command_execution_status > _COMPLETE for one in self._before or ()):
            return True
        if not self.in_doubt:
            return False
        if self._end is None:
            with suppress(cl.Error):
                self._end = cl.enqueue_marker(self._queue)
        return self._end is None or bool(self._end.command_execution_status > _COMPLETE)

    def begin(self, wait_for: Sequence[cl.Event] | None) -> Sequence[cl.Event] | None:
        """The wait list of a command that the caller is about to enqueue, and to note by `add`.

        An exception may come at any time, from the driver or as a signal. So the caller first counts the command in whatever
        counts launches, then enqueues it: a launch that was counted and never ran does no harm.
        """
        before = self.after(wait_for)
        self.is_free = False
        self._begun = True
        return before

    def _take_in(self) -> None:
        """Let later commands wait for a command in doubt: a marker comes after all that the queue holds."""
        before = [one for one in (*(self._before or ()), self.last) if one is not None]
        before = [one for one in before if one.command_execution_status > _COMPLETE]
        # In an in-order queue, too, commands after one that failed do not wait for those before it.
        marker = cl.enqueue_marker(self._queue, before if self.in_order else None)
        self._before = before
        self.last = marker
        self._begun = False

    def after(self, wait_for: Sequence[cl.Event] | None) -> Sequence[cl.Event] | None:
        """The wait list of the next launch: the caller's, and what the launch must not overlap."""
        if self.in_doubt:
            self._take_in()
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
        """Note the command that was begun, and the wait list that its caller gave."""
        if wait_for or self._before is not None:
            if self._before is None:
                self._before = []
            if self.last is not None:
                self._before.append(self.last)
            if len(self._before) > self._many:
                running = [one for one in self._before if one.command_execution_status > _COMPLETE]
                self._keep(running)
                self._many = max(_MANY, 2 * len(running))
        self.last = event
        self._begun = False
        self.is_free = self.in_order and self._before is None

    def clear(
        self, queue: cl.CommandQueue, buffer: cl.Buffer, size: int, wait_for: Sequence[cl.Event] | None = None
    ) -> None:
        """Set the first bytes of a buffer to zeros after the launches before, and before those that follow."""
        before = self.begin(wait_for)
        self.add(cl.enqueue_fill_buffer(queue, buffer, np.zeros(1, np.uint32), 0, size, wait_for=before), None)

    def _keep(self, running: list[cl.Event] | None) -> None:
        """Keep of the launches before these, and the last ones that failed."""
        self._failed.extend(one for one in self._before or () if one.command_execution_status < _COMPLETE)
        self._before = running
