"""Macros of the author's may have any names: portbar's headers do not see them."""

from __future__ import annotations

import re

import numpy as np
import pytest

import portbar
from portbar.primitives.headers import resolve_includes
from portbar.primitives.strategy import Strategy
from tests import support
from tests.launch.support import refused
from tests.support import filled, uints

pytestmark = [
    pytest.mark.device,
    # The reader's own declarations of the headers do not see them either.
    pytest.mark.filterwarnings("error:.*could not read:portbar.UnreadWarning"),
]


def includes(*names: str) -> str:
    return "".join(f'#include "portbar/{name}.h"\n' for name in names)


#: Headers and a kernel that uses all macros of theirs.
GRID = (
    includes("atomics", "device_barrier", "signal", "reduction"),
    """kernel void k(PORTBAR_GRID_PARAM, global uint *out) {
        PORTBAR_ENTER(lattice);
        PORTBAR_REDUCTION_SCRATCH(room);
        const uint all = portbar_device_reduce_add(&lattice, room, 1u);
        portbar_atomic_fetch_add(out + 1, 1u);
        if (!portbar_device_barrier(&lattice)) return;
        if (!portbar_device_wait_until(&lattice, portbar_atomic_load(out + 1) == all)) return;
        if (portbar_global_id(&lattice) == 0) { out[0] = all; out[2] = VALUE; }
    }""",
)
GANGS = (
    includes("atomics", "reduction"),
    """kernel void k(PORTBAR_REDUCTION_PARAM, global uint *out) {
        PORTBAR_REDUCTION_SCRATCH(room);
        const tallied_results where = {out};
        tallied_local mine = tallied_identity();
        mine.field = 1u;
        tallied_reduce_gang_worker_vector(room, where, mine);
        portbar_atomic_fetch_add(out + 1, 1u);
        if (get_global_id(0) == 0) out[2] = VALUE;
    }""",
)
COUNT = portbar.ReductionLoop("tallied", {"field": portbar.Reduction(np.uint32, "+")})


def made(context, source, **keywords):
    with support.skipped_where_refused():
        return portbar.Program(context, source, reductions=[COUNT] if "tallied_" in source else [], **keywords)


def launched(queue, program):
    """The value of VALUE in the kernel."""
    kernel, out = program.kernel("k"), filled(queue, 4)
    launch = kernel(queue, None if kernel.uses_grid else (8,), (4,), out)
    launch.wait()
    items = 4 * launch.num_groups if kernel.uses_grid else 8
    found = uints(queue, out).tolist()
    assert found[:2] == [items] * 2
    return found[2]


def names_in(text: str) -> list[str]:
    """The names of parameters and variables that a text declares."""
    found = re.findall(r"\b(?:uint|ulong|bool|size_t|int|portbar_\w+|\*)\s*(?:const\s+)?([a-z_]\w*)\s*[,;=)\[]", text)
    return sorted(
        name
        for name in set(found)
        if not name.startswith("portbar_") and name not in {"out", "all", "mine", "field", "round"}
    )


@pytest.mark.parametrize("program", [GRID, GANGS], ids=["grid", "gangs"])
def test_macros_with_the_names_of_parameters_leave_headers_alone(context, queue, program):
    """Also those of variables and members; the author's own text still has them after the headers."""
    headers, kernel = program
    names = names_in(made(context, headers + kernel.replace("VALUE", "0")).rendered(queue.device))
    assert {"state", "order", "launch"} & set(names)
    defined = "".join(f"#define {name} {number}\n" for number, name in enumerate(names))
    kernel = kernel.replace("VALUE", " + ".join(names))
    assert launched(queue, made(context, defined + headers + kernel)) == sum(range(len(names)))


def test_macros_of_the_build_options_leave_headers_alone(context, queue):
    source = GRID[0] + GRID[1].replace("VALUE", "group")
    assert launched(queue, made(context, source, options=["-Dgroup=7"])) == 7


def test_macros_that_set_something_reach_the_headers(context, queue):
    source = "#define PORTBAR_REDUCTION_LOCAL_SIZE 8\n#define group 7\n" + GRID[0] + GRID[1].replace("VALUE", "group")
    program = made(context, source)
    assert launched(queue, program) == 7
    refused(["PORTBAR_REDUCTION_LOCAL_SIZE 16"], program.kernel("k"), queue, None, (16,), filled(queue, 4))


def test_a_text_without_macros_stays_as_it_is(context, device):
    strategy: Strategy = portbar.choose(portbar.describe(device))
    plain = resolve_includes('#include "portbar/device_barrier.h"\n', strategy)
    assert "push_macro" not in plain
    for source in ("#define mine 1\n", "// #define group 1\n", "#define PORTBAR_BARRIER_POLLS 4\n"):
        assert "push_macro" not in resolve_includes(f'{source}#include "portbar/device_barrier.h"\n', strategy)
