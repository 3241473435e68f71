"""The `portbar` command: data on standard output and nothing else, messages that name the remedy, exit statuses."""

from __future__ import annotations

import json
import re
import shlex
import warnings
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pyopencl as cl
import pytest

import portbar
from portbar.choices import profile
from portbar.cli import bench, devices, doctor, export, selected
from portbar.device import icd, listing, quirks
from portbar.device.addresses import DeviceAddress, list_devices, select_devices
from portbar.device.facts import DeviceFacts
from portbar.device.listing import Listing
from portbar.device.usable import EmptyPlatform, Usability, explain_empty
from portbar.errors import DeviceError
from portbar.primitives.headers import HOST_HEADER, header_names
from tests.checkout import ROOT, python_path
from tests.checkout import portbar as portbar_process
from tests.cli.support import FAILS, GOOD, WORKS
from tests.export.test_c_host import PROFILES
from tests.export.test_export import KERNEL
from tests.report_support import printed
from tests.survey.support import barrier_row

#: Those that need a device.
COMMANDS = (("devices",), ("doctor",), ("survey",), ("bench", "barrier"), ("check",), ("export",))

BAD = DeviceAddress(1, 0, "Another", "B Device", "OpenCL 1.2")


@pytest.fixture
def no_platform(monkeypatch):
    def nothing():
        raise DeviceError(icd._explain_nothing())

    monkeypatch.setattr(icd, "load_platforms", nothing)
    nowhere = Listing((), problem=icd._explain_nothing())
    monkeypatch.setattr(listing, "look", lambda **_: nowhere)


@pytest.fixture
def machine(monkeypatch):
    """One device that works and one that does not, and a platform without devices; a test may change each."""
    known = []
    for where in (GOOD, BAD):
        platform = {"platform_name": where.platform_name, "platform_version": where.platform_version}
        known.append((where, DeviceFacts(name=where.device_name, compute_units=4, **platform)))
    one = SimpleNamespace(
        listing=Listing(tuple(known), (DeviceFacts(platform_name="Empty"),)),
        verdicts={GOOD: WORKS, BAD: FAILS},
        empty=EmptyPlatform("Empty", "1", "it lists no devices", "set SOME_VARIABLE=1"),
    )
    for module in (devices, doctor):
        monkeypatch.setattr(module, "listed", lambda: one.listing)
        monkeypatch.setattr(module, "explain_empty", lambda _: one.empty)
    monkeypatch.setattr(
        selected, "check_listed", lambda known, **_: [(where, one.verdicts[where]) for where, _ in known]
    )
    monkeypatch.setattr(profile, "profile_of", portbar.DeviceProfile)
    monkeypatch.setattr(doctor, "profile_of", portbar.DeviceProfile)
    return one


@pytest.mark.parametrize(
    "arguments",
    [
        ("nonsense",),
        ("devices", "--nonsense"),
        ("survey", "--timeout", "0"),
        ("bench", "barrier", "--local-size", "0"),
        ("bench", "barrier", "--seconds", "inf"),
        ("check", "--seconds", "nan"),
        ("check", "--seconds", "1e300"),
        ("check", "--seconds", "0"),
        ("check", "--test", "nonsense"),
        ("check", "--strategy", "nonsense"),
        ("check", "--seed", "-1"),
        ("check", "--list", "-t", "x"),
        ("compare", "--factor", "nan", "h200", "h200"),
        ("survey", "--timeout", "nan"),
        ("survey", "--timeout", "inf"),
        ("survey", "--timeout", "1e300"),
        ("survey", "--check", "h200", "--factor", "nan"),
        ("survey", "--check", "h200", "--factor", "inf"),
        ("export",),
        ("export", "-o", "x", "--strategy", "device_barrier=nonsense"),
    ],
)
def test_wrong_usage_is_status_2_with_nothing_on_standard_output(portbar_command, arguments):
    code, out, err = portbar_command(*arguments)
    assert (code, out) == (2, "")
    assert "Error" in err


