"""The report's page in a real browser: that it fits, that it sorts, that it follows dark mode, and that it is silent."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from portbar.records import text
from portbar.survey.report.build import build
from tests.checkout import ROOT
from tests.report_support import device, published, record

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "chrome"))), None)

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(400),
    pytest.mark.skipif(BROWSER is None, reason="no Chromium is installed"),
]

PHONE, DESKTOP, WIDE = "390,844", "1280,900", "1920,1080"
#: Actions that the page may not do by itself: report its size, and those of a reader.
MEASURE = """
document.body.dataset.overflow = document.documentElement.scrollWidth - window.innerWidth;
document.body.dataset.background = getComputedStyle(document.body).backgroundColor;
document.body.dataset.curve = getComputedStyle(document.querySelector("svg.plot .s-s1")).stroke;
document.body.dataset.smallest = Math.min(...Array.from(document.querySelectorAll("svg.plot text"), (one) =>
    one.getBoundingClientRect().height));
document.body.dataset.cut = Array.from(document.querySelectorAll("svg.plot text")).filter((one) => {
    const box = one.getBoundingClientRect(), svg = one.closest("svg").getBoundingClientRect();
    return box.left < svg.left - 1 || box.right > svg.right + 1 || box.top < svg.top - 1 || box.bottom > svg.bottom + 1;
}).map((one) => one.textContent).join("; ");
const verdicts = document.querySelector("#verdicts");
document.body.dataset.hidden = verdicts.scrollWidth - verdicts.closest(".scroll").clientWidth;
const hint = verdicts.closest("section").querySelector(".hint");
document.body.dataset.hint = hint.hidden ? "" : hint.textContent;
document.body.dataset.width = verdicts.closest(".scroll").clientWidth / window.innerWidth;
const input = document.querySelector("input");
input.value = "gpu 3"; input.dispatchEvent(new Event("input"));
document.body.dataset.left = Array.from(document.querySelectorAll("#verdicts tbody tr")).filter((row) => !row.hidden).length;
const button = document.querySelectorAll("#verdicts thead button")[2];
button.click(); button.click();
document.body.dataset.hash = location.hash;
"""

Browse = Callable[..., tuple[str, str]]


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page of twelve measured devices, one of which has markup for a name, and two published chips."""
    pytest.importorskip("matplotlib", reason="plots need matplotlib")
    records = tmp_path_factory.mktemp("records")
    names = [f"GPU {n}" for n in range(11)] + ["<script>document.title='taken'</script><b>bold</b>"]
    for n, name in enumerate(names):
        (records / f"{n:02}.json").write_text(text(record(device(name, bound=4 + 2 * ((5 * n) % 12)))))
    for n, chip in enumerate(("GTX 980", "Iris 6100")):
        (records / f"p{n}.json").write_text(text(published(chip, "Somebody", 16, 32, 3.1 + n, 32.0)))
    file = tmp_path_factory.mktemp("page") / "report.html"
    file.write_text(build(records).to_html(), encoding="utf-8")
    return file


@pytest.fixture(scope="module")
def browse(tmp_path_factory: pytest.TempPathFactory) -> Browse:
    """Open a page; return the resulting document, and the browser's console output."""
    profile = tmp_path_factory.mktemp("profile")

    def opened(address: str, *options: str, window: str = DESKTOP) -> tuple[str, str]:
        command = [
            str(BROWSER),
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--no-first-run",
            "--enable-logging=stderr",
            "--hide-scrollbars",
            f"--user-data-dir={profile}",
            f"--window-size={window}",
            *options,
            "--dump-dom",
            address,
        ]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
        return done.stdout, "\n".join(line for line in done.stderr.splitlines() if "CONSOLE" in line)

    return opened


@pytest.fixture(scope="module")
def plain(page: Path, browse: Browse) -> str:
    """The document as it opens."""
    document, console = browse(page.as_uri())
    assert console == ""
    return document


def measured(page: Path, browse: Browse, window: str, *options: str) -> dict[str, str]:
    """Return the result of `MEASURE` in a copy of the page that lets it run."""
    html = page.read_text(encoding="utf-8")
    html = re.sub(r"<meta http-equiv[^>]*>", "", html).replace("</body>", f"<script>{MEASURE}</script></body>")
    copy = page.with_name("measured.html")
    copy.write_text(html, encoding="utf-8")
    document, console = browse(copy.as_uri(), *options, window=window)
    assert console == ""
    body = re.search(r"<body[^>]*>", document)
    assert body is not None
    return dict(re.findall(r'data-([a-z]+)="([^"]*)"', body[0]))


