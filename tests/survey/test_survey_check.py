"""`portbar survey --check`: a machine against a record of it, what counts as worse, and the words for it."""

from __future__ import annotations

import json
from copy import deepcopy
from types import SimpleNamespace

import pytest
from click.testing import CliRunner

from portbar import records
from portbar.cli import cli, survey_check
from portbar.device.addresses import address_of
from portbar.errors import DeviceError, RecordError
from portbar.records import measured, missing
from portbar.survey.report.compare import compare
from portbar.survey.run import Job
from tests.checkout import portbar
from tests.report_support import MEASURED, both, device, groups, published, put, record, times, without


def changed(change):
    """An entry like the stored one but for `change`."""
    new = deepcopy(device())
    change(new)
    return new


def judged(change=lambda _: None):
    return compare(record(device()), record(changed(change)), 2.0, only_used=True)


def said(item):
    return f"{item.path}: {item.text}"


def row(entry, step, **values):
    return next(one for one in entry[step]["rows"] if all(one[name] == value for name, value in values.items()))


def slower(step, name, times_as_long, **values):
    def change(entry):
        one = row(entry, step, **values)
        unit = one[name]["unit"]
        one[name] = times(times_as_long * one[name]["value"], unit)

    return change


def fewer_groups(entry):
    for one in entry["occupancy"]["rows"]:
        if one["lock"] == "packed" and one["patience"]:
            one["occupancy"] = measured(2, "work-groups")


def spin_finds_nothing(entry):
    for one in entry["occupancy"]["rows"]:
        if one["lock"] != "packed" or not one["patience"]:
            one["found"] = groups(1, 1, 1, 1, 1)


def no_float(entry):
    row(entry, "atomics", type="float", space="local")["result"] = missing("error", "it does not compile")


SLOW = slower("reduction", "time", 3, strategy="sub_group", level="device")
USELESS = {"usable": False, "reason": "the compiler crashed", "remedy": "another driver"}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (fewer_groups, "occupancy / local size 64, 16 bytes / occupancy: 8 work-groups -> 2 work-groups, 4 times less"),
        (slower("barrier", "barrier_time", 3, groups=8, algorithm="counter"), None),
        (
            both(
                *(slower("barrier", "barrier_time", 3, groups=8, algorithm=one) for one in ("counter", "flag", "tree"))
            ),
            "barrier / as used, 8 groups of 64 / barrier_time: 1.414 us -> 4.243 us, 3 times slower",
        ),
        (
            slower("barrier", "relaunch_time", 3, groups=1, algorithm="counter"),
            "of 64 / relaunch_time: 6 us -> 18 us, 3 times slower",
        ),
        (
            put(("barrier", "rows", -2, "barrier_time", missing("crash", "ended by SIGSEGV"))),
            "barrier / flag, 8 groups of 64 / barrier_time: lost: works -> crash (ended by SIGSEGV)",
        ),
        (no_float, "atomics / fetch_add, float, local / result: lost: yes -> error (it does not compile)"),
        (put(("litmus", "rows", 0, "verdict", measured("fail"))), "litmus / c11 / verdict: pass -> fail"),
        (
            put(("findings", "progress", "work_groups", "none"), ("probe", "rows", 2, "result", measured("none"))),
            "findings / progress work_groups: independent -> none",
        ),
        (
            both(without(*MEASURED), put(("status", "unusable"), ("usable", USELESS))),
            "status / status: complete -> unusable (the compiler crashed)",
        ),
        (slower("split_barrier", "time", 3, strategy="counter"), "split_barrier / as used, local size 64 / time"),
        (slower("reduction", "time", 3, strategy="sub_group", level="device"), "reduction / as used, device add float"),
        (
            slower("occupancy", "launch_time", 3, lock="packed", patience=True),
            "occupancy / packed, local size 64, 16 bytes / launch_time",
        ),
        (slower("occupancy", "launch_time", 3, lock="spin", patience=True), None),
        (slower("split_barrier", "time", 3, strategy="uniform"), None),
        (slower("reduction", "time", 3, strategy="tree", level="device"), None),
        (spin_finds_nothing, None),
    ],
)
def test_used_values_count_and_name_what_became_worse(change, words):
    worse = [said(item) for item in judged(change).regressions]
    if words is None:
        # Of three algorithms another is nearly as fast; the other locks and strategies are not used.
        assert worse == []
    else:
        assert any(words in one for one in worse), worse


def test_a_number_is_worse_only_if_it_is_when_measured_again():
    first = judged(both(SLOW, no_float))
    assert len(first.regressions) == 2
    kept = first.confirmed_by(judged())
    assert ["lost" in item.text for item in kept.regressions] == [True]
    assert any("not so when measured again" in item.text for item in kept.differences)
    assert len(first.confirmed_by(judged(SLOW)).regressions) == 2


