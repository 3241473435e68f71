"""Runs the applications, each both ways: `python -m examples.applications [NAME ...] [--platform P] [--size N | --graph G]`."""

from __future__ import annotations

import argparse
import time

import pyopencl as cl

import portbar
from examples.applications import ALL
from examples.applications.inputs import FAMILIES, InputError, OnGraph, named


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
    graphs = f"a Matrix Market file, debian, {', '.join(f'{family}:SIZE' for family in FAMILIES)}"
    parser.add_argument("--graph", help=f"for the applications on graphs: {graphs} (default: made by size)")
    options = parser.parse_args()
    if unknown := set(options.names) - set(ALL):
        parser.error(f"no application is called {', '.join(sorted(unknown))}; there are {', '.join(ALL)}")
    for name in options.names or ALL:
        if options.size is not None and options.size not in ALL[name].allowed:
            parser.error(f"--size of {name} must be in {ALL[name].allowed}, and is {options.size}")
    try:
        graph = None if options.graph is None else named(options.graph)
    except InputError as error:
        raise SystemExit(str(error)) from None
    context = make_context(options.platform)
    device = context.devices[0]
    if portbar.describe(device).findings is None:
        portbar.probe(device)  # once per device and driver: the results are stored
    queue = cl.CommandQueue(context)
    print(f"{device.name.strip()}:")
    for name in options.names or ALL:
        made = ALL[name]
        size: int | str = options.size or made.sizes[0]
        if graph is None:
            problem = made(queue, size)
        elif issubclass(made, OnGraph):
            problem = made(queue, len(graph[0]) - 1, graph)
            size = f"{options.graph}, {problem.n} vertices and {len(problem.to)} edges"
        elif options.names:
            parser.error(f"{name} has no graph")
        else:
            continue
        times = []
        for way in (problem.in_one_kernel, problem.by_relaunching, problem.by_barriers):
            if (found := way()) is None:
                continue
            problem.check(found)  # the first run pays for what the driver prepares once
            begin = time.perf_counter()
            way()
            times.append(time.perf_counter() - begin)
        ours, theirs, *others = (seconds / problem.steps * 1e6 for seconds in times)
        barriers = "".join(f", {other:.1f} us by barriers" for other in others)
        print(
            f"  {name} of {size}: {ours:.1f} us a step in one kernel, {theirs:.1f} us by launches{barriers} "
            f"({problem.steps} steps)"
        )


if __name__ == "__main__":
    main()
