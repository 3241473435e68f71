"""The benchmarks run, each line of theirs is valid, and a missing peer is skipped with a reason."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from benchmarks.device_barrier import expected_groups
from portbar import Choice, DeviceFacts, DeviceProfile, Findings, Strategy
from tests.measure.conftest import Done, check_row, check_targeted, measured, python, rows_of, run

APPLICATIONS = [
    {"search", "paths", "components", "independent", "colouring"},
    {"pagerank", "jacobi", "life", "bitonic"},
    {"gradients"},
    {"triangular", "decoding"},
]
CALLS = {"operation", "type", "place", "order", "strategy"}


@pytest.mark.device
@pytest.mark.slow
def test_every_line_of_the_device_barrier_benchmark_is_valid(selector: str) -> None:
    rows, said = measured("device_barrier", selector)
    for row in rows:
        if row["benchmark"] == "discovery-recall":
            assert row["peer_us"] is None
            assert 0 <= row["ratio"] == row["missed"] / row["samples"] <= 1
        else:
            check_row(row)
    peers = {row["peer"] for row in rows}
    assert {"relaunch", "ticket-discovery", "spin-discovery", "expected-count"} <= peers
    sizes = {row["local_size"] for row in rows if row["peer"] == "relaunch"}
    assert sizes == {1, 64} or (sizes == {1} and "above the kernel's limit" in said)
    assert "libgomp" in peers or "libgomp" in said


@pytest.mark.device
@pytest.mark.slow
def test_every_line_of_the_signal_benchmark_is_valid(selector: str) -> None:
    done = run("signal", "--json", "--quick", "--device", selector)
    # It measures nothing where work-groups run one at a time.
    rows = rows_of(done) if done.stdout else []
    for row in rows:
        check_targeted(row)
    forms = {(row["form"], row["local_size"]) for row in rows}
    assert forms >= {("item", 1), ("group", 64)} or "one work-group at a time" in done.stderr


@pytest.mark.device
@pytest.mark.slow
def test_every_line_of_the_benchmark_of_slow_launches_is_valid(selector: str) -> None:
    done = run("launch_tails", "--json", "--quick", "--device", selector)
    # It measures CPUs, beside libgomp where there is a compiler.
    rows = rows_of(done) if done.stdout else []
    for row in rows:
        check_row(row)
        for whose in ("", "peer_"):
            assert 0 < row[f"{whose}p50_us"] <= row[f"{whose}p90_us"] <= row[f"{whose}p99_us"] <= row[f"{whose}most_us"]
    found = {(row["peer"], row["gap_us"]) for row in rows}
    assert found >= {("libgomp", 0), ("libgomp, bound", 2000)} or done.returncode == 3 or "libgomp" in done.stderr


@pytest.mark.device
@pytest.mark.slow
def test_every_line_of_the_loopy_benchmark_is_valid(selector: str) -> None:
    pytest.importorskip("loopy", reason='no loopy: `pip install "portbar[loopy]"` brings it')
    rows, _ = measured("loopy", selector)
    for row in rows:
        check_row(row)
    assert {(row["points"], row["peer"]) for row in rows} == {(1_000, "launches"), (10_000, "launches")}
    assert "chosen" in {row["way"] for row in rows}


@pytest.mark.device
@pytest.mark.slow
def test_every_line_of_the_first_contact_benchmark_is_valid(selector: str) -> None:
    rows, said = measured("first_contact", selector)
    for row in rows:
        check_row(row)
    assert {row["benchmark"] for row in rows} >= {
        *("wait", "wait-event", "wait-without-grid", "enqueue", "enqueue-without-grid", "enter", "first-launch"),
        *("reduce-add", "vote-any", "vote-count", "reduce-logical-or", "choice", "second-start", "second-start-cpu"),
    }, said


@pytest.mark.device
@pytest.mark.slow
@pytest.mark.parametrize(
    ("benchmark", "only", "parts"),
    [
        (
            "loops",
            set[str](),
            {
                *("axpy", "jacobi", "life", "independent axpy", "independent jacobi", "independent life", "uneven"),
                *("tiles heat", "tiles powers"),
            },
        ),
        *(("applications", names, names) for names in APPLICATIONS),
    ],
)
def test_every_line_of_the_benchmarks_of_programs_is_valid(
    selector: str, benchmark: str, only: set[str], parts: set[str]
) -> None:
    chosen = [word for name in sorted(only) for word in ("--only", name)]
    rows, said = measured(benchmark, selector, *chosen)
    summaries = [row for row in rows if row["benchmark"] == "advice"]
    rows = [row for row in rows if row not in summaries]
    for row in rows:
        check_row(row)
    assert {row["benchmark"] for row in rows} == parts, said
    if benchmark == "applications":
        (summary,) = summaries
        # Only launches are predicted; some programs are also measured beside a barrier per step.
        launched = [row for row in rows if row["peer"] == "a launch for each step"]
        assert {row["benchmark"] for row in launched} == parts
        assert summary["rows"] + summary["without"] == len(launched)
        assert all(("predicted_ratio" in row) != ("no_prediction" in row) for row in launched)


def test_all_applications_are_among_the_benchmarks_that_are_tested() -> None:
    done = python("from benchmarks import applications; print(*applications.BENCHMARKS)")
    assert sorted(done.stdout.split()) == sorted(name for names in APPLICATIONS for name in names)


@pytest.mark.device
def test_libgomp_is_skipped_with_the_reason_without_a_compiler(selector: str, tmp_path: Path) -> None:
    # PoCL links its kernels with it.
    if (linker := shutil.which("ld")) is not None:
        (tmp_path / "ld").symlink_to(linker)
    only = ("--local", "1", "--only", "barrier")
    (row,), said = measured("device_barrier", selector, *only, PATH=str(tmp_path))
    assert row["peer"] == "relaunch"
    check_row(row)
    assert "libgomp skipped: there is no C compiler" in said


@pytest.mark.parametrize(
    ("kind", "in_flight", "most", "bound", "expected"),
    [
        ("CPU", 8, None, 2, 8),
        ("CPU", None, None, 2, 2),
        ("CPU", 8, 1, 1, 1),
        ("CPU", 2, None, 4, 4),
        ("GPU", 8, None, 2, 2),
        ("GPU", 8, 1, 2, 1),
    ],
)
def test_recall_is_of_the_groups_that_a_launch_may_start(
    kind: str, in_flight: int | None, most: int | None, bound: int, expected: int
) -> None:
    profile = DeviceProfile(DeviceFacts(type=(kind,)), Findings(groups_in_flight=in_flight))
    choice = Choice("x", "test")
    assert expected_groups(profile, Strategy(choice, choice, choice, max_groups=most), bound) == expected
    assert expected_groups(DeviceProfile(profile.facts), Strategy(choice, choice, choice), 3) == 3


#: All in one process, each as a command of its own.
REFUSED = """
import runpy, sys
wrong = [("device_barrier", *words) for words in (("--only", "nothing"), ("--local", "many"), ("--local", "0"))]
for name in ("device_barrier", "first_contact", "atomics", "split_barrier", "reductions"):
    wrong += [(name, "--unknown"), (name, "--json", "--device", "no such device")]
