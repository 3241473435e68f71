"""Processors borrow times from records of equal processors only, and each report names the owner of the times."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest

import portbar
from portbar.backends import host_threads
from portbar.choices import advice, profile
from portbar.choices.strategy import VARIABLE, choose
from portbar.cli import devices as devices_command
from portbar.cli import doctor
from portbar.device import costs, matrix
from portbar.device.addresses import DeviceAddress
from portbar.device.costs import Costs, known_costs
from portbar.device.facts import DeviceFacts, device_key
from portbar.device.findings import CACHE_KIND, Findings
from portbar.device.usable import Usability
from portbar.records import cache
from portbar.survey.measuring import barrier_table
from tests.survey.support import barrier_row

SURVEYED = DeviceFacts(
    platform_name="A runtime",
    platform_version="OpenCL 3.0 A runtime 3.1",
    driver_version="3.1",
    name="Maker Model 9",
    type=("CPU",),
    compute_units=2,
    opencl_c_versions=("1.2", "3.0"),
    atomic_memory_capabilities=("relaxed", "acq_rel", "scope_work_group", "scope_device"),
)
TABLE = ((1, 1, "counter"), (64, 1, "flag"))
MEASURED = Findings(
    builds={"c11@CL3.0": True, "x86_pause": True},
    ordering={"c11": "pass"},
    groups_in_flight=2,
    barrier_table=TABLE,
    source="probed",
)
SLUG = "a-runtime--maker-model-9--3.1"
RECORD = f"vendor matrix record {SLUG}"

SAME = SURVEYED
OTHER_MODEL = replace(SURVEYED, name="Maker Model 7")
OTHER_VENDOR = replace(SURVEYED, name="Rival One")
NO_RECORD = replace(SURVEYED, name="Rival One", platform_name="Another runtime")

#: Times of the record: a barrier of 0.1 us, and launches of 3.
ROWS = [barrier_row([0.1, 0.1, 0.1], local_size=size, groups=2) for size in (1, 64)]


@pytest.fixture(autouse=True)
def one_record(monkeypatch, tmp_path):
    """A matrix with the record of one processor, on a machine that can pause."""
    monkeypatch.delenv(VARIABLE, raising=False)
    monkeypatch.setenv("PORTBAR_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(matrix, "_records", lambda: ((SLUG, SURVEYED, "x86_64", MEASURED),))
    monkeypatch.setattr(matrix, "host_architecture", lambda: "x86_64")
    monkeypatch.setattr(host_threads, "processor", lambda: host_threads.PROCESSORS[0])
    entry = {"facts": SURVEYED.to_json(), "barrier": {"rows": ROWS}}
    monkeypatch.setattr(costs, "find", lambda _: SimpleNamespace(record={"devices": [entry]}))
    profile.forget()
    yield
    profile.forget()


def probed_here(facts: DeviceFacts, **more):
    """Store findings of this machine, without a table."""
    own = replace(MEASURED, barrier_table=(), source="probed here", **more)
    cache.store(CACHE_KIND, device_key(facts), own.to_json())
    profile.forget()


def rejected_here(monkeypatch, facts: DeviceFacts) -> bool:
    """Let a survey of this machine measure times that vary; whether it stored a table."""
    monkeypatch.setattr(barrier_table, "facts", lambda _: facts)
    monkeypatch.setattr(profile, "facts", lambda _: facts)
    busy = barrier_row([0.1, 30.0, 40.0], local_size=64, groups=2)
    return barrier_table.keep_table(SimpleNamespace(name=facts.name), [busy], quick=False)


def chosen(facts: DeviceFacts, groups: int = 2, local_size: int = 64):
    return choose(profile.profile_of(facts)).for_groups(groups, local_size)


def replace_table(facts: DeviceFacts, table):
    known = profile.profile_of(facts)
    return replace(known, findings=replace(known.findings, barrier_table=table))


def advised(monkeypatch, facts: DeviceFacts, **more):
    monkeypatch.setattr(advice, "describe", lambda _: profile.profile_of(facts))
    monkeypatch.setattr(advice, "device_of", lambda _, device: device)
    return portbar.advise(SimpleNamespace(), **({"work_per_iteration": 2e-6, "local_size": 64} | more))


def test_the_same_processor_borrows_the_table_and_the_times(monkeypatch):
    strategy = chosen(SAME)
    assert strategy.device_barrier.value == "flag"
    assert f"measured fastest on such a device ({RECORD})" in strategy.device_barrier.reason
    found = known_costs(SAME)
    assert found is not None
    assert (found.source, found.doubtful) == (RECORD, False)
    assert "another processor" not in profile.profile_of(SAME).findings.source
    small = choose(replace_table(SAME, TABLE[:1])).device_barrier
    assert small.reason.endswith(f"the barrier times measured on such a device ({RECORD}) favour no other")
    assert advised(monkeypatch, SAME).verdict == "one kernel"


@pytest.mark.parametrize("facts", [OTHER_MODEL, OTHER_VENDOR], ids=["other model", "other vendor"])
@pytest.mark.parametrize("local_size", [1, 64, 256])
def test_another_processor_borrows_no_table(facts, local_size):
    strategy = chosen(facts, local_size=local_size)
    assert strategy.tuning.table == ()
    assert strategy.device_barrier.value == "counter_backoff"
    assert "degrades least" in strategy.device_barrier.reason
    assert "no barrier times are stored" in strategy.device_barrier.reason
    # Atomics and compile results hold for all processors of an architecture.
    found = profile.profile_of(facts).findings
    assert (found.ordering, found.builds) == (MEASURED.ordering, MEASURED.builds)
    assert found.source == f"{RECORD} (Maker Model 9, another processor; never probed on this machine)"
    assert "another processor" in strategy.atomics.reason


@pytest.mark.parametrize("facts", [OTHER_MODEL, OTHER_VENDOR], ids=["other model", "other vendor"])
def test_times_of_another_processor_are_named_and_decide_by_a_factor_of_two(monkeypatch, facts):
    found = advised(monkeypatch, facts)
    assert found.source == f"times of Maker Model 9's record, another processor: {RECORD}"
    assert 1.1 < found.speedup < 2
    assert found.verdict == "either"
    assert "less than a factor of two decides nothing" in found.reason
    assert "do not recover" not in found.reason
    small = advised(monkeypatch, facts, work_per_iteration=1e-7, iterations=10_000)
    assert small.speedup > 2
    assert small.verdict == "one kernel"


def test_without_a_record_nothing_is_borrowed(monkeypatch):
    assert profile.profile_of(NO_RECORD).findings is None
    # No pause was seen to compile, without which the other algorithm is the same.
    assert chosen(NO_RECORD).device_barrier.value == "counter"
    probed_here(NO_RECORD)
    strategy = chosen(NO_RECORD)
    assert (strategy.device_barrier.value, strategy.tuning.table) == ("counter_backoff", ())
    assert "no barrier times are stored" in strategy.device_barrier.reason
    with pytest.raises(portbar.RecordError, match=r"no barrier times of Rival One are known: "):
        advised(monkeypatch, NO_RECORD)


@pytest.mark.parametrize("facts", [SAME, OTHER_VENDOR, NO_RECORD], ids=["same", "other vendor", "no record"])
def test_own_times_that_were_rejected_are_named_and_no_table_is_borrowed(monkeypatch, facts):
    """The machine was seen to be busy, unlike those of records."""
    probed_here(facts)
    assert not rejected_here(monkeypatch, facts)
    found = profile.profile_of(facts).findings
    assert "were rejected as unsteady" in found.times_rejected
    assert found.barrier_table == ()
    strategy = chosen(facts)
    assert strategy.device_barrier.value == "counter_backoff"
    assert found.times_rejected in strategy.device_barrier.reason
    assert found.origin.endswith(found.times_rejected)
    if facts is NO_RECORD:
        with pytest.raises(
            portbar.RecordError, match=r"are known \(barrier times measured on .* rejected as unsteady\)"
        ):
            advised(monkeypatch, facts)
        return
    said = advised(monkeypatch, facts)
    assert said.source.endswith(f"; {found.times_rejected}")
    assert ("another processor" in said.source) == (facts is not SAME)
    assert said.verdict == "either"


def test_a_table_of_this_machine_outlasts_times_that_vary_and_replaces_rejected_ones(monkeypatch):
    probed_here(SAME)
    rejected_here(monkeypatch, SAME)
    device = SimpleNamespace(name=SAME.name)
    steady = [barrier_row([0.1, 0.1, 0.1], local_size=64, groups=2, algorithm=name) for name in ("tree",)]
    assert barrier_table.keep_table(device, steady, quick=False)
    stored = profile.stored_findings(SAME)
    assert (stored.barrier_table, stored.times_rejected) == (((64, 2, "tree"),), None)
    assert not rejected_here(monkeypatch, SAME)
    assert profile.stored_findings(SAME) == stored
    assert chosen(SAME).device_barrier.value == "tree"


def test_a_borrowed_table_is_no_earlier_survey_of_this_machine(monkeypatch):
    """Among times that differ little, a survey keeps what the last one chose, but not what a record chose."""
    probed_here(SAME)
    assert profile.profile_of(SAME).findings.barrier_table == TABLE
    monkeypatch.setattr(barrier_table, "facts", lambda _: SAME)
    monkeypatch.setattr(profile, "facts", lambda _: SAME)
    rows = [
        barrier_row([us, us, us], local_size=64, groups=1, algorithm=name)
        for name, us in (("counter", 0.1), ("flag", 0.11))
    ]
    assert barrier_table.keep_table(SimpleNamespace(name=SAME.name), rows, quick=True)
    assert profile.stored_findings(SAME).barrier_table == ((64, 1, "counter"),)


def test_a_record_s_own_rejection_is_not_lent(monkeypatch):
    spoilt = replace(MEASURED, times_rejected="of yesterday")
    monkeypatch.setattr(matrix, "_records", lambda: ((SLUG, SURVEYED, "x86_64", spoilt),))
    found = matrix.nearest(SAME)
    assert found is not None
    assert found.times_rejected is None


def test_the_record_of_the_same_processor_comes_first_then_one_of_the_same_size(monkeypatch):
    def known(slug, **changes):
        return slug, replace(SURVEYED, **changes), "x86_64", MEASURED

    nearer = {"driver_version": "3.1.9"}
    records = (
        known("other", name="Rival One", **nearer),
        known("bigger", compute_units=16, **nearer),
        known("same", driver_version="3.1.0"),
    )
    for count, slug in ((3, "same"), (2, "bigger"), (1, "other")):
        monkeypatch.setattr(matrix, "_records", lambda count=count: records[:count])
        found = matrix.nearest(replace(SAME, driver_version="3.1.9"))
        assert found is not None
        assert matrix.record_named(found.source) == f"vendor matrix record {slug}"


def test_findings_keep_why_times_were_rejected():
    noted = replace(MEASURED, times_rejected="they vary")
    assert Findings.from_json(noted.to_json()) == noted
    assert "times_rejected" not in MEASURED.to_json()


def test_costs_that_are_kept_are_not_in_doubt():
    assert not Costs.from_json(Costs(known_costs(SAME).shapes, "measured here").to_json()).doubtful


@pytest.mark.parametrize(
    ("facts", "said"),
    [
        (SAME, ""),
        (OTHER_VENDOR, "another processor"),
    ],
    ids=["same", "other vendor"],
)
def test_devices_and_doctor_say_whose_findings_are_used(facts, said, capsys):
    address, usable = (
        DeviceAddress(0, 0, "A runtime", facts.name),
        Usability(usable=True, reason="", remedy="", seconds=0.1),
    )
    entry = devices_command._device(address, facts, usable)
    assert bool(entry["doubt"]) == bool(said)
    assert said in entry["doubt"]
    assert RECORD in entry["findings"]
    devices_command._show({"devices": [entry], "empty_platforms": []})
    assert ("works, with findings of:" in capsys.readouterr().out) == bool(said)
    entry = doctor._device(address, facts, usable)
    assert entry["device_barrier_reason"] == choose(profile.profile_of(facts)).device_barrier.reason
    doctor._show_state(entry)
    shown = " ".join(capsys.readouterr().out.split())
    assert said in shown
    assert f"device barrier because: {entry['device_barrier_reason']}" in shown
