//// first item of the group: wrong
kernel void k(global uint *a, uint n)
{
    if (get_local_id(0) == 0) { /* by */
        a[0] = n;
        barrier(CLK_LOCAL_MEM_FENCE); /* call */
    }
}
//// first item of the group: right
kernel void k(global uint *a, uint n)
{
    if (get_local_id(0) == 0)
        a[0] = n;
    barrier(CLK_LOCAL_MEM_FENCE);
}
//// guard of the size: wrong
kernel void k(global uint *a, uint n)
{
    const uint i = get_global_id(0);
    if (i < n) { /* by */
        a[i] = i;
        barrier(CLK_GLOBAL_MEM_FENCE); /* call */
    }
}
//// guard of the size: right
kernel void k(global uint *a, uint n)
{
    const uint i = get_global_id(0);
    if (i < n)
        a[i] = i;
    barrier(CLK_GLOBAL_MEM_FENCE);
}
//// early return: wrong
kernel void k(global uint *a, uint n)
{
    int gid = get_global_id(0);
    if (gid >= n) return; /* by */
    a[gid] = 1;
    barrier(CLK_GLOBAL_MEM_FENCE); /* call */
    a[gid] += a[0];
}
//// early return: right
kernel void k(global uint *a, uint n)
{
    int gid = get_global_id(0);
    if (gid < n) a[gid] = 1;
    barrier(CLK_GLOBAL_MEM_FENCE);
    if (gid >= n) return;
    a[gid] += a[0];
}
//// both branches: wrong
kernel void k(global uint *a, uint n)
{
    if (get_local_id(0) & 1) { /* by */
        a[0] = 1; barrier(CLK_LOCAL_MEM_FENCE); /* call */
    } else {
        barrier(CLK_LOCAL_MEM_FENCE); /* call */
    }
}
//// both branches: right
kernel void k(global uint *a, uint n)
{
    if (n & 1) {
        a[0] = 1; barrier(CLK_LOCAL_MEM_FENCE);
    } else {
        barrier(CLK_LOCAL_MEM_FENCE);
    }
}
//// one lane of two dimensions: wrong
kernel void k(global uint *a, uint n)
{
    size_t x = get_local_id(0), y = get_local_id(1);
    bool first = x == 0 && y == 0;
    if (first) /* by */
        work_group_barrier(CLK_LOCAL_MEM_FENCE); /* call */
}
//// one lane of two dimensions: right
kernel void k(global uint *a, uint n)
{
    size_t x = get_local_id(0), y = get_local_id(1);
    bool first = x == 0 && y == 0;
    if (first)
        a[0] = 1;
    work_group_barrier(CLK_LOCAL_MEM_FENCE);
}
//// half of the group: wrong
kernel void k(global uint *a, uint n)
{
    uint lid = get_local_id(0);
    for (uint s = get_local_size(0) / 2; s > 0; s >>= 1)
        if (lid < s) { /* by */
            a[lid] += a[lid + s];
            barrier(CLK_GLOBAL_MEM_FENCE); /* call */
        }
}
//// half of the group: right
kernel void k(global uint *a, uint n)
{
    uint lid = get_local_id(0);
    for (uint s = get_local_size(0) / 2; s > 0; s >>= 1) {
        if (lid < s)
            a[lid] += a[lid + s];
        barrier(CLK_GLOBAL_MEM_FENCE);
    }
}
//// ternary: wrong
#include "portbar/device_barrier.h"
kernel void k(PORTBAR_GRID_PARAM, global uint *a, uint n)
{
    PORTBAR_ENTER(grid);
    bool ok = portbar_local_linear_id() == 0 ? portbar_device_barrier(&grid) : true; /* call */
    a[0] = ok;
}
//// ternary: right
#include "portbar/device_barrier.h"
kernel void k(PORTBAR_GRID_PARAM, global uint *a, uint n)
{
    PORTBAR_ENTER(grid);
    bool ok = n == 0 ? portbar_device_barrier(&grid) : true;
    a[0] = ok;
}
//// and: wrong
#include "portbar/device_barrier.h"
kernel void k(PORTBAR_GRID_PARAM, global uint *a, uint n)
{
    PORTBAR_ENTER(grid);
    if (get_local_id(0) == 0 && portbar_device_barrier(&grid)) /* call */
        a[0] = 1;
}
//// and: right
#include "portbar/device_barrier.h"
kernel void k(PORTBAR_GRID_PARAM, global uint *a, uint n)
{
    PORTBAR_ENTER(grid);
    if (portbar_device_barrier(&grid) && get_local_id(0) == 0)
        a[0] = 1;
}
//// or: wrong
#include "portbar/device_barrier.h"
kernel void k(PORTBAR_GRID_PARAM, global uint *a, uint n)
{
    PORTBAR_ENTER(grid);
    const uint i = portbar_global_id(&grid);
    if (i >= n || !portbar_device_barrier(&grid)) /* call */
        return;
}
//// or: right
#include "portbar/device_barrier.h"
kernel void k(PORTBAR_GRID_PARAM, global uint *a, uint n)
{
    PORTBAR_ENTER(grid);
    const uint i = portbar_global_id(&grid);
    if (!portbar_device_barrier(&grid) || i >= n)
        return;
}
//// switch on the id: wrong
kernel void k(global uint *a, uint n)
{
    switch (get_local_id(0)) { /* by */
    case 0:
        a[0] = 1;
        barrier(CLK_LOCAL_MEM_FENCE); /* call */
        break;
    default:
        a[1] = 1;
    }
}
//// switch on the id: right
kernel void k(global uint *a, uint n)
{
    switch (get_local_id(0)) {
    case 0:
        a[0] = 1;
        break;
    default:
        a[1] = 1;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
}
//// switch whose default returns: wrong
kernel void k(global uint *a, uint n)
{
    const uint kind = get_global_id(0) % 3;
    switch (kind) { /* by */
    case 0: a[0] = 1; break;
    default: return;
    }
    barrier(CLK_LOCAL_MEM_FENCE); /* call */
}
//// switch whose default returns: right
kernel void k(global uint *a, uint n)
{
    const uint kind = n % 3;
    switch (kind) {
    case 0: a[0] = 1; break;
    default: return;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
}
//// goto the end: wrong
kernel void k(global uint *a, uint n)
{
    uint i = get_global_id(0);
    if (i >= n) /* by */
        goto end;
    a[i] = i;
    barrier(CLK_GLOBAL_MEM_FENCE); /* call */
end:
    a[0] = 1;
}
//// goto the end: right
kernel void k(global uint *a, uint n)
{
    uint i = get_global_id(0);
    if (i >= n)
        goto end;
    a[i] = i;
end:
    barrier(CLK_GLOBAL_MEM_FENCE);
    a[0] = 1;
}
//// a flag set under a condition: wrong
kernel void k(global uint *a, uint n)
{
    bool done = false;
    if (get_local_id(0) == 0)
        done = a[0] > n;
    if (!done) /* by */
        barrier(CLK_LOCAL_MEM_FENCE); /* call */
}
//// a flag set under a condition: right
kernel void k(global uint *a, uint n)
{
    bool done = false;
    if (n == 0)
        done = a[0] > n;
    if (!done)
        barrier(CLK_LOCAL_MEM_FENCE);
}
//// a flag chosen by the id: wrong
kernel void k(global uint *a, uint n)
{
    const int leader = get_local_id(0) == 0 ? 1 : 0;
    if (leader) /* by */
        barrier(CLK_LOCAL_MEM_FENCE); /* call */
}
//// a flag chosen by the id: right
kernel void k(global uint *a, uint n)
{
    const int leader = n == 0 ? 1 : 0;
    if (leader)
        barrier(CLK_LOCAL_MEM_FENCE);
}
//// a result under the item's condition: wrong
#include "portbar/device_barrier.h"
kernel void k(PORTBAR_GRID_PARAM, global uint *a, uint n)
{
    PORTBAR_ENTER(grid);
    bool ok = true;
    if (portbar_global_id(&grid) == 0)
        ok = portbar_device_ok(&grid);
    if (!ok) /* by */
        return;
    portbar_device_barrier(&grid); /* call */
}
//// a result under the item's condition: right
#include "portbar/device_barrier.h"
kernel void k(PORTBAR_GRID_PARAM, global uint *a, uint n)
{
    PORTBAR_ENTER(grid);
    bool ok = portbar_device_ok(&grid);
    if (!ok)
        return;
    if (portbar_global_id(&grid) == 0)
        a[0] = 1;
    portbar_device_barrier(&grid);
}
//// nested under uniform conditions: wrong
kernel void k(global uint *a, uint n)
{
    if (n > 3)
        for (uint t = 0; t < n; ++t)
            if (t == get_local_id(0)) { /* by */
                a[t] = 1;
                barrier(CLK_LOCAL_MEM_FENCE); /* call */
            }
}
//// nested under uniform conditions: right
kernel void k(global uint *a, uint n)
{
    if (n > 3)
        for (uint t = 0; t < n; ++t) {
            if (t == get_local_id(0))
                a[t] = 1;
            barrier(CLK_LOCAL_MEM_FENCE);
        }
}
//// id in a structure: wrong
kernel void k(global uint *a, uint n)
{
    struct { uint lid, n; } s;
    s.lid = get_local_id(0);
    s.n = n;
    if (s.lid < s.n) /* by */
        barrier(CLK_LOCAL_MEM_FENCE); /* call */
}
//// id in a structure: right
kernel void k(global uint *a, uint n)
{
    struct { uint lid, n; } s;
    s.lid = get_local_id(0);
    s.n = n;
    if (s.n > 3)
        barrier(CLK_LOCAL_MEM_FENCE);
}
//// id by a pointer: wrong
kernel void k(global uint *a, uint n)
{
    uint lid;
    uint *p = &lid;
    *p = get_local_id(0);
    if (lid == 0) /* by */
        barrier(CLK_LOCAL_MEM_FENCE); /* call */
}
//// id by a pointer: right
kernel void k(global uint *a, uint n)
{
    uint lid = get_local_id(0);
    uint *p = &lid;
    *p = n;
    if (lid == 0)
        barrier(CLK_LOCAL_MEM_FENCE);
}
//// a cast and a conversion: wrong
kernel void k(global uint *a, uint n)
{
    float x = convert_float(get_local_id(0)) * 0.5f;
    if ((int)x < 4) /* by */
        barrier(CLK_LOCAL_MEM_FENCE); /* call */
}
//// a cast and a conversion: right
kernel void k(global uint *a, uint n)
{
    float x = convert_float(get_local_size(0)) * 0.5f;
    if ((int)x < 4)
        barrier(CLK_LOCAL_MEM_FENCE);
}
//// the larger of an id and a number: wrong
kernel void k(global uint *a, uint n)
{
    uint i = max((uint)get_global_id(0), 7u);
    if (i > n) /* by */
        return;
    barrier(CLK_LOCAL_MEM_FENCE); /* call */
}
//// the larger of an id and a number: right
kernel void k(global uint *a, uint n)
{
    uint i = max((uint)get_global_size(0), 7u);
    if (i > n)
        return;
    barrier(CLK_LOCAL_MEM_FENCE);
}
//// copy to local memory by one item: wrong
kernel void k(global uint *a, uint n)
{
    local uint tile[64];
    if (get_local_id(0) == 0) { /* by */
        event_t e = async_work_group_copy(tile, a, 64, 0); /* call */
        wait_group_events(1, &e); /* call */
    }
    a[n] = tile[0];
}
//// copy to local memory by one item: right
kernel void k(global uint *a, uint n)
{
    local uint tile[64];
    event_t e = async_work_group_copy(tile, a, 64, 0);
    wait_group_events(1, &e);
    if (get_local_id(0) == 0)
        a[n] = tile[0];
}
//// OpenCL's own sum under a guard: wrong
kernel void k(global uint *a, uint n)
{
    uint i = get_global_id(0);
    uint sum = 0;
    if (i < n) /* by */
        sum = work_group_reduce_add(a[i]); /* call */
    a[0] = sum;
}
//// OpenCL's own sum under a guard: right
kernel void k(global uint *a, uint n)
{
    uint i = get_global_id(0);
    uint sum = work_group_reduce_add(i < n ? a[i] : 0);
    a[0] = sum;
}
