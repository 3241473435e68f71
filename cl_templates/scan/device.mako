## -*- coding: utf-8 -*-
## portbar/scan.h: scans over all work-groups of a launch, for kernels of the author's own.
<%namespace name="tiles" file="scan/look_back.mako"/>
<%def name="parameters()">
${defines("PORTBAR_SCAN_PARAM")}
/* First parameter of a kernel that scans; it stands for two. The Python runtime fills both in: words that were zero
   initially, with the ticket, a word per tile from ${ticket_words} on, and values after them; and the launch's epoch,
   starting with 1, its number of work-groups, and the first word of the values. */
#define PORTBAR_SCAN_PARAM volatile global uint *portbar_scan_param, const uint4 portbar_scan_launch

${defines("PORTBAR_SCAN_POLLS")}
/* Looks at the tile of another work-group before its total is computed here. */
#ifndef PORTBAR_SCAN_POLLS
#define PORTBAR_SCAN_POLLS 64u
#endif
</%def>
<%def name="common()">
${tiles.tile_words()}\
${tiles.next_tile(scans[0].by)}\
${group()}
/* A work-item's place in its work-group, and the work-group's size. */
${defines("portbar_scan_id")}
static inline __attribute__((always_inline)) uint portbar_scan_id(void)
{
    return (uint)(get_local_id(0) + get_local_size(0) * (get_local_id(1) + get_local_size(1) * get_local_id(2)));
}
${defines("portbar_scan_size")}
static inline __attribute__((always_inline)) uint portbar_scan_size(void)
{
    return (uint)(get_local_size(0) * get_local_size(1) * get_local_size(2));
}
${end()}
</%def>
<%def name="every_scan()">
% for scan in scans:
${functions(scan, scan.name, scan.by)}\
% endfor
</%def>
<%def name="functions(scan, name, by)">
## The author's own types and operators stay always, so that a compiler reports mistakes in them.
${defines()}
% for extension in scan.extensions:
#pragma OPENCL EXTENSION ${extension} : enable
% endfor
% for text in scan.typedefs:
${text}
% endfor
/* Two values of scan `${name}` combined, and what changes none. Caller: any work-item. Cost: the operator. */
static inline __attribute__((always_inline)) ${name}_value ${name}_combine(const ${name}_value a, const ${name}_value b)
{
${scan.combined}
}
static inline __attribute__((always_inline)) ${name}_value ${name}_neutral(void)
{
${scan.neutral_value}
}
${defines(f"{name}_scan")}
/* The scan of a work-group of up to ${scan.local_size} work-items. A kernel declares one in local memory, in its
   outermost block: local ${name}_scan scan; */
typedef struct {
    volatile global uint *flags;
    global ${name}_value *tiles;
    uint epoch, tile, missing;
    /* Values up to each work-item's: of the own tile, of another; and room to combine them. */
    ${name}_value own[${scan.local_size}], other[${scan.local_size}], spare[${scan.local_size}];
    /* The combination of the tiles before. */
    ${name}_value before[1];
} ${name}_scan;
${tiles.look_back(by)}\
${defines(f"portbar_{name}_prefixes")}
/* Makes each value in `room` what those up to it amount to, in the order of work-items. Caller: all work-items of the
   group, after a barrier; they may read `room` afterwards. No value is private over a barrier: compilers for CPUs lose
   some. */
static inline __attribute__((always_inline)) void portbar_${name}_prefixes(local ${name}_value *room,
                                                                           local ${name}_value *spare)
{
    const uint id = portbar_scan_id(), size = portbar_scan_size();
    for (uint distance = 1u; distance < size; distance *= 2u) {
        if (id >= distance)
            spare[id] = ${name}_combine(room[id - distance], room[id]);
        else
            spare[id] = room[id];
        barrier(CLK_LOCAL_MEM_FENCE);
        room[id] = spare[id];
        barrier(CLK_LOCAL_MEM_FENCE);
    }
}
${defines(f"portbar_{name}_finish")}
/* Tells other groups what all tiles up to the own one amount to, once no tile before is missing. Caller: one work-item.
   Order: release at device scope. */
static inline __attribute__((always_inline)) void portbar_${name}_finish(local ${name}_scan *scan)
{
    const uint tile = scan->tile, epoch = scan->epoch;
    volatile global uint *flags = scan->flags;
    global ${name}_value *tiles = scan->tiles;
    if (scan->missing == tile) {
${tiles.publish_all(by, "scan->before[0]", "scan->own[portbar_scan_size() - 1u]")}\
    }
}
${group()}
/* Takes the next tile for the work-group and returns its number, from 0 on: use it in place of get_group_id, since
   groups start in any order. Caller: all work-items of the group, once in a launch, in control flow that is the same
   for all. Result: the tile, valid in every work-item. Cost: one atomic operation and a work-group barrier. */
