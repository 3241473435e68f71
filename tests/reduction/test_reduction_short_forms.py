"""The short forms: every operator on every scalar type, over sub-groups and work-groups, by each strategy of the device."""

from __future__ import annotations

import numpy as np
import pytest

from portbar.primitives.reduction.operators import short_form_operators
from tests.reduction.support import STRATEGIES, folded, head, kernel_text, launched, program, scalars, values, wrapped
from tests.rows import some
from tests.support import scale

pytestmark = [pytest.mark.device, pytest.mark.slow]

OPERATORS = [op.name for op in short_form_operators()]


REDUCE = """
    out[i] = portbar_work_group_reduce_{op}(scratch, x);
    out[n + i] = portbar_sub_group_reduce_{op}(scratch, x);
"""
SCAN = """
    out[i] = portbar_work_group_scan_inclusive_{op}(scratch, x);
    out[n + i] = portbar_work_group_scan_exclusive_{op}(scratch, x);
    out[2 * n + i] = portbar_sub_group_scan_inclusive_{op}(scratch, x);
    out[3 * n + i] = portbar_sub_group_scan_exclusive_{op}(scratch, x);
"""
BROADCAST = """
    out[i] = portbar_work_group_broadcast(scratch, x, (uint)get_local_size(0) - 1u);
    out[n + i] = portbar_sub_group_broadcast(scratch, x, portbar_sub_group_size() - 1u);
"""


PLACES = """
    where[i] = portbar_sub_group_id();
    where[n + i] = portbar_sub_group_local_id();
    where[2 * n + i] = portbar_sub_group_size();
    where[3 * n + i] = portbar_num_sub_groups();"""


def source(body, kinds, op=""):
    return head(256) + "".join(
        kernel_text(
            f"of_{kind.c}",
            f"global const {kind.c} *in, global {kind.c} *out, global uint *where",
            f"    const uint i = (uint)get_global_id(0), n = (uint)get_global_size(0);\n    const {kind.c} x = in[i];"
            + body.format(op=op)
            + PLACES,
        )
        for kind in kinds
    )


def neutral_of(op, kind):
    """Return what changes no number of a type."""
    if op in {"min", "max"}:
        worst = np.inf if op == "min" else -np.inf
        info = None if kind.kind == "float" else np.iinfo(kind.dtype)
        return worst if info is None else info.max if op == "min" else info.min
    return {"mul": 1, "and": -1, "logical_and": 1, "logical_eqv": 1}.get(op, 0)


def scanned(op, x, neutral, inclusive):
    found, total = [], neutral
    for item in x.tolist():
        before = total
        total = folded(op, [total, item])
        found.append(total if inclusive else before)
    return found


def runs(context, queue, made, kind, op, local, rows):
    """Yield for each of two work-groups its values, and answers, sub-groups and places with a column a work-item."""
    groups = 2
    x = values(kind, op, groups * local, seed=local)
    empty = np.zeros(rows * len(x), kind.dtype), np.zeros(4 * len(x), np.uint32)
    _, (_, got, places) = launched(queue, made.kernel(f"of_{kind.c}"), groups, local, x, *empty)
    got, places = got.reshape(rows, -1), places.reshape(4, -1)
    for group in range(groups):
        columns = slice(group * local, (group + 1) * local)
        ids, lanes, sizes, counts = places[:, columns]
        assert set(counts.tolist()) == {len(set(ids.tolist()))}
        parts = [np.flatnonzero(ids == part) for part in sorted(set(ids.tolist()))]
        for part in parts:
            assert lanes[part].tolist() == list(range(len(part)))
            assert sizes[part].tolist() == [len(part)] * len(part)
        yield x[columns], got[:, columns], parts


def size_for(context, number, op):
    """Return a local size, another for each type and operator: a program is compiled anew for each by some runtimes."""
    sizes = scale(context.devices[0]).local_sizes
    return sizes[(number + 3 * OPERATORS.index(op)) % len(sizes)]


@pytest.mark.parametrize("how", STRATEGIES)
@pytest.mark.parametrize("op", OPERATORS)
def test_every_operator_on_every_type_is_valid_in_every_work_item(context, queue, op, how):
    kinds = some(scalars(context, op), OPERATORS.index(op))
    made = program(context, source(REDUCE, kinds, op), how, ordering="work_group")
    for number, kind in enumerate(kinds):
        local = size_for(context, number, op)
        for x, got, parts in runs(context, queue, made, kind, op, local, 2):
            neutral = neutral_of(op, kind)
            expected = wrapped(folded(op, x, neutral), kind.dtype)
            assert got[0].tolist() == [expected] * local, (kind.c, local, "work-group")
            for part in parts:
                expected = wrapped(folded(op, x[part], neutral), kind.dtype)
                assert got[1][part].tolist() == [expected] * len(part), (kind.c, local, "sub-group")


@pytest.mark.parametrize("how", STRATEGIES)
@pytest.mark.parametrize("op", OPERATORS)
def test_scans_hold_what_comes_before_each_work_item(context, queue, op, how):
    kinds = [kind for kind in scalars(context, op) if kind.c in {"uchar", "int", "float", "ulong"}]
    kinds = some(kinds, OPERATORS.index(op))
    made = program(context, source(SCAN, kinds, op), how, ordering="work_group")
    for number, kind in enumerate(kinds):
        local = size_for(context, number, op)
        for x, got, parts in runs(context, queue, made, kind, op, local, 4):
            neutral = neutral_of(op, kind)
            for row, where in ((0, [np.arange(local)]), (2, parts)):
                for part in where:
                    for exclusive in (0, 1):
                        expected = scanned(op, x[part], neutral, inclusive=not exclusive)
                        expected = [wrapped(item, kind.dtype) for item in expected]
                        assert got[row + exclusive][part].tolist() == expected, (kind.c, local, row, exclusive)


@pytest.mark.parametrize("how", STRATEGIES)
def test_a_broadcast_reaches_every_work_item(context, queue, how):
    kinds = scalars(context, "max")
    made = program(context, source(BROADCAST, kinds), how, ordering="work_group")
    for number, kind in enumerate(kinds):
        local = size_for(context, number, "max")
        for x, got, parts in runs(context, queue, made, kind, "max", local, 2):
            assert got[0].tolist() == [x[-1]] * local, (kind.c, local, "work-group")
            for part in parts:
                assert got[1][part].tolist() == [x[part[-1]]] * len(part), (kind.c, local, "sub-group")
