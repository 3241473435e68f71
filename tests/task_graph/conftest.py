"""The folder's programs, and how they are launched."""

from tests.programs import full_waits, launched, made  # noqa: F401 (fixtures)
