"""`portbar report`: what is drawn out of records, that nothing of theirs becomes markup, and the figures for many of them."""

from __future__ import annotations

import json
import re
import sys
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

from portbar.errors import RecordError
from portbar.records import text
from portbar.records.reading import measured, missing
from portbar.survey.report.build import FolderReport, build
from portbar.survey.report.collect import collect, in_order
from portbar.survey.report.tables import tables
from portbar.survey.tables import MOST_COLUMNS, Table, digits
from tests.report_support import MEASURED, Json, device, occupancy_row, published, record, run, without

EVIL = "<script>alert(1)</script><img src=x onerror=alert(2)> \"'&| [x](javascript:alert(3)) $\\frac{1}{"


def by_name(devices: list[Json]) -> dict[str, Table]:
    return {table.name: table for table in tables(devices)}


def row(table: Table, beginning: str) -> dict[str, str]:
    """The texts of the row whose name begins so, by column; of columns of one title the last."""
    (found,) = [one for one in table.rows if one[0].text.startswith(beginning)]
    return {title: cell.text for title, cell in zip(table.columns, found, strict=True)}


def line_of(one: Json, table: str) -> dict[str, str]:
    """The row of one device in a table."""
    return row(by_name(collect([("a", record(one))]))[table], "Test GPU")


def test_the_verdict_says_how_many_groups_meet_and_what_that_saves(folder: Path) -> None:
    shown = by_name(build(folder).devices)["verdicts"]
    assert [one[0].text for one in shown.rows] == [
        "Slow GPU (Test platform, 2.0)",
        "Test GPU (Test platform, 1.0)",
        "GTX 980 (Nvidia)",
    ]
    good = row(shown, "Test GPU")
    assert (good["Verdict"], good["Work-groups that synchronise"], good["Barrier beside relaunching"]) == (
        "usable",
        "8",
        "6.00 times faster",
    )
    assert row(shown, "Slow GPU")["Verdict"] == "one work-group: loops end: after 65535"
    assert (row(shown, "GTX")["Verdict"], row(shown, "GTX")["Measured"]) == ("published", "2016")


def test_recall_is_shown_as_the_published_table_has_it(folder: Path) -> None:
    shown = by_name(build(folder).devices)["recall"]
    seed = row(shown, "GTX 980 (Nvidia), published")
    assert (seed["Compute units"], seed["Occupancy bound"]) == ("16", "32")
    assert (seed["Spin lock"], seed["Ticket lock"], seed["Packed"]) == ("3.1 (10 %)", "32 (100 %)", "")
    mine = row(shown, "Test GPU")
    assert (mine["Spin lock"], mine["Ticket lock"], mine["Spin, patient"]) == ("2 (25 %)", "6 (75 %)", "8 (100 %)")
    assert shown.notes == ["Published: An Author, Another One (2016): A study. A conference"]


def test_recall_is_of_the_largest_local_size_with_the_range_over_all() -> None:
    one = device()
    more = [
        occupancy_row(lock, patience, bound=bound, local_size=size)
        for lock in ("packed", "ticket", "spin")
        for patience in (True, False)
        for size, bound in ((128, 16), (256, 4))
    ]
    one["occupancy"]["rows"] += more
    one["occupancy"]["rows"].append(occupancy_row("packed", True, bound=2, local_size=1024, local_bytes=60000))
    shown = line_of(one, "recall")
    assert (shown["Local size"], shown["Occupancy bound"]) == ("256", "4")
    assert shown["Spin, all sizes"] == "25 %"


def test_the_mean_counts_not_the_median() -> None:
    one = device()
    spin = one["occupancy"]["rows"][-1]
    spin["found"] = measured(2, "work-groups", [2, 2, 2, 2, 6])
    spin["recall"] = measured(0.35, "1")
    assert line_of(one, "recall")["Spin lock"] == "2.8 (35 %)"


def test_barriers_are_shown_between_the_fewest_and_the_most_groups(folder: Path) -> None:
    shown = by_name(build(folder).devices)["barriers"]
    cells = [cell.text for cell in next(one for one in shown.rows if one[0].text.startswith("Test"))[1:]]
    assert cells == ["64", "2", "counter", "0.707", "6.00", "8", "counter", "1.41", "6.00"]


