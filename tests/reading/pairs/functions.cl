//// a helper with a barrier: wrong
static void sync(void) { barrier(CLK_LOCAL_MEM_FENCE); }
kernel void k(global uint *a, uint n)
{
    if (get_local_id(0) < n) /* by */
        sync(); /* call */
}
//// a helper with a barrier: right
static void sync(void) { barrier(CLK_LOCAL_MEM_FENCE); }
kernel void k(global uint *a, uint n)
{
    if (n > 4)
        sync();
}
//// a helper whose parameter decides: wrong
static void step(global uint *a, bool leader)
{
    if (leader) { /* by */
        a[0] = 1;
        barrier(CLK_LOCAL_MEM_FENCE); /* call */
    }
}
kernel void k(global uint *a, uint n)
{
    step(a, get_local_id(0) == 0);
}
//// a helper whose parameter decides: right
static void step(global uint *a, bool leader)
{
    if (leader) {
        a[0] = 1;
        barrier(CLK_LOCAL_MEM_FENCE);
    }
}
kernel void k(global uint *a, uint n)
{
    step(a, n == 0);
}
//// a helper that returns an id: wrong
inline uint lane(void) { return get_local_id(0) % 32; }
kernel void k(global uint *a, uint n)
{
    if (lane() == 0) /* by */
        barrier(CLK_LOCAL_MEM_FENCE); /* call */
}
//// a helper that returns an id: right
inline uint lane(void) { return get_local_id(0) % 32; }
kernel void k(global uint *a, uint n)
{
    if (lane() == 0)
        a[0] = n;
    barrier(CLK_LOCAL_MEM_FENCE);
}
//// a helper that says who leads: wrong
bool leads(void)
{
    if (get_local_id(0) == 0)
        return true;
    return false;
}
kernel void k(global uint *a, uint n)
{
    if (!leads()) return; /* by */
    barrier(CLK_LOCAL_MEM_FENCE); /* call */
}
//// a helper that says who leads: right
bool leads(void)
{
    if (get_local_id(0) == 0)
        return true;
    return false;
}
kernel void k(global uint *a, uint n)
{
    if (leads()) a[0] = n;
    barrier(CLK_LOCAL_MEM_FENCE);
}
//// a helper that gives ids by pointers: wrong
static void where(uint *x, uint *y) { *x = get_local_id(0); *y = get_local_id(1); }
kernel void k(global uint *a, uint n)
{
    uint x, y;
    where(&x, &y);
    if (x + y < n) /* by */
        barrier(CLK_LOCAL_MEM_FENCE); /* call */
}
//// a helper that gives ids by pointers: right
static void where(uint *x, uint *y) { *x = get_local_id(0); *y = get_local_id(1); }
kernel void k(global uint *a, uint n)
{
    uint x, y;
    where(&x, &y);
    x = y = n;
    if (x + y < n)
        barrier(CLK_LOCAL_MEM_FENCE);
}
//// two helpers deep: wrong
#include "portbar/device_barrier.h"
static bool meet(private portbar_grid *g) { return portbar_device_barrier(g); }
static void relax(private portbar_grid *g, global uint *a) { a[0] = 1; meet(g); }
kernel void k(PORTBAR_GRID_PARAM, global uint *a, uint n)
{
    PORTBAR_ENTER(grid);
    const uint i = portbar_global_id(&grid);
    if (i < n) /* by */
        relax(&grid, a); /* call */
}
//// two helpers deep: right
#include "portbar/device_barrier.h"
static bool meet(private portbar_grid *g) { return portbar_device_barrier(g); }
static void relax(private portbar_grid *g, global uint *a) { a[0] = 1; meet(g); }
kernel void k(PORTBAR_GRID_PARAM, global uint *a, uint n)
{
    PORTBAR_ENTER(grid);
    const uint i = portbar_global_id(&grid);
    if (n > 4)
        relax(&grid, a);
    a[i] = 0;
}
//// return in a helper before its barrier: wrong
void work(global uint *a, uint n)
{
    uint i = get_global_id(0);
    if (i >= n) return; /* by */
    a[i] = 1;
    barrier(CLK_LOCAL_MEM_FENCE); /* call */
}
kernel void k(global uint *a, uint n)
{
    work(a, n);
}
//// return in a helper before its barrier: right
void work(global uint *a, uint n)
{
    uint i = get_global_id(0);
    if (i >= n) return;
    a[i] = 1;
}
kernel void k(global uint *a, uint n)
{
    work(a, n);
    barrier(CLK_LOCAL_MEM_FENCE);
}
//// a macro with a barrier: wrong
#define SYNC barrier(CLK_LOCAL_MEM_FENCE)
kernel void k(global uint *a, uint n)
{
    if (get_local_id(0) == 0) /* by */
        SYNC; /* call */
}
//// a macro with a barrier: right
#define SYNC barrier(CLK_LOCAL_MEM_FENCE)
kernel void k(global uint *a, uint n)
{
    if (get_local_id(0) == 0)
        a[0] = 1;
    SYNC;
}
//// a macro for the condition: wrong
#define MASTER if (get_local_id(0) == 0)
kernel void k(global uint *a, uint n)
{
    MASTER { a[0] = 1; barrier(CLK_LOCAL_MEM_FENCE); } /* call */
}
//// a macro for the condition: right
#define MASTER if (get_local_id(0) == 0)
kernel void k(global uint *a, uint n)
{
    MASTER { a[0] = 1; }
    barrier(CLK_LOCAL_MEM_FENCE);
}
//// a loop from a macro: wrong
#define EACH(i, n) for (size_t i = get_global_id(0); i < (n); i += get_global_size(0))
kernel void k(global uint *a, uint n)
{
    EACH(i, n) { /* by */
        a[i] = i;
        barrier(CLK_GLOBAL_MEM_FENCE); /* call */
    }
}
//// a loop from a macro: right
#define EACH(i, n) for (size_t i = get_global_id(0); i < (n); i += get_global_size(0))
kernel void k(global uint *a, uint n)
{
    EACH(i, n) {
        a[i] = i;
    }
    barrier(CLK_GLOBAL_MEM_FENCE);
}
//// a name by the preprocessor: wrong
#define BAR(x) bar##x
kernel void k(global uint *a, uint n)
{
    if (get_local_id(0)) /* by */
        BAR(rier)(CLK_LOCAL_MEM_FENCE); /* call */
}
//// a name by the preprocessor: right
#define BAR(x) bar##x
kernel void k(global uint *a, uint n)
{
    if (n)
        BAR(rier)(CLK_LOCAL_MEM_FENCE);
}
