"""Probes: the findings of a device, detection of broken ordering, and the cost of a dead child."""

from __future__ import annotations

import re
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyopencl as cl
import pytest

import portbar
from portbar.backends import host_threads
from portbar.backends.backend import BACKENDS
from portbar.choices.profile import forget
from portbar.choices.strategy import DeviceProfile, choose
from portbar.device import child, matrix, quirks
from portbar.device.addresses import address_of
from portbar.device.child import ChildResult
from portbar.device.facts import DeviceFacts, device_key, facts
from portbar.device.findings import CACHE_KIND, Findings
from portbar.device.quirks.entry import Quirk
from portbar.errors import BuildError
from portbar.primitives import headers
from portbar.primitives.atomics import WORDS
from portbar.records import cache
from portbar.survey.measuring import probe as probing
from portbar.survey.measuring import probe_behaviour
from portbar.survey.measuring.probe import STEPS, probe
from tests import support

ADDRESS_JSON = {"platform_index": 0, "device_index": 0, "platform_name": "P", "device_name": "D"}
FACTS = DeviceFacts(platform_name="P", name="D", type=("CPU",))
KEY = device_key(FACTS)


NOTHING = Findings(lost={"loop_limit": "child aborted"})


class Address:
    def to_json(self):
        return ADDRESS_JSON


class Children:
    """Stands for child processes: each entry says at which step one of them dies and how, None that it lives."""

    def __init__(self):
        self.deaths = []
        self.runs = []

    def run_task(self, task, payload, *, on_progress, **_):
        assert task == "portbar.survey.measuring.probe:probe_task"
        self.runs.append(payload)
        status: Any
        step, status, message = self.deaths.pop(0) if self.deaths else (None, "ok", "")
        for name in payload["steps"]:
            on_progress({"step": name})
            if name == step:
                return ChildResult(status, None, message, 1.0)
            on_progress({"found": found_by(name)})
        return ChildResult("ok", None, "", 1.0)


def found_by(step):
    kind, _, what = step.partition(" ")
    if kind in {"level", "atomics", "feature", "host_call"}:
        return {"builds": {what: True}}
    if kind in {"progress", "ordering"}:
        return {kind: {what: "independent" if kind == "progress" else "pass"}}
    return {"groups_in_flight": {"groups_in_flight": 2}, "polls_per_second": {kind: 1e8}}.get(kind, {kind: None})


@pytest.fixture
def children(monkeypatch, own_cache):
    made = Children()
    monkeypatch.setattr(child, "run_task", made.run_task)
    monkeypatch.setattr(probing, "facts", lambda _: FACTS)
    monkeypatch.setattr(probing, "address_of", lambda _: Address())
    monkeypatch.setattr(
        probing, "describe", lambda _: DeviceProfile(FACTS, Findings.from_json(cache.load(CACHE_KIND, KEY)))
    )
    return made


def findings_of(children, **keywords):
    device: Any = SimpleNamespace(get_info=None, platform=None)
    return probe(device, **keywords).findings


def test_one_child_measures_everything_and_the_findings_are_stored_with_their_date(children):
    found = findings_of(children)
    assert len(children.runs) == 1
    assert found.ordering == {"ptx": "pass", "c11": "pass", "membar": "pass", "cl12": "pass"}
    assert re.fullmatch(r"probed \d{4}-\d\d-\d\d", found.source)
    assert Findings.from_json(cache.load(CACHE_KIND, KEY)) == found


def test_stored_findings_are_not_measured_again_unless_asked(children):
    findings_of(children)
    findings_of(children)
    assert len(children.runs) == 1
    findings_of(children, refresh=True)
    assert len(children.runs) == 2


def test_a_damaged_store_is_measured_again(children):
    cache.store(CACHE_KIND, KEY, {"ordering": 7})
    with pytest.warns(cache.CacheWarning, match="ordering|items"):
        assert findings_of(children).groups_in_flight == 2


