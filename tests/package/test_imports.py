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


def test_the_layers_name_every_room_and_nothing_else() -> None:
    config = configparser.ConfigParser()
    config.read(ROOT / "setup.cfg", encoding="utf-8")
    contract = config["importlinter:contract:layers"]
    named = {*contract["layers"].replace(":", " ").split(), *contract["exhaustive_ignores"].split()}
    data = {"cl_templates", "vendor_matrix"}
    entries = Path(ROOT, "portbar").iterdir()
    rooms = {path.stem for path in entries if path.suffix == ".py" or (path / "__init__.py").exists()}
    assert named - data == rooms - data - {"__init__"}
    assert len(rooms - data - {"__init__", "__main__"}) <= 10
