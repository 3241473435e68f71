"""Choosing how a split barrier is done, from facts and findings, and the features that its header reports. No device needed."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from portbar.choices.strategy import VARIABLE, DeviceProfile, choose
from portbar.device.facts import DeviceFacts
from portbar.device.findings import Findings
from portbar.errors import UnsupportedFeatureError
from portbar.primitives.headers import render_header
from portbar.primitives.split_barrier.selection import FEATURES, VARIANTS, shows_counts
from portbar.rendering.source import without_comments
from tests.checkout import ROOT
from tests.reading.trees import facts, needs_libclang

CLAIMS = ("relaxed", "acq_rel", "scope_work_group", "scope_device")
NVIDIA = {"type": ("GPU",), "opencl_c_versions": ("1.2", "3.0")}

CPU = DeviceFacts(name="Cpu", type=("CPU",), opencl_c_versions=("1.2", "3.0"), atomic_memory_capabilities=CLAIMS)
HOPPER = DeviceFacts(name="Hopper", nvidia={"compute_capability_major": 9, "compute_capability_minor": 0}, **NVIDIA)
AMPERE = DeviceFacts(name="Ampere", nvidia={"compute_capability_major": 8, "compute_capability_minor": 0}, **NVIDIA)
TURING = DeviceFacts(name="Turing", nvidia={"compute_capability_major": 7, "compute_capability_minor": 5}, **NVIDIA)
INDEPENDENT = {"work_groups": "independent", "sub_groups": "independent", "lanes": "independent"}
SUB_GROUPS_ONLY = {"work_groups": "independent", "sub_groups": "independent", "lanes": "none"}
NONE = {"work_groups": "independent", "sub_groups": "none", "lanes": "none"}

MEMBERS = (
    *(f"portbar_split_barrier_{name}" for name in (
        "initialize", "invalidate", "arrive", "arrive_count", "arrive_no_complete", "arrive_and_drop",
        "arrive_and_drop_no_complete", "arrive_copy_async", "arrive_copy_async_no_inc", "wait", "test_wait", "try_wait",
        "wait_parity", "test_wait_parity", "try_wait_parity", "arrive_and_wait", "pending_count", "max", "fault",
    )),
    "portbar_copy_async", "portbar_copy_async_wait", "portbar_copy_async_group",
)  # fmt: skip


@pytest.fixture(autouse=True)
def no_overrides_from_outside(monkeypatch):
    monkeypatch.delenv(VARIABLE, raising=False)


def findings(progress=None, **builds):
    return Findings(
        builds={"c11@CL3.0": True, "cl12": True, "ptx": True, "membar": True, **builds},
        ordering={"c11": "pass", "cl12": "pass", "ptx": "pass"},
        progress=progress or {},
        source="test",
    )


@pytest.mark.parametrize(
    ("facts", "found", "value", "word"),
    [
        (HOPPER, None, "mbarrier", "not yet probed"),
        (AMPERE, None, "mbarrier", "compute capability"),
        (TURING, None, "uniform", ""),
        (CPU, None, "uniform", ""),
        (HOPPER, findings(INDEPENDENT, mbarrier=True), "mbarrier", "probe"),
        (HOPPER, findings(NONE, mbarrier=True), "mbarrier", "probe"),
        (HOPPER, findings(INDEPENDENT, mbarrier=False), "counter", "progress"),
        (HOPPER, findings(NONE, mbarrier=False), "uniform", ""),
        (TURING, findings(INDEPENDENT, mbarrier=False), "counter", "progress"),
        (CPU, findings(INDEPENDENT, mbarrier=False), "counter", "progress"),
        (CPU, findings(NONE, mbarrier=False), "uniform", ""),
        (CPU, findings({"lanes": "timeout", "sub_groups": "not known"}, mbarrier=False), "uniform", ""),
        (CPU, findings({}, mbarrier=False), "uniform", ""),
        # A device that ends loops early gets no strategy that polls.
        (CPU, replace(findings(INDEPENDENT, mbarrier=False), loop_limit=65_535), "uniform", ""),
    ],
)
def test_the_split_barrier_follows_facts_and_findings_with_a_reason(facts, found, value, word):
    strategy = choose(DeviceProfile(facts, found))
    assert strategy.split_barrier.value == value
    assert strategy.reasons()["split_barrier"] == (value, strategy.split_barrier.reason)
    assert strategy.split_barrier.reason
    assert word in strategy.split_barrier.reason


@pytest.mark.parametrize("facts", [HOPPER, AMPERE, TURING, CPU], ids=lambda facts: facts.name)
def test_uniform_may_be_asked_for_everywhere_and_by_the_environment(monkeypatch, facts):
    strategy = choose(DeviceProfile(facts, findings(NONE, mbarrier=False)), {"split_barrier": "uniform"})
    assert strategy.split_barrier.value == "uniform"
    assert "requested" in strategy.split_barrier.reason
    monkeypatch.setenv(VARIABLE, "split_barrier=uniform")
    assert choose(DeviceProfile(facts, findings(INDEPENDENT, mbarrier=False))).split_barrier.value == "uniform"
    assert choose(DeviceProfile(HOPPER), {"split_barrier": "mbarrier"}).split_barrier.value == "mbarrier"


@pytest.mark.parametrize(
    ("facts", "found", "name", "words"),
    [
        (CPU, None, "mbarrier", ["compute capability 8.0"]),
        (TURING, None, "mbarrier", ["compute capability 8.0"]),
        (HOPPER, findings(INDEPENDENT, mbarrier=False), "mbarrier", ["probe"]),
        (CPU, findings(NONE, mbarrier=False), "mbarrier", []),
        (CPU, findings(NONE, mbarrier=False), "counter", ["progress"]),
        (CPU, None, "counter", ["progress"]),
        (CPU, findings({"lanes": "timeout"}, mbarrier=False), "counter", ["progress"]),
    ],
)
def test_a_strategy_that_the_device_cannot_have_is_refused_with_the_reason(facts, found, name, words):
    with pytest.raises(UnsupportedFeatureError) as caught:
        choose(DeviceProfile(facts, found), {"split_barrier": name})
    for word in [facts.name, f"{name} was requested", *words]:
        assert word in str(caught.value)


def chosen(name, facts, found):
    return choose(DeviceProfile(facts, found), {"split_barrier": name})


RENDERED = [
    ("mbarrier", HOPPER, findings(INDEPENDENT, mbarrier=True), tuple(FEATURES)),
    ("mbarrier", AMPERE, findings(INDEPENDENT, mbarrier=True), tuple(FEATURES)),
    ("mbarrier", AMPERE, None, tuple(FEATURES)),
    ("counter", CPU, findings(INDEPENDENT, mbarrier=False), tuple(FEATURES)),
    ("counter", TURING, findings(INDEPENDENT, mbarrier=False), tuple(FEATURES)),
    # Among whole sub-groups, no divergent waits.
    ("counter", CPU, findings(SUB_GROUPS_ONLY, mbarrier=False), ("sub_groups", "overlapping")),
    ("uniform", CPU, findings(NONE, mbarrier=False), ("overlapping",)),
    ("uniform", CPU, None, ("overlapping",)),
    ("uniform", HOPPER, findings(INDEPENDENT, mbarrier=True), ("overlapping",)),
]


@pytest.mark.parametrize(("name", "facts", "found", "features"), RENDERED)
def test_the_header_renders_every_member_once_with_a_comment_and_defines_the_features(name, facts, found, features):
    text = render_header("split_barrier", chosen(name, facts, found))
    code = without_comments(text)
    for member in MEMBERS:
        head = rf"^PORTBAR_MEMBER [\w ]*\n?{member}\("
        assert len(re.findall(head, code, re.MULTILINE)) == 1, member
    assert re.search(r"^\} portbar_split_barrier;$", code, re.MULTILINE)
    assert re.search(r"^typedef ulong portbar_arrival_token;$", code, re.MULTILINE)
    defined = re.findall(r"^#define PORTBAR_SPLIT_BARRIER_([A-Z_]+) 1$", code, re.MULTILINE)
    assert defined == [feature.upper() for feature in features]
    assert re.search(r"^#define PORTBAR_SPLIT_BARRIER 1$", code, re.MULTILINE)
    assert re.search(r"^#define PORTBAR_COPY_ASYNC 1$", code, re.MULTILINE)
    if name == "mbarrier":
        assert re.search(r"^#define PORTBAR_COPY_ASYNC_HARDWARE 1$", code, re.MULTILINE)
    assert not re.search(r"\$\{|<%|^\s*%|UNDEFINED", text, re.MULTILINE)
    assert "#include" not in code
    assert f"split barrier {name}" in text
    assert code.count("{") == code.count("}")
    assert code.count("(") == code.count(")")
    lines = text.splitlines()
    functions = [k for k, line in enumerate(lines) if line.startswith("PORTBAR_MEMBER")]
    assert len(functions) >= 19
    for k in functions:
        assert lines[k - 1].rstrip().endswith(("*/", "}")), lines[k]


@pytest.mark.parametrize("name", ["uniform", "counter"])
@pytest.mark.parametrize("facts", [HOPPER, AMPERE, CPU], ids=lambda facts: facts.name)
def test_arrivals_counted_in_software_wait_for_copies_that_run_on_their_own(name, facts):
    code = without_comments(render_header("split_barrier", chosen(name, facts, findings(INDEPENDENT, mbarrier=True))))
    if "PORTBAR_COPY_ASYNC_HARDWARE" not in code:
        assert "cp.async" not in code
        return
    for member in ("arrive_copy_async", "arrive_copy_async_no_inc"):
        body = re.search(rf"\bportbar_split_barrier_{member}\(.*?^\}}", code, re.MULTILINE | re.DOTALL)
        assert body is not None
        assert re.search(r"portbar_copy_async_wait|cp\.async\.wait_all", body[0]), body[0]


def test_waits_whose_polls_return_at_once_are_not_given_up_sooner_than_those_in_software():
    # Before sm_90 there is no mbarrier.try_wait, whose polls sleep: a wait tests again and again, nanoseconds apart.
    found = findings(INDEPENDENT, mbarrier=True)

    def polls(name):
        text = render_header("split_barrier", chosen(name, AMPERE, found))
        return int(re.search(r"^#define PORTBAR_SPLIT_BARRIER_POLLS (\d+)u$", text, re.MULTILINE)[1])

    assert polls("mbarrier") >= polls("counter")


@pytest.mark.parametrize("name", ["counter", "uniform"])
def test_memory_between_work_groups_does_not_concern_a_split_barrier(name):
    # A device without confirmed ordering between work-groups can still have one.
    weak = DeviceFacts(name="Weak", type=("GPU",), opencl_c_versions=("1.2",))
    found = Findings(builds={"cl12": True}, progress=INDEPENDENT, source="test")
    strategy = choose(DeviceProfile(weak, found), {"split_barrier": name}, ordering="work_group")
    assert "portbar_split_barrier_arrive" in render_header("split_barrier", strategy)


DROPPED = (
    "if (x) portbar_split_barrier_wait(&b, token); else portbar_split_barrier_arrive_and_wait(&b);",
    "switch (x) { case 1: portbar_split_barrier_wait(&b, token); }",
    "#define WAIT portbar_split_barrier_wait\n WAIT(&b, token);",
    "portbar_split_barrier_wait(&b, token);",
    "{ portbar_split_barrier_wait ( &b, (token) ) ; }",
    "for (uint i = 0; i < 3u; ++i) { portbar_split_barrier_arrive_and_wait(&b); }",
    "(void)portbar_split_barrier_wait(&b, token); /* if (portbar_split_barrier_wait(&b, token)) */",
    "do portbar_split_barrier_wait(&b, token); while (0);",
    "portbar_split_barrier_wait(&b, portbar_split_barrier_arrive(&b));",
)
USED = (
    "if (portbar_split_barrier_wait(&b, token)) x = 1;",
    "x = (uint)portbar_split_barrier_arrive_and_wait(&b);",
    "while (!portbar_split_barrier_wait(&b, token)) ;",
    "for (; portbar_split_barrier_wait(&b, token); ++x) ;",
    "x = ({ portbar_split_barrier_wait(&b, token); });",
    "portbar_split_barrier_wait(&b, token) ? f() : g();",
    "x = 0, portbar_split_barrier_wait(&b, token);",
    "CHECK(portbar_split_barrier_wait(&b, token));",
    "#define WAIT portbar_split_barrier_wait\n x = WAIT(&b, token);",
    "#define WAIT() portbar_split_barrier_wait(&b, token)\n if (WAIT()) x = 1;",
    "portbar_split_barrier_wait(&b, token); x = portbar_split_barrier_wait(&b, token);",
)


WAITING = """#include "portbar/split_barrier.h"
uint f(void); uint g(void);
uint waits(void);
#define CHECK(x) ((x) ? f() : g())
kernel void k(global uint *out)
{
    local portbar_split_barrier b;
    portbar_arrival_token token = 0;
    uint x = 0;
    STATEMENT
    out[0] = x;
}
"""


def shows(text: str, *options: str) -> bool:
    return shows_counts(text, options, facts(text, *options))


@needs_libclang
@pytest.mark.parametrize("statement", [*DROPPED, *USED])
def test_counts_are_looked_at_unless_the_answer_of_each_wait_is_dropped(statement):
    assert shows(WAITING.replace("STATEMENT", statement)) is (statement in USED)


@needs_libclang
def test_counts_are_looked_at_in_doubt():
    assert not shows(WAITING.replace("STATEMENT", "WAIT(&b, token);"), "-DWAIT=portbar_split_barrier_wait")
    assert not shows(
        WAITING.replace("STATEMENT", "#define WAIT(x) portbar_split_barrier_##x(&b, token)\nif (x) WAIT(wait);")
    )
    assert shows(WAITING.replace("STATEMENT", "portbar_split_barrier_wait(&b, token); vendor_only();"))
    assert shows(
        WAITING.replace("STATEMENT", "#ifdef __VENDOR__\nx = portbar_split_barrier_wait(&b, token);\n#endif\n")
    )
    text = "kernel void k(void) { portbar_split_barrier_wait(&b, token); }"
    assert shows_counts(text)
    assert not shows_counts(text.replace("portbar_split_", "portbar_device_"))


def test_the_tables_of_the_page_are_those_of_the_variants():
    page = (ROOT / "docs" / "split_barrier.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\w+)` \| (.*) \|$", page.partition("## Strategies")[2], re.MULTILINE)
    assert rows[: len(VARIANTS)] == [(variant.name, variant.summary) for variant in VARIANTS.values()]
    assert f"| `require=` | what it is | {' | '.join(f'`{name}`' for name in VARIANTS)} |" in page
    for feature in FEATURES:
        assert f"| `split_barrier.{feature}` |" in page, feature
