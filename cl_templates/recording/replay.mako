## -*- coding: utf-8 -*-
## A kernel that replays recorded launches: the places of virtual work-items, a function for each step, and the loop over them.
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

<%def name="step()">
/* ${summary}. Caller: all work-items of the grid, which share its virtual work-items. Order: none. */
static inline void ${name}(
    const private portbar_grid *grid, const global uint *row${more_parameters})
{
    portbar_step_place place;
    place.dimensions = row[0];
    place.size0 = row[1];
    place.size1 = row[2];
    place.size2 = row[3];
    place.offset0 = row[4];
    place.offset1 = row[5];
    place.offset2 = row[6];
    place.local0 = ${sizes[0]}u;
    place.local1 = ${sizes[1]}u;
    place.local2 = ${sizes[2]}u;
% for line in arguments:
    ${line}
% endfor
% if mode == "groups":
    const uint groups0 = row[1] / ${sizes[0]}u, groups1 = row[2] / ${sizes[1]}u, groups2 = row[3] / ${sizes[2]}u;
    const uint item = portbar_local_linear_id(), x = item % ${sizes[0]}u;
    place.local_y = item / ${sizes[0]}u % ${sizes[1]}u;
    place.local_z = item / ${sizes[0] * sizes[1]}u;
    const ulong2 mine = portbar_step_share(
        (ulong)groups0 * groups1 * groups2, portbar_num_groups(grid), portbar_group_id(grid));
    for (uint group = (uint)mine.s0; group < (uint)mine.s1; ++group) {
        const uint group0 = group % groups0, plane = group / groups0;
        place.group_y = plane % groups1;
        place.group_z = plane / groups1;
        place.y = place.group_y * ${sizes[1]}u + place.local_y;
        place.z = place.group_z * ${sizes[2]}u + place.local_z;
        ${call}(&place, group0 * ${sizes[0]}u + x, x, group0${call_arguments});
        barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
    }
% elif mode == "rows":
    const ulong2 mine = portbar_step_share(
        (ulong)row[1] * row[2] * row[3], portbar_num_groups(grid), portbar_group_id(grid));
    ulong at = mine.s0;
    uint begin = (uint)(at % row[1]), line = (uint)(at / row[1]);
    % if one_item:
    if (portbar_local_linear_id() != 0u)
        at = mine.s1;
    % endif
    while (at < mine.s1) {
        const uint end = (uint)min((ulong)row[1], begin + (mine.s1 - at));
        place.y = line % row[2];
        place.z = line / row[2];
        place.local_y = place.y % ${sizes[1]}u;
        place.local_z = place.z % ${sizes[2]}u;
        place.group_y = place.y / ${sizes[1]}u;
        place.group_z = place.z / ${sizes[2]}u;
    % if by_groups:
        for (uint group = begin / ${sizes[0]}u, item = begin % ${sizes[0]}u, x = begin; x < end; ++group, item = 0u) {
            const uint items = min(${sizes[0]}u, item + (end - x));
            x += items - item;
        % if vectorises:
            _Pragma("clang loop vectorize(assume_safety) interleave(assume_safety)")
        % endif
            for (uint local_x = item; local_x < items; ++local_x)
                ${call}(&place, group * ${sizes[0]}u + local_x, local_x, group${call_arguments});
        }
    % else:
        % if vectorises:
        _Pragma("clang loop vectorize(assume_safety) interleave(assume_safety)")
        % endif
        for (size_t x = begin; x < end; ++x)
            ${call}(&place, x, x % ${sizes[0]}u, x / ${sizes[0]}u${call_arguments});
    % endif
        at += end - begin;
        begin = 0u;
        ++line;
    }
% else:
    const uint lines = row[2] * row[3];
    const ulong total = (ulong)row[1] * lines;
    for (ulong at = portbar_global_id(grid); at < total; at += portbar_global_size(grid)) {
        const uint line = lines == 1u ? 0u : (uint)(at / row[1]);
        const uint x = (uint)(at - (ulong)line * row[1]);
        place.y = line % row[2];
        place.z = line / row[2];
        place.local_y = place.y % ${sizes[1]}u;
        place.local_z = place.z % ${sizes[2]}u;
        place.group_y = place.y / ${sizes[1]}u;
        place.group_z = place.z / ${sizes[2]}u;
        ${call}(&place, x, x % ${sizes[0]}u, x / ${sizes[0]}u${call_arguments});
    }
% endif
}
</%def>

<%def name="replay()">
/* A loop that gains nothing by it stays as it is. */
#pragma clang diagnostic ignored "-Wpass-failed"

% if memory:
/* Local memory of the steps, one of which runs at a time. */
union portbar_step_memory {
% for line in memory:
    ${line}
% endfor
};

% endif
${steps}
% if flags:
/* Whether the word of a condition is not 0. Caller: any work-item, after a device barrier since it was written. */
static inline bool portbar_step_flag(const global uint *row${flag_parameters})
{
    const volatile global uchar *word = ${flag_word};
    word += row[4];
    return row[5] == 1u   ? *word != 0u
           : row[5] == 2u ? *(const volatile global ushort *)word != 0u
                          : *(const volatile global uint *)word != 0u;
}

% endif
/* Replay a table: operations of two words, the code and the place of a row, and rows. A code that is marked, as the
   first and the end are, waits for all work-groups first. Codes are those of portbar/recording/table.py. */
kernel void portbar_replay(PORTBAR_GRID_PARAM, const global uint *table, global uint *status${buffers})
{
    PORTBAR_ENTER(grid);
% if memory:
    local union portbar_step_memory memory;
% endif
    uint ${', '.join(f'turn{level} = 0u' for level in range(depth))};
    uint at = 0u, code = table[0];
    while (code != ${codes.MARK + codes.END}u) {
        if (!portbar_device_barrier(&grid))
            return;
        code -= ${codes.MARK}u;
        do {
            const global uint *row = table + table[at + 1u];
            at += 2u;
            if (code == ${codes.REPEAT}u) {
            % for level in range(depth):
                turn${level} = row[0] == ${level}u ? 0u : turn${level};
            % endfor
            } else if (code == ${codes.AGAIN}u) {
            % for level in range(depth):
                turn${level} += row[0] == ${level}u ? 1u : 0u;
            % endfor
                if ((${turn}) < row[1])
                    at = row[2];
            }
% if flags:
            else if (code == ${codes.WHILE}u) {
                if (!portbar_step_flag(row${flag_arguments})) {
                    at = row[2];
                } else if ((${turn}) == row[1]) {
                    if (portbar_global_id(&grid) == 0u)
                        status[0] = 1u + row[6];
                    at = row[7];
                }
            } else if (code == ${codes.TURN}u) {
            % for level in range(depth):
                turn${level} += row[0] == ${level}u ? 1u : 0u;
            % endfor
                at = row[2];
            } else if (code == ${codes.IF}u) {
                if (!portbar_step_flag(row${flag_arguments}))
                    at = row[2];
            }
% endif
% for number, call in calls:
            else if (code == ${codes.STEP + number}u) {
                ${call};
            }
% endfor
            code = table[at];
        } while (code < ${codes.MARK}u);
    }
}
</%def>
