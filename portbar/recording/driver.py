"""The text of a kernel that replays recorded steps: programs as functions, and a function for each kernel and local size."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from portbar.primitives.run_kernels.functions import TEMPLATE, as_functions, place, type_outside
from portbar.primitives.run_kernels.phases import Phases
from portbar.recording import table
from portbar.recording.origin import Origin
from portbar.recording.steps import Buffer, Call, Flag, Local, Opaque, Size
from portbar.recording.table import Slot, slots_of
from portbar.records.dataclass import dataclass
from portbar.rendering.templates import fragment, render_def

_TEMPLATE: Final = "recording/replay.mako"
#: Work-items of a work-group's row that are worth a loop of their own.
_LONG: Final = 8
#: The place of a work-item in hand for those kernels that do not ask for the local size.
_NONE: Final[Size] = (1, 1, 1)


@dataclass(frozen=True)
class Way:
    """How the work-items of a step are run: ``rows``, ``items``, ``chunks`` or ``groups``."""

    mode: str
    vectorises: bool = False


@dataclass(frozen=True)
class MemoryObjects:
    """The memory objects of a recording by their identity: their numbers, and those that no step writes; images, samplers."""

    numbers: Mapping[int, int]
    only_read: frozenset[int]
    #: Those that some step takes as `constant`.
    constant: frozenset[int]
    #: Images and samplers -> their numbers.
    opaque: Mapping[tuple[str, int], int]

    def parameters(self) -> str:
        """The parameters of the kernel, each after a comma."""
        made = (
            self.pointers("global", [*self.numbers.values()])[0] + self.pointers("constant", sorted(self.constant))[0]
        )
        return made + "".join(f", {type_name} opaque{number}" for (type_name, _), number in self.opaque.items())

    def pointers(self, kind: str, wanted: Sequence[int]) -> tuple[str, str]:
        """Parameters and arguments of a function that takes some of them, each after a comma."""
        if kind == "constant":
            declared = [f", constant uchar *constant{number}" for number in wanted]
        else:
            declared = [
                f", {'const ' if number in self.only_read else ''}global uchar *buffer{number}" for number in wanted
            ]
        return "".join(declared), "".join(f", {one.rpartition('*')[2]}" for one in declared)


class Driver:
    """The text for some steps.

    Parameters
    ----------
    calls : sequence of Call
    flags : sequence of Flag
    memory : Memory
    phases : mapping of Origin to Phases
    by_rows : bool
        Whether work-groups are threads of the host, so that loops over work-items suit them.
    by_vectors : bool
        Whether the compiler makes vectors of work-items there.
    """

    def __init__(
        self,
        calls: Sequence[Call],
        flags: Sequence[Flag],
        memory: MemoryObjects,
        phases: Mapping[Origin, Phases],
        *,
        by_rows: bool,
        by_vectors: bool = False,
    ) -> None:
        self._space = "const global"
        self._memory, self._phases = memory, phases
        self._prefixes = {origin: f"portbar_p{number}_" for number, origin in enumerate(phases)}
        self._calls: dict[tuple[Any, ...], list[Call]] = {}
        for call in calls:
            self._calls.setdefault(self._key(call), []).append(call)
        met = {call.local: None for call in calls if call.phase is not None and call.phase.meets and call.local}
        #: The local size of the kernel, None for what suits it.
        self.local: Size | None = (1, 1, 1) if by_rows else None
        #: Whether it is that of all work-groups that meet. Then their ids are the device's own, which makes vectors of them.
        self._is_shaped = by_rows and len(met) == 1
        if met:
            first = next(iter(met))
            self.local = first if self._is_shaped else (_items(first), 1, 1)
        self._by_chunks = by_rows and by_vectors and self.local != (1, 1, 1)
        self.ways = {key: self._way(made[0], by_rows=by_rows) for key, made in self._calls.items()}
        #: Identity of a call -> the number of what runs it, and the places of its arguments.
        self.numbers: dict[int, tuple[int, tuple[Slot | None, ...]]] = {}
        #: Those numbers: the number of a function, and the images and samplers that it gets, which no row can hold.
        self._variants: dict[tuple[int, tuple[int, ...]], int] = {}
        for number, made in enumerate(self._calls.values()):
            slots = slots_of([call.arguments for call in made])
            for call in made:
                variant = number, tuple(memory.opaque[one.key] for one in call.arguments if isinstance(one, Opaque))
                self.numbers[id(call)] = self._variants.setdefault(variant, len(self._variants)), slots
        self._flags = flags

    def _key(self, call: Call) -> tuple[Any, ...]:
        assert call.phase is not None
        local = call.local if call.phase.meets or call.phase.asks_local else None
        return call.origin, call.name, local

    def _way(self, call: Call, *, by_rows: bool) -> Way:
        assert call.phase is not None
        if call.phase.meets:
            return Way("groups")
        if self._by_chunks:
            return Way("chunks")
        return Way("rows", call.phase.vectorises) if by_rows else Way("items")

    def way_of(self, call: Call) -> Way:
        """How the work-items of a call are run."""
        return self.ways[self._key(call)]

    def text(self, depth: int, *, is_constant: bool = False) -> str:
        """OpenCL C with portbar's headers; loops are nested so deeply, and the table may be in constant memory."""
        self._space = "constant" if is_constant else "const global"
        parts = ['#include "portbar/device_barrier.h"\n', place()]
        parts += [as_functions(found, self._prefixes[origin], origin.macros) for origin, found in self._phases.items()]
        functions, memory, calls = [], [], []
        for number, (key, made) in enumerate(self._calls.items()):
            variants = [(opaque, code) for (of, opaque), code in self._variants.items() if of == number]
            # PoCL 3.1 ended the process where two branches called one function with barriers and images.
            copies = len(variants) if self.ways[key].mode == "groups" else 1
            texts = [self._function(number, made, self.ways[key], depth, copy) for copy in range(copies)]
            functions += [function for function, _, _ in texts]
            memory += texts[0][2]
            for at, (opaque, code) in enumerate(variants):
                begin = texts[min(at, copies - 1)][1]
                calls.append((code, f"{begin}{''.join(f', opaque{one}' for one in opaque)})"))
        calls.sort()
        wanted = sorted({self._memory.numbers[id(flag.buffer.memory)] for flag in self._flags})
        parameters, arguments = self._memory.pointers("global", wanted)
        word = "".join(f"row[3] == {number}u ? buffer{number} : " for number in wanted[1:])
        context = {
            "memory": memory,
            "steps": "\n".join(functions),
            "flags": bool(wanted),
            "flag_parameters": parameters,
            "flag_arguments": arguments,
            "flag_word": f"{word}buffer{wanted[0]}" if wanted else "",
            "buffers": self._memory.parameters(),
            "table_space": self._space,
            "depth": depth,
            "turn": _turn(depth, 0),
            "codes": table,
            "calls": calls,
        }
        parts += ['#line 1 "portbar_replay.cl"\n', render_def(_TEMPLATE, "replay", context)]
        return "\n".join(parts)

    def _type(self, call: Call, type_name: str) -> str:
        """A type of the author's outside of the program's part."""
        assert call.origin is not None
        return type_outside(self._phases[call.origin], self._prefixes[call.origin], type_name)

    def _function(
        self, number: int, calls: Sequence[Call], way: Way, depth: int, copy: int
    ) -> tuple[str, str, list[str]]:
        """The function of a kernel, or a copy of it, the begin of its call, and its part of the local memory."""
        call = calls[0]
        phase, origin = call.phase, call.origin
        assert phase is not None
        assert origin is not None
        prefix = self._prefixes[origin]
        lines, passed, opaque = [], [], ""
        needed: dict[str, set[int]] = {"global": set(), "constant": set()}
        fields = [f"struct {prefix}{phase.name}_local own;"] if phase.has_local else []
        _, slots = self.numbers[id(call)]
        for index, (parameter, slot) in enumerate(zip(phase.parameters, slots, strict=True)):
            type_name = self._type(call, parameter.type_name)
            given = [one.arguments[index] for one in calls]
            if parameter.kind == "local":
                size = max(one.size for one in given if isinstance(one, Local))
                fields.append(f"uchar argument{index}[{size}] __attribute__((aligned(64)));")
                passed.append(f"({type_name})memory->step{number}.argument{index}")
                continue
            if parameter.kind in ("image", "sampler"):
                opaque += f", {type_name} argument{index}"
                passed.append(f"argument{index}")
                continue
            assert slot is not None
            if parameter.kind == "value":
                at = f"({self._space} uchar *)row + {slot.at}"
                if slot.changes:
                    word = slot.at // 4
                    at = f"({self._space} uchar *)table + row[{word}] + row[{word + 1}] * ({_turn(depth, word + 2)})"
                lines.append(f"const {type_name} argument{index} = *({self._space} {type_name} *)({at});")
            else:
                value = self._pointer(parameter.kind, type_name, slot, given, needed)
                lines.append(f"{type_name} argument{index} = {value};")
            passed.append(f"argument{index}")
        parameters, arguments = "", ""
        if any(slot is not None and slot.changes for slot in slots):
            turns = [f"turn{level}" for level in range(depth)]
            parameters = f", {self._space} uint *table" + "".join(f", uint {one}" for one in turns)
            arguments = ", ".join(["", "table", *turns])
        memory: list[str] = []
        if fields:
            parameters += ", local union portbar_step_memory *memory"
            arguments += ", &memory"
            memory = [f"struct {{ {' '.join(fields)} }} step{number};"]
        for kind, wanted in needed.items():
            more = self._memory.pointers(kind, sorted(wanted))
            parameters += more[0]
            arguments += more[1]
        given_local = ["&memory->step" + f"{number}.own"] if phase.has_local else []
        name = f"portbar_step_{number}" + (f"_{copy}" if copy else "")
        local = self._local(call)
        context = {
            "summary": f"Run kernel {phase.name} at the local size {local}"
            if call.local
            else f"Run kernel {phase.name}",
            "name": name,
            "more_parameters": parameters + opaque,
            "sizes": [f"{size}u" for size in local],
            "plane": f"{local[0] * local[1]}u",
            "extent": ("row[1]", "row[2]", "row[3]"),
            "total": "(ulong)row[1] * row[2] * row[3]",
            "lines_total": "(ulong)row[1] * lines",
            "dimensions": max(one.dimensions for one in calls),
            # A launch has less than 2**32 work-items.
            "is_narrow": True,
            "table_space": self._space,
            "arguments": lines,
            "mode": way.mode,
            "vectorises": way.vectorises,
            # Without divisions in the loop, which compilers do not vectorise well.
            "by_groups": local[0] >= _LONG,
            "one_item": self.local != (1, 1, 1),
            "is_shaped": self._is_shaped,
            "chunk": [f"{size}u" for size in self.local or _NONE],
            "call": f"{prefix}{phase.name}",
            "call_arguments": "".join(f", {one}" for one in [*given_local, *passed]),
        }
        context["body"] = fragment(TEMPLATE, "work", context)
        return render_def(_TEMPLATE, "step", context), f"{name}(&grid, row{arguments}", memory

    def _local(self, call: Call) -> Size:
        key = self._key(call)
        return key[2] or _NONE

    def _pointer(
        self, kind: str, type_name: str, slot: Slot, given: Sequence[Any], needed: Mapping[str, set[int]]
    ) -> str:
        """The pointer of a row, among those that a kernel gets."""
        found = {id(one.memory): one for one in given if isinstance(one, Buffer) and one.memory is not None}
        numbers = sorted(self._memory.numbers[one] for one in found)
        stem = "constant" if kind == "constant" else "buffer"
        needed[kind].update(numbers)
        has_null = any(isinstance(one, Buffer) and one.memory is None for one in given)
        choices = [f"row[{slot.at // 4}] == {number}u ? ({type_name}){stem}{number} : " for number in numbers]
        if has_null or not numbers:
            return "".join(choices) + f"({type_name})0"
        return "".join(choices[:-1]) + f"({type_name}){stem}{numbers[-1]}"


def _turn(depth: int, word: int) -> str:
    """The turn of the loop whose level a row says."""
    choices = [f"row[{word}] == {level}u ? turn{level} : " for level in range(depth - 1)]
    return "".join(choices) + f"turn{depth - 1}"


def _items(local: Size) -> int:
    return local[0] * local[1] * local[2]
