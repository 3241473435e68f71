"""Programs that launch unmodified kernels in loops, recorded and replayed in one kernel."""
