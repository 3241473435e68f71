"""The page on records shows a valid record and names every member that the schema has."""

from __future__ import annotations

import json
import re
from typing import Any

from portbar import records
from tests.checkout import ROOT

PAGE = (ROOT / "docs" / "records.md").read_text(encoding="utf-8")


def members(schema: Any) -> set[str]:
    """Names of all members that a schema allows, apart from those of the device's own facts and findings."""
    found: set[str] = set()
    if isinstance(schema, dict):
        for key, below in schema.items():
            if key == "properties":
                found |= set(below)
            if key not in {"facts", "findings"}:
                found |= members(below)
    elif isinstance(schema, list):
        for below in schema:
            found |= members(below)
    return found


def test_the_record_on_the_page_is_valid():
    (text,) = re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL)
    assert records.validate(json.loads(text)) == []


def test_the_page_names_every_member_unit_and_status():
    schema = records.schema()
    reading = schema["$defs"]["reading"]
    named = set(re.findall(r"`([^`\n]+)`", PAGE))
    assert members(schema) - {"facts", "findings"} <= named | {"facts", "findings"}
    assert set(reading["else"]["properties"]["unit"]["enum"]) <= named
    assert set(reading["then"]["properties"]["status"]["enum"]) <= named
    assert set(schema["$defs"]["device"]["properties"]["status"]["enum"]) <= named
    assert set(schema["$defs"]["stepStatus"]["enum"]) <= named
