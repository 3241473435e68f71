## -*- coding: utf-8 -*-
## Declared loops: their types, the steps of each level, and their locks. After the reduction design of GCC's OpenACC (N. Sidwell, 2015).
<%!
    from portbar.primitives.reduction import code
    from portbar.primitives.reduction.types import Array, declaration

    LEVELS = ("vector", "worker", "worker_vector", "gang", "gang_vector", "gang_worker", "gang_worker_vector")

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

    def section(name, kind):
        """The head of a loop over the elements of an array that take part."""
        taking_part = f"results.{name}_length == 0u || i - results.{name}_offset < results.{name}_length"
        return f"for (uint i = results.{name}_offset; i < {kind.count}u && ({taking_part}); ++i)"

    def outside(arrays, op, every, mine):
        """`every`, with what is in no section from `mine`."""
        return f"portbar_outside_{op}(results, {every}, {mine})" if arrays else every

    def quoted(text):
        """Fit for the name in a #line directive."""
        return " ".join(text.replace("\\", "/").replace('"', "'").split())
%>
<%def name="types()">
% for part in indexed:
/* A value and where it was found; an index below 0 says that there is none. */
typedef struct {
    ${part} value;
    long index;
} portbar_indexed_${part};
% endfor
% for struct in structs:
typedef struct {
% for line in code.struct_lines(struct):
    ${line}
% endfor
} ${struct.c};
% endfor
% for each in loops:
/* Where results of `${each.name}` go, and where their start values come from; a null pointer is none.${" Of an array only a section takes part, from `_offset` on `_length` elements; 0 for the length means all." if any(isinstance(k, Array) for k in each.types.values()) else ""} */
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
<%def name="indices()">
% for part in indexed:
PORTBAR_COLLECTIVE portbar_indexed_${part} portbar_no_indexed_${part}(${part} worst)
{
    const portbar_indexed_${part} none = { worst, -1L };
    return none;
}
% for op, before in (("argmin", "<"), ("argmax", ">")):
/* Whether `a` is to be kept of the two: ${"the smaller" if op == "argmin" else "the larger"} value, the lower index where they are equal, a number rather than what is none. */
PORTBAR_COLLECTIVE bool portbar_better_${op}(portbar_indexed_${part} a, portbar_indexed_${part} b)
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
% endfor
% for each in loops:
% for name, kind, expression, neutral, title in code.custom(each):
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
#line 1 "portbar/reduction.h, behind ${title}"
% endfor
/* The local object that changes no other. Any work-item. */
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
/* Which member of a level the caller is, from 0, and how many members there are: for (i = id; i < n; i += count). The members of
   a level without vectors are sub-groups or work-groups, whose work-items all do the same; those of one without workers are in the first
   sub-group of each work-group, or in each sub-group where there is no gang either. At levels of gangs with vectors or workers alone, all
   work-groups have the same size. Any work-item. */
% for level in LEVELS:
<%
    low = inner(level) if level.startswith("gang") else level
    # A device's own first sub-group may be smaller than its largest, as Intel's are in groups with short rows.
    own = level == "vector" or not virtual
    id, count = {
        "": ("0u", "1u"),
        "vector": ("portbar_sub_group_local_id()", "portbar_sub_group_size()" if own else "portbar_sub_group_max_size()"),
        "worker": ("portbar_sub_group_id()", "portbar_num_sub_groups()"),
        "worker_vector": ("portbar_reduction_id()", "portbar_reduction_size()"),
    }[low]
    gang = level.startswith("gang")
    before, all = (f"portbar_gang_id() * {count} + ", f"portbar_gang_count() * {count}") if gang else ("", count)
    if level == "gang_worker_vector":
        before, all = "portbar_items_before() + ", "portbar_items()"
%>
PORTBAR_COLLECTIVE uint portbar_loop_id_${level}(void)
{
    return ${before + id};
}
PORTBAR_COLLECTIVE uint portbar_loop_count_${level}(void)
{
    return ${all};
}
% if gang:
#ifdef PORTBAR_DEVICE_BARRIER_H
PORTBAR_COLLECTIVE uint portbar_loop_id_${level}(const private portbar_grid *grid)
{
    return grid->group_id * ${count} + ${id};
}
PORTBAR_COLLECTIVE uint portbar_loop_count_${level}(const private portbar_grid *grid)
{
    return grid->num_groups * ${count};
}
#endif
% endif
% endfor
</%def>
<%def name="levels()">
% for each in loops:
<%
    L = f"{each.name}_local"
    R = f"{each.name}_results"
    op = each.name
    arrays = [(name, kind) for name, kind in each.types.items() if isinstance(kind, Array)]