def test_a_device_with_one_number_of_groups_is_shown_once() -> None:
    """As most CPUs are measured: with as many work-groups as they have compute units."""
    two = device("Test GPU, small", bound=2)
    shown = by_name(collect([("a", record(two))]))["barriers"]
    assert shown.columns == ["Device", "Local size", "Work-groups", "Fastest", "Barrier, us", "Relaunch, us"]
    assert [cell.text for cell in shown.rows[0][1:]] == ["64", "2", "counter", "0.707", "6.00"]
    (_, small) = by_name(collect([("a", record(device(), two))]))["barriers"].rows
    assert [cell.text for cell in small[1:]] == ["64", "", "", "", "", "2", "counter", "0.707", "6.00"]


def slower(us: float) -> Json:
    """A CPU whose barrier takes so long with one work-item per work-group, and less with 64."""
    one = device(bound=2, type=["CPU"], compute_units=2)
    small = [{**line, "local_size": 1, "barrier_time": measured(us, "us")} for line in one["barrier"]["rows"]]
    one["barrier"]["rows"] += small
    return one


def test_barriers_are_compared_at_the_local_size_that_portbar_suggests() -> None:
    one = slower(60.0)
    assert line_of(one, "barriers")["Local size"] == "1"
    assert line_of(one, "verdicts")["Barrier beside relaunching"] == "10.0 times slower"


def test_a_speed_says_which_of_the_two_is_slower() -> None:
    (faster, equal) = (line_of(slower(us), "verdicts")["Barrier beside relaunching"] for us in (3.0, 6.01))
    assert (faster, equal) == ("2.00 times faster", "as fast")
    one = slower(60.0)
    one["barrier"]["unsteady"] = True
    assert line_of(one, "verdicts")["Barrier beside relaunching"] == "unsteady"


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        *((99.94, "99.9"), (99.96, "100"), (100.4, "100"), (0.5, "0.500"), (0.0, "0.00")),
        # Columns of a terminal have six characters for them.
        *((0.0123, "0.0123"), (0.00853, "0.0085"), (0.00041, "0.0004"), (0.00004, "4e-05")),
    ],
)
def test_numbers_have_three_digits_that_count(value: float, shown: str) -> None:
    assert digits(value) == shown


def test_times_of_another_unit_are_converted() -> None:
    one = device()
    for line in one["barrier"]["rows"]:
        line["barrier_time"] = measured(2500.0, "ns")
    assert line_of(one, "barriers")["Barrier, us"] == "2.50"
    one["split_barrier"]["rows"][0]["time"] = measured(0.5, "us")
    assert line_of(one, "split-barriers")["counter"] == "500 *"


def test_capabilities_are_yes_no_or_not_measured(folder: Path) -> None:
    one = device("Third GPU")
    del one["findings"]["builds"]["fp64"]
    one["findings"]["loop_limit"] = 65535
    one["litmus"]["rows"][0]["verdict"] = measured("fail")
    shown = row(by_name(collect([("a", record(device(), one))]))["capabilities"], "Third")
    assert (shown["build ptx"], shown["build fp64"], shown["build cl12"]) == ("no", "", "yes")
    assert (shown["progress sub_groups"], shown["progress lanes"], shown["loops whole"]) == ("yes", "no", "no")
    assert (shown["ordering c11"], shown["litmus c11"]) == ("yes", "no")


def test_lost_measurements_are_neither_yes_nor_no() -> None:
    one = device()
    one["findings"]["lost"]["loop_limit"] = "the driver crashed"
    assert "loops whole" not in line_of(one, "capabilities")


def test_atomics_are_counted_by_how_they_are_done() -> None:
    one = device()
    one["atomics"]["rows"][0]["result"] = missing("error", "wrong sum")
    one["atomics"]["rows"][2]["result"] = missing("skipped", "no time was left")
    shown = line_of(one, "atomics")
    assert (shown["uint"], shown["float"]) == ("1 instruction, 1 none", "1 loop")


def test_reductions_stand_beside_the_built_in_function(folder: Path) -> None:
    shown = by_name(build(folder).devices)["reductions"]
    mine = row(replace(shown, rows=[one for one in shown.rows if one[1].text == "device"]), "Test GPU")
    assert (mine["Grid"], mine["sub_group"], mine["tree"], mine["Built in"]) == ("4 x 64", "2.50 *", "5.00", "3.00")


