"""The primitives and their variants on a device: atomics, split barriers, reductions, and the words of the state."""
