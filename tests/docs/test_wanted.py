"""The page of records says of which generations of GPUs there is no record."""

from __future__ import annotations

import pytest

from tests.docs.pages import DOCS
from tests.docs.wanted import NAMES, is_of, measured, table
from tests.machine_code.targets import TARGETS


def test_the_table_on_the_page_is_that_of_the_records() -> None:
    page = (DOCS / "records.md").read_text(encoding="utf-8")
    assert "\n".join(table(measured())) + "\n" in page, "run `python -m tests.docs.wanted`"


def test_every_gpu_that_portbar_compiles_for_has_a_row() -> None:
    gpus = {name for name, target in TARGETS.items() if "GPU" in target.profile.facts.type}
    without_a_gpu = {"pvc before a probe", "SPIR-V c11", "SPIR-V cl12"}
    assert gpus - without_a_gpu == {*NAMES, *(name for name in gpus if name.startswith("sm_"))}


@pytest.mark.parametrize(
    ("target", "name"),
    [
        ("gfx90a", "gfx90a:sramecc+:xnack-"),
        ("gfx1100", "AMD Radeon RX 7900 XTX (radeonsi, navi31, LLVM 19.1.7)"),
        ("kbl", "Intel(R) UHD Graphics 620"),
        ("tgllp", "Intel(R) Iris(R) Xe Graphics"),
        ("dg2", "Intel(R) Arc(TM) A770 Graphics"),
        ("pvc", "Intel(R) Data Center GPU Max 1550"),
    ],
)
def test_a_record_counts_for_its_generation_only(target: str, name: str) -> None:
    facts = {"name": name, "type": ["GPU"], "nvidia": None}
    assert [one for one in NAMES if is_of(one, facts)] == [target]
    assert not is_of(target, {**facts, "type": ["CPU"]})
    (row,) = (line for line in table([facts]) if name in line)
    assert f"| {target} |" in row
    assert table([facts]).count(row) == 1


def test_gpus_of_nvidia_are_known_by_compute_capability() -> None:
    facts = {
        "name": "Some GPU",
        "type": ["GPU"],
        "nvidia": {"compute_capability_major": 8, "compute_capability_minor": 6},
    }
    assert [name for name in TARGETS if name.startswith("sm_") and is_of(name, facts)] == ["sm_86"]
