## -*- coding: utf-8 -*-
## Declared loops: their types, the steps of each level, and their locks. After the reduction design of GCC's OpenACC
## (N. Sidwell, 2015).
<%!
    from portbar.primitives.reduction import code, loops as declared
    from portbar.primitives.reduction.operators import finders
    from portbar.primitives.reduction.types import Array

    LEVELS = sorted(declared.LEVELS, key=lambda level: level.startswith("gang"))

    #: Which work-item of a group has a level's first value, without the gangs.
    FIRST = {
        "": "true",
        "vector": "portbar_sub_group_local_id() == 0u",
        "worker": "portbar_sub_group_id() == 0u",
        "worker_vector": "portbar_reduction_id() == 0u",
    }

    def inner(level):
        """A level without its gangs."""
        return level.removeprefix("gang").removeprefix("_")

    def arrays(loop):
        return [(name, kind) for name, kind in loop.types.items() if isinstance(kind, Array)]

    def outside(loop, every):
        """`every`, with what is in no section from the caller's own."""
        return f"portbar_outside_{loop.name}(results, {every}, mine)" if arrays(loop) else every

    def head(loop, step, level, grid=False, results=True):
        """The head of a step of a level."""
        parameters = ["private portbar_grid *grid"] * grid + ["private portbar_scratch *scratch"]
        parameters += [f"{loop.name}_results results"] * results + [f"{loop.name}_local mine"]
        return f"PORTBAR_COLLECTIVE {loop.name}_local\n{loop.name}_{step}_{level}({', '.join(parameters)})"

    def quoted(text):
        """Fit for the name in a #line directive."""
        return " ".join(text.replace("\\", "/").replace('"', "'").split())
%>
<%def name="types()">
% for part in indexed:
${defines(f"portbar_indexed_{part}")}
/* A value and where it was found; an index below 0 says that there is none. */
typedef struct {
    ${part} value;
    long index;
} portbar_indexed_${part};
% endfor
% for struct in structs:
${defines(struct.c)}
typedef struct {
% for line in code.struct_lines(struct):
    ${line}
% endfor
} ${struct.c};
% endfor
% for each in loops:
${defines(f"{each.name}_results")}
/* Destinations of the results of `${each.name}`, which also hold the start values; null pointers are skipped. Of an
   array only a section takes part: `_length` elements from `_offset`; a length of 0 means all. */
typedef struct {
% for name, kind in each.types.items():
    global ${kind.c} *${name};
% if isinstance(kind, Array):
    uint ${name}_offset, ${name}_length;
% endif
% endfor
} ${each.name}_results;
% endfor
</%def>
<%def name="better(part, function)">\
${defines(f"portbar_no_indexed_{part}", of=part)}
/* A negative index means empty. */
${function} portbar_indexed_${part} portbar_no_indexed_${part}(${part} worst)
{
    const portbar_indexed_${part} none = { worst, -1L };
    return none;
}
% for op, before in finders():
${defines(f"portbar_better_{op}", of=f"portbar_indexed_{part}")}
/* Whether `a` is the one to keep: the better value, the lower index where they are equal, a number rather than a NaN.
   */
