"""A folder of records."""

from __future__ import annotations

from pathlib import Path

import pytest

from portbar.records import text
from tests.report_support import device, published, record


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with two measured devices and a published chip."""
    slow = device("Slow GPU", "2.0", bound=4)
    slow["strategy"]["max_groups"] = {"value": "1", "reason": "loops end: after 65535"}
    for name, one in (
        ("a-test", record()),
        ("b-slow", record(slow)),
        ("published--gtx", published("GTX 980", "Nvidia", 16, 32, 3.1, 32.0)),
    ):
        (tmp_path / f"{name}.json").write_text(text(one))
    return tmp_path
