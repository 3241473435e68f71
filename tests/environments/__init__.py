"""Systems that portbar is tried on beyond this machine: `python -m tests.environments NAME` makes one and runs it."""
