"""Atomic operations: whatever work-items do at once, each finds what another had left, in every type, space, order and scope.

The oracles are those of OpenCL's conformance suite (`c11_atomics`, `atomics`) and of libcu++, against NumPy. Most tests run a
history (`tests/atomics/support.py`): all work-items do one operation on the same cell, several times, in each order and scope.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyopencl as cl
import pytest

from tests import support
from tests.atomics import support as atomics
from tests.atomics.support import Part, after, bits, cases, over, paired_cases

pytestmark = [pytest.mark.device, pytest.mark.slow]


STORE_AND_LOAD = (
    ("relaxed", "relaxed"),
    ("release", "acquire"),
    ("seq_cst", "seq_cst"),
    ("relaxed", "seq_cst"),
    ("release", "relaxed"),
)
LIMITS = (0, 1, 6, 1 << 20, None)


def swaps(made: Any, full: tuple[int, ...]) -> list[Part]:
    start = np.array(1234).astype(made.dtype)
    listed = atomics.all_cases(made, "exchange") if made.kind == "uint" else cases(made, ["exchange"])
    return [Part(listed, start, made.random(*full))]


def comparisons(made: Any, full: tuple[int, ...]) -> list[Part]:
    names = ["compare_exchange_strong", "compare_exchange_weak"]
    listed = paired_cases(made, names, atomics.PAIRS)
    start = np.array(123456).astype(made.dtype) if made.kind != "half" else np.float16(1234)
    return [Part(listed, start, made.random(*full), made.random(*full, extra=1))]


def sums(made: Any, full: tuple[int, ...]) -> list[Part]:
    parts = [
        Part(cases(made, ["fetch_add", "fetch_sub"]), made.random(1, extra=2)[0], made.random(*full)),
        Part(cases(made, ["fetch_add"]), 0, np.ones(full)),
    ]
    if made.dtype.kind != "f":
        top = np.arange(np.prod(full)).reshape(full).astype(made.dtype) << made.dtype.type(
            8 * (made.dtype.itemsize - 1)
        )
        parts.append(Part(cases(made, ["fetch_add", "fetch_sub"], ["relaxed"]), 1, top))
    return parts


def extremes(made: Any, full: tuple[int, ...]) -> list[Part]:
    info: Any = np.finfo(made.dtype) if made.dtype.kind == "f" else np.iinfo(made.dtype)
    data = made.random(*full)
    return [Part(cases(made, ["fetch_min"]), info.max, data), Part(cases(made, ["fetch_max"]), info.min, data)]


def masks(made: Any, full: tuple[int, ...]) -> list[Part]:
    width = 8 * made.dtype.itemsize
    one = (
        (np.uint64(1) << (np.arange(np.prod(full), dtype=np.uint64) % np.uint64(width)))
        .reshape(full)
        .astype(made.dtype)
    )
    return [
        Part(cases(made, ["fetch_or"]), 0, one),
        Part(cases(made, ["fetch_and"]), np.array(-1).astype(made.dtype), ~one),
        Part(cases(made, ["fetch_xor"]), np.array(0x2F08AB418BA0541).astype(made.dtype), made.random(*full)),
    ]


def wraps(made: Any, full: tuple[int, ...]) -> list[Part]:
    """A limit for each order; in the last part each call has another, so that some find more than their limit."""
    mixed = np.random.default_rng(made.seed).integers(9, size=full)
    return [
        Part(cases(made, ["fetch_inc", "fetch_dec"], [order]), 0, mixed if limit is None else np.full(full, limit))
        for order, limit in zip(atomics.ORDERS, LIMITS, strict=True)
    ]


def silent(made: Any, full: tuple[int, ...]) -> list[Part]:
    """Forms that return nothing; the floats are integers whose sums are exact in any order."""
    several = np.arange(np.prod(full)).reshape(full) % 7 - 3 if made.dtype.kind == "f" else made.random(*full)
    names = ["add", "sub", "min", "max"] + (["and", "or", "xor"] if made.kind in atomics.INTEGERS else [])
    parts = [Part(cases(made, names, every_order=False), 5, several)]
    if made.kind in atomics.COUNTERS:
        parts.append(Part(cases(made, ["inc", "dec"], every_order=False), 5, np.full(full, 12)))
    return parts


def stores(made: Any, full: tuple[int, ...]) -> list[Part]:
    return [Part(paired_cases(made, ["store"], STORE_AND_LOAD), 99, made.random(*full))]


FAMILIES = {
    "swaps": (swaps, atomics.TYPES),
    "comparisons": (comparisons, atomics.TYPES),
    "sums": (sums, atomics.TYPES),
    "extremes": (extremes, atomics.TYPES),
    "masks": (masks, atomics.INTEGERS),
    "wraps": (wraps, atomics.COUNTERS),
    "silent": (silent, atomics.TYPES),
    "stores": (stores, atomics.TYPES),
}


def size_of(made: Any) -> tuple[atomics.Shape, tuple[int, ...]]:
    size = atomics.shape(made.queue.device)
    return size, (size.groups, size.items, size.rounds)


def program(made: Any) -> str:
    """The text of a program with all kernels for a type and space, which is built once for all tests of these."""
    _, full = size_of(made)
    text = atomics.heading(made.kind) + atomics.APART
    for name, (parts, kinds) in FAMILIES.items():
        if made.kind in kinds:
            text += atomics.history_kernel(
                name, [case for part in parts(made, full) for case in part.listed], made.space
            )
    if made.kind in atomics.FLOATS:
        text += atomics.history_kernel("total", total_cases(made), made.space)
    if made.kind in atomics.INTEGERS:
        text += own_bit_kernel(made)
    if made.kind in SMALL:
        text += neighbour_kernel(made)
    return text


def histories(made: Any, family: str) -> list[atomics.History]:
    """Run a family of histories."""
    size, full = size_of(made)
    return atomics.run(made, program(made), family, FAMILIES[family][0](made, full), size)


@over(atomics.TYPES)
def test_exchange_hands_each_value_on_exactly_once(made):
    for history in histories(made, "swaps"):
        history.check_chain()


@over(atomics.TYPES)
def test_compare_exchange_stores_only_over_what_it_expected_and_says_what_it_found(made):
    for history in histories(made, "comparisons"):
        history.check_neighbours()
        for final, who in history.teams():
            guess, found, wish, hit = (
                np.atleast_2d(array[who].reshape(-1, array.shape[-1])).T
                for array in (history.operands, history.seen, history.desired, history.hits)
            )
            expected, olds, news = guess[0], [], []
            for i in range(len(guess)):
                won, right = hit[i] == 1, bits(found[i]) == bits(expected)
                assert right[won].all(), f"{history}: a success changed what was expected"
                if history.case.operation.endswith("strong"):
                    assert not right[~won].any(), f"{history}: it failed though it found what was expected"
                olds.append(found[i])
                news.append(np.where(won, wish[i], found[i]))
                expected = news[-1]
            why = atomics.broken(history.start, np.array(olds), np.array(news), final)
            assert not why, f"{history}: {why}"
            assert hit.any(), f"{history}: nobody ever succeeded"


@over(atomics.TYPES)
def test_sums_are_whole_and_every_addition_returns_the_true_old_value(made):
    for history in histories(made, "sums"):
        history.check_chain()
        for final, who in history.teams():
            operands = history.operands[who]
            if made.dtype.kind != "f":
                total = operands.sum(dtype=made.dtype)
                assert final == after(history.case.operation, history.start, total), history
            if (operands == 1).all() and history.start == 0:
                counted = np.arange(operands.size).astype(made.dtype)
                np.testing.assert_array_equal(
                    np.sort(history.seen[who].ravel()), np.sort(counted), err_msg=str(history)
                )


@over(atomics.TYPES)
def test_min_and_max_end_at_the_extreme_and_return_what_was_there(made):
    for history in histories(made, "extremes"):
        history.check_chain()
        least = history.case.operation == "fetch_min"
        for final, who in history.teams():
            assert final == (history.operands[who].min() if least else history.operands[who].max()), history
            # A work-item's own finds never go back, whatever the others do.
            steps = history.seen[who].reshape(-1, history.seen.shape[-1])
            assert ((steps[:, 1:] <= steps[:, :-1]) if least else (steps[:, 1:] >= steps[:, :-1])).all(), history


@over(atomics.INTEGERS)
def test_bitwise_operations_lose_no_bit(made):
    reduce = {"fetch_or": np.bitwise_or, "fetch_and": np.bitwise_and, "fetch_xor": np.bitwise_xor}
    for history in histories(made, "masks"):
        history.check_chain()
        operation = reduce[history.case.operation]
        for final, who in history.teams():
            assert final == operation(history.start, operation.reduce(history.operands[who].ravel())), history


@over(atomics.COUNTERS)
def test_inc_and_dec_wrap_at_their_limit(made):
    for history in histories(made, "wraps"):
        history.check_chain()
        up = history.case.operation == "fetch_inc"
        for final, who in history.teams():
            limits = history.operands[who].ravel()
            if (limits != limits[0]).any():
                continue
            cycle, count = int(limits[0]) + 1, limits.size
            turns = [(i if up else -i) % cycle for i in range(count + 1)]
            found = history.seen[who].ravel()
            np.testing.assert_array_equal(
                np.sort(found), np.sort(np.array(turns[:-1], made.dtype)), err_msg=str(history)
            )
            assert final == turns[-1], history


@over(atomics.TYPES)
def test_forms_that_return_nothing_do_the_same(made):
    for history in histories(made, "silent"):
        history.check_neighbours()
        for final, who in history.teams():
            value = np.array([history.start])
            for operand in history.operands[who].ravel():
                name = f"fetch_{history.case.operation}"
                value = after(name, value, np.array([operand]))
            assert bits(final) == bits(value), f"{history}: {final!r}, not {value!r}"


@over(atomics.TYPES)
def test_stored_values_are_loaded_beside_concurrent_stores(made):
    for history in histories(made, "stores"):
        np.testing.assert_array_equal(bits(history.seen), bits(history.operands), err_msg=str(history))
        np.testing.assert_array_equal(bits(history.cells), bits(history.operands[..., -1]), err_msg=str(history))


@pytest.mark.parametrize("operation", ["fetch_add", "fetch_inc"])
@pytest.mark.parametrize("strategy", atomics.STRATEGIES)
@pytest.mark.parametrize("kind", ["uchar", "uint", "ulong", "float"])
def test_indices_are_unique_among_many_work_items(context, queue, strategy, kind, operation):
    if operation == "fetch_inc" and kind not in atomics.COUNTERS:
        pytest.skip("inc is for uint and ulong")
    made = atomics.setting(context, queue, strategy, kind)
    size = atomics.Shape(2, 8, 4) if support.scale(queue.device).is_simulator else atomics.Shape(64, 64, 64)
    listed = [atomics.Case(operation, "relaxed", "device")]
    text = atomics.heading(kind) + atomics.history_kernel("count", listed, "global")
    step = 1 if operation == "fetch_add" else size.total * size.rounds
    (history,) = atomics.run(made, text, "count", [Part(listed, 0, np.full((1, 1, 1), step))], size)
    counted = np.arange(size.total * size.rounds).astype(made.dtype)
    np.testing.assert_array_equal(np.sort(history.seen.ravel()), np.sort(counted))


def total_cases(made: Any) -> list[atomics.Case]:
    scope = "device" if made.space == "global" else "work_group"
    return [atomics.Case(name, "relaxed", scope) for name in ("fetch_add", "add")]


@over(atomics.FLOATS)
def test_a_sum_of_floats_is_within_the_spread_of_several_orders(made):
    """The spread counts sorted orders in, whose rounding errors are many times those of an order by chance."""
    simulated = support.scale(made.queue.device).is_simulator
    size = atomics.Shape(1, 16, 16) if simulated else atomics.Shape(4 if made.space == "global" else 1, 32, 16)
    generator = np.random.default_rng(made.seed)
    most = 50 if made.kind == "half" else 999
    data = generator.uniform(-most, most, (size.groups, size.items, size.rounds)).astype(made.dtype)
    flat = data.ravel()
    orders = [flat, flat[::-1], np.sort(flat), np.sort(flat)[::-1], flat[np.argsort(np.abs(flat))]]
    results = [np.add.accumulate(order)[-1].astype(float) for order in orders]
    exact, spread = flat.astype(float).sum(), max(results) - min(results)
    for history in atomics.run(made, program(made), "total", [Part(total_cases(made), 0, data)], size):
        off = abs(float(history.cells[0, 0]) - exact)
        assert off <= spread, f"{history}: {off} away from {exact}, where five orders differ by {spread}"


OWN_BIT = """
kernel void own_bit(global T *cells, global uint *wrong, const uint rounds, local T *shelf)
{
    const uint item = get_local_id(0), me = get_global_id(0), words = get_local_size(0) / WIDTH;
    PREPARE
    const T mask = (T)((T)1 << (T)(item % WIDTH));
    uint bad = 0u;
    for (uint r = 0u; r < rounds; ++r) {
        bad += (portbar_atomic_fetch_or_explicit(p, mask, memory_order_relaxed, memory_scope_SCOPE) & mask) != 0;
        bad += (portbar_atomic_fetch_and_explicit(p, (T)~mask, memory_order_acq_rel, memory_scope_SCOPE) & mask) == 0;
        bad += (portbar_atomic_fetch_xor_explicit(p, mask, memory_order_release, memory_scope_SCOPE) & mask) != 0;
        bad += (portbar_atomic_fetch_xor_explicit(p, mask, memory_order_acquire, memory_scope_SCOPE) & mask) == 0;
    }
    if (item % 3u != 0u)
        portbar_atomic_or_explicit(p, mask, memory_order_relaxed, memory_scope_SCOPE);
    wrong[me] = bad;
    FINISH
}
"""


def own_bit_kernel(made: Any) -> str:
    """The text of a kernel in which each work-item works on a bit of its own."""
    pieces = {
        "global": ("volatile global T *p = cells + me / WIDTH;", "", "device"),
        "local": (
            "if (item < words) shelf[item] = 0; barrier(CLK_LOCAL_MEM_FENCE); volatile local T *p = shelf + item / WIDTH;",
            ("barrier(CLK_LOCAL_MEM_FENCE); if (item < words) cells[get_group_id(0) * words + item] = shelf[item];"),
            "work_group",
        ),
    }
    prepare, finish, scope = pieces[made.space]
    text = OWN_BIT.replace("PREPARE", prepare).replace("FINISH", finish).replace("SCOPE", scope)
    return text.replace("WIDTH", f"{8 * made.dtype.itemsize}u")


@over(atomics.INTEGERS)
def test_a_bit_of_one_s_own_is_safe_from_all_others(made):
    """In global memory all groups share the word that holds a bit by turns: group g has each G-th bit."""
    width, rounds = 8 * made.dtype.itemsize, 2 if support.scale(made.queue.device).is_simulator else 200
    groups, items = 4, 64
    if support.scale(made.queue.device).is_simulator:
        groups, items = 1, width
    # Operations on 8 and 16 bits may touch the aligned 4 bytes around them, so the buffer has those.
    words = np.zeros(max(groups * items // width, 4 // made.dtype.itemsize), made.dtype)
    cells, wrong = support.to_device(made.queue, words), support.filled(made.queue, groups * items, 0xDEAD)
    shelf = cl.LocalMemory(max(items // width * made.dtype.itemsize, 4))
    kernel = made.kernel(program(made), "own_bit")
    kernel(made.queue, (groups * items,), (items,), cells, wrong, np.uint32(rounds), shelf).wait()
    assert not support.uints(made.queue, wrong).any()
    cl.enqueue_copy(made.queue, words, cells)
    left = np.tile(np.arange(items) % 3 != 0, groups)
    found = np.unpackbits(words.view(np.uint8), bitorder="little")
    np.testing.assert_array_equal(found[: left.size], left)
    assert not found[left.size :].any()


NEIGHBOURS = ("fetch_add", "exchange", "fetch_xor", "fetch_max", "fetch_sub", "fetch_or", "store", "add")


#: Types whose operations work on the aligned 4 bytes around them.
SMALL = (*atomics.NARROW, "half")


def neighbours_of(kind: str) -> tuple[str, ...]:
    """The operations on the eight cells; half has no bitwise ones."""
    instead = {"fetch_xor": "fetch_min", "fetch_or": "exchange"} if kind == "half" else {}
    return tuple(instead.get(name, name) for name in NEIGHBOURS)


def neighbour_kernel(made: Any) -> str:
    """The text of a kernel in which each work-item hammers one of eight cells side by side, each with its own operation."""
    space = made.space
    scope = "memory_scope_device" if space == "global" else "memory_scope_work_group"
    branches = ""
    for k, name in enumerate(neighbours_of(made.kind)):
        answer = "found = " if name in atomics.AFTER else ""
        call = f"portbar_atomic_{name}_explicit(p + {k}u, v, memory_order_relaxed, {scope})"
        branches += f"        if (lane == {k}u)\n            {answer}{call};\n"
    copies = ("", "", "cells + 4")
    if space == "local":
        copies = (
            "if (item < 16u) shelf[item] = cells[item]; barrier(CLK_LOCAL_MEM_FENCE);",
            "barrier(CLK_LOCAL_MEM_FENCE); if (item < 16u) cells[item] = shelf[item];",
            "shelf + 4",
        )
    return f"""
