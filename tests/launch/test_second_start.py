"""The second start of a script makes nothing anew: it reads, chooses and renders nothing, and imports nothing for that."""

from __future__ import annotations

import contextlib
import hashlib
import json
import subprocess
import sys
import warnings
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyopencl as cl
import pytest
from pyopencl import array as cl_array
from pyopencl import characterize

import portbar
from portbar.backends.backend import BACKENDS
from portbar.device import quirks
from portbar.device.addresses import address_of
from portbar.device.facts import facts
from portbar.launching import analysis, build
from portbar.primitives import headers
from portbar.records import cache, remembered
from tests import checkout, support

pytestmark = pytest.mark.device

#: Nothing of these is needed for a program that was made before.
NOT_NEEDED = (
    *("mako", "clang", "jsonschema", "asyncio", "urllib.request"),
    *("portbar.reading.libclang", "portbar.reading.tree", "portbar.reading.reader", "portbar.reading.conditions"),
    *(
        "portbar.rendering.pruning",
        "portbar.primitives.headers",
        "portbar.choices.strategy",
        "portbar.choices.requirements",
    ),
    *("portbar.device.matrix", "portbar.device.child", "portbar.launching.analysis", "portbar.launching.hints"),
    *("portbar.primitives.reduction.loops", "portbar.primitives.scan", "portbar.launching.isolation"),
)

#: Of a program: what was loaded, and what was compiled from source, when its kernel was there and after its first launch.
SCRIPT = """
import json, sys
import numpy as np
import pyopencl as cl
import pyopencl.array
import portbar
from portbar.backends.backend import BACKENDS
from portbar.device.addresses import DeviceAddress

device = DeviceAddress.from_json(json.loads(sys.argv[1])).resolve()
source, keywords, not_needed = json.loads(sys.argv[2])
context = cl.Context([device])
queue = cl.CommandQueue(context)
from portbar.launching import build
compiled = []
right = build.compile_program
build.compile_program = lambda *args, **named: compiled.append(1) or right(*args, **named)
kernel = portbar.Program(context, source, **keywords).kernel("k")
loaded = [name for name in not_needed if name in sys.modules]
out = pyopencl.array.zeros(queue, 64, np.uint32)
kernel(queue, None, (8,), out.data, np.uint32(3), num_groups=1).wait()
print(json.dumps([loaded, len(compiled), [name for name in not_needed if name in sys.modules], out.get().tolist()]))
"""

SOURCE = """
#include "portbar/device_barrier.h"
typedef uint count;
kernel void k(PORTBAR_GRID_PARAM, global uint *out, count n)
{
    PORTBAR_ENTER(grid);
    for (count i = 0; i < n; ++i)
        portbar_device_barrier(&grid);
    PORTBAR_FOR(i, &grid, 64u)
        out[i] = i + n;
}
"""


