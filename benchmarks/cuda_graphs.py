"""CUDA graphs as a peer of recorded launches: the same kernels' text, compiled by nvcc, captured and replayed.

A loop that a flag ends is a conditional node, so that the host reads no flag. Programs with local memory are left out: CUDA
declares it otherwise.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyopencl as cl

from benchmarks.cuda import PRELUDE, CudaProgram, cuda_program
from examples.recorded.programs import HostProgram

#: The words of OpenCL C in CUDA, for kernels in one to three dimensions without offsets.
_WORDS: Final = r"""
#include <chrono>

typedef unsigned char uchar;
typedef unsigned int uint;

static __device__ inline size_t get_global_id(int d)
{
    return d == 0 ? blockIdx.x * size_t(blockDim.x) + threadIdx.x
        : d == 1 ? blockIdx.y * size_t(blockDim.y) + threadIdx.y : blockIdx.z * size_t(blockDim.z) + threadIdx.z;
}
static __device__ inline size_t get_global_size(int d)
{
    return d == 0 ? gridDim.x * size_t(blockDim.x) : d == 1 ? gridDim.y * size_t(blockDim.y) : gridDim.z * size_t(blockDim.z);
}
"""
#: Words of OpenCL C -> those of CUDA. Not by macros: CUDA's `__global__` is a macro that names `global`.
_REPLACED: Final = {r"\b(__)?kernel\b": "__global__", r"\b(__)?global\b": ""}

#: The host: buffers, and the steps that are captured into a graph.
_HOST: Final = r"""
struct Buffer {
    void *now = nullptr, *first = nullptr;
    size_t bytes = 0;
    template <typename T> operator T *() const { return static_cast<T *>(now); }
};
static Buffer buffers[BUFFERS];

__global__ void fill_words(unsigned *to, unsigned value, unsigned words)
{
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < words)
        to[i] = value;
}

#ifdef CONDITIONS
__global__ void go_on(cudaGraphConditionalHandle handle, const unsigned *flag)
{
    cudaGraphSetConditional(handle, *flag != 0u);
}

/* Capture `body` into a conditional node of the graph that the stream is captured into. */
template <typename F> static bool conditional(cudaStream_t stream, cudaGraphConditionalNodeType kind, unsigned *flag, F body)
{
    cudaStreamCaptureStatus status;
    cudaGraph_t graph;
    const cudaGraphNode_t *before;
    size_t count;
    cudaGraphConditionalHandle handle;
#if CUDART_VERSION >= 13000
    if (refused(cudaStreamGetCaptureInfo(stream, &status, nullptr, &graph, &before, nullptr, &count)))
        return true;
#else
    if (refused(cudaStreamGetCaptureInfo_v2(stream, &status, nullptr, &graph, &before, &count)))
        return true;
#endif
    if (refused(cudaGraphConditionalHandleCreate(&handle, graph, 0, 0)))
        return true;
    go_on<<<1, 1, 0, stream>>>(handle, flag);
    cudaGraphNodeParams made = {};
    made.type = cudaGraphNodeTypeConditional;
    made.conditional.handle = handle;
    made.conditional.type = kind;
    made.conditional.size = 1;
    cudaGraphNode_t node;
#if CUDART_VERSION >= 13000
    if (refused(cudaStreamGetCaptureInfo(stream, &status, nullptr, &graph, &before, nullptr, &count)) ||
        refused(cudaGraphAddNode(&node, graph, before, nullptr, count, &made)) ||
        refused(cudaStreamUpdateCaptureDependencies(stream, &node, nullptr, 1, cudaStreamSetCaptureDependencies)))
        return true;
#else
    if (refused(cudaStreamGetCaptureInfo_v2(stream, &status, nullptr, &graph, &before, &count)) ||
        refused(cudaGraphAddNode(&node, graph, before, count, &made)) ||
        refused(cudaStreamUpdateCaptureDependencies(stream, &node, 1, cudaStreamSetCaptureDependencies)))
        return true;
#endif
    cudaStream_t inner;
    if (refused(cudaStreamCreate(&inner)) ||
        refused(cudaStreamBeginCaptureToGraph(inner, made.conditional.phGraph_out[0], nullptr, nullptr, 0,
                                              cudaStreamCaptureModeRelaxed)))
        return true;
    if (body(inner))
        return true;
    if (kind == cudaGraphCondTypeWhile)
        go_on<<<1, 1, 0, inner>>>(handle, flag);
    return refused(cudaStreamEndCapture(inner, nullptr)) || refused(cudaStreamDestroy(inner));
}
#endif

