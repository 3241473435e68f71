"""The task of a child process that runs one program."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyopencl as cl

from portbar.errors import UnsupportedFeatureError
from portbar.survey.answers.program import Desk, faults
from portbar.survey.answers.table import ANSWERS
from portbar.survey.measuring.session import context_of


def answer(payload: dict[str, Any]) -> dict[str, Any]:
    """Run a program and compare its results with NumPy's.

    Payload: `address` and `findings` of the device, the name of the `program`, and a `seed`. The answer has `refused`, why
    portbar does not run it there; or `wrong`, the differences in words, and `groups`, the work-groups of its grid or None.
    """
    name = payload["program"]
    context = context_of(payload)
    queue = cl.CommandQueue(context)
    desk = Desk(queue, np.random.default_rng([int(payload["seed"]), list(ANSWERS).index(name)]))
    try:
        return {"wrong": faults(list(ANSWERS[name].run(desk))), "groups": desk.groups}
    except UnsupportedFeatureError as error:
        return {"refused": str(error)}
