"""Loads Mako templates and renders one def at a time, so that a failure shows that def and nothing else.

Mako itself is imported by the first template: where each text is remembered from an earlier process, nothing needs it.
"""

from __future__ import annotations

import importlib.resources
import re
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from portbar.errors import RenderError

if TYPE_CHECKING:
    import mako.template

#: Begins a part or a group in the text of a def; the rest of the line says which. No template has this character.
BEGIN: Final = "\x1e"
_MARK: Final = rf"{BEGIN}.*\n?"
#: A line of a template that says what a part defines, or where a group begins or ends.
_STATIC: Final = r'\$\{(?:defines\(((?:"\w+"(?:, )?)*)\)|(group|end)\(\))\}'

_NAME: Final = r"[a-z0-9_]+(?:/[a-z0-9_]+)*\.mako"


def has_def(name: str, def_name: str) -> bool:
    """Whether there is a template of this name, and the def in it."""
    try:
        return bool(_template(name).has_def(def_name))
    except RenderError:
        return False


def fragment(name: str, def_name: str, context: Mapping[str, Any]) -> str:
    """Return the lines that a def renders, for use within another one; nothing if it renders none."""
    text = render_def(name, def_name, context)
    return text if text.strip() else ""


@cache
def _source(name: str) -> str:
    if Path(name).is_absolute() and name.endswith(".mako"):
        return Path(name).read_text(encoding="utf-8")
    if not re.fullmatch(_NAME, name):
        raise RenderError(
            f"{name!r} is not a template name: lower-case letters, digits and _ in folders separated by /, ending in .mako"
        )
    try:
        return importlib.resources.files("portbar.cl_templates").joinpath(*name.split("/")).read_text(encoding="utf-8")
    except (FileNotFoundError, NotADirectoryError):
        raise RenderError(f"portbar has no template {name!r}; its installation may be incomplete") from None


@cache
def _template(name: str) -> mako.template.Template:
    import mako.exceptions  # noqa: PLC0415 (takes long to import)
    import mako.lookup  # noqa: PLC0415
    import mako.template  # noqa: PLC0415

    class Templates(mako.lookup.TemplateCollection):  # type: ignore[misc]
        """Finds the templates that others use, by the same names."""

        def get_template(self, uri: str, relativeto: str | None = None) -> mako.template.Template:  # noqa: ARG002
            return _template(uri)

    source = _source(name)
    try:
        return mako.template.Template(text=_with_marks(source), strict_undefined=True, uri=name, lookup=Templates())
    except mako.exceptions.MakoException as error:
        raise RenderError(f"template {name!r} cannot be read: {error}") from error


def _numbered_def(name: str, def_name: str) -> str:
    """The text of one def with the line numbers it has in its file."""
    lines = _source(name).splitlines()
    shown: list[str] = []
    for number, line in enumerate(lines, start=1):
        if shown or f'<%def name="{def_name}(' in line:
            shown.append(f"{number:4d} | {line}")
        if shown and "</%def>" in line:
            break
    return "\n".join(shown)


def begins(kind: str, names: Iterable[str] = (), of: str = "") -> str:
    """The mark where a part of a text or a group of parts begins, for the rest of its line. See `portbar.rendering.parts`."""
    return f"{BEGIN}{kind} {' '.join(names)}:{of}"


#: The functions of templates that `portbar.rendering.parts` explains.
_FUNCTIONS: Final[Mapping[str, Callable[..., Any]]] = {
    "defines": lambda *names, of="": begins("defines", names, of),
    "feature": lambda name: f"{begins('feature', (name,))}\n#define {name} 1",
    "group": lambda: begins("group"),
    "end": lambda: begins("end"),
    "reached": lambda _: True,
}


def _with_marks(source: str) -> str:
    """A template's text with the marks whose names it spells out, as these functions would write them.

    Mako compiles text faster than expressions: with these, a barrier's templates would take 25% longer.
    """

    def mark(found: re.Match[str]) -> str:
        return begins(found[2]) if found[2] else begins("defines", re.findall(r"\w+", found[1]))

    return re.sub(_STATIC, mark, source)


def render_def(name: str, def_name: str, context: Mapping[str, Any]) -> str:
    """Render the def `def_name` of the template `name` with the names in `context`; undefined names are errors.

    Names are paths below `cl_templates`, or absolute paths of templates outside of portbar. A `RenderError` has the text of
    the failing def, numbered as in its file, and the names that it was given.
    """
    text = re.sub(_MARK, "", marked(name, def_name, context))
    return text.strip("\n") + "\n"


def marked(name: str, def_name: str, context: Mapping[str, Any]) -> str:
    """As `render_def`, with marks where parts begin, for use within another def that is made of parts."""
    template = _template(name)
    if not template.has_def(def_name):
        raise RenderError(f"template {name!r} has no def {def_name!r}")
    try:
        text = template.get_def(def_name).render(**{**_FUNCTIONS, **context})
    except Exception as error:
        raise RenderError(
            f"def {def_name!r} of template {name!r} failed: {type(error).__name__}: {error}\n"
            f"{_numbered_def(name, def_name)}\ngiven: {', '.join(sorted(context))}"
        ) from error
    return str(text)
