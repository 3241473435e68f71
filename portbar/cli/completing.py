"""What a shell offers for `--device` and for records: devices seen before and records that come with portbar.

Nothing here loads PyOpenCL or a driver: a key press should not wait for them. Not for choosing devices
(`portbar.cli.shared`) nor for the script that a shell reads (`portbar.cli.completion`).
"""

from __future__ import annotations

import importlib.resources
import json
import re
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from click.shell_completion import BashComplete, CompletionItem, add_completion_class

from portbar import cache

if TYPE_CHECKING:
    from collections.abc import Iterable

    import click

    from portbar.device import DeviceAddress

#: Letters that a word must have to be offered as a selector: shorter ones are versions and fillers.
_LEAST_WORD = 4


def _memory() -> Path | None:
    folder = cache.cache_dir()
    return None if folder is None else folder / "seen" / "devices.json"


def remember(addresses: Iterable[DeviceAddress]) -> None:
    """Keep which devices there are for the next completion; a cache that cannot be written changes nothing."""
    path = _memory()
    if path is None:
        return
    content = json.dumps([address.to_json() for address in addresses], indent=1).encode()
    with suppress(OSError):
        if path.exists() and path.read_bytes() == content:
            return
        cache.write_atomically(path, content)


def _seen() -> list[dict[str, Any]]:
    """The devices of the last listing; empty before the first."""
    path = _memory()
    try:
        entries = [] if path is None else json.loads(path.read_text(encoding="utf-8"))
        return [
            {
                "number": f"{int(entry['platform_index'])}:{int(entry['device_index'])}",
                "device": str(entry["device_name"]),
                "platform": f"{entry['platform_name']} {entry['platform_version']}".partition(",")[0],
            }
            for entry in entries
        ]
    except (OSError, ValueError, KeyError, TypeError):
        return []


def devices(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem[str]]:
    """Values of `--device`: the numbers of the devices seen last, and words of names that choose some of them."""
    seen = _seen()
    offered = [
        CompletionItem(one["number"], help=_plain(f"{one['device']} ({one['platform']})"))
        for one in seen
        if one["number"].startswith(incomplete)
    ]
    if not incomplete or not incomplete[0].isalpha():
        return offered
    titles = [f"{one['platform']}\n{one['device']}".lower() for one in seen]
    words = {word for title in titles for word in re.findall(r"[a-z]\w+", title) if len(word) >= _LEAST_WORD}
    for word in sorted(word for word in words if word.startswith(incomplete.lower())):
        chosen = [one for one, title in zip(seen, titles, strict=True) if word in title]
        if len(chosen) < len(seen) or len(seen) == 1:
            offered.append(CompletionItem(word, help=_plain(", ".join(one["device"] for one in chosen))))
    return offered


def records(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem[str]]:
    """Names of records: those that come with portbar, and JSON files; any file where none of them fits."""
    shipped = [
        entry.name.removesuffix(".json")
        for entry in importlib.resources.files("portbar.vendor_matrix").iterdir()
        if entry.name.endswith(".json")
    ]
    here: list[str] = []
    with suppress(OSError):
        here = [path.name for path in Path().glob("*.json")]
    fitting = sorted(name for name in (*shipped, *here) if name.startswith(incomplete))
    return [CompletionItem(name) for name in fitting] or [CompletionItem(incomplete, type="file")]


def _plain(text: str) -> str:
    """A text that is one line and no part of what shells take apart."""
    return " ".join(text.replace(",", " ").split())


class _Bash(BashComplete):
    """Bash's completion for values with a colon, such as `1:0`, which bash hands over in three words."""

    _before_colon = ""

    def get_completion_args(self) -> tuple[list[str], str]:
        args, incomplete = super().get_completion_args()
        words = [*args, incomplete]
        if incomplete == "" and args and args[-1] == ":":
            words.pop()
        joined: list[str] = []
        for index, word in enumerate(words):
            before = words[index - 1] if index else ""
            goes_on = joined and (
                (word == ":" and joined[-1].isdigit()) or (before == ":" and joined[-1].endswith(":"))
            )
            if goes_on:
                joined[-1] += word
            else:
                joined.append(word)
        *args, incomplete = joined
        # Bash replaces what follows the last colon only.
        self._before_colon = incomplete[: incomplete.rfind(":") + 1]
        return args, incomplete

    def format_completion(self, item: CompletionItem[str]) -> str:
        return f"{item.type},{str(item.value).removeprefix(self._before_colon)}"


def register() -> None:
    """Let click use this module's way of completing in bash."""
    add_completion_class(_Bash)
