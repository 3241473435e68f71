"""The table of GPUs in docs/records.md: of each generation that portbar compiles for, the records that there are.

`python -m tests.docs.wanted` prints it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from portbar.records import load
from tests.checkout import ROOT
from tests.machine_code.targets import TARGETS

#: A target -> the vendor, and a pattern of the names that drivers give to its GPUs. NVIDIA's are known by compute capability.
NAMES: Final = {
    "gfx906": ("AMD", r"gfx906|MI50|MI60|Radeon VII"),
    "gfx90a": ("AMD", r"gfx90a|MI2[15]0"),
    "gfx942": ("AMD", r"gfx942|MI300"),
    "gfx1030": ("AMD", r"gfx1030|RX 6[89]\d\d"),
    "gfx1100": ("AMD", r"gfx1100|RX 79\d\d"),
    "gfx1201": ("AMD", r"gfx1201|RX 9070"),
    "kbl": ("Intel", r"HD Graphics 6\d\d"),
    "tgllp": ("Intel", r"Iris\S* Xe"),
    "dg2": ("Intel", r"Arc\S* A\d"),
    "pvc": ("Intel", r"Data Center GPU Max"),
}


def is_of(target: str, facts: Mapping[str, Any]) -> bool:
    """Whether a device is a GPU of a target's generation, by its facts."""
    if target.startswith("sm_"):
        known = facts.get("nvidia") or {}
        major, minor = known.get("compute_capability_major"), known.get("compute_capability_minor")
        return target == f"sm_{major}{minor}"
    return "GPU" in facts.get("type", ()) and bool(re.search(NAMES[target][1], str(facts.get("name"))))


def measured() -> list[Mapping[str, Any]]:
    """Return the facts of the devices that portbar was measured on."""
    records = (load(path) for path in sorted((ROOT / "vendor_matrix").glob("*.json")))
    return [device["facts"] for record in records if record["kind"] == "measured" for device in record["devices"]]


def table(devices: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return the table in Markdown, a line each."""
    known = list(devices)
    lines = ["| vendor | generation | GPUs | records |", "| --- | --- | --- | --- |"]
    for name, target in TARGETS.items():
        if name not in NAMES and not name.startswith("sm_"):
            continue
        vendor = NAMES[name][0] if name in NAMES else "NVIDIA"
        found = [str(facts["name"]) for facts in known if is_of(name, facts)]
        lines.append(f"| {vendor} | {name} | {target.gpus} | {', '.join(found) or 'wanted'} |")
    return lines


if __name__ == "__main__":
    print("\n".join(table(measured())))
