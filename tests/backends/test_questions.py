"""Only backends and quirks ask whether a device is a CPU, or whose it is: Python and templates elsewhere ask a backend."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.checkout import ROOT

PACKAGE: Final = ROOT / "portbar"
TEMPLATES: Final = ROOT / "cl_templates"

#: Those who may ask, and the facts, which report what a driver says.
MAY_ASK: Final = ("backends/", "device/quirks/", "device/facts.py")
#: Findings of one device are lent to another, and one device is recommended in place of another, by what the devices are:
#: that is below the backends. Surveys to be sent in begin with the devices that are wanted most.
OF_DEVICES: Final = {
    "device/matrix.py": {"is_host", "compute_capability"},
    "device/usable.py": {"is_host", "GPU"},
    "cli/survey_share.py": {"GPU"},
}

QUESTIONS: Final = {"is_cpu", "is_gpu", "is_nvidia", "is_amd", "is_intel", "by_ptx", "nvidia", "platform_vendor"}
TYPES: Final = {"CPU", "GPU", "ACCELERATOR"}
#: In names of devices, platforms and vendors. Whole names of extensions say what a device has.
VENDOR: Final = re.compile(
    r"\b(nvidia|intel|amd|arm|apple|pocl|portable computing|oclgrind|rusticl|llvmpipe|cl_nv_)\b", re.IGNORECASE
)

_LOOKS: Final = {"startswith", "endswith", "search", "match", "fullmatch"}


def asked(tree: ast.AST) -> Iterator[str]:
    """The questions in Python."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name | ast.Attribute):
            name = node.id if isinstance(node, ast.Name) else node.attr
            if name in QUESTIONS or name == "is_host":
                yield name
        elif isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
            texts = [one.value for side in sides for one in ast.walk(side) if is_text(one)]
            yield from (text for text in texts if text in TYPES or VENDOR.search(text))
            numbers = any(isinstance(side, ast.Constant) for side in sides)
            yield from (side.attr for side in sides if is_vendors(side, number=numbers))
        elif isinstance(node, ast.If | ast.IfExp | ast.While):
            yield from in_condition(node.test)
        elif isinstance(node, ast.BoolOp):
            yield from (found for value in node.values for found in in_condition(value))
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            yield from in_condition(node.operand)
        elif isinstance(node, ast.Call) and getattr(node.func, "attr", "") in _LOOKS:
            yield from (one.value for one in node.args if is_text(one) and VENDOR.search(one.value))


def is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def is_vendors(node: ast.AST, *, number: bool) -> bool:
    """Whether this is a fact that one vendor's devices have: as such, or beside a number."""
    return isinstance(node, ast.Attribute) and (node.attr == "vendor" or (number and node.attr == "compute_capability"))


def in_condition(node: ast.AST) -> Iterator[str]:
    """The questions of a condition that is a fact by itself."""
    if isinstance(node, ast.Attribute) and node.attr in {"compute_capability", "nvidia"}:
        yield node.attr


def python_in(template: str) -> str:
    """The Python of a template, as text: control lines, blocks and expressions."""
    text = re.sub(r"<%(text|doc)>.*?</%\1>|^\s*##.*$", "", template, flags=re.DOTALL | re.MULTILINE)
    blocks = re.findall(r"<%!?\s(.*?)%>", text, re.DOTALL)
    control = re.findall(r"^\s*%(?!>)\s*(.*)$", text, re.MULTILINE)
    expressions = re.findall(r"\$\{(.*?)\}", text)
    tags = re.findall(r"<%(?:namespace|inherit|include)[^>]*>", text)
    return "\n".join([*blocks, *control, *expressions, *tags])


#: Words that templates outside of `backend/` must not test.
IN_TEMPLATES: Final = re.compile(
    r"\b(is_\w*cpu|by_ptx|sm|compute_capability|vendor|facts)\b|['\"](CPU|GPU)['\"]|['\"](nvidia|intel|amd|pocl|c11|cl12|membar)['\"]"
)


def python_files() -> list[Path]:
    return [
        path
        for path in sorted(PACKAGE.rglob("*.py"))
        if not path.relative_to(PACKAGE).as_posix().startswith(MAY_ASK) and "__pycache__" not in path.parts
    ]


def test_no_python_asks_but_backends_and_quirks() -> None:
    files = python_files()
    assert len(files) > 150
    found = {}
    for path in files:
        name = path.relative_to(PACKAGE).as_posix()
        questions = set(asked(ast.parse(path.read_text(encoding="utf-8"))))
        assert questions >= OF_DEVICES.get(name, set())
        if questions := questions - OF_DEVICES.get(name, set()):
            found[name] = questions
    assert found == {}


def test_no_template_asks_but_those_of_backends() -> None:
    files = [path for path in sorted(TEMPLATES.rglob("*.mako")) if path.relative_to(TEMPLATES).parts[0] != "backend"]
    assert len(files) > 30
    found = {
        path.relative_to(TEMPLATES).as_posix(): hits
        for path in files
        if (hits := [hit[0] for hit in IN_TEMPLATES.finditer(python_in(path.read_text(encoding="utf-8")))])
    }
    assert found == {}


@pytest.mark.parametrize(
    "text",
    [
        'x = "CPU" in facts.type',
        'f(1) if "CPU" not in other.type else 2',
        "if is_cpu(profile): pass",
        "timing.is_cpu(profile)",
        "return_ = variant.by_ptx",
        "y = facts.compute_capability >= 70",
        "y = 1 if facts.compute_capability else 2",
        "y = a and not facts.compute_capability",
        'y = "pocl" in facts.platform_name',
        "y = facts.vendor == other",
        'y = facts.name.startswith("NVIDIA")',
        "y = facts.nvidia['warp_size']",
        "y = facts.is_host",
    ],
)
def test_a_question_is_found_in_python(text: str) -> None:
    assert set(asked(ast.parse(text)))


@pytest.mark.parametrize(
    "text",
    [
        "y = profile.units.kernels_alike",
        "y = abs(one.compute_capability - other.compute_capability)",
        'y = "cl_intel_concurrent_dispatch" in facts.extensions',
        'y = Choice("c11", "NVIDIA needs it")',
    ],
)
def test_an_answer_or_a_fact_is_no_question(text: str) -> None:
    assert not set(asked(ast.parse(text)))


@pytest.mark.parametrize(
    "text",
    [
        "% if is_cpu:\n",
        '<% x = "CPU" in types %>',
        "${1 if by_ptx else 2}",
        "    % if sm >= 90:\n",
        "% if vendor == 'x':\n",
    ],
)
def test_a_question_is_found_in_a_template(text: str) -> None:
    assert IN_TEMPLATES.search(python_in(text))
    assert not IN_TEMPLATES.search(python_in(f"## {text}".replace("\n", " ")))