def test_the_beginning_counts_records_and_devices() -> None:
    one, two = ((f"r{number}", record(device())) for number in range(2))
    assert FolderReport(collect([one]), 1).intro()[0].startswith("1 record of 1 device;")
    assert FolderReport(collect([one, two]), 2).intro()[0].startswith("2 records of 2 devices;")


def test_two_records_of_one_device_name_their_files_and_the_time_of_day(tmp_path: Path) -> None:
    morning, evening = record(device(), device()), record(device())
    morning["created"], evening["created"] = "2026-11-21T08:15:00+00:00", "2026-11-21T20:45:00+00:00"
    for name, one in (("morning", morning), ("evening", evening), ("other", record(device("Other GPU")))):
        (tmp_path / f"{name}.json").write_text(text(one))
    made = build(tmp_path)
    assert [(one[0].text, one[-1].text) for one in by_name(made.devices)["verdicts"].rows] == [
        ("Other GPU (Test platform, 1.0)", "2026-11-21"),
        ("Test GPU (Test platform, 1.0), morning, 0:0", "2026-11-21 08:15"),
        ("Test GPU (Test platform, 1.0), morning, 0:0", "2026-11-21 08:15"),
        ("Test GPU (Test platform, 1.0), evening", "2026-11-21 20:45"),
    ]
    assert "the newest measurement is of 2026-11-21." in made.to_markdown()


def test_long_names_break_where_their_parts_end() -> None:
    html = FolderReport(collect([("a", record(device("GPU", "2026.22.10.0.01_160000 1.0+rc")))]), 1).to_html(
        plots=False
    )
    assert "2026.<wbr>22.<wbr>10.<wbr>0.<wbr>01_<wbr>160000 1.0+rc)" in html


def test_devices_that_could_not_be_measured_have_a_row() -> None:
    broken = device("Broken")
    without("probe", *MEASURED)(broken)
    broken["status"] = "unusable"
    broken["usable"] = {"usable": False, "reason": "the probe kernel gave 7", "remedy": "another driver"}
    waiting = {"facts": {"name": "Waiting"}, "status": "waiting", "address": broken["address"], "seconds": 0.0}
    silent = waiting | {"facts": {"name": "Silent"}, "status": "complete"}
    shown = by_name(collect([("a", record(broken, waiting, silent))]))
    assert set(shown) == {"verdicts"}
    assert row(shown["verdicts"], "Broken")["Verdict"] == "unusable: the probe kernel gave 7"
    assert row(shown["verdicts"], "Waiting")["Verdict"] == "not surveyed"
    assert row(shown["verdicts"], "Silent")["Verdict"] == "unknown"


# --- records are untrusted ---


