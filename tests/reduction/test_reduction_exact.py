"""`PORTBAR_REDUCTION_EXACT`: the author's promise about the local size, which the runtime holds launches to."""

from __future__ import annotations

import numpy as np
import pytest

import portbar
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
