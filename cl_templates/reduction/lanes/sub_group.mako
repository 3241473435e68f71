## -*- coding: utf-8 -*-
## The device's own sub-groups and their functions; local memory for what these lack.
<%inherit file="reduction/lanes/tree.mako"/>
<%namespace name="tree" file="reduction/lanes/tree.mako"/>
<%!
    #: Whether to ask at run time if a work-group has one work-item, which saves it two barriers.
    ASKS_ALONE = True
    IDS = {
        "sub_group_size": "get_sub_group_size()",
        "sub_group_max_size": "min((uint)get_max_sub_group_size(), portbar_reduction_size())",
        "sub_group_local_id": "get_sub_group_local_id()",
        "sub_group_id": "get_sub_group_id()",
        "num_sub_groups": "get_num_sub_groups()",
    }
%>
<%def name="head()">\
${defines()}
#if !defined(__opencl_c_subgroups) && defined(cl_khr_subgroups)
#pragma OPENCL EXTENSION cl_khr_subgroups : enable
#endif
${defines("PORTBAR_LANE_BARRIER")}
#define PORTBAR_LANE_BARRIER() sub_group_barrier(CLK_LOCAL_MEM_FENCE)
</%def>
<%def name="ids()">\
${tree.functions(IDS)}\
</%def>
<%def name="reduce(form)">\
% if form.native:
    return (${form.kind})sub_group_reduce_${form.native}((${form.through})x);
% elif serial:
    const uint id = portbar_reduction_id();
    *PORTBAR_OWN(${form.kind}, scratch, id) = x;
    PORTBAR_LANE_BARRIER();
    /* The lanes of a small sub-group are those of a vector, which does the same in all of them as fast as in one. */
    const uint first = sub_group_broadcast(id, 0u), size = portbar_sub_group_size();
    ${form.kind} sum = *PORTBAR_OWN(${form.kind}, scratch, first);
    const uint most = size <= 64u || id == first ? size : 1u;
    for (uint i = 1; i < most; ++i)
        sum = ${form.combine}(sum, *PORTBAR_OWN(${form.kind}, scratch, first + i));
    if (size > 64u && id == first)
        for (uint i = 0; i < size; ++i)
            *PORTBAR_OWN(${form.kind}, scratch, first + i) = sum;
    PORTBAR_LANE_BARRIER();
    return size <= 64u ? sum : *PORTBAR_OWN(${form.kind}, scratch, id);
% else:
${tree.reduce(form)}\
% endif
</%def>
<%def name="scan(form, which)">\
% if not form.native:
${tree.scan(form, which)}\
% elif which == "inclusive" or form.through == form.kind:
    return (${form.kind})sub_group_scan_${which}_${form.native}((${form.through})x);
% else:
    const ${form.through} before = sub_group_scan_${which}_${form.native}((${form.through})x);
    return get_sub_group_local_id() == 0u ? ${form.none} : (${form.kind})before;
% endif
</%def>
<%def name="group_scan(form, which)">\
% if by_sub_groups:
${tree.scan_of_parts(form, which)}\
    barrier(CLK_LOCAL_MEM_FENCE);
    return x;
% else:
${tree.group_scan(form, which)}\
% endif
</%def>
<%def name="group_reduce(form)">\
% if by_sub_groups:
    local PORTBAR_SLOT(${form.kind}) *all = PORTBAR_ALL_SLOT(${form.kind}, scratch);
    const uint id = portbar_reduction_id();
    local PORTBAR_SLOT(${form.kind}) *parts = PORTBAR_PART_SLOTS(${form.kind}, scratch);
    x = portbar_sub_group_reduce_${form.op}(scratch, x);
    if (portbar_sub_group_local_id() == 0u)
        parts[portbar_sub_group_id()] = x;
    barrier(CLK_LOCAL_MEM_FENCE);
    if (id == 0u) {
        for (uint i = 1; i < portbar_num_sub_groups(); ++i)
            x = ${form.combine}(x, parts[i]);
        *all = x;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    return *all;
% else:
${tree.group_reduce(form)}\
% endif
</%def>
