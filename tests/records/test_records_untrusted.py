"""A record from a stranger costs no more than an error: bounds, hidden characters, personal data, any damage."""

from __future__ import annotations

import json
import os
from pathlib import Path

import jsonschema_rs
import pytest

from portbar import records
from portbar.errors import RecordError
from portbar.records import bounds, files
from tests.records_support import FACTS, device, record


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "not JSON"),
        ("{", "not JSON"),
        ('{"a": 1, "a": 2}', "'a' twice"),
        ('{"\\u001b[2J": 1, "\\u001b[2J": 2}', r"'\x1b[2J' twice"),
        ('{"a": NaN}', "NaN"),
        ('{"a": -Infinity}', "Infinity"),
        (f'{{"a": {"9" * 100}}}', "50 digits"),
        ("[" * 100_000, "deeper than"),
        ('{"a":' * 30 + "1" + "}" * 30, "deeper than"),
        ('[{"a": 1}]' * 2, "not JSON"),
        (b'{"a": "\xff"}', "UTF-8"),
        (b'\xef\xbb\xbf{"a": 1}', "BOM"),
    ],
    ids=lambda value: repr(value)[:24],
)
def test_data_that_are_not_a_record_are_refused_with_the_cause(text, said):
    with pytest.raises(RecordError) as caught:
        records.checked(files.parse(text if isinstance(text, bytes) else text.encode()))
    assert said in str(caught.value)
    assert str(caught.value).isprintable()


def test_brackets_and_digits_in_texts_do_not_count():
    value = {"a": "[" * 500, "b": "9" * 100, "c": '\\"[[[[[[[['}
    assert files.parse(json.dumps(value).encode()) == value


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ({"a": "\x1b[31mred"}, "terminal escape"),
        ({"a": "two\nlines"}, "control character"),
        ({"a": "\u202egnp.exe"}, "invisible"),
        ({"a": "zero\u200bwidth"}, "invisible"),
        ({"a": "\ud800"}, "invisible"),
        ({"a\x07": 1}, "control character"),
        ({"": 1}, "0 characters"),
        ({"n" * 300: 1}, "300 characters"),
        ({1: 2}, "name is int"),
        ({"a": "x" * 9000}, "9000 characters"),
        ({"a": float("inf")}, "not finite"),
        ({"a": [1.0, float("nan")]}, "not finite"),
        ({"a": [1.0, 1e300]}, "beyond"),
        ({"a": [0, 10**30]}, "beyond"),
        ({"a": 1e300}, "beyond"),
        ({"a": 2**63}, "beyond"),
        ({"a": [1] * 100_001}, "entries"),
        ({f"k{n}": 1 for n in range(2001)}, "members"),
        ({"a": [[[0.5] * 50_000] * 30]}, "more than 1000000 values"),
        ({"a": b"bytes"}, "not a JSON value"),
        ({"a": (1, 2)}, "not a JSON value"),
    ],
    ids=lambda value: repr(value)[:24],
)
def test_values_out_of_bounds_are_named(value, said):
    problems = bounds.examined(value).faults
    assert problems
    assert any(said in problem for problem in problems), problems
    assert all(problem.isprintable() for problem in problems)


def test_depth_counts_objects_and_arrays():
    for inner in ({}, [], 1, [1], {"a": 1}):
        for depth in (22, 23, 24, 25, 26):
            value = inner
            for _ in range(depth):
                value = [value]
            deep = depth + isinstance(inner, (dict, list)) > bounds.MAX_DEPTH
            assert bool(bounds.examined(value).faults) == deep, (inner, depth)


def test_a_value_that_holds_itself_comes_to_an_end():
    value = {}
    value["a"] = value
    assert any("deeper" in problem for problem in bounds.examined(value).faults)


