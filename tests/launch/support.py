"""Shared by the tests of this folder: kernels, and a check of refusals."""

from __future__ import annotations

import pytest

import portbar

HEADER = '#include "portbar/device_barrier.h"\n'
SOURCE = (
    HEADER
    + """
kernel void meet(PORTBAR_GRID_PARAM, global float *data, const uint n, local float *shelf)
{
    PORTBAR_ENTER(grid);
    portbar_device_barrier(&grid);
    if (portbar_global_id(&grid) < n)
        data[portbar_global_id(&grid)] = 1.0f;
}

kernel void scale(PORTBAR_GRID_PARAM, global float *data, const uint n)
{
    PORTBAR_ENTER(grid);
    portbar_device_barrier(&grid);
    data[portbar_global_id(&grid)] = n;
}

kernel __attribute__((reqd_work_group_size(4, 2, 1))) void shaped(PORTBAR_GRID_PARAM, global float *data)
{
    PORTBAR_ENTER(grid);
    portbar_device_barrier(&grid);
    data[portbar_global_id(&grid)] = 2.0f;
}

kernel void plain(global float *data) { data[get_global_id(0)] = 3.0f; }
"""
)


def refused_alike(words, made, queue, sizes, right, wrong):
    """Check that arguments are refused by the same error before and after launches with right ones."""
    errors = set()
    for launches in (0, 1, 3):
        fresh = portbar.Kernel(made.program, made.name)
        for _ in range(launches):
            fresh(queue, *sizes, *right).wait()
        errors |= {str(refused(words, fresh, queue, *sizes, *wrong)) for _ in range(2)}
    assert len(errors) == 1, errors


def refused(words, call, *args, error=portbar.LaunchError, **keywords):
    """Check that a call is refused with an error that has all the words; return it."""
    with pytest.raises(error) as caught:
        call(*args, **keywords)
    for word in words:
        assert word in str(caught.value), word
    return caught.value
