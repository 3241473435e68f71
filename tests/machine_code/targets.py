"""The GPUs and processors that code is compiled for, their properties, and the compilers."""

from __future__ import annotations

import atexit
import functools
import os
import re
import shutil
import sysconfig
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from portbar.choices.strategy import DeviceProfile
from portbar.device.facts import DeviceFacts
from portbar.device.findings import Findings
from tests.checkout import ran
from tests.gpu_code import assemblable, by_ptxas, nvptx_options, ptxas
from tests.machine_code.listings import AARCH64, AMD, INTEL, PTX, RISCV, SASS, Figures, read

#: Where Debian's rocm-device-libs keeps the built-ins of AMD's GPUs.
_AMD_LIBRARY: Final = Path("/usr/lib/x86_64-linux-gnu/amdgcn/bitcode")


class MissingToolError(Exception):
    """A compiler is not installed, or does not know the target; the message names the remedy."""


@dataclass(frozen=True)
class Target:
    """A GPU: what OpenCL reports of it and what a probe found, the compiler, and its name of the GPU."""

    name: str
    #: Products, for people.
    gpus: str
    profile: DeviceProfile
    #: (target, OpenCL C, folder) -> figures.
    compile: Callable[[Target, str, Path], Figures]
    #: Target -> compilers and their versions.
    compiler: Callable[[Target], str]
    #: As the compiler calls it.
    chip: str
    arguments: tuple[str, ...] = ()
    std: str = "CL2.0"


def _ran(command: list[str], environment: Mapping[str, str] | None = None, folder: str | None = None) -> str:
    """Return the output of a compiler for a text that it accepts."""
    done = ran(*command, cwd=folder, env={**os.environ, **(environment or {})})
    assert done.returncode == 0, f"{' '.join(command)}\n{(done.stdout + done.stderr)[:4000]}"
    return done.stdout + done.stderr


# Clang, for AMD, NVIDIA and SPIR-V.


@functools.cache
def clangs() -> tuple[str, ...]:
    """Every clang on the path, the oldest first: it is what most machines have."""
    names = ("clang", *(f"clang-{version}" for version in range(15, 23)))
    found = {os.path.realpath(path): path for name in names if (path := shutil.which(name))}
    return tuple(sorted(found.values(), key=_version_of))


def _version_of(command: str) -> int:
    told = re.search(r"version (\d+)", _ran([command, "--version"]))
    return int(told[1]) if told else 0


def clang(least: int) -> str:
    """The first clang of this version or a later one."""
    for command in clangs():
        if _version_of(command) >= least:
            return command
    raise MissingToolError(f"no clang {least} or later (Debian: apt-get install clang-{15 if least <= 15 else 19})")


def _clang_listing(command: str, text: str, folder: Path, *arguments: str) -> str:
    source, listing = folder / "in.cl", folder / "out.s"
    source.write_text(text, encoding="utf-8")
    options = ["-x", "cl", "-Xclang", "-finclude-default-header", "-O2", "-S", *arguments]
    _ran([command, *options, "-o", str(listing), str(source)])
    return listing.read_text(encoding="utf-8")


def _amd(target: Target, text: str, folder: Path) -> Figures:
    least, library = target.arguments
    command = clang(int(least))
    if not _AMD_LIBRARY.is_dir():
        raise MissingToolError("no built-ins of AMD's GPUs (Debian: apt-get install rocm-device-libs)")
    parts = [
        *("opencl", "ocml", "ockl", f"oclc_isa_version_{library}", "oclc_abi_version_400"),
        *(f"oclc_{name}_off" for name in ("wavefrontsize64", "unsafe_math", "finite_only", "daz_opt")),
        "oclc_correctly_rounded_sqrt_on",
    ]
    linked = [
        part
        for name in parts
        for part in ("-Xclang", "-mlink-builtin-bitcode", "-Xclang", str(_AMD_LIBRARY / f"{name}.bc"))
    ]
    options = ("-target", "amdgcn-amd-amdhsa", f"-mcpu={target.chip}", "-nogpulib", *linked, f"-cl-std={target.std}")
    listing = _clang_listing(command, text, folder, "-mcode-object-version=4", *options)
    scratch = sum(int(size) for size in re.findall(r"ScratchSize: (\d+)", listing))
    spills = sum(int(count) for count in re.findall(r"[sv]gpr_spill_count: +(\d+)", listing))
    return read(listing, AMD, spills=spills + scratch)


def _amd_compiler(target: Target) -> str:
    return f"clang {_version_of(clang(int(target.arguments[0])))}, rocm-device-libs"


