"""docs/internals.md: its tables of parts and of what to add where agree with the code."""

from __future__ import annotations

import ast
import configparser
import importlib
import re

import pytest

from tests.checkout import ROOT

PAGE = (ROOT / "docs" / "internals.md").read_text(encoding="utf-8")
PACKAGE = ROOT / "portbar"
TEMPLATES = ROOT / "cl_templates"

#: Variants whose template is another one's, or their backend's, as the page says.
SHARED_TEMPLATES = {
    "device_barrier/counter_backoff.mako": "device_barrier/counter.mako",
    "split_barrier/mbarrier.mako": "backend/ptx/mbarrier.mako",
}


def rows(heading: str) -> list[list[str]]:
    """The cells of the first table whose first column has this title."""
    lines = PAGE[PAGE.index(f"| {heading} |") :].splitlines()[2:]
    table = lines[: next(number for number, line in enumerate(lines) if not line.startswith("|"))]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table]


def names(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


def test_every_part_is_in_the_table_from_the_top_down() -> None:
    config = configparser.ConfigParser()
    config.read(ROOT / "setup.cfg")
    layers = config["importlinter:contract:layers"]["layers"].split()
    order = [name for name in layers if name not in {":", "__main__"}]
    assert sorted(names(" ".join(row[0] for row in rows("part")))) == sorted(order)
    positions = [order.index(names(row[0])[0]) for row in rows("part")]
    assert positions == sorted(positions)


@pytest.mark.parametrize("row", rows("part"), ids=lambda row: row[0])
def test_the_modules_that_a_part_is_said_to_hold_are_there(row: list[str]) -> None:
    rooms = names(row[0])
    modules = [name for name in names(row[1]) if re.fullmatch(r"[a-z_]+", name)]
    for module in modules:
        places = [PACKAGE / room / module for room in rooms]
        assert any(place.is_dir() or place.with_suffix(".py").is_file() for place in places), module


def test_a_class_name_means_one_class() -> None:
    places: dict[str, list[str]] = {}
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                places.setdefault(node.name, []).append(path.relative_to(PACKAGE).as_posix())
    assert {name: where for name, where in places.items() if len(where) > 1} == {}


ADDITIONS = rows("to add")


@pytest.mark.parametrize("row", ADDITIONS, ids=lambda row: row[0])
def test_a_thing_to_add_is_added_where_the_page_says(row: list[str]) -> None:
    _, one, where, template, class_name, test = row
    (place,), (owner,) = names(where), names(class_name)
    module, _, name = f"portbar.{owner}".rpartition(".")
    base = getattr(importlib.import_module(module), name)
    found = 0
    for path in sorted(PACKAGE.glob(place.replace("NAME", "*"))):
        dotted = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        text = path.read_text(encoding="utf-8")
        holders = names(one) or (["VARIANT"] if "VARIANT" in text else [])
        defined = importlib.import_module(dotted)
        values = [getattr(defined, holder) for holder in holders if hasattr(defined, holder)]
        for value in values:
            entries = (
                value.values() if hasattr(value, "values") else value if isinstance(value, list | tuple) else [value]
            )
            assert all(isinstance(entry, base) for entry in entries), dotted
            found += len(list(entries))
        if not holders:
            classes = [
                value for value in vars(defined).values() if isinstance(value, type) and value.__module__ == dotted
            ]
            found += sum(issubclass(value, base) for value in classes)
        if values and names(template):
            own = names(template)[0].replace("NAME", path.stem)
            assert (TEMPLATES / SHARED_TEMPLATES.get(own, own)).is_file(), own
    assert found > 1
    (tested,) = names(test)
    assert re.search(r"\.register(ed)?\(|\bSTEPS\.append\(", (ROOT / tested).read_text(encoding="utf-8"))


def test_every_path_on_the_page_is_there() -> None:
    paths = {name for name in names(PAGE) if re.fullmatch(r"(tests|cl_templates|docs|portbar)/[\w/.]+", name)}
    assert len(paths) > 10
    for path in paths - {path for path in paths if "NAME" in path or "BACKEND" in path}:
        assert (ROOT / path).exists(), path
