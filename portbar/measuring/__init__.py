"""What runs kernels to learn from them: rounds and samples, barrier times, probes."""
