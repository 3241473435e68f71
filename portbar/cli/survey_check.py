"""`portbar survey --check`: this machine against a record, in sentences."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import click

from portbar.cli.shared import INTERRUPTED, chosen, err, print_json
from portbar.device.facts import facts
from portbar.fleet.cluster import Job
from portbar.records.files import NoSuchRecordError, find
from portbar.report.machine_check import Matched, Outcome, judge, match


def run(name: str, factor: float, job: Job, survey: Callable[..., dict[str, Any]], *, as_json: bool) -> int:
    """Survey the devices of a record and say what has become worse; the exit status.

    Parameters
    ----------
    name : str
        File or slug of the record.
    factor : float
    job : Job
    survey : callable
        Surveys a list of devices, quickly or not, and writes the record or not.
    as_json : bool

    Raises
    ------
    RecordError
        The file is no record, or holds nothing to compare with.
    """
    try:
        stored = find(name).record
    except NoSuchRecordError as error:
        raise click.BadParameter(str(error), param_hint="--check") from error
    here = chosen(job.devices)
    matched = match(stored, [facts(device).to_json() for _, device in here])
    # Devices that the user left out are not missed.
    gone = () if job.devices else matched.gone
    if not matched.pairs:
        return _nothing(matched, stored, factor, as_json=as_json)
    quick = job.quick or bool(stored["invocation"]["quick"])
    console = err()

    def measured(pairs: Sequence[tuple[Any, int]], *, keep: bool) -> tuple[Outcome, list[dict[str, Any]], bool]:
        record = survey([here[index] for _, index in pairs], quick=quick, keep=keep)
        entries = record["devices"]
        both = [(old, new) for (old, _), new in zip(pairs, entries, strict=True)]
        return judge(stored, both, gone, factor), entries, record["interrupted"]

    outcome, entries, interrupted = measured(matched.pairs, keep=True)
    doubtful = [pair for pair, entry in zip(matched.pairs, entries, strict=True) if outcome.is_doubtful(entry)]
    if doubtful and not interrupted:
        console.print("portbar: some numbers are worse; these devices are measured once more")
        again, _, interrupted = measured(doubtful, keep=False)
        outcome = outcome.confirmed_by(again)
    if interrupted:
        console.print("portbar: interrupted; nothing was judged")
        return INTERRUPTED
    if as_json:
        print_json(outcome.to_json())
    else:
        click.echo("\n".join(_sentences(outcome)))
    return 1 if outcome.faults else 0


def _nothing(matched: Matched, stored: dict[str, Any], factor: float, *, as_json: bool) -> int:
    outcome = judge(stored, (), matched.gone, factor)
    if as_json:
        print_json(outcome.to_json())
    else:
        click.echo("\n".join(_sentences(outcome)))
    return 3


def _sentences(outcome: Outcome) -> list[str]:
    compared = ", ".join(outcome.devices) or "no device"
    lines = [f"compared: {compared}"]
    lines += [f"note: {text}" for text in outcome.notes]
    lines += [f"better: {text}" for text in outcome.improvements]
    lines += [f"worse: {fault}" for fault in outcome.faults]
    if outcome.faults:
        lines.append(f"{len(outcome.faults)} worse than in the record (by more than {outcome.factor:g} times, or lost)")
    else:
        lines.append(f"as good as in the record: nothing lost, nothing more than {outcome.factor:g} times slower")
    return lines
