"""The features of `portbar/atomics.h` follow from facts and findings; missing ones are refused, never weakened."""

from __future__ import annotations

import itertools
import re
from dataclasses import replace

import numpy as np
import pyopencl as cl
import pytest

import portbar
from portbar.choices.strategy import VARIABLE, DeviceProfile, choose
from portbar.device.facts import DeviceFacts
from portbar.device.findings import Findings
from portbar.errors import BuildError, UnsupportedFeatureError
from portbar.primitives.atomics.selection import atomics_table
from portbar.primitives.atomics_table import TYPES, AtomicsTable
from portbar.primitives.headers import needed_ordering, render_header
from portbar.primitives.strategy import Capabilities, Choice, Strategy
from tests.atomics.support import DTYPES, after, broken
from tests.gpu_code import ORDERS, ptx_kernels
from tests.support import to_device, uints
from tests.weakened import RAW, WAYS, public_part, weaken

CLAIMS = ("relaxed", "acq_rel", "seq_cst", "scope_work_group", "scope_device", "scope_all_devices")
FULL = DeviceFacts(
    name="Full",
    type=("GPU",),
    opencl_c_versions=("1.2", "3.0"),
    atomic_memory_capabilities=CLAIMS,
    svm_capabilities=("fine_grain_buffer", "atomics"),
    fp64=True,
    fp16=True,
    int64_atomics=True,
)
BARE = DeviceFacts(name="Bare", opencl_c_versions=("1.2",), fp64=False, fp16=False, int64_atomics=False)
INCLUDE = '#include "portbar/atomics.h"\n'


@pytest.fixture(autouse=True)
def no_overrides_from_outside(monkeypatch):
    monkeypatch.delenv(VARIABLE, raising=False)


def strategy_of(atomics="c11", **values):
    return Strategy(
        Choice(atomics, ""), Choice("packed", ""), Choice("counter", ""), capabilities=Capabilities(**values)
    )


# The capability table.


def test_a_device_that_has_everything_is_offered_everything():
    builds = dict.fromkeys(("generic_address_space", "float_atomics", "double_atomics_local"), True)
    table = atomics_table(FULL, Findings(builds=builds), "c11")
    assert table.types == tuple(kind.name for kind in TYPES)
    assert table.spaces == ("global", "local", "generic")
    assert table.scopes == ("sub_group", "work_group", "device", "all_svm_devices")
    assert table.native_add == {("float", "global"), ("double", "local")}
    assert table.refused == {}


def test_each_lack_is_refused_with_what_would_do_instead():
    table = atomics_table(BARE, None, "cl12")
    assert {"int", "uint", "char", "ushort", "float"} <= set(table.types)
    assert not {"long", "ulong", "double", "half"} & set(table.types)
    assert table.spaces == ("global", "local")
    assert table.scopes == ("sub_group", "work_group", "device")
    for name, instead in {
        "long": "use a 32-bit type",
        "ulong": "use a 32-bit type",
        "half": "use float",
        "all_svm_devices": "use memory_scope_device",
    }.items():
        assert "Bare" in table.refused[name]
        assert instead in table.refused[name]
    # Without double precision the compiler refuses the type itself.
    assert "double" not in table.refused
    assert "double" in atomics_table(replace(BARE, fp64=True), None, "cl12").refused


def test_a_compile_probe_outweighs_what_the_device_reports():
    table = atomics_table(FULL, Findings(builds={"int64_atomics": False, "fp16": False}), "c11")
    assert not {"long", "ulong", "double", "half"} & set(table.types)
    # The other way round for half: its arithmetic may compile where the extension, and with it the type's bits, is missing.
    assert "half" not in atomics_table(replace(FULL, fp16=False), Findings(builds={"fp16": True}), "c11").types


@pytest.mark.parametrize(
    "facts", [replace(FULL, svm_capabilities=None), replace(FULL, atomic_memory_capabilities=CLAIMS[:-1])]
)
def test_system_scope_needs_shared_memory_with_atomics_and_the_claim(facts):
    assert "all_svm_devices" in atomics_table(FULL, None, "c11").scopes
    assert "all_svm_devices" not in atomics_table(facts, None, "c11").scopes


FLOAT, DOUBLE = ({(kind, space) for space in ("global", "local")} for kind in ("float", "double"))


@pytest.mark.parametrize(
    ("strategy", "facts", "native"),
    [
        ("ptx", FULL, FLOAT),
        ("membar", replace(FULL, nvidia={"compute_capability_major": 5}), FLOAT),
        *(("membar", replace(FULL, nvidia={"compute_capability_major": n}), FLOAT | DOUBLE) for n in (6, 9)),
        ("c11", FULL, {("float", "global")}),
        # A CPU's built-in is a loop too, without the pause of portbar's.
        ("c11", replace(FULL, type=("CPU",)), set()),
        ("cl12", FULL, set()),
    ],
)
def test_floats_are_added_by_the_device_where_it_has_an_instruction_of_its_own(strategy, facts, native):
    assert atomics_table(facts, Findings(builds={"float_atomics": True}), strategy).native_add == native


