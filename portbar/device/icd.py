"""Lets the OpenCL loader find runtimes that were installed from the package index, which it misses by itself.

PyOpenCL registers PoCL's wheel by itself. Importing this module changes nothing; the environment differs only while the loader
reads it.
"""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

from portbar.errors import DeviceError
from portbar.locks import Lock
from portbar.records import cache, scratch
from portbar.records.dataclass import dataclass

if TYPE_CHECKING:
    import pyopencl as cl

SYSTEM_VENDORS = Path("/etc/OpenCL/vendors")
"""Where the loader looks unless a variable overrides it."""

_USERS_OWN = ("OCL_ICD_VENDORS", "OCL_ICD_FILENAMES", "OPENCL_VENDOR_PATH")

_NO_PLATFORM = (
    'no OpenCL platform on this machine: install a CPU runtime with `pip install "portbar[cpu]"`, or the '
    "OpenCL driver of your device"
)

_lock = Lock()
_loaded = False
_left_out: frozenset[str] = frozenset()


@dataclass(frozen=True)
class WheelRuntime:
    """An OpenCL runtime that was installed from the package index."""

    #: Name of its distribution.
    name: str
    #: Full path of the library that the loader should open; empty where there is none.
    library: str
    #: Why the library cannot be loaded, and the remedy; empty if no problem is known.
    problem: str


@dataclass(frozen=True)
class VendorFile:
    """A file that tells the OpenCL loader which library to load."""

    #: Its name in a vendor folder.
    name: str
    #: Where it is; for a runtime that portbar adds, the path of its library.
    path: str
    content: bytes

    @property
    def library(self) -> str:
        """The library that it names."""
        return self.content.decode(errors="replace").strip()


def wheel_runtimes() -> list[WheelRuntime]:
    """Return the installed runtimes whose own registration does not work, whether or not they can be loaded.

    The ICD file of `intel-opencl-rt` names a folder of the machine that it was built on, so its library is
    looked up among the files of the distribution instead.
    """
    if sys.platform != "linux":
        # Elsewhere the loader reads the registry or the system's frameworks, and vendor folders mean nothing.
        return []
    name = "intel-opencl-rt"
    try:
        distribution = metadata.distribution(name)
    except metadata.PackageNotFoundError:
        return []
    places = [file.locate() for file in distribution.files or () if file.name == "libintelocl.so"]
    libraries = [path for place in places if (path := Path(os.path.normpath(str(place))).absolute()).is_file()]
    if not libraries:
        problem = f"its libintelocl.so is missing: `pip install --force-reinstall {name}`"
        return [WheelRuntime(name, "", problem)]
    problem = ""
    if not any(metadata.distributions(name="intel-cmplr-lib-rt")):
        problem = "it needs libimf, libsvml and libintlc from another package: `pip install intel-cmplr-lib-rt`"
    return [WheelRuntime(name, str(libraries[-1]), problem)]


def environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables to add to an environment so that a loader started in it sees every runtime.

    Empty where the user has chosen (`OCL_ICD_VENDORS`, `OCL_ICD_FILENAMES` or `OPENCL_VENDOR_PATH` is set), or where the
    system's folder already names everything that is installed. In both cases files that `leave_out` named are still left out.
    """
    files = vendor_files(environ)
    kept = [file for file in files if file.path not in _left_out]
    if len(kept) == len(files) and not _added(environ):
        return {}
    # The variable replaces the system's folder, so that folder's entries are repeated, dead ones too.
    return folder_variables(str(_vendors_folder({file.name: file.content for file in kept})), environ)


def folder_variables(folder: str, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that make a loader read one vendor folder, whichever of them it prefers."""
    return {"OCL_ICD_VENDORS": folder, **({"OPENCL_VENDOR_PATH": folder} if environ.get("OPENCL_VENDOR_PATH") else {})}


def vendor_files(environ: Mapping[str, str]) -> list[VendorFile]:
    """Return the files that a loader reads in an environment, including those that portbar adds.

    Runtimes that PyOpenCL registers by itself have no such file.
    """
    if sys.platform != "linux":
        return []
    chosen = environ.get("OCL_ICD_VENDORS") or environ.get("OPENCL_VENDOR_PATH")
    if chosen:
        return [file for part in chosen.split(os.pathsep) for file in _files_of(Path(part))]
    return [*_read(_system_folder()), *_added(environ)]


def leave_out(files: Iterable[VendorFile]) -> None:
    """Keep the loader from these files in this process, if it has not read them yet, and in its children."""
    global _left_out  # noqa: PLW0603 (the loader, too, initialises once per process)
    _left_out |= {file.path for file in files}


def _added(environ: Mapping[str, str]) -> list[VendorFile]:
    """Files for the runtimes of Python packages that the system's folder lacks; none where the user has chosen."""
    if any(environ.get(name) for name in _USERS_OWN):
        return []
    listed = [file.library for file in _read(_system_folder())]
    return [
        VendorFile(f"portbar-{runtime.name}.icd", runtime.library, f"{runtime.library}\n".encode())
        for runtime in wheel_runtimes()
        if runtime.library and not runtime.problem and not _is_listed(runtime.library, listed)
    ]


