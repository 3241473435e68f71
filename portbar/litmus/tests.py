"""The litmus tests as data: what each thread does, which outcome OpenCL's memory model forbids, and why.

Not for turning them into kernels (`portbar.litmus.source`) and not for running them (`portbar.litmus.running`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Final

from portbar.errors import Error
from portbar.litmus.model import Litmus, Operation, Thread


def _store(location: str, value: int, order: str = "relaxed") -> Operation:
    return Operation("store", location, value, order)


def _load(register: int, location: str, order: str = "relaxed", guard: tuple[int, int] | None = None) -> Operation:
    return Operation("load", location, 0, order, register, guard)


def _fence(order: str) -> Operation:
    return Operation("fence", order=order)


_MP_WHY: Final = (
    "the release synchronises with the acquire that sees the flag, so the data's store happens before its load, which must "
    "not see an older value"
)
_SC_WHY: Final = "no single order of all seq_cst operations, which there must be at device scope, agrees with this"


def _message_passing(scope: str, space: str, form: str) -> Litmus:
    """Data, then a flag: whoever sees the flag sees the data. The data is plain, and read only where the flag was seen."""
    data = _store("x", 1, "plain")
    got = _load(1, "x", "plain", guard=(0, 1))
    sends, receives = {
        "ops": ("op", "op"),
        "fences": ("fence", "fence"),
        "op-fence": ("op", "fence"),
        "fence-op": ("fence", "op"),
        "rmw": ("rmw", "rmw"),
    }[form]
    writer: dict[str, Thread] = {
        "op": (data, _store("y", 1, "release")),
        "fence": (data, _fence("release"), _store("y", 1)),
        "rmw": (data, Operation("exchange", "y", 1, "release")),
    }
    reader: dict[str, Thread] = {
        "op": (_load(0, "y", "acquire"), got),
        "fence": (_load(0, "y"), _fence("acquire"), got),
        "rmw": (Operation("add", "y", 0, "acquire", 0), got),
    }
    return Litmus(
        f"MP-{scope}-{space}-{form}",
        "message passing, plain data",
        (writer[sends], reader[receives]),
        ({"r0": 1, "r1": 0},),
        _MP_WHY,
        scope,
        space,
        form,
    )


_MESSAGE_PASSING: Final = (
    *(
        _message_passing(scope, space, form)
        for scope in ("work_group", "device")
        for space in ("global", "local")
        for form in ("ops", "fences")
    ),
    _message_passing("device", "global", "op-fence"),
    _message_passing("device", "global", "fence-op"),
    _message_passing("device", "global", "rmw"),
    Litmus(
        "MP-device-global-atomic",
        "message passing, the data atomic and always read",
        ((_store("x", 1), _store("y", 1, "release")), (_load(0, "y", "acquire"), _load(1, "x"))),
        ({"r0": 1, "r1": 0},),
        _MP_WHY,
        form="atomic",
    ),
    Litmus(
        "MP-device-global-sequence",
        "message passing through another thread's read-modify-write",
        (
            (_store("x", 1, "plain"), _store("y", 1, "release")),
            (Operation("add", "y", 1, "relaxed", 0),),
            (_load(1, "y", "acquire"), _load(2, "x", "plain", guard=(1, 2))),
        ),
        ({"r1": 2, "r2": 0},),
        "y is 2 only where the relaxed addition continued the release sequence, so the acquire synchronises with its head",
        form="sequence",
    ),
)

_SEQUENTIAL: Final = (
    Litmus(
        "SB-device-global-ops",
        "store buffering",
        (
            (_store("x", 1, "seq_cst"), _load(0, "y", "seq_cst")),
            (_store("y", 1, "seq_cst"), _load(1, "x", "seq_cst")),
        ),
        ({"r0": 0, "r1": 0},),
        _SC_WHY,
    ),
    Litmus(
        "SB-device-global-fences",
        "store buffering",
        (
            (_store("x", 1), _fence("seq_cst"), _load(0, "y")),
            (_store("y", 1), _fence("seq_cst"), _load(1, "x")),
        ),
        ({"r0": 0, "r1": 0},),
        "whichever seq_cst fence comes second, the load behind it must see the store before the other one",
        form="fences",
    ),
    Litmus(
        "R-device-global-ops",
        "store, store against store, load",
        (
            (_store("x", 1, "seq_cst"), _store("y", 1, "seq_cst")),
            (_store("y", 2, "seq_cst"), _load(0, "x", "seq_cst")),
        ),
        ({"r0": 0, "y": 2},),
        _SC_WHY,
    ),
    Litmus(
        "2+2W-device-global-ops",
        "two stores against two stores",
        (
            (_store("x", 1, "seq_cst"), _store("y", 2, "seq_cst")),
            (_store("y", 1, "seq_cst"), _store("x", 2, "seq_cst")),
        ),
        ({"x": 1, "y": 1},),
        _SC_WHY,
    ),
    Litmus(
        "IRIW-device-global-ops",
        "two readers see two stores",
        (
            (_store("x", 1, "seq_cst"),),
            (_store("y", 1, "seq_cst"),),
            (_load(0, "x", "seq_cst"), _load(1, "y", "seq_cst")),
            (_load(2, "y", "seq_cst"), _load(3, "x", "seq_cst")),
        ),
        ({"r0": 1, "r1": 0, "r2": 1, "r3": 0},),
        _SC_WHY,
    ),
)

_CAUSALITY: Final = (
    Litmus(
        "LB-device-global-ops",
        "load buffering",
        (
            (_load(0, "x", "acquire"), _store("y", 1, "release")),
            (_load(1, "y", "acquire"), _store("x", 1, "release")),
        ),
        ({"r0": 1, "r1": 1},),
        "each load would synchronise with the other thread's store, so each store would happen before itself",
    ),
    Litmus(
        "S-device-global-ops",
        "a store behind an acquire",
        (
            (_store("x", 2), _store("y", 1, "release")),
            (_load(0, "y", "acquire"), _store("x", 1)),
        ),
        ({"r0": 1, "x": 2},),
        "the store of 2 happens before the store of 1, so it must come first in x's modification order",
    ),
    Litmus(
        "WRC-device-global-ops",
        "write to read causality",
        (
            (_store("x", 1),),
            (_load(0, "x"), _store("y", 1, "release")),
            (_load(1, "y", "acquire"), _load(2, "x")),
        ),
        ({"r0": 1, "r1": 1, "r2": 0},),
        "the second thread's load of 1 happens before the third's load, which must not see an older value",
    ),
    Litmus(
        "ISA2-device-global-ops",
        "message passing by way of a third thread",
        (
            (_store("x", 1), _store("y", 1, "release")),
            (_load(0, "y", "acquire"), _store("z", 1, "release")),
            (_load(1, "z", "acquire"), _load(2, "x")),
        ),
        ({"r0": 1, "r1": 1, "r2": 0},),
        "two pairs of release and acquire put x's store before its load",
    ),
)

_COHERENCE_WHY: Final = "all threads agree on one order of the stores to one location, even relaxed ones"
_COHERENCE: Final = (
    Litmus(
        "CoRR-device-global-ops",
        "two loads of one location",
        ((_store("x", 1),), (_load(0, "x"), _load(1, "x"))),
        ({"r0": 1, "r1": 0},),
        _COHERENCE_WHY,
    ),
    Litmus(
        "CoRW-device-global-ops",
        "a load, then a store to one location",
        ((_load(0, "x"), _store("x", 1)), (_store("x", 2),)),
        ({"r0": 1}, {"r0": 2, "x": 2}),
        f"{_COHERENCE_WHY}: what was loaded is older than what the same thread stores next",
    ),
    Litmus(
        "CoWR-device-global-ops",
        "a store, then a load of one location",
        ((_store("x", 1), _load(0, "x")), (_store("x", 2),)),
        ({"r0": 0}, {"r0": 2, "x": 1}),
        f"{_COHERENCE_WHY}: a load sees its own thread's store or a newer one",
    ),
    Litmus(
        "CoWW-device-global-ops",
        "two stores to one location",
        ((_store("x", 1), _store("x", 2)), (_load(0, "x"),)),
        ({"x": 1},),
        f"{_COHERENCE_WHY}: a thread's stores are in program order",
    ),
)

_NEIGHBOURS_WHY: Final = (
    "the two objects are distinct memory locations, however an operation on one is carried out, so no store may be lost"
)
#: Operations on 8 and 16 bits may work on the 32 bits around their object, beside loads and stores of the object alone:
#: accesses of mixed sizes, for which no published model of PTX says anything.
_SMALL: Final = (
    Litmus(
        "MP-device-global-8bit",
        "message passing by a byte, whose neighbour is added to",
        (
            (_store("x", 1, "plain"), _store("y", 1, "release")),
            (Operation("add", "z", 1), _load(0, "y", "acquire"), _load(1, "x", "plain", guard=(0, 1))),
        ),
        ({"r0": 1, "r1": 0},),
        f"{_MP_WHY}; {_NEIGHBOURS_WHY}",
        form="8bit",
        bits=8,
        together=("y", "z"),
    ),
    Litmus(
        "MP-device-global-16bit",
        "message passing by an exchange of 16 bits, whose neighbour is stored to",
        (
            (_store("x", 1, "plain"), Operation("exchange", "y", 1, "release")),
            (_store("z", 1), _load(0, "y", "acquire"), _load(1, "x", "plain", guard=(0, 1))),
        ),
        ({"r0": 1, "r1": 0},),
        f"{_MP_WHY}; {_NEIGHBOURS_WHY}",
        form="16bit",
        bits=16,
        together=("y", "z"),
    ),
    Litmus(
        "NEIGHBOUR-device-global-8bit",
        "a plain store to a byte beside one that is added to",
        ((Operation("add", "y", 1),), (_store("z", 1, "plain"),)),
        ({"y": 0}, {"z": 0}),
        _NEIGHBOURS_WHY,
        form="8bit",
        bits=8,
        together=("y", "z"),
    ),
)

#: Every test of threads and operations, by name. The patterns are in `portbar.litmus.patterns`.
TESTS: Final[Mapping[str, Litmus]] = {
    test.name: test for test in (*_MESSAGE_PASSING, *_SEQUENTIAL, *_CAUSALITY, *_COHERENCE, *_SMALL)
}


def matching(names: Sequence[str], patterns: Sequence[str] | None) -> tuple[str, ...]:
    """The names that any pattern selects, in their order: all without patterns.

    A pattern is a name, the beginning of one up to a hyphen (`MP`, `MP-device`), or has wildcards (`*-local-*`); in any case.

    Raises
    ------
    Error
        A pattern selects nothing.
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
