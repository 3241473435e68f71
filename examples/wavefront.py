"""The edit distance of two texts in one launch: work-groups hand the edges of strips to each other by signals.

A table has a row for each letter of one text and a column for each of the other. Each work-group takes a strip of columns and
goes down its rows. It needs the column before the strip, which another group computes: that one sets a signal every few rows,
so that all groups work at once, each some rows after the one before. The result is checked against NumPy:
`python examples/wavefront.py [--platform "PoCL 3.1"]`.
"""

from __future__ import annotations

import argparse

import numpy as np
import pyopencl as cl
import pyopencl.array

import portbar

SOURCE = """
#include "portbar/signal.h"
#define ROWS 64u                                    /* rows between two signals */

/* `edges` has a column of n + 1 numbers for each strip, `done` a signal more than there are strips. */
kernel void edit_distance(PORTBAR_GRID_PARAM, global const uchar *a, uint n, global const uchar *b, uint m, global uint *edges,
                     global portbar_signal *done, global uint *result, local uint *line)
{
    PORTBAR_ENTER(grid);
    const uint i = get_local_id(0), width = get_local_size(0), strips = (m + width - 1u) / width, steps = n + width - 1u;
    if (!portbar_device_signals_clear(&grid, done, strips + 1u))
        return;
    for (uint strip = portbar_group_id(&grid); strip < strips; strip += portbar_num_groups(&grid)) {
        const uint column = strip * width + i + 1u;
        const uchar letter = column <= m ? b[column - 1u] : 0;
        global uint *edge = edges + strip * (n + 1u);
        uint here = column, diagonal = column - 1u;
        for (uint from = 0u; from < steps; from += ROWS) {
            const uint to = min(from + ROWS, steps);
            /* The strip before has come far enough; the first one waits for nothing. */
            if (!portbar_work_group_signal_wait_until_at_least(&grid, done + strip, strip == 0u ? 0u : min(to, n)))
                return;
            for (uint step = from; step < to; ++step) {
                /* Each work-item is a row later than the one to its left, and finds that one's number of a step ago. */
                const uint row = step - i + 1u;
                if (step >= i && row <= n) {
                    const uint left = i != 0u ? line[(step + 1u) % 2u * width + i - 1u]
                                    : strip != 0u ? edges[(strip - 1u) * (n + 1u) + row] : row;
                    here = min(min(left, here) + 1u, diagonal + (a[row - 1u] == letter ? 0u : 1u));
                    diagonal = left;
                    if (i == width - 1u)
                        edge[row] = here;
                    if (row == n && column == m)
                        *result = here;
                }
                line[step % 2u * width + i] = here;
                barrier(CLK_LOCAL_MEM_FENCE);
            }
            portbar_work_group_signal_set(&grid, done + strip + 1u, to < width ? 0u : to - width + 1u);
        }
    }
}
"""

LOCAL_SIZE = 32


def make_context(platform: str | None) -> cl.Context:
    """A context on the platform that is named, or the one that PyOpenCL picks (PYOPENCL_CTX chooses)."""
    platforms = portbar.load_platforms()
    if platform is None:
        return cl.create_some_context(interactive=False)
    for found in platforms:
        if platform.lower() in f"{found.name} {found.version}".lower():
            return cl.Context(found.get_devices()[:1])
    raise SystemExit(f"no OpenCL platform matches {platform!r}")


def expected(a: np.ndarray, b: np.ndarray) -> int:
    """The distance, a row of the table at a time."""
    columns = np.arange(len(b) + 1)
    row = columns.copy()
    for number, letter in enumerate(a, start=1):
        best = np.minimum(row[1:] + 1, row[:-1] + (b != letter))
        row = np.minimum.accumulate(np.concatenate(([number], best)) - columns) + columns
    return int(row[-1])


def main() -> None:
    """Compute the distance of a text and a copy with changes, and check it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--platform", help='a part of "NAME VERSION" of an OpenCL platform')
    context = make_context(parser.parse_args().platform)
    queue = cl.CommandQueue(context)
    device = context.devices[0]
    program = portbar.Program(context, SOURCE)
    kernel = program.kernel("edit_distance")

    # A device that ends loops early would stop in the middle of a larger table.
    small = "Oclgrind" in device.name or program.profile(device).loop_limit is not None
    n, m = (90, 70) if small else (2_000, 1_500)
    random = np.random.default_rng(1)
    text = random.integers(97, 123, n, dtype=np.uint8)
    copy = np.where(random.random(n) < 0.2, random.integers(97, 123, n, dtype=np.uint8), text)[:m]

    local = min(LOCAL_SIZE, device.max_work_group_size)
    strips = -(-m // local)
    edges = cl.array.empty(queue, strips * (n + 1), np.uint32)
    done = cl.array.zeros(queue, strips + 1, np.uint32)
    result = cl.array.zeros(queue, 1, np.uint32)
    on_device = [cl.array.to_device(queue, letters) for letters in (text, copy)]
    launch = kernel(
        queue,
        None,
        (local,),
        on_device[0],
        np.uint32(n),
        on_device[1],
        np.uint32(m),
        edges,
        done,
        result,
        cl.LocalMemory(8 * local),
    )
    launch.wait()

    assert result.get()[0] == expected(text, copy), "the distance is wrong"
    print(f"{device.name.strip()}: {launch.num_groups} work-groups, {strips} strips of {local} columns, {n:,} rows")
    print(f"edit distance: {result.get()[0]}")


if __name__ == "__main__":
    main()
