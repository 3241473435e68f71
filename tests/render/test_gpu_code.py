"""Code for GPUs that this machine lacks: every path compiles for its target, and the instructions are the promised ones."""

from __future__ import annotations

import itertools
import re
from dataclasses import replace

import pytest

from portbar.primitives.grid import bounded
from portbar.primitives.headers import resolve_includes
from tests import gpu_code
from tests.gpu_code import READ_ONLY, SM_80, TARGETS, Target, assembled, compiled, everything, ptx_kernels, strategy_for

pytestmark = pytest.mark.skipif(gpu_code.clang() is None, reason="no clang: Debian's package `clang` brings it")

PTX = next(target for target in TARGETS if target.assemble_for == "sm_70")
MEMBAR = next(target for target in TARGETS if target.atomics == "membar")
AMD = next(target for target in TARGETS if "gfx90a" in target.name)
SPIR = next(target for target in TARGETS if target.atomics == "cl12")
NEWEST = next(target for target in TARGETS if target.assemble_for == "sm_90")

each_target = pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)

BARRIER = r"""
#include "portbar/device_barrier.h"
#include "portbar/atomics.h"
kernel void meet(PORTBAR_GRID_PARAM, global uint *a)
{
    PORTBAR_ENTER(grid);
    portbar_atomic_add_explicit(a, 1u, memory_order_relaxed, memory_scope_device);
    if (portbar_device_barrier(&grid))
        a[portbar_global_id(&grid)] = portbar_num_groups(&grid);
}
"""

LOOPS = r"""
#include "portbar/device_barrier.h"
kernel void fixed(PORTBAR_GRID_PARAM, global float *a, uint n)
{
    PORTBAR_ENTER(grid);
    PORTBAR_FOR(i, &grid, n)
        a[i] *= 2.0f;
}
kernel void plane(PORTBAR_GRID_PARAM, global float *a, uint width, uint height, uint depth)
{
    PORTBAR_ENTER(grid);
    PORTBAR_FOR_2D(x, y, &grid, width, height)
        a[y * width + x] *= 2.0f;
    PORTBAR_FOR_3D(x, y, z, &grid, width, height, depth)
        a[(z * height + y) * width + x] *= 2.0f;
}
kernel void dealt(PORTBAR_GRID_PARAM, global float *a, uint n)
{
    PORTBAR_ENTER(grid);
    PORTBAR_FOR_DYNAMIC(i, &grid, n, 1024u)
        a[i] *= 2.0f;
}
"""


TURNS = r"""
#include "portbar/device_barrier.h"
kernel void line(PORTBAR_GRID_PARAM, global float *a, uint n)
{
    PORTBAR_ENTER(grid);
    if (n != 3u)
        PORTBAR_FOR(i, &grid, n, independent)
            a[i] += 1.0f;
}
kernel void plane(PORTBAR_GRID_PARAM, global float *a, uint width, uint height, uint depth)
{
    PORTBAR_ENTER(grid);
    PORTBAR_FOR_2D(x, y, &grid, width, height, independent) {
        if (x == y)
            continue;
        a[y * width + x] += 1.0f;
    }
    PORTBAR_FOR_3D(x, y, z, &grid, width, height, depth, independent)
        a[(z * height + y) * width + x] += 1.0f;
    PORTBAR_FOR_2D(x, y, &grid, width, height)
        a[y * width + x] += 1.0f;
}
"""


SPLIT = r"""
#include "portbar/split_barrier.h"
kernel void split(global uint *out, const global uint4 *tile, uint turns)
{
    local portbar_split_barrier b;
    local uint4 copied[64];
    if (get_local_id(0) == 0)
        portbar_split_barrier_initialize(&b, portbar_split_barrier_max());
    barrier(CLK_LOCAL_MEM_FENCE);
    portbar_copy_async(copied, tile, 4u);
    portbar_copy_async(copied, tile, 8u);
    portbar_copy_async_group(copied, tile, turns);
    portbar_copy_async_wait();
    portbar_split_barrier_arrive_copy_async(&b);
    portbar_split_barrier_arrive_copy_async_no_inc(&b);
    portbar_arrival_token token = portbar_split_barrier_arrive_no_complete(&b, turns);
    token = portbar_split_barrier_arrive_and_drop_no_complete(&b, turns);
    token = portbar_split_barrier_arrive_count(&b, turns);
    out[0] = portbar_split_barrier_wait(&b, token);
    token = portbar_split_barrier_arrive_and_drop(&b);
    out[1] = portbar_split_barrier_test_wait(&b, token) + portbar_split_barrier_try_wait(&b, token, turns);
    out[2] = portbar_split_barrier_wait_parity(&b, turns) + portbar_split_barrier_test_wait_parity(&b, turns);
    out[3] = portbar_split_barrier_try_wait_parity(&b, turns, 9u) + portbar_split_barrier_pending_count(token);
    out[4] = portbar_split_barrier_arrive_and_wait(&b) + portbar_split_barrier_fault(&b) + copied[0].x;
    barrier(CLK_LOCAL_MEM_FENCE);
    portbar_split_barrier_invalidate(&b);
}
"""


