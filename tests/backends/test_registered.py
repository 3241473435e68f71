"""A backend of a program's own: a class and a template, outside the package, used like those within."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

import portbar
from portbar.backends.backend import BACKENDS, Backend
from portbar.backends.units import OWN
from portbar.choices.strategy import ALTERNATIVES, DeviceProfile, choose
from portbar.device import quirks
from portbar.device.facts import DeviceFacts
from portbar.device.findings import Findings
from portbar.errors import UnsupportedFeatureError
from portbar.primitives.headers import render_header
from tests import support
from tests.device_barrier.support import check_chain
from tests.device_barrier.test_device_barrier import FORMS

SWAP = """
<%def name="operation(op, kind, space, order=None)">
<% builtin = {"exchange": "xchg", "store": "xchg", "add": "add", "or": "or"}.get(op, "cmpxchg") %>
% if order in ("release", "acq_rel"):
    swap_fence();
% endif
    const ${kind} found = atomic_${builtin}(p, ${{"load": "0u, 0u", "compare_exchange": "expected, desired"}.get(op, "v")});
% if order in ("acquire", "acq_rel"):
    swap_fence();
% endif
% if op == "store":
    (void)found;
% else:
    return found;
% endif
</%def>
<%def name="swap_fence()">
static inline void swap_fence(void)
{
    mem_fence(CLK_GLOBAL_MEM_FENCE);
}
</%def>
<%def name="fences()"></%def>
<%def name="word_arrive()">
/* An arrival in the backend's own way: by compare-and-exchange. */
static inline uint portbar_word_arrive(volatile global uint *p)
{
    uint before = 0u, found;
    while ((found = portbar_word_compare_exchange(p, before, before + 1u)) != before)
        before = found;
    return before;
}
</%def>
<%def name="first_polls_of_word()">
    if (portbar_word_load_acquire(word) - target < grid->num_groups)
        return ${reached};
</%def>
"""


class Swap(Backend):
    """Atomics by those of OpenCL 1.2, with properties of its own."""

    def lack(self, facts: DeviceFacts, findings: Findings | None) -> str:  # noqa: ARG002
        return "nobody swaps there" if facts.name == "Stubborn" else ""

    def promise(self, facts: DeviceFacts) -> str:  # noqa: ARG002
        return "made for a test"

    @property
    def rolled(self) -> Callable[[str], str]:
        return "SWAPS_OWN({})".format

    @property
    def stride(self) -> Callable[[str], str]:
        return "(0u + {})".format


@pytest.fixture
def swap(tmp_path: Path) -> Iterator[Backend]:
    path = tmp_path / "swap.mako"
    path.write_text(SWAP, encoding="utf-8")
    backend = Swap("swap", 99, "swaps", template=str(path), loads_write=True, before_words=("swap_fence",))
    with BACKENDS.registered(backend):
        yield backend
    assert "swap" not in ALTERNATIVES["atomics"]


@pytest.mark.usefixtures("swap")
def test_a_registered_backend_is_in_the_tables() -> None:
    assert list(ALTERNATIVES["atomics"])[-1] == "swap"
    with pytest.raises(UnsupportedFeatureError, match="swap was requested, but nobody swaps there"):
        choose(DeviceProfile(DeviceFacts(name="Stubborn")), {"atomics": "swap"})


@pytest.mark.usefixtures("swap")
def test_texts_take_its_properties_and_defs_where_it_has_some() -> None:
    strategy = choose(DeviceProfile(DeviceFacts(name="Some", type=("GPU",))), {"atomics": "swap"})
    text = render_header("device_barrier", strategy)
    assert "An arrival in the backend's own way" in text
    # Waits return either an outcome or whether they came to their end.
    assert text.count("        return PORTBAR_WAIT_REACHED;") > text.count("            return PORTBAR_WAIT_REACHED;")
    assert "        return true;" in text
    # It does not define this one.
    assert "#define portbar_word_acquire(p) ((void)portbar_word_load_acquire(p))" in text
    assert "(0u + " in text
    assert "SWAPS_OWN(" in render_header("lock", strategy)


def test_a_backend_depends_on_the_units_of_a_device() -> None:
    threads = DeviceProfile(DeviceFacts(type=("CPU",)), Findings()).units
    c11 = BACKENDS["c11"]
    assert c11.on(threads).acquire_polls
    assert not c11.on(OWN).acquire_polls
    assert not c11.on(threads).pauses
    paused = replace(threads, instructions=frozenset({"pause"}))
    assert c11.on(paused).pause_is_round
    assert BACKENDS["ptx"].on(OWN).pauses
    assert not BACKENDS["ptx"].on(OWN).pause_is_round
    assert c11.on(OWN).rolled("4u") != c11.on(threads).rolled("4u") == "4u"
    assert c11.on(OWN).stride("n") == "n" != c11.on(OWN, frozenset({quirks.LOOPS_ENDLESS})).stride("n")


@pytest.mark.device
def test_a_barrier_by_a_registered_backend_meets(context, queue, swap) -> None:
    profile = portbar.describe(queue.device)
    if quirks.has_effect(quirks.FENCES_ARE_BARRIERS, profile.facts) or profile.units.kind != "cpu":
        pytest.skip("memory is ordered by no fence that this backend has")
    with support.skipped_where_refused():
        program = portbar.Program(context, FORMS, strategy={"atomics": swap.name}, spin_limit=20.0)
    assert check_chain(program.kernel("chain"), queue, (8,), 6)
    assert program.strategy(queue.device).backend.name == "swap"
    assert "An arrival in the backend's own way" in program.rendered(queue.device)
