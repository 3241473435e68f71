"""`portbar/device_barrier.h` as the reader of authors' programs sees it: who must call what, and what differs among whom."""

from __future__ import annotations

from typing import Final

DECLARED: Final = """\
#define PORTBAR_DEVICE_BARRIER 1
typedef struct { uint group_id, num_groups; local void *run_memory; } portbar_grid;
typedef struct { uint words; } portbar_device_token;
#define PORTBAR_GRID_PARAM volatile global uint *portbar_grid_param, const uint4 portbar_grid_launch
PORTBAR_CALLED_BY_GRID bool portbar_enter(portbar_grid *grid, volatile global uint *param, uint4 launch);
#define PORTBAR_ENTER(grid) \\
    portbar_grid grid; \\
    if (!portbar_enter(&grid, portbar_grid_param, portbar_grid_launch)) \\
    return
PORTBAR_LOCAL_ID uint portbar_local_linear_id(void);
PORTBAR_SIZE uint portbar_local_linear_size(void);
PORTBAR_DIFFERS_WORK_GROUP uint portbar_group_id(const portbar_grid *grid);
uint portbar_num_groups(const portbar_grid *grid);
PORTBAR_GLOBAL_ID uint portbar_global_id(const portbar_grid *grid);
PORTBAR_SIZE uint portbar_global_size(const portbar_grid *grid);
ulong portbar_trace_clock(void);
PORTBAR_FALSE_AFTER_FAULT bool portbar_device_ok(const portbar_grid *grid);
PORTBAR_CALLED_BY_GRID PORTBAR_FALSE_IS_FAILURE bool portbar_device_barrier(portbar_grid *grid);
PORTBAR_CALLED_BY_GRID portbar_device_token portbar_device_barrier_arrive(portbar_grid *grid);
PORTBAR_CALLED_BY_GRID PORTBAR_FALSE_IS_FAILURE bool portbar_device_barrier_wait(
    portbar_grid *grid, portbar_device_token token);
PORTBAR_CALLED_BY_WORK_GROUP PORTBAR_TRUE_AFTER_FAULT bool portbar_device_barrier_test_wait(
    portbar_grid *grid, portbar_device_token token);
PORTBAR_CALLED_BY_GRID PORTBAR_FALSE_AFTER_FAULT uint portbar_device_barrier_count(portbar_grid *grid, bool vote);
PORTBAR_CALLED_BY_GRID PORTBAR_FALSE_AFTER_FAULT bool portbar_device_barrier_any(portbar_grid *grid, bool vote);
PORTBAR_CALLED_BY_GRID PORTBAR_FALSE_AFTER_FAULT uint portbar_device_barrier_sum(portbar_grid *grid, uint n);
PORTBAR_CALLED_BY_GRID PORTBAR_TRUE_AFTER_FAULT bool portbar_device_barrier_all(portbar_grid *grid, bool vote);

/* A loop's bound, in 32 bits. */
PORTBAR_CUTS uint portbar_bound(uint n);
/* Work-items take different numbers of turns, whatever the bounds. */
PORTBAR_DIFFERS_WORK_ITEM bool portbar_has_share(uint i, uint end);
/* The same for each last argument of a loop. */
#define portbar_has_share_ portbar_has_share
PORTBAR_DIFFERS_WORK_ITEM bool portbar_has_share_independent(uint i, uint end);
#define PORTBAR_FOR(i, grid, n, ...) \\
    for (uint i = portbar_global_id(grid); portbar_has_share_##__VA_ARGS__(i, portbar_bound(n)); \\
         i += portbar_global_size(grid))
#define PORTBAR_FOR_2D(x, y, grid, width, height, ...) \\
    for (uint y = portbar_global_id(grid); portbar_has_share(y, portbar_bound(height)); ++y) \\
        for (uint x = 0u; portbar_has_share_##__VA_ARGS__(x, portbar_bound(width)); ++x)
#define PORTBAR_FOR_3D(x, y, z, grid, width, height, depth, ...) \\
    for (uint z = portbar_global_id(grid), y = z; \\
         portbar_has_share(z, portbar_bound(depth) + portbar_bound(height)); ++z) \\
        for (uint x = 0u; portbar_has_share_##__VA_ARGS__(x, portbar_bound(width)); ++x)
/* A work-group claims tiles, all its work-items the same. */
PORTBAR_CALLED_BY_GRID uint portbar_first_tile(const portbar_grid *grid, uint count);
PORTBAR_DIFFERS_WORK_GROUP bool portbar_has_tile(uint tile);
#define PORTBAR_FOR_TILES(tile, grid, count) \\
    for (uint tile = portbar_first_tile(grid, portbar_bound(count)); portbar_has_tile(tile); ++tile)
/* A work-group has its share of the tiles, whatever others do. */
PORTBAR_CALLED_BY_WORK_GROUP uint portbar_first_static_tile(const portbar_grid *grid, uint count);
#define PORTBAR_FOR_TILES_STATIC(tile, grid, count) \\
    for (uint tile = portbar_first_static_tile(grid, portbar_bound(count)); portbar_has_tile(tile); ++tile)
#define PORTBAR_FOR_TILES_STATIC_2D(x, y, grid, across, down) \\
    for (uint x = portbar_first_static_tile(grid, portbar_bound(across) + portbar_bound(down)), y = x; \\
         portbar_has_tile(x); ++x, ++y)
#define PORTBAR_FOR_TILES_STATIC_3D(x, y, z, grid, across, down, deep) \\
    for (uint x = portbar_first_static_tile(grid, portbar_bound(across) + portbar_bound(down) + portbar_bound(deep)), \\
              y = x, z = x; \\
         portbar_has_tile(x); ++x, ++y, ++z)
#define PORTBAR_FOR_DYNAMIC(i, grid, n, chunk) \\
    for (uint i = portbar_first_tile(grid, portbar_bound(n) + (chunk)) + portbar_global_id(grid); \\
         portbar_has_share(i, 0u); ++i)
PORTBAR_FALSE_IS_FAILURE bool portbar_device_waits(const portbar_grid *grid, int evaluated);
#define portbar_device_atomic_wait_explicit(grid, p, old, order, scope) \\
    portbar_device_waits(grid, ((void)(p), (void)(old), 0))
#define portbar_device_atomic_wait(grid, p, old) portbar_device_waits(grid, ((void)(p), (void)(old), 0))
"""
