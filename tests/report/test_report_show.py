"""`portbar show`: the record that a name selects."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from rich.table import Table

from portbar.cli.output import err, show
from portbar.records import text, validate
from portbar.records.files import NoSuchRecordError, find
from tests.checkout import ROOT
from tests.report_support import device, record, run


def test_a_file_is_shown(tmp_path: Path) -> None:
    file = tmp_path / "mine.json"
    file.write_text(text(record(device("My own GPU"))))
    assert find(str(file)).name == "mine.json"
    shown = run("show", file)
    assert shown.exit_code == 0, shown.exception
    assert "My own GPU" in shown.stdout
    assert max(map(len, shown.stdout.splitlines())) <= 80
    assert json.loads(run("show", file, "--json").stdout)["devices"][0]["facts"]["name"] == "My own GPU"


def test_a_record_s_times_may_have_any_unit(tmp_path: Path) -> None:
    """All but those of reductions, which are shown as they were recorded."""
    values = {"us": record(device()), "ns": record(device())}
    for step in ("barrier", "split_barrier", "occupancy"):
        for row in values["ns"]["devices"][0][step]["rows"]:
            for reading in row.values():
                if isinstance(reading, dict) and reading.get("unit") == "us":
                    reading |= {"unit": "ns", "value": reading["value"] * 1000}
                    reading |= {name: [one * 1000 for one in reading[name]] for name in ("samples",) if name in reading}
                    reading |= {name: reading[name] * 1000 for name in ("min", "max") if name in reading}
    shown = {}
    for unit, value in values.items():
        assert validate(value) == []
        file = tmp_path / f"{unit}.json"
        file.write_text(text(value))
        found = run("show", file)
        assert found.exit_code == 0, found.exception
        shown[unit] = found.stdout.replace(unit + ".json", "")
    assert shown["ns"] == shown["us"]


def test_the_page_shows_a_record_as_the_command_does() -> None:
    page = (ROOT / "docs" / "survey.md").read_text(encoding="utf-8")
    ((slug, sample),) = re.findall(
        r"^```text\n\$ portbar show ((?!\S+\.json)\S+)\n(.*?)^```$", page, re.MULTILINE | re.DOTALL
    )
    assert run("show", slug).stdout == sample


def test_a_part_of_a_slug_names_a_record_in_any_case() -> None:
    assert "h200" in find("NVIDIA-H200").name


def test_a_part_that_many_have_or_none_is_wrong_usage() -> None:
    with pytest.raises(NoSuchRecordError, match="records have '--' in their names"):
        find("--")
    assert run("show", "no-such-device").exit_code == 2
    # No file system has names of this length.
    assert run("show", "x" * 5000).exit_code == 2


@pytest.mark.parametrize("what", [".", "/dev/null"])
def test_what_is_there_but_no_file_is_not_looked_for_among_the_records(what: str, tmp_path: Path) -> None:
    result = run("show", tmp_path if what == "." else what)
    assert result.exit_code == 1
    assert f"'{tmp_path.name if what == '.' else 'null'}' is not a regular file" in str(result.exception)


def test_a_file_that_is_not_a_record_is_an_error(tmp_path: Path) -> None:
    file = tmp_path / "bad.json"
    file.write_text("{}")
    result = run("show", file)
    assert result.exit_code == 1
    assert "bad.json" in str(result.exception)


def test_a_drivers_words_cannot_move_the_cursor(capsys: pytest.CaptureFixture[str]) -> None:
    table = Table()
    table.add_row("a\x1b[2J\x1b]0;title\x07b\x9b1m", "two\nlines \u202ex")
    show("c\x1b[31md\r\n", table)
    err().print("e\x1b[Hf")
    out, messages = capsys.readouterr()
    assert not set(out + messages) & {"\x1b", "\x07", "\x9b", "\r", "\u202e"}
    assert "a[2J]0;titleb1m" in out
    assert "c[31md" in out
    assert "e[Hf" in messages
