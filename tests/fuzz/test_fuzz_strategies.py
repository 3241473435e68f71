"""Any facts with any findings and overrides: a strategy that contradicts none of them and renders, or a refusal."""

from __future__ import annotations

import re
from typing import Any, get_type_hints

import pytest
from hypothesis import given
from hypothesis import strategies as st

from portbar.choices.profile import profile_of
from portbar.choices.strategy import ALTERNATIVES, VARIABLE, DeviceProfile, choose, parse_overrides
from portbar.device.facts import DeviceFacts
from portbar.device.findings import Findings
from portbar.errors import Error, RecordError, UnsupportedFeatureError
from portbar.primitives.headers import header_names, render_header
from portbar.primitives.reduction.use import Use
from portbar.records import load
from tests.checkout import ROOT
from tests.fuzz import target

#: Devices of published records, each member apart.
KNOWN = [entry for path in sorted((ROOT / "vendor_matrix").glob("*.json")) for entry in load(path)["devices"]]
NUMBERS = st.sampled_from([0, 1, 2, 3, 32, 64, 255, 1024, 65_535, 2**31, 2**32 - 1, 2**64 - 1]) | st.integers(0, 2**64)
TEXTS = st.sampled_from(["", "pass", "fail: SB", "3 stale reads", "untested: x", "unknown: x", "independent", "none"])
NAMES = ["c11", "ptx", "membar", "cl12", "c11@CL2.0", "c11@CL3.0", "work_groups", "sub_groups", "lanes", "loop_limit"]
VERDICTS = st.dictionaries(st.sampled_from(NAMES), TEXTS | st.text(max_size=9), max_size=5)


def known(part: str, name: str) -> st.SearchStrategy[Any]:
    """Return the values of one member of the facts or the findings in published records."""
    return st.sampled_from([entry[part][name] for entry in KNOWN if name in (entry.get(part) or ())] or [None])


def any_fact(kind: str) -> st.SearchStrategy[Any]:
    """A value of a type that a fact has."""
    found = {
        "str": st.text(max_size=12),
        "int": NUMBERS,
        "bool": st.booleans(),
        "tuple[str": st.lists(st.text(max_size=6), max_size=4),
        "tuple[int": st.lists(NUMBERS, max_size=3),
        "Mapping": st.dictionaries(
            st.sampled_from(["compute_capability_major", "compute_capability_minor", "warp_size"]), NUMBERS
        ),
    }[re.findall(r"Mapping|tuple\[\w+|\b(?:str|int|bool)\b", kind)[0]]
    return found | st.none() if re.search("None|Optional", kind) else found


@st.composite
def varied(draw: st.DrawFn, part: str, members: dict[str, st.SearchStrategy[Any]]) -> dict[str, Any]:
    """Draw a part of a published record, or nothing, with a few members changed."""
    base = draw(st.sampled_from([{}, *(entry[part] for entry in KNOWN if entry.get(part))]))
    return base | {name: draw(members[name]) for name in draw(st.sets(st.sampled_from(sorted(members)), max_size=4))}


facts = varied(
    "facts",
    {name: known("facts", name) | any_fact(str(kind)) for name, kind in get_type_hints(DeviceFacts).items()},
)
findings = varied(
    "findings",
    {
        "builds": known("findings", "builds")
        | st.dictionaries(st.sampled_from([*NAMES, "sub_groups", "fp64", "printf", "asm_anywhere"]), st.booleans()),
        **dict.fromkeys(("ordering", "litmus", "progress", "lost"), VERDICTS),
        "groups_in_flight": st.none() | NUMBERS,
        "loop_limit": st.none() | NUMBERS,
        "polls_per_second": st.none() | st.floats(),
        "barrier_table": known("findings", "barrier_table")
        | st.lists(st.tuples(NUMBERS, NUMBERS, st.sampled_from([*ALTERNATIVES["device_barrier"], "x"])), max_size=4),
        "tuning": known("findings", "tuning"),
        "arrays": known("findings", "arrays"),
        "source": st.sampled_from(["", "test", "vendor matrix: nothing", "; waits of "]),
    },
)
overrides = st.dictionaries(
    st.sampled_from([*ALTERNATIVES, "x"]), st.sampled_from([*(v for a in ALTERNATIVES.values() for v in a), "x", ""])
)


@pytest.fixture(scope="module", autouse=True)
def surroundings():
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv(VARIABLE, raising=False)
        patch.setenv("PORTBAR_CACHE_DIR", "off")
        yield


@target
@given(
    facts,
    st.none() | findings,
    overrides | st.just({}),
    st.sampled_from(header_names()),
    st.sampled_from(["device", "work_group"]),
    st.booleans(),
    NUMBERS,
)
def test_any_facts_and_findings_give_a_strategy_that_contradicts_none_or_a_refusal(
    told, found, asked, header, ordering, debug, groups
):
    try:
        device = DeviceFacts.from_json(told)
        profile = profile_of(device) if found is None else DeviceProfile(device, Findings.from_json(found))
    except RecordError:
        return
    assert DeviceFacts.from_json(device.to_json()) == device
    if found is not None:
        assert Findings.from_json(profile.findings.to_json()) == profile.findings
    try:
        chosen = choose(profile, asked, ordering=ordering, debug=debug)
    except UnsupportedFeatureError as error:
        assert str(error)  # noqa: PT017 (as good an end)
        return
    assert all(value and reason for value, reason in chosen.reasons().values())
    assert all(chosen.reasons()[name][0] == value for name, value in asked.items())
    assert (chosen.max_groups == 1) or profile.loop_limit is None
    if profile.findings is not None and "atomics" not in asked:
        assert not profile.findings.litmus.get(chosen.atomics.value, "").startswith("fail")
    assert chosen.for_groups(max(1, groups)).device_barrier.value in ALTERNATIVES["device_barrier"]
    try:
        text = render_header(header, chosen, Use(frozenset()))
    except Error:
        return
    assert f"#define PORTBAR_{header.upper()}_H" in text


@target
@given(
    st.text(max_size=40) | st.lists(st.sampled_from([*ALTERNATIVES, "=", ",", "c11", "tree", " ", "\x00"])).map("".join)
)
def test_any_text_of_overrides_is_read_or_refused(text):
    try:
        read = parse_overrides(text)
    except UnsupportedFeatureError:
        return
    assert all(value in ALTERNATIVES[name] for name, value in read.items())
