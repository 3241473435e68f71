## -*- coding: utf-8 -*-
## A kernel that replays recorded launches: a function for each step, whose row has its sizes, and the loop over them.
<%def name="step()">
/* ${summary}. Caller: all work-items of the grid, which share its virtual work-items. Order: none. */
static inline void ${name}(
    const private portbar_grid *grid, ${table_space} uint *row${more_parameters})
{
    portbar_step_place place;
    place.dimensions = row[0];
    place.size0 = row[1];
    place.size1 = row[2];
    place.size2 = row[3];
    place.offset0 = row[4];
    place.offset1 = row[5];
    place.offset2 = row[6];
    place.local0 = ${sizes[0]};
    place.local1 = ${sizes[1]};
    place.local2 = ${sizes[2]};
% for line in arguments:
    ${line}
% endfor
${body}\
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
static inline bool portbar_step_flag(${table_space} uint *row${flag_parameters})
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
kernel void portbar_replay(PORTBAR_GRID_PARAM, ${table_space} uint *table, global uint *status${buffers})
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
            ${table_space} uint *row = table + table[at + 1u];
            at += 2u;
            if (code == ${codes.REPEAT}u) {
            % for level in range(depth):
                turn${level} = row[0] == ${level}u ? 0u : turn${level};
            % endfor
            }
## Not by `else`: on PoCL each would put the rest of the steps into one more loop of one turn.
            if (code == ${codes.AGAIN}u) {
            % for level in range(depth):
                turn${level} += row[0] == ${level}u ? 1u : 0u;
            % endfor
                if ((${turn}) < row[1])
                    at = row[2];
            }
% if flags:
            if (code == ${codes.WHILE}u) {
                if (!portbar_step_flag(row${flag_arguments})) {
                    at = row[2];
                } else if ((${turn}) == row[1]) {
                    if (portbar_global_id(&grid) == 0u)
                        status[0] = 1u + row[6];
                    at = row[7];
                }
            }
            if (code == ${codes.TURN}u) {
            % for level in range(depth):
                turn${level} += row[0] == ${level}u ? 1u : 0u;
            % endfor
                at = row[2];
            }
            if (code == ${codes.IF}u) {
                if (!portbar_step_flag(row${flag_arguments}))
                    at = row[2];
            }
% endif
% for number, call in calls:
            if (code == ${codes.STEP + number}u) {
                ${call};
            }
% endfor
            code = table[at];
        } while (code < ${codes.MARK}u);
    }
}
</%def>
