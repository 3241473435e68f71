## -*- coding: utf-8 -*-
## Values meet in local memory: a binary tree, or one work-item that combines them if a work-group runs as a loop on one
## thread.
<%!
    #: Whether to ask at run time if a work-group has one work-item: it has no other here that it could save a barrier.
    ASKS_ALONE = False
    #: Barrier, caller's place, members and most members of what a function combines.
    MEMBERS = {
        "sub_group":
            ("PORTBAR_LANE_BARRIER()", *(f"portbar_sub_group_{what}()" for what in ("local_id", "size", "max_size"))),
        "work_group":
            ("barrier(CLK_LOCAL_MEM_FENCE)", *(f"portbar_reduction_{what}()" for what in ("id", "size", "size"))),
    }
    #: Sub-groups are consecutive work-items, of a size that the author may choose.
    IDS = {
        "sub_group_id": "portbar_reduction_id() / PORTBAR_SUB_GROUP_SIZE",
        "sub_group_local_id": "portbar_reduction_id() % PORTBAR_SUB_GROUP_SIZE",
        "num_sub_groups": "(portbar_reduction_size() + PORTBAR_SUB_GROUP_SIZE - 1u) / PORTBAR_SUB_GROUP_SIZE",
        "sub_group_size":
            "min((uint)PORTBAR_SUB_GROUP_SIZE,\n"
            "               portbar_reduction_size() - portbar_sub_group_id() * PORTBAR_SUB_GROUP_SIZE)",
        "sub_group_max_size": "min(portbar_reduction_size(), (uint)PORTBAR_SUB_GROUP_SIZE)",
    }

    def place(form, at):
        """A work-item's own place."""
        return f"*PORTBAR_OWN({form.kind}, scratch, {at})"
%>
<%def name="warp_functions()"></%def>
<%def name="head()">\
${defines("PORTBAR_LANE_BARRIER")}
#define PORTBAR_LANE_BARRIER() barrier(CLK_LOCAL_MEM_FENCE)
</%def>
<%def name="slots()">\
<%
    all = "PORTBAR_REDUCTION_LOCAL_SIZE"
    packed = f"{all} / 8 + 1" if by_sub_groups else all if group_slots else "0"
%>\
${defines("PORTBAR_ALL_SLOT", "PORTBAR_OWN", "PORTBAR_OWN_PLACES", "PORTBAR_PART_SLOTS", "PORTBAR_REDUCTION_SLOTS")}
/* Each work-item's own place, the same for all types; then packed values, of all work-items, or of all sub-groups
   where these leave one each (they have 8 work-items or more there). */
#define PORTBAR_ALL_SLOT(kind, scratch) PORTBAR_AT(kind, scratch, 0)
#define PORTBAR_OWN(kind, scratch, id) PORTBAR_AT(kind, scratch, 1u + (id))
#define PORTBAR_OWN_PLACES ${"PORTBAR_REDUCTION_LOCAL_SIZE" if own_places else "0"}
#define PORTBAR_PART_SLOTS(kind, scratch) PORTBAR_AT(kind, scratch, 1 + PORTBAR_OWN_PLACES)
#define PORTBAR_REDUCTION_SLOTS (1 + PORTBAR_OWN_PLACES + ${packed})
</%def>
<%def name="ids()">\
${functions(IDS)}\
</%def>
<%def name="functions(ids)">\
% for name, value in ids.items():
${defines(f"portbar_{name}")}
PORTBAR_COLLECTIVE uint portbar_${name}(void)
{
    return ${value};
}
% endfor
</%def>
<%def name="helpers()"></%def>
<%def name="broadcast(kind)">\
    /* One lane writes the value to the others' own places, which only they read. */
    const uint id = portbar_reduction_id(), at = portbar_sub_group_local_id();
    PORTBAR_LANE_BARRIER();
    PORTBAR_ALL_WORK();
    if (at == lane)
        for (uint i = 0; i < portbar_sub_group_size(); ++i)
            *PORTBAR_OWN(${kind}, scratch, id - at + i) = x;
    PORTBAR_LANE_BARRIER();
    return *PORTBAR_OWN(${kind}, scratch, id);
</%def>
<%def name="group_broadcast(kind)">\
    local PORTBAR_SLOT(${kind}) *all = PORTBAR_ALL_SLOT(${kind}, scratch);
    barrier(CLK_LOCAL_MEM_FENCE);
    PORTBAR_ALL_WORK();
    if (portbar_reduction_id() == from)
        *all = x;
    barrier(CLK_LOCAL_MEM_FENCE);
    return *all;
</%def>
<%def name="reduce(form)">\
    const uint id = portbar_reduction_id();
% if serial:
    ${place(form, "id")} = x;
    PORTBAR_LANE_BARRIER();
    PORTBAR_ALL_WORK();
    if (portbar_sub_group_local_id() == 0u) {
        const uint size = portbar_sub_group_size();
        ${form.kind} sum = ${place(form, "id")};
        for (uint i = 1; i < size; ++i)
            sum = ${form.combine}(sum, ${place(form, "id + i")});
        /* Each lane then looks at its own place only, so the next call may write at once. */
        for (uint i = 0; i < size; ++i)
            ${place(form, "id + i")} = sum;
    }
    PORTBAR_LANE_BARRIER();
    return ${place(form, "id")};
