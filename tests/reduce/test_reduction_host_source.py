"""The kernels of `portbar.reduce` compile for GPUs that this machine lacks, and use their instructions."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from portbar.arrays.shape import Shape, SizedShape, cut, fixed_layout, layout_of
from portbar.arrays.source import Output, ReductionJob, most_elements
from portbar.primitives.reduction.code import extensions_for
from portbar.primitives.reduction.loops import Reduction
from portbar.primitives.reduction.operators import OPERATORS, Operator
from portbar.primitives.reduction.types import type_of
from tests import gpu_code
from tests.gpu_code import READ_ONLY, TARGETS, Target, assembled, compiled, strategy_for

SHAPE = Shape(local=256, load_bytes=16, loads=4, sets=1, per_unit=8)
NEEDS_CLANG = pytest.mark.skipif(gpu_code.clang() is None, reason="no clang: Debian's package `clang` brings it")
PTX = [target for target in TARGETS if target.atomics in {"ptx", "membar"}]


def output(dtype: object, op: object, place: int, mapped: str | None = None) -> Output:
    reduction = Reduction(dtype, op)
    return Output(f"out{place}", reduction.type_called("portbar_value"), reduction.operator, mapped)


def job(
    form: str, *, shuffles: bool = False, fixed: bool = False, ordered: bool = False, atomic: bool = False
) -> ReductionJob:
    kind = type_of(np.float32, "x")
    outputs = (output(np.float32, "+", 0), output(np.int64, "max", 1, "i"), output(np.float32, "argmin", 2))
    if ordered:
        outputs = (output(np.float32, Operator("a * b + b", "0", commutative=False), 0),)
    if atomic:
        outputs = (output(np.float32, "+", 0), output(np.uint32, "^", 1, "(uint)x"))
    layout = (
        SizedShape(Shape(256, 16, 1, 1, 8, strided=False), 1)
        if ordered
        else layout_of(SHAPE, 4, most=most_elements(kind))
    )
    if fixed:
        layout = fixed_layout(SHAPE, 4)
    kinds = [kind, *(out.kind for out in outputs)]
    return ReductionJob(
        (("x", kind),),
        outputs,
        layout,
        form=form,
        strip=64 if form == "strips" else 1,
        team=16 if form == "teams" else 256,
        aligned=not ordered,
        peels=form == "split" and not fixed and not ordered,
        fixed=fixed,
        atomic=atomic,
        shuffles=shuffles,
        extensions=extensions_for(kinds),
    )


JOBS = {
    "split": {"form": "split"},
    "fixed": {"form": "split", "fixed": True},
    "ordered": {"form": "split", "ordered": True},
    "teams": {"form": "teams"},
    "ordered teams": {"form": "teams", "ordered": True},
    "columns": {"form": "columns"},
    "strips": {"form": "strips"},
}


@pytest.mark.slow
@NEEDS_CLANG
@pytest.mark.parametrize("name", list(JOBS))
@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_kernels_compile_for_gpus(target: Target, name: str, tmp_path: Path) -> None:
    shuffles = target in PTX and target.atomics == "ptx" and name not in {"columns", "strips"}
    made = job(**JOBS[name], shuffles=shuffles)
    text = compiled(target, made.text(strategy_for(target)), tmp_path, *(() if target in PTX else READ_ONLY))
    if target not in PTX:
        assert "define" in text
        return
    if shuffles:
        assert "shfl.sync.down.b32" in text
    if name == "split":
        assert "ld.global.nc.v4" in text or "ld.global.v4" in text
        assert "atom.acq_rel.gpu.global.add" in text or "membar.gl" in text
    assembled(target, tmp_path)


@NEEDS_CLANG
@pytest.mark.parametrize("name", ["split", "fixed", "ordered"])
@pytest.mark.parametrize("target", [t for t in PTX if t.atomics == "ptx"], ids=lambda target: target.name)
def test_tagged_values_of_groups_need_no_fence(target: Target, name: str, tmp_path: Path) -> None:
    made = replace(job(**JOBS[name], shuffles=True), tagged=True)
    text = compiled(target, made.text(strategy_for(target)), tmp_path)
    assert "st.relaxed.gpu.global.u64" in text
    assert "atom.add.relaxed.gpu" in text
    assert "acq_rel" not in text
    assert "membar" not in text
    assembled(target, tmp_path)


def executions_of_tags(groups: int, *, checked: bool) -> set[tuple[int, ...]]:
    """Tags that the groups of one launch read, in every consistent execution in which the last group leaves the next tag.

    A read may return the tag of the launch before, 0, or what the last group stores, however late that is. Without `checked`
    the last group goes by the count alone.
    """
    found = set()
    for read in itertools.product((0, 1), repeat=groups):
        # The last group, here the last of the tuple: a barrier orders its reads before its store.
        wanted = read[-1] + 1
        stored = wanted if not checked or all(tag + 1 == wanted for tag in read) else None
        if read[-1] == 0 and stored is not None and set(read) <= {0, stored}:
            found.add(read)
    return found


@pytest.mark.parametrize("groups", [2, 3, 5])
def test_no_execution_lets_a_group_read_the_next_launch_s_tag(groups: int) -> None:
    assert executions_of_tags(groups, checked=True) == {(0,) * groups}
    assert len(executions_of_tags(groups, checked=False)) == 2 ** (groups - 1)


@pytest.mark.parametrize("name", ["split", "fixed", "ordered"])
def test_the_next_tag_is_left_after_the_parts_of_all_groups_were_read(name: str) -> None:
    """The premises of the argument in docs/internals.md: parts carry the tag, reads wait for it, the store comes last."""
    target = next(target for target in PTX if target.atomics == "ptx")
    text = replace(job(**JOBS[name], shuffles=True), tagged=True).text(strategy_for(target))
    kernel = text[text.index("kernel ") :]
    order = [
        "const uint tag = *(volatile global uint *)found + 1u;",
        "portbar_leave(found + 1u + group * PORTBAR_ITEM_WORDS, own, tag);",
        "portbar_count_one(counters) + 1u == groups",
        "barrier(CLK_LOCAL_MEM_FENCE);",
        "PORTBAR_FOUND(",
        "own = portbar_tree(own, room);",
        "*(volatile global uint *)found = tag;",
    ]
    places = [kernel.index(order[0])]
    for what in order[1:]:
        places.append(kernel.index(what, places[-1]))
    assert kernel.count(order[-1]) == kernel.count(order[0]) == 1
    assert "(uint)(word >> 32) != tag" in text


@NEEDS_CLANG
def test_one_atomic_a_group_where_that_is_asked_for(tmp_path: Path) -> None:
    target = next(target for target in PTX if target.assemble_for == "sm_70")
    text = compiled(target, job("split", shuffles=True, atomic=True).text(strategy_for(target)), tmp_path)
    assert "atom.relaxed.gpu.global.add.f32" in text
    assert "atom.relaxed.gpu.global.xor.b32" in text
    assembled(target, tmp_path)


@NEEDS_CLANG
def test_reproducible_sums_round_products_before_they_are_added(tmp_path: Path) -> None:
    target = next(target for target in PTX if target.assemble_for == "sm_70")
    plain = job("split", fixed=True)
    made = replace(plain, wanted=(output(np.float32, "+", 0, "x * x"),))
    text = compiled(target, made.text(strategy_for(target)), tmp_path, "-ffp-contract=on")
    assert "mul.rn.f32" in text
    assert "add.rn.f32" in text
    assert "fma.rn.f32" not in text


def test_tiles_of_a_cut_cover_the_array_once() -> None:
    for size, rows, units, limit, strided in itertools.product(
        (0, 1, 1023, 1024, 4097, 1 << 20, (1 << 33) + 5), (1, 3, 5000), (1, 2, 132), (None, 65_535), (True, False)
    ):
        layout = layout_of(Shape(256, 16, 4, 1, 8, 1, strided), 4)
        groups, part = cut(layout, size, rows, units, limit)
        assert groups >= 1
        assert part % layout.tile == 0
        assert groups * part >= size
        if not strided:
            assert (groups - 1) * part < max(1, size)
        if limit is not None:
            assert -(-size // (groups * layout.tile)) < limit // 2
        elif rows * groups > 8 * units:
            assert groups == 1


@pytest.mark.parametrize("symbol", sorted(op.symbol for op in OPERATORS.values()))
def test_every_operator_renders_for_vectors_and_for_single_values(symbol: str) -> None:
    for local, dtype in itertools.product((1, 256), (np.int8, np.uint64)):
        out = output(dtype, symbol, 0)
        kind = type_of(dtype, "x")
        shape = Shape(local, 64 if local == 1 else 16, 4, 4 if local == 1 else 1, 8)
        layout = layout_of(shape, kind.size, most=most_elements(kind))
        made = ReductionJob((("x", kind),), (out,), layout, team=local)
        text = made.text(strategy_for(TARGETS[0]))
        assert text.count("kernel ") == 1
        assert ("portbar_lanes_0" in text) == (local == 1 and symbol in {"+", "*", "min", "max", "&", "|", "^"})
