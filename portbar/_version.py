"""The version of portbar, as its installed metadata gives it; not a place to set one (that is setup.cfg)."""

from __future__ import annotations

from importlib import metadata

try:
    __version__: str = metadata.version("portbar")
except metadata.PackageNotFoundError:
    # A checkout that was never installed still has to run, and its cache entries need some version.
    __version__ = "0+unknown"
