"""Programs of `portbar.device.quirks` for platforms that list no devices, and for compilers that need none.

Each child sees one runtime and its own environment, and uses nothing of portbar's. Every function takes an empty folder and the
symptom of its entry.
"""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.checkout import ran
from tests.machine_code.targets import TARGETS, MissingToolError
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
    done = ran(sys.executable, "-c", _PROGRAM, what, env=env)
    answer = re.search(r"^found (.*)$", done.stdout, re.MULTILINE)
    assert answer, f"{done.returncode}\n{done.stdout}\n{done.stderr}"
    value: dict[str, Any] = json.loads(answer[1])
    return value


def library(part: str) -> str:
    """The library of this machine's OpenCL runtime whose name has this part; empty where there is none."""
    return next((path for path in libraries() if part in Path(path).name.lower()), "")


def only(folder: Path, path: str = "") -> dict[str, str]:
    """An environment in which the loader finds this library alone, beside PoCL's wheel, which PyOpenCL registers by itself."""
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


def processor_is_new() -> bool:
    """Whether this is a processor that the compiler inside PoCL's wheel was seen not to know: AMD's from family 26 on."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return False
    family = re.search(r"^cpu family\s*:\s*(\d+)", text, re.MULTILINE)
    return "AuthenticAMD" in text and family is not None and int(family[1]) >= 26


def unknown_cpu(folder: Path, symptom: str) -> None:
    result = ask("build", env=only(folder))
    if result["platforms"] == {}:
        pytest.skip("PoCL's wheel (pocl-binary-distribution) is not installed")
    said = "\n".join(result["said"].values())
    if not said and not processor_is_new():
        pytest.skip("this processor is older than the compiler inside PoCL's wheel, which knows it")
    assert re.search(symptom, said), f"the wheel compiles for this processor\n{result}"


def unwritable_cache(folder: Path, _symptom: str) -> None:
    environment = only(folder, library("pocl"))
    healthy = ask("list", env={**environment, "POCL_CACHE_DIR": str(folder / "cache")})
    pocl = [title for title in healthy["platforms"] if "PoCL" in title]
    if not pocl:
        pytest.skip("no PoCL on this machine")
    assert all(healthy["platforms"][title] for title in pocl)
    # No folder can be made below a file, not even by root.
    (folder / "file").write_text("", encoding="utf-8")
    broken = ask("list", env={**environment, "POCL_CACHE_DIR": str(folder / "file" / "cache")})
    assert not any(broken["platforms"].values()), f"PoCL lists devices without a cache that it can write\n{broken}"


def rusticl_not_enabled(folder: Path, _symptom: str) -> None:
    path = library("rusticl")
    if not path:
        pytest.skip("no rusticl on this machine")
    environment = only(folder, path)
    found = ask("list", env=environment)["platforms"]
    (title,) = [title for title in found if title.startswith("rusticl")]
    assert not found[title], "rusticl lists devices without RUSTICL_ENABLE"
    found = ask("list", env={**environment, "RUSTICL_ENABLE": "llvmpipe"})["platforms"]
    assert found[title], "rusticl lists no device at all, so that this test shows nothing"


def clover_without_devices(folder: Path, _symptom: str) -> None:
    path = library("mesa")
    if not path:
        pytest.skip("no Clover (mesa.icd) on this machine")
    found = ask("list", env=only(folder, path))["platforms"]
    clover = [devices for title, devices in found.items() if title.startswith("Clover")]
    assert clover, f"mesa.icd is not Clover any more\n{found}"
    if clover[0]:
        pytest.skip("Clover has a device on this machine")


_LOADS = """
kernel void loads(volatile global atomic_uint *p, volatile global uint *q, global uint *out)
{
    out[0] = LOAD;
}
"""


def intel_loads(folder: Path, _symptom: str) -> None:
    def atomics(load: str) -> int:
        try:
            return TARGETS["pvc"].compile(TARGETS["pvc"], _LOADS.replace("LOAD", load), folder).atomics
        except MissingToolError as error:
            pytest.skip(str(error))

    assert atomics("q[0]") == 0
    relaxed = "atomic_load_explicit(p, memory_order_relaxed, memory_scope_device)"
    assert atomics(relaxed) == 1, "Intel's compiler loads atomically without writing"
