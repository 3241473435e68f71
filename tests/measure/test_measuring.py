"""The engine of all timings: rounds of a launch, and samples in turns."""

from __future__ import annotations

import pytest

from portbar.choices.strategy import DeviceProfile
from portbar.device.facts import DeviceFacts
from portbar.device.findings import Findings
from portbar.errors import Error
from portbar.survey.measuring.rounds import Budget, in_turns, most_rounds, rounds_for


@pytest.mark.parametrize(("each", "rounds"), [(1e-3, 20), (1e-6, 20_000), (1.0, 1), (1e-12, 1 << 20)])
def test_a_launch_has_as_many_rounds_as_take_the_time(each: float, rounds: int) -> None:
    assert rounds_for(lambda count: count * each, 0.02, 1 << 20) == pytest.approx(rounds, rel=0.01)


def test_launches_that_were_held_up_or_do_not_count_are_not_taken_for_the_rounds() -> None:
    late = iter([5.0, None, 4e-3])
    assert rounds_for(lambda count: next(late, count * 1e-3), 0.016, 1 << 20) == 16
    assert rounds_for(lambda _: None, 0.016, 1 << 20) == 4
    assert rounds_for(lambda count: count * 1e-9, 0.016, 3) == 3


@pytest.mark.parametrize("iterations", [8, 64])
def test_rounds_stay_below_the_loop_limit_that_is_measured_or_known(iterations: int) -> None:
    profile = DeviceProfile(DeviceFacts(), Findings(loop_limit=65_535))
    assert most_rounds(profile, iterations) * iterations <= 65_535
    old = DeviceFacts(platform_name="rusticl", driver_version="22.3.6", name="llvmpipe (LLVM 15)")
    for found in (None, Findings()):
        assert most_rounds(DeviceProfile(old, found), iterations) * iterations <= 65_535
    assert most_rounds(DeviceProfile(DeviceFacts(), Findings(loop_limit=5)), iterations) == 1


def test_each_side_comes_first_in_its_turn() -> None:
    order: list[str] = []
    taken = in_turns({name: lambda name=name: order.append(name) for name in "abc"}, 4)
    assert "".join(order) == "abcbcacababc"
    assert {name: len(samples) for name, samples in taken.items()} == dict.fromkeys("abc", 4)


def test_a_side_that_fails_is_left_out_or_raises() -> None:
    left = {"good": 10, "bad": 2}

    def take(name: str) -> int:
        left[name] -= 1
        if left[name] < 0:
            raise Error("no more")
        return left[name]

    sides = {name: lambda name=name: take(name) for name in left}
    wrong: dict[str, str] = {}
    taken = in_turns(sides, 5, failed=lambda side, error: wrong.update({side: str(error)}))
    assert taken == {"good": [9, 8, 7, 6, 5]}
    assert wrong == {"bad": "no more"}
    with pytest.raises(Error, match="no more"):
        in_turns(sides, 5)


def test_a_spent_budget_leaves_the_least_number_of_samples() -> None:
    assert in_turns({"": lambda: 1}, 9, least=3, budget=Budget(0.0)) == {"": [1, 1, 1]}
    assert in_turns({"": lambda: 1}, 9, least=3, budget=Budget(60.0)) == {"": [1] * 9}
