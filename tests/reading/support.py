"""Programs of several files by chance, and what a compiler's preprocessor makes of a text."""

from __future__ import annotations

import os
import random
import re
import subprocess
from pathlib import Path

#: Macros that only the driver knows.
HIDDEN = ("DRIVER_A", "DRIVER_B")
_OWN = ("A", "B", "C")
_MARKER = re.compile(r'# (\d+) "([^"]*)"')


def preprocessed(clang: str, folder: Path, text: str, options: list[str]) -> list[tuple[str, int, str]]:
    """The lines of code that clang compiles of a text in a folder, with their files and lines."""
    (folder / "program.cl").write_text(text)
    command = [clang, "-E", "-x", "cl", "-w", *options, "program.cl"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=180, check=False)
    assert done.returncode == 0, done.stderr
    name, line = "", 0
    found = []
    for one in done.stdout.split("\n"):
        marker = _MARKER.match(one)
        if marker:
            name, line = os.path.normpath(marker[2]), int(marker[1])
            continue
        if one.strip():
            found.append((name, line, " ".join(one.split())))
        line += 1
    return found


class Generator:
    """Files that include each other, with guards or without, under conditions of all kinds."""

    def __init__(self, seed: int, folder: Path) -> None:
        self._random = random.Random(seed)  # noqa: S311 (test data)
        self._token = 0
        self._folder = folder
        self.names = ["beside.h", "inc/one.h", "inc/two.h", "inc/sub/three.h", "more/four.h"]
        self.options = ["-I", "inc", "-Imore", "-I", "."]
        for macro in _OWN:
            if self._random.random() < 0.3:
                self.options += [f"-D{macro}={self._random.randrange(4)}"]

    def program(self) -> str:
        """Write the files; the text of the program."""
        for number, name in enumerate(self.names):
            kind = self._random.choice(("guard", "once", "late once", "plain"))
            later = self.names if kind != "plain" else self.names[number + 1 :]
            text = self._block(later, 2)
            if kind == "guard":
                text = f"#ifndef G{number}\n#define G{number}\n{text}#endif // G{number}\n"
            elif kind == "once":
                text = f"#pragma once\n{text}"
            elif kind == "late once":
                text = f"{self._block([], 1)}# pragma once /* late */\n{text}"
            path = self._folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(text.replace("\n", self._random.choice(("\n", "\r\n"))).encode("latin-1"))
        return self._block(self.names, 3)

    def _block(self, names: list[str], depth: int) -> str:
        return "".join(self._line(names, depth) for _ in range(self._random.randrange(1, 5)))

    def _line(self, names: list[str], depth: int) -> str:
        pick = self._random.randrange(10)
        own = self._random.choice(_OWN)
        if pick < 3 and names:
            return self._include(names)
        if pick < 5 and depth:
            return self._conditional(names, depth)
        if pick == 5:
            return f"#define {own} {self._random.randrange(4)}\n"
        if pick == 6:
            return f"#undef {own}\n"
        self._token += 1
        forms = ("t{}\n", "/* caf\xe9\n */ t{} {}\n", "t{} \\\n  more\n", "t{} \"#include 'x'\" // it's\n")
        return self._random.choice(forms).replace("{}", str(self._token))

    def _include(self, names: list[str]) -> str:
        name = self._random.choice(names)
        short = name.partition("/")[2] or name
        forms = [
            f'#include "{short}"\n',
            f'  #  include /* of */ "{short}" // too\n',
            f'#include "{short}" /* two\nlines */\n',
        ]
        if "/" in name:
            forms += [f"#include <{short}>\n", f"#define NAME <{short}>\n#include NAME\n"]
        return self._random.choice(forms)

    def _condition(self) -> str:
        own, other = self._random.choice(_OWN), self._random.choice(HIDDEN)
        return self._random.choice(
            (
                f"defined({own})",
                f"!defined {own}",
                f"defined {other}",
                f"{own} == {self._random.randrange(4)}",
                f"{own} + 1 < 3 && !{other}",
                f"({own} ? {other} : 1) || defined({own}) \\\n && 0",
                "0",
                "1",
                "-1 > 0u",
                f"__has_include(<{self._random.choice(('one.h', 'missing.h'))}>)",
            )
        )

    def _conditional(self, names: list[str], depth: int) -> str:
        own, any_of = self._random.choice(_OWN), self._random.choice((*_OWN, *HIDDEN))
        first = self._random.choice((f"#if {self._condition()}", f"#ifdef {any_of}", f"#ifndef {own}"))
        text = f"{first}\n{self._block(names, depth - 1)}"
        if self._random.random() < 0.4:
            text += f"#elif {self._condition()} // or\n{self._block(names, depth - 1)}"
        if self._random.random() < 0.5:
            text += f"#else\n{self._block(names, depth - 1)}"
        return f"{text}#endif /* of\n it */\n"
