"""The README's first lines and the page about recording run as they are."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyopencl as cl
import pyopencl.array
import pytest

import portbar
from tests.checkout import ROOT
from tests.docs.pages import DOCS, blocks

pytestmark = pytest.mark.device

SMOOTH = """
kernel void smooth(global const float *from, global float *to, float c)
{
    const size_t x = get_global_id(0), y = get_global_id(1), n = get_global_size(0);
    const float up = y ? from[(y - 1) * n + x] : 0.0f;
    to[y * n + x] = from[y * n + x] + c * up;
}
kernel void factors(global float *m, global float *a, int n, int t) { m[get_global_id(0)] += t; }
kernel void subtract(global float *m, global float *a, int n, int t)
{
    a[get_global_id(1) * n + get_global_id(0)] -= m[get_global_id(0)] + t;
}
kernel void cool(global float *a, float temperature) { a[get_global_id(0)] += temperature; }
kernel void expand(global const int *level, global int *next) { next[0] = level[0] + 1; }
kernel void settle(global int *level, global const int *next, global int *more)
{
    level[0] = next[0];
    if (next[0] < 7)
        more[0] = 1;
}
"""


def names_of(queue: cl.CommandQueue) -> dict[str, object]:
    # Some drivers know neither source nor options of what PyOpenCL takes from its cache.
    program = cl.Program(queue.context, SMOOTH).build(cache_dir=False)
    n = 32
    names: dict[str, object] = {"portbar": portbar, "np": np, "queue": queue, "n": n, "size": 64, "program": program}
    for name in ("smooth", "factors", "subtract", "cool", "expand", "settle"):
        names[name] = cl.Kernel(program, name)
    for name in ("a", "b", "m"):
        names[name] = cl.array.to_device(queue, np.ones((n, n), np.float32))
    level, following, more = (cl.array.zeros(queue, 1, np.int32) for _ in range(3))
    names |= {"temperatures": np.arange(100, dtype=np.float32), "more": more}
    return names | {"graph": (level, following), "state": (level, following), "level": level}


@pytest.mark.parametrize("path", [ROOT / "README.md", DOCS / "recording.md"], ids=lambda path: path.stem)
def test_steps_of_the_page_give_what_launches_give(path: Path, queue: cl.CommandQueue) -> None:
    codes = [block.text for block in blocks(path) if block.language == "python" and "steps" in block.text]
    names, expected = names_of(queue), names_of(queue)
    one, other = expected["a"], expected["b"]
    for _ in range(1000):
        expected["smooth"](queue, (32, 32), (16, 16), one.data, other.data, np.float32(0.1))
        one, other = other, one
    for number, code in enumerate(codes):
        if number:
            names["steps"] = portbar.record(queue)
        exec(compile(code, path.name, "exec"), names)  # noqa: S102 (our own page)
        names["steps"].launch().wait()
        if not number:
            # The page launches it once, and it was launched once more.
            for _ in range(1000):
                expected["smooth"](queue, (32, 32), (16, 16), one.data, other.data, np.float32(0.1))
                one, other = other, one
            assert names["a"].get().tobytes() == one.get().tobytes()
    if len(codes) > 1:
        assert names["level"].get()[0] == 7
