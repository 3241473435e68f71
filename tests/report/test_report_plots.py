"""Plots of a report: what they show, in words too, and that neither many records nor the surroundings spoil them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from copy import deepcopy
from pathlib import Path

import pytest

from portbar.records import text
from portbar.records.reading import measured
from portbar.survey.report.build import FolderReport, build
from portbar.survey.report.collect import collect
from portbar.survey.report.plots import (
    MOST_BARRIERS,
    MOST_RECALL,
    barrier_plots,
    cost_plots,
    recall_plots,
    representatives,
)
from tests.report_support import device, record

mpl = pytest.importorskip("matplotlib", reason="plots need matplotlib")


def test_plots_have_their_numbers_in_words(folder: Path) -> None:
    html = build(folder).to_html()
    assert 'aria-label="Published chips. GTX 980 (Nvidia): spin 10 %, ticket 100 %"' in html
    assert (
        "counter 0.500 at 1, 1.41 at 8; flag 0.700 at 1, 1.98 at 8; tree 1.00 at 1, 2.83 at 8; relaunch 6.00 at 1, 6.00 at 8"
        in html
    )


def test_a_bar_says_how_a_barrier_compares_with_relaunching_on_each_device() -> None:
    slow, shared = device("Slow CPU", bound=4), device("Shared GPU", bound=4)
    for line in slow["barrier"]["rows"]:
        line["barrier_time"] = measured(60.0, "us")
    shared["barrier"]["unsteady"] = True
    (plot,) = cost_plots(collect([("a", record(device(), slow, shared))])).plots
    assert plot.text == (
        "Test GPU (Test platform, 1.0): 6.00 times faster, 1.00 us, relaunch 6.00 us; "
        "Slow CPU (Test platform, 1.0): 10.0 times slower, 60.0 us, relaunch 6.00 us; "
        "Shared GPU (Test platform, 1.0): 8.49 times faster, unsteady, 0.707 us, relaunch 6.00 us"
    )
    bars = re.findall(r'<path d="M ([\d.]+) [\d.]+ +L ([\d.]+) [^"]*z "[^>]* class="f-(s1|s2|faint)"', plot.svg)
    assert [(float(end) > float(start), colour) for start, end, colour in bars] == [
        (True, "s1"),
        (False, "s2"),
        (True, "faint"),
    ]


def test_the_bars_are_above_all_tables(folder: Path) -> None:
    html = build(folder).to_html()
    assert 0 < html.index("A barrier against relaunching") < html.index("<table")


def test_the_plot_of_recall_shows_what_launches_use(folder: Path) -> None:
    (text_,) = [plot.text for plot in recall_plots(build(folder).devices).plots if plot.title == "Measured devices"]
    assert "Test GPU (Test platform, 1.0): spin 100 %, ticket 100 %, packed 100 %, spin without patience 25 %" in text_


def test_plots_take_their_colours_from_the_page(folder: Path) -> None:
    html = build(folder).to_html()
    drawn = "".join(re.findall(r"<svg.*?</svg>", html, re.DOTALL))
    assert set(re.findall(r"#[0-9a-f]{6}\b", drawn)) == set()
    assert {"s-s1", "s-s0", "f-ink"} <= set(re.findall(r"[fs]-\w+", drawn))
    assert "<text" in drawn
    identities = re.findall(r' id="([^"]*)"', html)
    assert len(identities) == len(set(identities))
    assert set(re.findall(r'href="#([^"]*)"', html)) <= set(identities)


def test_only_so_many_devices_are_drawn_and_the_page_says_which() -> None:
    many = [device(f"GPU {n}", bound=2 * n + 4) for n in range(40)]
    many.append(device("GPU 39", "0.9", bound=82))
    devices = collect([("a", record(*many))])
    html = FolderReport(devices, 1).to_html()
    assert html.count("<svg") == 2 + MOST_BARRIERS
    assert f"{MOST_RECALL} of 41 records are in the plot" in html


def test_of_a_device_its_newest_record_is_drawn() -> None:
    old, new = record(device(driver="1")), record(device(driver="2"))
    new["created"] = "2026-12-01T00:00:00+00:00"
    assert [one["driver"] for one in representatives(collect([("n", new), ("o", old)]), 5)] == ["2"]


def test_a_thousand_records_make_a_page_of_less_than_five_megabytes() -> None:
    one = device(bound=1024)
    one["findings"]["builds"] |= {f"feature{n}": bool(n % 3) for n in range(30)}
    (summary,) = collect([("a", record(one))])
    devices = []
    for n in range(1000):
        devices.append(deepcopy(summary))
        devices[-1] |= {
            "name": f"An accelerator with a long name, model {n // 4}",
            "driver": f"{n % 4}.15.3 build 160000",
        }
    started = time.process_time()
    html = FolderReport(devices, 1000).to_html()
    assert len(html.encode()) < 5e6
    assert time.process_time() - started < 10


def test_nothing_of_the_current_folder_is_run_or_obeyed(tmp_path: Path) -> None:
    """The folder of a stranger: modules by names that Python or matplotlib import, and a configuration that asks for LaTeX."""
    for n in range(110):
        (tmp_path / f"{n:03}.json").write_text(text(record(device(f"GPU {n}"))))
    for name in ("multiprocessing", "concurrent", "matplotlib", "json", "latex"):
        (tmp_path / f"{name}.py").write_text("open('run', 'w').close()")
    (tmp_path / "latex").write_text("#!/bin/sh\ntouch run")
    (tmp_path / "latex").chmod(0o755)
    (tmp_path / "matplotlibrc").write_bytes(
        b"text.usetex: True\nfigure.dpi: 1\nbackend: module://latex\nlines.color: \xff\n"
    )
    script = (
        "import sys; sys.argv = ['portbar', 'report', '.', '-o', 'page.html']; from portbar.cli import main; main()"
    )
    command = [sys.executable, "-P", "-c", script]
    path = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        command,
        cwd=tmp_path,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert not (tmp_path / "run").exists()
    html = (tmp_path / "page.html").read_text()
    assert "<svg" in html
    assert "110 records of 110 devices" in html


def test_a_style_of_the_user_changes_no_plot(folder: Path) -> None:
    devices = build(folder).devices

    def drawn() -> list[str]:
        return [re.sub(r' (id|href|clip-path)="[^"]*"', "", plot.svg) for plot in barrier_plots(devices).plots]

    usual = drawn()
    with mpl.rc_context({"text.usetex": True, "font.size": 40, "axes.grid": False}):
        assert drawn() == usual


def test_a_record_with_many_algorithms_of_its_own_costs_its_own_plot_only() -> None:
    """As many names as there are markers, and all before those that portbar knows."""
    odd = device("Odd GPU", bound=4)
    rows = odd["barrier"]["rows"]
    odd["barrier"]["rows"] = [{**line, "algorithm": f"a{n}"} for n in range(12) for line in rows]
    for others in ([device(), device("Other GPU")], [device()], []):
        devices = collect([(str(n), record(one)) for n, one in enumerate([odd, odd, *others])])
        plots = {plot.title.partition(" (")[0]: plot.text for plot in barrier_plots(devices).plots}
        for other in others:
            assert "counter 0.500 at 1" in plots[other["facts"]["name"]]
        assert "Odd GPU" in FolderReport(devices, 1).to_html()


@pytest.mark.parametrize("us", [0.0, -1.0, 5e-324, 1e18])
def test_times_that_cannot_be_are_in_no_plot(us: float) -> None:
    one = device()
    for line in one["barrier"]["rows"]:
        line["barrier_time"] = line["relaunch_time"] = measured(us, "us")
        line["groups"] = 2**62 + line["groups"]
    (summary,) = collect([("a", record(one))])
    assert barrier_plots([summary]).plots == []
    assert "Test GPU" in FolderReport([summary], 1).to_html()
