"""Atomic operations one at a time: special floats, flags, waits, fences, forms without an order, pointers of other kinds.

Concurrent work-items are tested in `tests/atomics/test_atomics_operations.py`; here are values that need no history.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyopencl as cl
import pytest

import portbar
from portbar.device import quirks
from tests import support
from tests.atomics import support as atomics
from tests.atomics.support import after, bits, over

pytestmark = [pytest.mark.device, pytest.mark.slow]


def program(made: Any) -> str:
    """The text of a program with all kernels for a type and space, which is built once for all tests of these."""
    text = atomics.heading(made.kind) + wait_kernel(made) + script_kernel(made)
    if made.kind in atomics.FLOATS:
        text += special_kernel(made.space)
    if made.kind in FLAGS:
        text += flag_kernels(made)
    if made.space == "global":
        text += helper_kernel("named")
    return text


def special_values(dtype: Any) -> Any:
    """Floats that operations treat in their own way: both zeros, subnormals, infinities, and NaNs that differ in their bits."""
    info = np.finfo(dtype)
    word = np.dtype(f"u{info.dtype.itemsize}").type
    quiet = word(np.array(np.inf, dtype).view(word)) | word(1 << (info.nmant - 1))
    signalling = np.array(np.inf, dtype).view(word) | word(1)
    sign = word(1 << (8 * info.dtype.itemsize - 1))
    nans = np.array([quiet, quiet | word(5), signalling, quiet | sign], word).view(dtype)
    plain = [-0.0, 0.0, 2.0, 2.2, np.inf, -np.inf, info.min, info.tiny, info.max, info.smallest_subnormal, -1.0]
    return np.concatenate([np.array(plain, dtype), nans])


SPECIAL = ("exchange", "fetch_min", "fetch_max", "fetch_add", "fetch_sub", "min", "max", "add", "sub")


def special_kernel(space: str) -> str:
    """The text of a kernel in which each work-item has a cell for each operation, and a pair of values."""
    scope, blocks = "memory_scope_work_group", ""
    for k, name in enumerate((*SPECIAL, "compare_exchange_strong")):
        place = f"cells + {k}u * total + me" if space == "global" else f"shelf + {k}u * items + item"
        answer = "found = " if name in atomics.AFTER else ""
        call = f"{answer}portbar_atomic_{name}_explicit(p, v, memory_order_relaxed, {scope})"
        if name.startswith("compare"):
            both = "memory_order_relaxed, memory_order_relaxed"
            call = f"hits[me] = portbar_atomic_{name}_explicit(p, &found, wish[0], {both}, {scope})"
        blocks += f"    {{\n        volatile {space} T *p = {place};\n        T found = v;\n"
        blocks += "" if space == "global" else "        *p = start[me];\n"
        blocks += f"        {call};\n        seen[{k}u * total + me] = found;\n"
        blocks += "    }\n" if space == "global" else f"        cells[{k}u * total + me] = *p;\n    }}\n"
    return f"""
