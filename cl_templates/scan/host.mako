## -*- coding: utf-8 -*-
## The kernels of portbar.scan: all prefixes of an array in one pass, by look-back over the tiles before, with fallback.
<%def name="look_back()">
/* Each tile has a word, 2 * epoch where it is known what the tile amounts to, and 1 more where it is known what all tiles
   up to it amount to; the values lie in `tiles`. */
#define PORTBAR_TILE_KNOWN(word) (((word) & ~1u) == 2u * epoch)
#define PORTBAR_ALL_KNOWN(word) ((word) == 2u * epoch + 1u)
/* Where to begin: after the nearest tile up to which all is known. `found` gets that. Caller: one work-item. Order: acquire
   at device scope from that tile's word. */
static inline uint portbar_look_back(const uint tile, const uint epoch, volatile global uint *flags,
                                     global const portbar_item *tiles, ${job.space}portbar_item *found)
{
    uint next = tile;
    while (next != 0u && !PORTBAR_ALL_KNOWN(portbar_word_load(flags + next - 1u)))
        --next;
    if (next != 0u) {
        (void)portbar_word_load_acquire(flags + next - 1u);
        *found = tiles[2u * next - 1u];
    }
    return next;
}
/* Combines tiles from `next` on, from left to right, so that timing changes no bits; ends at `tile`, or at one that is not
   known after some polls. Caller: one work-item. Order: acquire at device scope from the words of those that it takes. */
static inline uint portbar_take_known(uint next, const uint tile, const uint epoch, volatile global uint *flags,
                                      global const portbar_item *tiles, ${job.space}portbar_item *found)
{
    for (; next < tile; ++next) {
        uint seen = portbar_word_load(flags + next);
        for (uint poll = 0; poll < ${job.cut.polls}u && !PORTBAR_TILE_KNOWN(seen); ++poll)
            seen = portbar_word_load(flags + next);
        if (!PORTBAR_TILE_KNOWN(seen))
            break;
        (void)portbar_word_load_acquire(flags + next);
        *found = PORTBAR_ALL_KNOWN(seen) ? tiles[2u * next + 1u] : portbar_join(*found, tiles[2u * next]);
    }
    return next;
}
/* A tile for the caller's group: they are numbered as groups begin, so that those before have begun. The last group leaves
   the counter as it was. Caller: one work-item. */
static inline uint portbar_next_tile(volatile global uint *ticket)
{
    const uint tile = portbar_word_add(ticket, 1u);
    if (tile + 1u == (uint)get_num_groups(0))
        portbar_word_store(ticket, 0u);
    return tile;
}
</%def>
<%def name="head()">
kernel __attribute__((reqd_work_group_size(${job.local}, 1, 1)))
void portbar_scan(
% for array in job.inputs:
    global const ${array.c} *restrict in${array.place}, const ulong offset${array.place},
% endfor
    global ${job.outputs[0].c} *to0, const ulong to_offset0,
% if job.outputs[0].start:
    const ${job.outputs[0].c} start0,
% endif
    const uint epoch, const ulong n, volatile global uint *ticket, volatile global uint *flags, global portbar_item *tiles)
{
% for array in job.inputs:
    global const ${array.c} *restrict x${array.place} = in${array.place} + offset${array.place};
% endfor
    global ${job.outputs[0].c} *restrict to = to0 + to_offset0;
    const ulong first = 0;
    portbar_item found = portbar_neutral_item();
% if job.outputs[0].start:
    found.o0 = start0;
% endif
</%def>
<%def name="publish(own)">
        tiles[2u * tile] = ${own};
        portbar_word_store_release(flags + tile, 2u * epoch);
</%def>
<%def name="publish_all(own)">
        tiles[2u * tile + 1u] = portbar_join(found, ${own});
        portbar_word_store_release(flags + tile, 2u * epoch + 1u);
</%def>
<%def name="array_parameters()">
% for array in job.inputs:
    global const ${array.c} *restrict x${array.place},
% endfor
</%def>
<%def name="items()">
<% out = job.outputs[0] %>\
% if out.vectors:
/* What the numbers of a vector up to each of them amount to. */
static inline ${out.lane_type} portbar_prefixes(${out.lane_type} v)
{
% for distance in job.distances:
    v = portbar_lanes_0(${job.shifted("v", ["portbar_neutral_0()"] * distance)}, v);
% endfor
    return v;
}
% endif
/* What a tile amounts to: its ${job.cut.runs} runs, combined in order; of the last tile, if it is cut short, its elements.
   The same bits for whoever computes it. `runs` gets what each run amounts to. */
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
    const uint tile = portbar_next_tile(ticket);
    portbar_item runs[${job.cut.runs}], unused[${job.cut.runs}];
    const portbar_item own = portbar_tile(${job.array_names}, n, tile, runs);
    if (tile != 0u) {
${publish("own")}\
        uint next = portbar_look_back(tile, epoch, flags, tiles, &found);
        while ((next = portbar_take_known(next, tile, epoch, flags, tiles, &found)) < tile)
            found = portbar_join(found, portbar_tile(${job.array_names}, n, next++, unused));
    }
${publish_all("own")}\
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
% if job.exclusive:
        const ${job.outputs[0].c} v${run} = a${run};
        a${run} = portbar_combine_0(a${run}, ${job.outputs[0].mapped_at(at)});
        to[${at}] = v${run};
% else:
        a${run} = portbar_combine_0(a${run}, ${job.outputs[0].mapped_at(at)});
        to[${at}] = a${run};
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
        shared_tile[0] = portbar_next_tile(ticket);
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
${publish("all")}\
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
${publish_all("all")}\
    }
    ${out.c} a = portbar_combine_0(found.o0, before.o0);
    for (uint k = id * PORTBAR_LENGTH; k < (id + 1u) * PORTBAR_LENGTH; ++k) {
        const ${out.c} value = stage[PORTBAR_STAGE(k)];
% if job.exclusive:
        stage[PORTBAR_STAGE(k)] = a;
        a = portbar_combine_0(a, value);
% else:
        a = portbar_combine_0(a, value);
        stage[PORTBAR_STAGE(k)] = a;
% endif
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint k = id; k < ${job.tile}u && begin + k < n; k += ${job.local}u)
        to[begin + k] = stage[PORTBAR_STAGE(k)];
}
</%def>
