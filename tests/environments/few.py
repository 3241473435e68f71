"""A plugin of pytest that takes a few tests of each file, spread over it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import TypeVar

import pytest

T = TypeVar("T")


def spread(items: Sequence[T], most: int) -> list[T]:
    """Return at most `most` of the items, from the first on, at even distances."""
    if len(items) <= most:
        return list(items)
    return [items[place * len(items) // most] for place in range(most)]


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option."""
    parser.addoption("--most-per-file", type=int, default=0, help="take this many tests of each file")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the others."""
    most = config.getoption("--most-per-file")
    if not most:
        return
    files: dict[object, list[pytest.Item]] = defaultdict(list)
    for item in items:
        files[item.path].append(item)
    kept = [item for tests in files.values() for item in spread(tests, most)]
    left_out = set(items) - set(kept)
    config.hook.pytest_deselected(items=[item for item in items if item in left_out])
    items[:] = kept
