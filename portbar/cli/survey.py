"""`portbar survey`: of this machine, of many at once (`portbar.cli.survey_cluster`), or against a record."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import click
from click.core import ParameterSource

from portbar import records
from portbar.cli import INTERRUPTED, survey_check, survey_cluster, survey_share
from portbar.cli.options import FiniteRange, device_option, examples, json_option, seconds_option
from portbar.cli.output import err, print_json, say, show
from portbar.cli.progress import ShownSteps
from portbar.cli.selected import chosen
from portbar.cli.show import slugs
from portbar.errors import Error
from portbar.records import writing
from portbar.records.reading import rows_of, value_of
from portbar.survey.fleet.hosts import HostFolder, host_name, is_one_of_many, only_here
from portbar.survey.run import Job, Survey
from portbar.survey.views import OneScreen, record_view

#: How many times slower is a fault for `--check` unless the user says otherwise: shared machines vary by less than that.
FACTOR: Final = 2.0


@click.command(
    name="survey",
    epilog=examples(
        "portbar survey",
        "portbar survey --quick --device pocl -o record.json",
        "portbar survey --share --device 0:0",
        "portbar survey --check record.json --factor 3",
        "srun --ntasks-per-node=1 --cpu-bind=none portbar survey -o records/",
        "portbar survey --dask tcp://SCHEDULER:8786 -o records/",
        "portbar survey --dask local --quick -o records/",
    ),
)
@device_option
@json_option
@click.option(
    "--quick", is_flag=True, help="Fewer sizes and runs, and reuse of earlier probes: under a minute for five devices."
)
@click.option(
    "--share",
    is_flag=True,
    help="Also check the results of all primitives, and write one file to send in, in under ten minutes for all devices.",
)
@seconds_option("--timeout", 1, "Time limit per device; with --share of all together, then 540 by default.", 120.0)
@click.option(
    "--output",
    "-o",
    type=click.Path(),
    metavar="FILE|DIR/",
    help="Write the record to this file, as it grows; for a folder, or with {host} in the name: one file per host.",
)
@click.option(
    "--matrix",
    type=click.Path(file_okay=False, path_type=Path),
    help="Write one record per device into this folder, named as in vendor_matrix/.",
)
@click.option(
    "--check",
    metavar="FILE|SLUG",
    shell_complete=slugs,
    help="Compare this machine with a record of its devices; exit with status 1 if it has become worse.",
)
@click.option(
    "--factor",
    type=FiniteRange(min=1),
    metavar="FACTOR",
    help=f"With --check: factor by which a value must be slower, or smaller, to count as worse; {FACTOR:g} by default.",
)
@click.option("--full", is_flag=True, help="End with all measurements, as `portbar show` prints them.")
@click.option(
    "--dask",
    metavar="ADDRESS",
    help="Survey each host of a Dask cluster once: a scheduler's address or file, or `local` to try it here.",
)
def command(
    devices: tuple[str, ...],
    as_json: bool,
    quick: bool,
    share: bool,
    timeout: float,
    output: str | None,
    matrix: Path | None,
    check: str | None,
    factor: float | None,
    full: bool,
    dask: str | None,
) -> None:
    """Measure what the devices of this machine do between work-groups.

    For each device: whether it works, how many work-groups it runs at once (by lock kind, with and without patience), the cost
    of a barrier beside relaunching a kernel, results of litmus tests, atomics and reductions, and the strategy that portbar
    chooses, with its reasons. The output is a summary of each device; --full prints everything that was measured.

    Every device is measured in child processes, so that a driver that aborts or hangs costs its own rows only. Ctrl-C keeps
    what is done (exit status 130).

    Started by srun or mpirun, one process a host surveys and writes a file of its own; the others leave at once. A host that
    has its file in the folder is not surveyed again.

    --share is for devices that portbar has no record of. It adds programs of every primitive, whose results are known, and
    times of calls on arrays. It writes portbar-record.json, unless --output names another file. Nothing is sent.

    A device that does not work is a row, not a failure. Exit status 1: a driver failed during a measurement, --check found
    something worse, a result was wrong, or a host of a cluster failed; 3: no device works; 4: a measurement was ended by its
    time limit.
    """
    if factor is not None and check is None:
        raise click.UsageError("--factor requires --check")
    if check is not None and dask is not None:
        raise click.UsageError("--check applies to this machine, --dask to others: use one of them")
    if share and (quick or check is not None or dask is not None):
        raise click.UsageError("--share is a whole survey of this machine: omit --quick, --check and --dask")
    if share and click.get_current_context().get_parameter_source("timeout") is ParameterSource.DEFAULT:
        timeout = survey_share.LIMIT_S
    job = Job(quick, timeout, devices, share)
    with _terminated_as_interrupted():
        if dask is not None:
            if output is None or matrix is not None:
                raise click.UsageError("--dask requires a folder, -o DIR/; `portbar submit` splits records by device")
            sys.exit(survey_cluster.run(dask, _folder(output, always=True), job, as_json=as_json))
        sys.exit(_here(job, output, matrix, check, factor or FACTOR, as_json=as_json, full=full))


def status_of(record: dict[str, Any]) -> int:
    """Return the exit status for a record."""
    entries = record["devices"]
    parts = [part for entry in entries for part in entry.values()]
    steps = {part["status"] for part in parts if isinstance(part, dict) and "rows" in part}
    if record["interrupted"]:
        return INTERRUPTED
    unchecked = [entry for entry in entries if "usable" not in entry]
    if not any(entry.get("usable", {}).get("usable") for entry in entries) and not ("timeout" in steps and unchecked):
        return 3
    if "timeout" in steps:
        return 4
    wrong = any(value_of(row["result"]) is False for entry in entries for row in rows_of(entry, "answers"))
    return 1 if wrong or {"crash", "error"} & steps or any(entry["status"] == "failed" for entry in entries) else 0


def _here(
    job: Job, output: str | None, matrix: Path | None, check: str | None, factor: float, *, as_json: bool, full: bool
) -> int:
    """Survey this machine, unless another process does so or its folder says that this is done."""
    many = is_one_of_many(os.environ)
    if job.share:
        output, many = output or survey_share.FILE, False
    folder = None if output is None else _folder(output, always=many and check is None)
    if check is not None and folder is not None:
        raise click.UsageError("--check applies to one machine: name a file with --output, not a folder")
    if job.share and folder is not None:
        raise click.UsageError("--share writes one file: name it with --output, not a folder")
    file = None if output is None else Path(output)
    with ExitStack() as locked:
        if folder is not None or many:
            name = host_name()
            if not locked.enter_context(only_here(Path() if folder is None else folder.path, name)):
                say("another process surveys this host; nothing to do")
                return 0
            _tell_withheld_cores()
        if folder is not None:
            label = folder.label(name)
            file = folder.file(label)
            if folder.is_finished(label, job.invocation):
                say(f"this host was surveyed before: remove {file} to survey it again")
                return 0
            say(f"this host is {label}")
        run = _WrittenSurvey(job, file)
        if check is not None:
            return survey_check.run(check, factor, job, run.survey, as_json=as_json) or int(run.is_lost)
        return _measured(run, matrix, as_json=as_json, full=full)


def _measured(run: _WrittenSurvey, matrix: Path | None, *, as_json: bool, full: bool) -> int:
    """Survey the devices that were asked for, place their records in the matrix, and print the whole; the exit status."""
    if run.job.share:
        found = survey_share.found(run.job.devices)
        record = run.survey(found.devices, unlisted=found.unlisted)
    else:
        record = run.survey(chosen(run.job.devices))
    lost = run.is_lost
    files: dict[Path, dict[str, Any]] = {}
    if matrix is not None:
        for slug, one in records.split(record):
            # Of identical devices the first is used, as by `portbar submit`.
            files.setdefault(matrix / f"{slug}.json", one)
    for path, one in files.items():
        try:
            _write(path, one)
        except OSError as error:
            say(f"{path} cannot be written ({error.strerror or error}) and is unchanged")
            lost = True
    if lost:
        say("writing the whole record to standard output, as JSON")
    if as_json or lost:
        print_json(record)
    else:
        show(record_view(record) if full else OneScreen(record, run.details))
    if record["interrupted"]:
        say("interrupted; the record is partial and marked so")
    if run.job.share and not lost:
        survey_share.tell(record, run.file)
    return status_of(record) or int(lost)


class _WrittenSurvey:
    """A survey of this machine, written to where the user wants it as it grows."""

    def __init__(self, job: Job, file: Path | None) -> None:
        self.job = job
        #: Whether the file does not hold the newest state of the record, since the disk refused it.
        self.is_lost = False
        self.file = file
        self._started = time.monotonic()
        self._is_written = False

    @property
    def details(self) -> str:
        """Return the command that shows everything that was measured."""
        if self.file is None:
            return "portbar survey --full, or -o FILE and portbar show"
        return f"portbar show {self.file}"

    def survey(
        self, devices: list[Any], *, quick: bool | None = None, keep: bool = True, unlisted: Sequence[str] = ()
    ) -> dict[str, Any]:
        """Survey these devices; with `keep`, the record is written."""
        with ShownSteps(err()) as steps:

            def on_step(device: str, step: str, seconds_expected: float | None = None) -> None:
                steps.step(device, step, seconds_expected)
                if keep:
                    # If this process is killed now, this is what there is.
                    self._keep({**survey.record, "partial": True, "interrupted": True})

            job = self.job if quick is None else replace(self.job, quick=quick)
            survey = Survey(job, on_step, unlisted=unlisted, started=self._started)
            record = survey.run(devices)
        if keep:
            self._keep(record)
            if self.is_lost:
                say(f"{self.file} holds the record of an earlier step, marked partial")
        return record

    def _keep(self, record: dict[str, Any]) -> None:
        """Write the record. Measurements are worth more than a file, so only the first failure ends the survey."""
        if self.file is None:
            return
        try:
            _write(self.file, record)
        except OSError as error:
            why = f"the record cannot be written to {self.file} ({error.strerror or error})"
            if not self._is_written:
                raise click.UsageError(f"{why}; name another file with --output") from error
            if not self.is_lost:
                say(f"{why}; the survey continues and tries again after each step")
            self.is_lost = True
        else:
            self._is_written, self.is_lost = True, False


def _tell_withheld_cores() -> None:
    """Say so where a launcher bound this process to a part of the host's cores."""
    cores = os.cpu_count() or 1
    mine = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else cores
    if mine < cores:
        say(
            f"bound to {mine} of {cores} cores, which also limits CPU devices; srun --cpu-bind=none or mpirun --bind-to none "
            "gives all cores"
        )


def _folder(output: str, *, always: bool) -> Any:
    try:
        return HostFolder.of(output, always=always)
    except Error as error:
        raise click.BadParameter(str(error), param_hint="--output") from error


def _write(path: Path, record: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    writing.write(path, records.text(record))


@contextmanager
def _terminated_as_interrupted() -> Iterator[None]:
    """Let what a batch system sends at the end of a job's time keep what is done, as Ctrl-C does."""

    def interrupt(_number: int, _frame: object) -> None:
        if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
            # As a shell has it for what it starts in the background.
            raise KeyboardInterrupt
        signal.raise_signal(signal.SIGINT)

    if threading.current_thread() is not threading.main_thread():
        # Only the main thread may change what signals do.
        yield
        return
    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