def test_a_new_probe_keeps_the_benchmarked_barrier_table(children):
    cache.store(CACHE_KIND, KEY, Findings(barrier_table=((1, 1, "flag"),)).to_json())
    assert findings_of(children, refresh=True).barrier_table == ((1, 1, "flag"),)


@pytest.mark.parametrize(
    ("step", "expected"),
    [
        ("host_call x86_pause", {"builds": {"x86_pause": False}}),
        ("atomics cl12", {"builds": {"cl12": False}}),
        ("progress lanes", {"progress": {"lanes": "unknown: child aborted: ended by SIGABRT"}}),
        ("ordering c11", {"ordering": {"c11": "fail: child aborted: ended by SIGABRT"}}),
        (
            "groups_in_flight",
            {"groups_in_flight": None, "lost": {"groups_in_flight": "child aborted: ended by SIGABRT"}},
        ),
        ("loop_limit", {"loop_limit": None, "lost": {"loop_limit": "child aborted: ended by SIGABRT"}}),
    ],
)
def test_a_crash_costs_only_its_own_finding(children, step, expected):
    healthy = findings_of(children, refresh=True).to_json()
    children.deaths.append((step, "crash", "ended by SIGABRT"))
    found = findings_of(children, refresh=True).to_json()
    for name, value in expected.items():
        wanted = {**healthy[name], **value} if isinstance(value, dict) else value
        assert found[name] == wanted
        found[name] = healthy[name]
    assert found == healthy


def test_a_loop_limit_that_could_not_be_measured_is_unknown_not_absent_and_is_measured_again(children):
    children.deaths.append(("loop_limit", "crash", "ended by SIGABRT"))
    found = findings_of(children)
    assert found.loop_limit is None
    assert not found.loops_run_whole
    before = len(children.runs)
    again = findings_of(children)
    assert len(children.runs) > before
    assert again.loops_run_whole


class ShortLoops:
    """Stands for a device that ends loops after 65,535 iterations in all, at 20 million a second, and was held up once."""

    def __init__(self, late_call: int) -> None:
        self.late_call = late_call
        self.calls = 0
        self.counts = [0, 0]

    def run(self, _kernel, _groups, _local, _ones, _counted, asked):
        self.calls += 1
        first = min(int(asked), 65_535)
        self.counts = [first, min(int(asked), 65_535 - first)]
        return sum(self.counts) / 20e6 + (0.02 if self.calls == self.late_call else 0.0)


@pytest.mark.parametrize("late_call", range(1, 9))
def test_one_late_launch_does_not_hide_a_loop_limit(monkeypatch, late_call):
    device, probes = ShortLoops(late_call), probe_behaviour.Probes.__new__(probe_behaviour.Probes)
    monkeypatch.setattr(probe_behaviour.cl, "Kernel", lambda *_: None)
    monkeypatch.setattr(probe_behaviour.cl, "Buffer", lambda *_, **__: None)
    probes.context = None
    for name, value in {
        "_build": lambda *_: None,
        "_buffer": lambda _: None,
        "_run": device.run,
        "_read": lambda _: np.array(device.counts, np.uint32),
    }.items():
        monkeypatch.setattr(probes, name, value, raising=False)
    assert probes.loop_limit() == 65_535


def test_a_hang_leaves_the_ordering_untested_not_failed(children, monkeypatch):
    monkeypatch.setattr(probing, "_STEP_S", 0.0)
    children.deaths.append(("ordering c11", "crash", "Timeout (0:00:10)!"))
    found = findings_of(children)
    assert found.ordering == {"ptx": "pass", "c11": "untested: timed out", "membar": "pass", "cl12": "pass"}


def test_a_survey_learns_which_steps_killed_a_child(children):
    step = "feature mbarrier"
    children.deaths.append((step, "crash", "ended by SIGABRT"))
    assert probing.probe_with_faults(None)[1] == {step: "child aborted: ended by SIGABRT"}
    # Faults that are known already are not reported again.
    assert probing.probe_with_faults(None)[1] == {}


