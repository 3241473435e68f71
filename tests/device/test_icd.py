"""Runtimes from the package index: found, registered for the loader's one look, and nothing else changed."""

from __future__ import annotations

import json
import os
import sys
import textwrap
import threading
from pathlib import Path

import pyopencl as cl
import pytest

from portbar.device import icd
from portbar.errors import DeviceError
from tests.checkout import python_path, ran

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="vendor folders exist on Linux only")

SYSTEM = {"mesa.icd": "libMesaOpenCL.so.1\n", "dead.icd": "/no/such/library.so", "empty.icd": ""}


class Installation:
    """A fake environment: what is installed in it, and the system's vendor folder."""

    def __init__(self, root):
        self.packages = root / "prefix" / "lib" / "python3" / "site-packages"
        self.packages.mkdir(parents=True)
        self.library = root / "prefix" / "lib" / "libintelocl.so"
        self.vendors = root / "vendors"
        self.vendors.mkdir()
        self.cache = root / "cache"

    def install(self, name, *files):
        info = self.packages / f"{name.replace('-', '_')}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        (info / "RECORD").write_text("".join(f"{file},,\n" for file in files))

    def install_intel(self, *, library=True, compiler=True):
        self.install("intel-opencl-rt", "../../libintelocl.so", "../../libintelocl.so.2026")
        if library:
            self.library.write_bytes(b"")
        if compiler:
            self.install("intel-cmplr-lib-rt", "../../libimf.so")


@pytest.fixture
def fake(tmp_path, monkeypatch):
    installation = Installation(tmp_path)
    monkeypatch.setattr(sys, "path", [str(installation.packages)])
    monkeypatch.setattr(icd, "SYSTEM_VENDORS", installation.vendors)
    monkeypatch.setenv("PORTBAR_CACHE_DIR", str(installation.cache))
    for name in icd._USERS_OWN:
        monkeypatch.delenv(name, raising=False)
    for name, content in SYSTEM.items():
        (installation.vendors / name).write_text(content)
    return installation


def listed(variables):
    return {path.name: path.read_text() for path in Path(variables["OCL_ICD_VENDORS"]).iterdir()}


def test_nothing_installed_adds_nothing(fake):
    assert icd.wheel_runtimes() == []
    assert icd.environment({}) == {}
    assert not fake.cache.exists()


def test_the_intel_library_is_found_among_the_files_of_its_distribution(fake):
    fake.install_intel()
    assert icd.wheel_runtimes() == [icd.WheelRuntime("intel-opencl-rt", str(fake.library), "")]


def test_the_systems_entries_are_repeated_unchanged_and_the_wheel_is_added(fake):
    fake.install_intel()
    (fake.vendors / "readme.txt").write_text("not an entry")
    expected = SYSTEM | {"portbar-intel-opencl-rt.icd": f"{fake.library}\n"}
    assert listed(icd.environment({})) == expected


@pytest.mark.parametrize(
    ("lacks", "remedy"),
    [("compiler", "pip install intel-cmplr-lib-rt"), ("library", "--force-reinstall intel-opencl-rt")],
)
def test_a_runtime_of_which_a_part_is_missing_is_reported_and_not_registered(fake, lacks, remedy):
    fake.install_intel(**{lacks: False})
    (runtime,) = icd.wheel_runtimes()
    assert remedy in runtime.problem
    assert bool(runtime.library) == (lacks != "library")
    assert icd.environment({}) == {}


def test_pocl_from_a_wheel_is_left_to_pyopencl(fake):
    fake.install("pocl-binary-distribution", "pocl_binary_distribution/.libs/libpocl.so")
    assert icd.environment({}) == {}


@pytest.mark.parametrize("name", ["OCL_ICD_VENDORS", "OCL_ICD_FILENAMES", "OPENCL_VENDOR_PATH"])
def test_a_users_own_choice_is_respected(fake, name):
    fake.install_intel()
    assert icd.environment({name: "/somewhere"}) == {}
    assert icd.environment({name: ""}) != {}


