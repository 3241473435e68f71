"""Debug builds check the conditions on which calls depend that many must make, and no others."""

from __future__ import annotations

import re

import pytest

from portbar.primitives.headers import declarations
from portbar.reading.checks import Checked
from portbar.reading.found import Unread
from portbar.reading.reader import checked, is_available, read
from portbar.reading.report import DIVERGENCE
from tests.reading.programs import PAIRS, WIDE, Pair, grid, kernel
from tests.reading.test_divergence import MADE, UNIFORM

pytestmark = pytest.mark.skipif(not is_available(), reason="no libclang for this platform")

_CALL = re.compile(r"portbar_(?:value_)?agreed_by_(grid|work_group)\(")


def made_of(text: str, defined: tuple[str, ...] = (), options: tuple[str, ...] = ()) -> Checked | Unread:
    return checked("k.cl", text, declarations(), options, defined=defined, header="grid_agreement", wide=bool(defined))


def checked_in(text: str) -> list[tuple[int, str, str]]:
    """The conditions of a program that are checked: line, text, and among whom."""
    made = made_of(text)
    assert isinstance(made, Checked)
    assert len(_CALL.findall(made.text)) == len(made.conditions)
    return sorted(
        (one.place.line, one.source, "grid" if one.is_grid else "work_group") for one in made.conditions.values()
    )


def sources(text: str) -> list[str]:
    return [source for _, source, _ in checked_in(text)]


@pytest.mark.parametrize("pair", [*PAIRS, *WIDE], ids=lambda pair: pair.name)
def test_a_right_program_with_checks_can_be_read_and_is_right(pair: Pair) -> None:
    for defined in ((), MADE):
        made = made_of(pair.right, defined)
        assert isinstance(made, Checked)
        if not made.conditions:
            assert made.text == pair.right
        found = read("k.cl", made.text, declarations(), defined=defined)
        assert not found.unread
        # Loops that go on after a fault are found in the text without checks.
        assert not [one for one in found.misuses if one.kind == DIVERGENCE]


@pytest.mark.parametrize("name", UNIFORM)
def test_no_line_moves(name: str) -> None:
    text = kernel(re.sub(r"\bB\b", "barrier(1);\n", UNIFORM[name]))
    made = made_of(text)
    assert isinstance(made, Checked)
    ending = '#include "portbar/grid_agreement.h"\n#line 1 "k.cl"\n'
    if made.conditions:
        assert made.text.startswith(ending)
    assert made.text.removeprefix(ending).count("\n") == text.count("\n")


def test_what_is_proven_to_be_the_same_is_not_checked() -> None:
    body = """
    uint turns = n, kept[2] = {n / 2u, n};
    for (uint s = 0u; s < turns && c[s] != 0u; ++s)
        portbar_device_barrier(&grid);
    if (kept[1] > 3u && PORTBAR_UNIFORM(a[0] > 1u))
        portbar_device_barrier(&grid);
    if (portbar_device_barrier_any(&grid, a[portbar_global_id(&grid)] > 1u))
        portbar_device_barrier(&grid);
    if (!portbar_device_barrier(&grid) || portbar_num_groups(&grid) > n)
        return;
    if (portbar_group_id(&grid) == n)
        barrier(CLK_LOCAL_MEM_FENCE);
    while (a[0] > 1u)
        a[0] -= 1u;
    if (a[0] > 1u)
        a[1] = 1u;
    portbar_device_barrier(&grid);
    if (a[2] > 1u)
        return;
    """
    text = grid(body).replace("uint n", "constant uint *c, uint n")
    assert sources(text) == []