@pytest.mark.parametrize(("timeout", "told"), [(60.0, {STEPS[0]: "timed out"}), (5.0, {})])
def test_a_survey_learns_which_steps_hung_and_not_which_had_too_little_time(timeout, told):
    faults: dict[str, str] = {}
    address: Any = Address()
    run = probing._ProbeRun(address, timeout, faults)
    run.begin()
    run.take({"step": STEPS[0]})
    run._since -= 9.5
    assert run.died(ChildResult("crash", None, "Timeout (0:00:10)!", 9.5))
    assert run.known.builds == {}
    assert run.known.lost == {STEPS[0]: "timed out"}
    assert faults == told


def hang(step):
    """The death of a child by its own limit, which is 0 s."""
    return step, "crash", "Timeout (0:00:10)!"


@pytest.mark.parametrize("step", ["level CL3.0", "atomics c11@CL3.0", "feature fp64", "progress lanes", "ordering c11"])
def test_a_measurement_that_took_too_long_is_unknown_and_is_the_only_one_made_again(children, monkeypatch, step):
    healthy = findings_of(children).to_json()
    monkeypatch.setattr(probing, "_STEP_S", 0.0)
    cache.store(CACHE_KIND, KEY, NOTHING.to_json())
    children.deaths.append(hang(step))
    found = findings_of(children, refresh=True)
    what = step.partition(" ")[2]
    assert found.lost == {step: "timed out"}
    assert what not in found.builds
    assert not found.source.endswith("cut short")
    again = findings_of(children)
    assert children.runs[-1]["steps"] == [step]
    assert again.to_json() == healthy
    runs = len(children.runs)
    findings_of(children)
    assert len(children.runs) == runs


def test_a_crash_is_a_fact_and_not_measured_again(children):
    children.deaths.append(("feature fp64", "crash", "ended by SIGABRT"))
    assert findings_of(children).builds["fp64"] is False
    runs = len(children.runs)
    findings_of(children)
    assert len(children.runs) == runs


@pytest.mark.parametrize("refresh", [True, False])
def test_a_probe_without_time_takes_nothing_back(children, refresh):
    known = findings_of(children)
    assert findings_of(children, timeout=-1.0, refresh=refresh) == replace(known, source=findings_of(children).source)


def test_a_probe_that_was_cut_short_goes_on_where_it_ended(children):
    assert set(findings_of(children, timeout=-1.0).lost) == set(STEPS)
    children.deaths.append(("progress lanes", "timeout", "no answer within 1 s"))
    findings_of(children, timeout=0.5)
    at = STEPS.index("progress lanes")
    children.deaths.clear()
    runs = len(children.runs)
    found = findings_of(children)
    assert found.unmeasured == ()
    assert len(children.runs) <= runs + 1
    assert set(children.runs[-1]["steps"]) <= set(STEPS[at:])


@pytest.mark.parametrize(
    ("timeout", "first_s", "elapsed", "blamed"),
    [
        (60.0, 0.1, 9.5, True),
        (600.0, 0.1, 9.5, False),
        (600.0, 0.1, 95.0, True),
        (600.0, 5.0, 95.0, False),
    ],
)
def test_limits_follow_the_time_of_the_probe_and_the_pace_of_the_device(timeout, first_s, elapsed, blamed):
    """A slow device compiles the first program slowly; a driver that hangs does so whatever the pace."""
    faults: dict[str, str] = {}
    address: Any = Address()
    run = probing._ProbeRun(address, timeout, faults)
    begun = run.begin()
    assert begun is not None
    pace = probing._pace(first_s)
    if pace > 1:
        run.take({"pace": pace})
    run.take({"step": "feature fp64"})
    run._since -= elapsed
    run.died(ChildResult("crash", None, "the process ended", elapsed))
    assert (faults == {"feature fp64": "timed out"}) == blamed
    after = run.begin()
    assert after is not None
    assert after[0]["step_limit"] == pytest.approx(min(10.0 * timeout / 60.0 * pace, timeout), rel=0.01)
    assert after[0]["pace"] == pace


