"""Texts of OpenCL C: the author's source, templates, and what a source reaches of them."""

from __future__ import annotations

#: A template, as a path below `cl_templates`, and the name of a def in it.
Piece = tuple[str, str]
