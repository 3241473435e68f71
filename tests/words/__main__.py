"""`python -m tests.words [FILE...]`: list the words to replace and pages with long sentences. CI runs it beside ruff."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.checkout import ROOT
from tests.words.text import MEDIAN, hits, load_words, median_sentence

#: Files and folders that are held to the list. The rest is added as it is rewritten.
CLEAN: list[str] = [
    # texts that people read on their own
    "README.md",
    "CHANGELOG.md",
    "vendor_matrix/README.md",
    "docs",
    # texts in code
    "portbar",
    "cl_templates",
    "examples",
    "benchmarks",
    "models",
    "tests",
]


def checked() -> list[Path]:
    """Return the files that are held to the list."""
    found: list[Path] = []
    for name in CLEAN:
        path = ROOT / name
        suffixes = {".md", ".py", ".mako"}
        found += sorted(one for one in path.rglob("*") if one.suffix in suffixes) if path.is_dir() else [path]
    return found


def main(arguments: list[str]) -> int:
    """Print the hits in the files or folders, all checked ones without any; return whether there were faults."""
    paths: list[Path] = []
    for argument in arguments:
        given = Path(argument).resolve()
        suffixes = {".md", ".py", ".mako"}
        paths += sorted(path for path in given.rglob("*") if path.suffix in suffixes) if given.is_dir() else [given]
    words = load_words()
    total = 0
    long: list[str] = []
    paths = paths or checked()
    for path in paths:
        found = hits(path, words)
        total += len(found)
        for hit in found:
            print(hit)
        if path.suffix == ".md":
            median = median_sentence(path)
            must = ""
            if median >= MEDIAN:
                long.append(path.name)
                must = f"; must be less than {MEDIAN}"
            print(f"{path.name}: median sentence of {median:g} words, {len(found)} hits{must}")
    pages = f"; sentences of {MEDIAN} words or more in the median: {', '.join(long)}" if long else ""
    print(f"{total} hits in {len(paths)} files{pages}")
    return 1 if total or long else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
