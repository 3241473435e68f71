"""Programs of `portbar.device.quirks` for platforms that list no devices, and for compilers that need none.

Each child sees one runtime and its own environment, and uses nothing of portbar's. Every function takes an empty folder and the
symptom of its entry.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.machine import Workshop, ask, libraries
from tests.machine_code.targets import TARGETS, MissingToolError


def library(part: str) -> str:
    """The library of this machine's OpenCL runtime whose name has this part; empty where there is none."""
    return next((path for path in libraries() if part in Path(path).name.lower()), "")


def devices(folder: Path, path: str, name: str, **variables: str) -> dict[str, str]:
    """The first device of each platform of this name, as a child sees them whose loader finds this library and PoCL's wheel."""
    found, _ = ask(Workshop(folder).environment(path, **variables))
    return {one.title: one.device for one in found if name in one.title}


def processor_is_new() -> bool:
    """Whether this is a processor that the compiler inside PoCL's wheel was seen not to know: AMD's from family 26 on."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return False
    family = re.search(r"^cpu family\s*:\s*(\d+)", text, re.MULTILINE)
    return "AuthenticAMD" in text and family is not None and int(family[1]) >= 26


def unknown_cpu(folder: Path, symptom: str) -> None:
    found, _ = ask(Workshop(folder).environment("", POCL_KERNEL_CACHE="0"), "PoCL")
    if not found:
        pytest.skip("PoCL's wheel (pocl-binary-distribution) is not installed")
    said = found[0].reason
    if not re.search(symptom, said) and not processor_is_new():
        reason = f"; it fails for another reason: {said}" if said else ""
        pytest.skip(f"this processor is older than the compiler inside PoCL's wheel, which knows it{reason}")
    assert re.search(symptom, said), f"the wheel compiles for this processor\n{found}"


def unwritable_cache(folder: Path, _symptom: str) -> None:
    path = library("pocl")
    healthy = devices(folder, path, "PoCL", POCL_CACHE_DIR=str(folder / "cache"))
    if not healthy:
        pytest.skip("no PoCL on this machine")
    assert all(healthy.values())
    # No folder can be made below a file, not even by root.
    (folder / "file").write_text("", encoding="utf-8")
    broken = devices(folder, path, "", POCL_CACHE_DIR=str(folder / "file" / "cache"))
    assert broken.keys() >= healthy.keys()
    assert not any(broken.values()), f"PoCL lists devices without a cache that it can write\n{broken}"


def rusticl_not_enabled(folder: Path, _symptom: str) -> None:
    path = library("rusticl")
    if not path:
        pytest.skip("no rusticl on this machine")
    assert list(devices(folder, path, "rusticl").values()) == [""], "rusticl lists devices without RUSTICL_ENABLE"
    (enabled,) = devices(folder, path, "rusticl", RUSTICL_ENABLE="llvmpipe").values()
    assert enabled, "rusticl lists no device at all, so that this test shows nothing"


def clover_without_devices(folder: Path, _symptom: str) -> None:
    path = library("mesa")
    if not path:
        pytest.skip("no Clover (mesa.icd) on this machine")
    clover = list(devices(folder, path, "Clover").values())
    assert clover, "mesa.icd is not Clover any more"
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


def apple_platform(_folder: Path, _symptom: str) -> None:
    pytest.skip("only macOS has Apple's platform")
