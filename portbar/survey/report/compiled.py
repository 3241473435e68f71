"""The table of machine code that was compiled for GPUs and not run, from the file that a checkout's tests keep."""

from __future__ import annotations

import importlib
import importlib.resources
import json
from pathlib import Path
from typing import Any, Final

from portbar.errors import RecordError
from portbar.records.bounds import examined
from portbar.records.files import parse, read_bytes
from portbar.survey.tables import Table, cells

#: Where a folder of records has the file.
FILE: Final = Path("compiled") / "machine_code.json"


def compiled_table(folder: Path) -> Table | None:
    """The table of a folder's file, which may come from a stranger; None where it has none that can be read."""
    try:
        kept = parse(read_bytes(folder / FILE))
        if not _is_valid(kept):
            return None
        rows = [_row(entry) for entry in kept["targets"]]
    except (RecordError, KeyError):
        return None
    columns = [
        ("GPU", False),
        ("Products", False),
        ("Compilers", False),
        ("Kernels", True),
        ("Accesses in a loop of polls", True),
        ("Loops with a read-modify-write", True),
        ("Read-modify-writes", True),
        ("Loops that acquire", True),
        ("Bytes in private memory", True),
    ]
    about = (
        "Machine code of every algorithm for GPUs that portbar was not run on: how it waits is known, whether it works is not. "
        "Numbers are the most that one kernel has. Groups compete for a word by read-modify-writes in at most two loops; more "
        "mean that polls write, as on Intel's GPUs until a probe has seen volatile loads suffice."
    )
    return Table("compiled", "Compiled, not run", about, columns, rows)


def _is_valid(value: Any) -> bool:
    """Whether a value is within the bounds of records and as the schema says."""
    if examined(value).faults:
        return False
    schema = importlib.resources.files("portbar.records") / "schema" / "compiled" / "1.schema.json"
    # Imported late, as by `portbar.records`: few commands need it.
    validator = importlib.import_module("jsonschema_rs").validator_for(json.loads(schema.read_text(encoding="utf-8")))
    return bool(validator.is_valid(value))


def _row(entry: dict[str, Any]) -> Any:
    figures = [of for of in entry["cases"].values() if of]
    names = ("polls_in_loop", "writing_loops", "atomics", "acquiring_loops", "spills")
    most = [max(of[name] for of in figures) if figures else None for name in names]
    return cells(entry["name"], entry["gpus"], entry["compiler"], len(entry["cases"]), *most)
