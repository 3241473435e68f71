## -*- coding: utf-8 -*-
## Reductions, scans and broadcasts over all participating work-groups of a grid, by a device barrier.
<%def name="values()">
% if gangs:
/* Everything below needs portbar/device_barrier.h, included first. */
#ifdef PORTBAR_DEVICE_BARRIER_H
/* Where each work-group leaves one value of a type: behind the barrier's own words in the hidden state. Two such areas are taken in turn;
   with a barrier between any two uses of one, nobody still reads what is overwritten. */
#define PORTBAR_GRID_LOCK(grid, number) ((grid)->state + PORTBAR_GRID_AREA(grid) + PORTBAR_LINE * (number))
#define PORTBAR_GRID_AREA(grid) <%text>\</%text>
    ((size_t)PORTBAR_STATE_GROUPS + 2u * (size_t)(grid)->capacity <%text>\</%text>
     + (((grid)->capacity + PORTBAR_TREE_FAN - 1u) / PORTBAR_TREE_FAN) * (size_t)PORTBAR_LINE)
#define PORTBAR_GRID_VALUES(kind, grid, scratch) <%text>\</%text>
    ((global PORTBAR_SLOT(kind) *)((grid)->state + PORTBAR_GRID_AREA(grid) + PORTBAR_LINE * ${len(loops)}u <%text>\</%text>
                                   + ((scratch)->device_turn & 1u) * (size_t)(grid)->capacity * ${grid_words}u))
#endif
% endif
</%def>
<%def name="device()">
% if gangs:
#ifdef PORTBAR_DEVICE_BARRIER_H
% for form in forms:
<%
    kind, combine, op = form.kind, form.combine, form.op
    neutral = f"PORTBAR_NEUTRAL_{form.op}_{form.kind}"
    after = "After a fault all get the neutral element, at once from then on."
%>
% if ("device", "reduce", op) in wanted:
/* What the device-wide functions share: `x` of the first work-item of each work-group, combined in the order of the groups. */
PORTBAR_COLLECTIVE ${kind} portbar_grid_combine_${op}(private portbar_grid *grid, private portbar_scratch *scratch, ${kind} x)
{
    ${form.prepare}
    ${kind} mine = x;
    const uint id = portbar_reduction_id(), size = portbar_reduction_size(), groups = grid->num_groups;
    global PORTBAR_SLOT(${kind}) *values = PORTBAR_GRID_VALUES(${kind}, grid, scratch);
    scratch->device_turn ^= 1u;
    if (id == 0u)
        values[grid->group_id] = mine;
    const bool held = portbar_device_barrier(grid);
% if folds:
    /* Groups are few here, as many as threads. */
    mine = values[0];
    for (uint i = 1; i < groups; ++i)
        mine = ${combine}(mine, values[i]);
    (void)size;
    if (!held)
        mine = ${neutral};
    return mine;
% else:
    mine = ${neutral};
% if form.commutative:
    for (uint i = id; i < groups; i += size)
        mine = ${combine}(mine, values[i]);
% else:
    const uint share = (groups + size - 1u) / size;
    for (uint i = min(id * share, groups); i < min((id + 1u) * share, groups); ++i)
        mine = ${combine}(mine, values[i]);
% endif
    /* Asked for behind the loads, whose time hides it. */
    if (!held)
        mine = ${neutral};
    return portbar_work_group_reduce_${op}(scratch, mine);
% endif
}
/* All values of all work-items of the grid combined by `${op}`, in the order of `portbar_global_id`; valid in every one of them. The
   result is the same in each launch with as many work-groups. Caller: all work-items of all participating work-groups, in uniform
   control flow. Cost: a device barrier and two reductions over the work-group. ${after} */
PORTBAR_COLLECTIVE ${kind} portbar_device_reduce_${op}(private portbar_grid *grid, private portbar_scratch *scratch, ${kind} x)
{
    return portbar_grid_combine_${op}(grid, scratch, portbar_work_group_reduce_${op}(scratch, x));
}
% endif
% for which in ("inclusive", "exclusive"):
% if ("device", f"scan_{which}", op) in wanted:
/* ${"The values of all work-items up to and with the caller" if which == "inclusive" else "The values of all work-items before the caller (the neutral element in the first)"}, combined by `${op}` in the order of
   `portbar_global_id`. Caller: all work-items of all participating work-groups, in uniform control flow. Cost: a device barrier, a scan and a
   reduction over the work-group. ${after} */