${defines(f"{name}_begin")}
#define ${name}_begin(scan) portbar_${name}_begin(scan, portbar_scan_param, portbar_scan_launch)
${defines(f"portbar_{name}_begin")}
static inline __attribute__((always_inline)) uint portbar_${name}_begin(local ${name}_scan *scan,
                                                                        volatile global uint *words, const uint4 launch)
{
    if (portbar_scan_id() == 0u) {
        scan->flags = words + ${ticket_words}u;
        scan->tiles = (global ${name}_value *)(words + launch.z);
        scan->epoch = launch.x;
        scan->tile = portbar_next_tile(words, launch.y);
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    return scan->tile;
}
${end()}
${defines(f"{name}_publish")}
/* Adds the calling work-item's contribution to the group's tile, publishes the tile's total to other groups, and
   combines those of the tiles before, as far as they are known after some polls. Caller: all work-items of the group,
   once after `${name}_begin`. Order: release and acquire at device scope for the totals only. Cost: 2 log2(size) + 2
   work-group barriers, and loads of the tiles before up to the nearest whose prefix is known. Source: Merrill and
   Garland, "Single-pass Parallel Prefix Scan with Decoupled Look-back", 2016. */
static inline __attribute__((always_inline)) void ${name}_publish(local ${name}_scan *scan, const ${name}_value value)
{
    scan->own[portbar_scan_id()] = value;
    barrier(CLK_LOCAL_MEM_FENCE);
    portbar_${name}_prefixes(scan->own, scan->spare);
    if (portbar_scan_id() == 0u) {
        const uint tile = scan->tile, epoch = scan->epoch;
        volatile global uint *flags = scan->flags;
        global ${name}_value *tiles = scan->tiles;
        scan->before[0] = ${name}_neutral();
        if (tile != 0u) {
${tiles.publish(by, "scan->own[portbar_scan_size() - 1u]", " " * 12)}\
        }
        const uint next = portbar_${name}_look_back(tile, epoch, flags, tiles, scan->before);
        scan->missing = portbar_${name}_take_known(next, tile, epoch, flags, tiles, scan->before);
        portbar_${name}_finish(scan);
    }
    barrier(CLK_LOCAL_MEM_FENCE);
}
${defines(f"{name}_missing")}
/* Whether a tile before has not published its total. Then the group computes it, by `${name}_supply`, so it waits for
   no other group. Caller: any work-item, after `${name}_publish`. Result: the same in all work-items of the group.
   Cost: two loads from local memory. */
static inline __attribute__((always_inline)) bool ${name}_missing(local ${name}_scan *scan)
{
    return scan->missing != scan->tile;
}
${defines(f"{name}_missing_tile")}
/* The number of the missing tile. Caller: any work-item, after `${name}_missing` that returned true. Result: the same
   in all work-items of the group. Cost: a load from local memory. */
static inline __attribute__((always_inline)) uint ${name}_missing_tile(local ${name}_scan *scan)
{
    return scan->missing;
}
${defines(f"{name}_supply")}
/* Gives what the calling work-item would contribute to the missing tile, by its place in the work-group, and goes on to
   the next one that is missing. The same bits as from the group that has the tile, if the values are. Caller: all
   work-items of the group. Cost: 2 log2(size) + 2 work-group barriers. Source: Smith, Levien and Owens, "Decoupled
   Fallback", SPAA 2025. */
static inline __attribute__((always_inline)) void ${name}_supply(local ${name}_scan *scan, const ${name}_value value)
{
    scan->other[portbar_scan_id()] = value;
    barrier(CLK_LOCAL_MEM_FENCE);
    portbar_${name}_prefixes(scan->other, scan->spare);
    if (portbar_scan_id() == 0u) {
        scan->before[0] = ${name}_combine(scan->before[0], scan->other[portbar_scan_size() - 1u]);
        scan->missing = portbar_${name}_take_known(scan->missing + 1u, scan->tile, scan->epoch, scan->flags, scan->tiles,
                                                   scan->before);
        portbar_${name}_finish(scan);
    }
    barrier(CLK_LOCAL_MEM_FENCE);
}
${defines(f"{name}_inclusive")}
/* The combination of all work-items of the launch up to the caller, in the order of tiles and of work-items in them.
   Caller: any work-item, once no tile is missing. Result: for the caller. Cost: the operator, and two loads from local
   memory. */
static inline __attribute__((always_inline)) ${name}_value ${name}_inclusive(local ${name}_scan *scan)
{
    return ${name}_combine(scan->before[0], scan->own[portbar_scan_id()]);
}
${defines(f"{name}_exclusive")}
/* `${name}_inclusive` without the caller: the neutral element for the first work-item of tile 0. Caller, result and
   cost: as for `${name}_inclusive`. */
static inline __attribute__((always_inline)) ${name}_value ${name}_exclusive(local ${name}_scan *scan)
{
    const uint id = portbar_scan_id();
    if (id == 0u)
        return scan->before[0];
    return ${name}_combine(scan->before[0], scan->own[id - 1u]);
}
</%def>