@pytest.mark.parametrize(
    ("lost", "steps"),
    [
        ("level CL3.0", ("feature sub_groups",)),
        ("atomics cl12", ("ordering cl12", "polls_per_second")),
        ("host_call x86_pause", ("host_call yield_syscall", "host_call asm_anywhere")),
    ],
)
def test_what_needs_an_unknown_finding_is_unknown_too(monkeypatch, lost, steps):
    probes = probe_behaviour.Probes.__new__(probe_behaviour.Probes)
    probes.facts = FACTS
    probes.known = Findings(lost={lost: "timed out"})
    monkeypatch.setattr(host_threads.sys, "platform", "linux")
    monkeypatch.setattr(host_threads.platform, "machine", lambda: "x86_64")
    for step in steps:
        found = probing._measured(probes, step)
        assert found["lost"] == {step: f"timed out, since {lost} did"}
        assert "builds" not in found


@pytest.mark.parametrize(
    ("error", "is_fact"),
    [
        (ModuleNotFoundError("No module named 'mako'"), False),
        (OSError("No space left on device"), False),
        (cl.RuntimeError("clBuildProgram failed: OUT_OF_RESOURCES"), True),
        (BuildError("it does not compile", device="D", options=(), log="", source_path=None), True),
    ],
)
def test_what_python_fails_at_is_no_fact_about_the_device(monkeypatch, error, is_fact):
    def fail(*_):
        raise error

    probes = probe_behaviour.Probes.__new__(probe_behaviour.Probes)
    monkeypatch.setattr(probes, "feature", fail, raising=False)
    step = "feature fp64"
    found = probing._measured(probes, step)
    assert found.get("builds") == ({"fp64": False} if is_fact else None)
    assert Findings(lost=found.get("lost", {})).unmeasured == (() if is_fact else (step,))


@pytest.mark.parametrize("step", [STEPS[0], "ordering c11"])
def test_a_child_that_misses_a_package_leaves_the_measurement_to_the_next_probe(children, step):
    healthy = findings_of(children).to_json()
    children.deaths.append((step, "error", "ModuleNotFoundError: No module named 'mako'"))
    profile, faults = probing.probe_with_faults(None, refresh=True)
    assert not faults
    assert profile.findings is not None
    assert profile.findings.to_json() == healthy
    cache.store(CACHE_KIND, KEY, NOTHING.to_json())
    children.deaths.append((step, "error", "ModuleNotFoundError: No module named 'mako'"))
    assert findings_of(children).unmeasured == (step,)
    assert findings_of(children).to_json() == healthy


def test_a_crash_is_reported_with_its_assertion_and_without_private_folders(children):
    message = (
        "the process was killed by SIGABRT; last lines of its standard error:\n"
        "/home/me/env/pyopencl/__init__.py:570: CompilerWarning: Non-empty compiler output\n"
        'python: ../lib/llvmopencl/WorkitemLoops.cc:10: add: Assertion `0 && "region entry"\' failed.'
    )
    children.deaths.append(("ordering c11", "crash", message))
    assert findings_of(children).ordering["c11"] == (
        'fail: child aborted: the process was killed by SIGABRT: python: WorkitemLoops.cc:10: add: Assertion `0 && "region '
        "entry\"' failed."
    )


def test_the_next_child_knows_what_the_last_one_found(children):
    children.deaths.append(("ordering c11", "crash", "ended by SIGSEGV"))
    findings_of(children)
    assert children.runs[1]["steps"] == list(STEPS[STEPS.index("ordering c11") + 1 :])
    assert Findings.from_json(children.runs[1]["known"]).groups_in_flight == 2


