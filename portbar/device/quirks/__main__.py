"""Print the table as docs/quirks.md shows it."""

from portbar.device.quirks import markdown

print(markdown(), end="")
