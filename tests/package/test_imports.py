"""How modules import one another; the layers themselves are `lint-imports`'s to check, by `setup.cfg`."""

from __future__ import annotations

import configparser
from pathlib import Path

import pytest

from tests.checkout import ROOT

grimp = pytest.importorskip("grimp", reason='needs import-linter, which `pip install "portbar[dev]"` brings')


def test_no_module_imports_itself_by_way_of_others() -> None:
    """Those inside functions and for type checkers count, too."""
    graph = grimp.build_graph("portbar", cache_dir=None)
    # The package's own names are loaded at first use.
    for public in graph.find_modules_directly_imported_by("portbar"):
        graph.remove_import(importer="portbar", imported=public)
    circles = [
        chain
        for module in sorted(graph.modules)
        for imported in sorted(graph.find_modules_directly_imported_by(module))
        if (chain := graph.find_shortest_chain(importer=imported, imported=module)) is not None
    ]
    assert not circles


def test_every_module_of_reductions_has_a_layer() -> None:
    """`lint-imports` itself looks for the modules that lie in no package."""
    config = configparser.ConfigParser()
    config.read(ROOT / "setup.cfg", encoding="utf-8")
    layers = config["importlinter:contract:layers"]["layers"].replace(":", " ").split()
    modules = {f"reduction.{path.stem}" for path in Path(ROOT, "portbar", "reduction").glob("*.py")}
    assert modules - {"reduction.__init__"} == {name for name in layers if name.startswith("reduction.")}
