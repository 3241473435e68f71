"""The runner's counting, and that the device fixture is the platform that was asked for."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyopencl as cl
import pytest

from tests import machine, runtimes

pytestmark = pytest.mark.usefixtures("kept_folder")


BROKEN_LOG = """\
tests/test_a.py::test_one PASSED                                         [ 25%]
tests/test_a.py::test_two[x y] SKIPPED (no sub-groups)                   [ 50%]
tests/test_a.py::test_three What a driver printed.
FAILED                                                                   [ 75%]
tests/test_a.py::test_four malloc(): invalid size
Fatal Python error: Aborted
"""

PYTEST_FILE = """
import os
import pytest

def test_passes(): pass
def test_fails(): assert False
@pytest.mark.skip(reason="no fp64 [here]")
def test_skipped(): pass
@pytest.mark.skipif(not os.environ.get("ABORT"), reason="only to break off")
def test_aborts():
    os.write(2, b"the driver says why\\n")
    os.abort()
def test_waits():
    if os.environ.get("WAIT"):
        import time
        time.sleep(60)
"""


def run_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *arguments: str, **variables: str) -> runtimes.Row:
    """Let the runner run PYTEST_FILE as its host tests."""
    (tmp_path / "tests").mkdir(exist_ok=True)
    (tmp_path / "tests" / "test_it.py").write_text(PYTEST_FILE)
    monkeypatch.setattr(runtimes, "ROOT", tmp_path)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    workshop = runtimes.Workshop(tmp_path / "scratch")
    return runtimes.run(workshop, runtimes.Configuration("host"), runtimes.parse(arguments))


def test_outcomes_and_reasons_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    row = run_file(tmp_path, monkeypatch)
    assert (row.passed, row.failed) == (2, 1)
    assert row.skips == {"no fp64 [here]": 1, "only to break off": 1}
    assert row.notes == ["failed: tests.test_it::test_fails"]
    assert [failure.split(": ", 1) for failure in row.failures] == [["tests.test_it::test_fails", "assert False"]]


def test_an_abort_keeps_the_counts_and_names_the_test(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    row = run_file(tmp_path, monkeypatch, ABORT="1")
    assert (row.passed, row.failed) == (1, 2)
    assert row.skips == {"no fp64 [here]": 1}
    assert "::test_aborts: the driver says why Fatal Python error: Aborted" in row.notes[0]
    assert row.failures == row.notes[:1]


@pytest.mark.skipif(sys.platform == "win32", reason="SIGINT cannot be sent to one child on Windows")
def test_the_limit_stops_a_configuration_and_counts_as_a_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # On a busy machine pytest itself may take longer to start.
    for limit in ("6", "24", "60"):
        row = run_file(tmp_path, monkeypatch, "--limit", limit, WAIT="1")
        if row.passed:
            break
    assert (row.passed, row.failed) == (1, 2)
    assert row.notes == [f"the tests were stopped at the limit of {limit} s in tests/test_it.py::test_waits"]


def test_a_log_that_breaks_off_is_counted() -> None:
    row = runtimes.Row("any")
    runtimes.count_log(BROKEN_LOG, row)
    assert (row.passed, row.failed, row.skips) == (1, 1, {"no sub-groups": 1})
    assert runtimes.last_test(BROKEN_LOG) == "tests/test_a.py::test_four"
    assert runtimes.last_words(BROKEN_LOG) == "malloc(): invalid size Fatal Python error: Aborted"


@pytest.mark.parametrize(
    ("errors", "reason"),
    [
        ('Executable "ld" doesn\'t exist!\nFinal linking of kernel probe failed.', "apt-get install gcc libc6-dev"),
        ("ld: cannot find -lgcc: No such file\nFinal linking of kernel probe failed.", "apt-get install gcc libc6-dev"),
        ("Assertion failed", "Assertion failed"),
    ],
)
def test_a_runtime_without_a_linker_is_unusable_with_the_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, errors: str, reason: str
) -> None:
    ended = machine.Platform("PoCL 3.0", "Portable Computing Language", "pthread", 2, "it ended before it answered")
    monkeypatch.setattr(machine, "ask", lambda *_: ([ended], errors))
    pocl = runtimes.Configuration("PoCL 3.0 (wheel)", "PoCL 3.0")
    assert reason in machine.check(runtimes.Workshop(tmp_path), pocl)[1]


HOST = runtimes.Row("host", passed=3)


@pytest.mark.parametrize(
    ("rows", "code"),
    [
        ([HOST, runtimes.Row("PoCL 3.1", 2, is_device=True, is_pocl=True)], {"PoCL": 0, "OpenCL": 0, "": 0}),
        ([HOST, runtimes.Row("PoCL 3.1", is_device=True, is_pocl=True)], {"PoCL": 1, "OpenCL": 1, "": 0}),
        ([HOST, runtimes.Row("Intel", 2, is_device=True)], {"PoCL": 1, "OpenCL": 0, "": 0}),
        (
            [replace(HOST, failed=1), runtimes.Row("PoCL 3.1", 2, is_device=True, is_pocl=True)],
            {"PoCL": 1, "OpenCL": 1, "": 1},
        ),
    ],
)
@pytest.mark.parametrize("need", ["PoCL", "OpenCL", ""])
def test_the_last_line_sums_up_and_the_exit_code_says_whether_all_is_well(
    rows: list[runtimes.Row], code: dict[str, int], need: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert runtimes.report_all(rows, need=need) == code[need]
    passed, failed = sum(row.passed for row in rows), sum(row.failed for row in rows)
    assert capsys.readouterr().out.splitlines()[-1] == f"{passed} passed, {failed} failed, 0 skipped"


def test_what_failed_comes_just_before_the_last_line(capsys: pytest.CaptureFixture[str]) -> None:
    failed = runtimes.Row("Intel", 2, 1, is_device=True, failures=["tests.test_a::test_three: assert 1 == 2"])
    runtimes.report_all([HOST, failed], need="")
    assert capsys.readouterr().out.splitlines()[-2:] == [
        "FAILED on Intel: tests.test_a::test_three: assert 1 == 2",
        "5 passed, 1 failed, 0 skipped",
    ]


def test_each_configuration_sees_one_library(tmp_path: Path) -> None:
    workshop = runtimes.Workshop(tmp_path)
    for library in ("", "libpocl.so.2", "libRusticlOpenCL.so.1"):
        folder = workshop.environment(library).get("OCL_ICD_VENDORS")
        if not sys.platform.startswith("linux"):
            pytest.skip("vendors folders exist on Linux only")
        texts = [path.read_text().strip() for path in sorted(tmp_path.glob("vendors/*/*.icd"))]
        assert folder is not None
        assert os.listdir(folder) == (["only.icd"] if library else [])  # noqa: PTH208
        assert not library or library in texts


@pytest.mark.device
def test_the_device_is_on_the_platform_that_was_asked_for(device: cl.Device, queue: cl.CommandQueue) -> None:
    wanted = os.environ.get("PORTBAR_TEST_PLATFORM", "")
    assert wanted.lower() in f"{device.platform.name} {device.platform.version}".lower()
    assert queue.device == device
    sent, received = np.arange(7, dtype=np.int16), np.empty(7, np.int16)
    cl.enqueue_copy(queue, cl_buffer := cl.Buffer(queue.context, cl.mem_flags.READ_WRITE, sent.nbytes), sent)
    cl.enqueue_copy(queue, received, cl_buffer)
    assert received.tolist() == sent.tolist()


@pytest.mark.device
def test_a_configuration_that_names_a_number_of_threads_has_them(device: cl.Device) -> None:
    threads = os.environ.get("POCL_MAX_PTHREAD_COUNT") if "PoCL" in device.platform.version else None
    assert threads is None or device.max_compute_units == int(threads)
