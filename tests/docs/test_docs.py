"""The documentation is true: its kernels render, its programs run and print what the pages claim, and it builds."""

from __future__ import annotations

import functools
import importlib.util
import itertools
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyopencl as cl
import pyopencl.array as cl_array
import pytest

import portbar
from portbar.cli.output import explained
from portbar.device.facts import DeviceFacts
from portbar.device.quirks import matching, table
from portbar.primitives import layout
from portbar.primitives.grid import BARRIERS
from portbar.primitives.headers import HEADERS, header_names, layout_of, render_header, resolve_includes
from portbar.primitives.reduction.loops import Reduction, ReductionLoop
from portbar.primitives.reduction.use import Use
from portbar.records import load
from tests.checkout import ROOT, ran
from tests.docs.pages import DOCS, PAGES, STRATEGIES, blocks, outputs, pattern_of, sections
from tests.reading.trees import use_of
from tests.support import skipped_where_refused


def complete(page: Path) -> list[str]:
    """Return the C blocks that are whole programs for a device: those that include a header of portbar's for kernels."""
    texts = [block.text for block in blocks(page) if block.language == "c" and '#include "portbar/' in block.text]
    return [text for text in texts if "portbar/host.h" not in text]


@functools.cache
def complete_sources() -> list[tuple[str, str]]:
    """Return those of all pages, each with the page's name."""
    return [(page.name, source) for page in PAGES for source in complete(page)]


@pytest.mark.parametrize("turn", range(len(STRATEGIES)))
def test_complete_kernels_render_for_every_kind_of_strategy(turn: int) -> None:
    """Each for every third strategy, the next kernel for others; the tests of headers cover each strategy's text."""
    for name, source in complete_sources()[turn % 3 :: 3]:
        text = resolve_includes(source, STRATEGIES[turn], name=name, use=use_of(source))
        assert "#include" not in text, name
        kernels = re.findall(r"\bvoid (\w+)\(PORTBAR_\w+_PARAM\b", source)
        assert all(re.search(rf"\bvoid {kernel}\(", text) for kernel in kernels), name


def test_every_header_says_what_it_was_rendered_for() -> None:
    for name, strategy in itertools.product(header_names(), STRATEGIES):
        assert strategy.summary() in render_header(name, strategy)


def test_documented_c_names_are_those_of_the_header() -> None:
    page = (DOCS / "c_functions.md").read_text(encoding="utf-8")
    rows = page.partition("## portbar/device_barrier.h\n")[2].partition("\n## ")[0]
    functions = set(re.findall(r"`(\w+ portbar_\w+)\(", rows))
    names = (
        (DOCS / "device_barrier.md").read_text(encoding="utf-8").partition("## Names in C\n")[2].partition("\n## ")[0]
    )
    others = set(re.findall(r"`(PORTBAR_\w+|portbar_grid|portbar_device_token)\b", names))
    assert len(others) == 5
    public = r"portbar_(?:group_id|num_groups|global_\w+|local_linear_\w+|device_barrier\w*|device_ok)\b"
    for strategy in STRATEGIES:
        text = render_header("device_barrier", strategy)
        defined = set(re.findall(r"^static inline (\w+ portbar_\w+)\(.*\)$", text, re.MULTILINE))
        assert functions <= defined
        named = {f for f in defined if re.search(rf" {public}", f) and not f.endswith("_counted")}
        assert named == functions
        for name in others:
            assert re.search(rf"^#define {name}\b|}} {name};|^typedef uint {name};", text, re.MULTILINE), name


def test_the_survey_page_names_faults_as_the_commands_do() -> None:
    page = " ".join((DOCS / "survey.md").read_text(encoding="utf-8").split())
    (unset,) = (quirk for quirk in table() if quirk.name == "rusticl-not-enabled")
    assert explained(unset.fault, unset.workaround) in page
    (intel,) = (
        one["facts"] for one in load(next((ROOT / "vendor_matrix").glob("intel-r-opencl--amd-*.json")))["devices"]
    )
    assert ", ".join(quirk.name for quirk in matching(DeviceFacts.from_json(intel))) in page


