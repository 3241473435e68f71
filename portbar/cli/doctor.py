"""`portbar doctor`."""

from __future__ import annotations

import os
import sys
from typing import Any

import click
from rich.padding import Padding

from portbar.choices.profile import profile_of
from portbar.choices.strategy import choose
from portbar.cli.progress import Steps
from portbar.cli.shared import (
    CHECK_S,
    device_json,
    err,
    examples,
    explained,
    json_option,
    listed,
    print_json,
    show,
)
from portbar.device import icd, quirks
from portbar.device.facts import DeviceAddress, DeviceFacts
from portbar.device.usable import Usability, check_listed, explain_empty
from portbar.errors import DeviceError, UnsupportedFeatureError
from portbar.system import cache

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


@click.command(
    name="doctor",
    epilog=examples(
        "portbar doctor",
        "portbar doctor --json",
    ),
)
@json_option
def command(as_json: bool) -> None:
    """Say what is wrong with this machine's OpenCL, why, and what would help.

    Every device is checked afresh. Exit status 1: something is wrong with one of them; 3: none works.
    """
    report = _examine()
    if as_json:
        print_json(report)
    else:
        _show(report)
    if not any(entry["usable"] for entry in report["devices"]):
        sys.exit(3)
    faults = any(platform["is_fault"] for platform in report["empty_platforms"])
    if faults or report["faulty_drivers"] or not all(entry["usable"] for entry in report["devices"]):
        sys.exit(1)


def _examine() -> dict[str, Any]:
    folder = cache.cache_dir()
    report: dict[str, Any] = {
        "problem": "",
        "variables": {name: os.environ[name] for name in _VARIABLES if name in os.environ},
        "hidden": icd.hidden_text(hiding) if (hiding := icd.hiding_variable(os.environ)) else "",
        "cache": None if folder is None else str(folder),
        "runtimes_from_packages": [
            {"name": runtime.name, "library": runtime.library, "problem": runtime.problem}
            for runtime in icd.wheel_runtimes()
        ],
        "devices": [],
        "empty_platforms": [],
        "faulty_drivers": [],
    }
    try:
        found = listed()
        report["problem"] = found.problem
        report["faulty_drivers"] = [fault.to_json() for fault in found.faulty]
        with Steps(err()) as steps:
            steps.step("", "checking every device", CHECK_S * len(found.devices))
            verdicts = check_listed(found.devices, refresh=True)
        reported = dict(found.devices)
        report["devices"] = [_device(address, reported[address], verdict) for address, verdict in verdicts]
        report["empty_platforms"] = [
            {"name": p.name, "reason": p.reason, "remedy": p.remedy, "is_fault": p.is_fault}
            for p in map(explain_empty, found.empty)
        ]
        for entry, (_, of) in zip(report["devices"], found.devices, strict=True):
            _add_strategy(entry, of)
    except DeviceError as error:
        # The rest of the report says what there is to go by.
        report["problem"] = str(error)
    return report


def _device(address: DeviceAddress, of: DeviceFacts, verdict: Usability) -> dict[str, Any]:
    return {
        **device_json(address, of, verdict),
        "quirks": [
            {name: getattr(quirk, name) for name in ("name", "fault", "seen", "workaround", "retire")}
            for quirk in quirks.matching(of, "" if verdict.usable else verdict.reason)
        ],
    }


def _add_strategy(entry: dict[str, Any], of: DeviceFacts) -> None:
    profile = profile_of(of)
    entry["findings"] = profile.findings.source if profile.findings is not None else None
    entry["strategy"] = None
    entry["refused"] = ""
    if entry["usable"]:
        try:
            entry["strategy"] = choose(profile).summary()
        except UnsupportedFeatureError as error:
            entry["refused"] = str(error)


def _show(report: dict[str, Any]) -> None:
    def indented(text: str, style: str = "", depth: int = 2) -> None:
        show(Padding(text, (0, 0, 0, depth), style=style, expand=False))

    if report["problem"]:
        show(report["problem"], style="red")
        show("")
    for name, value in report["variables"].items():
        show(f"{name}={value}")
    if report["hidden"]:
        show(report["hidden"], style="yellow")
    show(f"cache: {report['cache'] or 'off, nothing is kept between runs'}")
    for runtime in report["runtimes_from_packages"]:
        state = f"cannot be loaded: {runtime['problem']}" if runtime["problem"] else "installed"
        show(f"{runtime['name']} from a Python package: {state}")
    for entry in report["devices"]:
        show("")
        show(f"{entry['device']} {entry['name']} ({entry['platform']})", style="bold")
        if entry["usable"]:
            known = entry["findings"] or f"none yet: `portbar survey --device {entry['device']}` measures it"
            indented(f"works; findings: {known}", "green")
            if entry["strategy"]:
                indented(f"strategy: {entry['strategy']}")
            elif entry["findings"] is None:
                indented("whether it can synchronise work-groups is not known before that", "yellow")
            else:
                indented(f"no barrier between work-groups: {entry['refused']}", "yellow")
        else:
            indented(f"does not work: {explained(entry['reason'], entry['remedy'])}", "red")
        for quirk in entry["quirks"]:
            # A fault that makes the device unusable has said its remedy already.
            said = {entry["remedy"], *quirks.only_another_runtime()}
            if entry["usable"] or quirk["workaround"] not in said:
                indented(f"known fault {quirk['name']}: {quirk['fault']}.")
                indented(f"workaround: {quirk['workaround']}", depth=4)
                indented(f"seen: {quirk['seen']}", depth=4)
                indented(f"gone when this fails, in portbar's checkout: {quirk['retire']}", depth=4)
    for platform in report["empty_platforms"]:
        show("")
        show(f"{platform['name']}: no device", style="bold")
        indented(explained(platform["reason"], platform["remedy"]))
    for fault in report["faulty_drivers"]:
        show("")
        show(f"{fault['file']}: a driver that cannot be listed", style="bold")
        named = f"{fault['library']}: {fault['reason']}"
        indented(explained(named, fault["remedy"]), "red")
