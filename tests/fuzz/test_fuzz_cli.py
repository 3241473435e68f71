"""Any words after `portbar`: a result, or a message and an exit status, never a traceback. No driver is asked."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from portbar import records
from portbar.cli import cli, selected, survey_cluster
from portbar.errors import DeviceError, Error
from portbar.survey.report.build import FolderReport
from portbar.survey.report.index import BEGIN, END
from tests.fuzz import target
from tests.records_support import record, stopped_record

COMMANDS = {name: cli.get_command(click.Context(cli), name) for name in cli.list_commands(click.Context(cli))}
#: Command -> the options that it has.
OPTIONS = {
    name: [text for option in command.params if isinstance(option, click.Option) for text in option.opts]
    for name, command in COMMANDS.items()
}
FILES = ["a.json", "b.json", "cut.json", "bytes.json", "matrix", "README.md", "k.cl", "none.json", "new.json", "new"]
ODD = ["", "-", "--", "-1", "0", "1e999", "nan", "0.5", "7", "9" * 30, "\x1b[2J", "\u202e", "a\nb", "\udc80", "a" * 300]
NAMED = ["0:0", "pocl", ":", "c11", "counter", "SB", "device_barrier", "CL3.0", "h100", "html", "markdown", "/dev/null"]
VALUES = [*FILES, *ODD, *NAMED, "matrix/", "a{host}.json", "/proc/nothing/x", "local", "atomics=c11", "a=b"]

#: Of an argument, which ends at the first NUL.
NO_NUL = st.characters(exclude_characters="\x00", exclude_categories=["Cs"])

words = st.sampled_from(sorted(COMMANDS)).flatmap(
    lambda command: st.lists(
        st.sampled_from([*OPTIONS[command], "--json", "-h"]) | st.sampled_from(VALUES) | st.text(NO_NUL, max_size=5),
        max_size=7,
    ).map(lambda more: [command, *more])
)


def nothing(*_: object, **__: object) -> None:
    raise DeviceError("no OpenCL platform is installed")


@pytest.fixture(scope="module", autouse=True)
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A working directory with files of all kinds; no device, no cluster, no plots, which take seconds."""
    made = tmp_path_factory.mktemp("cli")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(made)
        patch.setenv("PORTBAR_CACHE_DIR", str(made / "cache"))
        patch.setattr(selected.listing, "look", nothing)
        patch.setattr(survey_cluster, "run", nothing)
        patch.setattr(FolderReport, "to_html", lambda *_, **__: "<html>")
        yield made


GOOD, PAGE = records.text(record()).encode(), f"# Mine\n\n{BEGIN}\nold\n{END}\n".encode()
CONTENT = {
    "a.json": GOOD,
    "b.json": records.text(stopped_record()).encode(),
    "cut.json": GOOD[:700],
    "bytes.json": bytes(range(256)),
    "k.cl": b'#include "portbar/lock.h"\nkernel void k(global uint *a) { }\n',
    "README.md": PAGE,
    "matrix/README.md": PAGE,
    "matrix/a.json": GOOD,
}


def fill() -> None:
    """Put the files where they were: commands write."""
    Path("matrix").mkdir(exist_ok=True)
    for name, content in CONTENT.items():
        Path(name).write_bytes(content)


@target
@given(words)
def test_any_words_end_in_a_result_or_a_message(arguments: list[str]) -> None:
    fill()
    result = CliRunner().invoke(cli, arguments)
    assert result.exception is None or isinstance(result.exception, (SystemExit, Error)), result.exc_info
    assert isinstance(result.exception, Error) or result.exit_code in {0, 1, 2, 3, 4}
    assert "Traceback" not in result.output
