"""Draws the plots of a report with matplotlib, as SVG that takes its colours and fonts from the page.

The SVG refers to nothing outside, and has no style attributes, which the page's security policy would refuse.
"""

from __future__ import annotations

import io
import itertools
import re
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from textwrap import shorten
from typing import TYPE_CHECKING, Any, Final
from xml.etree import ElementTree as ET

from portbar.choices.strategy import ALTERNATIVES
from portbar.errors import UnsupportedFeatureError
from portbar.survey.report.collect import Json
from portbar.survey.tables import digits, ratio_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: Most devices in the plots of costs, of recall and of barriers: more could not be read, and each costs the page some
#: kilobytes.
MOST_COSTS: Final = 24
MOST_RECALL: Final = 24
MOST_BARRIERS: Final = 12

#: Points of a line at most.
_MOST_POINTS: Final = 200

#: Work-groups and microseconds.
Times = Sequence[tuple[int, float]]

#: Colours that no plot really has: each stands for a class that the page gives a colour in light and in dark mode.
_CLASSES: Final = {"#0000f0": "ink", "#0000f1": "faint", **{f"#0000a{n}": f"s{n}" for n in range(8)}}
_INK, _FAINT = "#0000f0", "#0000f1"

#: Colour and shape of a lock's mark, and how far below its line it is, so that equal ones do not hide each other.
_LOCKS: Final = {"spin": ("#0000a2", "v", -0.1), "ticket": ("#0000a1", "s", 0.04), "packed": ("#0000a3", "o", 0.18)}
#: The title of the axis of recall, by whether it was measured with patience, and without.
_RECALL_TITLES: Final = {
    (True, True): "recall, %; hollow: without patience, as published chips were measured",
    (True, False): "recall, %",
    (False, True): "recall without patience, %",
}
_MARKERS: Final = "osv^Dph"
_RELAUNCH: Final = "#0000a0"
_FASTER, _SLOWER = "#0000a1", "#0000a2"
#: Texts in a plot.
_TEXT: Final[dict[str, Any]] = {"color": _INK, "fontsize": 8, "parse_math": False}

#: The smallest speed-up that is drawn, and the inverse of the largest.
_AT_LEAST: Final = 1e-6

_SVG: Final = "http://www.w3.org/2000/svg"
_LINK: Final = "{http://www.w3.org/1999/xlink}href"


@dataclass(frozen=True)
class Plot:
    """A plot: its title, its SVG, and what it shows in words."""

    title: str
    svg: str
    text: str


@dataclass(frozen=True)
class Plots:
    """Plots on one subject, with a note on omitted data."""

    plots: Sequence[Plot]
    note: str = ""


@contextmanager
def _own_style() -> Iterator[None]:
    """Draw with matplotlib's own defaults: a configuration of the user, or of the folder, may call LaTeX for texts."""
    try:
        import matplotlib as mpl  # noqa: PLC0415 (an extra, and slow to load)
        import matplotlib.figure  # noqa: PLC0415
    except ImportError as error:
        raise UnsupportedFeatureError(
            'plots need matplotlib: install it with `pip install "portbar[plot]"`, or leave them out with --no-plots'
        ) from error
    with mpl.rc_context():
        mpl.rcdefaults()
        yield


def _axes(width: float, height: float, place: tuple[float, float, float, float]) -> tuple[Figure, Axes]:
    """Return a figure of this size in points, and axes at a place in it: left, bottom, width and height."""
    from matplotlib.figure import Figure  # noqa: PLC0415 (an extra, and slow to load)

    figure = Figure(figsize=(width / 72, height / 72))
    return figure, figure.add_axes(place)


def representatives(devices: Sequence[Json], most: int, names: Sequence[str] = ("platform", "name")) -> list[Json]:
    """Return at most `most` devices to draw: of each device its newest record, those with most work-groups first.

    `names` are those of what two records of one device share.
    """
    newest: dict[tuple[Any, ...], Json] = {}
    for one in devices:
        key = tuple(one[name] for name in names)
        if key not in newest or one["created"] >= newest[key]["created"]:
            newest[key] = one
    chosen = sorted(newest.values(), key=lambda one: -(one["groups"] or 0))[:most]
    return [one for one in devices if any(one is other for other in chosen)]


