"""One survey of many hosts in one folder: a record per host under anonymous labels, and which hosts are finished."""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import secrets
import socket
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from portbar.errors import Error
from portbar.records import writing
from portbar.records.cache import write_atomically

PLACEHOLDER: Final = "{host}"

#: Private folder beside the records, with the data needed to continue later.
PRIVATE: Final = ".portbar"

_SALT_BYTES: Final = 16
#: Seconds that another process, perhaps on another host, may take to write the few bytes of the salt.
_SALT_WAIT_S: Final = 10.0

#: Variables in which a launcher states how many processes it started: Open MPI, MVAPICH, Flux, JSM, PALS and MPICH, Slurm.
#: Slurm comes last: what another launcher starts inside a Slurm job inherits Slurm's variables of that launcher.
SIZES: Final = (
    "OMPI_COMM_WORLD_SIZE",
    "MV2_COMM_WORLD_SIZE",
    "FLUX_JOB_SIZE",
    "JSM_NAMESPACE_SIZE",
    "PMI_SIZE",
    "SLURM_STEP_NUM_TASKS",
)

#: Names that many hosts have at the same time.
_NOBODY: Final = {"", "localhost", "localhost.localdomain", "localhost6", "localhost4"}


@dataclass
class HostFolder:
    """A folder with one record per host, made when something is written.

    In the pattern of the records' names, `{host}` stands for the label.
    """

    path: Path
    pattern: str = f"{PLACEHOLDER}.json"
    _salt: bytes = field(default=b"", repr=False)

    @classmethod
    def of(cls, output: str, *, always: bool = False) -> HostFolder | None:
        """Return the folder that a name on the command line asks for; None if it names one file.

        A name asks for a folder if it ends with a slash, is a folder, or has `{host}` in its last part. With `always`, every
        name does, and `record.json` stands for `record-{host}.json`. `Error` if `{host}` is in a folder's name.
        """
        path = Path(output)
        if PLACEHOLDER in str(path.parent):
            raise Error(f"{PLACEHOLDER} must be in the last part of the name, as in records/{PLACEHOLDER}.json")
        if PLACEHOLDER in path.name:
            return cls(path.parent, path.name)
        if output.endswith(("/", os.sep)) or writing.is_folder(path):
            return cls(path)
        if not always:
            return None
        return cls(path.parent, f"{path.stem}-{PLACEHOLDER}{path.suffix}") if path.suffix else cls(path)

    def label(self, name: str) -> str:
        """Return the label of a host: always the same in this folder, and no way back to the name without the salt.

        `Error` if the salt cannot be written or read.
        """
        self._salt = self._salt or _shared_salt(self.path / PRIVATE / "salt")
        return f"host-{hmac.new(self._salt, name.encode(), hashlib.sha256).hexdigest()[:10]}"

    def file(self, label: str) -> Path:
        """Return the path of a host's record."""
        return self.path / self.pattern.replace(PLACEHOLDER, label)

    def is_finished(self, label: str, invocation: dict[str, Any]) -> bool:
        """Whether a host has a record that was not cut short.

        `Error` if it has one of a survey with other options, which would be lost.
        """
        path = self.file(label)
        try:
            record = json.loads(path.read_text(encoding="utf-8"))
            finished = record["interrupted"] is False
            made = {name: record["invocation"].get(name, invocation[name]) for name in invocation}
        except FileNotFoundError:
            return False
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise Error(f"{path} is not a survey record ({error!r}): move it, or name another folder") from error
        if made != invocation:
            raise Error(f"{path} is from {_in_words(made)}, this is {_in_words(invocation)}: name another folder")
        return finished

    def write(self, label: str, text: str) -> None:
        """Replace a host's record atomically: readers see the old one or the new one; `Error` if it cannot be written."""
        path = self.file(label)
        try:
            write_atomically(path, text.encode())
        except OSError as error:
            why = f"{path} cannot be written ({error.strerror or error}) and is unchanged"
            raise Error(f"{why}: make room, or name another folder with --output") from error


def host_name() -> str:
    """Return an identification of this host, which is used only in labels.

    A host that does not know its own name, as in some images of virtual machines, is known by its network card.
    """
    name = socket.gethostname().lower()
    if name not in _NOBODY:
        return name
    import uuid  # noqa: PLC0415 (it may start programs to find a card, which is for hosts without a name)

    return os.environ.get("SLURMD_NODENAME", "") or f"card {uuid.getnode():012x}"


def is_one_of_many(environ: Mapping[str, str]) -> bool:
    """Whether a launcher such as `srun` started other processes with this one, according to its variables."""
    size = next((environ[name] for name in SIZES if name in environ), None)
    # PMIx alone does not state how many there are.
    return "PMIX_RANK" in environ if size is None else size != "1"


@contextmanager
def only_here(folder: Path, name: str) -> Iterator[bool]:
    """Yield whether this is the only process that surveys the host of this name into a folder, while the block runs.

    The lock is a file of the host's own temporary folder; `Error` if it cannot be made. In a shared folder, locks may not
    work, or outlive a process that was killed.
    """
    key = hashlib.sha256(f"{folder.resolve()}\n{name}".encode()).hexdigest()[:16]
    user = os.getuid() if hasattr(os, "getuid") else "user"
    path = Path(tempfile.gettempdir()) / f"portbar-survey-{user}-{key}.lock"
    try:
        descriptor = writing.lock(path)
    except OSError as error:
        raise Error(
            f"{path} cannot be locked ({error.strerror or error}), so two processes could survey this host concurrently: "
            "remove it, or set TMPDIR to a folder of your own"
        ) from error
    try:
        yield descriptor is not None
    finally:
        if descriptor is not None:
            os.close(descriptor)


def _shared_salt(path: Path) -> bytes:
    """Return the salt of a folder, which the first process of any host writes."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _write_salt(path)
    except FileExistsError:
        pass
    except OSError as error:
        why = f"{path} cannot be written ({error.strerror or error})"
        raise Error(f"{why}: name another folder with --output") from error
    deadline = time.monotonic() + _SALT_WAIT_S
    while True:
        try:
            text = path.read_bytes()
            if len(text) == 2 * _SALT_BYTES:
                return bytes.fromhex(text.decode("ascii"))
        except (OSError, ValueError) as error:
            why = f"{path} cannot be read as a salt ({error})"
            raise Error(f"{why}: remove it; every host then gets a new label") from error
        if time.monotonic() > deadline:
            raise Error(f"{path} is cut short: remove it; every host then gets a new label")
        time.sleep(0.05)


def _write_salt(path: Path) -> None:
    # Exclusive creation is the one thing that shared file systems agree on.
    path.touch(0o600, exist_ok=False)
    try:
        path.write_text(secrets.token_hex(_SALT_BYTES), encoding="ascii")
    except OSError:
        # Cut short, it would stop every later survey into this folder.
        path.unlink(missing_ok=True)
        raise


def _in_words(invocation: dict[str, Any]) -> str:
    quick = "a quick survey" if invocation.get("quick") else "a full survey"
    devices = ", ".join(invocation.get("devices") or ["all devices"])
    return f"{quick} of {devices} with --timeout {invocation.get('timeout_s')}"
