"""Launches of one shape as a single function, generated for the kernel's arguments as PyOpenCL generates its own.

Such a function looks at its arguments and launches, or returns None: then `portbar.launching.kernel` does both at length, and
says what is wrong. Every call and every loop that it spares is a good part of what PyOpenCL takes for a launch.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from time import monotonic
from typing import Any, Final

import pyopencl as cl

from portbar.launching.arguments import CONTEXT_MARK, OBJECT_MARK
from portbar.launching.compiled import CompiledKernel
from portbar.launching.faults import Watch
from portbar.launching.launch import Launch, LaunchPlan
from portbar.launching.parameters import KernelParameter
from portbar.launching.state import GridState
from portbar.primitives import layout
from portbar.records.dataclass import dataclass

#: Launches with these arguments, None where something is due that the function leaves to others.
Fused = Callable[[tuple[Any, ...]], Launch | None]

#: `bind` makes the function for one shape. An argument that was never checked lacks the mark: AttributeError; ValueError is a
#: wrong number of arguments.
_BIND: Final = """
def bind({bound}):
    def launch(args):
        try:
            {names} = args
            if {refused}:
                return None
        except (AttributeError, ValueError):
            return None
{launched}
    return launch
"""

#: The lock is given back after an exception wherever that came from: a signal's may come right after `acquire` returns.
_WITHOUT_GRID: Final = """
        try:
            acquire()
            event = enqueue(kernel, queue, global_size, local_size, {names})
            release()
        except BaseException:
            give_back()
            raise
        launch = new(Launch)
        launch.event = event
        launch._label = label
        return launch
"""

#: The part of `GridState.prepare` and `GridState.note` that is due on an in-order queue where no launch has failed, and
#: where nothing refers to the launch whose report this one overwrites. An exception before the last line leaves the order in
#: doubt, as `Order.begin` does.
_WITH_GRID: Final = """
        try:
            acquire()
            epoch = watch.epoch + 1
            place = epoch % {reports}
            if epoch > state.last_epoch or not order.is_free or reports[place]() is not None or {look}:
                release()
                return None
            {patience}
            order.is_free = False
            if watch.label is not label:
                name(label)
            watch.epoch = epoch
            words[0] = first_word | epoch
            event = enqueue(kernel, queue, global_size, local_size, buffer, words, {names})
            order.last = event
            launch = new(Launch)
            launch.event = event
            launch._label = label
            launch._state = state
            launch._epoch = epoch
            launch.groups = groups
            reports[place] = reference(launch)
            order.is_free = True
            {early}
            release()
        except BaseException:
            give_back()
            raise
        return launch
"""

#: Beside a launch in another queue, a grid has less patience.
_PATIENCE: Final = """if not state.is_alone():
                release()
                return None
            words[2] = patience"""

#: Where the host does not see the report, it may come with a launch.
_EARLY: Final = """if state.waited == epoch - 1:
                launch._early = state.read_early(epoch)"""


@dataclass(eq=False, slots=True)
class Remembered:
    """The function that launches one shape, and for which types of arguments and which state of the queue it was made."""

    #: The queue's handle; 0 for none.
    pointer: int
    #: Both sizes, and bounds of the number of work-groups.
    shape: tuple[Any, ...]
    launch: Fused
    types: tuple[type, ...]
    state: GridState | None


#: Where nothing is remembered: launches nothing.
NOTHING: Final = Remembered(0, (), lambda args: None, (), None)  # noqa: ARG005 (called as all others)


@lru_cache(maxsize=256)
def _binder(launched: str, bound: str, refused: tuple[str, ...], count: int) -> Callable[..., Fused]:
    """Compile `bind` for `count` arguments, which are refused where one of the expressions is true."""
    names = "".join(f"a{index}, " for index in range(count)) or "()"
    text = _BIND.format(
        bound=bound,
        names=names,
        refused=" or ".join(refused) or "False",
        launched=launched.replace("{names}", names if count else ""),
    )
    namespace: dict[str, Any] = {"Launch": Launch, "new": object.__new__, "reference": weakref.ref}
    exec(compile(text, "<portbar launch>", "exec"), namespace)  # noqa: S102 (the text is made of the templates above)
    binder: Callable[..., Fused] = namespace["bind"]
    return binder


def _refused(
    parameters: Sequence[KernelParameter], exclusive: Sequence[tuple[int, int]], types: tuple[type, ...]
) -> tuple[str, ...]:
    """Expressions over the arguments, of which one is true where they differ from those that were checked.

    A buffer with the mark of the program's context may be passed to any pointer. Images and pipes have another mark.
    """
    found = []
    for index, parameter in enumerate(parameters):
        if parameter.kind == "pointer":
            found.append(f"(a{index} is not None and a{index}.{CONTEXT_MARK} != context)")
        else:
            found.append(f"type(a{index}) is not types[{index}]")
            if issubclass(types[index], cl.MemoryObjectHolder):
                found.append(f"a{index}.{OBJECT_MARK} != context")
    found += [f"(a{fixed} is a{written} and a{fixed} is not None)" for fixed, written in exclusive]
    return tuple(found)


def _look(watch: Watch) -> str:
    """The condition by which a launch looks for faults, as `Watch.is_due`."""
    return "now() > watch.due" if watch.seen is None else f"seen[{watch.place}] != watch.known"


def fused(kernel: CompiledKernel, plan: LaunchPlan, types: tuple[type, ...]) -> Fused:
    """Make the function for launches of a plan, which was launched once with arguments of these types."""
    states, state = kernel.program.states, plan.state
    launched = _WITHOUT_GRID
    values: dict[str, Any] = {
        # A `with` of the lock takes twice as long as these.
        "acquire": states.lock.acquire,
        "release": states.lock.release,
        "give_back": states.lock.give_back,
        "context": kernel.program.context.int_ptr,
        "types": types,
        "enqueue": plan.enqueue,
        "kernel": plan.handle,
        "queue": plan.queue,
        "label": plan.label,
        "global_size": plan.global_size,
        "local_size": plan.local_size,
    }
    if state is not None:
        launched = _WITH_GRID.replace("{reports}", str(layout.REPORTS))
        launched = launched.replace("{look}", _look(state.watch))
        launched = launched.replace("{early}", _EARLY if state.may_read_early else "")
        launched = launched.replace("{patience}", _PATIENCE if plan.patience is not None else "")
        values |= {
            "state": state,
            "order": state.order,
            "reports": state.reports,
            "watch": state.watch,
            "name": state.watch.name,
            "seen": state.watch.seen,
            "now": monotonic,
            "buffer": state.buffer,
            "words": plan.words,
            "first_word": plan.flags | state.capacity_log2 << 24,
            "groups": plan.groups,
            "patience": plan.patience[False] if plan.patience is not None else 0,
        }
    elif plan.hidden is not None:
        launched = "        return enqueue(args)\n"
        values["enqueue"] = partial(states.launch, plan)
    refused = _refused(kernel.parameters or (), kernel.exclusive, types)
    return _binder(launched, ", ".join(values), refused, len(types))(**values)
