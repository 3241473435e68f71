"""The memory that reductions share has room for everything: words of the states, slots of the scratch memory."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

import portbar
from portbar.primitives import layout
from portbar.primitives.atomics_table import AtomicsTable
from portbar.primitives.headers import render_header
from portbar.primitives.reduction.header import LINE_WORDS, areas, context, grid_words, places
from portbar.primitives.reduction.use import Use
from portbar.primitives.strategy import Capabilities, Choice, Strategy

TABLE = AtomicsTable(types=("int", "uint", "char", "long"))
STRATEGY = Strategy(
    Choice("c11", ""), Choice("packed", ""), Choice("counter", ""), capabilities=Capabilities(atomics_table=TABLE)
)

fields = st.builds(
    portbar.Reduction, st.sampled_from([np.int8, np.int32, np.int64]), st.just("+"), shape=st.integers(1, 40)
)
loops = st.lists(st.tuples(fields, st.integers(1, 5), st.booleans()), min_size=1, max_size=4).map(
    lambda made: tuple(
        portbar.ReductionLoop(f"loop_{number}", {"v": field}, uses=uses, deterministic=deterministic)
        for number, (field, uses, deterministic) in enumerate(made)
    )
)


@given(loops)
def test_locks_counters_and_values_of_loops_never_overlap(declared):
    found, header, values = places(declared)
    taken = []
    for loop in declared:
        place = found[loop.name]
        taken += [(place.lock, place.lock + 1), (place.counters, place.counters + loop.uses)]
    taken.sort()
    # The first line is for what went wrong.
    assert taken[0][0] >= LINE_WORDS
    assert all(end <= start for (_, end), (start, _) in pairwise(taken))
    assert taken[-1][1] <= header
    kept = [loop for loop in declared if loop.deterministic]
    ends = [found[loop.name].before + loop.uses * -(-loop.struct.size // 4) for loop in kept]
    starts = [found[loop.name].before for loop in kept]
    assert all(end <= start for end, start in zip(ends, starts[1:], strict=False))
    assert all(end <= values for end in ends)
    assert all(start % 4 == 0 for start in starts)


@given(loops, st.integers(0, 10).map(lambda power: 1 << power))
def test_every_work_group_of_a_grid_has_room_for_the_largest_value_twice(declared, capacity):
    use = Use(frozenset(), declared)
    room = 4 * grid_words(use)
    assert room >= max(8, *(loop.struct.size for loop in declared), 8)
    assert room % 16 == 0
    words = {area.name: layout.words_of(area, capacity) for area in areas(use)}
    assert words.get("LOOP_LOCKS", 0) == LINE_WORDS * len(declared)
    assert words["VALUES"] >= 2 * capacity * grid_words(use)


@given(loops)
def test_a_slot_holds_every_value_and_keeps_the_alignment(declared):
    made = context(STRATEGY, Use(frozenset(), declared, local_size=8))
    unit = int(made["slot_unit"].removeprefix("ulong") or 1) * 8
    slot = made["slot_units"] * unit
    for loop in declared:
        assert slot >= loop.struct.size
        assert slot % loop.struct.alignment == 0
    assert made["scratch_bytes"] % slot == 0


def test_groups_of_a_cpu_fold_the_values_of_all_groups_and_others_share_the_work():
    use = Use(frozenset({("device", "reduce", "add")}))
    gathers = {}
    for serial in (False, True):
        text = render_header("reduction", STRATEGY.with_units(folds_serially=serial), use)
        gathers[serial] = "portbar_grid_gather_add" in text
    assert gathers == {False: True, True: False}
