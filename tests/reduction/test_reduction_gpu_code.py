"""Reductions as code for GPUs that the tests do not require: clang compiles it, ptxas assembles it, and the instructions are
right."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

import portbar
from portbar.primitives.reduction.header import scalars_of
from portbar.primitives.reduction.operators import OPERATORS, short_form_operators
from portbar.primitives.reduction.selection import ReductionCapabilities
from portbar.primitives.strategy import Choice
from tests import gpu_code
from tests.gpu_code import READ_ONLY, TARGETS, assembled, clang, ptx_kernels, strategy_for

pytestmark = pytest.mark.skipif(
    clang() is None, reason="no clang to compile OpenCL C with (Debian: apt-get install clang)"
)

LOOPS = (
    portbar.ReductionLoop(
        "mixed",
        {
            "total": portbar.Reduction(np.float64, "+"),
            "product": portbar.Reduction(np.complex64, "*"),
            "least": portbar.Reduction(np.float32, "argmin"),
            "bytes": portbar.Reduction(np.uint8, "^", shape=3),
            "own": portbar.Reduction(np.int32, portbar.Operator("a * b + a + b", neutral="0", commutative=False)),
        },
    ),
    portbar.ReductionLoop("loose", {"count": portbar.Reduction(np.uint32, "+")}, deterministic=False),
)


def target_strategy(target, *, reduction=None):
    how = reduction or ("shuffle" if target.assemble_for else "tree")
    means = ReductionCapabilities(collectives=False, local_memory=49152, local_size=1024)
    return replace(strategy_for(target), reduction=Choice(how, "for a compiler")).with_capabilities(reduction=means)


def compiled(target, source, folder, loops=(), reduction=None, *, assemble=False):
    strategy = target_strategy(target, reduction=reduction)
    read_only = READ_ONLY if assemble and not target.assemble_for else ()
    text = gpu_code.compiled(target, source, folder, *read_only, strategy=strategy, loops=loops)
    if assemble and target.assemble_for:
        assembled(target, folder)
    return text


def test_a_barrier_hands_the_values_of_other_groups_on_to_the_whole_group(tmp_path):
    """One work-item acquires them, all read them: a barrier with the global fence is in between."""
    source = """