@pytest.mark.parametrize("extra", [(), ("--json",)])
@pytest.mark.parametrize("command", COMMANDS)
def test_without_any_platform_the_status_is_3_and_the_remedy_is_named(portbar_command, no_platform, command, extra):
    more = ("-o", "x") if command == ("export",) else ()
    code, out, err = portbar_command(*command, *more, *extra)
    assert code == 3
    if command == ("doctor",):
        assert "portbar[cpu]" in (json.loads(out)["problem"] if extra else out)
    else:
        assert out == ""
        assert 'pip install "portbar[cpu]"' in err


@pytest.mark.parametrize(
    "program",
    [
        "import pyopencl; pyopencl.get_platforms = lambda: []",
        "import pyopencl; pyopencl.get_platforms = lambda: pyopencl.not_there()",
        "import sys; sys.modules['pyopencl'] = None",
    ],
    ids=["no platform", "a mistake of our own", "no PyOpenCL"],
)
def test_a_real_process_without_opencl_leaves_with_a_message(program, tmp_path):
    # Devices are listed in a child process, which imports this, too.
    (tmp_path / "sitecustomize.py").write_text(program, encoding="utf-8")
    done = portbar_process("devices", PYTHONPATH=python_path(tmp_path))
    if "not_there" in program:
        # A mistake of our own is not a message for a user: it keeps its traceback.
        assert done.returncode == 1
        assert "Traceback" in done.stderr
        return
    assert (done.returncode, done.stdout) == (3, ""), done.stderr
    assert "Traceback" not in done.stderr
    assert "pip install" in done.stderr


def test_a_drivers_error_is_a_message_and_status_1(portbar_command, monkeypatch):
    def broken(_patterns):
        raise cl.MemoryError("clSomething failed: OUT_OF_HOST_MEMORY")

    monkeypatch.setattr(selected, "chosen", broken)
    code, out, err = portbar_command("bench", "barrier")
    assert (code, out) == (1, "")
    assert "OUT_OF_HOST_MEMORY" in err
    assert "portbar doctor" in err


def test_a_warning_is_one_line_on_standard_error(portbar_command, monkeypatch, machine):
    warn = warnings.warn
    monkeypatch.setattr(devices, "explain_empty", lambda _: warn("the cache is full", stacklevel=1) or machine.empty)
    _, out, err = portbar_command("devices", "--json")
    assert json.loads(out)["devices"]
    assert err == "portbar: the cache is full\n"


def test_devices_shows_names_with_brackets_and_remedies_in_full(portbar_command, machine):
    code, out, err = portbar_command("devices")
    assert (code, err) == (0, "")
    assert "A Device [x]" in out
    assert "with options" not in out
    assert 'Remedy: install "portbar[cpu]".' in out
    assert "Empty has no device" in out
    assert "SOME_VARIABLE" in out
    assert max(map(len, out.splitlines())) <= 80
    assert "\x1b" not in out


@pytest.mark.parametrize("room", [60, 80])
def test_names_of_devices_break_after_words_and_hyphens(room):
    name, platform = "pthread-skylake-avx512-Intel(R) Xeon(R) Processor", "Portable Computing Language, OpenCL 3.0 PoCL"
    entry = {"device": "0:0", "name": name, "platform": platform, "facts": {"compute_units": 2}, "usable": True}
    shown = printed(devices.table_of({"devices": [entry], "empty_platforms": []}, room), room)
    parts = set(re.findall(r"\S+", name.replace("-", "- "))) | set(platform.split())
    words = set(re.findall(r"\S+", shown.replace("-", "- ")))
    assert words - parts == {"device", "platform", "units", "works", "0:0", "2", "yes"}
    assert "Processor" in words
    assert max(map(len, shown.splitlines())) <= room


@pytest.mark.parametrize("name", ["x" * 200, "x" * 20])
def test_a_name_without_a_place_to_break_leaves_room_for_the_platform(name):
    entry = {"device": "0:0", "name": name, "platform": "A platform", "facts": {"compute_units": 2}, "usable": True}
    shown = printed(devices.table_of({"devices": [entry], "empty_platforms": []}, 80))
    assert "A platform" in shown
    assert shown.count("x") == len(name)