def one_call_each(calls: dict[str, str]) -> str:
    """Return a program with one kernel a call."""
    parameters = "global uint *p, local uint *l, global float *f, uint v, float x, global uint *out"
    kernels = (f"kernel void {name}({parameters})\n{{\n    {call}\n}}\n" for name, call in calls.items())
    return '#include "portbar/atomics.h"\n' + "".join(kernels)


def one_call(name: str, given: str, order: str, scope: str = "device") -> str:
    answer = "out[0] = " if name == "load" or name.startswith("fetch") else ""
    return f"{answer}portbar_atomic_{name}_explicit({given}, memory_order_{order}, memory_scope_{scope});"


def fetch_adds(scope: str = "device") -> dict[str, str]:
    return {order: one_call("fetch_add", "p, v", order, scope) for order in gpu_code.ORDERS}


def made(target: Target, text: str, folder) -> str:
    """Compile for a target and, where there is an assembler for it, assemble."""
    # Code without inline assembly comes to calls of built-in functions, which are not there to be linked.
    assembly = compiled(target, text, folder, *(() if target.assemble_for else READ_ONLY))
    if target.assemble_for:
        assembled(target, folder)
    return assembly


def of_memory(instructions: list[str]) -> list[str]:
    """The instructions that order memory or access it atomically, without operands; `ld.param` and plain accesses are not."""
    names = (instruction.split()[0].rstrip(";") for instruction in instructions)
    plain = re.compile(r"(ld|st)\.(param|global|local|shared)\.")
    return [name for name in names if re.match(r"atom|red|fence|membar|ld|st", name) and not plain.match(name)]


@pytest.mark.slow
@each_target
def test_every_operation_compiles_for_its_target(target: Target, tmp_path) -> None:
    text = made(target, everything(strategy_for(target)), tmp_path)
    offered = strategy_for(target).capabilities.atomics_table
    for kind, space in itertools.product(offered.types, offered.spaces):
        assert f"use_{kind}_{space}" in text


@pytest.mark.parametrize("algorithm", bounded())
@pytest.mark.parametrize(
    "target", [target for target in TARGETS if target.assemble_for], ids=lambda target: target.name
)
def test_the_device_barrier_compiles_for_nvidia(target: Target, algorithm: str, tmp_path) -> None:
    made(replace(target, device_barrier=algorithm), BARRIER, tmp_path)


@pytest.mark.parametrize("algorithm", ["counter", "sharded", "replicated"])
def test_a_barrier_on_the_newest_chips_acquires_without_a_trip_to_memory(algorithm, tmp_path) -> None:
    kernel = " ".join(ptx_kernels(compiled(replace(NEWEST, device_barrier=algorithm), BARRIER, tmp_path))["meet"])
    # From the arrival, which releases, to the acquire after the last poll.
    met = kernel[kernel.rindex("fence.release.gpu") :]
    arrival = r"red.relaxed.gpu\S+ [^;]+;\s+red" if algorithm == "replicated" else "atom"
    assert re.match(rf"fence\.release\.gpu;\s+{arrival}\.relaxed\.gpu", met)
    assert met.index("ld.relaxed.gpu") < met.index("fence.acquire.gpu")
    assert "ld.acquire" not in met
    assert "fence.acq_rel" not in met
    # Many groups hold their first poll back; replicated counters have it wait in any case.
    assert "%clock" in met


VOTES = r"""
#include "portbar/device_barrier.h"
kernel void vote(PORTBAR_GRID_PARAM, global uint *a)
{
    PORTBAR_ENTER(grid);
    a[portbar_global_id(&grid)] = portbar_device_barrier_CALL;
}
"""