${function} bool portbar_better_${op}(portbar_indexed_${part} a, portbar_indexed_${part} b)
{
    if (a.index < 0 || b.index < 0)
        return b.index < 0;
    if (a.value ${before} b.value || b.value ${before} a.value)
        return a.value ${before} b.value;
% if part in ("half", "float", "double"):
    if ((a.value == a.value) != (b.value == b.value))
        return a.value == a.value;
% endif
    return a.index <= b.index;
}
% endfor
</%def>
<%def name="indices()">
% for part in indexed:
${better(part, "PORTBAR_COLLECTIVE")}\
% endfor
% for each in loops:
% for name, kind, expression, neutral, title in code.custom(each):
## It stays always, so that a compiler reports mistakes in it.
${defines()}
/* The author's operator of ${title}. */
PORTBAR_COLLECTIVE ${kind} portbar_operator_${name}(${kind} a, ${kind} b)
{
#line 1 "operator '${quoted(expression)}' of ${title}"
    return (${expression});
}
PORTBAR_COLLECTIVE ${kind} portbar_neutral_${name}(void)
{
#line 1 "neutral element '${quoted(neutral)}' of ${title}"
    ${kind} neutral = ${neutral};
    return neutral;
}
#line 1 "portbar/reduction.h, after ${title}"
% endfor
${defines(f"{each.name}_identity")}
/* The local object that changes no other. Caller: any work-item. Cost: none: constants. */
PORTBAR_COLLECTIVE ${each.name}_local ${each.name}_identity(void)
{
    ${each.name}_local none;
% for line in code.neutral_lines(each, "none"):
    ${line}
% endfor
    return none;
}
% endfor
</%def>
<%def name="ids()">
${group()}
/* ---- Which member of a level the caller is, from 0, and how many members there are: for (i = id; i < n; i += count).
   The members of a level without vectors are sub-groups or work-groups, whose work-items all do the same; those of one
   without workers are in the first sub-group of each work-group, or in each sub-group where there is no gang either.
   At levels of gangs with vectors or workers alone, all work-groups have the same size. Caller: any work-item. Cost: a
   few integer operations. */
% for level in LEVELS:
<%
    low, gang = inner(level) if level.startswith("gang") else level, level.startswith("gang")
    # A device's own first sub-group may be smaller than its largest, as Intel's are in groups with short rows.
    lanes = "portbar_sub_group_size()" if level == "vector" or not virtual else "portbar_sub_group_max_size()"
    id, count = {
        "": ("0u", "1u"),
        "vector": ("portbar_sub_group_local_id()", lanes),
        "worker": ("portbar_sub_group_id()", "portbar_num_sub_groups()"),
        "worker_vector": ("portbar_reduction_id()", "portbar_reduction_size()"),
    }[low]
    forms = [("", "", id, count)]
    if gang:
        at = f"grid->group_id * {count} + {id}"
        forms = [("", "", f"portbar_gang_id() * {count} + {id}", f"portbar_gang_count() * {count}")]
        if level == "gang_worker_vector":
            forms = [("", "", f"portbar_items_before() + {id}", "portbar_items()")]
        guard, parameter = "#ifdef PORTBAR_DEVICE_BARRIER_H\n", "const private portbar_grid *grid"
        forms.append((guard, parameter, at, f"grid->num_groups * {count}"))
%>\
% for guard, parameter, place, all in forms:
% if guard:
${group()}
${guard}\
% endif
${defines(f"portbar_loop_id_{level}", of=parameter or "void")}
PORTBAR_COLLECTIVE uint portbar_loop_id_${level}(${parameter or "void"})
{
    return ${place};
}
${defines(f"portbar_loop_count_{level}", of=parameter or "void")}
PORTBAR_COLLECTIVE uint portbar_loop_count_${level}(${parameter or "void"})
{
    return ${all};
}
% if guard:
${end()}
#endif
% endif
% endfor
% endfor
${end()}
</%def>
<%def name="levels()">
% for each in loops:
<%
    op = each.name
    L, R = f"{op}_local", f"{op}_results"
