"""`portbar survey --dask`: each host of a Dask cluster once, with what became of each."""

from __future__ import annotations

import asyncio
import json
import logging
from typing import Any

from portbar.cli.progress import Steps
from portbar.cli.shared import INTERRUPTED, err, print_json, show
from portbar.survey.fleet.cluster import ClusterSurvey, Job
from portbar.survey.fleet.hosts import HostFolder
from portbar.survey.tables import Cell, Table, terminal_table


def run(address: str, folder: HostFolder, job: Job, *, as_json: bool) -> int:
    """Survey a cluster and print what became of its hosts; the exit status.

    Raises
    ------
    Error
        There is no such cluster, or the folder cannot be written.
    """
    # Dask logs with tracebacks what is said here in a sentence.
    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    interrupted = False
    counted = ""
    with Steps(err()) as steps:

        def listener(label: str, text: str, stays: bool) -> None:
            nonlocal counted
            if not stays:
                steps.note(f"{label}: {text}")
                return
            steps.say(f"{label}: {text}")
            ended = sum(host.status not in {"waiting", "surveying"} for host in survey.hosts.values())
            if counted != f"{ended} of {len(survey.hosts)} hosts have ended":
                counted = f"{ended} of {len(survey.hosts)} hosts have ended"
                steps.step("", counted)

        survey = ClusterSurvey(folder, job, listener)
        try:
            asyncio.run(survey.run(address))
        except KeyboardInterrupt:
            interrupted = True
    result = _result(survey, folder)
    if as_json:
        print_json(result)
    else:
        show(_table(result))
    if interrupted:
        err().print("portbar: interrupted; run the same command again to continue")
        return INTERRUPTED
    return _status(result)


def _result(survey: ClusterSurvey, folder: HostFolder) -> dict[str, Any]:
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
    return {"hosts": hosts}


def _devices(folder: HostFolder, label: str) -> dict[str, str] | None:
    """Device -> its status, of a record that was written by this survey or an earlier one."""
    try:
        record = json.loads(folder.file(label).read_text(encoding="utf-8"))
        return {
            f"{one['address']['platform_index']}:{one['address']['device_index']} {one['facts']['name']}": one["status"]
            for one in record["devices"]
        }
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _table(result: dict[str, Any]) -> Table:
    rows = (
        [
            label,
            host["status"],
            None if host["devices"] is None else len(host["devices"]),
            f"{host['seconds']:.0f}",
            Cell(host.get("reason", "")),
        ]
        for label, host in result["hosts"].items()
    )
    return terminal_table(
        "", ("host", "status", "devices", "seconds", "reason"), rows, words=("host", "status", "reason")
    )


def _status(result: dict[str, Any]) -> int:
    """0 where every host of the cluster has its record, and one has a device that works."""
    hosts = result["hosts"].values()
    if any(host["status"] != "done" for host in hosts):
        return 1
    devices = [status for host in hosts for status in (host["devices"] or {}).values()]
    return 0 if any(status not in {"unusable", "failed"} for status in devices) else 3