@each_target
def test_votes_compile_for_their_target(target: Target, tmp_path) -> None:
    calls = " + portbar_device_barrier_".join(f"{vote}(&grid, a[0] != 0u)" for vote in ("any", "all", "count"))
    made(target, VOTES.replace("CALL", calls), tmp_path)


@pytest.mark.parametrize("algorithm", ["counter", "sharded", "replicated", "flag"])
def test_a_vote_takes_one_addition_and_no_more_trips_than_a_barrier(algorithm, tmp_path) -> None:
    text = compiled(
        replace(NEWEST, device_barrier=algorithm), VOTES.replace("CALL", "any(&grid, a[0] != 0u)"), tmp_path
    )
    kernel = " ".join(ptx_kernels(text)["vote"])
    # Not by a barrier that counts: the driver lets parts of a warp come to one apart, and it loses votes.
    assert "barrier.red" not in kernel
    # Whether anyone in the work-group votes is a store, and all votes come with the poll that finds the last arrival.
    assert not re.search(r"(?:atom|red)\S*\.shared", kernel)
    added = re.search(r"fence\.release\.gpu; (?:atom|red)\.relaxed\.gpu\.global\.add\.u64 ", kernel)
    assert added
    met = kernel[added.start() :]
    assert met.index("ld.relaxed.gpu.global.b64") < met.index("fence.acquire.gpu")
    # Of two counters a work-group arrives at both, and awaits the answer of neither.
    counts = [len(re.findall(rf"{kind}\.\S*\.u64", met)) for kind in ("atom", "red")]
    assert counts == ([0, 2] if algorithm == "replicated" else [1, 0])
    after = met[met.index("fence.acquire.gpu") :]
    assert "ld.relaxed" not in after[: after.index("barrier")]


TEAM = r"""
kernel void CUT(PORTBAR_GRID_PARAM, global uint *a, const uint k)
{
    PORTBAR_ENTER(grid);
    portbar_team team = portbar_team_CUT(&grid, k);
    bool held = true;
    for (uint r = 0u; r < a[0] && held; ++r)
        held = CALL;
    a[1] = held ? 1u : 0u;
}
"""


def teams(calls: dict[str, str]) -> str:
    """Return a program with a kernel for each way to cut teams and a call of theirs."""
    return '#include "portbar/team.h"\n' + "".join(
        TEAM.replace("CUT", cut).replace("CALL", call) for cut, call in calls.items()
    )


@each_target
def test_teams_compile_for_their_target(target: Target, tmp_path) -> None:
    calls = {
        "split": "portbar_team_barrier_count(&grid, &team, r != 3u) == portbar_team_global_size(&team)",
        "by_colour": "portbar_team_reduce_min(&grid, &team, (float)r) == portbar_team_broadcast(&grid, &team, 1.0f, 0u)",
    }
    made(target, teams(calls), tmp_path)


def test_a_barrier_of_a_team_asks_for_no_answer_and_polls_by_relaxed_loads(tmp_path) -> None:
    text = teams({"split": "portbar_team_barrier(&grid, &team)"})
    kernel = " ".join(ptx_kernels(compiled(NEWEST, text, tmp_path))["split"])
    # The last arrival of the kernel is that of the team.
    met = kernel[kernel.rindex("fence.release.gpu") :]
    assert re.match(r"fence\.release\.gpu; red\.relaxed\.gpu\.global\.inc\.u32 ", met)
    assert met.index("ld.relaxed.gpu.global.b32") < met.index("fence.acquire.gpu")
    assert "ld.acquire" not in met


@pytest.mark.parametrize("target", [MEMBAR, SPIR], ids=lambda target: target.name)
def test_votes_elsewhere_go_through_local_memory(target: Target, tmp_path) -> None:
    strategy = strategy_for(target)
    text = resolve_includes(VOTES.replace("CALL", "count(&grid, a[0] != 0u)"), strategy)
    assert "portbar_local_add(" in text
    # OpenCL 1.2's loads are read-modify-writes, which polls had better not be on 64 bits.
    assert ("portbar_votes_add(" in text) == (target is MEMBAR)
    narrow = replace(strategy.capabilities.atomics_table, types=("int", "uint"))
    text = resolve_includes(VOTES.replace("CALL", "any(&grid, true)"), strategy.with_capabilities(atomics_table=narrow))
    assert "ulong" not in text[text.index("portbar_meet_votes") :]


