"""Measurements by running kernels: rounds and samples, barrier times, probes."""
