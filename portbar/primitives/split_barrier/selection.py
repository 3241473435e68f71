"""What `portbar/split_barrier.h` carries with each strategy, and which strategy a device gets.

Not for how a barrier works (the templates in `cl_templates/split_barrier`).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from portbar.errors import UnsupportedFeatureError
from portbar.text.source import without_comments

if TYPE_CHECKING:
    from portbar.device.facts import DeviceFacts
    from portbar.findings.findings import Findings

STRATEGIES: Final = ("mbarrier", "counter", "uniform")

#: Use beyond waits that all work-items of a group reach -> what it is. Programs declare it by
#: `require=("split_barrier.divergent",)`.
FEATURES: Final = {
    "divergent": "waits that not all work-items of the group reach",
    "subset": "barriers in which only some work-items of the group take part",
    "sub_groups": "waits that some sub-groups do not reach, the work-items of a sub-group together",
    "spin": "loops that repeat test_wait or try_wait until it is true",
    "overlapping": "more than one arrival of a work-item that it has not waited for",
}

#: Largest expected and pending count, PTX's and SYCL's.
MAX_COUNT: Final = (1 << 20) - 1

#: Faults that a debug build finds -> number, and how it is printed.
FAULTS: Final = {
    "OVER_EXPECTED": (1, "an arrival over the expected count"),
    "COMPLETED": (2, "an arrive_no_complete completed the phase"),
    "STALE_TOKEN": (3, "a wait with the token of an older phase"),
    "INVALID": (4, "use before initialize or after invalidate"),
    "NOT_COMPLETE": (5, "all work-items wait for a phase that lacks arrivals"),
}

#: Calls that show counts; without any of them, a strategy whose waits are group-wide need not count. `({` is an expression
#: whose value may be that of a statement in it.
_OBSERVERS: Final = re.compile(
    r"portbar_split_barrier_(?:test_wait|try_wait|wait_parity|pending_count)|##|#\s*include\s*[\"<](?!portbar/)|\(\s*\{"
)

#: Waits, whose answer shows counts unless the program drops it.
_WAIT: Final = re.compile(r"portbar_split_barrier_(?:arrive_and_)?wait\b")

#: What stands before a statement.
_BEFORE_STATEMENT: Final = re.compile(r"(?:\A|[;{}]|\belse|\bdo)\Z")


def carried(strategy: str, findings: Findings | None) -> tuple[str, ...]:
    """The features that a strategy carries on a device, in the order of `FEATURES`."""
    if strategy == "mbarrier":
        return tuple(FEATURES)
    if strategy == "uniform":
        return ("overlapping",)
    return tuple(FEATURES) if _progress(findings, "lanes") else ("sub_groups", "overlapping")


def judge(strategy: str, facts: DeviceFacts, findings: Findings | None) -> tuple[bool, str]:
    """Whether a device can have a strategy, and the reason either way."""
    if strategy == "mbarrier":
        builds = findings.builds if findings is not None else {}
        if "mbarrier" in builds:
            return builds["mbarrier"], "the PTX compile probe " + ("passed" if builds["mbarrier"] else "failed")
        if facts.compute_capability >= 80:
            return True, "compute capability 8.0 or later has mbarrier; not yet probed here"
        return False, "no PTX of compute capability 8.0 or later"
    if strategy == "counter":
        for who, what in (("lanes", "work-items"), ("sub_groups", "sub-groups")):
            if _progress(findings, who):
                return True, f"the progress probe saw {what} progress while others of their group wait"
        return False, "the progress probe has not seen work-items progress while others of their group wait"
    return True, "a group-wide barrier() at each wait is right on every device"


def select(
    facts: DeviceFacts, findings: Findings | None, wanted: str | None = None, *, debug: bool = False
) -> tuple[str, str]:
    """The strategy for a device, and the reason.

    Raises
    ------
    UnsupportedFeatureError
        The one that is wanted cannot be had.
    """
    if wanted is not None:
        allowed, reason = judge(wanted, facts, findings)
        if not allowed:
            raise UnsupportedFeatureError(f"{facts.name}: split barrier strategy {wanted} was asked for, but {reason}")
        return wanted, f"asked for; {reason}"
    for name in ("counter", "uniform") if debug else ("mbarrier", "counter", "uniform"):
        allowed, reason = judge(name, facts, findings)
        if allowed:
            return name, reason + ("; a debug build counts in software" if debug and name == "counter" else "")
    raise AssertionError("uniform is right on every device")


def shows_counts(source: str, options: tuple[str, ...] = ()) -> bool:
    """Whether a program may look at counts of arrivals.

    It may by a call that shows them, by the answer of a wait unless the call is a statement of its own, by a name made of
    pieces, or in a file that is not seen.
    """
    text = "\n".join([without_comments(source), *options])
    return _OBSERVERS.search(text) is not None or any(not _is_statement(text, wait) for wait in _WAIT.finditer(text))


def _is_statement(text: str, call: re.Match[str]) -> bool:
    """Whether a call is a whole statement, so that nothing uses its answer. Where that is hard to tell, it is not."""
    before = re.sub(r"\(\s*void\s*\)\Z", "", text[: call.start()].rstrip()).rstrip()
    block = before[max(before.rfind("{"), before.rfind("}")) + 1 :]
    # In the head of a `for`, a semicolon ends no statement.
    if block.count("(") != block.count(")") or _BEFORE_STATEMENT.search(before) is None:
        return False
    depth = 0
    for at in range(call.end(), len(text)):
        depth += {"(": 1, ")": -1}.get(text[at], 0)
        if depth == 0 and not text[at].isspace():
            return text[at] == ")" and text[at + 1 :].lstrip().startswith(";")
    return False


def _progress(findings: Findings | None, who: str) -> bool:
    return findings is not None and findings.progress.get(who) == "independent" and findings.loops_run_whole