static bool steps(cudaStream_t stream)
{
STEPS
    return refused(cudaGetLastError());
}

int main()
{
    cudaStream_t stream;
    cudaGraph_t graph;
    cudaGraphExec_t made;
    char line[4096], path[4000];
    bool is_made = false;
    if (refused(cudaStreamCreate(&stream)))
        return 1;
    std::printf("{}\n");
    std::fflush(stdout);
    while (std::fgets(line, sizeof line, stdin)) {
        unsigned k;
        size_t bytes;
        double us = 0;
        bool failed = false;
        if (std::sscanf(line, "array %u %zu %3999s", &k, &bytes, path) == 3) {
            void *data = std::malloc(bytes);
            FILE *file = std::fopen(path, "rb");
            failed = !file || std::fread(data, 1, bytes, file) != bytes || refused(cudaMalloc(&buffers[k].now, bytes)) ||
                refused(cudaMalloc(&buffers[k].first, bytes)) ||
                refused(cudaMemcpy(buffers[k].first, data, bytes, cudaMemcpyHostToDevice));
            buffers[k].bytes = bytes;
            if (file)
                std::fclose(file);
            std::free(data);
        } else if (std::sscanf(line, "result %u %3999s", &k, path) == 2) {
            void *data = std::malloc(buffers[k].bytes);
            FILE *file = std::fopen(path, "wb");
            failed = !file || refused(cudaMemcpy(data, buffers[k].now, buffers[k].bytes, cudaMemcpyDeviceToHost)) ||
                std::fwrite(data, 1, buffers[k].bytes, file) != buffers[k].bytes;
            if (file)
                std::fclose(file);
            std::free(data);
        } else {
            if (!is_made) {
                if (refused(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed)) || steps(stream) ||
                    refused(cudaStreamEndCapture(stream, &graph)) || refused(cudaGraphInstantiate(&made, graph, 0)) ||
                    refused(cudaGraphUpload(made, stream)))
                    return 1;
                is_made = true;
            }
            for (Buffer &one : buffers)
                failed = failed || refused(cudaMemcpy(one.now, one.first, one.bytes, cudaMemcpyDeviceToDevice));
            failed = failed || refused(cudaDeviceSynchronize());
            const auto began = std::chrono::steady_clock::now();
            failed = failed || refused(cudaGraphLaunch(made, stream)) || refused(cudaStreamSynchronize(stream));
            us = std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - began).count();
        }
        if (failed)
            return 1;
        std::printf("{\"us\": %.3f}\n", us);
        std::fflush(stdout);
    }
    return 0;
}
"""


class _Text:
    """A way to run a program of `examples.recorded`: the steps as CUDA's host code."""

    def __init__(self, program: HostProgram) -> None:
        self._numbers = {one.int_ptr: k for k, one in enumerate(program.buffers.values())}
        self.lines: list[str] = []
        self.has_conditions = False
        self._stream = "stream"

    def __call__(self, kernel: cl.Kernel, size: Any, local: Any, *args: Any, offset: Any = None) -> None:
        """Write a launch."""
        if offset is not None:
            raise NotImplementedError("CUDA has no offsets")
        # As a driver would, where none is given.
        local = local or tuple(next(n for n in range(min(256, one), 0, -1) if one % n == 0) for one in size)
        blocks = ", ".join(str(n // one) for n, one in zip(size, local, strict=True))
        given = ", ".join(self._argument(one) for one in args)
        name = kernel.function_name
        threads = ", ".join(map(str, local))
        self.lines.append(f"    {name}<<<dim3({blocks}), dim3({threads}), 0, {self._stream}>>>({given});")

    def loop(self, turns: int, body: Callable[[Any], None]) -> None:
        """Write each turn."""
        for turn in range(turns):
            body(np.int32(turn))

    def values(self, values: np.ndarray, turn: Any) -> Any:
        """The value of a turn."""
        return values[turn]

    def loop_while(self, flag: cl.Buffer, body: Callable[[Any], None]) -> None:
        """Write a conditional node."""
        self._conditional("cudaGraphCondTypeWhile", flag, lambda: body(None))

    def on(self, flag: cl.Buffer, body: Callable[[], None]) -> None:
        """Write a conditional node."""
        self._conditional("cudaGraphCondTypeIf", flag, body)

    def fill(self, to: cl.Buffer, value: np.generic) -> None:
        """Write a fill with a word of 32 bits."""
        words = to.size // 4
        word = int(np.asarray(value).view(np.uint32))
        given = f"buffers[{self._numbers[to.int_ptr]}], {word}u, {words}u"
        self.lines.append(f"    fill_words<<<{-(-words // 256)}, 256, 0, {self._stream}>>>({given});")

    def copy(self, to: cl.Buffer, source: cl.Buffer) -> None:
        """Write a copy."""
        given = ", ".join(f"buffers[{self._numbers[one.int_ptr]}].now" for one in (to, source))
        self.lines.append(f"    cudaMemcpyAsync({given}, {to.size}, cudaMemcpyDeviceToDevice, {self._stream});")

    def _conditional(self, kind: str, flag: cl.Buffer, body: Callable[[], None]) -> None:
        self.has_conditions = True
        given = f"{self._stream}, {kind}, buffers[{self._numbers[flag.int_ptr]}]"
        outer, self._stream = self._stream, "inner"
        self.lines.append(f"    if (conditional({given}, [&](cudaStream_t inner) {{")
        body()
        self.lines.append("    return refused(cudaGetLastError()); })) return true;")
        self._stream = outer

    def _argument(self, value: Any) -> str:
        if isinstance(value, cl.Buffer):
            return f"buffers[{self._numbers[value.int_ptr]}]"
        if isinstance(value, np.floating):
            return f"{float(value).hex()}{'f' if value.dtype == np.float32 else ''}"
        if isinstance(value, np.integer):
            return f"{int(value)}{'u' if value.dtype == np.uint32 else ''}"
        raise NotImplementedError(f"an argument of {type(value).__name__}")


def source_of(program: HostProgram) -> str:
    """A program in CUDA; `NotImplementedError` where its kernels or arguments need more than is translated here."""
    if re.search(r"\b(__)?local\b|\bconstant\b|\b(inline|bool) \w+\(|\bimage\dd_t\b", program.source):
        raise NotImplementedError("local memory, constants, images or helper functions")
    text = _Text(program)
    program.run(text)  # type: ignore[arg-type]
    host = _HOST.replace("STEPS", "\n".join(text.lines)).replace("BUFFERS", str(len(program.buffers)))
    defines = "#define CONDITIONS\n" if text.has_conditions else ""
    kernels = program.source
    for word, replaced in _REPLACED.items():
        kernels = re.sub(word, replaced, kernels)
    return f"{PRELUDE}\n#include <cstdlib>\n{defines}{_WORDS}\n{kernels}\n{host}"


class CudaGraph(CudaProgram):
    """A program whose graph is launched once for each order. Times are in microseconds, of the launch and its wait."""

    def __init__(self, command: Sequence[str]) -> None:
        super().__init__(command)
        self._folder = Path(command[0]).parent

    def fill(self, program: HostProgram) -> None:
        """Give it what the buffers begin with."""
        for k, array in enumerate(program.arrays.values()):
            path = self._folder / f"{k}.bin"
            path.write_bytes(array.tobytes())
            self.ask(f"array {k} {array.nbytes} {path}")

    def us(self) -> float:
        """Launch the graph from the first contents."""
        return float(self.ask("run")["us"])

    def results(self, program: HostProgram) -> dict[str, np.ndarray]:
        """The buffers' contents."""
        found = {}
        for k, (name, array) in enumerate(program.arrays.items()):
            path = self._folder / f"result-{k}.bin"
            self.ask(f"result {k} {path}")
            found[name] = np.frombuffer(path.read_bytes(), array.dtype).reshape(array.shape)
        return found


@contextmanager
def cuda_graph(program: HostProgram, capability: tuple[int, int] | None) -> Iterator[CudaGraph | None]:
    """A graph that was launched once and can be timed; None where the device or the program has none."""
    source = ""
    if capability is not None:
        try:
            source = source_of(program)
        except NotImplementedError:
            capability = None
    with cuda_program(source, "graph", capability, CudaGraph) as graph:
        if graph is not None:
            graph.fill(program)
            graph.us()
        yield graph
