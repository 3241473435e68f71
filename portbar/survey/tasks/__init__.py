"""What the survey's steps run on a device, in child processes."""