# NVIDIA: clang makes PTX, ptxas machine code of it, nvdisasm a listing.


@functools.cache
def nvdisasm() -> str | None:
    """NVIDIA's disassembler, from the extra `ptx` or from the path."""
    packages = Path(sysconfig.get_paths()["purelib"]) / "nvidia"
    return next((str(path) for path in packages.glob("*/bin/nvdisasm")), None) or shutil.which("nvdisasm")


def _needed(name: str, found: str | None) -> str:
    if found is None:
        raise MissingToolError(f'no {name} (pip install "portbar[ptx]")')
    return found


def _ptx(target: Target, text: str, folder: Path) -> str:
    chip, version = target.arguments
    listing = _clang_listing(clang(14), text, folder, *nvptx_options(chip, version, target.std))
    return assemblable(listing, target.chip)


def _nvidia(target: Target, text: str, folder: Path) -> Figures:
    listing = _ptx(target, text, folder)
    _needed("ptxas", ptxas())
    told = _needed(f"ptxas that knows {target.chip}", by_ptxas(listing, target.chip, folder, "-v"))
    spills = sum(int(size) for size in re.findall(r"(\d+) bytes (?:spill stores|cumulative stack)", told))
    if int(target.chip.removeprefix("sm_")) < 75:
        # The disassembler knows sm_75 and later.
        return read(listing, PTX, spills=spills)
    disassembler = _needed("nvdisasm", nvdisasm())
    return read(_ran([disassembler, "-c", str(folder / "out.cubin")]), SASS, spills=spills)


def _nvidia_compiler(_target: Target) -> str:
    assembler = _needed("ptxas", ptxas())
    told = re.search(r"V([\d.]+)", _ran([assembler, "--version"]))
    return f"clang {_version_of(clang(14))}, ptxas {told[1] if told else ''}"


# Intel: ocloc of Debian 12.


@functools.cache
def _ocloc() -> tuple[str, dict[str, str]]:
    """Intel's compiler, installed or in a folder that its packages were unpacked in, and the environment that it needs.

    It asks for its disassembler by a name that Debian's package lacks.
    """
    found = shutil.which("ocloc")
    if found is None:
        raise MissingToolError("no ocloc (Debian 12: apt-get install intel-opencl-icd)")
    libraries = Path(found).parent.parent / "lib/x86_64-linux-gnu"
    disassembler = next(iter(sorted(libraries.glob("libiga64.so.1*"))), None)
    if disassembler is None:
        raise MissingToolError("no disassembler for Intel's GPUs (Debian 12: apt-get install libigc-tools)")
    folder = tempfile.TemporaryDirectory(prefix="portbar-iga-")
    atexit.register(folder.cleanup)
    (Path(folder.name) / "libiga64.so").symlink_to(disassembler)
    return found, {"LD_LIBRARY_PATH": f"{folder.name}:{libraries}"}


def _intel(target: Target, text: str, folder: Path) -> Figures:
    ocloc, environment = _ocloc()
    (folder / "in.cl").write_text(text, encoding="utf-8")
    common = ["-device", target.chip]
    made = folder / target.chip
    options = ["-options", f"-cl-std={target.std}", "-out_dir", str(made)]
    told = _ran([ocloc, "compile", "-file", str(folder / "in.cl"), *common, *options], environment)
    binary = next(made.glob("*.bin"))
    _ran([ocloc, "disasm", "-file", str(binary), *common, "-dump", str(made / "dump")], environment)
    listing = "\n".join(path.read_text(encoding="utf-8") for path in sorted((made / "dump").glob("*.asm")))
    return read(listing, INTEL, spills=sum(int(size) for size in re.findall(r"spilled around (\d+)", told)))


def _intel_compiler(_target: Target) -> str:
    ocloc, environment = _ocloc()
    with tempfile.TemporaryDirectory() as folder:
        _ran([ocloc, "query", "OCL_DRIVER_VERSION"], environment, folder)
        version = (Path(folder) / "OCL_DRIVER_VERSION").read_text(encoding="utf-8").strip(" \0\n")
    return f"ocloc {version}"


# SPIR-V, which is read by the driver's compiler: only that it is valid is known.


