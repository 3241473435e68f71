"""Kernels that another kernel runs by `PORTBAR_RUN`: the program with a function for each of them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from portbar.errors import Error, UnsupportedFeatureError
from portbar.primitives.run_kernels.functions import TEMPLATE, as_functions, place, type_outside
from portbar.primitives.run_kernels.phases import Phase, PhaseParameter, Phases, Problem, phases_of
from portbar.primitives.scalars import TYPES
from portbar.reading.apart import around, possible_macros
from portbar.reading.options import words_of
from portbar.reading.places import Places
from portbar.reading.reader import tree_of
from portbar.reading.runs import Run, after_include, runs_in, with_memory, without_includes
from portbar.reading.tree import Tree, UnparsedError
from portbar.records.dataclass import dataclass
from portbar.rendering.templates import fragment, render_def

#: The parameter of a kernel that has a grid.
_GRID: Final = "portbar_grid_param"
_MEMORY: Final = "portbar_run_memory"
_EXTENT: Final = ("size.x", "size.y", "size.z")
_LOCAL: Final = ("local_size.x", "local_size.y", "local_size.z")
#: Work-items of a work-group, where the author leaves the local size open.
_USUAL_ITEMS: Final = 64
_VECTOR: Final = re.compile(r"(.*) __attribute__\(\(ext_vector_type\((\d+)\)\)\)")


@dataclass(frozen=True)
class KernelFile:
    """A file of kernels by its name in messages."""

    name: str
    text: str


def expanded(
    driver: KernelFile, options: Sequence[str], headers: Mapping[str, str], others: Sequence[KernelFile] = ()
) -> str:
    """The text of a program with a function for each kernel that it runs.

    Parameters
    ----------
    driver : KernelFile
        The program, which includes `portbar/run_kernels.h`. Its kernels without a grid can be run.
    options : sequence of str
        Build options.
    headers : mapping of str to str
        Declarations of portbar's headers, by name.
    others : sequence of KernelFile, optional
        Further kernels that it may run.

    Raises
    ------
    UnsupportedFeatureError
        A kernel cannot be run by another one. The message names both lines.
    Error
        There is no such kernel, or two of one name.
    """
    after = after_include(driver.text)
    runs = list(runs_in(driver.name, driver.text))
    if after is None or not runs:
        return driver.text
    found = [_phases(file, options, headers) for file in (driver, *others)]
    known: dict[str, int] = {}
    for number, phases in enumerate(found):
        for name in phases.phases:
            if name in known:
                raise Error(
                    f"{found[known[name]].name} and {phases.name} both have a kernel {name!r}: rename one of them"
                )
            known[name] = number
    wanted = _wanted(runs, known, found)
    functions = _Functions(found, options)
    for name in wanted:
        functions.add(known[name], name, next((run for run in runs if run.kernel == name and not run.in_macro), None))
    at, line = after
    made = driver.text[:at]
    made += "" if made.endswith("\n") else "\n"
    made += functions.text(possible_macros(driver.text, words_of(options)))
    made += Places(driver.text, driver.name).directive(line) + driver.text[at:]
    if functions.memory:
        made = with_memory(made, f"local union {_MEMORY} portbar_run_once;", "run_memory = &portbar_run_once")
    return made


def _phases(file: KernelFile, options: Sequence[str], headers: Mapping[str, str]) -> Phases:
    """The kernels of a file that have no grid, and the functions that they use."""
    given = tuple(options)
    try:
        tree = tree_of(file.name, file.text, given, None, headers)
    except UnparsedError as error:
        raise UnsupportedFeatureError(
            f"{file.name}: PORTBAR_RUN needs a reader of OpenCL C ({error}): pip install libclang"
        ) from None
    try:
        text = _without_drivers(tree)
    finally:
        tree.close()
    made = phases_of(file.name, text, given, None, tuple(headers.items()))
    return replace(made, text=without_includes(made.text))


def _without_drivers(tree: Tree) -> str:
    """The text without the functions that no kernel uses which has no grid."""
    own = {key: node for key, node in tree.functions.items() if tree.is_in_text(node)}
    kernels = [
        tree.body(node)
        for node in own.values()
        if tree.is_kernel(node) and _GRID not in map(tree.spelling, tree.parameters(node))
    ]
    reached = {node.key for node in (*kernels, *tree.reached(kernels))} & own.keys()
    kept = {tree.file_extent(own[key]) for key in reached}
    contents = tree.contents
    for key, node in own.items():
        begin, end = tree.file_extent(node)
        if key not in reached and (begin, end) not in kept:
            contents = (
                contents[:begin] + bytes(one if one in b"\r\n" else 32 for one in contents[begin:end]) + contents[end:]
            )
    return contents.decode()


def _wanted(runs: Sequence[Run], known: Mapping[str, int], found: Sequence[Phases]) -> list[str]:
    """The names of the kernels that are run, or may be."""
    for run in runs:
        if run.kernel in known or run.in_macro:
            continue
        problem = next((str(problem) for phases in found for problem in phases.problems), "")
        if problem:
            raise UnsupportedFeatureError(f"{run.place}: PORTBAR_RUN of kernel {run.kernel!r}: {problem}")
        names = ", ".join(sorted(known)) or "none"
        raise Error(
            f"{run.place}: PORTBAR_RUN takes a kernel without a grid, and there is no {run.kernel!r}; such kernels: "
            f"{names}"
        )
    if any(run.kernel not in known for run in runs):
        return sorted(known)
    return list(dict.fromkeys(run.kernel for run in runs))


class _Functions:
    """The functions of the kernels that are run."""

    def __init__(self, found: Sequence[Phases], options: Sequence[str]) -> None:
        self._found, self._options = found, options
        self._parts: list[str] = []
        self._used: set[int] = set()
        #: The kernels' variables in local memory.
        self.memory: list[str] = []

    def add(self, number: int, name: str, run: Run | None) -> None:
        """Add a kernel of one of the programs; `run` is a place where it certainly is run."""
        phases = self._found[number]
        phase = phases.phases[name]
        problems = [*phases.problems, *phase.problems, *_own_problems(phase)]
        if problems and run is not None:
            raise UnsupportedFeatureError(
                f"{run.place}: kernel {name!r} cannot be run by another kernel: {problems[0]}. Launch it on its own"
            )
        if problems:
            reason = str(problems[0]).replace("\\", "/").replace('"', "'")
            self._parts.append(render_def(TEMPLATE, "unavailable", {"kernel": name, "reason": reason}))
            return
        self._used.add(number)
        self._parts.append(self._function(number, phase))

    def _function(self, number: int, phase: Phase) -> str:
        prefix = _prefix(number)
        own = f"{prefix}{phase.name}_local" if phase.has_local else ""
        if own:
            self.memory.append(f"struct {own} {phase.name};")
        declared, passed, given = [], [], ["memory"] if own else []
        for index, parameter in enumerate(phase.parameters):
            inside, outside = self._types(number, parameter)
            declared.append(f"{outside} argument{index}")
            passed.append(f"argument{index}")
            given.append(f"argument{index}" if inside == outside else f"({inside})argument{index}")
        cares = phase.meets or phase.asks_local
        local = _LOCAL if cares else ("1u", "1u", "1u")
        context = {
            "kernel": phase.name,
            "default": _default(phase),
            "fits": _fits(phase),
            "parameters": "".join(f", {one}" for one in declared),
            "arguments": "".join(f", {one}" for one in passed),
            "memory": own,
            "sizes": local,
            "plane": f"{local[0]} * {local[1]}",
            "extent": _EXTENT,
            "total": "all",
            "lines_total": "all",
            # Neither is known here.
            "dimensions": 3,
            "is_narrow": False,
            "vectorises": phase.vectorises,
            "by_groups": cares,
            "one_item": True,
            "is_shaped": False,
            "chunk": (),
            "call": f"{prefix}{phase.name}",
            "call_arguments": "".join(f", {one}" for one in given),
        }
        ways = ("groups", "") if phase.meets else ("items", "rows")
        context["body"], context["rows"] = (
            fragment(TEMPLATE, "work", {**context, "mode": way}) if way else "" for way in ways
        )
        return render_def(TEMPLATE, "run", context)

    def _types(self, number: int, parameter: PhaseParameter) -> tuple[str, str]:
        """The type of a parameter in the program's functions, and for who runs its kernel."""
        phases = self._found[number]
        inside = type_outside(phases, _prefix(number), parameter.type_name)
        if inside == parameter.type_name:
            return inside, inside
        if parameter.kind == "value":
            return inside, _plain(parameter.canonical)
        const = "const " if re.search(r"\bconst\b[^*]*\*", inside) else ""
        return inside, f"{const}{parameter.kind} void *"

    def text(self, macros: set[str]) -> str:
        """All of them; `macros` are those of the program that they are in."""
        parts = [around(place(), macros)]
        parts += [
            as_functions(self._found[one], _prefix(one), self._options, is_first=False) for one in sorted(self._used)
        ]
        if self.memory:
            self._parts.insert(
                0, f"/* Local memory of kernels that are run, one at a time. */\nunion {_MEMORY} {{\n    "
            )
            self._parts[0] += "\n    ".join(self.memory) + "\n};\n"
        return "\n".join([*parts, '#line 1 "portbar_run.cl"', around("\n".join(self._parts), macros)])


