"""GCC's public OpenACC reduction tests of nested loops, of work shared among all levels, and of whole programs.

As in `test_reduction_catalogue.py`, which says what cannot apply, each test names the file whose values it takes. Files whose
nests another one has, with other values, or whose reductions are plain loops (deep-copy-4.c, nested-function-2.f90), are left
out.
"""

from __future__ import annotations

import numpy as np
import pytest

import portbar
from tests.reduction.support import head, launched, need, program
from tests.support import scale

pytestmark = [pytest.mark.device, pytest.mark.slow]


def one(name, dtype, op, **more):
    """Return a loop with the one reduction `v`."""
    return portbar.ReductionLoop(name, {"v": portbar.Reduction(dtype, op)}, **more)


def several(name, op_of, dtype=np.int32):
    """Return a loop with several reductions."""
    return portbar.ReductionLoop(name, {field: portbar.Reduction(dtype, op) for field, op in op_of.items()})


def number(value=0, dtype=np.int32):
    return np.array([value], dtype)


LOOPS = [
    one("sum", np.int32, "+"),
    one("product", np.int32, "*"),
    one("odd", np.int32, "^"),
    several("pair", {"sum": "+", "peak": "max"}, np.float32),
    several("dims", {f"{what}{end}": ("min", "max")[end] for what in "gwv" for end in (0, 1)}),
]

#: `FOR` deals a loop's turns to a level, `REDUCED` reduces `mine` over them; `DECLARED` declares what most kernels need.
MACROS = """
#define FOR(level, i, n) for (uint i = portbar_loop_id_##level(); i < (n); i += portbar_loop_count_##level())
#define REDUCED(loop, level, held, n, statement) \\
    mine = loop##_init_##level(scratch, held, mine); \\
    FOR(level, i, n) { statement; } \\
    mine = loop##_fini_##level(scratch, held, mine);
#define DECLARED(loop) PORTBAR_REDUCTION_SCRATCH(scratch); const loop##_results results = { total }, none = { 0 }; \\
    loop##_local mine = loop##_identity();
#define SUM DECLARED(sum)
#define LAST_ITEM (get_local_id(0) == get_local_size(0) - 1u)
#define EACH_GROUP(j, n) for (uint j = (uint)get_group_id(0); j < (n); j += (uint)get_num_groups(0))
"""


def of_gangs(name, body, loop="sum", kind="int", parameters=""):
    """Return a kernel in which each gang adds what the body does to one receiver."""
    return f"""
kernel void {name}(PORTBAR_REDUCTION_PARAM, {parameters}global {kind} *total)
{{
    DECLARED({loop})
    mine = {loop}_init_gang(scratch, results, {loop}_setup_gang(scratch, results, mine));
    {body}
    {loop}_teardown_gang(scratch, results, {loop}_fini_gang(scratch, results, mine));
}}
"""


def of_each(name, count, start, body):
    """Return a kernel in which gangs share `j` below `count`, and store what the body makes of a private start value."""
    return f"""
kernel void {name}(global int *total)
{{
    SUM
    EACH_GROUP(j, {count}u) {{
        mine.v = {start};
        {body}
        if (LAST_ITEM)
            total[j] = mine.v;
    }}
}}
"""


#: Workers, and then lanes backwards, on one variable.
FORTH_AND_BACK = """REDUCED(sum, worker, none, 1024u, mine.v += (int)(j * 1024u + i))
        REDUCED(sum, vector, none, 1024u, mine.v += (int)(j * 1024u + 1023u - i))"""