%>
/* Two local objects of `${op}` combined. Any work-item. */
PORTBAR_COLLECTIVE ${L} ${op}_combine(${L} a, ${L} b)
{
    return portbar_combine_${op}(a, b);
}
/* `local` with what the receivers hold, and receivers given what `local` holds. One work-item for each receiver. */
PORTBAR_COLLECTIVE ${L} portbar_read_${op}(${R} results, ${L} mine)
{
% for name, kind in each.types.items():
    if (results.${name} != 0)
% if isinstance(kind, Array):
        ${section(name, kind)}
            mine.${name}[i] = results.${name}[i];
% else:
        mine.${name} = *results.${name};
% endif
% endfor
    return mine;
}
PORTBAR_COLLECTIVE void portbar_write_${op}(${R} results, ${L} mine)
{
% for name, kind in each.types.items():
    if (results.${name} != 0)
% if isinstance(kind, Array):
        ${section(name, kind)}
            results.${name}[i] = mine.${name}[i];
% else:
        *results.${name} = mine.${name};
% endif
% endfor
}
% if arrays:
/* `all`, with the elements of `mine` that are in no section. */
PORTBAR_COLLECTIVE ${L} portbar_outside_${op}(${R} results, ${L} all, ${L} mine)
{
% for name, kind in arrays:
    ${section(name, kind)}
        mine.${name}[i] = all.${name}[i];
    for (uint i = 0; i < ${kind.count}u; ++i)
        all.${name}[i] = mine.${name}[i];
% endfor
    return all;
}
% endif
% for level in ("vector", "worker", "worker_vector") if vectors else ("worker", "worker_vector"):

/* ---- `${op}` over ${{"vector": "the lanes of a sub-group", "worker": "the sub-groups of a work-group, each with the value of its first lane", "worker_vector": "all work-items of a work-group"}[level]}. Each step returns the new local object. Caller of all
   steps: ${lane_caller if level == "vector" else "all work-items of the work-group, in uniform control flow"}. */
/* Before the loop: the start values, in the first member from the receivers where there are any (whoever writes them alone reads
   them, so that no barrier has to stand between). */
PORTBAR_COLLECTIVE ${L} ${op}_setup_${level}(private portbar_scratch *scratch, ${R} results, ${L} mine)
{
    (void)scratch;
    if (${FIRST["worker_vector"] if level != "vector" else FIRST["vector"]})
        mine = portbar_read_${op}(results, mine);
    return mine;
}
/* At its start: one ${"lane" if level == "vector" else "sub-group" if level == "worker" else "work-item"} goes on from the start values, the others from the neutral element. */
PORTBAR_COLLECTIVE ${L} ${op}_init_${level}(private portbar_scratch *scratch, ${R} results, ${L} mine)
{
    (void)scratch;
    ${L} none = ${op}_identity();
    if (${FIRST[level]})
        none = mine;
    return ${outside(arrays, op, "none", "mine")};
}
/* At its end: everything combined; valid in every ${"lane of the sub-group" if level == "vector" else "work-item of the work-group"}. Cost: that of one reduction, however many fields. */
PORTBAR_COLLECTIVE ${L} ${op}_fini_${level}(private portbar_scratch *scratch, ${R} results, ${L} mine)
{
    (void)results;
% if copies_shared:
    PORTBAR_KEEP(mine);
% endif
    const ${L} all = ${op}_reduce_${level}(scratch, mine);
    return ${outside(arrays, op, "all", "mine")};
}
/* After it: the receivers get the results. */
PORTBAR_COLLECTIVE ${L} ${op}_teardown_${level}(private portbar_scratch *scratch, ${R} results, ${L} mine)
{
    (void)scratch;
    if (${FIRST["worker_vector"] if level != "vector" else FIRST["vector"]})
        portbar_write_${op}(results, mine);
    return mine;
}
% endfor
% endfor
</%def>
<%def name="members()">
% for each in loops:
<%
    L = f"{each.name}_local"
    op = each.name
