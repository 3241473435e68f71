"""The version of portbar: the one place to set it. setup.cfg reads it from here, and tests compare CITATION.cff with it."""

__version__ = "1.0.0"
