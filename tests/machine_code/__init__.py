"""Machine code for GPUs that this machine lacks: compiled, read and held to expectations; `python -m tests.machine_code`."""