kernel void special(global T *cells, global const T *start, global const T *operands, global const T *wish, global T *seen,
                    global uint *hits, local T *shelf)
{{
    const uint items = get_local_size(0), item = get_local_id(0), total = get_global_size(0), me = get_global_id(0);
    const T v = operands[me];
{blocks}}}
"""


@pytest.fixture
def pairs(made):
    """All pairs of special values, each operation done on each: (operation -> start, operand, found, left) and the hits."""
    values = special_values(made.dtype)
    start, operand = np.repeat(values, len(values)), np.tile(values, len(values))
    names = (*SPECIAL, "compare_exchange_strong")
    cells, seen = np.tile(start, len(names)), np.zeros(len(names) * start.size, made.dtype)
    hits = np.full(start.size, 0xDEAD, np.uint32)
    arrays = (cells, start, operand, np.array([7.0], made.dtype), seen, hits)
    buffers = [support.to_device(made.queue, array) for array in arrays]
    kernel = made.kernel(program(made), "special")
    shelf = cl.LocalMemory(len(names) * len(values) * made.dtype.itemsize)
    kernel(made.queue, (start.size,), (len(values),), *buffers, shelf).wait()
    for array, buffer in ((cells, buffers[0]), (seen, buffers[4]), (hits, buffers[5])):
        cl.enqueue_copy(made.queue, array, buffer)
    found, left = seen.reshape(len(names), -1), cells.reshape(len(names), -1)
    return {name: (start, operand, found[k], left[k]) for k, name in enumerate(names)}, hits


def check(what: str, start: Any, operand: Any, got: Any, wanted: Any) -> None:
    """Check that the bits are the same for each pair."""
    off = np.flatnonzero(bits(got) != bits(wanted))
    for i in off[:1]:
        shown = [f"{bits(value)[0]:#x} ({value})" for value in (start[i], operand[i], got[i], wanted[i])]
        pytest.fail("{} on {} with operand {}: {}, not {}, and {} more".format(what, *shown, off.size - 1))


@over(atomics.FLOATS, sampled=atomics.FLOATS)
def test_min_and_max_treat_nan_and_signed_zero_in_one_way(made, pairs):
    for name in ("fetch_min", "fetch_max", "min", "max"):
        start, operand, found, left = pairs[0][name]
        check(name, start, operand, left, after(f"fetch_{name.removeprefix('fetch_')}", start, operand))
        if name.startswith("fetch"):
            check(f"the old value of {name}", start, operand, found, start)


@over(atomics.FLOATS, sampled=atomics.FLOATS)
def test_exchange_and_compare_exchange_keep_and_compare_bits(made, pairs):
    start, operand, found, left = pairs[0]["exchange"]
    check("exchange", start, operand, left, operand)
    check("the old value of exchange", start, operand, found, start)
    start, operand, found, left = pairs[0]["compare_exchange_strong"]
    equal = bits(start) == bits(operand)
    assert equal.sum() == len(special_values(made.dtype))
    np.testing.assert_array_equal(pairs[1], equal)
    check("compare_exchange", start, operand, left, np.where(equal, made.dtype.type(7), start))
    check("the old value of compare_exchange", start, operand, found, start)


def flushed(values: Any) -> list[Any]:
    """The values as they are, and with subnormals as zeros of their sign."""
    small = np.abs(values) < np.finfo(values.dtype).tiny
    return [values, np.where(small, np.copysign(values.dtype.type(0), values), values)]


@over(atomics.FLOATS, sampled=atomics.FLOATS)
def test_sums_of_special_values_are_numpy_s(made, pairs):
    """A NaN is any NaN, and subnormals may be flushed, as OpenCL allows."""
    for name in ("fetch_add", "fetch_sub", "add", "sub"):
        start, operand, found, left = pairs[0][name]
        agreed = np.isnan(left) & np.isnan(after(f"fetch_{name.removeprefix('fetch_')}", start, operand))
        for x in flushed(start):
            for y in flushed(operand):
                for total in flushed(after(f"fetch_{name.removeprefix('fetch_')}", x, y)):
                    agreed |= bits(total) == bits(left)
        bad = [f"{s!r} {name} {o!r} = {g!r}" for s, o, g in zip(start, operand, left, strict=True)]
        assert agreed.all(), [text for text, right in zip(bad, agreed, strict=True) if not right][:6]
        if name.startswith("fetch"):
            check(f"the old value of {name}", start, operand, found, start)


FLAGS = ("int", "uint")


def flag_kernels(made: Any) -> str:
    """The text of a kernel for each order, in which each work-item looks for the first free section.

    Work-items leave that loop at different times, where a fence makes Mesa 22.3 lose some of them (quirk "llvmpipe-fences"), so
    sections are taken with relaxed operations there; the code after the loop is in uniform control flow.
    """
    space, scope = made.space, "device" if made.space == "global" else "work_group"
    text = ""
    for i, order in enumerate(atomics.ORDERS):
        clear = atomics.STORES[i % len(atomics.STORES)]
        form = "portbar_atomic_flag_test_and_set_explicit(flags + s, memory_order_{}, memory_scope_{})"
        test = form.format(order, scope)
        loop_test = form.format("relaxed", scope) if made.strategy.has(quirks.FENCES_ARE_BARRIERS) else test
        take = f"""
    uint mine = sections;
    for (uint s = 0u; s < sections && mine == sections; ++s)
        mine = {loop_test} ? sections : s;
    won[me] = mine;
"""
        again = f"""
    const uint s = won[me];
    uint seen = {test} ? 1u : 0u;
    portbar_atomic_flag_clear_explicit(flags + s, memory_order_{clear}, memory_scope_{scope});
    seen |= flags[s] == 0 ? 2u : 0u;
    seen |= {test} ? 4u : 0u;
    seen |= {test} ? 8u : 0u;
    flags[s] = (T)-7;
    seen |= {test} ? 16u : 0u;
    seen |= flags[s] == 1 ? 32u : 0u;
    after[me] = seen;