@pytest.mark.parametrize("extra", [(), ("--json",)])
def test_devices_warns_of_loops_that_end_early(portbar_command, machine, monkeypatch, extra):
    found = portbar.Findings(loop_limit=65_535)
    monkeypatch.setattr(profile, "profile_of", lambda _: portbar.DeviceProfile(DeviceFacts(name="x"), found))
    code, out, _ = portbar_command("devices", *extra)
    text = " ".join(out.split())
    assert code == 0
    assert "ends loops silently after 65535 iterations" in text
    assert "another runtime" in text
    # Of a device that does not work that is all there is to say.
    assert text.count("65535") == 1


def test_devices_json_has_the_devices_that_were_asked_for(portbar_command, machine):
    code, out, _ = portbar_command("devices", "--json")
    listed = json.loads(out)
    assert code == 0
    assert [entry["usable"] for entry in listed["devices"]] == [True, False]
    assert [entry["device"] for entry in listed["devices"]] == ["0:0", "1:0"]
    assert listed["devices"][1]["remedy"] == FAILS.remedy
    assert listed["devices"][0]["facts"]["compute_units"] == 4
    assert listed["empty_platforms"][0]["name"] == "Empty"
    code, out, _ = portbar_command("devices", "-d", "another", "--json")
    assert (code, [entry["device"] for entry in json.loads(out)["devices"]]) == (3, ["1:0"])


def test_doctor_finds_the_fault_and_is_status_1(portbar_command, machine):
    code, out, _ = portbar_command("doctor")
    assert code == 1
    assert "does not work: error: unknown target CPU" in out
    assert 'install "portbar[cpu]"' in " ".join(out.split())
    assert "portbar survey --device 0:0" in out
    assert max(map(len, out.splitlines())) <= 80
    code, out, _ = portbar_command("doctor", "--json")
    assert code == 1
    assert [entry["usable"] for entry in json.loads(out)["devices"]] == [True, False]


@pytest.mark.parametrize(("is_fault", "status"), [(True, 1), (False, 0)])
def test_doctor_is_status_0_where_nothing_is_lost(portbar_command, machine, is_fault, status):
    machine.empty = EmptyPlatform("Clover", "1", "it has no device here", "nothing is lost", is_fault)
    machine.verdicts[BAD] = WORKS
    code, out, _ = portbar_command("doctor")
    assert code == status
    assert "nothing is lost" in out


def test_doctor_does_not_tell_to_install_what_it_names(portbar_command, machine):
    facts = DeviceFacts(name="B Device", platform_name="P", platform_version="OpenCL 3.0 PoCL 3.0-rc2")
    machine.listing = Listing(((GOOD, facts), (BAD, facts)))
    reason, remedy = "compiling: error: unknown target CPU 'generic'", "use 0:0 in its place"
    machine.verdicts[BAD] = Usability(False, reason, remedy, 0.5)
    _, out, _ = portbar_command("doctor")
    assert "use 0:0 in its place" in " ".join(out.split())
    assert "pip install" not in out


def test_doctor_shows_all_that_the_table_says_of_a_known_fault(portbar_command, machine):
    of = DeviceFacts(name="A Device", platform_name="P", platform_version="OpenCL 3.0 PoCL 3.1")
    machine.listing, machine.verdicts[BAD] = Listing(((GOOD, of), (BAD, of))), WORKS
    _, out, _ = portbar_command("doctor", "--json")
    names = ("name", "fault", "seen", "workaround", "retire")
    known = [{name: getattr(quirk, name) for name in names} for quirk in quirks.matching(of)]
    faults = (
        "leader-forgotten failed-wait-list failed-event-released break-after-return arguments-unchecked rewritten-logs "
        "samplers-in-command-buffers first-item-twice endless-loops values-after-loops parents-listed all-values"
    )
    names = {f"pocl-{fault}" for fault in faults.split()}
    assert {quirk["name"] for quirk in known} == names
    assert json.loads(out)["devices"][0]["quirks"] == known
    _, out, _ = portbar_command("doctor", "-v")
    text = " ".join(out.split())
    assert all(part in text for quirk in known for part in quirk.values())
    _, out, _ = portbar_command("doctor")
    text = " ".join(out.split())
    assert all(quirk["name"] in text for quirk in known)
    assert not any(quirk["workaround"] in text or quirk["seen"] in text for quirk in known)
    assert "portbar doctor -v" in text


