"""portbar: synchronisation that OpenCL leaves out, as headers for OpenCL C and a runtime on PyOpenCL.

Names are imported at first use, so that ``import portbar`` costs little and touches no driver.
"""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import TYPE_CHECKING

from portbar.errors import (
    BarrierTimeoutError,
    BuildError,
    DeviceError,
    DivergenceError,
    Error,
    LaunchError,
    LoopLimitWarning,
    MisuseError,
    RecordError,
    RenderError,
    UnreadWarning,
    UnreportedFaultWarning,
    UnsupportedFeatureError,
)

if TYPE_CHECKING:
    from portbar.arrays.compact import compact, run_lengths, unique, unique_consecutive
    from portbar.arrays.reduce import reduce
    from portbar.arrays.scan import scan
    from portbar.arrays.sort import argsort, sort
    from portbar.arrays.task_graph import TaskGraph
    from portbar.arrays.worklist import Frontier, TaskQueue
    from portbar.backends.profile import DeviceProfile
    from portbar.choices.advice import Advice, advise
    from portbar.choices.profile import describe
    from portbar.choices.strategy import choose
    from portbar.device.facts import DeviceFacts
    from portbar.device.findings import Findings
    from portbar.device.icd import load_platforms
    from portbar.launching.export import render
    from portbar.launching.kernel import Kernel
    from portbar.launching.launch import Launch
    from portbar.launching.occupancy import Occupancy
    from portbar.launching.program import Program
    from portbar.primitives.reduction.loops import Reduction, ReductionLoop
    from portbar.primitives.reduction.operators import Operator
    from portbar.primitives.scan import DeviceScan
    from portbar.primitives.strategy import Choice, Strategy
    from portbar.recording.recorder import Steps, record
    from portbar.survey.measuring.probe import probe

#: The one place to set the version: setup.cfg reads it from here, and tests compare CITATION.cff with it.
__version__ = "1.1.0"

# In a checkout that was not installed, the two data packages lie beside this folder, not in it.
_folder = Path(__file__).resolve().parent
if not (_folder / "cl_templates").is_dir():
    __path__.append(str(_folder.parent))

#: Public name -> module that holds it.
_LAZY = {
    "Advice": "portbar.choices.advice",
    "Choice": "portbar.primitives.strategy",
    "DeviceFacts": "portbar.device.facts",
    "DeviceProfile": "portbar.choices.strategy",
    "DeviceScan": "portbar.primitives.scan",
    "Findings": "portbar.device.findings",
    "Frontier": "portbar.arrays.worklist",
    "Kernel": "portbar.launching.kernel",
    "Launch": "portbar.launching.launch",
    "Occupancy": "portbar.launching.occupancy",
    "Operator": "portbar.primitives.reduction.operators",
    "Program": "portbar.launching.program",
    "Reduction": "portbar.primitives.reduction.loops",
    "ReductionLoop": "portbar.primitives.reduction.loops",
    "Steps": "portbar.recording.recorder",
    "Strategy": "portbar.primitives.strategy",
    "TaskGraph": "portbar.arrays.task_graph",
    "TaskQueue": "portbar.arrays.worklist",
    "advise": "portbar.choices.advice",
    "argsort": "portbar.arrays.sort",
    "choose": "portbar.choices.strategy",
    "compact": "portbar.arrays.compact",
    "describe": "portbar.choices.profile",
    "load_platforms": "portbar.device.icd",
    "probe": "portbar.survey.measuring.probe",
    "record": "portbar.recording.recorder",
    "reduce": "portbar.arrays.reduce",
    "render": "portbar.launching.export",
    "run_lengths": "portbar.arrays.compact",
    "scan": "portbar.arrays.scan",
    "sort": "portbar.arrays.sort",
    "unique": "portbar.arrays.compact",
    "unique_consecutive": "portbar.arrays.compact",
}

__all__ = [
    "Advice",
    "BarrierTimeoutError",
    "BuildError",
    "Choice",
    "DeviceError",
    "DeviceFacts",
    "DeviceProfile",
    "DeviceScan",
    "DivergenceError",
    "Error",
    "Findings",
    "Frontier",
    "Kernel",
    "Launch",
    "LaunchError",
    "LoopLimitWarning",
    "MisuseError",
    "Occupancy",
    "Operator",
    "Program",
    "RecordError",
    "Reduction",
    "ReductionLoop",
    "RenderError",
    "Steps",
    "Strategy",
    "TaskGraph",
    "TaskQueue",
    "UnreadWarning",
    "UnreportedFaultWarning",
    "UnsupportedFeatureError",
    "__version__",
    "advise",
    "argsort",
    "choose",
    "compact",
    "describe",
    "load_platforms",
    "probe",
    "record",
    "reduce",
    "render",
    "run_lengths",
    "scan",
    "sort",
    "unique",
    "unique_consecutive",
]


# Hidden from type checkers, which would take it for a promise that every name exists.
if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        module = _LAZY.get(name)
        if module is None:
            raise AttributeError(f"module 'portbar' has no attribute {name!r}")
        value = getattr(importlib.import_module(module), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted(__all__)
