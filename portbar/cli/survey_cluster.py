"""`portbar survey --dask`: each host of a Dask cluster once, and the outcome for each."""

from __future__ import annotations

import asyncio
import json
import logging
from typing import Any

from portbar.cli import INTERRUPTED
from portbar.cli.output import err, print_json, say, show
from portbar.cli.progress import ShownSteps
from portbar.survey.device import Device
from portbar.survey.fleet.cluster import ClusterSurvey
from portbar.survey.fleet.hosts import HostFolder
from portbar.survey.run import Job
from portbar.survey.tables import Cell, Table, terminal_table


def run(address: str, folder: HostFolder, job: Job, *, as_json: bool) -> int:
    """Survey a cluster and print the outcome for each host; the exit status."""
    # Dask logs with tracebacks what is said here in a sentence.
    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    interrupted = False
    counted = ""
    with ShownSteps(err()) as steps:

        def listener(label: str, text: str, stays: bool) -> None:
            nonlocal counted
            if not stays:
                steps.note(f"{label}: {text}")
                return
            steps.say(f"{label}: {text}")
            ended = sum(host.status not in {"waiting", "surveying"} for host in survey.hosts.values())
            now = f"{ended} of {len(survey.hosts)} hosts have ended"
            if counted != now:
                counted = now
                steps.step("", counted)

        survey = ClusterSurvey(folder, job, listener)
        try:
            asyncio.run(survey.run(address))
        except KeyboardInterrupt:
            interrupted = True
    hosts = {}
    for label, host in sorted(survey.hosts.items()):
        devices = _devices(folder, label)
        hosts[label] = {
            "status": host.status,
            "attempts": host.attempts,
            "seconds": round(host.seconds, 1),
            **({"reason": host.reason} if host.reason else {}),
            "file": folder.file(label).name if devices is not None else None,
            "devices": devices,
        }
    if as_json:
        print_json({"hosts": hosts})
    else:
        show(_table(hosts))
    if interrupted:
        say("interrupted; run the same command again to continue")
        return INTERRUPTED
    return _status(hosts)


def _devices(folder: HostFolder, label: str) -> dict[str, str] | None:
    """Return device -> status, of a record that this survey or an earlier one wrote."""
    try:
        record = json.loads(folder.file(label).read_text(encoding="utf-8"))
        devices = map(Device, record["devices"])
        return {f"{one.number} {one.facts['name']}": one.status for one in devices}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def _table(hosts: dict[str, Any]) -> Table:
    rows = (
        [
            label,
            host["status"],
            None if host["devices"] is None else len(host["devices"]),
            f"{host['seconds']:.0f}",
            Cell(host.get("reason", "")),
        ]
        for label, host in hosts.items()
    )
    return terminal_table(
        "", ("host", "status", "devices", "seconds", "reason"), rows, words=("host", "status", "reason")
    )


def _status(hosts: dict[str, Any]) -> int:
    """Return 0 if every host of the cluster has its record, and one has a device that works."""
    if any(host["status"] != "done" for host in hosts.values()):
        return 1
    devices = [status for host in hosts.values() for status in (host["devices"] or {}).values()]
    return 0 if any(status not in {"unusable", "failed"} for status in devices) else 3
