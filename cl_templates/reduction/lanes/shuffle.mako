## -*- coding: utf-8 -*-
## Lanes of NVIDIA's warps exchange values by shuffles; sub-groups leave one value each in local memory.
<%inherit file="reduction/lanes/tree.mako"/>
<%namespace name="tree" file="reduction/lanes/tree.mako"/>
<%namespace name="ptx" file="backend/ptx/lanes.mako"/>
<%def name="head()"></%def>
<%def name="slots()">\
${defines("PORTBAR_PARTS", "PORTBAR_REDUCTION_SLOTS", "PORTBAR_PART_SLOTS")}
/* Two areas with a value for each sub-group and one for all of them. Calls alternate between them: with a barrier in
   each call, no work-item lags by two calls. */
#define PORTBAR_PARTS ((PORTBAR_REDUCTION_LOCAL_SIZE + PORTBAR_SUB_GROUP_SIZE - 1) / PORTBAR_SUB_GROUP_SIZE)
#define PORTBAR_REDUCTION_SLOTS (2 * (PORTBAR_PARTS + 1))
#define PORTBAR_PART_SLOTS(kind, scratch) PORTBAR_AT(kind, scratch, ((scratch)->turn & 1u) * (PORTBAR_PARTS + 1))
</%def>
<%def name="helpers()">\
${group()}
/* Whether each warp has 32 lanes, as nearly always; and the last lane of the caller's. */
${defines("portbar_whole_warps")}
PORTBAR_COLLECTIVE bool portbar_whole_warps(void)
{
    return portbar_reduction_size() % 32u == 0u;
}
${defines("portbar_last_lane")}
PORTBAR_COLLECTIVE uint portbar_last_lane(void)
{
    return min(portbar_reduction_size() - 1u - (portbar_reduction_id() & ~31u), 31u);
}
${end()}
${ptx.shuffles()}\
${group()}
/* Values of other types, a word at a time. */
% for mode in ("up", "bfly", "idx"):
% for kind, size in kinds:
% if kind != "uint":
<% words = -(-size // 4) %>\
${defines(f"portbar_shuffle_{mode}", of=kind)}
PORTBAR_COLLECTIVE ${kind} portbar_shuffle_${mode}(${kind} v, uint by)
{
% if kind in ("int", "float"):
    return as_${kind}(portbar_shuffle_${mode}(as_uint(v), by));
% elif kind in ("char", "uchar", "short", "ushort"):
    return (${kind})portbar_shuffle_${mode}((uint)v, by);
% elif kind in ("long", "ulong", "double"):
    const uint2 words = as_uint2(v);
    const uint2 found = (uint2)(portbar_shuffle_${mode}(words.x, by), portbar_shuffle_${mode}(words.y, by));
    return as_${kind}(found);
% else:
    union { ${kind} value; uint words[${words}]; } all;
    all.value = v;
% for word in range(words):
    all.words[${word}] = portbar_shuffle_${mode}(all.words[${word}], by);
% endfor
    return all.value;
% endif
}
% endif
% endfor
% endfor
${end()}
</%def>
<%def name="broadcast(kind)">\
    const uint first = portbar_reduction_id() & 31u & ~(PORTBAR_SUB_GROUP_SIZE - 1u);
    return portbar_shuffle_idx(x, first + lane);
</%def>
<%def name="group_broadcast(kind)">\
    local PORTBAR_SLOT(${kind}) *all = PORTBAR_PART_SLOTS(${kind}, scratch);
    scratch->turn ^= 1u;
    if (portbar_reduction_id() == from)
        *all = x;
    barrier(CLK_LOCAL_MEM_FENCE);
    return *all;
</%def>
<%def name="warp_functions()">\
% for form in forms:
% if ("sub_group", "reduce", form.op) in wanted:
${defines(f"portbar_warp_reduce_{form.op}", of=form.kind)}
/* The values of each `lanes` lanes of a warp combined, in all of them. Caller: all lanes of the warp. */
PORTBAR_COLLECTIVE ${form.kind} portbar_warp_reduce_${form.op}(${form.kind} x, uint lanes, bool whole)
{
% if form.redux and redux:
    if (lanes == 32u) {
        ${form.kind} all;
        ${ptx.redux(form.redux)}\
        return all;
    }
% endif
    const uint lane = portbar_reduction_id() & 31u;
    if (whole) {
        /* After each step both of a pair have the same value. */
#pragma unroll
        for (uint step = 1u; step < lanes; step *= 2u) {
            const ${form.kind} other = portbar_shuffle_bfly(x, step);
            x = ${pair(form)};
        }
        return x;
    }
    /* Here only the first lane has combined all that there are. */
    const uint last = portbar_last_lane();
#pragma unroll
    for (uint step = 1u; step < lanes; step *= 2u) {
        const ${form.kind} other = portbar_shuffle_bfly(x, step);
        if ((lane ^ step) <= last)
            x = ${pair(form)};
    }
    return portbar_shuffle_idx(x, lane & ~(lanes - 1u));
}
% endif
% endfor
</%def>
<%def name="pair(form)">\
% if form.symmetric:
${form.combine}(x, other)\
% else:
${form.combine}(lane & step ? other : x, lane & step ? x : other)\
% endif
</%def>
<%def name="reduce(form)">\
    return portbar_warp_reduce_${form.op}(x, PORTBAR_SUB_GROUP_SIZE, portbar_whole_warps());
</%def>
<%def name="scan(form, which)">\
    const uint lane = portbar_reduction_id() & (PORTBAR_SUB_GROUP_SIZE - 1u);
#pragma unroll
    for (uint step = 1u; step < PORTBAR_SUB_GROUP_SIZE; step *= 2u) {
        const ${form.kind} before = portbar_shuffle_up(x, step);
        if (lane >= step)
            x = ${form.combine}(before, x);
    }
% if which == "inclusive":
    return x;
% else:
    const ${form.kind} none = ${form.none}, shifted = portbar_shuffle_up(x, 1u);
    return lane == 0u ? none : shifted;
% endif
</%def>
<%def name="group_scan(form, which)">\
${tree.scan_of_parts(form, which)}\
    return x;
</%def>
<%def name="group_reduce(form)">\
    const uint size = portbar_reduction_size(), id = portbar_reduction_id(), lane = id % 32u;
    const uint count = (size + 31u) / 32u;
    local PORTBAR_SLOT(${form.kind}) *parts = PORTBAR_PART_SLOTS(${form.kind}, scratch);
    const ${form.kind} none = ${form.none};
    /* Each branch costs as much as a shuffle: this one tells apart what is nearly always the case, and all else. */
    const bool usual = size > 32u && portbar_whole_warps();
% if form.redux and redux:
    x = portbar_warp_reduce_${form.op}(x, 32u, true);
    if (usual) {
${leave("        ")}\
        /* Not in the call: the type would be promoted. */
        const ${form.kind} part = lane < count ? parts[lane] : none;
        return portbar_warp_reduce_${form.op}(part, 32u, true);
    }
    if (size <= 32u)
        return x;
${leave("    ")}\
    /* The last warp may have fewer lanes than there are parts. */
    x = none;
    for (uint i = lane; i < count; i += portbar_last_lane() + 1u)
        x = ${form.combine}(x, parts[i]);
    return portbar_warp_reduce_${form.op}(x, 32u, true);
% else:
    if (usual) {
        x = portbar_warp_reduce_${form.op}(x, 32u, true);
    } else {
        x = portbar_warp_reduce_${form.op}(x, 32u, false);
        if (size <= 32u)
            return x;
    }
${leave("    ")}\
% if form.size <= 8:
    if (count <= 8u) {
        /* Each work-item combines all values by itself, which takes less than shuffles do. The loads are on their way
           together. */
% for part in range(2, 8):
        const ${form.kind} part_${part} = count > ${part}u ? parts[${part}] : none;
% endfor
        const ${form.kind} low = ${form.combine}(parts[0], parts[1]);
        const ${form.kind} low_middle = ${form.combine}(part_2, part_3);
        const ${form.kind} high_middle = ${form.combine}(part_4, part_5);
        const ${form.kind} high = ${form.combine}(part_6, part_7);
        x = ${form.combine}(low, low_middle);
        return ${form.combine}(x, ${form.combine}(high_middle, high));
    }
% endif
    /* Not in the call: the type would be promoted. */
    const ${form.kind} part = lane < count ? parts[lane] : none;
    x = portbar_warp_reduce_${form.op}(part, 32u, true);
    if (usual)
        return x;
    /* The last warp may have fewer lanes than there are parts. */
    if (id == 0u)
        parts[PORTBAR_PARTS] = x;
    barrier(CLK_LOCAL_MEM_FENCE);
    return parts[PORTBAR_PARTS];
% endif
</%def>
<%def name="leave(indent)">\
${indent}scratch->turn ^= 1u;
${indent}if (lane == 0u)
${indent}    parts[id / 32u] = x;
${indent}barrier(CLK_LOCAL_MEM_FENCE);
</%def>
