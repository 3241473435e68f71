"""portbar's texts use plain words, as words.toml lists them, and pages have short sentences."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.checkout import ROOT
from tests.words.text import Paragraph, Word, hits, load_words, markdown, median_sentence, python, template

WORDS = load_words()
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
#: Words of the median sentence of a page, less than.
MEDIAN = 20
#: Plain English that resembles what the list forbids.
RIGHT = [
    "There is no barrier between work-groups in OpenCL C.",
    "The limit is no longer than a second, and no more than 64 groups take part.",
    "Two launches are enqueued once a launch has ended.",
    "The compiler cannot tell a load from a store; hosts are told apart by their names.",
    "What if a group skips the barrier?",
    "The name stands for two parameters.",
    "It understands nested loops, and an outstanding request is dropped.",
    "The host enqueues a launch per sweep, 1,000 launches per second.",
    "It stores a value, loads a tile and polls a flag; the command writes a page.",
    "This is what the kernel computes: the sum of a row.",
    "As many work-groups take part as the device executes at once.",
]


def checked() -> list[Path]:
    """Return the files that are held to the list."""
    found: list[Path] = []
    for name in CLEAN:
        path = ROOT / name
        suffixes = {".md", ".py", ".mako"}
        found += sorted(one for one in path.rglob("*") if one.suffix in suffixes) if path.is_dir() else [path]
    return found


PAGES = [path for path in checked() if path.suffix == ".md"]


@pytest.mark.parametrize("word", WORDS, ids=lambda word: word.wrong[:40])
def test_an_entry_finds_its_example_and_nothing_in_its_rewrite(word: Word) -> None:
    assert list(word.find(word.wrong))
    assert word.reason
    assert not [other.reason for other in WORDS if list(other.find(word.right))]


@pytest.mark.parametrize("text", RIGHT)
def test_plain_english_has_no_hits(text: str) -> None:
    assert not [(word.reason, match[0]) for word in WORDS for match in word.find(text)]


@pytest.mark.parametrize("path", checked(), ids=lambda path: str(path.relative_to(ROOT)))
def test_a_text_uses_plain_words(path: Path) -> None:
    found = hits(path, WORDS)
    assert not found, "\n".join(map(str, found))


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_page_has_short_sentences(path: Path) -> None:
    assert median_sentence(path) < MEDIAN


def texts(found: list[Paragraph]) -> list[str]:
    return [paragraph.text for paragraph in found]


def test_prose_of_a_page_leaves_out_code_and_output() -> None:
    page = "# A\n\none `x\ny` a\ngroup\n\n```text\nnobody\n```\n\n```c\nf();  /* whoever */\n```\n\n- item\n- [next](b.md)\n"
    found = list(markdown(page))
    assert texts(found) == ["A", "one CODE a group", "whoever", "item", "[next]"]
    assert found[1].line(len("one CODE a ")) == 5
    assert [paragraph.prose for paragraph in found] == [False, True, False, True, True]


def test_prose_of_python_is_comments_docstrings_and_messages() -> None:
    source = '"""Say\nmore."""\n# a comment\n# of two lines\nx = f"no {1} b"\ny = "name"\n'
    assert texts(list(python(source))) == ["a comment of two lines", "Say more.", "no CODE b"]
    assert texts(list(python(source, strings=False))) == ["a comment of two lines", "Say more."]


def test_prose_of_a_template_is_comments_and_messages() -> None:
    source = '/* One\n * two. */\nint f(void);\n## three\nerror("four five")\n<%doc>\nsix\n</%doc>\n'
    assert texts(list(template(source))) == ["One two.", "three", "four five", "<%doc> six </%doc>"]


def test_a_hit_has_its_line_and_a_rewrite(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# A\n\nFirst line.\nWork that nobody\nelse does.\n", encoding="utf-8")
    (hit,) = hits(page, WORDS)
    assert hit.line == 4
    assert "name the agent" in str(hit)
    page.write_text("A sentence of six words here. One.\n", encoding="utf-8")
    assert median_sentence(page) == 3.5