def test_a_device_that_kills_every_child_is_given_up_and_asked_again_next_time(children):
    children.deaths += [(step, "crash", "ended by SIGABRT") for step in STEPS]
    found = findings_of(children)
    assert found.source.endswith("cut short")
    assert found.ordering["cl12"] == "untested: too many child processes died"
    assert len(children.runs) < 8
    children.deaths.clear()
    assert findings_of(children).ordering["cl12"] == "pass"


def test_running_out_of_time_keeps_what_was_found(children):
    children.deaths.append(("progress lanes", "timeout", "no answer within 0 s"))
    found = findings_of(children, timeout=0.05)
    assert found.groups_in_flight in {2, None}
    cache.store(CACHE_KIND, KEY, NOTHING.to_json())
    late = findings_of(children, timeout=-1.0, refresh=True)
    assert late.builds == {}
    assert late.progress["lanes"] == "unknown: timed out before it began"
    assert late.lost["loop_limit"] == "timed out before it began"
    assert not late.loops_run_whole


def test_a_child_that_cannot_begin_is_not_started_again(children, monkeypatch):
    runs = []

    def run_task(*_, **keywords):
        runs.append(1)
        return ChildResult("error", None, "DeviceError: the device no longer exists", 0.1)

    monkeypatch.setattr(child, "run_task", run_task)
    assert findings_of(children).groups_in_flight is None
    assert len(runs) == 1


def test_probes_render_every_word_function_that_headers_use():
    for atomics in BACKENDS:
        text = probe_behaviour.words_text(atomics)
        assert all(f"portbar_word_{name}(" in text for name in WORDS)


# On a device.


@pytest.fixture
def found(device, context):
    """The findings of the probe of the context's fixture."""
    return portbar.describe(device).findings


@pytest.fixture
def probes(device, found):
    return probe_behaviour.Probes(device, found)


def best_of(probes):
    return probes._best_atomics()


def needs_two_groups(found):
    if found.loop_limit is not None or found.groups_in_flight == 1:
        pytest.skip("grids have one work-group on this device: nothing is passed between groups")


@pytest.mark.device
def test_a_probed_device_has_a_way_to_order_memory_and_runs_a_grid(context, queue, found):
    strategy = choose(portbar.describe(queue.device))
    assert found.ordering[strategy.atomics.value] == "pass"
    source = """#include "portbar/device_barrier.h"
    kernel void sum(PORTBAR_GRID_PARAM, volatile global uint *total, global uint *seen) {
        PORTBAR_ENTER(grid);
        atomic_add(total, 1u);
        bool held = portbar_device_barrier(&grid);
        if (portbar_global_id(&grid) == 0) { seen[0] = total[0]; seen[1] = held; }
    }"""
    total, seen = support.filled(queue, 2), support.filled(queue, 2)
    launch = portbar.Program(context, source).kernel("sum")(queue, None, (4,), total, seen)
    launch.wait()
    assert support.uints(queue, seen).tolist() == [4 * launch.num_groups, 1]


@pytest.mark.device
def test_every_way_to_write_atomics_that_builds_was_tested_for_ordering(found):
    built = {
        name.partition("@")[0] for name in ("c11@CL3.0", "c11@CL2.0", "cl12", "ptx", "membar") if found.builds[name]
    }
    assert built == set(found.ordering)
    assert built


@pytest.mark.device
def test_short_loops_are_found_where_they_are_known_and_nowhere_else(device, probes, found):
    known = "llvmpipe-loop-limit" in {quirk.name for quirk in quirks.matching(facts(device))}
    assert probes.loop_limit() == (65535 if known else None)
    assert found.lost == {}


# Beside other work each of its waits lasts as long as it may.
@pytest.mark.timeout(400)
@pytest.mark.device
def test_without_a_known_end_of_loops_the_ordering_is_still_tested_with_one_group(probes):
    probes.known = replace(probes.known, loop_limit=None, lost={"loop_limit": "timed out"})
    assert probes.ordering(best_of(probes)) == "pass"


