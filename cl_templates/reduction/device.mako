## -*- coding: utf-8 -*-
## Reductions, scans and broadcasts over all participating work-groups of a grid, by a device barrier.
<%def name="prepare()">
${defines("PORTBAR_GRID_SLICES")}
/* Lines of slices, each with a counter. */
#define PORTBAR_GRID_SLICES ${grid_slices}u
${defines("PORTBAR_GRID_FLAT", "PORTBAR_GRID_SLICE")}
/* Most work-groups whose values each of them reads after the device barrier of a reduction, and fewest of a slice. */
#ifndef PORTBAR_GRID_FLAT
#define PORTBAR_GRID_FLAT ${grid_flat}u
#endif
#ifndef PORTBAR_GRID_SLICE
#define PORTBAR_GRID_SLICE ${grid_slice}u
#endif
${defines("portbar_slices_prepare")}
/* Sets the counters of slices. Caller: as for portbar_state_prepare. */
${once} void portbar_slices_prepare(volatile global uint *slices, uint4 launch)
{
    (void)launch;
    if ((uint)(get_num_groups(0) * get_num_groups(1) * get_num_groups(2)) > PORTBAR_GRID_FLAT)
        for (uint slice = 0; slice < PORTBAR_GRID_SLICES; ++slice)
            portbar_word_store(slices + slice * PORTBAR_LINE, 0u);
}
</%def>
<%def name="values()">
% if gangs:
${group()}
/* Everything below needs portbar/device_barrier.h, included first. */
#ifdef PORTBAR_DEVICE_BARRIER_H
${defines("PORTBAR_GRID_LOCK", "PORTBAR_GRID_VALUES", "PORTBAR_GRID_LEAVES_VALUES", "PORTBAR_GRID_GAVE_UP")}
/* Where each work-group leaves one value of a type. Two such areas are taken in turn; with a barrier between any two
   uses of one, no group still reads what is overwritten. A group at which a barrier gave up leaves no more values:
   others may still read what that barrier has let them. */
#define PORTBAR_GRID_LOCK(grid, number) <%text>\</%text>
    ((grid)->state + PORTBAR_STATE_LOOP_LOCKS((size_t)(grid)->capacity) + PORTBAR_LINE * (number))
#define PORTBAR_GRID_VALUES(kind, grid, scratch) <%text>\</%text>
    ((global PORTBAR_SLOT(kind) *)((grid)->state + PORTBAR_STATE_VALUES((size_t)(grid)->capacity) <%text>\</%text>
                                   + ((scratch)->device_turn & 1u) * (size_t)(grid)->capacity * ${grid_words}u))
#define PORTBAR_GRID_LEAVES_VALUES(scratch) ((scratch)->device_turn < 2u)
#define PORTBAR_GRID_GAVE_UP(scratch) ((scratch)->device_turn |= 2u)
${end()}
#endif
% endif
</%def>
<%def name="gather(form, into, count, step='1u', in_order=False)">\
    ${into} = ${form.none};
% if form.commutative and not in_order and form.size > 8:
    for (uint i = id * ${step}; i < ${count}; i += size * ${step})
        ${into} = ${form.combine}(${into}, values[i]);
% elif form.commutative and not in_order:
    /* Four loads are on their way together. */
    const uint apart = size * ${step};
    for (uint i = id * ${step}; i < ${count}; i += 4u * apart) {
        const ${form.kind} first = values[i];
        ${form.kind} second = ${form.none}, third = ${form.none}, fourth = ${form.none};
% for n, name in enumerate(("second", "third", "fourth"), 1):
        if (i + ${n}u * apart < ${count})
            ${name} = values[i + ${n}u * apart];
% endfor
        const ${form.kind} pair = ${form.combine}(first, second);
        ${into} = ${form.combine}(${into}, ${form.combine}(pair, ${form.combine}(third, fourth)));
    }
% else:
    const uint share = (${count} + size * ${step} - 1u) / (size * ${step}) * ${step};
    for (uint i = min(id * share, ${count}); i < min((id + 1u) * share, ${count}); i += ${step})
        ${into} = ${form.combine}(${into}, values[i]);
% endif
</%def>
<%def name="device()">
% if gangs:
${group()}
#ifdef PORTBAR_DEVICE_BARRIER_H
% if not serial:
${defines("portbar_grid_slice")}
/* Work-groups of a slice: neighbours, of whose values the last one to come makes one, where groups are many. */
PORTBAR_COLLECTIVE uint portbar_grid_slice(private const portbar_grid *grid)
{
    const uint least = (grid->num_groups + PORTBAR_GRID_SLICES - 1u) / PORTBAR_GRID_SLICES;
    return grid->num_groups > PORTBAR_GRID_FLAT ? max((uint)PORTBAR_GRID_SLICE, least) : 1u;
}