%>
${defines(f"{op}_combine", of=L)}
/* Two local objects of `${op}` combined. Caller: any work-item. Cost: the operator, per field. */
PORTBAR_COLLECTIVE ${L} ${op}_combine(${L} a, ${L} b)
{
    return portbar_combine_${op}(a, b);
}
${group()}
/* `mine` with what the receivers hold; and receivers given what `mine` holds. One work-item for each receiver. */
${defines(f"portbar_read_{op}", of=R)}
PORTBAR_COLLECTIVE ${L} portbar_read_${op}(${R} results, ${L} mine)
{
${transfer(each, "mine.{0}", "results.{0}[i]", "*results.{0}", reads=True)}\
    return mine;
}
${defines(f"portbar_write_{op}", of=R)}
PORTBAR_COLLECTIVE void portbar_write_${op}(${R} results, ${L} mine)
{
${transfer(each, "mine.{0}", "results.{0}[i]", "*results.{0}", reads=False)}\
}
${end()}
% if arrays(each):
${defines(f"portbar_outside_{op}", of=R)}
/* `all`, with the elements of `mine` that are in no section. */
PORTBAR_COLLECTIVE ${L} portbar_outside_${op}(${R} results, ${L} all, ${L} mine)
{
% for name, kind in arrays(each):
    ${code.section(name, kind)}
        mine.${name}[i] = all.${name}[i];
    for (uint i = 0; i < ${kind.count}u; ++i)
        all.${name}[i] = mine.${name}[i];
% endfor
    return all;
}
% endif
${group()}
/* ---- Steps of `${op}` within work-groups: over the lanes of a sub-group (vector), over the sub-groups of a
   work-group, each with the value of its first lane (worker), or over all work-items of a work-group. setup is before
   the loop: the start values, in the first member from the receivers where there are any (it alone writes them, so that
   no barrier is needed). init is at its start: one member goes on from the start values, the others from the neutral
   element. fini is at its end: everything combined. teardown is after it: the receivers get the results. Caller: the
   sub-group at the level vector, unless the program defines PORTBAR_SUB_GROUP_SIZE, else all work-items of the
   work-group, in uniform control flow. Result: the new local object; after fini the same in every member. Cost: in
   fini, that of one reduction, however many fields. */
% for level in LEVELS[0 if vectors else 1:3]:
<% first = FIRST["vector" if level == "vector" else "worker_vector"] %>\
${steps(each, level, level, first, FIRST[level], False)}\
% endfor
${end()}
% endfor
</%def>
<%def name="transfer(each, local, array, scalar, reads)">\
% for name, kind in each.types.items():
<%
    held = isinstance(kind, Array)
    inside, outside_ = local.format(name) + ("[i]" if held else ""), (array if held else scalar).format(name)
%>\
    if (results.${name} != 0)
% if held:
        ${code.section(name, kind)}
% endif
        ${"    " if held else ""}${f"{inside} = {outside_}" if reads else f"{outside_} = {inside}"};
% endfor
</%def>
<%def name="steps(each, level, low, receiver, starts, grid)">\
<% op = each.name %>\
${defines(f"{each.name}_setup_{level}", of=f"{each.name}_local")}
${head(each, "setup", level, grid)}
{
% if receiver and not grid:
    if (${receiver})
        mine = portbar_read_${op}(results, mine);
% endif
    return mine;
}
${defines(f"{each.name}_init_{level}", of=f"{each.name}_local")}
${head(each, "init", level, grid)}
{
    ${op}_local none = ${op}_identity();
% if not receiver:
    ${op}_local within = none;
    if (${starts})
        within = mine;
    none = portbar_received_${op}(results, none, within);
% else:
    if (${starts})
        none = ${f"portbar_read_{op}(results, mine)" if grid else "mine"};
% endif
    return ${outside(each, "none")};
}
${defines(f"{each.name}_fini_{level}", of=f"{each.name}_local")}
${head(each, "fini", level, grid)}
{
% if not grid:
    PORTBAR_KEEP(mine);
% endif
    const ${op}_local all = ${f"{op}_reduce_{low}({'grid, ' if grid else ''}scratch, mine)" if low else "mine"};
% if not receiver:
    portbar_finish_${op}(scratch, results, all);
    PORTBAR_JOIN();
% endif
    return ${outside(each, "all")};
}
${defines(f"{each.name}_teardown_{level}", of=f"{each.name}_local")}
${head(each, "teardown", level, grid)}
{
% if receiver:
    if (${receiver})
        portbar_write_${op}(results, mine);
% endif
    return mine;
}
</%def>
<%def name="members()">
% for each in loops:
<% op = each.name %>\
${group()}
/* ---- All values of `${op}` of the members of a level combined, without start values and receivers. Caller: the
   sub-group at the level vector, unless the program defines PORTBAR_SUB_GROUP_SIZE, else all work-items of the
   work-group, in uniform control flow. Result: valid in every member. Cost: that of one reduction, however many fields.
   */
