"""Which loops with independent turns keep their variables in registers, so that compilers may make vectors of the turns."""

from __future__ import annotations

import pytest

from portbar.launching import turns
from portbar.primitives.headers import declarations
from portbar.reading.reader import is_available

pytestmark = pytest.mark.skipif(not is_available(), reason="no libclang")

PROGRAM = """
#include "portbar/device_barrier.h"
typedef struct { float x, y; } pair;
float of(float v) { return v * 2.0f; }
float with_array(float v) { float t[2]; t[(int)v & 1] = v; return t[0]; }
float through(float v) { return with_array(v); }
kernel void work(PORTBAR_GRID_PARAM, global float *a, global const float *b, constant float *c, uint n)
{
    local float shelf[64];
    float outside[4] = { 0.0f };
    PORTBAR_ENTER(grid);
    if (n == 0u)
        outside[n] = with_array(a[0]);
    LOOP {
        BODY
    }
    portbar_device_barrier(&grid);
    a[n] = outside[n & 3u];
}
"""
LINE = "PORTBAR_FOR(i, &grid, n, independent)"
LOOPS = {
    "line": LINE,
    "plane": "PORTBAR_FOR_2D(i, y, &grid, n, n, independent)",
    "space": "PORTBAR_FOR_3D(i, y, z, &grid, n, n, n, independent)",
    "macro": "EACH(i)",
}
#: Bodies, and whether they keep their variables in registers.
BODIES = {
    "a[i] = b[i];": True,
    "float v = b[i]; a[i] = of(v) + c[i] + shelf[i & 63u];": True,
    "float4 v = vload4(i, b); v.x += sqrt(v.y); vstore4(v, i, a);": True,
    "global const float *at = b + i; a[i] = at[0] + portbar_global_id(&grid);": True,
    "const size_t k = (size_t)i * 2; if (b[k] < 0.0f) continue; a[k] = (float)k;": True,
    "float t[3]; t[i % 3u] = b[i]; a[i] = t[1];": False,
    "float v = b[i]; float *p = &v; a[i] = *p;": False,
    "outside[i & 3u] += b[i];": False,
    "a[i] = with_array(b[i]);": False,
    "a[i] = through(b[i]);": False,
    "pair v; v.x = b[i]; a[i] = v.x;": False,
    "a[i] = ((float[2]){ 1.0f, 2.0f })[i & 1u];": False,
    "a[i] = unknown_to_the_front_end(b[i]);": False,
}


def in_registers(loop: str, body: str, options: tuple[str, ...] = ()) -> bool:
    text = PROGRAM.replace("LOOP", loop).replace("BODY", body)
    return turns.in_registers("work.cl", text, declarations(), options, None)


@pytest.mark.parametrize("body", BODIES)
@pytest.mark.parametrize("loop", LOOPS)
def test_turns_that_use_private_memory_are_found(loop: str, body: str) -> None:
    options = ("-D EACH(i)=PORTBAR_FOR(i,&grid,n,independent)",) if loop == "macro" else ()
    assert in_registers(LOOPS[loop], body, options) is BODIES[body]


@pytest.mark.parametrize("body", BODIES)
def test_other_loops_may_do_so(body: str) -> None:
    """A loop is judged by itself: another one without the promise may keep arrays."""
    assert in_registers("PORTBAR_FOR(i, &grid, n)", body)
    other = "PORTBAR_FOR(i, &grid, n) { float t[2]; t[i & 1u] = b[i]; a[i] = t[0]; }"
    assert in_registers(f"{other} {LINE}", "a[i] = b[i];")


def test_a_program_that_cannot_be_read_counts_as_one_that_uses_private_memory() -> None:
    assert not turns.in_registers(
        "work.cl", f"{PROGRAM.replace('LOOP', LINE)} #include <nowhere.h>", declarations(), (), None
    )
    broken = PROGRAM.replace("LOOP", LINE).replace("BODY", "a[i] = ;")
    assert not turns.in_registers("work.cl", broken, declarations(), (), None)