${defines("portbar_grid_slice_is_last")}
/* Whether the caller's work-group is the last of its slice to come, as in the reductions of CUDA's sample
   threadFenceReduction. Caller: all work-items of the work-group. Order: acquire and release, device scope, with the
   groups of the slice that came before. Result: the same in all. Cost: an atomic and a work-group barrier. */
PORTBAR_COLLECTIVE bool portbar_grid_slice_is_last(private portbar_grid *grid, uint slice)
{
    if (portbar_reduction_id() == 0u) {
        const uint number = grid->group_id / slice, members = min(slice, grid->num_groups - number * slice);
        volatile global uint *counter = grid->state + PORTBAR_STATE_SLICES((size_t)grid->capacity) + number * PORTBAR_LINE;
        const bool last = portbar_word_add_release(counter, 1u) + 1u == members;
        if (last) {
            portbar_word_acquire(counter);
            /* The next reduction counts in it again, after the barrier of this one. */
            portbar_word_store(counter, 0u);
        }
        grid->shared[PORTBAR_SHARED_LAST] = last ? 1u : 0u;
    }
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
    return grid->shared[PORTBAR_SHARED_LAST] != 0u;
}
% endif
% for form in forms:
% if ("device", "reduce", form.op) in wanted and form.vote:
${group()}
/* Whether ${form.vote} of the values are true, by `${form.op}`. Caller: all work-items of all participating
   work-groups, in uniform control flow. Order: that of portbar_device_barrier. Result: 1 or 0, valid in every
   work-item; after a fault the neutral element, at once from then on. Cost: a device barrier, with which the votes
   travel. */
${defines(f"portbar_device_reduce_{form.op}", of=form.kind)}
PORTBAR_COLLECTIVE ${form.kind}
portbar_device_reduce_${form.op}(private portbar_grid *grid, private portbar_scratch *scratch, ${form.kind} x)
{
    (void)scratch;
    return (${form.kind})(portbar_device_barrier_${form.vote}(grid, x != 0) ? 1 : 0);
}
${end()}
% elif ("device", "reduce", form.op) in wanted:
% if not serial:
${group()}
/* Every `step`-th of the first `count` values, combined in their order; valid in all work-items of the work-group.
   Caller: all of them, in uniform control flow. */
${defines(f"portbar_grid_gather_{form.op}", of=form.kind)}
PORTBAR_COLLECTIVE ${form.kind}
portbar_grid_gather_${form.op}(private portbar_scratch *scratch, global const PORTBAR_SLOT(${form.kind}) *values,
                               uint count, uint step)
{
    ${form.kind} mine;
    const uint id = portbar_reduction_id(), size = portbar_reduction_size();
${gather(form, "mine", "count", "step")}\
    return portbar_work_group_reduce_${form.op}(scratch, mine);
}
${end()}
% endif
${group()}
/* Shared by the device-wide functions: `x` of the first work-item of each work-group, combined in the order of the
   groups. */
${defines(f"portbar_grid_combine_{form.op}", of=form.kind)}
PORTBAR_COLLECTIVE ${form.kind}
portbar_grid_combine_${form.op}(private portbar_grid *grid, private portbar_scratch *scratch, ${form.kind} x)
{
% if form.prepare:
    ${form.prepare}
% endif
    ${form.kind} mine = x;
    const uint id = portbar_reduction_id(), groups = grid->num_groups;
    global PORTBAR_SLOT(${form.kind}) *values = PORTBAR_GRID_VALUES(${form.kind}, grid, scratch);
    scratch->device_turn ^= 1u;
    if (id == 0u && PORTBAR_GRID_LEAVES_VALUES(scratch))
        values[grid->group_id] = mine;
% if serial:
    const bool held = portbar_device_barrier(grid);
    /* Groups are few here, as many as threads. */
    mine = values[0];
    for (uint i = 1; i < groups; ++i)
        mine = ${form.combine}(mine, values[i]);
% else:
    const uint slice = portbar_grid_slice(grid);
    if (slice > 1u && PORTBAR_GRID_LEAVES_VALUES(scratch) && portbar_grid_slice_is_last(grid, slice)) {
        /* In place of the value of the slice's first group. */
        const uint first = grid->group_id - grid->group_id % slice;
        mine = portbar_grid_gather_${form.op}(scratch, values + first, min(slice, groups - first), 1u);
        if (id == 0u)
            values[first] = mine;
    }
    const bool held = portbar_device_barrier(grid);
    mine = portbar_grid_gather_${form.op}(scratch, values, groups, slice);
% endif
    /* Asked for after the loads, whose time hides it. */
    if (!held) {
        mine = ${form.none};
        PORTBAR_GRID_GAVE_UP(scratch);
    }
    return mine;
}
${end()}
${group()}
/* All values combined by `${form.op}`, in the order of `portbar_global_id`. Caller: all work-items of all
   participating work-groups, in uniform control flow. Order: that of portbar_device_barrier. Result: valid in every
   work-item, and the same in each launch with as many work-groups; after a fault the neutral element, at once from
   then on. Cost: a device barrier, and two reductions over the work-group. */
