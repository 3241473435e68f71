"""The index page of a folder of records: two tables of their report, with links, between two lines of its README."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from portbar.errors import RecordError
from portbar.records import writing
from portbar.records.files import read_folder
from portbar.survey.report.collect import collect, distinct, in_order
from portbar.survey.report.markdown import table_text
from portbar.survey.report.tables import tables

#: The page, and the lines that enclose its tables.
PAGE: Final = "README.md"
BEGIN: Final = "<!-- index: written by `portbar index` -->"
END: Final = "<!-- end of index -->"

#: The tables between them.
_TABLES: Final = ("verdicts", "recall")


def index(folder: Path) -> tuple[str, str]:
    """Return the text of a folder's page as it is, and as it should be; without a page it is empty, and a new one is due.

    `RecordError` if the page lacks the two markers, the folder has neither a page nor a record, or a file in it is not a
    record.
    """
    if not os.path.lexists(folder / PAGE):
        found = read_folder(folder)
        if not found:
            raise RecordError(f"{folder.name!r} holds neither records nor a {PAGE}: name a folder of records")
        return "", f"# Records of OpenCL devices\n\n{BEGIN}\n\n{_of_folder(found)}\n\n{END}\n"
    try:
        # A pipe in its place would wait for a writer, and a device never end.
        text = (folder / PAGE).read_text(encoding="utf-8") if writing.is_file(folder / PAGE) else ""
    except (OSError, UnicodeDecodeError):
        text = ""
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise RecordError(f"{PAGE} of the folder lacks the two lines that enclose the index: {BEGIN} {END}")
    return text, f"{before}{BEGIN}\n\n{_of_folder(read_folder(folder))}\n\n{END}{after}"


def _of_folder(found: Iterable[tuple[Path, Mapping[str, Any]]]) -> str:
    return index_of((path.name, record) for path, record in found)


def index_of(records: Iterable[tuple[str, Mapping[str, Any]]]) -> str:
    """Return the tables as Markdown; each device leads to the file of its record."""
    made = (table for table in tables(in_order(distinct(collect(records)))) if table.name in _TABLES)
    return "\n\n".join(table_text(table, links=True) for table in made)


def write(folder: Path, text: str) -> None:
    """Write a folder's page; `RecordError` if it cannot be written, and is as it was."""
    try:
        writing.write(folder / PAGE, text)
    except OSError as error:
        raise RecordError(
            f"{PAGE} cannot be written ({error.strerror or error}) and is unchanged; make room, then run `portbar index`"
        ) from None
