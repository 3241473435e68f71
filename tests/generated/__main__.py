"""Tries random programs on a runtime: `python -m tests.generated --seeds 0:2000 --platform "PoCL 3.1"`.

Each program is right, so a wrong result, an error, a hang or an abort is a fault of portbar's or of the runtime. A child
process tries them; where it dies, another one goes on with the next seed. Seeds from 1000000 on also draw `goto`, and loops
that work-items leave at different turns, those from 10000000 on jumps of all that none makes where only some of them come.
`--show SEED` prints a program, `--shrink SEED` a smaller one that fails in the same way. Exit 1 where anything failed.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
import time
from collections import Counter

from tests.generated.launching import drawn
from tests.generated.programs import Program
from tests.generated.shrink import shrunk, size
from tests.generated.verdicts import EXCUSED
from tests.generated.worker import LIMIT_S, Worker


def main(arguments: list[str] | None = None) -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.generated", description=__doc__)
    parser.add_argument("--seeds", metavar="FIRST:END[:STEP]", default="0:100", help="seeds of the programs (0:100)")
    parser.add_argument(
        "--platform", default=os.environ.get("PORTBAR_TEST_PLATFORM", ""), help="part of its name and version"
    )
    parser.add_argument("--limit", type=float, default=LIMIT_S, help=f"seconds for each program ({LIMIT_S:.0f})")
    parser.add_argument("--show", type=int, metavar="SEED", help="print the program of a seed")
    parser.add_argument(
        "--shrink", type=int, metavar="SEED", help="print a smaller program that fails as that of the seed"
    )
    chosen = parser.parse_args(arguments)
    if chosen.show is not None:
        print(drawn(chosen.show).text(), end="")
        return 0
    worker = Worker(chosen.platform, chosen.limit)
    try:
        if chosen.shrink is not None:
            return shrink(worker, chosen.shrink)
        return run(worker, range(*map(int, chosen.seeds.split(":"))))
    finally:
        worker.close()


def run(worker: Worker, seeds: range) -> int:
    """Try the programs of these seeds, and print those that fail."""
    counts: Counter[str] = Counter()
    start = time.monotonic()
    for seed in seeds:
        try:
            verdict = worker.ask(seed)
        except KeyboardInterrupt:
            break
        counts[verdict.kind] += 1
        if verdict.is_fault:
            print(f"seed {seed}: {verdict.kind}: {' '.join(verdict.what.split())[:600]}", flush=True)
        elif sum(counts.values()) % 100 == 0:
            print(f"{sum(counts.values())} of {len(seeds)}", file=sys.stderr, flush=True)
        if verdict.kind == "no device":
            print(verdict.what, file=sys.stderr)
            return 3
    seconds = time.monotonic() - start
    kinds = ", ".join(f"{number} {kind}" for kind, number in counts.most_common())
    print(f"{sum(counts.values())} programs: {kinds}; {sum(counts.values()) / max(seconds, 1e-9):.2f} per second")
    return int(bool(set(counts) - EXCUSED))


def shrink(worker: Worker, seed: int) -> int:
    """Print a smaller program that fails in the same way as that of the seed; an interrupt prints the smallest so far."""
    program = smallest = drawn(seed)
    before = worker.ask(seed, program)
    if not before.is_fault:
        print(f"seed {seed}: {before.kind}")
        return 0

    def fails(candidate: Program) -> bool:
        nonlocal smallest
        if worker.ask(seed, candidate).kind != before.kind:
            return False
        smallest = candidate
        print(f"{size(candidate)} nodes", file=sys.stderr)
        return True

    with contextlib.suppress(KeyboardInterrupt):
        shrunk(program, fails)
    worker.close()
    print(f"/* seed {seed}: {before.kind}: {worker.ask(seed, smallest).what} */")
    print(smallest.text(), end="")
    return 1


if __name__ == "__main__":
    raise SystemExit(main())
