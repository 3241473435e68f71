"""Every record that a survey writes is one that `validate` accepts, whatever the drivers say."""

from __future__ import annotations

import json
from random import Random
from typing import Any

import pytest

from portbar import records
from portbar.device.addresses import DeviceAddress
from portbar.device.usable import Usability
from portbar.records import measured, mended
from portbar.records.scrubbing import anonymous
from portbar.survey import run as survey_run
from tests.records_support import FACTS, device, places, record

#: Texts that drivers returned, or could return.
WORDS = (
    "two\nlines\r\n\tand a tab",
    "\x1b[31mred\x1b[0m\x07",
    "Device\x00\x00",
    "\u202egnp.exe\u200b\ufeff",
    "half a pair \ud800",
    "x" * 9_000,
    "error: \n" * 2_000,
    "",
    " ",
    "write to somebody@example.org about 192.168.7.12 or fe80::1ff:fe23:4567:890a",
    "GPU-3e5c2f6a-1111-2222-3333-444455556666 on build-7.internal",
    "in /home/somebody/kernel.cl and ~/a/b.cl and C:\\Users\\somebody\\a.cl and \\\\server\\share\\a",
    "a@b.cc@d.ee /x/y@z.org 1.2.3.4.5.6.7.8 10.0.0.1",
    "see /etc/OpenCL/vendors/x.icd and https://example.org/about/this",
)
NUMBERS = (2**63 - 1, 2**63, 2**64 - 1, 10**30, 0)
FLOATS = (float("inf"), float("-inf"), float("nan"), 1e300, -1e300, 5e-324)


@pytest.mark.parametrize("text", WORDS, ids=lambda text: repr(text)[:20])
def test_a_drivers_words_are_kept_as_far_as_a_record_may_hold_them(text: str) -> None:
    one = device(
        status="partial",
        reason=text,
        facts=FACTS | {"name": text, "driver_version": text, "extensions": [text] * 3},
        usable={"usable": True, "reason": text, "remedy": text},
    )
    one["occupancy"] |= {"status": "error", "reason": text}
    one["barrier"]["rows"][1]["barrier_time"]["reason"] = text
    one["address"]["device_name"] = text
    one["findings"]["lost"] = {"loop_limit": text}
    one["probe"]["rows"][1]["result"] = measured(text)
    value = record(one)
    value["environment"]["loader"] = {"name": text, "version": text}
    made = mended(anonymous(value))
    assert records.validate(made) == []
    assert records.validate(json.loads(records.text(made))) == []
    for word in ("red", "lines", "gnp.exe", "half a pair", "xxx", "error:", "/etc/OpenCL/vendors/x.icd", "write to"):
        assert (word in text) == (word in made["devices"][0]["reason"])


def test_the_names_of_a_host_and_of_a_user_become_words(monkeypatch: pytest.MonkeyPatch) -> None:
    value = {"reason": "Ada at engine: no cache", "name": "ada", "log": ["adage", "(ada)"]}
    assert anonymous(value, "engine", "ada") == {
        "reason": "user at host: no cache",
        "name": "ada",
        "log": ["adage", "(user)"],
    }
    monkeypatch.setattr("getpass.getuser", lambda: "root")
    assert anonymous({"reason": "the root of a tree"}, "engine") == {"reason": "the root of a tree"}

    def unknown() -> str:
        raise OSError("no user")

    monkeypatch.setattr("getpass.getuser", unknown)
    assert anonymous({"reason": "ada"}, "engine") == {"reason": "ada"}


def test_valid_records_stay_unchanged() -> None:
    assert mended(record()) == record()


def test_a_long_list_of_long_names_is_cut_both_ways() -> None:
    names = ["x" * 400] * 2_500
    made = mended(record(device(facts=FACTS | {"extensions": names, "svm_capabilities": names, "a/b~c": names})))
    assert records.validate(made) == []
    facts = made["devices"][0]["facts"]
    for name in ("extensions", "svm_capabilities"):
        assert [len(one) for one in facts[name]] == [300] * 2_000


def test_numbers_beyond_what_a_record_holds_are_the_largest_that_it_does() -> None:
    sizes = {"global_mem_size": 2**64 - 1, "max_work_item_sizes": [2**64 - 1, 1, 1]}
    made = mended(record(device(facts=FACTS | sizes)))
    assert records.validate(made) == []
    assert made["devices"][0]["facts"]["global_mem_size"] == 2**63 - 1


def test_a_time_that_is_not_a_number_is_an_error() -> None:
    one = device()
    one["barrier"]["rows"][0]["barrier_time"] = measured(float("inf"), "us", [1.0, float("nan")])
    one["reduction"]["rows"][0]["time"] |= {"mean": float("nan"), "samples": [90.5, float("inf")]}
    made = mended(record(one))
    assert records.validate(made) == []
    assert made["devices"][0]["barrier"]["rows"][0]["barrier_time"] == {
        "status": "error",
        "reason": "the measurement gave inf",
    }
    assert made["devices"][0]["reduction"]["rows"][0]["time"] == {"value": 5.0, "unit": "us", "samples": [90.5]}


@pytest.mark.parametrize("seed", range(60))
def test_any_text_and_any_count_may_be_anything(seed: int) -> None:
    """Only texts that drivers and systems give, and only the sort of value that belongs there."""
    random = Random(seed)  # noqa: S311
    value = record()
    for way in places(value):
        *above, last = way
        holder: Any = value
        for part in above:
            holder = holder[part]
        free = last in {"reason", "remedy", "fault", "workaround", "note"} or (
            len(way) > 2 and way[2] in {"facts", "address"} and last != "type"
        )
        if free and isinstance(holder[last], str) and random.random() < 0.3:
            holder[last] = random.choice(WORDS)
        elif isinstance(holder[last], int) and way[2:3] == ("facts",) and type(holder[last]) is int:
            holder[last] = random.choice(NUMBERS)
        elif last == "value" and isinstance(holder[last], float) and random.random() < 0.5:
            holder[last] = random.choice(FLOATS)
    assert records.validate(mended(anonymous(value, ""))) == []


def test_a_survey_of_a_driver_that_says_anything_writes_valid_records(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whole surveys: each state of the record, and devices that fail in every way before anything is measured."""
    monkeypatch.setattr(survey_run, "facts", lambda words: survey_run.DeviceFacts(name=words, driver_version=words))
    monkeypatch.setattr(survey_run.quirks, "matching", lambda *_: ())
    verdicts = iter([Usability(False, words, words, 0.1) for words in WORDS] * 2)

    def check(*_where: object, **_how: object) -> Usability:
        verdict = next(verdicts)
        if len(verdict.reason) % 2:
            raise survey_run.Error(verdict.reason)
        return verdict

    monkeypatch.setattr(survey_run, "check", check)
    states: list[dict[str, Any]] = []
    survey = survey_run.Survey(survey_run.Job(devices=["\x1b[31m"]), on_step=lambda *_: states.append(survey.record))
    states.append(survey.run([(DeviceAddress(0, 0, words, words, words), words) for words in WORDS]))
    assert len(states) > len(WORDS)
    for state in states:
        assert records.validate(state) == []
