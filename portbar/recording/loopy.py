"""Programs of loopy in one kernel: a target whose host programs are recorded, and the executor of such a program.

loopy cuts a program at each global barrier into kernels, and writes a host program in Python that launches them. Here, that
host program records the launches, once for each set of arrays and numbers.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn

import numpy as np
import pyopencl as cl

from portbar.errors import LaunchError, UnsupportedFeatureError
from portbar.launching.launch import Launch
from portbar.recording.recorder import Steps, record
from portbar.recording.steps import Turn

try:
    from genpy import For, Function, Line, Suite
    from loopy import ValueArg
    from loopy.schedule.tools import get_kernel_arg_info, get_subkernel_arg_info
    from loopy.target.pyopencl import PyOpenCLPythonASTBuilder, PyOpenCLTarget
    from loopy.target.pyopencl_execution import PyOpenCLExecutionWrapperGenerator, PyOpenCLExecutor
    from pymbolic.mapper.stringifier import PREC_NONE, PREC_SUM
    from typing_extensions import override
except ImportError as error:
    raise UnsupportedFeatureError(
        f'portbar.recording.loopy needs loopy ({error}): pip install "portbar[loopy]"'
    ) from error

if TYPE_CHECKING:
    from genpy import Generable
    from pytools.codegen import CodeGenerator

#: Recordings that an executor keeps, with the arrays that they use; of too many, the oldest is dropped.
_MOST_RECORDINGS: Final = 8
#: Operations of numbers that the turn of a recorded loop lacks.
_OPERATIONS: Final = (
    *(
        "add",
        "sub",
        "mul",
        "floordiv",
        "mod",
        "truediv",
        "pow",
        "radd",
        "rsub",
        "rmul",
        "rfloordiv",
        "rmod",
        "rtruediv",
    ),
    *("rpow", "neg", "pos", "abs", "lt", "le", "gt", "ge", "eq", "ne", "bool", "int", "index", "float"),
)


class RecordingTarget(PyOpenCLTarget):
    """The target of a loopy program that runs in one kernel, in place of `loopy.PyOpenCLTarget`.

    Pass it to `loopy.make_kernel`, or change a program's target by ``program.copy(target=RecordingTarget())``. The
    parameters are those of `loopy.PyOpenCLTarget`. `TranslationUnit.executor` returns a `RecordingExecutor`.
    """

    hash_fields = (*PyOpenCLTarget.hash_fields, "revision")
    comparison_fields = (*PyOpenCLTarget.comparison_fields, "revision")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if self.limit_arg_size_nbytes is not None:
            raise UnsupportedFeatureError(
                "arguments beyond limit_arg_size_nbytes are in shared virtual memory, which cannot be recorded: leave the "
                "limit out"
            )

    @property
    def revision(self) -> str:
        """A digest of this module: loopy keeps host programs on disk, and those of another version must not be taken."""
        return _revision()

    @override
    def get_host_ast_builder(self) -> RecordingBuilder:
        """The writer of host programs."""
        return RecordingBuilder(self)

    @override
    def get_kernel_executor(
        self, t_unit: Any, *args: Any, entrypoint: Any, fused: bool | None = None, **kwargs: Any
    ) -> RecordingExecutor:
        """The executor of a program; `loopy.TranslationUnit.executor` passes a context or a queue, and `fused`, on."""
        given = args[0]
        context = given.context if isinstance(given, cl.CommandQueue) else given
        return RecordingExecutor(context, t_unit, entrypoint, fused=fused)


@cache
def _revision() -> str:
    return hashlib.sha256(Path(__file__).read_bytes()).hexdigest()


class RecordingBuilder(PyOpenCLPythonASTBuilder):
    """Writes host programs whose first argument, a `_Recorder`, takes the launches and the loops around them."""

    @override
    def get_function_definition(
        self, codegen_state: Any, codegen_result: Any, schedule_index: int, function_decl: Any, function_body: Generable
    ) -> Generable:
        """A host program."""
        name = codegen_result.current_program(codegen_state).name
        names = get_kernel_arg_info(codegen_state.kernel).passed_arg_names
        # Unlike loopy's own, it does not release temporaries in global memory: a recording keeps its memory.
        return Function(name, ["_lpy_recorder", *names, "allocator"], Suite([function_body, Line()]))

    @override
    def get_kernel_call(self, codegen_state: Any, subkernel_name: str, gsize: Any, lsize: Any) -> Generable:
        """A launch."""
        kernel = codegen_state.kernel
        mapper = self.get_expression_to_code_mapper(codegen_state)
        given = [_argument(kernel, name) for name in get_subkernel_arg_info(kernel, subkernel_name).passed_names]
        sizes = ", ".join(mapper(size or (1,), PREC_NONE, type_context="i") for size in (gsize, lsize))
        return Line(f"_lpy_recorder.step({subkernel_name!r}, {sizes}, [{', '.join(given)}])")

    @override
    def emit_sequential_loop(
        self,
        codegen_state: Any,
        iname: str,
        iname_dtype: Any,
        lbound: Any,
        ubound: Any,
        inner: Generable,
        hints: Sequence[Generable],
    ) -> Generable:
        """A loop."""
        mapper = self.get_expression_to_code_mapper(codegen_state)
        first, last = mapper(lbound, PREC_NONE, type_context="i"), mapper(ubound, PREC_SUM, type_context="i")
        return For((iname,), f"_lpy_recorder.turns({iname!r}, {first}, {last} + 1)", inner)


def _argument(kernel: Any, name: str) -> str:
    """An argument of a launch; complex numbers as their parameter takes them."""
    argument: Any = kernel.arg_dict.get(name)
    dtype: Any = argument.dtype if isinstance(argument, ValueArg) else None
    return f"_lpy_np.{dtype.numpy_dtype.name}({name})" if dtype is not None and dtype.is_complex() else name


class RecordingWrapperGenerator(PyOpenCLExecutionWrapperGenerator):
    """Writes the function that checks arguments, and then has the host program recorded or its recording launched."""

    @override
    def generate_invocation(
        self, gen: CodeGenerator, kernel: Any, kai: Any, host_program_name: str, args: Sequence[str]
    ) -> None:
        """The launch."""
        super().generate_invocation(gen, kernel, kai, "_lpy_cl_kernels.launch", [host_program_name, *args])

    @override
    def generate_output_handler(self, gen: CodeGenerator, kernel: Any, kai: Any) -> None:
        """The results."""
        if not kernel.options.no_numpy:
            gen("if out_host or _lpy_encountered_numpy: _lpy_cl_kernels.wait()")
        super().generate_output_handler(gen, kernel, kai)


class RecordingExecutor(PyOpenCLExecutor):
    """Runs a loopy program in one kernel, or as launches where that is faster.

    It is called as loopy's own executor is. A call with the same arrays and numbers as one of the last eight launches what was
    recorded then. Other calls record anew, and may compile.

    Attributes
    ----------
    fused : bool or None
        As for `portbar.Steps.launch`: True for one kernel, False for one launch per kernel of loopy's; None, the default,
        measures both in the first launches. `TranslationUnit.executor` takes it, too.
    """

    def __init__(self, context: cl.Context, t_unit: Any, entrypoint: Any, *, fused: bool | None = None) -> None:
        super().__init__(context, t_unit, entrypoint)
        self.fused = fused
        self._infos: dict[Any, Any] = {}
        self._latest: tuple[Steps, Launch] | None = None

    @override
    def get_invoker_uncached(self, t_unit: Any, entrypoint: Any, codegen_result: Any) -> Callable[..., Any]:
        """The function that checks arguments."""
        made: Callable[..., Any] = RecordingWrapperGenerator()(t_unit, entrypoint, codegen_result)
        return made

    @override
    def translation_unit_info(self, arg_to_dtype: Any = None) -> Any:
        """The compiled program for some types of arguments."""
        if arg_to_dtype not in self._infos:
            found: Any = super().translation_unit_info(arg_to_dtype)
            options = tuple(self.t_unit[self.entrypoint].options.build_options)
            self._infos[arg_to_dtype] = replace(found, cl_kernels=_Recordings(self, found.cl_kernels, options))
        return self._infos[arg_to_dtype]

    @property
    def launch(self) -> Launch:
        """The launch of the latest call, whose `wait` checks that barriers held.

        Raises
        ------
        LaunchError
            There was no call, or the latest one launched no kernel.
        """
        return self._found()[1]

    def explain(self) -> str:
        """Return how the latest call's launches are run, and why; see `portbar.Steps.explain`."""
        return self._found()[0].explain()

    def _found(self) -> tuple[Steps, Launch]:
        if self._latest is None:
            raise LaunchError("the executor has launched nothing: call it first")
        return self._latest