PROGRAMS = {
    "memory": ("if (a[n]) { B }", ["a[n]"]),
    "local memory": ("local uint x; if (get_local_id(0) == 0) x = 1u; B if (x) { B }", ["x"]),
    "an atomic": ("if (atomic_inc(a)) { B }", ["atomic_inc(a)"]),
    "a variable that memory decides about": ("uint x = 0u; if (a[n]) x = 1u; if (x) { B }", ["x"]),
    "turns that memory decides about": (
        "uint x; for (x = 0u; x < n; ++x) if (a[x]) break; if (x < n) { B }",
        ["x < n"],
    ),
    "turns that memory cuts short": (
        "uint x = 0u; for (uint s = 0u; s < n; ++s) { if (a[s]) continue; ++x; } while (x--) { B }",
        ["x--"],
    ),
    "a variable whose address is given away": ("uint x = 1u; uint *p = &x; *p = a[n]; if (x) { B }", ["x"]),
    "a component": ("uint2 v = (uint2)(1u); v.x = a[n]; if (v.x) { B }", ["v.x"]),
    "an element": ("uint v[2] = {1u}; v[0] = a[n]; if (v[1]) { B }", ["v[1]"]),
    "an index": ("uint v[2] = {1u}; if (v[a[n] & 1u]) { B }", ["v[a[n] & 1u]"]),
    "what a condition before it decides": ("if (a[n]) return; if (n > 3u) { B }", ["a[n]"]),
    "both operands": ("if (a[0] && a[1]) { B }", ["a[0] && a[1]"]),
    "the first operand alone": ("if (a[0] && work_group_any(1)) { a[1] = 2u; }", ["a[0]"]),
    "a loop's condition, though work-items leave it alone": (
        "for (uint s = 0u; s < a[n]; ++s) { B if (get_local_id(0) == s) a[s] = 1u; }",
        ["s < a[n]"],
    ),
    "a break, though it is the last of its turn": ("for (uint s = 0u; s < n; ++s) { B if (a[s]) break; }", ["a[s]"]),
    "a continue, but not the last of its turn": (
        "for (uint s = 0u; s < n; ++s) { if (a[s]) continue; B if (a[s + 1u]) continue; }",
        ["a[s]"],
    ),
    "no break where a turn is the only one": ("do { B if (a[0]) break; a[1] = 2u; } while (0); B", []),
    "no break that another case's call follows": (
        "switch (n) { case 0: if (a[0]) break; a[1] = 1u; break; case 1: B break; }",
        [],
    ),
    "no return that a call in the other arm follows": ("if (n) { if (a[0]) return; a[1] = 1u; } else { B }", []),
    "a return out of a loop": ("for (uint s = 0u; s < a[0]; ++s) if (a[s] == 7u) return; B", ["a[s] == 7u"]),
    "no return out of a loop that all make": ("for (uint s = 0u; s < n; ++s) if (s == 7u) return; B", []),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_conditions_before_calls_of_a_work_group_are_checked(name: str) -> None:
    body, expected = PROGRAMS[name]
    found = checked_in(kernel(re.sub(r"\bB\b", "barrier(1);", body)))
    assert [source for _, source, _ in found] == expected
    assert {among for *_, among in found} <= {"work_group"}


def test_work_groups_must_agree_only_on_what_calls_of_the_grid_depend() -> None:
    body = """
    if (a[0] > 1u)
        barrier(CLK_LOCAL_MEM_FENCE);
    if (a[1] > 1u)
        portbar_device_barrier(&grid);
    if (a[2] > 1u) {
        barrier(CLK_LOCAL_MEM_FENCE);
        if (a[3] > 1u)
            portbar_device_barrier(&grid);
    }
    for (uint s = 0u; s < n; ++s) {
        if (!portbar_work_group_signal_wait_until_at_least(&grid, signal, s))
            return;
        if (a[4] > 1u)
            return;
    }
    portbar_device_barrier(&grid);
    """
    text = grid(body).replace("device_barrier.h", "signal.h").replace("uint n", "global portbar_signal *signal, uint n")
    assert {(source, whom) for _, source, whom in checked_in(text)} == {
        ("a[0] > 1u", "work_group"),
        ("a[1] > 1u", "grid"),
        ("a[2] > 1u", "grid"),
        ("a[3] > 1u", "grid"),
        # In the loop, whose turns work-groups make at different times, and after it.
        ("a[4] > 1u", "work_group"),
        ("a[4] > 1u", "grid"),
    }


def test_a_function_s_parameters_differ_as_its_arguments_do() -> None:
    before = "static uint meet(uint go, uint stay) { if (go) barrier(1); if (stay) barrier(1); return stay; }\n"
    assert sources(kernel("if (meet(n, a[0])) barrier(1);", before=before)) == ["stay", "meet(n, a[0])"]


def test_functions_without_checks_keep_their_parameters() -> None:
    before = "static void meet(void) { barrier(1); }\nstatic void meet_if(uint go) { if (go) barrier(1); }\n"
    made = made_of(kernel("meet(); meet_if(a[0]);", before=before))
    assert isinstance(made, Checked)
    assert "static void meet(void)" in made.text
    assert "\nmeet();" in made.text
    assert "meet_if(portbar_here, a[0])" in made.text


UNCHECKED = {
    "a kernel that scans": (
        '#include "portbar/scan.h"\nkernel void k(PORTBAR_SCAN_PARAM, global uint *a) { if (a[0]) barrier(1); }',
        "PORTBAR_SCAN_PARAM",
    ),
    "a kernel that is called": (
        "kernel void j(global uint *a) { if (a[0]) barrier(1); }\nkernel void k(global uint *a) { j(a); }",
        "kernel j is called",
    ),
    "code that cannot be read": (
        "kernel void k(global uint *a) { if (a[0]) barrier(1); a[0] = = 1; }",
        "cannot be read",
    ),
}


@pytest.mark.parametrize("name", UNCHECKED)
def test_a_program_without_checks_says_why(name: str) -> None:
    text, reason = UNCHECKED[name]
    made = made_of(text)
    assert isinstance(made, Unread)
    assert reason in made.reason


@pytest.mark.parametrize(
    ("before", "options"),
    [
        ("", ("-DENTRY=kernel",)),
        ("", ("-D", "ENTRY=__kernel")),
        ("#define ENTRY /* an */ __kernel\n", ()),
        ("#define OTHER kernel\n#define ENTRY OTHER\n", ()),
        ("#define ENTRY __attribute__((reqd_work_group_size(8, 1, 1))) kernel\n", ()),
        ("#define \\\n ENTRY kernel\n", ()),
    ],
)
def test_a_kernel_is_one_whatever_its_word(before: str, options: tuple[str, ...]) -> None:
    text = f"{before}ENTRY void k(global uint *a) {{ if (a[0]) barrier(1); }}\n"
    made = made_of(text, options=options)
    assert isinstance(made, Checked)
    assert [one.source for one in made.conditions.values()] == ["a[0]"]
    assert "ENTRY void k(PORTBAR_AGREEMENT_PARAM, global uint *a) { PORTBAR_AGREEMENT_OF_KERNEL;" in made.text


@pytest.mark.parametrize("none", ["", "void", " void /* no */ ", "/* none */"])
def test_a_function_without_parameters_gets_one(none: str) -> None:
    where = "*(volatile global uint *)8"
    made = made_of(f"void meet({none}) {{ if ({where}) barrier(1); }}\nkernel void k(global uint *a) {{ meet(); }}\n")
    assert isinstance(made, Checked)
    assert [one.source for one in made.conditions.values()] == [where]
    assert "void meet(private portbar_agreement *const portbar_here) {" in made.text
