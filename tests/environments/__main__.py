"""Make an environment in a folder, run portbar there, and print the outcome of each step; status 1 where one is not right."""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

from tests.environments.page import keep, keep_wheels, load, load_wheels, summary, write
from tests.environments.running import STEPS, bounded, tried
from tests.environments.table import ENVIRONMENTS, PRIMITIVES
from tests.environments.wheels import asked_now

_FOLDER = "/var/tmp"  # noqa: S108


def main() -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(prog="python -m tests.environments", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(ENVIRONMENTS))
    # Trees are too large for a temporary folder in memory; mkdtemp makes a folder of its own there.
    parser.add_argument(
        "--in", dest="folder", default=_FOLDER, help="make the trees in this folder (default: %(default)s)"
    )
    parser.add_argument("--keep-outcome", action="store_true", help="write the outcomes to the data file and the pages")
    parser.add_argument("--quick", action="store_true", help="no survey, and one test of each primitive")
    parser.add_argument("--leave", action="store_true", help="leave the folder of each environment, and print its name")
    parser.add_argument("--again", metavar="FOLDER", help="run in a folder that --leave left, with this checkout")
    parser.add_argument(
        "--only", action="append", default=[], choices=[*STEPS, *PRIMITIVES], help="with --again: run only this step"
    )
    parser.add_argument("--page", action="store_true", help="write the pages anew from the data file")
    parser.add_argument("--wheels", action="store_true", help="ask pip which packages have no wheel on which platform")
    arguments = parser.parse_args()
    if unknown := [name for name in arguments.names if name not in ENVIRONMENTS]:
        parser.error(f"unknown: {', '.join(unknown)}; the environments are {', '.join(ENVIRONMENTS)}")
    if arguments.quick and arguments.keep_outcome:
        parser.error("the page is of whole runs: --keep-outcome without --quick")
    if arguments.again and len(arguments.names) != 1:
        parser.error("--again takes one environment")
    if arguments.only and not arguments.again:
        parser.error("--only is for a folder that was run in before: --again FOLDER")
    if arguments.wheels:
        keep_wheels(asked_now())
    if arguments.page:
        write(load(), wheels=load_wheels())
    # As Ctrl-C, so that what runs ends and the folder goes.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    wrong = False
    for name in arguments.names:
        print(f"== {name}: {ENVIRONMENTS[name].title}", flush=True)
        folder = Path(arguments.again or tempfile.mkdtemp(prefix="portbar-environment-", dir=arguments.folder))
        try:
            environment = replace(ENVIRONMENTS[name], most=1) if arguments.quick else ENVIRONMENTS[name]
            entry = tried(environment, folder, quick=arguments.quick, only=arguments.only)
        finally:
            if arguments.leave or arguments.again:
                print(folder)
            else:
                # Mounts are private and have ended; one that had not would be another file system.
                bounded(["rm", "-rf", "--one-file-system", str(folder)], 300)
        print(f"== {name}: {summary(entry)} after {entry['seconds']} s", flush=True)
        wrong |= summary(entry).startswith("not right")
        if arguments.keep_outcome:
            keep(name, entry, whole=not arguments.only)
    return int(wrong)


if __name__ == "__main__":
    sys.exit(main())
