"""What a device is: finding it, its facts, whether it works, what it gets wrong."""