class Tags(HTMLParser):
    """Notes every tag and attribute, and all text outside the style and the script."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self._inside = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self._inside = tag

    def handle_endtag(self, tag: str) -> None:
        self._inside = "" if tag == self._inside else self._inside

    def handle_data(self, data: str) -> None:
        if self._inside not in {"style", "script"}:
            self.text += data


def evil_record() -> Json:
    """A record that has markup wherever a stranger may write text."""
    one = device(EVIL, EVIL, vendor=EVIL, type=[EVIL], platform_name=EVIL)
    one["quirks"] = [{"name": EVIL, "fault": EVIL, "workaround": EVIL}]
    one["strategy"] = {name: {"value": EVIL, "reason": EVIL} for name in (*one["strategy"], "max_groups", EVIL)}
    one["findings"]["builds"][EVIL] = True
    for step, name in (
        ("occupancy", "lock"),
        ("barrier", "algorithm"),
        ("litmus", "strategy"),
        ("atomics", "type"),
        ("atomics", "implementation"),
        ("split_barrier", "strategy"),
        ("reduction", "strategy"),
        ("reduction", "operation"),
    ):
        for line in one[step]["rows"][:1]:
            one[step]["rows"].append({**line, name: EVIL})
    return record(one)


def checked_page(html: str) -> Tags:
    tags = Tags()
    tags.feed(html)
    names = [tag for tag, _ in tags.tags]
    assert names.count("script") == names.count("style") == 1
    assert not {"img", "iframe", "object", "embed", "form", "base", "link"} & set(names)
    for tag, attributes in tags.tags:
        assert not [name for name in attributes if name.startswith("on") or name in {"style", "src"}], (tag, attributes)
        assert str(attributes.get("href") or "#").startswith("#")
        assert str(attributes.get("xlink:href") or "#").startswith("#")
    return tags


@pytest.mark.parametrize("plots", [False, True])
def test_nothing_of_a_record_becomes_markup(plots: bool) -> None:
    if plots:
        pytest.importorskip("matplotlib", reason="plots need matplotlib")
    devices = in_order(collect([(EVIL, evil_record()), ("p", published(EVIL, EVIL, 4, 4, 2.0, 4.0))]))
    html = FolderReport(devices, 2, [(f"{EVIL}.json", EVIL)]).to_html(plots=plots)
    tags = checked_page(html)
    assert tags.text.count("<script>alert(1)") > 10
    assert [tag for tag, _ in tags.tags].count("svg") == (3 if plots else 0)


def test_nothing_of_a_record_becomes_markup_in_markdown() -> None:
    devices = collect([(EVIL, evil_record())])
    shown = FolderReport(devices, 1, [(EVIL, EVIL)]).to_markdown()
    assert re.search(r"(?<!\\)<script", shown) is None
    assert re.search(r"(?<!\\)\]\(", shown) is None
    lines = [line for line in shown.splitlines() if line.startswith("| ")]
    width = {len(re.split(r"(?<!\\)\|", line)) for line in lines[: 2 + len(devices)]}
    assert width == {len(by_name(devices)["verdicts"].columns) + 2}


def test_the_page_loads_nothing_and_its_policy_allows_only_its_own_script(folder: Path) -> None:
    html = build(folder).to_html(plots=False)
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', html)
    assert policy is not None
    assert re.fullmatch(
        r"default-src &#39;none&#39;; style-src &#39;sha256-[\w+/=]+&#39;; script-src &#39;sha256-[\w+/=]+&#39;; "
        r"base-uri &#39;none&#39;; form-action &#39;none&#39;",
        policy[1],
    )
    assert "http" not in html.replace("http-equiv", "")
    assert 'name="viewport"' in html


def test_many_names_do_not_make_many_columns() -> None:
    one = device()
    one["findings"]["builds"] = {f"feature {n:03}": True for n in range(500)}
    shown = by_name(collect([("a", record(one))]))["capabilities"]
    assert len(shown.columns) == MOST_COLUMNS + 1
    assert "more capabilities" in shown.notes[0]


# --- the command ---


def test_forms_and_their_files(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    out = tmp_path_factory.mktemp("out")
    assert run("report", folder, "--no-plots", "-o", out / "r.html").exit_code == 0
    checked_page((out / "r.html").read_text())
    assert run("report", folder, "--markdown", "-o", out / "r.md").exit_code == 0
    assert "| Test GPU (Test platform, 1.0) | usable | 8 | 6.00 times faster |" in (out / "r.md").read_text()
    value = json.loads(run("report", folder, "--json").stdout)
    assert (value["records"], len(value["devices"]), value["unread"]) == (3, 3, [])


def test_a_file_that_is_not_a_record_is_named_and_the_others_are_shown(folder: Path) -> None:
    (folder / "bad.json").write_text('{"schema": "portbar-record", "format": 2}')
    result = run("report", folder, "--markdown")
    assert result.exit_code == 1
    assert "## Files that are not records\n\n- bad.json" in result.stdout
    assert "bad.json is not a record" in result.stderr
    assert "Slow GPU" in result.stdout


def test_wrong_usage(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    assert run("report", folder, "--markdown", "--json").exit_code == 2
    assert run("report", folder, "--no-plots", "-o", folder / "no" / "such" / "folder.html").exit_code == 2
    assert run("report", folder / "none").exit_code == 2
    empty = tmp_path_factory.mktemp("empty")
    with pytest.raises(RecordError, match=r"it has no \.json files"):
        build(empty)
    (empty / "x.json").write_text("not JSON")
    with pytest.raises(RecordError, match="none of its 1 files is valid"):
        build(empty)
    assert run("report", empty).exit_code == 1


def test_without_matplotlib_the_error_names_the_extra(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    result = run("report", folder)
    assert 'pip install "portbar[plot]"' in str(result.exception)
    assert run("report", folder, "--no-plots").exit_code == 0
