"""A program whose kernels are functions: what its kernels take and ask for, and its text as part of another program.

A kernel becomes a function of the same body. Work-item functions are macros around the text, with the place of a virtual
work-item as a hidden parameter of kernels and of functions that ask for it. Local variables of kernels move to a structure.
No line moves, so that the driver's messages keep the author's.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from portbar.primitives.run_kernels.registers import IN_REGISTERS, takes_own_address
from portbar.primitives.scalars import TYPES
from portbar.reading import kinds
from portbar.reading.apart import possible_macros
from portbar.reading.edits import Edits
from portbar.reading.found import Place
from portbar.reading.opencl import KNOWN
from portbar.reading.options import words_of
from portbar.reading.reader import tree_of
from portbar.reading.tree import VARIABLE, Node, Tree, UnparsedError, below
from portbar.reading.values import SUB_GROUP
from portbar.records.dataclass import dataclass

if TYPE_CHECKING:
    import numpy as np

#: Work-item functions whose result is that of a virtual work-item, and whether they depend on the local size.
ASKED: Final[Mapping[str, bool]] = {
    "get_global_id": False,
    "get_global_size": False,
    "get_global_offset": False,
    "get_global_linear_id": False,
    "get_work_dim": False,
    "get_local_id": True,
    "get_local_size": True,
    "get_enqueued_local_size": True,
    "get_local_linear_id": True,
    "get_group_id": True,
    "get_num_groups": True,
}
_NAME: Final = re.compile(r"[A-Za-z_]\w*")
#: Names that components of vectors have, too.
_COMPONENTS: Final = re.compile(r"[xyzw]{1,4}|[rgba]{1,4}|s[0-9a-fA-F]+|lo|hi|even|odd")
_PRIVATE: Final = re.compile(r"\b__private\b ?")
_RESTRICT: Final = re.compile(r"\b(?:__)?restrict(?:__)?\b ?")
_LOCAL: Final = re.compile(r"\b__local\b ?")
_ALIGNMENT: Final = 64
#: In place of statements that are not inserted.
_NEVER: Final = "portbar_step_never"
_SAMPLER: Final = "sampler_t"
#: An image, its access in front.
_IMAGE: Final = re.compile(r"\b__(read_only|write_only|read_write) (image\w*_t)$")
_STRUCTURES: Final = frozenset({2, 3})
_ENUMERATION: Final = 5


@dataclass(frozen=True)
class Problem:
    """A reason why a kernel cannot be a step of another kernel, with its place."""

    place: Place
    reason: str

    def __str__(self) -> str:
        return f"{self.place}: {self.reason}"


@dataclass(frozen=True)
class PhaseParameter:
    """One parameter of a kernel."""

    name: str
    #: As declared, without `restrict`.
    type_name: str
    #: ``global``, ``constant``, ``local``, ``image``, ``sampler`` or ``value``.
    kind: str
    #: Whether the kernel only reads through it, by `const` or `constant`.
    only_read: bool = False
    #: Of a scalar.
    dtype: np.dtype[Any] | None = None
    #: Bytes of a value; None where they are not known.
    size: int | None = None
    #: The type without the author's names, of a value.
    canonical: str = ""


@dataclass(frozen=True)
class Phase:
    """One kernel."""

    name: str
    place: Place
    parameters: tuple[PhaseParameter, ...]
    #: Its `reqd_work_group_size`.
    required: tuple[int, int, int] | None
    #: Whether the work-items of a group meet or share local memory.
    meets: bool
    #: Whether it asks for anything that depends on the local size.
    asks_local: bool
    #: Whether a loop over its work-items may be vectorised: no variable of a work-item needs memory of its own.
    vectorises: bool
    #: Whether it has variables in local memory.
    has_local: bool
    problems: tuple[Problem, ...] = ()


@dataclass(frozen=True)
class Phases:
    """The kernels of a program, and its text with functions in place of them."""

    name: str
    phases: Mapping[str, Phase]
    #: With the place of each name that is to be prefixed in it.
    text: str
    #: Names that it declares -> how many parameters follow the hidden ones, None of what has none of these.
    declared: Mapping[str, int | None]
    #: Macros that it may define.
    macros: tuple[str, ...] = ()
    problems: tuple[Problem, ...] = ()


@dataclass
class _Function:
    """The requests of a function by itself, and the functions that it calls."""

    node: Node
    asks: set[str] = field(default_factory=set)
    calls: set[int] = field(default_factory=set)
    meets: bool = False
    in_registers: bool = True
    #: Whether it casts to a pointer through which it may write what is `const`.
    drops_const: bool = False
    problems: list[Problem] = field(default_factory=list)


#: In a text, in place of the prefix of a program's names.
PREFIX: Final = "portbar_step_prefix_"


@lru_cache(maxsize=64)
def phases_of(
    name: str,
    text: str,
    options: tuple[str, ...],
    extensions: tuple[str, ...] | None,
    headers: tuple[tuple[str, str], ...] = (),
) -> Phases:
    """Read a program. A part that cannot be a phase is a problem of its kernel, or of the whole program.

    `headers` are declarations of portbar's headers by name, which the program may include.
    """
    try:
        tree = tree_of(name, text, options, extensions, dict(headers))
    except UnparsedError as error:
        problem = Problem(Place(name, 1), f"its source cannot be read ({error}): pip install libclang")
        return Phases(name, {}, text, {}, problems=(problem,))
    try:
        return _Reading(tree, text, options).phases()
    finally:
        tree.close()


class _Reading(Edits):
    """Reads a program, and edits its text."""

    def __init__(self, tree: Tree, text: str, options: Sequence[str]) -> None:
        super().__init__(tree.contents, _NEVER, _NEVER)
        self._tree = tree
        #: Kernels by their names: whether they have variables in local memory.
        self._has_local: dict[str, bool] = {}
        self._macros = frozenset(possible_macros(text, words_of(options)))
        self._functions = {key: self._function(node) for key, node in tree.functions.items()}
        self._kernels = {key for key, node in tree.functions.items() if tree.is_kernel(node)}

    def phases(self) -> Phases:
        """The program as phases."""
        tree = self._tree
        problems = [Problem(unread.place, unread.reason) for unread in tree.missing]
        problems += [Problem(unread.place, unread.reason) for _, unread in tree.unread_outside()]
        declared = self._declared(problems)
        asking = {key for key in self._functions if key in self._kernels or self._asked(key)}
        names = {tree.spelling(self._functions[key].node) for key in asking}
        for key, function in self._functions.items():
            name = tree.spelling(function.node)
            if key not in asking and name in names:
                reason = f"{name}() has an overload that asks for ids, and one that does not: name them differently"
                problems.append(Problem(tree.place(function.node), reason))
        found = {}
        for key in self._kernels:
            phase = self._phase(self._functions[key])
            found[phase.name] = phase
        for node in [*(self._functions[key].node for key in asking), *self._prototypes(names)]:
            self._give_place(node, problems)
        for key in asking:
            node = self._functions[key].node
            name = tree.spelling(node)
            declared[name] = max(declared.get(name) or 0, len(tree.parameters(node)))
        return Phases(tree.name, found, self.text(), declared, tuple(sorted(self._macros)), tuple(problems))

    def _prototypes(self, names: set[str]) -> Iterator[Node]:
        return (node for node in self._tree.prototypes() if self._tree.spelling(node) in names)

    def _declared(self, problems: list[Problem]) -> dict[str, int | None]:
        """The names that are declared outside of functions."""
        tree = self._tree
        names = {tree.spelling(node) for node in tree.functions.values()}
        for node in tree.declarations:
            names.add(tree.spelling(node))
            if node.kind == _ENUMERATION:
                names.update(tree.spelling(kid) for kid in tree.children(node) if kid.kind == kinds.ENUM_CONSTANT)
            if node.kind == VARIABLE and not tree.is_constant(node) and tree.canonical_type(node) != _SAMPLER:
                what = f"the variable {tree.spelling(node)!r} keeps its value from launch to launch"
                problems.append(Problem(tree.place(node), f"{what}; pass it as a buffer"))
        return {
            name: None
            for name in names
            if _NAME.fullmatch(name) and not _COMPONENTS.fullmatch(name) and name not in self._macros
        }

    # Functions

    def _function(self, node: Node) -> _Function:
        tree, made = self._tree, _Function(node)
        made.problems += [Problem(one.place, f"it cannot be read: {one.reason}") for one in tree.unread_in(node)]
        for one in below(tree.body(node)):
            if one.kind == kinds.CALL:
                key, name, _ = tree.called(one)
                definition = tree.defined(key, name)
                if definition is not None:
                    made.calls.add(definition.key)
                elif name in ASKED:
                    made.asks.add(name)
                elif name in KNOWN and KNOWN[name].caller is not None:
                    made.meets = True
                    if name == "work_group_broadcast" and len(one.kids) > 3:
                        made.problems.append(
                            Problem(tree.place(one), f"{name}() takes ids of several dimensions: use a kernel of one")
                        )
                    if KNOWN[name].caller == SUB_GROUP:
                        made.problems.append(
                            Problem(tree.place(one), f"{name}() depends on the sub-groups of a launch")
                        )
                elif name.startswith(("get_sub_group", "get_num_sub_group", "enqueue_kernel", "get_pipe", "read_pipe")):
                    made.problems.append(
                        Problem(tree.place(one), f"{name}() has no meaning in a part of another kernel")
                    )
            elif one.kind == VARIABLE and not tree.is_shared(one):
                made.in_registers &= IN_REGISTERS.fullmatch(tree.canonical_type(one)) is not None
            elif one.kind == kinds.CAST:
                made.drops_const |= self._drops_const(one)
            elif one.kind == kinds.UNARY and tree.unary(one) == kinds.ADDRESS:
                made.in_registers &= not takes_own_address(tree, one)
        return made

    def _drops_const(self, cast: Node) -> bool:
        """Whether a cast may make a pointer to what is `const` one that writes."""
        tree = self._tree
        if not tree.is_pointer(cast) or tree.points_to_constant(cast) or not cast.kids:
            return False
        operand = cast.kids[-1]
        return not tree.is_pointer(operand) or tree.points_to_constant(operand)

    def _reached(self, key: int) -> list[_Function]:
        reached, waiting = {key}, [key]
        while waiting:
            for called in self._functions[waiting.pop()].calls - reached:
                reached.add(called)
                waiting.append(called)
        return [self._functions[one] for one in reached]

    def _asked(self, key: int) -> set[str]:
        return {name for one in self._reached(key) for name in one.asks}

    def _give_place(self, node: Node, problems: list[Problem]) -> None:
        """Add the hidden parameters to a function."""
        tree = self._tree
        at, name = tree.file_place(node), tree.spelling(node)
        opening = self._skip(at + len(name))
        if tree.word_at(at) != name or self._bytes[opening : opening + 1] != b"(" or name in self._macros:
            problems.append(Problem(tree.place(node), f"the name of {name}() is made by a macro: write it out"))
            return
        given = "PORTBAR_STEP_PARAM"
        if self._has_local.get(name):
            given += f", local struct {PREFIX}{name}_local *portbar_local"
        end = self._empty_until(opening + 1)
        if end is None:
            self._replace(at, opening + 1, f"{PREFIX}{name}({given}, ")
        else:
            self._replace(at, end + 1, f"{PREFIX}{name}({given})")

    # Kernels

    def _phase(self, function: _Function) -> Phase:
        tree, node = self._tree, function.node
        reached = self._reached(node.key)
        problems = [problem for one in reached for problem in one.problems]
        name = tree.spelling(node)
        if any(one.node.key in self._kernels for one in reached if one is not function):
            problems.append(Problem(tree.place(node), "it calls a kernel: call a function of the same body"))
        drops = any(one.drops_const for one in reached)
        parameters = tuple(self._parameter(kid, drops, problems) for kid in tree.parameters(node))
        fields = self._move_locals(node, problems)
        self._has_local[name] = bool(fields)
        if fields:
            text = f"struct {PREFIX}{name}_local {{ {' '.join(fields)} }};"
            self._begin(tree.extent(node)[0], text)
        asked = self._asked(node.key)
        return Phase(
            name,
            tree.place(node),
            parameters,
            tree.required_size(node),
            meets=bool(fields)
            or any(one.meets for one in reached)
            or any(parameter.kind == "local" for parameter in parameters),
            asks_local=any(ASKED[one] for one in asked),
            vectorises=all(one.in_registers for one in reached),
            has_local=bool(fields),
            problems=tuple(dict.fromkeys(problems)),
        )

    def _parameter(self, node: Node, drops_const: bool, problems: list[Problem]) -> PhaseParameter:
        tree = self._tree
        name = tree.spelling(node)
        declared = _RESTRICT.sub("", _PRIVATE.sub("", tree.written_type(node).replace("*__private", "*"))).strip()
        if tree.is_pointer(node):
            space = re.search(r"\b__(global|constant|local)\b", declared)
            if space is None or declared.count("*") > 1:
                problems.append(Problem(tree.place(node), f"the pointer {name!r} ({declared}) cannot be passed on"))
            kind = space[1] if space else "global"
            return PhaseParameter(
                name, declared, kind, kind == "constant" or (not drops_const and tree.points_to_constant(node))
            )
        canonical = tree.canonical_type(node)
        if canonical == _SAMPLER:
            return PhaseParameter(name, canonical, "sampler", True)
        if canonical.startswith("image"):
            return self._image(node, canonical, problems)
        if re.search(r"pipe|event|queue", canonical):
            problems.append(Problem(tree.place(node), f"the parameter {name!r} is a {canonical}, no buffer or value"))
        type_name = tree.type_name(node)
        dtype = TYPES.get(canonical)
        return PhaseParameter(name, type_name, "value", True, dtype, tree.size_of(node), canonical)

    def _image(self, node: Node, canonical: str, problems: list[Problem]) -> PhaseParameter:
        """An image, which must be read only: what a kernel writes to an image, it need not read again."""
        tree = self._tree
        name = tree.spelling(node)
        found = _IMAGE.search(tree.written_type(node))
        if found is None:
            reason = f"the type of the image {name!r} has a name of the program: write it out, as read_only {canonical}"
            problems.append(Problem(tree.place(node), reason))
        elif found[1] != "read_only":
            reason = f"the image {name!r} is {found[1]}, and only images that are only read can be a part: use a buffer"
            problems.append(Problem(tree.place(node), reason))
        return PhaseParameter(name, f"read_only {canonical}", "image", True)

    def _move_locals(self, node: Node, problems: list[Problem]) -> list[str]:
        """Replace a kernel's variables in local memory by pointers; the fields of the structure that has them."""
        tree = self._tree
        fields: list[str] = []
        scalars: dict[int, str] = {}
        arrays: dict[int, str] = {}
        for one in below(tree.body(node)):
            if one.kind != kinds.DECLARATIONS:
                continue
            variables = [kid for kid in one.kids if kid.kind == VARIABLE and "__local" in _own_space(tree, kid)]
            if not variables:
                continue
            pointers = []
            for kid in variables:
                name = tree.spelling(kid)
                declared = _LOCAL.sub("", tree.written_type(kid))
                base, bracket, rest = declared.partition("[")
                if "(" in declared:
                    problems.append(Problem(tree.place(kid), f"the local variable {name!r} is a {declared}"))
                dimensions = f"{bracket}{rest}"
                at = f"{name}_{len(fields)}"
                fields.append(f"{base.strip()} {at}{dimensions} __attribute__((aligned({_ALIGNMENT})));")
                inner = dimensions.partition("]")[2]
                target = f"(*const {name}){inner}" if inner else f"*const {name}"
                address = "" if dimensions else "&"
                pointers.append(f"local {base.strip()} {target} = {address}portbar_local->{at};")
                (arrays if dimensions else scalars)[kid.key] = name
            self._replace(*tree.extent(one), " ".join(pointers))
        if scalars or arrays:
            self._refer(node, scalars, arrays, problems)
        return fields

    def _refer(
        self, node: Node, scalars: Mapping[int, str], arrays: Mapping[int, str], problems: list[Problem]
    ) -> None:
        """Let references to local variables go through the pointers."""
        tree = self._tree
        for one in below(tree.body(node)):
            whole = one.kind == kinds.SIZEOF or (one.kind == kinds.UNARY and tree.unary(one) == kinds.ADDRESS)
            if whole:
                inner = one.kids[0] if one.kids else one
                while inner.kind in (kinds.PAREN, kinds.CONVERSION) and inner.kids:
                    inner = inner.kids[0]
                if inner.kind == kinds.REFERENCE and tree.referenced(inner)[1] in arrays:
                    problems.append(Problem(tree.place(one), f"{tree.source(one)} takes a local array as a whole"))
            if one.kind != kinds.REFERENCE:
                continue
            name = scalars.get(tree.referenced(one)[1])
            if name is None:
                continue
            begin, end = tree.file_extent(one)
            if self._bytes[begin:end].decode() != name:
                problems.append(Problem(tree.place(one), f"a macro uses the local variable {name!r}: write it out"))
                continue
            self._replace(begin, end, f"(*{name})")


def _own_space(tree: Tree, variable: Node) -> str:
    """The address space of a variable, not that of what it points to."""
    return tree.written_type(variable).rpartition("*")[2]
