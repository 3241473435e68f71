"""`portbar check FILE`: what portbar refuses in OpenCL C files, without a device."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from portbar.cli.output import print_json
from portbar.errors import Error
from portbar.primitives.headers import declarations
from portbar.primitives.reduction.declared import SINGLE_SUB_GROUPS
from portbar.primitives.run_kernels.runs import KernelFile, expanded
from portbar.reading.encoding import decoded, printable
from portbar.reading.includes import whole_text
from portbar.reading.reader import Reading, is_available, read
from portbar.records.plain import harmless

#: Macros of devices that can do all that portbar's headers offer.
_ABLE: Final = (
    "PORTBAR_SPLIT_BARRIER_DIVERGENT",
    "PORTBAR_SPLIT_BARRIER_SUB_GROUPS",
    "PORTBAR_REDUCTION_SUB_GROUP",
    "PORTBAR_REDUCTION_SHUFFLE",
)
_PORTABLE: Final = ("PORTBAR_REDUCTION_TREE", SINGLE_SUB_GROUPS)


def run(files: Sequence[Path], options: Sequence[str], *, as_json: bool) -> int:
    """Print what is wrong in some files; the exit status: 1 if any call is misuse on every device.

    `Error` if a file cannot be read, or there is no libclang.
    """
    if not is_available():
        raise Error(
            "libclang was not found, without which no file can be read: pip install libclang, or install the system's "
            "package of it (17 or later)"
        )
    found = [one for file in files for one in _found(file, options)]
    if as_json:
        print_json(found)
    else:
        for one in found:
            for line in [one, *one["notes"]]:
                severity = line.get("severity", "note")
                text = f"{line['file']}:{line['line']}:{line['column']}: {severity}: {line['message']}"
                sys.stdout.write(f"{harmless(text)}\n")
        sys.stdout.flush()
    return 1 if any(one["severity"] == "error" for one in found) else 0


def _found(file: Path, options: Sequence[str]) -> Iterator[dict[str, Any]]:
    """The messages about a file."""
    try:
        text, line = printable(decoded(file.read_bytes()))
    except OSError as error:
        raise Error(f"{file} cannot be read: {error.strerror}") from None
    if line is not None:
        raise Error(f"{file} cannot be read: line {line} is not UTF-8")
    headers = declarations()
    whole = whole_text(text, file.name, file.parent, options)
    whole = expanded(KernelFile(file.name, whole), options, headers)

    def reading(defined: Sequence[str]) -> Reading:
        return read(file.name, whole, headers, options, defined=defined)

    on_all, on_some = reading(_ABLE), reading(_PORTABLE)
    errors = {misuse.place for misuse in on_all.misuses}
    for severity, misuse in (
        *(("error", misuse) for misuse in on_all.misuses),
        *(("warning", misuse) for misuse in on_some.misuses if misuse.place not in errors),
    ):
        where = "" if severity == "error" else ", on devices whose sub-groups meet at barriers of the work-group"
        places = [
            {
                "file": _path(step.place.file, file),
                "line": step.place.line,
                "column": step.place.column,
                "message": f"`{step.source}` {step.says}",
            }
            for step in misuse.steps
        ]
        here = {"file": _path(misuse.place.file, file), "line": misuse.place.line, "column": misuse.place.column}
        yield {
            **here,
            "severity": severity,
            "message": misuse.message + where,
            "notes": [*places, {**here, "message": misuse.remedy}],
        }
    for unread in on_all.unread:
        yield {
            "file": _path(unread.place.file, file),
            "line": unread.place.line,
            "column": unread.place.column,
            "severity": "warning",
            "message": f"this function could not be read ({unread.reason}); misuse in it is not found",
            "notes": [],
        }


def _path(shown: str, file: Path) -> str:
    """A file as an editor finds it: the one that was given by its whole path."""
    return str(file) if shown == file.name else shown
