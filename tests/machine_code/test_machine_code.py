"""Machine code of each algorithm for GPUs that are not here: polls are loads, loops are rolled, one acquire after a wait."""

from __future__ import annotations

import importlib.resources
import json
import os
import re
from dataclasses import asdict, replace
from pathlib import Path

import jsonschema_rs
import pytest

from portbar.survey.report.tables import compiled_table
from tests.machine_code.__main__ import FILE
from tests.machine_code.cases import CASES
from tests.machine_code.expected import EXPECTED
from tests.machine_code.listings import AMD, Figures, read
from tests.machine_code.targets import TARGETS, MissingToolError

#: All pairs are compiled where this is set; otherwise two cases per target, so that each case is compiled for some.
EVERY = bool(os.environ.get("PORTBAR_TEST_EVERY_MACHINE_CODE"))


def pairs() -> list[tuple[str, str]]:
    cases = list(CASES)
    if EVERY:
        return [(target, case) for target in TARGETS for case in cases]
    return [
        (target, cases[(5 * number + more) % len(cases)]) for number, target in enumerate(TARGETS) for more in (0, 7)
    ]


KEPT = json.loads(FILE.read_text(encoding="utf-8"))


def test_the_figures_that_are_kept_follow_their_schema_and_are_whole() -> None:
    folder = importlib.resources.files("portbar.records") / "schema" / "compiled"
    schema = json.loads((folder / "1.schema.json").read_text(encoding="utf-8"))
    jsonschema_rs.validator_for(schema).validate(KEPT)
    assert [entry["name"] for entry in KEPT["targets"]] == list(TARGETS)
    assert all(list(entry["cases"]) == list(CASES) for entry in KEPT["targets"])


def test_a_report_shows_what_was_compiled_and_not_run(tmp_path: Path) -> None:
    shown = compiled_table(FILE.parent.parent)
    assert shown is not None
    rows = {row[0].text: [cell.text for cell in row] for row in shown.rows}
    assert list(rows) == list(TARGETS)
    assert rows["pvc before a probe"][5] > rows["pvc"][5]
    assert compiled_table(tmp_path) is None


@pytest.mark.timeout(20)
@pytest.mark.parametrize(
    "odd",
    ["pipe", "link", "[" * 100_000, '{"targets": [{}]}', {"name": "\x1b[2J"}, {"gpus": 7}, {"cases": {"a": {"x": 1}}}],
)
def test_a_file_that_a_stranger_made_shows_nothing_and_hangs_nothing(
    tmp_path: Path, odd: str | dict[str, object]
) -> None:
    path = tmp_path / FILE.relative_to(FILE.parent.parent)
    path.parent.mkdir()
    if odd == "pipe":
        os.mkfifo(path)
    elif odd == "link":
        path.symlink_to("/dev/zero")
    elif isinstance(odd, str):
        path.write_text(odd)
    else:
        first = KEPT["targets"][0]
        for targets, shown in (([first], True), ([first | odd], False)):
            path.write_text(json.dumps(KEPT | {"targets": targets}))
            assert (compiled_table(tmp_path) is not None) == shown
    assert compiled_table(tmp_path) is None


def figures(target: str, case: str, folder: Path) -> Figures:
    try:
        return TARGETS[target].compile(TARGETS[target], CASES[case].text(TARGETS[target]), folder)
    except MissingToolError as error:
        pytest.skip(f"not compiled for {target}: {error}")


def test_each_target_has_an_expectation_and_each_case_is_compiled() -> None:
    assert list(EXPECTED) == list(TARGETS)
    assert {case for _, case in pairs()} == set(CASES)


def waits(code: dict[str, int]) -> dict[str, int]:
    """Return how a code waits. How long it is changes with every edit of a template."""
    return {name: count for name, count in code.items() if name not in {"instructions", "loads", "releases"}}


@pytest.mark.parametrize(("target", "case"), pairs())
def test_code_waits_as_it_should(target: str, case: str, tmp_path: Path) -> None:
    found, expected = figures(target, case, tmp_path), EXPECTED[target]
    faults = [] if expected is None else list(expected.faults(case, CASES[case], found))
    assert not faults, f"{target}, {case}: {'; '.join(faults)}\n{found}"
    kept = next((entry for entry in KEPT["targets"] if entry["name"] == target), None)
    # Another version of a compiler may do better or worse within the expectation.
    if kept is not None and kept["compiler"] == TARGETS[target].compiler(TARGETS[target]):
        fresh = {} if expected is None else asdict(found)
        assert waits(kept["cases"][case]) == waits(fresh), "run python -m tests.machine_code --write"


def test_atomic_loads_of_intel_write_and_volatile_ones_do_not(tmp_path: Path) -> None:
    before, after = (figures(name, "barrier counter", tmp_path) for name in ("pvc before a probe", "pvc"))
    assert (before.writing_loops, after.writing_loops) == (4, CASES["barrier counter"].exchanges)


@pytest.mark.parametrize("target", ["armv8-a", "armv8.1-a", "rv64gc"])
@pytest.mark.parametrize(
    ("order", "fault"), [("acquire", "no acquire after a wait"), ("release", "no release before an arrival")]
)
def test_a_barrier_without_an_order_is_seen_on_weakly_ordered_processors(
    target: str, order: str, fault: str, tmp_path: Path
) -> None:
    case, chosen, expected = CASES["barrier counter"], TARGETS[target], EXPECTED[target]
    assert expected is not None
    weaker = re.sub(rf"memory_order_(?:{order}|acq_rel|seq_cst)", "memory_order_relaxed", case.text(chosen))
    try:
        found = chosen.compile(chosen, weaker, tmp_path)
    except MissingToolError as error:
        pytest.skip(f"not compiled for {target}: {error}")
    assert fault in expected.faults("barrier counter", case, found)


_POLLS = """
.LBB0_1:
	s_branch .LBB0_3
.LBB0_2:
	s_cbranch_vccnz .LBB0_5
.LBB0_3:
	global_load_dword v1, v5, s[20:21] glc
	BODY
	s_cbranch_scc0 .LBB0_2
	s_branch .LBB0_1
.LBB0_5:
	buffer_wbinvl1_vol
	s_endpgm
"""


@pytest.mark.parametrize(
    ("body", "fault"),
    [
        ("s_nop 0", ""),
        ("global_atomic_or v1, v1, v5, s[18:19] glc", "polls write"),
        ("buffer_wbinvl1_vol", "each poll acquires"),
        ("\n\t".join(["global_load_dword v1, v5, s[20:21] glc"] * 3), "polls are unrolled"),
    ],
)
def test_a_listing_is_held_to_its_expectation(body: str, fault: str) -> None:
    found = replace(read(_POLLS.replace("BODY", body), AMD), releases=1)
    expected = EXPECTED["gfx942"]
    assert expected is not None
    assert list(expected.faults("ticket lock", CASES["ticket lock"], found)) == ([fault] if fault else [])
    assert found.poll_loops == 1