for sys.argv in map(list, wrong):
    try:
        runpy.run_module(f"benchmarks.{sys.argv[0]}", run_name="__main__")
    except SystemExit as end:
        assert end.code == (3 if "--json" in sys.argv else 2), (sys.argv, end.code)
        print("---", file=sys.stderr)
"""


def test_unmeasurable_cases_are_refused() -> None:
    done = python(REFUSED)
    *said, _ = done.stderr.split("---\n")
    assert (len(said), done.stdout) == (13, "")
    assert all("usage" in text or "no" in text for text in said), said


@pytest.mark.device
@pytest.mark.parametrize(
    ("module", "arguments", "words"),
    [
        ("device_barrier", ("--local", "1", "--only", "recall"), ("benchmark",)),
        pytest.param("atomics", ("--only", "fetch_add"), ("target met", "(1.02)"), marks=pytest.mark.slow),
        pytest.param("split_barrier", ("--only", "arrive_wait"), ("target met", "arrive_wait"), marks=pytest.mark.slow),
    ],
    ids=["device_barrier", "atomics", "split_barrier"],
)
def test_without_json_there_is_a_table(
    selector: str, module: str, arguments: tuple[str, ...], words: tuple[str, ...]
) -> None:
    done = run(module, "--quick", *arguments, "--device", selector)
    assert done.returncode == 0, done.stderr
    assert all(word in done.stdout for word in words)
    assert not done.stdout.lstrip().startswith("{")


@pytest.mark.device
@pytest.mark.slow
def test_every_line_of_the_build_benchmark_is_valid(selector: str) -> None:
    rows, _ = measured("build", selector)
    assert {row["benchmark"] for row in rows} >= {"atomic", "work-group sum"}
    for row in rows:
        check_targeted(row)
        assert 20 < row["lines"] < 700
    assert {row["benchmark"]: row["target"] for row in rows if row["benchmark"] == "atomic"} == {"atomic": 1.3}


@pytest.mark.device
@pytest.mark.slow
def test_every_line_of_the_atomics_benchmark_has_right_sums(selector: str, findings: Findings | None) -> None:
    rows, _ = measured("atomics", selector)
    for row in rows:
        check_targeted(row)
        assert set(row) >= CALLS
        assert min(row["control"], row["rounds"], row["work_items"]) > 0
        assert row["cores"] is None or row["cores"] > 0
        # A device that ends loops early would leave wrong sums.
        limit = findings.loop_limit if findings is not None else None
        assert limit is None or row["rounds"] < limit
    raw = {(row["operation"], row["place"]) for row in rows if row["peer"] == "atomic_add"}
    assert raw == {(call, place) for call in ("fetch_add", "add") for place in ("contended", "uncontended")}
    assert {row["target"] for row in rows if row["benchmark"] == "fetch_add"} == {1.02}
    floats = [row for row in rows if row["benchmark"] == "float_add" and row["peer"].startswith("loop-")]
    for kind in {row["type"] for row in floats} | {"float"}:
        own = [row for row in floats if row["type"] == kind]
        assert {row["place"] for row in own} == {"contended", "contended_64", "uncontended"}
        assert all(row["target"] == (None if row["native"] else 1.1) for row in own)
        assert all(row["ratio"] == max(row["ratios"].values()) for row in own)


@pytest.mark.device
def test_kernels_of_both_sides_leave_the_same_words_and_sums(on_device: Callable[..., Done]) -> None:
    code = (
        "from benchmarks.atomics import *\n"
        "bench = Bench(Session(device, device.name, cl.Context([device]), True))\n"
        "for place in PLACES:\n"
        "    task = Task('fetch_add', bench.kinds[0], place)\n"
        "    for side in (\n"
        "        bench.build(HEADER, {'k': (task, ours(task))}, ours=True),\n"
        "        bench.build('', {'k': (task, 'atomic_add(p, 1u)')}),\n"
        "        # Twice the value: the check must tell.\n"
        "        bench.build('', {'k': (task, 'atomic_add(p, 2u)')}),\n"
        "    ):\n"
        "        bench._launch(task, side['k'], bench.items, 3)\n"
        "        print(place, bench._fault(task, bench.items, 3) or 'right')\n"
    )
    lines = on_device(code).stdout.splitlines()
    for place in ("contended", "contended_64", "uncontended"):
        ours, raw, doubled = (line.removeprefix(f"{place} ") for line in lines if line.startswith(f"{place} "))
        assert (ours, raw) == ("right", "right")
        assert "a word holds" in doubled


@pytest.mark.device
def test_a_side_with_wrong_sums_is_left_out_and_ours_makes_the_row_an_error(on_device: Callable[..., Done]) -> None:
    code = (
        "from benchmarks.atomics import *\n"
        "bench = Bench(Session(device, device.name, cl.Context([device]), True))\n"
        "task = Task('add', bench.kinds[0], 'contended')\n"
        "right, wrong = (bench.build('', {'k': (task, f'atomic_add(p, {n}u)')})['k'] for n in (1, 2))\n"
        "rows = list(rows_of(bench, 'fetch_add', task, {'portbar': right, 'good': right, 'bad': wrong}))\n"
        "print([row.peer for row in rows])\n"
        "rows = list(rows_of(bench, 'fetch_add', task, {'portbar': wrong, 'good': right}))\n"
        "print([(row.ratio, row.extra['error']) for row in rows])\n"
    )
    done = on_device(code)
    first, second = done.stdout.splitlines()
    assert first == "['good']"
    assert "bad left out" in done.stderr
    assert "(None, 'portbar: a word holds" in second


@pytest.mark.device
@pytest.mark.slow
def test_split_barrier_benchmark_prints_a_line_a_row_with_right_results(
    selector: str, findings: Findings | None
) -> None:
    rows, _ = measured("split_barrier", selector)
    for row in rows:
        check_targeted(row)
        assert set(row) >= {"strategy", "local_size", "groups", "time_ratio", "by"}
        assert min(row["groups"], row["ours_best_us"], row["peer_best_us"]) > 0
        limit = findings.loop_limit if findings is not None else None
        assert limit is None or row.get("rounds", 0) < limit
    waits = [row for row in rows if row["benchmark"] == "arrive_wait"]
    sizes = {row["local_size"] for row in waits if row["peer"] == "barrier"}
    assert sizes >= ({32, 256, 1024} if any(row["by"] == "cycles" for row in waits) else {1, 64})
    assert {row["peer"] for row in waits} >= {"barrier", "barrier-local"}
    assert {row["target"] for row in waits if row["peer"] == "barrier"} <= {1.3, None}
    pipelines = [row for row in rows if row["benchmark"] == "pipeline"]
    assert {row["peer"] for row in pipelines} == {"barrier", "barrier-prefetch"}
    assert all(row["speedup"] == pytest.approx(1 / row["ratio"]) for row in pipelines)


@pytest.mark.device
def test_split_barrier_benchmark_sees_wrong_results(on_device: Callable[..., Done]) -> None:
    code = (
        "from benchmarks.split_barrier import *\n"
        "session = SplitSession(device, device.name, cl.Context([device]), True, None, None)\n"
        "bench = Bench(session)\n"
        "right = NO_CYCLES + loop('barrier')\n"
        "for text in (right, right.replace('round < rounds', 'round + 1u < rounds')):\n"
        "    kernel = bench.peer(text, loop_name('barrier'))\n"
        "    for rounds in (1, 2, 5, 12):\n"
        "        try:\n"
        "            Loop(bench, kernel, 2, 8).sample(rounds)\n"
        "            print('right')\n"
        "        except WrongResultError as error:\n"
        "            print('wrong', error)\n"
        "head = '#define SIZE 8u' + chr(10) + PIPELINE + STREAM_HEAD\n"
        "fill = bench.peer(head + STREAM_TAIL, 'fill')\n"
        "ours = bench.compiled(HEADER + head + STREAMS['portbar'] + STREAM_TAIL, ('split_barrier.overlapping',))\n"
        "kernels = {name: bench.peer(head + STREAMS[name] + STREAM_TAIL, 'stream') for name in list(STREAMS)[1:]}\n"
        "kernels['portbar'] = bench.ours(ours, 'stream')\n"
        "late = head + STREAMS['barrier'].replace('tile * stride', '(tiles - 1u - tile) * stride') + STREAM_TAIL\n"
        "kernels['late'] = bench.peer(late, 'stream')\n"
        "for tiles in (2, 6, 9):\n"
        "    streams = Streams(bench, fill, kernels, 3, 8, tiles)\n"
        "    for side in kernels:\n"
        "        try:\n"
        "            streams.check(side, 5)\n"
        "            print(side, 'right')\n"
        "        except WrongResultError as error:\n"
        "            print(error)\n"
    )
    lines = on_device(code).stdout.splitlines()
    assert lines[:4] == ["right"] * 4
    assert all(line.startswith("wrong 1") for line in lines[4:8])
    for at in (8, 12, 16):
        assert lines[at : at + 3] == ["barrier right", "barrier-prefetch right", "portbar right"]
        assert "sums of work-group 0 are wrong" in lines[at + 3]


#: A compiler whose program replies as a CUDA program does, line by line, and then stops replying.
COMPILER = """#!/bin/sh
echo "$@" > {folder}/arguments
cp "$(eval echo \\${{$#}})" {folder}/source.cu
while [ "$1" != -o ]; do shift; done
cat > "$2" <<'END'
#!{python}
import sys, time
print('{{"name": "none", "about": 90}}', flush=True)
answers = {answers}
for line in sys.stdin:
    assert line == "{asked}\\n", line
    if not answers:
        time.sleep(60)
    print(answers.pop(0), flush=True)