"""
        if space == "global":
            parameters = "volatile global T *flags, global uint *won, global uint *after, const uint sections"
            for name, body in (("take", take), ("again", again)):
                text += (
                    f"kernel void {name}_{order}({parameters})\n{{\n    const uint me = get_global_id(0);{body}}}\n\n"
                )
            continue
        text += f"""
kernel void both_{order}(local T *shelf, global uint *won, global uint *after, const uint sections)
{{
    const uint me = get_global_id(0);
    volatile local T *flags = shelf;
    flags[get_local_id(0)] = 0;
    barrier(CLK_LOCAL_MEM_FENCE);
{take}    barrier(CLK_LOCAL_MEM_FENCE);
{again}}}
"""
    return text


@over(FLAGS)
def test_a_flag_lets_one_in_until_it_is_cleared(made):
    groups, items = (1, 8) if support.scale(made.queue.device).is_simulator else (4, 16)
    total = groups * items
    text = program(made)
    sections = total if made.space == "global" else items
    for order in atomics.ORDERS:
        won, later = support.filled(made.queue, total, 0xDEAD), support.filled(made.queue, total)
        rest = (won, later, np.uint32(sections))
        if made.space == "global":
            flags = support.filled(made.queue, sections)
            made.kernel(text, f"take_{order}")(made.queue, (total,), (items,), flags, *rest).wait()
            assert (support.uints(made.queue, flags) == 1).all(), order
            made.kernel(text, f"again_{order}")(made.queue, (total,), (items,), flags, *rest).wait()
        else:
            made.kernel(text, f"both_{order}")(
                made.queue, (total,), (items,), cl.LocalMemory(4 * sections), *rest
            ).wait()
        winners = np.sort(support.uints(made.queue, won).reshape(-1, sections))
        np.testing.assert_array_equal(winners, np.broadcast_to(np.arange(sections), winners.shape), err_msg=order)
        # Taken, cleared, free again, taken, and -7 counts as taken and becomes 1.
        assert set(support.uints(made.queue, later).tolist()) == {1 + 2 + 8 + 16 + 32}, order


def wait_forms(made: Any) -> list[tuple[str, str]]:
    """All orders and scopes for uint and float; for other types a scope for each order, by turns."""
    if made.kind in {"uint", "float"}:
        return [(order, scope) for order in atomics.LOADS for scope in made.scopes]
    turn = atomics.TYPES.index(made.kind) + len(made.space)
    return [(order, made.scopes[(turn + i) % len(made.scopes)]) for i, order in enumerate(atomics.LOADS)]


def wait_kernel(made: Any) -> str:
    """The text of a kernel that waits for what is there already, and for what never comes."""
    differs, same = "", ""
    for order, scope in wait_forms(made):
        args = f"memory_order_{order}, memory_scope_{scope}"
        differs += f"        came += portbar_atomic_wait_explicit(p, values[1], {args}) ? 1u : 0u;\n"
        differs += f"        came += portbar_atomic_wait_explicit(p, values[1], {args}, 3u) ? 1u : 0u;\n"
        same += f"        missed += portbar_atomic_wait_explicit(p, values[0], {args}, 5u) ? 0u : 1u;\n"
    return f"""