def _note(shown: Sequence[Json], of: Sequence[Json]) -> str:
    if len(shown) == len(of):
        return ""
    return (
        f"{len(shown)} of {len(of)} records are in the plot, which more would make illegible: the newest of each device, those "
        "with most work-groups first. The table below shows all."
    )


@_own_style()
def cost_plots(devices: Sequence[Json]) -> Plots:
    """Draw a bar for each device: how many times faster or slower a barrier is than relaunching."""
    found = [one for one in devices if one["cost"] and _AT_LEAST < one["cost"]["speedup"] < 1 / _AT_LEAST]
    shown = representatives(found, MOST_COSTS, ("platform", "name", "driver"))
    return Plots([_cost_plot(shown)] if shown else [], _note(shown, found))


def _cost_plot(devices: Sequence[Json]) -> Plot:
    from matplotlib.ticker import LogLocator  # noqa: PLC0415 (an extra, and slow to load)

    rows = 40 * len(devices)
    figure, axes = _axes(340, 40 + rows, (0.04, 36 / (40 + rows), 0.52, rows / (40 + rows)))
    said = []
    for row, one in enumerate(devices):
        cost = one["cost"]
        ratio, times = cost["speedup"], f"{digits(cost['us'])} us, relaunch {digits(cost['relaunch_us'])} us"
        colour = _FAINT if cost["unsteady"] else _FASTER if ratio >= 1 else _SLOWER
        axes.barh(row + 0.12, ratio - 1, 0.32, left=1, color=colour, zorder=2)
        axes.plot([1, 1], [row - 0.1, row + 0.34], color=_INK, linewidth=1, zorder=3)
        axes.text(0, row - 0.22, _drawn_name(one), transform=axes.get_yaxis_transform(), **_TEXT)
        words = f"{ratio_text(ratio)}{', unsteady' if cost['unsteady'] else ''}"
        for line, below in ((words, 0.1), (times, 0.36)):
            axes.text(1.05, row + below, line, transform=axes.get_yaxis_transform(), **_TEXT)
        said.append(f"{one['label']}: {words}, {times}")
    axes.set_xscale("log")
    ratios = [one["cost"]["speedup"] for one in devices]
    axes.set_xlim(min(0.5, *ratios) / 1.2, max(2, *ratios) * 1.2)
    axes.set_ylim(len(devices) - 0.5, -0.5)
    axes.set_yticks([])
    axes.xaxis.set_major_locator(LogLocator(numticks=6))
    axes.xaxis.set_major_formatter("{x:g}")
    axes.xaxis.set_minor_formatter("")
    _finish(axes, "times faster than relaunching; below 1: slower")
    for name, spine in axes.spines.items():
        spine.set_visible(name == "bottom")
    return Plot("A barrier against relaunching", _svg(figure), "; ".join(said))


def _drawn_name(one: Json) -> str:
    return shorten(f"{one['name']} {one['driver'] or ''}", 62, placeholder=" ...")


@_own_style()
def recall_plots(devices: Sequence[Json]) -> Plots:
    """Draw recall by lock: of measured devices with patience, as launches discover, and of published chips without."""
    found = [one for one in devices if one["recall"] and any(_shares(one))]
    printed = [one for one in found if one["kind"] == "published"][:MOST_RECALL]
    measured = [one for one in found if one["kind"] != "published"]
    shown = representatives(measured, MOST_RECALL)
    parts = (("Published chips", printed), ("Measured devices", shown))
    return Plots([_recall_plot(title, some) for title, some in parts if some], _note(shown, measured))


def _shares(one: Json) -> tuple[dict[str, float], dict[str, float]]:
    """The recall of each lock with patience, and without."""
    cells = one["recall"]["cells"]
    patient, plain = (
        {lock: cells[f"{lock}{mode}"]["recall"] for lock in _LOCKS if f"{lock}{mode}" in cells}
        for mode in (" patient", "")
    )
    return patient, plain


