## -*- coding: utf-8 -*-
## Lanes of NVIDIA's warps exchange values by shuffles; sub-groups leave one value each in local memory.
<%inherit file="reduction/lanes/tree.mako"/>
<%namespace name="tree" file="reduction/lanes/tree.mako"/>
<%namespace name="ptx" file="backend/ptx/lanes.mako"/>
<%def name="head()"></%def>
<%def name="slots()">\
/* Two areas with a value for each sub-group and one for all of them. Calls alternate between them: with a barrier in
   each call, no work-item lags by two calls. */
#define PORTBAR_PARTS ((PORTBAR_REDUCTION_LOCAL_SIZE + PORTBAR_SUB_GROUP_SIZE - 1) / PORTBAR_SUB_GROUP_SIZE)
#define PORTBAR_REDUCTION_SLOTS (2 * (PORTBAR_PARTS + 1))
#define PORTBAR_PART_SLOTS(kind, scratch) PORTBAR_AT(kind, scratch, ((scratch)->turn & 1u) * (PORTBAR_PARTS + 1))
</%def>
<%def name="helpers()">\
#define PORTBAR_WARP 0xffffffffu
/* How many work-items the warp has (the last one of a group may have fewer than 32), and the mask that names them,
   which is PORTBAR_WARP where there are 32. Every one of them must make the call that follows: a shuffle waits for all
   that its mask names. */
