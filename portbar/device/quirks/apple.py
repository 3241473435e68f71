"""Faults of Apple's OpenCL."""

from __future__ import annotations

from portbar.device.quirks import effects
from portbar.device.quirks.entry import Quirk

ENTRIES = (
    Quirk(
        name="apple-deprecated",
        where=lambda facts: facts.platform_name == "Apple",
        effect=effects.NOT_USED,
        fault="Apple's OpenCL 1.2 has been deprecated since macOS 10.14, and nothing of portbar was ever tried on it",
        seen="Apple's documentation of macOS 10.14, not a device, 2026-11",
        workaround="install PoCL from a package manager, such as `brew install pocl`, and make the context on its device",
        task="tests.device.quirk_programs_host:apple_platform",
    ),
)
