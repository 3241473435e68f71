"""portbar: synchronisation that OpenCL leaves out, as headers for OpenCL C and a runtime on PyOpenCL.

Names are imported at first use, so that ``import portbar`` costs little and touches no driver.
"""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from portbar._version import __version__
from portbar.errors import (
    BarrierTimeoutError,
    BuildError,
    DeviceError,
    Error,
    LaunchError,
    LoopLimitWarning,
    RecordError,
    RenderError,
    UnsupportedFeatureError,
)

if TYPE_CHECKING:
    from portbar.device import DeviceFacts
    from portbar.export import render
    from portbar.findings import Findings
    from portbar.icd import load_platforms
    from portbar.kernel import Kernel
    from portbar.launch import Launch
    from portbar.occupancy import Occupancy
    from portbar.probing import probe
    from portbar.profile import describe
    from portbar.program import Program
    from portbar.reduction.host import reduce
    from portbar.reduction.loops import Reduction, ReductionLoop
    from portbar.reduction.operators import Operator
    from portbar.strategy import Choice, DeviceProfile, Strategy, choose

# In a checkout that was not installed, the two data packages lie beside this folder, not in it.
_folder = Path(__file__).resolve().parent
if not (_folder / "cl_templates").is_dir():
    __path__.append(str(_folder.parent))

#: Public name -> module that holds it.
_LAZY = {
    "Choice": "portbar.strategy",
    "DeviceFacts": "portbar.device",
    "DeviceProfile": "portbar.strategy",
    "Findings": "portbar.findings",
    "Kernel": "portbar.kernel",
    "Launch": "portbar.launch",
    "Occupancy": "portbar.occupancy",
    "Operator": "portbar.reduction.operators",
    "Program": "portbar.program",
    "Reduction": "portbar.reduction.loops",
    "ReductionLoop": "portbar.reduction.loops",
    "Strategy": "portbar.strategy",
    "choose": "portbar.strategy",
    "describe": "portbar.profile",
    "load_platforms": "portbar.icd",
    "probe": "portbar.probing",
    "reduce": "portbar.reduction.host",
    "render": "portbar.export",
}

__all__ = [
    "BarrierTimeoutError",
    "BuildError",
    "Choice",
    "DeviceError",
    "DeviceFacts",
    "DeviceProfile",
    "Error",
    "Findings",
    "Kernel",
    "Launch",
    "LaunchError",
    "LoopLimitWarning",
    "Occupancy",
    "Operator",
    "Program",
    "RecordError",
    "Reduction",
    "ReductionLoop",
    "RenderError",
    "Strategy",
    "UnsupportedFeatureError",
    "__version__",
    "choose",
    "describe",
    "load_platforms",
    "probe",
    "reduce",
    "render",
]


def __getattr__(name: str) -> Any:
    module = _LAZY.get(name)
    if module is None:
        raise AttributeError(f"module 'portbar' has no attribute {name!r}")
    value = getattr(importlib.import_module(module), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
