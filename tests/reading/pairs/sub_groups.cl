//// the first sub-group: wrong
#include "portbar/reduction.h"
kernel void k(global uint *a, uint n)
{
    PORTBAR_REDUCTION_SCRATCH(scratch);
    uint s = a[get_local_id(0)];
    if (portbar_sub_group_id() == 0) /* by */
        s = portbar_sub_group_reduce_add(scratch, s); /* call */
    a[0] = s;
}
//// the first sub-group: right
#include "portbar/reduction.h"
kernel void k(global uint *a, uint n)
{
    PORTBAR_REDUCTION_SCRATCH(scratch);
    uint s = a[get_local_id(0)];
    s = portbar_sub_group_reduce_add(scratch, portbar_sub_group_id() == 0 ? s : 0u);
    a[0] = s;
}
//// as many items as a sub-group has: wrong
#include "portbar/reduction.h"
kernel void k(global uint *a, uint n)
{
    PORTBAR_REDUCTION_SCRATCH(scratch);
    uint s = a[get_local_id(0)];
    if (get_local_id(0) < portbar_sub_group_max_size()) /* by */
        s = portbar_sub_group_reduce_add(scratch, s); /* call */
    a[0] = s;
}
//// as many items as a sub-group has: right
#include "portbar/reduction.h"
kernel void k(global uint *a, uint n)
{
    PORTBAR_REDUCTION_SCRATCH(scratch);
    uint s = a[get_local_id(0)];
    const uint sum = portbar_sub_group_reduce_add(scratch, s);
    if (get_local_id(0) < portbar_sub_group_max_size())
        a[0] = sum;
}