def test_only_a_regular_file_of_some_size_is_read(tmp_path: Path):
    good = tmp_path / "good.json"
    good.write_text(records.text(record()), encoding="utf-8")
    assert records.load(good) == record()
    link = tmp_path / "link.json"
    link.symlink_to(good)
    pipe = tmp_path / "pipe.json"
    os.mkfifo(pipe)
    large = tmp_path / "large.json"
    with large.open("wb") as file:
        file.truncate(files.MAX_BYTES + 1)
    for path, said in [
        (link, "is a link"),
        (pipe, "not a regular file"),
        (tmp_path, "not a regular file"),
        (large, "larger than"),
        (tmp_path / "none.json", "No such file"),
        (tmp_path / "a\0b", "null byte"),
    ]:
        with pytest.raises(RecordError, match=said):
            records.load(path)


@pytest.mark.parametrize(
    "text",
    [
        "cannot open /home/somebody/kernel.cl",
        "in ~/kernels/a.cl",
        "in ~somebody/a",
        "file:///srv/data/a.cl",
        "at /scratch/x: no",
        r"C:\Users\somebody\kernel.cl",
        r"\\server\share\kernel.cl",
        "ask somebody@example.org",
        "GPU-3e5c2f6a-1111-2222-3333-444455556666",
        "on build-7.internal",
        "from 192.168.7.12",
        "from fe80::1ff:fe23:4567:890a",
        "at 00:1b:44:11:3a:b7",
    ],
)
def test_personal_data_are_flagged(text):
    value = record(device(status="partial", reason=text))
    (problem,) = records.validate(value)
    assert problem.startswith("/devices/0/reason: ")
    assert text not in problem


@pytest.mark.parametrize(
    "text",
    [
        "Intel(R) Core(TM) i7-8700 CPU @ 3.20GHz",
        "acquire/release and/or both",
        "2/3 of 4/8/16",
        "Mesa/X.org",
        "the number in /proc/sys/kernel/threads-max, and /etc/OpenCL/vendors",
        "gfx90a:sramecc+:xnack-",
        "https://example.org/about/this",
        "PoCL 3.1+debian, LLVM 15.0.6; took 0.5 s at 10:00:01",
        "c11@CL3.0",
        "a::b::c",
        "SB-device-global-ops: 40532 of 11083776 forbidden (seed 1622703777)",
        "0000:01:00.0",
        "build: commit # a9da6e3 Date: 08/21/23 Mon Branch: refs/tags/AU_LA.UM.9.14.11.00.00.571.148 Compiler E031.41.03.00",
        "1.2 (Aug  2 2023 20:25:00)",
        "v1.r32p1-01eac0.7c8f1a2b3c4d",
    ],
)
def test_properties_of_the_machine_are_not_flagged(text):
    assert records.validate(record(device(status="partial", reason=text))) == []


def test_versions_of_four_numbers_are_not_addresses():
    assert not bounds.examined({"driver_version": "10.0.0.1"}).private
    assert bounds.examined({"reason": "10.0.0.1"}).private


@pytest.mark.parametrize("name", ["hostname", "host-name", "User", "serial", "uuid", "path", "argv", "ip"])
def test_members_that_name_the_owner_are_flagged(name):
    value = record(device(facts=FACTS | {name: "x"}))
    (problem,) = records.validate(value)
    assert problem.startswith(f"/devices/0/facts/{name}: ")


def test_a_path_may_not_hide_in_a_members_name():
    findings = device()["findings"]
    findings["builds"]["/home/somebody/x"] = True
    (problem,) = records.validate(record(device(findings=findings)))
    assert "~1home" in problem


def test_the_schema_is_a_schema():
    assert records.schema()["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    jsonschema_rs.meta.validate(records.schema())


def test_quoted_text_is_printable():
    unassigned, long = "\ud7a4", "x" * 190
    value = record(device(facts=FACTS | {"name": ["y" * 7000]}), **{unassigned: 1, long: 2})
    problems = records.validate(value)
    assert len(problems) > 1
    assert all(problem.isprintable() and len(problem) < 500 for problem in problems)
    assert any(r"\ud7a4" in problem for problem in problems)