#include "portbar/reduction.h"
kernel void k(PORTBAR_REDUCTION_PARAM, global uint *out)
{
    PORTBAR_REDUCTION_SCRATCH(scratch);
    const sum_results results = { out };
    const sum_local mine = { 1u };
    sum_reduce_gang_worker_vector(scratch, results, mine);
}
"""
    sums = portbar.ReductionLoop("sum", {"v": portbar.Reduction(np.uint32, "+")})
    for target, reduction in [(target, how) for target in TARGETS for how in (None, "tree")]:
        compiled(target, source, tmp_path, (sums,), reduction)
        text = (tmp_path / "in.cl").read_text(encoding="utf-8")
        finish = text[text.index("void portbar_finish_sum(") :]
        handed_on = finish[finish.index("portbar_atomic_fetch_add_explicit(counter") : finish.index("values[i]")]
        assert "    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);" in handed_on, (target.name, reduction)


def every_form(strategy, op):
    kernels = []
    for kind in scalars_of(strategy):
        if OPERATORS[op].takes(kind) and kind.c != "half":
            calls = "".join(
                f"    out[{int(level != 'sub_group')}] = portbar_{level}_{what}_{op}(scratch, out[1]);\n"
                for level in ("sub_group", "work_group")
                for what in ("reduce", "scan_inclusive", "scan_exclusive")
            )
            kernels.append(
                f"kernel void of_{kind.c}(global {kind.c} *out)\n{{\n    PORTBAR_REDUCTION_SCRATCH(scratch);\n{calls}"
                "    out[2] = portbar_sub_group_broadcast(scratch, out[2], 1u);\n"
                "    out[3] = portbar_work_group_broadcast(scratch, out[3], 1u);\n}\n"
            )
    return '#include "portbar/reduction.h"\n' + "".join(kernels)


def operators_in_turn():
    """Yield each operator with two targets, in turn: all with all would take a minute, and an operator is the same to most."""
    for number, op in enumerate(short_form_operators()):
        for target in (TARGETS[number % len(TARGETS)], TARGETS[(number + 3) % len(TARGETS)]):
            yield pytest.param(op.name, target, id=f"{op.name}-{target.name}")


@pytest.mark.slow
@pytest.mark.parametrize(("op", "target"), [*operators_in_turn()])
def test_every_operator_compiles_for_its_targets(op, target, tmp_path):
    compiled(target, every_form(target_strategy(target), op), tmp_path, assemble=True)


LEVELS_SOURCE = """
#include "portbar/device_barrier.h"
#include "portbar/reduction.h"
kernel void gangs(PORTBAR_REDUCTION_PARAM, global double *total, global float2 *product, global portbar_indexed_float *least,
                  global uchar *bytes, global int *own, global uint *count)
{
    PORTBAR_REDUCTION_SCRATCH(scratch);
    const mixed_results results = { total, product, least, bytes, 1u, 2u, own };
    mixed_local mine = mixed_identity();
    mine = mixed_setup_worker_vector(scratch, results, mine);
    mine = mixed_init_vector(scratch, results, mine);
    mine.own += (int)portbar_loop_id_gang_worker_vector();
    mine = mixed_fini_vector(scratch, results, mine);
    mine = mixed_fini_worker(scratch, results, mine);
    mixed_reduce_gang_worker_vector(scratch, results, mine);
    const loose_results loosely = { count };
    const loose_local one = { 1u };
    loose_reduce_gang(scratch, loosely, one);
}
kernel void grids(PORTBAR_GRID_PARAM, global double *total, global uint *sum)
{
    PORTBAR_ENTER(grid);
    PORTBAR_REDUCTION_SCRATCH(scratch);
    const mixed_results results = { total, 0, 0, 0, 0u, 0u, 0 };
    mixed_local mine = mixed_identity();
    mine = mixed_init_gang_worker_vector(&grid, scratch, results, mine);
    mine = mixed_fini_gang_worker_vector(&grid, scratch, results, mine);
    mine = mixed_teardown_gang_worker_vector(&grid, scratch, results, mine);
    if (get_local_id(0) % 32 == 0 && mixed_lock_worker(scratch)) {
        sum[1] += 1;
        mixed_unlock_worker(scratch);
    }
    sum[0] = portbar_device_reduce_add(&grid, scratch, sum[0]);
}
"""


@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_declared_loops_and_grids_compile_for_every_target(target, tmp_path):
    if target.atomics == "cl12":
        pytest.skip("the header of this compile target has no double atomics to speak of")
    compiled(target, LEVELS_SOURCE, tmp_path, LOOPS, assemble=True)


ONE = """
#define PORTBAR_SUB_GROUP_SIZE {size}
#include "portbar/reduction.h"
kernel void lanes(global {kind} *out)
{{
    PORTBAR_REDUCTION_SCRATCH(scratch);
    out[0] = portbar_sub_group_reduce_{op}(scratch, out[1]);
}}
kernel __attribute__((reqd_work_group_size(1, 1, 1))) void alone(global {kind} *out)
{{
    PORTBAR_REDUCTION_SCRATCH(scratch);
    out[0] = portbar_work_group_reduce_{op}(scratch, out[1]);
}}
"""

PTX = [target for target in TARGETS if target.assemble_for]


@pytest.mark.slow
@pytest.mark.parametrize("target", PTX, ids=lambda target: target.name)
@pytest.mark.parametrize("size", [32, 8, 11])
@pytest.mark.parametrize(("kind", "op"), [("float", "add"), ("int", "max"), ("double", "min")])
def test_warps_exchange_values_without_local_memory(target, size, kind, op, tmp_path):
    text = compiled(target, ONE.format(size=size, kind=kind, op=op), tmp_path)
    body = "\n".join(ptx_kernels(text)["lanes"])
    shuffles, redux = len(re.findall(r"shfl\.sync\.", body)), len(re.findall(r"redux\.sync", body))
    if size == 11:
        # No sub-group of a warp: by local memory and barriers.
        assert shuffles == redux == 0
    elif size == 32 and kind == "int" and target.name.startswith("sm_90"):
        assert (shuffles, redux) == (0, 1)
    else:
        words = 2 if kind == "double" else 1
        steps = {32: 5, 8: 3}[size]
        # By exchange in pairs; where not every warp is whole, the first lane then hands the result to the others.
        assert redux == 0
        assert shuffles == words * (steps + steps + 1)
        assert "ld.shared" not in body
        assert "barrier" not in body


@pytest.mark.parametrize("target", PTX, ids=lambda target: target.name)
@pytest.mark.parametrize(("kind", "op"), [("float", "add"), ("int", "max")])
def test_the_compiler_knows_every_mask(target, kind, op, tmp_path):
    text = compiled(target, ONE.format(size=32, kind=kind, op=op), tmp_path)
    # One that is computed takes longer, and lanes that never were are not waited for.
    masks = re.findall(r"(?:shfl|redux)\.sync\.[^;]+, ([^,;]+);", text)
    assert set(masks) == {"0xffffffff"}