%>
/* All values of the members of a level combined, without start values and receivers; valid in every one of them. */
% if vectors:
PORTBAR_COLLECTIVE ${L} ${op}_reduce_vector(private portbar_scratch *scratch, ${L} mine)
{
    return portbar_sub_group_reduce_${op}(scratch, mine);
}
% endif
PORTBAR_COLLECTIVE ${L} ${op}_reduce_worker(private portbar_scratch *scratch, ${L} mine)
{
    ${L} one = ${op}_identity();
    if (portbar_sub_group_local_id() == 0u)
        one = mine;
    return portbar_work_group_reduce_${op}(scratch, one);
}
PORTBAR_COLLECTIVE ${L} ${op}_reduce_worker_vector(private portbar_scratch *scratch, ${L} mine)
{
    return portbar_work_group_reduce_${op}(scratch, mine);
}
% endfor
</%def>
<%def name="gang_levels()">
% for each in loops:
<%
    L = f"{each.name}_local"
    R = f"{each.name}_results"
    op = each.name
    arrays = [(name, kind) for name, kind in each.types.items() if isinstance(kind, Array)]
    number = loops.index(each)
%>
/* Of two local objects, the fields that have a receiver from `with`, the others from `without`. */
PORTBAR_COLLECTIVE ${L} portbar_received_${op}(${R} results, ${L} with, ${L} without)
{
% for name, kind in each.types.items():
    if (results.${name} != 0)
        ${code.copy(kind, f"without.{name}", f"with.{name}")}
% endfor
    return without;
}
% for level in ("gang", "gang_vector", "gang_worker", "gang_worker_vector"):
% if vectors or level != "gang_vector":
<% low = inner(level) %>
/* ---- `${op}` over work-groups${{"": "", "vector": " and the lanes of the first sub-group of each", "worker": " and their sub-groups", "worker_vector": " and all their work-items"}[low]}, in a kernel without a grid, whose first parameter is PORTBAR_REDUCTION_PARAM. Results are in the
   receivers when the kernel is complete; fields without a receiver stay within the work-group. Caller of all steps: all work-items
   of all work-groups, in control flow that is the same in all of them. */
PORTBAR_COLLECTIVE ${L} ${op}_setup_${level}(private portbar_scratch *scratch, ${R} results, ${L} mine)
{
    (void)scratch;
    (void)results;
    return mine;
}
/* The start values are the receivers' own and come in at the end, so all go on from the neutral element. */
PORTBAR_COLLECTIVE ${L} ${op}_init_${level}(private portbar_scratch *scratch, ${R} results, ${L} mine)
{
    (void)scratch;
    ${L} none = ${op}_identity();
    ${L} within = none;
    if (${FIRST[low]})
        within = mine;
    none = portbar_received_${op}(results, none, within);
    return ${outside(arrays, op, "none", "mine")};
}
PORTBAR_COLLECTIVE ${L} ${op}_fini_${level}(private portbar_scratch *scratch, ${R} results, ${L} mine)
{
% if copies_shared:
    PORTBAR_KEEP(mine);
% endif
% if low:
    const ${L} all = ${op}_reduce_${low}(scratch, mine);
% else:
    const ${L} all = mine;
% endif
    portbar_finish_${op}(scratch, results, all);
% if joins_lost:
    /* See the quirk pocl-break-after-return. */
    barrier(CLK_LOCAL_MEM_FENCE);
% endif
    return ${outside(arrays, op, "all", "mine")};
}
PORTBAR_COLLECTIVE ${L} ${op}_teardown_${level}(private portbar_scratch *scratch, ${R} results, ${L} mine)
{
    (void)scratch;
    (void)results;
    return mine;
}
/* The last two steps: values that started from the neutral element, into the receivers. */
PORTBAR_COLLECTIVE ${L} ${op}_reduce_${level}(private portbar_scratch *scratch, ${R} results, ${L} mine)
{
    return ${op}_fini_${level}(scratch, results, mine);
}
% endif
% endfor
% endfor
</%def>
