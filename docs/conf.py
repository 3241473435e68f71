"""Sphinx settings of portbar's documentation; building it fetches nothing and runs no kernel."""

import re
import sys
from pathlib import Path
from typing import Any

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
# The page of quirks has definition lists, which a command prints.
myst_enable_extensions = ["deflist"]
myst_heading_anchors = 3
autodoc_member_order = "bysource"
autodoc_typehints = "none"
napoleon_google_docstring = False
napoleon_use_ivar = True


def toctrees(_app: Any, name: str, source: list[str]) -> None:
    """Add to the index a table of contents of the lists under "All pages", so that it reads as plain Markdown as well."""
    if name != "index":
        return
    for caption, links in re.findall(r"^### (.*)\n\n((?:- .*\n)+)", source[0], re.MULTILINE):
        pages = "\n".join(re.findall(r"\]\((\w+)\.\w+\)", links))
        source[0] += f"\n```{{toctree}}\n:caption: {caption}\n:hidden:\n\n{pages}\n```\n"


def setup(app: Any) -> None:
    """Called by Sphinx."""
    app.connect("source-read", toctrees)
