"""The reference of public C functions, made of the contract comments of the templates.

`python -m tests.docs.c_functions` writes docs/c_functions.md.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import numpy as np

import portbar
from portbar.primitives import headers
from portbar.primitives.reduction.loops import LEVELS
from portbar.primitives.reduction.use import Use
from portbar.primitives.strategy import Choice, Strategy
from tests.checkout import ROOT

DOCS = ROOT / "docs"
PAGE = DOCS / "c_functions.md"
#: Pages that describe no function: this one, those for maintainers, the table of faults.
NOT_DESCRIPTIONS = {"c_functions", "internals", "quirks", "verification", "why"}
#: Headers with functions of loops and scans that programs declare, here by the name NAME. The second use of the reduction
#: header has a grid before it.
LOOP = portbar.ReductionLoop("NAME", {"v": portbar.Reduction(np.int32, "+")})
SCAN = portbar.DeviceScan("NAME", np.int32, "+")

OPERATOR = "(?:logical_(?:and|or|eqv|xor)|add|mul|min|max|and|or|xor|NAME)"
FIELDS = ("caller", "order", "result", "cost")
LABEL = re.compile(
    r"(?:^|(?<=[.;:] ))(?P<names>(?:Caller|Order|Result|Cost|Source)(?:(?:, | and )(?:caller|order|result|cost))*)"
    r"(?P<steps> of all steps)?: "
)
DEFINITION = re.compile(
    r"^/\*.*?\*/"
    r"|^(?:static inline|PORTBAR_[A-Z_]+)\s(?P<returns>[^;{#]*?)"
    r"\b(?P<function>(?:portbar|NAME)_\w+)\((?P<parameters>[^;{]*?)\)[^;(){]*\{"
    r"|^#define (?P<macro>\w+)\((?P<arguments>[^)]*)\)",
    re.DOTALL | re.MULTILINE,
)


@dataclass(frozen=True)
class Function:
    """A public function or macro, and its contract: fields by name, empty where the comment has none.

    `returns` is the type of the result: T where the overloads have several, empty for macros.
    """

    name: str
    parameters: tuple[str, ...]
    summary: str
    caller: str = ""
    order: str = ""
    result: str = ""
    cost: str = ""
    returns: str = ""

    @property
    def call(self) -> str:
        return f"{self.returns} {self.name}({', '.join(self.parameters)})".lstrip()


@cache
def described() -> frozenset[str]:
    """Return the names in C that a page of the documentation has, other than in targets of links."""
    pages = [page for page in DOCS.glob("*.md") if page.stem not in NOT_DESCRIPTIONS]
    texts = [re.sub(r"\]\([^()]*\)", "]", page.read_text(encoding="utf-8")) for page in pages]
    return frozenset(name for text in texts for name in re.findall(r"\b(?:portbar|PORTBAR|NAME)_\w+", text))


def family(name: str) -> str:
    """Return the name of a family, with OP for operators and LEVEL for levels."""
    name = re.sub(rf"_(reduce|scan_inclusive|scan_exclusive)_{OPERATOR}$", r"_\1_OP", name)
    return re.sub(rf"_(?:{'|'.join(sorted(LEVELS, key=len, reverse=True))})$", "_LEVEL", name)


def is_public(name: str) -> bool:
    """Whether a page has the name or its family, or one form of a family whose other forms it abbreviates."""
    if re.match(r"portbar_(?:atomic|split_barrier)_|NAME_", name):
        return True
    return bool({name, family(name), family(name).replace("exclusive", "inclusive")} & described())


def strategy() -> Strategy:
    return Strategy(*(Choice(value, "") for value in ("c11", "packed", "counter")), split_barrier=Choice("uniform", ""))


def whole(header: headers.Header, chosen: Strategy) -> str:
    """Return the text of a header with all of its parts, without those that it requires."""
    made = headers._rendered(header, chosen)
    return made.text(made.parts())


@cache
def rendered() -> tuple[tuple[str, str], ...]:
    """Return each header with its text, those that it requires left out."""
    return tuple((header.name, whole(header, strategy())) for header in with_contents())


@cache
def with_contents() -> tuple[headers.Header, ...]:
    contents = {"reduction": Use(loops=(LOOP,), worker_locks=True, locks=True), "scan": (SCAN,)}
    return tuple(header.with_content(contents.get(name)) for name, header in headers.HEADERS.items())


def words_of(comment: str) -> str:
    return " ".join(comment.strip().removeprefix("/*").removesuffix("*/").split())


def contract(text: str) -> dict[str, str]:
    """Return the fields of a comment; the text before the first is `summary`."""
    found = list(LABEL.finditer(text))
    fields = {"summary": (text[: found[0].start()] if found else text).strip()}
    for label, after in zip(found, [*found[1:], None][: len(found)], strict=True):
        value = text[label.end() : after.start() if after else len(text)].strip().rstrip(".")
        for name in re.findall(r"\w+", label["names"].lower().replace(" and ", " ")):
            fields[name] = value
    return fields


def parameters_of(text: str) -> tuple[str, ...]:
    """Return the names of parameters."""
    names = [re.findall(r"\w+|\.\.\.", each) for each in text.split(",")]
    return tuple(name[-1] for name in names if name and name[-1] != "void")


@cache
def types(text: str) -> dict[str, frozenset[str]]:
    """Return the types that the functions of each name in a header return."""
    found: dict[str, frozenset[str]] = {}
    for one in DEFINITION.finditer(text):
        if name := one["function"]:
            returned = " ".join(re.sub(r"__attribute__\(\(\w+\)\)", "", one["returns"]).split())
            found[family(name)] = found.get(family(name), frozenset()) | {returned}
    return found


def type_of(name: str, text: str) -> str:
    returned = types(text).get(family(name), frozenset())
    return "T" if len(returned) > 1 else "".join(returned)


def functions(text: str) -> Iterator[Function]:
    """Yield the public functions and macros of a header, each with its contract.

    A function without a comment has that of the function before it, if no blank line is between them. Otherwise, or if its
    comment has no fields, it has that of its section, whose comment begins with `----`. Of overloads, those without fields
    are left out.
    """
    own: list[str] = []
    section: dict[str, str] = {}
    end = 0
    after_comment = False
    known: set[tuple[str, tuple[str, ...]]] = set()
    for found in DEFINITION.finditer(text):
        between, end = text[end : found.start()], found.end()
        if found[0].startswith("/*"):
            comment = words_of(found[0])
            if comment.startswith("----"):
                section, own = contract(comment.lstrip("- ")), []
            else:
                begun = after_comment and not between.strip() and own and "caller" in contract(own[0])
                own = [*own, comment] if begun and "caller" not in contract(comment) else [comment]
            after_comment = True
            continue
        after_comment = False
        if "\n\n" in between:
            own = []
        name = found["function"] or found["macro"]
        if not is_public(name):
            continue
        given = parameters_of(found["parameters"] if found["function"] else found["arguments"])
        if not any(contract(comment).keys() - {"summary"} for comment in own):
            own_contract = own if not section else []
            if (name, given) in known:
                continue
        else:
            own_contract = own
        known.add((name, given))
        fields = {} if own_contract else dict(section)
        for comment in reversed(own_contract):
            fields |= contract(comment)
        contracts = {field: fields.get(field, "") for field in FIELDS}
        yield Function(name, given, fields.get("summary", ""), **contracts, returns=type_of(name, text))


def resolved(function: Function, by_name: dict[str, Function]) -> Function:
    """Return a function whose fields that refer to another function's are those, with the exceptions after them."""
    for field in FIELDS:
        value = getattr(function, field)
        other = re.match(r"(?:as for|that of|those of) `?((?:portbar|PORTBAR|NAME)_\w+)`?", value)
        if other and other[1] in by_name and other[1] != function.name:
            meant = getattr(resolved(by_name[other[1]], by_name), field)
            if meant:
                rest = value[other.end() :].strip(" ,;")
                function = replace(function, **{field: f"{meant}; {rest}" if rest else meant})
    return function


