## -*- coding: utf-8 -*-
## The kernels of portbar.scan: all prefixes of an array in one pass, by look-back over the tiles before, with fallback.
<%namespace name="tiles" file="scan/look_back.mako"/>
<%def name="look_back()">
${tiles.tile_words()}\
${tiles.look_back(job.by)}\
${tiles.next_tile(job.by)}\
</%def>
<%def name="flags()">
/* Sets the flag of each element at which a segment starts; offsets outside of the array are left out. */
kernel void portbar_flags(global const ${job.offset} *offsets, const ulong offset0, global uchar *flags, const ulong offset1,
                          const ulong count, const ulong n)
{
    if ((ulong)get_global_id(0) < count) {
        const ulong start = (ulong)offsets[offset0 + get_global_id(0)];
        if (start < n)
            flags[offset1 + start] = 1;
    }
}
</%def>
<%def name="elements()">
<% out = job.outputs[0] %>\
% if job.segments:
/* Where an element lies in memory: neighbours in a line lie `inner` apart, or beside each other. */
static inline ulong portbar_place(${array_parameters()}\
    const ulong k)
{
% if job.near:
    return k;
% else:
    const ${job.index} line = (${job.index})k / columns, along = (${job.index})k % columns;
    return (line / inner * columns + along) * inner + line % inner;
% endif
}
/* Whether a segment starts at an element. */
static inline uint portbar_starts(${array_parameters()}\
    const ulong k)
{
    return k == 0u || ${"(%s)k %% columns == 0u" % job.index if job.segments == "lines" else "segments[k] != 0"};
}
/* The contribution of an element. */
static inline portbar_pair portbar_mapped(${array_parameters()}\
    const ulong k)
{
    const ulong place = portbar_place(${job.array_names}, k);
    portbar_pair one;
    one.value = ${out.value_at_place};
    one.starts = portbar_starts(${job.array_names}, k);
    return one;
}
% endif
% if job.statement:
/* The output statement. */
static inline void portbar_output(${job.statement.parameters(job.inputs, job.result)})
{
    ${job.statement.text}
}
% endif
</%def>
<%def name="head()">
kernel __attribute__((reqd_work_group_size(${job.local}, 1, 1)))
void portbar_scan(
% for array in job.inputs:
    global const ${array.c} *restrict in${array.place}, const ulong offset${array.place},
% endfor
% if job.segments and job.segments != "lines":
    global const ${job.segments} *segments0, const ulong segments_offset,
% endif
% for array in job.targets:
    global ${array.c} *out${array.place}, const ulong out_offset${array.place},
% endfor
% if job.wants_last:
    global const ${job.result} *last,
% endif
% if job.writes:
    global ${job.result} *to0, const ulong to_offset0,
% endif
% if job.outputs[0].output.start:
    const ${job.result} start0,
% endif
    const uint epoch, const ulong n,
% if job.segments == "lines":
    const ${job.index} columns, const ${job.index} inner,
% endif
    volatile global uint *ticket, volatile global ${"ulong" if job.cut.warps else "uint"} *flags, global portbar_item *tiles)
{
% for array in job.inputs:
    global const ${array.c} *restrict x${array.place} = in${array.place} + offset${array.place};
% endfor
% if job.segments and job.segments != "lines":
    global const ${job.segments} *restrict segments = segments0 + segments_offset;
% endif
% for array in job.targets:
    global ${array.c} *restrict y${array.place} = out${array.place} + out_offset${array.place};
% endfor
% if job.writes:
    global ${job.result} *restrict to = to0 + to_offset0;
% endif
    const ulong first = 0;
    portbar_item found = portbar_neutral_item();
% if job.outputs[0].output.start and not job.segments:
    found.o0 = start0;
% endif
</%def>
<%def name="array_parameters()">
% for array in job.inputs:
    global const ${array.c} *${"" if job.segments else "restrict "}x${array.place},
% endfor
% if job.segments == "lines":
    const ${job.index} columns, const ${job.index} inner,
% elif job.segments:
    global const ${job.segments} *segments,
% endif
</%def>
<%def name="items()">
<% out = job.outputs[0] %>\
% if out.vectors:
/* The inclusive scan of the numbers of a vector. */
static inline ${out.lane_type} portbar_prefixes(${out.lane_type} v)
{
% for distance in job.distances:
    v = portbar_lanes_0(${job.shifted("v", ["portbar_neutral_0()"] * distance)}, v);
% endfor
    return v;
}
% endif
/* The combination of a tile: its ${job.cut.runs} runs, combined in order; of the last tile, if it is cut short, its
   elements. The same bits in every group that computes it. `runs` receives the combination of each run. */
static inline portbar_item portbar_tile(
${array_parameters()}\
    const ulong n, const uint tile, portbar_item *runs)
{
    const ulong begin = (ulong)tile * ${job.tile}u, first = 0;
    portbar_item found = portbar_neutral_item();
    if (begin + ${job.tile}u > n) {
        for (ulong k = begin; k < n; ++k)
            found.o0 = portbar_combine_0(found.o0, ${out.mapped_at("k")});
        return found;
    }
% for run in range(job.cut.runs):
    ${out.lane_type} a${run} = ${out.lane_neutral};
% endfor
    for (ulong k = begin; k < begin + ${job.cut.length}u; k += ${job.vector}u) {
% for run in range(job.cut.runs):
% if out.vectors:
        a${run} = portbar_lanes_0(a${run}, ${job.loaded(f"k + {run * job.cut.length}u")});
% else:
        a${run} = portbar_combine_0(a${run}, ${out.mapped_at(f"k + {run * job.cut.length}u")});
% endif
% endfor
    }
% for run in range(job.cut.runs):
    runs[${run}].o0 = ${f"portbar_fold_0(a{run})" if out.vectors else f"a{run}"};
    found.o0 = ${f"portbar_combine_0(found.o0, runs[{run}].o0)" if run else "runs[0].o0"};
% endfor
    return found;
}
${head()}\
    const uint tile = portbar_next_tile(ticket, (uint)get_num_groups(0));
    portbar_item runs[${job.cut.runs}], unused[${job.cut.runs}];
    const portbar_item own = portbar_tile(${job.array_names}, n, tile, runs);
    if (tile != 0u) {
${tiles.publish(job.by, "own", " " * 8)}\
        uint next = portbar_look_back(tile, epoch, flags, tiles, &found);
        while ((next = portbar_take_known(next, tile, epoch, flags, tiles, &found)) < tile)
            found = portbar_join(found, portbar_tile(${job.array_names}, n, next++, unused));
    }
${tiles.publish_all(job.by, "found", "own")}\
    const ulong begin = (ulong)tile * ${job.tile}u;
    if (begin + ${job.tile}u > n) {
        ${out.c} a0 = found.o0;
        for (ulong k = begin; k < n; ++k) {
${step("0", "k")}\
        }
        return;
    }
% for run in range(job.cut.runs):
    ${out.c} a${run} = ${f"portbar_combine_0(a{run - 1}, runs[{run - 1}].o0)" if run else "found.o0"};
% endfor
    for (ulong k = begin; k < begin + ${job.cut.length}u; k += ${job.vector}u) {
% for run in range(job.cut.runs):
% if out.vectors:
${vector_step(run, f"k + {run * job.cut.length}u")}\
% else:
${step(run, f"k + {run * job.cut.length}u")}\
% endif
% endfor
    }
}
</%def>
<%def name="step(run, at)">
% if job.exclusive or not job.is_plain:
        const ${job.outputs[0].c} v${run} = a${run};
