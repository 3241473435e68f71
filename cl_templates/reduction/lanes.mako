## -*- coding: utf-8 -*-
## Reductions, scans and broadcasts over sub-groups and work-groups: their contracts. Bodies are defs of the lane
## level's template.
<%namespace name="own" file="${context['template']}"/>
<%def name="ids()">
${group()}
/* Linear id of the work-item in its work-group, and their number, for 1-, 2- and 3-dimensional local sizes. Caller:
   any work-item. Cost: a few integer operations. */
${defines("portbar_reduction_id")}
PORTBAR_COLLECTIVE uint portbar_reduction_id(void)
{
    return (uint)((get_local_id(2) * get_local_size(1) + get_local_id(1)) * get_local_size(0) + get_local_id(0));
}
${defines("portbar_reduction_size")}
PORTBAR_COLLECTIVE uint portbar_reduction_size(void)
{
#ifdef PORTBAR_REDUCTION_EXACT
    return PORTBAR_REDUCTION_LOCAL_SIZE;
#else
    return (uint)(get_local_size(0) * get_local_size(1) * get_local_size(2));
#endif
}
${end()}

${group()}
/* Sub-groups: the device's own, or PORTBAR_SUB_GROUP_SIZE work-items with consecutive linear local ids, fewer in the
   last one. Caller: any work-item. Cost: a few integer operations. */
${own.ids()}\
${end()}
${own.helpers()}\
</%def>
<%def name="operators()">
% for form in forms:
${group()}
/* One value of two, and the value that changes none. Any work-item. */
${defines(form.combine, of=form.kind)}
PORTBAR_COLLECTIVE ${form.kind} ${form.combine}(${form.kind} a, ${form.kind} b)
{
    ${form.body}
}
${defines(form.none)}
#define ${form.none} ${form.neutral}
${end()}
% endfor
</%def>
<%def name="functions()">
${own.warp_functions()}\
${level("sub_group", "the lanes", "lane", own.broadcast, own.reduce, own.scan)}
${level("work_group", "the linear local ids", "from", own.group_broadcast, own.group_reduce, own.group_scan)}
</%def>
<%def name="caller(name)">\
% if name == "work_group":
   Caller: all work-items of the work-group, in uniform control flow. Cost: one or two barriers, or a few per
   doubling. */
% else:
   Caller: all work-items of the sub-group, or of the work-group where the program defines PORTBAR_SUB_GROUP_SIZE, in
   uniform control flow. Cost: a built-in or shuffles where the device has them; none for sub-groups of one; else
   barriers as over a work-group. */
% endif
</%def>
<%def name="level(name, order, source, broadcast, reduce, scan)">\
% if (name, "broadcast", "") in wanted:
${group()}
/* The value of the member `${source}`, which is the same in all. Result: valid in every member.
${caller(name)}\
% for kind, size in kinds:
${defines(f"portbar_{name}_broadcast", of=kind)}
PORTBAR_COLLECTIVE ${kind} portbar_${name}_broadcast(private portbar_scratch *scratch, ${kind} x, uint ${source})
{
${combined(name, "x", lambda: broadcast(kind), virtual or name == "work_group")}\
}
% endfor
${end()}
% endif
% for form in forms:
% if (name, "reduce", form.op) in wanted:
${group()}
/* All values combined by `${form.op}`, in the order of ${order}. Result: valid in every member.
${caller(name)}\
${defines(f"portbar_{name}_reduce_{form.op}", of=form.kind)}
PORTBAR_COLLECTIVE ${form.kind} portbar_${name}_reduce_${form.op}(private portbar_scratch *scratch, ${form.kind} x)
{
${prepare(form)}\
${combined(name, "x", lambda: reduced(name, form, reduce))}\
}
${end()}
% endif
% for which, members in (("inclusive", "up to and with the caller"), ("exclusive", "before the caller")):
% if (name, f"scan_{which}", form.op) in wanted:
${group()}
/* The values of all members ${members}, combined by `${form.op}` in the order of ${order}.
   Result: for the caller; the neutral element where there is no value.
${caller(name)}\
${defines(f"portbar_{name}_scan_{which}_{form.op}", of=form.kind)}
PORTBAR_COLLECTIVE ${form.kind}
portbar_${name}_scan_${which}_${form.op}(private portbar_scratch *scratch, ${form.kind} x)
{
${prepare(form)}\
${combined(name, "x" if which == "inclusive" else form.none, lambda: scan(form, which))}\
}
${end()}
% endif
% endfor
% endfor
</%def>
<%def name="combined(level, own, several, asks=True)">\
% if level == "sub_group" and single:
    return ${own};
% else:
% if asks:
    if (${"PORTBAR_LANE_ALONE" if level == "sub_group" and virtual else "PORTBAR_ALONE"})
        return ${own};
% endif
${several()}\
% endif
</%def>
<%def name="reduced(name, form, reduce)">\
% if name == "work_group" and collectives and form.native:
#ifdef PORTBAR_COLLECTIVES
    return (${form.kind})work_group_reduce_${form.native}((${form.through})x);
#else
${reduce(form)}\
#endif
% else:
${reduce(form)}\
% endif
</%def>
<%def name="prepare(form)">\
% if form.prepare:
    ${form.prepare}
% endif
</%def>