@pytest.mark.parametrize("algorithm", ["counter", "sharded", "replicated", "tree"])
def test_arrivals_are_increments_whose_bound_the_assembler_does_not_know(algorithm, tmp_path) -> None:
    """It would make one addition of those of a warp's lanes, by a vote that takes time though one lane comes."""
    kernel = " ".join(ptx_kernels(compiled(replace(NEWEST, device_barrier=algorithm), BARRIER, tmp_path))["meet"])
    # The last one: of a tree's, that at its root.
    begin = max(
        kernel.rfind(f"fence.{order}.gpu; {kind}") for order in ("release", "acq_rel") for kind in ("atom", "red")
    )
    arrivals = re.findall(r"(?:atom|red)\.relaxed\.gpu\.global\.(\w+)\.u32 [^;]*, (\w+);", kernel[begin:])
    assert len(arrivals) == (2 if algorithm == "replicated" else 1)
    assert set(arrivals) == {("inc", "most")}
    assert "mov.u32 most, %lanemask_ge;" in kernel[:begin]


@pytest.mark.parametrize("target", [*TARGETS, SM_80], ids=lambda target: target.name)
def test_every_member_of_the_split_barrier_compiles_for_its_target(target: Target, tmp_path) -> None:
    text = compiled(target, SPLIT, tmp_path)
    hardware = ("mbarrier.init", "mbarrier.arrive.noComplete", "cp.async.mbarrier.arrive.noinc", "cp.async.cg")
    assert all((word in text) == (target.split_barrier == "mbarrier") for word in hardware)
    assert ("mbarrier.try_wait" in text) == (target.assemble_for == "sm_90")
    if target.assemble_for:
        assembled(target, tmp_path)


@pytest.mark.parametrize(
    ("scope", "ptx_scope"), [("sub_group", "cta"), ("work_group", "cta"), ("device", "gpu"), ("all_svm_devices", "sys")]
)
def test_an_ordered_operation_is_one_instruction_of_that_order_and_scope(scope, ptx_scope, tmp_path) -> None:
    kernels = ptx_kernels(compiled(PTX, one_call_each(fetch_adds(scope)), tmp_path))
    for order in ("relaxed", "acquire", "release", "acq_rel"):
        assert of_memory(kernels[order]) == [f"atom.{order}.{ptx_scope}.global.add.u32"], order
    # As in libcu++: one fence.sc, and the operation acquires.
    assert of_memory(kernels["seq_cst"]) == [f"fence.sc.{ptx_scope}", f"atom.acquire.{ptx_scope}.global.add.u32"]
    for name, instructions in kernels.items():
        assert not [line for line in instructions if re.search(r"\bbra\b|setp|selp", line)], name


def test_loads_stores_and_fences_are_one_instruction_each(tmp_path) -> None:
    fence = "portbar_atomic_work_item_fence(CLK_GLOBAL_MEM_FENCE, memory_order_{}, memory_scope_device);"
    wanted = {
        "load": (one_call("load", "p", "relaxed"), ["ld.relaxed.gpu.global.b32"]),
        "load_acquire": (one_call("load", "p", "acquire"), ["ld.acquire.gpu.global.b32"]),
        "store": (one_call("store", "p, v", "relaxed"), ["st.relaxed.gpu.global.b32"]),
        "store_release": (one_call("store", "p, v", "release"), ["st.release.gpu.global.b32"]),
        "store_byte": (one_call("store", "(global uchar *)p, (uchar)v", "release"), ["st.release.gpu.global.u8"]),
        "fence": (fence.format("acq_rel"), ["fence.acq_rel.gpu"]),
        "no_fence": (fence.format("relaxed"), []),
        "shared": (one_call("or", "l, v", "relaxed", "work_group"), ["atom.relaxed.cta.shared.or.b32"]),
        "real_add": (one_call("add", "f, x", "relaxed"), ["atom.relaxed.gpu.global.add.f32"]),
        "wrap": (one_call("fetch_inc", "p, v", "acq_rel"), ["atom.acq_rel.gpu.global.inc.u32"]),
    }
    kernels = ptx_kernels(compiled(PTX, one_call_each({name: call for name, (call, _) in wanted.items()}), tmp_path))
    for name, (_, instructions) in wanted.items():
        assert of_memory(kernels[name]) == instructions, name


