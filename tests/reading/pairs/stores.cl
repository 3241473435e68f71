//// a cast at the store: wrong
#include "portbar/device_barrier.h"
kernel void k(PORTBAR_GRID_PARAM,
              const global uint *restrict a, /* by */
              uint n)
{
    PORTBAR_ENTER(grid);
    ((global uint *)a)[portbar_global_id(&grid)] = n; /* call */
    portbar_device_barrier(&grid);
}
//// a cast at the store: right
#include "portbar/device_barrier.h"
kernel void k(PORTBAR_GRID_PARAM,
              const global uint *a,
              uint n)
{
    PORTBAR_ENTER(grid);
    ((global uint *)a)[portbar_global_id(&grid)] = n;
    portbar_device_barrier(&grid);
}
//// a pointer by a cast: wrong
#include "portbar/device_barrier.h"
kernel void k(PORTBAR_GRID_PARAM,
              global const uint *restrict a, /* by */
              uint n)
{
    PORTBAR_ENTER(grid);
    global uint *mine = (global uint *)(a + portbar_global_id(&grid) * 4);
    portbar_device_barrier(&grid);
    *mine += n; /* call */
}
//// a pointer by a cast: right
#include "portbar/device_barrier.h"
kernel void k(PORTBAR_GRID_PARAM,
              global const uint *restrict a,
              global uint *b, uint n)
{
    PORTBAR_ENTER(grid);
    global uint *mine = (global uint *)(a + portbar_global_id(&grid) * 4);
    mine = b;
    portbar_device_barrier(&grid);
    *mine += n;
}
//// a structure: wrong
#include "portbar/device_barrier.h"
typedef struct { uint count; uint more[4]; } cell;
kernel void k(PORTBAR_GRID_PARAM,
              const global cell *restrict cells, /* by */
              uint n)
{
    PORTBAR_ENTER(grid);
    volatile global cell *own = (volatile global cell *)&cells[portbar_global_id(&grid)];
    portbar_device_barrier(&grid);
    own->more[n] = 1; /* call */
}
//// a structure: right
#include "portbar/device_barrier.h"
typedef struct { uint count; uint more[4]; } cell;
kernel void k(PORTBAR_GRID_PARAM,
              const global cell *restrict cells,
              uint n)
{
    PORTBAR_ENTER(grid);
    cell own = cells[portbar_global_id(&grid)];
    portbar_device_barrier(&grid);
    own.more[n] = 1;
}
//// an atomic: wrong
#include "portbar/device_barrier.h"
kernel void k(PORTBAR_GRID_PARAM,
              const global uint *restrict a, /* by */
              global uint *b, uint n)
{
    PORTBAR_ENTER(grid);
    b[n] = atomic_add((volatile global uint *)a + n, 1u); /* call */
    portbar_device_barrier(&grid);
}
//// an atomic: right
#include "portbar/device_barrier.h"
kernel void k(PORTBAR_GRID_PARAM,
              const global uint *restrict a,
              global uint *b, uint n)
{
    PORTBAR_ENTER(grid);
    b[n] = atomic_add((volatile global uint *)b + n, a[0]);
    portbar_device_barrier(&grid);
}
//// a helper that stores: wrong
#include "portbar/device_barrier.h"
static void set(uint at, global uint *to, uint value) { to[at] = value; }
kernel void k(PORTBAR_GRID_PARAM,
              const global uint *restrict a, /* by */
              uint n)
{
    PORTBAR_ENTER(grid);
    portbar_device_barrier(&grid);
    set(n, (global uint *)a, 1u); /* call */
}
//// a helper that stores: right
#include "portbar/device_barrier.h"
static uint get(uint at, global uint *from, uint value) { from += value; return from[at]; }
kernel void k(PORTBAR_GRID_PARAM,
              const global uint *restrict a,
              global uint *b, uint n)
{
    PORTBAR_ENTER(grid);
    portbar_device_barrier(&grid);
    b[0] = get(n, (global uint *)a, 1u);
}
//// a group's own memory: wrong
kernel void k(global const float4 *restrict a, /* by */
              uint n)
{
    barrier(CLK_GLOBAL_MEM_FENCE);
    vstore4(a[0], n, (global float *)a); /* call */
}
//// a group's own memory: right
kernel void k(global const float4 *restrict a,
              global float *b, uint n)
{
    barrier(CLK_GLOBAL_MEM_FENCE);
    vstore4(a[0], n, b);
}
//// a helper with the same promise: wrong
#include "portbar/device_barrier.h"
static void set(uint at,
                const global uint *restrict to, /* by */
                uint value)
{
    *((global uint *)to + at) = value; /* call */
}
kernel void k(PORTBAR_GRID_PARAM, const global uint *restrict a, uint n)
{
    PORTBAR_ENTER(grid);
    portbar_device_barrier(&grid);
    set(n, a, 1u);
}
//// a helper with the same promise: right
#include "portbar/device_barrier.h"
static void set(uint at,
                const global uint *restrict from,
                global uint *to)
{
    from = to;
    *((global uint *)from + at) = 1u;
}
kernel void k(PORTBAR_GRID_PARAM, const global uint *restrict a, global uint *b, uint n)
{
    PORTBAR_ENTER(grid);
    portbar_device_barrier(&grid);
    set(n, a, b);
}
//// a cast in a helper: wrong
#include "portbar/device_barrier.h"
static void set(uint at, const global uint *to, uint value)
{
    *((global uint *)to + at) = value;
}
kernel void k(PORTBAR_GRID_PARAM,
              const global uint *restrict a, /* by */
              uint n)
{
    PORTBAR_ENTER(grid);
    portbar_device_barrier(&grid);
    set(n, a, 1u); /* call */
}
//// a cast in a helper: right
#include "portbar/device_barrier.h"
static uint get(uint at, const global uint *from, uint value)
{
    return *((global uint *)from + at) + value;
}
kernel void k(PORTBAR_GRID_PARAM, const global uint *restrict a, global uint *b, uint n)
{
    PORTBAR_ENTER(grid);
    portbar_device_barrier(&grid);
    b[0] = get(n, a, 1u);
}
