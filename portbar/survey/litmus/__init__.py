"""Litmus tests: whether a device's atomics, as portbar writes them, order memory as OpenCL's memory model says."""

from portbar.survey.litmus.checking import CheckResult, check, store_verdicts

__all__ = ["CheckResult", "check", "store_verdicts"]
