"""Further inputs: Matrix Market files, the packages of Debian, Poisson's matrix, and numbers drawn alike on host and device."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import ClassVar

import numpy as np
import pyopencl as cl

from examples.applications.common import Application, compressed, rmat, streets

#: First edge of each vertex, and where edges lead.
Graph = tuple[np.ndarray, np.ndarray]

FAMILIES: dict[str, Callable[[int], Graph]] = {
    "rmat": rmat,
    "streets": streets,
    "poisson": lambda width: poisson(width)[:2],
}
LISTS = Path("/var/lib/apt/lists")


class InputError(Exception):
    """An input cannot be had; the text says why."""


class OnGraph(Application):
    """An application on a graph: one of its family and of `size`, or another that is given."""

    family: ClassVar[str]

    def __init__(self, queue: cl.CommandQueue, size: int, graph: Graph | None = None) -> None:
        super().__init__(queue, size)
        self.first, self.to = self.prepared(*(graph or FAMILIES[self.family](size)))
        self.n = len(self.first) - 1
        self.graph = self.put(self.first), self.put(self.to)

    @staticmethod
    def prepared(first: np.ndarray, to: np.ndarray) -> Graph:
        """The graph as the application needs it."""
        return first, to


def named(name: str) -> Graph:
    """A graph by name: a Matrix Market file, `debian`, or a family and its size, as in `rmat:12` and `streets:256`."""
    family, _, size = name.partition(":")
    if name == "debian":
        return debian()
    if family in FAMILIES and size.isdecimal() and int(size):
        return FAMILIES[family](int(size))
    if not Path(name).is_file():
        raise InputError(
            f"{name}: no such file; other graphs are debian, {', '.join(f'{family}:SIZE' for family in FAMILIES)}"
        )
    first, columns, _ = matrix_market(Path(name))
    return first, columns


def sources(first: np.ndarray) -> np.ndarray:
    """The vertex that each edge leaves."""
    return np.repeat(np.arange(len(first) - 1, dtype=np.uint32), np.diff(first))


def reversed_edges(first: np.ndarray, to: np.ndarray) -> Graph:
    """The same edges, turned round."""
    return compressed(np.stack([to, sources(first)]), len(first) - 1)


def undirected(first: np.ndarray, to: np.ndarray) -> Graph:
    """Each edge both ways and once, without those from a vertex to itself."""
    n = np.uint64(len(first) - 1)
    here, there = sources(first).astype(np.uint64), to.astype(np.uint64)
    kept = here != there
    pairs = np.unique(np.concatenate([here[kept] * n + there[kept], there[kept] * n + here[kept]]))
    return compressed(np.stack([pairs // n, pairs % n]).astype(np.uint32), int(n))


def poisson(width: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Poisson's matrix on a square of `width` points a side, 5 points a row: first entry of each row, columns, values."""
    points = np.arange(width * width, dtype=np.uint32).reshape(width, width)
    pairs = [(points[:, :-1], points[:, 1:]), (points[:-1], points[1:])]
    rows = np.concatenate([points.ravel(), *(side.ravel() for pair in pairs for side in pair)])
    columns = np.concatenate([points.ravel(), *(side.ravel() for pair in pairs for side in pair[::-1])])
    order = np.lexsort((columns, rows))
    first, to = compressed(np.stack([rows, columns])[:, order], width * width)
    return first, to, np.where(sources(first) == to, 4, -1).astype(np.float32)


