"""Seconds turned into rounds of polls."""

from __future__ import annotations

import pytest

from portbar.backends import host_threads
from portbar.choices import timing
from portbar.choices.strategy import DeviceProfile
from portbar.device.facts import DeviceFacts

CPU, GPU = (DeviceProfile(DeviceFacts(type=(kind,))) for kind in ("CPU", "GPU"))


def test_a_barrier_s_limit_is_the_time_that_was_asked_for():
    assert timing.limit_rounds(CPU, 0.5) == timing.rounds(CPU, 0.5)
    assert timing.limit_rounds(GPU, 0.5, 1_000) == timing.rounds(GPU, 0.5)


@pytest.mark.parametrize("profile", [CPU, GPU], ids=["cpu", "gpu"])
def test_a_limit_outlasts_the_patience_of_discovery(profile):
    assert timing.limit_rounds(profile, 1e-9) == timing.patience_rounds(profile)


def test_groups_beyond_the_cores_of_a_cpu_get_their_share_of_the_time(monkeypatch):
    monkeypatch.setattr(host_threads, "_cores", lambda: 2)
    assert timing.limit_rounds(CPU, 8.0, 2) == timing.rounds(CPU, 8.0)
    assert timing.limit_rounds(CPU, 8.0, 8) == timing.rounds(CPU, 2.0)
