"""`portbar/run_kernels.h` as the reader of authors' programs sees it."""

from __future__ import annotations

from typing import Final

DECLARED: Final = """\
#define PORTBAR_RUN_KERNELS 1
typedef struct { uint dimensions, x, y, z; } portbar_range;
__attribute__((overloadable)) portbar_range portbar_range_of(uint x, uint y, uint z);
__attribute__((overloadable)) portbar_range portbar_range_of(uint x, uint y);
__attribute__((overloadable)) portbar_range portbar_range_of(uint x);
__attribute__((overloadable)) portbar_range portbar_range_of(void);
portbar_range portbar_run_local_size(portbar_range given, portbar_range otherwise);
portbar_range portbar_run_size(
    portbar_grid *grid, uint line, portbar_range size, portbar_range local_size, bool fits);
#define PORTBAR_RUN_MEMORY(grid) ((grid)->run_memory)
#define PORTBAR_RUN(grid, name, size, local_size, ...) \\
    portbar_run_##name(grid, __LINE__, portbar_range_of size, portbar_range_of local_size, __VA_ARGS__)
#define PORTBAR_RUN_NOWAIT(grid, name, size, local_size, ...) \\
    portbar_run_nowait_##name(grid, __LINE__, portbar_range_of size, portbar_range_of local_size, __VA_ARGS__)
"""
