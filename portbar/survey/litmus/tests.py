"""The litmus tests as data: the operations of each thread, the outcome that OpenCL's memory model forbids, and why."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, Final

from portbar.errors import Error
from portbar.survey.litmus.model import Litmus, Operation, Thread

#: An operation as the tests below have it: its kind, location, value and order (relaxed by default).
_OPERATION: Final = re.compile(
    r"(?:r(?P<register>\d) = )?(?P<kind>load|store|exchange|add|fence)(?: (?P<location>[xyz]))?(?: (?P<value>\d))?"
    r"(?: (?P<order>plain|acquire|release|seq_cst))?(?: if r(?P<guard>\d) == (?P<equals>\d))?"
)


def _operation(text: str) -> Operation:
    match = _OPERATION.fullmatch(text)
    assert match is not None, text
    part: dict[str, Any] = match.groupdict()
    return Operation(
        part["kind"],
        part["location"] or "",
        int(part["value"] or 0),
        part["order"] or "relaxed",
        -1 if part["register"] is None else int(part["register"]),
        None if part["guard"] is None else (int(part["guard"]), int(part["equals"])),
    )


def _litmus(name: str, description: str, threads: Sequence[str], forbidden: str, why: str) -> Litmus:
    """A test from its notation: threads of operations with semicolons between them, outcomes such as `r0=1 x=2 or x=1`.

    Names whose form ends in `bit` have `y` and `z` side by side, of that many bits.
    """
    _, scope, space, form = name.split("-", 3)
    bits = int(form.removesuffix("bit")) if form.endswith("bit") else 32
    operations: tuple[Thread, ...] = tuple(tuple(map(_operation, thread.split("; "))) for thread in threads)
    outcomes = tuple(
        {place: int(value) for place, value in (part.split("=") for part in outcome.split())}
        for outcome in forbidden.split(" or ")
    )
    together = ("y", "z") if bits < 32 else ()
    return Litmus(name, description, operations, outcomes, why, scope, space, form, bits, together)


_MP_WHY: Final = (
    "the release synchronises with the acquire that sees the flag, so the data's store happens before its load, which must "
    "not see an older value"
)
_SC_WHY: Final = "no single order of all seq_cst operations, which there must be at device scope, agrees with this"
_COHERENCE_WHY: Final = "all threads agree on one order of the stores to one location, even relaxed ones"
_NEIGHBOURS_WHY: Final = (
    "the two objects are distinct memory locations, however an operation on one is carried out, so no store may be lost"
)

#: How a flag is sent and received: a thread that sees the flag sees the data, which is plain, and read only then.
_SENDS: Final = {
    "op": "store x 1 plain; store y 1 release",
    "fence": "store x 1 plain; fence release; store y 1",
    "rmw": "store x 1 plain; exchange y 1 release",
}
_RECEIVES: Final = {
    "op": "r0 = load y acquire; r1 = load x plain if r0 == 1",
    "fence": "r0 = load y; fence acquire; r1 = load x plain if r0 == 1",
    "rmw": "r0 = add y 0 acquire; r1 = load x plain if r0 == 1",
}
_FORMS: Final = {
    "ops": ("op", "op"),
    "fences": ("fence", "fence"),
    "op-fence": ("op", "fence"),
    "fence-op": ("fence", "op"),
    "rmw": ("rmw", "rmw"),
}


def _message_passing(name: str) -> Litmus:
    sends, receives = _FORMS[name.split("-", 3)[3]]
    return _litmus(name, "message passing, plain data", (_SENDS[sends], _RECEIVES[receives]), "r0=1 r1=0", _MP_WHY)


_TESTS: Final = (
    *(
        _message_passing(f"MP-{scope}-{space}-{form}")
        for scope in ("work_group", "device")
        for space in ("global", "local")
        for form in ("ops", "fences")
    ),
    *(_message_passing(f"MP-device-global-{form}") for form in ("op-fence", "fence-op", "rmw")),
    _litmus(
        "MP-device-global-atomic",
        "message passing, the data atomic and always read",
        ("store x 1; store y 1 release", "r0 = load y acquire; r1 = load x"),
        "r0=1 r1=0",
        _MP_WHY,
    ),
    _litmus(
        "MP-device-global-sequence",
        "message passing through another thread's read-modify-write",
        ("store x 1 plain; store y 1 release", "r0 = add y 1", "r1 = load y acquire; r2 = load x plain if r1 == 2"),
        "r1=2 r2=0",
        "y is 2 only where the relaxed addition continued the release sequence, so the acquire synchronises with its head",
    ),
    _litmus(
        "SB-device-global-ops",
        "store buffering",
        ("store x 1 seq_cst; r0 = load y seq_cst", "store y 1 seq_cst; r1 = load x seq_cst"),
        "r0=0 r1=0",
        _SC_WHY,
    ),
    _litmus(
        "SB-device-global-fences",
        "store buffering",
        ("store x 1; fence seq_cst; r0 = load y", "store y 1; fence seq_cst; r1 = load x"),
        "r0=0 r1=0",
        "the load after the second seq_cst fence must see the store before the first one",
    ),
    _litmus(
        "R-device-global-ops",
        "store, store against store, load",
        ("store x 1 seq_cst; store y 1 seq_cst", "store y 2 seq_cst; r0 = load x seq_cst"),
        "r0=0 y=2",
        _SC_WHY,
    ),
    _litmus(
        "2+2W-device-global-ops",
        "two stores against two stores",
        ("store x 1 seq_cst; store y 2 seq_cst", "store y 1 seq_cst; store x 2 seq_cst"),
        "x=1 y=1",
        _SC_WHY,
    ),
    _litmus(
        "IRIW-device-global-ops",
        "two readers see two stores",
        (
            "store x 1 seq_cst",
            "store y 1 seq_cst",
            "r0 = load x seq_cst; r1 = load y seq_cst",
            "r2 = load y seq_cst; r3 = load x seq_cst",
        ),
        "r0=1 r1=0 r2=1 r3=0",
        _SC_WHY,
    ),
    _litmus(
        "LB-device-global-ops",
        "load buffering",
        ("r0 = load x acquire; store y 1 release", "r1 = load y acquire; store x 1 release"),
        "r0=1 r1=1",
        "each load would synchronise with the other thread's store, so each store would happen before itself",
    ),
    _litmus(
        "S-device-global-ops",
        "a store after an acquire",
        ("store x 2; store y 1 release", "r0 = load y acquire; store x 1"),
        "r0=1 x=2",
        "the store of 2 happens before the store of 1, so it must come first in x's modification order",
    ),
    _litmus(
        "WRC-device-global-ops",
        "write to read causality",
        ("store x 1", "r0 = load x; store y 1 release", "r1 = load y acquire; r2 = load x"),
        "r0=1 r1=1 r2=0",
        "the second thread's load of 1 happens before the third's load, which must not see an older value",
    ),
    _litmus(
        "ISA2-device-global-ops",
        "message passing by way of a third thread",
        ("store x 1; store y 1 release", "r0 = load y acquire; store z 1 release", "r1 = load z acquire; r2 = load x"),
        "r0=1 r1=1 r2=0",
        "two pairs of release and acquire put x's store before its load",
    ),
    _litmus(
        "CoRR-device-global-ops",
        "two loads of one location",
        ("store x 1", "r0 = load x; r1 = load x"),
        "r0=1 r1=0",
        _COHERENCE_WHY,
    ),
    _litmus(
        "CoRW-device-global-ops",
        "a load, then a store to one location",
        ("r0 = load x; store x 1", "store x 2"),
        "r0=1 or r0=2 x=2",
        f"{_COHERENCE_WHY}: the loaded value is older than the one that the same thread stores next",
    ),
    _litmus(
        "CoWR-device-global-ops",
        "a store, then a load of one location",
        ("store x 1; r0 = load x", "store x 2"),
        "r0=0 or r0=2 x=1",
        f"{_COHERENCE_WHY}: a load sees its own thread's store or a newer one",
    ),
    _litmus(
        "CoWW-device-global-ops",
        "two stores to one location",
        ("store x 1; store x 2", "r0 = load x"),
        "x=1",
        f"{_COHERENCE_WHY}: a thread's stores are in program order",
    ),
    # Operations on 8 and 16 bits may work on the 32 bits around their object, beside loads and stores of the object alone:
    # accesses of mixed sizes, for which no published model of PTX says anything.
    _litmus(
        "MP-device-global-8bit",
        "message passing by a byte, whose neighbour is added to",
        ("store x 1 plain; store y 1 release", "add z 1; r0 = load y acquire; r1 = load x plain if r0 == 1"),
        "r0=1 r1=0",
        f"{_MP_WHY}; {_NEIGHBOURS_WHY}",
    ),
    _litmus(
        "MP-device-global-16bit",
        "message passing by an exchange of 16 bits, whose neighbour is stored to",
        ("store x 1 plain; exchange y 1 release", "store z 1; r0 = load y acquire; r1 = load x plain if r0 == 1"),
        "r0=1 r1=0",
        f"{_MP_WHY}; {_NEIGHBOURS_WHY}",
    ),
    _litmus(
        "NEIGHBOUR-device-global-8bit",
        "a plain store to a byte beside one that is added to",
        ("add y 1", "store z 1 plain"),
        "y=0 or z=0",
        _NEIGHBOURS_WHY,
    ),
)

#: Every test of threads and operations, by name. The patterns are in `portbar.survey.litmus.patterns`.
TESTS: Final[Mapping[str, Litmus]] = {test.name: test for test in _TESTS}


def matching(names: Sequence[str], patterns: Sequence[str] | None) -> tuple[str, ...]:
    """The names that any pattern selects, in their order: all without patterns.

    A pattern is a name, the beginning of one up to a hyphen (`MP`, `MP-device`), or has wildcards (`*-local-*`); in any case.
    `Error` if one selects nothing.
    """
    if patterns is None:
        return tuple(names)
    chosen: set[str] = set()
    for pattern in patterns:
        wanted = pattern.lower()
        found = {n for n in names if fnmatchcase(n.lower(), wanted) or n.lower().startswith(f"{wanted}-")}
        if not found:
            raise Error(f"no litmus test matches {pattern!r}; tests: {', '.join(names)}")
        chosen |= found
    return tuple(name for name in names if name in chosen)
