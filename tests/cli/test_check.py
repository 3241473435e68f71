"""`portbar check`: its table, its JSON, its exit statuses."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import pytest

from portbar.cli import check as command_module
from portbar.cli import selected
from portbar.device.facts import DeviceFacts
from portbar.errors import DeviceError, Error
from portbar.records.reading import NO_TIME
from portbar.survey.litmus import CheckResult
from portbar.survey.litmus.results import blank, verdict_of
from portbar.survey.litmus.running import NAMES
from tests.cli.support import FAILS, GOOD, WORKS

Run = Callable[..., tuple[int, str, str]]


def one(name: str, status: str, **more: Any) -> dict[str, Any]:
    return {**blank(name, "c11", 7), "status": status, **more}


PASSED = one(
    "MP-work_group-global-fences", "pass", instances=123_456_789, outcomes={"r0=0 r1=-": 123_456_788, "r0=1 r1=1": 1}
)
SKIPPED = one("IRIW-device-global-ops", "skipped", reason="needs 4 concurrent work-groups, the device runs 2")
FAILED = one(
    "SB-device-global-ops",
    "fail",
    instances=1000,
    outcomes={"r0=1 r1=1": 988, "r0=0 r1=0": 12},
    forbidden={"r0=0 r1=0": 12},
    reason="12 of 1000 forbidden (seed 7)",
)


class FakeDevice:
    """Stands in for the measurement: records what it was asked for, and what was stored."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.results: list[dict[str, Any]] = [PASSED, SKIPPED]
        self.verdict, self.fault = WORKS, ""
        self.asked: dict[str, Any] = {}
        self.stored: dict[str, str] = {}
        where = {"platform_name": GOOD.platform_name, "platform_version": GOOD.platform_version}
        facts = DeviceFacts(name=GOOD.device_name, **where)
        monkeypatch.setattr(selected, "chosen", lambda _: [(GOOD, GOOD)])
        monkeypatch.setattr(selected, "facts", lambda _: facts)
        monkeypatch.setattr(selected, "check", lambda _: self.verdict)
        monkeypatch.setattr(command_module, "check", self.check)
        monkeypatch.setattr(command_module, "store_verdicts", lambda _, verdicts: self.stored.update(verdicts))

    def check(self, _device: object, **asked: Any) -> CheckResult:
        if self.fault:
            raise Error(self.fault)
        self.asked = asked
        for result in self.results:
            asked["on_progress"]({"begin": [result["strategy"], result["test"]]})
            asked["on_progress"]({"result": result})
        return CheckResult(
            device=GOOD.device_name,
            platform=GOOD.platform_name,
            seed=7,
            budget_s=asked["seconds"],
            seconds=1.25,
            chosen="c11",
            complete=True,
            verdicts={"c11": verdict_of(self.results)},
            results=tuple(self.results),
        )


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> FakeDevice:
    return FakeDevice(monkeypatch)


def test_table_fits_and_gives_the_verdict_and_its_reasons(portbar_command: Run, fake: FakeDevice) -> None:
    code, out, err = portbar_command("check")
    assert code == 0
    assert max(map(len, out.splitlines())) <= 80
    assert "A Device [x]" in out
    assert re.search(r"123,456,789 +0 +pass", out)
    assert "needs 4 concurrent" in out
    assert "c11: pass: 1 tests, 123,456,789 instances, 1 skipped (seed 7)" in out
    assert "litmus tests for about 22 s" in err
    assert fake.stored == {"c11": "pass: 1 tests, 123,456,789 instances, 1 skipped (seed 7)"}


def test_a_forbidden_outcome_is_status_1_and_is_stored(portbar_command: Run, fake: FakeDevice) -> None:
    fake.results.append(FAILED)
    code, out, err = portbar_command("check", "--outcomes")
    assert code == 1
    assert "c11 SB-device-global-ops: r0=1 r1=1: 988, r0=0 r1=0: 12 (forbidden)" in out
    assert fake.stored["c11"] == "fail: SB-device-global-ops: 12 of 1000 forbidden (seed 7)"
    assert "c11 SB-device-global-ops: fail" in err


