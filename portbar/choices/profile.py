"""`describe`: facts of a device together with what is known from measurements, wherever those come from.

`portbar.survey.measuring.probe` measures, and stores what it found where `describe` looks.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from portbar.backends.profile import DeviceProfile
from portbar.device import quirks
from portbar.device.addresses import device_of, root_of
from portbar.device.facts import DeviceFacts, device_key, facts, host_architecture
from portbar.device.findings import CACHE_KIND, Findings
from portbar.device.tuning import ArrayTuning, FewTilesShape, ReduceShape, ScanShape, SortShape, WaitTuning
from portbar.errors import Error, RecordError
from portbar.records import cache, remembered

if TYPE_CHECKING:
    import pyopencl as cl

#: Classes of what findings hold.
_CLASSES: Final = (Findings, WaitTuning, ArrayTuning, ReduceShape, FewTilesShape, ScanShape, SortShape)


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


def _findings(of: DeviceFacts, root: DeviceFacts | None = None) -> Findings | None:
    found = stored_findings(of)
    of_root = stored_findings(root) if found is None and root is not None else None
    # The records of all devices take long to read.
    parts = ("findings", of, found, of_root, host_architecture())
    return remembered.value_of(parts, lambda: _with_lent(of, found, of_root), _CLASSES)


def _with_lent(of: DeviceFacts, found: Findings | None, of_root: Findings | None) -> Findings | None:
    """Findings of a device, or of the one that it is a part of, with what the vendor matrix lends."""
    from portbar.device import matrix  # noqa: PLC0415 (takes long to import)

    lent = matrix.nearest(of)
    if found is None and of_root is not None:
        found = matrix.without_counts(of_root)
    if found is None or lent is None:
        return found or lent
    record = matrix.record_named(lent.source)
    filled = found.filled(lent)
    if filled is not found:
        found = replace(filled, source=f"{found.source}; what it did not measure by {record}")
    for part, words in matrix.LENT.items():
        if part == "barrier_table" and found.times_rejected is not None:
            # The machine is a busy one, unlike those of records.
            continue
        if not getattr(found, part) and getattr(lent, part):
            found = replace(found, **{part: getattr(lent, part)}, source=f"{found.source}; {words}{record}")
    return found


#: Findings from records and the cache; quirks are not among them, since `quirks.registered` changes those.
_known: Final = lru_cache(maxsize=64)(_findings)


def profile_of(of: DeviceFacts, root: DeviceFacts | None = None) -> DeviceProfile:
    """Facts that were read before, with the findings of their device, as by `describe`.

    `root` has the facts of the device that a sub-device is a part of.
    """
    found = _known(of, root)
    if found is not None:
        # The quirk table knows the loop limit, too, since a probe on a busy machine may have missed it.
        found = replace(found, loop_limit=quirks.loop_limit(of, found.loop_limit))
    return DeviceProfile(of, found)


def describe(device: cl.Device | cl.CommandQueue) -> DeviceProfile:
    """Return facts and findings of a device; runs nothing on it.

    Findings come from `portbar.probe` or `portbar survey` on this machine if they ran, else from the included vendor matrix if
    it has any. A sub-device has those of the device that it is a part of, except for numbers of work-groups.

    Parameters
    ----------
    device : pyopencl.Device or pyopencl.CommandQueue

    Returns
    -------
    DeviceProfile

    Raises
    ------
    DeviceError
        The argument is neither a device nor a queue.
    """
    return profile_of(*reported(device_of("describe", device)))


def reported(device: cl.Device) -> tuple[DeviceFacts, DeviceFacts | None]:
    """The facts of a device, and of the one that it is a part of, None for a whole one; as `profile_of` takes them."""
    root = root_of(device)
    return facts(device), None if root is device else facts(root)


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
