"""The inputs of the applications: files, families of graphs, and the packages of this machine."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from examples.applications import inputs

BANNER = "%%MatrixMarket matrix coordinate"


def dense(first: np.ndarray, columns: np.ndarray, values: np.ndarray) -> np.ndarray:
    found = np.zeros((len(first) - 1, len(first) - 1))
    found[inputs.sources(first), columns] = values
    return found


def written(folder: Path, text: str) -> Path:
    path = folder / "made.mtx"
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("kind", "entries", "expected"),
    [
        ("real general", "3 1 -2.5\n1 2 4e1\n1 1 7\n", [[7, 40, 0], [0, 0, 0], [-2.5, 0, 0]]),
        ("integer symmetric", "3 1 5\n2 2 6\n3 2 4\n", [[0, 0, 5], [0, 6, 4], [5, 4, 0]]),
        ("real skew-symmetric", "2 1 3\n3 2 1.5\n3 1 2\n", [[0, -3, -2], [3, 0, -1.5], [2, 1.5, 0]]),
        ("pattern general", "1 3\n\n3 2\n2 2\n", [[0, 0, 1], [0, 1, 0], [0, 1, 0]]),
    ],
)
def test_matrix_market_files_are_read(tmp_path: Path, kind: str, entries: str, expected: list[list[float]]) -> None:
    path = written(tmp_path, f"{BANNER} {kind}\n% a comment\n%\n3 3 3\n{entries}")
    np.testing.assert_array_equal(dense(*inputs.matrix_market(path)), expected)
    first, columns = inputs.named(str(path))
    assert len(first) == 4
    assert len(columns) == np.count_nonzero(expected)
    assert first.dtype == columns.dtype == np.uint32


def test_scipy_reads_the_same(tmp_path: Path) -> None:
    io = pytest.importorskip("scipy.io")
    path = written(tmp_path, f"{BANNER} real symmetric\n4 4 5\n1 1 2\n3 1 -1\n4 4 9\n4 1 0.5\n3 3 1e-3\n")
    np.testing.assert_array_equal(dense(*inputs.matrix_market(path)), io.mmread(path).toarray())


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "not a sparse matrix"),
        ("%%MatrixMarket matrix array real general\n1 1\n1\n", "not a sparse matrix"),
        (f"{BANNER} complex general\n1 1 1\n1 1 1 0\n", "complex and general are not read"),
        (f"{BANNER} real hermitian\n1 1 1\n1 1 1\n", "real and hermitian are not read"),
        (f"{BANNER} real general\n2 3 1\n1 1 1\n", "2 rows and 3 columns"),
        (f"{BANNER} pattern general\n", "0 rows"),
        (f"{BANNER} pattern general\n2 2 1\n1 3\n", "outside the matrix of 2 rows"),
        (f"{BANNER} pattern general\n2 2 1\n0 1\n", "outside the matrix of 2 rows"),
        (f"{BANNER} pattern general\n2 2 2\n1 1\n", "1 of 2 entries"),
        (f"{BANNER} real general\n2 2 1\n1 1\n", "a line does not hold"),
        (f"{BANNER} real general\n2 2 1\n1 1 x\n", "a line does not hold"),
    ],
)
def test_other_files_are_refused_with_the_reason(tmp_path: Path, text: str, reason: str) -> None:
    path = written(tmp_path, text)
    with pytest.raises(inputs.InputError, match=reason) as raised:
        inputs.matrix_market(path)
    assert str(path) in str(raised.value)


def test_a_name_that_is_no_graph_is_refused() -> None:
    for name in ("rmat:many", "streets:0"):
        with pytest.raises(inputs.InputError, match=r"no such file; other graphs are debian, rmat:SIZE"):
            inputs.named(name)


def test_families_are_chosen_by_name_and_size() -> None:
    for name, vertices in (("rmat:5", 32), ("streets:6", 36), ("poisson:3", 9)):
        first, to = inputs.named(name)
        assert len(first) == vertices + 1
        assert first[-1] == len(to)
        assert to.max() < vertices


def test_poissons_matrix() -> None:
    edge = np.diag([-1.0, -1.0], 1) + np.diag([-1.0, -1.0], -1)
    expected = np.kron(np.eye(3), 4 * np.eye(3) + edge) + np.kron(edge, np.eye(3))
    np.testing.assert_array_equal(dense(*inputs.poisson(3)), expected)


def test_undirected_graphs_have_each_edge_once_both_ways_and_no_loops() -> None:
    # 0 -> 1 twice, 1 -> 0, 1 -> 1, 2 -> 0
    first, to = inputs.undirected(np.array([0, 2, 4, 5], np.uint32), np.array([1, 1, 0, 1, 0], np.uint32))
    assert first.tolist() == [0, 2, 3, 4]
    assert to.tolist() == [1, 2, 0, 0]


def test_reversed_edges_lead_back() -> None:
    first, to = inputs.reversed_edges(np.array([0, 2, 2, 3], np.uint32), np.array([1, 2, 1], np.uint32))
    assert first.tolist() == [0, 0, 2, 3]
    assert to.tolist() == [0, 2, 0]


def test_drawn_numbers_differ_between_vertices_and_rounds() -> None:
    assert len(np.unique(inputs.drawn(1 << 12, 1))) == 1 << 12
    assert (inputs.drawn(100, 0) != inputs.drawn(100, 1)).all()


def test_dependencies_follow_names_alternatives_and_providers() -> None:
    lines = """Package: shell
Depends: libc (>= 2.36), editor:any | viewer, none-such
Pre-Depends: loader

Package: libc
Provides: loader (= 1), clock

Package: vi
Provides: editor

Package: nano
Depends: libc, nano
Provides: editor
Description: an editor
 Depends: shell

Package: viewer
""".splitlines()
    first, to, names = inputs.dependencies(lines)
    found = {name: {names[other] for other in to[first[i] : first[i + 1]]} for i, name in enumerate(names)}
    assert found == {
        "shell": {"libc", "vi", "nano", "viewer"},
        "libc": set(),
        "vi": set(),
        "nano": {"libc"},
        "viewer": set(),
    }


def test_packages_of_this_machine_are_a_graph() -> None:
    try:
        first, to = inputs.named("debian")
    except inputs.InputError as error:
        pytest.skip(str(error))
    vertices = len(first) - 1
    assert len(to) > vertices
    incoming = np.bincount(to, minlength=vertices)
    # The C library: most packages need it, and it needs few.
    most = incoming.argmax()
    assert incoming[most] > 0.1 * vertices
    assert first[most + 1] - first[most] < 10


def test_a_machine_without_package_lists_is_refused_with_the_remedy(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(inputs, "LISTS", tmp_path)
    with pytest.raises(inputs.InputError, match="no lists of Debian's packages; `apt-get update`"):
        inputs.debian()


def test_package_lists_are_read_without_apt(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "one_Packages").write_text("Package: a\nDepends: b\n", encoding="utf-8")
    (tmp_path / "two_Packages").write_text("Package: b\n", encoding="utf-8")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(inputs, "LISTS", tmp_path)
    first, to = inputs.debian()
    assert first.tolist() == [0, 1, 1]
    assert to.tolist() == [1]
