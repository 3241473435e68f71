"""Children of the host tests of quirks: what platforms a process with a given environment sees, and what their compilers say.

Not for faults of devices (`tests.device.quirk_programs`). The children use nothing of portbar's.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.runtimes import libraries

_PROGRAM = r"""
import json, sys
import pyopencl as cl
try:
    platforms = cl.get_platforms()
except cl.Error:
    platforms = []
found = {"platforms": {}, "said": {}}
for platform in platforms:
    title = f"{platform.name} {platform.version}".strip()
    try:
        devices = platform.get_devices()
    except cl.Error:
        devices = []
    found["platforms"][title] = [device.name.strip() for device in devices]
    if sys.argv[1] == "build" and devices:
        try:
            cl.Program(cl.Context(devices[:1]), "kernel void k(global int *out) { out[0] = 7; }").build()
        except cl.Error as error:
            found["said"][title] = str(error)
print("\nfound " + json.dumps(found))
"""


def ask(what: str, env: dict[str, str]) -> dict[str, Any]:
    """List the platforms and their devices as a child with this environment sees them; "build" compiles a kernel, too."""
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM, what], env=env, capture_output=True, text=True, timeout=60, check=False
    )
    answer = re.search(r"^found (.*)$", done.stdout, re.MULTILINE)
    assert answer, f"{done.returncode}\n{done.stdout}\n{done.stderr}"
    value: dict[str, Any] = json.loads(answer[1])
    return value


def library(part: str) -> str:
    """The library of this machine's OpenCL runtime whose name has this part; empty where there is none."""
    return next((path for path in libraries() if part in Path(path).name.lower()), "")


def only(folder: Path, path: str) -> dict[str, str]:
    """An environment in which the loader finds this library alone, beside what PyOpenCL's own loader brings."""
    vendors = folder / "vendors"
    vendors.mkdir(exist_ok=True)
    if path:
        (vendors / "only.icd").write_text(f"{path}\n", encoding="utf-8")
    kept = {
        name: text
        for name, text in os.environ.items()
        if not name.startswith(("POCL_", "OCL_ICD_", "RUSTICL_", "PYOPENCL_", "XDG_CACHE"))
    }
    return {**kept, "OCL_ICD_VENDORS": str(vendors), "PYOPENCL_NO_CACHE": "1", "POCL_CACHE_DIR": str(folder / "pocl")}


def only_the_wheel(folder: Path) -> dict[str, str]:
    """An environment in which the loader finds PoCL's wheel alone, which PyOpenCL registers by itself."""
    return only(folder, "")


def processor_is_new() -> bool:
    """Whether this is a processor that the compiler inside PoCL's wheel was seen not to know: AMD's from family 26 on."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return False
    family = re.search(r"^cpu family\s*:\s*(\d+)", text, re.MULTILINE)
    return "AuthenticAMD" in text and family is not None and int(family[1]) >= 26