def _recall_plot(title: str, devices: Sequence[Json]) -> Plot:
    rows = 34 * len(devices)
    figure, axes = _axes(340, 62 + rows, (0.04, 46 / (62 + rows), 0.92, rows / (62 + rows)))
    said = []
    for row, one in enumerate(devices):
        patient, plain = _shares(one)
        axes.plot([0, 100], [row, row], color=_FAINT, linewidth=1, zorder=1)
        axes.text(0, row - 0.36, _drawn_name(one), **_TEXT)
        for lock, (colour, marker, below) in _LOCKS.items():
            for shares, fill in ((plain, "none" if patient else colour), (patient, colour)):
                if lock in shares:
                    mark: dict[str, Any] = {"color": colour, "markerfacecolor": fill, "markersize": 6, "zorder": 3}
                    axes.plot(100 * shares[lock], row + below, marker, **mark)
        kinds = (("", patient), (" without patience", plain)) if patient else (("", plain),)
        said.append(f"{one['label']}: {', '.join(filter(None, (_shares_text(of, kind) for kind, of in kinds)))}")
    axes.set_ylim(len(devices) - 0.5, -0.75)
    axes.set_xlim(-3, 103)
    axes.set_yticks([])
    modes = [any(of) for of in zip(*map(_shares, devices), strict=True)]
    _finish(axes, _RECALL_TITLES[modes[0], modes[1]])
    for lock, (colour, marker, _) in _LOCKS.items():
        axes.plot([], [], marker, color=colour, markersize=6, label=lock)
    _legend(figure, axes, 3)
    return Plot(title, _svg(figure), "; ".join(said))


def _shares_text(shares: dict[str, float], kind: str) -> str:
    return ", ".join(f"{lock}{kind} {100 * share:.0f} %" for lock, share in shares.items())


@_own_style()
def barrier_plots(devices: Sequence[Json]) -> Plots:
    """Draw barrier time over group count by algorithm, with relaunching as a line of its own; one plot per device."""
    found = [one for one in devices if one["barrier"]]
    # Each algorithm has one colour in all plots. portbar's own come first, and of those the ones that most devices have.
    counted = Counter(name for one in found for name in one["barrier"]["algorithms"])
    ours = ALTERNATIVES["device_barrier"]
    names = sorted(sorted(counted, key=lambda name: (name not in ours, -counted[name], name))[: len(_MARKERS)])
    drawable = [
        one for one in found if len({groups for _, times in _lines(one["barrier"], names) for groups, _ in times}) > 1
    ]
    shown = representatives(drawable, MOST_BARRIERS)
    return Plots([_barrier_plot(one, names) for one in shown], _note(shown, found))


def _lines(curve: Json, names: Sequence[str]) -> list[tuple[str, Times]]:
    lines = [(name, _drawn(curve["algorithms"].get(name, ()))) for name in names]
    return [(name, times) for name, times in lines if times]


def _drawn(times: Times) -> Times:
    """Return the times that a plot can show: from a picosecond to an hour, thinned out if there are very many."""
    possible = [(groups, us) for groups, us in times if groups and 1e-6 <= us <= 3.6e9]
    return possible[:: 1 + len(possible) // _MOST_POINTS]


def _barrier_plot(device: Json, names: Sequence[str]) -> Plot:
    from matplotlib.ticker import LogLocator  # noqa: PLC0415 (an extra, and slow to load)

    curve = device["barrier"]
    figure, axes = _axes(340, 260, (0.15, 0.3, 0.82, 0.66))
    said = []
    lines = _lines(curve, names)
    for name, times in lines:
        at = names.index(name)
        style: dict[str, Any] = {"color": f"#0000a{at + 1}", "marker": _MARKERS[at], "markersize": 4, "linewidth": 1.4}
        axes.plot(*zip(*times, strict=True), label=name, **style)
        said.append(f"{name} {_ends(times)}")
    again = _drawn(curve["relaunch"])
    if again:
        axes.plot(*zip(*again, strict=True), label="relaunch", color=_RELAUNCH, linestyle="--", linewidth=2)
        said.append(f"relaunch {_ends(again)}")
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    low, high = axes.get_ylim()
    if high / low < 300:
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if high / low < 30 else (1, 3)))
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter("{x:g}")
        axis.set_minor_formatter("")
    axes.set_ylabel("us per barrier", color=_INK, fontsize=8)
    axes.grid(color=_FAINT, linewidth=0.6)
    _finish(axes, f"work-groups of {curve['local_size']}")
    _legend(figure, axes, 4)
    return Plot(
        device["label"], _svg(figure), f"Microseconds, at the fewest and the most work-groups: {'; '.join(said)}"
    )