FED = "FOR(gang, j, 32u) { REDUCED(sum, worker_vector, none, 1024u, mine.v += j * 1024u + i) }"
GENERATED = [
    # An inner result feeds the outer reduction of the same variable.
    of_gangs("reduction_7_gwv_np_2", FED),
    # An inner private result, stored by each gang.
    *(
        of_each(f"reduction_7_{name}_p_1", 32, 0, f"REDUCED(sum, {level}, none, 32u, mine.v += (int)(j * 32u + i))")
        for name, level in (("v", "vector"), ("w", "worker"), ("wv", "worker_vector"))
    ),
    of_each("reduction_7_wv_p_2", 32, "(int)j", FORTH_AND_BACK),
    # Once a gang, outside of any loop.
    of_gangs("par_reduction_1_sum", "mine.v += 5;"),
    of_gangs("par_reduction_1_product", "mine.v *= 5;", "product"),
    # What was in the variable is overwritten within the region, and the start value is added once.
    of_gangs("gang_reduction_var_assignment", "mine.v = 23;"),
    # A variable that nobody changes.
    of_gangs("pr70289_and_pr70373", ""),
    # A private variable in a gang loop, counted up by lanes.
    of_each("reduction_6_and_7_f90", 10, "(int)j", "REDUCED(sum, vector, none, 100u, mine.v++)"),
    # Within a gang loop that is itself reduced.
    of_gangs("par_loop_comb_reduction_1", f"FOR(gang, j, 32u) {{ {FORTH_AND_BACK} }}"),
    # Exclusive or of 3i and then of i, work-groups as a whole, twice.
    of_gangs(
        "par_loop_comb_reduction_2",
        """FOR(gang, j, 32u)
        for (int factor = 3; factor >= 1; factor -= 2) {
            REDUCED(odd, worker_vector, none, 1024u, mine.v ^= factor * (int)(j * 1024u + i))
        }""",
        "odd",
    ),
]
NESTS = (
    head(128)
    + MACROS
    + "".join(GENERATED)
    + """
/* A sum and a maximum, two inner loops over the same variables, forwards and back. */
kernel void reduction_7_gwv_np_4(PORTBAR_REDUCTION_PARAM, global const float *arr, global float *sum, global float *peak)
{
    PORTBAR_REDUCTION_SCRATCH(scratch);
    const pair_results results = { sum, peak }, none = { 0, 0 };
    pair_local mine = pair_init_gang(scratch, results, pair_setup_gang(scratch, results, pair_identity()));
    FOR(gang, j, 32u) {
        mine = pair_setup_worker_vector(scratch, none, mine);
        REDUCED(pair, worker_vector, none, 1024u, mine.sum += arr[j * 1024u + i];
                mine.peak = fmax(mine.peak, arr[j * 1024u + i]))
        mine = pair_teardown_worker_vector(scratch, none, mine);
        REDUCED(pair, worker_vector, none, 1024u, mine.sum += arr[j * 1024u + 1023u - i];
                mine.peak = fmax(mine.peak, arr[j * 1024u + 1023u - i]))
    }
    pair_teardown_gang(scratch, results, pair_fini_gang(scratch, results, mine));
}
/* A second reduction where a condition that is the same for the gang says so. */
kernel void nvptx_sese_1(global int *total, int n)
{
    SUM
    for (int i = (int)get_local_id(0); i < n; i += (int)get_local_size(0))
        mine.v += i;
    mine = sum_reduce_worker_vector(scratch, mine);
    sum_local more = { 0 };
    for (int i = (int)get_local_id(0); i < (mine.v & 1 ? n : 0); i += (int)get_local_size(0))
        more.v += i;
    total[get_local_id(0)] = mine.v + sum_reduce_worker_vector(scratch, more).v;
}
/* Least and greatest ids of three nested levels, six reductions on one nest. */
kernel void parallel_dims(PORTBAR_REDUCTION_PARAM, global int *g0, global int *g1, global int *w0, global int *w1,
                          global int *v0, global int *v1)
{
    PORTBAR_REDUCTION_SCRATCH(scratch);
    const dims_results results = { g0, g1, w0, w1, v0, v1 };
    dims_local mine = dims_init_gang_worker_vector(scratch, results, dims_identity());
    const int g = (int)portbar_gang_id(), w = (int)portbar_sub_group_id(), v = (int)portbar_sub_group_local_id();
    mine.g0 = min(mine.g0, g); mine.w0 = min(mine.w0, w); mine.v0 = min(mine.v0, v);
    mine.g1 = max(mine.g1, g); mine.w1 = max(mine.w1, w); mine.v1 = max(mine.v1, v);
    dims_fini_gang_worker_vector(scratch, results, mine);
}
"""
)

