"""Writes a report as one page of HTML that needs nothing else: no network, no fonts, no other files.

`tables` and `plots` make its parts. Records are untrusted: each text of theirs is escaped here, and the page's security policy
allows only the style and the script that portbar wrote.
"""

from __future__ import annotations

import base64
import hashlib
import importlib.resources
import re
from collections.abc import Mapping, Sequence
from functools import cache
from html import escape
from typing import Final

import mako.template

from portbar.survey.report.plots import Plots
from portbar.survey.tables import Cell, Table

#: Words that may be longer than a line of a phone's column, and where their parts end. Browsers break lines after spaces and
#: hyphens anyway.
_LONG_WORD: Final = re.compile(r"[^\s-]{16,}")
_PART_END: Final = re.compile(r"([_.+/])(?=\w)")


@cache
def _template() -> mako.template.Template:
    text = importlib.resources.files("portbar.survey.report").joinpath("page.mako").read_text(encoding="utf-8")
    return mako.template.Template(text=text, strict_undefined=True, default_filters=["str", "h"], uri="page.mako")


def page(
    title: str,
    intro: Sequence[str],
    tables: Sequence[Table],
    plots: Mapping[str, Plots],
    unread: Sequence[tuple[str, str]],
) -> str:
    """Return the whole page; the plots are keyed by the table that they precede, and files that are not records come last."""
    css, js = (_template().get_def(name).render() for name in ("style", "script"))
    own = f"style-src '{_hash(css)}'; script-src '{_hash(js)}'"
    rows = {table.name: [_row(table, row) for row in table.rows] for table in tables}
    text = _template().render(
        title=title,
        intro=intro,
        tables=tables,
        plots={name: of for name, of in plots.items() if of.plots},
        rows=rows,
        unread=unread,
        policy=f"default-src 'none'; {own}; base-uri 'none'; form-action 'none'",
        css=css,
        js=js,
    )
    return str(text)


def _hash(text: str) -> str:
    """Return the name of a style or script in a security policy that allows it."""
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def _row(table: Table, row: Sequence[Cell]) -> str:
    name = _LONG_WORD.sub(lambda word: _PART_END.sub(r"\1<wbr>", word[0]), escape(row[0].text))
    parts = [f'<tr><th scope="row">{name}']
    for cell, title in zip(row[1:], table.columns[1:], strict=True):
        kinds = " ".join(kind for kind in (cell.kind, "" if title in table.words else "num") if kind)
        attributes = f' class="{kinds}"' if " " in kinds else f" class={kinds}" if kinds else ""
        # The sort key is left out where the text says the same.
        if cell.sort is not None and cell.text:
            attributes += f" data-v={cell.sort:.6g}"
        parts.append(f"<td{attributes}>{escape(cell.text)}")
    return "".join(parts)