${defines(f"portbar_device_reduce_{form.op}", of=form.kind)}
PORTBAR_COLLECTIVE ${form.kind}
portbar_device_reduce_${form.op}(private portbar_grid *grid, private portbar_scratch *scratch, ${form.kind} x)
{
    return portbar_grid_combine_${form.op}(grid, scratch, portbar_work_group_reduce_${form.op}(scratch, x));
}
${end()}
% endif
% for which, members in (("inclusive", "up to and with the caller"), ("exclusive", "before the caller")):
% if ("device", f"scan_{which}", form.op) in wanted:
${group()}
/* The values of all work-items ${members}, combined by `${form.op}` in the order of `portbar_global_id`.
   Caller: all work-items of all participating work-groups, in uniform control flow. Order: that of
   portbar_device_barrier. Result: for the caller; the neutral element where there is no value, and after a fault, at once
   from then on. Cost: a device barrier, and a scan and a reduction over the work-group. */
${defines(f"portbar_device_scan_{which}_{form.op}", of=form.kind)}
PORTBAR_COLLECTIVE ${form.kind}
portbar_device_scan_${which}_${form.op}(private portbar_grid *grid, private portbar_scratch *scratch, ${form.kind} x)
{
    const uint id = portbar_reduction_id(), size = portbar_reduction_size(), group = grid->group_id;
    global PORTBAR_SLOT(${form.kind}) *values = PORTBAR_GRID_VALUES(${form.kind}, grid, scratch);
    scratch->device_turn ^= 1u;
% if which == "exclusive":
    const ${form.kind} mine = x;
% endif
    x = portbar_work_group_scan_${which}_${form.op}(scratch, x);
    if (id + 1u == size && PORTBAR_GRID_LEAVES_VALUES(scratch))
        values[group] = ${"x" if which == "inclusive" else f"{form.combine}(x, mine)"};
    const bool held = portbar_device_barrier(grid);
    ${form.kind} before;
${gather(form, "before", "group", in_order=True)}\
    before = portbar_work_group_reduce_${form.op}(scratch, before);
    x = group == 0u ? x : ${form.combine}(before, x);
    if (!held) {
        x = ${form.none};
        PORTBAR_GRID_GAVE_UP(scratch);
    }
    return x;
}
${end()}
% endif
% endfor
% endfor
% for kind, size in kinds:
% if ("device", "broadcast", "") in wanted:
${group()}
/* The value that the work-item with `portbar_global_id` `from` has, in all of them. Caller: all work-items of all
   participating work-groups, in uniform control flow, with one `from`. Order: that of portbar_device_barrier. Result:
   valid in every work-item; after a fault zero. Cost: a device barrier. */
${defines("portbar_device_broadcast", of=kind)}
PORTBAR_COLLECTIVE ${kind}
portbar_device_broadcast(private portbar_grid *grid, private portbar_scratch *scratch, ${kind} x, uint from)
{
    global PORTBAR_SLOT(${kind}) *values = PORTBAR_GRID_VALUES(${kind}, grid, scratch);
    scratch->device_turn ^= 1u;
    const uint id = grid->group_id * portbar_reduction_size() + portbar_reduction_id();
    if (id == from && PORTBAR_GRID_LEAVES_VALUES(scratch))
        values[0] = x;
    const ${kind} zero = { 0 };
    const bool held = portbar_device_barrier(grid);
    x = values[0];
    if (!held) {
        x = zero;
        PORTBAR_GRID_GAVE_UP(scratch);
    }
    return x;
}
${end()}
% endif
% endfor
${end()}
#endif
% endif
</%def>