@pytest.fixture
def check(monkeypatch, tmp_path, capsys):
    """Run the check of a stored record on a made-up machine; each survey gives the next of `measurements`."""

    def run(stored, *measurements, devices=(), as_json=False):
        (tmp_path / "record.json").write_text(records.text(stored), encoding="utf-8")
        here = [(entry["address"], entry) for entry in measurements[0]["devices"]]
        monkeypatch.setattr(survey_check, "chosen", lambda _patterns: here)
        monkeypatch.setattr(survey_check, "facts", lambda entry: SimpleNamespace(to_json=lambda: entry["facts"]))
        given = iter(measurements)
        asked = []

        def survey(chosen, *, quick, keep):
            # The record that `-o` keeps is that of all devices.
            assert keep == (not asked)
            asked.append((len(chosen), quick))
            return next(given)

        job = Job(devices=tuple(devices))
        status = survey_check.run(str(tmp_path / "record.json"), 2.0, job, survey, as_json=as_json)
        out, err = capsys.readouterr()
        return status, out, err, asked

    return run


def second(**changes):
    entry = device("Second GPU")
    entry["address"] |= {"device_index": 1, "device_name": "Second GPU"}
    return entry | changes


def test_a_good_machine_is_surveyed_once_as_the_record_was(check):
    stored = record()
    stored["invocation"]["quick"] = True
    status, out, _, asked = check(stored, record())
    assert (status, asked) == (0, [(1, True)])
    assert "0 worse, 0 better, 0 otherwise different" in out


def test_only_what_is_slower_is_measured_again(check):
    stored = record(device(), second())
    status, out, err, asked = check(stored, record(changed(SLOW), second()), record(device()))
    assert (status, asked) == (0, [(2, False), (1, False)])
    assert "0 worse, 0 better, 1 otherwise different" in out
    assert "once more" in err


def test_a_fault_is_status_1_and_a_sentence(check):
    status, out, _, asked = check(record(), record(changed(SLOW)), record(changed(SLOW)))
    assert (status, len(asked)) == (1, 2)
    assert "0:0 Test GPU (Test platform, OpenCL 3.0 Test)\n" in out
    assert "worse   as used, device add float, 4        2.5 us" in out
    assert "1 worse" in out


def test_a_lost_capability_is_not_measured_again(check):
    status, out, _, asked = check(record(), record(changed(no_float)), as_json=True)
    assert (status, len(asked)) == (1, 1)
    (result,) = json.loads(out)
    assert (result["new"], result["regressions"]) == ("this machine", 1)
    assert any("it does not compile" in one["text"] for one in result["differences"])


def test_a_device_that_is_gone_is_a_fault_unless_it_did_not_work_or_others_were_asked_for(check):
    stored = record(device(), second())
    status, out, _, _ = check(stored, record())
    assert status == 1
    assert "only in the old record: Second GPU (Test platform, 1.0)" in " ".join(out.split())
    assert check(stored, record(), devices=["Test GPU"])[0] == 0
    assert check(record(device(), second(status="unusable")), record())[0] == 0


def test_a_record_without_a_counterpart_is_an_error(check):
    with pytest.raises(DeviceError, match=r"Test GPU .* `portbar doctor`"):
        check(record(), record(device("Something else")))
    with pytest.raises(DeviceError, match=r"among those that --device selects: Test GPU"):
        check(record(), record(device("Something else")), devices=["else"])
    with pytest.raises(RecordError, match="cannot be checked"):
        check(published("GPU", "A vendor", 8, 64, 16.0, 64.0), record())


def test_an_interrupted_check_judges_nothing(check):
    cut = record(changed(no_float)) | {"interrupted": True}
    status, out, err, _ = check(record(), cut)
    assert (status, out) == (130, "")
    assert "nothing was compared" in err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--factor", "2"), "--factor requires --check"),
        (("--check", "x", "--dask", "local"), "use one of them"),
        (("--check", "no such record"), "--check"),
        (("--check", "x", "-o", "records/"), "not a folder"),
        (("--dask", "local"), "-o DIR/"),
        (("-o", "{host}/x.json"), "last part"),
        (("--check", "x", "--factor", "0.5"), "--factor"),
    ],
)
def test_wrong_usage_says_what_is_wrong(arguments, message):
    done = CliRunner().invoke(cli, ["survey", *arguments])
    assert (done.exit_code, done.stdout) == (2, "")
    assert message in " ".join(done.stderr.split())


@pytest.mark.once
@pytest.mark.device
@pytest.mark.slow
def test_a_machine_is_checked_against_its_own_record(device, tmp_path):
    """Times may be anything on a busy machine, so the factor is large; the second check always finds a loss."""
    address = address_of(device)
    stored, selector = tmp_path / "record.json", f"{address.platform_index}:{address.device_index}"

    def survey(*arguments):
        return portbar("survey", "--quick", "--timeout", 8, "--json", "-d", selector, *arguments, timeout=100)

    made = survey("-o", stored)
    record = records.load(stored)
    (entry,) = record["devices"]
    if entry["status"] == "refused":
        pytest.skip("portbar refuses this device")
    assert made.returncode in {0, 1, 4}, made.stderr
    lost = next((row for row in entry["probe"]["rows"] if row["result"] == measured(False)), None)
    if lost is None:
        pytest.skip("there is nothing that this device lacks")
    lost["result"] = measured(True)
    stored.write_text(records.text(record), encoding="utf-8")
    done = survey("--check", stored, "--factor", 1000)
    assert done.returncode == 1, done.stderr
    (result,) = json.loads(done.stdout)
    worse = [one for one in result["differences"] if one["mark"] == "regression"]
    assert all(one["device"].startswith(f"{selector} {device.name.strip()} (") for one in worse), worse
    assert any(lost["probe"] in one["path"] for one in worse), worse