kernel void waits(global T *cells, global const T *values, global uint *counts, local T *shelf)
{{
    if (get_global_id(0) == 0) {{
        uint came = 0u, missed = 0u;
        volatile {made.space} T *p = {"cells" if made.space == "global" else "shelf"};
        *p = values[0];
{differs}{same}        came += portbar_atomic_wait(p, values[1]) ? 1u : 0u;
        portbar_atomic_notify_one(p);
        portbar_atomic_notify_all(p);
        counts[0] = came;
        counts[1] = missed;
    }}
}}
"""


@over(atomics.TYPES)
def test_a_wait_ends_at_once_where_the_bits_differ_and_gives_up_after_its_polls(made):
    looked = len(wait_forms(made))
    several: list[list[float]] = [[3, 4], [4, 3]]
    if made.dtype.kind == "f":
        several += [[0.0, -0.0], [-0.0, 0.0], [np.nan, 1.0], [1.0, np.nan], [np.nan, -np.nan]]
    kernel = made.kernel(program(made), "waits")
    for pair in several:
        values = support.to_device(made.queue, np.array(pair, made.dtype))
        cells, counts = support.to_device(made.queue, np.zeros(4, made.dtype)), support.filled(made.queue, 2, 0xDEAD)
        kernel(made.queue, (1,), (1,), cells, values, counts, cl.LocalMemory(made.dtype.itemsize * 4)).wait()
        assert support.uints(made.queue, counts).tolist() == [2 * looked + 1, looked], (pair, str(made.kind))


def script(kind: str) -> list[tuple[str, int]]:
    """Operations one after another, as libcu++'s tests have them: each with an operand, which for integers is not its index."""
    steps = [("store", 9), ("exchange", 17), ("fetch_add", 13), ("fetch_sub", 21), ("fetch_min", 5), ("fetch_max", 9)]
    steps += [("add", 8), ("sub", 3), ("max", 30), ("min", 23)]
    if kind in atomics.INTEGERS:
        steps += [("fetch_or", 13), ("fetch_and", 14), ("fetch_xor", 12), ("or", 9), ("and", 11), ("xor", 6)]
    if kind in atomics.COUNTERS:
        steps += [("store", 6), *[("fetch_inc", 7)] * 2, *[("fetch_dec", 5)] * 2, ("inc", 9), ("dec", 9), ("inc", 4)]
    return steps


def script_kernel(made: Any) -> str:
    """The text of a kernel that runs the script in the forms without order and scope, and then compares and exchanges."""
    lines = ""
    for i, (name, v) in enumerate(script(made.kind)):
        answer = f"seen[{i}] = " if name in atomics.AFTER else ""
        lines += f"    {answer}portbar_atomic_{name}(p, values[{v}]); left[{i}] = portbar_atomic_load(p);\n"
    return f"""
kernel void run_script(global T *cells, global const T *values, global T *seen, global T *left, global uint *hits,
                       local T *shelf)
{{
    volatile {made.space} T *p = {"cells" if made.space == "global" else "shelf"};
{lines}    portbar_atomic_store(p, values[3]);
    T guess = values[12];
    hits[0] = portbar_atomic_compare_exchange_strong(p, &guess, values[8]);
    hits[1] = guess == values[3];
    hits[2] = portbar_atomic_compare_exchange_strong(p, &guess, values[8]);
    hits[3] = guess == values[3];
    hits[4] = portbar_atomic_compare_exchange_weak(p, &guess, values[1]);
    hits[5] = guess == values[8];
    uint tries = 0u;
    while (!portbar_atomic_compare_exchange_weak(p, &guess, values[11]) && tries < 100u)
        ++tries;
    hits[6] = tries < 100u;
    hits[7] = portbar_atomic_load(p) == values[11];
}}
"""


@over(atomics.TYPES)
def test_forms_without_order_and_scope_give_the_same_results(made):
    steps = script(made.kind)
    values = np.arange(32).astype(made.dtype)
    seen, left = np.zeros(len(steps), made.dtype), np.zeros(len(steps), made.dtype)
    buffers = [support.to_device(made.queue, array) for array in (np.zeros(4, made.dtype), values, seen, left)]
    hits = support.filled(made.queue, 8, 0xDEAD)
    kernel = made.kernel(program(made), "run_script")
    kernel(made.queue, (1,), (1,), *buffers, hits, cl.LocalMemory(made.dtype.itemsize * 4)).wait()
    cl.enqueue_copy(made.queue, seen, buffers[2])
    cl.enqueue_copy(made.queue, left, buffers[3])
    value = np.zeros(1, made.dtype)
    for i, (name, v) in enumerate(steps):
        if name in atomics.AFTER:
            assert seen[i] == value[0], (i, name, v)
        known = {"store": "exchange"}.get(name, name if name in atomics.AFTER else f"fetch_{name}")
        value = after(known, value, values[v : v + 1])
        assert left[i] == value[0], (i, name, v)
    assert support.uints(made.queue, hits).tolist() == [0, 1, 1, 1, 0, 1, 1, 1]


FLAG_SETS = ("CLK_GLOBAL_MEM_FENCE", "CLK_LOCAL_MEM_FENCE", "CLK_GLOBAL_MEM_FENCE | CLK_LOCAL_MEM_FENCE")