def _spirv(target: Target, text: str, folder: Path) -> Figures:
    tools = {"llvm-spirv-15": "llvm-spirv-15", "spirv-val": "spirv-tools"}
    for tool, package in tools.items():
        if shutil.which(tool) is None:
            raise MissingToolError(f"no {tool} (Debian: apt-get install {package})")
    (folder / "in.cl").write_text(text, encoding="utf-8")
    bitcode, module = folder / "out.bc", folder / "out.spv"
    options = ["-x", "cl", "-Xclang", "-finclude-default-header", "-O0", "-c", "-emit-llvm", "-target", target.chip]
    _ran([clang(15), *options, f"-cl-std={target.std}", "-o", str(bitcode), str(folder / "in.cl")])
    _ran(["llvm-spirv-15", "--spirv-max-version=1.2", str(bitcode), "-o", str(module)])
    _ran(["spirv-val", "--target-env", target.arguments[0], str(module)])
    return Figures()


def _spirv_compiler(_target: Target) -> str:
    return f"clang {_version_of(clang(15))}, llvm-spirv-15, spirv-val"


# Processors, for PoCL's way: OpenCL's atomics are the compiler's, and kernels are functions of the processor.

#: As the headers of PoCL have them.
_ATOMICS: Final = (
    """
#define atomic_work_item_fence(flags, order, scope) __atomic_thread_fence(order)
#define atomic_load_explicit(p, order, scope) __opencl_atomic_load(p, order, scope)
"""
    + "".join(
        f"#define atomic_{name}_explicit(p, v, order, scope) __opencl_atomic_{name}(p, v, order, scope)\n"
        for name in ("store", "exchange", *(f"fetch_{of}" for of in ("add", "sub", "or", "xor", "and", "min", "max")))
    )
    + """
#define atomic_compare_exchange_strong_explicit(p, e, v, order, failure, scope) \\
    __opencl_atomic_compare_exchange_strong(p, e, v, order, failure, scope)
"""
)

_WIDE: Final = ("-Xclang", "-cl-ext=+cl_khr_int64_base_atomics,+cl_khr_int64_extended_atomics")

#: Where a processor has a read-modify-write as two instructions, the jump that repeats them, which does not wait.
_RETRY: Final = re.compile(r"(?m)(^\s+(?:stl?xr|sc\.\w\S*)\s.*\n)\s+(?:cbnz|bnez)\s.*\n")


def _processor(target: Target, text: str, folder: Path) -> Figures:
    command, options = clang(15), ("-target", target.chip, *target.arguments)
    listing = _clang_listing(command, _ATOMICS + text, folder, "-emit-llvm", *options, *_WIDE, f"-cl-std={target.std}")
    code = folder / "out.ll"
    # The compilers of processors know no kernels.
    code.write_text(re.sub(r"\bspir_(?:kernel|func) ", "", listing), encoding="utf-8")
    _ran([command, *options, "-O2", "-S", "-o", str(folder / "code.s"), str(code)])
    machine = _RETRY.sub(r"\1", (folder / "code.s").read_text(encoding="utf-8"))
    return read(machine, AARCH64 if target.chip.startswith("aarch64") else RISCV)


def _processor_compiler(_target: Target) -> str:
    return f"clang {_version_of(clang(15))}"


# The properties of each GPU. Facts as the drivers report them; findings as a probe that goes well leaves them.

_C11_BUILDS: Final = {"CL1.2": True, "CL2.0": True, "cl12": True, "c11@CL2.0": True, "int64_atomics": True}


def _profile(builds: Mapping[str, bool], atomics: str, **facts: object) -> DeviceProfile:
    common = {
        "type": ("GPU",),
        "compute_units": 64,
        "max_work_group_size": 1024,
        "local_mem_size": 65536,
        "int64_atomics": True,
    }
    findings = Findings(
        builds=dict(builds),
        ordering={atomics: "pass"},
        groups_in_flight=256,
        polls_per_second=3e6,
        source="for a compiler",
    )
    return DeviceProfile(DeviceFacts(**{**common, **facts}), findings)


def _amd_target(chip: str, gpus: str, least: int, library: str) -> Target:
    profile = _profile(
        _C11_BUILDS,
        "c11",
        platform_name="AMD Accelerated Parallel Processing",
        version="OpenCL 2.0",
        name=chip,
        opencl_c_versions=("1.2", "2.0"),
    )
    return Target(chip, gpus, profile, _amd, _amd_compiler, chip, (str(least), library))


