"""Targets that hypothesis fuzzes: whatever strangers may hand in ends in a result or a documented error, and in time."""

from __future__ import annotations

from hypothesis import settings

#: 500 cases of each target, or as many as the profile says where that is more.
target = settings(max_examples=max(500, settings.default.max_examples))
