"""Check which devices work: a small kernel compiles, runs and returns correct results in a child process, in time.

Being listed proves nothing: there are drivers that list a device and can compile nothing for it. `portbar.probe` finds out
what a working device can do.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING

from portbar.device import child, icd, quirks
from portbar.device.addresses import DeviceAddress, address_of
from portbar.device.facts import DeviceFacts, device_key, facts
from portbar.device.quirks.entry import KERNELS_TASK, Kernel
from portbar.records import cache
from portbar.records.plain import plain_text

if TYPE_CHECKING:
    import pyopencl as cl

# A fault may be mended, or come from a busy machine, without any version changing: believe it only so long.
_KEEP_FAILURE_S = 3600.0

_AT_A_TIME = 2

_GROUPS = 4
_PROBE = """
kernel void portbar_usable(global uint *out)
{
    local uint mirror[16];
    const uint i = (uint)get_local_id(0), n = (uint)get_local_size(0), first = (uint)get_group_id(0) * n;
    mirror[n - 1u - i] = out[first + i] + (first + i) * 3u + 7u;
    barrier(CLK_LOCAL_MEM_FENCE);
    out[first + i] = mirror[i] ^ (mirror[(i + 1u) % n] >> 2);
}
"""


@dataclass(frozen=True)
class Usability:
    """Whether a device can be used."""

    #: The probe kernel gave the right answer.
    usable: bool
    #: The observation in words.
    reason: str
    #: The remedy; empty for a usable device.
    remedy: str
    #: How long the check took when it was made.
    seconds: float


@dataclass(frozen=True)
class EmptyPlatform:
    """The verdict on a platform that lists no devices, with the reason if known, and the remedy."""

    name: str
    version: str
    reason: str
    remedy: str
    #: Whether anything is lost by it.
    is_fault: bool = True


def check(device: DeviceAddress | cl.Device, timeout: float = 20, *, refresh: bool = False) -> Usability:
    """Tell whether a device works, from the cache if it was checked before with this driver and this portbar.

    No kernel runs on it in this process. `timeout` is in seconds for the child process, its start included. With `refresh`,
    check again even if the answer is known; a failure is believed for an hour in any case. `DeviceError` if the address leads
    to no device.
    """
    address = device if isinstance(device, DeviceAddress) else address_of(device)
    reported = facts(address.resolve() if isinstance(device, DeviceAddress) else device)
    return _check(address, reported, timeout, refresh=refresh)


def check_listed(
    known: Sequence[tuple[DeviceAddress, DeviceFacts]], timeout: float = 20, *, refresh: bool = False
) -> list[tuple[DeviceAddress, Usability]]:
    """Check devices that were listed before, two at a time, and return them in this order.

    Loads no driver into this process. Ctrl-C ends the children.
    """
    stop = threading.Event()

    def one(entry: tuple[DeviceAddress, DeviceFacts]) -> Usability:
        return _check(entry[0], entry[1], timeout, refresh=refresh, stop=stop)

    with ThreadPoolExecutor(_AT_A_TIME) as pool:
        try:
            verdicts = list(pool.map(one, known))
        except BaseException:
            stop.set()
            raise
    checked = [(*entry, verdict) for entry, verdict in zip(known, verdicts, strict=True)]
    return [(address, with_alternative(verdict, checked)) for address, _, verdict in checked]


def with_alternative(verdict: Usability, checked: Sequence[tuple[DeviceAddress, DeviceFacts, Usability]]) -> Usability:
    """A verdict whose remedy is another runtime, with the one that is there: a device of `checked`, or a hidden one."""
    if verdict.usable or verdict.remedy not in quirks.only_another_runtime():
        return verdict
    for address, other, known in checked:
        # A simulator calls itself CPU and GPU at once.
        if known.usable and "CPU" in other.type and "GPU" not in other.type and quirks.loop_limit(other, None) is None:
            where = f"{address.platform_index}:{address.device_index} {other.name} ({other.platform_name})"
            return replace(verdict, remedy=f"use {where} instead, which works and runs on the same processor")
    hiding = icd.hiding_variable(os.environ)
    return replace(verdict, remedy=icd.hidden_text(hiding)) if hiding else verdict


def explain_empty(reported: DeviceFacts) -> EmptyPlatform:
    """Say of a platform that lists no devices why that is, as far as it is known."""
    explained = [quirk for quirk in quirks.matching(reported, quirks.NO_DEVICES) if quirk.symptom]
    return EmptyPlatform(
        reported.platform_name,
        reported.platform_version,
        explained[0].fault if explained else f"the platform {quirks.NO_DEVICES}",
        explained[0].workaround if explained else "check its hardware and its kernel driver",
        not explained or explained[0].effect != quirks.NOTHING_LOST,
    )


def _check(
    address: DeviceAddress, reported: DeviceFacts, timeout: float, *, refresh: bool, stop: threading.Event | None = None
) -> Usability:
    key = device_key(reported)
    known = None if refresh else _recall(key)
    if known is not None:
        return known
    size = min(16, reported.max_work_group_size or 16)
    kernel = Kernel(_PROBE, words=_GROUPS * size, global_size=_GROUPS * size, local_size=size)
    result = child.run_task(
        KERNELS_TASK,
        {"address": address.to_json(), "kernels": [asdict(kernel)]},
        timeout=timeout,
        env=child.NO_CACHE,
        stop=stop,
    )
    verdict = _judge(reported, result, size)
    cache.store("usable", key, {**asdict(verdict), "checked": time.time()})
    return verdict


def _judge(reported: DeviceFacts, result: child.ChildResult, size: int) -> Usability:
    log = result.message
    if result.status == "ok":
        wrong = sum(found != right for found, right in zip(result.value, expected(size), strict=True))
        if not wrong:
            right = "the probe kernel compiled, ran and returned correct results"
            return Usability(True, right, "", result.seconds)
        reason = f"the probe kernel returned {wrong} wrong numbers of {_GROUPS * size}"
    elif result.status == "error":
        stage = "compiling" if "BUILD_PROGRAM_FAILURE" in log else "running"
        reason = f"the probe kernel failed: {stage}: {_gist(log)}"
    else:
        reason = f"the child process that runs the probe kernel failed: {log}"
    remedy = quirks.remedy(reported, log) or "update the driver, or choose another device"
    return Usability(False, reason, remedy, result.seconds)


def expected(size: int) -> list[int]:
    """Return the expected results of the probe kernel with work-groups of `size`."""
    mirrors = [[3 * k + 7 for k in reversed(range(first, first + size))] for first in range(0, _GROUPS * size, size)]
    return [mirror[i] ^ mirror[(i + 1) % size] >> 2 for mirror in mirrors for i in range(size)]


def _gist(log: str) -> str:
    """Return the line of a build log that says what is wrong."""
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    telling = [line for line in lines if "error" in line.lower() and "BUILD_PROGRAM_FAILURE" not in line]
    return plain_text((telling or lines or ["no message"])[0], 300)


def _recall(key: str) -> Usability | None:
    record = cache.load("usable", key)
    if record is None:
        return None
    try:
        verdict = Usability(
            bool(record["usable"]), str(record["reason"]), str(record["remedy"]), float(record["seconds"])
        )
        age = time.time() - float(record["checked"])
    except (KeyError, TypeError, ValueError, OverflowError):
        return None
    return verdict if verdict.usable or 0 <= age < _KEEP_FAILURE_S else None
