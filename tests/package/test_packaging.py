"""Installed files: a wheel holds the templates and the records, and they are found wherever it is installed."""

from __future__ import annotations

import configparser
import importlib.util
import shutil
import sys
import zipfile
from importlib import metadata
from pathlib import Path

import pytest

from tests.checkout import ROOT, ran

DATA = {"portbar.cl_templates": ("cl_templates", "*.mako"), "portbar.vendor_matrix": ("vendor_matrix", "*.json")}
#: Data beside modules: a folder in portbar/, and what of it is data.
BESIDE = {
    "portbar.records": ("portbar/records", "*.json"),
    "portbar.survey.report": ("portbar/survey/report", "*.mako"),
}

LIST_DATA = """
import sys
from importlib import resources
from pathlib import Path

def walk(folder, prefix):
    for entry in sorted(folder.iterdir(), key=lambda entry: entry.name):
        if entry.is_dir():
            yield from walk(entry, f"{prefix}{entry.name}/")
        elif entry.name.endswith(sys.argv[2]):
            yield prefix + entry.name + ("" if entry.read_text(encoding="utf-8") else ": empty")

import portbar
assert Path(portbar.__file__).is_relative_to(sys.path[0]), (portbar.__file__, sys.path)
print(*walk(resources.files(sys.argv[1]), ""), sep="\\n")
"""


def data_files(package: str) -> list[str]:
    """Return the data files of a package in the checkout, relative to its folder."""
    folder, pattern = {**DATA, **BESIDE}[package]
    return sorted(path.relative_to(ROOT / folder).as_posix() for path in (ROOT / folder).rglob(pattern))


def run(*command: str | Path, cwd: Path | None = None) -> str:
    """Run a command and return what it printed; fail with all of it."""
    done = ran(*command, cwd=cwd)
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def test_no_file_of_the_checkout_is_empty_by_mistake() -> None:
    git = shutil.which("git")
    if git is None or not (ROOT / ".git").exists():
        pytest.skip("git knows which files belong to the checkout, and this is not one of git's")
    files = run(git, "-c", f"safe.directory={ROOT}", "ls-files", "-z", cwd=ROOT).split("\0")
    empty = [name for name in files if name and (ROOT / name).is_file() and (ROOT / name).stat().st_size == 0]
    assert [name for name in empty if Path(name).name not in {"__init__.py", "py.typed"}] == []


def pip(command: str, *more: str | Path) -> None:
    """Run pip without a network."""
    run(sys.executable, "-m", "pip", command, "-q", "--no-deps", "--no-index", *more)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build a wheel from a copy of the checkout, with the setuptools that is installed."""
    try:
        version = metadata.version("setuptools")
    except metadata.PackageNotFoundError:
        version = "0"
    if int(version.split(".")[0]) < 77 or importlib.util.find_spec("pip") is None:
        pytest.skip("building a wheel needs pip and setuptools 77 or later in this environment")
    source, target = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("wheel")
    parser = read_setup_cfg()
    files = ["setup.cfg", "pyproject.toml", "README.md", "LICENSE"]
    folders = {"portbar", *(line.split("=")[1].strip() for line in lines(parser["options"]["package_dir"]))}
    for name in files:
        shutil.copy(ROOT / name, source / name)
    for folder in folders:
        shutil.copytree(ROOT / folder, source / folder, ignore=shutil.ignore_patterns("__pycache__"))
    pip("wheel", "--no-build-isolation", "-w", target, source)
    (built,) = target.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Install the wheel, without its dependencies, into an empty folder."""
    target = tmp_path_factory.mktemp("installed")
    pip("install", "--target", target, wheel)
    return target


def list_data(folder: Path, package: str, suffix: str, cwd: Path) -> list[str]:
    """Return the data files that an interpreter finds which has nothing but the portbar in `folder`."""
    script = f"import sys; sys.path.insert(0, {str(folder)!r})\n{LIST_DATA}"
    return sorted(lines(run(sys.executable, "-I", "-S", "-c", script, package, suffix, cwd=cwd)))


def read_setup_cfg() -> configparser.ConfigParser:
    """Return setup.cfg."""
    parser = configparser.ConfigParser()
    parser.read(ROOT / "setup.cfg", encoding="utf-8")
    return parser


def lines(value: str) -> list[str]:
    """Return the lines of a setup.cfg list."""
    return [line.strip() for line in value.splitlines() if line.strip()]


def test_every_package_folder_is_listed_in_setup_cfg() -> None:
    folders = {path.parent.relative_to(ROOT) for path in (ROOT / "portbar").rglob("__init__.py")}
    present = {".".join(folder.parts) for folder in folders} | set(DATA)
    assert set(lines(read_setup_cfg()["options"]["packages"])) == present, "setup.cfg, [options] packages"


def test_data_folders_hold_no_python_but_their_init() -> None:
    for folder, _ in DATA.values():
        modules = {path.relative_to(ROOT / folder).as_posix() for path in (ROOT / folder).rglob("*.py")}
        assert modules == {"__init__.py"}, f"{folder}/ is data; code belongs in portbar/"


def test_the_wheel_holds_all_modules_templates_and_records_and_nothing_else(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    modules = {path.relative_to(ROOT).as_posix() for path in (ROOT / "portbar").rglob("*.py")}
    data = {f"{package.replace('.', '/')}/{file}" for package in DATA for file in ["__init__.py", *data_files(package)]}
    data |= {f"{package.replace('.', '/')}/{file}" for package in BESIDE for file in data_files(package)}
    expected = modules | data | {"portbar/py.typed"}
    assert {name for name in names if ".dist-info/" not in name} == expected
    assert any(name.endswith(".dist-info/licenses/LICENSE") for name in names)


@pytest.mark.parametrize("place", ["checkout", "installed"])
@pytest.mark.parametrize("package", [*DATA, *BESIDE])
def test_data_is_read_from_an_install_elsewhere_and_from_a_checkout_that_was_never_installed(
    package: str, place: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    suffix = {**DATA, **BESIDE}[package][1].removeprefix("*")
    folder = ROOT if place == "checkout" else request.getfixturevalue(place)
    assert list_data(folder, package, suffix, tmp_path) == data_files(package)


def test_the_command_is_installed(installed: Path) -> None:
    (entry_points,) = installed.glob("portbar-*.dist-info/entry_points.txt")
    text = entry_points.read_text(encoding="utf-8")
    assert "[console_scripts]\nportbar = portbar.cli:main" in text
    assert "[pytest11]\nportbar = portbar.cli.pytest_plugin" in text
