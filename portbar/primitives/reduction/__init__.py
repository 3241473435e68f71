"""Reductions inside kernels, at OpenACC's three levels, and of whole arrays from the host.

What users need is exported from `portbar` itself.
"""
