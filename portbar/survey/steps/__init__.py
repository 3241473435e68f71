"""The steps of a survey. Running, printing, comparing and reporting all use this list."""

from __future__ import annotations

from portbar.survey.steps.answers import AnswersStep
from portbar.survey.steps.arrays import ArraysStep
from portbar.survey.steps.atomics import AtomicsStep
from portbar.survey.steps.barrier import BarrierStep
from portbar.survey.steps.litmus import LitmusStep
from portbar.survey.steps.occupancy import OccupancyStep
from portbar.survey.steps.reduction import ReductionStep
from portbar.survey.steps.split_barrier import SplitBarrierStep
from portbar.survey.steps.step import Step

#: In the order in which they are shown. A step from outside of portbar may be added and taken away again.
STEPS: list[Step] = [
    OccupancyStep(),
    BarrierStep(),
    LitmusStep(),
    AtomicsStep(),
    SplitBarrierStep(),
    ReductionStep(),
    AnswersStep(),
    ArraysStep(),
]


def in_turn(*, quick: bool, share: bool = False) -> list[Step]:
    """The steps in the order in which they are run; with `share`, also those of a survey to be sent in."""
    return sorted((step for step in STEPS if share or not step.share_only), key=lambda step: step.turn(quick=quick).at)
