## -*- coding: utf-8 -*-
## Reductions, scans and broadcasts over a work-group: sub-groups first where the device has them, never by spinning.
<%def name="broadcasts()">
% for kind, size in kinds:
% if ("work_group", "broadcast", "") in wanted:
/* The value that the work-item with linear local id `from` has, in all work-items of the work-group. `from` is the same in all of them.
   Caller: all work-items of the work-group, in uniform control flow. Cost: ${"one barrier" if lanes == "shuffle" else "two barriers"}. */
PORTBAR_COLLECTIVE ${kind} portbar_work_group_broadcast(private portbar_scratch *scratch, ${kind} x, uint from)
{
    if (PORTBAR_ALONE)
        return x;
% if lanes == "shuffle":
    local PORTBAR_SLOT(${kind}) *all = PORTBAR_PART_SLOTS(${kind}, scratch);
    scratch->turn ^= 1u;
    if (portbar_reduction_id() == from)
        *all = x;
    barrier(CLK_LOCAL_MEM_FENCE);
    return *all;
% else:
    local PORTBAR_SLOT(${kind}) *all = PORTBAR_ALL_SLOT(${kind}, scratch);
    barrier(CLK_LOCAL_MEM_FENCE);
% if leader_forgotten:
    PORTBAR_ALL_WORK();
% endif
    if (portbar_reduction_id() == from)
        *all = x;
    barrier(CLK_LOCAL_MEM_FENCE);
    return *all;
% endif
}
% endif
% endfor
</%def>
<%def name="groups()">
% for form in forms:
${reduce(form)}\
${scan(form)}\
% endfor
</%def>
<%def name="reduce(form)">
<%
    kind, combine = form.kind, form.combine
    neutral = f"PORTBAR_NEUTRAL_{form.op}_{form.kind}"
    costs = {"shuffle": "shuffles and one barrier, two where the last sub-group is not whole", "sub_group": "two barriers"}
    cost = "two barriers" if folds else costs.get(lanes, "log2 of the size barriers")
%>
% if ("work_group", "reduce", form.op) in wanted:
/* All values of the work-group combined by `${form.op}`, in the order of the linear local ids; valid in every work-item.
   Caller: all work-items of the work-group, in uniform control flow. Cost: ${cost}. */