@pytest.mark.parametrize("how", ["the same path", "a link to it", "another copy", "a bare name"])
def test_no_library_is_listed_twice(fake, how, tmp_path):
    fake.install_intel()
    other = tmp_path / "opt"
    other.mkdir()
    link = other / "libOther.so"
    link.symlink_to(fake.library)
    copy = other / "libintelocl.so"
    copy.write_bytes(b"")
    entry = {
        "the same path": str(fake.library),
        "a link to it": str(link),
        "another copy": str(copy),
        "a bare name": "libintelocl.so",
    }[how]
    (fake.vendors / "intel.icd").write_text(entry + "\n")
    assert icd.environment({}) == {}


@pytest.mark.parametrize("name", icd._USERS_OWN)
def test_a_variable_that_hides_an_installed_runtime_is_named(fake, name, tmp_path):
    fake.install_intel()
    chosen = tmp_path / "chosen"
    chosen.mkdir()
    assert icd.hiding_variable({}) == ""
    assert icd.hiding_variable({name: str(chosen)}) == name
    if name != "OCL_ICD_FILENAMES":
        (chosen / "intel.icd").write_text(f"{fake.library}\n")
        # Mesa of the system's folder is still missing.
        assert icd.hiding_variable({name: str(chosen)}) == name
        (chosen / "mesa.icd").write_text(SYSTEM["mesa.icd"])
        assert icd.hiding_variable({name: str(chosen)}) == ""
    else:
        assert icd.hiding_variable({name: str(fake.library)}) == ""


def test_no_platform_at_all_names_the_variable_that_hides_them(fake, monkeypatch, tmp_path):
    monkeypatch.setenv("OCL_ICD_VENDORS", str(tmp_path / "nothing"))
    said = icd._explain_nothing()
    # Installing another runtime is for machines where none is found then.
    assert said.index("unset OCL_ICD_VENDORS") < said.index("if none is found then") < said.index("pip install")


def test_a_system_entry_with_a_dead_path_does_not_count_as_listed(fake):
    fake.install_intel()
    (fake.vendors / "intel.icd").write_text("/opt/gone/libintelocl.so\n")
    assert "portbar-intel-opencl-rt.icd" in listed(icd.environment({}))


def test_the_folder_is_named_by_its_content(fake):
    fake.install_intel()
    first = icd.environment({})
    assert icd.environment({}) == first
    (fake.vendors / "new.icd").write_text("libnew.so")
    second = icd.environment({})
    assert second != first
    assert "new.icd" in listed(second)
    assert "new.icd" not in listed(first)


def test_a_damaged_folder_is_mended(fake):
    fake.install_intel()
    variables = icd.environment({})
    folder = Path(variables["OCL_ICD_VENDORS"])
    good = listed(variables)
    (folder / "mesa.icd").unlink()
    (folder / "dead.icd").write_text("/another/library.so")
    (folder / "extra.icd").write_text("/an/intruder.so")
    assert icd.environment({}) == variables
    assert listed(variables) == good


