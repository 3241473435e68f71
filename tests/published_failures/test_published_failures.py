"""Hand-written synchronisation that was published and is wrong: it fails as the page says, and portbar's primitives do not."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pyopencl as cl
import pytest

from portbar.primitives.headers import render_header
from tests.docs.pages import DOCS, STRATEGIES, blocks, outputs, pattern_of, sections
from tests.support import skipped_where_refused

PAGES = [DOCS / "published_failures.md"]
SECTIONS = sections(*PAGES)

#: The result with a single work-group: none to wait for, and none to be late.
NEEDS_TWO = {"work-groups were stuck in a barrier: True", "elements were read before they were written: True"}

#: Polls of the hand-written waits; more would be a hang on a simulator.
MOST_POLLS = 1 << 22


@pytest.mark.device
@pytest.mark.parametrize(("path", "section"), SECTIONS, ids=lambda value: value if isinstance(value, str) else "")
def test_each_fails_by_hand_and_not_by_primitives(
    path: Path, section: str, context: cl.Context, queue: cl.CommandQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cl, "create_some_context", lambda **_: context)
    names: dict[str, Any] = {}
    compared = 0
    with skipped_where_refused():
        for shown, said, again in outputs(path, section, names, queue):
            compared += 1
            found, needs_two = said, shown.strip() in NEEDS_TWO
            if needs_two and names["launch"].num_groups < 2:
                continue
            # A busy machine may keep the group off its core that would be too early.
            for _ in range(20 * needs_two):
                if re.fullmatch(pattern_of(shown), found):
                    break
                found = again()
            assert re.fullmatch(pattern_of(shown), found), f"the page: {shown}\nfound: {found}"
    assert compared >= 2


def test_every_wait_by_hand_is_bounded() -> None:
    """Each loop that reads an atomic in its condition or body counts its polls."""
    kernels = [block.text for page in PAGES for block in blocks(page) if block.language == "c"]
    polls = re.findall(r"for \(uint poll = 0; poll < 1u << (\d+) && ", "".join(kernels))
    assert len(polls) == "".join(kernels).count("portbar_atomic_load_explicit(") == 4
    assert all(1 << int(bits) <= MOST_POLLS for bits in polls)
    assert "while" not in "".join(kernels)


def test_the_page_has_the_four_failures() -> None:
    assert len(SECTIONS) == 4


@pytest.mark.parametrize("header", ["device_barrier", "signal"])
def test_what_waits_between_groups_takes_no_order_and_no_scope(header: str) -> None:
    """So that too narrow a fence cannot be written with them."""
    for strategy in STRATEGIES:
        text = render_header(header, strategy)
        public = re.findall(
            r"^static inline \w+ (portbar_(?:device_|work_group_)?(?:barrier|signal|wait_until)\w*)\((.*)\)$",
            text,
            re.MULTILINE,
        )
        assert public
        for name, parameters in public:
            assert not re.search(r"order|scope", parameters), name


def test_no_function_sets_a_signal_back_while_groups_poll_it() -> None:
    """`portbar_device_signals_clear` is the one that sets to 0, and it is a barrier itself."""
    for strategy in STRATEGIES:
        text = render_header("signal", strategy)
        functions = set(
            re.findall(r"^static inline \w+ (portbar_(?:device_|work_group_)?signals?_\w+)\(", text, re.MULTILINE)
        )
        assert {name for name in functions if re.search("clear|reset|sub", name)} <= {"portbar_device_signals_clear"}
        cleared = re.search(r"portbar_device_signals_clear\(.*?\n\}", text, re.DOTALL)
        assert cleared is not None
        assert "portbar_device_barrier(" in cleared[0]


def test_the_memory_models_allow_stale_data_behind_a_narrow_fence() -> None:
    litmus = pytest.importorskip("models.weak_memory.litmus", reason='no z3: `pip install "portbar[test]"` brings it')
    by_name = {test.name: test for test in litmus.TESTS}
    for model in ("OpenCL", "PTX"):
        assert litmus.allows(by_name["MP+scopes"], model)
        assert not litmus.allows(by_name["MP+rel+acq"], model)
        assert not litmus.allows(by_name["MP+scopes in group"], model)