def matrix_market(path: Path) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A sparse square matrix of a Matrix Market file: first entry of each row, columns, values in double precision.

    Entries of a symmetric file stand for both of theirs; a pattern has ones. The format is that of Boisvert, Pozo and
    Remington (NISTIR 5935, 1996). `InputError` says what a file has that is not read: arrays and complex numbers.
    """
    with path.open(encoding="utf-8") as file:
        banner = file.readline().lower().split()
        if banner[:3] != ["%%matrixmarket", "matrix", "coordinate"] or len(banner) != 5:
            raise InputError(
                f"{path}: not a sparse matrix in Matrix Market's format; its first line is {' '.join(banner)!r}"
            )
        field, symmetry = banner[3:]
        if field not in {"pattern", "integer", "real"} or symmetry not in {"general", "symmetric", "skew-symmetric"}:
            raise InputError(f"{path}: matrices that are {field} and {symmetry} are not read")
        lines = (line for line in file if line.strip() and not line.startswith("%"))
        fields = 2 if field == "pattern" else 3
        try:
            height, width, count = (int(number) for number in next(lines, "0 0 0").split())
            entries = np.array([line.split() for line in lines], np.float64).reshape(-1, fields)
        except ValueError as error:
            raise InputError(f"{path}: a line does not hold {fields} numbers ({error})") from None
    if len(entries) != count:
        raise InputError(f"{path}: the file ends after {len(entries)} of {count} entries")
    if height != width or not height:
        raise InputError(f"{path}: {height} rows and {width} columns; a graph has as many of both, and some")
    places = entries[:, :2].astype(np.int64) - 1
    if places.size and not 0 <= places.min() <= places.max() < height:
        raise InputError(f"{path}: an entry is outside the matrix of {height} rows")
    rows, columns = places.T.astype(np.uint32)
    values = np.ones(count) if field == "pattern" else entries[:, 2]
    if symmetry != "general":
        aside = rows != columns
        mirrored = -values[aside] if symmetry == "skew-symmetric" else values[aside]
        rows, columns = np.concatenate([rows, columns[aside]]), np.concatenate([columns, rows[aside]])
        values = np.concatenate([values, mirrored])
    order = np.lexsort((columns, rows))
    first, to = compressed(np.stack([rows, columns])[:, order], height)
    return first, to, values[order]


def debian() -> Graph:
    """Debian's packages, as this machine's lists have them; edges lead to the packages that one depends on.

    `InputError` where the machine has no lists.
    """
    if shutil.which("apt-cache") is not None:
        done = subprocess.run(["apt-cache", "dumpavail"], capture_output=True, check=False)  # noqa: S607
        text = done.stdout.decode(errors="replace")
    else:
        found = sorted(LISTS.glob("*_Packages"))
        text = "\n".join(path.read_text(encoding="utf-8", errors="replace") for path in found)
    first, to, _ = dependencies(text.splitlines())
    if len(first) == 1:
        raise InputError(
            "this machine has no lists of Debian's packages; `apt-get update` fetches them on Debian and Ubuntu"
        )
    return first, to


def dependencies(lines: Iterable[str]) -> tuple[np.ndarray, np.ndarray, list[str]]:
    """The graph of the packages in the lines of `Packages` files, and their names in order.

    An edge leads to each package that Depends or Pre-Depends names, alternatives included; a name without a package stands for
    those that provide it. Versions count as one package, and are not compared.
    """
    needs: dict[str, set[str]] = {}
    providers: dict[str, set[str]] = {}
    package = ""
    for line in lines:
        key, _, value = line.partition(": ")
        if key == "Package":
            package = value.strip()
            needs.setdefault(package, set())
        elif key in {"Depends", "Pre-Depends"}:
            needs[package].update(names(value))
        elif key == "Provides":
            for name in names(value):
                providers.setdefault(name, set()).add(package)
    ordered = sorted(needs)
    numbers = {name: number for number, name in enumerate(ordered)}
    pairs: set[tuple[int, int]] = set()
    for name in ordered:
        for other in needs[name]:
            found = {other} if other in numbers else providers.get(other, set())
            pairs.update((numbers[name], numbers[one]) for one in found if one != name)
    edges = np.array(sorted(pairs), np.uint32).reshape(-1, 2).T
    first, to = compressed(edges, len(ordered))
    return first, to, ordered


def names(relation: str) -> Iterable[str]:
    """The packages that a relation names, without versions and architectures."""
    for part in relation.replace("|", ",").split(","):
        if words := part.split():
            yield words[0].partition(":")[0]


#: OpenCL C of `drawn`: the final mix of MurmurHash3 (Appleby, 2011), which gives no two vertices the same number.
DRAW = """
static uint draw(uint vertex, uint round)
{
    uint mixed = vertex + round * 0x9e3779b9u;
    mixed = (mixed ^ (mixed >> 16)) * 0x85ebca6bu;
    mixed = (mixed ^ (mixed >> 13)) * 0xc2b2ae35u;
    return mixed ^ (mixed >> 16);
}
"""


def drawn(vertices: int, round_: int) -> np.ndarray:
    """The numbers that `draw` gives to the vertices from 0 on in a round."""
    mixed: np.ndarray = np.arange(vertices, dtype=np.uint32) + np.uint32(round_ * 0x9E3779B9 & 0xFFFFFFFF)
    mixed = (mixed ^ (mixed >> 16)) * np.uint32(0x85EBCA6B)
    mixed = (mixed ^ (mixed >> 13)) * np.uint32(0xC2B2AE35)
    return np.asarray(mixed ^ (mixed >> 16), np.uint32)