% if vectors:
${defines(f"{each.name}_reduce_vector", of=f"{each.name}_local")}
${head(each, "reduce", "vector", results=False)}
{
    return portbar_sub_group_reduce_${op}(scratch, mine);
}
% endif
${defines(f"{each.name}_reduce_worker", of=f"{each.name}_local")}
${head(each, "reduce", "worker", results=False)}
{
    ${op}_local one = ${op}_identity();
    if (portbar_sub_group_local_id() == 0u)
        one = mine;
    return portbar_work_group_reduce_${op}(scratch, one);
}
${defines(f"{each.name}_reduce_worker_vector", of=f"{each.name}_local")}
${head(each, "reduce", "worker_vector", results=False)}
{
    return portbar_work_group_reduce_${op}(scratch, mine);
}
${end()}
% endfor
</%def>
<%def name="gang_levels()">
% for each in loops:
<%
    op, number = each.name, loops.index(each)
    levels = [level for level in LEVELS if level.startswith("gang") and (vectors or level != "gang_vector")]
    first = "grid->group_id == 0u && portbar_reduction_id() == 0u"
%>\
${defines(f"portbar_received_{op}", of=f"{op}_results")}
/* Of two local objects, the fields that have a receiver from `with`, the others from `without`. */
PORTBAR_COLLECTIVE ${op}_local portbar_received_${op}(${op}_results results, ${op}_local with, ${op}_local without)
{
% for name, kind in each.types.items():
    if (results.${name} != 0)
        ${code.copy(kind, f"without.{name}", f"with.{name}")}
% endfor
    return without;
}
${group()}
/* ---- Steps of `${op}` over work-groups, with the lanes of the first sub-group of each (vector), their sub-groups
   (worker) or all their work-items, in a kernel without a grid, whose first parameter is PORTBAR_REDUCTION_PARAM. The
   start values are the receivers' own and come in at the end, so all go on from the neutral element. reduce is the
   last two steps, of values that started from it. Caller: all work-items of all work-groups, in control flow that is
   the same in all of them. Result: in the receivers when the kernel is complete; fields without a receiver stay within
   the work-group. Cost: in fini, a reduction over the work-group and an atomic per group; the last group combines the
   values of all. */
% for level in levels:
${steps(each, level, inner(level), "", FIRST[inner(level)], False)}\
${defines(f"{each.name}_reduce_{level}", of=f"{each.name}_local")}
${head(each, "reduce", level)}
{
    return ${op}_fini_${level}(scratch, results, mine);
}
% endfor
${end()}
${group()}
#ifdef PORTBAR_DEVICE_BARRIER_H
${group()}
/* ---- Steps of `${op}` over work-groups in kernels with a grid. One work-item of the grid adds the start values of
   the receivers, if any. Caller: all work-items of all participating work-groups, in uniform control flow. Order: as
   for portbar_device_barrier, in reduce and fini. Result: valid in every work-item of every participating work-group,
   and in the receivers of those fields that have one. Cost: in reduce and fini, a device barrier and two reductions
   over the work-group. */
% for level in levels:
${defines(f"{each.name}_reduce_{level}", of=f"{each.name}_local")}
${head(each, "reduce", level, True, False)}
{
% if inner(level):
    mine = ${op}_reduce_${inner(level)}(scratch, mine);
% endif
    return portbar_grid_combine_${op}(grid, scratch, mine);
}
${steps(each, level, level, first, first, True)}\
% endfor
${end()}
${group()}
/* The lock of `${op}` among the work-groups of a grid. A lock that cannot be acquired is not reported to the host.
   Caller: one work-item of a work-group, never several of one. Order: acquire and release of global memory, device
   scope. Result: false if it could not be acquired within some seconds. Cost: an atomic operation, and a load per
   poll. */
${defines(f"{op}_lock_gang")}
PORTBAR_COLLECTIVE bool ${op}_lock_gang(private portbar_grid *grid, private portbar_scratch *scratch)
{
    return portbar_gang_take(PORTBAR_GRID_LOCK(grid, ${number}u));
}
${defines(f"{op}_unlock_gang")}
PORTBAR_COLLECTIVE void ${op}_unlock_gang(private portbar_grid *grid, private portbar_scratch *scratch)
{
    portbar_gang_give(PORTBAR_GRID_LOCK(grid, ${number}u));
}
${end()}
${end()}
#endif
% endfor
</%def>