@pytest.mark.device
@pytest.mark.parametrize("name", ["handshake", "messages"])
def test_waits_for_who_never_comes_last_as_long_as_they_should(probes, found, name):
    if found.loop_limit is not None:
        pytest.skip(f"loops on this device end after {found.loop_limit} iterations, long before a wait's time is over")
    atomics, seconds = best_of(probes), 0.1
    words, out = probes._buffer(512), probes._buffer(8)

    def lasted() -> float:
        probes._spin_rates.clear()
        polls = np.uint32(probes._polls(seconds, atomics))
        # One group alone waits for a work-item that is not there, or for a message from itself.
        waits = {
            "handshake": (words, out, np.uint32(0), np.uint32(1), polls),
            "messages": (words, words, out, np.uint32(1), polls),
        }
        return probes._run(probes._spin_kernel(name, atomics), 1, 1, *waits[name])

    # A busy machine may make polls look slower than they are, and so the wait too short.
    assert any(lasted() > seconds / 4 for _ in range(3))


@pytest.mark.device
def test_groups_that_shake_hands_were_in_flight_together(found, probes):
    if found.progress["work_groups"] == "independent" and found.loop_limit is None:
        # Where other processes hold the processors, a group may begin later than the others wait.
        assert found.groups_in_flight >= 2 or any(probes.groups_in_flight() >= 2 for _ in range(5))
    assert found.progress["lanes"] in {"independent", "none"}
    assert found.polls_per_second > 1e4


@pytest.mark.parametrize("quiet", [0, 3, 5, 20])
def test_a_rate_is_found_on_a_machine_that_gets_busy_while_it_is_measured(quiet):
    """The launches after the first ones start late, by more than a short loop takes."""
    calls = 0

    def seconds(rounds):
        nonlocal calls
        calls += 1
        return rounds / 600_000 + (0.0001 if calls <= quiet else 0.03)

    assert 300_000 < probe_behaviour._fastest(seconds, 1 << 20) <= 600_000


@pytest.mark.device
def test_messages_are_waited_for_where_the_rate_of_polls_came_out_too_low(probes, found):
    needs_two_groups(found)
    atomics = best_of(probes)
    probes._spin_rates[atomics] = 1.0
    # On a busy machine they may not meet.
    assert re.match(r"pass$|untested: ", probes.ordering(atomics))


def hasty_load(load):
    """Mistake the previous round for the awaited one: the worst effect of a missing acquire."""
    return re.sub(r"return (.*);", r"return \1 + 1u;", load, flags=re.DOTALL)


def plain_load(load):
    """Load as a compiler may hoist it out of a loop."""
    return load[: load.index("{")] + "{\n    return *(global uint *)p;\n"


@pytest.mark.device
@pytest.mark.parametrize(
    ("change", "noticed"), [(hasty_load, r"fail: \d+ of \d+ messages .* stale data"), (plain_load, "fail: ")]
)
def test_the_probe_sees_a_load_that_does_not_wait_or_that_a_compiler_may_hoist(
    probes, found, monkeypatch, change, noticed
):
    needs_two_groups(found)
    if change is plain_load and probes.facts.name.startswith("Oclgrind"):
        pytest.skip("the simulator runs every load that is written")
    atomics, right = best_of(probes), probe_behaviour.words_text

    def wrong(name):
        text = right(name)
        start = text.index("uint portbar_word_load(")
        end = text.index("}", start)
        return text[:start] + change(text[start:end]) + text[end:]

    monkeypatch.setattr(probe_behaviour, "words_text", wrong)
    assert re.match(noticed, probes.ordering(atomics))


def patched_headers(monkeypatch, change):
    right = headers.resolve_includes

    def wrong(source, strategy, **keywords):
        text = right(source, strategy, **keywords)
        changed = change(text)
        assert changed != text
        return changed

    monkeypatch.setattr(headers, "resolve_includes", wrong)


