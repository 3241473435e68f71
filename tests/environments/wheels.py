"""Which packages that portbar needs have no wheel on which platform, by what pip finds in the index that it is set up for."""

from __future__ import annotations

import configparser
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, requires
from pathlib import Path
from typing import Any, Final

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.checkout import ROOT
from tests.environments.running import bounded

#: The version of Python that is asked for: a release for which most packages have wheels.
PYTHON: Final = "3.13"

_GLIBC: Final = ("manylinux2014", *(f"manylinux_2_{minor}" for minor in (17, 24, 26, 27, 28, 31, 34, 35, 39)))
_MUSL: Final = ("musllinux_1_0", "musllinux_1_1", "musllinux_1_2")


@dataclass(frozen=True)
class Platform:
    """A platform: what wheels call it, and what Python says there."""

    title: str
    tags: tuple[str, ...]
    system: str
    machine: str


def _linux(title: str, machine: str, names: tuple[str, ...]) -> Platform:
    return Platform(title, tuple(f"{name}_{machine}" for name in names), "Linux", machine)


PLATFORMS: Final = (
    _linux("Linux, x86-64", "x86_64", _GLIBC),
    _linux("Linux, AArch64", "aarch64", _GLIBC),
    _linux("Linux, RISC-V", "riscv64", _GLIBC),
    _linux("Linux, POWER", "ppc64le", _GLIBC),
    _linux("Linux, 32-bit Arm", "armv7l", _GLIBC),
    _linux("Linux with musl, x86-64", "x86_64", _MUSL),
    _linux("Linux with musl, AArch64", "aarch64", _MUSL),
    # pip knows that a system takes wheels for earlier ones.
    Platform("macOS 14, Arm", ("macosx_14_0_arm64",), "Darwin", "arm64"),
    Platform("macOS 14, x86-64", ("macosx_14_0_x86_64",), "Darwin", "x86_64"),
    Platform("Windows, x86-64", ("win_amd64",), "Windows", "AMD64"),
    Platform("Windows, Arm", ("win_arm64",), "Windows", "ARM64"),
)


def _variables(platform: Platform) -> dict[str, str]:
    """The values that markers of requirements compare, on that platform."""
    return {
        "platform_system": platform.system,
        "platform_machine": platform.machine,
        "sys_platform": {"Linux": "linux", "Darwin": "darwin", "Windows": "win32"}[platform.system],
        "os_name": "nt" if platform.system == "Windows" else "posix",
        "python_version": PYTHON,
        "python_full_version": f"{PYTHON}.0",
        "platform_python_implementation": "CPython",
        "implementation_name": "cpython",
        "extra": "",
    }


def _of_portbar(setup: Path = ROOT / "setup.cfg") -> list[str]:
    config = configparser.ConfigParser()
    config.read(setup, encoding="utf-8")
    return [line.strip() for line in config["options"]["install_requires"].splitlines() if line.strip()]


def _of_package(name: str) -> list[str]:
    """The requirements of a package, as the installed version says; none where it is not installed."""
    try:
        return requires(name) or []
    except PackageNotFoundError:
        return []


def needed(
    platform: Platform, first: list[str] | None = None, of: Callable[[str], list[str]] = _of_package
) -> dict[str, str]:
    """Return by name what portbar needs there, directly or not, as pip takes it: name and versions."""
    variables, found = _variables(platform), {}
    left = [Requirement(line) for line in (_of_portbar() if first is None else first)]
    while left:
        one = left.pop()
        name = canonicalize_name(one.name)
        if name in found or (one.marker is not None and not one.marker.evaluate(variables)):
            continue
        found[name] = f"{one.name}{one.specifier}"
        left += map(Requirement, of(name))
    return found


def has_wheel(requirement: str, platform: Platform) -> bool:
    """Whether pip finds a wheel, which is not installed. `OSError` where pip fails at something else."""
    with tempfile.TemporaryDirectory() as folder:
        options = ["--quiet", "--dry-run", "--no-deps", "--only-binary=:all:", "--target", folder]
        for tag in platform.tags:
            options += ["--platform", tag]
        options += ["--implementation", "cp", "--python-version", PYTHON]
        done = bounded([sys.executable, "-m", "pip", "install", *options, requirement], 120)
    if done.status not in {0, 1} or (done.status == 1 and "No matching distribution" not in done.output):
        raise OSError(f"pip cannot say whether {requirement} has a wheel: {done.last}")
    return done.status == 0


def missing() -> Iterator[tuple[Platform, list[str]]]:
    """Yield each platform with the packages that have no wheel there."""
    for platform in PLATFORMS:
        asked = sorted(needed(platform).items())
        yield platform, [name for name, requirement in asked if not has_wheel(requirement, platform)]


def asked_now() -> dict[str, Any]:
    """Return the entry of the data file: date, version of Python, and the packages without a wheel by platform."""
    found = {}
    for platform, without in missing():
        print(f"{platform.title}: {', '.join(without) or 'wheels of all'}", flush=True)
        found[platform.title] = without
    return {"date": datetime.now(UTC).date().isoformat(), "python": PYTHON, "missing": found}


def wheels_table(entry: Mapping[str, Any]) -> str:
    """Return the part of the page about wheels."""
    lines = [
        "## Packages of Python",
        "",
        f"Packages that portbar needs, directly or not, and that have no wheel for Python {entry['python']} in the package",
        f"index ({entry['date']}, `python -m tests.environments --wheels`). pip compiles them there, or a distribution has",
        "them. Where `setup.cfg` does not ask for `jsonschema-rs` and `libclang`, portbar takes `jsonschema`, and the",
        "system's [libclang](refused.md#what-cannot-be-read), if any.",
        "",
        "| platform | without a wheel |",
        "| --- | --- |",
    ]
    lines += [f"| {title} | {', '.join(names) or 'none'} |" for title, names in entry["missing"].items()]
    return "\n".join(lines) + "\n"