% endif
        a${run} = portbar_combine_0(a${run}, ${job.outputs[0].mapped_at(at)});
${put(at, f"a{run}", f"v{run}")}\
</%def>
<%def name="put(at, item, before)">
% if job.segments:
<% out = job.outputs[0] %>\
        {
            const ulong place = portbar_place(${job.array_names}, ${at});
            const bool starts = portbar_starts(${job.array_names}, ${at});
% if out.output.start:
            const ${job.result} value = portbar_combine_1(start0, (${item}).value);
            const ${job.result} value_before = starts ? start0 : portbar_combine_1(start0, (${before}).value);
% else:
            const ${job.result} value = (${item}).value, value_before = starts ? portbar_neutral_1() : (${before}).value;
% endif
${put_value("place", "value", "value_before")}\
        }
% else:
${put_value(at, item, before)}\
% endif
</%def>
<%def name="put_value(at, item, before)">
% if job.writes:
        to[${at}] = ${before if job.exclusive else item};
% endif
% if job.statement:
        portbar_output(${job.output_arguments}, (long)(${at}), (long)n, ${item}, ${before}\
${", last[0]" if job.wants_last else ""});
% endif
</%def>
<%def name="vector_step(run, at)">
<% out = job.outputs[0] %>\
        const ${out.lane_type} v${run} = portbar_lanes_0((${out.lane_type})(a${run}), portbar_prefixes(${job.loaded(at)}));
% if job.exclusive:
        vstore${job.vector}(${job.shifted(f"v{run}", [f"a{run}"])}, 0, to + ${at});
% else:
        vstore${job.vector}(v${run}, 0, to + ${at});
