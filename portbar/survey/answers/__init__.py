"""Short programs of every primitive, whose results NumPy knows: whether a device computes what portbar promises."""
