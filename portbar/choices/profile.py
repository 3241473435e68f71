"""`describe`: facts of a device together with what is known from measurements, wherever those come from.

`portbar.survey.measuring.probe` measures, and stores what it found where `describe` looks.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from portbar.choices.strategy import DeviceProfile
from portbar.device import matrix, quirks
from portbar.device.facts import DeviceFacts, device_key, facts
from portbar.device.findings import CACHE_KIND, Findings
from portbar.errors import DeviceError, Error, RecordError
from portbar.records import cache

if TYPE_CHECKING:
    import pyopencl as cl


def stored_findings(of: DeviceFacts) -> Findings | None:
    """Return the findings that probes on this machine cached for a device; None without readable ones.

    The latter gives a `CacheWarning`.
    """
    key = device_key(of)
    stored = cache.load(CACHE_KIND, key)
    try:
        return None if stored is None else Findings.from_json(stored)
    except RecordError as error:
        cache.reject(CACHE_KIND, key, str(error))
        return None


def _findings(of: DeviceFacts) -> Findings | None:
    found, lent = stored_findings(of), matrix.nearest(of)
    if found is None or lent is None:
        return found or lent
    record = matrix.record_named(lent.source)
    for part, words in matrix.LENT.items():
        if not getattr(found, part) and getattr(lent, part):
            found = replace(found, **{part: getattr(lent, part)}, source=f"{found.source}; {words}{record}")
    return found


#: Findings from records and the cache; quirks are not among them, since `quirks.registered` changes those.
_known: Final = lru_cache(maxsize=64)(_findings)


def profile_of(of: DeviceFacts) -> DeviceProfile:
    """Facts that were read before, with the findings of their device, as by `describe`."""
    found = _known(of)
    if found is not None:
        # The quirk table knows the loop limit, too, since a probe on a busy machine may have missed it.
        found = replace(found, loop_limit=quirks.loop_limit(of, found.loop_limit))
    return DeviceProfile(of, found)


def describe(device: cl.Device) -> DeviceProfile:
    """Return facts and findings of a device; runs nothing on it.

    Findings come from `portbar.probe` or `portbar survey` on this machine if they ran, else from the included vendor matrix if
    it has any.

    Parameters
    ----------
    device : pyopencl.Device

    Returns
    -------
    DeviceProfile

    Raises
    ------
    DeviceError
        The argument is not a device.
    """
    if not hasattr(device, "get_info") or not hasattr(device, "platform"):
        raise DeviceError(
            f"describe requires a pyopencl.Device, not {type(device).__name__}; `portbar.load_platforms()` returns platforms "
            "with their devices"
        )
    return profile_of(facts(device))


def forget() -> None:
    """Look again for findings at the next `describe`, after a probe stored new ones."""
    _known.cache_clear()


def change_findings(device: cl.Device, what: str, change: Callable[[Findings], Findings]) -> Findings:
    """Change the cached findings of a device, so that the next `describe` tells them; `what` is added to them, in words.

    Changes that other threads and processes make at the same time are kept. `Error` if the device was never probed on this
    machine, so it has no findings to extend.
    """
    reported = facts(device)
    with cache.changing():
        found = stored_findings(reported)
        if found is None:
            raise Error(
                f"{device.name.strip()} has no findings on this machine to add {what} to: run portbar.probe(device) first"
            )
        found = change(found)
        cache.store(CACHE_KIND, device_key(reported), found.to_json())
    forget()
    return found
