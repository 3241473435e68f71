"""The names and values of a program by which headers are pruned: a superset of those that any driver compiles.

It is of the text, not of the tree: a driver's macros may choose other parts, and most programs with atomics load no libclang.
"""

from __future__ import annotations

import re
from typing import Final

from portbar.reading.words import code_of
from portbar.rendering.pruning import Used
from portbar.rendering.source import words_in

_CALL: Final = re.compile(r"([A-Za-z_]\w*)\s*\(")
#: Macros with parameters, and functions.
_MACRO: Final = re.compile(r"#[ \t]*define[ \t]+(\w+)\(")
_FUNCTION: Final = re.compile(r"([A-Za-z_]\w*)\s*\([^(){};]*\)\s*\{")
#: Calls whose type is that of an argument, `int`, `long` or in their name; keywords among them.
_PLAIN_CALLS: Final = re.compile(
    r"if|for|while|switch|return|sizeof|defined|__attribute__|get_\w+|(?:work_group_|sub_group_)?barrier"
    r"|(?:(?:read|write)_)?mem_fence|atom(?:ic)?_\w+|min|max|clamp|abs|mad24|mul24|mad|fma|popcount|clz|select|printf|v(?:load|store)\d+"
    r"|as_\w+|convert_\w+"
)
#: Begins with what it may begin with, so that it is found fast.
_FLOAT_LITERAL: Final = re.compile(
    r"[0-9.](?<![\w.][0-9.])"
    r"(?:(?:(?<=[0-9])\d*\.\d*|(?<=\.)\d+|(?<=[0-9])\d*(?=[eE][+-]?\d))(?:[eE][+-]?\d+)?([fFhH]?)|(?<=0)[xX][\da-fA-F.]*[pP])"
)
#: Ending of a literal -> the type of its value.
_ENDINGS: Final = {"f": "float", "F": "float", "h": "half", "H": "half"}
#: OpenCL C's own constants, by the type of their value.
_CONSTANTS: Final = {
    "float": re.compile(r"M_\w+_F|FLT_\w+|MAXFLOAT|HUGE_VALF|INFINITY|NAN"),
    "double": re.compile(r"M_(?!\w+_[FH]$)\w+|DBL_\w+|HUGE_VAL"),
    "half": re.compile(r"M_\w+_H|HALF_\w+"),
}


def used_by(text: str, options: tuple[str, ...] = ()) -> Used | None:
    """The names and values of a program and its build options; None if it hides names, so that it may use anything."""
    code = code_of(text, options)
    if code is None:
        return None
    names = words_in(code)
    own = {*_MACRO.findall(code), *_FUNCTION.findall(code)}
    calls = {name for name in set(_CALL.findall(code)) - own if not _PLAIN_CALLS.fullmatch(name)}
    values = {_ENDINGS.get(ending or "", "double") for ending in _FLOAT_LITERAL.findall(code)}
    values |= {kind for kind, known in _CONSTANTS.items() if any(map(known.fullmatch, names))}
    return Used(names, frozenset(calls), frozenset(values))