def groups(document: str) -> list[float]:
    """The third column of the table of verdicts, from the top."""
    body = re.search(r'id="verdicts"[^>]*>.*?<tbody>(.*?)</tbody>', document, re.DOTALL)
    assert body is not None
    rows = re.findall(r"<tr>.*?</tr>", body[1], re.DOTALL)
    return [float(re.findall(r"<td[^>]*>([^<]*)", one)[1]) for one in rows]


def test_the_page_is_silent_and_a_name_runs_no_script(plain: str) -> None:
    assert "<title>How OpenCL devices synchronise work-groups</title>" in plain
    assert "&lt;script&gt;document.title='taken'" in plain


def test_the_policy_stops_a_script_and_the_console_reports_it(page: Path, browse: Browse) -> None:
    broken = page.with_name("broken.html")
    broken.write_text(page.read_text().replace("<main>", "<main><script>document.title = 'taken'</script>"))
    document, console = browse(broken.as_uri())
    assert "<title>How OpenCL" in document
    assert "Content Security Policy" in console


@pytest.mark.parametrize(("descending", "hash_"), [(False, "#sort=verdicts,2"), (True, "#sort=verdicts,2,down")])
def test_an_address_sorts_the_table(page: Path, browse: Browse, plain: str, descending: bool, hash_: str) -> None:
    document, console = browse(page.as_uri() + hash_)
    assert console == ""
    found = groups(document)
    assert len(set(found)) > 10
    assert found == sorted(found, reverse=descending)
    assert f'aria-sort="{"descending" if descending else "ascending"}"' in document
    assert groups(plain) not in (found, sorted(found), sorted(found, reverse=True))


@pytest.mark.parametrize("window", [PHONE, DESKTOP])
def test_nothing_is_cut_off(page: Path, browse: Browse, window: str) -> None:
    found = measured(page, browse, window)
    assert float(found["overflow"]) <= 0
    assert found["cut"] == ""
    assert float(found["smallest"]) >= 8
    assert found["left"] == "1"
    assert found["hash"] == "#sort=verdicts,2,down"


def test_the_verdicts_of_the_published_table_fit_a_small_desktop(tmp_path: Path, browse: Browse) -> None:
    """The last columns, known faults among them, are seen without scrolling sideways."""
    pytest.importorskip("matplotlib", reason="plots need matplotlib")
    file = tmp_path / "report.html"
    file.write_text(build(ROOT / "vendor_matrix").to_html(), encoding="utf-8")
    assert float(measured(file, browse, DESKTOP)["hidden"]) <= 0


def test_a_phone_says_how_many_columns_are_to_the_right(page: Path, browse: Browse) -> None:
    assert re.fullmatch(
        r"[78] more columns to the right: scroll the table \u2192", measured(page, browse, PHONE)["hint"]
    )
    assert measured(page, browse, WIDE)["hint"] == ""


def test_tables_use_a_wide_window(page: Path, browse: Browse) -> None:
    assert float(measured(page, browse, WIDE)["width"]) > 0.9


def test_colours_follow_dark_mode(page: Path, browse: Browse) -> None:
    light = measured(page, browse, PHONE, "--blink-settings=preferredColorScheme=1")
    dark = measured(page, browse, PHONE, "--blink-settings=preferredColorScheme=0")
    assert light["background"] == "rgb(255, 255, 255)"
    assert dark["background"] == "rgb(20, 24, 29)"
    assert light["curve"] != dark["curve"]


@pytest.mark.parametrize(("window", "scheme"), [(PHONE, 1), (DESKTOP, 1), (PHONE, 0)], ids=["phone", "desktop", "dark"])
def test_it_is_drawn(page: Path, browse: Browse, tmp_path: Path, window: str, scheme: int) -> None:
    pillow = pytest.importorskip("PIL.Image", reason="looking at a screenshot needs Pillow, which matplotlib brings")
    file = tmp_path / "shot.png"
    browse(page.as_uri(), f"--screenshot={file}", f"--blink-settings=preferredColorScheme={scheme}", window=window)
    with pillow.open(file) as image:
        assert f"{image.width},{image.height}" == window
        colours = image.convert("RGB").getcolors(1 << 24)
    most = max(colours)[1]
    assert most == ((255, 255, 255) if scheme else (20, 24, 29))
    assert len(colours) > 50
