"""Launches of unmodified kernels, recorded and replayed in one kernel with device barriers between dependent steps."""
