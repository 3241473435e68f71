"""The probe of what compiles and works: language levels, features, calls of the host, and atomics strategies.

Each measurement compiles a kernel of `cl_templates/probe`, runs it and judges the answer. A driver may abort or hang in it.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import pyopencl as cl

from portbar.backends import host_threads
from portbar.backends.backend import BACKENDS
from portbar.backends.selection import units_of
from portbar.device import quirks
from portbar.device.facts import DeviceFacts, facts
from portbar.device.findings import Findings, UnmeasuredError
from portbar.primitives import layout
from portbar.primitives.atomics import word_context, word_pieces
from portbar.primitives.strategy import Choice, Strategy
from portbar.rendering.templates import render_def
from portbar.survey.measuring.rounds import device_s

#: Features that need a language level of OpenCL C 2.0 or later.
_OF_2_0: Final = frozenset(
    {
        *("sub_groups", "work_group_collectives", "generic_address_space", "program_scope_variables"),
        *("float_atomics", "float_atomics_local", "double_atomics", "double_atomics_local"),
    }
)

#: Features in PTX, which no other compiler should be given.
_PTX_FEATURES: Final = frozenset({"mbarrier", "one_way_fences"})

#: Work-items of the kernels that try inline assembly, enough for a compiler to vectorise them: the effect ASSEMBLY_APART.
_HOST_CALL_LOCAL_SIZE: Final = 64
#: Those of the host's calls that are pauses.
_PAUSES: Final = frozenset(one.pause_probe for one in host_threads.PROCESSORS)

#: The results of the calls of `portbar_probe_words` on a device that executes them correctly.
_ANSWERS: Final = (5, 7, 7, 9, 10, 43, 100, 200, 200)


def words_text(atomics: str) -> str:
    """The word functions of one atomics strategy, as OpenCL C."""
    why = Choice("", "a probe needs its words only")
    strategy = Strategy(Choice(atomics, "under test"), why, why)
    return "\n".join(render_def(template, name, word_context(strategy)) for template, name in word_pieces(strategy))


def probe_text(template: str, *names: str, **more: Any) -> str:
    """Kernels of a template of the probe, as OpenCL C."""
    context = more | {"line_words": layout.LINE_WORDS}
    return "\n".join(render_def(f"probe/{template}.mako", name, context) for name in names)


@dataclass
class CompileProbes:
    """The probes of what compiles and works on one device. Those that need the result of another one find it in `known`."""

    device: cl.Device
    known: Findings = field(default_factory=Findings)
    #: How many times as slow as usual the device or the machine is.
    pace: float = 1.0

    def __post_init__(self) -> None:
        self.facts: DeviceFacts = facts(self.device)
        self.context = cl.Context([self.device])
        self.queue = cl.CommandQueue(self.context, self.device, properties=cl.command_queue_properties.PROFILING_ENABLE)

    def _build(self, text: str, std: str | None = None) -> cl.Program:
        options = [] if std is None else [f"-cl-std={std}"]
        program: cl.Program = cl.Program(self.context, text).build(options, devices=[self.device])
        return program

    def _buffer(self, words: int) -> cl.Buffer:
        zeros = np.zeros(words, np.uint32)
        return cl.Buffer(self.context, cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR, hostbuf=zeros)

    def _read(self, buffer: cl.Buffer) -> np.ndarray[Any, np.dtype[np.uint32]]:
        words = np.empty(buffer.size // 4, np.uint32)
        cl.enqueue_copy(self.queue, words, buffer)
        return words

    def _run(self, kernel: cl.Kernel, groups: int, local_size: int, *args: Any) -> float:
        """Run a kernel to its end; seconds."""
        kernel.set_args(*args)
        self.queue.finish()
        start = time.perf_counter()
        event = cl.enqueue_nd_range_kernel(self.queue, kernel, (groups * local_size,), (local_size,))
        event.wait()
        wall = time.perf_counter() - start
        # Some drivers' clocks say nothing, or something else than nanoseconds.
        return device_s(event, wall, 0.1 * wall)

    def _feature_works(self, name: str, std: str | None, needs: str = "", local_size: int = 1) -> bool:
        text = needs + probe_text("features", name)
        start = np.array([3, 0, 0, 0], np.uint32)
        flags = cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR
        try:
            kernel = cl.Kernel(self._build(text, std), "portbar_probe_feature")
            out = cl.Buffer(self.context, flags, hostbuf=start)
            self._run(kernel, 1, local_size, out)
            return int(self._read(out)[0]) == 7
        except cl.Error:
            return False

    def level(self, std: str) -> bool:
        """Whether a kernel compiles with `-cl-std=std` and works."""
        return self._feature_works("language_level", std)

    def feature(self, name: str) -> bool:
        """Whether a kernel that uses a feature compiles and works, at the highest language level that does."""
        if name in _PTX_FEATURES and not BACKENDS["ptx"].takes_text(self.facts):
            return False
        if name == "sub_groups" and quirks.has_effect(quirks.SUB_GROUPS_ABORT, self.facts):
            return False
        if name not in _OF_2_0:
            return self._feature_works(name, None)
        std = next((std for std in ("CL3.0", "CL2.0") if self._built(std, f"level {std}")), None)
        return std is not None and self._feature_works(name, std)

    def _built(self, name: str, measurement: str) -> bool:
        """Whether a compile probe passed, or `UnmeasuredError` where there was too little time for its measurement."""
        if measurement in self.known.unmeasured:
            raise UnmeasuredError(measurement)
        return bool(self.known.builds.get(name))

    def host_call(self, name: str) -> bool:
        """Whether one of the host's calls compiles and comes back. Inline assembly may take a driver down: probe these last."""
        if not units_of(self.facts).may_assemble(self.facts):
            return False
        here = host_threads.processor()
        if here is None or (name in _PAUSES and name != here.pause_probe):
            return False
        template = here.template_for(self.facts)
        relax = render_def(template, "relax", {})
        if name in _PAUSES:
            return self._feature_works("pause", None, relax, _HOST_CALL_LOCAL_SIZE)
        if not (host_threads.calls_linux() and self._built(here.pause_probe, f"host_call {here.pause_probe}")):
            return False
        needs = render_def(template, "yield_processor", {})
        if name == "asm_anywhere":
            yields = self._built("yield_syscall", "host_call yield_syscall")
            return yields and self._feature_works(name, None, relax + needs, _HOST_CALL_LOCAL_SIZE)
        return self._feature_works("yield_processor", None, needs, _HOST_CALL_LOCAL_SIZE)

    def atomics(self, probe: str) -> bool:
        """Whether every word function of an atomics strategy compiles, runs and returns correct results.

        The strategy may have a language level after an `@`.
        """
        name, _, std = probe.partition("@")
        if not BACKENDS[name].takes_text(self.facts):
            return False
        groups, local_size = 4, 16
        word, answers = self._buffer(2 * layout.LINE_WORDS), self._buffer(len(_ANSWERS))
        try:
            program = self._build(words_text(name) + "\n" + probe_text("words", "words"), std or None)
            self._run(cl.Kernel(program, "portbar_probe_words"), groups, local_size, word, answers)
            right = tuple(map(int, self._read(answers))) == _ANSWERS
            return right and int(self._read(word)[layout.LINE_WORDS]) == 3 * groups * local_size
        except cl.Error:
            return False

    def std(self, atomics: str) -> str | None:
        """The `-cl-std` with which an atomics strategy was found to build."""
        return BACKENDS[atomics].std(self.facts, self.known)

    def builds(self, atomics: str) -> bool:
        """Whether an atomics strategy was found to build; `UnmeasuredError` where one of its probes may yet."""
        probes = BACKENDS[atomics].probes
        if any(self.known.builds.get(probe) for probe in probes):
            return True
        return any(self._built(probe, f"atomics {probe}") for probe in probes)