def test_before_sm_70_fences_stand_around_relaxed_operations(tmp_path) -> None:
    kernels = ptx_kernels(compiled(MEMBAR, one_call_each(fetch_adds()), tmp_path))
    fence, add = "membar.gl", "atom.global.add.u32"
    assert of_memory(kernels["relaxed"]) == [add]
    assert of_memory(kernels["acquire"]) == [add, fence]
    assert of_memory(kernels["release"]) == [fence, add]
    assert of_memory(kernels["acq_rel"]) == [fence, add, fence]
    assert of_memory(kernels["seq_cst"]) == [fence, add, fence]


def llvm_functions(text: str) -> dict[str, str]:
    """Name of each function in a text of LLVM's language -> its body."""
    return dict(re.findall(r"^define [^\n]*@(\w+)\([^\n]*\{\n(.*?)^\}", text, re.DOTALL | re.MULTILINE))


def test_c11_leaves_one_call_with_a_constant_order_and_scope(tmp_path) -> None:
    bodies = llvm_functions(compiled(AMD, one_call_each(fetch_adds()), tmp_path, "-emit-llvm"))
    numbers = {"relaxed": 0, "acquire": 2, "release": 3, "acq_rel": 4, "seq_cst": 5}
    for order, number in numbers.items():
        atomics = re.findall(r"call .*@\w*atomic\w*\((.*)\)", bodies[order])
        assert len(atomics) == 1, order
        assert re.search(rf"i32 noundef {number}, i32 noundef 2$", atomics[0]), order
        assert not re.search(r"^\s*(br|switch)\b", bodies[order], re.MULTILINE), order


def test_cl12_leaves_one_atomic_with_the_fences_of_its_order(tmp_path) -> None:
    bodies = llvm_functions(compiled(SPIR, one_call_each(fetch_adds()), tmp_path, "-emit-llvm"))
    for order, fences in {"relaxed": 0, "acquire": 3, "release": 3, "acq_rel": 6, "seq_cst": 6}.items():
        assert len(re.findall(r"call .*@\w*atomic_add", bodies[order])) == 1, order
        assert len(re.findall(r"call .*mem_fence", bodies[order])) == fences, order
        assert not re.search(r"^\s*(br|switch)\b", bodies[order], re.MULTILINE), order


@each_target
def test_loops_over_the_grid_compile(target, tmp_path) -> None:
    made(target, LOOPS, tmp_path)


@each_target
def test_loops_with_independent_turns_compile(target, tmp_path) -> None:
    made(target, TURNS, tmp_path)


def test_the_innermost_loops_with_independent_turns_are_parallel_in_pieces_alone(tmp_path) -> None:
    strides = strategy_for(SPIR)
    pieces = strides.with_units(loops_in_pieces=True)
    for strategy, parallel in ((strides, 0), (pieces, 3), (replace(pieces, turns_in_registers=False), 0)):
        # As clang's front end leaves it.
        code = compiled(SPIR, TURNS, tmp_path, "-emit-llvm", "-Xclang", "-disable-llvm-passes", strategy=strategy)
        assert len(re.findall(r'^!\d+ = !\{!"llvm.loop.parallel_accesses"', code, re.MULTILINE)) == parallel
        # A load and a store of an element are in each.
        elements = [line for line in code.splitlines() if re.search(r"\b(?:load float,|store float %)", line)]
        assert len(elements) == 8
        assert len([line for line in elements if "!llvm.access.group" in line]) == 2 * parallel


def test_a_program_without_independent_turns_has_none_of_their_text() -> None:
    """Its loops take no more arguments, so that a wrong one is an error on each device."""
    text = resolve_includes(LOOPS, strategy_for(SPIR).with_units(loops_in_pieces=True))
    assert "PORTBAR_TURNS" not in text
    assert "#define PORTBAR_FOR(i, grid, n) " in text


def test_a_loop_over_the_grid_divides_once_and_not_for_each_element(tmp_path) -> None:
    kernels = ptx_kernels(compiled(PTX, LOOPS, tmp_path))
    counts = {name: sum(line.startswith(("div.", "rem.")) for line in lines) for name, lines in kernels.items()}
    assert counts["fixed"] == 1
    # Divisions are before the loops: a load and a store of an element and no division lie between labels.
    text = (tmp_path / "out.s").read_text(encoding="utf-8")
    blocks = re.split(r"^\$?L\w+:", text, flags=re.MULTILINE)
    assert not [block for block in blocks if "ld.global.f32" in block and re.search(r"\b(?:div|rem)\.", block)]
