"""`describe`: facts of a device together with what is known from measurements, wherever those come from.

Not for measuring: `portbar.probing` does that and stores what it found where `describe` looks.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING

from portbar import cache, matrix
from portbar.device import DeviceFacts, device_key, facts
from portbar.errors import RecordError
from portbar.findings import CACHE_KIND, Findings
from portbar.strategy import DeviceProfile

if TYPE_CHECKING:
    import pyopencl as cl


def _findings(of: DeviceFacts) -> Findings | None:
    stored = cache.load(CACHE_KIND, device_key(of))
    if stored is not None:
        try:
            found = Findings.from_json(stored)
        except RecordError:
            found = None
        if found is not None:
            if not found.barrier_table:
                known = matrix.nearest(of)
                if known is not None:
                    found = replace(found, barrier_table=known.barrier_table)
            return found
    return matrix.nearest(of)


@lru_cache(maxsize=64)
def _profile(of: DeviceFacts) -> DeviceProfile:
    return DeviceProfile(of, _findings(of))


def describe(device: cl.Device) -> DeviceProfile:
    """Facts and findings of a device; runs nothing on it.

    Findings come from `portbar.probe` or `portbar survey` on this machine if they ran, else from the shipped vendor matrix,
    else there are none.

    Parameters
    ----------
    device : pyopencl.Device

    Returns
    -------
    DeviceProfile
    """
    return _profile(facts(device))


def forget() -> None:
    """Look again for findings at the next `describe`, after a probe stored new ones."""
    _profile.cache_clear()