PORTBAR_COLLECTIVE ${kind} portbar_work_group_reduce_${form.op}(private portbar_scratch *scratch, ${kind} x)
{
    ${form.prepare}
    if (PORTBAR_ALONE)
        return x;
% if lanes == "shuffle":
    x = portbar_sub_group_reduce_${form.op}(scratch, x);
    const uint size = portbar_reduction_size(), count = portbar_num_sub_groups();
    if (count == 1u)
        return x;
    const uint lane = portbar_sub_group_local_id();
    local PORTBAR_SLOT(${kind}) *parts = PORTBAR_PART_SLOTS(${kind}, scratch);
    scratch->turn ^= 1u;
    if (lane == 0u)
        parts[portbar_sub_group_id()] = x;
    barrier(CLK_LOCAL_MEM_FENCE);
% if form.size <= 8 and not (form.redux and redux):
    if (PORTBAR_SUB_GROUP_SIZE == 32u && size % 32u == 0u && count <= 8u) {
        /* Few whole warps: each work-item combines all values by itself, which takes less than shuffles do. */
        const ${kind} none = ${neutral};
        x = ${combine}(parts[0], parts[1]);
        if (count > 2u) {
            const ${kind} third = count > 3u ? parts[3] : none;
            x = ${combine}(x, ${combine}(parts[2], third));
        }
        if (count > 4u) {
            const ${kind} fifth = count > 5u ? parts[5] : none, sixth = count > 6u ? parts[6] : none;
            const ${kind} seventh = count > 7u ? parts[7] : none;
            x = ${combine}(x, ${combine}(${combine}(parts[4], fifth), ${combine}(sixth, seventh)));
        }
        return x;
    }
% endif
    if (size % 32u == 0u) {
        /* All warps are whole, so each combines the sub-groups' values in the same way, and no second barrier is needed. */
        x = ${neutral};
        if (PORTBAR_SUB_GROUP_SIZE == 32u) {
            if (lane < count)
                x = parts[lane];
        } else {
            const uint each = (count + PORTBAR_SUB_GROUP_SIZE - 1u) / PORTBAR_SUB_GROUP_SIZE;
            for (uint i = lane * each; i < min((lane + 1u) * each, count); ++i)
                x = ${combine}(x, parts[i]);
        }
        return portbar_sub_group_reduce_${form.op}(scratch, x);
    }
    if (portbar_reduction_id() == 0u) {
        for (uint i = 1; i < count; ++i)
            x = ${combine}(x, parts[i]);
        parts[PORTBAR_PARTS] = x;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    return parts[PORTBAR_PARTS];
% else:
% if collectives and form.native:
#ifdef PORTBAR_COLLECTIVES
    (void)scratch;
    return (${kind})work_group_reduce_${form.native}((${form.through})x);
#else
% endif
    local PORTBAR_SLOT(${kind}) *all = PORTBAR_ALL_SLOT(${kind}, scratch);
    const uint id = portbar_reduction_id();
% if parts:
    local PORTBAR_SLOT(${kind}) *parts = PORTBAR_PART_SLOTS(${kind}, scratch);
    x = portbar_sub_group_reduce_${form.op}(scratch, x);
    if (portbar_sub_group_local_id() == 0u)
        parts[portbar_sub_group_id()] = x;
    barrier(CLK_LOCAL_MEM_FENCE);
    if (id == 0u) {
        for (uint i = 1; i < portbar_num_sub_groups(); ++i)
            x = ${combine}(x, parts[i]);
        *all = x;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    return *all;
% elif folds:
    local PORTBAR_SLOT(${kind}) *slots = PORTBAR_GROUP_SLOTS(${kind}, scratch);
    slots[id] = x;
    barrier(CLK_LOCAL_MEM_FENCE);
% if leader_forgotten:
    PORTBAR_ALL_WORK();
% endif
    if (id == 0u) {
        /* A variable of its own: Intel's compiler was seen to crash over structures that are changed between two barriers. */
        ${kind} sum = slots[0];
        const uint size = portbar_reduction_size();
        uint i = 1;
% if form.wide:
        /* By vectors of eight; that changes the order, but in the same way in each launch. */
        if (size >= 16u) {
            ${kind}8 a = vload8(0, slots);
            for (i = 8; i + 8u <= size; i += 8u) {
                const ${kind}8 b = vload8(0, slots + i);
                a = ${form.wide};
            }
            sum = ${combine}(${combine}(${combine}(a.s0, a.s1), ${combine}(a.s2, a.s3)),
                ${combine}(${combine}(a.s4, a.s5), ${combine}(a.s6, a.s7)));
        }
% else:
        /* Four chains at once, each through a quarter of the values, so that none waits for the last result; the order stays. */
        const uint share = size / 4u;
        if (share > 1u) {
            ${kind} b = slots[share], c = slots[2u * share], d = slots[3u * share];
            for (; i < share; ++i) {
                sum = ${combine}(sum, slots[i]);
                b = ${combine}(b, slots[share + i]);
                c = ${combine}(c, slots[2u * share + i]);
                d = ${combine}(d, slots[3u * share + i]);
            }
            sum = ${combine}(${combine}(sum, b), ${combine}(c, d));
            i = 4u * share;
        }
% endif
        for (; i < size; ++i)
            sum = ${combine}(sum, slots[i]);
        *all = sum;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    return *all;
% else:
    local PORTBAR_SLOT(${kind}) *own = PORTBAR_GROUP_SLOTS(${kind}, scratch) + id;
    const uint size = portbar_reduction_size();
    *own = x;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint step = 1; step < size; step *= 2u) {
        if ((id & (2u * step - 1u)) == 0u && id + step < size) {
            x = ${combine}(x, own[step]);
            *own = x;
            if (2u * step >= size)
                *all = x;
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    if (size != 1u)
        x = *all;
    return x;
% endif
% if collectives and form.native:
#endif
% endif
% endif
}
% endif
</%def>
<%def name="scan(form)">
<%
    kind, combine = form.kind, form.combine
    neutral = f"PORTBAR_NEUTRAL_{form.op}_{form.kind}"
%>
% for which in ("inclusive", "exclusive"):
% if ("work_group", f"scan_{which}", form.op) in wanted:
/* ${"The values of all work-items up to and with the caller" if which == "inclusive" else "The values of all work-items before the caller (the neutral element in the first)"}, combined by `${form.op}` in
   the order of the linear local ids. Caller: all work-items of the work-group, in uniform control flow.
   Cost: ${"shuffles, one barrier, and a read a sub-group" if lanes == "shuffle" else "two barriers" if folds else "a barrier or two a step"}. */
PORTBAR_COLLECTIVE ${kind} portbar_work_group_scan_${which}_${form.op}(private portbar_scratch *scratch, ${kind} x)
{
    ${form.prepare}
    if (PORTBAR_ALONE)
        return ${"x" if which == "inclusive" else neutral};
% if lanes == "shuffle" or parts:
% if which == "inclusive":
    x = portbar_sub_group_scan_inclusive_${form.op}(scratch, x);
    const ${kind} through = x;
% else:
    const ${kind} mine = x;
    x = portbar_sub_group_scan_exclusive_${form.op}(scratch, x);
    const ${kind} through = ${combine}(x, mine);
% endif
    const uint part = portbar_sub_group_id();
    local PORTBAR_SLOT(${kind}) *parts = PORTBAR_PART_SLOTS(${kind}, scratch);
    scratch->turn ^= 1u;
    if (portbar_sub_group_local_id() + 1u == portbar_sub_group_size())
        parts[part] = through;
    barrier(CLK_LOCAL_MEM_FENCE);
    if (part != 0u) {
        ${kind} before = parts[0];
        for (uint i = 1; i < part; ++i)
            before = ${combine}(before, parts[i]);
        x = ${combine}(before, x);
    }
% if parts:
    barrier(CLK_LOCAL_MEM_FENCE);
% endif
    return x;
% else:
    const uint id = portbar_reduction_id(), size = portbar_reduction_size();
    *PORTBAR_OWN(${kind}, scratch, id) = x;
    barrier(CLK_LOCAL_MEM_FENCE);
% if folds:
% if leader_forgotten:
    PORTBAR_ALL_WORK();
% endif
    if (id == 0u) {
% if which == "inclusive":
        ${kind} sum = *PORTBAR_OWN(${kind}, scratch, id);
        for (uint i = 1; i < size; ++i) {
            sum = ${combine}(sum, *PORTBAR_OWN(${kind}, scratch, id + i));
            *PORTBAR_OWN(${kind}, scratch, id + i) = sum;
        }
% else:
        ${kind} before = ${neutral};
        for (uint i = 0; i < size; ++i) {
            const ${kind} mine = *PORTBAR_OWN(${kind}, scratch, id + i);
            const ${kind} next = i == 0u ? mine : ${combine}(before, mine);
            *PORTBAR_OWN(${kind}, scratch, id + i) = before;
            before = next;
        }
% endif
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    return *PORTBAR_OWN(${kind}, scratch, id);
% else:
    for (uint step = 1; step < size; step *= 2u) {
        if (id >= step)
            x = ${combine}(*PORTBAR_OWN(${kind}, scratch, id - step), x);
        barrier(CLK_LOCAL_MEM_FENCE);
        *PORTBAR_OWN(${kind}, scratch, id) = x;
        barrier(CLK_LOCAL_MEM_FENCE);
    }
% if which == "exclusive":
    if (id == 0u)
        x = ${neutral};
    else
        x = *PORTBAR_OWN(${kind}, scratch, id - 1u);
    barrier(CLK_LOCAL_MEM_FENCE);
% endif
    return x;
% endif
% endif
}
% endif
% endfor
</%def>
