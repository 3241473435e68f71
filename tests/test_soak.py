"""The soak test: it counts what it did, and what was wrong."""

import pytest

from tests import soak

pytestmark = pytest.mark.device


def test_each_kind_of_work_is_done_and_nothing_is_wrong(context, device):
    rows = {row["kind"]: row for row in soak.soak(device, 0.01, [*soak.KINDS])}
    assert set(soak.KINDS) - set(rows) <= ({"threads"} if "Oclgrind" in device.name else set())
    for row in rows.values():
        assert row["launches"] > 0
        assert sum(row[name] for name in ("barriers", "signals", "team_barriers", "alone")) > 0
        assert row["wrong"] == row["gave_up"] == 0
    assert rows["programs"]["programs"] == rows["programs"]["launches"]
    # Growth counts only once caches are full.
    assert rows["programs"]["grown_over"] == 0
    assert rows["barriers"]["grown_over"] > 0


@pytest.mark.parametrize(
    ("kind", "text", "wait"),
    [
        ("barriers", "SOURCE", "!portbar_device_barrier(&grid)"),
        ("signals", "PARTS", "!MET(left) || !MET(right)"),
        ("teams", "PARTS", "!portbar_team_barrier(&grid, &team)"),
    ],
)
def test_groups_that_do_not_wait_are_counted_as_wrong(context, device, monkeypatch, kind, text, wait):
    assert wait in getattr(soak, text)
    monkeypatch.setattr(soak, text, getattr(soak, text).replace(wait, "round > rounds"))
    work = soak.Soak(device)
    done = soak.KINDS[kind](work, 1.0)
    if done.alone:
        pytest.skip("grids have one work-group on this device: nothing is passed between groups")
    assert done.wrong > 0


def test_a_launch_that_gave_up_is_counted(context, device, monkeypatch):
    left = "if (groups > 1u && group == 0u && round == 1u) return; if"
    monkeypatch.setattr(soak, "SOURCE", soak.SOURCE.replace("if (!portbar", f"{left} (!portbar"))
    monkeypatch.setattr(soak.portbar, "Program", limited(soak.portbar.Program))
    done = soak.Soak(device).crowd(0.1)
    if done.alone:
        pytest.skip("grids have one work-group on this device: no group waits for another")
    assert done.gave_up == done.launches > 0


def limited(program):
    """Return what builds programs with a short spin limit."""

    def build(context, source, **options):
        return program(context, source, spin_limit=0.02, **options)

    return build