% else:
    const uint lane = portbar_sub_group_local_id(), size = portbar_sub_group_size();
    const uint most = portbar_sub_group_max_size();
    ${place(form, "id")} = x;
    PORTBAR_LANE_BARRIER();
    for (uint step = 1; step < most; step *= 2u) {
        if ((lane & (2u * step - 1u)) == 0u && lane + step < size) {
            x = ${form.combine}(x, ${place(form, "id + step")});
            ${place(form, "id")} = x;
        }
        PORTBAR_LANE_BARRIER();
    }
    x = ${place(form, "id - lane")};
    PORTBAR_LANE_BARRIER();
    return x;
% endif
</%def>
<%def name="scan(form, which, level='sub_group')">\
<% barrier, lane, size, most = MEMBERS[level] %>\
% if serial:
    const uint id = portbar_reduction_id();
    ${place(form, "id")} = x;
    ${barrier};
    PORTBAR_ALL_WORK();
    if (${lane} == 0u) {
        const uint size = ${size};
        ${form.kind} sum = ${place(form, "id")};
% if which == "exclusive":
        ${place(form, "id")} = ${form.none};
% endif
        for (uint i = 1; i < size; ++i) {
% if which == "inclusive":
            sum = ${form.combine}(sum, ${place(form, "id + i")});
            ${place(form, "id + i")} = sum;
% else:
            const ${form.kind} mine = ${place(form, "id + i")};
            ${place(form, "id + i")} = sum;
            sum = ${form.combine}(sum, mine);
% endif
        }
    }
    ${barrier};
    return ${place(form, "id")};
% else:
    const uint id = portbar_reduction_id(), lane = ${lane}, most = ${most};
    ${place(form, "id")} = x;
    ${barrier};
    for (uint step = 1; step < most; step *= 2u) {
        if (lane >= step)
            x = ${form.combine}(${place(form, "id - step")}, x);
        ${barrier};
        ${place(form, "id")} = x;
        ${barrier};
    }
% if which == "exclusive":
    if (lane == 0u)
        x = ${form.none};
    else
        x = ${place(form, "id - 1u")};
    ${barrier};
% endif
    return x;
% endif
</%def>
<%def name="group_scan(form, which)">\
${scan(form, which, "work_group")}\
</%def>
<%def name="scan_of_parts(form, which)">\
% if which == "inclusive":
    x = portbar_sub_group_scan_inclusive_${form.op}(scratch, x);
    const ${form.kind} through = x;
% else:
    const ${form.kind} mine = x;
    x = portbar_sub_group_scan_exclusive_${form.op}(scratch, x);
    const ${form.kind} through = ${form.combine}(x, mine);
% endif
    const uint part = portbar_sub_group_id();
    local PORTBAR_SLOT(${form.kind}) *parts = PORTBAR_PART_SLOTS(${form.kind}, scratch);
    scratch->turn ^= 1u;
    if (portbar_sub_group_local_id() + 1u == portbar_sub_group_size())
        parts[part] = through;
    barrier(CLK_LOCAL_MEM_FENCE);
    if (part != 0u) {
        ${form.kind} before = parts[0];
        for (uint i = 1; i < part; ++i)
            before = ${form.combine}(before, parts[i]);
        x = ${form.combine}(before, x);
    }
</%def>
<%def name="group_reduce(form)">\
    local PORTBAR_SLOT(${form.kind}) *all = PORTBAR_ALL_SLOT(${form.kind}, scratch);
    const uint id = portbar_reduction_id();
% if serial:
    local PORTBAR_SLOT(${form.kind}) *slots = PORTBAR_PART_SLOTS(${form.kind}, scratch);
    slots[id] = x;
    barrier(CLK_LOCAL_MEM_FENCE);
    PORTBAR_ALL_WORK();
    if (id == 0u) {
        ${form.kind} sum = slots[0];
        const uint size = portbar_reduction_size();
        uint i = 1;
% if form.wide and 8 * form.size <= widest:
        /* By vectors of eight; that changes the order, but in the same way in each launch. */
        if (size >= 16u) {
            ${form.kind}8 a = vload8(0, slots);
            for (i = 8; i + 8u <= size; i += 8u) {
                const ${form.kind}8 b = vload8(0, slots + i);
                a = ${form.wide};
            }
            sum = ${form.combine}(
                ${form.combine}(${form.combine}(a.s0, a.s1), ${form.combine}(a.s2, a.s3)),
                ${form.combine}(${form.combine}(a.s4, a.s5), ${form.combine}(a.s6, a.s7)));
        }
% else:
        /* Four chains at once, each through a quarter of the values, so that none waits for the last result; the order
           stays. */
        const uint share = size / 4u;
        if (share > 1u) {
            ${form.kind} b = slots[share], c = slots[2u * share], d = slots[3u * share];
            for (; i < share; ++i) {
                sum = ${form.combine}(sum, slots[i]);
                b = ${form.combine}(b, slots[share + i]);
                c = ${form.combine}(c, slots[2u * share + i]);
                d = ${form.combine}(d, slots[3u * share + i]);
            }
            sum = ${form.combine}(${form.combine}(sum, b), ${form.combine}(c, d));
            i = 4u * share;
        }
% endif
        for (; i < size; ++i)
            sum = ${form.combine}(sum, slots[i]);
        *all = sum;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    return *all;
% else:
    local PORTBAR_SLOT(${form.kind}) *own = PORTBAR_PART_SLOTS(${form.kind}, scratch) + id;
    const uint size = portbar_reduction_size();
    *own = x;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint step = 1; step < size; step *= 2u) {
        if ((id & (2u * step - 1u)) == 0u && id + step < size) {
            x = ${form.combine}(x, own[step]);
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
</%def>
