"""Hosts in C: `portbar/host.h` agrees with the Python runtime, and the documented host runs within its buffers."""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyopencl as cl
import pytest

from portbar.choices.strategy import DeviceProfile, choose
from portbar.choices.timing import MOST_ROUNDS, limit_rounds, patience_rounds, rounds
from portbar.device.facts import DeviceFacts
from portbar.device.findings import Findings
from portbar.errors import RenderError
from portbar.launching import export
from portbar.primitives import layout
from portbar.primitives.fault import OPEN
from portbar.primitives.headers import FAULTS, HEADERS, layout_of, resolve_includes
from tests.checkout import environment, ran
from tests.docs.pages import DOCS, blocks
from tests.support import skipped_where_refused

HERE = Path(__file__).resolve().parent / "c_host"
STRICT = ("-Wall", "-Wextra", "-Wconversion", "-Wsign-conversion", "-pedantic", "-Werror")
CPU = DeviceFacts(
    name="A CPU */ of theirs",
    type=("CPU",),
    opencl_c_versions=("1.2", "2.0", "3.0"),
    atomic_memory_capabilities=("relaxed", "acq_rel", "scope_work_group", "scope_device"),
)
#: A device that is not here: it is only described.
ABSENT: Any = SimpleNamespace(get_info=None, platform=None)
PROFILES = {
    "unmeasured": DeviceProfile(CPU),
    "measured": DeviceProfile(CPU, Findings(source="test", builds={"c11@CL3.0": True}, polls_per_second=1.25e8)),
    "NVIDIA": DeviceProfile(
        DeviceFacts(name="H", opencl_c_versions=("1.2",), type=("GPU",), nvidia={"compute_capability_major": 9})
    ),
}


@pytest.fixture
def header(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, request: pytest.FixtureRequest) -> DeviceProfile:
    """Write `host.h` of a device to `tmp_path`; returns what is known of the device."""
    profile = PROFILES[request.param]
    monkeypatch.setattr(export, "describe", lambda _: profile)
    (tmp_path / "portbar").mkdir()
    text = export.render(ABSENT, "host")
    (tmp_path / "portbar" / "host.h").write_text(text, encoding="utf-8")
    return profile


def compiler(name: str) -> str:
    """Return the path of a C or C++ compiler, or skip."""
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is not installed")
    return found


def printed(folder: Path, statements: str, *, cxx: bool = False) -> list[list[float]]:
    """Compile C statements with `host.h` under every warning, run them, and return the numbers of each line that they print."""
    source = folder / ("host.cpp" if cxx else "host.c")
    source.write_text(
        f'#include "portbar/host.h"\n#include <stdio.h>\nint main(void)\n{{\n{statements}\nreturn 0;\n}}\n',
        encoding="utf-8",
    )
    command = [compiler("g++" if cxx else "gcc"), "-std=c++11" if cxx else "-std=c99", *STRICT]
    done = ran(*command, f"-I{folder}", source, "-o", folder / "host")
    assert done.returncode == 0, done.stderr
    said = ran(folder / "host", timeout=20)
    assert said.returncode == 0, said.stderr
    return [[float(word) for word in line.split()] for line in said.stdout.splitlines()]


@pytest.mark.parametrize("header", PROFILES, indirect=True)
@pytest.mark.parametrize("cxx", [False, True], ids=["C", "C++"])
def test_sizes_and_launches_are_those_of_the_runtime(header: DeviceProfile, tmp_path: Path, cxx: bool) -> None:
    groups = [0, 1, 64, 65, 1_000, 4_096, 100_000, layout.MAX_LAUNCHED_GROUPS, layout.MAX_LAUNCHED_GROUPS + 1]
    seconds = [0.0, 1e-9, 0.37, 10.0, 1e9]
    statements = [
        f"const uint32_t groups[] = {{{', '.join(f'{n}u' for n in groups)}}};",
        f"const double seconds[] = {{{', '.join(map(repr, seconds))}}};",
        "for (size_t i = 0; i < sizeof groups / sizeof *groups; ++i) {",
        "    const uint32_t capacity = portbar_host_capacity(groups[i]);",
        "    const size_t bytes = portbar_host_state_bytes(capacity, 0), more = portbar_host_state_bytes(capacity, 1);",
        '    printf("%u %zu %zu\\n", (unsigned)capacity, bytes, more);',
        "}",
        "for (size_t i = 0; i < sizeof seconds / sizeof *seconds; ++i) {",
        "    const portbar_host_launch launch = portbar_host_launch_of(4096u, 77u, 5u, seconds[i], i == 1);",
        "    for (int word = 0; word < 4; ++word)",
        '        printf("%u ", (unsigned)launch.s[word]);',
        '    printf("%u\\n", (unsigned)portbar_host_rounds(seconds[i]));',
        "}",
        'printf("%zu %u\\n", sizeof(portbar_host_launch), (unsigned)PORTBAR_HOST_LAST_EPOCH);',
    ]
    found = printed(tmp_path, "\n".join(statements), cxx=cxx)
    sizes, launches, last = found[: len(groups)], found[len(groups) : -1], found[-1]
    for asked, (capacity, state, more) in zip(groups, sizes, strict=True):
        if not 0 < asked <= layout.MAX_LAUNCHED_GROUPS:
            assert capacity == 0
            continue
        assert capacity == 1 << max(6, (asked - 1).bit_length())
        assert state == 4 * layout_of(name for name in HEADERS if name != "reduction").words(int(capacity))
        assert more == 4 * layout_of(HEADERS).words(int(capacity)) > state
    for number, (limit, launch) in enumerate(zip(seconds, launches, strict=True)):
        first = (layout.DRY_RUN if number == 1 else 0) | 12 << 24 | 77
        assert launch == [first, 5, patience_rounds(header), limit_rounds(header, limit), rounds(header, limit)]
    assert launches[-1][-1] == MOST_ROUNDS or header is not PROFILES["measured"]
    assert last == [16, layout.EPOCH_MASK - 1]


