"""The measurements of a device, and their source."""
