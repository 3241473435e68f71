"""The README's example runs and is right on every device that can do it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from tests.checkout import ROOT

if TYPE_CHECKING:
    import pyopencl as cl

README = ROOT / "README.md"


def block(language: str) -> str:
    """Return the README's only code block in a language."""
    (found,) = re.findall(rf"^```{language}\n(.*?)^```$", README.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    return str(found)


def smoothed(values: np.ndarray[Any, np.dtype[np.float32]], sweeps: int) -> np.ndarray[Any, np.dtype[np.float32]]:
    """Do on the host what the kernel does."""
    for _ in range(sweeps):
        values = np.concatenate([values[:1], np.float32(0.5) * (values[:-2] + values[2:]), values[-1:]])
    return values


@pytest.mark.device
def test_the_example_gives_what_numpy_gives(context: cl.Context, monkeypatch: pytest.MonkeyPatch) -> None:
    import pyopencl as cl  # noqa: PLC0415

    import portbar  # noqa: PLC0415

    code, changed = re.subn(r"n, sweeps = 100_000, 1_000\b", "n, sweeps = 1_003, 20", block("python"))
    assert changed == 1
    called: list[str] = []
    monkeypatch.setattr(portbar, "load_platforms", lambda: called.append("load_platforms"))
    monkeypatch.setattr(cl, "create_some_context", lambda **_: called.append("create_some_context") or context)
    names: dict[str, Any] = {"source": block("c")}
    try:
        exec(compile(code, str(README), "exec"), names)  # noqa: S102 (our own README)
    except portbar.UnsupportedFeatureError as error:
        pytest.skip(f"refused, as it should be where it cannot work: {error}")
    # A machine with nothing but Intel's wheel has no platform for PyOpenCL otherwise.
    assert called == ["load_platforms", "create_some_context"]
    before = np.random.default_rng(1).random(1_003, dtype=np.float32)
    np.testing.assert_allclose(names["a"].get(), smoothed(before, 20), rtol=1e-5)
    assert names["launch"].num_groups >= 1
