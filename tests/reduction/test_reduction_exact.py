"""Local sizes that the compiler knows: by `PORTBAR_REDUCTION_EXACT`, or by the kernels' `reqd_work_group_size`."""

from __future__ import annotations

import numpy as np
import pytest

import portbar
from tests.reading.trees import needs_libclang, use_of
from tests.reduction.support import head, kernel_text, launched, program
from tests.support import to_device

BODY = """
    const uint i = (uint)get_global_id(0);
    out[i] = portbar_work_group_reduce_add(scratch, in[i]);
    floats[i] = portbar_work_group_reduce_max(scratch, (float)in[i]) + portbar_sub_group_scan_inclusive_add(scratch, 1.0f)
        - (portbar_sub_group_local_id() + 1u);"""


def sums(context, local):
    source = head(local, more="#define PORTBAR_REDUCTION_EXACT\n") + kernel_text(
        "sums", "global const int *in, global int *out, global float *floats", BODY
    )
    return program(context, source, ordering="work_group").kernel("sums")


@pytest.mark.device
@pytest.mark.parametrize("local", [1, 24, 32, 48, 64, 96, 160, 224, 256])
def test_groups_of_the_promised_size_reduce_as_others_do(context, queue, local):
    if local > context.devices[0].max_work_group_size:
        pytest.skip("the device has no work-groups of that size")
    values = np.random.default_rng(local).integers(-1000, 1000, 3 * local).astype(np.int32)
    empty = np.zeros_like(values), np.zeros(3 * local, np.float32)
    _, (_, found, peaks) = launched(queue, sums(context, local), 3, local, values, *empty)
    for group in range(3):
        mine = slice(group * local, (group + 1) * local)
        assert set(found[mine].tolist()) == {int(values[mine].sum())}
        assert set(peaks[mine].tolist()) == {float(values[mine].max())}


@pytest.mark.device
@pytest.mark.parametrize(
    ("global_size", "local_size"),
    [(32, (16,)), (64, (64,)), (64, None)],
    ids=["smaller", "larger", "the driver's choice"],
)
def test_another_local_size_is_refused_at_the_launch(context, queue, global_size, local_size):
    with pytest.raises(portbar.LaunchError, match=r"'sums'.*(PORTBAR_REDUCTION_EXACT|PORTBAR_REDUCTION_LOCAL_SIZE)"):
        sums(context, 32)(queue, (global_size,), local_size, *[to_device(queue, np.zeros(64, np.int32))] * 3)


REQUIRED = "__attribute__((reqd_work_group_size({})))"


def grid_sums(attribute, name="grid_sums", grid="PORTBAR_GRID_PARAM, ", body="PORTBAR_REDUCTION_SCRATCH(scratch);"):
    return f"""
kernel {attribute} void {name}({grid}global int *out)
{{
    {"PORTBAR_ENTER(grid);" if grid else ""}
    {body}
    {"out[portbar_global_id(&grid)] = portbar_device_reduce_add(&grid, scratch, 1);" if body and grid else ""}
}}
"""


@needs_libclang
@pytest.mark.parametrize(
    ("source", "options", "expected"),
    [
        (grid_sums(REQUIRED.format("64, 1, 1")), (), (64, True)),
        (grid_sums(REQUIRED.format("4, 4u, 2")), (), (32, True)),
        (grid_sums("") + grid_sums(REQUIRED.format("64, 1, 1"), "other"), (), (None, False)),
        (grid_sums(REQUIRED.format("32, 1, 1")) + grid_sums(REQUIRED.format("64, 1, 1"), "other"), (), (None, False)),
        (grid_sums(REQUIRED.format("64, 1, 1")) + grid_sums("", "other", body=""), (), (64, True)),
        ("#define N 64\n" + grid_sums(REQUIRED.format("N, 1, 1")), (), (64, True)),
        (grid_sums(REQUIRED.format("N, 1, 1")), ("-DN=32",), (32, True)),
        (grid_sums(REQUIRED.format("N, 1, 1")), ("-DA=1 -D N=32 -DB",), (32, True)),
        (grid_sums(REQUIRED.format("N, 1, 1")), (), (None, False)),
        (grid_sums(REQUIRED.format("64, 1, 1"), grid=""), (), (None, False)),
        ("#define WHERE PORTBAR_REDUCTION_SCRATCH(s)\n" + grid_sums(REQUIRED.format("64, 1, 1")), (), (64, True)),
        (
            "#define WG(n) __attribute__((reqd_work_group_size(n, 2, 1)))\n#define ROOM PORTBAR_REDUCTION_SCRATCH(scratch);\n"
            + grid_sums("WG(1 << 5)", body="ROOM"),
            (),
            (64, True),
        ),
        (
            f"#if 0\n{REQUIRED.format('8, 1, 1')}\n#else\n#endif\n" + grid_sums(REQUIRED.format("64, 1, 1")),
            (),
            (64, True),
        ),
        (
            "#ifdef __VENDOR__\n#define N 8\n#else\n#define N 64\n#endif\n" + grid_sums(REQUIRED.format("N, 1, 1")),
            (),
            (None, False),
        ),
        (grid_sums(REQUIRED.format("64, 1, 1")), ("-DPORTBAR_REDUCTION_LOCAL_SIZE=128",), (128, False)),
        (
            "#ifdef S\n#define N 64\n#else\n#define N 128\n#endif\n" + grid_sums(REQUIRED.format("N, 1, 1")),
            (),
            (128, True),
        ),
        ("#ifdef PORTBAR_REDUCTION_EXACT\n#endif\n" + grid_sums(""), (), (None, False)),
        ("#if PORTBAR_REDUCTION_LOCAL_SIZE == 64\n#endif\n" + grid_sums(""), (), (None, False)),
        (
            "#define PORTBAR_REDUCTION_EXACT\n#define PORTBAR_REDUCTION_LOCAL_SIZE (64u)\n" + grid_sums(""),
            (),
            (64, True),
        ),
    ],
    ids=[
        "stated",
        "three dimensions",
        "one kernel does not",
        "two sizes",
        "the other kernel does not reduce",
        "a macro",
        "an option",
        "one option of several",
        "an unknown macro",
        "no grid",
        "an unused macro for scratch memory",
        "the size and the scratch memory in macros",
        "a part that is not compiled",
        "a driver decides",
        "another size is defined",
        "alternatives",
        "a question about the promise",
        "a question about the size",
        "promised",
    ],
)
def test_a_size_is_known_where_every_kernel_with_reductions_states_it(source, options, expected):
    head, kernel, rest = source.partition("\nkernel")
    includes = '#include "portbar/device_barrier.h"\n#include "portbar/reduction.h"\n'
    use = use_of(f"{head}\n{includes}{kernel}{rest}", options)
    assert (use.local_size, use.exact) == expected


@pytest.mark.device
def test_a_grid_of_the_stated_size_reduces_and_another_is_refused(context, queue):
    local = min(64, context.devices[0].max_work_group_size)
    source = '#include "portbar/device_barrier.h"\n#include "portbar/reduction.h"\n'
    kernel = program(context, source + grid_sums(REQUIRED.format(f"{local}, 1, 1"))).kernel("grid_sums")
    groups = min(kernel.occupancy(queue, (local,)).groups, 3)
    _, (found,) = launched(queue, kernel, groups, local, np.zeros(groups * local, np.int32))
    assert set(found.tolist()) == {groups * local}
    if local > 1:
        with pytest.raises(portbar.LaunchError, match="reqd_work_group_size"):
            kernel(queue, (local // 2,), (local // 2,), to_device(queue, np.zeros(local, np.int32)))
