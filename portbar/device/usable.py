"""Check which devices work: a small kernel compiles, runs and returns correct results in a child process, in time.

Being listed proves nothing: there are drivers that list a device and can compile nothing for it. `portbar.probe` finds out
what a working device can do.
"""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace
from typing import TYPE_CHECKING

from portbar.device import causes, child, icd, quirks
from portbar.device.addresses import DeviceAddress, address_of
from portbar.device.facts import DeviceFacts, device_key, facts
from portbar.device.quirks.entry import KERNELS_TASK, QuirkKernel
from portbar.records import cache
from portbar.records.dataclass import dataclass
from portbar.records.plain import plain_text

if TYPE_CHECKING:
    import pyopencl as cl

# For the child process, its start included; more where processes start slowly.
_LIMIT_S = 20.0
_MOST_LIMIT_S = 200.0

# A fault may be mended, or come from a busy machine, without any version changing: believe it only so long.
_KEEP_FAILURE_S = 3600.0

_INSTALL = "install it, or reinstall portbar"
_MORE_TIME = (
    "try again when the machine is less busy, or give it more time by `portbar survey --timeout SECONDS`; if it never ends, "
    "the driver hangs: choose another device"
)

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
    #: Whether the check came to its end; if not, it is unknown whether the device works.
    measured: bool = True


@dataclass(frozen=True)
class EmptyPlatform:
    """The verdict on a platform that lists no devices, with the reason if known, and the remedy."""

    name: str
    version: str
    reason: str
    remedy: str
    #: Whether something is wrong: it is not, where nothing is lost or the platform waits to be switched on.
    is_fault: bool = True


def check(
    device: DeviceAddress | cl.Device,
    timeout: float | None = None,
    *,
    at_most: float | None = None,
    refresh: bool = False,
) -> Usability:
    """Tell whether a device works, from the cache if it was checked before with this driver and this portbar.

    No kernel runs on it in this process. `timeout` is in seconds for the child process, its start included; where that starts
    slowly it gets more, up to `at_most`. A check that takes longer leaves it unknown whether the device works, and the next
    call checks again. With `refresh`, check again even if the answer is known; a failure is believed for an hour in any case.
    `DeviceError` if the address leads to no device.
    """
    address = device if isinstance(device, DeviceAddress) else address_of(device)
    reported = facts(address.resolve() if isinstance(device, DeviceAddress) else device)
    return _check(address, reported, _limits(timeout, at_most), refresh=refresh)


def recalled(reported: DeviceFacts) -> Usability | None:
    """Return the verdict of an earlier check that still counts, or None; this starts no process."""
    return _recall(device_key(reported))


def check_listed(
    known: Sequence[tuple[DeviceAddress, DeviceFacts]], timeout: float | None = None, *, refresh: bool = False
) -> list[tuple[DeviceAddress, Usability]]:
    """Check devices that were listed before, two at a time, and return them in this order.

    Loads no driver into this process. Ctrl-C ends the children.
    """
    stop = threading.Event()

    def one(entry: tuple[DeviceAddress, DeviceFacts]) -> Usability:
        return _check(entry[0], entry[1], _limits(timeout), refresh=refresh, stop=stop)

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
        if known.usable and other.is_host and "GPU" not in other.type and quirks.loop_limit(other, None) is None:
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
        not explained or explained[0].effect not in {quirks.NOTHING_LOST, quirks.SWITCHED_OFF},
    )


def _limits(timeout: float | None, at_most: float | None = None) -> tuple[float, float]:
    """The seconds of a child process, and of one on a slow machine; a caller's limit is kept."""
    if timeout is None:
        return _LIMIT_S, _MOST_LIMIT_S if at_most is None else at_most
    return timeout, timeout if at_most is None else at_most


def _check(
    address: DeviceAddress,
    reported: DeviceFacts,
    limits: tuple[float, float],
    *,
    refresh: bool,
    stop: threading.Event | None = None,
) -> Usability:
    if (unused := quirks.with_effect(quirks.NOT_USED, reported)) is not None:
        return Usability(False, f"portbar does not use it: {unused.fault}", unused.workaround, 0.0)
    key = device_key(reported)
    known = None if refresh else _recall(key)
    if known is not None:
        return known
    size = min(16, reported.max_work_group_size or 16)
    kernel = QuirkKernel(_PROBE, words=_GROUPS * size, global_size=_GROUPS * size, local_size=size)
    result = child.run_task(
        KERNELS_TASK,
        {"address": address.to_json(), "kernels": [asdict(kernel)]},
        timeout=limits[0],
        at_most=limits[1],
        env=child.NO_CACHE,
        stop=stop,
    )
    verdict = _judge(reported, result, size)
    if not verdict.measured:
        return verdict
    kept = {name: value for name, value in asdict(verdict).items() if name != "measured"}
    cache.store("usable", key, {**kept, "checked": time.time()})
    return verdict


def _judge(reported: DeviceFacts, result: child.ChildResult, size: int) -> Usability:
    log = result.message
    known = quirks.explanation(reported, log)
    if result.status == "ok":
        wrong = sum(found != right for found, right in zip(result.value, expected(size), strict=True))
        if not wrong:
            right = "the probe kernel compiled, ran and returned correct results"
            return Usability(True, right, "", result.seconds)
        reason = f"the probe kernel returned {wrong} wrong numbers of {_GROUPS * size}"
    elif result.unimportable:
        unknown = f"it is unknown whether it works: a package of Python cannot be imported: {_gist(log)}"
        return Usability(False, unknown, _INSTALL, result.seconds, measured=False)
    elif result.status == "error":
        stage = "compiling" if "BUILD_PROGRAM_FAILURE" in log else "running"
        reason = f"the probe kernel failed: {stage}: {_gist(log)}"
    elif result.status == "timeout":
        unknown = f"it is unknown whether it works: the probe kernel gave {log}"
        return Usability(False, unknown, quirks.remedy(reported, log) or _MORE_TIME, result.seconds, measured=False)
    elif known is not None:
        reason = f"the probe kernel failed: {known.fault}: {_gist(log, known.symptom)}"
    else:
        reason = f"the child process that runs the probe kernel failed: {log}"
    remedy = known.workaround if known is not None else causes.remedy(log) or causes.UPDATE
    return Usability(False, reason, remedy, result.seconds)


def expected(size: int) -> list[int]:
    """Return the expected results of the probe kernel with work-groups of `size`."""
    mirrors = [[3 * k + 7 for k in reversed(range(first, first + size))] for first in range(0, _GROUPS * size, size)]
    return [mirror[i] ^ mirror[(i + 1) % size] >> 2 for mirror in mirrors for i in range(size)]


def _gist(log: str, symptom: str = "error") -> str:
    """Return the line of a log that says what is wrong."""
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    telling = [line for line in lines if re.search(f"(?i){symptom}", line) and "BUILD_PROGRAM_FAILURE" not in line]
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