@pytest.mark.parametrize(
    ("header", "prefix"),
    [
        ("atomics", "atomic"),
        ("lock", "(?:spin|ticket)_lock"),
        ("signal", "(?:work_group_|device_)?(?:signal|wait_until)"),
        ("worklist", "(?:work_group_|device_)?(?:frontier|task_queue)"),
        ("task_graph", "(?:work_group_)?task_graph"),
        ("team", "(?:team|num_teams)"),
        ("split_barrier", "(?:split_barrier|copy_async|arrival)"),
    ],
)
def test_every_name_on_a_page_is_in_its_header(header: str, prefix: str) -> None:
    page = (DOCS / f"{header.replace('lock', 'locks')}.md").read_text(encoding="utf-8")
    names = set(re.findall(rf"\bportbar_{prefix}\w*", page))
    assert len(names) > 5
    for strategy in STRATEGIES:
        text = render_header(header, strategy)
        assert names <= set(re.findall(r"\bportbar_\w+", text))


@pytest.mark.parametrize("page", [page for page in PAGES if page.stem != "quirks"], ids=lambda page: page.stem)
def test_pages_read_the_same_as_plain_markdown(page: Path) -> None:
    """Neither directives nor roles nor definition lists, which a repository's page shows raw. A command prints quirks.md."""
    text = page.read_text(encoding="utf-8")
    assert not re.findall(r"^(?:```|:::)\{.*", text, re.MULTILINE)
    assert not re.findall(r"\{\w+:\w+\}`", text)
    assert not re.findall(r"\S\n: .*", text)


def test_documented_layout_is_the_layout() -> None:
    text = (DOCS / "state_layout.md").read_text(encoding="utf-8")
    table = text.partition("<!-- layout -->")[2].partition("<!-- end -->")[0]
    rows = re.findall(r"^\| `(\w+)` \| (\d+) \|", table, re.MULTILINE)
    assert {name: int(word) for name, word in rows} == layout.OFFSETS


def test_documented_areas_are_those_of_the_headers() -> None:
    text = (DOCS / "state_layout.md").read_text(encoding="utf-8")
    table = text.partition("<!-- areas -->")[2].partition("<!-- end of areas -->")[0]
    rows = re.findall(r"^\| `(\w+)` \| `(\w+)\.h` \| (\d+)( C| for each|) ?(\d*)", table, re.MULTILINE)
    loop = ReductionLoop("sum", {"v": Reduction(np.int32, "+")})
    own = layout_of(HEADERS, Use(loops=(loop,)))
    found = [(area.name, owner, area.words, area.each) for owner, areas, _ in own.owners for area in areas]
    each = {" C": 1, "": 0}
    assert [(n, o, int(w), each.get(kind, int(at or 0))) for n, o, w, kind, at in rows] == found


def test_the_table_of_barrier_algorithms_is_what_they_say_of_themselves() -> None:
    text = (DOCS / "barrier_performance.md").read_text(encoding="utf-8")
    table = text.partition("| algorithm | overview |")[2].partition("\n\n")[0]
    rows = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in table.splitlines()[2:]]
    assert rows == [[f"`{name}`", one.summary, one.loses] for name, one in BARRIERS.items()]


def test_every_page_is_in_the_index() -> None:
    lists = (DOCS / "index.md").read_text(encoding="utf-8").partition("## All pages\n")[2]
    listed = re.findall(r"^- \[.*\]\((\w+)\.\w+\)$", lists, re.MULTILINE)
    assert sorted([*(page.stem for page in PAGES if page.stem != "index"), "api"]) == sorted(listed)


def test_every_page_that_is_linked_exists() -> None:
    for page in PAGES:
        for target in re.findall(r"\]\(([\w./]+)(?:#[\w-]+)?\)", page.read_text(encoding="utf-8")):
            assert (DOCS / target).exists(), f"{page.name}: {target}"


def anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings, as MyST makes them."""
    headings = re.findall(
        r"^#{1,3} (.*)$", re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL), re.MULTILINE
    )
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_pages_are_short() -> None:
    """Programs and their output do not count. The page of quirks is a list that a command prints."""
    texts = {page.name: page.read_text(encoding="utf-8") for page in PAGES if page.stem != "quirks"}
    without_code = {
        name: re.sub(r"^```.*?^```\n", "", text, flags=re.MULTILINE | re.DOTALL) for name, text in texts.items()
    }
    assert not {name: text.count("\n") for name, text in without_code.items() if text.count("\n") > 250}


@pytest.mark.parametrize("page", [ROOT / "README.md", *PAGES], ids=lambda page: page.stem)
def test_every_anchor_that_is_linked_exists(page: Path) -> None:
    for target, anchor in re.findall(r"\]\((?:docs/)?(\w+\.md)?#([\w-]+)\)", page.read_text(encoding="utf-8")):
        other = DOCS / target if target else page
        assert anchor in anchors(other), f"{page.name}: {target}#{anchor}"


def test_it_builds_without_a_warning(tmp_path: Path) -> None:
    for module in ("sphinx", "furo", "myst_parser"):
        if importlib.util.find_spec(module) is None:
            pytest.skip(f'{module} is not installed: pip install "portbar[docs]"')
    if importlib.util.find_spec("pyopencl") is None:
        pytest.skip("autodoc imports PyOpenCL, which is not installed")
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-b", "html", "-d", str(tmp_path / "trees")]
    ended = ran(*command, DOCS, tmp_path / "html")
    assert ended.returncode == 0, ended.stdout + ended.stderr
    contents = (tmp_path / "html" / "index.html").read_text(encoding="utf-8")
    assert re.search(r'class="caption".*For maintainers', contents)
    assert re.search(r'<li class="toctree-l1"><a .*href="c_functions.html">C functions</a>', contents)


@pytest.mark.device
@pytest.mark.parametrize("path", [ROOT / "README.md", DOCS / "quickstart.md"], ids=lambda path: path.stem)
def test_the_first_program_gives_what_numpy_gives(
    path: Path, context: cl.Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    (source,) = (block.text for block in blocks(path) if block.language == "c")
    shown = "n, sweeps = 100_000, 1_000 "
    (code,) = (block.text for block in blocks(path) if block.language == "python" and shown in block.text)
    assert code.count(shown) == 1
    code = code.replace(shown, "n, sweeps = 1_003, 20 ")
    called: list[str] = []
    monkeypatch.setattr(portbar, "load_platforms", lambda: called.append("load_platforms"))
    monkeypatch.setattr(cl, "create_some_context", lambda **_: called.append("create_some_context") or context)
    names: dict[str, Any] = {"source": source}
    with skipped_where_refused():
        exec(compile(code, path.name, "exec"), names)  # noqa: S102 (our own page)
    assert names["launch"].num_groups >= 1
    # A machine with nothing but Intel's wheel has no platform for PyOpenCL otherwise.
    assert called == ["load_platforms", "create_some_context"]
    expected = np.random.default_rng(1).random(1_003, dtype=np.float32)
    for _ in range(20):
        expected = np.concatenate([expected[:1], np.float32(0.5) * (expected[:-2] + expected[2:]), expected[-1:]])
    np.testing.assert_allclose(names["a"].get(), expected, rtol=1e-5)


@pytest.mark.device
@pytest.mark.parametrize(
    ("path", "section"),
    sections(DOCS / "wrong_programs.md"),
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_wrong_programs_say_what_the_page_claims(
    path: Path, section: str, context: cl.Context, queue: cl.CommandQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A kernel with neither Python nor text after it is not run."""
    if (
        section == "Assuming the number of groups"
        and portbar.choose(portbar.describe(context.devices[0])).max_groups == 1
    ):
        pytest.skip("portbar starts one work-group on this device, whatever the global size, so that none is surplus")
    monkeypatch.setattr(cl, "create_some_context", lambda **_: context)
    names: dict[str, Any] = {}
    compared = 0
    with skipped_where_refused():
        for shown, said, _ in outputs(path, section, names, queue):
            if "BarrierTimeoutError" in shown and names["launch"].num_groups < 2:
                continue  # with one work-group none is missing
            assert re.fullmatch(pattern_of(shown), said), f"the page: {shown}\nfound: {said}"
            compared += 1
    assert compared >= 1


@pytest.fixture
def documented(context: cl.Context) -> Callable[[str, str], Any]:
    """A function that builds the kernel of a name that a page shows."""

    def build(page: str, name: str) -> Any:
        (source,) = (text for text in complete(DOCS / f"{page}.md") if f"kernel void {name}(" in text)
        try:
            with skipped_where_refused():
                return portbar.Program(context, source).kernel(name)
        except portbar.BuildError as error:
            if "between work-groups" not in str(error):
                raise
            pytest.skip(f"order between work-groups is refused here: {error}")

    return build


@pytest.fixture
def array(queue: cl.CommandQueue) -> Callable[[Any], Any]:
    """A function that makes an array on the device, of values or of as many zeros."""

    def make(values: Any) -> Any:
        return cl_array.to_device(queue, np.zeros(values, np.uint32) if isinstance(values, int) else values)

    return make