kernel void neighbours(global T *cells, global const T *operands, global T *seen, global const uint *lanes,
                       const uint rounds, local T *shelf)
{{
    const uint item = get_local_id(0), me = get_global_id(0);
    {copies[0]}
    volatile {space} T *p = {copies[2]};
    // No switch: Oclgrind 21.10 takes its default, which clang has left out, for a work-item that has a case.
    const uint lane = lanes[me];
    for (uint r = 0u; r < rounds; ++r) {{
        const T v = operands[me * rounds + r];
        T found = v;
{branches}        seen[me * rounds + r] = found;
    }}
    {copies[1]}
}}
"""


@over(SMALL)
def test_operations_on_8_and_16_bits_do_not_touch_their_neighbours(made):
    simulated = support.scale(made.queue.device).is_simulator
    groups, items, rounds = (1, 16, 2) if simulated else (4 if made.space == "global" else 1, 64, 16)
    names = neighbours_of(made.kind)
    start = made.random(16, extra=3)
    data = made.random(groups * items, rounds)
    if made.kind == "half":
        data = np.round(data / 16)  # the silent sum is exact in any order
        start = np.round(start / 16)
    cells, operands = support.to_device(made.queue, start), support.to_device(made.queue, data)
    seen_buffer = support.to_device(made.queue, np.zeros_like(data))
    lanes = support.to_device(made.queue, np.arange(groups * items, dtype=np.uint32) % 8)
    kernel = made.kernel(program(made), "neighbours")
    shelf = cl.LocalMemory(16 * made.dtype.itemsize)
    buffers = (cells, operands, seen_buffer, lanes)
    kernel(made.queue, (groups * items,), (items,), *buffers, np.uint32(rounds), shelf).wait()
    final, seen = np.empty_like(start), np.empty_like(data)
    cl.enqueue_copy(made.queue, final, cells)
    cl.enqueue_copy(made.queue, seen, seen_buffer)
    where = f"{made.kind} in {made.space} memory, seed {made.seed}"
    np.testing.assert_array_equal(bits(final[:4]), bits(start[:4]), err_msg=f"before the cells: {where}")
    np.testing.assert_array_equal(bits(final[12:]), bits(start[12:]), err_msg=f"behind the cells: {where}")
    for k, name in enumerate(names):
        mine, olds = data[k::8].ravel(), seen[k::8].ravel()
        cell = final[4 + k]
        if name == "store":
            assert cell in data[k::8, -1], f"{name}: {where}"
        elif name == "add":
            total = mine.sum(dtype=made.dtype)
            assert cell == after("fetch_add", start[4 + k], total), f"{name}: {where}"
        else:
            why = atomics.broken(start[4 + k], olds, after(name, olds, mine), cell)
            assert not why, f"{name}: {where}: {why}"
