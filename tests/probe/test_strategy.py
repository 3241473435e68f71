"""Choosing a strategy from facts and findings: each choice has a reason, each refusal too, and overrides win or are refused."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from portbar.arrays import shape as host_shape
from portbar.arrays import sort
from portbar.arrays.scan_source import TILES
from portbar.choices.strategy import ALTERNATIVES, VARIABLE, DeviceProfile, choose
from portbar.device import quirks
from portbar.device.facts import DeviceFacts
from portbar.device.findings import Findings
from portbar.device.quirks.entry import Quirk
from portbar.errors import UnsupportedFeatureError
from portbar.primitives.device_barrier import pauses_between_polls
from portbar.primitives.headers import render_header
from portbar.survey.litmus.sizes import Scale

CLAIMS = ("relaxed", "acq_rel", "scope_work_group", "scope_device")

STRONG = DeviceFacts(
    name="Strong", type=("CPU",), opencl_c_versions=("1.2", "2.0", "3.0"), atomic_memory_capabilities=CLAIMS
)
WEAK = DeviceFacts(
    name="Weak",
    type=("GPU",),
    opencl_c_versions=("1.2", "3.0"),
    atomic_memory_capabilities=("relaxed", "scope_work_group"),
)
OLD = DeviceFacts(name="Old", opencl_c_versions=("1.2",))
HOPPER = DeviceFacts(name="Hopper", opencl_c_versions=("1.2", "3.0"), nvidia={"compute_capability_major": 9})
PASCAL = DeviceFacts(name="Pascal", opencl_c_versions=("1.2", "3.0"), nvidia={"compute_capability_major": 6})


@pytest.fixture(autouse=True)
def no_overrides_from_outside(monkeypatch):
    monkeypatch.delenv(VARIABLE, raising=False)


def findings(**values):
    return Findings(**{"source": "test", **values})


def passed(*names, ordering=None, **more):
    """Return findings of a device on which atomics build, and hold their order unless `ordering` says otherwise."""
    builds = {"c11@CL3.0" if name == "c11" else name: True for name in names}
    return findings(builds=builds, ordering=dict.fromkeys(names, "pass") | (ordering or {}), **more)


def refusal(facts, found=None, **overrides):
    with pytest.raises(UnsupportedFeatureError) as caught:
        choose(DeviceProfile(facts, found), overrides)
    return str(caught.value)


@pytest.mark.parametrize(
    ("facts", "found", "atomics", "std", "words"),
    [
        (STRONG, None, "c11", "CL3.0", "claims"),
        (STRONG, passed("c11"), "c11", "CL3.0", "confirmed by the ordering"),
        (STRONG, findings(builds={"c11@CL3.0": False, "c11@CL2.0": True}), "c11", "CL2.0", "not yet probed"),
        (WEAK, passed("cl12"), "cl12", None, "ordering probe"),
        (OLD, passed("cl12"), "cl12", None, "ordering probe"),
        (WEAK, passed("c11", "cl12"), "cl12", None, "ordering probe"),
        (WEAK, passed("c11", litmus={"c11": "pass: 28 tests"}), "c11", "CL3.0", "litmus tests"),
        (HOPPER, None, "ptx", None, "PTX memory model"),
        (HOPPER, passed("ptx", ordering={"cl12": "pass"}), "ptx", None, "ordering probe"),
        (HOPPER, findings(builds={"ptx": False}, ordering={"cl12": "pass"}), "cl12", None, "ordering probe"),
        (PASCAL, passed("membar"), "membar", None, "ordering probe"),
        (PASCAL, findings(ordering={"membar": "3 stale", "cl12": "pass"}), "cl12", None, "ordering probe"),
        (HOPPER, findings(builds={"ptx": False, "membar": True}, ordering={"membar": "pass"}), "membar", None, "probe"),
        (STRONG, passed("c11", ordering={"c11": "3 stale", "cl12": "pass"}), "cl12", None, "probe"),
    ],
)
def test_atomics_follow_facts_and_findings_with_a_reason(facts, found, atomics, std, words):
    strategy = choose(DeviceProfile(facts, found))
    assert strategy.atomics.value == atomics
    assert strategy.capabilities.std == std
    assert words in strategy.atomics.reason


def test_a_claim_without_a_compile_is_not_enough():
    found = findings(builds={"c11@CL3.0": False, "c11@CL2.0": False})
    assert "no -cl-std with C11 atomics compiles" in refusal(STRONG, found)


@pytest.mark.parametrize("facts", [WEAK, OLD, PASCAL, DeviceFacts()])
def test_a_device_with_unconfirmed_ordering_is_refused_with_the_remedy(facts):
    message = refusal(facts)
    assert facts.name in message
    assert "portbar survey" in message
    for name in ALTERNATIVES["atomics"]:
        assert f"{name}: " in message


@pytest.mark.parametrize("verdict", ["12 of 4096 reads were stale", "crash", "timeout"])
def test_a_failed_ordering_probe_outweighs_every_claim(verdict):
    found = findings(builds={"c11@CL3.0": True, "cl12": True}, ordering={"c11": verdict, "cl12": verdict})
    assert verdict in refusal(STRONG, found)
    found = findings(builds={"ptx": True, "cl12": True}, ordering={"ptx": verdict, "cl12": verdict})
    assert verdict in refusal(HOPPER, found)


def test_an_ordering_probe_that_could_not_test_confirms_nothing():
    found = findings(builds={"cl12": True}, ordering={"cl12": "untested: one work-group at a time"})
    assert "not confirmed" in refusal(WEAK, found)


def test_the_defaults_are_named_with_reasons():
    strategy = choose(DeviceProfile(STRONG))
    assert (strategy.discovery.value, strategy.device_barrier.value) == ("packed", "counter")
    assert strategy.max_groups is None
    assert set(strategy.reasons()) == {"atomics", "discovery", "device_barrier", "split_barrier", "reduction"}
    assert all(value and reason for value, reason in strategy.reasons().values())
    assert strategy.summary() == "atomics c11, discovery packed, device barrier counter, split barrier uniform"


@pytest.mark.parametrize(("name", "value"), [("discovery", "ticket"), ("device_barrier", "tree"), ("atomics", "c11")])
def test_an_override_by_keyword_wins_and_says_so(name, value):
    strategy = choose(DeviceProfile(STRONG), {name: value})
    assert getattr(strategy, name).value == value
    assert "requested" in strategy.reasons()[name][1]


def test_the_keyword_wins_over_the_variable_which_wins_over_the_choice(monkeypatch):
    monkeypatch.setenv(VARIABLE, " device_barrier = tree , discovery=spin,")
    strategy = choose(DeviceProfile(STRONG))
    assert (strategy.device_barrier.value, strategy.discovery.value) == ("tree", "spin")
    strategy = choose(DeviceProfile(STRONG), {"device_barrier": "xf"})
    assert (strategy.device_barrier.value, strategy.discovery.value) == ("xf", "spin")


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        ({"device_barier": "tree"}, ["device_barier", "device_barrier", "atomics"]),
        ({"device_barrier": "counters"}, ["counters", "device_barrier", "counter_backoff"]),
        ({"atomics": ""}, ["''", "c11"]),
    ],
)
def test_an_unknown_name_or_value_lists_the_alternatives(monkeypatch, overrides, words):
    message = refusal(STRONG, **overrides)
    assert all(word in message for word in words)
    monkeypatch.setenv(VARIABLE, ",".join(f"{name}={value}" for name, value in overrides.items()))
    assert all(word in refusal(STRONG) for word in words)


@pytest.mark.parametrize(
    "text",
    ["tree", "device_barrier", "=tree", "device_barrier=tree=flag", "device_barrier:tree", "foo=1", "atomics=wishful"],
)
def test_a_variable_that_cannot_be_read_is_an_error_that_names_it(monkeypatch, text):
    monkeypatch.setenv(VARIABLE, text)
    with pytest.raises(UnsupportedFeatureError, match=rf"{VARIABLE}={text}: .*(choices|strategies): "):
        choose(DeviceProfile(STRONG))


def test_an_override_cannot_ask_for_what_the_device_cannot_do():
    assert "ptx was requested" in refusal(STRONG, atomics="ptx")
    assert "cl12 was requested" in refusal(WEAK, atomics="cl12")
    assert "portbar survey" in refusal(WEAK, atomics="cl12")
    assert "cl_intel_concurrent_dispatch" in refusal(STRONG, device_barrier="intel_device_barrier")
    found = findings(builds={"c11@CL3.0": True}, ordering={"c11": "5 stale"})
    assert "5 stale" in refusal(STRONG, found, atomics="c11")


def test_intel_s_barrier_is_used_only_on_request_where_the_extension_is():
    facts = DeviceFacts(
        name="I",
        opencl_c_versions=("3.0",),
        atomic_memory_capabilities=CLAIMS,
        extensions=("cl_intel_concurrent_dispatch",),
    )
    assert choose(DeviceProfile(facts)).device_barrier.value == "counter"
    asked = choose(DeviceProfile(facts), {"device_barrier": "intel_device_barrier"})
    assert asked.device_barrier.value == "intel_device_barrier"


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"loop_limit": 65_535}, ["65535 iterations"]),
        ({"lost": {"loop_limit": "timed out"}}, ["unknown", "timed out", "portbar.probe"]),
    ],
    ids=["short", "unknown"],
)
def test_a_device_whose_loops_may_end_early_gets_grids_of_one_group_with_the_reason(more, words):
    strategy = choose(DeviceProfile(WEAK, passed("cl12", **more)))
    assert strategy.max_groups == 1
    assert [word for word in words if word not in strategy.max_groups_reason] == []
    assert strategy.reasons()["max_groups"] == ("1", strategy.max_groups_reason)


CUT_SHORT = {f"atomics c11@{std}": "timed out before it began" for std in ("CL3.0", "CL2.0")}


def test_a_probe_that_had_no_time_refuses_no_more_than_none():
    """The driver's claims decide until a compile probe does."""
    lost = {**CUT_SHORT, "ordering c11": "timed out before it began", "loop_limit": "timed out before it began"}
    late = findings(ordering={"c11": "untested: timed out before it began"}, lost=lost)
    strategy = choose(DeviceProfile(STRONG, late))
    assert strategy.atomics.value == "c11"
    assert strategy.capabilities.std == choose(DeviceProfile(STRONG)).capabilities.std
    assert strategy.max_groups is None
    tried = replace(late, builds={"c11@CL3.0": False})
    assert choose(DeviceProfile(STRONG, tried)).capabilities.std == "CL2.0"
    assert "no -cl-std" in refusal(STRONG, replace(late, builds={"c11@CL3.0": False, "c11@CL2.0": False}))


