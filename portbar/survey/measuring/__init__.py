"""Measurements by running kernels: the modules `atomics` to `split_barrier` for the steps of a survey, and the probe."""