class _Recording:
    """The steps of one set of arrays and numbers, and the queue and the arrays that they need."""

    def __init__(self, queue: cl.CommandQueue, args: Sequence[Any], steps: Steps | None) -> None:
        self.kept = queue, args
        #: None if no kernel is launched.
        self.steps = steps
        self.event: cl.Event | None = None


class _Recordings:
    """The kernels of a program for the function that checks arguments, which calls `launch`, and `wait` for results."""

    def __init__(self, executor: RecordingExecutor, kernels: Any, options: tuple[str, ...]) -> None:
        self._executor, self._kernels, self._options = executor, kernels, options
        self._recordings: OrderedDict[Any, _Recording] = OrderedDict()

    def launch(
        self,
        _: _Recordings,
        queue: cl.CommandQueue,
        host: Callable[..., None],
        *args: Any,
        wait_for: Sequence[cl.Event] | None,
        allocator: Any,
    ) -> cl.Event:
        """Launch the recording of a host program with these arguments."""
        recording = self._recording(queue, host, args, allocator)
        events = [*(wait_for or ())]
        if recording.event is not None and queue.properties & cl.command_queue_properties.OUT_OF_ORDER_EXEC_MODE_ENABLE:
            # Temporaries in global memory are the same in each launch.
            events.append(recording.event)
        if events:
            cl.enqueue_barrier(queue, wait_for=events)
        if recording.steps is None:
            self._executor._latest = None
            return cl.enqueue_marker(queue)
        launch = recording.steps.launch(fused=self._executor.fused)
        self._executor._latest = recording.steps, launch
        recording.event = launch.event
        return launch.event

    def wait(self) -> None:
        """Wait for the latest launch, and check it."""
        latest = self._executor._latest
        if latest is not None:
            latest[1].wait()

    def _recording(
        self, queue: cl.CommandQueue, host: Callable[..., None], args: tuple[Any, ...], allocator: Any
    ) -> _Recording:
        key = id(queue), *map(_identity, args)
        known = self._recordings.get(key)
        if known is None:
            known = _Recording(queue, args, self._recorded(queue, host, args, allocator))
            self._recordings[key] = known
            while len(self._recordings) > _MOST_RECORDINGS:
                self._recordings.popitem(last=False)
        self._recordings.move_to_end(key)
        return known

    def _recorded(
        self, queue: cl.CommandQueue, host: Callable[..., None], args: tuple[Any, ...], allocator: Any
    ) -> Steps | None:
        """The steps of a host program; loops whose turns differ in more than arguments are recorded turn by turn."""
        unrolled: frozenset[str] = frozenset()
        while True:
            recorder = _Recorder(record(queue, options=self._options), self._kernels, unrolled)
            try:
                host(recorder, *args, allocator)
            except _TurnNeededError as needed:
                unrolled |= {needed.iname}
            else:
                return recorder.steps if recorder.count else None


