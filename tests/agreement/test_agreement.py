"""Debug builds say which condition differs before a call that all must make, and all leave: nothing hangs."""

from __future__ import annotations

import functools
import re

import numpy as np
import pyopencl as cl
import pyopencl.array
import pytest

import portbar
from tests import support
from tests.agreement.programs import BODIES, Body, grid, plain
from tests.reading import programs
from tests.reading.test_divergence import UNIFORM

pytestmark = pytest.mark.device

LOCAL = 8
#: Where work-items of one work-group have another value, and where a whole work-group has.
ONE = (LOCAL + 3,)
ALL_OF_ONE = tuple(range(LOCAL, 2 * LOCAL))
N = np.uint32(5)


@functools.lru_cache(maxsize=8)
def built(context: cl.Context, text: str) -> portbar.Kernel:
    return portbar.Program(context, text, debug=True, spin_limit=20.0).kernel("k")


def line_of(text: str) -> int:
    return next(number for number, line in enumerate(text.split("\n"), 1) if "/* by */" in line)


def values(queue: cl.CommandQueue, count: int, value: int, *others: int) -> cl.array.Array:
    """`count` values, of which these others are 2."""
    made = np.full(count, value, np.uint32)
    made[[other % count for other in others]] = 2
    return cl.array.to_device(queue, made)


class Plain:
    """Launches of three work-groups that do not meet."""

    def __init__(self, context: cl.Context, queue: cl.CommandQueue, body: Body) -> None:
        self.text, self.queue, self.size = plain(body), queue, LOCAL
        self.kernel, self.count = built(context, self.text), 3 * LOCAL

    def run(self, value: int, *others: int) -> list[int]:
        out = cl.array.zeros(self.queue, self.count, np.uint32)
        self.kernel(self.queue, (self.count,), (LOCAL,), values(self.queue, self.count, value, *others), out, N).wait()
        return out.get().tolist()

    def right(self, meets: int) -> list[int]:
        return [meets * (i - i % LOCAL + (i + 1) % LOCAL + 1) for i in range(self.count)]


class Grid(Plain):
    """Launches of the work-groups that the device holds, at most two."""

    def __init__(self, context: cl.Context, queue: cl.CommandQueue, body: Body) -> None:
        self.text, self.queue = grid(body), queue
        self.kernel = built(context, self.text)
        self.groups = min(2, self.kernel.occupancy(queue, (LOCAL,)).groups)
        self.count = LOCAL * self.groups

    def run(self, value: int, *others: int) -> list[int]:
        out, words = (cl.array.zeros(self.queue, self.count, np.uint32) for _ in range(2))

        def launch() -> portbar.Launch:
            out.fill(0)
            words.fill(0)
            a = values(self.queue, self.count, value, *others)
            return self.kernel(self.queue, None, (LOCAL,), a, out, N, words, num_groups=self.groups)

        # On a busy machine fewer may take part.
        support.launched_with(launch, self.groups).wait()
        return out.get().tolist()

    def right(self, meets: int) -> list[int]:
        return [meets * ((i + 1) % self.count + 1) for i in range(self.count)]


KINDS = {"work-group": Plain, "grid": Grid}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("body", BODIES, ids=lambda body: body.title)
def test_a_condition_that_differs_is_named_with_its_line(
    context: cl.Context, queue: cl.CommandQueue, body: Body, kind: str
) -> None:
    launches = KINDS[kind](context, queue, body)
    line = line_of(launches.text)
    for value in (0, 1, 2):
        assert launches.run(value) == launches.right(body.meets(value))
    with pytest.raises(portbar.Error, match=f"program.cl, line {line}: the condition"):
        launches.run(0, *ONE)
    assert launches.run(2) == launches.right(body.meets(2))


@pytest.mark.parametrize("body", BODIES, ids=lambda body: body.title)
def test_work_groups_may_differ_where_only_each_meets(context: cl.Context, queue: cl.CommandQueue, body: Body) -> None:
    launches = Plain(context, queue, body)
    once, twice = launches.right(body.meets(0)), launches.right(body.meets(2))
    assert launches.run(0, *ALL_OF_ONE) == once[:LOCAL] + twice[LOCAL : 2 * LOCAL] + once[2 * LOCAL :]


@pytest.mark.parametrize("body", BODIES, ids=lambda body: body.title)
def test_a_condition_that_differs_between_work_groups_is_named_where_all_meet(
    context: cl.Context, queue: cl.CommandQueue, body: Body
) -> None:
    launches = Grid(context, queue, body)
    if launches.groups < 2:
        pytest.skip("the device runs one work-group at once")
    with pytest.raises(portbar.Error, match=f"program.cl, line {line_of(launches.text)}: the condition"):
        launches.run(0, *ALL_OF_ONE)
    assert launches.run(2) == launches.right(body.meets(2))


#: Bodies that depend on the order of work-items, or on functions that not every device has.
OTHERS = {"from an atomic", "a result of the group"}


@pytest.mark.parametrize("name", sorted(UNIFORM.keys() - OTHERS))
def test_a_right_program_raises_nothing(context: cl.Context, queue: cl.CommandQueue, name: str) -> None:
    kernel = built(context, programs.kernel(re.sub(r"\bB\b", "barrier(CLK_GLOBAL_MEM_FENCE);", UNIFORM[name])))
    a = cl.array.zeros(queue, 4096, np.uint32)
    kernel(queue, (3 * LOCAL,), (LOCAL,), a, np.uint32(5 * LOCAL)).wait()


def test_the_local_size_may_be_left_to_the_driver(context: cl.Context, queue: cl.CommandQueue) -> None:
    kernel = built(
        context, programs.kernel("    if (a[n] == 0u)\n        barrier(CLK_LOCAL_MEM_FENCE);\n    a[0] = 7u;")
    )
    a = cl.array.zeros(queue, 64, np.uint32)
    kernel(queue, (64,), None, a, np.uint32(3)).wait()
    assert a.get()[0] == 7


def test_a_program_without_checks_warns(context: cl.Context) -> None:
    text = "kernel void j(global uint *a) { if (a[0]) barrier(1); }\nkernel void k(global uint *a) { j(a); }\n"
    with pytest.warns(
        portbar.UnreadWarning, match="debug=True checks no conditions of this program: kernel j is called"
    ):
        portbar.Program(context, text, debug=True)


def test_other_builds_have_no_checks(context: cl.Context) -> None:
    text = plain(BODIES[0])
    for debug in (False, True):
        made = portbar.Program(context, text, debug=debug)
        assert ("portbar_agreed" in made.rendered(context.devices[0])) == debug
