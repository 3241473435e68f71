"""The errors that portbar raises and the warnings that it gives, each naming the device, the cause and the remedy.

Not for OpenCL's own errors: those come through as ``pyopencl.Error`` unchanged.
"""

from __future__ import annotations

from typing import Any


class Error(Exception):
    """Base class of every error that portbar raises itself."""


class BuildError(Error):
    """A program did not compile on a device.

    Attributes
    ----------
    device : str
        Name of the device that refused the program.
    options : tuple of str
        The build options that were passed to the driver.
    log : str
        The driver's build log, unchanged.
    source_path : str or None
        File that holds the rendered source, so that it can be read and compiled by hand. It stays until sixteen other
        programs have been refused.
    """

    def __init__(
        self,
        message: str,
        *,
        device: str = "",
        options: tuple[str, ...] = (),
        log: str = "",
        source_path: str | None = None,
    ) -> None:
        super().__init__(message)
        self.device = device
        self.options = options
        self.log = log
        self.source_path = source_path


class MisuseError(BuildError):
    """A program certainly uses OpenCL C or portbar's functions wrongly; nothing was compiled.

    Attributes
    ----------
    misuses : tuple
        Each such place: its `kind`, its `place` (`file`, `line` and `column`), `call`, `message`, the place of the `condition`,
        the `steps` that lead to it, and a `remedy`.
    """

    def __init__(self, message: str, *, misuses: tuple[Any, ...] = ()) -> None:
        super().__init__(message)
        self.misuses = misuses


class DivergenceError(MisuseError):
    """A function that many work-items must call together is called where they certainly differ."""


class RenderError(Error):
    """A template of portbar's own, or an include in the author's source, could not be rendered."""


class UnsupportedFeatureError(Error):
    """A device does not support a requested feature; the message states the reason and an alternative."""


class UnwrittenError(UnsupportedFeatureError):
    """A device's compiler would take a program wrongly, and portbar cannot write it otherwise."""


class LaunchError(Error, ValueError):
    """A launch was requested with invalid arguments; nothing was enqueued."""


class BarrierTimeoutError(Error):
    """A device barrier reached its spin limit, so the kernel drained instead of hanging.

    Attributes
    ----------
    kernel, device : str
        Names of the kernel and of the device.
    arrived, expected : int
        Work-groups that had arrived at the barrier that timed out, and those that should have.
    """

    def __init__(
        self, message: str, *, kernel: str = "", device: str = "", arrived: int = 0, expected: int = 0
    ) -> None:
        super().__init__(message)
        self.kernel = kernel
        self.device = device
        self.arrived = arrived
        self.expected = expected


class DeviceError(Error):
    """A device or platform could not be found, or is not usable."""


class LoopLimitWarning(UserWarning):
    """A device ends loops silently, including those of the author's kernels, whose results are then wrong without an error."""


class UnreportedFaultWarning(UserWarning):
    """A launch had failed, and was dropped without `wait`, which would have raised the error that the message holds.

    The next wait in the queue raises that error.
    """


class UnreadWarning(UserWarning):
    """A part of a program was compiled that portbar could not read, so misuse in it is not found before a launch."""


class RecordError(Error):
    """A survey record or a cache file is not what its schema says."""
