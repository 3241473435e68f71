"""CUDA programs as peers: compiled by nvcc on the spot, started once, and timed alternately with ours.

Each benchmark has its own program. It reads orders, a line each, from its standard input, and replies to each with a line of
JSON.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, TypeVar

import pyopencl as cl

import portbar
from benchmarks.shared import note
from portbar.errors import Error

#: Seconds that an answer may take.
_LIMIT_S: Final = 60.0

#: The beginning of programs: errors as replies.
PRELUDE: Final = r"""
#include <cstdio>
#include <cstring>

static bool refused(cudaError_t error)
{
    if (error == cudaSuccess)
        return false;
    std::printf("{\"error\": \"%s\"}\n", cudaGetErrorString(error));
    std::fflush(stdout);
    cudaGetLastError();
    return true;
}
"""

#: That of programs with CUB: also a kernel that keeps the device busy while the host enqueues the timed calls, so that the
#: events around them show the device's time alone.
CUB_PRELUDE: Final = (
    PRELUDE
    + r"""
#include <cub/cub.cuh>

__global__ void busy(unsigned long long nanoseconds)
{
    unsigned long long begin, now;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(begin));
    do
        asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
    while (now - begin < nanoseconds);
}
"""
)


class CudaProgram:
    """A program under way. One that takes too long to answer is ended, and each later order is refused."""

    def __init__(self, command: Sequence[str]) -> None:
        self._limit_s = _LIMIT_S
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        try:
            #: The reply when it starts, about itself.
            self.about = self._answer()
        except Error:
            self.close()
            raise

    def ask(self, order: str) -> dict[str, Any]:
        """Give one order and return the answer; `Error` if the program failed, or ended, or took too long."""
        if self._process.stdin is None or self._process.poll() is not None:
            raise Error("the CUDA program has ended")
        try:
            self._process.stdin.write(f"{order}\n")
            self._process.stdin.flush()
        except OSError as error:
            raise Error(f"the CUDA program has ended: {error}") from error
        return self._answer()

    def close(self) -> None:
        """End the program."""
        self._process.kill()
        self._process.communicate()

    def _answer(self) -> dict[str, Any]:
        timer = threading.Timer(self._limit_s, self._process.kill)
        timer.start()
        try:
            line = self._process.stdout.readline() if self._process.stdout is not None else ""
        finally:
            timer.cancel()
        try:
            answer: dict[str, Any] = json.loads(line)
        except ValueError:
            # It has ended, or the timer has just ended it: the next order should find it so.
            self._process.wait()
            raise Error(f"the CUDA program ended or took more than {self._limit_s:g} s; it wrote {line!r}") from None
        if "error" in answer:
            raise Error(f"the CUDA program failed: {answer['error']}")
        return answer


P = TypeVar("P", bound=CudaProgram)


@contextmanager
def cuda_program(source: str, name: str, capability: tuple[int, int] | None, kind: type[P]) -> Iterator[P | None]:
    """Compile a program into a folder that goes away, and start it; None, with the reason noted, where that fails.

    `capability` is that of the device; without one it is not NVIDIA's, and has no such program.
    """
    if capability is None:
        yield None
        return
    with tempfile.TemporaryDirectory(prefix="portbar-bench-") as folder:
        started = None
        try:
            started = kind([str(compiled(source, Path(folder, name), capability))])
        except (Error, OSError, subprocess.SubprocessError) as error:
            note(f"CUDA peers skipped: {error}")
        try:
            yield started
        finally:
            if started is not None:
                started.close()


def compiled(source: str, binary: Path, capability: tuple[int, int]) -> Path:
    """Compile for the very device: `-arch=native` takes an old one where it finds none.

    `Error` without nvcc, or if it refused.
    """
    installed = sorted(map(str, Path("/usr/local").glob("cuda*/bin/nvcc")))
    compiler = next(filter(None, map(shutil.which, ["nvcc", *installed])), None)
    if compiler is None:
        raise Error("there is no nvcc")
    text = binary.with_suffix(".cu")
    text.write_text(source, encoding="utf-8")
    log = ""
    for arch in (f"sm_{capability[0]}{capability[1]}", "native", "sm_90"):
        command = [compiler, "-O3", "-std=c++17", f"-arch={arch}", "-o", str(binary), str(text)]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=2 * _LIMIT_S)
        if done.returncode == 0:
            return binary
        log = log or done.stderr.strip()[-500:]
    raise Error(f"nvcc failed: {log}")


def capability_of(device: cl.Device) -> tuple[int, int] | None:
    """An NVIDIA device's compute capability."""
    nvidia = portbar.describe(device).facts.nvidia or {}
    major, minor = nvidia.get("compute_capability_major"), nvidia.get("compute_capability_minor")
    return None if major is None else (major, minor or 0)
