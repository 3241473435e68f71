## -*- coding: utf-8 -*-
## Kernels as functions: the places of virtual work-items, and how the work-items of a grid share them.
<%def name="place()">
/* The place of a virtual work-item, but for what differs between those of one row. */
typedef struct {
    uint dimensions;
    size_t offset0, offset1, offset2, size0, size1, size2;
    size_t y, z, local_y, local_z, group_y, group_z;
    uint local0, local1, local2;
} portbar_step_place;

/* Hidden parameters of a step: the place, and x of the work-item, in its work-group, and of the work-group. */
#define PORTBAR_STEP_PARAM ${"\\"}
    const private portbar_step_place *const portbar_step_at, const size_t portbar_step_x, ${"\\"}
        const size_t portbar_step_local_x, const size_t portbar_step_group_x
#define PORTBAR_STEP_HERE portbar_step_at, portbar_step_x, portbar_step_local_x, portbar_step_group_x

/* One of three values, by a dimension; `other` for dimensions that no step has. Caller: any work-item. */
static inline size_t portbar_step_pick(uint d, size_t x, size_t y, size_t z, size_t other)
{
    return d == 0u ? x : d == 1u ? y : d == 2u ? z : other;
}

/* How many work-groups cover a size. Caller: any work-item. */
static inline size_t portbar_step_groups(size_t size, uint local_size)
{
    return (size + local_size - 1u) / local_size;
}

/* A share of `total` elements: those of a work-group are neighbours. Caller: any work-item of the grid. */
static inline ulong2 portbar_step_share(ulong total, ulong shares, ulong at)
{
    const ulong each = total / shares, more = total % shares;
    const ulong begin = at * each + min(at, more);
    return (ulong2)(begin, begin + each + (at < more ? 1u : 0u));
}
</%def>

<%def name="ids()">
#define get_work_dim() (portbar_step_at->dimensions)
#define get_global_id(d) ${"\\"}
    portbar_step_pick(d, portbar_step_at->offset0 + portbar_step_x, portbar_step_at->offset1 + portbar_step_at->y, ${"\\"}
        portbar_step_at->offset2 + portbar_step_at->z, 0u)
#define get_global_size(d) ${"\\"}
    portbar_step_pick(d, portbar_step_at->size0, portbar_step_at->size1, portbar_step_at->size2, 1u)
#define get_global_offset(d) ${"\\"}
    portbar_step_pick(d, portbar_step_at->offset0, portbar_step_at->offset1, portbar_step_at->offset2, 0u)
#define get_global_linear_id() ${"\\"}
    ((portbar_step_at->z * portbar_step_at->size1 + portbar_step_at->y) * portbar_step_at->size0 + portbar_step_x)
#define get_local_id(d) ${"\\"}
    portbar_step_pick(d, portbar_step_local_x, portbar_step_at->local_y, portbar_step_at->local_z, 0u)
#define get_local_size(d) ${"\\"}
    portbar_step_pick(d, portbar_step_at->local0, portbar_step_at->local1, portbar_step_at->local2, 1u)
#define get_enqueued_local_size(d) get_local_size(d)
#define get_local_linear_id() ${"\\"}
    ((portbar_step_at->local_z * portbar_step_at->local1 + portbar_step_at->local_y) * portbar_step_at->local0 ${"\\"}
        + portbar_step_local_x)
#define get_group_id(d) ${"\\"}
    portbar_step_pick(d, portbar_step_group_x, portbar_step_at->group_y, portbar_step_at->group_z, 0u)
#define get_num_groups(d) ${"\\"}
    portbar_step_pick(d, portbar_step_groups(portbar_step_at->size0, portbar_step_at->local0), ${"\\"}
        portbar_step_groups(portbar_step_at->size1, portbar_step_at->local1), ${"\\"}
        portbar_step_groups(portbar_step_at->size2, portbar_step_at->local2), 1u)
