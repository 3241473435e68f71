"""Writes the tables of a report as Markdown."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from urllib.parse import quote

from portbar.survey.tables import Cell, Table

#: Characters that Markdown, or HTML in it, would read as markup.
_MARKUP = re.compile(r"([\\`*_{}\[\]<>#|~&!$:@])")


def _escaped(text: str) -> str:
    """Return text that Markdown shows as it is, on one line."""
    return _MARKUP.sub(r"\\\1", " ".join(text.split()))


def markdown(title: str, intro: Sequence[str], tables: Sequence[Table], unread: Sequence[tuple[str, str]]) -> str:
    """Return the whole report as one text."""
    parts = [f"# {title}", *intro]
    for table in tables:
        parts += [f"## {table.title}", table_text(table)]
    if unread:
        parts.append("## Files that are not records")
        parts.append("\n".join(f"- {_escaped(name)}: {_escaped(why)}" for name, why in unread))
    return "\n\n".join(parts) + "\n"


def table_text(table: Table, *, links: bool = False) -> str:
    """Return a table's description, the table, and its notes; with `links`, names lead to the files of their records."""
    lines = [" | ".join(map(_escaped, table.columns))]
    lines.append(" | ".join("---" if title in table.words else "---:" for title in table.columns))
    lines += [" | ".join(_cell(cell, links) for cell in row) for row in table.rows]
    rows = "\n".join(f"| {line} |" for line in lines)
    return "\n\n".join((table.about, rows, *(_escaped(note) for note in table.notes)))


def _cell(cell: Cell, links: bool) -> str:
    text = _escaped(cell.text)
    # A name that is not UTF-8 is quoted by its bytes.
    return f"[{text}]({quote(os.fsencode(cell.record))})" if links and cell.record else text