ALL = np.arange(32768)
MANY, FLOAT = np.zeros(32, np.int32), number(0, np.float32)
BITS = np.bitwise_xor.reduce(3 * ALL) ^ np.bitwise_xor.reduce(ALL)

#: Kernel, work-groups, local size, arguments, and what arrays hold afterwards.
LAUNCHES = [
    ("reduction_7_gwv_np_4", 32, 64, [(ALL % 512).astype(np.float32), FLOAT, FLOAT], [None, [16744448], [511]]),
    ("reduction_7_gwv_np_2", 32, 64, [number()], [[536854528]]),
    *((f"reduction_7_{v}_p_1", 32, 24, [MANY], [[1024 * j + 496 for j in range(32)]]) for v in ("v", "w", "wv")),
    ("reduction_7_wv_p_2", 32, 40, [MANY], [[j + 2 * (1048576 * j + 523776) for j in range(32)]]),
    ("par_reduction_1_sum", 256, 4, [number()], [[1280]]),
    ("par_reduction_1_product", 8, 4, [number(1)], [[390625]]),
    ("gang_reduction_var_assignment", 1, 1, [number(123)], [[146]]),
    *(("pr70289_and_pr70373", 6, 5, [number(start)], [[start]]) for start in (0, 42)),
    ("reduction_6_and_7_f90", 10, 8, [np.zeros(10, np.int32)], [[j + 100 for j in range(10)]]),
    ("par_loop_comb_reduction_1", 32, 32, [number()], [[1073709056]]),
    ("par_loop_comb_reduction_2", 32, 32, [number()], [[BITS]]),
    *(("nvptx_sese_1", 1, 32, [MANY, np.int32(n)], [[r] * 32]) for n, r in ((40, 780), (42, 1722), (43, 1806))),
]


@pytest.mark.parametrize(
    ("name", "groups", "local", "start", "results"), [pytest.param(*one, id=one[0]) for one in LAUNCHES]
)
def test_a_nest_has_the_result_of_gcc_s_file(context, queue, name, groups, local, start, results):
    if name == "par_loop_comb_reduction_1" and scale(context.devices[0]).is_cut_short:
        local = 8
    _, got = launched(queue, program(context, NESTS, loops=LOOPS).kernel(name), groups, local, *start)
    for found, result in zip(got, results, strict=True):
        assert result is None or found.tolist() == result


def test_parallel_dims_six_reductions_on_one_nest(context, queue):
    start = [number((2**31 - 1, -(2**31))[end]) for _ in "gwv" for end in (0, 1)]
    _, got = launched(queue, program(context, NESTS, loops=LOOPS).kernel("parallel_dims"), 45, 96, *start)
    g0, g1, w0, w1, v0, v1 = (int(value[0]) for value in got)
    assert (g0, g1, w0, v0) == (0, 44, 0, 0)
    assert (w1 + 1) * (v1 + 1) == 96


def test_reduction_7_gwv_np_3_of_double(context, queue):
    need(context, "double")
    source = head(64) + MACROS + of_gangs("fed", FED, kind="double")
    kernel = program(context, source, loops=[one("sum", np.float64, "+")]).kernel("fed")
    _, (total,) = launched(queue, kernel, 32, 64, np.zeros(1))
    assert total[0] == 536854528.0


#: Rows of a triangle, two sums at once, in as many turns for every sub-group.
TRIANGLES = (
    MACROS
    + """
#define ROWS(level, id, count) \\
    kernel void rows_##level(uint n, global long *a1, global long *a2) \\
    { \\
        PORTBAR_REDUCTION_SCRATCH(scratch); \\
        const rows_results none = { 0, 0 }; \\
        for (uint first = 0; first < n; first += (count)) { \\
            const uint row = first + (id); \\
            rows_local mine = rows_identity(); \\
            REDUCED(rows, level, none, row < n ? n - row : 0u, mine.t1 += 1; mine.t2 -= 1) \\
            if (row < n) { \\
                a1[row] = mine.t1; \\
                a2[row] = mine.t2; \\
            } \\
        } \\
    }
ROWS(vector, (uint)get_group_id(0) * portbar_num_sub_groups() + portbar_sub_group_id(),
     (uint)get_num_groups(0) * portbar_num_sub_groups())
ROWS(worker_vector, (uint)get_group_id(0), (uint)get_num_groups(0))
"""
)