def test_seq_cst_is_refused_where_it_is_neither_claimed_nor_shown():
    claims = tuple(claim for claim in CLAIMS if claim != "seq_cst")
    weaker = replace(FULL, atomic_memory_capabilities=claims)
    table = atomics_table(weaker, None, "c11")
    assert "use memory_order_acq_rel" in table.refused["seq_cst"]
    assert "does not claim memory_order_seq_cst" in render_header("atomics", strategy_of(atomics_table=table))
    assert "seq_cst" not in atomics_table(weaker, Findings(litmus={"c11": "pass: 28 tests"}), "c11").refused
    assert "seq_cst" not in atomics_table(weaker, None, "cl12").refused


# Litmus verdicts and the reach of ordering.


def test_a_strategy_with_a_forbidden_outcome_is_not_chosen_again():
    found = Findings(builds={"c11@CL3.0": True, "cl12": True}, ordering={"c11": "pass", "cl12": "pass"})
    assert choose(DeviceProfile(FULL, found)).atomics.value == "c11"
    refuted = replace(found, litmus={"c11": "fail: SB-device-global-ops: 3 of 99 forbidden (seed 7)"})
    passed_over = choose(DeviceProfile(FULL, refuted)).atomics
    assert passed_over.value == "cl12"
    assert "c11: the litmus tests found: SB-device-global-ops" in passed_over.reason
    with pytest.raises(UnsupportedFeatureError, match=r"SB-device-global-ops: 3 of 99 forbidden \(seed 7\)"):
        choose(DeviceProfile(FULL, refuted), {"atomics": "c11"})
    passed = replace(found, litmus={"c11": "pass: 28 tests"})
    assert "litmus tests" in choose(DeviceProfile(FULL, passed)).atomics.reason


def test_a_device_without_known_ordering_has_atomics_that_say_so():
    with pytest.raises(UnsupportedFeatureError, match="no atomics strategy is known"):
        choose(DeviceProfile(BARE))
    strategy = choose(DeviceProfile(BARE), ordering="work_group")
    assert strategy.atomics.value == "cl12"
    assert "between work-groups is not known to hold" in strategy.capabilities.atomics_table.refused["ordering"]
    failed = Findings(builds={"cl12": True}, litmus={"cl12": "fail: MP: 1 of 2 forbidden"})
    with pytest.raises(UnsupportedFeatureError):
        choose(DeviceProfile(BARE, failed), ordering="work_group")


@pytest.mark.parametrize(
    ("headers", "reach"),
    [
        (["portbar/atomics.h"], "work_group"),
        (["atomics"], "work_group"),
        (["portbar/lock.h"], "device"),
        (["portbar/signal.h"], "device"),
        (["portbar/worklist.h"], "device"),
        (["portbar/task_graph.h"], "device"),
        (["portbar/team.h"], "device"),
        (["portbar/atomics.h", "portbar/device_barrier.h"], "device"),
        ([], "device"),
    ],
)
def test_only_plain_atomics_are_content_with_order_within_a_work_group(headers, reach):
    assert needed_ordering(headers) == reach


# The text.


@pytest.mark.parametrize("atomics", ["c11", "ptx", "membar", "cl12"])
def test_the_header_names_what_it_offers(atomics):
    text = render_header("atomics", strategy_of(atomics, atomics_table=AtomicsTable(types=("int", "uint", "float"))))
    assert "#define PORTBAR_ATOMICS 1" in text
    assert "#define PORTBAR_ATOMICS_FLOAT 1" in text
    assert "#define PORTBAR_ATOMICS_SCOPE_DEVICE 1" in text
    assert "PORTBAR_ATOMICS_DOUBLE" not in text
    assert "portbar_atomic_load_explicit(const volatile global uint *p" in text
    assert "global ulong *" not in text


@pytest.mark.parametrize("atomics", ["c11", "ptx", "membar", "cl12"])
def test_tests_can_break_every_raw_operation_that_public_functions_call(atomics):
    text = render_header("atomics", strategy_of(atomics))
    calls = re.findall(r"\bportbar_raw_(\w+)\(", public_part(text))
    assert len(calls) > 40
    assert set(calls) <= set(RAW)
    for how in WAYS:
        assert weaken(text, how).count("#define portbar_raw_") == len(RAW)


