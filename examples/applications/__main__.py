"""Runs the applications, each both ways: `python -m examples.applications [NAME ...] [--platform "PoCL 3.1"] [--size N]`."""

from __future__ import annotations

import argparse
import time

import pyopencl as cl

import portbar
from examples.applications import ALL


def make_context(platform: str | None) -> cl.Context:
    """A context on the platform that is named, or the one that PyOpenCL picks (PYOPENCL_CTX chooses)."""
    platforms = portbar.load_platforms()
    if platform is None:
        return cl.create_some_context(interactive=False)
    for found in platforms:
        if platform.lower() in f"{found.name} {found.version}".lower():
            return cl.Context(found.get_devices()[:1])
    raise SystemExit(f"no OpenCL platform is like {platform!r}")


def main() -> None:
    """Solve each problem both ways, check, and print."""
    parser = argparse.ArgumentParser(prog="python -m examples.applications", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(ALL)} (default: all)")
    parser.add_argument("--platform", help="part of an OpenCL platform's name and version")
    parser.add_argument("--size", type=int, help="as the application counts it (default: its smallest)")
    options = parser.parse_args()
    if unknown := set(options.names) - set(ALL):
        parser.error(f"no application is called {', '.join(sorted(unknown))}; there are {', '.join(ALL)}")
    context = make_context(options.platform)
    device = context.devices[0]
    if portbar.describe(device).findings is None:
        portbar.probe(device)  # once for each device and driver: what was found is kept
    queue = cl.CommandQueue(context)
    print(f"{device.name.strip()}:")
    for name in options.names or ALL:
        size = options.size or ALL[name].sizes[0]
        problem = ALL[name](queue, size)
        times = []
        for way in (problem.in_one_kernel, problem.by_relaunching):
            problem.check(way())  # the first run pays for what the driver prepares once
            begin = time.perf_counter()
            way()
            times.append(time.perf_counter() - begin)
        ours, theirs = (seconds / problem.steps * 1e6 for seconds in times)
        print(
            f"  {name} of {size}: {ours:.1f} us a step in one kernel, {theirs:.1f} us by launches ({problem.steps} steps)"
        )


if __name__ == "__main__":
    main()
