"""Where the lines of a text come from: the author's own files, by `#line`."""

from __future__ import annotations

import bisect
import re
from typing import Final

from portbar.rendering.source import without_comments

_DIRECTIVE: Final = re.compile(
    r'^[ \t]*#[ \t]*(?:line[ \t]+)?(?P<number>\d+)(?:[ \t]+"(?P<name>[^"\n]*)")?[^\n]*', re.MULTILINE
)


class Places:
    """The file and the line that each line of a text is in messages.

    Parameters
    ----------
    text : str
    name : str
        The name of the file before the first `#line` that has one.
    """

    def __init__(self, text: str, name: str) -> None:
        # Lines of the text after which the author's are counted anew, and the name and the number that the next line has.
        self._lines, self._origins = [0], [(name, 1)]
        if _DIRECTIVE.search(text) is None:
            return
        counted, line = 0, 1
        for found in _DIRECTIVE.finditer(without_comments(text)):
            line += text.count("\n", counted, found.start())
            counted = found.start()
            name = name if found["name"] is None else found["name"]
            self._lines.append(line)
            self._origins.append((name, int(found["number"])))

    @property
    def names(self) -> set[str]:
        """The names of all files."""
        return {name for name, _ in self._origins}

    def __getitem__(self, line: int) -> tuple[str, int]:
        """The name of the file and the line there of a 1-based line of the text."""
        last = bisect.bisect_left(self._lines, line) - 1
        name, number = self._origins[last]
        return name, number + line - self._lines[last] - 1

    def directive(self, line: int) -> str:
        """The `#line` that gives the line after it the place of a 1-based line of the text."""
        name, number = self[line]
        quoted = name.replace("\\", "/").replace('"', "'").replace("\n", " ")
        return f'#line {number} "{quoted}"\n'

    def shown(self, line: int) -> str:
        """A 1-based line of the text as messages name it."""
        name, number = self[line]
        return f"{name}, line {number}"
