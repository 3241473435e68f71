"""Print the table as docs/quirks.md shows it, or with `--tests` the commands that docs/verification.md lists."""

import sys

from portbar.device.quirks import markdown, tests_markdown

print(tests_markdown() if "--tests" in sys.argv[1:] else markdown(), end="")
