"""`portbar survey --check`: this machine against a record of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import click

from portbar.cli import INTERRUPTED
from portbar.cli.compare import print_comparisons
from portbar.cli.output import say
from portbar.cli.selected import chosen
from portbar.device.facts import facts
from portbar.errors import DeviceError, RecordError
from portbar.records.files import Named, NoSuchRecordError, find
from portbar.survey.device import Device
from portbar.survey.report.compare import Comparison, compare, matched
from portbar.survey.run import Job


def run(name: str, factor: float, job: Job, survey: Callable[..., dict[str, Any]], *, as_json: bool) -> int:
    """Survey the devices of a record and print what has become worse; the exit status.

    `survey` surveys a list of devices, quickly or not, and writes the record or not.
    """
    try:
        stored = find(name)
    except NoSuchRecordError as error:
        raise click.BadParameter(str(error), param_hint="--check") from error
    known = [device for device in map(Device, stored.record["devices"]) if device.is_surveyed]
    if not known:
        raise RecordError(
            "no device of this record was measured by `portbar survey`, so this machine cannot be checked against it: name a "
            "record that `portbar survey -o FILE` wrote"
        )
    here = chosen(job.devices)
    found = matched(known, [Device({"facts": facts(device).to_json()}) for _, device in here])
    if not found:
        missed = ", ".join(device.label for device in known)
        among = "among those that --device selects" if job.devices else "on this machine"
        raise DeviceError(
            f"no device of the record is {among}: {missed}; `portbar doctor` lists the devices of this machine"
        )
    quick = job.quick or bool(stored.record["invocation"]["quick"])

    def measured(wanted: Sequence[int], *, keep: bool) -> tuple[Comparison, dict[str, Any]]:
        record = survey([here[found[index]] for index in wanted], quick=quick, keep=keep)
        # Devices that the user left out are not missed.
        asked = [index for index in range(len(known)) if index in wanted or not (job.devices or index in found)]
        old = {**stored.record, "devices": [known[index].entry for index in asked]}
        return compare(old, record, factor, only_used=True), record

    comparison, record = measured(list(found), keep=True)
    pairs = zip(found, record["devices"], strict=True)
    doubtful = [index for index, entry in pairs if Device(entry).title in comparison.doubtful]
    if doubtful and not record["interrupted"]:
        say("some values are worse; measuring these devices once more")
        again, record = measured(doubtful, keep=False)
        comparison = comparison.confirmed_by(again)
    if record["interrupted"]:
        say("interrupted; nothing was compared")
        return INTERRUPTED
    print_comparisons(stored, [(Named("this machine", record), comparison)], as_json=as_json)
    return int(bool(comparison.regressions))
