"""Each exported header is valid SPIR-V, as tools that know no driver read it: every function, not only those of some kernel."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from portbar.choices.strategy import DeviceProfile
from portbar.launching import export
from portbar.primitives.headers import header_names
from tests.export.test_c_host import ABSENT
from tests.machine_code.targets import TARGETS, MissingToolError, Target

pytestmark = pytest.mark.slow

#: Reductions are rendered for the kernels that use them: tests.machine_code compiles these.
NAMES = tuple(name for name in header_names() if name not in {"reduction", "host"})
SPIRV = [target for name, target in TARGETS.items() if name.startswith("SPIR-V")]

#: Functions of a header are `static inline`, and dropped where no kernel calls them; others are kept.
KEPT = "#define static\n#define inline\n"
KERNEL = "kernel void some(global uint *a) { a[0] = 1u; }\n"


def profile_of(target: Target, *, int64_atomics: bool) -> DeviceProfile:
    """Return what is known of a device, with 64-bit atomics or without them."""
    known = target.profile.findings
    assert known is not None
    findings = replace(known, builds={**known.builds, "int64_atomics": int64_atomics})
    return DeviceProfile(replace(target.profile.facts, int64_atomics=int64_atomics), findings)


def compiled(target: Target, text: str, folder: Path) -> int:
    """Compile a header and check it; returns the size of the module."""
    try:
        target.compile(target, KEPT + text + KERNEL, folder)
    except MissingToolError as error:
        pytest.skip(str(error))
    return (folder / "out.spv").stat().st_size


@pytest.mark.parametrize("target", SPIRV, ids=lambda target: target.name)
@pytest.mark.parametrize("name", NAMES)
def test_an_exported_header_is_valid(
    name: str, target: Target, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without 64-bit atomics, which OpenCL allows by an extension only."""
    monkeypatch.setattr(export, "describe", lambda _: profile_of(target, int64_atomics=False))
    assert compiled(target, export.render(ABSENT, name), tmp_path) > 1000


@pytest.mark.parametrize("target", SPIRV, ids=lambda target: target.name)
def test_atomics_of_64_bits_are_valid(target: Target, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(export, "describe", lambda _: profile_of(target, int64_atomics=True))
    text = export.render(ABSENT, "atomics")
    assert "atomic_ulong" in text or "atom_" in text
    assert compiled(replace(target, arguments=("spv1.2",)), text, tmp_path) > 1000


def test_an_invalid_header_is_found(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match=r"spirv-val|clang"):
        compiled(SPIRV[0], "static inline void wrong(global uint *a) { nothing(a); }\n", tmp_path)
