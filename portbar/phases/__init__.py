"""Unmodified kernels as parts of another kernel: each a function of the same body, whose work-items a grid shares."""
