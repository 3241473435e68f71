## -*- coding: utf-8 -*-
## The kernels of portbar.reduce: an array to one value of each output in one launch, or each of its rows.
<%namespace name="loops" file="reduction/loops.mako"/>
<%namespace name="ptx" file="backend/ptx/lanes.mako"/>
<%def name="prelude()">
% for extension in job.extensions:
#pragma OPENCL EXTENSION ${extension} : enable
% endfor
% if job.fixed:
#pragma OPENCL FP_CONTRACT OFF
% endif
% for text in job.typedefs:
${text}
% endfor
/* One value of each output. */
typedef struct {
% for out in job.outputs:
    ${out.c} o${out.place};
% endfor
} portbar_item;
</%def>
<%def name="indexed()">
% for part in job.indexed:
${loops.better(part, "static inline")}\
% endfor
</%def>
<%def name="functions()">
% for out in job.outputs:
${out.functions}
% endfor
static inline portbar_item portbar_join(const portbar_item a, const portbar_item b)
{
    portbar_item both;
% for out in job.outputs:
    both.o${out.place} = portbar_combine_${out.place}(a.o${out.place}, b.o${out.place});
% endfor
    return both;
}
static inline portbar_item portbar_neutral_item(void)
{
    portbar_item none;
% for out in job.outputs:
    none.o${out.place} = portbar_neutral_${out.place}();
% endfor
    return none;
}
</%def>
<%def name="tree()">
% if job.team > 1:
% if job.shuffles:
${ptx.item_from()}\
% endif
/* The values of ${job.team} work-items combined, neighbours first: a binary tree over their ids, so that the order is
   kept and the shape is the same on every device. Caller: all work-items of the group. Result: valid in the first of
   the ${job.team}. `room` may be used again after the next barrier. */