def _ends(times: Sequence[Sequence[float]]) -> str:
    (first, start), (last, end) = times[0], times[-1]
    return f"{digits(start)} at {first:g}, {digits(end)} at {last:g}"


def _finish(axes: Axes, title: str) -> None:
    axes.set_xlabel(title, color=_INK, fontsize=8)
    axes.tick_params(colors=_INK, labelsize=8, which="both")
    axes.patch.set_visible(False)
    for name, spine in axes.spines.items():
        spine.set_color(_INK)
        spine.set_visible(name in {"left", "bottom"} if axes.get_yscale() == "log" else name == "bottom")


def _legend(figure: Figure, axes: Axes, columns: int) -> None:
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(
        handles,
        [shorten(text, 18, placeholder="...") for text in labels],
        loc="lower center",
        ncols=columns,
        frameon=False,
        fontsize=8,
        labelcolor=_INK,
        handletextpad=0.4,
        columnspacing=1.2,
        borderaxespad=0.1,
    )


def _svg(figure: Figure) -> str:
    """Return the figure as an SVG element for a page."""
    import matplotlib as mpl  # noqa: PLC0415 (an extra, and slow to load)

    file = io.StringIO()
    figure.patch.set_visible(False)
    # With a salt of its own, no identity of a plot is that of another one on the page.
    salt = f"plot {next(_serial)}"
    # A name may hold characters that matplotlib's own font lacks; the reader's browser draws them.
    with warnings.catch_warnings(), mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": salt}):
        warnings.filterwarnings("ignore", message="Glyph")
        figure.savefig(file, format="svg", metadata={"Date": None, "Creator": None})
    return _for_page(file.getvalue())


_serial = itertools.count()


def _for_page(text: str) -> str:
    root = ET.fromstring(text)  # noqa: S314 (written by matplotlib just before)
    for parent in list(root.iter()):
        for child in list(parent):
            if child.tag in {f"{{{_SVG}}}metadata", f"{{{_SVG}}}style"}:
                parent.remove(child)
    for element in root.iter():
        element.tag = str(element.tag).removeprefix(f"{{{_SVG}}}")
        for name, value in list(_attributes(element)):
            element.set(name, value)
    for name in ("version", "width", "height"):
        root.attrib.pop(name, None)
    root.set("class", "plot")
    root.set("aria-hidden", "true")
    return re.sub(r">\s+<", "><", ET.tostring(root, encoding="unicode"))


def _attributes(element: ET.Element) -> Iterator[tuple[str, str]]:
    """Attributes in place of styles and of those that no page needs; the old ones are taken away."""
    if element.tag not in {"path", "clipPath"}:
        element.attrib.pop("id", None)
    link = element.attrib.pop(_LINK, None)
    if link is not None:
        yield "href", link
    classes = []
    for rule in element.attrib.pop("style", "").split(";"):
        name, _, value = (part.strip() for part in rule.partition(":"))
        if name == "font":
            size = re.search(r"([\d.]+)px", value)
            if size:
                yield "font-size", size[1]
        elif name in {"fill", "stroke"} and value in _CLASSES:
            classes.append(f"{name[0]}-{_CLASSES[value]}")
        elif name:
            yield name, value
    if classes:
        yield "class", " ".join(classes)