@pytest.mark.device
@pytest.mark.timeout(600)
def test_the_probe_sees_a_barrier_that_lets_groups_through(probes, found, monkeypatch):
    needs_two_groups(found)
    wait = re.compile(
        r"!portbar_wait_(?:word|counted)\(grid, counter, target[^)]*\)|!portbar_wait_counters\(grid, &?counters?, phase[^)]*\)"
    )

    def hasty(found):
        return "target == 0u" if "target" in found[0] else "phase == 0u"

    patched_headers(monkeypatch, lambda text: wait.sub(hasty, text))
    # Stale data, or a count that a group's next arrival finds impossible: whichever is noticed first.
    noticed = r"fail: (\d+ of \d+ rounds saw stale data|arrivals at a device barrier were lost or counted twice)"
    # On a busy machine the groups of one try may run one after the other.
    assert any(re.match(noticed, probes.ordering(best_of(probes))) for _ in range(10))


@pytest.mark.device
def test_the_probe_sees_a_barrier_that_does_nothing_even_within_one_group(device, probes, monkeypatch):
    if device.max_compute_units == 1 and quirks.has_effect(quirks.JOINS_LOST, facts(device)):
        pytest.skip(
            "this compiler gets programs with barriers of the work-group around each call: nothing stale is left to see"
        )

    def nothing(text):
        start = text.index("{", text.index("bool portbar_device_barrier("))
        return text[:start] + "{ return true;" + text[text.index("\n}", start) :]

    patched_headers(monkeypatch, nothing)
    assert re.match(r"fail: \d+ of \d+ rounds saw stale data", probes.ordering(best_of(probes)))


@pytest.mark.device
def test_the_probe_tries_the_barrier_that_programs_get(device, probes):
    """With the workarounds of the device's faults: without them PoCL may lose work between barriers, and be refused."""
    fault = Quirk("throw-away", lambda *_: True, "a fault", "seen", "a workaround", effect="rendered otherwise")
    with quirks.registered(fault):
        workarounds = choose(portbar.describe(device)).workarounds
        assert "rendered otherwise" in workarounds
        assert probes._strategy(best_of(probes)).workarounds == workarounds


@pytest.mark.device
def test_a_measurement_that_hangs_ends_its_child_in_time(device, found):
    payload = {
        "address": address_of(device).to_json(),
        "known": found.to_json(),
        "steps": ["groups_in_flight", "loop_limit"],
        "step_limit": 0.001,
    }
    result = child.run_task("portbar.survey.measuring.probe:probe_task", payload, timeout=180)
    assert (result.status, result.progress) == ("crash", [{"step": "groups_in_flight"}])


@pytest.mark.device
@pytest.mark.usefixtures("own_cache")
def test_a_probe_without_time_takes_no_program_from_a_device_and_the_next_one_goes_on(context, device, monkeypatch):
    """Without records of such a device, as on most processors."""
    monkeypatch.setattr(matrix, "_records", lambda: ())
    forget()
    try:
        claimed = BACKENDS["c11"].claimed(facts(device))
        before = portbar.describe(device).findings
        cut = probe(device, timeout=0.05).findings
        assert before is None
        assert set(cut.lost) >= {"loop_limit", "level CL1.2"}
        assert cut.builds == {}
        if claimed:
            assert portbar.Program(context, SIMPLE, devices=[device]).strategy(device).max_groups is None
        whole = probed_whole(device)
        assert whole.builds["CL1.2"]
        assert not whole.unmeasured
        assert probe(device, timeout=0.0).findings == whole
        portbar.Program(context, SIMPLE, devices=[device])
    finally:
        forget()


def probed_whole(device):
    """Return findings after as many probes as it takes: a step that found no free processor in its time is made again."""
    for _ in range(5):
        found = probe(device, timeout=120).findings
        if not found.unmeasured:
            break
    return found


SIMPLE = """
#include "portbar/device_barrier.h"
kernel void simple(PORTBAR_GRID_PARAM, global uint *out)
{
    PORTBAR_ENTER(grid);
    if (!portbar_device_barrier(&grid))
        return;
    out[0] = 1u;
}
"""
