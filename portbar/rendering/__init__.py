"""Texts of OpenCL C: the author's source, templates, and what a source reaches of them."""