def hiding_variable(environ: Mapping[str, str]) -> str:
    """Return the user's variable that keeps the loader from runtimes that are installed here; empty where none does.

    `OCL_ICD_VENDORS` and `OPENCL_VENDOR_PATH` replace the system's folder, and any of the three keeps portbar from adding
    the runtimes of Python packages.
    """
    if sys.platform != "linux":
        return ""
    for name in _USERS_OWN:
        chosen = environ.get(name)
        if not chosen:
            continue
        listed = [file.library for part in chosen.split(os.pathsep) for file in _files_of(Path(part))]
        installed = [runtime.library for runtime in wheel_runtimes() if runtime.library and not runtime.problem]
        if name != "OCL_ICD_FILENAMES":
            known = (file.library for file in _read(_system_folder()))
            installed += [entry for entry in known if entry and ("/" not in entry or Path(entry).exists())]
        if not all(_is_listed(library, listed) for library in installed):
            return name
    return ""


def _files_of(place: Path) -> list[VendorFile]:
    """The files of a vendor folder; a single file or library that is named in its place counts as one."""
    if place.is_dir():
        return list(_read(place))
    if place.suffix == ".icd":
        with suppress(OSError):
            return [VendorFile(place.name, str(place), place.read_bytes())]
    return [VendorFile(f"{place.name}.icd", str(place), f"{place}\n".encode())]


def _read(folder: Path) -> Iterator[VendorFile]:
    """The files of a folder, which need not be there."""
    try:
        paths = sorted(folder.glob("*.icd"))
    except OSError:
        return
    for path in paths:
        # The loader cannot read files that this process may not read; reading a pipe could block for ever.
        with suppress(OSError):
            if path.is_file():
                yield VendorFile(path.name, str(path), path.read_bytes())


@contextmanager
def registered() -> Iterator[None]:
    """Add `environment` to this process's environment within the block, and restore it exactly afterwards.

    The loader reads the variable once, when the first platform is asked for; call that in the block.
    """
    with _lock:
        added = environment(os.environ)
        before = {name: os.environ[name] for name in added if name in os.environ}
        os.environ.update(added)
        try:
            yield
        finally:
            for name in added:
                os.environ.pop(name, None)
            os.environ.update(before)


def load_platforms() -> list[cl.Platform]:
    """Return the platforms, including those of Python wheels if the process has not used OpenCL before.

    Raises
    ------
    DeviceError
        No platform was found.
    """
    global _loaded  # noqa: PLW0603 (the loader, too, initialises once per process)
    import pyopencl as cl  # noqa: PLC0415 (reading the environment must not load a driver)

    try:
        with _lock:
            if _loaded:
                platforms = cl.get_platforms()
            else:
                with registered():
                    platforms = cl.get_platforms()
                _loaded = True
    except cl.Error as error:
        if getattr(error, "code", None) == cl.status_code.PLATFORM_NOT_FOUND_KHR:
            raise DeviceError(_explain_nothing()) from error
        raise
    if not platforms:
        raise DeviceError(_explain_nothing())
    return list(platforms)


def _explain_nothing() -> str:
    found = [f"{wheel.name} is installed, but {wheel.problem}" for wheel in wheel_runtimes() if wheel.problem]
    hiding = hiding_variable(os.environ)
    if hiding:
        without = 'if none is found then, install a CPU runtime with `pip install "portbar[cpu]"`'
        return "; ".join([f"no OpenCL platform was found: {hidden_text(hiding)}", without, *found])
    return "; ".join([_NO_PLATFORM, *found])


def hidden_text(variable: str) -> str:
    """Say what a variable of the user's does, and what helps."""
    return f"{variable} is set, which hides installed OpenCL runtimes: unset {variable}"


def _system_folder() -> Path:
    """Return the folder that the loader reads by default: conda builds the loader with one of its own."""
    with suppress(metadata.PackageNotFoundError):
        if (metadata.distribution("pyopencl").read_text("INSTALLER") or "").strip() == "conda":
            return Path(sys.prefix) / "etc" / "OpenCL" / "vendors"
    return SYSTEM_VENDORS


def _is_listed(library: str, listed: list[str]) -> bool:
    """Tell whether an entry already leads to a library, or to a copy of it: two in one process clash."""
    wanted = {Path(library).name, os.path.realpath(library)}
    there = (entry for entry in listed if "/" not in entry or Path(entry).exists())
    return any({Path(entry).name, os.path.realpath(entry)} & wanted for entry in there)


def _vendors_folder(entries: dict[str, bytes]) -> Path:
    """Return a folder that holds exactly these files; named by a hash of them, so that processes share it."""
    digest = hashlib.sha256()
    for name, content in sorted(entries.items()):
        digest.update(f"{len(name)} {len(content)} {name}\n".encode() + content)
    name = f"vendors-{digest.hexdigest()[:16]}"
    with _lock:
        base = cache.cache_dir()
        if base is not None:
            with suppress(OSError):
                return _filled(base / name, entries)
        return _filled(scratch.own_folder() / name, entries)


def _filled(folder: Path, entries: dict[str, bytes]) -> Path:
    """A folder with exactly these files; what another process has put there already stays."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in entries.items():
        path = folder / name
        if not path.is_file() or path.read_bytes() != content:
            cache.write_atomically(path, content)
    for extra in folder.glob("*.icd"):
        if extra.name not in entries:
            extra.unlink(missing_ok=True)
    return folder
