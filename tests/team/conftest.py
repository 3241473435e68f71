"""The folder's programs."""

from tests.programs import made  # noqa: F401 (a fixture)
