"""Whether loops with independent turns keep all their variables in registers.

To a compiler such turns share no memory. It counts private arrays as memory, and a work-item has one of each for all turns.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from portbar.primitives.run_kernels.registers import GRID, IN_REGISTERS, takes_own_address
from portbar.reading import kinds
from portbar.reading.own_headers import includes
from portbar.reading.reader import is_available, tree_of
from portbar.reading.tree import VARIABLE, Node, Tree, UnparsedError, below
from portbar.reading.words import may_use

#: The last argument of such a loop, and the function by which the reader's declaration of a loop marks one.
CLAUSE: Final = "independent"
_MARK: Final = "portbar_has_share_independent"
_VALUES: Final = (VARIABLE, kinds.REFERENCE, kinds.COMPOUND_LITERAL)
_FUNCTION_TYPE: Final = re.compile(r".*\(.*\)")


def in_registers(
    name: str, text: str, headers: Mapping[str, str], options: Sequence[str], extensions: Sequence[str] | None
) -> bool:
    """Whether no loop with independent turns uses private memory; false if the program cannot be read.

    Parameters
    ----------
    name, text : str
        The program's name in messages, and its text.
    headers : mapping of str to str
        Declarations of portbar's headers, by name.
    options, extensions : sequence of str
        Build options; the device's extensions.
    """
    if not may_use(CLAUSE, text, options):
        return True
    if not is_available():
        return False
    try:
        tree = tree_of(name, _with_headers(text, headers), options, extensions)
    except UnparsedError:
        return False
    try:
        is_read = not (tree.has_errors or tree.missing)
        return is_read and all(_is_in_registers(tree, part) for part in _turns(tree))
    except RecursionError:
        return False
    finally:
        tree.close()


def _with_headers(text: str, headers: Mapping[str, str]) -> str:
    """A text with declarations in place of includes of portbar's headers."""
    made, end = "", 0
    for include in includes(text):
        made += f"{text[end : include.start]}\n{_with_headers(headers.get(include.name, ''), headers)}\n"
        end = include.end
    return made + text[end:]


def _turns(tree: Tree) -> Iterator[Node]:
    """The loops with independent turns, and all functions that these call."""
    loops = [loop for function in tree.whole for loop in below(tree.body(function)) if _is_marked(tree, loop)]
    yield from loops
    yield from tree.reached(loops)


def _is_marked(tree: Tree, loop: Node) -> bool:
    return loop.kind == kinds.FOR and any(
        one.kind == kinds.CALL and tree.called(one)[1] == _MARK
        for part in loop.kids[:-1]
        for one in (part, *below(part))
    )


def _is_in_registers(tree: Tree, part: Node) -> bool:
    for one in below(part):
        if one.kind in _VALUES and not tree.is_shared(one):
            kind = tree.canonical_type(one)
            if kind != GRID and not _FUNCTION_TYPE.fullmatch(kind) and not IN_REGISTERS.fullmatch(kind):
                return False
        elif one.kind == kinds.UNARY and tree.unary(one) == kinds.ADDRESS and takes_own_address(tree, one):
            return False
    return True