#define kernel static __attribute__((always_inline))
#define __kernel static __attribute__((always_inline))
#define reqd_work_group_size(x, y, z)
#define work_group_size_hint(x, y, z)
#define vec_type_hint(type)
#define restrict
#define __restrict
#define __restrict__
</%def>

<%def name="work()">\
% if mode == "groups":
    const uint groups0 = ${extent[0]} / ${sizes[0]}, groups1 = ${extent[1]} / ${sizes[1]}, groups2 = ${extent[2]} / ${sizes[2]};
    % if is_shaped:
    const uint x = (uint)get_local_id(0);
    place.local_y = get_local_id(1);
    place.local_z = get_local_id(2);
    % else:
    const uint item = portbar_local_linear_id(), x = item % ${sizes[0]};
    place.local_y = item / ${sizes[0]} % ${sizes[1]};
    place.local_z = item / ${plane};
    % endif
    const ulong2 mine = portbar_step_share(
        (ulong)groups0 * groups1 * groups2, portbar_num_groups(grid), portbar_group_id(grid));
    for (uint group = (uint)mine.s0; group < (uint)mine.s1; ++group) {
        const uint group0 = group % groups0, plane = group / groups0;
        place.group_y = plane % groups1;
        place.group_z = plane / groups1;
        place.y = place.group_y * ${sizes[1]} + place.local_y;
        place.z = place.group_z * ${sizes[2]} + place.local_z;
        ${call}(&place, group0 * ${sizes[0]} + x, x, group0${call_arguments});
        barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
    }
% elif mode == "chunks":
    const uint3 chunks = (uint3)((${extent[0]} + ${chunk[0]} - 1u) / ${chunk[0]}, (${extent[1]} + ${chunk[1]} - 1u) / ${chunk[1]},
                                 (${extent[2]} + ${chunk[2]} - 1u) / ${chunk[2]});
    const ulong2 mine = portbar_step_share(
        (ulong)chunks.x * chunks.y * chunks.z, portbar_num_groups(grid), portbar_group_id(grid));
    for (uint chunk = (uint)mine.s0; chunk < (uint)mine.s1; ++chunk) {
        const uint plane = chunk / chunks.x, x = chunk % chunks.x * ${chunk[0]} + (uint)get_local_id(0);
        place.y = plane % chunks.y * ${chunk[1]} + get_local_id(1);
        place.z = plane / chunks.y * ${chunk[2]} + get_local_id(2);
        place.local_y = place.y % ${sizes[1]};
        place.local_z = place.z % ${sizes[2]};
        place.group_y = place.y / ${sizes[1]};
        place.group_z = place.z / ${sizes[2]};
        if (x < ${extent[0]} && place.y < ${extent[1]} && place.z < ${extent[2]})
            ${call}(&place, x, x % ${sizes[0]}, x / ${sizes[0]}${call_arguments});
    }
% elif mode == "rows":
    const ulong2 mine = portbar_step_share(
        ${total}, portbar_num_groups(grid), portbar_group_id(grid));
    ulong at = mine.s0;
    uint begin = (uint)(at % ${extent[0]}), line = (uint)(at / ${extent[0]});
    % if one_item:
    if (portbar_local_linear_id() != 0u)
        at = mine.s1;
    % endif
    while (at < mine.s1) {
        const uint end = (uint)min((ulong)${extent[0]}, begin + (mine.s1 - at));
        place.y = line % ${extent[1]};
        place.z = line / ${extent[1]};
        place.local_y = place.y % ${sizes[1]};
        place.local_z = place.z % ${sizes[2]};
        place.group_y = place.y / ${sizes[1]};
        place.group_z = place.z / ${sizes[2]};
    % if by_groups:
        for (uint group = begin / ${sizes[0]}, item = begin % ${sizes[0]}, x = begin; x < end; ++group, item = 0u) {
            const uint items = min(${sizes[0]}, item + (end - x));
            x += items - item;
        % if vectorises:
            _Pragma("clang loop vectorize(assume_safety) interleave(assume_safety)")
        % endif
            for (uint local_x = item; local_x < items; ++local_x)
                ${call}(&place, group * ${sizes[0]} + local_x, local_x, group${call_arguments});
        }
    % else:
        % if vectorises:
        _Pragma("clang loop vectorize(assume_safety) interleave(assume_safety)")
        % endif
        for (size_t x = begin; x < end; ++x)
            ${call}(&place, x, x % ${sizes[0]}, x / ${sizes[0]}${call_arguments});
    % endif
        at += end - begin;
        begin = 0u;
        ++line;
    }