% endif
        a${run} = v${run}.${job.last_component};
</%def>
<%def name="groups()">
<% out = job.outputs[0] %>\
#define PORTBAR_LENGTH ${job.cut.length}u
/* A value's place in local memory, one more for every 32, so that neighbours' runs begin in different banks. */
#define PORTBAR_STAGE(k) ((k) + (k) / 32u)
/* Leaves in `room` what the work-items up to each amount to, in their order. Caller: all work-items of the group, which may
   read all of `room` afterwards, and meet before it is used again. Inlined always: some compilers take no barrier elsewhere. */
static inline __attribute__((always_inline)) void portbar_totals(portbar_item own, local portbar_item *room)
{
    const uint id = (uint)get_local_id(0);
    room[id] = own;
    barrier(CLK_LOCAL_MEM_FENCE);
% for distance in job.distances:
    if (id >= ${distance}u)
        own = portbar_join(room[id - ${distance}u], own);
    barrier(CLK_LOCAL_MEM_FENCE);
    room[id] = own;
    barrier(CLK_LOCAL_MEM_FENCE);
% endfor
}
${head()}\
    const uint id = (uint)get_local_id(0);
    local portbar_item room[${job.local}], found_before[1];
    local ${out.c} stage[PORTBAR_STAGE(${job.local}u * PORTBAR_LENGTH)];
    /* The group's tile, and the first before it that is not known. */
    local uint shared_tile[2];
    if (id == 0u)
        shared_tile[0] = portbar_next_tile(ticket, (uint)get_num_groups(0));
    barrier(CLK_LOCAL_MEM_FENCE);
    const uint tile = shared_tile[0];
    const ulong begin = (ulong)tile * ${job.tile}u;
    for (uint k = id; k < ${job.tile}u; k += ${job.local}u) {
        ${out.c} value = portbar_neutral_0();
        if (begin + k < n)
            value = ${out.mapped_at("begin + k")};
        stage[PORTBAR_STAGE(k)] = value;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    portbar_item own = portbar_neutral_item();
    for (uint k = id * PORTBAR_LENGTH; k < (id + 1u) * PORTBAR_LENGTH; ++k)
        own.o0 = portbar_combine_0(own.o0, stage[PORTBAR_STAGE(k)]);
    portbar_totals(own, room);
    const portbar_item all = room[${job.local - 1}], before = id != 0u ? room[id - 1u] : portbar_neutral_item();
    if (id == 0u) {
        found_before[0] = found;
        shared_tile[1] = tile;
        if (tile != 0u) {
${tiles.publish(job.by, "all", " " * 12)}\
            const uint next = portbar_look_back(tile, epoch, flags, tiles, found_before);
            shared_tile[1] = portbar_take_known(next, tile, epoch, flags, tiles, found_before);
        }
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    while (shared_tile[1] != shared_tile[0]) {
        /* The whole group computes a tile that is not known, as its own group does. Tiles before the last are whole. */
        const ulong from = (ulong)shared_tile[1] * ${job.tile}u + id * PORTBAR_LENGTH;
        portbar_item other = portbar_neutral_item();
        for (ulong k = from; k < from + PORTBAR_LENGTH; ++k)
            other.o0 = portbar_combine_0(other.o0, ${out.mapped_at("k")});
        portbar_totals(other, room);
        if (id == 0u) {
            found_before[0] = portbar_join(found_before[0], room[${job.local - 1}]);
            shared_tile[1] =
                portbar_take_known(shared_tile[1] + 1u, shared_tile[0], epoch, flags, tiles, found_before);
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    found = found_before[0];
    if (id == 0u) {
${tiles.publish_all(job.by, "found", "all")}\
    }
    ${out.c} a = portbar_combine_0(found.o0, before.o0);
    for (uint k = id * PORTBAR_LENGTH; k < (id + 1u) * PORTBAR_LENGTH; ++k) {
        const ${out.c} value = stage[PORTBAR_STAGE(k)];
% if job.exclusive and job.is_plain:
        stage[PORTBAR_STAGE(k)] = a;
        a = portbar_combine_0(a, value);
% else:
        a = portbar_combine_0(a, value);
        stage[PORTBAR_STAGE(k)] = a;
% endif
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint k = id; k < ${job.tile}u && begin + k < n; k += ${job.local}u) {
% if job.is_plain:
        to[begin + k] = stage[PORTBAR_STAGE(k)];
% else:
        const ${out.c} item = stage[PORTBAR_STAGE(k)], item_before = k != 0u ? stage[PORTBAR_STAGE(k - 1u)] : found.o0;
${put("begin + k", "item", "item_before")}\
% endif
    }
}
</%def>
