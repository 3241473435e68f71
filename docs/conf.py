"""Sphinx settings of portbar's documentation; building it fetches nothing and runs no kernel."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from portbar import __version__

project = "portbar"
author = "The portbar developers"
copyright = author  # noqa: A001 (Sphinx's own name)
version = release = __version__
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
exclude_patterns = ["_build"]
html_theme = "furo"
html_title = f"portbar {release}"
highlight_language = "none"
myst_enable_extensions = ["deflist"]
myst_heading_anchors = 3
autodoc_member_order = "bysource"
autodoc_typehints = "none"
# Address spaces of OpenCL C in declarations of functions.
c_id_attributes = ["global", "local", "private", "constant"]
napoleon_google_docstring = False
napoleon_use_ivar = True
