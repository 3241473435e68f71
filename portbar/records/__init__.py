"""Records: what surveys measured, as files that one can read, keep, compare and send in.

Not for measuring (`portbar.survey`), and not for showing (`portbar.report`).
"""

from __future__ import annotations

from portbar.records.folder import checked, load, read_folder
from portbar.records.mending import mended
from portbar.records.migration import migrate
from portbar.records.naming import slug, split
from portbar.records.reading import measured, missing, samples_of, value_of
from portbar.records.untrusted import printable
from portbar.records.validation import NAMES, NEWEST, schema, validate
from portbar.records.writing import text

#: What a record of the newest format says in its members `schema` and `format`.
SCHEMA = NAMES[NEWEST]
FORMAT = NEWEST

__all__ = [
    "FORMAT",
    "SCHEMA",
    "checked",
    "load",
    "measured",
    "mended",
    "migrate",
    "missing",
    "printable",
    "read_folder",
    "samples_of",
    "schema",
    "slug",
    "split",
    "text",
    "validate",
    "value_of",
]
