"""Runs in an environment: `versions` prints what is there as JSON, `quickstart` runs the program of docs/quickstart.md."""

from __future__ import annotations

import json
import os
import platform
import re
import sys
from importlib.metadata import version
from pathlib import Path

import portbar
from portbar.device.emulation import emulator

PAGE = Path(__file__).resolve().parents[2] / "docs" / "quickstart.md"


def versions() -> dict[str, str]:
    """Return the versions of Python, of the packages, and of the platform of OpenCL under test."""
    wanted = os.environ.get("PORTBAR_TEST_PLATFORM", "").lower()
    titles = [(f"{one.name} {one.version}", one) for one in portbar.load_platforms()]
    title, found = next((one for one in titles if wanted in one[0].lower()), ("none", None))
    devices = found.get_devices() if found else []
    return {
        "machine": platform.machine(),
        "emulator": emulator(),
        "python": platform.python_version(),
        **{name: version(name) for name in ("numpy", "pyopencl", "mako")},
        "portbar": portbar.__version__,
        "platform": " ".join(title.split()),
        "device": devices[0].name.strip() if devices else "none",
    }


def quickstart() -> None:
    """Run the page's program, which asserts its result."""
    text = PAGE.read_text(encoding="utf-8")
    kernel, program = (
        re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)[0] for language in ("c", "python")
    )
    exec(compile(program, str(PAGE), "exec"), {"source": kernel, "__name__": "quickstart"})  # noqa: S102


if __name__ == "__main__":
    if sys.argv[1] == "versions":
        print(json.dumps(versions()))
    else:
        quickstart()