def on_cpus(header: str, found: list[Function]) -> list[Function]:
    """Return functions with what their contracts say for CPUs, whose loops take contiguous pieces, where that differs."""
    (own,) = (one for one in with_contents() if one.name == header)
    text = whole(own, strategy().with_units(loops_in_pieces=True))
    there = {(one.name, one.parameters): one for one in functions(text)}
    made = []
    for one in found:
        other = there.get((one.name, one.parameters), one)
        differ = {
            field: f"{sentence(getattr(other, field))} On other devices: {getattr(one, field)}"
            for field in ("summary", *FIELDS)
            if getattr(other, field) != getattr(one, field)
        }
        made.append(replace(one, **{field: f"On CPUs: {text}" for field, text in differ.items()}))
    return made


def sentence(text: str) -> str:
    return text if text.endswith(".") else f"{text}."


@cache
def public() -> tuple[tuple[str, tuple[Function, ...]], ...]:
    """Return each header with its public functions, one per family and contract."""
    every = [(header, on_cpus(header, list(functions(text)))) for header, text in rendered()]
    by_name = {function.name: function for _, found in every for function in reversed(found)}
    made = []
    for header, found in every:
        rows: dict[tuple[str, str, str], Function] = {}
        for function in found:
            row = in_family(resolved(function, by_name))
            rows.setdefault((row.name, row.summary, row.caller), row)
        made.append((header, tuple(rows.values())))
    return tuple(made)


