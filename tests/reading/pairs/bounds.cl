//// a number of 64 bits: wrong
#include "portbar/device_barrier.h"
kernel void k(PORTBAR_GRID_PARAM, global uint *a, ulong n)
{
    PORTBAR_ENTER(grid);
    PORTBAR_FOR(i, &grid, n) /* call */
        a[i] = 1;
}
//// a number of 64 bits: right
#include "portbar/device_barrier.h"
kernel void k(PORTBAR_GRID_PARAM, global uint *a, ulong n)
{
    PORTBAR_ENTER(grid);
    for (ulong i = portbar_global_id(&grid); i < n; i += portbar_global_size(&grid))
        a[i] = 1;
}
//// a signed one: wrong
#include "portbar/device_barrier.h"
kernel void k(PORTBAR_GRID_PARAM, global uint *a, const long n)
{
    PORTBAR_ENTER(grid);
    PORTBAR_FOR(i, &grid, n - 1) /* call */
        a[i] = 1;
}
//// a signed one: right
#include "portbar/device_barrier.h"
kernel void k(PORTBAR_GRID_PARAM, global uint *a, const long n)
{
    PORTBAR_ENTER(grid);
    PORTBAR_FOR(i, &grid, (uint)(n - 1))
        a[i] = 1;
}
//// from memory: wrong
#include "portbar/device_barrier.h"
kernel void k(PORTBAR_GRID_PARAM, global uint *a, global const size_t *sizes, uint n)
{
    PORTBAR_ENTER(grid);
    for (uint s = 0; s < n; ++s) {
        PORTBAR_FOR_DYNAMIC(i, &grid, sizes[s], 64) /* call */
            a[i] = s;
        if (!portbar_device_barrier(&grid)) return;
    }
}
//// from memory: right
#include "portbar/device_barrier.h"
kernel void k(PORTBAR_GRID_PARAM, global uint *a, global const uint *sizes, uint n)
{
    PORTBAR_ENTER(grid);
    for (uint s = 0; s < n; ++s) {
        PORTBAR_FOR_DYNAMIC(i, &grid, sizes[s], get_local_size(0))
            a[i] = s;
        if (!portbar_device_barrier(&grid)) return;
    }
}
//// tiles of a large array: wrong
#include "portbar/device_barrier.h"
kernel void k(PORTBAR_GRID_PARAM, global uint *a, ulong size, uint width)
{
    PORTBAR_ENTER(grid);
    const ulong tiles = (size + width - 1) / width;
    PORTBAR_FOR_TILES(t, &grid, tiles) { /* call */
        a[t] = 1;
    }
}
//// tiles of a large array: right
#include "portbar/device_barrier.h"
kernel void k(PORTBAR_GRID_PARAM, global uint *a, ulong size, uint width)
{
    PORTBAR_ENTER(grid);
    const uint tiles = (size + width - 1) / width;
    PORTBAR_FOR_TILES(t, &grid, tiles) {
        a[t] = 1;
    }
}
//// static tiles of a large plane: wrong
#include "portbar/device_barrier.h"
kernel void k(PORTBAR_GRID_PARAM, global uint *a, ulong size)
{
    PORTBAR_ENTER(grid);
    PORTBAR_FOR_TILES_STATIC_2D(x, y, &grid, 4u, size / 16u) { /* call */
        a[x] = y;
    }
}
//// static tiles of a large plane: right
#include "portbar/device_barrier.h"
kernel void k(PORTBAR_GRID_PARAM, global uint *a, ulong size)
{
    PORTBAR_ENTER(grid);
    PORTBAR_FOR_TILES_STATIC_2D(x, y, &grid, 4u, (uint)(size / 16u)) {
        a[x] = y;
    }
}
//// a product of 64 bits: wrong
#include "portbar/device_barrier.h"
kernel void k(PORTBAR_GRID_PARAM, global uint *a, uint rows, uint columns)
{
    PORTBAR_ENTER(grid);
    PORTBAR_FOR(i, &grid, (ulong)rows * columns) /* call */
        a[i / columns] = 1;
}
//// a product of 64 bits: right
#include "portbar/device_barrier.h"
kernel void k(PORTBAR_GRID_PARAM, global uint *a, uint rows, uint columns)
{
    PORTBAR_ENTER(grid);
    PORTBAR_FOR_2D(x, y, &grid, columns, rows)
        a[y] = 1;
}
//// a constant that is too large: wrong
#include "portbar/device_barrier.h"
#define N (1UL << 33)
kernel void k(PORTBAR_GRID_PARAM, global uint *a)
{
    PORTBAR_ENTER(grid);
    PORTBAR_FOR(i, &grid, N) /* call */
        a[i & 7] = 1;
}
//// a constant that is too large: right
#include "portbar/device_barrier.h"
#define N (1UL << 31)
kernel void k(PORTBAR_GRID_PARAM, global uint *a)
{
    PORTBAR_ENTER(grid);
    PORTBAR_FOR(i, &grid, N)
        a[i & 7] = 1;
}
//// one side of three: wrong
#include "portbar/device_barrier.h"
kernel void k(PORTBAR_GRID_PARAM, global uint *a, uint n, long depth)
{
    PORTBAR_ENTER(grid);
    PORTBAR_FOR_3D(x, y, z, &grid, n, n, depth) /* call */
        a[z] = x + y;
}
//// one side of three: right
#include "portbar/device_barrier.h"
kernel void k(PORTBAR_GRID_PARAM, global uint *a, uint n, long depth)
{
    PORTBAR_ENTER(grid);
    const uint z_end = depth;
    PORTBAR_FOR_3D(x, y, z, &grid, n, n, z_end)
        a[z] = x + y;
}
//// the result of a helper: wrong
#include "portbar/device_barrier.h"
static size_t cells(uint n) { return (size_t)n * n; }
static void clear(portbar_grid *g, global uint *a, uint n)
{
    PORTBAR_FOR(i, g, cells(n)) /* call */
        a[i] = 0;
}
kernel void k(PORTBAR_GRID_PARAM, global uint *a, uint n)
{
    PORTBAR_ENTER(grid);
    clear(&grid, a, n);
}
//// the result of a helper: right
#include "portbar/device_barrier.h"
static uint cells(uint n) { return n * n; }
static void clear(portbar_grid *g, global uint *a, uint n)
{
    PORTBAR_FOR(i, g, cells(n))
        a[i] = 0;
}
kernel void k(PORTBAR_GRID_PARAM, global uint *a, uint n)
{
    PORTBAR_ENTER(grid);
    clear(&grid, a, n);
}
//// a variable that grows: wrong
#include "portbar/device_barrier.h"
kernel void k(PORTBAR_GRID_PARAM, global uint *a, uint n)
{
    PORTBAR_ENTER(grid);
    size_t end = get_global_size(0);
    end *= n;
    PORTBAR_FOR(i, &grid, end) /* call */
        a[i] = 0;
}
//// a variable that grows: right
#include "portbar/device_barrier.h"
kernel void k(PORTBAR_GRID_PARAM, global uint *a, uint n)
{
    PORTBAR_ENTER(grid);
    size_t end = get_global_size(0);
    PORTBAR_FOR(i, &grid, end * n)
        a[i] = 0;
}
