"""The survey: what each device of a machine does between work-groups, as one record."""

from __future__ import annotations

from portbar.survey.run import FORMAT, SCHEMA, Survey

__all__ = ["FORMAT", "SCHEMA", "Survey"]
