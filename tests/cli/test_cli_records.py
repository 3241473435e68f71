"""`portbar validate`, `portbar submit` and `portbar index`, as a user calls them."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import quote

import pytest

from portbar import records
from portbar.cli import survey
from portbar.errors import RecordError
from portbar.records.placing import place
from portbar.survey.report.index import BEGIN, index_of
from tests.checkout import ROOT
from tests.cli.support import PAGE, SLUG
from tests.records_support import FACTS, device, record, stopped_record
from tests.report_support import run

#: Names of files as a stranger may choose them, and as they are shown.
ODD_NAMES = [("a\x1b[2J\nb.json", r"a\x1b[2J\nb.json"), ("\udcff.json", r"\udcff.json")]


def written(path: Path, value: object) -> Path:
    path.write_text(json.dumps(value), encoding="utf-8")
    return path


def test_validate_says_what_is_wrong_and_exits_with_1(tmp_path: Path):
    good = written(tmp_path / "good.json", record())
    part = written(tmp_path / "part.json", stopped_record())
    bad = written(tmp_path / "bad.json", record(device(facts=FACTS | {"hostname": "x", "compute_units": -1})))
    none = tmp_path / "none.json"
    result = run("validate", good, part)
    assert result.exit_code == 0
    assert f"{good}: valid, format 2, 1 device\n" in result.stdout
    assert f"{part}: valid, format 2, 3 devices, partial\n" in result.stdout
    result = run("validate", good, bad, none)
    assert result.exit_code == 1
    assert f"{good}: valid" in result.stdout
    assert f"{bad}: not valid\n  /devices/0/facts/compute_units: -1 is less than the minimum of 0\n" in result.stdout
    assert "No such file" in result.stdout
    result = run("validate", "--json", good, bad)
    assert result.exit_code == 1
    first, second = json.loads(result.stdout)
    assert (first["valid"], first["format"], first["devices"], first["problems"]) == (True, 2, 1, [])
    assert second["valid"] is False
    assert any("compute_units" in problem for problem in second["problems"])


def test_submit_places_each_device_says_what_comes_next_and_brings_the_index_up_to_date(tmp_path: Path, matrix: Path):
    whole = record(device(), device(status="unusable", facts=FACTS | {"name": "Broken"}), partial=True)
    result = run("submit", written(tmp_path / "r.json", whole), "--matrix", matrix)
    assert result.exit_code == 0, result.output
    assert [path.name for path in matrix.glob("*.json")] == [f"{SLUG}.json"]
    placed = records.load(matrix / f"{SLUG}.json")
    assert placed == record(device())
    page = (matrix / "README.md").read_text(encoding="utf-8")
    assert page.startswith("# Mine\n\n")
    assert page.endswith("\n\nafter\n")
    assert f"]({SLUG}.json)" in page
    assert "Nothing was sent" in result.stdout
    assert f"git add {matrix}/{SLUG}.json {matrix}/README.md\n" in result.stdout
    assert f"git commit -m 'Record of {SLUG}'\n" in result.stdout
    assert "pull request" in result.stdout
    assert run("index", "--check", matrix).exit_code == 0


@pytest.mark.parametrize(
    ("there", "new", "why"),
    [
        ({"created": "2026-11-22T10:00:00Z"}, {}, "newer, of 2026-11-22T10:00:00Z"),
        ({}, {"partial": True}, "complete"),
        ({}, {"invocation": record()["invocation"] | {"quick": True}}, "this is of a quick survey"),
        ("no json", {}, "not a record"),
    ],
    ids=["newer", "complete", "full", "damaged"],
)
def test_existing_files_are_not_lost_without_force(tmp_path: Path, matrix: Path, there, new, why):
    target = matrix / f"{SLUG}.json"
    before = there if isinstance(there, str) else records.text(record(**there))
    target.write_text(before, encoding="utf-8")
    status = "partial" if new.get("partial") else "complete"
    file = written(tmp_path / "r.json", record(device(status=status), seed=8, **new))
    result = run("submit", file, "--matrix", matrix)
    assert result.exit_code == 1
    assert why in result.stdout
    assert "--force" in result.stdout
    assert "git add" not in result.stdout
    assert target.read_text(encoding="utf-8") == before
    result = run("submit", file, "--matrix", matrix, "--force")
    assert result.exit_code == 0, result.output
    assert records.load(target)["seed"] == 8


@pytest.mark.parametrize("fault", ["quick", "unsteady"])
def test_records_that_say_too_little_are_filed_with_force_only(tmp_path: Path, matrix: Path, fault: str):
    one, good = device(facts=FACTS | {"name": "Busy GPU"}), device()
    one["barrier"]["unsteady"] = fault == "unsteady"
    of = record(one, good, invocation=record()["invocation"] | {"quick": fault == "quick"})
    result = run("submit", written(tmp_path / "r.json", of), "--matrix", matrix)
    assert result.exit_code == 1
    assert ("without --quick" if fault == "quick" else "as on a busy machine") in result.stdout
    assert "--force files it anyway" in result.stdout
    assert [path.name for path in matrix.glob("*.json")] == ([] if fault == "quick" else [f"{SLUG}.json"])
    assert run("submit", tmp_path / "r.json", "--matrix", matrix, "--force").exit_code == 0
    assert len([*matrix.glob("*.json")]) == 2


def test_times_of_an_emulated_processor_may_vary(tmp_path: Path, matrix: Path):
    one = device(facts=FACTS | {"emulator": "qemu-aarch64-static"})
    one["barrier"]["unsteady"] = True
    result = run("submit", written(tmp_path / "r.json", record(one)), "--matrix", matrix)
    assert result.exit_code == 0, result.output
    assert [path.name for path in matrix.glob("*.json")] == [f"{SLUG}--emulated.json"]


def test_an_older_record_is_replaced_and_the_same_one_left_alone(tmp_path: Path, matrix: Path):
    first = written(tmp_path / "a.json", record())
    second = written(tmp_path / "b.json", record(created="2026-11-21T11:00:00Z"))
    for file, said in [(first, "written\n"), (first, "already there"), (second, "replacing an older one")]:
        result = run("submit", file, "--matrix", matrix)
        assert result.exit_code == 0
        assert said in result.stdout


def test_two_devices_of_one_name_do_not_overwrite_each_other(tmp_path: Path, matrix: Path):
    first, second = place(record(device(seconds=1.0), device(seconds=2.0)), matrix)
    assert (first.outcome, second.outcome) == ("new", "kept")
    assert "twice" in second.reason
    assert records.load(first.path)["devices"][0]["seconds"] == 1.0


def test_a_survey_files_the_first_of_two_devices_of_one_name_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    whole = record(device(seconds=1.0), device(seconds=2.0))
    run: Any = SimpleNamespace(job=SimpleNamespace(devices=(), share=False), survey=lambda _: whole, is_lost=False)
    monkeypatch.setattr(survey, "chosen", lambda _: [])
    survey._measured(run, tmp_path, as_json=True, full=False)
    assert records.load(tmp_path / f"{SLUG}.json")["devices"][0]["seconds"] == 1.0


def test_a_link_in_the_folder_is_not_written_through(tmp_path: Path, matrix: Path):
    elsewhere = tmp_path / "elsewhere.json"
    (matrix / f"{SLUG}.json").symlink_to(elsewhere)
    result = run("submit", written(tmp_path / "r.json", record()), "--matrix", matrix, "--force")
    assert result.exit_code == 1
    assert not elsewhere.exists()


def test_a_record_without_measurements_is_not_placed(tmp_path: Path, matrix: Path):
    file = written(tmp_path / "r.json", record(device(status="unusable")))
    result = run("submit", file, "--matrix", matrix)
    assert result.exit_code == 1
    assert "nothing was filed" in result.stderr
    assert list(matrix.glob("*.json")) == []


def test_a_strangers_record_places_nothing_when_it_is_damaged(tmp_path: Path, matrix: Path):
    value = record(device(facts=FACTS | {"name": "x\x1b[2J"}))
    result = run("submit", written(tmp_path / "r.json", value), "--matrix", matrix)
    assert isinstance(result.exception, RecordError)
    assert list(matrix.glob("*.json")) == []


def test_submit_without_a_folder_is_wrong_usage(tmp_path: Path):
    result = run("submit", written(tmp_path / "r.json", record()), "--matrix", tmp_path / "none")
    assert result.exit_code == 2


def test_a_folder_without_a_page_gets_one(tmp_path: Path):
    folder = tmp_path / "folder"
    folder.mkdir()
    result = run("submit", written(tmp_path / "r.json", record()), "--matrix", folder)
    assert result.exit_code == 0
    assert f"git add {folder}/{SLUG}.json {folder}/README.md\n" in result.stdout
    page = (folder / "README.md").read_text(encoding="utf-8")
    assert page.startswith(f"# Records of OpenCL devices\n\n{BEGIN}\n")
    assert f"]({SLUG}.json)" in page
    assert run("index", "--check", folder).exit_code == 0


def test_index_makes_a_page_of_records_only_and_changes_no_page_without_markers(tmp_path: Path):
    folder = tmp_path / "folder"
    folder.mkdir()
    assert "holds neither records nor a README.md" in str(run("index", folder).exception)
    written(folder / "a.json", record())
    assert run("index", "--check", folder).exit_code == 1
    assert not (folder / "README.md").exists()
    assert run("index", folder).exit_code == 0
    (folder / "README.md").write_text("# Mine\n", encoding="utf-8")
    assert "README.md of the folder lacks the two lines" in str(run("index", folder).exception)
    result = run("submit", written(tmp_path / "r.json", record(seed=9)), "--matrix", folder)
    assert "The index was not written: README.md of the folder lacks the two lines" in result.stdout
    assert (folder / "README.md").read_text(encoding="utf-8") == "# Mine\n"


def test_index_check_fails_when_the_page_is_stale_and_writes_nothing(matrix: Path):
    (matrix / "a.json").write_text(records.text(record()), encoding="utf-8")
    result = run("index", "--check", matrix)
    assert result.exit_code == 1
    assert "portbar index" in result.stderr
    assert (matrix / "README.md").read_text(encoding="utf-8") == PAGE
    result = run("index", matrix)
    assert (result.exit_code, "written" in result.stdout) == (0, True)
    result = run("index", "--check", "--json", matrix)
    assert result.exit_code == 0
    assert json.loads(result.stdout) == {"page": str(matrix / "README.md"), "outcome": "up to date"}
    (matrix / "a.json").unlink()
    assert run("index", "--check", matrix).exit_code == 1


def test_index_of_a_folder_with_a_damaged_record_is_refused(matrix: Path):
    (matrix / "a.json").write_text("{}", encoding="utf-8")
    result = run("index", matrix)
    assert isinstance(result.exception, RecordError)
    assert "a.json" in str(result.exception)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="the system has no named pipes")
@pytest.mark.timeout(20)
@pytest.mark.parametrize("odd", ["pipe", "device"])
def test_index_of_a_folder_whose_page_never_ends_is_refused(matrix: Path, odd: str):
    (matrix / "README.md").unlink()
    if odd == "pipe":
        os.mkfifo(matrix / "README.md")
    else:
        (matrix / "README.md").symlink_to("/dev/zero")
    result = run("index", matrix)
    assert isinstance(result.exception, RecordError)
    assert "lacks the two lines" in str(result.exception)


def test_the_page_of_the_vendor_matrix_says_what_its_records_say():
    result = run("index", "--check", ROOT / "vendor_matrix")
    assert result.exit_code == 0, result.stderr


def test_the_index_leads_to_the_record_of_each_device_and_nothing_of_theirs_is_markup():
    one = device(facts=FACTS | {"name": "G|P*U <b>_[x](y)"})
    line = index_of([("a](javascript:alert(1)) <b>|.json", record(one))]).splitlines()[4]
    file = "a%5D%28javascript%3Aalert%281%29%29%20%3Cb%3E%7C.json"
    assert line.startswith(
        rf"| [G\|P\*U \<b\>\_\[x\](y) (Test platform, 10.20.30.40)]({file}) | usable | 16 | 2.14 times faster | 8 |"
    )
    one["barrier"]["unsteady"] = True
    assert "| unsteady |" in index_of([("a.json", record(one))])


@pytest.mark.skipif(sys.platform != "linux", reason="other systems refuse such names")
@pytest.mark.parametrize(("name", "shown"), ODD_NAMES)
def test_any_name_of_a_file_is_printed_on_one_line_and_written(matrix: Path, name: str, shown: str):
    file = written(matrix / name, record())
    result = run("validate", file)
    assert result.stdout == f"{matrix / shown}: valid, format 2, 1 device\n"
    assert run("index", matrix).exit_code == 0
    assert f"]({quote(os.fsencode(name))}) | usable" in (matrix / "README.md").read_text(encoding="utf-8")
    file.write_text("{")
    for command, *more in (
        ("report", "--no-plots"),
        ("report", "--markdown"),
        ("report", "--no-plots", "-o", matrix / "report"),
    ):
        written(matrix / "good.json", record())
        result = run(command, matrix, *more)
        assert result.exit_code == 1
        assert f"portbar: {shown} is not a record: this is not JSON" in result.stderr
        assert "\x1b" not in result.stdout
    assert shown in (matrix / "report").read_text(encoding="utf-8")


def test_published_records_come_last_with_their_year():
    rows = [("b.json", record()), ("a.json", records.load(next((ROOT / "vendor_matrix").glob("published--*980.json"))))]
    first, second = index_of(rows).splitlines()[4:6]
    assert "(b.json)" in first
    assert second.startswith("| [GTX 980 (Nvidia)](a.json) | published | 32 |")
    assert second.endswith("| 2016 |")
