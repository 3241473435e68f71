"""docs/c_functions.md is what the contracts in the templates say, and each public function has a whole contract."""

from __future__ import annotations

import pytest

from portbar.primitives.headers import header_names
from tests.docs import c_functions
from tests.docs.c_functions import Function, contract, functions, resolved


def test_the_page_is_what_the_headers_say() -> None:
    assert c_functions.PAGE.read_text(encoding="utf-8") == c_functions.page(), "run python -m tests.docs.c_functions"


def test_every_public_function_names_its_caller_and_its_cost() -> None:
    assert not c_functions.incomplete()


def test_every_header_has_functions_with_pages() -> None:
    found = dict(c_functions.public())
    assert set(found) == set(header_names())
    assert all(len(rows) > (1 if name == "run_kernels" else 5) for name, rows in found.items())


@pytest.mark.parametrize(
    "name",
    [
        "portbar_device_barrier_test_wait",
        "PORTBAR_FOR_3D",
        "portbar_work_group_signal_add",
        "portbar_atomic_fetch_xor_explicit",
        "portbar_atomic_notify_all",
        "portbar_split_barrier_wait_parity",
        "portbar_device_scan_exclusive_OP",
        "portbar_loop_count_LEVEL",
        "NAME_supply",
        "portbar_team_broadcast",
    ],
)
def test_public_names_of_every_kind_are_found(name: str) -> None:
    assert name in {function.name for _, found in c_functions.public() for function in found}


def test_calls_show_what_they_return_and_loops_what_they_do_on_each_kind_of_device() -> None:
    rows = {function.name: function for _, found in c_functions.public() for function in found}
    assert rows["portbar_team_rank"].call == "uint portbar_team_rank(team)"
    assert rows["portbar_team_broadcast"].call.startswith("T ")
    assert rows["portbar_task_queue_push"].call.startswith("portbar_")
    shared, other = rows["PORTBAR_FOR"].summary.split(" On other devices: ")
    assert "each work-item takes neighbours" in shared
    assert "Neighbouring work-items take neighbours" in other


def test_internal_functions_are_left_out() -> None:
    names = {function.name for _, found in c_functions.public() for function in found}
    assert not {name for name in names if name.startswith(("portbar_word_", "portbar_raw_", "PORTBAR_LEADER"))}


def test_fields_of_a_contract_are_read() -> None:
    text = "Waits. Twice. Caller, order and cost: as for portbar_signal_test; twice. Result: true: at last."
    as_for = "as for portbar_signal_test; twice"
    assert contract(text) == {
        "summary": "Waits. Twice.",
        "caller": as_for,
        "order": as_for,
        "cost": as_for,
        "result": "true: at last",
    }


def test_references_to_another_function_are_resolved() -> None:
    other = Function("portbar_signal_test", ("grid",), "Tests.", caller="any work-item", cost="a load")
    one = Function("portbar_signal_wait", ("grid",), "Waits.", caller="as for portbar_signal_test; twice", cost="polls")
    found = resolved(one, {other.name: other})
    assert (found.caller, found.cost) == ("any work-item; twice", "polls")


HEADER = """
/* Pushes. Caller: any work-item. Cost: an atomic. */
static inline void portbar_frontier_push(portbar_frontier *frontier, uint value)
{
    /* an inner comment */
}
static inline uint portbar_frontier_size(const portbar_frontier *frontier)
{
}

static inline uint portbar_frontier_at(const portbar_frontier *frontier, uint i)
{
}
/* ---- Frontiers. Caller: a section's. */
/* Helps. */
static inline uint portbar_frontier_internal(uint i)
{
}

#define PORTBAR_FRONTIER(frontier, grid, list) 1
"""


def test_a_contract_holds_for_its_functions_only() -> None:
    found = {function.name: function for function in functions(HEADER)}
    assert {name: (one.caller, one.cost) for name, one in found.items()} == {
        "portbar_frontier_push": ("any work-item", "an atomic"),
        "portbar_frontier_size": ("any work-item", "an atomic"),
        "portbar_frontier_at": ("", ""),
        "PORTBAR_FRONTIER": ("a section's", ""),
    }
    assert found["portbar_frontier_push"].call == "void portbar_frontier_push(frontier, value)"
