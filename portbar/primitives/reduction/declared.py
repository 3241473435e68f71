"""`portbar/reduction.h` as the reader of authors' programs sees it."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from portbar.primitives.reduction.code import indexed, struct_lines
from portbar.primitives.reduction.loops import LEVELS, ReductionLoop
from portbar.primitives.reduction.operators import finders, short_form_operators
from portbar.primitives.reduction.types import Array, structs_in
from portbar.primitives.reduction.use import SHORT_FORMS

#: Says to the reader that sub-groups of a device which has none of its own are single work-items.
SINGLE_SUB_GROUPS: Final = "PORTBAR_SINGLE_SUB_GROUPS"

#: Level -> who calls its functions, and the functions' parameters before the value.
_CALLERS: Final = {
    "sub_group": ("PORTBAR_CALLED_BY_LANES", "scratch", "PORTBAR_SCRATCH_PARAM scratch"),
    "work_group": ("PORTBAR_CALLED_BY_WORK_GROUP", "scratch", "PORTBAR_SCRATCH_PARAM scratch"),
    "device": ("PORTBAR_CALLED_BY_GRID", "grid, scratch", "void *grid, PORTBAR_SCRATCH_PARAM scratch"),
}

_HEAD: Final = """\
#define PORTBAR_REDUCTION 1
#ifndef PORTBAR_REDUCTION_LOCAL_SIZE
#define PORTBAR_REDUCTION_LOCAL_SIZE 256
#endif
#if !defined(PORTBAR_SUB_GROUP_SIZE) && !defined(PORTBAR_REDUCTION_TREE)
#define PORTBAR_SUB_GROUP_SIZE 32
#define PORTBAR_CALLED_BY_LANES PORTBAR_CALLED_BY_SUB_GROUP
#elif !defined(PORTBAR_SUB_GROUP_SIZE) && !defined(PORTBAR_SINGLE_SUB_GROUPS)
#define PORTBAR_SUB_GROUP_SIZE 32
#define PORTBAR_CALLED_BY_LANES PORTBAR_CALLED_BY_ALL_SUB_GROUPS
#elif !defined(PORTBAR_SUB_GROUP_SIZE) || PORTBAR_SUB_GROUP_SIZE == 1
#undef PORTBAR_SUB_GROUP_SIZE
#define PORTBAR_SUB_GROUP_SIZE 1
#define PORTBAR_CALLED_BY_LANES PORTBAR_CALLED_BY_SINGLE_SUB_GROUP
#elif defined(PORTBAR_REDUCTION_SHUFFLE) && PORTBAR_SUB_GROUP_SIZE == 32
#define PORTBAR_CALLED_BY_LANES PORTBAR_CALLED_BY_SUB_GROUP
#else
#define PORTBAR_CALLED_BY_LANES PORTBAR_CALLED_BY_ALL_SUB_GROUPS
#endif
typedef struct { uint turn, device_turn; } portbar_scratch;
#define PORTBAR_SCRATCH_PARAM private portbar_scratch *
#define PORTBAR_REDUCTION_PARAM volatile global uint *portbar_reduction_param, const uint4 portbar_reduction_launch
PORTBAR_CALLED_BY_WORK_GROUP void portbar_scratch_begin(PORTBAR_SCRATCH_PARAM scratch);
#define PORTBAR_REDUCTION_SCRATCH(scratch) \\
    private portbar_scratch scratch[1]; \\
    portbar_scratch_begin(scratch)