def test_many_at_once_agree_on_one_whole_folder(fake):
    fake.install_intel()
    answers = []
    entries = {f"{n}.icd": b"lib.so" for n in range(20)}

    def publish():
        folder = icd._filled(fake.cache / "vendors-x", entries)
        answers.append({path.name: path.read_bytes() for path in folder.glob("*.icd")})

    threads = [threading.Thread(target=publish) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == [entries] * 8
    assert {path.name for path in (fake.cache / "vendors-x").iterdir()} == set(entries)


@pytest.mark.parametrize("why", ["unwritable", "off"])
def test_without_a_cache_folder_a_private_temporary_one_serves(fake, why, monkeypatch):
    fake.install_intel()
    if why == "off":
        monkeypatch.setenv("PORTBAR_CACHE_DIR", "off")
    else:
        fake.cache.write_text("a file where the folder should be")
    variables = icd.environment({})
    assert "portbar-intel-opencl-rt.icd" in listed(variables)
    assert Path(variables["OCL_ICD_VENDORS"]).parent.stat().st_mode & 0o077 == 0
    assert icd.environment({}) == variables


@pytest.mark.parametrize("before", [{}, {"OCL_ICD_VENDORS": ""}])
def test_registered_sets_the_variable_within_the_block_only(fake, monkeypatch, before):
    fake.install_intel()
    for name, value in before.items():
        monkeypatch.setenv(name, value)
    everything = dict(os.environ)

    def fail_within():
        with icd.registered():
            assert "portbar-intel-opencl-rt.icd" in listed(os.environ)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail_within()
    assert dict(os.environ) == everything


def test_only_the_first_look_of_a_process_sees_the_variable(fake, monkeypatch):
    fake.install_intel()
    seen = []

    def get_platforms():
        seen.append(os.environ.get("OCL_ICD_VENDORS"))
        return ["a platform"]

    monkeypatch.setattr(cl, "get_platforms", get_platforms)
    monkeypatch.setattr(icd, "_loaded", False)
    assert icd.load_platforms() == ["a platform"]
    assert icd.load_platforms() == ["a platform"]
    assert seen == [str(next(fake.cache.glob("vendors-*"))), None]


def test_no_platform_at_all_says_what_to_install(fake, monkeypatch):
    fake.install_intel(compiler=False)
    monkeypatch.setattr(cl, "get_platforms", list)
    with pytest.raises(DeviceError, match=r'pip install "portbar\[cpu\]".*intel-cmplr-lib-rt'):
        icd.load_platforms()


def in_a_subprocess(code, tmp_path, **variables):
    environ = {name: value for name, value in os.environ.items() if name not in icd._USERS_OWN}
    environ |= {"PYTHONPATH": python_path(), "PORTBAR_CACHE_DIR": str(tmp_path / "cache"), **variables}
    done = ran(sys.executable, "-c", textwrap.dedent(code), env=environ, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("system", ["win32", "darwin"])
def test_where_the_loader_reads_no_vendor_folder_none_is_read_or_written(fake, monkeypatch, system):
    """Windows' loader reads the registry, macOS' is a framework: both are played here."""
    fake.install_intel()
    monkeypatch.setattr(icd.sys, "platform", system)
    chosen = {"OCL_ICD_VENDORS": str(fake.vendors)}
    assert icd.wheel_runtimes() == []
    assert icd.vendor_files({}) == icd.vendor_files(chosen) == []
    assert icd.environment({}) == icd.environment(chosen) == {}
    assert icd.hiding_variable({"OCL_ICD_VENDORS": "/nothing"}) == ""
    before = dict(os.environ)
    with icd.registered():
        assert dict(os.environ) == before
    assert not fake.cache.exists()
    monkeypatch.setattr(cl, "get_platforms", list)
    monkeypatch.setattr(icd, "_loaded", False)
    with pytest.raises(DeviceError, match="install a CPU runtime"):
        icd.load_platforms()


def test_importing_portbar_and_loading_platforms_change_no_environment(tmp_path):
    # PyOpenCL sets PYOPENCL_HOME while it is imported; that is its own doing, so it is imported first here.
    changed = in_a_subprocess(
        """
        import json, os, pyopencl
        before = dict(os.environ)
        import portbar
        from portbar.device import icd
        after_import = dict(os.environ)
        try:
            icd.load_platforms()
        except portbar.DeviceError:
            pass
        print(json.dumps([before == after_import, before == dict(os.environ)]))
        """,
        tmp_path,
    )
    assert changed == [True, True]


def test_an_installed_wheel_runtime_becomes_a_platform_once(tmp_path):
    if not any(runtime.library and not runtime.problem for runtime in icd.wheel_runtimes()):
        pytest.skip("no runtime from the package index is installed")
    names = in_a_subprocess(
        """
        import json
        from portbar.device import icd
        print(json.dumps([platform.name for platform in icd.load_platforms()]))
        """,
        tmp_path,
    )
    assert names.count("Intel(R) OpenCL") == 1