def _identity(argument: Any) -> Any:
    """A key of an argument; for an array its object, which a recording keeps."""
    if isinstance(argument, np.generic):
        return argument.dtype, argument.tobytes()
    if isinstance(argument, int | float | complex):
        # 0.0 and -0.0 are equal, but not the same.
        return type(argument), repr(argument)
    return id(argument)


class _Recorder:
    """Takes the launches of a host program and records them."""

    def __init__(self, steps: Steps, kernels: Any, unrolled: frozenset[str]) -> None:
        self.steps, self._kernels, self._unrolled = steps, kernels, unrolled
        self.count = 0

    def step(self, name: str, groups: Sequence[int], local_size: Sequence[int], args: Sequence[Any]) -> None:
        """Record a launch; nothing if it has no work-groups."""
        if all(groups):
            dimensions = max(len(groups), len(local_size))
            groups = (*groups, 1, 1)[:dimensions]
            local_size = (*local_size, 1, 1)[:dimensions]
            size = [one * other for one, other in zip(groups, local_size, strict=True)]
            self.steps(getattr(self._kernels, name), size, local_size, *map(_given, args))
            self.count += 1

    def turns(self, iname: str, begin: int, end: int) -> Iterator[int | _Index]:
        """Each turn, or one that stands for all of a loop."""
        if iname in self._unrolled:
            yield from range(begin, end)
        elif begin < end:
            with self.steps.repeat(end - begin) as turn:
                yield _Index(iname, turn + begin)


def _given(argument: Any) -> Any:
    """An argument of a step. Numbers have the type of their parameter, as in loopy's own launches."""
    if isinstance(argument, _Index):
        return argument.turn
    return argument.item() if isinstance(argument, np.bool_ | np.integer | np.floating) else argument


class _TurnNeededError(Exception):
    """A host program computes with the number of a turn, which a recorded loop does not have."""

    def __init__(self, iname: str) -> None:
        super().__init__(iname)
        self.iname = iname


class _Index:
    """The number of a recorded loop's turn: an argument of kernels, and nothing else."""

    __hash__ = None  # type: ignore[assignment]

    def __init__(self, iname: str, turn: Turn) -> None:
        self.iname, self.turn = iname, turn


def _needed(index: _Index, *_: Any) -> NoReturn:
    raise _TurnNeededError(index.iname)


for _operation in _OPERATIONS:
    setattr(_Index, f"__{_operation}__", _needed)
