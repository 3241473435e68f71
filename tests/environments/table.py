"""The table of environments: their packages, and which tests run there."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

#: A processor that PoCL's compiler knows by name. QEMU's emulator of programs shows that of the machine below it.
CORTEX_A72: Final = """processor\t: 0
BogoMIPS\t: 100.00
Features\t: fp asimd evtstrm aes pmull sha1 sha2 crc32 cpuid
CPU implementer\t: 0x41
CPU architecture: 8
CPU variant\t: 0x0
CPU part\t: 0xd08
CPU revision\t: 3
"""

#: A primitive -> the file of tests that stands for it.
PRIMITIVES: Final = {
    "device barrier": "tests/device_barrier/test_device_barrier.py",
    "atomics": "tests/atomics/test_atomics.py",
    "locks": "tests/atomics/test_lock.py",
    "split barrier": "tests/split_barrier/test_split_barrier.py",
    "reduction in kernels": "tests/reduction/test_reduction_levels.py",
    "reduce": "tests/reduce/test_reduction_host.py",
    "scan": "tests/scan/test_scan.py",
    "sort": "tests/sort/test_sort.py",
    "signals": "tests/signal/test_signal.py",
    "teams": "tests/team/test_team.py",
    "worklists": "tests/worklist/test_worklist.py",
    "task graphs": "tests/task_graph/test_task_graph.py",
    "recorded launches": "tests/recording/test_recording.py",
}

_PYTHON_OF_DEBIAN: Final = tuple(
    f"python3-{name}"
    for name in (
        "click",
        "jsonschema",
        "mako",
        "numpy",
        "platformdirs",
        "pyopencl",
        "pytest",
        "pytest-timeout",
        "rich",
    )
)


@dataclass(frozen=True)
class Environment:
    """One system: a release of Debian in a folder, or this machine with other packages of Python."""

    title: str
    #: A part of "NAME VERSION" of the platform to test, as PORTBAR_TEST_PLATFORM takes it.
    platform: str
    #: The release; this machine where it is empty.
    suite: str = ""
    #: The distribution whose release it is.
    distribution: str = "debian"
    #: Debian's name of another processor, and the name of its emulator in the kernel's list.
    architecture: str = ""
    emulator: str = ""
    #: The text of /proc/cpuinfo, where a compiler needs one.
    processor: str = ""
    packages: tuple[str, ...] = ()
    #: Whether Python's packages are Debian's, where the index has no wheels.
    packaged: bool = False
    #: Whether each requirement of setup.cfg has the lowest version that it allows.
    oldest: bool = False
    variables: dict[str, str] = field(default_factory=dict)
    #: Whether portbar asks for a survey before it synchronises groups there, so that the quickstart comes after it.
    survey_first: bool = False
    #: The survey's time limit for the device, in seconds. A quick survey would have no time for what a busy machine takes.
    survey_s: int = 120
    #: The most tests of a file.
    most: int = 6
    #: How many times as long as on this machine a step may take.
    slowness: float = 1.0


ENVIRONMENTS: Final = {
    "oldest": Environment("oldest dependencies of `setup.cfg`", "PoCL", oldest=True),
    "debian-13": Environment("Debian 13", "PoCL", suite="trixie", packages=("pocl-opencl-icd",)),
    "ubuntu-24.04": Environment(
        "Ubuntu 24.04", "PoCL", suite="noble", distribution="ubuntu", packages=("pocl-opencl-icd",)
    ),
    "debian-sid": Environment("Debian sid", "PoCL", suite="sid", packages=("pocl-opencl-icd",), survey_s=240),
    "debian-sid-rusticl": Environment(
        "Debian sid, rusticl on llvmpipe",
        "rusticl",
        suite="sid",
        packages=("mesa-opencl-icd", "ocl-icd-libopencl1"),
        variables={"RUSTICL_ENABLE": "llvmpipe"},
        survey_first=True,
        survey_s=240,
    ),
    "arm64": Environment(
        "Debian 13 for arm64",
        "PoCL",
        suite="trixie",
        architecture="arm64",
        emulator="qemu-aarch64",
        processor=CORTEX_A72,
        packages=("pocl-opencl-icd",),
        variables={"QEMU_CPU": "cortex-a72"},
        survey_s=300,
        most=2,
        slowness=6.0,
    ),
    "riscv64": Environment(
        "Debian 13 for riscv64, rusticl on llvmpipe",
        "rusticl",
        suite="trixie",
        architecture="riscv64",
        emulator="qemu-riscv64",
        packages=("mesa-opencl-icd", "ocl-icd-libopencl1", "libclang1-19", *_PYTHON_OF_DEBIAN),
        packaged=True,
        variables={"RUSTICL_ENABLE": "llvmpipe"},
        survey_first=True,
        survey_s=300,
        most=2,
        slowness=6.0,
    ),
}
