"""Records: what surveys measured, as files that one can read, keep, compare and send in."""

from __future__ import annotations

from portbar.records.files import checked, load, read_folder, text
from portbar.records.mending import mended
from portbar.records.placing import slug, split
from portbar.records.reading import measured, missing, samples_of, value_of
from portbar.records.validation import FORMAT, SCHEMA, schema, validate

__all__ = [
    "FORMAT",
    "SCHEMA",
    "checked",
    "load",
    "measured",
    "mended",
    "missing",
    "read_folder",
    "samples_of",
    "schema",
    "slug",
    "split",
    "text",
    "validate",
    "value_of",
]