@pytest.mark.device
def test_loop_over_data_ends_when_nothing_changes(documented: Any, array: Any, queue: cl.CommandQueue) -> None:
    numbers = np.arange(1, 400, 3, dtype=np.uint32)
    a = array(numbers)
    documented("device_barrier", "halve")(queue, None, (16,), a, np.uint32(numbers.size)).wait()
    np.testing.assert_array_equal(a.get(), np.ones_like(numbers))


@pytest.mark.device
def test_teams_follow_the_lists_of_their_rows(documented: Any, array: Any, queue: cl.CommandQueue) -> None:
    n, rows, random = 50, 7, np.random.default_rng(3)
    # Each element points at one before it, or at itself.
    lists = (random.random((rows, n)) * (np.arange(n) + 1)).astype(np.uint32)
    ends = lists.copy()
    for _ in range(n):
        ends = np.take_along_axis(ends, ends, 1)
    for k in (1, 2, 5):
        a, b = array(lists.ravel()), array(n * rows)
        sizes = np.uint32(n), np.uint32(rows), np.uint32(k)
        documented("team", "follow")(queue, None, (8,), a, b, *sizes).wait()
        assert (a.get() == ends.ravel()).all()
        assert (b.get() == ends.ravel()).all()


@pytest.mark.device
def test_work_between_arrive_and_wait_is_right(documented: Any, array: Any, queue: cl.CommandQueue) -> None:
    kernel = documented("device_barrier", "overlap")
    # Another algorithm, that suits the number of groups, is another binary, of which the device may hold more.
    groups, local, rounds = 2 * kernel.occupancy(queue, (8,)).groups, 8, 25
    start = np.random.default_rng(7).random(groups * local, dtype=np.float32) + np.float32(1)
    shared, own = array(0 * start), array(start)
    launch = kernel(queue, None, (local,), shared, own, np.uint32(rounds))
    launch.wait()
    size = launch.num_groups * local
    expected = start[:size].astype(np.float64)
    for number in range(rounds):
        expected = np.sqrt(expected) + np.roll(expected + number, -1)
    np.testing.assert_allclose(own.get()[:size], expected, rtol=1e-3)


@pytest.mark.device
def test_the_last_work_group_sums_up_what_all_others_wrote(documented: Any, array: Any, queue: cl.CommandQueue) -> None:
    kernel, n = documented("atomics", "sum"), 10_007
    a = array(np.arange(n, dtype=np.uint32))
    for _ in range(5):
        partial, done, result = map(array, (16, 1, 1))
        kernel(queue, (16 * 32,), (32,), a, np.uint32(n), partial, done, result).wait()
        assert result.get()[0] == n * (n - 1) // 2


@pytest.mark.device
def test_the_documented_wait_gets_the_value(documented: Any, array: Any, queue: cl.CommandQueue) -> None:
    out = array(4)
    documented("atomics", "hand_over")(queue, (4 * 8,), (8,), array(1), array(1), out).wait()
    assert out.get().tolist() == [0, 42, 42, 42]


@pytest.mark.device
def test_the_documented_lock_lets_every_group_insert_once(documented: Any, array: Any, queue: cl.CommandQueue) -> None:
    items, failed = array(16), array(1)
    documented("locks", "insert")(queue, (16 * 8,), (8,), array(2), items, array(1), failed).wait()
    assert failed.get()[0] == 0
    assert sorted(items.get().tolist()) == list(range(16))


@pytest.mark.device
def test_documented_split_barriers_are_right(documented: Any, array: Any, queue: cl.CommandQueue) -> None:
    groups, local = 5, 32
    values = np.random.default_rng(3).random(groups * local, dtype=np.float32)
    a, b, size = array(values), array(0 * values), np.uint32(values.size)
    documented("split_barrier", "blur")(queue, (values.size,), (local,), a, b, size).wait()
    tiles = values.reshape(groups, local)
    expected = 0.5 * np.sqrt(tiles) + 0.25 * (np.roll(tiles, -1, 1) + np.roll(tiles, 1, 1))
    np.testing.assert_allclose(b.get().reshape(groups, local), expected, rtol=1e-5)
    documented("split_barrier", "sums")(queue, (values.size,), (local,), a, b).wait()
    expected = np.sin(np.arange(local)) * (tiles + tiles[:, ::-1])
    np.testing.assert_allclose(b.get().reshape(groups, local), expected, rtol=1e-2, atol=1e-3)
