"""Occupancy discovery: which work-groups of a launch are resident at the same time, and so take part in its grid."""
