"""The text of a record: the same text for the same record, short enough to be read and to be compared line by line.

Not for placing files (`portbar.records.placing`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

#: Columns into which a value must fit to stand on one line.
_WIDTH: Final = 120


def text(record: Mapping[str, Any]) -> str:
    """A record as JSON text that ends with a newline; lists of numbers and whatever else is short stand on one line."""
    return f"{_text(record, 0)}\n"


def _text(value: Any, indent: int, named: int = 0) -> str:
    """The text of a value that stands `indent` columns in, behind a name of `named` characters."""
    if not isinstance(value, (dict, list, tuple)) or not value or _is_numbers(value):
        return _flat(value)
    # A value of many parts cannot fit, and need not be tried.
    if len(value) < _WIDTH // 3:
        flat = _flat(value)
        if indent + named + len(flat) < _WIDTH:
            return flat
    inner = " " * (indent + 1)
    if isinstance(value, dict):
        names = [f"{_flat(name)}: " for name in value]
        lines = [
            f"{inner}{name}{_text(item, indent + 1, len(name))}"
            for name, item in zip(names, value.values(), strict=True)
        ]
        return "{\n" + ",\n".join(lines) + f"\n{' ' * indent}}}"
    lines = [f"{inner}{_text(item, indent + 1)}" for item in value]
    return "[\n" + ",\n".join(lines) + f"\n{' ' * indent}]"


def _is_numbers(value: Any) -> bool:
    return isinstance(value, (list, tuple)) and all(type(item) in {int, float} for item in value)


def _flat(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False)
