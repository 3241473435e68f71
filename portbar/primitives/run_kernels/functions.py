"""The text of a program whose kernels are functions, as a part of another program."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from portbar.primitives.run_kernels.phases import ASKED, PREFIX, Phases
from portbar.reading.options import given_macros
from portbar.rendering.source import WORD
from portbar.rendering.templates import render_def

TEMPLATE: Final = "run_kernels/functions.mako"
_IDS: Final = (*ASKED, "kernel", "__kernel", "restrict", "__restrict", "__restrict__")
_CONTRACT: Final = "#pragma OPENCL FP_CONTRACT DEFAULT"
_ATTRIBUTES: Final = ("reqd_work_group_size", "work_group_size_hint", "vec_type_hint")
#: Pragmas that last to the end of a file -> how a program's own end with it.
_PRAGMAS: Final[Mapping[str, str]] = {
    "pragma pack": "#pragma pack()",
    "FP_CONTRACT": _CONTRACT,
    "pragma clang fp": _CONTRACT,
}


def place() -> str:
    """The place of a virtual work-item, which all such programs of a text use."""
    return render_def(TEMPLATE, "place", {})


def as_functions(phases: Phases, prefix: str, macros: Sequence[str], *, is_first: bool = True) -> str:
    """A program as functions, whose names begin with `prefix` and do not clash with those of others.

    `macros` are its build options. Unless it `is_first` in its text, it does not see the macros before it that it may define.
    """
    done = [*_IDS, *_ATTRIBUTES]
    # It may define macros of the compiler anew, which are restored for the programs after it.
    made = [f'#pragma push_macro("{macro}")' for macro in phases.macros]
    if not is_first:
        made += [f"#undef {macro}" for macro in phases.macros]
    made += [macro.directive for macro in given_macros(macros)]
    made.append(render_def(TEMPLATE, "ids", {}).rstrip("\n"))
    for name, parameters in sorted(phases.declared.items()):
        if parameters == 0:
            made.append(f"#define {name}() {prefix}{name}(PORTBAR_STEP_HERE)")
        elif parameters is not None:
            made.append(f"#define {name}(given...) {prefix}{name}(PORTBAR_STEP_HERE, given)")
        else:
            made.append(f"#define {name} {prefix}{name}")
        done.append(name)
    made.append(f'#line 1 "{phases.name}"')
    made.append(phases.text.replace(PREFIX, prefix))
    made += [f"#undef {name}" for name in dict.fromkeys([*done, *phases.macros])]
    made += [f'#pragma pop_macro("{macro}")' for macro in phases.macros]
    made += [end for word, end in _PRAGMAS.items() if word in phases.text]
    return "\n".join(made) + "\n"


def type_outside(phases: Phases, prefix: str, type_name: str) -> str:
    """A type of the author's outside of the program's part."""
    return WORD.sub(lambda found: f"{prefix}{found[0]}" if found[0] in phases.declared else found[0], type_name)
