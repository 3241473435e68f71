"""Reductions inside kernels, at OpenACC's three levels, and of whole arrays from the host.

The public names are exported from `portbar` itself.
"""