@pytest.mark.parametrize("header", ["measured"], indirect=True)
def test_reports_are_decoded(header: DeviceProfile, tmp_path: Path) -> None:
    assert header.findings is not None
    # Programs are compiled with these numbers: they stay as they are.
    statuses = [0, OPEN, 2, 3, 4, 5, 6, 7, 8, 16, 17, 18, 19, 20, 21, 22, 24]
    assert sorted(FAULTS) == statuses[2:]
    statements = f"""
    const uint32_t epochs[] = {{ 1u, 64u, 1000u }}, statuses[] = {{ {", ".join(f"{s}u" for s in statuses)} }};
    for (int i = 0; i < 3; ++i)
        printf("%zu\\n", portbar_host_report_offset(epochs[i]));
    for (int i = 0; i < {len(statuses)}; ++i) {{
        const uint32_t words[PORTBAR_HOST_REPORT_BYTES / 4] = {{ 9u, statuses[i], 5u, 3u, 4u, 0u, 0u, 0u }};
        const portbar_host_report mine = portbar_host_report_of(words, 9u), other = portbar_host_report_of(words, 73u);
        printf("%u %u %u %u ", (unsigned)mine.status, (unsigned)mine.groups, (unsigned)mine.arrived, (unsigned)mine.group);
        printf("%u %d ", (unsigned)other.status, portbar_host_needs_new_state(mine, 9u));
        printf("%d\\n", portbar_host_needs_new_state(mine, PORTBAR_HOST_LAST_EPOCH));
    }}
    printf("%d %d %d ", PORTBAR_HOST_NOT_ENTERED, PORTBAR_HOST_FINE, PORTBAR_HOST_TIMEOUT);
    printf("%d %d %d ", PORTBAR_HOST_LOST, PORTBAR_HOST_WAIT, PORTBAR_HOST_OVERWRITTEN);
    printf("%d %d %d ", PORTBAR_HOST_SIGNAL, PORTBAR_HOST_SIGNAL_RANGE, PORTBAR_HOST_CONDITION);
    printf("%d %d %d ", PORTBAR_HOST_WORKLIST_FULL, PORTBAR_HOST_WORKLIST_IDLE, PORTBAR_HOST_WORKLIST_SLOT);
    printf("%d %d ", PORTBAR_HOST_TASK_WAIT, PORTBAR_HOST_TASK_GRAPH);
    printf("%d %d %d\\n", PORTBAR_HOST_TEAM, PORTBAR_HOST_TEAM_SPLIT, PORTBAR_HOST_RUN);
    """
    found = printed(tmp_path, statements)
    assert found[:3] == [
        [4 * (layout.OFFSETS["REPORTS"] + epoch % layout.REPORTS * layout.REPORT_WORDS)] for epoch in (1, 64, 1000)
    ]
    for status, row in zip(statuses, found[3:-1], strict=True):
        assert row == [status, 5, 3, 4, 0, status in {0, 3, 5}, 1]
    assert found[-1] == statuses


def test_a_device_that_ends_loops_early_takes_one_group(monkeypatch: pytest.MonkeyPatch) -> None:
    profile = PROFILES["measured"]
    monkeypatch.setattr(export, "describe", lambda _: profile)
    short = replace(choose(profile), max_groups=1, max_groups_reason="loops end early").with_capabilities(std=None)
    text = export.render(ABSENT, "host", short)
    assert "#define PORTBAR_HOST_MAX_GROUPS 1u" in text
    assert '#define PORTBAR_HOST_BUILD_OPTIONS ""' in text


