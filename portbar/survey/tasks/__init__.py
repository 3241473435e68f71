"""The tasks of the survey's steps, which run on a device in child processes."""