def test_only_lost_measurements_of_loops_limit_waits():
    lost = passed("cl12", lost={"loop_limit": "timed out"})
    independent = replace(lost, progress={"lanes": "independent", "sub_groups": "independent"})
    assert choose(DeviceProfile(WEAK, independent)).split_barrier.value == "uniform"
    assert choose(DeviceProfile(WEAK, replace(independent, lost={}))).split_barrier.value == "counter"
    assert choose(DeviceProfile(WEAK, replace(lost, lost={"polls_per_second": "timed out"}))).max_groups is None


def test_a_loop_limit_that_the_quirk_table_knows_holds_whatever_a_probe_missed():
    facts = replace(WEAK, name="llvmpipe (LLVM 15.0.6, 256 bits)", driver_version="22.3.6")
    missed = passed("cl12")
    for found, limit in ((missed, 65_535), (replace(missed, loop_limit=500), 500)):
        strategy = choose(DeviceProfile(facts, found))
        assert strategy.max_groups == 1
        assert f"after {limit} iterations" in strategy.max_groups_reason


@pytest.mark.parametrize("found", [None, passed("cl12")])
def test_everything_keeps_to_a_loop_limit_that_only_the_quirk_table_knows(found):
    facts = replace(WEAK, name="llvmpipe (LLVM 15.0.6, 256 bits)", driver_version="22.3.6", type=("CPU",))
    profile = DeviceProfile(facts, found)
    assert host_shape.kind_of(profile) == "limited"
    assert Scale.of(profile, "cl12").kind == "short loops"
    assert not choose(profile, ordering="work_group").units.folds_serially
    assert choose(DeviceProfile(replace(facts, name="cpu"), found), ordering="work_group").units.folds_serially


