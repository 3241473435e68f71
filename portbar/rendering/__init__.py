"""OpenCL C for a device: headers, includes resolved, export for other hosts."""
