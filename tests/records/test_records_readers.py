"""Valid records are shown, compared, indexed, reported and lent: each reader accepts every one, in a bounded time."""

from __future__ import annotations

import copy
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from portbar import records
from portbar.cli.compare import comparison_view
from portbar.device import matrix
from portbar.records import measured
from portbar.survey.report.build import FolderReport
from portbar.survey.report.collect import collect, in_order
from portbar.survey.report.compare import compare
from portbar.survey.report.index import index_of
from portbar.survey.views import record_view
from tests.records_support import Json, device, record, unlikely
from tests.report_support import printed

#: Seconds of processor time that any reader may take for one record, on a slow machine.
BUDGET_S = 20.0


def read_by_all(value: Json, plots: bool) -> None:
    """Every reader of one valid record."""
    assert records.validate(value) == []
    newest = records.checked(value)
    names = [entry["facts"]["name"] for entry in newest["devices"]]
    printed(record_view(newest))
    for old, new in ((record(), newest), (newest, record()), (newest, copy.deepcopy(newest))):
        for only_used in (False, True):
            printed(comparison_view("old", "new", compare(old, new, only_used=only_used)))
    assert index_of([("a.json", newest)]).partition("bound). ")[0].count("\n| [") == len(names)
    report = FolderReport(in_order(collect([("a", newest), ("b", record())])), 2)
    report.to_markdown()
    json.dumps(report.to_json(), allow_nan=False)
    assert "Test GPU" in report.to_html(plots=plots)
    for _, one in records.split(newest):
        assert records.validate(one) == []


@settings(
    max_examples=max(120, settings.default.max_examples // 10),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    # To make a whole record smaller takes minutes.
    phases=[Phase.reuse, Phase.generate],
)
@given(unlikely(), st.integers(0, 5))
def test_every_reader_takes_every_valid_record(value: Json, plots: int) -> None:
    pytest.importorskip("matplotlib", reason="plots need matplotlib")
    read_by_all(value, plots=not plots)


def test_an_operation_that_gave_a_wrong_answer_is_shown_as_such() -> None:
    one = device()
    one["atomics"]["rows"][0]["result"] = measured(False)
    assert "WRONG" in printed(record_view(record(one)))


def many(step: str, count: int, **members: Callable[[int], Any]) -> Json:
    """A record with many rows in a step, whose members differ as specified."""
    one = device()
    (row, *_) = one[step]["rows"]
    one[step]["rows"] = [{**row, **{name: make(n) for name, make in members.items()}} for n in range(count)]
    return record(one)


def name_of(number: int) -> str:
    return f"name {number}"


@pytest.mark.parametrize(
    "make",
    [
        lambda: many("barrier", 4_000, algorithm=name_of),
        lambda: many("barrier", 4_000, groups=lambda n: n, local_size=lambda n: n),
        lambda: many("barrier", 4_000, groups=lambda n: n + 1),
        lambda: many("occupancy", 4_000, local_size=lambda n: n, lock=name_of),
        lambda: many("atomics", 1_500, operation=name_of, type=name_of),
        lambda: many("split_barrier", 4_000, local_size=lambda n: n, strategy=name_of),
        lambda: many("reduction", 4_000, groups=lambda n: n, strategy=name_of),
        lambda: record(
            *[device(facts=device()["facts"] | {"name": "(" * 100 + "1" * 180 + f"{n}"}) for n in range(60)]
        ),
    ],
    ids=["algorithms", "shapes", "groups", "occupancy", "atomics", "split barriers", "reductions", "devices"],
)
def test_a_large_record_takes_a_bounded_time(make: Callable[[], Json]) -> None:
    pytest.importorskip("matplotlib", reason="plots need matplotlib")
    value = make()
    start = time.process_time()
    read_by_all(value, plots=True)
    assert time.process_time() - start < BUDGET_S


def test_a_large_table_says_what_it_leaves_out() -> None:
    text = printed(record_view(many("barrier", 500, groups=lambda n: n + 1, algorithm=lambda _: "counter")))
    assert "300 more rows: --json has all" in text


@pytest.mark.parametrize(
    "findings",
    [
        {"barrier_table": [[1, "an algorithm of tomorrow"]]},
        {"a member of tomorrow": 1},
    ],
    ids=["algorithm", "member"],
)
def test_a_valid_record_whose_findings_are_not_understood_costs_only_its_own(
    findings: Json, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    good, odd = device(), device(facts=device()["facts"] | {"name": "Odd GPU"})
    odd["findings"] |= findings
    assert records.validate(record(odd)) == []
    for name, one in (("a", odd), ("b", good)):
        (tmp_path / f"{name}.json").write_text(records.text(record(one)))
    monkeypatch.setattr(matrix.importlib.resources, "files", lambda _: tmp_path)
    lent = list(matrix._read())
    assert [(name, facts.name) for name, facts, _, _ in lent] == [("b", good["facts"]["name"])]


def test_all_shipped_records_lend_their_findings() -> None:
    folder = matrix.importlib.resources.files("portbar.vendor_matrix")
    values = [json.loads(path.read_text()) for path in folder.iterdir() if path.name.endswith(".json")]
    expected = sum(bool(entry.get("findings")) for value in values for entry in value["devices"])
    assert len(list(matrix._read())) == expected > 0
