"""The data file of outcomes, the page made of it, and the table of processors in docs/ci.md."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from tests.checkout import ROOT
from tests.environments.running import STEPS
from tests.environments.table import ENVIRONMENTS, PRIMITIVES, Environment
from tests.environments.wheels import wheels_table

FILE: Final = ROOT / "tests" / "environments" / "outcomes.json"
PAGE: Final = ROOT / "docs" / "environments.md"
CI_PAGE: Final = ROOT / "docs" / "ci.md"

#: As `platform.machine` calls a processor -> its name.
_PROCESSORS: Final = {"x86_64": "x86-64", "aarch64": "AArch64", "riscv64": "RISC-V"}
#: Around the table in docs/ci.md.
_BEGIN: Final = "<!-- processors: written by `python -m tests.environments --page` -->\n"
_END: Final = "<!-- end of processors -->"

_HEAD = """# Environments

This page lists the systems that portbar was tried on beyond [those of every change](ci.md), with date and outcome. One
command makes each of them in a folder, runs the quickstart, a survey and a few tests of each primitive there, and writes
this page:

```sh
python -m tests.environments NAME --keep-outcome
```

It needs root, `debootstrap` with the keyring of the distribution, and for other processors `qemu-user-static` and
`binfmt-support`. CI runs all of them weekly and for each release. rusticl claims no order between work-groups, so that portbar
asks for a survey there: it runs before the quickstart.

"Right" says that nothing failed. "Skipped" says that all tests of a file need what the device lacks, such as several
work-groups at once. A "probe crash" in a survey is a finding: the driver's compiler aborted, in a process of its own, at
something that portbar then does not use.

An emulated processor keeps the memory order of the machine below it. Its rows show that portbar compiles and computes the right
results there, not that a weakly ordered processor is right: run [the litmus tests](litmus.md) on one.

"""


def load(file: Path = FILE) -> dict[str, Any]:
    """Return the entries by the names of their environments."""
    entries: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))["environments"] if file.is_file() else {}
    return entries


def load_wheels(file: Path = FILE) -> dict[str, Any] | None:
    """Return which packages have no wheel on which platform, as it was last asked; None if it never was."""
    data: dict[str, Any] = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}
    return data.get("wheels")


def keep_wheels(entry: Mapping[str, Any], file: Path = FILE, page: Path = PAGE, ci_page: Path = CI_PAGE) -> None:
    """Write which packages have no wheel to the data file, and the pages anew."""
    entries = load(file)
    _store(entries, entry, file)
    write(entries, page, ci_page, entry)


def _store(entries: Mapping[str, Any], wheels: Mapping[str, Any] | None, file: Path) -> None:
    data = {"format": 1, "environments": entries} | ({"wheels": wheels} if wheels else {})
    file.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")


def keep(
    name: str,
    entry: Mapping[str, Any],
    file: Path = FILE,
    page: Path = PAGE,
    ci_page: Path = CI_PAGE,
    *,
    whole: bool = True,
) -> None:
    """Write the entry of an environment to the data file, and the pages anew.

    One of some steps only takes the place of these.
    """
    entries = load(file)
    steps = {} if whole or name not in entries else entries[name]["steps"]
    entries[name] = {**entry, "steps": {**steps, **entry["steps"]}}
    entries = {one: entries[one] for one in ENVIRONMENTS if one in entries}
    wheels = load_wheels(file)
    _store(entries, wheels, file)
    write(entries, page, ci_page, wheels)


def write(
    entries: Mapping[str, Any],
    page: Path = PAGE,
    ci_page: Path = CI_PAGE,
    wheels: Mapping[str, Any] | None = None,
) -> None:
    """Write the page, and the table in docs/ci.md."""
    page.write_text(markdown(entries, wheels), encoding="utf-8")
    ci_page.write_text(with_processors(ci_page.read_text(encoding="utf-8"), entries), encoding="utf-8")


def with_processors(text: str, entries: Mapping[str, Any]) -> str:
    """Return the text of docs/ci.md with the table of these entries."""
    begin, others = text.split(_BEGIN)
    _, end = others.split(_END)
    return f"{begin}{_BEGIN}\n{processors(entries)}\n{_END}{end}"


def processors(entries: Mapping[str, Any]) -> str:
    """Return the table of processors: a row for each environment that was run."""
    lines = ["| processor | runtime | system | outcome | date |", "| --- | --- | --- | --- | --- |"]
    for name, environment in ENVIRONMENTS.items():
        entry = entries.get(name)
        if entry is None or not entry["versions"]:
            continue
        of = entry["versions"]
        processor = _PROCESSORS.get(of["machine"], of["machine"]) + (", emulated" if of["emulator"] else "")
        cells = [processor, _runtime(of), environment.title, summary(entry), entry["date"]]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _runtime(versions: Mapping[str, str]) -> str:
    """Return a short name of the runtime, with its version where the platform has one."""
    found = re.search(r"PoCL [\d.]+", versions["platform"])
    return found[0] if found else f"{versions['platform'].split()[0]} on {versions['device']}"


def summary(entry: Mapping[str, Any]) -> str:
    """Return the outcome of all steps in a few words."""
    wrong = [name for name, step in entry["steps"].items() if step["outcome"] not in {"right", "skipped"}]
    skipped = [name for name, step in entry["steps"].items() if step["outcome"] == "skipped"]
    word = f"not right: {', '.join(wrong)}" if wrong else "right"
    return f"{word}; skipped: {', '.join(skipped)}" if skipped else word


def _versions(entry: Mapping[str, Any]) -> tuple[str, str]:
    of = entry["versions"]
    if not of:
        return "unknown", "unknown"
    emulated = f", emulated by {of['emulator']}" if of["emulator"] else ""
    packages = f"Python {of['python']}, PyOpenCL {of['pyopencl']}, NumPy {of['numpy']}"
    # PoCL's version goes on with how it was built.
    return f"{of['platform'].partition(',')[0]} on {of['device']}; {packages}", f"{of['machine']}{emulated}"


def _row(name: str, environment: Environment, entry: Mapping[str, Any] | None) -> str:
    if entry is None:
        # Only the table of environments is known of it.
        return f"| {environment.title} | {environment.architecture or '-'} | - | not run | - | `{name}` |"
    versions, processor = _versions(entry)
    return f"| {environment.title} | {processor} | {versions} | {summary(entry)} | {entry['date']} | `{name}` |"


def markdown(entries: Mapping[str, Any], wheels: Mapping[str, Any] | None = None) -> str:
    """Return the page."""
    lines = ["| environment | processor | versions | outcome | date | name |", "| --- | --- | --- | --- | --- | --- |"]
    lines += [_row(name, of, entries.get(name)) for name, of in ENVIRONMENTS.items()]
    run = [name for name in ENVIRONMENTS if name in entries]
    lines += ["", "## Steps and primitives", "", f"| step | {' | '.join(run)} |", f"| --- |{' --- |' * len(run)}"]
    for step in (*STEPS, *PRIMITIVES):
        words = [entries[name]["steps"].get(step, {"outcome": "not reached"})["outcome"] for name in run]
        lines.append(f"| {step} | {' | '.join(words)} |")
    notes = [
        f"- {name}, {step}: {of['outcome']}. {of['note']}".rstrip()
        for name in run
        for step, of in entries[name]["steps"].items()
        if of["outcome"] != "right" or "crash" in of["note"]
    ]
    if notes:
        lines += ["", "## Remarks", "", *notes]
    if wheels:
        lines += ["", wheels_table(wheels).rstrip()]
    return _HEAD + "\n".join(lines) + "\n"