def in_family(function: Function) -> Function:
    """Return a function with OP and LEVEL for its operator and level, also in its contract."""
    name = family(function.name)
    if not name.endswith("_OP"):
        return replace(function, name=name)
    texts = {
        field: re.sub(
            rf"(?<=\bby )(`?){OPERATOR}\b",
            r"\1OP",
            re.sub(rf"(?<=_reduce_){OPERATOR}\b", "OP", getattr(function, field)),
        )
        for field in ("summary", *FIELDS)
    }
    return replace(function, name=name, **texts)


def incomplete() -> list[str]:
    """Return what contracts of public functions lack."""
    return [
        f"{function.name} in portbar/{header}.h: {field}"
        for header, found in public()
        for function in found
        for field in ("summary", "caller", "cost")
        if not getattr(function, field)
    ]


def cell(text: str) -> str:
    """Return a text as a cell of a table: names in C in code style."""
    parts = re.split(r"(`[^`]*`)", text)
    parts = [
        part
        if part.startswith("`")
        else re.sub(r"\b((?:portbar|PORTBAR|NAME|memory)_\w+|CLK_\w+)(\(\))?", r"`\1\2`", part)
        for part in parts
    ]
    text = "".join(parts).replace("|", "\\|")
    return text[:1].upper() + text[1:] if text else "—"


def table(found: tuple[Function, ...]) -> Iterator[str]:
    """Yield the lines of a table; calls with one contract share a row."""
    yield "| call | does | caller | order and scope | result | cost |"
    yield "| --- | --- | --- | --- | --- | --- |"
    rows: dict[tuple[str, ...], list[str]] = {}
    for function in found:
        key = tuple(getattr(function, field) for field in ("summary", *FIELDS))
        rows.setdefault(key, []).append(f"`{function.call}`")
    for key, calls in rows.items():
        yield f"| {', '.join(dict.fromkeys(calls))} | {' | '.join(cell(text) for text in key)} |"


BEGINNING = """\
# C functions

Look up a function or function-like macro of the headers for kernels: who calls it, its memory order and scope, its
result with where it is valid, and its cost. The pages of the headers show how to use them, and list types and constants.

A row stands for all types of a function, `T` for the type of the values. `OP` is an operator, `LEVEL` a level of a
[loop](reduction_loops.md#levels), `NAME` the name that you declare on the host. A dash for the order means that the call
promises no memory order. A dash for the result means that the second column describes it, or that the call returns
nothing. Costs are those of the default algorithms; those of [others](barrier_performance.md) differ. Functions of
`portbar/host.h` are in [C and C++ hosts](c_and_cpp.md). Other names with the prefix `portbar_` or `PORTBAR_` in the
headers are internal.

`python -m tests.docs.c_functions` writes this page from the contract comments of the headers.
"""


def page() -> str:
    """Return the text of docs/c_functions.md."""
    lines = [BEGINNING]
    for header, found in public():
        described_in = headers.HEADERS[header].page
        lines += [f"## portbar/{header}.h", "", f"See [{Path(described_in).stem}]({described_in}).", ""]
        lines += [*table(found), ""]
    return "\n".join(lines).rstrip("\n") + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    for missing in incomplete():
        print(missing)