PORTBAR_COLLECTIVE ${kind} portbar_device_scan_${which}_${op}(private portbar_grid *grid, private portbar_scratch *scratch, ${kind} x)
{
    const uint id = portbar_reduction_id(), size = portbar_reduction_size(), group = grid->group_id;
    global PORTBAR_SLOT(${kind}) *values = PORTBAR_GRID_VALUES(${kind}, grid, scratch);
    scratch->device_turn ^= 1u;
% if which == "inclusive":
    x = portbar_work_group_scan_inclusive_${op}(scratch, x);
    const ${kind} through = x;
% else:
    const ${kind} mine = x;
    x = portbar_work_group_scan_exclusive_${op}(scratch, x);
    const ${kind} through = ${combine}(x, mine);
% endif
    if (id + 1u == size)
        values[group] = through;
    const bool held = portbar_device_barrier(grid);
    ${kind} before = ${neutral};
    const uint share = (group + size - 1u) / size;
    for (uint i = min(id * share, group); i < min((id + 1u) * share, group); ++i)
        before = ${combine}(before, values[i]);
    before = portbar_work_group_reduce_${op}(scratch, before);
    x = group == 0u ? x : ${combine}(before, x);
    if (!held)
        x = ${neutral};
    return x;
}
% endif
% endfor
% endfor
% for kind, size in kinds:
% if ("device", "broadcast", "") in wanted:
/* The value that the work-item with `portbar_global_id` `from` has, in all work-items of the grid. `from` is the same in all of them.
   Caller: all work-items of all participating work-groups, in uniform control flow. Cost: a device barrier. After a fault all get zero. */
PORTBAR_COLLECTIVE ${kind} portbar_device_broadcast(private portbar_grid *grid, private portbar_scratch *scratch, ${kind} x, uint from)
{
    global PORTBAR_SLOT(${kind}) *values = PORTBAR_GRID_VALUES(${kind}, grid, scratch);
    scratch->device_turn ^= 1u;
    if (grid->group_id * portbar_reduction_size() + portbar_reduction_id() == from)
        values[0] = x;
    const ${kind} zero = { 0 };
    const bool held = portbar_device_barrier(grid);
    x = values[0];
    if (!held)
        x = zero;
    return x;
}
% endif
% endfor
#endif
% endif
</%def>
<%def name="levels()">
<%!
    from portbar.primitives.reduction.types import Array

    def inner(level):
        """A level without its gangs."""
        return level.removeprefix("gang").removeprefix("_")

    def outside(arrays, op, every, mine):
        """`every`, with what is in no section from `mine`."""
        return f"portbar_outside_{op}(results, {every}, {mine})" if arrays else every
%>
#ifdef PORTBAR_DEVICE_BARRIER_H
% for each in loops:
<%
    L = f"{each.name}_local"
    R = f"{each.name}_results"
    op = each.name
    arrays = [name for name, kind in each.types.items() if isinstance(kind, Array)]
    number = loops.index(each)
%>
/* ---- `${op}` at gang level in kernels with a grid: results are valid in every work-item of every participating work-group, and in the
   receivers of those fields that have one. Caller of all steps: all work-items of all participating work-groups, in uniform control flow. */
% for level in ("gang", "gang_vector", "gang_worker", "gang_worker_vector"):
% if vectors or level != "gang_vector":
<% low = inner(level) %>
PORTBAR_COLLECTIVE ${L} ${op}_reduce_${level}(private portbar_grid *grid, private portbar_scratch *scratch, ${L} mine)
{
% if low:
    mine = ${op}_reduce_${low}(scratch, mine);
% endif
    return portbar_grid_combine_${op}(grid, scratch, mine);
}
PORTBAR_COLLECTIVE ${L} ${op}_setup_${level}(private portbar_grid *grid, private portbar_scratch *scratch, ${R} results, ${L} mine)
{
    (void)grid;
    (void)scratch;
    (void)results;
    return mine;
}
/* One work-item of the grid goes on from the start values, the receivers' where there are any. */
PORTBAR_COLLECTIVE ${L} ${op}_init_${level}(private portbar_grid *grid, private portbar_scratch *scratch, ${R} results, ${L} mine)
{
    (void)scratch;
    ${L} none = ${op}_identity();
    if (grid->group_id == 0u && portbar_reduction_id() == 0u)
        none = portbar_read_${op}(results, mine);
    return ${outside(arrays, op, "none", "mine")};
}
PORTBAR_COLLECTIVE ${L} ${op}_fini_${level}(private portbar_grid *grid, private portbar_scratch *scratch, ${R} results, ${L} mine)
{
    (void)results;
    const ${L} all = ${op}_reduce_${level}(grid, scratch, mine);
    return ${outside(arrays, op, "all", "mine")};
}
PORTBAR_COLLECTIVE ${L} ${op}_teardown_${level}(private portbar_grid *grid, private portbar_scratch *scratch, ${R} results, ${L} mine)
{
    (void)scratch;
    if (grid->group_id == 0u && portbar_reduction_id() == 0u)
        portbar_write_${op}(results, mine);
    return mine;
}
% endif
% endfor
/* As in kernels without a grid. A lock that cannot be had is not told to the host here. */
PORTBAR_COLLECTIVE bool ${op}_lock_gang(private portbar_grid *grid, private portbar_scratch *scratch)
{
    (void)scratch;
    return portbar_gang_take(PORTBAR_GRID_LOCK(grid, ${number}u));
}
PORTBAR_COLLECTIVE void ${op}_unlock_gang(private portbar_grid *grid, private portbar_scratch *scratch)
{
    (void)scratch;
    portbar_gang_give(PORTBAR_GRID_LOCK(grid, ${number}u));
}
% endfor
#endif
</%def>