def test_locks_are_refused_where_waiting_cannot_be_right():
    assert "portbar_ticket_lock_try_acquire" in render_header("lock", strategy_of())
    with pytest.raises(UnsupportedFeatureError, match="loops end early"):
        render_header("lock", replace(strategy_of(), max_groups=1, max_groups_reason="loops end early"))


# The oracle of the tests of operations.


def test_a_history_with_a_lost_or_repeated_value_is_not_a_chain():
    """The oracle against a reference in plain Python: any order passes, and a wrong value in any place does not."""
    generator = np.random.default_rng(7)
    several = {"fetch_add": np.float32, "exchange": np.uint8, "fetch_inc": np.uint32, "fetch_min": np.int16}
    for operation, dtype in several.items():
        operands = generator.integers(1, 100, 40).astype(dtype)
        value, olds = dtype(3), []
        for v in operands:
            olds.append(value)
            value = after(operation, np.array([value]), np.array([v]))[0]
        found = np.array(olds)
        assert not broken(dtype(3), found, after(operation, found, operands), value)
        for i in range(len(found)):
            wrong = found.copy()
            wrong[i] += dtype(101)
            assert broken(dtype(3), wrong, after(operation, wrong, operands), value), (operation, i)
    walk = np.array([1, 2, 3, 8, 9, 8], np.uint32)
    assert "parts" in broken(np.uint32(1), walk[[0, 1, 3, 4]], walk[[1, 2, 4, 5]], np.uint32(3))
    for old, new in itertools.pairwise(walk[:3]):
        assert not broken(old, np.array([old]), np.array([new]), new)


# On a device.


@pytest.mark.device
def test_all_headers_go_together_in_any_order(context):
    names = ["atomics", "device_barrier", *(["lock"] if has_locks(context) else [])]
    for order in itertools.permutations(names):
        source = "".join(f'#include "portbar/{name}.h"\n' for name in order)
        portbar.Program(context, source + "kernel void k(global uint *a) { portbar_atomic_add(a, 1u); }")


def has_locks(context):
    return choose(portbar.describe(context.devices[0])).max_groups is None


@pytest.mark.device
def test_order_beyond_a_work_group_does_not_build_where_it_is_not_known_to_hold(context):
    chosen = choose(portbar.describe(context.devices[0]))
    table = replace(
        chosen.capabilities.atomics_table,
        refused=chosen.capabilities.atomics_table.refused | {"ordering": "on this device order is unknown"},
    )
    limited = chosen.with_capabilities(atomics_table=table)

    def build(call):
        return portbar.Program(context, INCLUDE + f"kernel void k(global uint *a) {{ {call}; }}", strategy=limited)

    build("portbar_atomic_add_explicit(a, 1u, memory_order_relaxed, memory_scope_device)")
    build("portbar_atomic_add_explicit(a, 1u, memory_order_seq_cst, memory_scope_work_group)")
    for call in (
        "portbar_atomic_add_explicit(a, 1u, memory_order_release, memory_scope_device)",
        "portbar_atomic_work_item_fence(CLK_GLOBAL_MEM_FENCE, memory_order_acquire, memory_scope_device)",
        "portbar_atomic_add(a, 1u)",
    ):
        with pytest.raises(BuildError, match="on this device order is unknown; use memory_scope_work_group"):
            build(call)


@pytest.mark.device
def test_a_program_of_atomics_alone_builds_on_a_device_whose_ordering_is_unknown(context, monkeypatch):
    device = context.devices[0]
    unknown = DeviceProfile(replace(portbar.describe(device).facts, atomic_memory_capabilities=None, nvidia=None))
    monkeypatch.setattr("portbar.launching.program.describe", lambda _: unknown)
    program = portbar.Program(
        context,
        INCLUDE + "kernel void k(global uint *a) { portbar_atomic_add_explicit(a, 1u, "
        "memory_order_acq_rel, memory_scope_work_group); }",
    )
    assert program.strategy(device).atomics.value == "cl12"
    with pytest.raises(
        UnsupportedFeatureError, match="no atomics strategy is known to order memory between work-groups"
    ):
        portbar.Program(
            context, '#include "portbar/device_barrier.h"\nkernel void k(PORTBAR_GRID_PARAM) { PORTBAR_ENTER(grid); }'
        )


