"""Time of portbar's own Python for a program beside the driver's build of it: `python -m benchmarks.reading`.

Both are of the same `portbar.Program`, of a text that neither has met before. A ratio is portbar's part over the driver's:
included files, the search for misuse, the form that the device's compiler takes rightly, and the headers.
"""

from __future__ import annotations

import itertools
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Final
from unittest import mock

import portbar
from benchmarks.shared import Row, Session, clock, command_line, number, plain, run, verdict
from portbar.launching.build import compile_program

HEAD = '#include "portbar/device_barrier.h"\n'
#: A kernel whose control flow is read, 15 lines.
KERNEL = """\
kernel void kernel_NUMBER(PORTBAR_GRID_PARAM, global const float *a, global float *b, uint n, uint sweeps)
{
    PORTBAR_ENTER(grid);
    float most = 0.0f;
    for (uint s = 0; s < sweeps; ++s) {
        for (uint i = portbar_global_id(&grid); i < n; i += portbar_global_size(&grid)) {
            const float old = b[i], now = 0.5f * (a[i] + (i > 0 ? a[i - 1] : 0.0f));
            b[i] = now;
            most = fmax(most, fabs(now - old));
        }
        if (!portbar_device_barrier(&grid))
            return;
    }
}

"""
#: A function that calls nothing together, 15 lines.
FUNCTION = """\
static float function_NUMBER(global const float *a, uint i, uint n)
{
    float sum = 0.0f;
    for (uint k = 0; k < n; ++k) {
        if (k % 2 == 0)
            sum += a[i + k];
        else if (k > i)
            sum -= a[i] * a[k];
        else
            sum *= 0.5f;
    }
    const uint last = i > n ? n : i;
    return sum + a[last];
}

"""
#: A kernel without a barrier, 25 lines with its body's ten.
PLAIN = """\
kernel void plain_NUMBER(global const float *restrict a, global float *restrict b, uint n)
{
    const uint i = get_global_id(0);
    if (i >= n)
        return;
    float x = a[i], y = 0.0f;
    /* A polynomial, and the sum of a helper. */
BODY    for (uint k = 0; k < 4; ++k) {
        y += function_HELPER(a, i + k, n); // of some elements
        x = mad(x, y, 0.25f * (float)k);
    }
    b[i] = x + y;
}

"""
TERM = "    x = x * STEP.5f + y * (a[(i + STEPu) % n] - 2.0f); y = fmax(x, y) / (1.0f + fabs(x));\n"
HELPERS, BARRIERS = 200, 5


def _made(text: str, count: int) -> str:
    return "".join(text.replace("NUMBER", str(number)) for number in range(count))


def short() -> str:
    """100 lines: a kernel with a barrier, and five functions."""
    return HEAD + _made(FUNCTION, 5) + _made(KERNEL, 1)


def long() -> str:
    """10,000 lines: 200 functions, and kernels of which five have a barrier."""
    body = "".join(TERM.replace("STEP", str(step)) for step in range(10))
    count = (10_000 - HELPERS * 15 - BARRIERS * 15) // (PLAIN.count("\n") + 9)
    plain_kernels = (
        PLAIN.replace("BODY", body).replace("NUMBER", str(place)).replace("HELPER", str(place % HELPERS))
        for place in range(count)
    )
    return HEAD + _made(FUNCTION, HELPERS) + "".join(plain_kernels) + _made(KERNEL, BARRIERS)


def tables() -> str:
    """557 KB: tables of constants, functions that read them, and a kernel with a barrier."""
    row = "    " + " ".join(f"{place / 7:.7f}f," for place in range(8)) + "\n"
    made = [f"constant float table_{place}[512] = {{\n{row * 64}}};\n\n" for place in range(48)]
    count = (557_000 - sum(map(len, made))) // len(FUNCTION)
    functions = (
        FUNCTION.replace("NUMBER", str(place)).replace("a[i + k]", f"a[i + k] * table_{place % len(made)}[k % 512u]")
        for place in range(count)
    )
    return HEAD + "".join([*made, *functions]) + _made(KERNEL, 1)


def barriers() -> str:
    """10,000 lines: kernels that all have a barrier."""
    return HEAD + _made(KERNEL, 10_000 // 15)


#: Name -> a program, and the milliseconds that portbar may take for it.
PROGRAMS: Final[Mapping[str, tuple[Callable[[], str], float]]] = {
    "short": (short, 30.0),
    "long": (long, 300.0),
    "tables": (tables, 300.0),
    "barriers": (barriers, 300.0),
}

COLUMNS: Final[Mapping[str, Callable[[Row], str]]] = {
    "program": lambda row: row.benchmark,
    "lines": lambda row: str(row.extra["lines"]),
    "KB": lambda row: str(row.extra["kb"]),
    "portbar ms": lambda row: number(None if row.ours_us is None else row.ours_us / 1e3),
    "driver ms": lambda row: number(None if row.peer_us is None else row.peer_us / 1e3),
    "ratio": lambda row: number(row.ratio),
    "at most, ms": verdict,
}

_turns = itertools.count()


@contextmanager
def _driver_us() -> Iterator[list[float]]:
    """The microseconds of each build of the driver's meanwhile."""
    taken: list[float] = []

    def timed(*arguments: Any) -> Any:
        made: list[Any] = []
        taken.append(clock(lambda: made.append(compile_program(*arguments))))
        return made[0]

    with mock.patch("portbar.launching.build.compile_program", timed):
        yield taken


def _parts_us(session: Session, text: str) -> tuple[float, float]:
    """The microseconds of portbar and of the driver for a text that no earlier one was like."""
    text = f"{text}/* {os.getpid()}, {next(_turns)} */\n"
    with _driver_us() as driver:
        whole = clock(lambda: portbar.Program(session.context, text))
    return whole - sum(driver), sum(driver)


def compare(session: Session, name: str) -> Iterator[Row]:
    """One program."""
    make, most = PROGRAMS[name]
    text = make()
    # Libraries, templates and findings are there.
    _parts_us(session, short())
    ours, driver = zip(*(_parts_us(session, text) for _ in range(session.repeats // 2)), strict=True)
    row = session.compare(name, "driver", ours, driver, lines=text.count("\n"), kb=len(text) // 1000)
    met = row.ours_us is not None and row.ours_us / 1e3 <= most
    yield replace(row, extra=row.extra | {"target": most, "met": met})


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; 3 when no usable device matches."""
    options = command_line("reading", __doc__, "two builds of each program", PROGRAMS).parse_args(arguments)
    benchmarks = {title: lambda session, title=title: compare(session, title) for title in PROGRAMS}
    # Where PoCL keeps what it compiled, it would also look.
    with tempfile.TemporaryDirectory(prefix="portbar-builds-", ignore_cleanup_errors=True) as folder:
        os.environ["POCL_CACHE_DIR"] = folder
        return run(options, plain(options), benchmarks, COLUMNS, width=120)


if __name__ == "__main__":
    raise SystemExit(main())