% else:
% if dimensions == 1:
    const ulong total = ${extent[0]};
% else:
    const uint lines = ${extent[1]} * ${extent[2]};
    const ulong total = ${lines_total};
% endif
    for (ulong at = portbar_global_id(grid); at < total; at += portbar_global_size(grid)) {
% if dimensions == 1:
        const uint x = (uint)at;
        place.y = place.z = place.local_y = place.local_z = place.group_y = place.group_z = 0u;
% else:
    % if is_narrow:
        const uint line = lines == 1u ? 0u : (uint)at / ${extent[0]};
    % else:
        const uint line = lines == 1u ? 0u : (uint)(at / ${extent[0]});
    % endif
        const uint x = (uint)(at - (ulong)line * ${extent[0]});
    % if dimensions == 2:
        place.y = line;
        place.z = 0u;
    % else:
        place.y = line % ${extent[1]};
        place.z = line / ${extent[1]};
    % endif
        place.local_y = place.y % ${sizes[1]};
        place.local_z = place.z % ${sizes[2]};
        place.group_y = place.y / ${sizes[1]};
        place.group_z = place.z / ${sizes[2]};
% endif
        ${call}(&place, x, x % ${sizes[0]}, x / ${sizes[0]}${call_arguments});
    }
% endif
</%def>

<%def name="run()">
/* Run kernel ${kernel} over `size` work-items. Caller: all work-items of every group of the grid, with the same
   arguments. Order: none. */
static inline __attribute__((always_inline)) void portbar_run_nowait_${kernel}(
    portbar_grid *grid, uint call_line, portbar_range size, portbar_range given_local${parameters})
{
    const portbar_range local_size = portbar_run_local_size(given_local, ${default});
    size = portbar_run_size(grid, call_line, size, local_size, ${fits});
    portbar_step_place place;
    place.dimensions = size.dimensions;
    place.size0 = size.x;
    place.size1 = size.y;
    place.size2 = size.z;
    place.offset0 = place.offset1 = place.offset2 = 0u;
    place.local0 = ${sizes[0]};
    place.local1 = ${sizes[1]};
    place.local2 = ${sizes[2]};
% if memory:
    local struct ${memory} *const memory = (local struct ${memory} *)PORTBAR_RUN_MEMORY(grid);
% endif
% if rows:
    const ulong all = (ulong)size.x * size.y * size.z;
    /* Divisors. */
    size.x = max(size.x, 1u);
    size.y = max(size.y, 1u);
#ifdef PORTBAR_RUN_ROWS
${rows}\
#else
${body}\
#endif
% else:
${body}\
% endif
}

/* The same, and a device barrier. Result: false if that failed. */
static inline __attribute__((always_inline)) bool portbar_run_${kernel}(
    portbar_grid *grid, uint call_line, portbar_range size, portbar_range given_local${parameters})
{
    portbar_run_nowait_${kernel}(grid, call_line, size, given_local${arguments});
    return portbar_device_barrier(grid);
}
</%def>

<%def name="unavailable()">
/* Kernel ${kernel} cannot be a part of another one. */
bool portbar_cannot_run_${kernel}(void) __attribute__((unavailable("${reason}")));
#define portbar_run_${kernel}(...) portbar_cannot_run_${kernel}()
#define portbar_run_nowait_${kernel}(...) portbar_cannot_run_${kernel}()
</%def>
