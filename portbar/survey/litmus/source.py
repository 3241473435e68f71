"""Writes the OpenCL C of litmus tests on top of `portbar/atomics.h`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

from portbar.rendering.templates import render_def
from portbar.survey.litmus.model import UNREAD, Litmus, Operation, Thread
from portbar.survey.litmus.patterns import FACTOR, PATTERNS
from portbar.survey.litmus.stress import DISTURBED, MOST_LOCATIONS, NUMBERS
from portbar.survey.litmus.tests import TESTS

_INCLUDE: Final = '#include "portbar/atomics.h"\n'
_TEMPLATE: Final = "litmus/instances.mako"
_INDENT: Final = " " * 16
#: The least number of polls of a rendezvous that always fails.
_LEAST_POLLS: Final = 256


def kernel_name(name: str) -> str:
    """Name of a test's kernel."""
    return f"portbar_litmus_{re.sub(r'[^a-z0-9]+', '_', name.lower())}"


def program_text(names: Sequence[str], local_sizes: Sequence[int], unroll: int = 1) -> str:
    """A program with the kernels of some tests and patterns, whose local memory is laid out for these `local_sizes`.

    `unroll` polls are in one iteration of a rendezvous.
    """
    common = {
        "number": NUMBERS,
        "disturbed": DISTURBED,
        "unroll": unroll,
        "least_polls": max(1, _LEAST_POLLS // unroll),
    }
    parts = [_INCLUDE, *(render_def(_TEMPLATE, name, common) for name in ("place", "meet", "disturb"))]
    for name, local_size in zip(names, local_sizes, strict=True):
        if name in PATTERNS:
            context = {"number": NUMBERS, "kernel_name": kernel_name(name), "factor": FACTOR}
            parts.append(render_def("litmus/patterns.mako", PATTERNS[name].definition, context))
        else:
            parts.append(_test_text(TESTS[name], local_size))
    return "\n".join(parts)


def collect_text() -> str:
    """A program with the kernel that packs outcomes; it needs no atomics."""
    context = {"number": NUMBERS, "unread": UNREAD, "most_locations": MOST_LOCATIONS}
    return "\n".join(render_def(_TEMPLATE, name, context) for name in ("place", "collect"))


def _test_text(test: Litmus, local_size: int) -> str:
    roles = [_role(test, number, thread) for number, thread in enumerate(test.threads)]
    context: dict[str, Any] = {
        "test": test,
        "kernel_name": kernel_name(test.name),
        "number": NUMBERS,
        "threads": len(test.threads),
        "roles": "\n".join(roles),
        "unread": UNREAD,
        "arena": 2 * len(test.locations) * max(1, local_size // len(test.threads)),
    }
    return render_def(_TEMPLATE, "across" if test.across_groups else "within", context)


def _role(test: Litmus, number: int, thread: Thread) -> str:
    own = [op.register for op in thread if op.register >= 0]
    lines = [f"uint {', '.join(f'r{k} = {UNREAD}u' for k in own)};"] if own else []
    lines += [_statement(test, op) for op in thread]
    lines += [f"regs[{k}u * (rounds * teams) + i] = r{k};" for k in own]
    body = "\n".join(_INDENT + line for line in lines)
    start = _INDENT[4:]
    return f"{start}case {number}u: {{\n{body}\n{_INDENT}break;\n{start}}}"


def _object(test: Litmus, location: str) -> str:
    """A location as an lvalue."""
    if location in test.together:
        kind = {8: "uchar", 16: "ushort"}[test.bits]
        return f"((global {kind} *)(mem + {test.together[0]}))[{test.together.index(location)}]"
    return f"{'arena' if test.space == 'local' else 'mem'}[{location}]"


def _statement(test: Litmus, op: Operation) -> str:
    word = _object(test, op.location)
    how = f"memory_order_{op.order}, memory_scope_{test.scope}"
    if op.kind == "fence":
        return f"portbar_atomic_work_item_fence(CLK_{test.space.upper()}_MEM_FENCE, {how});"
    if op.order == "plain":
        call = word if op.kind == "load" else f"{word} = {op.value}u"
    else:
        name = {"add": "fetch_add"}.get(op.kind, op.kind)
        value = "" if op.kind == "load" else f" {op.value}u,"
        call = f"portbar_atomic_{name}_explicit(&{word},{value} {how})"
    if op.register >= 0:
        call = f"r{op.register} = {call}"
    elif op.kind in {"exchange", "add"}:
        call = f"(void){call}"
    if op.guard is not None:
        call = f"if (r{op.guard[0]} == {op.guard[1]}u)\n{_INDENT}    {call}"
    return f"{call};"
