"""Compile every algorithm for every GPU, say what is wrong, and with `--write` keep the figures."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

from portbar.records import writing
from tests.checkout import ROOT
from tests.machine_code.cases import CASES
from tests.machine_code.expected import EXPECTED
from tests.machine_code.targets import TARGETS, MissingToolError, Target

#: Where the figures are kept.
FILE = ROOT / "vendor_matrix" / "compiled" / "machine_code.json"


def entry_of(target: Target) -> tuple[dict[str, Any], list[str]]:
    """The stored figures of a target, and the faults of its code."""
    expected, cases, wrong = EXPECTED[target.name], {}, []
    for name, case in CASES.items():
        with tempfile.TemporaryDirectory() as folder:
            found = target.compile(target, case.text(target), Path(folder))
        # Of what a driver is to compile, only that it is valid is known.
        cases[name] = {} if expected is None else asdict(found)
        if expected is not None:
            wrong += [f"{target.name}, {name}: {fault} ({found})" for fault in expected.faults(name, case, found)]
    return {"name": target.name, "gpus": target.gpus, "compiler": target.compiler(target), "cases": cases}, wrong


def text_of(entries: list[dict[str, Any]]) -> str:
    """The file: one line per case."""
    parts = []
    for entry in entries:
        cases = ",\n".join(f"    {json.dumps(name)}: {json.dumps(of)}" for name, of in entry["cases"].items())
        head = ",\n".join(f"   {json.dumps(key)}: {json.dumps(entry[key])}" for key in ("name", "gpus", "compiler"))
        parts.append(f'  {{\n{head},\n   "cases": {{\n{cases}\n   }}\n  }}')
    return '{\n "schema": "portbar-compiled",\n "format": 1,\n "targets": [\n' + ",\n".join(parts) + "\n ]\n}\n"


def main() -> int:
    """Compile and report."""
    parser = argparse.ArgumentParser(prog="python -m tests.machine_code", description=__doc__)
    parser.add_argument("--write", action="store_true", help=f"keep the figures in {FILE.relative_to(ROOT)}")
    write = parser.parse_args().write
    entries, wrong, missing = [], [], 0
    for target in TARGETS.values():
        try:
            entry, faults = entry_of(target)
        except MissingToolError as error:
            print(f"{target.name}: not compiled: {error}", flush=True)
            missing += 1
            continue
        entries.append(entry)
        wrong += faults
        print(f"{target.name}: {len(entry['cases'])} kernels by {entry['compiler']}, {len(faults)} wrong", flush=True)
    print("\n".join(wrong))
    if write and missing:
        print("nothing was written, since some targets are missing")
    elif write:
        FILE.parent.mkdir(exist_ok=True)
        writing.write(FILE, text_of(entries))
    return int(bool(wrong) or (write and bool(missing)))


if __name__ == "__main__":
    sys.exit(main())
