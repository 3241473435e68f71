"""CUB's reductions in a program that nvcc compiles on the spot, for `benchmarks.reductions`.

Not for timing ours. The program waits for orders on its standard input, so that its start is paid for once.
"""

from __future__ import annotations

from typing import Any, Final

from benchmarks.cuda import CUB_PRELUDE, CudaProgram

#: Arrays hold their indices modulo this.
PERIOD: Final = 8

CUDA_SOURCE: Final = (
    CUB_PRELUDE
    + r"""
static cudaEvent_t before, after;

template <typename T> __global__ void fill(T *a, size_t n)
{
    for (size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x; i < n; i += size_t(gridDim.x) * blockDim.x)
        a[i] = T(i % PERIOD);
}

__global__ void nothing() {}

/* The time between two events with nothing but an empty kernel between them. */
static bool empty()
{
    float ms = 0.0f;
    busy<<<1, 1>>>(1000000);
    if (refused(cudaEventRecord(before)))
        return true;
    nothing<<<1, 1>>>();
    if (refused(cudaEventRecord(after)) || refused(cudaEventSynchronize(after)) ||
        refused(cudaEventElapsedTime(&ms, before, after)))
        return true;
    std::printf("{\"seconds\": %.9g}\n", ms * 1e-3);
    std::fflush(stdout);
    return false;
}

/* An array that stays where it is while its size is asked for. */
template <typename T> struct Sums {
    T *in = nullptr, *out = nullptr;
    void *room = nullptr;
    size_t size = 0, bytes = 0;

    bool release()
    {
        return refused(cudaFree(in)) || refused(cudaFree(out)) || refused(cudaFree(room));
    }

    bool prepare(size_t wanted)
    {
        if (wanted == size)
            return false;
        if (release())
            return true;
        in = out = nullptr;
        room = nullptr;
        size = wanted;
        bytes = 0;
        if (refused(cudaMalloc(&in, size * sizeof(T))) || refused(cudaMalloc(&out, sizeof(T))) ||
            refused(cub::DeviceReduce::Sum(nullptr, bytes, in, out, static_cast<long long>(size))) ||
            refused(cudaMalloc(&room, bytes)))
            return true;
        fill<<<1056, 256>>>(in, size);
        for (int warm = 0; warm < 3; ++warm)
            if (refused(cub::DeviceReduce::Sum(room, bytes, in, out, static_cast<long long>(size))))
                return true;
        return refused(cudaDeviceSynchronize());
    }

    bool run(size_t wanted)
    {
        float ms = 0.0f;
        T sum = T(0);
        if (prepare(wanted))
            return true;
        busy<<<1, 1>>>(1000000);
        if (refused(cudaEventRecord(before)) ||
            refused(cub::DeviceReduce::Sum(room, bytes, in, out, static_cast<long long>(size))) ||
            refused(cudaEventRecord(after)) || refused(cudaEventSynchronize(after)) ||
            refused(cudaEventElapsedTime(&ms, before, after)) ||
            refused(cudaMemcpy(&sum, out, sizeof(T), cudaMemcpyDeviceToHost)))
            return true;
        std::printf("{\"seconds\": %.9g, \"sum\": %.17g}\n", ms * 1e-3, double(sum));
        std::fflush(stdout);
        return false;
    }
};

__device__ inline unsigned step_of(unsigned x, unsigned id, int)
{
    return x * 1664525u + id;
}
__device__ inline float step_of(float x, float id, int local)
{
    return x * (1.0f / local) + id;
}

/* With `everywhere` each thread gets the sum, as in OpenCL; else thread 0 does, and the others go on with their own. */
template <typename T, int LOCAL, bool everywhere> __global__ void __launch_bounds__(LOCAL) blocks(T *left, unsigned rounds)
{
    using Reduce = cub::BlockReduce<T, LOCAL>;
    __shared__ typename Reduce::TempStorage room;
    __shared__ T all;
    const T id = T(threadIdx.x);
    T x = id;
#pragma unroll 1
    for (unsigned round = 0; round < rounds; ++round) {
        const T sum = Reduce(room).Sum(x);
        if (everywhere) {
            if (threadIdx.x == 0)
                all = sum;
            __syncthreads();
            x = all;
        } else {
            __syncthreads();
            x = threadIdx.x == 0 ? sum : x;
        }
        x = step_of(x, id, LOCAL);
    }
    left[blockIdx.x * LOCAL + threadIdx.x] = x;
}

template <typename T, bool everywhere> static bool block(int local, unsigned groups, unsigned rounds)
{
    T *left = nullptr;
    float ms = 0.0f;
    T first = T(0);
    if (refused(cudaMalloc(&left, sizeof(T) * groups * local)) || refused(cudaEventRecord(before)))
        return true;
    switch (local) {
    case 64:
        blocks<T, 64, everywhere><<<groups, 64>>>(left, rounds);
        break;
    case 256:
        blocks<T, 256, everywhere><<<groups, 256>>>(left, rounds);
        break;
    default:
        blocks<T, 1024, everywhere><<<groups, 1024>>>(left, rounds);
    }
    if (refused(cudaGetLastError()) || refused(cudaEventRecord(after)) || refused(cudaEventSynchronize(after)) ||
        refused(cudaEventElapsedTime(&ms, before, after)) ||
        refused(cudaMemcpy(&first, left, sizeof(T), cudaMemcpyDeviceToHost)) || refused(cudaFree(left)))
        return true;
    std::printf("{\"seconds\": %.9g, \"sum\": %.17g}\n", ms * 1e-3, double(first));
    std::fflush(stdout);
    return false;
}

/* Reads lines "KIND A B C": float32, int32 or float64 with A elements; or block-float, block-uint, first-float, first-uint with
   local size A, B groups and C rounds; or empty. Replies to each with a line of JSON. */
int main()
{
    cudaDeviceProp device;
    if (refused(cudaGetDeviceProperties(&device, 0)) || refused(cudaEventCreate(&before)) ||
        refused(cudaEventCreate(&after)))
        return 1;
    std::printf("{\"name\": \"%s\", \"nvcc\": \"%d.%d\", \"cub\": %d}\n", device.name, __CUDACC_VER_MAJOR__,
                __CUDACC_VER_MINOR__, CUB_VERSION);
    std::fflush(stdout);
    Sums<float> floats;
    Sums<int> ints;
    Sums<double> doubles;
    char kind[32];
    unsigned long long a, b, c;
    while (std::scanf("%31s %llu %llu %llu", kind, &a, &b, &c) == 4) {
        const int local = static_cast<int>(a);
        const unsigned groups = static_cast<unsigned>(b), rounds = static_cast<unsigned>(c);
        bool failed;
        if (std::strcmp(kind, "float32") == 0)
            failed = floats.run(a);
        else if (std::strcmp(kind, "int32") == 0)
            failed = ints.run(a);
        else if (std::strcmp(kind, "float64") == 0)
            failed = doubles.run(a);
        else if (std::strcmp(kind, "empty") == 0)
            failed = empty();
        else if (std::strcmp(kind, "block-float") == 0)
            failed = block<float, true>(local, groups, rounds);
        else if (std::strcmp(kind, "block-uint") == 0)
            failed = block<unsigned, true>(local, groups, rounds);
        else if (std::strcmp(kind, "first-float") == 0)
            failed = block<float, false>(local, groups, rounds);
        else
            failed = block<unsigned, false>(local, groups, rounds);
        if (failed)
            return 1;
    }
    return 0;
}
""".replace("PERIOD", str(PERIOD))
)


class CubPeer(CudaProgram):
    """The CUDA program, which knows reductions of arrays and of blocks."""

    def order(self, kind: str, a: int, b: int = 0, c: int = 0) -> dict[str, Any]:
        """Return the time of one order, and its results."""
        return self.ask(f"{kind} {a} {b} {c}")

    def us(self, kind: str, a: int, b: int = 0, c: int = 0) -> float:
        """Return the microseconds of one order, of each round where it has `c` of them."""
        return float(self.order(kind, a, b, c)["seconds"]) * 1e6 / (c or 1)
