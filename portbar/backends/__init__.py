"""Backends: a module for each way to do atomics, and for the units that run work-groups."""
