"""Names of the barrier algorithms between work-groups.

Not for how a barrier works (the templates in `cl_templates/device_barrier`) nor for choosing one (`portbar.choices.strategy`).
"""

from __future__ import annotations

from typing import Final

#: Algorithms with a spin limit, the simplest first: those that may be chosen by measured times.
BOUNDED: Final = ("counter", "counter_backoff", "sharded", "replicated", "flag", "tree", "xf")

STRATEGIES: Final = (*BOUNDED, "intel_device_barrier")