static inline __attribute__((always_inline)) portbar_item portbar_tree(portbar_item own, local portbar_item *room)
{
    const uint id = (uint)get_local_id(0);
% if job.shuffles:
% for step in (1, 2, 4, 8, 16):
% if step < job.team:
    own = portbar_join(own, portbar_from(own, ${step}u));
% endif
% endfor
% if job.team > 32:
    if ((id & 31u) == 0u)
        room[id / 32u] = own;
    barrier(CLK_LOCAL_MEM_FENCE);
    if (id < 32u) {
        own = room[id & ${job.team // 32 - 1}u];
% for step in (1, 2, 4, 8, 16):
% if step < job.team // 32:
        own = portbar_join(own, portbar_from(own, ${step}u));
% endif
% endfor
    }
% endif
% else:
    room[id] = own;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint step = 1; step < ${job.team}u; step *= 2u) {
        if ((id & (2u * step - 1u)) == 0u) {
            own = portbar_join(own, room[id + step]);
            room[id] = own;
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
% endif
    return own;
}
% endif
</%def>
<%def name="tagged()">
% if job.tagged:
${ptx.tagged()}\
% else:
#define PORTBAR_FOUND(k) mine[k]
% endif
</%def>
<%def name="parameters()">
% for array in job.inputs:
    global const ${array.c} *restrict in${array.place}, const ulong offset${array.place},
% endfor
% for out in job.outputs:
    global ${out.c} *to${out.place}, const ulong to_offset${out.place},
% if out.output.start:
    const ${out.c} start${out.place},
% endif
% endfor
</%def>
<%def name="accumulators()">
    /* One accumulator for each element of a load, ${job.layout.shape.sets} times. */
% for out in job.outputs:
% if job.loops:
<% count = job.sets * (1 if out.vectors else job.vector) %>\
    ${out.lane_type} a${out.place}[${count}];
    for (uint s = 0; s < ${count}u; ++s)
        a${out.place}[s] = ${out.lane_neutral};
% else:
## Set after the declaration: llvmpipe (Mesa 22.3) loses values of structures that are initialised there.
% for name in out.lanes:
    ${out.lane_type} ${name};
    ${name} = ${out.lane_neutral};
% endfor
% endif
% endfor
</%def>
<%def name="tile_body()">
% if job.loops:
        for (uint load = 0; load < ${job.layout.shape.loads}u; ++load) {
            const uint s = load & ${job.sets - 1}u;
            const ulong at = e + (ulong)(load * ${job.team}u + id) * ${job.vector}u;
% for array in job.inputs:
            const ${array.load_type} v${array.place} = ${array.load(f"x{array.place} + at")};
% endfor
% for out in job.outputs:
% for line in out.take("s", "at", ["v%d" % array.place for array in job.inputs]):
            ${line}
% endfor
% endfor
        }
% else:
% for s in range(job.layout.shape.loads):
        const ulong at${s} = e + (ulong)(${s * job.team}u + id) * ${job.vector}u;
% for array in job.inputs:
        const ${array.load_type} v${array.place}_${s} = ${array.load(f"x{array.place} + at{s}")};
% endfor
% endfor
% for s in range(job.layout.shape.loads):
% for out in job.outputs:
% for line in out.take(s % job.sets, f"at{s}", [f"v{array.place}_{s}" for array in job.inputs]):
        ${line}
% endfor
% endfor
% endfor
% endif
</%def>
<%def name="rest()">
% if job.fixed:
        /* Each element goes to the lane that it would have in a whole tile. */
        for (uint load = 0; load < ${job.layout.shape.loads}u; ++load) {
            const ulong at = e + (ulong)(load * ${job.team}u + id) * ${job.vector}u;
% if job.loops:
            const uint s = load & ${job.sets - 1}u;
% endif
% for c in range(job.vector):
            if (at + ${c}u < end) {
% for out in job.outputs:
                ${out.take_one("s" if job.loops else 0, c, f"at + {c}u")}
% endfor
            }
% endfor
        }
% else:
        for (ulong at = e + id; at < end; at += ${job.team}u) {
% for out in job.outputs:
            ${out.take_one(0, 0, "at")}
% endfor
        }
% endif
</%def>
<%def name="gather()">
% if job.loops:
    /* Neighbouring sets are combined first: `depth` sub-trees wait for their neighbours. */
    portbar_item waiting[${job.sets.bit_length() + 1}];
    uint depth = 0;
    for (uint s = 0; s < ${job.sets}u; ++s) {
        portbar_item own;
% for out in job.outputs:
        ${out.fold("own.o%d" % out.place, "s")}
% endfor
% if job.team > 1:
        own = portbar_tree(own, room);
        barrier(CLK_LOCAL_MEM_FENCE);
% endif
        for (uint k = s; (k & 1u) != 0u; k >>= 1)
            own = portbar_join(waiting[--depth], own);
        waiting[depth++] = own;
    }
    portbar_item own = waiting[0];
% else:
    portbar_item own;
% for out in job.outputs:
    ${out.fold("own.o%d" % out.place, None)}
% endfor
% if job.team > 1:
    own = portbar_tree(own, room);
% endif
% endif
</%def>
<%def name="ordered()">
    /* The operator does not commute: each work-item takes a run of neighbours, one after another. */
    const ulong first = 0;
    const ulong run = (end - begin + ${job.team - 1}u) / ${job.team}u;
    const ulong from = min(begin + id * run, end), until = min(from + run, end);
    portbar_item own = portbar_neutral_item();
    for (ulong at = from; at < until; ++at) {
% for out in job.outputs:
        own.o${out.place} = portbar_combine_${out.place}(own.o${out.place}, ${out.mapped_at("at")});
% endfor
    }
% if job.team > 1:
    own = portbar_tree(own, room);
% endif
</%def>
<%def name="finish(row)">
% for out in job.outputs:
% if out.output.start:
        to${out.place}[to_offset${out.place} + ${row}] =
            portbar_combine_${out.place}(start${out.place}, own.o${out.place});
% else:
        to${out.place}[to_offset${out.place} + ${row}] = own.o${out.place};
% endif
% endfor
</%def>
<%def name="split()">
/* Each row by `groups` work-groups. The group that is the last to finish combines what all of
   them found, in the order of their ids, and leaves the counter as it found it. */
kernel __attribute__((reqd_work_group_size(${job.local}, 1, 1)))
void portbar_reduce(
${parameters()}\
    const ulong columns, const ulong part, const uint groups, const uint head,
    ${"volatile global ulong" if job.tagged else "global portbar_item"} *found,
    volatile global uint *counters${", volatile global uint *cells" if job.atomic else ""})
{
    const uint id = (uint)get_local_id(0);
    const ulong row = get_group_id(0) / groups;
    const uint group = (uint)(get_group_id(0) - row * groups);
% for array in job.inputs:
    global const ${array.c} *restrict x${array.place} = in${array.place} + offset${array.place} + row * columns;
% endfor
% if job.local > 1:
    local portbar_item room[${job.room}];
    local uint last_of_all;
% endif
% if job.tagged:
    /* Read here, off the critical path. The last group of the launch writes the next one only after it has found
       this one in the parts of every group, so each group has read this one. */
    const uint tag = *(volatile global uint *)found + 1u;
% endif
% if job.ordered:
    const ulong begin = min((ulong)group * part, columns), end = min(begin + part, columns);
${ordered()}\
% else:
${accumulators()}\
% if job.peels:
    /* Elements before the first that is aligned as loads need it. */
    ulong first = 0;
    if (group == 0u && id < head) {
% for out in job.outputs:
        ${out.take_one(0, 0, "(ulong)id")}
% endfor
    }
% for array in job.inputs:
    x${array.place} += head;
% endfor
    first = head;
    const ulong size = columns - head;
% else:
    const ulong first = 0, size = columns;
% endif
% if job.layout.shape.strided:
    const ulong step = (ulong)groups * ${job.layout.tile}u, end = size;
    ulong e = (ulong)group * ${job.layout.tile}u;
% else:
    const ulong step = ${job.layout.tile}u;
    ulong e = (ulong)group * part;
    const ulong end = min(e + part, size);
% endif
    for (; e + ${job.layout.tile}u <= end; e += step) {
${tile_body()}\
    }
    if (e < end) {
${rest()}\
    }
${gather()}\
% endif
    if (groups == 1u) {
% if job.local > 1:
        if (id == 0u) {
% else:
        {
% endif
${finish("row")}\
        }
        return;
    }
% if job.atomic:
    if (id == 0u) {
        volatile global uint *cell = cells + row * ${2 * len(job.outputs)}u;
% for out in job.outputs:
        portbar_atomic_${out.output.op.atomic}_explicit((volatile global ${out.c} *)(cell + ${2 * out.place}u), own.o${out.place},
                                   memory_order_relaxed, memory_scope_device);
% endfor
        if (portbar_word_add(counters + row, 1u) + 1u == groups) {
            portbar_word_store(counters + row, 0u);
% for out in job.outputs:
            volatile global ${out.c} *sum${out.place} = (volatile global ${out.c} *)(cell + ${2 * out.place}u);
            own.o${out.place} =
                portbar_atomic_load_explicit(sum${out.place}, memory_order_relaxed, memory_scope_device);
            portbar_atomic_store_explicit(
                sum${out.place}, portbar_neutral_${out.place}(), memory_order_relaxed, memory_scope_device);
% endfor
${finish("row")}\
        }
    }
% else:
% if job.tagged:
    if (id == 0u) {
        portbar_leave(found + 1u + group * PORTBAR_ITEM_WORDS, own, tag);
        last_of_all = portbar_count_one(counters) + 1u == groups;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    if (last_of_all == 0u)
        return;
% else:
    global portbar_item *const mine = found + row * groups;
% if job.local > 1:
    if (id == 0u) {
        mine[group] = own;
        /* Releases what this group found, and acquires what the others did; the barrier hands that on to the whole
           group. */
        last_of_all = portbar_word_add(counters + row, 1u) + 1u == groups;
    }
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
    if (last_of_all == 0u)
        return;
% else:
    mine[group] = own;
    if (portbar_word_add(counters + row, 1u) + 1u != groups)
        return;
% endif
% endif
    own = portbar_neutral_item();
% if job.fixed:
    /* The same binary tree over the parts, filled up to a power of two; each work-item has a sub-tree of it. */
    uint all = ${job.team}u;
    while (all < groups)
        all *= 2u;
    const uint run = all / ${job.team}u;
    portbar_item waits[${job.parts_depth}];
    uint waiting_trees = 0;
    for (uint k = 0; k < run; ++k) {
        const uint which = id * run + k;
        own = portbar_neutral_item();
        if (which < groups)
            own = PORTBAR_FOUND(which);
        for (uint b = k; (b & 1u) != 0u; b >>= 1)
            own = portbar_join(waits[--waiting_trees], own);
        waits[waiting_trees++] = own;
    }
    own = waits[0];
% elif job.ordered:
    const uint run_of = (groups + ${job.team - 1}u) / ${job.team}u;
    for (uint k = id * run_of; k < min((id + 1u) * run_of, groups); ++k)
        own = portbar_join(own, PORTBAR_FOUND(k));
% else:
    for (uint k = id; k < groups; k += ${job.team}u)
        own = portbar_join(own, PORTBAR_FOUND(k));
% endif
% if job.team > 1:
    own = portbar_tree(own, room);
    if (id == 0u) {
% else:
    {
% endif
        portbar_word_store(counters + row, 0u);
% if job.tagged:
        *(volatile global uint *)found = tag;
% endif
${finish("row")}\
    }
% endif
}
</%def>
<%def name="teams()">
/* Each row by a team of work-items, ${job.team} of a group; a team takes `each` rows one after another. */
kernel __attribute__((reqd_work_group_size(${job.local}, 1, 1)))
void portbar_reduce(
${parameters()}\
    const ulong columns, const ulong rows, const ulong each)
{
    const uint id = (uint)get_local_id(0) & ${job.team - 1}u;
    const ulong team = get_group_id(0) * ${job.local // job.team}u + get_local_id(0) / ${job.team}u;
% if job.local > 1 and job.team > 1:
    local portbar_item room[${job.room}];
% endif
    for (ulong k = 0; k < each; ++k) {
        const ulong row = team * each + k;
        /* Work-items without a row contribute nothing to the following steps. */
        const ulong size = row < rows ? columns : 0;
% for array in job.inputs:
        global const ${array.c} *restrict x${array.place} =
            in${array.place} + offset${array.place} + (row < rows ? row * columns : 0);
% endfor
% if job.ordered:
        const ulong begin = 0, end = size;
${ordered()}\
% else:
        const ulong first = 0, end = size;
${accumulators()}\
        ulong e = 0;
<% tile = job.team * job.layout.shape.loads * job.vector %>\
        for (; e + ${tile}u <= end; e += ${tile}u) {
${tile_body()}\
        }
        if (e < end) {
${rest()}\
        }
${gather()}\
% endif
        if (id == 0u && row < rows) {
${finish("row")}\
        }
    }
}
</%def>
<%def name="columns()">
/* Each column by the work-items that share its index; rows are dealt to `get_num_groups(1)` work-groups, the last of
   which combines what all of them found. */
kernel __attribute__((reqd_work_group_size(${job.local}, 1, 1)))
void portbar_reduce(
${parameters()}\
    const ulong rows, const ulong columns, const ulong part,
    global portbar_item *found, volatile global uint *counters)
{
    const ulong column = get_global_id(0);
    const uint groups = (uint)get_num_groups(1), group = (uint)get_group_id(1);
    const ulong begin = min((ulong)group * part, rows), end = min(begin + part, rows);
% for array in job.inputs:
    global const ${array.c} *restrict x${array.place} = in${array.place} + offset${array.place};
% endfor
    const ulong first = 0;
    portbar_item own = portbar_neutral_item();
    if (column < columns)
        for (ulong r = begin; r < end; ++r) {
% for out in job.outputs:
            own.o${out.place} =
                portbar_combine_${out.place}(own.o${out.place}, ${out.mapped_at("r", "r * columns + column")});
% endfor
        }
    if (groups == 1u) {
        if (column < columns) {
${finish("column")}\
        }
        return;
    }
    if (column < columns)
        found[group * columns + column] = own;
% if job.local > 1:
    local uint last_of_all;
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
    if (get_local_id(0) == 0)
        last_of_all = portbar_word_add(counters + get_group_id(0), 1u) + 1u == groups;
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
    if (last_of_all == 0u)
        return;
% else:
    if (portbar_word_add(counters + get_group_id(0), 1u) + 1u != groups)
        return;
% endif
    if (column < columns) {
        own = portbar_neutral_item();
        for (uint g = 0; g < groups; ++g)
            own = portbar_join(own, found[g * columns + column]);
${finish("column")}\
    }
    if (get_local_id(0) == 0)
        portbar_word_store(counters + get_group_id(0), 0u);
}
</%def>
<%def name="rows_of_one(step, row)">
% for out in job.outputs:
                ${out.c} one${out.place} = a${out.place}[c];
% for k in range(step):
                one${out.place} = portbar_combine_${out.place}(one${out.place}, ${out.mapped_at(row(k), f"({row(k)}) * columns + c")});
% endfor
                a${out.place}[c] = one${out.place};
% endfor
</%def>
<%def name="strips()">
<%
rows_at_once, count = 4, job.strip
def row(k):
    return f"r + {k}u" if k else "r"
%>\
/* Each strip of ${count} neighbouring columns by one work-item, which goes through whole lines of the cache, ${rows_at_once} rows at a
   time; rows are dealt to `get_num_groups(1)` work-groups, the last of which combines what all of them found. */
kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void portbar_reduce(
${parameters()}\
    const ulong rows, const ulong columns, const ulong part,
    global portbar_item *found, volatile global uint *counters)
{
    const ulong left = (ulong)get_group_id(0) * ${count}u;
    const uint width = (uint)min((ulong)${count}u, columns - left);
    const uint groups = (uint)get_num_groups(1), group = (uint)get_group_id(1);
    const ulong begin = min((ulong)group * part, rows), end = min(begin + part, rows);
% for array in job.inputs:
    global const ${array.c} *restrict x${array.place} = in${array.place} + offset${array.place} + left;
% endfor
    const ulong first = 0;
% for out in job.outputs:
    ${out.c} a${out.place}[${count}];
% endfor
    for (uint c = 0; c < ${count}u; ++c) {
% for out in job.outputs:
        a${out.place}[c] = portbar_neutral_${out.place}();
% endfor
    }
    ulong r = begin;
% if job.by_vectors:
<% n = job.vector %>\
% for step in (rows_at_once, 1):
    for (; r + ${step}u <= end; r += ${step}u) {
        uint c = 0;
        for (; c + ${n}u <= width; c += ${n}u) {
% for out in job.outputs:
            ${out.lane_type} own${out.place} = vload${n}(0, a${out.place} + c);
% for k in range(step):
            own${out.place} = portbar_lanes_${out.place}(own${out.place}, ${out.converted(f"vload{n}(0, x0 + ({row(k)}) * columns + c)")});
% endfor
            vstore${n}(own${out.place}, 0, a${out.place} + c);
% endfor
        }
        for (; c < width; ++c) {
${rows_of_one(step, row)}\
        }
    }
% endfor
% else:
% for whole in (True, False):
    ${f"if (width == {count}u)" if whole else "else"} {
% for step in (rows_at_once, 1):
        for (; r + ${step}u <= end; r += ${step}u)
            for (uint c = 0; c < ${f"{count}u" if whole else "width"}; ++c) {
${rows_of_one(step, row)}\
            }
% endfor
    }
% endfor
% endif
    if (groups != 1u) {
        for (uint c = 0; c < width; ++c) {
            portbar_item own;
% for out in job.outputs:
            own.o${out.place} = a${out.place}[c];
% endfor
            found[group * columns + left + c] = own;
        }
        if (portbar_word_add(counters + get_group_id(0), 1u) + 1u != groups)
            return;
        for (uint c = 0; c < width; ++c) {
% for out in job.outputs:
            a${out.place}[c] = portbar_neutral_${out.place}();
% endfor
        }
        for (uint g = 0; g < groups; ++g)
            for (uint c = 0; c < width; ++c) {
                const portbar_item one = found[g * columns + left + c];
% for out in job.outputs:
                a${out.place}[c] = portbar_combine_${out.place}(a${out.place}[c], one.o${out.place});
% endfor
            }
        portbar_word_store(counters + get_group_id(0), 0u);
    }
    for (uint c = 0; c < width; ++c) {
        portbar_item own;
% for out in job.outputs:
        own.o${out.place} = a${out.place}[c];
% endfor
${finish("left + c")}\
    }
}
</%def>
