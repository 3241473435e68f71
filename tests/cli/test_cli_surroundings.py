"""Commands where the surroundings are against them: folders of hostile modules, and output that goes nowhere."""

from __future__ import annotations

import importlib.metadata
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from portbar.cli import _COMMANDS
from tests.checkout import environment
from tests.fake_icd import vendors
from tests.report_support import record

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="vendor folders, /dev/full and descriptors of Linux")

#: Every command, in a way that imports what it needs; those that list devices see a fake one that does not work.
COMMANDS = (
    ("advise", "-w", "2us", "-d", "fake"),
    ("bench", "barrier", "-d", "fake"),
    ("check", "-d", "fake"),
    ("compare", "one.json", "two.json"),
    ("devices", "--refresh"),
    ("doctor",),
    ("export", "-d", "fake", "-o", "headers"),
    ("index", "records"),
    ("report", "records", "-o", "page.html"),
    ("show", "one.json"),
    ("submit", "one.json", "--matrix", "placed"),
    ("survey", "--quick", "-d", "fake", "-o", "out.json"),
    ("survey", "--dask", "local", "--quick", "-d", "fake", "-o", "hosts/"),
    ("validate", "one.json"),
)


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    """A folder as a stranger may hand it over: records, and a module of every name that Python may import by."""
    folder = tmp_path_factory.mktemp("hostile")
    vendors(folder / "drivers", "abort-build")
    text = json.dumps(record())
    (folder / "records").mkdir()
    (folder / "placed").mkdir()
    for name in ("one.json", "two.json", "records/one.json"):
        (folder / name).write_text(text, encoding="utf-8")
    names = {*sys.stdlib_module_names, *importlib.metadata.packages_distributions(), "sitecustomize", "usercustomize"}
    for name in names:
        if name.isidentifier():
            (folder / f"{name}.py").write_text(
                f"open({str(folder / 'ran')!r}, 'a').write({name!r} + ' ')\n", encoding="utf-8"
            )
    # A console script is a file of another folder, which Python puts first on its path.
    (folder / "bin").mkdir()
    (folder / "bin" / "portbar").write_text("from portbar.cli import main\nmain()\n", encoding="utf-8")
    (folder / "bin" / "every").write_text(EVERY.format(COMMANDS), encoding="utf-8")
    return folder


#: All commands in one process: each takes a while to import what they share.
EVERY = """
import os, sys
from portbar.cli import main
for command in {}:
    sys.argv[1:] = command
    # What a command prints is of no interest, but for a traceback; it replaces the stream.
    sys.stdout = sys.__stdout__
    try:
        main()
    except SystemExit as end:
        print(*command, "->", int(end.code or 0), os.path.exists("ran") and open("ran").read(), file=sys.stderr)
"""


def run(folder, *arguments, script="portbar", **streams):
    variables = {"OCL_ICD_VENDORS": str(folder / "drivers" / "vendors"), "PORTBAR_CACHE_DIR": str(folder / "cache")}
    return subprocess.run(
        [sys.executable, str(folder / "bin" / script), *arguments],
        cwd=folder,
        env=environment(**variables),
        text=True,
        timeout=100,
        check=False,
        **({"stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | streams),
    )


def test_every_command_is_tried():
    assert {command[0] for command in COMMANDS} == set(_COMMANDS)


@pytest.mark.slow
def test_no_module_of_the_current_folder_is_imported(hostile):
    pytest.importorskip("distributed")
    pytest.importorskip("matplotlib")
    done = run(hostile, script="every")
    assert "Traceback" not in done.stderr
    ends = re.findall(r"^(.*) -> (\d+) (.*)$", done.stderr, re.MULTILINE)
    assert [words for words, _, _ in ends] == [" ".join(command) for command in COMMANDS]
    for words, status, ran in ends:
        # It came as far as it can: the fake device works nowhere.
        assert (status in {"0", "1", "3"}, ran) == (True, "False"), (words, status, ran)


@pytest.mark.parametrize(
    "arguments", [("validate", "one.json"), ("show", "one.json"), ("devices", "--json"), ("--help",)]
)
def test_a_standard_output_that_is_full_or_closed_is_one_line(hostile, arguments):
    with Path("/dev/full").open("w", encoding="utf-8") as full:
        done = run(hostile, *arguments, stdout=full)
    said = "portbar: standard output cannot be written (No space left on device)\n"
    assert (done.returncode, done.stderr) == (1, said)
    done = run(hostile, *arguments, stdout=None, preexec_fn=lambda: os.close(1))
    said = "portbar: standard output is closed; redirect it to a file, or to /dev/null\n"
    assert (done.returncode, done.stderr) == (1, said)


def test_other_closed_streams_do_not_matter(hostile):
    def close():
        os.close(0)
        os.close(2)

    done = run(hostile, "devices", "--json", "-d", "fake", stderr=None, preexec_fn=close)
    assert done.returncode == 3
    assert [entry["usable"] for entry in json.loads(done.stdout)["devices"]] == [False]


@pytest.mark.parametrize("more", [{}, {"stderr": None, "preexec_fn": lambda: os.close(2)}], ids=["", "no stderr"])
def test_a_reader_that_has_enough_hears_no_traceback(hostile, more):
    ours, theirs = os.pipe()
    os.close(ours)
    try:
        done = run(hostile, "show", "one.json", stdout=theirs, **more)
    finally:
        os.close(theirs)
    assert done.returncode == 1
    assert not done.stderr
