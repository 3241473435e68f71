"""Packages without a wheel: markers say what is needed where, and pip whether there is one."""

from __future__ import annotations

import os

import pytest

from tests.environments import wheels
from tests.environments.page import load, load_wheels, markdown
from tests.environments.running import Done
from tests.environments.wheels import PLATFORMS, Platform, has_wheel, needed, wheels_table

pytestmark = pytest.mark.skipif(os.name == "nt", reason="trees are of Debian")

LINUX = Platform("Linux", ("manylinux_2_28_x86_64",), "Linux", "x86_64")
WINDOWS = Platform("Windows", ("win_arm64",), "Windows", "ARM64")
OF = {
    "one": ["Two_two>=2; platform_system == 'Linux'", "three; extra == 'more'", "four; python_version < '3.10'"],
    "two-two": ["one", "five<6; sys_platform != 'win32'"],
}


def test_needed_is_what_markers_leave_on_that_platform() -> None:
    first = ["one>=1", "six; platform_machine == 'ARM64'"]
    assert needed(LINUX, first, lambda name: OF.get(name, [])) == {
        "one": "one>=1",
        "two-two": "Two_two>=2",
        "five": "five<6",
    }
    assert needed(WINDOWS, first, lambda name: OF.get(name, [])) == {"one": "one>=1", "six": "six"}


def test_what_portbar_needs_follows_from_its_requirements() -> None:
    by_machine = {(one.system, one.machine): set(needed(one)) for one in PLATFORMS}
    assert {"numpy", "pyopencl", "jsonschema-rs", "libclang", "mako"} <= by_machine["Linux", "x86_64"]
    assert "jsonschema" in by_machine["Linux", "riscv64"]
    assert not {"jsonschema-rs", "libclang"} & by_machine["Linux", "riscv64"]


@pytest.mark.parametrize(
    ("done", "expected"),
    [
        (Done(0, "", 1.0), True),
        (Done(1, "ERROR: Could not find\nERROR: No matching distribution found for numpy\n", 1.0), False),
    ],
)
def test_pip_says_whether_there_is_a_wheel(monkeypatch: pytest.MonkeyPatch, done: Done, expected: bool) -> None:
    asked: list[list[str]] = []
    monkeypatch.setattr(wheels, "bounded", lambda command, _seconds: (asked.append(list(command)), done)[1])
    assert has_wheel("numpy>=1", WINDOWS) is expected
    assert asked[0][-1] == "numpy>=1"
    assert {"--dry-run", "--only-binary=:all:", "win_arm64"} <= set(asked[0])


@pytest.mark.parametrize("done", [Done(None, "", 120.0), Done(1, "connection refused", 1.0), Done(2, "usage", 1.0)])
def test_another_failure_of_pip_is_no_answer(monkeypatch: pytest.MonkeyPatch, done: Done) -> None:
    monkeypatch.setattr(wheels, "bounded", lambda _command, _seconds: done)
    with pytest.raises(OSError, match="numpy"):
        has_wheel("numpy", LINUX)


def test_the_page_has_each_platform_with_what_lacks_a_wheel() -> None:
    entry = {"date": "2000-01-02", "python": "3.13", "missing": {"Linux, x86-64": [], "Windows, Arm": ["a", "b"]}}
    text = wheels_table(entry)
    assert "| Linux, x86-64 | none |\n| Windows, Arm | a, b |\n" in text
    assert text in markdown(load(), entry)
    kept = load_wheels()
    assert kept is not None
    assert list(kept["missing"]) == [platform.title for platform in PLATFORMS]
