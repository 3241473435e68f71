"""`portbar check`."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from portbar.choices.strategy import ALTERNATIVES
from portbar.cli import INTERRUPTED, check_files
from portbar.cli.options import device_option, examples, json_option, seconds_option, store_option
from portbar.cli.output import print_json, show, show_title
from portbar.cli.progress import ShownSteps
from portbar.cli.selected import each_device, number
from portbar.device.addresses import DeviceAddress
from portbar.errors import Error
from portbar.records.reading import NO_TIME
from portbar.records.scrubbing import anonymous
from portbar.survey.litmus.checking import CheckResult, check, result_of, store_verdicts
from portbar.survey.litmus.patterns import PATTERNS
from portbar.survey.litmus.results import NAMES, proves
from portbar.survey.litmus.tests import TESTS, matching
from portbar.survey.tables import terminal_table

if TYPE_CHECKING:
    import pyopencl as cl

#: Seconds a device, everything included: with what cannot be planned it stays under 30.
_USUAL_S: Final = 22.0


@click.command(
    name="check",
    epilog=examples(
        "portbar check --device pocl",
        "portbar check --seconds 3600 --json",
        'portbar check --strategy cl12 --test "MP-*" --seed 7 --outcomes',
        "portbar check --list",
        "portbar check -I include -D N=64 kernels/*.cl",
    ),
)
@click.argument("files", nargs=-1, type=click.Path(exists=True, dir_okay=False, path_type=Path), metavar="[FILE]...")
@click.option(
    "-I", "folders", multiple=True, metavar="FOLDER", help="With files: look for what they include here, too."
)
@click.option("-D", "macros", multiple=True, metavar="NAME[=VALUE]", help="With files: a macro, as for the driver.")
@device_option
@json_option
@seconds_option("--seconds", 1, "Time per device, including compilation.", _USUAL_S)
@click.option("--seed", type=click.IntRange(min=0), metavar="N", help="Seed of the random memory locations and stress.")
@click.option(
    "--strategy",
    "-s",
    "strategies",
    type=click.Choice(ALTERNATIVES["atomics"]),
    multiple=True,
    help="Check this atomics strategy; may be repeated. By default all that build, with most of the time for the chosen one.",
)
@click.option(
    "--test",
    "-t",
    "tests",
    metavar="PATTERN",
    multiple=True,
    help="Run only these tests: a name, a prefix (MP) or wildcards (*-local-*); may be repeated.",
)
@click.option("--outcomes", is_flag=True, help="Show how often each outcome of each test occurred.")
@store_option("verdicts")
@click.option(
    "--list", "listing", is_flag=True, help="List the tests and the outcomes that must not occur; run nothing."
)
def command(
    files: tuple[Path, ...],
    folders: tuple[str, ...],
    macros: tuple[str, ...],
    devices: tuple[str, ...],
    as_json: bool,
    seconds: float,
    tests: tuple[str, ...],
    strategies: tuple[str, ...],
    outcomes: bool,
    store: bool,
    listing: bool,
    **asked: Any,
) -> None:
    """Run litmus tests: check that a device's atomics order memory as OpenCL's memory model requires.

    Given files of OpenCL C, check those instead, without a device: whether all work-items reach the barriers and other
    functions that they must call together. Prints FILE:LINE:COLUMN: error: ... and notes that say why.

    Each test runs many small instances under stress and counts their outcomes. An outcome that the memory model forbids rejects
    the atomics strategy: portbar no longer chooses it on that device. A pass proves nothing; more time finds more.

    Everything runs in child processes, so a driver that aborts or hangs costs one test. A device without findings is probed
    first. Ctrl-C keeps what is done (exit status 130).

    Exit status 1: a forbidden outcome, a driver failed, or a file has an error; 3: no device works; 4: a time limit was hit.
    """
    if files:
        _refuse_with_files(devices, strategies, tests)
        options = [*(f"-I{folder}" for folder in folders), *(f"-D{macro}" for macro in macros)]
        try:
            sys.exit(check_files.run(files, options, as_json=as_json))
        except Error as error:
            raise click.ClickException(str(error)) from None
    if folders or macros:
        raise click.UsageError("-I and -D are for files of OpenCL C: name some.")
    try:
        names = matching(NAMES, tests or None)
    except Error as error:
        raise click.UsageError(str(error)) from None
    if listing:
        _list(names, as_json=as_json)
        return

    def work(entry: dict[str, Any], steps: ShownSteps, address: DeviceAddress, device: cl.Device) -> None:
        given = {"tests": tests or None, "strategies": strategies or None}
        _check_into(entry, steps, address, device, seconds, store=store, **given, **asked)

    found, interrupted = each_device(devices, work, "it was checked", stored=False, check=None)
    if as_json:
        print_json(found)
    else:
        for entry in found:
            _show(entry, outcomes=outcomes)
    sys.exit(INTERRUPTED if interrupted else _status(found))


def _refuse_with_files(*options: tuple[str, ...]) -> None:
    if any(options):
        raise click.UsageError("files are checked without a device: leave out --device, --strategy and --test.")


def _check_into(
    entry: dict[str, Any],
    steps: ShownSteps,
    address: DeviceAddress,
    device: cl.Device,
    seconds: float,
    *,
    store: bool,
    **asked: Any,
) -> None:
    """Check one device; on Ctrl-C its entry holds the tests that had ended, and the interrupt goes on."""
    started = time.monotonic()
    steps.step(str(address), "litmus tests", seconds)
    done: list[dict[str, Any]] = []

    def on_progress(message: dict[str, Any]) -> None:
        if "result" not in message:
            return
        result = message["result"]
        done.append(result)
        line = f"{len(done)} done, {result['strategy']} {result['test']}: {result['status']}"
        steps.note(line)
        if result["status"] not in {"pass", "skipped"} or len(done) % 10 == 0:
            steps.say(f"{number(address)}: {line}")

    def keep(result: CheckResult, status: str) -> None:
        stored = store and any(map(proves, result.verdicts.values()))
        if stored:
            store_verdicts(device, result.verdicts)
        entry.update(status=status, reason="", stored=stored, check=result.to_json())

    try:
        left = max(1.0, seconds - (time.monotonic() - started))
        result = check(device, seconds=left, on_progress=on_progress, **asked)
        keep(result, _outcome(result))
    except KeyboardInterrupt:
        if done and entry["check"] is None:
            about = {"seed": done[0]["seed"], "chosen": done[0]["strategy"], "budget_s": seconds}
            result = result_of(device, done, partial="interrupted", seconds=time.monotonic() - started, **about)
            keep(result, "fail" if result.failed else "interrupted")
        raise
    except Error as error:
        entry |= anonymous({"status": "refused", "reason": str(error)})


def _outcome(result: CheckResult) -> str:
    statuses = {one["status"] for one in result.results}
    if result.failed:
        return "fail"
    if statuses & {"crash", "error"}:
        return "error"
    if "timeout" in statuses or any(one["reason"] == NO_TIME for one in result.results):
        return "timeout"
    return "pass"


def _status(found: list[dict[str, Any]]) -> int:
    statuses = {entry["status"] for entry in found}
    if statuses <= {"unusable"}:
        return 3
    if statuses & {"fail", "error", "refused"}:
        return 1
    return 4 if "timeout" in statuses else 0


def _show(entry: dict[str, Any], *, outcomes: bool) -> None:
    show_title(entry)
    checked = entry["check"]
    if checked is None:
        show(f"  not checked: {entry['reason']}", "")
        return
    words = ("test", "scope", "space", "strategy")
    rows = (
        [
            *(result[name] for name in words),
            f"{result['instances']:,}" if result["instances"] else "-",
            f"{sum(result['forbidden'].values()):,}" if result["instances"] else "-",
            result["status"],
        ]
        for result in checked["results"]
    )
    columns = (*words, "instances", "forbidden", "verdict")
    show(terminal_table("", columns, rows, words=(*words, "verdict")))
    if outcomes:
        for result in checked["results"]:
            counts = ", ".join(
                f"{outcome}: {count:,}{' (forbidden)' if outcome in result['forbidden'] else ''}"
                for outcome, count in result["outcomes"].items()
            )
            if counts:
                show(f"  {result['strategy']} {result['test']}: {counts}")
    reasons: dict[str, list[str]] = {}
    for result in checked["results"]:
        if result["reason"] and result["status"] != "fail":
            reasons.setdefault(result["reason"], []).append(f"{result['strategy']} {result['test']}")
    for reason, names in reasons.items():
        more = f" and {len(names) - 1} more" if len(names) > 1 else ""
        show(f"  {names[0]}{more}: {reason}")
    for name, verdict in checked["verdicts"].items():
        show(f"  {name}: {verdict}")
    kept = "verdicts stored; portbar chooses by them" if entry["stored"] else "verdicts not stored"
    show(f"  seed {checked['seed']}, {checked['seconds']:.1f} s; {kept}", "")


def _list(names: tuple[str, ...], *, as_json: bool) -> None:
    entries: list[dict[str, Any]] = []
    for name in names:
        if name in TESTS:
            test = TESTS[name]
            forbidden = [" ".join(f"{place}={value}" for place, value in part.items()) for part in test.forbidden]
            about, why, threads = test.description, test.why, len(test.threads)
        else:
            pattern = PATTERNS[name]
            forbidden, about, why, threads = [pattern.forbidden], pattern.description, pattern.why, 0
        entries.append({"test": name, "description": about, "threads": threads, "forbidden": forbidden, "why": why})
    if as_json:
        print_json(entries)
        return
    for entry in entries:
        show(f"{entry['test']}: {entry['description']}", style="bold")
        show(f"  forbidden: {' or '.join(entry['forbidden'])}")
        show(f"  {entry['why']}")
