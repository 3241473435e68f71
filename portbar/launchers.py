"""Recognises processes that `srun`, `mpirun` and their like start many of at once, by the variables they set.

Not for talking to the other processes: each host's file and lock (`portbar.hosts`) is all that they share.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

#: Launcher, and its variables for the rank, the number of processes (empty where there is none), and the rank on the host.
#: Slurm comes last: what another launcher starts inside a Slurm job inherits Slurm's variables of that launcher.
_LAUNCHERS: Final = (
    ("Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"),
    ("MVAPICH", "MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE", "MV2_COMM_WORLD_LOCAL_RANK"),
    ("Flux", "FLUX_TASK_RANK", "FLUX_JOB_SIZE", "FLUX_TASK_LOCAL_ID"),
    ("PALS", "PALS_RANKID", "PMI_SIZE", "PALS_LOCAL_RANKID"),
    ("JSM", "JSM_NAMESPACE_RANK", "JSM_NAMESPACE_SIZE", "JSM_NAMESPACE_LOCAL_RANK"),
    ("MPICH", "PMI_RANK", "PMI_SIZE", "PMI_LOCAL_RANK"),
    ("MPICH", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID"),
    ("PMIx", "PMIX_RANK", "", "PMIX_LOCAL_RANK"),
    ("Slurm", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID"),
)


@dataclass(frozen=True)
class Launch:
    """The place of this process among those that were started with it.

    Attributes
    ----------
    launcher : str
    rank : int
        Among all processes.
    size : int or None
        How many there are; None where the launcher does not say.
    local_rank : int or None
        Among the processes of this host; None where the launcher does not say.
    """

    launcher: str
    rank: int
    size: int | None
    local_rank: int | None

    @property
    def is_many(self) -> bool:
        """Whether there may be other processes."""
        return self.size != 1

    def __str__(self) -> str:
        return f"process {self.rank} of {self.size if self.size is not None else 'several'} ({self.launcher})"


def recognise(environ: Mapping[str, str]) -> Launch | None:
    """Say which launcher started this process, by its environment; None where none did."""
    found = [launch for row in _LAUNCHERS if (launch := _read(environ, *row)) is not None]
    if not found:
        return None
    first = found[0]
    if first.local_rank is not None:
        return first
    # srun --mpi=pmi2 sets PMI's variables, which lack the local rank, beside its own.
    same = [other for other in found[1:] if other.rank == first.rank and other.local_rank is not None]
    return Launch(first.launcher, first.rank, first.size, same[0].local_rank) if same else first


def cores_withheld() -> tuple[int, int] | None:
    """Cores that this process may use and cores of the host, where the launcher gave it a part of them only."""
    if not hasattr(os, "sched_getaffinity"):
        return None
    mine, all_of_them = len(os.sched_getaffinity(0)), os.cpu_count() or 1
    return (mine, all_of_them) if mine < all_of_them else None


def _read(environ: Mapping[str, str], launcher: str, rank: str, size: str, local_rank: str) -> Launch | None:
    # A batch script has a rank of Slurm's, too, but is one process; only what srun starts belongs to a step of several.
    if launcher == "Slurm" and size not in environ:
        return None
    mine = _number(environ, rank)
    return None if mine is None else Launch(launcher, mine, _number(environ, size), _number(environ, local_rank))


def _number(environ: Mapping[str, str], name: str) -> int | None:
    text = environ.get(name, "")
    return int(text) if text.isascii() and text.isdigit() else None
