"""The reader knows of portbar's functions what their contracts say."""

from __future__ import annotations

import re

import pytest

from portbar.primitives.headers import declarations
from portbar.reading.reader import is_available, read
from tests.docs import c_functions

DECLARED = declarations((c_functions.LOOP,), (c_functions.SCAN,))
FUNCTIONS = [
    (header, function) for header, found in c_functions.public() for function in found if "..." not in function.name
]
#: Those whose callers their pages describe otherwise: a condition is the author's, loops are macros around a body.
LEVELS = {
    "portbar_enter": "GRID",
    "portbar_first_tile": "GRID",
    "portbar_first_static_tile": "WORK_GROUP",
    "portbar_scratch_begin": "WORK_GROUP",
}


def names(function: c_functions.Function, wanted: set[str]) -> list[str]:
    """Names of a family whose callers its contract describes."""
    levels = ("gang", "gang_vector") if wanted == {"GRID"} else ("vector", "worker", "worker_vector")
    if "lock" in function.name:
        levels = ("gang", "worker")
    return [function.name.replace("_OP", "_add").replace("_LEVEL", f"_{level}") for level in levels]


def callers(text: str) -> set[str]:
    """Who must call what a part of a header declares."""
    found = set(re.findall(r"PORTBAR_CALLED_BY_(\w+)", text))
    return found | {level for name, level in LEVELS.items() if re.search(rf"\b{name}\(", text)}


def declared(header: str, name: str) -> list[str]:
    """The declarations of a function, and the macros of its name."""
    found, statement = [], ""
    for line in DECLARED[f"portbar/{header}.h"].replace("\\\n", " ").split("\n"):
        if line.startswith("#"):
            found.append(line)
        else:
            statement += f" {line}"
            if line.endswith(";"):
                found.append(statement)
                statement = ""
    begins = re.compile(rf"(?:#define |\b(?!define)[\w*]+ \**){name}\(")
    return [part for part in found if begins.search(part.replace("__attribute__((overloadable))", ""))]


def contract(caller: str) -> set[str]:
    """The possible callers of a contract, none where any work-item is one."""
    caller = caller.lower().removeprefix("on cpus: ")
    if caller.startswith(("any work-item", "one work-item", "the work-item", "each work-item")):
        return set()
    if "sub-group at the level vector" in caller:
        return {"LANES", "WORK_GROUP"}
    if "portbar_sub_group_size" in caller:
        return {"LANES"}
    if "macros above name" in caller:
        return {"WAITERS"}
    if "all its work-groups" in caller:
        return {"WORK_GROUP"}
    if re.search(r"every (?:participating work-)?group|all (?:participating )?work-groups", caller):
        return {"GRID"}
    assert re.search(r"of (?:the|a) (?:work-|participating work-)?group|all work-items", caller), caller
    return {"WORK_GROUP", "GRID"}


@pytest.mark.parametrize(
    ("header", "function"), FUNCTIONS, ids=[f"{header}: {function.name}" for header, function in FUNCTIONS]
)
def test_a_function_s_callers_are_those_of_its_contract(header, function):
    # Two only load. Two call functions that are made for each kernel, whose barriers the reader sees.
    is_open = function.name in {"PORTBAR_FRONTIER", "PORTBAR_TASKS", "PORTBAR_RUN", "PORTBAR_RUN_NOWAIT"}
    wanted = set() if is_open else contract(function.caller)
    parts = [part for name in dict.fromkeys(names(function, wanted)) for part in declared(header, name)]
    assert parts, "not declared for the reader"
    found = set().union(*map(callers, parts))
    assert found <= wanted if wanted else not found, (found, wanted, function.caller)
    assert bool(found) == bool(wanted)


@pytest.mark.skipif(not is_available(), reason="no libclang for this platform")
@pytest.mark.parametrize("header", DECLARED)
def test_each_header_is_read_without_an_error(header):
    include = f'#include "{header}"\n'
    text = f"{include}{include}kernel void k(global uint *a) {{ barrier(CLK_LOCAL_MEM_FENCE); a[0] = 1; }}\n"
    assert not read("k.cl", text, DECLARED).unread


@pytest.mark.skipif(not is_available(), reason="no libclang for this platform")
@pytest.mark.parametrize("is_option", [False, True])
def test_macros_of_an_author_s_do_not_reach_the_headers(is_option):
    """Those with the names of parameters, members and types; text before the program sees those of options."""
    known = declarations((c_functions.LOOP,))
    headers = "".join(f'#include "{header}"\n' for header in known)
    found = re.findall(r"\b([a-z]\w*)\s*[,;)\[]", "".join(known.values()))
    names = {name for name in found if not re.match(r"portbar_|uint$|void$", name)} | {"condition", "evaluated"}
    assert len(names) > 20
    text = "".join("" if is_option else f"#define {name} 5\n" for name in sorted(names))
    text += f"""{headers}kernel void own_kernel(PORTBAR_GRID_PARAM) {{
        PORTBAR_ENTER(own_grid);
        PORTBAR_REDUCTION_SCRATCH(room);
        if (PORTBAR_UNIFORM(portbar_global_size(&own_grid) > 1)) portbar_device_barrier(&own_grid);
        if (get_local_id(0) == 0) portbar_device_barrier(&own_grid);
        if (get_local_id(0) == 0) portbar_work_group_reduce_add(room, 1u);
    }}
    """
    options = [f"-D{name}=5" for name in sorted(names)] if is_option else []
    reading = read("k.cl", text, known, options)
    assert not reading.unread
    assert len(reading.misuses) == 2
