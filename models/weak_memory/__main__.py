"""`python -m models.weak_memory [NAME ...] [--nightly] [--json] [--trails]`: checks, and prints a table of verdicts."""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from multiprocessing import get_context
from typing import Any

from rich.console import Console
from rich.table import Table

try:
    from . import litmus, programs, report
except ModuleNotFoundError as error:
    raise SystemExit(f'no {error.name}: `pip install "portbar[test]"` brings z3-solver') from error


def main() -> int:
    """Run the command; 0 fine, 1 something is broken or unexplained, 3 something is not installed."""
    parser = argparse.ArgumentParser(prog="python -m models.weak_memory", description="Check portbar's memory orders.")
    parser.add_argument("names", nargs="*", help="patterns of 'backend | program'; all by default")
    parser.add_argument("--nightly", action="store_true", help="3 groups, all backends, scopes, discovery (long)")
    parser.add_argument("--groups", type=int, help="work-groups, where not 2 or 3 by default")
    parser.add_argument("--json", action="store_true", help="print JSON on stdout")
    parser.add_argument("--trails", action="store_true", help="print an execution for each order that is needed")
    given = parser.parse_args()
    if programs.clang() is None:
        parser.exit(3, "no clang: Debian's package `clang` brings it\n")

    rows: list[dict[str, Any]] = []
    trails, standing, wrong = [], [], 0
    for test in litmus.TESTS:
        for model in test.models:
            allowed = litmus.allows(test, model)
            if allowed != (model in test.allowed):
                wrong += 1
                print(f"litmus {test.name}: {model} {'allows' if allowed else 'forbids'} it here", file=sys.stderr)
    chosen = []
    for case, weakens in report.selected(nightly=given.nightly):
        name = f"{case.target.name} | {case.name}"
        if not given.names or any(re.search(pattern, name) for pattern in given.names):
            chosen.append((replace(case, groups=given.groups) if given.groups else case, weakens, given.nightly))
    for (case, _, _), (verdict, outcomes) in _checked(chosen):
        name = f"{case.target.name} | {case.name}"
        unexplained = [outcome for outcome in outcomes if not outcome.explained]
        wrong += len(unexplained) + len(verdict.trail)
        rows.append(
            {
                "name": name,
                "groups": case.groups,
                "holds": verdict.holds,
                "trail": verdict.trail,
                "events": verdict.events,
                "seconds": round(verdict.seconds + sum(outcome.seconds for outcome in outcomes), 1),
                "weakened": len(outcomes),
                "caught": sum(outcome.caught for outcome in outcomes),
                "not needed": [{"order": str(each), "why": each.why} for each in outcomes if not each.caught],
            }
        )
        trails += [(name, outcome) for outcome in outcomes if outcome.caught]
        for outcome in (each for each in outcomes if not each.caught):
            standing.append(f"{name}: not needed: {outcome}: {outcome.why or 'NOBODY SAYS WHY'}")
            print(standing[-1], file=sys.stderr)
        print(f"{name}: {'holds' if verdict.holds else 'BROKEN'}, {rows[-1]['seconds']} s", file=sys.stderr, flush=True)
    if given.json:
        print(
            json.dumps(
                {"litmus": len(litmus.TESTS), "verdicts without a file": litmus.unverified(), "rows": rows}, indent=2
            )
        )
    else:
        _print(rows)
        print(
            f"{len(litmus.CHECKED)} litmus verdicts are those of published files, {len(litmus.unverified())} of papers."
        )
        for line in standing:
            print(line)
        for row in rows:
            for line in row["trail"]:
                print(f"{row['name']}: {line}")
        for name, outcome in trails if given.trails else ():
            print(f"\n{name}: without {outcome}:")
            for line in outcome.trail:
                print(f"  {line}")
    return 1 if wrong else 0


def _checked(chosen: list[Any]) -> Iterator[tuple[Any, Any]]:
    """Each case with its verdict, solved in processes of their own, since one does not use a second processor."""
    workers = min(os.cpu_count() or 1, max(1, len(chosen)))
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        yield from zip(chosen, pool.map(report.checked, chosen), strict=True)


def _print(rows: list[dict[str, Any]]) -> None:
    table = Table("program", "groups", "events", "verdict", "orders", "needed", "seconds", box=None)
    for row in rows:
        verdict = "holds" if row["holds"] else "BROKEN"
        columns = ("weakened", "caught", "seconds")
        table.add_row(
            row["name"], str(row["groups"]), str(row["events"]), verdict, *(str(row[column]) for column in columns)
        )
    Console(width=100).print(table)


if __name__ == "__main__":
    raise SystemExit(main())
