"""From text to a finished launch: programs, kernels, arguments, state, reports."""
