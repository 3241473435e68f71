"""The lint step `python -m tests.words` finds words of words.toml, and pages with long sentences."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.checkout import ROOT
from tests.words.__main__ import checked, main
from tests.words.text import MEDIAN, Paragraph, Word, hits, load_words, markdown, median_sentence, python, template

WORDS = load_words()
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


@pytest.mark.parametrize("word", WORDS, ids=lambda word: word.wrong[:40])
def test_an_entry_finds_its_example_and_nothing_in_its_rewrite(word: Word) -> None:
    assert list(word.find(word.wrong))
    assert word.reason
    assert not [other.reason for other in WORDS if list(other.find(word.right))]


@pytest.mark.parametrize("text", RIGHT)
def test_plain_english_has_no_hits(text: str) -> None:
    assert not [(word.reason, match[0]) for word in WORDS for match in word.find(text)]


def test_the_lint_step_finds_words_and_long_sentences(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "page.md"
    for text, said in (
        ("A short sentence.\n", ""),
        ("Work that nobody does.\n", "name the agent"),
        (f"One sentence {'and more ' * MEDIAN}.\n", "less than"),
    ):
        page.write_text(text, encoding="utf-8")
        assert main([str(page)]) == bool(said)
        assert said in capsys.readouterr().out


def test_the_lint_step_is_part_of_ci_and_reads_all_texts() -> None:
    assert '"$python" -m tests.words' in (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    held = {str(path.relative_to(ROOT)) for path in checked()}
    assert {"README.md", "docs/index.md", "portbar/errors.py", "tests/words/text.py", "CHANGELOG.md"} <= held


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


def test_the_last_line_names_pages_of_long_sentences(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"A sentence of {'very ' * 20}many words.\n", encoding="utf-8")
    assert main([str(page)]) == 1
    assert "page.md" in capsys.readouterr().out.splitlines()[-1]
    page.write_text("A short sentence.\n", encoding="utf-8")
    assert main([str(page)]) == 0
    assert "page.md" not in capsys.readouterr().out.splitlines()[-1]
