"""What was measured of a device, and where that comes from."""
