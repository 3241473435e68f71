"""Objects of OpenCL C's own atomic types in calls of portbar's functions, which take pointers to plain types."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from portbar.reading import kinds
from portbar.reading.found import OpenclAtomic, Place
from portbar.reading.names import definitions
from portbar.reading.tree import Node, Tree, bare, below
from portbar.reading.words import hides_names, words

#: Takes the object of a call, in the declarations of these functions for this reader.
_OBJECT: Final = "portbar_object"
_DECLARED: Final = "".join(
    f"__attribute__((overloadable)) int {_OBJECT}(const volatile {space}void *);\n" for space in ("", "constant ")
)
_TYPE: Final = re.compile(r"atomic_(?:u?int|u?long|float|double|half|size_t|ptrdiff_t|u?intptr_t)")


def may_be_given(text: str, options: Sequence[str]) -> bool:
    """Whether a program may give one of portbar's functions an object of these types."""
    used = words(text, tuple(options))
    if not any(word.startswith("portbar_") for word in used):
        return False
    if any(map(_TYPE.fullmatch, used)):
        return True
    return hides_names(text, tuple(options)) and any(word.startswith("atomic") for word in used)


def with_objects(headers: Mapping[str, str]) -> dict[str, str]:
    """Headers whose functions of atomics, macros with an object `p`, give it to a function of this reader's."""
    made = {}
    for header, text in headers.items():
        names = [
            name for name, rest in definitions(text, ()) if name.startswith("portbar_atomic_") and rest[:2] == "(p"
        ]
        macros = (
            f"#undef {name}\n#define {name}(p, ...) (__VA_OPT__((void)(__VA_ARGS__),) {_OBJECT}(p))\n" for name in names
        )
        made[header] = "".join([text, _DECLARED, *macros]) if names else text
    return made


def given(tree: Tree) -> OpenclAtomic | None:
    """The first such object in a program with `with_objects`, None if there is none."""
    own = {tree.spelling(node) for node in tree.declarations}
    for function in tree.functions.values():
        for node in below(tree.body(function)):
            if node.kind != kinds.CALL or tree.called(node)[1] != _OBJECT:
                continue
            pointer = bare(node.kids[-1])
            name, place = tree.atomic_type(pointer)
            # Before OpenCL C 2.0, an author may declare a type of that name.
            if _TYPE.fullmatch(name) and name not in own:
                return OpenclAtomic(place or _declared(tree, pointer), name, name.removeprefix("atomic_"))
    return None


def _declared(tree: Tree, pointer: Node) -> Place:
    """Where the object that a pointer points to is declared; where the pointer is, if it names none."""
    node = pointer
    while True:
        inner = bare(node)
        if inner.kind in (kinds.REFERENCE, kinds.MEMBER, kinds.CALL):
            return tree.start_of_referenced(inner) or tree.start(pointer)
        if inner.kind not in (kinds.UNARY, kinds.SUBSCRIPT, kinds.BINARY, kinds.TERNARY) or not inner.kids:
            return tree.start(inner)
        pointers = [kid for kid in inner.kids if tree.is_address(bare(kid))]
        node = (pointers or inner.kids)[0]
