"""Values of the host that become values on a device: each must survive the conversion."""

from __future__ import annotations

from typing import Any

import numpy as np

_Array = np.ndarray[Any, Any]

#: Of Python's own types, which NumPy would give a type that they need not fit.
_PLAIN = (list, tuple, range, bool, int, float, complex, str, bytes)


def converted(values: Any, dtype: np.dtype[Any]) -> _Array:
    """Return values as an array of a type, in the order of C.

    Floating-point numbers are rounded to a narrower type. All else must be equal after the conversion: integers that wrap or
    are rounded, fractions in integer types, infinity in place of a number, and parts of complex numbers are lost.

    Raises
    ------
    TypeError, ValueError, OverflowError
        NumPy knows no such conversion, or a value would be lost.
    """
    if type(values) in {int, float} and dtype.kind in "iuf":
        with np.errstate(invalid="ignore", over="ignore"):
            made = np.asarray(values, dtype)
        if made.item() == values:
            return made
    plain = isinstance(values, _PLAIN)
    given = None if plain else np.asarray(values)
    if given is not None and given.dtype == dtype:
        return np.asarray(given, order="C")
    if given is not None and given.dtype.kind == "c" and dtype.kind in "biuf":
        _refuse(given.imag != 0, given, dtype)
        given = given.real
    with np.errstate(invalid="ignore", over="ignore"):
        made = np.asarray(values if given is None else given, dtype, order="C")
    if given is None:
        given = np.asarray(values, _of_objects(dtype))
    _check(given, made)
    return made


def _of_objects(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The type with Python's objects for its parts, which are as they were given."""
    if dtype.subdtype is not None:
        base, shape = dtype.subdtype
        return np.dtype((_of_objects(base), shape))
    if dtype.names is not None:
        assert dtype.fields is not None
        return np.dtype([(name, _of_objects(dtype.fields[name][0])) for name in dtype.names])
    return np.dtype(object)


def _check(given: _Array, made: _Array) -> None:
    if made.dtype.names is not None:
        # NumPy assigns members by their places.
        sources = (
            [given] * len(made.dtype.names) if given.dtype.names is None else [given[n] for n in given.dtype.names]
        )
        for source, name in zip(sources, made.dtype.names, strict=True):
            _check(source, made[name])
    elif made.dtype.kind == "c":
        real, imaginary = _parts(given)
        _check(real, made.real)
        _check(imaginary, made.imag)
    elif made.dtype.kind in "biuf" and given.size:
        _refuse(_lost(given, made), given, made.dtype)
    elif made.dtype.kind in "SU" and given.size:
        room = made.dtype.itemsize // (4 if made.dtype.kind == "U" else 1)
        _refuse(np.frompyfunc(len, 1, 1)(given.astype(object)) > room, given, made.dtype)


def _parts(given: _Array) -> tuple[_Array, _Array]:
    if given.dtype != object:
        return given.real, given.imag
    try:
        parts = [np.frompyfunc(lambda one, name=name: getattr(one, name), 1, 1)(given) for name in ("real", "imag")]
    except AttributeError as error:
        raise TypeError(f"not a number: {error}") from None
    return np.asarray(parts[0], object), np.asarray(parts[1], object)


def _lost(given: _Array, made: _Array) -> _Array:
    """Which numbers are others after the conversion."""
    if made.dtype.kind == "f":
        if given.dtype.kind == "f":
            return np.isfinite(given) & ~np.isfinite(made)
        return _differ(given, made)
    if given.dtype.kind == "f":
        low, high = _limits(made.dtype)
        # No narrower type holds the limits.
        wide = given if given.dtype.itemsize > 8 else given.astype(np.float64)
        whole = np.isfinite(wide) & (wide == np.floor(wide))
        return np.asarray(~(whole & (wide >= float(low)) & (wide < float(high + 1))))
    if given.dtype.kind in "biu":
        low, high = _limits(made.dtype)
        if low <= int(given.min()) and int(given.max()) <= high:
            return np.zeros(given.shape, bool)
    return _differ(given, made)


def _differ(given: _Array, made: _Array) -> _Array:
    """The same, one number after another."""
    return np.asarray(np.frompyfunc(_is_lost, 2, 1)(given.astype(object), made.astype(object)), bool)


def _is_lost(given: Any, made: Any) -> bool:
    if isinstance(made, float | np.floating) and isinstance(given, float | np.floating):
        return bool(np.isfinite(given) and not np.isfinite(made))
    return not (isinstance(given, int | float | complex | np.number | np.bool_) and given == made)


def _limits(dtype: np.dtype[Any]) -> tuple[int, int]:
    if dtype.kind == "b":
        return 0, 1
    info = np.iinfo(dtype)
    return int(info.min), int(info.max)


def _refuse(lost: Any, given: _Array, dtype: np.dtype[Any]) -> None:
    """Raise where a number is lost, with the first one."""
    if np.any(lost):
        at = np.argwhere(np.atleast_1d(lost))[0].tolist()
        where = f" at {at[0] if len(at) == 1 else tuple(at)}" if np.ndim(lost) else ""
        raise ValueError(f"{np.atleast_1d(given)[tuple(at)]}{where} is not a value of {dtype}")
