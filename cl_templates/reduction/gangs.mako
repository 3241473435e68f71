## -*- coding: utf-8 -*-
## Gang level in kernels without a grid: a value per work-group, combined by the last group to arrive; and the locks of
## loops.
<%!
    from portbar.primitives.reduction import code
%>
<%def name="positions()">
${group()}
/* Linear id of the work-group, and their number, for 1-, 2- and 3-dimensional sizes. Caller: any work-item. Cost: a
   few integer operations. */
${defines("portbar_gang_id")}
PORTBAR_COLLECTIVE uint portbar_gang_id(void)
{
    return (uint)((get_group_id(2) * get_num_groups(1) + get_group_id(1)) * get_num_groups(0) + get_group_id(0));
}
${defines("portbar_gang_count")}
PORTBAR_COLLECTIVE uint portbar_gang_count(void)
{
    return (uint)(get_num_groups(0) * get_num_groups(1) * get_num_groups(2));
}
${end()}
${group()}
/* Work-items of all work-groups before the caller's, and of the launch: the last work-groups of a dimension may be
   smaller. Any work-item. */
${defines("portbar_items_before")}
PORTBAR_COLLECTIVE uint portbar_items_before(void)
{
    const size_t x = get_global_id(0) - get_local_id(0) - get_global_offset(0);
    const size_t y = get_global_id(1) - get_local_id(1) - get_global_offset(1);
    const size_t z = get_global_id(2) - get_local_id(2) - get_global_offset(2);
    return (uint)((z * get_global_size(1) + y * get_local_size(2)) * get_global_size(0)
                  + x * get_local_size(1) * get_local_size(2));
}
${defines("portbar_items")}
PORTBAR_COLLECTIVE uint portbar_items(void)
{
    return (uint)(get_global_size(0) * get_global_size(1) * get_global_size(2));
}
${end()}
</%def>
<%def name="locks()">
${defines("portbar_gang_fault")}
/* Leaves word of a fault for the host, of the last one in a launch. Caller: one work-item of a work-group. */
PORTBAR_COLLECTIVE void portbar_gang_fault(private portbar_scratch *scratch, uint code, uint which)
{
    if (scratch->state == 0)
        return;
    /* In one word: two faults must not mix. */
    portbar_atomic_store_explicit(scratch->state + scratch->launch.x, code | which << 8, memory_order_relaxed,
                                  memory_scope_device);
}

${group()}
/* Takes and gives back a lock that is 0 while it is free; false when that took too long. Acquire and release order of
   global memory at device scope. Caller: one work-item of a work-group. */
${defines("portbar_gang_take")}
PORTBAR_COLLECTIVE bool portbar_gang_take(volatile global uint *lock)
{
    for (uint i = 0; i < PORTBAR_REDUCTION_POLLS; ++i) {
        if (portbar_atomic_load_explicit(lock, memory_order_relaxed, memory_scope_device) == 0u
            && portbar_atomic_exchange_explicit(lock, 1u, memory_order_relaxed, memory_scope_device) == 0u) {
            portbar_atomic_work_item_fence(CLK_GLOBAL_MEM_FENCE, memory_order_acquire, memory_scope_device);
            return true;
        }
        if ((i & 63u) == 63u)
            portbar_between_polls(i >> 6);
    }
    return false;
}
${defines("portbar_gang_give")}
PORTBAR_COLLECTIVE void portbar_gang_give(volatile global uint *lock)
{
    portbar_atomic_store_explicit(lock, 0u, memory_order_release, memory_scope_device);
}
${end()}
</%def>
<%def name="finish()">
% for each in loops:
<%
    L = f"{each.name}_local"
    R = f"{each.name}_results"
    op = each.name
    number = loops.index(each)
    place = places[op]
    lines = None if each.deterministic else code.atomic_lines(each, atomics)
%>
${defines(f"portbar_update_{op}", of=R)}
/* The receivers, combined with `mine` and written. Caller: one work-item at a time. */
PORTBAR_COLLECTIVE void portbar_update_${op}(${R} results, ${L} mine)
{
    portbar_write_${op}(results, portbar_combine_${op}(portbar_read_${op}(results, ${op}_identity()), mine));
}
% if each.deterministic:
${defines(f"portbar_finish_{op}", of=R)}
/* The values of all work-groups, combined in the order of the groups, into the receivers. The last group to arrive does
   it, so no group waits; it also resets the counter. `mine` is used from the first work-item of each group. Caller:
   all work-items of all work-groups. Order: the last group acquires the values that the others released. Cost: an
   atomic per group; in the last one, a read per group and one reduction over the work-group. */
