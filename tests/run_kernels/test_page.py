"""The page's host in C runs the exported file, and the commands on the page write it."""

from __future__ import annotations

import re
from pathlib import Path

import pyopencl as cl
import pytest

import portbar
from portbar.launching import export
from tests.checkout import environment, ran
from tests.docs.pages import DOCS, blocks
from tests.export.test_c_host import HERE, compiler, loader
from tests.support import skipped_where_refused

KERNELS, DRIVER, HOST = [
    block.text for block in blocks(DOCS / "run_kernels.md") if block.language == "c" and block.section == "A host in C"
]


def sources(folder: Path) -> list[Path]:
    made = [folder / "kernels.cl", folder / "driver.cl"]
    for path, text in zip(made, (KERNELS, DRIVER), strict=True):
        path.write_text(text, encoding="utf-8")
    return made


@pytest.mark.device
def test_the_documented_host_runs_the_exported_file(context: cl.Context, tmp_path: Path) -> None:
    cc, library, device = compiler("gcc"), loader(), context.devices[0]
    with skipped_where_refused():
        written = export.export(device, tmp_path, sources=sources(tmp_path), fused="solver.cl")
    assert [path.relative_to(tmp_path).as_posix() for path in written] == ["solver.cl", "portbar/host.h"]
    assert "#include" not in written[0].read_text(encoding="utf-8")
    (tmp_path / "solver.c").write_text(HOST, encoding="utf-8")
    command = [cc, "-std=c99", "-Wall", "-Wextra", "-Werror", "-Wno-deprecated-declarations", f"-I{tmp_path}"]
    command += [f"-idirafter{HERE}", "-include", str(HERE / "canary.h"), str(tmp_path / "solver.c"), library]
    command += [f"-Wl,-rpath,{Path(library).parent}", "-Wl,--allow-shlib-undefined", "-o", str(tmp_path / "solver")]
    built = ran(*command)
    assert built.returncode == 0, built.stderr
    title = f"{device.platform.name} {device.platform.version}"
    done = ran(tmp_path / "solver", written[0], env=environment(PORTBAR_TEST_PLATFORM_IS=title))
    if done.returncode == 77:
        pytest.skip(f"the loader gives a program without PyOpenCL no platform {title}")
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.match(r"200 runs by \d+ work-groups: right\n", done.stdout), done.stdout
    assert done.stdout.count("intact") == 3


@pytest.mark.device
def test_a_source_that_runs_kernels_is_exported_as_one_file(context: cl.Context, tmp_path: Path) -> None:
    device, (kernels, driver) = context.devices[0], sources(tmp_path)
    with pytest.raises(portbar.Error, match=r"driver\.cl includes .*: add --fused NAME\.cl"):
        export.export(device, tmp_path, sources=[kernels, driver])
    with pytest.raises(portbar.Error, match="but none does"):
        export.export(device, tmp_path, sources=[kernels], fused="solver.cl")
    with pytest.raises(portbar.Error, match=r"driver\.cl, line 7: PORTBAR_RUN .* there is no 'turn'"):
        export.export(device, tmp_path, sources=[driver], fused="solver.cl")
    assert not (tmp_path / "solver.cl").exists()
