"""The OpenCL runtimes of this machine, and for each the environment in which a process sees it alone.

`OCL_ICD_VENDORS` names a folder that holds that runtime's library alone. PyOpenCL adds PoCL's wheel to the installed platforms,
so `PORTBAR_TEST_PLATFORM` says which platform to test.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from portbar.device import icd, quirks
from tests import kept
from tests.checkout import ROOT

SYSTEM_VENDORS = Path("/etc/OpenCL/vendors")
LIBRARY_FOLDERS = (
    "/usr/lib",
    "/usr/lib64",
    "/usr/local/lib",
    "/usr/lib/x86_64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
)
PROBE_LIMIT = 60.0
THREADS = (1, 2, 8)

# Prints a JSON line per platform: its name and whether its first device runs a kernel with a barrier correctly.
PROBE = r"""
import json, sys
import numpy as np
import pyopencl as cl

SOURCE = '''
kernel void probe(global int *out)
{
    local int first;
    if (get_local_id(0) == 0) first = (int)get_group_id(0) * 100;
    barrier(CLK_LOCAL_MEM_FENCE);
    out[get_global_id(0)] = first + (int)get_local_id(0);
}
'''

def try_out(device):
    context = cl.Context([device])
    queue = cl.CommandQueue(context)
    kernel = cl.Program(context, SOURCE).build().probe
    found = np.zeros(16, np.int32)
    buffer = cl.Buffer(context, cl.mem_flags.WRITE_ONLY, found.nbytes)
    kernel(queue, (16,), (8,), buffer)
    cl.enqueue_copy(queue, found, buffer)
    expected = [100 * group + item for group in (0, 1) for item in range(8)]
    return "" if found.tolist() == expected else "wrong answer from a kernel with a barrier"

wanted = sys.argv[1]
try:
    platforms = cl.get_platforms()
except cl.LogicError:
    platforms = []
for platform in platforms:
    title = f"{platform.name} {platform.version}".strip()
    if wanted.lower() not in title.lower():
        continue
    row = {"title": title, "name": platform.name.strip(), "device": "", "units": 0, "reason": ""}
    print(json.dumps(row | {"reason": "it ended before it answered"}), flush=True)
    try:
        devices = platform.get_devices()
    except cl.Error:
        devices = []
    if not devices:
        row["reason"] = "no device"
    else:
        row |= {"device": devices[0].name.strip(), "units": devices[0].max_compute_units}
        if wanted:
            try:
                row["reason"] = try_out(devices[0])
            except Exception as error:
                row["reason"] = " ".join(str(error).split())
    print(json.dumps(row), flush=True)
"""


@dataclass(frozen=True)
class Platform:
    """A platform as a child process saw it; `reason` is empty where its first device is usable."""

    title: str
    name: str
    device: str
    units: int
    reason: str

    @property
    def wanted(self) -> str:
        """The value of PORTBAR_TEST_PLATFORM that picks it."""
        pocl = re.search(r"PoCL [\w.+-]+", self.title)
        return pocl[0] if pocl else self.name


@dataclass(frozen=True)
class Configuration:
    """One run of the tests: a runtime and the environment that shapes it."""

    name: str
    wanted: str = ""
    library: str = ""
    environment: dict[str, str] = field(default_factory=dict)
    unusable: str = ""
    share: str = "host"
    device: str = ""

    @property
    def is_pocl(self) -> bool:
        """Whether it runs on PoCL."""
        return "pocl" in self.wanted.lower()

    @property
    def part(self) -> str:
        """The row and its share of the tests."""
        return f"{self.name} {self.share}"

    @property
    def compiler(self) -> str:
        """Rows that share a cache of compiled kernels; no two rows of one run at the same time."""
        return f"{self.library or self.wanted} {self.environment.get('POCL_WORK_GROUP_METHOD', '')}"


class Workshop:
    """The temporary folders and the environment of the child processes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def environment(self, library: str, **extra: str) -> dict[str, str]:
        """Return an environment in which the loader finds `library` (none if empty) and PoCL's wheel."""
        slug = re.sub(r"\W+", "-", library) or "none"
        method = extra.get("POCL_WORK_GROUP_METHOD", "")
        kernels = self.scratch(f"pocl-{slug}-{method}") if kept.is_fresh() else kept.kernels(library, method)
        kernels.mkdir(parents=True, exist_ok=True)
        environment = {
            key: value
            for key, value in os.environ.items()
            if not key.startswith(("POCL_", "OCLGRIND_", "PORTBAR_", "PYOPENCL_", "OCL_ICD_", "RUSTICL_", "LP_NUM"))
        }
        if sys.platform.startswith("linux"):
            vendors = self.folder / "vendors" / slug
            vendors.mkdir(parents=True, exist_ok=True)
            if library:
                (vendors / "only.icd").write_text(library + "\n")
            environment["OCL_ICD_VENDORS"] = str(vendors)
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        environment |= {
            "PYOPENCL_NO_CACHE": "1",
            # For hundreds of child processes.
            "PYTHONPYCACHEPREFIX": os.environ.get("PYTHONPYCACHEPREFIX") or str(self.folder / "bytecode"),
            "PYTHONUNBUFFERED": "1",
            "COLUMNS": "400",
            "POCL_CACHE_DIR": str(kernels),
            "MESA_SHADER_CACHE_DIR": str(kernels),
            **({kept.VARIABLE: "1"} if kept.is_fresh() else {}),
        }
        return environment | extra

    def scratch(self, name: str) -> Path:
        """Return a folder of that name, made when missing."""
        path = self.folder / re.sub(r"[^\w.+-]+", "-", name)
        path.mkdir(parents=True, exist_ok=True)
        return path