def _nvidia_target(chip: str, gpus: str) -> Target:
    number = int(chip.removeprefix("sm_"))
    ptx, newest = number >= 70, number >= 90
    builds = {"CL1.2": True, "cl12": True, "membar": True, "ptx": ptx, "one_way_fences": newest, "int64_atomics": True}
    builds["mbarrier"] = number >= 80
    profile = _profile(
        builds,
        "ptx" if ptx else "membar",
        platform_name="NVIDIA CUDA",
        version="OpenCL 3.0 CUDA",
        name=chip,
        opencl_c_versions=("1.2", "3.0"),
        extensions=("cl_nv_compiler_options",),
        nvidia={"compute_capability_major": number // 10, "compute_capability_minor": number % 10, "warp_size": 32},
    )
    known = {60: ("sm_60", "60"), 70: ("sm_70", "63"), 75: ("sm_75", "63")}.get(number, ("sm_80", "74"))
    return Target(chip, gpus, profile, _nvidia, _nvidia_compiler, chip, known, "CL1.2")


def _intel_target(chip: str, gpus: str, *, probed: bool) -> Target:
    profile = _profile(
        {**_C11_BUILDS, "volatile_polls": probed},
        "c11",
        platform_name="Intel(R) OpenCL HD Graphics",
        version="OpenCL 3.0 NEO",
        name=chip,
        opencl_c_versions=("1.2", "3.0"),
        atomic_memory_capabilities=("relaxed", "acq_rel", "seq_cst", "scope_work_group", "scope_device"),
    )
    return Target(chip if probed else f"{chip} before a probe", gpus, profile, _intel, _intel_compiler, chip)


def _spirv_target(name: str, atomics: str, std: str) -> Target:
    builds = _C11_BUILDS if atomics == "c11" else {"CL1.2": True, "cl12": True, "int64_atomics": True}
    profile = _profile(
        builds, atomics, platform_name="SPIR-V", version="OpenCL 2.0", name=name, opencl_c_versions=("1.2", "2.0")
    )
    return Target(name, "any device that takes SPIR-V", profile, _spirv, _spirv_compiler, "spir64", ("opencl2.2",), std)


def _processor_target(name: str, products: str, chip: str, *arguments: str) -> Target:
    profile = _profile(
        {**_C11_BUILDS, "CL3.0": True},
        "c11",
        type=("CPU",),
        platform_name="Portable Computing Language",
        version="OpenCL 3.0 PoCL 6.0",
        name=name,
        opencl_c_versions=("1.2", "2.0", "3.0"),
        atomic_memory_capabilities=("relaxed", "acq_rel", "seq_cst", "scope_work_group", "scope_device"),
    )
    return Target(name, products, profile, _processor, _processor_compiler, chip, arguments)


TARGETS: Final = {
    target.name: target
    for target in (
        _amd_target("gfx906", "Instinct MI50 and MI60, Radeon VII", 15, "906"),
        _amd_target("gfx90a", "Instinct MI210 and MI250", 15, "90a"),
        _amd_target("gfx942", "Instinct MI300", 17, "940"),
        _amd_target("gfx1030", "Radeon RX 6800 and 6900", 15, "1030"),
        _amd_target("gfx1100", "Radeon RX 7900", 15, "1036"),
        _amd_target("gfx1201", "Radeon RX 9070", 19, "1036"),
        _intel_target("kbl", "HD and UHD Graphics of the 7th generation", probed=True),
        _intel_target("tgllp", "Iris Xe of the 11th generation", probed=True),
        _intel_target("dg2", "Arc A", probed=True),
        _intel_target("pvc", "Data Center GPU Max", probed=True),
        _intel_target("pvc", "Data Center GPU Max", probed=False),
        _nvidia_target("sm_60", "Tesla P100"),
        _nvidia_target("sm_70", "Tesla V100"),
        _nvidia_target("sm_75", "Tesla T4, GeForce RTX 20"),
        _nvidia_target("sm_80", "A100"),
        _nvidia_target("sm_86", "A10, GeForce RTX 30"),
        _nvidia_target("sm_89", "L4, GeForce RTX 40"),
        _nvidia_target("sm_90", "H100, H200"),
        _nvidia_target("sm_100", "B200"),
        _nvidia_target("sm_120", "GeForce RTX 50"),
        _nvidia_target("sm_121", "GB10"),
        _processor_target("armv8-a", "Raspberry Pi 4, Graviton 1", "aarch64-linux-gnu", "-march=armv8-a"),
        _processor_target("armv8.1-a", "Graviton 2 to 4, Ampere, Grace", "aarch64-linux-gnu", "-march=armv8.1-a"),
        _processor_target("rv64gc", "RISC-V of 64 bits", "riscv64-linux-gnu", "-march=rv64gc"),
        _spirv_target("SPIR-V c11", "c11", "CL2.0"),
        _spirv_target("SPIR-V cl12", "cl12", "CL1.2"),
    )
}
