"""Reading a stranger's record takes time in proportion to its size."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from portbar import records
from portbar.device.matrix import version_numbers
from portbar.errors import RecordError
from portbar.records import files
from portbar.records.scrubbing import told_by
from tests.records_support import device, record

#: Doublings between the small and the large input, and how much longer the large one may take: it is about 16 times where
#: time is linear and 256 times where it is quadratic.
DOUBLINGS = 4
MOST = 64


def seconds(read: Callable[[Any], object], value: Any) -> float:
    """Processor time of the fastest of three calls, which other work on the machine hardly touches."""
    taken = []
    for _ in range(3):
        start = time.process_time()
        with suppress(RecordError):
            read(value)
        taken.append(time.process_time() - start)
    return min(taken)


def assert_linear(read: Callable[[Any], object], make: Callable[[int], Any], size: int) -> None:
    short, long = (seconds(read, make(count)) for count in (size, size << DOUBLINGS))
    # A small input may take less than the clock's resolution.
    assert long < MOST * max(short, 0.0005), f"{short:.4f} s for {size}, {long:.4f} s for {size << DOUBLINGS}"


@pytest.mark.parametrize(
    ("make", "size"),
    [
        pytest.param(lambda n: '"' + '\\"' * n, 1_000, id="open string of escapes"),
        pytest.param(lambda n: '"' + '\\"' * n + '"', 20_000, id="string of escapes"),
        pytest.param(lambda n: '["' + '\\",[{"' * n, 1_000, id="brackets in strings"),
        pytest.param(lambda n: '{"a":"' + "\\" * n, 5_000, id="backslashes"),
        pytest.param(lambda n: '{"": 1,' * n, 20_000, id="objects in objects"),
        pytest.param(lambda n: "[" * n, 20_000, id="arrays in arrays"),
        pytest.param(lambda n: "[" * 20 + "[],{}," * n, 2_000, id="empty ones"),
        pytest.param(
            lambda n: "{" + ",".join(f'"{k}":1' for k in range(n)) + f',"{n - 1}":2}}', 1_000, id="a name twice"
        ),
        pytest.param(lambda n: "9" * n, 20_000, id="long whole number"),
        pytest.param(lambda n: "0." + "9" * n, 20_000, id="long fraction"),
        pytest.param(lambda n: "\n" * n + "?", 20_000, id="lines"),
    ],
)
def test_reading_json(make: Callable[[int], str], size: int) -> None:
    assert_linear(lambda data: records.checked(files.parse(data)), lambda n: make(n).encode(), size)


#: Repeated parts of texts that make a pattern scan the same characters again and again.
REPEATED = ("a", "a.", "-", "a-", "~a", "/a", "/", "\\\\a", "1.", "1:", "f:", "::", "a@", "@a.", "(1", ". ", "\t")


@pytest.mark.parametrize("unit", REPEATED)
@pytest.mark.parametrize("beginning", ["", "@", "/", "~", "a@"])
def test_searching_a_text_for_its_owner(beginning: str, unit: str) -> None:
    search = told_by.__wrapped__
    assert_linear(lambda text: search(text + " :", "reason"), lambda n: beginning + unit * (n // len(unit)), 1_000)


def test_many_long_reasons() -> None:
    def make(count: int) -> dict[str, Any]:
        quirk = {"name": "q", "workaround": ""}
        return record(device(quirks=[quirk | {"fault": "a" * 7_900 + f".{n}"} for n in range(count)]))

    assert_linear(records.validate, make, 10)


@pytest.mark.parametrize("unit", ["1", "1.", ".1", " "])
def test_numbers_of_a_version(unit: str) -> None:
    assert_linear(version_numbers, lambda n: unit * n, 500)


def test_a_record_of_a_megabyte_is_refused_within_seconds() -> None:
    data = json.dumps({"a": ['\\"' * 60] * 4_000}).encode()[:-2] + b'"' + b'\\"' * 200_000
    assert seconds(files.parse, data) < 5
