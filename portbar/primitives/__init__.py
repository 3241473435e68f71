"""What each primitive offers on a device: atomics, split barriers, reductions, and the words of the state."""
