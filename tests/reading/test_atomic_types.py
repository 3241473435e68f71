"""The tree knows where one of portbar's functions is given an object of OpenCL's own atomic types."""

from __future__ import annotations

import pytest

from portbar.primitives.headers import declarations
from portbar.reading.atomic_types import may_be_given
from portbar.reading.found import OpenclAtomic, Place
from portbar.reading.reader import atomic_type_given
from tests.reading.trees import needs_libclang

INCLUDE = '#include "portbar/atomics.h"\n'
LOAD = "kernel void k(global {} *a) {{ portbar_atomic_load(a); }}"
HEAD = "kernel void k(global atomic_uint *a) "

#: Each with the line below the include where the type is written.
GIVEN = {
    "a macro around the call": (f"#define LOAD(a) portbar_atomic_load(a)\n{HEAD}{{ LOAD(a); }}", 2),
    "a macro around the object": (f"{HEAD}{{\n#define A a\nportbar_atomic_load(A + 1); }}", 1),
    "an author's name of the type": ("typedef atomic_uint counter;\n" + LOAD.format("counter"), 1),
    "a name of a name": (
        "typedef\natomic_uint one; typedef one two[3];\n" + LOAD.format("two").replace("(a)", "(a[1])"),
        1,
    ),
    "a name of the pointer": (
        "typedef volatile global atomic_uint *counter;\nkernel void k(counter a) { uint x = portbar_atomic_load(a); }",
        1,
    ),
    "a macro that makes the name": ("#define ATOMIC(kind) atomic_##kind\n" + LOAD.format("ATOMIC(uint)"), 2),
    "a macro for the type": ("#define COUNTER atomic_uint\n" + LOAD.format("COUNTER"), 2),
    "a program that uses OpenCL's functions, too": (
        f"{HEAD}{{ atomic_store(a, 1u); portbar_atomic_fetch_max(a, 1u); }}",
        1,
    ),
    "OpenCL's functions on another object": (
        "kernel void j(global atomic_int *a) { atomic_init(a, 1); }\n" + LOAD.format("atomic_uint"),
        2,
    ),
    "a cast": ("kernel void k(global uint *a) { portbar_atomic_load((global atomic_uint *)a); }", 1),
    "a pointer to arrays": ("kernel void k(global atomic_uint (*a)[4]) { portbar_atomic_load(&(*a)[2]); }", 1),
    "a member that is an array": (
        "struct s {\natomic_uint n[2]; };\nkernel void k(global struct s *a) { portbar_atomic_load(a->n); }",
        2,
    ),
    "a member of a member": (
        "typedef uint other;\nstruct s { atomic_uint n; }; struct t { struct s m[2]; };\n"
        + LOAD.format("struct t").replace("(a)", "(&a->m[1].n)"),
        2,
    ),
    "a function's result": (f"global atomic_uint *at(uint i);\n{HEAD}{{ portbar_atomic_load(at(1)); }}", 1),
    "one of two": (f"{HEAD}{{ portbar_atomic_load(get_global_id(0) ? a : a + 1); }}", 1),
    "a sum from the left": (f"{HEAD}{{ portbar_atomic_load(get_global_id(0) + a); }}", 1),
    "an argument of a call": (
        f"{HEAD}{{ uint b[1];\nportbar_atomic_store(b, portbar_atomic_load(a)); }}",
        1,
    ),
    "two variables in one declaration": (
        "kernel void k(void) {\nlocal atomic_uint x, n; portbar_atomic_store(&n, 0u); }",
        2,
    ),
    "a condition that the program decides": ("#define N 3\n#if N > 2\n" + LOAD.format("atomic_uint") + "\n#endif", 3),
    "a condition that is not the object's": (
        f"#ifdef N\n#endif\n#if 1\n{HEAD}{{\n#endif\nportbar_atomic_load(a); }}",
        4,
    ),
    "a comment in the declaration": (
        "kernel void k(global atomic_uint /* of turns */ *a) { portbar_atomic_load(a); }",
        1,
    ),
    "an option that has the type's name in it": (HEAD + "{ portbar_atomic_load(a); }", 1, "-DUSE_atomic_uint_types"),
    "a variable that is an array's place": (
        "kernel void k(global uint *at) { local atomic_uint n[4]; portbar_atomic_store(&n[at[0]], 0u); }",
        1,
    ),
}

