"""The prose of a file: Markdown without output and inline code; comments, docstrings and messages of code."""

from __future__ import annotations

import ast
import io
import re
import statistics
import tokenize
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.checkout import ROOT

HERE = Path(__file__).resolve().parent
#: Words of the median sentence of a page, less than.
MEDIAN = 20
#: Replaces inline code: one word that no pattern contains.
CODE = "CODE"
#: An end of a sentence: not after "e.g.", not inside of a number or a name.
END = re.compile(
    r"(?<=[.!?])(?<!e\.g\.)(?<!i\.e\.)(?<! vs\.)(?<! cf\.)(?<! al\.)(?<!\b[A-Z]\.)[\"')*_]*\s+(?=[^a-z\s]|portbar\b)"
)
#: Lines of a comment or a list begin with these.
LEADER = re.compile(r"^\s*(?:/\*+|\*+(?!/)|//+|##+|#:?|>|[-*] |\d+\. )?\s*")


@dataclass(frozen=True)
class Word:
    """An entry of words.toml."""

    pattern: re.Pattern[str]
    reason: str
    wrong: str
    right: str
    start: bool = False

    def find(self, text: str) -> Iterator[re.Match[str]]:
        """Yield the hits in a paragraph."""
        if not self.start:
            yield from self.pattern.finditer(text)
            return
        begin = 0
        for end in [*(match.end() for match in END.finditer(text)), len(text)]:
            if self.pattern.match(text[begin:end].rstrip()):
                found = re.compile(r"\S+").match(text, begin)
                if found:
                    yield found
            begin = end


def load_words() -> list[Word]:
    """Read words.toml."""
    entries = tomllib.loads((HERE / "words.toml").read_text(encoding="utf-8"))["word"]
    return [Word(**{**entry, "pattern": re.compile(entry["pattern"], re.IGNORECASE)}) for entry in entries]


@dataclass(frozen=True)
class Paragraph:
    """Lines that belong together, joined by spaces, and where each begins."""

    text: str
    starts: tuple[tuple[int, int], ...]  # (offset in the text, number of the line)
    prose: bool = True  # whole sentences, unlike a heading or a cell of a table

    def line(self, offset: int) -> int:
        """Return the number of the line that holds this character."""
        return max((line for start, line in self.starts if start <= offset), default=self.starts[0][1])

    def sentences(self) -> list[str]:
        """Return its sentences."""
        return [sentence for sentence in END.split(self.text) if re.search(r"\w", sentence)]


def join(lines: list[tuple[int, str]], *, prose: bool = True) -> Iterator[Paragraph]:
    """Yield a paragraph of lines with their numbers, nothing if they are empty."""
    text, starts = "", []
    for number, line in lines:
        stripped = LEADER.sub("", line.strip()).replace("*/", "").strip()
        if stripped:
            text += " " if text else ""
            starts.append((len(text), number))
            text += stripped
    if text:
        yield Paragraph(text, tuple(starts), prose)


def paragraphs_of_lines(lines: list[tuple[int, str]]) -> Iterator[Paragraph]:
    """Split text at empty lines, and yield its paragraphs."""
    block: list[tuple[int, str]] = []
    for number, line in lines:
        if LEADER.sub("", line).strip() in {"", "*/"}:
            yield from join(block)
            block = []
        else:
            block.append((number, line))
    yield from join(block)


def without_code(text: str) -> str:
    """Replace inline code, roles, targets of links and HTML by one word each, over lines, which stay where they are."""

    def masked(match: re.Match[str]) -> str:
        return CODE + "\n" * match[0].count("\n")

    text = re.sub(r"<!--.*?-->", lambda match: "\n" * match[0].count("\n"), text, flags=re.DOTALL)
    text = re.sub(r"(?:\{[\w:]+\})?(?<!`)`[^`]+?`(?!`)", masked, text)
    return re.sub(r"\]\([^)\s]*\)", "]", text)


