"""`python -m tests.words [FILE...]`: list the words to replace, and the median sentence of each page."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.words.test_words import checked
from tests.words.text import hits, load_words, median_sentence


def main(arguments: list[str]) -> int:
    """Print the hits in the files or folders, all checked ones without any; return whether there were hits."""
    paths: list[Path] = []
    for argument in arguments:
        given = Path(argument).resolve()
        suffixes = {".md", ".py", ".mako"}
        paths += sorted(path for path in given.rglob("*") if path.suffix in suffixes) if given.is_dir() else [given]
    words = load_words()
    total = 0
    for path in paths or checked():
        found = hits(path, words)
        total += len(found)
        for hit in found:
            print(hit)
        if path.suffix == ".md":
            print(f"{path.name}: median sentence of {median_sentence(path):g} words, {len(found)} hits")
    print(f"{total} hits in {len(paths or checked())} files")
    return 1 if total else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