TAKEN = {
    "an inner variable of the name": f"{HEAD}{{ {{ global uint *p = 0, *a = p; portbar_atomic_load(a); }} }}",
    "another kernel's parameter": (
        f"{HEAD}{{ }}\nkernel void l(global uint *b) {{ volatile global uint *volatile a = b; portbar_atomic_load(a); }}"
    ),
    "another structure's member": (
        "typedef struct { atomic_uint n; } s; typedef struct { uint n; uint m; } t;\n"
        "kernel void k(global t *a, global s *b) { portbar_atomic_load(&a->n); }"
    ),
    "a member after the name": (
        "typedef struct { uint m, n; } t; typedef struct { atomic_uint n; } s;\n"
        "kernel void k(global t *a) { portbar_atomic_load(&a->n); }"
    ),
    "a cast by a name": (f"typedef global uint *words;\n{HEAD}{{ portbar_atomic_load((words)a); }}"),
    "an object of a function's": (
        f"global uint *words(global atomic_uint *a);\n{HEAD}{{ portbar_atomic_load(words(a)); }}"
    ),
    "an arm that is left out": (f"{HEAD}\n#ifdef NEVER\n{{ portbar_atomic_load(a); }}\n#else\n{{ }}\n#endif"),
    "a value": "kernel void k(global uint *b, atomic_uint a) { portbar_atomic_load(b + (int)sizeof(a)); }",
    "a flag": "kernel void k(global atomic_flag *a, global atomic_int *b) { portbar_atomic_flag_clear(a); }",
    "a string": 'kernel void k(global uint *a) { printf("global atomic_uint *a;"); portbar_atomic_load(a); }',
}


def given(text: str, *options: str) -> OpenclAtomic | None:
    return atomic_type_given("program.cl", INCLUDE + text, declarations(), options)


@needs_libclang
@pytest.mark.parametrize("case", GIVEN)
def test_objects_of_these_types_are_found_however_they_are_written(case):
    text, line, *options = GIVEN[case]
    found = given(text, *options)
    assert found is not None
    assert (found.place.file, found.place.line, found.name) == ("program.cl", line + 1, "atomic_uint")
    assert found.plain == "uint"


@needs_libclang
@pytest.mark.parametrize("case", TAKEN)
def test_other_objects_are_taken(case):
    assert given(TAKEN[case]) is None


@needs_libclang
def test_the_place_is_that_in_an_included_file():
    text = f'#line 7 "inc/counter.h"\ntypedef struct {{ atomic_ulong n; }} s;\n#line 2 "k.cl"\n{LOAD.format("s")}'
    found = given(text.replace("load(a)", "load(&a->n)"))
    assert found == OpenclAtomic(Place("inc/counter.h", 7, 18), "atomic_ulong", "ulong")


@needs_libclang
def test_a_program_that_cannot_be_parsed_is_left_to_the_driver():
    assert given(HEAD + "{ portbar_atomic_load(a); }" + "\nint x = " + "-" * 100_000 + "1;") is None


@pytest.mark.parametrize(
    ("text", "may"),
    [
        (LOAD.format("uint"), False),
        ("kernel void k(global atomic_uint *a) { atomic_fetch_add(a, 1u); }", False),
        ("/* atomic_uint */ " + LOAD.format("uint"), False),
        (LOAD.format("atomic_uint"), True),
        ("#define ATOMIC(kind) atomic_##kind\n" + LOAD.format("ATOMIC(uint)"), True),
        ("#define NAME(kind) my_##kind\n" + LOAD.format("uint"), False),
    ],
)
def test_few_programs_are_parsed_for_this(text, may):
    # `portbar_` may be a part of a macro's name.
    assert may_be_given(INCLUDE + text, ()) is may