@pytest.mark.parametrize("header", ["measured"], indirect=True)
def test_a_kernel_cannot_include_it(header: DeviceProfile, tmp_path: Path) -> None:
    with pytest.raises(RenderError, match=r"line 2: .*for C and C\+\+ hosts"):
        resolve_includes('\n#include "portbar/host.h"\n', choose(header))
    source = '#define __OPENCL_VERSION__ 300\n#include "portbar/host.h"\n'
    (tmp_path / "kernel.c").write_text(source, encoding="utf-8")
    done = ran(compiler("gcc"), "-c", f"-I{tmp_path}", tmp_path / "kernel.c", "-o", "/dev/null")
    assert done.returncode != 0
    assert "is for the host" in done.stderr


def loader() -> str:
    """Return the path of the OpenCL loader of this process, so that a program that links with it sees the same platforms."""
    try:
        mapped = Path("/proc/self/maps").read_text(encoding="utf-8")
    except OSError:
        pytest.skip("this system does not tell which OpenCL loader is loaded (/proc/self/maps)")
    found = re.search(r"(/\S*/libOpenCL[^/\s]*\.so[^/\s]*)$", mapped, re.MULTILINE)
    if found is None:
        pytest.skip("PyOpenCL's loader is not called libOpenCL")
    return found[1]


def documented_host(device: cl.Device, folder: Path, reductions: int) -> subprocess.CompletedProcess[str]:
    """Build the host of the page for C, with canary words after its buffers, and run it on the device's platform."""
    cc, library = compiler("gcc"), loader()
    kernel, host = (block.text for block in blocks(DOCS / "c_and_cpp.md") if block.language == "c")
    with skipped_where_refused():
        export.export(device, folder, sources=[kernel])
    assert host.count("capacity, 1)") == 2
    (folder / "ring.cl").write_text(kernel, encoding="utf-8")
    (folder / "ring.c").write_text(host.replace("capacity, 1)", f"capacity, {reductions})"), encoding="utf-8")
    command = [cc, "-std=c99", "-Wall", "-Wextra", "-Werror", "-Wno-deprecated-declarations", f"-I{folder}"]
    command += [f"-idirafter{HERE}", "-include", str(HERE / "canary.h"), str(folder / "ring.c"), library]
    command += [f"-Wl,-rpath,{Path(library).parent}", "-Wl,--allow-shlib-undefined", "-o", str(folder / "ring")]
    built = ran(*command)
    assert built.returncode == 0, built.stderr
    title = f"{device.platform.name} {device.platform.version}"
    done = ran(folder / "ring", folder / "ring.cl", folder, env=environment(PORTBAR_TEST_PLATFORM_IS=title))
    if done.returncode == 77:
        pytest.skip(f"the loader gives a program without PyOpenCL no platform {title}")
    return done


@pytest.mark.device
def test_the_documented_host_stays_within_its_buffers(context: cl.Context, tmp_path: Path) -> None:
    done = documented_host(context.devices[0], tmp_path, reductions=1)
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.match(r"70 launches of \d+ work-groups: right\n", done.stdout), done.stdout
    assert done.stdout.count("intact") == 4


@pytest.mark.device
@pytest.mark.slow
def test_a_state_without_room_for_reductions_is_overrun(context: cl.Context, tmp_path: Path) -> None:
    """The size of the barriers' words alone is too small for the documented kernel, and the canaries show it."""
    done = documented_host(context.devices[0], tmp_path, reductions=0)
    assert done.returncode == 3, done.stdout + done.stderr
    assert "after the end of buffer 0" in done.stderr


WAIT = """#include "portbar/atomics.h"
kernel void hand_over(PORTBAR_WAIT_PARAM, volatile global uint *ready, global uint *out)
{
    out[0] = portbar_atomic_wait(ready, 0u);
    out[1] = portbar_atomic_wait(ready, 1u);
}
"""


@pytest.mark.device
def test_a_wait_without_a_grid_takes_no_buffer_and_zeros(
    context: cl.Context, queue: cl.CommandQueue, tmp_path: Path
) -> None:
    page = (DOCS / "c_and_cpp.md").read_text(encoding="utf-8")
    assert "`PORTBAR_WAIT_PARAM`" in page
    with skipped_where_refused():
        export.export(context.devices[0], tmp_path, sources=[WAIT])
    header = (tmp_path / "portbar" / "host.h").read_text(encoding="utf-8")
    options = re.findall(r'^#define PORTBAR_HOST_BUILD_OPTIONS "(.*)"', header, re.MULTILINE)[0].split()
    program = cl.Program(context, WAIT).build([f"-I{tmp_path}", "-DPORTBAR_ATOMIC_WAIT_POLLS=640", *options])
    ready, out = np.ones(1, np.uint32), np.full(2, 7, np.uint32)
    flags = cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR
    buffers = [cl.Buffer(context, flags, hostbuf=array) for array in (ready, out)]
    program.hand_over(queue, (1,), (1,), None, np.zeros(4, np.uint32), *buffers)
    cl.enqueue_copy(queue, out, buffers[1])
    assert out.tolist() == [1, 0]