def test_nothing_is_stored_with_no_store(portbar_command: Run, fake: FakeDevice) -> None:
    code, out, _ = portbar_command("check", "--no-store", "--json")
    (entry,) = json.loads(out)
    assert (code, entry["status"], entry["stored"]) == (0, "pass", False)
    assert entry["check"]["schema"] == "portbar-check"
    assert [result["test"] for result in entry["check"]["results"]] == [PASSED["test"], SKIPPED["test"]]
    assert fake.stored == {}


def test_a_check_without_a_verdict_does_not_say_that_it_stored_one(portbar_command: Run, fake: FakeDevice) -> None:
    fake.results = [one("MP-work_group-global-ops", "timeout", reason=NO_TIME)]
    code, out, _ = portbar_command("check")
    assert (code, fake.stored) == (4, {})
    assert "c11: untested" in out
    assert "verdicts not stored" in out


def test_options_reach_the_check(portbar_command: Run, fake: FakeDevice) -> None:
    portbar_command("check", "--seed", 9, "--strategy", "cl12", "-s", "c11", "--test", "MP", "-t", "SB-*")
    assert 20 < fake.asked["seconds"] <= 22
    assert (fake.asked["seed"], fake.asked["strategies"], fake.asked["tests"]) == (9, ("cl12", "c11"), ("MP", "SB-*"))
    portbar_command("check", "--seconds", 1000)
    assert 990 < fake.asked["seconds"] <= 1000
    assert (fake.asked["seed"], fake.asked["strategies"], fake.asked["tests"]) == (None, None, None)


@pytest.mark.parametrize(
    ("result", "status", "code"),
    [
        (one("LOOK-BACK", "crash", reason="gone"), "error", 1),
        (one("LOOK-BACK", "error", reason="it does not compile"), "error", 1),
        (one("LOOK-BACK", "timeout", reason="it did not end in time"), "timeout", 4),
        (one("LOOK-BACK", "skipped", reason=NO_TIME), "timeout", 4),
        (one("LOOK-BACK", "unfinished"), "pass", 0),
    ],
    ids=["crash", "refused", "hang", "no time", "unfinished"],
)
def test_exit_status_shows_the_kind_of_failure(
    portbar_command: Run, fake: FakeDevice, result: dict[str, Any], status: str, code: int
) -> None:
    fake.results.append(result)
    left, out, _ = portbar_command("check", "--json")
    assert (left, json.loads(out)[0]["status"]) == (code, status)


def test_a_device_that_does_not_work_is_status_3(portbar_command: Run, fake: FakeDevice) -> None:
    fake.verdict = FAILS
    code, out, err = portbar_command("check")
    assert code == 3
    assert "unknown target CPU" in out
    assert "unknown target CPU" in err


def test_a_refusal_is_status_1_with_its_reason(portbar_command: Run, fake: FakeDevice) -> None:
    fake.fault = "atomics strategy ptx does not build on A Device"
    code, out, _ = portbar_command("check", "--json", "--strategy", "ptx")
    assert code == 1
    assert json.loads(out)[0]["reason"] == fake.fault


def test_list_names_every_test_and_its_forbidden_outcome(portbar_command: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing(_patterns: object) -> None:
        raise DeviceError("no platform")

    monkeypatch.setattr(selected, "chosen", nothing)
    code, out, _ = portbar_command("check", "--list", "--json")
    listed = json.loads(out)
    assert code == 0
    assert [entry["test"] for entry in listed] == list(NAMES)
    assert all(entry["forbidden"] and entry["why"] for entry in listed)
    code, out, _ = portbar_command("check", "--list", "--test", "SB")
    assert out.count("forbidden: r0=0 r1=0") == 2
    assert max(map(len, out.splitlines())) <= 80


@pytest.mark.device
@pytest.mark.slow
def test_the_device_under_test_passes_a_short_check(portbar_command: Run, selector: str) -> None:
    tests = ("--test", "CoRR", "-t", "MP-device-local")
    code, out, err = portbar_command("check", "-d", selector, "--seconds", 8, *tests, "--no-store", "--json")
    (entry,) = json.loads(out)
    results = entry["check"]["results"]
    # A busy machine may take all of the time for compiling.
    assert code == (4 if any(result["reason"] == NO_TIME for result in results) else 0), err
    assert entry["device"] == selector
    assert {result["status"] for result in results} <= {"pass", "skipped"}
