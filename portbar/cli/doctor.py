"""`portbar doctor`."""

from __future__ import annotations

import os
import sys
from typing import Any, Final

import click
from rich.padding import Padding

from portbar.choices.profile import profile_of
from portbar.choices.strategy import choose
from portbar.cli.options import examples, json_option
from portbar.cli.output import explained, print_json, show, show_title
from portbar.cli.selected import check_devices, device_json, empty_json, listed
from portbar.device import icd, quirks
from portbar.device.addresses import DeviceAddress
from portbar.device.facts import DeviceFacts
from portbar.device.usable import Usability, explain_empty
from portbar.errors import DeviceError, UnsupportedFeatureError
from portbar.records import cache

#: Variables that change what OpenCL or portbar do; shown when they are set.
_VARIABLES: Final = (
    *("OCL_ICD_VENDORS", "OCL_ICD_FILENAMES", "OPENCL_VENDOR_PATH"),
    *("PYOPENCL_CTX", "PYOPENCL_NO_CACHE", "PYOPENCL_BUILD_OPTIONS"),
    *("POCL_DEVICES", "POCL_MAX_PTHREAD_COUNT", "POCL_CPU_MAX_CU_COUNT", "POCL_WORK_GROUP_METHOD", "POCL_AFFINITY"),
    *("RUSTICL_ENABLE", "LP_NUM_THREADS", "OCLGRIND_NUM_THREADS"),
    *("PORTBAR_CACHE_DIR", "PORTBAR_STRATEGY"),
)


@click.command(
    name="doctor",
    epilog=examples("portbar doctor", "portbar doctor -v", "portbar doctor --json"),
)
@click.option("--verbose", "-v", is_flag=True, help="Describe the known faults; by default only their ids are listed.")
@json_option
def command(verbose: bool, as_json: bool) -> None:
    """Say whether all is well with this machine's OpenCL; if not, what is wrong, why, and what would help.

    Every device is checked afresh. Known faults of a working driver do not count as problems: portbar works around them, or
    refuses affected features. Nor does a platform without devices that waits to be switched on. Exit status 1: a device does
    not work, a driver cannot be listed, or a platform lost its devices; 3: no device works.
    """
    report = _examine()
    if as_json:
        print_json(report)
    else:
        _show(report, verbose=verbose)
    if not any(entry["usable"] for entry in report["devices"]):
        sys.exit(3)
    if _wrong(report):
        sys.exit(1)


def _wrong(report: dict[str, Any]) -> list[str]:
    """Return the problems, each in a few words."""
    wrong = [f"{entry['device']} {entry['name']} does not work" for entry in report["devices"] if not entry["usable"]]
    wrong += [f"{platform['name']} lists no device" for platform in report["empty_platforms"] if platform["is_fault"]]
    return wrong + [f"the driver {fault['file']} cannot be listed" for fault in report["faulty_drivers"]]


def _headline(report: dict[str, Any]) -> tuple[str, str]:
    """Whether all is well, in one sentence, and its style."""
    devices = report["devices"]
    works = sum(entry["usable"] for entry in devices)
    counted = f"{works} of {len(devices)} OpenCL devices work"
    wrong = _wrong(report)
    if not works:
        wrong += [f"{one['name']} lists no device" for one in report["empty_platforms"] if not one["is_fault"]]
        return f"No OpenCL device works{': ' if wrong else ''}{'; '.join(wrong)}.", "bold red"
    if wrong:
        return f"{counted}. Problems: {'; '.join(wrong)}.", "bold yellow"
    return f"All is well: {counted}.", "bold green"


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
        report["devices"] = [_device(*one) for one in check_devices(found.devices, refresh=True)]
        empty = [explain_empty(platform) for platform in found.empty]
        report["empty_platforms"] = [empty_json(platform) | {"is_fault": platform.is_fault} for platform in empty]
    except DeviceError as error:
        # The rest of the report says what there is to go by.
        report["problem"] = str(error)
    return report


