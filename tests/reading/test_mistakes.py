"""Mistakes with portbar's names are found in the code that the driver takes, however it is written."""

from __future__ import annotations

import pytest

from portbar.reading.found import Mistakes
from portbar.reading.reader import mistakes
from tests.reading.trees import needs_libclang

pytestmark = needs_libclang

HEADER = """
typedef struct { uint x; } portbar_grid;
typedef struct { uint x; } portbar_scratch;
#define PORTBAR_GRID_PARAM volatile global uint *portbar_grid_param, const uint4 portbar_grid_launch
#define PORTBAR_SCRATCH_PARAM private portbar_scratch *
#define PORTBAR_ENTER(grid) portbar_grid grid; if (!portbar_enter(&grid, portbar_grid_param)) return
bool portbar_enter(private portbar_grid *grid, volatile global uint *param);
bool portbar_device_barrier(private portbar_grid *grid);
__attribute__((overloadable)) uint portbar_work_group_reduce_add(private portbar_scratch *scratch, uint value);
__attribute__((overloadable)) uint portbar_device_reduce_add(
    private portbar_grid *grid, private portbar_scratch *scratch, uint value);
"""


def found(text: str, *options: str, unknown: tuple[str, ...] = (), called: tuple[str, ...] = ()) -> Mistakes:
    return mistakes(HEADER + text, options, unknown, called)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("kernel void k(PORTBAR_GRID_PARAM global int *p) { }", ("PORTBAR_GRID_PARAM",)),
        ("kernel void k(PORTBAR_GRID_PARAM /* , */\n// ,\n const int p) { }", ("PORTBAR_GRID_PARAM",)),
        ("#define KERNEL(name, ...) kernel void name(__VA_ARGS__)\nKERNEL(k, PORTBAR_GRID_PARAM int n) { }", 1),
        ("kernel void k(PORTBAR_GRID_PARAM, global int *p) { }", ()),
        ("kernel void k(PORTBAR_GRID_PARAM) { }", ()),
        ("#if 0\nkernel void k(PORTBAR_GRID_PARAM global int *p) { }\n#endif", ()),
        ("#define UNUSED(x) \\\n kernel void x(PORTBAR_GRID_PARAM int n)\nkernel void k(int n) { }", ()),
        ('kernel void k(PORTBAR_GRID_PARAM) { printf("PORTBAR_GRID_PARAM int"); }', ()),
    ],
)
def test_a_parameter_without_a_comma(text, names):
    assert found(text).parameters == (("PORTBAR_GRID_PARAM",) if names == 1 else names)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("#define mesh 7\nkernel void k(PORTBAR_GRID_PARAM) { PORTBAR_ENTER(mesh); }", ("mesh",)),
        ("#define \\\n mesh 7\nkernel void k(PORTBAR_GRID_PARAM) { PORTBAR_ENTER( /* the */ mesh ); }", ("mesh",)),
        ("kernel void k(PORTBAR_GRID_PARAM) { PORTBAR_ENTER(mesh); }", ()),
        ("#ifdef NEVER\n#define mesh 7\n#endif\nkernel void k(PORTBAR_GRID_PARAM) { PORTBAR_ENTER(mesh); }", ()),
        ("#define mesh 7\n#if 0\nkernel void k(PORTBAR_GRID_PARAM) { PORTBAR_ENTER(mesh); }\n#endif", ()),
    ],
)
def test_a_name_that_is_a_macro(text, names):
    assert found(text).macros == names


def test_a_name_that_is_a_macro_of_the_options():
    text = "kernel void k(PORTBAR_GRID_PARAM) { PORTBAR_ENTER(mesh); }"
    assert found(text, "-Dmesh=7").macros == found(text, "-D", "mesh").macros == ("mesh",)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("kernel void k(void) { portbar_device_barrier(&mesh); }", ("mesh",)),
        ("kernel void k(void) { portbar_device_barrier(&/* the */mesh); }", ("mesh",)),
        ("#define SYNC portbar_device_barrier(&mesh)\nkernel void k(void) { SYNC; }", ("mesh",)),
        ("kernel void k(void) { f(&mesh); }", ()),
        ("#if 0\nkernel void k(void) { portbar_device_barrier(&mesh); }\n#endif", ()),
        ('kernel void k(void) { printf("portbar_device_barrier(&mesh)"); }', ()),
    ],
)
def test_a_grid_that_is_not_declared(text, names):
    assert found(text, unknown=("mesh", "other")).grids == names
    assert found(text).grids == ()


def test_functions_that_take_hidden_arguments():
    own = """
    uint mean(PORTBAR_SCRATCH_PARAM scratch, uint x) { return portbar_work_group_reduce_add(scratch, x); }
    uint plain(uint x) { return x; }
    """
    names = ("mean", "plain", "portbar_work_group_reduce_add", "portbar_device_reduce_add", "none")
    assert found(own, called=names).hidden == {
        "mean": "scratch",
        "portbar_work_group_reduce_add": "scratch",
        "portbar_device_reduce_add": "&grid, scratch",
    }


def test_a_text_that_cannot_be_parsed_has_none():
    assert found("int x = " + "-" * 100_000 + "1;") == Mistakes()
