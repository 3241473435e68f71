"""Values of the host that become values on a device are what they were, or are refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from portbar.primitives.host_values import converted

PAIR = np.dtype([("small", np.int8), ("x", np.float32)], align=True)


@pytest.mark.parametrize(
    ("values", "dtype"),
    [
        ([1, 2, 3], "uint8"),
        ([1.0, 2.0], "int16"),
        (np.array([1.0, -0.0, 255.0]), "uint8"),
        ([True, False], "int32"),
        ([0, 1], "bool"),
        (np.array([2**63, 2**64 - 1], np.uint64), "uint64"),
        ([2**64 - 1], "uint64"),
        ([-(2**63)], "int64"),
        ([0.1, 1e-300, 3], "float32"),
        (np.array([np.nan, np.inf, -np.inf, 0.1]), "float32"),
        ([2**53], "float64"),
        ([1 + 2j, 3], "complex64"),
        (np.array([1, 2], np.complex128), "float64"),
        ([(1, 0.5), (-128, 3)], PAIR),
        (np.array([(1, 0.5)], [("other", np.int64), ("names", np.float64)]), PAIR),
        (range(5), "int8"),
        ([], "int8"),
        (np.array([1, 2], ">i4"), "int32"),
        (["ab", "c"], "S2"),
        (7, "int8"),
        (np.float64(0.5), "float16"),
    ],
    ids=repr,
)
def test_values_that_survive(values: Any, dtype: Any) -> None:
    made = converted(values, np.dtype(dtype))
    assert made.dtype == np.dtype(dtype)
    given = np.array(list(map(tuple, np.asarray(values).tolist())), PAIR) if dtype is PAIR else np.asarray(values)
    np.testing.assert_array_equal(
        made, given.real.astype(dtype) if given.dtype.kind == "c" != made.dtype.kind else given.astype(dtype)
    )


@pytest.mark.parametrize(
    ("values", "dtype"),
    [
        (np.array([1, 256]), "uint8"),
        ([1, 256], "uint8"),
        (np.array([-1]), "uint32"),
        (np.array([2**32 + 5]), "uint32"),
        (np.array([2**63], np.uint64), "int64"),
        ([1, 2**64], "uint64"),
        ([1.5], "int32"),
        (np.array([1.5]), "int32"),
        (np.array([2.0**63]), "int64"),
        (np.array([2.0**64]), "uint64"),
        (np.array([np.nan]), "int32"),
        ([np.inf], "int32"),
        ([2], "bool"),
        (np.array([0.5]), "bool"),
        ([1e300], "float32"),
        (np.array([1e300]), "float32"),
        ([70000], "float16"),
        ([2**53 + 1], "float64"),
        (np.array([2**24 + 1]), "float32"),
        (np.array([1 + 1j]), "float64"),
        ([1 + 1j], "float64"),
        ([np.complex64(1 + 1j)], "float32"),
        ([1e300 + 0j], "complex64"),
        ([(300, 0.5)], PAIR),
        ([(1, 1e300)], PAIR),
        (np.array([(1.5, 0)], [("a", np.float64), ("b", np.float64)]), PAIR),
        (["5"], "int32"),
        ([None], "float32"),
        (["abc"], "S2"),
        (np.int64(300), "int8"),
        (1.5, "int8"),
        ([[1, 2], [3]], "int8"),
    ],
    ids=repr,
)
@pytest.mark.filterwarnings("ignore")
def test_values_that_do_not_are_refused(values: Any, dtype: Any) -> None:
    with pytest.raises((ValueError, TypeError, OverflowError)):
        converted(values, np.dtype(dtype))


def test_every_pair_of_number_types_agrees_with_python() -> None:
    kinds = [
        np.dtype(one)
        for one in (
            "bool",
            *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)),
            "float16",
            "float32",
            "float64",
        )
    ]
    numbers = [
        0,
        1,
        -1,
        2,
        127,
        128,
        -128,
        -129,
        255,
        256,
        2048,
        2049,
        65535,
        2**24,
        2**24 + 1,
        2**31,
        2**32 - 1,
        2**53 + 1,
    ]
    numbers += [2**63 - 1, 2**63, 2**64 - 1, -(2**63), 0.5, -0.25]
    for source in kinds:
        for number in numbers:
            with np.errstate(all="ignore"):
                given = np.array(number).astype(source)
            if given.item() != number:
                continue
            for target in kinds:
                exact = target.kind == "f" and isinstance(number, float)
                with np.errstate(all="ignore"):
                    became = given.astype(target).item()
                fits = exact or (
                    np.isfinite(became) and became == number and (target.kind == "f" or _within(number, target))
                )
                try:
                    assert converted(given.reshape(1), target).tolist() == [became]
                    taken = True
                except ValueError:
                    taken = False
                # A floating-point number may be rounded, but none becomes infinite.
                if source.kind == "f" and target.kind == "f":
                    fits = bool(np.isfinite(became))
                assert taken == fits, (number, source, target)


def _within(number: float, kind: np.dtype[Any]) -> bool:
    if kind.kind == "b":
        return number in (0, 1)
    return np.iinfo(kind).min <= number <= np.iinfo(kind).max