@pytest.mark.device
def test_on_nvidia_the_driver_leaves_one_instruction_too(context):
    """The same as `tests/render/test_gpu_code.py`, on the text that NVIDIA's own compiler makes."""
    device = context.devices[0]
    if choose(portbar.describe(device)).atomics.value != "ptx":
        pytest.skip("the device is not driven by PTX")
    kernels = "".join(
        f"kernel void {order}(global uint *p, uint v, global uint *out) {{ out[0] = portbar_atomic_fetch_add_explicit(p, v, "
        f"memory_order_{order}, memory_scope_device); }}\n"
        for order in ORDERS
    )
    program = portbar.Program(context, INCLUDE + kernels)
    binary = program.built(device, program.strategy(device)).get_info(cl.program_info.BINARIES)[0]
    found = ptx_kernels(binary.decode("utf-8", "replace"))
    for order in ORDERS:
        text = "\n".join(found[order])
        name = "acquire" if order == "seq_cst" else order
        assert len(re.findall(r"\batom\.", text)) == 1, text
        assert f"atom.{name}.gpu.global.add.u32" in text
        assert len(re.findall(r"\bfence\.|\bmembar\.", text)) == (order == "seq_cst")
        assert not re.search(r"\bbra\b|\bsetp\b", text)


WITHOUT_IDS = r"""
kernel void add_TYPE(global TYPE *sum)
{
    portbar_atomic_fetch_add(sum, (TYPE)1);
}
kernel void exchange_TYPE(global TYPE *sum)
{
    TYPE expected = portbar_atomic_load(sum);
    while (!portbar_atomic_compare_exchange_weak(sum, &expected, (TYPE)(expected + (TYPE)1))) {
    }
}
"""


@pytest.mark.device
def test_every_work_item_operates_in_a_kernel_where_nothing_depends_on_its_id(context, queue):
    """A vectorising compiler must not take such an operation as one for several work-items."""
    table = choose(portbar.describe(queue.device)).capabilities.atomics_table
    offered = [name for name in ("uchar", "ushort", "uint", "ulong", "float", "double", "half") if name in table.types]
    program = portbar.Program(context, INCLUDE + "".join(WITHOUT_IDS.replace("TYPE", name) for name in offered))
    for name, form in itertools.product(offered, ("add", "exchange")):
        total = to_device(queue, np.zeros(16, DTYPES[name]))
        program.kernel(f"{form}_{name}")(queue, (128,), (32,), total).wait()
        found = np.empty(16, DTYPES[name])
        cl.enqueue_copy(queue, found, total)
        assert found[0] == 128, f"{form} {name}: {found[0]}"


FLOW = r"""
kernel void take(global uint *next, global uint *taken, uint n)
{
    for (;;) {
        const uint i = portbar_atomic_fetch_add_explicit(next, 1u, memory_order_relaxed, memory_scope_device);
        if (i >= n)
            break;
        taken[i]++;
    }
}
kernel void leader_waits(global uint *out)
{
    if (get_local_id(0) == 0) {
        out[0] = portbar_atomic_wait_explicit(out + 2, 0u, memory_order_acquire, memory_scope_device, 1000u);
        out[1] = 1u;
    }
}
kernel void one_more_each(global uint *sum, global uint *ends)
{
    for (uint i = 0; i <= get_local_id(0); ++i)
        portbar_atomic_add_explicit(sum, 1u, memory_order_acq_rel, memory_scope_device);
    ends[get_global_id(0)] = 1u;
}
"""


@pytest.mark.device
def test_operations_hold_in_any_control_flow(context, queue):
    program, n = portbar.Program(context, INCLUDE + FLOW), 500
    following, taken = to_device(queue, np.zeros(1, np.uint32)), to_device(queue, np.zeros(n, np.uint32))
    program.kernel("take")(queue, (64,), (16,), following, taken, np.uint32(n)).wait()
    assert uints(queue, following)[0] == n + 64
    assert (uints(queue, taken) == 1).all()
    out = to_device(queue, np.full(3, 0, np.uint32))
    program.kernel("leader_waits")(queue, (16,), (16,), out).wait()
    assert uints(queue, out)[:2].tolist() == [0, 1]
    total, ends = to_device(queue, np.zeros(1, np.uint32)), to_device(queue, np.zeros(64, np.uint32))
    program.kernel("one_more_each")(queue, (64,), (16,), total, ends).wait()
    assert uints(queue, total)[0] == 4 * 16 * 17 // 2
    assert uints(queue, ends).all()


SMALL = r"""
kernel void keeps(global uint *same, global const ushort *values, local ushort *object)
{
    object[0] = values[2];
    const ushort old = portbar_atomic_exchange(object, values[5]);
    same[0] = object[0] == values[5] && old == values[2];
}
"""


@pytest.mark.device
def test_a_small_object_in_local_memory_keeps_what_an_operation_stored(context, queue):
    """With intel-local-atomics, a quirk."""
    values, same = to_device(queue, np.arange(10, 18, dtype=np.uint16)), to_device(queue, np.full(1, 9, np.uint32))
    kernel = portbar.Program(context, INCLUDE + SMALL).kernel("keeps")
    kernel(queue, (1,), (1,), same, values, cl.LocalMemory(16)).wait()
    assert uints(queue, same)[0] == 1
