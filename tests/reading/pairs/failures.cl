//// repeated until it succeeds: wrong
#include "portbar/device_barrier.h"
kernel void k(PORTBAR_GRID_PARAM, global uint *a, uint n)
{
    PORTBAR_ENTER(grid);
    a[portbar_global_id(&grid)] = n;
    while (!portbar_device_barrier(&grid)); /* call */
    a[n] = a[0];
}
//// repeated until it succeeds: right
#include "portbar/device_barrier.h"
kernel void k(PORTBAR_GRID_PARAM, global uint *a, uint n)
{
    PORTBAR_ENTER(grid);
    a[portbar_global_id(&grid)] = n;
    while (!portbar_device_barrier(&grid))
        return;
    a[n] = a[0];
}
//// repeated by do: wrong
#include "portbar/device_barrier.h"
kernel void k(PORTBAR_GRID_PARAM, global uint *a, uint n)
{
    PORTBAR_ENTER(grid);
    do {
        a[portbar_global_id(&grid)] += n;
    } while (portbar_device_barrier(&grid) == false); /* call */
}
//// repeated by do: right
#include "portbar/device_barrier.h"
kernel void k(PORTBAR_GRID_PARAM, global uint *a, uint n)
{
    PORTBAR_ENTER(grid);
    do {
        a[portbar_global_id(&grid)] += n;
    } while (portbar_device_barrier(&grid) && a[0] < 3);
}
//// repeated by a variable: wrong
#include "portbar/device_barrier.h"
kernel void k(PORTBAR_GRID_PARAM, global uint *a, uint n)
{
    PORTBAR_ENTER(grid);
    bool met = false;
    while (!met) /* by */
    {
        a[n] += 1;
        met = portbar_device_barrier(&grid); /* call */
    }
}
//// repeated by a variable: right
#include "portbar/device_barrier.h"
kernel void k(PORTBAR_GRID_PARAM, global uint *a, uint n)
{
    PORTBAR_ENTER(grid);
    bool met = true;
    while (met)
    {
        a[n] += 1;
        met = portbar_device_barrier(&grid);
    }
}
//// continue before the condition can change: wrong
#include "portbar/device_barrier.h"
kernel void k(PORTBAR_GRID_PARAM, global uint *a, uint n)
{
    PORTBAR_ENTER(grid);
    bool done = false;
    while (!done) { /* by */
        a[n] += 1;
        if (!portbar_device_barrier(&grid)) /* call */
            continue;
        done = a[n] > 7;
    }
}
//// continue before the condition can change: right
#include "portbar/device_barrier.h"
kernel void k(PORTBAR_GRID_PARAM, global uint *a, uint n)
{
    PORTBAR_ENTER(grid);
    bool done = false;
    while (!done) {
        a[n] += 1;
        if (!portbar_device_barrier(&grid)) {
            done = true;
            continue;
        }
        done = a[n] > 7;
    }
}
//// work only after success: wrong
#include "portbar/device_barrier.h"
kernel void k(PORTBAR_GRID_PARAM, global uint *a, uint n)
{
    PORTBAR_ENTER(grid);
    uint left = n;
    while (left > 0) { /* by */
        if (portbar_device_barrier(&grid)) { /* call */
            a[left] = 1;
            --left;
        }
    }
}
//// work only after success: right
#include "portbar/device_barrier.h"
kernel void k(PORTBAR_GRID_PARAM, global uint *a, uint n)
{
    PORTBAR_ENTER(grid);
    uint left = n;
    while (left > 0) {
        if (portbar_device_barrier(&grid))
            a[left] = 1;
        --left;
    }
}
//// the only end after success: wrong
#include "portbar/device_barrier.h"
kernel void k(PORTBAR_GRID_PARAM, global uint *a, uint n)
{
    PORTBAR_ENTER(grid);
    for (;;) { /* by */
        const bool held = portbar_device_barrier(&grid); /* call */
        if (held && a[n] == 3)
            break;
        a[n] += 1;
    }
}
//// the only end after success: right
#include "portbar/device_barrier.h"
kernel void k(PORTBAR_GRID_PARAM, global uint *a, uint n)
{
    PORTBAR_ENTER(grid);
    for (;;) {
        const bool held = portbar_device_barrier(&grid);
        if (!held || a[n] == 3)
            break;
        a[n] += 1;
    }
}
//// continue in a counted loop: wrong
#include "portbar/device_barrier.h"
kernel void k(PORTBAR_GRID_PARAM, global uint *a, uint n)
{
    PORTBAR_ENTER(grid);
    for (uint s = 0; s < n; ++s) {
        a[s] = s;
        if (!portbar_device_barrier(&grid)) /* call */
            continue; /* by */
        a[s + 1] = a[s];
    }
}
//// continue in a counted loop: right
#include "portbar/device_barrier.h"
kernel void k(PORTBAR_GRID_PARAM, global uint *a, uint n)
{
    PORTBAR_ENTER(grid);
    for (uint s = 0; s < n; ++s) {
        a[s] = s;
        if (!portbar_device_barrier(&grid))
            break;
        if (a[s] == 3)
            continue;
        a[s + 1] = a[s];
    }
}
//// continue on a result that is kept: wrong
#include "portbar/device_barrier.h"
kernel void k(PORTBAR_GRID_PARAM, global uint *a, uint n)
{
    PORTBAR_ENTER(grid);
    while (a[0] < n) {
        portbar_device_token token = portbar_device_barrier_arrive(&grid);
        const bool met = portbar_device_barrier_wait(&grid, token); /* call */
        if (met == 0) { continue; } /* by */
        a[0] += 1;
    }
}
//// continue on a result that is kept: right
#include "portbar/device_barrier.h"
kernel void k(PORTBAR_GRID_PARAM, global uint *a, uint n)
{
    PORTBAR_ENTER(grid);
    bool met = true;
    while (met && a[0] < n) {
        portbar_device_token token = portbar_device_barrier_arrive(&grid);
        met = portbar_device_barrier_wait(&grid, token);
        if (met == 0) { continue; }
        a[0] += 1;
    }
}
//// a helper's result: wrong
#include "portbar/device_barrier.h"
static bool meet(portbar_grid *g, global uint *a)
{
    a[0] = 1;
    if (!portbar_device_barrier(g))
        return false;
    a[1] = 1;
    return true;
}
kernel void k(PORTBAR_GRID_PARAM, global uint *a, uint n)
{
    PORTBAR_ENTER(grid);
    while (!meet(&grid, a)) /* call */
        a[n] += 1;
}
//// a helper's result: right
#include "portbar/device_barrier.h"
static bool meet(portbar_grid *g, global uint *a)
{
    a[0] = 1;
    if (!portbar_device_barrier(g))
        return true;
    a[1] = 1;
    return a[2] == 0;
}
kernel void k(PORTBAR_GRID_PARAM, global uint *a, uint n)
{
    PORTBAR_ENTER(grid);
    while (!meet(&grid, a))
        a[n] += 1;
}
//// a loop in a helper: wrong
#include "portbar/device_barrier.h"
#define MEET(g) while (!(portbar_device_barrier(g)))
static void meet(portbar_grid *g)
{
    MEET(g) { } /* call */
}
kernel void k(PORTBAR_GRID_PARAM, global uint *a, uint n)
{
    PORTBAR_ENTER(grid);
    meet(&grid);
    a[n] = 1;
}
//// a loop in a helper: right
#include "portbar/device_barrier.h"
#define MEET(g) if (!(portbar_device_barrier(g))) return
static void meet(portbar_grid *g)
{
    MEET(g);
}
kernel void k(PORTBAR_GRID_PARAM, global uint *a, uint n)
{
    PORTBAR_ENTER(grid);
    meet(&grid);
    a[n] = 1;
}
//// until any has found it: wrong
#include "portbar/device_barrier.h"
kernel void k(PORTBAR_GRID_PARAM, global uint *a, uint n)
{
    PORTBAR_ENTER(grid);
    uint i = portbar_global_id(&grid);
    while (!portbar_device_barrier_any(&grid, a[i % n] == 7)) /* call */
        i += portbar_global_size(&grid);
}
//// until any has found it: right
#include "portbar/device_barrier.h"
kernel void k(PORTBAR_GRID_PARAM, global uint *a, uint n)
{
    PORTBAR_ENTER(grid);
    uint i = portbar_global_id(&grid);
    while (portbar_device_ok(&grid) && !portbar_device_barrier_any(&grid, a[i % n] == 7))
        i += portbar_global_size(&grid);
}
//// while all go on: wrong
#include "portbar/device_barrier.h"
kernel void k(PORTBAR_GRID_PARAM, global uint *a, uint n)
{
    PORTBAR_ENTER(grid);
    bool all = true;
    while (all) { /* by */
        a[portbar_global_id(&grid)] += 1;
        all = portbar_device_barrier_all(&grid, a[n] < 7); /* call */
    }
}
//// while all go on: right
#include "portbar/device_barrier.h"
kernel void k(PORTBAR_GRID_PARAM, global uint *a, uint n)
{
    PORTBAR_ENTER(grid);
    bool all = false;
    while (!all) {
        a[portbar_global_id(&grid)] += 1;
        all = portbar_device_barrier_all(&grid, a[n] >= 7);
    }
}
//// until one is counted: wrong
#include "portbar/device_barrier.h"
kernel void k(PORTBAR_GRID_PARAM, global uint *a, uint n)
{
    PORTBAR_ENTER(grid);
    uint found = 0;
    do { /* the condition is below */
        a[portbar_global_id(&grid)] += 1;
        found = portbar_device_barrier_count(&grid, a[n] > 7); /* call */
    } while (found == 0); /* by */
}
//// until one is counted: right
#include "portbar/device_barrier.h"
kernel void k(PORTBAR_GRID_PARAM, global uint *a, uint n)
{
    PORTBAR_ENTER(grid);
    uint going = 1;
    do {
        a[portbar_global_id(&grid)] += 1;
        going = portbar_device_barrier_count(&grid, a[n] <= 7);
    } while (going != 0);
}
//// a team's barrier repeated: wrong
#include "portbar/device_barrier.h"
#include "portbar/team.h"
kernel void k(PORTBAR_GRID_PARAM, global uint *a, uint n)
{
    PORTBAR_ENTER(grid);
    portbar_team team = portbar_team_split(&grid, 2u);
    while (true) { /* by */
        if (!portbar_team_barrier(&grid, &team)) /* call */
            continue;
        a[n] = 1;
        break;
    }
}
//// a team's barrier repeated: right
#include "portbar/device_barrier.h"
#include "portbar/team.h"
kernel void k(PORTBAR_GRID_PARAM, global uint *a, uint n)
{
    PORTBAR_ENTER(grid);
    portbar_team team = portbar_team_split(&grid, 2u);
    while (true) {
        if (!portbar_team_barrier(&grid, &team))
            break;
        a[n] = 1;
    }
}
//// a wait for a signal repeated: wrong
#include "portbar/device_barrier.h"
#include "portbar/signal.h"
kernel void k(PORTBAR_GRID_PARAM, global portbar_signal *ready, global uint *a, uint n)
{
    PORTBAR_ENTER(grid);
    if (portbar_global_id(&grid) == 0)
        while (!portbar_signal_wait_until_at_least(&grid, ready, n)) /* call */
            a[n] += 1;
}
//// a wait for a signal repeated: right
#include "portbar/device_barrier.h"
#include "portbar/signal.h"
kernel void k(PORTBAR_GRID_PARAM, global portbar_signal *ready, global uint *a, uint n)
{
    PORTBAR_ENTER(grid);
    if (portbar_global_id(&grid) == 0)
        for (uint i = 0; i < n; ++i)
            if (!portbar_signal_wait_until_at_least(&grid, ready + i, n))
                return;
    while (!portbar_signal_test(&grid, ready, n))
        a[n] += 1;
}
//// an atomic wait repeated: wrong
#include "portbar/atomics.h"
#include "portbar/device_barrier.h"
kernel void k(PORTBAR_GRID_PARAM, global uint *a, uint n)
{
    PORTBAR_ENTER(grid);
    if (portbar_group_id(&grid) == 1)
        while (!portbar_device_atomic_wait(&grid, a, 0u)) { } /* call */
    a[n] = 1;
}
//// an atomic wait repeated: right
#include "portbar/atomics.h"
#include "portbar/device_barrier.h"
kernel void k(PORTBAR_GRID_PARAM, global uint *a, uint n)
{
    PORTBAR_ENTER(grid);
    if (portbar_group_id(&grid) == 1)
        while (portbar_device_atomic_wait(&grid, a, 0u) && a[0] < n) { }
    a[n] = 1;
}
//// a loop in a loop: wrong
#include "portbar/device_barrier.h"
kernel void k(PORTBAR_GRID_PARAM, global uint *a, uint n)
{
    PORTBAR_ENTER(grid);
    for (uint s = 0; s < n; ++s) {
        bool ok;
        do {
            ok = portbar_device_barrier(&grid); /* call */
            for (uint i = 0; i < 4; ++i)
                if (a[i] == 0) break;
        } while (!ok); /* by */
    }
}
//// a loop in a loop: right
#include "portbar/device_barrier.h"
kernel void k(PORTBAR_GRID_PARAM, global uint *a, uint n)
{
    PORTBAR_ENTER(grid);
    for (uint s = 0; s < n; ++s) {
        bool ok;
        do {
            ok = portbar_device_barrier(&grid);
            for (uint i = 0; i < 4; ++i)
                if (a[i] == 0) break;
        } while (ok && a[n] > s);
        if (!ok) return;
    }
}
//// continue of the outer loop: wrong
#include "portbar/device_barrier.h"
kernel void k(PORTBAR_GRID_PARAM, global uint *a, uint n)
{
    PORTBAR_ENTER(grid);
    for (uint s = 0; s < n; ++s) {
        switch (a[0]) {
        case 3:
            if (!portbar_device_barrier(&grid) || s == 7) /* call */
                continue; /* by */
            break;
        default:
            a[1] = 1;
        }
        a[2] = s;
    }
}
//// continue of the outer loop: right
#include "portbar/device_barrier.h"
kernel void k(PORTBAR_GRID_PARAM, global uint *a, uint n)
{
    PORTBAR_ENTER(grid);
    for (uint s = 0; s < n; ++s) {
        switch (a[0]) {
        case 3:
            if (!portbar_device_barrier(&grid))
                return;
            if (s == 7)
                continue;
            break;
        default:
            a[1] = 1;
        }
        a[2] = s;
    }
}
//// an endless loop in a loop: wrong
#include "portbar/device_barrier.h"
kernel void k(PORTBAR_GRID_PARAM, global uint *a, uint n)
{
    PORTBAR_ENTER(grid);
    while (true) {
        if (portbar_device_barrier(&grid) && a[0] > 3)
            break;
        uint left = n;
        while (left > 0) /* by */
            if (portbar_device_barrier(&grid)) /* call */
                --left;
    }
}
//// an endless loop in a loop: right
#include "portbar/device_barrier.h"
kernel void k(PORTBAR_GRID_PARAM, global uint *a, uint n)
{
    PORTBAR_ENTER(grid);
    while (true) {
        if (!portbar_device_barrier(&grid) || a[0] > 3)
            break;
        uint left = n;
        while (left > 0 && portbar_device_barrier(&grid))
            --left;
    }
}