@pytest.mark.parametrize("strategy", atomics.STRATEGIES)
def test_fences_of_all_orders_scopes_and_flags_pass(context, queue, strategy):
    """Neighbours in a group swap what they wrote, past a barrier of their own; the fences between must at least do no harm."""
    made = atomics.setting(context, queue, strategy)
    fences = "".join(
        f"    portbar_atomic_work_item_fence({flags}, memory_order_{order}, memory_scope_{scope});\n"
        for flags in FLAG_SETS
        for order in atomics.ORDERS
        for scope in made.scopes
    )
    text = f"""{atomics.HEADER}
kernel void fences(global uint *cells, local uint *shelf)
{{
    const uint me = get_global_id(0), item = get_local_id(0), items = get_local_size(0);
    shelf[item] = cells[me] + 3u;
{fences}    barrier(CLK_LOCAL_MEM_FENCE);
    cells[me] = shelf[items - 1u - item];
{fences}}}
"""
    cells = support.to_device(queue, np.arange(16, dtype=np.uint32))
    made.kernel(text, "fences")(queue, (16,), (8,), cells, cl.LocalMemory(32)).wait()
    wanted = np.arange(16).reshape(2, 8)[:, ::-1].ravel() + 3
    np.testing.assert_array_equal(support.uints(queue, cells), wanted)


#: Parameters of functions of the author's own, as the words before `T *p`, and the cells that they get.
POINTERS = {
    "named": {"global": ["cells"], "volatile global": ["cells"], "local": ["shelf"], "volatile local": ["shelf"]},
    "generic": {"volatile": ["cells", "shelf"], "": ["cells", "shelf"]},
}


def helper_kernel(where: str) -> str:
    """The text of a kernel that reaches a global and a local cell through functions of the author's own."""
    functions, calls = "", ""
    for kind, (words, cells) in enumerate(POINTERS[where].items()):
        functions += f"""
static uint wrong_by_{kind}({words} T *p, const T two, const T five, const T seven, const T nine)
{{
    uint wrong = 0u;
    T guess = nine;
    *p = two;
    wrong |= portbar_atomic_fetch_add_explicit(p, five, memory_order_acq_rel, memory_scope_work_group) != two ? 1u : 0u;
    for (uint hit = 0u; hit < 2u; ++hit) {{
        const bool done = portbar_atomic_compare_exchange_strong_explicit(p, &guess, nine, memory_order_seq_cst,
                                                                          memory_order_relaxed, memory_scope_work_group);
        wrong |= done != (hit != 0u) || guess != seven ? 2u << hit : 0u;
    }}
    portbar_atomic_min_explicit(p, five, memory_order_release, memory_scope_work_group);
    portbar_atomic_store(p, portbar_atomic_load_explicit(p, memory_order_acquire, memory_scope_work_group));
    wrong |= portbar_atomic_exchange(p, two) != five ? 8u : 0u;
    wrong |= *p != two ? 16u : 0u;
    return wrong;
}}
"""
        for cell in cells:
            calls += f"    wrong[step++] = wrong_by_{kind}({cell}, values[2], values[5], values[7], values[9]);\n"
    return f"""
{functions}
kernel void helped(global T *cells, global const T *values, global uint *wrong, local T *shelf)
{{
    uint step = 0u;
{calls}}}
"""


def check_helped(made: Any, kernel: Any) -> None:
    values = support.to_device(made.queue, np.arange(16).astype(made.dtype))
    cells, wrong = support.to_device(made.queue, np.zeros(4, made.dtype)), support.filled(made.queue, 4, 0xDEAD)
    kernel(made.queue, (1,), (1,), cells, values, wrong, cl.LocalMemory(made.dtype.itemsize * 4)).wait()
    assert support.uints(made.queue, wrong).tolist() == [0] * 4


@over(atomics.TYPES, ["global"])
def test_pointers_may_pass_through_functions_with_and_without_volatile(made):
    check_helped(made, made.kernel(program(made), "helped"))


@over(atomics.TYPES, ["generic"])
def test_generic_pointers_work_for_global_and_local_cells(made, findings):
    builds = findings.builds if findings is not None else {}
    std = made.strategy.capabilities.std or next((std for std in ("CL3.0", "CL2.0") if builds.get(std)), "CL2.0")
    text = atomics.heading(made.kind) + helper_kernel("generic")
    program = portbar.Program(made.context, text, options=[f"-cl-std={std}"], strategy=dict(made.overrides))
    check_helped(made, program.kernel("helped"))