@pytest.mark.parametrize(
    "words", [("doctor",), ("doctor", "-v"), ("devices",), ("show", "h200"), ("show", "-v", "h200")]
)
@pytest.mark.parametrize("columns", ["80", None])
def test_output_fits_80_columns(portbar_command, machine, monkeypatch, words, columns):
    of = DeviceFacts(name="A Device " * 6, platform_name="P", platform_version="OpenCL 3.0 PoCL 3.1", compute_units=4)
    machine.listing = Listing(((GOOD, of), (BAD, of)))
    if columns is None:
        monkeypatch.delenv("COLUMNS", raising=False)
    else:
        monkeypatch.setenv("COLUMNS", columns)
    _, out, _ = portbar_command(*words)
    assert len(out.splitlines()) > 5
    assert max(map(len, out.splitlines())) <= 80, max(out.splitlines(), key=len)


def test_doctor_says_first_whether_all_is_well(portbar_command, machine):
    _, out, _ = portbar_command("doctor")
    assert " ".join(out.split()).startswith("1 of 2 OpenCL devices work. Problems: 1:0 B Device does not work")
    machine.empty = EmptyPlatform("Clover", "1", "none here", "nothing", False)
    machine.verdicts[BAD] = WORKS
    _, out, _ = portbar_command("doctor")
    assert out.splitlines()[0] == "All is well: 2 of 2 OpenCL devices work."
    machine.verdicts = {GOOD: FAILS, BAD: FAILS}
    code, out, _ = portbar_command("doctor")
    assert code == 3
    assert out.splitlines()[0].startswith("No OpenCL device works: 0:0 A Device [x] does not work")
    machine.listing = Listing((), problem="no platform is here")
    _, out, _ = portbar_command("doctor")
    assert out.splitlines()[:2] == ["No OpenCL device works.", "no platform is here"]


def test_doctor_is_content_with_a_platform_that_waits_to_be_switched_on(portbar_command, machine, monkeypatch):
    monkeypatch.delenv("RUSTICL_ENABLE", raising=False)
    machine.empty = explain_empty(DeviceFacts(platform_name="rusticl"))
    machine.verdicts[BAD] = WORKS
    code, out, _ = portbar_command("doctor")
    assert code == 0
    assert out.splitlines()[0] == "All is well: 2 of 2 OpenCL devices work."
    assert "RUSTICL_ENABLE=llvmpipe" in out
    machine.listing = Listing((), (DeviceFacts(platform_name="rusticl"),))
    code, out, _ = portbar_command("doctor")
    assert code == 3
    assert out.splitlines()[0] == "No OpenCL device works: rusticl lists no device."


@pytest.mark.parametrize("extra", [(), ("--json",)])
def test_doctor_names_a_variable_that_hides_runtimes(portbar_command, machine, monkeypatch, extra):
    monkeypatch.setattr(icd, "hiding_variable", lambda _: "OCL_ICD_VENDORS")
    _, out, _ = portbar_command("doctor", *extra)
    assert "unset OCL_ICD_VENDORS" in " ".join(out.split())


def test_an_unknown_device_lists_what_there_is(portbar_command):
    try:
        list_devices()
    except DeviceError:
        pytest.skip("no platform")
    code, out, err = portbar_command("devices", "--device", "no such thing")
    assert (code, out) == (3, "")
    assert "'no such thing'" in err
    assert "0:0" in err


def test_benchmarks_of_devices_that_fail_say_why(portbar_command, monkeypatch, machine):
    monkeypatch.setattr(selected, "chosen", lambda _: [(BAD, BAD)])
    monkeypatch.setattr(selected, "facts", lambda _: DeviceFacts(name="B Device"))
    monkeypatch.setattr(selected, "check", lambda _: FAILS)
    code, out, err = portbar_command("bench", "barrier", "--json")
    assert code == 3
    assert json.loads(out)[0]["status"] == "unusable"
    assert "unknown target CPU" in err