@pytest.mark.parametrize("lanes", [128, 32])
def test_vred2d_128_rows_of_a_triangle(context, queue, lanes):
    """With gangs for rows and 128 lanes for columns, with workers among either, and with what the device has for lanes."""
    need(context, "long")
    n = 60 if scale(context.devices[0]).is_cut_short else 2500
    source = head(128, more=f"#define PORTBAR_SUB_GROUP_SIZE {lanes}\n") + TRIANGLES
    made = program(context, source, loops=[several("rows", {"t1": "+", "t2": "+"}, np.int64)])
    for level in ("vector", "worker_vector"):
        empty = np.zeros(n, np.int64), np.zeros(n, np.int64)
        _, (a1, a2) = launched(queue, made.kernel(f"rows_{level}"), 8, 128, np.uint32(n), *empty)
        np.testing.assert_array_equal(a1, n - np.arange(n), level)
        np.testing.assert_array_equal(a2, np.arange(n) - n, level)


#: 32 gangs of 32 workers of 32 lanes, and a number of turns that no size divides.
TURNS = 32**3 + 17
DEALING = f"""
#define GANG portbar_gang_id()
#define WORKER portbar_sub_group_id()
#define LANE portbar_sub_group_local_id()
/* Gangs take a chunk of the turns each. */
#define OF_GANGS(level, chunk, start, step, value) \\
    kernel void k(PORTBAR_REDUCTION_PARAM, global int *total) \\
    {{ \\
        SUM \\
        mine = sum_init_##level(scratch, results, mine); \\
        for (uint i = GANG * chunk + start; i < min((GANG + 1u) * chunk, {TURNS}u); i += step) \\
            mine.v += (int)(value); \\
        sum_fini_##level(scratch, results, mine); \\
    }}
/* One group, whose result every work-item has, the private copy of the -2 variants. */
#define WITHIN(level, value) \\
    kernel void k(global int *total) \\
    {{ \\
        SUM \\
        REDUCED(sum, level, none, {TURNS}u, mine.v += (int)(value)) \\
        total[get_local_id(0) % 2u] = mine.v; \\
    }}
"""
TURN = np.arange(TURNS)
ALL_TURNS = TURN // 2048 << 16 | TURN // 32 % 32 << 8 | TURN % 32
#: Kernel, work-groups, local size, GCC's result, and what each turn adds.
DEALT = {
    "gang": ("OF_GANGS(gang, 1025u, 0u, 1u, GANG << 16)", 32, 1, -1071710208, TURN // 1025 << 16),
    "worker": ("WITHIN(worker, WORKER << 8)", 1, 1024, 130058240, TURN % 32 << 8),
    "vector": ("WITHIN(vector, LANE)", 1, 32, 508040, TURN % 32),
    "worker_vector": ("WITHIN(worker_vector, WORKER << 8 | LANE)", 1, 1024, 130531464, TURN // 32 % 32 << 8 | TURN % 32),
    "all": (
        "OF_GANGS(gang_worker_vector, 2048u, portbar_loop_id_worker_vector(), 1024u, GANG << 16 | WORKER << 8 | LANE)",
        32, 1024, -925384568, ALL_TURNS,
    ),
}  # fmt: skip


@pytest.mark.parametrize("level", DEALT)
def test_loop_red_each_member_of_each_level_takes_its_turns(context, queue, level):
    text, groups, local, result, of = DEALT[level]
    if context.devices[0].max_work_group_size < local:
        pytest.skip(f"the device has no work-groups of {local}")
    if scale(context.devices[0]).is_cut_short and level in {"worker", "vector"}:
        pytest.skip("the device ends loops before they are over")
    source = head(1024, more="#define PORTBAR_SUB_GROUP_SIZE 32\n") + MACROS + DEALING + text + "\n"
    _, (total,) = launched(
        queue, program(context, source, loops=LOOPS[:1]).kernel("k"), groups, local, np.zeros(2, np.int32)
    )
    assert int(of.sum()) % 2**32 == result % 2**32
    assert set(total.tolist()) - {0} == {result}