@pytest.mark.parametrize(("effect", "widest"), [("", 64), (quirks.WIDE_VECTORS_LOST, 32)])
def test_no_load_is_wider_than_the_builtin_functions_of_the_device_can_pass(effect, widest):
    known = Quirk("some-quirk", lambda *_: True, "a fault", "seen", "a workaround", effect=effect)
    with quirks.registered(known):
        profile = DeviceProfile(replace(STRONG, type=("CPU",)), passed("c11"))
        kind = host_shape.kind_of(profile)
        assert host_shape.shape_for(profile, choose(profile), 1000).load_bytes == TILES[kind].load_bytes == widest
        assert kind in sort.SHAPES
        text = render_header("reduction", choose(profile))
    assert "float8 a = vload8(" in text
    assert ("long8 a = vload8(" in text) == (widest == 64)


TABLE = ((32, 64, "flag"), (32, 1, "counter"), (32, 300, "tree"), (1024, 1, "counter"), (1024, 8, "xf"))


@pytest.mark.parametrize(
    ("groups", "local_size", "algorithm"),
    [
        *((groups, None, "counter") for groups in (1, 2, 63)),
        *((groups, None, "flag") for groups in (64, 299)),
        *((groups, None, "tree") for groups in (300, 10_000)),
        # The measured local size nearest to the launch's is used.
        *((64, local_size, "flag") for local_size in (1, 32, 180, None)),
        *((64, local_size, "xf") for local_size in (182, 1024)),
    ],
)
def test_the_measured_table_picks_the_algorithm_by_group_count_and_local_size(groups, local_size, algorithm):
    strategy = choose(DeviceProfile(STRONG, findings(builds={"c11@CL3.0": True}, barrier_table=TABLE)))
    assert strategy.device_barrier.value == "counter"
    tuned = strategy.for_groups(groups, local_size)
    assert tuned.device_barrier.value == algorithm
    assert "measured" in tuned.device_barrier.reason
    assert (tuned is strategy) == (algorithm == "counter")


