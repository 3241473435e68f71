"""Numbers by which waits at barriers between work-groups are tuned to a device; a record of the vendor matrix holds them."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Final, TypeVar

T = TypeVar("T")

#: Largest number of work-groups that a tuning may hold; the ranges of `hold` and `first_poll` end with it.
MOST: Final = 0xFFFF_FFFF

#: Largest other number: no spin limit counts what a wait does between polls, nor the barriers that find the best place.
_MOST_AMOUNT: Final = 1 << 16

Ranges = tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class WaitTuning:
    """How waiting work-groups leave the memory of a barrier alone.

    Attributes
    ----------
    rest_ns : int
        Nanoseconds that any wait pauses after every round of polls; 0 for none.
    hold : tuple of (int, int)
        Up to how many work-groups, and how many sixteenths of a cycle a waiting group then leaves counters alone for each group
        that is missing when it arrives; empty where the device has no clock to wait by.
    first_poll : tuple of (int, int)
        Up to how many work-groups, and how many cycles a work-group then waits in `replicated` before its first poll.
    placing : tuple of int
        From how many work-groups on and up to how many the best place for counters is measured, and by how many barriers each;
        empty where memory is the same everywhere.
    sleep_above, sleep_divisor, sleep_ns : int
        `counter_backoff` pauses only while more groups than this are missing, a nanosecond for each `sleep_divisor` of them, at
        most `sleep_ns`.
    """

    rest_ns: int = 0
    hold: Ranges = ()
    first_poll: Ranges = ()
    placing: tuple[int, ...] = ()
    sleep_above: int = 256
    sleep_divisor: int = 4
    sleep_ns: int = 1000

    def to_json(self) -> dict[str, Any]:
        """A dict of JSON values; `from_json` gives an equal object back."""
        return asdict(self)

    @classmethod
    def from_json(cls, value: Any) -> WaitTuning:
        """Read what `to_json` wrote.

        Raises
        ------
        TypeError, ValueError
            A field is unknown, of the wrong type, or out of bounds.
        """
        known = cls()
        if not isinstance(value, dict) or not set(value) <= set(asdict(known)):
            raise ValueError(f"tuning must have the fields {', '.join(asdict(known))}")
        read: dict[str, Any] = {}
        for name, found in value.items():
            if name in ("hold", "first_poll"):
                read[name] = tuple(_pair(entry) for entry in found)
                if [up_to for up_to, _ in read[name]] != sorted({up_to for up_to, _ in read[name]}):
                    raise ValueError(f"the ranges of {name} are not in ascending order")
            elif name == "placing":
                read[name] = tuple(count(part, MOST if at < 2 else _MOST_AMOUNT) for at, part in enumerate(found))
                if len(read[name]) not in (0, 3):
                    raise ValueError("placing must be empty or three numbers")
            else:
                read[name] = count(found, MOST if name == "sleep_above" else _MOST_AMOUNT)
        if read.get("sleep_divisor", 1) == 0:
            raise ValueError("sleep_divisor is 0")
        return cls(**read)


def _pair(entry: Any) -> tuple[int, int]:
    up_to, amount = entry
    return count(up_to, MOST), count(amount, _MOST_AMOUNT)


def exactly(kind: type[T], value: Any) -> T:
    """Return a value of this type and no other; raise TypeError otherwise."""
    if type(value) is not kind:
        raise TypeError(f"{value!r} is not {kind.__name__}")
    return value


def count(value: Any, most: int, least: int = 0) -> int:
    """Return an int within these bounds; raise TypeError or ValueError otherwise."""
    if not least <= exactly(int, value) <= most:
        raise ValueError(f"{value!r} is not between {least} and {most}")
    return int(value)
