"""The short forms: every operator on every scalar type, over sub-groups and work-groups, by each strategy of the device."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from portbar.primitives.reduction.operators import short_form_operators
from tests.reduction.support import STRATEGIES, folded, head, kernel_text, launched, program, scalars, values, wrapped
from tests.rows import SEED, some
from tests.support import scale

pytestmark = [pytest.mark.device, pytest.mark.slow]

OPERATORS = [op.name for op in short_form_operators()]


#: The values that each work-item stores: of its work-group, and then the same of its sub-group.
FORMS = {
    "reduce": """
    out[i] = portbar_work_group_reduce_{op}(scratch, x);
    out[n + i] = portbar_sub_group_reduce_{op}(scratch, x);
""",
    "scan": """
    out[i] = portbar_work_group_scan_inclusive_{op}(scratch, x);
    out[n + i] = portbar_work_group_scan_exclusive_{op}(scratch, x);
    out[2 * n + i] = portbar_sub_group_scan_inclusive_{op}(scratch, x);
    out[3 * n + i] = portbar_sub_group_scan_exclusive_{op}(scratch, x);
""",
    "broadcast": """
    out[i] = portbar_work_group_broadcast(scratch, x, (uint)get_local_size(0) - 1u);
    out[n + i] = portbar_sub_group_broadcast(scratch, x, portbar_sub_group_size() - 1u);
""",
}
PLACES = """
    where[i] = portbar_sub_group_id();
    where[n + i] = portbar_sub_group_local_id();
    where[2 * n + i] = portbar_sub_group_size();
    where[3 * n + i] = portbar_num_sub_groups();"""


def source(body, kinds, op="", most=256):
    return head(most) + "".join(
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


def expected(form, op, kind, x):
    """Return what members with values `x` get, a list for each row."""
    if form == "broadcast":
        return [[x[-1]] * len(x)]
    totals = [neutral_of(op, kind)]
    for item in x.tolist():
        totals.append(folded(op, [totals[-1], item]))
    if form == "reduce":
        return [[wrapped(folded(op, x, totals[0]), kind.dtype)] * len(x)]
    found = [wrapped(total, kind.dtype) for total in totals]
    return [found[1:], found[:-1]]


def runs(context, queue, made, kind, op, local, rows):
    """Yield for each of two work-groups its values, and results, sub-groups and places with a column per work-item."""
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
@pytest.mark.parametrize(("form", "op"), [*product(("reduce", "scan"), OPERATORS), ("broadcast", "max")])
def test_every_form_is_valid_in_every_work_item(context, queue, form, op, how):
    """Of every operator on every type; of scans on some."""
    kinds = [kind for kind in scalars(context, op) if form != "scan" or kind.c in {"uchar", "int", "float", "ulong"}]
    kinds = kinds if form == "broadcast" else some(kinds, OPERATORS.index(op))
    made = program(context, source(FORMS[form], kinds, op), how, ordering="work_group")
    rows = FORMS[form].count("out[")
    for number, kind in enumerate(kinds):
        local = size_for(context, number, op)
        for x, got, parts in runs(context, queue, made, kind, op, local, rows):
            for where, members in ((got[: rows // 2], [np.arange(local)]), (got[rows // 2 :], parts)):
                for part in members:
                    for row, wanted in zip(where, expected(form, op, kind, x[part]), strict=True):
                        assert row[part].tolist() == wanted, (kind.c, local, len(part))


@pytest.mark.parametrize("local", [289, 320, 1000])
@pytest.mark.parametrize("op", ["add", "max"])
def test_a_last_sub_group_may_be_smaller_than_the_number_of_sub_groups(context, queue, op, local):
    """Of 289 work-items the last sub-group of 32 has one; sums that are rounded still have the same bits everywhere."""
    device = context.devices[0]
    if scale(device).is_simulator or local > device.max_work_group_size:
        pytest.skip(f"groups of {local} take a simulator too long, or are larger than {device.max_work_group_size}")
    kinds = [kind for kind in scalars(context, op) if kind.c in {"uchar", "int", "float", "ulong"}]
    made = program(context, source(FORMS["reduce"], kinds, op, local), ordering="work_group")
    for kind in kinds:
        for x, got, _ in runs(context, queue, made, kind, op, local, 2):
            assert got[0].tolist() == expected("reduce", op, kind, x)[0], kind.c
    if op == "add":
        x = np.random.default_rng(SEED).random(local, np.float32)
        _, (_, got, _) = launched(
            queue, made.kernel("of_float"), 1, local, x, np.zeros(2 * local, np.float32), np.zeros(4 * local, np.uint32)
        )
        assert len(set(got[:local].tolist())) == 1
        assert got[0] == pytest.approx(x.sum(dtype=np.float64), rel=1e-6)
