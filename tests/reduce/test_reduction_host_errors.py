"""Invalid reductions are refused with an error that names the cause and the remedy, before anything is enqueued."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyopencl as cl
import pyopencl.array as cla
import pytest

import portbar
from portbar.arrays.reduce import reduce as wanted
from portbar.primitives.reduction.operators import Operator
from tests.reduce.support import beyond_memory, put

pytestmark = pytest.mark.device


NUMBERS = np.arange(12, dtype=np.int32)

WRONG, REFUSED = portbar.Error, portbar.LaunchError


@pytest.mark.parametrize(
    ("more", "error", "pattern"),
    [
        ({"op": "plus"}, WRONG, r"unknown operator 'plus'.*portbar\.Operator"),
        ({"op": "-"}, WRONG, "use '\\+'"),
        ({"op": "a"}, WRONG, "unknown operator 'a'"),
        ({"outputs": {"a": portbar.Reduction(np.int32, "+"), "b": 5}}, WRONG, "unknown operator 5"),
        ({"dtype": np.float32, "op": "&"}, WRONG, "'&' does not support float"),
        ({"dtype": "datetime64[s]"}, WRONG, "cannot have the type datetime64"),
        ({"outputs": {"a": portbar.Reduction("i4", "+", shape=3)}}, WRONG, "'a' is an array.*omit shape="),
        ({"axis": 1}, REFUSED, r"axis= must be an axis of an array of 1 dimension.*not 1"),
        ({"axis": "x"}, REFUSED, "not 'x'"),
        ({"op": "max", "outputs": {"a": "+"}}, WRONG, "not both"),
        ({"outputs": {}}, WRONG, "outputs= must be a mapping"),
        ({"outputs": {"a": "+"}, "map": {"b": "x"}}, WRONG, "'b', which is not an output; outputs: a"),
        ({"outputs": {"a": "+"}, "initial": {"b": 1}}, WRONG, "'b', which is not an output"),
        ({"outputs": {"a": "+"}, "initial": 1}, WRONG, "mapping of output"),
        ({"map": {"a": "x"}}, WRONG, "only if outputs="),
        ({"map": 3}, WRONG, "OpenCL C expression such as 'x \\* x'"),
        ({"map": "x; x"}, WRONG, "more than one expression"),
        ({"map": "x + \0"}, WRONG, "an invisible character"),
        ({"map": "x + \ud800"}, WRONG, "an invisible character"),
        ({"op": np.zeros(3)}, WRONG, "unknown operator array"),
        ({"map": "x[i + 1] - x[i]"}, WRONG, "reads elements of 'x' other than"),
        ({"outputs": {"float4": "+"}}, WRONG, "'float4'"),
        ({"outputs": {"a b": "+"}}, WRONG, "'a b'"),
        ({"outputs": {"float": "+"}}, WRONG, "'float'"),
        ({"initial": "many"}, REFUSED, "initial='many' cannot be converted to int32"),
        ({"initial": 1 << 40}, REFUSED, "cannot be converted to int32"),
        ({"initial": [1, 2]}, REFUSED, "one value"),
        ({"initial": 3.5}, REFUSED, r"initial=3\.5 cannot be converted to int32 without loss: pass dtype="),
        ({"initial": np.int64(1 << 40)}, REFUSED, "cannot be converted to int32"),
        ({"out": np.zeros((), np.int32)}, REFUSED, "out= is a ndarray"),
    ],
)
def test_requests(more: Any, error: type[Exception], pattern: str, reduce: Any, queue: cl.CommandQueue) -> None:
    array = put(queue, NUMBERS)
    with pytest.raises(error, match=pattern):
        reduce(array, **more)
    assert reduce(array).get(queue) == NUMBERS.sum()


def test_arrays(reduce: Any, queue: cl.CommandQueue, context: cl.Context) -> None:
    array = put(queue, NUMBERS)
    # A queue may not keep its context alive: the effect CONTEXTS_LOST.
    another = cl.Context(context.devices)
    elsewhere = cla.to_device(cl.CommandQueue(another), NUMBERS)
    for given, more, error, pattern in (
        (NUMBERS, {}, REFUSED, r"'x' is a ndarray.*to_device"),
        (array[::2], {}, REFUSED, r"strides .*not contiguous.*ascontiguousarray"),
        (put(queue, NUMBERS.reshape(3, 4))[:, 1:3], {"axis": 1}, REFUSED, "not contiguous"),
        ({"a": array, "b": array[1:]}, {"map": "a * b"}, REFUSED, "shape"),
        ({"a": array, "b": array}, {}, WRONG, r"needs a map expression, such as map='a \* b'"),
        ({"i": array}, {}, WRONG, "the index in map"),
        ({}, {}, REFUSED, "mapping holds no array"),
        (elsewhere, {}, REFUSED, "another context .*to_device"),
        (cla.Array(queue, 3, np.dtype([])), {}, WRONG, "cannot have the type"),
    ):
        with pytest.raises(error, match=pattern):
            reduce(given, **more)
    with pytest.raises(portbar.LaunchError, match="CommandQueue, not Context"):
        wanted(context, array)
    for one in beyond_memory(queue):
        told = r"the array reaches beyond its memory: .* bytes from byte .*, in a buffer of 400"
        with pytest.raises(portbar.LaunchError, match=told):
            reduce(one)
    event = cl.UserEvent(context)
    for wait_for in (7, ["x"], event):
        with pytest.raises(portbar.LaunchError, match=r"portbar\.reduce: wait_for must be a list of events"):
            reduce(array, wait_for=wait_for)
    # NVIDIA's driver does not let a process end that leaves one unset.
    event.set_status(cl.command_execution_status.COMPLETE)


def test_out(reduce: Any, queue: cl.CommandQueue) -> None:
    array, once = put(queue, NUMBERS), cla.zeros(queue, (), np.int32)
    two = {"a": "+", "b": "max"}
    for out, outputs, pattern in (
        (cla.zeros(queue, 1, np.int32), None, r"shape \(\) and type int32; it has shape \(1,\)"),
        (cla.zeros(queue, (), np.int64), None, "type int64"),
        (array[2:3].reshape(()), None, "shares memory with another array"),
        (once, two, "each of the outputs a, b"),
        ({"a": once, "b": once}, two, "out= shares memory"),
    ):
        with pytest.raises(portbar.LaunchError, match=pattern):
            reduce(array, outputs=outputs, out=out)
    strided = cla.zeros(queue, 6, np.int32)[::2]
    with pytest.raises(portbar.LaunchError, match=r"type int32; it has .* strides \(8,\), and starts 0 bytes into"):
        reduce(put(queue, NUMBERS.reshape(3, 4)), axis=np.int64(1), out=strided)
    np.testing.assert_array_equal(array.get(queue), NUMBERS)


def test_out_in_another_sub_buffer_of_the_same_memory(reduce: Any, queue: cl.CommandQueue, context: cl.Context) -> None:
    step = max(64, context.devices[0].mem_base_addr_align // 8)
    whole = cl.Buffer(context, cl.mem_flags.READ_WRITE, 4 * step)
    cl.enqueue_fill_buffer(queue, whole, np.ones(1, np.int32), 0, whole.size)

    def array(start: int, size: int, shape: Any = None, offset: int = 0) -> Any:
        shape = size // 4 if shape is None else shape
        return cla.Array(queue, shape, np.int32, data=whole.get_sub_region(start, size), offset=offset)

    first = array(0, 2 * step)
    for out in (array(0, step, ()), array(step, step, ()), cla.Array(queue, (), np.int32, data=whole, offset=step)):
        with pytest.raises(portbar.LaunchError, match="shares memory with another array"):
            reduce(first, out=out)
    with pytest.raises(portbar.LaunchError, match="shares memory with another array"):
        reduce(cla.Array(queue, 4 * step // 4, np.int32, data=whole), out=array(3 * step, step, ()))
    again = {"a": array(2 * step, step, ()), "b": array(2 * step, 2 * step, ())}
    with pytest.raises(portbar.LaunchError, match="out= shares memory"):
        reduce(first, outputs={"a": "+", "b": "max"}, out=again)
    # Parts that only touch are apart, also where each counts from its own start.
    out = array(2 * step, step, ())
    reduce(first, out=out)
    assert out.get(queue) == 2 * step // 4
    reduce(cla.Array(queue, step // 4, np.int32, data=whole), out=array(step, 2 * step, (), offset=step))


def test_out_in_a_sub_buffer_whose_buffer_nothing_else_keeps(
    reduce: Any, queue: cl.CommandQueue, context: cl.Context
) -> None:
    """The effect BUFFERS_LOST."""
    part = cl.Buffer(context, cl.mem_flags.READ_WRITE, 1 << 16).get_sub_region(0, 1 << 12)
    out = cla.Array(queue, (), np.int32, data=part)
    reduce(put(queue, NUMBERS), out=out)
    assert out.get(queue) == NUMBERS.sum()


#: The text between an expression and its cause.
CAUSE = ", does not compile on .*: (indirection|use of undeclared)"


@pytest.mark.parametrize(
    ("more", "shown"),
    [
        ({"map": "x *+* 2"}, rf"the map of 'result', 'x \*\+\* 2'{CAUSE}"),
        ({"map": "x + velocity"}, r"'x \+ velocity'.*velocity"),
        ({"op": Operator("a *+* b", 0)}, rf"the operator of 'result', 'a \*\+\* b'{CAUSE}"),
        ({"op": Operator("a + bb + b", neutral="0")}, r"the operator of 'result', 'a \+ bb \+ b'.*bb"),
        ({"op": Operator("a + b", neutral="nothing")}, rf"the neutral element of 'result', 'nothing'{CAUSE}"),
        ({"outputs": {"n": "+", "m": "max"}, "map": {"m": "x.mass"}}, r"the map of 'm', 'x\.mass'"),
    ],
)
def test_expressions_that_do_not_compile_are_shown(
    more: dict[str, Any], shown: str, reduce: Any, queue: cl.CommandQueue
) -> None:
    with pytest.raises(portbar.BuildError, match=shown) as caught:
        reduce(put(queue, NUMBERS), **more)
    assert "portbar_" not in str(caught.value).split("does not compile")[0]
    assert caught.value.log


def test_types_that_the_device_lacks(reduce: Any, queue: cl.CommandQueue) -> None:
    for name, extension, dtype in (("double", "cl_khr_fp64", np.float64), ("half", "cl_khr_fp16", np.float16)):
        if extension not in queue.device.extensions.split():
            with pytest.raises(
                portbar.UnsupportedFeatureError, match=f"does not support {name}; convert the array to float32"
            ):
                reduce(put(queue, np.zeros(5, dtype)))


def test_a_device_without_order_between_its_groups_is_refused(
    queue: cl.CommandQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: Any) -> Any:
        raise portbar.UnsupportedFeatureError("no atomics strategy is known to order memory between work-groups")

    monkeypatch.setattr("portbar.arrays.plan.choose", refuse)
    # Choices are kept for a queue.
    other = cl.CommandQueue(queue.context, queue.device)
    with pytest.raises(portbar.UnsupportedFeatureError, match="no atomics strategy is known"):
        portbar.reduce(other, put(other, np.zeros(77, np.int32)))


def test_what_equals_an_axis_is_none(reduce: Any, queue: cl.CommandQueue) -> None:
    """Requests are remembered by what they are equal to: True and 1.0 equal 1."""
    array = put(queue, NUMBERS.reshape(3, 4))
    for axis in (1, np.int64(1)):
        np.testing.assert_array_equal(reduce(array, axis=axis).get(queue), NUMBERS.reshape(3, 4).sum(1))
        assert portbar.scan(queue, array, axis=axis).get()[2, 3] == NUMBERS[8:].sum()
    for axis in (True, 1.0, np.float64(1)):
        for call in (reduce, lambda given, **more: portbar.scan(queue, given, **more)):
            with pytest.raises(portbar.LaunchError, match="axis= must be an axis"):
                call(array, axis=axis)


def test_reductions_that_are_equal_are_not_the_same(reduce: Any, queue: cl.CommandQueue) -> None:
    nothing, op = put(queue, np.zeros(0, np.float32)), Operator("a + b", neutral="0")
    for zero in (0.0, -0.0, 0.0):
        found = reduce(nothing, outputs={"r": portbar.Reduction(np.float32, op, neutral=zero)})
        assert np.signbit(found["r"].get(queue)) == np.signbit(zero)


PAIR = np.dtype([("p", np.int32), ("q", np.int32)], align=True)
JOINED = "((x_type){ a.p * b.p, b.p * a.q + b.q })"


@pytest.mark.parametrize("outer", [False, True], ids=["of the operator", "of the reduction"])
def test_neutral_elements_in_braces(outer: bool, reduce: Any, queue: cl.CommandQueue) -> None:
    """As the page about operators writes them."""
    values = put(queue, np.array([(2, 3)] * 5, PAIR))
    op = Operator(JOINED, neutral="{ 0, 0 }" if outer else " { 1, 0 }", commutative=False)
    given = {"outputs": {"r": portbar.Reduction(PAIR, op, neutral="{ 1, 0 }")}} if outer else {"op": op}
    found = reduce(values, **given)
    assert (found["r"] if outer else found).get(queue).item() == (32, 93)
    if not outer:
        assert portbar.scan(queue, values, op).get()[-1].item() == (32, 93)
        assert reduce(values[:0], op).get(queue).item() == (1, 0)


def test_neutral_elements_that_are_numbers_have_the_type_s_value(reduce: Any, queue: cl.CommandQueue) -> None:
    for dtype, neutral, right in (
        (np.int64, -(2**63), -(2**63)),
        (np.uint64, 2**64 - 1, 2**64 - 1),
        (np.float32, -np.inf, -np.inf),
        (np.float32, np.float32(0.1), np.float32(0.1)),
        (np.int8, True, 1),
        (np.int16, np.array(7), 7),
        (np.complex64, 1, 1 + 0j),
        (np.complex64, 2 - 3j, 2 - 3j),
    ):
        nothing, either = put(queue, np.zeros(0, dtype)), Operator("a == b ? a : b", neutral=neutral)
        assert reduce(nothing, either).get(queue) == right


@pytest.mark.parametrize(
    ("dtype", "neutral", "pattern"),
    [
        (np.uint8, 300, "neutral=300 cannot be converted to uchar without loss"),
        (np.int32, 0.5, r"neutral=0\.5 cannot be converted to int"),
        (np.uint32, -1, "to uint"),
        (np.float32, 1e300, "to float"),
        (np.int32, np.inf, "to int"),
        (np.float32, 1j, "to float"),
        (np.complex64, (1, 0), r"neutral=\(1, 0\) is neither OpenCL C text nor a number: write .* '{ 1, 0 }'"),
        (np.int32, np.zeros(2), "neither OpenCL C text"),
    ],
)
def test_neutral_elements_that_are_not_the_type_s_are_refused(
    dtype: Any, neutral: Any, pattern: str, reduce: Any, queue: cl.CommandQueue
) -> None:
    with pytest.raises(portbar.Error, match=pattern):
        reduce(put(queue, np.zeros(3, dtype)), Operator("a + b", neutral=neutral))
    with pytest.raises(portbar.Error, match=pattern):
        portbar.Reduction(dtype, Operator("a + b", neutral="0"), neutral=neutral)


@pytest.mark.parametrize(
    ("dtype", "initial"),
    [(np.float32, 1e300), (np.float32, 2**24 + 1), (np.uint8, 256), (np.int16, 1j), (np.uint64, -1)],
)
def test_initial_values_that_would_be_others_are_refused(
    dtype: Any, initial: Any, reduce: Any, queue: cl.CommandQueue
) -> None:
    array = put(queue, np.zeros(3, dtype))
    for call in (reduce, lambda given, **more: portbar.scan(queue, given, **more)):
        with pytest.raises(portbar.LaunchError, match="without loss: pass dtype="):
            call(array, initial=initial)


def test_the_remedies_for_strides_are_ways_out(reduce: Any, queue: cl.CommandQueue) -> None:
    whole = put(queue, NUMBERS)
    for call in (reduce, lambda given: portbar.scan(queue, given), lambda given: portbar.sort(queue, given)):
        with pytest.raises(portbar.LaunchError, match=r"pyopencl\.array\.take\(whole, indices\).*ascontiguousarray"):
            call(whole[::2])
    taken = cla.take(whole, put(queue, np.arange(0, 12, 2, dtype=np.int32)))
    sliced = cla.to_device(queue, np.ascontiguousarray(NUMBERS[::2]))
    assert reduce(taken).get(queue) == reduce(sliced).get(queue) == NUMBERS[::2].sum()
    memory = put(queue, np.frombuffer(b"\0\0" + NUMBERS.tobytes() + b"\0\0", np.uint8)).base_data
    odd = cla.Array(queue, 12, np.int32, data=memory, offset=2)
    with pytest.raises(portbar.LaunchError, match=r"pass x\.copy\(\)"):
        reduce(odd)
    assert reduce(odd.copy()).get(queue) == NUMBERS.sum()