@pytest.mark.parametrize(
    ("outcome", "most", "words"),
    [
        (
            {"status": "partial", "reason": "the time was over"},
            None,
            "the time was over; a larger --seconds gives it more",
        ),
        ({"status": "crash", "reason": "ended by SIGSEGV"}, None, "ended by SIGSEGV"),
        ({"status": "ok"}, 1, "grids of this device have one work-group, so that no algorithm is better than another"),
    ],
    ids=["late", "crash", "one group"],
)
def test_a_benchmark_that_is_not_stored_says_why_and_what_helps(portbar_command, monkeypatch, outcome, most, words):
    def step(_step, _payload, _limit, rows):
        rows.append(barrier_row([1.0]))
        return outcome

    monkeypatch.setattr(selected, "chosen", lambda _: [(GOOD, GOOD)])
    monkeypatch.setattr(selected, "facts", lambda _: DeviceFacts(name="A Device"))
    monkeypatch.setattr(selected, "check", lambda _: WORKS)
    monkeypatch.setattr(bench, "probe", lambda _: SimpleNamespace(findings=None))
    monkeypatch.setattr(bench, "choose", lambda _: SimpleNamespace(max_groups=most))
    monkeypatch.setattr(bench, "run_step", step)
    _, out, _ = portbar_command("bench", "barrier")
    assert f"not stored: {words}" in " ".join(out.split())


@pytest.mark.device
def test_export_writes_the_headers_that_render_gives(portbar_command, device, selector, tmp_path):
    code, out, _ = portbar_command("export", "-d", selector, "-o", tmp_path / "include")
    assert code == 0
    written = [Path(line) for line in out.splitlines()]
    assert {path.stem for path in written} == {*header_names(), HOST_HEADER}
    for path in written:
        assert path.parent == tmp_path / "include" / "portbar"
        try:
            expected = portbar.render(device, (path.stem,))
        except portbar.UnsupportedFeatureError as error:
            expected = f"#error portbar: {' '.join(str(error).split())}\n"
        text = path.read_text(encoding="utf-8")
        own = re.sub(r'^#include "portbar/.*\n', "", text, flags=re.MULTILINE)
        assert expected == text if path.stem in {"atomics", "device_barrier", HOST_HEADER} else expected.endswith(own)


MEET = """
#include "portbar/device_barrier.h"
kernel void meet(PORTBAR_GRID_PARAM, global uint *out)
{
    PORTBAR_ENTER(grid);
    if (portbar_device_barrier(&grid))
        out[portbar_global_id(&grid)] = 3u;
}
"""


@pytest.mark.device
@pytest.mark.parametrize("source", [MEET, KERNEL], ids=["all", "what a source uses"])
def test_exported_headers_compile_by_include_path_through_plain_pyopencl(
    portbar_command, context, selector, tmp_path, source
):
    (tmp_path / "meet.cl").write_text(source, encoding="utf-8")
    more = ("--source", tmp_path / "meet.cl") if source == KERNEL else ("--strategy", "device_barrier=flag")
    code, out, err = portbar_command("export", "-d", selector, "-o", tmp_path / "include", "--json", *more)
    if code and "cannot" in err:
        pytest.skip(err)
    assert code == 0, err
    assert str(tmp_path / "include" / "portbar" / "device_barrier.h") in json.loads(out)["files"]
    strategy = portbar.choose(portbar.describe(context.devices[0]))
    std = strategy.capabilities.std
    options = ["-I", str(tmp_path / "include"), *([f"-cl-std={std}"] if std else [])]
    assert cl.Kernel(cl.Program(context, source).build(options=options), "meet").num_args >= 3


@pytest.mark.device
def test_a_source_that_is_not_text_is_refused(portbar_command, selector, tmp_path):
    (tmp_path / "binary.cl").write_bytes(b"\xff\xfe")
    code, out, err = portbar_command("export", "-d", selector, "-o", tmp_path, "--source", tmp_path / "binary.cl")
    assert (code, out) == (1, "")
    assert "binary.cl, line 1: the text outside comments is not UTF-8" in err


@pytest.mark.device
def test_export_for_more_than_one_device_is_wrong_usage(portbar_command, device, tmp_path):
    if len(list_devices()) < 2:
        pytest.skip("one device")
    code, out, err = portbar_command("export", "-o", tmp_path / "include")
    assert (code, out) == (2, "")
    assert "--device" in err
    assert not (tmp_path / "include").exists()


