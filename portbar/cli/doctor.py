"""`portbar doctor`."""

from __future__ import annotations

import os
import sys
from typing import Any

import click

from portbar import cache, icd, quirks
from portbar.cli.shared import json_option, out, print_json
from portbar.device import facts, list_devices
from portbar.profile import describe
from portbar.usable import check_all, empty_platforms

#: Variables that change what OpenCL or portbar do; shown when they are set.
_VARIABLES = (
    "OCL_ICD_VENDORS",
    "OCL_ICD_FILENAMES",
    "OPENCL_VENDOR_PATH",
    "PYOPENCL_CTX",
    "PYOPENCL_NO_CACHE",
    "PYOPENCL_BUILD_OPTIONS",
    "POCL_DEVICES",
    "POCL_MAX_PTHREAD_COUNT",
    "POCL_CPU_MAX_CU_COUNT",
    "POCL_WORK_GROUP_METHOD",
    "POCL_AFFINITY",
    "RUSTICL_ENABLE",
    "LP_NUM_THREADS",
    "OCLGRIND_NUM_THREADS",
    "PORTBAR_CACHE_DIR",
    "PORTBAR_STRATEGY",
)


@click.command(name="doctor")
@json_option
def command(as_json: bool) -> None:
    """Say what is wrong with this machine's OpenCL, why, and what would help.

    \b
    Examples:
      portbar doctor
      portbar doctor --json
    """
    verdicts = dict(check_all(refresh=True))
    empty = empty_platforms()
    report: dict[str, Any] = {
        "variables": {name: os.environ[name] for name in _VARIABLES if name in os.environ},
        "cache": str(cache.cache_dir() or "none: nothing is kept between runs"),
        "runtimes_from_packages": [
            {"name": runtime.name, "library": str(runtime.library or ""), "problem": runtime.problem or ""}
            for runtime in icd.wheel_runtimes()
        ],
        "devices": [],
        "empty_platforms": [{"name": p.name, "reason": p.reason, "remedy": p.remedy} for p in empty],
    }
    for address, device in list_devices():
        of, verdict = facts(device), verdicts[address]
        findings = describe(device).findings
        report["devices"].append(
            {
                "device": str(address),
                "usable": verdict.usable,
                "reason": verdict.reason,
                "remedy": verdict.remedy,
                "findings": findings.source if findings else "never probed: run portbar survey",
                "quirks": [
                    {"name": quirk.name, "fault": quirk.fault, "workaround": quirk.workaround, "retire": quirk.retire}
                    for quirk in quirks.matching(of, "" if verdict.usable else verdict.reason)
                ],
            }
        )
    if as_json:
        print_json(report)
    else:
        _show(report)
    if not any(verdict.usable for verdict in verdicts.values()):
        sys.exit(3)
    if report["empty_platforms"] or not all(verdict.usable for verdict in verdicts.values()):
        sys.exit(1)


def _show(report: dict[str, Any]) -> None:
    console = out()
    for name, value in report["variables"].items():
        console.print(f"{name}={value}")
    console.print(f"cache: {report['cache']}")
    for runtime in report["runtimes_from_packages"]:
        state = f"cannot load: {runtime['problem']}" if runtime["problem"] else "found"
        console.print(f"{runtime['name']} from a Python package: {state}")
    for entry in report["devices"]:
        console.print()
        console.print(entry["device"], style="bold")
        if entry["usable"]:
            console.print(f"  works; findings: {entry['findings']}")
        else:
            console.print(f"  does not work: {entry['reason']}", style="red")
            if entry["remedy"]:
                console.print(f"  what would help: {entry['remedy']}")
        for quirk in entry["quirks"]:
            console.print(f"  known fault {quirk['name']}: {quirk['fault']}")
            console.print(f"    workaround: {quirk['workaround']}")
    for platform in report["empty_platforms"]:
        console.print()
        console.print(f"{platform['name']}: no device", style="bold")
        console.print(f"  {platform['reason']}; what would help: {platform['remedy']}")