def _prefix(number: int) -> str:
    return f"portbar_p{number}_"


def _own_problems(phase: Phase) -> list[Problem]:
    """The reasons why a kernel cannot be run that could be recorded."""
    found = [
        Problem(phase.place, f"its parameter {one.name!r} is a structure: pass its members, or a pointer to it")
        for one in phase.parameters
        if one.kind == "value" and one.dtype is None and not _plain(one.canonical)
    ]
    return found if phase.parameters else [Problem(phase.place, "it takes no arguments, so it does nothing")]


def _plain(canonical: str) -> str:
    """A type without the author's names; empty if it is a structure."""
    if canonical.startswith("enum "):
        return "int"
    found = _VECTOR.fullmatch(canonical)
    element = found[1] if found else canonical
    if element not in TYPES:
        return ""
    element = re.sub(r"unsigned (\w+)", r"u\1", element)
    return f"{element}{found[2]}" if found else element


def _default(phase: Phase) -> str:
    """The local size of a kernel whose caller leaves it open."""
    if phase.required is not None:
        return f"portbar_range_of({', '.join(f'{one}u' for one in phase.required)})"
    if not (phase.meets or phase.asks_local):
        return "portbar_range_of(1u)"
    if phase.meets:
        return "portbar_range_of(portbar_local_linear_size())"
    return f"portbar_range_of(min(size.x & (0u - size.x), {_USUAL_ITEMS}u))"


def _fits(phase: Phase) -> str:
    """The condition of a local size that a kernel can have."""
    made = [f"{name} == {size}u" for name, size in zip(_LOCAL, phase.required or (), strict=False)]
    if phase.meets:
        made.append(f"{' * '.join(_LOCAL)} == portbar_local_linear_size()")
    return " && ".join(made) or "true"