def _device(address: DeviceAddress, of: DeviceFacts, verdict: Usability) -> dict[str, Any]:
    """Return a device as JSON values: whether it works, its known faults, and the strategy that portbar chooses."""
    profile, strategy, refused, why = profile_of(of), None, "", None
    if verdict.usable:
        try:
            chosen = choose(profile)
            strategy, why = chosen.summary(), chosen.device_barrier.reason
        except UnsupportedFeatureError as error:
            refused = str(error)
    return device_json(address, of, verdict) | {
        "quirks": [
            {name: getattr(quirk, name) for name in ("name", "fault", "seen", "workaround", "retire")}
            for quirk in quirks.matching(of, "" if verdict.usable else verdict.reason)
        ],
        "findings": profile.findings.origin if profile.findings is not None else None,
        "strategy": strategy,
        "device_barrier_reason": why,
        "refused": refused,
    }


def _show(report: dict[str, Any], *, verbose: bool) -> None:
    said, style = _headline(report)
    show(said, style=style)
    if report["problem"]:
        show(report["problem"], style="red")
    show("")
    for name, value in report["variables"].items():
        show(f"{name}={value}")
    if report["hidden"]:
        show(report["hidden"], style="yellow")
    show(f"cache: {report['cache'] or 'off, nothing is stored between runs'}")
    for runtime in report["runtimes_from_packages"]:
        state = f"cannot be loaded: {runtime['problem']}" if runtime["problem"] else "installed"
        show(f"{runtime['name']} from a Python package: {state}")
    for entry in report["devices"]:
        show("")
        show_title(entry)
        _show_state(entry)
        if verbose:
            _show_faults(entry)
        elif entry["quirks"]:
            _indented(f"known faults: {', '.join(quirk['name'] for quirk in entry['quirks'])}", "dim")
    for platform in report["empty_platforms"]:
        show("")
        show(f"{platform['name']}: no device", style="bold")
        _indented(explained(platform["reason"], platform["remedy"]))
    for fault in report["faulty_drivers"]:
        show("")
        show(f"{fault['file']}: a driver that cannot be listed", style="bold")
        _indented(explained(f"{fault['library']}: {fault['reason']}", fault["remedy"]), "red")
    if not verbose and any(entry["quirks"] for entry in report["devices"]):
        show("")
        show("`portbar doctor -v` describes the known faults and what portbar does about them.", style="dim")


def _show_state(entry: dict[str, Any]) -> None:
    if not entry["usable"]:
        _indented(f"does not work: {explained(entry['reason'], entry['remedy'])}", "red")
        return
    known = entry["findings"] or f"none yet: `portbar survey --device {entry['device']}` measures it"
    _indented(f"works; findings: {known}", "green")
    if entry["strategy"]:
        _indented(f"strategy: {entry['strategy']}")
        _indented(f"device barrier because: {entry['device_barrier_reason']}")
    elif entry["findings"] is None:
        _indented("until then it is unknown whether it can synchronise work-groups", "yellow")
    else:
        _indented(f"no barrier between work-groups: {entry['refused']}", "yellow")


def _show_faults(entry: dict[str, Any]) -> None:
    # A fault that makes the device unusable has said its remedy already.
    said = {entry["remedy"], *quirks.only_another_runtime()}
    for quirk in entry["quirks"]:
        if entry["usable"] or quirk["workaround"] not in said:
            _indented(f"known fault {quirk['name']}: {quirk['fault']}.")
            _indented(f"workaround: {quirk['workaround']}", depth=4)
            _indented(f"seen: {quirk['seen']}", depth=4)
            _indented(f"gone when this fails, in portbar's checkout: {quirk['retire']}", depth=4)


def _indented(text: str, style: str = "", depth: int = 2) -> None:
    show(Padding(text, (0, 0, 0, depth), style=style, expand=False))
