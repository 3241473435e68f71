"""Values of a work-item that a compiler keeps in registers, and variables that need memory of their own."""

from __future__ import annotations

import re
from typing import Final

from portbar.reading import kinds
from portbar.reading.tree import Node, Tree

#: Types of values that a compiler keeps in registers.
IN_REGISTERS: Final = re.compile(
    r"(?:(?:u?(?:char|short|int|long)|float|double|half|bool|_Bool|unsigned [a-z ]+|signed char|long long)"
    r"(?: __attribute__\(\(ext_vector_type\(\d+\)\)\))?|enum .*|sampler_t|.*\*(?:__private)?)"
)
#: The type of a grid, which no work-item changes.
GRID: Final = "portbar_grid"


def takes_own_address(tree: Tree, address: Node) -> bool:
    """Whether an address is that of a variable of the work-item, other than its grid."""
    if not address.kids or address.kids[0].kind != kinds.REFERENCE:
        return False
    return not tree.is_shared(address.kids[0]) and tree.canonical_type(address.kids[0]) != GRID
