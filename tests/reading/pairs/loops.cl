//// strided loop over the group: wrong
kernel void k(global uint *a, uint n)
{
    for (uint i = get_local_id(0); i < n; i += get_local_size(0)) { /* by */
        a[i] = i;
        barrier(CLK_GLOBAL_MEM_FENCE); /* call */
    }
}
//// strided loop over the group: right
kernel void k(global uint *a, uint n)
{
    for (uint i = get_local_id(0); i < n; i += get_local_size(0))
        a[i] = i;
    barrier(CLK_GLOBAL_MEM_FENCE);
}
//// strided loop over the launch: wrong
kernel void k(global uint *a, uint n)
{
    size_t stride = get_global_size(0);
    size_t i = get_global_id(0);
    while (i < n) { /* by */
        barrier(CLK_LOCAL_MEM_FENCE); /* call */
        a[i] = 1;
        i += stride;
    }
}
//// strided loop over the launch: right
kernel void k(global uint *a, uint n)
{
    size_t stride = get_global_size(0);
    size_t start = get_global_id(0) - get_local_id(0);
    while (start < n) {
        barrier(CLK_LOCAL_MEM_FENCE);
        if (start + get_local_id(0) < n)
            a[start + get_local_id(0)] = 1;
        start += stride;
    }
}
//// a break of those who make no continue: wrong
kernel void k(global uint *a, uint n)
{
    for (uint t = 0; t < n; ++t) {
        barrier(CLK_GLOBAL_MEM_FENCE); /* call */
        if (get_local_id(0) & 1u) /* by */
            continue;
        if (a[0] == 99u)
            break;
        a[get_global_id(0)] += 1;
    }
}
//// a break of those who make no continue: right
kernel void k(global uint *a, uint n)
{
    for (uint t = 0; t < n; ++t) {
        barrier(CLK_GLOBAL_MEM_FENCE);
        if (a[0] == 99u)
            break;
        if (get_local_id(0) & 1u)
            continue;
        a[get_global_id(0)] += 1;
    }
}
//// a way out of two loops for those who make no continue: wrong
kernel void k(global uint *a, uint n)
{
    for (uint s = 0; s < n; ++s)
        for (uint t = 0; t < n; ++t) {
            barrier(CLK_GLOBAL_MEM_FENCE); /* call */
            if (get_local_id(0) & 1u) /* by */
                continue;
            if (a[0] == 99u)
                goto done;
            a[get_global_id(0)] += 1;
        }
done:
    a[1] = 0;
}
//// a way out of two loops for those who make no continue: right
kernel void k(global uint *a, uint n)
{
    for (uint s = 0; s < n; ++s)
        for (uint t = 0; t < n; ++t) {
            barrier(CLK_GLOBAL_MEM_FENCE);
            for (uint u = 0; u < n; ++u) {
                if (get_local_id(0) & 1u)
                    continue;
                a[get_global_id(0)] += 1;
            }
            if (a[0] == 99u)
                goto done;
        }
done:
    a[1] = 0;
}
//// barrier in PORTBAR_FOR: wrong
#include "portbar/device_barrier.h"
kernel void k(PORTBAR_GRID_PARAM, global uint *a, uint n)
{
    PORTBAR_ENTER(grid);
    PORTBAR_FOR(i, &grid, n) { /* by */
        a[i] += 1;
        portbar_device_barrier(&grid); /* call */
    }
}
//// barrier in PORTBAR_FOR: right
#include "portbar/device_barrier.h"
kernel void k(PORTBAR_GRID_PARAM, global uint *a, uint n)
{
    PORTBAR_ENTER(grid);
    PORTBAR_FOR(i, &grid, n)
        a[i] += 1;
    portbar_device_barrier(&grid);
}
//// barrier in PORTBAR_FOR_2D: wrong
#include "portbar/device_barrier.h"
kernel void k(PORTBAR_GRID_PARAM, global uint *a, uint n)
{
    PORTBAR_ENTER(grid);
    PORTBAR_FOR_2D(x, y, &grid, n, n) /* by */
        if (!portbar_device_barrier(&grid)) return; /* call */
}
//// barrier in PORTBAR_FOR_2D: right
#include "portbar/device_barrier.h"
kernel void k(PORTBAR_GRID_PARAM, global uint *a, uint n)
{
    PORTBAR_ENTER(grid);
    PORTBAR_FOR_2D(x, y, &grid, n, n)
        a[y * n + x] = x;
    if (!portbar_device_barrier(&grid)) return;
}
//// barrier in PORTBAR_FOR_3D: wrong
#include "portbar/device_barrier.h"
kernel void k(PORTBAR_GRID_PARAM, global uint *a, uint n)
{
    PORTBAR_ENTER(grid);
    PORTBAR_FOR_3D(x, y, z, &grid, n, n, 2u) { /* by */
        a[x] = z;
        barrier(CLK_LOCAL_MEM_FENCE); /* call */
    }
}
//// barrier in PORTBAR_FOR_3D: right
#include "portbar/device_barrier.h"
kernel void k(PORTBAR_GRID_PARAM, global uint *a, uint n)
{
    PORTBAR_ENTER(grid);
    PORTBAR_FOR_3D(x, y, z, &grid, n, n, 2u)
        a[x] = z + y;
    barrier(CLK_LOCAL_MEM_FENCE);
}
//// barrier in PORTBAR_FOR_DYNAMIC: wrong
#include "portbar/device_barrier.h"
kernel void k(PORTBAR_GRID_PARAM, global uint *a, uint n)
{
    PORTBAR_ENTER(grid);
    PORTBAR_FOR_DYNAMIC(i, &grid, n, 64u) { /* by */
        a[i] = i;
        barrier(CLK_GLOBAL_MEM_FENCE); /* call */
    }
}
//// barrier in PORTBAR_FOR_DYNAMIC: right
#include "portbar/device_barrier.h"
kernel void k(PORTBAR_GRID_PARAM, global uint *a, uint n)
{
    PORTBAR_ENTER(grid);
    PORTBAR_FOR_DYNAMIC(i, &grid, n, 64u)
        a[i] = i;
    portbar_device_barrier(&grid);
}
//// device barrier in PORTBAR_FOR_TILES: wrong
#include "portbar/device_barrier.h"
kernel void k(PORTBAR_GRID_PARAM, global uint *a, uint n)
{
    PORTBAR_ENTER(grid);
    PORTBAR_FOR_TILES(t, &grid, n) { /* by */
        a[t] = t;
        portbar_device_barrier(&grid); /* call */
    }
}
//// device barrier in PORTBAR_FOR_TILES: right
#include "portbar/device_barrier.h"
kernel void k(PORTBAR_GRID_PARAM, global uint *a, uint n)
{
    PORTBAR_ENTER(grid);
    PORTBAR_FOR_TILES(t, &grid, n) {
        a[t] = t;
        barrier(CLK_GLOBAL_MEM_FENCE);
    }
    portbar_device_barrier(&grid);
}
//// device barrier in static tiles of a plane: wrong
#include "portbar/device_barrier.h"
kernel void k(PORTBAR_GRID_PARAM, global uint *a, uint n)
{
    PORTBAR_ENTER(grid);
    PORTBAR_FOR_TILES_STATIC_2D(x, y, &grid, n, 3u) { /* by */
        a[y * n + x] = x;
        portbar_device_barrier(&grid); /* call */
    }
}
//// device barrier in static tiles of a plane: right
#include "portbar/device_barrier.h"
kernel void k(PORTBAR_GRID_PARAM, global uint *a, uint n)
{
    PORTBAR_ENTER(grid);
    PORTBAR_FOR_TILES_STATIC_2D(x, y, &grid, n, 3u) {
        a[y * n + x] = x;
        if (y == 1u)
            barrier(CLK_GLOBAL_MEM_FENCE);
    }
    portbar_device_barrier(&grid);
}
//// barrier in a row of static tiles of a space by a lane: wrong
#include "portbar/device_barrier.h"
kernel void k(PORTBAR_GRID_PARAM, global uint *a, uint n)
{
    PORTBAR_ENTER(grid);
    PORTBAR_FOR_TILES_STATIC_3D(x, y, z, &grid, n, 3u, 4u) {
        if (z == get_local_id(0)) /* by */
            barrier(CLK_LOCAL_MEM_FENCE); /* call */
        a[x] = y;
    }
}
//// barrier in a row of static tiles of a space by a lane: right
#include "portbar/device_barrier.h"
kernel void k(PORTBAR_GRID_PARAM, global uint *a, uint n)
{
    PORTBAR_ENTER(grid);
    PORTBAR_FOR_TILES_STATIC_3D(x, y, z, &grid, n, 3u, 4u) {
        if (z == n)
            barrier(CLK_LOCAL_MEM_FENCE);
        a[x] = y;
    }
}
//// return in PORTBAR_FOR: wrong
#include "portbar/device_barrier.h"
kernel void k(PORTBAR_GRID_PARAM, global uint *a, uint n)
{
    PORTBAR_ENTER(grid);
    for (uint s = 0; s < 3; ++s) {
        PORTBAR_FOR(i, &grid, 1024u) {
            if (i >= n) return; /* by */
            a[i] += 1;
        }
        if (!portbar_device_barrier(&grid)) return; /* call */
    }
}
//// return in PORTBAR_FOR: right
#include "portbar/device_barrier.h"
kernel void k(PORTBAR_GRID_PARAM, global uint *a, uint n)
{
    PORTBAR_ENTER(grid);
    for (uint s = 0; s < 3; ++s) {
        PORTBAR_FOR(i, &grid, 1024u) {
            if (i >= n) continue;
            a[i] += 1;
        }
        if (!portbar_device_barrier(&grid)) return;
    }
}
//// return after a barrier of the same loop: wrong
kernel void k(global uint *a, uint n)
{
    uint i = get_global_id(0);
    for (uint s = 0; s < 8; ++s) {
        barrier(CLK_GLOBAL_MEM_FENCE); /* call */
        if (i > s * n) return; /* by */
        a[i] += 1;
    }
}
//// return after a barrier of the same loop: right
kernel void k(global uint *a, uint n)
{
    uint i = get_global_id(0);
    for (uint s = 0; s < 8; ++s) {
        barrier(CLK_GLOBAL_MEM_FENCE);
        if (s > n) return;
        a[i] += 1;
    }
}
//// break by the id: wrong
kernel void k(global uint *a, uint n)
{
    const uint lid = get_local_id(0);
    for (uint t = 0; t < n; ++t) {
        if (lid > t) break; /* by */
        a[t] = lid;
        barrier(CLK_LOCAL_MEM_FENCE); /* call */
    }
}
//// break by the id: right
kernel void k(global uint *a, uint n)
{
    const uint lid = get_local_id(0);
    for (uint t = 0; t < n; ++t) {
        if (a[0] > t) break;
        a[t] = lid;
        barrier(CLK_LOCAL_MEM_FENCE);
    }
}
//// break after the barrier: wrong
kernel void k(global uint *a, uint n)
{
    const uint lid = get_local_id(0);
    while (true) {
        barrier(CLK_LOCAL_MEM_FENCE); /* call */
        if (lid == 3) /* by */
            break;
        a[lid] += 1;
    }
}
//// break after the barrier: right
kernel void k(global uint *a, uint n)
{
    const uint lid = get_local_id(0);
    while (true) {
        barrier(CLK_LOCAL_MEM_FENCE);
        if (n == 3)
            break;
        a[lid] += 1;
    }
}
//// continue by the id: wrong
kernel void k(global uint *a, uint n)
{
    for (uint t = 0; t < n; ++t) {
        if (get_global_id(0) < t) continue; /* by */
        a[t] += 1;
        barrier(CLK_LOCAL_MEM_FENCE); /* call */
    }
}
//// continue by the id: right
kernel void k(global uint *a, uint n)
{
    for (uint t = 0; t < n; ++t) {
        barrier(CLK_LOCAL_MEM_FENCE);
        if (get_global_id(0) < t) continue;
        a[t] += 1;
    }
}
//// do while the id lasts: wrong
kernel void k(global uint *a, uint n)
{
    uint left = get_local_id(0);
    do { /* by */
        a[left] = 1;
        barrier(CLK_LOCAL_MEM_FENCE); /* call */
    } while (left-- > 0);
}
//// do while the id lasts: right
kernel void k(global uint *a, uint n)
{
    uint left = get_local_size(0);
    do {
        a[left] = 1;
        barrier(CLK_LOCAL_MEM_FENCE);
    } while (left-- > 0);
}
//// pointers as indices: wrong
kernel void k(global uint *a, uint n)
{
    for (global uint *p = a + get_global_id(0); p < a + n; p += get_global_size(0)) { /* by */
        *p = 1;
        barrier(CLK_GLOBAL_MEM_FENCE); /* call */
    }
}
//// pointers as indices: right
kernel void k(global uint *a, uint n)
{
    for (global uint *p = a + get_global_id(0); p < a + n; p += get_global_size(0))
        *p = 1;
    barrier(CLK_GLOBAL_MEM_FENCE);
}
//// down to zero: wrong
kernel void k(global uint *a, uint n)
{
    for (int i = get_local_id(0); i >= 0; i -= 32) { /* by */
        a[i] = n;
        barrier(CLK_LOCAL_MEM_FENCE); /* call */
    }
}
//// down to zero: right
kernel void k(global uint *a, uint n)
{
    for (int i = n; i >= 0; i -= 32) {
        a[i] = n;
        barrier(CLK_LOCAL_MEM_FENCE);
    }
}
//// turns counted by a loop: wrong
kernel void k(global uint *a, uint n)
{
    uint turns = 0;
    for (uint i = get_local_id(0); i < n; i += 7)
        ++turns;
    for (uint t = 0; t < turns; ++t) /* by */
        barrier(CLK_LOCAL_MEM_FENCE); /* call */
}
//// turns counted by a loop: right
kernel void k(global uint *a, uint n)
{
    uint turns = 0;
    for (uint i = 0; i < n; i += 7)
        ++turns;
    for (uint t = 0; t < turns; ++t)
        barrier(CLK_LOCAL_MEM_FENCE);
}
//// share of each item: wrong
kernel void k(global uint *a, uint n)
{
    uint first = get_global_id(0) * n, end = first + n + get_global_id(0) % 2;
    for (uint i = first; i < end; ++i) { /* by */
        a[i] = i;
        barrier(CLK_GLOBAL_MEM_FENCE); /* call */
    }
}
//// share of each item: right
kernel void k(global uint *a, uint n)
{
    uint first = get_global_id(0) * n, end = first + n;
    for (uint i = first; i < end; ++i)
        a[i] = i;
    barrier(CLK_GLOBAL_MEM_FENCE);
}
//// loop by goto's successor: wrong
kernel void k(global uint *a, uint n)
{
    uint i = get_local_id(0);
    for (; i < n;) { /* by */
        a[i] = 1;
        i += get_local_size(0);
        barrier(CLK_LOCAL_MEM_FENCE); /* call */
    }
}
//// loop by goto's successor: right
kernel void k(global uint *a, uint n)
{
    uint i = 0;
    for (; i < n;) {
        a[i + get_local_id(0)] = 1;
        i += get_local_size(0);
        barrier(CLK_LOCAL_MEM_FENCE);
    }
}
//// a vote among those who are left: wrong
#include "portbar/device_barrier.h"
kernel void k(PORTBAR_GRID_PARAM, global uint *a, uint n)
{
    PORTBAR_ENTER(grid);
    bool more = true;
    uint i = portbar_global_id(&grid);
    while (i < n && more) { /* by */
        more = portbar_device_barrier_any(&grid, a[i] > 0); /* call */
        ++i;
    }
}
//// a vote among those who are left: right
#include "portbar/device_barrier.h"
kernel void k(PORTBAR_GRID_PARAM, global uint *a, uint n)
{
    PORTBAR_ENTER(grid);
    bool more = true;
    uint i = portbar_global_id(&grid);
    while (more) {
        more = portbar_device_barrier_any(&grid, i < n && a[i] > 0);
        ++i;
    }
}
//// continue in a switch: wrong
kernel void k(global uint *a, uint n)
{
    const uint i = get_local_id(0);
    for (uint k = 0; k < n; ++k) {
        switch (i) { /* by */
        case 2:
            a[i] = 1;
            break;
        case 3:
            continue;
        }
        barrier(CLK_LOCAL_MEM_FENCE); /* call */
    }
}
//// continue in a switch: right
kernel void k(global uint *a, uint n)
{
    const uint i = get_local_id(0);
    for (uint k = 0; k < n; ++k) {
        switch (i) {
        case 2:
            a[i] = 1;
            break;
        case 3:
            continue;
        }
    }
    barrier(CLK_LOCAL_MEM_FENCE);
}
//// goto out of a strided loop: wrong
kernel void k(global uint *a, uint n)
{
    for (uint i = get_local_id(0); i < n; ++i) { /* by */
        if (a[i] == 7)
            goto next;
        if (i == 9)
            break;
        barrier(CLK_LOCAL_MEM_FENCE); /* call */
    }
next:
    a[n] = 1;
}
//// goto out of a strided loop: right
kernel void k(global uint *a, uint n)
{
    for (uint i = get_local_id(0); i < n; ++i) {
        if (a[i] == 7)
            goto next;
        if (i == 9)
            break;
    }
next:
    barrier(CLK_LOCAL_MEM_FENCE);
}
//// goto the end of a turn, which others skip: wrong
kernel void k(global uint *a, uint n)
{
    for (uint turn = 0; turn < n; ++turn) {
        if (get_local_id(0) == turn) /* by */
            goto next;
        if (n == 7)
            continue;
    next:
        barrier(CLK_LOCAL_MEM_FENCE); /* call */
    }
}
//// goto the end of a turn, which others skip: right
kernel void k(global uint *a, uint n)
{
    for (uint turn = 0; turn < n; ++turn) {
        barrier(CLK_LOCAL_MEM_FENCE);
        if (get_local_id(0) == turn)
            goto next;
        if (n == 7)
            continue;
        a[turn] = 1;
    next:
        a[turn] += 1;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
}
//// goto the second turn's barrier: wrong
kernel void k(global uint *a, uint n)
{
    for (uint turn = 0; turn < n; ++turn) {
        if (turn > 0 && get_local_id(0) == turn) /* by */
            goto next;
        barrier(CLK_LOCAL_MEM_FENCE); /* call */
    next:
        a[turn] += 1;
    }
}
//// goto the second turn's barrier: right
kernel void k(global uint *a, uint n)
{
    for (uint turn = 0; turn < n; ++turn) {
        if (turn > 0 && get_local_id(0) == turn)
            goto next;
        a[turn] += 1;
    next:
        barrier(CLK_LOCAL_MEM_FENCE);
    }
}
//// goto a label that others jump past: wrong
kernel void k(global uint *a, uint n)
{
    if (get_local_id(0) == 1) /* by */
        goto middle;
    if (n == 7)
        goto end;
    a[0] = 1;
middle:
    barrier(CLK_LOCAL_MEM_FENCE); /* call */
end:
    a[1] = 1;
}
//// goto a label that others jump past: right
kernel void k(global uint *a, uint n)
{
    if (get_local_id(0) == 1)
        goto middle;
    if (n == 7)
        goto end;
    a[0] = 1;
middle:
    a[1] = 1;
end:
    barrier(CLK_LOCAL_MEM_FENCE);
}
//// a loop of goto that some repeat: wrong
kernel void k(global uint *a, uint n)
{
    uint turn = 0;
again:
    a[turn] += 1;
    barrier(CLK_LOCAL_MEM_FENCE); /* call */
    if (++turn < get_local_id(0)) /* by */
        goto again;
    a[0] = turn;
}
//// a loop of goto that some repeat: right
kernel void k(global uint *a, uint n)
{
    uint turn = 0;
again:
    a[turn] += get_local_id(0);
    barrier(CLK_LOCAL_MEM_FENCE);
    if (++turn < n)
        goto again;
    a[0] = turn;
}
//// a loop of goto whose condition is made in its turn: wrong
kernel void k(global uint *a, uint n)
{
    uint mine = 0;
again:
    barrier(CLK_LOCAL_MEM_FENCE); /* call */
    mine += get_local_id(0);
    if (mine < n) { /* by */
        a[mine] = 1;
        goto again;
    }
}
//// a loop of goto whose condition is made in its turn: right
kernel void k(global uint *a, uint n)
{
    uint mine = get_local_id(0);
again:
    mine += get_local_size(0);
    a[mine] = 1;
    if (mine < n)
        goto again;
    barrier(CLK_LOCAL_MEM_FENCE);
}
//// a loop of goto with a block for its label: wrong
kernel void k(global uint *a, uint n)
{
    uint turn = 0;
again: {
        barrier(CLK_LOCAL_MEM_FENCE); /* call */
        if (++turn <= get_local_id(0)) /* by */
            goto again;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
}
//// a loop of goto with a block for its label: right
kernel void k(global uint *a, uint n)
{
    uint turn = 0;
again: {
        a[get_local_id(0)] = turn;
        if (++turn <= get_local_id(0))
            goto again;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
}
//// a loop of goto in a loop of goto: wrong
kernel void k(global uint *a, uint n)
{
    uint turn = 0, more = 0;
again:
    barrier(CLK_LOCAL_MEM_FENCE); /* call */
further:
    a[more] = 1;
    if (++more < n)
        goto further;
    if (++turn < get_local_id(0)) /* by */
        goto again;
}
//// a loop of goto in a loop of goto: right
kernel void k(global uint *a, uint n)
{
    uint turn = 0, more = 0;
again:
    barrier(CLK_LOCAL_MEM_FENCE);
further:
    a[more] = 1;
    if (++more < get_local_id(0))
        goto further;
    if (++turn < n)
        goto again;
}
//// a loop of goto in which some jump ahead: wrong
kernel void k(global uint *a, uint n)
{
    uint turn = 0;
again:
    if (get_local_id(0) > n) { /* by */
        a[turn] += 1;
        if (turn == 3)
            goto over;
    }
    barrier(CLK_LOCAL_MEM_FENCE); /* call */
over:
    if (++turn < n)
        goto again;
}
//// a loop of goto in which some jump ahead: right
kernel void k(global uint *a, uint n)
{
    uint turn = 0;
again:
    if (get_local_id(0) > n) {
        if (turn == 3)
            goto over;
        if (++turn < n)
            goto again;
    over:
        a[turn] += 1;
    } else {
        a[0] = 2;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
}
//// goto in a helper that others leave: wrong
void help(global uint *a, uint n)
{
    if (get_local_id(0) == 1) /* by */
        goto out;
    if (n)
        return;
out:
    barrier(CLK_LOCAL_MEM_FENCE); /* call */
}
kernel void k(global uint *a, uint n)
{
    help(a, n);
}
//// goto in a helper that others leave: right
void help(global uint *a, uint n)
{
    if (get_local_id(0) == 1)
        goto out;
    if (n)
        return;
out:
    a[0] = 1;
}
kernel void k(global uint *a, uint n)
{
    help(a, n);
    barrier(CLK_LOCAL_MEM_FENCE);
}