PORTBAR_LOCAL_ID uint portbar_reduction_id(void);
PORTBAR_SIZE uint portbar_reduction_size(void);
PORTBAR_DIFFERS_SUB_GROUP uint portbar_sub_group_id(void);
PORTBAR_DIFFERS_WORK_ITEM uint portbar_sub_group_local_id(void);
PORTBAR_PART uint portbar_num_sub_groups(void);
PORTBAR_PART uint portbar_sub_group_size(void);
PORTBAR_PART uint portbar_sub_group_max_size(void);
PORTBAR_DIFFERS_WORK_GROUP uint portbar_gang_id(void);
PORTBAR_PART uint portbar_gang_count(void);
"""
#: Levels of loops, from the least that differs.
_DIFFERS: Final = {
    "vector": "PORTBAR_DIFFERS_WORK_ITEM",
    "worker": "PORTBAR_DIFFERS_SUB_GROUP",
    "gang": "PORTBAR_DIFFERS_WORK_GROUP",
    "worker_vector": "PORTBAR_LOCAL_ID",
    "gang_vector": "PORTBAR_DIFFERS_WORK_ITEM",
    "gang_worker": "PORTBAR_DIFFERS_SUB_GROUP",
    "gang_worker_vector": "PORTBAR_GLOBAL_ID",
}


def _short_forms() -> list[str]:
    names = [f"{form}_{operator.name}" for form in SHORT_FORMS for operator in short_form_operators()]
    made = []
    for level, (caller, given, taken) in _CALLERS.items():
        for short in (*names, "broadcast"):
            name, more, passed = f"portbar_{level}_{short}", "", ""
            if short == "broadcast":
                more, passed = ", from", ", (uint)(from)"
            made.append(f"{caller} private void *{name}({taken}, int evaluated{', uint from' if more else ''});")
            made.append(
                f"#define {name}({given}, x{more}) "
                f"(*(private __typeof__((0, (x))) *){name}({given}, ((void)(x), 0){passed}))"
            )
    return made


def _ids() -> list[str]:
    return [
        line
        for level, differs in _DIFFERS.items()
        for line in (
            f"{differs} __attribute__((overloadable)) uint portbar_loop_id_{level}(void);",
            f"__attribute__((overloadable)) uint portbar_loop_count_{level}(void);",
            *(
                (
                    f"{differs} __attribute__((overloadable)) uint portbar_loop_id_{level}(const void *grid);",
                    f"__attribute__((overloadable)) uint portbar_loop_count_{level}(const void *grid);",
                )
                if level.startswith("gang")
                else ()
            ),
        )
    ]


def _loop(loop: ReductionLoop) -> list[str]:
    name, own, results = loop.name, f"{loop.name}_local", f"{loop.name}_results"
    made = ["typedef struct {"]
    for part, kind in loop.types.items():
        made.append(f"    global {kind.c} *{part};")
        if isinstance(kind, Array):
            made.append(f"    uint {part}_offset, {part}_length;")
    made += [f"}} {results};", f"{own} {name}_identity(void);", f"{own} {name}_combine({own} a, {own} b);"]
    scratch = "PORTBAR_SCRATCH_PARAM scratch"
    overloaded = "__attribute__((overloadable))"
    for level in LEVELS:
        caller = "WORK_GROUP"
        if level == "vector":
            caller = "LANES"
        elif level.startswith("gang"):
            caller = "GRID"
        head = f"PORTBAR_CALLED_BY_{caller} {overloaded} {own} {name}"
        gangs = level.startswith("gang")
        for step in ("setup", "init", "fini", "teardown"):
            made.append(f"{head}_{step}_{level}({scratch}, {results} results, {own} mine);")
            if gangs:
                made.append(f"{head}_{step}_{level}(void *grid, {scratch}, {results} results, {own} mine);")
        if gangs:
            made.append(f"{head}_reduce_{level}({scratch}, {results} results, {own} mine);")
            made.append(f"{head}_reduce_{level}(void *grid, {scratch}, {own} mine);")
        else:
            made.append(f"{head}_reduce_{level}({scratch}, {own} mine);")
    for level in ("gang", "worker"):
        for what in ("bool", "lock"), ("void", "unlock"):
            made.append(f"{overloaded} {what[0]} {name}_{what[1]}_{level}({scratch});")
            made.append(f"{overloaded} {what[0]} {name}_{what[1]}_{level}(void *grid, {scratch});")
    return made


@lru_cache(maxsize=64)
def declared(loops: tuple[ReductionLoop, ...] = ()) -> str:
    """The header with the functions of some loops."""
    lines = [*_short_forms(), *_ids()]
    for part in indexed(loops):
        kind = f"portbar_indexed_{part}"
        lines.append(f"typedef struct {{ {part} value; long index; }} {kind};")
        lines += [f"bool __attribute__((overloadable)) portbar_better_{op}({kind} a, {kind} b);" for op, _ in finders()]
    for loop in loops:
        for struct in structs_in(loop.struct):
            lines.append(f"typedef struct {{ {' '.join(struct_lines(struct))} }} {struct.c};")
    for loop in loops:
        lines += _loop(loop)
    return _HEAD + "\n".join(lines) + "\n"