PORTBAR_COLLECTIVE uint portbar_warp_size(void)
{
#ifdef PORTBAR_REDUCTION_EXACT
    if (PORTBAR_REDUCTION_LOCAL_SIZE % 32u == 0u)
        return 32u;
#endif
    return min(portbar_reduction_size() - (portbar_reduction_id() & ~31u), 32u);
}
PORTBAR_COLLECTIVE uint portbar_warp_mask(uint size)
{
    return 0xffffffffu >> (32u - size);
}
${ptx.shuffles()}\
/* Values of other types, a word at a time. */
% for mode in ("up", "down", "bfly", "idx"):
% for kind, size in kinds:
% if kind != "uint":
<% words = -(-size // 4) %>\
PORTBAR_COLLECTIVE ${kind} portbar_shuffle_${mode}(${kind} v, uint by, uint mask)
{
% if kind in ("int", "float"):
    return as_${kind}(portbar_shuffle_${mode}(as_uint(v), by, mask));
% elif kind in ("char", "uchar", "short", "ushort"):
    return (${kind})portbar_shuffle_${mode}((uint)v, by, mask);
% elif kind in ("long", "ulong", "double"):
    const uint2 words = as_uint2(v);
    const uint2 found =
        (uint2)(portbar_shuffle_${mode}(words.x, by, mask), portbar_shuffle_${mode}(words.y, by, mask));
    return as_${kind}(found);
% else:
    union { ${kind} value; uint words[${words}]; } all;
    all.value = v;
% for word in range(words):
    all.words[${word}] = portbar_shuffle_${mode}(all.words[${word}], by, mask);
% endfor
    return all.value;
% endif
}
% endif
% endfor
% endfor
</%def>
<%def name="broadcast(kind)">\
    const uint first = portbar_reduction_id() & 31u & ~(PORTBAR_SUB_GROUP_SIZE - 1u);
    return portbar_shuffle_idx(x, first + lane, portbar_warp_mask(portbar_warp_size()));
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
/* The values of a sub-group combined, in all its lanes. Caller: all lanes of a whole warp. */
PORTBAR_COLLECTIVE ${form.kind} portbar_warp_reduce_${form.op}(${form.kind} x)
{
${whole_warp(form, "    ")}\
    return x;
}
% endif
% endfor
</%def>
<%def name="redux_of(form, mask, indent)">\
% if form.redux and redux:
${indent}if (PORTBAR_SUB_GROUP_SIZE == 32u) {
${indent}    ${form.kind} all;
${indent}    ${ptx.redux(form.redux, mask)}\
${indent}    return all;
${indent}}
% endif
</%def>
<%def name="whole_warp(form, indent)">\
## A mask that the compiler knows costs no looking for the lanes that it names.
${redux_of(form, "0xffffffff", indent)}\
${indent}/* After each step both of a pair have the same value. */
#pragma unroll
${indent}for (uint step = 1u; step < PORTBAR_SUB_GROUP_SIZE; step *= 2u) {
${indent}    const ${form.kind} other = portbar_shuffle_bfly(x, step, PORTBAR_WARP);
% if form.symmetric:
${indent}    x = ${form.combine}(x, other);
% else:
${indent}    const bool after = (portbar_reduction_id() & step) != 0u;
${indent}    x = ${form.combine}(after ? other : x, after ? x : other);
% endif
${indent}}
</%def>
<%def name="reduce(form)">\
    const uint id = portbar_reduction_id(), warp = portbar_warp_size();
    /* A whole warp, as nearly always. */
## Not by portbar_warp_reduce, which the work-group's reduction calls as well: NVIDIA's compiler merged the two calls, and
## sums of structures had other bits from run to run.
    if (warp == 32u) {
${whole_warp(form, "        ")}\
        return x;
    }
    const uint mask = portbar_warp_mask(warp);
${redux_of(form, "mask", "    ")}\
    const uint lane = id & (PORTBAR_SUB_GROUP_SIZE - 1u), size = portbar_sub_group_size();
#pragma unroll
    for (uint step = 1u; step < PORTBAR_SUB_GROUP_SIZE; step *= 2u) {
        const ${form.kind} other = portbar_shuffle_down(x, step, mask);
        if (lane + step < size)
            x = ${form.combine}(x, other);
    }
    return portbar_shuffle_idx(x, (id - lane) & 31u, mask);
</%def>
<%def name="scan(form, which)">\
    const uint lane = portbar_reduction_id() & (PORTBAR_SUB_GROUP_SIZE - 1u), warp = portbar_warp_size();
% if which == "exclusive":
    ${form.kind} shifted;
% endif
    if (warp == 32u) {
% for mask in ("PORTBAR_WARP", "mask"):
#pragma unroll
        for (uint step = 1u; step < PORTBAR_SUB_GROUP_SIZE; step *= 2u) {
            const ${form.kind} before = portbar_shuffle_up(x, step, ${mask});
            if (lane >= step)
                x = ${form.combine}(before, x);
        }
% if which == "exclusive":
        shifted = portbar_shuffle_up(x, 1u, ${mask});
% endif
% if mask == "PORTBAR_WARP":
    } else {
        const uint mask = portbar_warp_mask(warp);
% endif
% endfor
    }
% if which == "inclusive":
    return x;
% else:
    const ${form.kind} none = ${form.none};
    return lane == 0u ? none : shifted;
% endif
</%def>
<%def name="group_scan(form, which)">\
${tree.scan_of_parts(form, which)}\
    return x;
</%def>
<%def name="group_reduce(form)">\
    const uint size = portbar_reduction_size(), id = portbar_reduction_id();
    local PORTBAR_SLOT(${form.kind}) *parts = PORTBAR_PART_SLOTS(${form.kind}, scratch);
    if (PORTBAR_SUB_GROUP_SIZE == 32u && size % 32u == 0u && size > 32u) {
        /* Whole warps, as nearly always: one way through, with one barrier. */
        scratch->turn ^= 1u;
        const uint count = size / 32u;
        x = portbar_warp_reduce_${form.op}(x);
        if (id % 32u == 0u)
            parts[id / 32u] = x;
        barrier(CLK_LOCAL_MEM_FENCE);
        const ${form.kind} none = ${form.none};
% if form.size <= 8 and not (form.redux and redux):
        if (count <= 8u) {
            /* Each work-item combines all values by itself, which takes less than shuffles do. The loads are on their
               way together. */
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
        const ${form.kind} part = id % 32u < count ? parts[id % 32u] : none;
        return portbar_warp_reduce_${form.op}(part);
    }
    x = portbar_sub_group_reduce_${form.op}(scratch, x);
    const uint count = portbar_num_sub_groups();
    if (count == 1u)
        return x;
    const uint lane = portbar_sub_group_local_id();
    scratch->turn ^= 1u;
    if (lane == 0u)
        parts[portbar_sub_group_id()] = x;
    barrier(CLK_LOCAL_MEM_FENCE);
    if (portbar_reduction_id() == 0u) {
        for (uint i = 1; i < count; ++i)
            x = ${form.combine}(x, parts[i]);
        parts[PORTBAR_PARTS] = x;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    return parts[PORTBAR_PARTS];
</%def>
