"""How modules import one another; the layers themselves are `lint-imports`'s to check, by `setup.cfg`."""

from __future__ import annotations

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


def test_the_package_has_at_most_fourteen_parts() -> None:
    """That the layers name each of them is for `lint-imports` to check."""
    entries = Path(ROOT, "portbar").iterdir()
    parts = {path.stem for path in entries if path.suffix == ".py" or (path / "__init__.py").exists()}
    assert len(parts - {"__init__", "__main__"}) <= 14