@pytest.mark.parametrize("name", ["an_algorithm_of_tomorrow", "intel_device_barrier"])
def test_a_table_names_only_algorithms_that_there_are_and_that_end(name):
    table = ((32, 1, "counter"), (32, 2, "flag"), (32, 3, name))
    facts = replace(STRONG, extensions=("cl_intel_concurrent_dispatch",))
    strategy = choose(DeviceProfile(facts, findings(builds={"c11@CL3.0": True}, barrier_table=table)))
    assert strategy.for_groups(100).device_barrier.value == "flag"


def test_a_table_does_not_choose_what_the_device_cannot_compile(monkeypatch):
    found = findings(builds={"c11@CL3.0": True}, barrier_table=((32, 1, "counter"), (32, 2, "xf")))
    assert choose(DeviceProfile(STRONG, found)).for_groups(100).device_barrier.value == "xf"
    monkeypatch.setattr(quirks, "has_effect", lambda effect, _: effect == quirks.BRANCHES_ABORT)
    assert choose(DeviceProfile(STRONG, found)).for_groups(100).device_barrier.value == "counter"


def test_the_reason_of_the_simplest_barrier_claims_no_measurement_that_was_not_made():
    for found in (None, findings(builds={"c11@CL3.0": True})):
        reason = choose(DeviceProfile(STRONG, found)).device_barrier.reason
        assert "no barrier times are stored" in reason
        assert "faster" not in reason
    tabled = choose(DeviceProfile(STRONG, findings(builds={"c11@CL3.0": True}, barrier_table=TABLE)))
    assert "the barrier times measured on this device favour no other" in tabled.device_barrier.reason


def test_an_override_of_the_barrier_sets_the_table_aside():
    found = findings(builds={"c11@CL3.0": True}, barrier_table=TABLE)
    strategy = choose(DeviceProfile(STRONG, found), {"device_barrier": "xf"})
    assert strategy.for_groups(10_000).device_barrier.value == "xf"


def test_the_pause_is_one_that_was_seen_to_compile():
    sleep, pause = [("backend/ptx.mako", "relax")], [("backend/host_threads.mako", "relax")]
    assert choose(DeviceProfile(HOPPER)).backend.pause == sleep
    assert choose(DeviceProfile(STRONG)).backend.pause == []
    found = findings(builds={"c11@CL3.0": True, "x86_pause": True})
    assert choose(DeviceProfile(STRONG, found)).backend.pause == pause
    assert not pauses_between_polls(choose(DeviceProfile(STRONG, found), {"device_barrier": "counter"}))
    assert pauses_between_polls(choose(DeviceProfile(STRONG, found)))
    assert pauses_between_polls(choose(DeviceProfile(STRONG, found), {"device_barrier": "counter_backoff"}))


VERDICTS = st.sampled_from(["pass", "7 stale reads", "untested: one group", "timeout"])


@given(
    facts=st.sampled_from([STRONG, WEAK, OLD, HOPPER, PASCAL]),
    builds=st.dictionaries(st.sampled_from(["c11@CL2.0", "c11@CL3.0", "cl12", "ptx"]), st.booleans()),
    ordering=st.dictionaries(st.sampled_from(["c11", "cl12", "ptx"]), VERDICTS),
)
def test_nothing_is_chosen_against_a_finding(facts, builds, ordering):
    try:
        chosen = choose(DeviceProfile(facts, findings(builds=builds, ordering=ordering)))
    except UnsupportedFeatureError:
        return
    name = chosen.atomics.value
    verdict = ordering.get(name, "untested")
    assert verdict == "pass" or verdict.startswith("untested")
    if name == "cl12":
        assert verdict == "pass"
        assert builds.get("cl12", True)
    if name == "c11":
        assert chosen.capabilities.std is not None
        assert builds[f"c11@{chosen.capabilities.std}"]
    if name == "ptx":
        assert builds.get("ptx", True)
