"""Devices: finding them, their facts, whether they work, their faults."""