END
chmod +x "$2"
"""


@pytest.mark.parametrize(
    ("module", "name", "peer", "call", "asked", "answers", "said"),
    [
        (
            "split_barrier",
            "split_barrier",
            "CudaPeer",
            "sample('barrier', 64, 2, 10)",
            "barrier 64 2 10",
            ['{"seconds": 0.5, "cycles": 7, "wrong": 0}', '{"seconds": 0.5, "cycles": 7, "wrong": 2}'],
            ["Sample(seconds=0.5, cycles=7)", "WrongResultError the CUDA program left 2 wrong values"],
        ),
        (
            "reductions_cub",
            "reductions",
            "CubPeer",
            "order('float32', 8)",
            "float32 8 0 0",
            ['{"seconds": 0.5, "sum": 28.0}'],
            ["{'seconds': 0.5, 'sum': 28.0}"],
        ),
    ],
    ids=["split_barrier", "reductions"],
)
def test_cuda_program_is_asked_in_turns_and_ended_when_it_hangs(
    tmp_path: Path, module: str, name: str, peer: str, call: str, asked: str, answers: list[str], said: list[str]
) -> None:
    compiler = tmp_path / "nvcc"
    answers = [*answers, '{"error": "busy"}']
    text = COMPILER.format(folder=tmp_path, python=sys.executable, asked=asked, answers=answers)
    compiler.write_text(text, encoding="utf-8")
    compiler.chmod(0o755)
    code = (
        f"import benchmarks.{module} as bench\n"
        "from benchmarks.cuda import cuda_program\n"
        "from portbar.errors import Error\n"
        f"with cuda_program(bench.CUDA_SOURCE, '{name}', (9, 0), bench.{peer}) as peer:\n"
        "    peer._limit_s = 1.0\n"
        "    print(peer.about['about'])\n"
        f"    for _ in range({len(answers) + 2}):\n"
        "        try:\n"
        f"            print(peer.{call})\n"
        "        except Error as error:\n"
        "            print(type(error).__name__, error)\n"
    )
    done = python(code, PATH=f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    *first, hung, ended = done.stdout.splitlines()
    assert first == ["90", *said, "Error the CUDA program failed: busy"]
    assert "took more than 1 s" in hung
    assert "has ended" in ended
    assert (tmp_path / "arguments").read_text(encoding="utf-8").split()[:3] == ["-O3", "-std=c++17", "-arch=sm_90"]
    source = (tmp_path / "source.cu").read_text(encoding="utf-8")
    assert source.count("{") == source.count("}")
    assert module != "reductions_cub" or "PERIOD" not in source


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("nvcc") is None, reason="needs nvcc")
def test_cuda_programs_compile(tmp_path: Path) -> None:
    """As far as code for the device, by when nvcc has also read the host's code: the rest takes twice as long."""
    code = (
        "import sys\n"
        "from pathlib import Path\n"
        "from benchmarks import grid_sync, reductions_cub, signal, split_barrier\n"
        "from benchmarks.cuda import compiled\n"
        "for module in (grid_sync, reductions_cub, signal, split_barrier):\n"
        "    print(compiled(module.CUDA_SOURCE, Path(sys.argv[1], module.__name__), (9, 0)).exists())\n"
    )
    assert python(code, str(tmp_path), NVCC_APPEND_FLAGS="-cubin").stdout.split() == ["True"] * 4


@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
def test_libgomp_program_counts_its_own_barriers() -> None:
    code = (
        "from benchmarks.device_barrier import *\n"
        "with libgomp() as binary:\n"
        "    assert binary is None or gomp_us(binary, 2, 500) > 0\n"
        "    print('compiled' if binary else 'refused')\n"
        "assert binary is None or not binary.exists()\n"
    )
    done = python(code)
    assert done.stdout.strip() == "compiled" or "libgomp skipped" in done.stderr