def ask(environment: dict[str, str], wanted: str = "") -> tuple[list[Platform], str]:
    """List the platforms that a child process sees, and its messages; try out those that `wanted` picks."""
    try:
        child = subprocess.run(
            [sys.executable, "-c", PROBE, wanted],
            env=environment,
            capture_output=True,
            text=True,
            timeout=PROBE_LIMIT,
            check=False,
            cwd=ROOT,
        )
        output, errors = child.stdout, child.stderr
        if child.returncode < 0:
            errors += f"\nkilled by signal {signal.Signals(-child.returncode).name}"
    except subprocess.TimeoutExpired as late:
        output, errors = (
            text.decode(errors="replace") if isinstance(text, bytes) else text or ""
            for text in (late.stdout, late.stderr)
        )
        errors += f"\nno answer within {PROBE_LIMIT:.0f} s"
    found: list[Platform] = []
    for line in output.splitlines():
        if line.startswith("{"):
            row = Platform(**json.loads(line))
            if found and found[-1].reason == "it ended before it answered":
                found.pop()
            found.append(row)
    return found, errors.strip()


def libraries() -> list[str]:
    """Return the OpenCL libraries of this machine: registered ones, Oclgrind's, and the Intel wheel's."""
    found: dict[str, str] = {}
    folders = [SYSTEM_VENDORS, Path(os.environ.get("OCL_ICD_VENDORS") or SYSTEM_VENDORS)]
    for file in (path for folder in folders if folder.is_dir() for path in sorted(folder.glob("*.icd"))):
        library = file.read_text().strip()
        if library and (not Path(library).is_absolute() or Path(library).exists()):
            found.setdefault(Path(library).name, library)
    for folder in map(Path, LIBRARY_FOLDERS):
        for library_path in (folder / "liboclgrind-rt-icd.so", folder / "oclgrind" / "liboclgrind-rt-icd.so"):
            if library_path.exists():
                found.setdefault(library_path.name, str(library_path))
    for runtime in icd.wheel_runtimes():
        if runtime.library:
            found.setdefault(Path(runtime.library).name, runtime.library)
    return list(found.values())


def configurations(workshop: Workshop, *, quick: bool) -> Iterator[Configuration]:
    """Yield the host tests' configuration, then those of each runtime that a child process can see."""
    yield Configuration("host")
    bundled, _ = ask(workshop.environment(""))
    if not sys.platform.startswith("linux"):
        for platform in bundled:
            yield Configuration(platform.wanted, platform.wanted)
        return
    for platform in bundled:
        yield Configuration(f"{platform.wanted} (wheel)", platform.wanted)
    for library in libraries():
        base = {"RUSTICL_ENABLE": os.environ.get("RUSTICL_ENABLE", "llvmpipe")} if "rusticl" in library.lower() else {}
        seen, errors = ask(workshop.environment(library, **base))
        own = list((Counter(seen) - Counter(bundled)).elements())
        if not own:
            yield Configuration(
                Path(library).name,
                Path(library).name,
                library,
                unusable=f"no platform: {last_line(errors) or 'the loader rejected the library'}",
            )
        for platform in own:
            for name, extra in variants(platform, quick=quick):
                yield Configuration(name, platform.wanted, library, base | extra)


def variants(platform: Platform, *, quick: bool) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield a name and the environment of each way to run a platform's tests."""
    name = platform.wanted
    if name.startswith("PoCL"):
        for method in ("loopvec", "cbs"):
            for threads in (2,) if quick else THREADS:
                count = str(threads)
                yield (
                    f"{name} {method} x{count}",
                    {
                        "POCL_WORK_GROUP_METHOD": method,
                        "POCL_MAX_PTHREAD_COUNT": count,  # up to PoCL 3
                        "POCL_CPU_MAX_CU_COUNT": count,  # from PoCL 4
                    },
                )
    elif name.lower() == "oclgrind":
        for threads in (1,) if quick else (1, 2):
            yield f"{name} x{threads}", {"OCLGRIND_NUM_THREADS": str(threads)}
    else:
        yield name, {}


def other_threads(configuration: Configuration) -> bool:
    """Whether a configuration differs from another one in the number of threads only."""
    name = configuration.name
    return (configuration.is_pocl and name.endswith((" x1", " x8"))) or name == "Oclgrind x2"


def check(workshop: Workshop, configuration: Configuration) -> tuple[str, str]:
    """Return the device in words and why the configuration cannot be tested, empty if it can."""
    if configuration.unusable or not configuration.wanted:
        return "", configuration.unusable
    # A kernel from PoCL's cache would not be compiled, and what the compiler says would not be seen.
    extra = configuration.environment | {"POCL_KERNEL_CACHE": "0"}
    found, errors = ask(workshop.environment(configuration.library, **extra), configuration.wanted)
    if not found:
        return "", f"no platform: {last_line(errors)}"
    platform = found[0]
    method = configuration.environment.get("POCL_WORK_GROUP_METHOD")
    if "Unknown work group generation method" in errors:
        return (
            platform.device,
            f"this PoCL has no method {method!r}: it would run its default and say so only on stderr",
        )
    reason = platform.reason
    if reason == "it ended before it answered":
        reason = last_line(errors) or reason
        unlinked = next(quirk for quirk in quirks.table() if quirk.effect == quirks.LINKER_NEEDED)
        if re.search(unlinked.symptom, errors):
            reason = f"{unlinked.fault}: {unlinked.workaround}"
    if "unknown target CPU" in reason:
        reason = "every build fails (unknown target CPU): its LLVM is older than this machine's processor"
    return f"{platform.device}, {platform.units} compute units", reason


def last_line(text: str) -> str:
    """Return the last line that says something."""
    return next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "")
