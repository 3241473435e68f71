"""Writes the tables of a report as Markdown.

Not for the page (`portbar.survey.report.page`), which has plots as well.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from urllib.parse import quote

from portbar.survey.tables import Cell, Table

#: Characters that Markdown, or HTML in it, would read as markup.
_MARKUP = re.compile(r"([\\`*_{}\[\]<>#|~&!$:@])")


def escaped(text: str) -> str:
    """Text that Markdown shows as it is, on one line."""
    return _MARKUP.sub(r"\\\1", " ".join(text.split()))


def markdown(title: str, intro: Sequence[str], tables: Sequence[Table], unread: Sequence[tuple[str, str]]) -> str:
    """The whole report as one text."""
    parts = [f"# {title}", *intro]
    for table in tables:
        parts += [f"## {table.title}", table_text(table)]
    if unread:
        parts.append("## Files that are not records")
        parts.append("\n".join(f"- {escaped(name)}: {escaped(why)}" for name, why in unread))
    return "\n\n".join(parts) + "\n"


def table_text(table: Table, *, links: bool = False) -> str:
    """Return a table's description, the table, and its notes; with `links`, names lead to the files of their records."""
    lines = [" | ".join(escaped(title) for title, _ in table.columns)]
    lines.append(" | ".join("---:" if number else "---" for _, number in table.columns))
    lines += [" | ".join(_cell(cell, links) for cell in row) for row in table.rows]
    rows = "\n".join(f"| {line} |" for line in lines)
    return "\n\n".join((table.about, rows, *(escaped(note) for note in table.notes)))


def _cell(cell: Cell, links: bool) -> str:
    text = escaped(cell.text)
    # A name that is not UTF-8 is quoted by its bytes.
    return f"[{text}]({quote(os.fsencode(cell.record))})" if links and cell.record else text