@pytest.fixture(autouse=True)
def _remembering(own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(remembered.VARIABLE)
    monkeypatch.delenv("PYOPENCL_NO_CACHE", raising=False)


def command(device: cl.Device, source: str, **keywords: Any) -> list[str]:
    arguments = (json.dumps(address_of(device).to_json()), json.dumps([source, keywords, NOT_NEEDED]))
    return [sys.executable, "-W", "error::portbar.UnreadWarning", "-c", SCRIPT, *arguments]


def started(device: cl.Device, source: str, **keywords: Any) -> tuple[list[str], int, list[str]]:
    """Modules that a new process loads for a program and for its first launch, and how often it compiles source."""
    done = subprocess.run(
        command(device, source, **keywords),
        env=checkout.environment(), capture_output=True, text=True, timeout=110, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    loaded, compiled, later, out = json.loads(done.stdout)
    assert out == [place + 3 for place in range(64)]
    return loaded, compiled, later


#: Of a start after another: the modules of portbar, and those of them whose dataclasses had methods compiled.
COUNTS = """
import dataclasses, json, sys
import numpy as np
import pyopencl as cl
import pyopencl.array
classes = []
dataclasses.exec = lambda text, names, *more: classes.append(names["__name__"]) or exec(text, names, *more)
import portbar
from portbar.device.addresses import DeviceAddress

device = DeviceAddress.from_json(json.loads(sys.argv[1])).resolve()
context = cl.Context([device])
queue = cl.CommandQueue(context)
numbers = pyopencl.array.to_device(queue, np.arange(64, 0, -1, dtype=np.uint32))
launched = (queue, (8,), (8,), numbers.data, np.uint32(1))
"""
COUNTED = """
modules = sorted(name for name in sys.modules if name.startswith("portbar."))
print(json.dumps([modules, [name for name in classes if name.startswith("portbar.")], numbers.get().tolist()]))
"""
#: Operation -> its text, and the most modules of portbar that it may import.
ASKED = {
    "program": ("kernel = portbar.Program(context, sys.argv[2]).kernel('k'); kernel(*launched).wait()", 74),
    "sort": ("numbers = portbar.sort(queue, numbers)", 119),
}


@pytest.mark.parametrize("asked", ASKED)
def test_a_second_start_compiles_no_class_and_imports_no_reader(
    device: cl.Device, findings: object, asked: str
) -> None:
    text, most = ASKED[asked]
    source = SOURCE.replace("typedef uint count;", "").replace("count", "uint")
    call = [sys.executable, "-c", COUNTS + text + COUNTED, json.dumps(address_of(device).to_json()), source]
    for _ in range(2):
        done = subprocess.run(
            call, env=checkout.environment(), capture_output=True, text=True, timeout=110, check=False
        )
        assert done.returncode == 0, done.stderr
        modules, classes, numbers = json.loads(done.stdout)
        assert numbers == list(range(1, 65))
    assert classes == []
    assert [name for name in modules if name.startswith("portbar.reading.")] == []
    assert len(modules) <= most


def test_a_program_compiles_where_pyopencl_knows_of_no_driver_s_cache(
    context: cl.Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As before PyOpenCL 2024.2.3, which finds its own module by its name in `sys.modules`."""
    monkeypatch.setattr(cl, "characterize", SimpleNamespace())
    queue = cl.CommandQueue(context)
    out = cl_array.zeros(queue, 64, np.uint32)
    kernel = portbar.Program(context, SOURCE, options=["-DWITHOUT=1"]).kernel("k")
    kernel(queue, None, (8,), out.data, np.uint32(3), num_groups=1).wait()
    assert out.get().tolist() == [place + 3 for place in range(64)]


def keeps_binaries(device: cl.Device) -> bool:
    return not characterize.has_src_build_cache(device)


@pytest.mark.parametrize("keywords", [{}, {"debug": True}, {"options": ["-DEXTRA=1"]}], ids=str)
def test_a_second_start_makes_nothing_and_imports_nothing_for_it(
    device: cl.Device, findings: object, keywords: dict[str, Any]
) -> None:
    first, compiled, _ = started(device, SOURCE, **keywords)
    assert {"mako", "portbar.launching.analysis", "portbar.reading.libclang"} <= set(first)
    assert compiled > 0
    loaded, again, later = started(device, SOURCE, **keywords)
    assert loaded == []
    # A driver's own cache is asked by source.
    assert again == (0 if keeps_binaries(device) else compiled)
    assert later == []


def test_other_text_is_made_anew(device: cl.Device, findings: object) -> None:
    assert "mako" in started(device, SOURCE)[0]
    assert "mako" in started(device, SOURCE.replace("i + n", "n + i"))[0]
    assert "mako" not in started(device, SOURCE)[0]


def test_many_processes_may_start_at_once(device: cl.Device, findings: object, own_cache: Path) -> None:
    running = [
        subprocess.Popen(command(device, SOURCE), env=checkout.environment(), stdout=subprocess.PIPE, text=True)
        for _ in range(3)
    ]
    for one in running:
        out, _ = one.communicate(timeout=110)
        assert json.loads(out)[-1][0] == 3
    assert started(device, SOURCE)[0] == []
    kept = [path for kind in (remembered.KIND, remembered.BINARIES) for path in (own_cache / kind).glob("*")]
    assert {path.suffix for path in kept} == {".json"}


def launched(program: portbar.Program, queue: cl.CommandQueue) -> list[int]:
    out = support.filled(queue, 64)
    program.kernel("k")(queue, None, (8,), out, np.uint32(3), num_groups=1).wait()
    return [int(value) for value in support.uints(queue, out)]


RIGHT = [place + 3 for place in range(64)]


@pytest.fixture
def makes(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the functions that make something, as they are called."""
    made: list[str] = []
    for module, name in ((analysis, "make"), (headers, "resolve_includes"), (build, "compile_program")):
        right = getattr(module, name)

        def note(*args: Any, _right: Any = right, _name: str = name, **named: Any) -> Any:
            made.append(_name)
            return _right(*args, **named)

        monkeypatch.setattr(module, name, note)
    return made


def test_a_changed_include_is_read_anew(
    context: cl.Context, queue: cl.CommandQueue, tmp_path: Path, makes: list[str]
) -> None:
    own = tmp_path / "k.cl"
    own.write_text(SOURCE.replace("i + n", "i + MORE").replace("typedef", '#include "more.h"\ntypedef'))
    for more in ("3u", "5u", "5u"):
        (tmp_path / "more.h").write_text(f"#define MORE {more}\n")
        assert launched(portbar.Program(context, own), queue) == [place + int(more[0]) for place in range(64)]
    assert makes.count("make") == 2
    assert makes[-1] == "compile_program" or keeps_binaries(queue.device)


def test_what_a_program_has_registered_is_not_kept(
    context: cl.Context, queue: cl.CommandQueue, makes: list[str]
) -> None:
    assert launched(portbar.Program(context, SOURCE), queue) == RIGHT
    own = replace(BACKENDS["c11"], name="own", rank=99)
    for kept in (False, True):
        makes.clear()
        with contextlib.nullcontext() if kept else BACKENDS.registered(own):
            assert launched(portbar.Program(context, SOURCE), queue) == RIGHT
        assert ("make" in makes) == (not kept)


@pytest.mark.parametrize(
    ("change", "anew"),
    [
        ({}, False),
        ({"options": ["-DA=1"]}, True),
        ({"spin_limit": 5.0}, False),
        ({"strategy": {"device_barrier": "tree"}}, True),
        ({"debug": True}, True),
        ({"require": ["groups>=1"]}, True),
    ],
    ids=str,
)
def test_what_a_text_follows_from_names_it(
    context: cl.Context, queue: cl.CommandQueue, makes: list[str], change: dict[str, Any], anew: bool
) -> None:
    assert launched(portbar.Program(context, SOURCE), queue) == RIGHT
    makes.clear()
    for expected in (anew, False):
        assert launched(portbar.Program(context, SOURCE, **change), queue) == RIGHT
        assert ("make" in makes) == expected
        makes.clear()


def test_the_environment_s_overrides_count(
    context: cl.Context, queue: cl.CommandQueue, makes: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen = [portbar.Program(context, SOURCE).strategy(queue.device).device_barrier.value]
    for name in ("tree", "counter"):
        monkeypatch.setenv("PORTBAR_STRATEGY", f"device_barrier={name}")
        chosen += [portbar.Program(context, SOURCE).strategy(queue.device).device_barrier.value]
    assert chosen[1:] == ["tree", "counter"]
    assert makes.count("make") == 3


@pytest.mark.parametrize("variable", [remembered.VARIABLE, cache.ENVIRONMENT_VARIABLE])
def test_a_user_may_want_everything_anew(
    context: cl.Context, queue: cl.CommandQueue, makes: list[str], monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    monkeypatch.setenv(variable, "1" if variable == remembered.VARIABLE else "off")
    for _ in range(2):
        assert launched(portbar.Program(context, SOURCE), queue) == RIGHT
    assert makes.count("make") == 2
    assert makes.count("compile_program") >= 2


def test_pyopencl_s_own_variable_makes_binaries_anew(
    context: cl.Context, queue: cl.CommandQueue, makes: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYOPENCL_NO_CACHE", "1")
    for _ in range(2):
        portbar.Program(context, SOURCE)
    assert makes.count("make") == 1
    assert makes.count("compile_program") == 2


def test_damaged_entries_are_made_anew(
    context: cl.Context, queue: cl.CommandQueue, makes: list[str], own_cache: Path
) -> None:
    assert launched(portbar.Program(context, SOURCE), queue) == RIGHT
    first = list(makes)
    damaged = [path for kind in (remembered.KIND, remembered.BINARIES) for path in (own_cache / kind).glob("*.json")]
    assert damaged
    for path in damaged:
        entry = json.loads(path.read_text())
        entry["value"]["json"] = entry["value"]["json"].replace("0", "1")
        path.write_text(json.dumps(entry))
    makes.clear()
    with pytest.warns(cache.CacheWarning, match="damaged"):
        assert launched(portbar.Program(context, SOURCE), queue) == RIGHT
    assert makes == first
    makes.clear()
    with warnings.catch_warnings():
        warnings.simplefilter("error", cache.CacheWarning)
        assert launched(portbar.Program(context, SOURCE), queue) == RIGHT
    assert "make" not in makes


@pytest.mark.parametrize("how", ["damaged", "refused"])
def test_a_binary_that_is_damaged_or_that_the_driver_refuses_is_compiled_anew(
    context: cl.Context, queue: cl.CommandQueue, makes: list[str], own_cache: Path, how: str
) -> None:
    if not keeps_binaries(queue.device):
        pytest.skip("the driver keeps binaries itself")
    is_damaged = how == "damaged"
    if not is_damaged and quirks.has_effect(quirks.FOREIGN_BINARIES_CRASH, facts(queue.device)):
        pytest.skip("the driver ends the process at a binary that it did not make")
    portbar.Program(context, SOURCE)
    (kept,) = (own_cache / remembered.BINARIES).glob("*.json")
    ((binary,),) = [remembered.load(kept.stem, (build.Binary, build.Argument), remembered.BINARIES) or ()]
    wrong = replace(binary, base64="AAAA", sha256=binary.sha256 if is_damaged else hashlib.sha256(bytes(3)).hexdigest())
    remembered.store(kept.stem, wrong, remembered.BINARIES)
    assert launched(portbar.Program(context, SOURCE), queue) == RIGHT
    assert makes.count("make") == 1
    assert makes[:3].count("compile_program") == 1


def test_warnings_are_as_at_the_first_start(
    context: cl.Context, makes: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    read = analysis.read

    def hidden(name: str, source: str, *arguments: Any, **named: Any) -> Any:
        return read(name, source.replace("3u", "(vendor_t)3"), *arguments, **named)

    monkeypatch.setattr(analysis, "read", hidden)
    source = "kernel void k(global uint *a) { barrier(CLK_LOCAL_MEM_FENCE); a[0] = 3u; }\n"
    for _ in range(2):
        with pytest.warns(portbar.UnreadWarning, match="could not read this function") as caught:
            portbar.Program(context, source)
        assert caught[0].filename == __file__
    assert makes.count("make") == 1


def test_without_a_reader_nothing_is_kept(
    context: cl.Context, makes: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(analysis, "is_available", lambda: False)
    monkeypatch.setattr(analysis, "_told", {"told"})
    source = "kernel void k(global uint *a) { barrier(CLK_LOCAL_MEM_FENCE); a[0] = 3u; }\n"
    for _ in range(2):
        portbar.Program(context, source)
    assert makes.count("make") == 2


def test_a_driver_s_warnings_are_as_at_the_first_start(context: cl.Context, makes: list[str]) -> None:
    text = f'{SOURCE}\n#warning "mind this"\n'
    told = []
    for _ in range(2):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            portbar.Program(context, text)
        told.append([str(one.message) for one in caught if issubclass(one.category, cl.CompilerWarning)])
    if keeps_binaries(context.devices[0]):
        assert makes.count("compile_program") == 1
    # NVIDIA's driver keeps compiled programs itself, without their log.
    again = 0 if "NVIDIA" in context.devices[0].platform.name else len(told[0])
    assert len(told[1]) == again


def test_misuse_is_refused_at_each_start(context: cl.Context) -> None:
    wrong = SOURCE.replace("for (count i = 0; i < n; ++i)", "if (get_local_id(0) == 0)")
    refused = []
    for _ in range(2):
        with pytest.raises(portbar.DivergenceError) as error:
            portbar.Program(context, wrong)
        refused.append(str(error.value))
    assert refused[0] == refused[1]


def test_conditions_of_a_debug_build_are_named(
    context: cl.Context, queue: cl.CommandQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = SOURCE.replace("for (count i = 0; i < n; ++i)", "if (out[get_local_id(0)] == 0)")
    for _ in range(2):
        monkeypatch.setattr("portbar.primitives.agreement._conditions", {})
        kernel = portbar.Program(context, source, debug=True).kernel("k")
        out = support.filled(queue, 64)
        cl.enqueue_copy(queue, out, np.uint32([1, *[0] * 63]))
        with pytest.raises(portbar.Error, match=r"the condition `out\[get_local_id\(0\)\] == 0` differs"):
            kernel(queue, None, (8,), out, np.uint32(3), num_groups=1).wait()


MANY = """
#include "portbar/atomics.h"
typedef struct { float x; } point;
typedef float real;
kernel __attribute__((reqd_work_group_size(4, 2, 1)))
void one(global const float4 *restrict a, constant int *b, local uint *c, real d, global real *e, point f,
         volatile global char *g)
{
}
kernel void other(const uint n, global uint *out) { portbar_atomic_fetch_add(out, n); }
"""


def test_kernels_of_a_kept_binary_are_as_those_of_the_source(context: cl.Context, device: cl.Device) -> None:
    found = []
    for _ in range(2):
        program = portbar.Program(context, MANY)
        query = cl.kernel_work_group_info
        for name in program.kernel_names():
            compiled = program.kernel(name)._compiled
            handle = compiled.handle(device)
            told = [
                handle.get_work_group_info(question, device)
                for question in (query.COMPILE_WORK_GROUP_SIZE, query.WORK_GROUP_SIZE, query.LOCAL_MEM_SIZE)
            ]
            found.append((name, compiled.parameters, compiled.exclusive, compiled.count, told))
    assert found[:2] == found[2:]