PORTBAR_COLLECTIVE void portbar_finish_${op}(private portbar_scratch *scratch, ${R} results, ${L} mine)
{
    const uint id = portbar_reduction_id(), groups = portbar_gang_count();
    const uint use = scratch->used[${number}]++;
    volatile global uint *state = scratch->state;
    volatile global uint *counter = state + scratch->launch.x + ${place.counters}u + use;
    global PORTBAR_SLOT(${L}) *values = (global PORTBAR_SLOT(${L}) *)(state + ${value_words}u)
        + (size_t)scratch->launch.y * use;
    values = (global PORTBAR_SLOT(${L}) *)((global uint *)values + (size_t)scratch->launch.y * ${place.before}u);
    uint last = 0u;
    PORTBAR_ALL_WORK();
    if (id == 0u && state != 0) {
        if (use < ${each.uses}u) {
            values[portbar_gang_id()] = mine;
            last = 1u + portbar_atomic_fetch_add_explicit(counter, 1u, memory_order_acq_rel, memory_scope_device);
            last = last == groups;
        } else
            portbar_gang_fault(scratch, ${faults["uses"]}u, ${number}u);
    }
% if serial:
    if (last != 0u) {
        mine = values[0];
        for (uint i = 1; i < groups; ++i)
            mine = portbar_combine_${op}(mine, values[i]);
        portbar_update_${op}(results, mine);
        portbar_atomic_store_explicit(counter, 0u, memory_order_relaxed, memory_scope_device);
    }
% else:
    last = portbar_work_group_broadcast(scratch, last, 0u);
% if not by_sub_groups:
    /* Not every compiler takes barriers under a condition, so every group goes on; all but the last have no values. */
    const uint count = last != 0u ? groups : 0u;
% else:
    if (last == 0u)
        return;
    const uint count = groups;
% endif
    /* The first work-item acquired what the other groups released; this hands it on to the others, which a local fence
       does not. */
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
    const uint size = portbar_reduction_size();
    mine = ${op}_identity();
% if each.commutative:
    for (uint i = id; i < count; i += size)
        mine = portbar_combine_${op}(mine, values[i]);
% else:
    const uint share = (count + size - 1u) / size;
    for (uint i = min(id * share, count); i < min((id + 1u) * share, count); ++i)
        mine = portbar_combine_${op}(mine, values[i]);
% endif
    mine = portbar_work_group_reduce_${op}(scratch, mine);
    if (id == 0u && last != 0u) {
        portbar_update_${op}(results, mine);
        portbar_atomic_store_explicit(counter, 0u, memory_order_relaxed, memory_scope_device);
    }
% endif
}
% else:
${defines(f"portbar_finish_{op}", of=R)}
/* The value of each work-group into the receivers, by atomic operations, or under a lock where some part has none, in
   the order in which the groups come. `mine` counts in the first work-item of each group. Caller: all work-items of all
   work-groups. */
PORTBAR_COLLECTIVE void portbar_finish_${op}(private portbar_scratch *scratch, ${R} results, ${L} mine)
{
    if (portbar_reduction_id() != 0u || scratch->state == 0)
        return;
% if lines is not None:
% for line in lines:
    ${line}
% endfor
% else:
    volatile global uint *lock = scratch->state + scratch->launch.x + ${place.lock}u;
    if (portbar_gang_take(lock)) {
        portbar_update_${op}(results, mine);
        portbar_gang_give(lock);
    } else
        portbar_gang_fault(scratch, ${faults["lock"]}u, ${number}u);
% endif
}
% endif

${group()}
/* The lock of `${op}` among work-groups, for updates that no operator can express. Caller: one work-item of a
   work-group, never several of one. Order: acquire and release of global memory, device scope. Result: false if it
   could not be acquired within some seconds, which is reported to the host. Cost: an atomic operation, and a load per
   poll. */
${defines(f"{op}_lock_gang")}
PORTBAR_COLLECTIVE bool ${op}_lock_gang(private portbar_scratch *scratch)
{
    if (scratch->state == 0)
        return false;
    const bool taken = portbar_gang_take(scratch->state + scratch->launch.x + ${place.lock}u);
    if (!taken)
        portbar_gang_fault(scratch, ${faults["lock"]}u, ${number}u);
    return taken;
}
${defines(f"{op}_unlock_gang")}
PORTBAR_COLLECTIVE void ${op}_unlock_gang(private portbar_scratch *scratch)
{
    portbar_gang_give(scratch->state + scratch->launch.x + ${place.lock}u);
}
${end()}
% endfor
</%def>
<%def name="sub_group_locks()">
${defines("portbar_locks_start")}
/* Called by PORTBAR_REDUCTION_SCRATCH in addition; not for direct use. */
PORTBAR_COLLECTIVE void portbar_locks_start(private portbar_scratch *scratch)
{
    if (portbar_reduction_id() == 0u)
        for (uint i = 0; i < ${worker_locks}u; ++i)
            scratch->locks[i] = 0u;
    barrier(CLK_LOCAL_MEM_FENCE);
}
% for each in loops:
<%
    op = each.name
    number = loops.index(each)
%>
${group()}
/* The lock of `${op}` among the sub-groups of a work-group. No barrier may precede the unlock. Caller: one work-item
   of a sub-group, or of a warp if sub-groups are parts of a warp. Order: acquire and release of local and global
   memory within the work-group. Result: false if it could not be acquired within some seconds. Cost: an atomic
   operation on local memory, and a load per poll. */
${defines(f"{op}_lock_worker")}
PORTBAR_COLLECTIVE bool ${op}_lock_worker(private portbar_scratch *scratch)
{
    volatile local uint *lock = scratch->locks + ${number};
    for (uint i = 0; i < PORTBAR_REDUCTION_POLLS; ++i) {
        if (portbar_atomic_exchange_explicit(lock, 1u, memory_order_acquire, memory_scope_work_group) == 0u) {
            PORTBAR_GROUP_FENCE(memory_order_acquire);
            return true;
        }
        if ((i & 63u) == 63u)
            portbar_between_polls(i >> 6);
    }
    return false;
}
${defines(f"{op}_unlock_worker")}
PORTBAR_COLLECTIVE void ${op}_unlock_worker(private portbar_scratch *scratch)
{
    PORTBAR_GROUP_FENCE(memory_order_release);
    portbar_atomic_store_explicit(scratch->locks + ${number}, 0u, memory_order_release, memory_scope_work_group);
}
${end()}
% endfor
</%def>
