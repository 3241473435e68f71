"""Child processes that try programs, since a driver may abort or hang.

A worker reads one program per line, a seed or a pickled tree, and prints its verdict. One that dies or takes too long is
replaced; its program gets that as its verdict.
"""

from __future__ import annotations

import base64
import contextlib
import ctypes
import faulthandler
import json
import os
import pickle
import select
import signal
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field

from tests.checkout import environment
from tests.generated.programs import Program
from tests.generated.verdicts import Verdict

#: Seconds for one program with all its local sizes, and for the first one, before which the device is looked for.
LIMIT_S = 60.0


@dataclass
class Worker:
    """A child process on a platform, which PORTBAR_TEST_PLATFORM names."""

    platform: str
    limit: float = LIMIT_S
    process: subprocess.Popen[bytes] | None = None
    variables: dict[str, str] = field(default_factory=dict)
    folder: tempfile.TemporaryDirectory[str] = field(default_factory=tempfile.TemporaryDirectory)

    def ask(self, seed: int, program: Program | None = None) -> Verdict:
        """Return the verdict on a program, or on that of the seed."""
        if self.process is None:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "tests.generated.worker"],
                cwd=self.folder.name,  # PoCL leaves files where it aborts.
                env=environment(PORTBAR_TEST_PLATFORM=self.platform, **self.variables),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        process = self.process
        assert process.stdin is not None
        assert process.stdout is not None
        packed = base64.b64encode(pickle.dumps((seed, program)))
        with contextlib.suppress(BrokenPipeError):
            process.stdin.write(packed + b"\n")
            process.stdin.flush()
        ready, _, _ = select.select([process.stdout], [], [], self.limit)
        line = process.stdout.readline() if ready else b""
        if line:
            return Verdict(**json.loads(line))
        self.close()
        if not ready:
            return Verdict("hangs", f"no end within {self.limit:.0f} s")
        code = process.returncode
        return Verdict("aborts", signal.Signals(-code).name if code < 0 else f"exit status {code}")

    def close(self) -> None:
        """End the process, and what it started."""
        if self.process is None:
            return
        process, self.process = self.process, None
        try:
            process.wait(0.5 if process.poll() is None else 0)
        except subprocess.TimeoutExpired:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                with contextlib.suppress(BrokenPipeError):
                    stream.close()


def serve() -> None:
    """Answer the requests of standard input, in a child process."""
    if sys.platform == "linux":
        # A worker that hangs in a driver ends with its parent, however that ends.
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(1, signal.SIGKILL)
    # A driver's own output must not be taken for an answer.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    faulthandler.disable()

    from tests.conftest import chosen_device  # noqa: PLC0415 (the parent needs no OpenCL)
    from tests.generated.launching import Bench, cl, drawn  # noqa: PLC0415

    device, note = chosen_device()
    bench = None if device is None else Bench(cl.Context([device]))
    for line in sys.stdin.buffer:
        seed, program = pickle.loads(base64.b64decode(line))  # noqa: S301 (from the parent)
        verdict = Verdict("no device", note) if bench is None else bench.verdict(program or drawn(seed), seed)
        answers.write(json.dumps(vars(verdict)) + "\n")
        answers.flush()


if __name__ == "__main__":
    serve()