PAGE = (ROOT / "docs" / "c_and_cpp.md").read_text(encoding="utf-8")
EXPORTS = [
    *re.findall(r"^portbar (export [^#\n]*?) *(?:#.*)?$", PAGE, re.MULTILINE),
    *re.findall(r"^  portbar (export .*)$", export.command.epilog, re.MULTILINE),
]


@pytest.mark.parametrize("shown", EXPORTS)
def test_a_documented_export_means_one_device_where_two_pocls_are_installed(
    portbar_command, monkeypatch, tmp_path, shown
):
    name = "Portable Computing Language"
    known = [
        (DeviceAddress(0, 0, name, "pthread", "OpenCL 3.0 PoCL 3.1+debian"), "first"),
        (DeviceAddress(1, 0, name, "pthread", "OpenCL 3.0 PoCL 3.0-rc2"), "second"),
    ]
    exported = []
    monkeypatch.setattr("portbar.device.addresses.list_devices", lambda: known)
    monkeypatch.setattr("portbar.cli.export.chosen", select_devices)
    monkeypatch.setattr("portbar.cli.export.export", lambda device, *_, **__: exported.append(device) or [])
    monkeypatch.chdir(tmp_path)
    for name in [*re.findall(r"--source (\S+)", shown), "ring.cl"]:
        (tmp_path / name).write_text("", encoding="utf-8")
    code, _, err = portbar_command(*shlex.split(shown))
    assert (code, exported) == (0, ["first"]), err


def test_export_reads_build_options_that_name_types(portbar_command, monkeypatch, tmp_path):
    source = '#include "portbar/reduction.h"\nkernel void k(global REAL *a)\n{\n    PORTBAR_REDUCTION_SCRATCH(s);\n'
    (tmp_path / "real.cl").write_text(
        f"{source}    a[0] = portbar_work_group_reduce_add(s, a[0]);\n}}\n", encoding="utf-8"
    )
    monkeypatch.setattr("portbar.cli.export.chosen", lambda _: [(None, None)])
    monkeypatch.setattr("portbar.launching.export.describe", lambda _: PROFILES["measured"])
    command = ("export", "-o", tmp_path, "--source", tmp_path / "real.cl")
    for more, is_there in ((), False), (("--option=-DREAL=float",), True):
        code, _, err = portbar_command(*command, *more)
        assert code == 0, err
        text = (tmp_path / "portbar" / "reduction.h").read_text(encoding="utf-8")
        assert ("float portbar_work_group_reduce_add(" in text) == is_there


@pytest.mark.device
def test_a_record_that_cannot_be_written_is_found_before_measuring(portbar_command, selector, tmp_path):
    (tmp_path / "file").write_text("", encoding="utf-8")
    code, out, err = portbar_command("survey", "--quick", "-d", selector, "-o", tmp_path / "file" / "record.json")
    assert (code, out) == (2, "")
    assert "--output" in err
    assert "measuring" not in err


@pytest.mark.device
@pytest.mark.slow
def test_bench_that_measured_nothing_ends_with_a_fault(portbar_command, selector):
    code, out, _ = portbar_command("bench", "barrier", "-d", selector, "--local-size", 100_000, "--seconds", 1)
    assert code == 1
    assert "no times: " in out


@pytest.mark.device
@pytest.mark.slow
def test_bench_prints_times_and_stores_nothing_by_default(portbar_command, device, selector):
    before = portbar.describe(device).findings
    code, out, err = portbar_command(
        "bench", "barrier", "-d", selector, "--local-size", 8, "--seconds", 2, "--no-store", "--json"
    )
    (entry,) = json.loads(out)
    if entry["status"] == "refused":
        pytest.skip(entry["reason"])
    assert code == 0, err
    assert not entry["stored"]
    assert {row["local_size"] for row in entry["rows"]} == {8}
    timed = [row["barrier_time"] for row in entry["rows"] if "value" in row["barrier_time"]]
    assert timed
    for reading in timed:
        assert reading["unit"] == "us"
        assert reading["value"] == pytest.approx(float(np.median(reading["samples"])), rel=1e-3)
    assert portbar.describe(device).findings == before
    assert re.match(rf"\[ *\d+\.\d s\] {selector} .*: measuring for about 2 s\n", err)