def markdown(text: str) -> Iterator[Paragraph]:
    """Yield the paragraphs of a page: not what programs print, and of programs their comments."""
    block: list[tuple[int, str]] = []
    fence = ""
    lines = without_code(re.sub(r"^(\s*```.*)$", lambda m: m[1].replace("`", "\x01"), text, flags=re.MULTILINE))
    for number, line in enumerate(lines.split("\n"), 1):
        opening = re.match(r"\s*\x01\x01\x01(.*)", line)
        if opening and not (fence and opening[1]):
            yield from join(block)
            block = []
            fence = "" if fence else opening[1] or "text"
        elif fence and not fence.startswith("{"):
            comment = re.search(r"/\*(.*?)(?:\*/|$)|(?:^|\s)(?://|#)\s(.*)$", line)
            if fence in {"c", "python", "sh", "cpp", "c++"} and comment:
                yield from join([(number, comment[1] or comment[2] or "")], prose=False)
        elif re.match(r"\s*(?:#|\|)", line):
            yield from join(block)
            block = []
            for cell in re.split(r"(?<!\\)\|", line):
                yield from join([(number, cell)], prose=False)
        elif not line.strip() or re.match(r"\s*(?:[-*] |\d+\. |: )|:\w+:", line):
            yield from join(block)
            block = [(number, re.sub(r"^\s*: +", "", line))] if line.strip() else []
        else:
            block.append((number, line))
    yield from join(block)


def python(text: str, *, strings: bool = True) -> Iterator[Paragraph]:
    """Yield comments and docstrings, and the other strings that hold words if `strings`."""
    comments: list[tuple[int, str]] = []
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            if comments and comments[-1][0] != token.start[0] - 1:
                yield from paragraphs_of_lines(comments)
                comments = []
            comments.append((token.start[0], without_code(token.string)))
    yield from paragraphs_of_lines(comments)
    tree = ast.parse(text)
    documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
    docstrings = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, documented) and node.body and isinstance(node.body[0], ast.Expr)
    }
    inner = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in ast.walk(node)}
    for node in ast.walk(tree):
        whole = ""
        if isinstance(node, ast.JoinedStr):
            whole = "".join(str(part.value) if isinstance(part, ast.Constant) else CODE for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in inner:
            whole = node.value
        if re.search(r"\s", whole) and (strings or id(node) in docstrings):
            lines = without_code(whole).split("\n")
            yield from paragraphs_of_lines([(node.lineno + number, line) for number, line in enumerate(lines)])


def template(text: str) -> Iterator[Paragraph]:
    """Yield the comments of a template, of OpenCL C and of Mako, and the messages in quotes."""
    block: list[tuple[int, str]] = []
    inside = ""
    for number, line in enumerate(without_code(text).split("\n"), 1):
        opened = re.search(r"/\*|<%doc>|(?<!:)//|^\s*##", line)
        if inside or opened:
            block.append((number, line[0 if inside else opened.start() if opened else 0 :]))
            if opened and not inside:
                inside = {"/*": "*/", "<%doc>": "</%doc>"}.get(opened[0], "")
            if inside and inside in line:
                inside = ""
        else:
            yield from paragraphs_of_lines(block)
            block = []
            for message in re.findall(r'"([^"]* [^"]*)"', line):
                yield from join([(number, message)])
    yield from paragraphs_of_lines(block)


def paragraphs(path: Path) -> list[Paragraph]:
    """Return the paragraphs of a file, by its suffix."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".py":
        return list(python(text, strings="tests" not in path.relative_to(ROOT).parts[:1]))
    if path.suffix in {".mako", ".h", ".c", ".cl", ".pml"}:
        return list(template(text))
    return list(markdown(text))


def median_sentence(path: Path) -> float:
    """Return the median number of words of the sentences of a page; headings, tables and code do not count."""
    lengths = [
        len(re.findall(r"\w[\w'-]*", sentence))
        for paragraph in paragraphs(path)
        if paragraph.prose
        for sentence in paragraph.sentences()
    ]
    return statistics.median(lengths) if lengths else 0.0


@dataclass(frozen=True)
class Hit:
    """A place where a pattern was found."""

    path: Path
    line: int
    found: str
    word: Word

    def __str__(self) -> str:
        path = self.path.relative_to(ROOT) if self.path.is_relative_to(ROOT) else self.path
        return f"{path}:{self.line}: '{' '.join(self.found.split())}': {self.word.reason}\n    e.g. {self.word.right}"


def hits(path: Path, words: list[Word]) -> list[Hit]:
    """Return what the patterns find in a file, by line."""
    found = [
        Hit(path, paragraph.line(match.start()), match[0], word)
        for paragraph in paragraphs(path)
        for word in words
        if paragraph.prose or not word.start
        for match in word.find(paragraph.text)
    ]
    return sorted(found, key=lambda hit: hit.line)
