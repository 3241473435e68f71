"""Records of what devices were measured to do, installed with the package as data."""
